/* SPDX-License-Identifier: Apache-2.0 */
/* Which series there are: select, types, label names, label values. Each partition is asked by itself, what has the same
 * labels and type in several is one series. Runs on query threads. */
#include "tsdb/part/damage.h"
#include "tsdb/bucket/catalogue.h"
#include "tsdb/read/view_cached.h"

static struct view_ref *find_ref(struct tsdb_view *v, const struct series *s, uint32_t *ret)
{
	for (size_t at = map_start(&v->by_labels, s->hash); map_probe(&v->by_labels, s->hash, &at, ret);) {
		struct view_ref *r = v->refs.v[*ret];
		bool same = r->type ? !s->is_float && ptype_eq(r->type, &s->type) : s->is_float;
		if (same && labels_eq(r->labels, s->labels))
			return r;
	}
	return NULL;
}

static uint32_t need_ref(struct tsdb_view *v, const struct series *s, size_t partition, uint32_t id) REQUIRES(v->lock)
{
	uint32_t ref;
	struct view_ref *r = find_ref(v, s, &ref);
	if (!r) {
		r = xmalloc(sizeof *r + v->v->n * sizeof *r->id);
		*r = (struct view_ref){ s->labels, s->is_float ? NULL : &s->type, s->hash };
		for (size_t i = 0; i < v->v->n; i++)
			r->id[i] = NOT_LOOKED_UP;
		ref = (uint32_t)v->refs.n;
		map_insert(&v->by_labels, s->hash, ref);
		vec_push(&v->refs, r);
	}
	r->id[partition] = id;
	return ref;
}

static int by_labels(const void *a, const void *b)
{
	return labels_cmp(((const struct source_series *)a)->labels, ((const struct source_series *)b)->labels);
}

struct found {
	VEC(struct source_series) series;
	VEC(uint8_t) seen; /* by ref */
};

static void add_found(struct tsdb_view *v, struct found *f, uint32_t ref)
{
	if (ref >= f->seen.n) {
		vec_reserve(&f->seen, v->refs.n);
		memset(f->seen.v + f->seen.n, 0, v->refs.n - f->seen.n);
		f->seen.n = v->refs.n;
	}
	if (f->seen.v[ref])
		return;
	f->seen.v[ref] = 1;
	const struct view_ref *r = v->refs.v[ref];
	vec_push(&f->series, (struct source_series){ r->labels, r->type, ref });
}

/* ---- series of several servers ---- */

struct series_bounds {
	int64_t min_ms, max_ms;
};

static bool doubles_bounds(struct tsdb_view *v, size_t p, uint32_t id, struct series_bounds *ret)
{
	struct partition *part = query_dict_series(v->own, p);
	rwlock_read(&part->dict_lock);
	const struct series *s = part->index.series.v[id];
	*ret = (struct series_bounds){ atomic_load(&s->min_t), atomic_load(&s->max_t) };
	rwlock_unlock(&part->dict_lock);
	return ret->min_ms <= ret->max_ms;
}

/* A series' ids in the partitions [from, p) of the version; it was selected in p before. */
static void doubles_ids(struct tsdb_view *v, size_t from, size_t p, uint32_t id, uint32_t *ret)
{
	struct partition *part = query_dict_series(v->own, p);
	uint32_t ref;
	rwlock_read(&part->dict_lock);
	mutex_lock(&v->lock);
	const struct view_ref *r = find_ref(v, part->index.series.v[id], &ref);
	for (size_t q = from; q < p; q++)
		ret[q - from] = r ? r->id[q] : NOT_THERE;
	mutex_unlock(&v->lock);
	rwlock_unlock(&part->dict_lock);
}

/* Notes when series of another server's day, and series of the same labels in the partitions of that day before it, have stamps at the same
 * time. */
static void doubles_note(struct tsdb_view *v, size_t p, const uint32_t *ids, size_t n, int64_t after_ms, int64_t until_ms, struct source_damage *damage)
{
	struct series_bounds a, b;
	size_t from = p;
	while (from > 0 && v->v->p[from - 1]->p->day == v->v->p[p]->p->day)
		from--;
	uint32_t *there = xcalloc(p - from + 1, sizeof *there);
	for (size_t i = 0; i < n && from < p; i++) {
		doubles_ids(v, from, p, ids[i], there);
		for (size_t q = from; q < p; q++) {
			uint32_t id = there[q - from];
			if (id == NOT_LOOKED_UP || id == NOT_THERE || !doubles_bounds(v, p, ids[i], &a) || !doubles_bounds(v, q, id, &b))
				continue;
			int64_t both_after = MAX(MAX(a.min_ms, b.min_ms) - 1, after_ms), both_until = MIN(MIN(a.max_ms, b.max_ms), until_ms);
			if (both_after < both_until)
				source_doubled_add(damage, both_after, both_until);
		}
	}
	free(there);
}

