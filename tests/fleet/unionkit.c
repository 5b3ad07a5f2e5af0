/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fleet/unionkit.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "promql-like/testlang/testlang_data.h"

uint64_t kit_state;

uint32_t kit_draw(uint32_t n)
{
	kit_state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash_u64(kit_state) % n);
}

const char *kit_one_of(const char *const *list, size_t n)
{
	return list[kit_draw((uint32_t)n)];
}

/* ---- peers ---- */

struct kit_view {
	struct kit_peer *of;
	struct fleet_peer_view *view;
};

struct kit_ask {
	struct kit_peer *of;
	struct fleet_ask *ask;
	enum fleet_op op;
};

static unsigned kit_at_work; /* asks under way, of all peers */
bool kit_all_first;
unsigned kit_expected;

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
	__atomic_fetch_add(&v->of->n_refs, call->n_refs, __ATOMIC_RELAXED);
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

/* A peer that is slow: the others are finished before it. */
static bool kit_wait(struct fleet_ask *fa, int64_t until_ms)
{
	struct kit_ask *a = (struct kit_ask *)(void *)fa;
	(void)until_ms;
	return !a->of->slow || __atomic_load_n(&kit_at_work, __ATOMIC_RELAXED) == 1;
}

static void kit_cancel(struct fleet_ask *fa)
{
	struct kit_ask *a = (struct kit_ask *)(void *)fa;
	a->of->local->ops->cancel(a->ask);
	__atomic_fetch_add(&a->of->n_canceled, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&a->of->n_finished, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&kit_at_work, 1, __ATOMIC_RELAXED);
	free(a);
}

static struct labels kit_labels(struct fleet_peer_view *pv)
{
	struct kit_view *v = (struct kit_view *)(void *)pv;
	return v->of->local->ops->labels(v->view);
}

static const struct fleet_peer_ops kit_ops = { kit_open, kit_close, kit_start, kit_finish, kit_wait, kit_cancel, kit_labels };

static void kit_unref(struct fleet_peer *p)
{
	(void)p;
}

static struct fleet_peer *kit_ref(struct fleet_peer *p)
{
	return p;
}

static struct labels *kit_labels_now(void *arg)
{
	struct kit_peer *k = arg;
	return k->labels.n ? labels_dup(k->labels) : NULL;
}

/* ---- data ---- */

struct kit_peer kit_peers[KIT_PEERS];
size_t kit_n_peers;
struct memsource *kit_all;
struct fleet_union *kit_joint;

static struct fleet_peer **kit_peers_now(void *arg, size_t *ret_n)
{
	(void)arg;
	struct fleet_peer **p = xcalloc(kit_n_peers + 1, sizeof(*p));
	for (size_t i = 0; i < kit_n_peers; i++)
		p[i] = kit_peers[i].named ? &kit_peers[i].peer : kit_peers[i].local->ref(kit_peers[i].local);
	*ret_n = kit_n_peers;
	return p;
}

void kit_peer_external(size_t i, const char *name, const char *value)
{
	struct kit_peer *k = &kit_peers[i];
	k->external[k->n_external++] = (struct label){ view_of(name), view_of(value) };
	k->labels = (struct labels){ k->external, k->n_external };
}

static int kit_rows(void *arg, struct source_view *v, const struct source_graph *g, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn, void *fn_arg,
		    struct err *e)
{
	return promql_rows(arg, v, g, lim, ret_fits, fn, fn_arg, e);
}

void kit_open_all(size_t n)
{
	static const char *const names[KIT_PEERS] = { "http://a", "http://b", "http://c", "http://d", "http://e" };
	kit_n_peers = n;
	kit_all = memsource_new();
	memset(kit_peers, 0, sizeof kit_peers);
	for (size_t i = 0; i < n; i++) {
		struct kit_peer *k = &kit_peers[i];
		k->peer = (struct fleet_peer){ .ops = &kit_ops, .name = names[i], .unref = kit_unref, .ref = kit_ref };
		k->source = memsource_new();
		k->engine = promql_engine_new(memsource_source(k->source), &(struct promql_options){ 0 });
		k->local = fleet_local_peer_new(memsource_source(k->source), kit_labels_now, k, kit_rows, k->engine);
		k->named = true;
	}
	kit_joint = fleet_union_new(kit_peers_now, NULL);
}

void kit_close_all(void)
{
	fleet_union_free(kit_joint);
	for (size_t i = 0; i < kit_n_peers; i++) {
		assert(kit_peers[i].n_started == kit_peers[i].n_finished);
		assert(kit_peers[i].n_open == 0);
		kit_peers[i].local->unref(kit_peers[i].local);
		promql_engine_free(kit_peers[i].engine);
		memsource_free(kit_peers[i].source);
	}
	memsource_free(kit_all);
}

/* The labels as the union has them at a peer. */
static struct labels with_external(struct labels own, size_t peer, struct labels_builder *b)
{
	labels_builder_init(b, own);
	for (size_t i = 0; i < kit_peers[peer].n_external; i++)
		if (!labels_get(own, kit_peers[peer].external[i].name).len)
			labels_builder_set(b, kit_peers[peer].external[i].name, kit_peers[peer].external[i].value);
	return labels_builder_finish(b);
}

static struct stackvec *stacks(struct memsource *m, const char *text)
{
	struct arena a;
	const char *error = "";
	arena_init(&a, 0);
	struct stackvec *v = testlang_stacks(&a, memsource_symbols(m), view_of(text), &error);
	if (!v)
		fprintf(stderr, "%s: %s\n", text, error);
	assert(v);
	arena_free(&a);
	return v;
}

