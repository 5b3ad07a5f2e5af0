/* SPDX-License-Identifier: Apache-2.0 */
/* Each call of a union of one to five peers answers what one source does that has everything. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/sourcekit.h"
#include "promql-like/promql.h"
#include "tests/fleet/unionkit.h"

static struct pool *pool;

/* ---- calls ---- */

static struct source_view *view_of_source(struct source *s)
{
	struct source_view *v;
	struct err e;
	assert_int_equal(s->open(s, &v, &e), 0);
	return v;
}

/* Both views, and the series that both select, in one order. */
struct pair {
	struct source_view *all, *joint;
	struct source_series *s[2];
	size_t n;
	uint64_t *refs[2];           /* of profile series first */
	size_t n_profiles;
	struct source_limits lim;
	struct symbols *common;
};

static void text_of(const struct source_series *s, struct buf *out)
{
	buf_reset(out);
	labels_format(s->labels, out);
	if (s->type)
		ptype_format(s->type, out);
}

static void compare_series(const struct source_series *a, size_t n, const struct source_series *b, size_t n_b)
{
	struct buf x = { 0 }, y = { 0 };
	for (size_t i = 0; i < n && i < n_b; i++) {
		text_of(&a[i], &x);
		text_of(&b[i], &y);
		assert_string_equal(x.ptr, y.ptr);
	}
	assert_int_equal(n, n_b);
	buf_free(&x);
	buf_free(&y);
}

static void open_pair(struct pair *p)
{
	struct err e;
	size_t n;
	*p = (struct pair){ view_of_source(memsource_source(kit_all)), view_of_source(fleet_union_source(kit_joint)), { NULL, NULL }, 0, { NULL, NULL }, 0,
			    { 0 },
			    symbols_new() };
	p->lim.pool = kit_draw(2) ? pool : NULL;
	assert_int_equal(p->all->ops->select(p->all, NULL, 0, 0, KIT_END * 2, &p->lim, &p->s[0], &p->n, &e), 0);
	if (p->joint->ops->select(p->joint, NULL, 0, 0, KIT_END * 2, &p->lim, &p->s[1], &n, &e))
		fail_msg("%s", e.msg);
	compare_series(p->s[0], p->n, p->s[1], n);
	for (int k = 0; k < 2; k++) {
		p->refs[k] = xcalloc(p->n + 1, sizeof(uint64_t));
		p->n_profiles = 0;
		for (size_t i = 0; i < p->n; i++)
			if (p->s[k][i].type)
				p->refs[k][p->n_profiles++] = p->s[k][i].ref;
		for (size_t i = 0, at = p->n_profiles; i < p->n; i++)
			if (!p->s[k][i].type)
				p->refs[k][at++] = p->s[k][i].ref;
	}
}

static void close_pair(struct pair *p)
{
	for (int k = 0; k < 2; k++) {
		free(p->s[k]);
		free(p->refs[k]);
	}
	p->all->ops->release(p->all);
	p->joint->ops->release(p->joint);
	symbols_unref(p->common);
}

static int64_t draw_time(void)
{
	return KIT_START - 2 * KIT_STEP + (int64_t)kit_draw(35 * KIT_STEP / 500) * 500;
}

static void draw_range(int64_t *after, int64_t *until)
{
	int64_t a = draw_time(), b = draw_time();
	*after = MIN(a, b);
	*until = MAX(a, b);
}

static void compare_select(struct pair *p)
{
	struct matcher m[3];
	size_t n = kit_draw(4), n_x[2];
	struct source_series *x[2];
	int64_t after, until;
	struct err e;
	draw_range(&after, &until);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(matcher_init(&m[i], kit_draw(4), view_of(KIT_ONE_OF("region", "zone", "pod", "region", "__name__")),
					      view_of(KIT_ONE_OF("eu", "x", "", "us", "a", "m", "e.|us", ".*", ".+", "x|y|")), &e), 0);
	assert_int_equal(p->all->ops->select(p->all, m, n, after, until, &p->lim, &x[0], &n_x[0], &e), 0);
	assert_int_equal(p->joint->ops->select(p->joint, m, n, after, until, &p->lim, &x[1], &n_x[1], &e), 0);
	compare_series(x[0], n_x[0], x[1], n_x[1]);
	free(x[0]);
	free(x[1]);
	for (int what = 0; what < 5; what++) {
		static const char *const values[] = { NULL, "region", "zone", "pod", "nothing" };
		struct view *t[2];
		for (int k = 0; k < 2; k++) {
			struct source_view *v = k ? p->joint : p->all;
			assert_int_equal(what ? v->ops->label_values(v, view_of(values[what]), m, n, after, until, &p->lim, &t[k], &n_x[k], &e)
					      : v->ops->label_names(v, m, n, after, until, &p->lim, &t[k], &n_x[k], &e), 0);
		}
		assert_int_equal(n_x[0], n_x[1]);
		for (size_t i = 0; i < n_x[0]; i++)
			assert_true(view_eq(t[0][i], t[1][i]));
		free(t[0]);
		free(t[1]);
	}
	for (size_t i = 0; i < n; i++)
		matcher_release(&m[i]);
}

