/* SPDX-License-Identifier: Apache-2.0 */
/* Making the aggregates of a part: grouping, summing by the minute, encoding like any series. Runs on the sealer's
 * thread. */
#include "tsdb/seal/aggregate.h"

#include "base/alloc.h"

#define MINUTES (HOUR_MS / PART_AGGREGATE_MS)
#define MIN_MEMBERS 2
/* An aggregate has at most one sample for this many that it sums up, or it is left out. */
#define MIN_SAVING 4

/* ---- grouping ---- */

struct grouping {
	const struct index *index;
	const char *labels;      /* names, separated by commas */
	struct map by_service;   /* hash -> number */
	VEC(uint32_t) first;     /* of each service: a series of it */
};

/* Calls fn with the values that a and b have of each label that makes a service (b NULL: ""). Stops when it says no. */
static bool each_label(const char *labels, const struct series *a, const struct series *b,
		       bool (*fn)(void *arg, struct view a, struct view b), void *arg)
{
	for (const char *p = labels; *p;) {
		size_t n = strcspn(p, ",");
		struct view name = view_make(p, n);
		if (n && !fn(arg, labels_get(a->labels, name), b ? labels_get(b->labels, name) : VIEW("")))
			return false;
		p += n + (p[n] == ',');
	}
	return true;
}

static bool same_value(void *arg, struct view a, struct view b)
{
	(void)arg;
	return view_eq(a, b);
}

static bool add_hash(void *arg, struct view a, struct view b)
{
	(void)b;
	*(uint64_t *)arg = hash_bytes_seed(a.ptr, a.len, *(uint64_t *)arg + 1);
	return true;
}

static bool is_empty(void *arg, struct view a, struct view b)
{
	(void)arg;
	(void)b;
	return !a.len;
}

static bool same_service(const struct grouping *g, const struct series *a, const struct series *b)
{
	struct view name = VIEW("__name__");
	return ptype_eq(&a->type, &b->type) && view_eq(labels_get(a->labels, name), labels_get(b->labels, name)) &&
	       each_label(g->labels, a, b, same_value, NULL);
}

/* False if the series belongs to no service. */
static bool service_of(struct grouping *g, uint32_t id, uint32_t *ret)
{
	const struct series *s = id < g->index->series.n ? g->index->series.v[id] : NULL;
	if (!s || s->is_float || s->type.kind == PROFILE_GAUGE || each_label(g->labels, s, NULL, is_empty, NULL))
		return false;
	uint64_t h = hash_view(labels_get(s->labels, VIEW("__name__")));
	each_label(g->labels, s, NULL, add_hash, &h);
	if (!MAP_FIND_OR_ADD(&g->by_service, h, *ret, g->first.n, same_service(g, s, g->index->series.v[g->first.v[*ret]])))
		vec_push(&g->first, id);
	return true;
}

static void free_aggregate(struct aggregate *a)
{
	sealed_buffers_release(&a->b);
	vec_free(&a->members);
}

/* Takes out what does not satisfy keep and numbers the rest. */
static void keep_some(struct aggregates *a, struct aggregate_member *m, const bool *keep)
{
	size_t kept = 0;
	for (size_t i = 0; i < a->v.n; i++) {
		for (size_t k = 0; k < a->v.v[i].members.n; k++)
			m[a->v.v[i].members.v[k]].aggregate = keep[i] ? (uint32_t)kept + 1 : 0;
		if (keep[i])
			a->v.v[kept++] = a->v.v[i];
		else
			free_aggregate(&a->v.v[i]);
	}
	a->v.n = kept;
}

void aggregates_group(struct aggregates *ret, struct partition *p, struct aggregate_member *m, size_t n)
{
	struct grouping g = { .index = &p->index, .labels = p->db->o.service_labels };
	uint32_t service;
	rwlock_read(&p->dict_lock);
	for (size_t i = 0; i < n; i++) {
		m[i].aggregate = 0;
		if (!service_of(&g, m[i].series, &service))
			continue;
		while (ret->v.n <= service)
			vec_add(&ret->v);
		vec_push(&ret->v.v[service].members, (uint32_t)i);
	}
	rwlock_unlock(&p->dict_lock);
	bool *keep = xcalloc(ret->v.n + 1, sizeof *keep);
	for (size_t i = 0; i < ret->v.n; i++)
		keep[i] = ret->v.v[i].members.n >= MIN_MEMBERS;
	keep_some(ret, m, keep);
	free(keep);
	map_free(&g.by_service);
	vec_free(&g.first);
}