static void must_add(int rc)
{
	assert(rc == 0);
}

static void put_profile(struct memsource *m, struct labels l, const struct ptype *type, const struct source_profile *p, const char *text)
{
	struct err e;
	struct stackvec *v = p->stale ? NULL : stacks(m, text);
	must_add(memsource_add_profile(m, l, type, p, v, &e));
	stackvec_unref(v);
}

/* At a peer, and among everything. */
void kit_add_profile(size_t peer, struct labels l, const struct ptype *type, const struct source_profile *p, const char *text)
{
	struct labels_builder b;
	put_profile(kit_peers[peer].source, l, type, p, text);
	put_profile(kit_all, with_external(l, peer, &b), type, p, text);
	labels_builder_free(&b);
}

void kit_add_float(size_t peer, struct labels l, int64_t t, double v)
{
	struct labels_builder b;
	struct err e;
	must_add(memsource_add_float(kit_peers[peer].source, l, t, v, &e));
	must_add(memsource_add_float(kit_all, with_external(l, peer, &b), t, v, &e));
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
	struct holders h = { kit_draw((uint32_t)kit_n_peers), kit_draw((uint32_t)kit_n_peers), INT64_MAX, INT64_MAX, false };
	if (kit_draw(3) == 0) {
		h.from = KIT_START + (5 + kit_draw(20)) * KIT_STEP;
		h.both = kit_draw(2);
		h.until = h.both ? h.from + kit_draw(10) * KIT_STEP : h.from - 1;
	}
	return h;
}

static void draw_text(struct buf *text)
{
	static const char *const frames[] = { "main@m.go:1!app", "f@f.go:2!app", "~g@g.go:3!app", "f@f.go:7!app", "h@h.go:4!lib", "0x1f!lib" };
	buf_reset(text);
	for (uint32_t i = 0, n = 1 + kit_draw(5); i < n; i++) {
		buf_puts(text, i ? " | main@m.go:1!app" : "main@m.go:1!app");
		for (uint32_t k = kit_draw(5); k > 0; k--)
			buf_printf(text, ";%s", frames[kit_draw(ARRAY_LEN(frames))]);
		buf_printf(text, " %u", 1 + kit_draw(1000));
		if (kit_draw(3) == 0)
			buf_printf(text, " {thread=\"%u\"}", kit_draw(2));
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
	bool part = kit_draw(4) == 0, began = false, second = false;
	bool is_type = ptype_parse(view_of(name), &type);
	assert(is_type);
	for (int64_t t = KIT_START + kit_draw(9) * 1000; t < KIT_END + KIT_STEP; t += KIT_STEP) {
		bool gauge = type.kind == PROFILE_GAUGE;
		struct source_profile p = { .t_ms = t, .duration_ns = gauge ? 0 : part ? 5000000000 : 10000000000, .cover_ms = KIT_STEP, .interval_ms = KIT_STEP,
					    .weight = part && !gauge ? 2 : 1, .period = 10 };
		p.stale = !h.both && began && (second || t < h.from) && kit_draw(12) == 0;
		draw_text(&text);
		if (t < h.until || h.from == INT64_MAX)
			kit_add_profile(h.first, labels, &type, &p, text.ptr);
		if (t >= h.from && h.second != h.first)
			kit_add_profile(h.second, labels, &type, &p, text.ptr);
		else if (t >= h.from && t >= h.until)
			kit_add_profile(h.first, labels, &type, &p, text.ptr);
		began = true;
		second |= t >= h.from;
		if (kit_draw(8) == 0)
			t += 7 * KIT_STEP;
	}
	buf_free(&text);
}

static void fill_floats(const char *name, uint32_t pod)
{
	struct label l[3];
	struct labels labels = { l, pod_labels(l, name, pod) };
	struct holders h = draw_holders();
	double v = 0;
	for (int64_t t = KIT_START + kit_draw(9) * 1000; t < KIT_END + KIT_STEP; t += 5000 + kit_draw(4) * 2500) {
		v += kit_draw(20);
		bool may_end = !h.both && t < h.from; /* a marker counts only if no holder goes on, and the first one may */
		double at = may_end && kit_draw(20) == 0 ? value_from_bits(VALUE_STALE_BITS) : kit_draw(40) == 0 ? NAN : v;
		if (t < h.until || h.from == INT64_MAX)
			kit_add_float(h.first, labels, t, at);
		if (t >= h.from)
			kit_add_float(h.second, labels, t, at);
	}
}

static const char *const types[] = { "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "memory:inuse_space:bytes:space:bytes",
				     "goroutine:goroutine:count:goroutine:count" };

void kit_fill(void)
{
	kit_open_all(1 + kit_draw(KIT_PEERS));
	for (size_t i = 0; i < kit_n_peers; i++) {
		kit_peers[i].named = kit_draw(4);
		if (kit_draw(2))
			kit_peer_external(i, "region", KIT_ONE_OF("eu", "us"));
		if (kit_draw(4) == 0)
			kit_peer_external(i, "zone", "x");
	}
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		for (uint32_t k = 0, n = 1 + kit_draw(7); k < n; k++)
			fill_profiles(types[i], k);
	for (uint32_t k = 0; k < 4; k++) {
		fill_floats("m", k);
		fill_floats("c_total", 1 + k);
	}
}

uint64_t kit_rounds(uint64_t usual)
{
	const char *is_long = getenv("PYRRHA_LONG");
	return is_long && *is_long ? usual * 30 : usual;
}

uint64_t kit_first_seed(void)
{
	const char *seed = getenv("PYRRHA_SEED");
	return seed ? strtoull(seed, NULL, 10) : 1;
}
