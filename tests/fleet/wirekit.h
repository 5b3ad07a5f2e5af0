/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of wire.h: random questions and results of every operation. Included behind cmocka. */
#ifndef PYRRHA_FLEET_WIREKIT_H
#define PYRRHA_FLEET_WIREKIT_H

#include <math.h>

#include "base/map.h"
#include "fleet/wire.h"

#define T0 INT64_C(1700000000000)
#define HOUR INT64_C(3600000)

static const char *const wirekit_op_names[FLEET_OPS] = {
	[FLEET_OPEN] = "open", [FLEET_SELECT] = "select", [FLEET_TYPES] = "types", [FLEET_LABEL_NAMES] = "label_names",
	[FLEET_LABEL_VALUES] = "label_values", [FLEET_FLOATS] = "floats", [FLEET_PROFILES] = "profiles", [FLEET_POINTS] = "points",
	[FLEET_COVERS] = "covers", [FLEET_MERGE] = "merge",
	[FLEET_SUMS] = "sums", [FLEET_SHARES] = "shares", [FLEET_MATCHES] = "matches", [FLEET_CLOSE] = "close",
	[FLEET_ROWS] = "rows",
};

/* ---- random content ---- */

static uint64_t wirekit_state;

/* PYRRHA_SEED=n: of all that is random. */
static inline void wirekit_begin(void)
{
	const char *seed = getenv("PYRRHA_SEED");
	wirekit_state = seed ? strtoull(seed, NULL, 10) : 1;
}

static inline uint64_t wirekit_random(uint64_t below)
{
	wirekit_state = hash_u64(wirekit_state);
	return below ? wirekit_state % below : wirekit_state;
}

/* Of any size, small ones more often. */
static inline int64_t wirekit_integer(void)
{
	static const int64_t edges[] = { 0, 0, 1, -1, INT64_MAX, INT64_MIN, 63, -64, 64, 127, 128 };
	if (wirekit_random(4))
		return (int64_t)(wirekit_random(0) >> wirekit_random(64)) * (wirekit_random(2) ? 1 : -1);
	return edges[wirekit_random(ARRAY_LEN(edges))];
}

static inline double wirekit_double(void)
{
	static const uint64_t edges[] = { 0, UINT64_C(1) << 63, VALUE_STALE_BITS, VALUE_NORMAL_NAN_BITS, UINT64_C(0x7ff0000000000000), 1, UINT64_MAX };
	switch (wirekit_random(4)) {
	case 0:
		return value_from_bits(edges[wirekit_random(ARRAY_LEN(edges))]);
	case 1:
		return (double)wirekit_integer();
	case 2:
		return value_from_bits(wirekit_random(0));
	default:
		return (double)wirekit_random(1000) / 8;
	}
}

static inline struct view wirekit_text(struct arena *a, const char *kind, uint64_t below)
{
	char *text = arena_printf(a, "%s%llu", kind, (unsigned long long)wirekit_random(below));
	assert_non_null(text);
	return view_of(text);
}

static inline void *wirekit_array(struct arena *a, size_t n, size_t size)
{
	void *p = arena_calloc(a, n + 1, size);
	assert_non_null(p);
	return p;
}

static inline struct labels wirekit_labels(struct arena *a)
{
	struct label *v = wirekit_array(a, 8, sizeof *v);
	size_t n = 0;
	for (unsigned i = 0; i < 8; i++)
		if (wirekit_random(3))
			v[n++] = (struct label){ view_of(arena_printf(a, "label%u", i)), wirekit_text(a, "value", i < 4 ? 3 : 0) };
	return (struct labels){ v, n };
}

static const struct ptype *wirekit_type(struct arena *a)
{
	struct ptype *t = wirekit_array(a, 1, sizeof *t);
	*t = (struct ptype){ wirekit_text(a, "p", 3), wirekit_text(a, "s", 2), VIEW("nanoseconds"), VIEW("cpu"), VIEW("nanoseconds"),
			     wirekit_random(2), (enum profile_kind)(1 + wirekit_random(3)) };
	return t;
}