void aggregates_release(struct aggregates *a)
{
	for (size_t i = 0; i < a->v.n; i++)
		free_aggregate(&a->v.v[i]);
	vec_free(&a->v);
}

/* ---- summing up ---- */

/* The rows of a minute, as chains through all rows of the service. */
struct link {
	const struct chunk *chunk;
	const struct chunk_row *row;
	uint32_t next;
};

struct summing {
	VEC(struct link) rows;
	uint32_t first[MINUTES];
	struct dense dense; /* empty between minutes */
	struct record_profile out;
	uint64_t in;        /* samples read */
	bool keep;          /* however little it saves */
	struct sealed_scratch *scratch;
	struct row_memory memory; /* of the sum */
};

static void list_rows(struct summing *s, const struct aggregate_member *m, const struct aggregate *a)
{
	s->rows.n = 0;
	memset(s->first, 0xff, sizeof s->first);
	for (size_t i = 0; i < a->members.n; i++) {
		const struct chunk *c = m[a->members.v[i]].chunk;
		for (size_t k = 0; k < c->rows.n; k++) {
			const struct chunk_row *r = &c->rows.v[k];
			if (r->stale)
				continue;
			uint32_t *first = &s->first[(r->t_ms - 1) % HOUR_MS / PART_AGGREGATE_MS];
			vec_push(&s->rows, (struct link){ c, r, *first });
			*first = (uint32_t)s->rows.n - 1;
		}
	}
}

static void take_minute(struct summing *s, struct chunk *to, int64_t t_ms)
{
	struct record_profile *p = &s->out;
	size_t room = dense_count(&s->dense);
	vec_reserve(&p->columns, room + 1);
	vec_reserve(&p->values, room + 1);
	p->n = p->columns.n = p->values.n = dense_take(&s->dense, p->columns.v, p->values.v);
	p->n_series = 1;
	p->t_ms = t_ms;
	p->meta.interval_ms = PART_AGGREGATE_MS;
	chunk_add(to, &s->memory, p, 0, NULL, 0);
}

/* All rows of a minute. That it all fits was seen before. */
static int add_minute(struct summing *s, int64_t minute, struct err *e)
{
	int rc = 0;
	for (uint32_t k = s->first[minute]; k != UINT32_MAX && !rc; k = s->rows.v[k].next)
		rc = chunk_add_row(s->rows.v[k].chunk, s->rows.v[k].row, &s->dense, &s->in, e);
	return rc;
}

/* The service's sum as a chunk of one profile a minute. Not kept if it saves too little. */
static int sum_up(struct summing *s, const struct aggregate_member *m, const struct aggregate *a, int64_t hour, struct chunk *to,
		  bool *ret_keep, struct err *e)
{
	uint64_t out = 0;
	int rc = 0;
	s->in = 0;
	list_rows(s, m, a);
	for (int64_t i = 0; i < MINUTES && !rc; i++) {
		if (s->first[i] == UINT32_MAX)
			continue;
		rc = add_minute(s, i, e);
		take_minute(s, to, hour * HOUR_MS + (i + 1) * PART_AGGREGATE_MS);
		out += s->out.n;
		if (!s->keep && out > s->in / MIN_SAVING + 10000)
			break; /* it will not */
	}
	*ret_keep = s->keep || out * MIN_SAVING <= s->in;
	return rc;
}

/* An upper bound of the sum of all values of the service. */
static bool may_overflow(const struct aggregate_member *m, const struct aggregate *a)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < a->members.n; i++)
		if (__builtin_add_overflow(sum, m[a->members.v[i]].chunk->magnitude, &sum) || sum > INT64_MAX)
			return true;
	return false;
}