/* Each peer counts its own series. */
static void compare_types(struct pair *p)
{
	struct source_type *x, *y;
	size_t n, k, n_series = 0, there = 0;
	struct err e;
	assert_int_equal(p->all->ops->types(p->all, 0, 2 * KIT_END, &p->lim, &x, &n, &e), 0);
	assert_int_equal(p->joint->ops->types(p->joint, 0, 2 * KIT_END, &p->lim, &y, &k, &e), 0);
	assert_int_equal(n, k);
	for (size_t i = 0; i < n; i++) {
		for (k = 0; k < n && !(view_eq(x[i].name, y[k].name) && ptype_eq(x[i].type, y[k].type)); k++)
			;
		assert_true(k < n && y[k].n_series >= x[i].n_series);
		n_series += y[k].n_series;
	}
	for (size_t i = 0; i < kit_n_peers; i++) {
		struct source_view *v = view_of_source(memsource_source(kit_peers[i].source));
		struct source_series *s;
		assert_int_equal(v->ops->select(v, NULL, 0, 0, 2 * KIT_END, NULL, &s, &k, &e), 0);
		while (k-- > 0)
			there += s[k].type != NULL;
		free(s);
		v->ops->release(v);
	}
	assert_int_equal(n_series, there);
	free(x);
	free(y);
}

/* ---- what is handed out, by series ---- */

struct union_taken {
	struct fleet_result r[2];
	int k;
	unsigned n;
	const struct source_tiles *tiles;
};

static int take_floats(void *arg, size_t series, struct point *v, size_t n, struct err *e)
{
	struct union_taken *t = arg;
	(void)e;
	t->r[t->k].floats[series] = (struct fleet_floats){ v, n };
	__atomic_fetch_add(&t->n, 1, __ATOMIC_RELAXED);
	return 0;
}

static int take_profiles(void *arg, size_t series, struct source_profile *v, size_t n, struct err *e)
{
	struct union_taken *t = arg;
	(void)e;
	t->r[t->k].profiles[series] = (struct fleet_profiles){ v, NULL, n };
	__atomic_fetch_add(&t->n, 1, __ATOMIC_RELAXED);
	return 0;
}

static int take_covers(void *arg, size_t series, struct source_cover *v, struct err *e)
{
	struct union_taken *t = arg;
	(void)e;
	t->r[t->k].covers[series] = v;
	__atomic_fetch_add(&t->n, 1, __ATOMIC_RELAXED);
	return 0;
}

static int take_matches(void *arg, size_t series, const struct source_profile *p, const int64_t *match, size_t n, unsigned worker, struct err *e)
{
	struct union_taken *t = arg;
	(void)e;
	assert_true(worker <= pool_size(pool));
	struct fleet_profiles *to = &t->r[t->k].profiles[series];
	*to = (struct fleet_profiles){ xcalloc(n + 1, sizeof *p), xcalloc(n + 1, sizeof *match), n };
	for (size_t i = 0; i < n; i++) {
		to->v[i] = p[i];
		to->match[i] = match[i];
	}
	__atomic_fetch_add(&t->n, 1, __ATOMIC_RELAXED);
	return 0;
}

static void same_profile(const struct source_profile *a, const struct source_profile *b)
{
	assert_int_equal(a->t_ms, b->t_ms);
	assert_int_equal(a->stale, b->stale);
	assert_int_equal(a->duration_ns, b->duration_ns);
	assert_int_equal(a->cover_ms, b->cover_ms);
	assert_int_equal(a->interval_ms, b->interval_ms);
	assert_true(a->weight == b->weight);
	assert_int_equal(a->period, b->period);
	assert_int_equal(a->total, b->total);
}