/* ---- random questions ---- */

static inline void wirekit_matchers(struct arena *a, struct fleet_question *q, const struct matcher **ret, size_t *ret_n)
{
	static const char *const patterns[] = { "a|b", "x.*", "(foo|bar)+[0-9]?", "" };
	struct err e;
	size_t n = wirekit_random(4);
	*ret = q->matchers + q->n_matchers;
	*ret_n = n;
	for (size_t i = 0; i < n; i++) {
		enum matcher_op op = (enum matcher_op)wirekit_random(4);
		struct view value = op >= MATCH_RE ? view_of(patterns[wirekit_random(ARRAY_LEN(patterns))]) : wirekit_text(a, "v", 0);
		assert_int_equal(matcher_init(&q->matchers[q->n_matchers++], op, wirekit_text(a, "n", 3), value, &e), 0);
	}
}

static inline void wirekit_parts(struct arena *a, struct fleet_call *c)
{
	struct source_part *p = wirekit_array(a, 20, sizeof *p);
	c->n_parts = wirekit_random(20);
	c->n_groups = 40 + wirekit_random(5);
	for (size_t i = 0; i < c->n_parts; i++) {
		p[i] = i ? p[i - 1] : (struct source_part){ .scale = 1 };
		p[i].ref = wirekit_random(3) ? p[i].ref + 1 : wirekit_random(UINT32_MAX);
		if (!wirekit_random(3))
			p[i].after_ms = T0 + (int64_t)wirekit_random(1000), p[i].until_ms = p[i].after_ms + (int64_t)wirekit_random(HOUR);
		if (!wirekit_random(3))
			p[i].scale = wirekit_double();
		if (!wirekit_random(3))
			p[i].n_steps = (uint32_t)wirekit_random(4), p[i].step_ms = 1 + (int64_t)wirekit_random(60000);
		p[i].group = wirekit_random(3) ? p[i].group : wirekit_random(2) ? p[i].group + MAX(p[i].n_steps, 1u) : (uint32_t)wirekit_random(30);
		p[i].group = MIN(p[i].group, 30u);
		if (!wirekit_random(3))
			p[i].weigh = (struct source_weigh){ (int64_t)wirekit_random(100000), (int64_t)wirekit_random(100000), wirekit_random(2) };
	}
	c->parts = p;
}

static inline struct source_graph_term wirekit_term(const struct source_graph *g, const struct source_graph_term *before)
{
	struct source_graph_term t = *before;
	if (!wirekit_random(4))
		t.step = (uint32_t)wirekit_random(g->n_steps);
	else if (wirekit_random(3))
		t.step = (uint32_t)MIN(t.step + 1, g->n_steps - 1);
	if (!wirekit_random(4))
		t.lane = (uint32_t)wirekit_random(g->n_lanes);
	if (!wirekit_random(3))
		t.scale = wirekit_random(2) ? -1 : wirekit_double();
	if (!isfinite(t.scale))
		t.scale = 1;
	t.after_ms = wirekit_random(2) ? before->until_ms : T0 + (int64_t)wirekit_random(HOUR);
	t.until_ms = t.after_ms + 1 + (int64_t)wirekit_random(HOUR);
	return t;
}

/* Each series has at least one term. */
static inline void wirekit_graph(struct arena *a, struct source_graph *g)
{
	struct source_graph_term *terms = wirekit_array(a, 100, sizeof *terms), before = { .scale = 1 };
	uint64_t *refs = wirekit_array(a, 10, sizeof *refs);
	uint32_t *first = wirekit_array(a, 11, sizeof *first);
	int *bits = wirekit_array(a, 6, sizeof *bits);
	*g = (struct source_graph){ .readout = wirekit_random(2) ? VIEW("self(x)") : VIEW("total(focus(x, \"re\"), \"line\")"), .refs = refs, .first = first,
				    .terms = terms, .bits = bits, .n_steps = 1 + wirekit_random(50), .n_lanes = 1 + wirekit_random(6), .n_refs = wirekit_random(10) };
	for (size_t i = 0; i < g->n_lanes; i++)
		bits[i] = (int)wirekit_random(3999) - 1999;
	for (size_t i = 0; i < g->n_refs; i++) {
		refs[i] = i && wirekit_random(2) ? refs[i - 1] + 1 + wirekit_random(3) : wirekit_random(UINT32_MAX);
		first[i + 1] = first[i] + 1 + (uint32_t)wirekit_random(10);
		for (uint32_t k = first[i]; k < first[i + 1]; k++)
			before = terms[k] = wirekit_term(g, &before);
	}
}

