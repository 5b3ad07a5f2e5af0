/* SPDX-License-Identifier: Apache-2.0 */
/* A union of one to five peers answers what one source does that has everything: each call of the seam, and queries of the language. Series are drawn at
 * random, spread over the peers, some of them over two: one after the other, or at the same time. Then labels of peers, and peers that fail.
 * PYRRHA_SEED is another draw, PYRRHA_LONG makes it long. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/regex.h"
#include "fleet/union.h"
#include "model/sourcekit.h"
#include "promql-like/memsource.h"
#include "promql-like/promql.h"
#include "promql-like/testlang/testlang_data.h"

#define PEERS 5
#define STEP 10000
#define START 3500000 /* an hour ends in the middle of it */
#define END (START + 30 * STEP)

static uint64_t state;

static uint32_t draw(uint32_t n)
{
	state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash_u64(state) % n);
}

#define ONE_OF(...) one_of((const char *const[]){ __VA_ARGS__ }, ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })))
static const char *one_of(const char *const *list, size_t n)
{
	return list[draw((uint32_t)n)];
}

/* ---- peers: local ones, that have a name and fail when they are told to ---- */

struct kit_peer {
	struct fleet_peer peer;      /* first */
	struct memsource *source;
	struct fleet_peer *local;
	struct label external[2];
	size_t n_external;
	struct labels labels;
	bool named;
	enum fleet_op fails_at;      /* 0: never */
	enum err_code fails_with;
	unsigned n_started, n_finished, n_open, n_of[FLEET_OPS];
};

struct kit_view {
	struct kit_peer *of;
	struct fleet_peer_view *view;
};

struct kit_ask {
	struct kit_peer *of;
	struct fleet_ask *ask;
	enum fleet_op op;
};

static unsigned kit_at_work; /* asks of all peers; only counted by tests of one thread */
static bool kit_all_first;   /* each finish found all of its question started */
static unsigned kit_expected;

static struct fleet_peer_view *kit_open(struct fleet_peer *p)
{
	struct kit_peer *k = (struct kit_peer *)p;
	struct kit_view *v = NEW(struct kit_view);
	v->of = k;
	v->view = k->local->ops->open(k->local);
	__atomic_fetch_add(&k->n_open, 1, __ATOMIC_RELAXED);
	return (struct fleet_peer_view *)(void *)v;
}

static void kit_close(struct fleet_peer_view *pv)
{
	struct kit_view *v = (struct kit_view *)(void *)pv;
	v->of->local->ops->close(v->view);
	__atomic_fetch_sub(&v->of->n_open, 1, __ATOMIC_RELAXED);
	free(v);
}

static struct fleet_ask *kit_start(struct fleet_peer_view *pv, const struct fleet_call *call, const struct source_limits *lim)
{
	struct kit_view *v = (struct kit_view *)(void *)pv;
	struct kit_ask *a = NEW(struct kit_ask);
	*a = (struct kit_ask){ v->of, v->of->local->ops->start(v->view, call, lim), call->op };
	__atomic_fetch_add(&v->of->n_started, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&v->of->n_of[call->op], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&kit_at_work, 1, __ATOMIC_RELAXED);
	return (struct fleet_ask *)(void *)a;
}

static int kit_finish(struct fleet_ask *fa, struct fleet_result *ret, struct err *e)
{
	struct kit_ask *a = (struct kit_ask *)(void *)fa;
	struct kit_peer *k = a->of;
	if (kit_expected && __atomic_load_n(&kit_at_work, __ATOMIC_RELAXED) != kit_expected)
		kit_all_first = false;
	kit_expected = 0; /* the first of a question looks */
	int rc = k->local->ops->finish(a->ask, ret, e);
	if (!rc && k->fails_at == a->op) {
		fleet_result_release(ret);
		rc = err_set(e, k->fails_with, "broken for the test");
	}
	__atomic_fetch_add(&k->n_finished, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&kit_at_work, 1, __ATOMIC_RELAXED);
	free(a);
	return rc;
}