static void compare_lists(struct pair *p, const struct source_frame_filter *f)
{
	struct union_taken t = { 0 };
	struct err e;
	int64_t after, until;
	size_t n = p->n_profiles, n_floats = p->n - n;
	draw_range(&after, &until);
	for (t.k = 0; t.k < 2; t.k++) {
		struct source_view *v = t.k ? p->joint : p->all;
		t.r[t.k].n = n;
		t.r[t.k].profiles = xcalloc(n + 1, sizeof(struct fleet_profiles));
		t.n = 0;
		assert_int_equal(f ? v->ops->matches(v, p->refs[t.k], n, after, until, f, &p->lim, take_matches, &t, &e)
				   : v->ops->profiles(v, p->refs[t.k], n, after, until, &p->lim, take_profiles, &t, &e), 0);
		assert_int_equal(t.n, n);
	}
	for (size_t i = 0; i < n; i++) {
		const struct fleet_profiles *a = &t.r[0].profiles[i], *b = &t.r[1].profiles[i];
		assert_int_equal(a->n, b->n);
		for (size_t k = 0; k < a->n; k++) {
			same_profile(&a->v[k], &b->v[k]);
			if (f)
				assert_int_equal(a->match[k], b->match[k]);
		}
	}
	fleet_result_release(&t.r[0]);
	fleet_result_release(&t.r[1]);
	if (f)
		return;
	for (t.k = 0; t.k < 2; t.k++) {
		struct source_view *v = t.k ? p->joint : p->all;
		t.r[t.k].n = n_floats;
		t.r[t.k].floats = xcalloc(n_floats + 1, sizeof(struct fleet_floats));
		t.n = 0;
		assert_int_equal(v->ops->floats(v, p->refs[t.k] + n, n_floats, after, until, &p->lim, take_floats, &t, &e), 0);
		assert_int_equal(t.n, n_floats);
	}
	for (size_t i = 0; i < n_floats; i++) {
		assert_int_equal(t.r[0].floats[i].n, t.r[1].floats[i].n);
		for (size_t k = 0; k < t.r[0].floats[i].n; k++) {
			assert_int_equal(t.r[0].floats[i].v[k].t_ms, t.r[1].floats[i].v[k].t_ms);
			assert_int_equal(value_bits(t.r[0].floats[i].v[k].v), value_bits(t.r[1].floats[i].v[k].v));
		}
	}
	fleet_result_release(&t.r[0]);
	fleet_result_release(&t.r[1]);
}

static void compare_covers(struct pair *p)
{
	struct source_tiles tiles = { draw_time(), (1 + kit_draw(60)) * 1000, 1 + kit_draw(2) * kit_draw(20) };
	struct union_taken t = { .tiles = &tiles };
	struct err e;
	for (t.k = 0; t.k < 2; t.k++) {
		struct source_view *v = t.k ? p->joint : p->all;
		t.r[t.k].n = p->n_profiles;
		t.r[t.k].n_tiles = tiles.n;
		t.r[t.k].covers = xcalloc(p->n_profiles + 1, sizeof(struct source_cover *));
		assert_int_equal(v->ops->covers(v, p->refs[t.k], p->n_profiles, &tiles, &p->lim, take_covers, &t, &e), 0);
	}
	for (size_t i = 0; i < p->n_profiles; i++)
		for (size_t k = 0; k < tiles.n; k++) {
			const struct source_cover *a = &t.r[0].covers[i][k], *b = &t.r[1].covers[i][k];
			assert_int_equal(a->n, b->n);
			assert_int_equal(a->n_stale, b->n_stale);
			assert_int_equal(a->total, b->total);
			assert_int_equal(a->period, b->period);
			assert_int_equal(a->magnitude, b->magnitude);
			assert_memory_equal(&a->weights, &b->weights, sizeof a->weights);
			assert_int_equal(a->spans.n, b->spans.n);
			for (size_t j = 0; j < a->spans.n; j++)
				assert_memory_equal(&a->spans.v[j], &b->spans.v[j], sizeof *a->spans.v);
		}
	fleet_result_release(&t.r[0]);
	fleet_result_release(&t.r[1]);
}