static inline void wirekit_call(struct arena *a, struct fleet_question *q, enum fleet_op op)
{
	struct fleet_call *c = &q->call;
	struct err e;
	*c = (struct fleet_call){ .op = op };
	bool by_series = op == FLEET_FLOATS || op == FLEET_PROFILES || op == FLEET_POINTS || op == FLEET_COVERS || op == FLEET_MATCHES;
	if ((op >= FLEET_SELECT && op <= FLEET_POINTS) || op == FLEET_MATCHES)
		c->after_ms = T0 - (int64_t)wirekit_random(1000), c->until_ms = T0 + HOUR;
	if (op == FLEET_SELECT || op == FLEET_LABEL_NAMES || op == FLEET_LABEL_VALUES)
		wirekit_matchers(a, q, &c->m, &c->n_m);
	if (op == FLEET_LABEL_VALUES)
		c->label = wirekit_text(a, "label", 0);
	if (by_series) {
		uint64_t *refs = wirekit_array(a, 10, sizeof *refs);
		c->n_refs = wirekit_random(10);
		for (size_t i = 0; i < c->n_refs; i++)
			refs[i] = i && wirekit_random(2) ? refs[i - 1] + 1 + wirekit_random(3) : wirekit_random(UINT32_MAX);
		c->refs = refs;
	}
	if (op == FLEET_POINTS && wirekit_random(2)) {
		q->windows = (struct source_windows){ T0, (int64_t)wirekit_random(HOUR), (int64_t)wirekit_random(60000), wirekit_random(100) };
		c->windows = &q->windows;
	}
	if (op == FLEET_COVERS) {
		q->tiles = (struct source_tiles){ T0, 1 + (int64_t)wirekit_random(HOUR), wirekit_random(3) ? 1 : wirekit_random(20) };
		c->tiles = &q->tiles;
	}
	if (op == FLEET_MERGE || op == FLEET_SUMS || op == FLEET_SHARES)
		wirekit_parts(a, c);
	if (op == FLEET_MERGE)
		c->detail = wirekit_random(2) ? SYMBOLS_NAMES : SYMBOLS_WHOLE;
	if (op == FLEET_ROWS) {
		wirekit_graph(a, &q->graph);
		c->graph = &q->graph;
	}
	c->exact = op == FLEET_SUMS && wirekit_random(2);
	if (op == FLEET_SHARES || op == FLEET_MATCHES || (op == FLEET_SUMS && wirekit_random(2))) {
		q->filter.leaf_only = wirekit_random(2);
		if (wirekit_random(2)) {
			q->filter.any_text = VIEW("foo.*bar");
			assert_int_equal(regex_new(&q->any, q->filter.any_text, false, &e), 0);
			q->filter.any = q->any;
		} else {
			wirekit_matchers(a, q, &q->filter.m, &q->filter.n);
		}
		c->filter = &q->filter;
	}
}

/* Released as a decoded one. */
static inline void wirekit_question(struct fleet_question *q, enum fleet_op op)
{
	*q = (struct fleet_question){ .view = wirekit_random(0), .session = wirekit_random(2) ? wirekit_random(0) : 0,
				      .left_ms = (int64_t)wirekit_random(100000),
				      .max_samples = wirekit_random(0) >> wirekit_random(64),
				      .max_bytes = wirekit_random(0) >> wirekit_random(64), .max_answer = wirekit_random(0) >> wirekit_random(64), .strict = wirekit_random(2) };
	arena_init(&q->arena, 0);
	q->matchers = xcalloc(8, sizeof *q->matchers);
	symbols_marks_start(&q->has);
	for (unsigned i = ROWS_STRINGS; i < ROWS_TABLES && q->session; i++)
		q->has.next[i] = MAX(q->has.next[i], (uint32_t)(wirekit_random(0) >> (32 + wirekit_random(32))));
	wirekit_call(&q->arena, q, op);
}