static int select_in(struct tsdb_view *v, size_t p, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		     const struct source_limits *lim, struct found *f, struct err *e)
{
	struct partition *part = query_dict_series(v->own, p);
	uint32_t *ids = NULL;
	size_t n_ids = 0;
	int rc = index_select(&part->index, &part->dict_lock, m, n, after_ms, until_ms, lim ? lim->regex : NULL, &ids, &n_ids, e);
	rwlock_read(&part->dict_lock);
	mutex_lock(&v->lock);
	for (size_t i = 0; i < n_ids && !rc; i++)
		add_found(v, f, need_ref(v, part->index.series.v[ids[i]], p, ids[i]));
	mutex_unlock(&v->lock);
	rwlock_unlock(&part->dict_lock);
	if (!rc && lim && lim->damage && view_is_of_other(v, p))
		doubles_note(v, p, ids, n_ids, after_ms, until_ms, lim->damage);
	free(ids);
	return rc;
}

/* Days of the bucket that a view does not have. */
struct select_absent {
	const struct tsdb_view *v;
	const struct version *now;
	int64_t after_ms, until_ms;
	struct source_damage *damage;
};

/* A day that came back after the view was opened is missing as well. */
static void absent_day(void *arg, const struct catalogue_day *d)
{
	const struct select_absent *a = arg;
	if (!view_has_day(a->v, d->day) && (catalogue_day_is_absent(d) || version_find(a->now, d->day)))
		source_absent_add(a->damage, MAX(a->after_ms, d->min_ms), MIN(a->until_ms, d->max_ms));
}

static void absent_note(struct tsdb_view *v, int64_t after_ms, int64_t until_ms, struct source_damage *damage)
{
	struct version *now = tsdb_version(v->db, NULL);
	struct select_absent a = { v, now, after_ms, until_ms, damage };
	catalogue_each(v->db->catalogue, after_ms, until_ms, absent_day, &a);
	version_unref(now);
}

/* What any question about the series of (after, until] begins with. */
static int select_begin(struct tsdb_view *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct err *e)
{
	int rc = view_cached_open(v, after_ms, until_ms, lim, e);
	if (rc)
		return rc;
	version_note_lost(v->v, after_ms, until_ms, lim);
	if (lim && lim->damage)
		holes_note(&v->db->holes, after_ms, until_ms, lim->damage);
	if (lim && lim->damage && v->db->catalogue)
		absent_note(v, after_ms, until_ms, lim->damage);
	return 0;
}

static int find(struct tsdb_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		const struct source_limits *lim, struct found *f, struct err *e)
{
	int rc = select_begin(v, after_ms, until_ms, lim, e);
	for (size_t p = 0; p < v->v->n && !rc; p++) {
		rc = limits_check(lim, 0, e);
		if (!rc && partition_meets(v->v->p[p]->p, after_ms, until_ms) && view_is_open(v, p))
			rc = select_in(v, p, m, n, after_ms, until_ms, lim, f, e);
	}
	vec_free(&f->seen);
	if (rc)
		vec_free(&f->series);
	return rc;
}

int view_select(struct source_view *sv, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		const struct source_limits *lim, struct source_series **ret, size_t *ret_n, struct err *e)
{
	struct found f = { 0 };
	int rc = find((struct tsdb_view *)sv, m, n, after_ms, until_ms, lim, &f, e);
	if (rc)
		return rc;
	if (f.series.n)
		qsort(f.series.v, f.series.n, sizeof *f.series.v, by_labels);
	*ret = f.series.v;
	*ret_n = f.series.n;
	return 0;
}

/* ---- names and types of profiles ---- */

struct types_found {
	VEC(const struct series *) series; /* of profiles, each once */
	struct map by_labels;        /* of series */
	VEC(struct source_type) v;
	struct map by_name;          /* of v */
	size_t last;                 /* of v: that of the series before, as series of a name are mostly neighbours */
};