static struct labels kit_labels(struct fleet_peer_view *pv)
{
	struct kit_view *v = (struct kit_view *)(void *)pv;
	return v->of->local->ops->labels(v->view);
}

static const struct fleet_peer_ops kit_ops = { kit_open, kit_close, kit_start, kit_finish, kit_labels };

static void kit_unref(struct fleet_peer *p)
{
	(void)p;
}

static struct fleet_peer *kit_ref(struct fleet_peer *p)
{
	return p;
}

static struct labels *kit_external(void *arg)
{
	struct kit_peer *k = arg;
	return k->labels.n ? labels_dup(k->labels) : NULL;
}

/* ---- data ---- */

static struct kit_peer peers[PEERS];
static size_t n_peers;
static struct memsource *all;
static struct fleet_union *joint;
static struct pool *pool;

static struct fleet_peer **kit_peers(void *arg, size_t *ret_n)
{
	(void)arg;
	struct fleet_peer **p = xcalloc(n_peers + 1, sizeof(*p));
	for (size_t i = 0; i < n_peers; i++)
		p[i] = peers[i].named ? &peers[i].peer : peers[i].local->ref(peers[i].local);
	*ret_n = n_peers;
	return p;
}

static void peer_external(size_t i, const char *name, const char *value)
{
	struct kit_peer *k = &peers[i];
	k->external[k->n_external++] = (struct label){ view_of(name), view_of(value) };
	k->labels = (struct labels){ k->external, k->n_external };
}

static void open_all(size_t n)
{
	static const char *const names[PEERS] = { "http://a", "http://b", "http://c", "http://d", "http://e" };
	n_peers = n;
	all = memsource_new();
	memset(peers, 0, sizeof peers);
	for (size_t i = 0; i < n; i++) {
		struct kit_peer *k = &peers[i];
		k->peer = (struct fleet_peer){ &kit_ops, names[i], kit_unref, kit_ref };
		k->source = memsource_new();
		k->local = fleet_local_peer_new(memsource_source(k->source), kit_external, k);
		k->named = true;
	}
	joint = fleet_union_new(kit_peers, NULL);
}

static void close_all(void)
{
	fleet_union_free(joint);
	for (size_t i = 0; i < n_peers; i++) {
		assert_int_equal(peers[i].n_started, peers[i].n_finished);
		assert_int_equal(peers[i].n_open, 0);
		peers[i].local->unref(peers[i].local);
		memsource_free(peers[i].source);
	}
	memsource_free(all);
}

/* The labels as the union has them at a peer. */
static struct labels with_external(struct labels own, size_t peer, struct labels_builder *b)
{
	labels_builder_init(b, own);
	for (size_t i = 0; i < peers[peer].n_external; i++)
		if (!labels_get(own, peers[peer].external[i].name).len)
			labels_builder_set(b, peers[peer].external[i].name, peers[peer].external[i].value);
	return labels_builder_finish(b);
}

static struct stackvec *stacks(struct memsource *m, const char *text)
{
	struct arena a;
	const char *error = "";
	arena_init(&a, 0);
	struct stackvec *v = testlang_stacks(&a, memsource_symbols(m), view_of(text), &error);
	if (!v)
		fail_msg("%s: %s", text, error);
	arena_free(&a);
	return v;
}

static void put_profile(struct memsource *m, struct labels l, const struct ptype *type, const struct source_profile *p, const char *text)
{
	struct err e;
	struct stackvec *v = p->stale ? NULL : stacks(m, text);
	assert_int_equal(memsource_add_profile(m, l, type, p, v, &e), 0);
	stackvec_unref(v);
}

/* At a peer, and among everything. */
static void add_profile(size_t peer, struct labels l, const struct ptype *type, const struct source_profile *p, const char *text)
{
	struct labels_builder b;
	put_profile(peers[peer].source, l, type, p, text);
	put_profile(all, with_external(l, peer, &b), type, p, text);
	labels_builder_free(&b);
}

