/* SPDX-License-Identifier: Apache-2.0 */
/* profile_types (all profile types, for the page's first choice) and metadata (the same for Prometheus's clients, with the scraper's
 * own series and those that targets report). */
#include <stdlib.h>

#include "base/clock.h"
#include "base/vec.h"
#include "web/answer.h"
#include "web/internal.h"
#include "web/metadata.h"

/* One name of profile series that are stored. */
struct found {
	struct source_type of;
	size_t order;             /* row of ptype_table, or its length */
};

struct catalogue {
	struct source_view *view;
	VEC(struct found) v;
	struct source_damage damage;
};

static void catalogue_add(struct catalogue *c, const struct source_type *t)
{
	size_t n_rows, order = 0;
	const struct ptype_row *rows = ptype_table(&n_rows);
	while (order < n_rows && !view_eqs(t->name, rows[order].name))
		order++;
	vec_push(&c->v, (struct found){ *t, order });
}

static int found_order(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	const struct ptype *s = x->of.type, *t = y->of.type;
	int c = (x->order > y->order) - (x->order < y->order);
	if (!c)
		c = view_cmp(x->of.name, y->of.name);
	if (!c) /* a source has several types of one name in no order */
		c = view_cmp(s->sample_type, t->sample_type);
	if (!c)
		c = view_cmp(s->sample_unit, t->sample_unit);
	return c ? c : (s->kind > t->kind) - (s->kind < t->kind);
}

static void catalogue_close(struct catalogue *c)
{
	vec_free(&c->v);
	if (c->view)
		c->view->ops->release(c->view);
	source_damage_release(&c->damage);
}

static int catalogue_open(struct catalogue *c, const struct web *w, const struct httpd_request *rq, struct err *e)
{
	*c = (struct catalogue){ 0 };
	if (!w->o.source)
		return err_set(e, ERR_UNAVAILABLE, "there is no storage");
	int64_t after, until;
	struct source_type *types = NULL;
	size_t n = 0;
	struct source_limits lim = { .canceled = httpd_canceled(rq), .damage = &c->damage };
	enum promql_partial partial;
	if (w->o.query_timeout_ms)
		lim.deadline_mono_ns = httpd_arrived_ns(rq) + w->o.query_timeout_ms * 1000000;
	int rc = param_span(rq, false, &after, &until, e);
	if (!rc)
		rc = param_partial(rq, &partial, e);
	if (!rc)
		lim.whole = promql_engine_whole(w->o.engine, PROMQL_PEOPLE, partial);
	if (!rc)
		rc = w->o.source->open(w->o.source, &c->view, e);
	if (!rc)
		rc = c->view->ops->types(c->view, after, until, &lim, &types, &n, e);
	for (size_t i = 0; !rc && i < n; i++)
		catalogue_add(c, &types[i]);
	free(types);
	if (rc)
		catalogue_close(c);
	else if (c->v.n)
		qsort(c->v.v, c->v.n, sizeof *c->v.v, found_order);
	return rc;
}

static void put_type(struct buf *b, const struct found *f)
{
	size_t n;
	const struct ptype_row *rows = ptype_table(&n), *row = f->order < n ? &rows[f->order] : NULL;
	struct unit_info unit;
	struct buf title = { 0 };
	if (row)
		buf_puts(&title, row->title);
	else
		ptype_title(f->of.type, &title);
	json_object_begin(b);
	json_field(b, "name", f->of.name);
	json_field_text(b, "alias", row && row->alias ? row->alias : "");
	json_field(b, "title", buf_view(&title));
	json_field_text(b, "help", row ? row->help : "");
	json_field(b, "sampleType", f->of.type->sample_type);
	json_field(b, "unit", f->of.type->sample_unit);
	unit_lookup(f->of.type->sample_unit, &unit);
	json_field(b, "baseUnit", unit.base[0] ? view_of(unit.base) : f->of.type->sample_unit);
	json_field_text(b, "kind", profile_kind_text(f->of.type->kind));
	json_field_count(b, "series", f->of.n_series);
	json_object_end(b);
	buf_free(&title);
}