static bool types_are_of_one_series(const struct series *a, const struct series *b)
{
	return a == b || (ptype_eq(&a->type, &b->type) && labels_eq(a->labels, b->labels));
}

static void types_count(struct types_found *f, const struct series *s)
{
	struct view name = labels_get(s->labels, VIEW(LABEL_NAME));
	const struct source_type *last = f->v.n ? &f->v.v[f->last] : NULL;
	if (!last || !view_eq(last->name, name) || !ptype_eq(last->type, &s->type)) {
		uint32_t id;
		if (!MAP_FIND_OR_ADD(&f->by_name, hash_view(name), id, f->v.n, view_eq(f->v.v[id].name, name) && ptype_eq(f->v.v[id].type, &s->type)))
			vec_push(&f->v, (struct source_type){ name, &s->type, 0 });
		f->last = id;
	}
	f->v.v[f->last].n_series++;
}

static int types_in(struct tsdb_view *v, size_t p, int64_t after_ms, int64_t until_ms, struct types_found *f, struct err *e)
{
	struct partition *part = query_dict_series(v->own, p);
	uint32_t *ids = NULL, known;
	size_t n = 0;
	int rc = index_select(&part->index, &part->dict_lock, NULL, 0, after_ms, until_ms, NULL, &ids, &n, e);
	rwlock_read(&part->dict_lock);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct series *s = part->index.series.v[ids[i]];
		if (s->is_float || MAP_FIND_OR_ADD(&f->by_labels, s->hash, known, f->series.n, types_are_of_one_series(f->series.v[known], s)))
			continue;
		vec_push(&f->series, s);
		types_count(f, s);
	}
	rwlock_unlock(&part->dict_lock);
	free(ids);
	return rc;
}

int view_types(struct source_view *sv, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct source_type **ret, size_t *ret_n,
	       struct err *e)
{
	struct tsdb_view *v = (struct tsdb_view *)sv;
	struct types_found f = { .last = 0 };
	int rc = select_begin(v, after_ms, until_ms, lim, e);
	for (size_t p = 0; p < v->v->n && !rc; p++) {
		rc = limits_check(lim, 0, e);
		if (!rc && partition_meets(v->v->p[p]->p, after_ms, until_ms) && view_is_open(v, p))
			rc = types_in(v, p, after_ms, until_ms, &f, e);
	}
	vec_free(&f.series);
	map_free(&f.by_labels);
	map_free(&f.by_name);
	if (rc) {
		vec_free(&f.v);
		return rc;
	}
	*ret = f.v.v;
	*ret_n = f.v.n;
	return 0;
}

/* ---- names and values ---- */

struct texts {
	VEC(struct view) v;
	struct map seen;
};

static void add_text(struct texts *t, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t id;
	if (!MAP_FIND_OR_ADD(&t->seen, h, id, t->v.n, view_eq(t->v.v[id], v)))
		vec_push(&t->v, v);
}

static int by_text(const void *a, const void *b)
{
	return view_cmp(*(const struct view *)a, *(const struct view *)b);
}

/* Sorted. */
static void finish_texts(struct texts *t, struct view **ret, size_t *ret_n)
{
	if (t->v.n)
		qsort(t->v.v, t->v.n, sizeof *t->v.v, by_text);
	*ret = t->v.v;
	*ret_n = t->v.n;
	map_free(&t->seen);
}

int view_label_names(struct source_view *sv, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
		     const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e)
{
	struct found f = { 0 };
	struct texts t = { 0 };
	int rc = find((struct tsdb_view *)sv, m, n, after_ms, until_ms, lim, &f, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < f.series.n; i++)
		for (size_t k = 0; k < f.series.v[i].labels.n; k++)
			add_text(&t, f.series.v[i].labels.v[k].name);
	vec_free(&f.series);
	finish_texts(&t, ret, ret_n);
	return 0;
}

int view_label_values(struct source_view *sv, struct view name, const struct matcher *m, size_t n, int64_t after_ms,
		      int64_t until_ms, const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e)
{
	struct found f = { 0 };
	struct texts t = { 0 };
	int rc = find((struct tsdb_view *)sv, m, n, after_ms, until_ms, lim, &f, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < f.series.n; i++) {
		struct view value = labels_get(f.series.v[i].labels, name);
		if (value.len)
			add_text(&t, value);
	}
	vec_free(&f.series);
	finish_texts(&t, ret, ret_n);
	return 0;
}