static uint32_t member_of(const struct aggregate_member *m, size_t n, uint32_t series)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (m[mid].series < series)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && m[lo].series == series ? (uint32_t)lo : UINT32_MAX;
}

/* The aggregate of which this one is a multiple: all of its series are, of just those of the other, by one factor.
 * SIZE_MAX: it has its own values. */
static size_t find_base(const struct aggregates *as, const struct aggregate_member *m, size_t n, const struct aggregate *a)
{
	const struct aggregate_member *first = &m[a->members.v[0]];
	uint32_t base = first->times.factor ? member_of(m, n, first->times.series) : UINT32_MAX;
	if (base == UINT32_MAX || !m[base].aggregate)
		return SIZE_MAX;
	size_t of = m[base].aggregate - 1;
	for (size_t i = 0; i < a->members.n; i++) {
		const struct aggregate_member *x = &m[a->members.v[i]];
		uint32_t b = x->times.factor == first->times.factor ? member_of(m, n, x->times.series) : UINT32_MAX;
		if (b == UINT32_MAX || m[b].aggregate != of + 1)
			return SIZE_MAX;
	}
	return as->v.v[of].members.n == a->members.n ? of : SIZE_MAX;
}

static int encode_one(struct summing *s, const struct aggregate_member *m, struct aggregate *a, bool *ret_keep, struct err *e)
{
	const struct chunk *any = m[a->members.v[0]].chunk;
	struct chunk sum = { 0 };
	int rc = 0;
	*ret_keep = false;
	if (any->rows.n && !may_overflow(m, a))
		rc = sum_up(s, m, a, window_of(any->rows.v[0].t_ms), &sum, ret_keep, e);
	if (*ret_keep && !rc)
		rc = sealed_encode(&sum, s->scratch, &a->b, e);
	chunk_release(&sum);
	row_memory_release(&s->memory);
	return rc;
}

/* Aggregates with their own values, then those that are multiples of a kept one. */
static int encode_all(struct aggregates *as, struct summing *s, struct aggregate_member *m, size_t n, bool *keep,
		      struct err *e)
{
	size_t *base = xreallocarray(NULL, as->v.n + 1, sizeof *base);
	int rc = 0;
	for (size_t i = 0; i < as->v.n && !rc; i++) {
		base[i] = find_base(as, m, n, &as->v.v[i]);
		if (base[i] == SIZE_MAX)
			rc = encode_one(s, m, &as->v.v[i], &keep[i], e);
	}
	for (size_t i = 0; i < as->v.n && !rc; i++)
		if (base[i] != SIZE_MAX)
			keep[i] = base[base[i]] == SIZE_MAX && keep[base[i]];
	for (size_t i = 0; i < as->v.n && !rc; i++) {
		if (!keep[i] || base[i] == SIZE_MAX)
			continue;
		uint32_t number = 0; /* that the base will have */
		for (size_t k = 0; k < base[i]; k++)
			number += keep[k];
		struct sealed_buffers *b = &as->v.v[i].b;
		b->times = (struct sealed_times){ PART_AGGREGATE | number, m[as->v.v[i].members.v[0]].times.factor };
		sealed_put_times(&b->totals, b->times);
		sealed_put_times(&b->rollup, b->times);
	}
	free(base);
	return rc;
}

int aggregates_encode(struct aggregates *ret, struct partition *p, struct aggregate_member *m, size_t n,
		      struct sealed_scratch *scratch, struct err *e)
{
	struct summing s = { .keep = p->db->o.keep_aggregates, .scratch = scratch };
	aggregates_group(ret, p, m, n);
	if (!ret->v.n)
		return 0;
	bool *keep = xcalloc(ret->v.n, sizeof *keep);
	for (size_t i = 0; i < n; i++)
		dense_reserve(&s.dense, m[i].chunk->n_columns);
	int rc = encode_all(ret, &s, m, n, keep, e);
	if (!rc)
		keep_some(ret, m, keep);
	free(keep);
	dense_release(&s.dense);
	vec_free(&s.rows);
	record_profile_release(&s.out);
	return rc;
}
