/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/report.h"


void batch_reset(struct scrape_batch *b)
{
	b->columns.n = b->parts.n = b->floats.n = b->notes.n = b->profiles.n = 0;
}

void batch_free(struct scrape_batch *b)
{
	vec_free(&b->columns);
	vec_free(&b->parts);
	vec_free(&b->floats);
	vec_free(&b->notes);
	vec_free(&b->profiles);
}

struct sink_profile *batch_add_profile(struct scrape_batch *b)
{
	struct batch_part *p = vec_add(&b->parts);
	p->first_column = b->columns.n;
	return &p->p;
}

void batch_add_column(struct scrape_batch *b, struct labels labels, const struct ptype *type, uint32_t value_index)
{
	vec_push(&b->columns, (struct sink_column){ labels, *type, value_index });
	b->parts.v[b->parts.n - 1].p.n_columns++;
}

void batch_add_stale(struct scrape_batch *b, const struct scrape_series *s, int64_t t_ms, int64_t interval_ms)
{
	struct sink_profile *p = batch_add_profile(b);
	p->t_ms = t_ms;
	p->interval_ms = interval_ms;
	batch_add_column(b, *s->labels, &s->type, 0);
}

bool batch_add_float(struct scrape_batch *b, const struct target *t, const char *metric, const char *profile, int64_t t_ms,
		     double v)
{
	struct labels_builder lb;
	labels_builder_init(&lb, *t->labels);
	labels_builder_set(&lb, VIEW(LABEL_NAME), view_of(metric));
	if (profile)
		labels_builder_set(&lb, VIEW("profile"), view_of(profile));
	struct labels l = labels_copy(b->arena, labels_builder_finish(&lb));
	labels_builder_free(&lb);
	if (l.v)
		vec_push(&b->floats, (struct sink_float){ l, t_ms, v });
	return l.v != NULL;
}

void batch_add_note(struct scrape_batch *b, struct view key, struct view value, int64_t t_ms)
{
	vec_push(&b->notes, (struct sink_note){ key, value, t_ms });
}

int batch_send(struct scrape_batch *b, struct sink *sink, void (*done)(void *arg, const struct err *e), void *arg,
	       struct sink_result *res, struct err *e)
{
	*res = (struct sink_result){ 0 };
	b->profiles.n = 0;
	for (size_t i = 0; i < b->parts.n; i++) {
		struct sink_profile p = b->parts.v[i].p;
		p.columns = b->columns.v + b->parts.v[i].first_column;
		if (p.n_columns)
			vec_push(&b->profiles, p);
	}
	if (!b->profiles.n && !b->floats.n && !b->notes.n) {
		done(arg, &(struct err){ 0 });
		return 0;
	}
	struct sink_batch batch = { .profiles = b->profiles.v, .n_profiles = b->profiles.n, .floats = b->floats.v,
				    .n_floats = b->floats.n, .notes = b->notes.v, .n_notes = b->notes.n,
				    .patient = true, .done = done, .done_arg = arg };
	return sink->append(sink, &batch, res, e);
}