/* ---- merges and sums ---- */

#define GROUPS 40

/* Scales are exact as doubles if `dyadic`. For others a merge of the source in memory adds up scaled values, and storage and the union scale sums. */
static size_t draw_parts(const struct pair *p, struct source_part *parts[2], bool dyadic, bool shares)
{
	size_t n = 1 + kit_draw(30);
	struct source_part x = { 0 };
	bool weighed = kit_draw(2);
	uint32_t n_steps = 1 + kit_draw(12);
	for (int k = 0; k < 2; k++)
		parts[k] = xcalloc(n, sizeof **parts);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || kit_draw(3) == 0) {
			x = (struct source_part){ .scale = 1, .group = kit_draw(GROUPS - 12) };
			draw_range(&x.after_ms, &x.until_ms);
			if (kit_draw(3) == 0) {
				x.n_steps = 1 + kit_draw(12);
				x.step_ms = (1 + kit_draw(30)) * 1000;
				x.until_ms = MIN(x.until_ms, x.after_ms + (1 + kit_draw(60)) * 1000);
			}
			if (!shares && kit_draw(2))
				x.scale = dyadic ? (double[]){ 2, 0.5, 0.25, -1 }[kit_draw(4)] : 1.0 / (1 + kit_draw(6));
			if (!dyadic) { /* as the engine asks: groups are the same for all parts, and weighed ones are not among others */
				x.group = x.group / 12 * 12;
				x.n_steps = n_steps;
				x.step_ms = n_steps > 1 ? 15000 : 0;
			}
			if (!shares && (dyadic ? kit_draw(4) == 0 : weighed && x.scale != 1))
				x.weigh = (struct source_weigh){ x.until_ms - x.after_ms + 1, KIT_STEP, kit_draw(2) };
		}
		size_t s = kit_draw((uint32_t)p->n_profiles);
		for (int k = 0; k < 2; k++) {
			parts[k][i] = x;
			parts[k][i].ref = p->refs[k][s];
		}
	}
	return n;
}

static bool close_to(double a, double b)
{
	return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b)) + 1e-9;
}

static double vec_value(const struct stackvec *v, size_t i)
{
	return v->is_float ? v->floats[i] : (double)v->ints[i];
}

static void compare_vecs(struct pair *p, struct stackvec *a, struct stackvec *b)
{
	struct err e;
	struct stackvec *x = stackvec_rebase(a, p->common, &e), *y = stackvec_rebase(b, p->common, &e);
	bool exact = !a->is_float && !b->is_float;
	for (size_t i = 0, k = 0; i < x->n || k < y->n;) {
		uint32_t c = MIN(i < x->n ? x->columns[i] : UINT32_MAX, k < y->n ? y->columns[k] : UINT32_MAX);
		double u = i < x->n && x->columns[i] == c ? vec_value(x, i++) : 0, v = k < y->n && y->columns[k] == c ? vec_value(y, k++) : 0;
		assert_true(exact ? u == v : close_to(u, v));
	}
	stackvec_unref(x);
	stackvec_unref(y);
}

static void compare_merge(struct pair *p)
{
	struct source_part *parts[2];
	struct stackvec *ret[2][GROUPS];
	bool dyadic = kit_draw(2);
	size_t n = draw_parts(p, parts, dyadic, false);
	struct err e;
	assert_int_equal(p->all->ops->merge(p->all, parts[0], n, GROUPS, SYMBOLS_WHOLE, &p->lim, ret[0], &e), 0);
	if (p->joint->ops->merge(p->joint, parts[1], n, GROUPS, SYMBOLS_WHOLE, &p->lim, ret[1], &e))
		fail_msg("%s", e.msg);
	for (size_t g = 0; g < GROUPS; g++) {
		compare_vecs(p, ret[0][g], ret[1][g]);
		stackvec_unref(ret[0][g]);
		stackvec_unref(ret[1][g]);
	}
	free(parts[0]);
	free(parts[1]);
}