/* ---- random results ---- */

static inline int64_t wirekit_stamp(int64_t before)
{
	return before + (wirekit_random(2) ? 10000 : (int64_t)wirekit_random(20000));
}

static inline struct source_profile wirekit_profile(const struct source_profile *before, int64_t t_ms)
{
	struct source_profile p = before ? *before : (struct source_profile){ .weight = 1 };
	p.t_ms = t_ms;
	p.stale = !wirekit_random(5);
	if (wirekit_random(2))
		p.duration_ns = wirekit_integer();
	if (wirekit_random(2))
		p.cover_ms = before && wirekit_random(2) ? t_ms - before->t_ms : (int64_t)wirekit_random(100000);
	if (!wirekit_random(3))
		p.interval_ms = (int64_t)wirekit_random(100000);
	if (!wirekit_random(3))
		p.weight = wirekit_double();
	if (!wirekit_random(3))
		p.period = wirekit_integer();
	if (wirekit_random(3))
		p.total = wirekit_integer();
	return p;
}

static inline void wirekit_profiles(struct fleet_profiles *to, bool with_match)
{
	*to = (struct fleet_profiles){ xcalloc(33, sizeof *to->v), with_match ? xcalloc(33, sizeof *to->match) : NULL, wirekit_random(32) };
	int64_t t = T0;
	for (size_t i = 0; i < to->n; i++) {
		to->v[i] = wirekit_profile(i ? &to->v[i - 1] : NULL, t = wirekit_stamp(t));
		if (with_match)
			to->match[i] = wirekit_integer();
	}
}

static inline void wirekit_points(struct source_points *to)
{
	bool runs = wirekit_random(2);
	*to = (struct source_points){ .plain = wirekit_random(5) };
	if (!to->plain)
		return;
	to->v = xcalloc(33, sizeof *to->v);
	to->n = wirekit_random(32);
	to->before = runs ? xcalloc(33, sizeof *to->before) : NULL;
	int64_t t = T0;
	for (size_t i = 0; i < to->n; i++) {
		struct source_point *p = &to->v[i];
		int64_t last = t;
		t = wirekit_stamp(t);
		*p = (struct source_point){ t, wirekit_integer() / 64, wirekit_random(2) ? (uint32_t)(t - last) : (uint32_t)wirekit_random(UINT32_MAX),
					    runs && wirekit_random(2), (uint32_t)wirekit_random(1 << 20) };
		if (runs)
			to->before[i + 1] = to->before[i] + (p->is_run ? p->ahead : 1);
	}
}

static inline void wirekit_cover(struct source_cover *to, bool with_spans)
{
	int64_t t = T0;
	if (!wirekit_random(4))
		return;
	to->n = wirekit_random(1000);
	to->n_stale = wirekit_random(2) ? 0 : wirekit_random(to->n + 1);
	to->total = wirekit_integer();
	to->period = wirekit_random(2) ? 10000000 : wirekit_integer();
	to->magnitude = wirekit_random(2) ? wirekit_random(0) : to->total < 0 ? -(uint64_t)to->total : (uint64_t)to->total;
	if (wirekit_random(2))
		to->weights = (struct source_weights){ wirekit_double(), wirekit_double(), wirekit_double(), wirekit_double() };
	for (uint64_t i = with_spans ? wirekit_random(10) : 0; i--;) {
		t += (int64_t)wirekit_random(10000) - 2000;
		vec_push(&to->spans, (struct source_span){ t, t + (int64_t)wirekit_random(100000) });
	}
}

static inline int wirekit_by_labels(const void *a, const void *b)
{
	return labels_cmp(((const struct source_series *)a)->labels, ((const struct source_series *)b)->labels);
}