static void add_float(size_t peer, struct labels l, int64_t t, double v)
{
	struct labels_builder b;
	struct err e;
	assert_int_equal(memsource_add_float(peers[peer].source, l, t, v, &e), 0);
	assert_int_equal(memsource_add_float(all, with_external(l, peer, &b), t, v, &e), 0);
	labels_builder_free(&b);
}

/* Who has a series: a peer, or from `from` on another, which the first has as well until `until`. */
struct holders {
	size_t first, second;
	int64_t from, until;
	bool both;
};

static struct holders draw_holders(void)
{
	struct holders h = { draw((uint32_t)n_peers), draw((uint32_t)n_peers), INT64_MAX, INT64_MAX, false };
	if (draw(3) == 0) {
		h.from = START + (5 + draw(20)) * STEP;
		h.both = draw(2);
		h.until = h.both ? h.from + draw(10) * STEP : h.from - 1;
	}
	return h;
}

static void draw_text(struct buf *text)
{
	static const char *const frames[] = { "main@m.go:1!app", "f@f.go:2!app", "~g@g.go:3!app", "f@f.go:7!app", "h@h.go:4!lib", "0x1f!lib" };
	buf_reset(text);
	for (uint32_t i = 0, n = 1 + draw(5); i < n; i++) {
		buf_puts(text, i ? " | main@m.go:1!app" : "main@m.go:1!app");
		for (uint32_t k = draw(5); k > 0; k--)
			buf_printf(text, ";%s", frames[draw(ARRAY_LEN(frames))]);
		buf_printf(text, " %u", 1 + draw(1000));
		if (draw(3) == 0)
			buf_printf(text, " {thread=\"%u\"}", draw(2));
	}
}

static size_t pod_labels(struct label *l, const char *name, uint32_t pod)
{
	static const char *const pods[] = { "a", "b", "c", "d", "e", "f", "g" };
	l[0] = (struct label){ VIEW(LABEL_NAME), view_of(name) };
	l[1] = (struct label){ VIEW("pod"), view_of(pods[pod]) };
	l[2] = (struct label){ VIEW("zone"), pod % 2 ? VIEW("x") : VIEW("y") };
	return pod % 3 ? 3 : 2;
}

static void fill_profiles(const char *name, uint32_t pod)
{
	struct label l[3];
	struct labels labels = { l, pod_labels(l, name, pod) };
	struct ptype type;
	struct buf text = { 0 };
	struct holders h = draw_holders();
	bool part = draw(4) == 0, began = false, second = false;
	assert_true(ptype_parse(view_of(name), &type));
	for (int64_t t = START + draw(9) * 1000; t < END + STEP; t += STEP) {
		bool gauge = type.kind == PROFILE_GAUGE;
		struct source_profile p = { .t_ms = t, .duration_ns = gauge ? 0 : part ? 5000000000 : 10000000000, .cover_ms = STEP, .interval_ms = STEP,
					    .weight = part && !gauge ? 2 : 1, .period = 10 };
		p.stale = !h.both && began && (second || t < h.from) && draw(12) == 0;
		draw_text(&text);
		if (t < h.until || h.from == INT64_MAX)
			add_profile(h.first, labels, &type, &p, text.ptr);
		if (t >= h.from && h.second != h.first)
			add_profile(h.second, labels, &type, &p, text.ptr);
		else if (t >= h.from && t >= h.until)
			add_profile(h.first, labels, &type, &p, text.ptr);
		began = true;
		second |= t >= h.from;
		if (draw(8) == 0)
			t += 7 * STEP;
	}
	buf_free(&text);
}

static void fill_floats(const char *name, uint32_t pod)
{
	struct label l[3];
	struct labels labels = { l, pod_labels(l, name, pod) };
	struct holders h = draw_holders();
	double v = 0;
	for (int64_t t = START + draw(9) * 1000; t < END + STEP; t += 5000 + draw(4) * 2500) {
		v += draw(20);
		bool may_end = !h.both && t < h.from; /* a marker counts only if no holder goes on, and the first one may */
		double at = may_end && draw(20) == 0 ? value_from_bits(VALUE_STALE_BITS) : draw(40) == 0 ? NAN : v;
		if (t < h.until || h.from == INT64_MAX)
			add_float(h.first, labels, t, at);
		if (t >= h.from)
			add_float(h.second, labels, t, at);
	}
}