static void compare_sums(struct pair *p, const struct source_frame_filter *f)
{
	struct source_part *parts[2];
	double sums[2][GROUPS];
	int64_t exact[2][GROUPS];
	bool scaled[GROUPS] = { false };
	bool dyadic = kit_draw(2);
	size_t n = draw_parts(p, parts, dyadic, false);
	struct err e;
	assert_int_equal(p->all->ops->sums(p->all, parts[0], n, GROUPS, f, &p->lim, sums[0], exact[0], &e), 0);
	if (p->joint->ops->sums(p->joint, parts[1], n, GROUPS, f, &p->lim, sums[1], exact[1], &e))
		fail_msg("%s", e.msg);
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < MAX(parts[0][i].n_steps, 1); k++)
			scaled[parts[0][i].group + k] |= parts[0][i].scale != 1 || parts[0][i].weigh.over_ms;
	for (size_t g = 0; g < GROUPS; g++) {
		/* Unless scaled and weighed parts are mixed, to the last bit: the source in memory adds up as storage does. */
		assert_true(sums[0][g] == sums[1][g] || (dyadic && close_to(sums[0][g], sums[1][g])));
		if (!scaled[g])
			assert_int_equal(exact[0][g], exact[1][g]);
	}
	free(parts[0]);
	free(parts[1]);
}

static void compare_shares(struct pair *p, const struct source_frame_filter *f)
{
	struct source_part *parts[2];
	int64_t got[2][3][GROUPS];
	size_t n = draw_parts(p, parts, true, true);
	struct err e;
	for (int k = 0; k < 2; k++) {
		struct source_view *v = k ? p->joint : p->all;
		struct source_shares s = { got[k][0], got[k][1], got[k][2] };
		assert_int_equal(v->ops->shares(v, parts[k], n, GROUPS, f, &p->lim, &s, &e), 0);
	}
	assert_memory_equal(got[0], got[1], sizeof got[0]);
	free(parts[0]);
	free(parts[1]);
}

/* ---- rows of graphs ---- */

#define GRAPH_STEPS 6
#define GRAPH_LANES 2

/* A row of one lane, over all peers that have it. */
struct joined_row {
	uint32_t lane;
	char *name;
	int64_t ints[GRAPH_STEPS];
	int128 parts[GRAPH_STEPS];
};

struct joined_rows {
	VEC(struct joined_row) v;
};

static int take_row(void *arg, const struct source_graph_row *row, struct err *e)
{
	struct joined_rows *s = arg;
	char *name = xasprintf("%.*s\n%.*s\n%.*s", VIEW_ARG(row->function), VIEW_ARG(row->file), VIEW_ARG(row->line));
	struct joined_row *x = NULL;
	(void)e;
	for (size_t i = 0; i < s->v.n && !x; i++)
		if (s->v.v[i].lane == row->lane && strcmp(s->v.v[i].name, name) == 0)
			x = &s->v.v[i];
	if (x)
		free(name);
	else
		*(x = vec_add(&s->v)) = (struct joined_row){ .lane = row->lane, .name = name };
	for (size_t i = 0; i < GRAPH_STEPS; i++) {
		x->ints[i] += row->ints[i];
		x->parts[i] += row->parts ? row->parts[i] : 0;
	}
	return 0;
}

static int by_row(const void *a, const void *b)
{
	const struct joined_row *x = a, *y = b;
	return x->lane != y->lane ? (x->lane > y->lane) - (x->lane < y->lane) : strcmp(x->name, y->name);
}

/* Rows without numbers are left out. */
static void sort_rows(struct joined_rows *s)
{
	static const struct joined_row zero;
	size_t n = 0;
	for (size_t i = 0; i < s->v.n; i++)
		if (memcmp(s->v.v[i].ints, zero.ints, sizeof zero.ints) != 0 || memcmp(s->v.v[i].parts, zero.parts, sizeof zero.parts) != 0)
			s->v.v[n++] = s->v.v[i];
		else
			free(s->v.v[i].name);
	s->v.n = n;
	if (n)
		qsort(s->v.v, n, sizeof *s->v.v, by_row);
}

static void free_rows(struct joined_rows *s)
{
	for (size_t i = 0; i < s->v.n; i++)
		free(s->v.v[i].name);
	vec_free(&s->v);
}