static inline void wirekit_series(struct arena *a, struct fleet_result *r)
{
	const struct ptype *types[3] = { wirekit_type(a), wirekit_type(a), wirekit_type(a) };
	r->n = wirekit_random(40);
	r->series = xcalloc(r->n + 1, sizeof *r->series);
	for (size_t i = 0; i < r->n; i++)
		r->series[i] = (struct source_series){ wirekit_labels(a), wirekit_random(4) ? types[wirekit_random(3)] : NULL,
						       wirekit_random(2) ? i : wirekit_random(UINT32_MAX) };
	qsort(r->series, r->n, sizeof *r->series, wirekit_by_labels);
}

static inline void wirekit_names(struct arena *a, struct fleet_result *r)
{
	r->n = wirekit_random(40);
	r->names = xcalloc(r->n + 1, sizeof *r->names);
	for (size_t i = 0; i < r->n; i++)
		r->names[i] = view_of(arena_printf(a, "name%04u%.*s", (unsigned)i, (int)wirekit_random(20), "xxxxxxxxxxxxxxxxxxxxxxxx"));
}

static inline void wirekit_types(struct arena *a, struct fleet_result *r)
{
	r->n = wirekit_random(20);
	r->types = xcalloc(r->n + 1, sizeof *r->types);
	for (size_t i = 0; i < r->n; i++)
		r->types[i] = (struct source_type){ wirekit_text(a, "name", 10), wirekit_type(a), wirekit_random(0) >> wirekit_random(64) };
}

static inline int64_t *wirekit_integers(size_t n, bool below_0)
{
	int64_t *v = xcalloc(n + 1, sizeof *v);
	for (size_t i = 0; i < n; i++)
		v[i] = wirekit_random(3) ? 0 : below_0 ? wirekit_integer() : (int64_t)wirekit_random(100);
	return v;
}

static inline void wirekit_sums(const struct fleet_call *c, struct fleet_result *r)
{
	bool whole = wirekit_random(2);
	r->n = c->n_groups;
	r->sums = xcalloc(r->n + 1, sizeof *r->sums);
	r->exact = c->exact ? wirekit_integers(r->n, true) : NULL;
	for (size_t i = 0; i < r->n; i++)
		r->sums[i] = c->exact && whole ? (double)r->exact[i] : wirekit_random(3) ? 0 : wirekit_double();
}

static inline void wirekit_by_series(const struct fleet_call *c, struct fleet_result *r)
{
	r->n = c->n_refs;
	if (c->op == FLEET_FLOATS)
		r->floats = xcalloc(r->n + 1, sizeof *r->floats);
	else if (c->op == FLEET_POINTS)
		r->points = xcalloc(r->n + 1, sizeof *r->points);
	else if (c->op == FLEET_COVERS)
		r->covers = xcalloc(r->n + 1, sizeof *r->covers);
	else
		r->profiles = xcalloc(r->n + 1, sizeof *r->profiles);
	r->n_tiles = c->op == FLEET_COVERS ? c->tiles->n : 0;
	for (size_t i = 0; i < r->n; i++) {
		if (c->op == FLEET_FLOATS) {
			int64_t t = T0;
			r->floats[i] = (struct fleet_floats){ xcalloc(33, sizeof(struct point)), wirekit_random(32) };
			for (size_t k = 0; k < r->floats[i].n; k++)
				r->floats[i].v[k] = (struct point){ t = wirekit_stamp(t), k && !wirekit_random(3) ? r->floats[i].v[k - 1].v : wirekit_double() };
		} else if (c->op == FLEET_POINTS) {
			wirekit_points(&r->points[i]);
		} else if (c->op == FLEET_COVERS) {
			r->covers[i] = xcalloc(r->n_tiles + 1, sizeof *r->covers[i]);
			for (size_t k = 0; k < r->n_tiles; k++)
				wirekit_cover(&r->covers[i][k], r->n_tiles == 1);
		} else {
			wirekit_profiles(&r->profiles[i], c->op == FLEET_MATCHES);
		}
	}
}