void serve_profile_types(struct httpd_request *rq, void *arg)
{
	struct catalogue c;
	struct err e = { 0 };
	if (catalogue_open(&c, arg, rq, &e)) {
		answer_error(rq, &e);
		return;
	}
	struct answer_rows rows;
	answer_rows_begin(&rows, rq);
	json_array_begin(rows.b);
	for (size_t i = 0; i < c.v.n && answer_rows_more(&rows); i++)
		put_type(rows.b, &c.v.v[i]);
	json_array_end(rows.b);
	source_damage_warnings(&c.damage, answer_warn, &rows.warnings);
	answer_rows_end(&rows);
	catalogue_close(&c);
}

/* ---- metadata ---- */

/* Series the scraper writes about its targets. */
static const struct {
	const char *name, *unit, *help;
} scrape_series[] = {
	{ "up", "",
	  "1 if the metrics of the target were scraped, or, without metrics, every enabled profile type; else 0. Default types that it does not serve (HTTP 404) are left out." },
	{ "profile_up", "",
	  "1 if this profile type of the target was scraped, else 0. Absent for a default type that the target does not serve (HTTP 404)." },
	{ "scrape_duration_seconds", "seconds", "How long the scrape took." },
	{ "scrape_samples_scraped", "", "Samples in what was scraped." },
	{ "scrape_samples_post_metric_relabeling", "", "Samples of the scrape that metric_relabel_configs left." },
	{ "scrape_series_added", "", "Series that the scrape before did not have." },
	{ "scrape_body_size_bytes", "bytes", "Size of the answer as it came." },
};

static void add_profile(struct metadata_set *m, const struct found *f)
{
	size_t n;
	const struct ptype_row *rows = ptype_table(&n);
	struct unit_info unit;
	struct buf title = { 0 };
	ptype_title(f->of.type, &title);
	unit_lookup(f->of.type->sample_unit, &unit);
	/* rate() is what a delta and a cumulative series are for: clients offer it for counters. */
	metadata_add(m, f->of.name, f->of.type->kind == PROFILE_GAUGE ? VIEW("gauge") : VIEW("counter"), view_of(unit.base),
		     f->order < n ? view_of(rows[f->order].help) : buf_view(&title));
	buf_free(&title);
}

static void add_scrape_series(struct metadata_set *m, struct view metric)
{
	for (size_t i = 0; i < ARRAY_LEN(scrape_series); i++)
		if (!metric.len || view_eqs(metric, scrape_series[i].name))
			metadata_add(m, view_of(scrape_series[i].name), VIEW("gauge"), view_of(scrape_series[i].unit), view_of(scrape_series[i].help));
}

void serve_metadata(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct catalogue c;
	struct metadata_set m;
	struct answer_rows rows;
	struct err e = { 0 };
	struct view metric = httpd_param(rq, "metric");
	size_t limit, per_metric;
	int rc = param_limit(rq, "limit", &limit, &e);
	if (!rc)
		rc = param_limit(rq, "limit_per_metric", &per_metric, &e);
	if (!rc)
		rc = catalogue_open(&c, arg, rq, &e);
	if (rc) {
		answer_error(rq, &e);
		return;
	}
	answer_rows_begin(&rows, rq);
	metadata_init(&m, w, &rows);
	for (size_t i = 0; i < c.v.n; i++)
		if ((!metric.len || view_eq(metric, c.v.v[i].of.name)) && (!i || !view_eq(c.v.v[i - 1].of.name, c.v.v[i].of.name)))
			add_profile(&m, &c.v.v[i]);
	add_scrape_series(&m, metric);
	metadata_add_targets(&m, w->o.targets, metric);
	metadata_write(&m, limit, per_metric);
	source_damage_warnings(&c.damage, answer_warn, &rows.warnings);
	answer_rows_end(&rows);
	metadata_release(&m);
	catalogue_close(&c);
}