/* Returns whether the union had rows: a series of several holders has none. */
static bool compare_rows(struct pair *p, struct promql_engine *engine)
{
	static const int bits[GRAPH_LANES] = { 60, 40 };
	static const char *const readouts[] = { "self(x)", "total(x)", "total(focus(x, \"f|h\"), \"line\")", "self(x, \"binary\")" };
	struct source_graph_term *terms = xcalloc(p->n * 3 + 1, sizeof *terms);
	uint32_t *first = xcalloc(p->n + 1, sizeof *first);
	uint64_t *refs[2] = { xcalloc(p->n + 1, 8), xcalloc(p->n + 1, 8) };
	struct joined_rows rows[2] = { 0 };
	struct err e = { 0 };
	size_t n = 0;
	bool fits[2] = { false };
	struct source_graph g = { .readout = view_of(KIT_ONE_OF(readouts[0], readouts[1], readouts[2], readouts[3])), .n_steps = GRAPH_STEPS, .first = first, .terms = terms,
				  .bits = bits, .n_lanes = GRAPH_LANES };
	for (size_t i = 0; i < p->n_profiles; i++) {
		if (kit_draw(4))
			continue;
		refs[0][g.n_refs] = p->refs[0][i];
		refs[1][g.n_refs++] = p->refs[1][i];
		for (uint32_t k = 0, step = kit_draw(3); k < 1 + kit_draw(3) && step < GRAPH_STEPS; k++, step++) {
			int64_t after = KIT_START + step * 5 * KIT_STEP;
			terms[n++] = (struct source_graph_term){ after, after + (5 + kit_draw(5)) * KIT_STEP, kit_draw(3) ? 1 : kit_draw(2) ? -1 : 0.3, step, kit_draw(GRAPH_LANES) };
		}
		first[g.n_refs] = (uint32_t)n;
	}
	g.refs = refs[1];
	if (p->joint->ops->rows(p->joint, &g, &p->lim, &fits[1], take_row, &rows[1], &e))
		fail_msg("%s", e.msg);
	g.refs = refs[0];
	if (promql_rows(engine, p->all, &g, &p->lim, &fits[0], take_row, &rows[0], &e))
		fail_msg("%s", e.msg);
	assert_true(fits[0]);
	for (size_t k = 0; k < 2; k++)
		sort_rows(&rows[k]);
	assert_true(!fits[1] || rows[0].v.n == rows[1].v.n);
	for (size_t i = 0; i < rows[0].v.n && fits[1]; i++) {
		const struct joined_row *x = &rows[0].v.v[i], *y = &rows[1].v.v[i];
		assert_string_equal(x->name, y->name);
		assert_int_equal(x->lane, y->lane);
		assert_memory_equal(x->ints, y->ints, sizeof x->ints);
		assert_memory_equal(x->parts, y->parts, sizeof x->parts);
	}
	bool any = fits[1] && rows[0].v.n;
	for (size_t k = 0; k < 2; k++) {
		free_rows(&rows[k]);
		free(refs[k]);
	}
	free(terms);
	free(first);
	return any;
}

static void test_calls(void **unused)
{
	(void)unused;
	struct err e;
	struct matcher function[2];
	size_t with_rows = 0;
	assert_int_equal(matcher_init(&function[0], MATCH_RE, VIEW("function"), VIEW("f|h"), &e), 0);
	assert_int_equal(matcher_init(&function[1], MATCH_NE, VIEW("function"), VIEW("main"), &e), 0);
	const struct source_frame_filter filters[] = { { .m = &function[0], .n = 1 }, { .m = &function[1], .n = 1, .leaf_only = true } };
	for (uint64_t r = 0, n = kit_rounds(40); r < n; r++) {
		kit_state = kit_first_seed() + r;
		kit_fill();
		struct pair p;
		open_pair(&p);
		compare_types(&p);
		for (int i = 0; i < 12; i++) {
			compare_select(&p);
			compare_lists(&p, NULL);
			compare_lists(&p, &filters[kit_draw(2)]);
			compare_covers(&p);
			compare_merge(&p);
			compare_sums(&p, kit_draw(2) ? &filters[kit_draw(2)] : NULL);
			compare_shares(&p, &filters[kit_draw(2)]);
		}
		struct promql_engine *engine = promql_engine_new(memsource_source(kit_all), &(struct promql_options){ 0 });
		for (int i = 0; i < 12; i++)
			with_rows += compare_rows(&p, engine);
		promql_engine_free(engine);
		close_pair(&p);
		kit_close_all();
	}
	assert_true(with_rows > 20);
	matcher_release(&function[0]);
	matcher_release(&function[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_calls) };
	struct err e;
	(void)e;
	pool = pool_new(2, "union test");
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	pool_free(pool);
	return rc;
}
