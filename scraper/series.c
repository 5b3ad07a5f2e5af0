/* SPDX-License-Identifier: Apache-2.0 */
/* The series of an endpoint: per sample type the labels after metric_relabel_configs, computed once and kept. So a scrape needs no
 * relabelling, and ended series are noticed. Owned by the decoder at work. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "scraper/internal.h"
#include "scraper/state/table.h"

#define SERIES_MIN_KEPT 64 /* of an endpoint, those that have ended included */

static uint64_t series_hash(const struct ptype *type, const struct labels *group, uint64_t serial)
{
	uint64_t h = hash_u64(serial ^ hash_view(type->sample_type) ^ hash_u64(hash_view(type->sample_unit) ^ hash_view(type->name)));
	return group ? hash_u64(h ^ labels_hash(*group)) : h;
}

static bool same_group(const struct labels *a, const struct labels *b)
{
	return a && b ? labels_eq(*a, *b) : !a && !b;
}

struct scrape_series *series_find(struct series_set *set, const struct ptype *type, const struct labels *group, uint64_t serial)
{
	uint64_t h = series_hash(type, group, serial);
	uint32_t i;
	for (size_t at = map_start(&set->index, h); map_probe(&set->index, h, &at, &i);) {
		struct scrape_series *s = set->v.v[i];
		if (s->serial == serial && ptype_eq(&s->type, type) && same_group(s->group, group))
			return s;
	}
	return NULL;
}

static void series_free(struct scrape_series *s)
{
	free(s->text);
	free(s->labels);
	free(s->group);
	free(s);
}

void series_forget_some(struct series_set *set)
{
	size_t kept = 0;
	if (set->v.n < set->keep || set->v.n < SERIES_MIN_KEPT)
		return;
	map_clear(&set->index);
	for (size_t i = 0; i < set->v.n; i++) {
		struct scrape_series *s = set->v.v[i];
		if (!s->live && !s->seen) {
			series_free(s);
			continue;
		}
		map_insert(&set->index, series_hash(&s->type, s->group, s->serial), (uint32_t)kept);
		set->v.v[kept++] = s;
	}
	set->v.n = kept;
	set->keep = 2 * kept;
}

static struct view put(struct buf *b, struct view v)
{
	size_t at = b->len;
	buf_putv(b, v);
	return (struct view){ (const char *)at, v.len }; /* an offset, until the text has its place */
}

static void copy_type(struct scrape_series *s, const struct ptype *t)
{
	struct buf b = { 0 };
	s->type = (struct ptype){ put(&b, t->name), put(&b, t->sample_type), put(&b, t->sample_unit),
				  put(&b, t->period_type), put(&b, t->period_unit), t->delta, t->kind };
	s->text = buf_take(&b, NULL);
	struct view *parts[] = { &s->type.name, &s->type.sample_type, &s->type.sample_unit, &s->type.period_type,
				 &s->type.period_unit };
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		parts[i]->ptr = s->text + (size_t)parts[i]->ptr;
}

/* A label of samples on a series: it wins over the target's own if the job honours it, else it is exported_NAME. */
static void set_group_label(struct labels_builder *b, const struct label *l, bool honor, struct arena *a)
{
	struct view name = l->name;
	while (!honor && labels_builder_get(b, name).len) {
		const char *prefixed = arena_printf(a, "exported_%.*s", VIEW_ARG(name));
		if (!prefixed)
			return;
		name = view_of(prefixed);
	}
	labels_builder_set(b, name, l->value);
}

/* An agent's samples carry their own labels. For a process without a container, the target's own label "container", which is the
 * agent's, would be wrong. The node is the same for both. */
static void drop_target_identity(struct labels_builder *b, const struct job_config *j)
{
	for (size_t i = 0; i < j->series_labels.n; i++)
		if (strcmp(j->series_labels.v[i], "node") != 0)
			labels_builder_del(b, view_of(j->series_labels.v[i]));
}

/* The metric name, the target's labels and the samples', relabelled; *ret NULL if a rule dropped it. */
static int make_labels(const struct ptype *type, const struct labels *group, const struct target *t,
		       const struct job_config *j, struct arena *a,
		       struct labels **ret, struct err *e)
{
	struct labels_builder b;
	struct buf name = { 0 };
	ptype_format(type, &name);
	labels_builder_init(&b, *t->labels);
	if (group && j->agent && j->honor_labels)
		drop_target_identity(&b, j);
	for (size_t i = 0; group && i < group->n; i++)
		set_group_label(&b, &group->v[i], j->honor_labels, a);
	labels_builder_set(&b, VIEW(LABEL_NAME), buf_view(&name));
	int rc = relabel_within(j->metric_relabel.v, j->metric_relabel.n, &b, a, j->confined ? &j->confined->relabel : NULL,
				NULL, e);
	*ret = rc > 0 ? labels_dup(labels_builder_finish(&b)) : NULL;
	labels_builder_free(&b);
	buf_free(&name);
	return rc < 0 ? err_wrap(e, "metric_relabel_configs") : 0;
}

/* A label that changes all the time would fill the storage's index: what is too much fails the scrape, so that it is
 * seen. A new configuration starts again. */
static int count_new(struct series_set *set, const struct job_config *j, uint64_t serial, struct err *e)
{
	int64_t hour = clock_now_ms() / 3600000;
	if (set->hour != hour || set->serial != serial)
		set->n_new = 0;
	set->hour = hour;
	set->serial = serial;
	if (!j->series_limit || set->n_new < j->series_limit) {
		set->n_new++;
		return 0;
	}
	metric_inc(&scraper_table[M_SERIES_LIMIT]);
	return err_set(e, ERR_LIMIT, "more than %lld new series within an hour, series_limit is %lld: a label changes all the time; drop it or "
		       "raise the limit", (long long)j->series_limit, (long long)j->series_limit);
}

struct scrape_series *series_add(struct series_set *set, const struct ptype *type, const struct labels *group, const struct target *t,
				 const struct job_config *j, uint64_t serial, struct arena *a, struct err *e)
{
	struct labels *l = NULL;
	if (count_new(set, j, serial, e))
		return NULL;
	if (make_labels(type, group, t, j, a, &l, e))
		return NULL;
	struct scrape_series *s = NEW(struct scrape_series);
	s->labels = l;
	s->group = group ? labels_dup(*group) : NULL;
	s->serial = serial;
	copy_type(s, type);
	map_insert(&set->index, series_hash(&s->type, s->group, serial), (uint32_t)set->v.n);
	vec_push(&set->v, s);
	return s;
}

void series_set_release(struct series_set *set)
{
	for (size_t i = 0; i < set->v.n; i++)
		series_free(set->v.v[i]);
	vec_free(&set->v);
	map_free(&set->index);
}