static const char *const types[] = { "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "memory:inuse_space:bytes:space:bytes",
				     "goroutine:goroutine:count:goroutine:count" };

static void fill(void)
{
	open_all(1 + draw(PEERS));
	for (size_t i = 0; i < n_peers; i++) {
		peers[i].named = draw(4);
		if (draw(2))
			peer_external(i, "region", ONE_OF("eu", "us"));
		if (draw(4) == 0)
			peer_external(i, "zone", "x");
	}
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		for (uint32_t k = 0, n = 1 + draw(7); k < n; k++)
			fill_profiles(types[i], k);
	for (uint32_t k = 0; k < 4; k++) {
		fill_floats("m", k);
		fill_floats("c_total", 1 + k);
	}
}

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
	*p = (struct pair){ view_of_source(memsource_source(all)), view_of_source(fleet_union_source(joint)), { NULL, NULL }, 0, { NULL, NULL }, 0, { 0 },
			    symbols_new() };
	p->lim.pool = draw(2) ? pool : NULL;
	assert_int_equal(p->all->ops->select(p->all, NULL, 0, 0, END * 2, &p->lim, &p->s[0], &p->n, &e), 0);
	if (p->joint->ops->select(p->joint, NULL, 0, 0, END * 2, &p->lim, &p->s[1], &n, &e))
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
	return START - 2 * STEP + (int64_t)draw(35 * STEP / 500) * 500;
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
	size_t n = draw(4), n_x[2];
	struct source_series *x[2];
	int64_t after, until;
	struct err e;
	draw_range(&after, &until);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(matcher_init(&m[i], draw(4), view_of(ONE_OF("region", "zone", "pod", "region", "__name__")),
					      view_of(ONE_OF("eu", "x", "", "us", "a", "m", "e.|us", ".*", ".+", "x|y|")), &e), 0);
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
	assert_int_equal(p->all->ops->types(p->all, 0, 2 * END, &p->lim, &x, &n, &e), 0);
	assert_int_equal(p->joint->ops->types(p->joint, 0, 2 * END, &p->lim, &y, &k, &e), 0);
	assert_int_equal(n, k);
	for (size_t i = 0; i < n; i++) {
		for (k = 0; k < n && !(view_eq(x[i].name, y[k].name) && ptype_eq(x[i].type, y[k].type)); k++)
			;
		assert_true(k < n && y[k].n_series >= x[i].n_series);
		n_series += y[k].n_series;
	}
	for (size_t i = 0; i < n_peers; i++) {
		struct source_view *v = view_of_source(memsource_source(peers[i].source));
		struct source_series *s;
		assert_int_equal(v->ops->select(v, NULL, 0, 0, 2 * END, NULL, &s, &k, &e), 0);
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

struct taken {
	struct fleet_result r[2];
	int k;
	unsigned n;
	const struct source_tiles *tiles;
};

static int take_floats(void *arg, size_t series, struct point *v, size_t n, struct err *e)
{
	struct taken *t = arg;
	(void)e;
	t->r[t->k].floats[series] = (struct fleet_floats){ v, n };
	__atomic_fetch_add(&t->n, 1, __ATOMIC_RELAXED);
	return 0;
}

static int take_profiles(void *arg, size_t series, struct source_profile *v, size_t n, struct err *e)
{
	struct taken *t = arg;
	(void)e;
	t->r[t->k].profiles[series] = (struct fleet_profiles){ v, NULL, n };
	__atomic_fetch_add(&t->n, 1, __ATOMIC_RELAXED);
	return 0;
}

static int take_covers(void *arg, size_t series, struct source_cover *v, struct err *e)
{
	struct taken *t = arg;
	(void)e;
	t->r[t->k].covers[series] = v;
	__atomic_fetch_add(&t->n, 1, __ATOMIC_RELAXED);
	return 0;
}

static int take_matches(void *arg, size_t series, const struct source_profile *p, const int64_t *match, size_t n, unsigned worker, struct err *e)
{
	struct taken *t = arg;
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
	struct taken t = { 0 };
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
	struct source_tiles tiles = { draw_time(), (1 + draw(60)) * 1000, 1 + draw(2) * draw(20) };
	struct taken t = { .tiles = &tiles };
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

/* Scales are exact as doubles if `dyadic`; else the source in memory adds up scaled values, and storage and the union scale sums. */
static size_t draw_parts(const struct pair *p, struct source_part *parts[2], bool dyadic, bool shares)
{
	size_t n = 1 + draw(30);
	struct source_part x = { 0 };
	for (int k = 0; k < 2; k++)
		parts[k] = xcalloc(n, sizeof **parts);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || draw(3) == 0) {
			x = (struct source_part){ .scale = 1, .group = draw(GROUPS - 12) };
			draw_range(&x.after_ms, &x.until_ms);
			if (draw(3) == 0) {
				x.n_steps = 1 + draw(12);
				x.step_ms = (1 + draw(30)) * 1000;
				x.until_ms = MIN(x.until_ms, x.after_ms + (1 + draw(60)) * 1000);
			}
			if (!shares && draw(2))
				x.scale = dyadic ? (double[]){ 2, 0.5, 0.25, -1 }[draw(4)] : 1.0 / (1 + draw(6));
			if (!shares && draw(4) == 0)
				x.weigh = (struct source_weigh){ x.until_ms - x.after_ms + 1, STEP, draw(2) };
		}
		size_t s = draw((uint32_t)p->n_profiles);
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
	bool dyadic = draw(2);
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
	size_t n = draw_parts(p, parts, true, false);
	struct err e;
	assert_int_equal(p->all->ops->sums(p->all, parts[0], n, GROUPS, f, &p->lim, sums[0], exact[0], &e), 0);
	if (p->joint->ops->sums(p->joint, parts[1], n, GROUPS, f, &p->lim, sums[1], exact[1], &e))
		fail_msg("%s", e.msg);
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < MAX(parts[0][i].n_steps, 1); k++)
			scaled[parts[0][i].group + k] |= parts[0][i].scale != 1 || parts[0][i].weigh.over_ms;
	for (size_t g = 0; g < GROUPS; g++) {
		assert_true(sums[0][g] == sums[1][g] || close_to(sums[0][g], sums[1][g]));
		if (!scaled[g]) {
			assert_true(sums[0][g] == sums[1][g]);
			assert_int_equal(exact[0][g], exact[1][g]);
		}
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

static uint64_t rounds(uint64_t usual)
{
	const char *is_long = getenv("PYRRHA_LONG");
	return is_long && *is_long ? usual * 30 : usual;
}

static uint64_t first_seed(void)
{
	const char *seed = getenv("PYRRHA_SEED");
	return seed ? strtoull(seed, NULL, 10) : 1;
}

static void test_calls(void **unused)
{
	(void)unused;
	struct err e;
	struct matcher function[2];
	assert_int_equal(matcher_init(&function[0], MATCH_RE, VIEW("function"), VIEW("f|h"), &e), 0);
	assert_int_equal(matcher_init(&function[1], MATCH_NE, VIEW("function"), VIEW("main"), &e), 0);
	const struct source_frame_filter filters[] = { { .m = &function[0], .n = 1 }, { .m = &function[1], .n = 1, .leaf_only = true } };
	for (uint64_t r = 0, n = rounds(40); r < n; r++) {
		state = first_seed() + r;
		fill();
		struct pair p;
		open_pair(&p);
		compare_types(&p);
		for (int i = 0; i < 12; i++) {
			compare_select(&p);
			compare_lists(&p, NULL);
			compare_lists(&p, &filters[draw(2)]);
			compare_covers(&p);
			compare_merge(&p);
			compare_sums(&p, draw(2) ? &filters[draw(2)] : NULL);
			compare_shares(&p, &filters[draw(2)]);
		}
		close_pair(&p);
		close_all();
	}
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