/* Of both signs, up to 2^120; small ones more often. */
static inline int128 wirekit_part(void)
{
	int128 v = ((int128)(wirekit_random(0) >> 8) << 64 | (int128)wirekit_random(0)) >> wirekit_random(121);
	return wirekit_random(2) ? -v : v;
}

static inline void wirekit_row(struct arena *a, const struct source_graph *g, struct fleet_row *x)
{
	*x = (struct fleet_row){ .lane = (uint32_t)wirekit_random(g->n_lanes), .function = wirekit_text(a, "function", 5), .steps = xcalloc(g->n_steps + 1, sizeof *x->steps),
				 .ints = xcalloc(g->n_steps + 1, sizeof *x->ints), .parts = wirekit_random(2) ? xcalloc(g->n_steps + 1, sizeof *x->parts) : NULL };
	if (wirekit_random(2))
		x->file = wirekit_text(a, "file", 3), x->line = wirekit_text(a, "", 100);
	uint64_t sparse = 1 + wirekit_random(8);
	for (size_t i = 0; i < g->n_steps; i++) {
		if (wirekit_random(sparse) && (x->n || i + 1 < g->n_steps))
			continue;
		x->steps[x->n] = (uint32_t)i;
		x->ints[x->n] = wirekit_integer();
		if (x->parts)
			x->parts[x->n] = wirekit_part();
		x->n++;
	}
}

/* One of eight has sums that do not fit, and no rows. */
static inline void wirekit_rows(struct arena *a, const struct source_graph *g, struct fleet_result *r)
{
	r->fits = wirekit_random(8);
	r->n = r->fits ? wirekit_random(20) : 0;
	r->rows = xcalloc(r->n + 1, sizeof *r->rows);
	for (size_t i = 0; i < r->n; i++)
		wirekit_row(a, g, &r->rows[i]);
}

/* Of all but merges. Strings are in the arena. */
static inline void wirekit_result(struct arena *a, const struct fleet_call *c, struct fleet_result *r)
{
	*r = (struct fleet_result){ .op = c->op };
	switch (c->op) {
	case FLEET_SELECT:
		wirekit_series(a, r);
		break;
	case FLEET_TYPES:
		wirekit_types(a, r);
		break;
	case FLEET_LABEL_NAMES:
	case FLEET_LABEL_VALUES:
		wirekit_names(a, r);
		break;
	case FLEET_SUMS:
		wirekit_sums(c, r);
		break;
	case FLEET_SHARES:
		r->n = c->n_groups;
		r->shares = (struct source_shares){ wirekit_integers(r->n, true), wirekit_integers(r->n, true), wirekit_integers(r->n, false) };
		break;
	case FLEET_ROWS:
		wirekit_rows(a, c->graph, r);
		break;
	case FLEET_OPEN:
	case FLEET_CLOSE:
	case FLEET_MERGE:
		break;
	default:
		wirekit_by_series(c, r);
	}
}

static inline void wirekit_lacks(struct fleet_lacks *l)
{
	if (wirekit_random(2))
		*l = (struct fleet_lacks){ 1 + wirekit_random(100), T0 + (int64_t)wirekit_random(HOUR), T0 };
}

static inline void wirekit_answer(struct arena *a, struct fleet_answer *to)
{
	*to = (struct fleet_answer){ .view = wirekit_random(0), .view_lost = !wirekit_random(5), .opened = wirekit_random(2), .session = wirekit_random(0) };
	if (to->opened)
		to->labels = wirekit_labels(a);
	if (wirekit_random(2)) {
		to->chunks = wirekit_random(0) >> wirekit_random(64);
		to->samples = wirekit_random(1000);
		to->bytes = wirekit_random(0) >> wirekit_random(64);
		to->bucket_requests = wirekit_random(10);
		to->cpu_ns = (int64_t)wirekit_random(1000000000);
	}
	wirekit_lacks(&to->damaged);
	wirekit_lacks(&to->absent);
	wirekit_lacks(&to->doubled);
}

#endif
