/* SPDX-License-Identifier: Apache-2.0 */
/* Every call to another server has the result that it has on the server's own storage: byte for byte, and for stacks name by name. Between calls the
 * server is restarted at random: it has lost its views and dictionaries then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "fleet/answerer.h"
#include "fleet/server.h"
#include "promql-like/memsource.h"
#include "promql-like/promql.h"
#include "tests/fleet/listenkit.h"

#define T0 INT64_C(1700000040000) /* a whole minute */
#define STEP_MS 10000
#define SERIES 16        /* the last quarter are floats */
#define PROFILES 60
#define FUNCTIONS 40
#define CALLS 1500

static struct listener *listener;
static struct memsource *stored;
static struct promql_engine *engine; /* makes rows */
static struct fleet_answerer *answerer;
static struct rwlock answerer_lock; /* guards the pointer, while it is called */
static struct fleet_loop *loop;
static struct fetch_client *client;
static struct fleet_peer *peer;
static atomic_int lies;  /* how many answers are damaged from now on */

/* ---- the server ---- */

static struct labels *external(void *arg)
{
	const struct label l[] = { { VIEW("region"), VIEW("eu") } };
	return labels_dup((struct labels){ l, 1 });
}

static int engine_rows(void *arg, struct source_view *v, const struct source_graph *g, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn,
		       void *fn_arg, struct err *e)
{
	return promql_rows(arg, v, g, lim, ret_fits, fn, fn_arg, e);
}

static struct fleet_answerer *answerer_start(void)
{
	const struct fleet_answerer_options o = { .source = memsource_source(stored), .labels = external, .rows = engine_rows, .rows_arg = engine };
	return fleet_answerer_new(&o);
}

static bool on_request(void *arg, int fd, const char *request, struct view body)
{
	const struct fleet_asker asker = { .name = VIEW("test"), .arrived_ns = clock_mono_ns() };
	struct buf out = { 0 };
	rwlock_read(&answerer_lock);
	int status = fleet_answerer_run(answerer, body, &asker, &out);
	rwlock_unlock(&answerer_lock);
	int lie = atomic_load(&lies);
	if (lie > 0 && atomic_compare_exchange_strong(&lies, &lie, lie - 1) && out.len)
		out.ptr[out.len / 2] ^= 1;
	listener_answer(fd, status == 200 ? "200 OK" : "400 Bad Request", status == 200 ? FLEET_WIRE_TYPE : "text/plain", buf_view(&out));
	buf_free(&out);
	return true;
}

static void restart_server(void)
{
	rwlock_write(&answerer_lock);
	fleet_answerer_free(answerer);
	answerer = answerer_start();
	rwlock_unlock(&answerer_lock);
}

/* ---- its storage ---- */

static uint32_t draw(uint32_t n)
{
	static uint64_t state = 7;
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

static uint32_t make_column(struct symbols *s)
{
	uint32_t places[4], n = 1 + draw(4);
	for (uint32_t i = 0; i < n; i++) {
		char name[32];
		snprintf(name, sizeof name, "function%u", draw(FUNCTIONS));
		const struct sym_function f = { .name = symbols_string(s, view_of(name)) };
		const struct sym_line line = { symbols_function(s, &f) + 1, 1 + draw(3), 0 };
		const struct sym_location l = { .n_lines = 1 };
		places[i] = symbols_location(s, &l, &line);
	}
	return symbols_column(s, symbols_stack(s, places, n), 0);
}

static struct stackvec *make_vector(void)
{
	struct symbols *s = memsource_symbols(stored);
	struct stackacc *acc = stackacc_new(s);
	struct err e = { 0 };
	for (uint32_t n = 1 + draw(6); n; n--)
		stackacc_add(acc, make_column(s), 10000000 * (1 + (int64_t)draw(20)));
	struct stackvec *v = stackacc_finish(acc, &e);
	assert_non_null(v);
	stackacc_free(acc);
	return v;
}

static void fill_series(size_t i)
{
	static const struct ptype cpu = { { "process_cpu", 11 }, { "cpu", 3 }, { "nanoseconds", 11 }, { "cpu", 3 }, { "nanoseconds", 11 },
					  true, PROFILE_DELTA };
	char pod[16];
	snprintf(pod, sizeof pod, "pod-%02zu", i);
	bool floats = i >= SERIES / 4 * 3;
	const struct label l[] = { { VIEW(LABEL_NAME), floats ? VIEW("up") : VIEW("cpu") }, { VIEW("pod"), view_of(pod) } };
	struct err e = { 0 };
	for (int64_t k = 0; k < PROFILES; k++) {
		if (floats) {
			assert_int_equal(memsource_add_float(stored, (struct labels){ l, 2 }, T0 + k * STEP_MS, (double)draw(100) / 7, &e), 0);
			continue;
		}
		const struct source_profile p = { .t_ms = T0 + k * STEP_MS, .duration_ns = STEP_MS * INT64_C(1000000), .cover_ms = STEP_MS,
						  .interval_ms = STEP_MS, .weight = 1, .period = 10000000 };
		struct stackvec *v = make_vector();
		assert_int_equal(memsource_add_profile(stored, (struct labels){ l, 2 }, &cpu, &p, v, &e), 0);
		stackvec_unref(v);
	}
}

static int set_up(void **state)
{
	struct err e = { 0 };
	rwlock_init(&answerer_lock, RANK_RELOAD, "answerer of the test");
	stored = memsource_new();
	for (size_t i = 0; i < SERIES; i++)
		fill_series(i);
	engine = promql_engine_new(memsource_source(stored), &(struct promql_options){ 0 });
	answerer = answerer_start();
	listener = listener_new(on_request, NULL);
	client = fetch_client_new(NULL, "test/1");
	if (fleet_loop_new(&loop, &e))
		fail_msg("%s", e.msg);
	char url[64];
	snprintf(url, sizeof url, "http://127.0.0.1:%d", listener_port(listener));
	peer = fleet_server_peer(fleet_server_new(&(struct fleet_server_options){ .loop = loop, .client = client, .url = url }));
	return 0;
}

static int tear_down(void **state)
{
	peer->unref(peer);
	fleet_loop_free(loop);
	fetch_client_unref(client);
	listener_free(listener);
	fleet_answerer_free(answerer);
	promql_engine_free(engine);
	memsource_free(stored);
	rwlock_destroy(&answerer_lock);
	return 0;
}

/* ---- calls ---- */

/* A question on both sides. */
struct pair {
	struct source_view *near;
	struct fleet_peer_view *far;
	struct source_series *series;
	size_t n;
};

static int far_run(struct pair *p, const struct fleet_call *c, struct fleet_result *r, struct err *e)
{
	const struct source_limits lim = { .deadline_mono_ns = clock_mono_ns() + INT64_C(30000000000) };
	return peer->ops->finish(peer->ops->start(p->far, c, &lim), r, e);
}

/* The result as bytes, without vectors. */
static void result_bytes(const struct fleet_call *c, const struct fleet_result *r, struct buf *out)
{
	const struct fleet_question q = { .call = *c };
	const struct fleet_answer a = { .view = 1 };
	struct err e = { 0 };
	if (fleet_answer_encode(out, &a, r, NULL, &q, &e))
		fail_msg("op %d: %s", c->op, e.msg);
}

static void same_vectors(const struct fleet_result *a, const struct fleet_result *b)
{
	struct err e = { 0 };
	for (size_t i = 0; i < a->n; i++) {
		struct symbols *to = memsource_symbols(stored);
		struct stackvec *v = stackvec_rebase(a->vecs[i], to, &e), *w = stackvec_rebase(b->vecs[i], to, &e);
		assert_true(v && w);
		assert_int_equal(v->n, w->n);
		assert_int_equal(v->is_float, w->is_float);
		if (v->n) {
			assert_memory_equal(v->columns, w->columns, v->n * sizeof *v->columns);
			assert_memory_equal(v->ints, w->ints, v->n * sizeof *v->ints);
		}
		stackvec_unref(v);
		stackvec_unref(w);
	}
}

static void compare_call(struct pair *p, const struct fleet_call *c)
{
	struct fleet_result near = { 0 }, far = { 0 };
	struct err e = { 0 }, far_e = { 0 };
	struct buf a = { 0 }, b = { 0 };
	const struct source_limits lim = { 0 };
	int rc = fleet_call_run(p->near, c, engine_rows, engine, c->op == FLEET_ROWS ? &lim : NULL, NULL, &near, &e), far_rc = far_run(p, c, &far, &far_e);
	if (rc != far_rc)
		fail_msg("op %d: \"%s\" is \"%s\" there", c->op, e.msg, far_e.msg);
	if (!rc) {
		assert_int_equal(near.n, far.n);
		if (c->op == FLEET_MERGE) {
			same_vectors(&near, &far);
		} else {
			result_bytes(c, &near, &a);
			result_bytes(c, &far, &b);
			assert_int_equal(a.len, b.len);
			assert_memory_equal(a.ptr, b.ptr, a.len);
		}
	}
	buf_free(&a);
	buf_free(&b);
	fleet_result_release(&near);
	fleet_result_release(&far);
}

static void pair_open(struct pair *p)
{
	const struct fleet_call all = { .op = FLEET_SELECT, .until_ms = T0 * 2 };
	struct fleet_result r = { 0 };
	struct err e = { 0 };
	struct source *s = memsource_source(stored);
	assert_int_equal(s->open(s, &p->near, &e), 0);
	p->far = peer->ops->open(peer);
	if (far_run(p, &all, &r, &e))
		fail_msg("%s", e.msg);
	p->series = r.series;
	p->n = r.n;
	assert_int_equal(p->n, SERIES);
}

static void pair_close(struct pair *p)
{
	peer->ops->close(p->far);
	p->near->ops->release(p->near);
	free(p->series);
}

/* Some of the series: of floats or of profiles. */
static size_t draw_refs(const struct pair *p, bool floats, uint64_t refs[SERIES])
{
	size_t n = 0;
	for (size_t i = 0; i < p->n; i++)
		if (!p->series[i].type == floats && draw(3))
			refs[n++] = p->series[i].ref;
	return n;
}

static size_t draw_parts(const struct pair *p, const struct fleet_call *c, uint32_t n_groups, struct source_part parts[SERIES])
{
	size_t n = 0;
	for (size_t i = 0; i < p->n; i++)
		if (p->series[i].type && draw(3))
			parts[n++] = (struct source_part){ .ref = p->series[i].ref, .after_ms = c->after_ms, .until_ms = c->until_ms, .scale = 1,
							   .group = draw(n_groups) };
	return n;
}

#define GRAPH_TERMS 3 /* of a series */

/* Windows of a minute or two that overlap, of two lanes, as whole and in part. */
static void draw_graph(const struct pair *p, const struct fleet_call *c, uint64_t refs[SERIES], uint32_t first[SERIES + 1],
		       struct source_graph_term terms[SERIES * GRAPH_TERMS], struct source_graph *g)
{
	static const int bits[] = { 60, 40 };
	static const char *const readouts[] = { "self(x)", "total(x)", "total(focus(x, \"function[1-5].*\"), \"line\")", "self(x, \"file\")" };
	size_t n = 0;
	*g = (struct source_graph){ .readout = view_of(readouts[draw(ARRAY_LEN(readouts))]), .n_steps = 6, .refs = refs, .first = first, .terms = terms, .bits = bits,
				    .n_lanes = 2, .n_refs = draw_refs(p, false, refs) };
	first[0] = 0;
	for (size_t i = 0; i < g->n_refs; i++) {
		uint32_t step = draw(3), count = 1 + draw(GRAPH_TERMS);
		for (uint32_t k = 0; k < count; k++, step++) {
			int64_t after = c->after_ms + step * 60000;
			terms[n++] = (struct source_graph_term){ after, after + 60000 * (1 + (int64_t)draw(2)), draw(3) ? 1 : draw(2) ? -1 : 0.3, step, draw(2) };
		}
		first[i + 1] = (uint32_t)n;
	}
}

/* A call of a kind, with a range and series that are drawn. */
static void compare_drawn(struct pair *p, enum fleet_op op)
{
	struct matcher m[2] = { 0 };
	struct err e = { 0 };
	char name[32];
	uint64_t refs[SERIES];
	struct source_part parts[SERIES];
	struct source_graph graph;
	struct source_graph_term terms[SERIES * GRAPH_TERMS];
	uint32_t first[SERIES + 1];
	snprintf(name, sizeof name, "function[%u-%u].*", draw(4), 5 + draw(4));
	assert_int_equal(matcher_init(&m[0], MATCH_RE, VIEW("function"), view_of(name), &e), 0);
	assert_int_equal(matcher_init(&m[1], MATCH_NE, VIEW("pod"), draw(2) ? VIEW("pod-03") : VIEW("pod-14"), &e), 0);
	const struct source_frame_filter filter = { .m = &m[0], .n = 1, .leaf_only = draw(2) };
	struct fleet_call c = { .op = op, .after_ms = T0 + (int64_t)draw(10) * 60000 - 60000 };
	c.until_ms = c.after_ms + (int64_t)(1 + draw(8)) * 60000;
	const struct source_tiles tiles = { .after_ms = c.after_ms, .width_ms = 60000, .n = 1 + draw(5) };
	const struct source_windows windows = { .until_ms = c.after_ms + 120000, .range_ms = 120000, .step_ms = 60000, .n = 1 + draw(5) };
	if (op == FLEET_SELECT || op == FLEET_LABEL_NAMES || op == FLEET_LABEL_VALUES) {
		c.m = &m[1];
		c.n_m = draw(2);
		c.label = op == FLEET_LABEL_VALUES ? draw(2) ? VIEW("pod") : VIEW("absent") : (struct view){ 0 };
	} else if (op == FLEET_FLOATS || op == FLEET_PROFILES || op == FLEET_POINTS || op == FLEET_COVERS || op == FLEET_MATCHES) {
		c.refs = refs;
		c.n_refs = draw_refs(p, op == FLEET_FLOATS, refs);
		c.windows = op == FLEET_POINTS && draw(2) ? &windows : NULL;
		c.tiles = op == FLEET_COVERS ? &tiles : NULL;
		c.filter = op == FLEET_MATCHES ? &filter : NULL;
	} else if (op == FLEET_ROWS) {
		draw_graph(p, &c, refs, first, terms, &graph);
		c.graph = &graph;
	} else if (op != FLEET_TYPES && op != FLEET_OPEN) {
		c.parts = parts;
		c.n_groups = 1 + draw(4);
		c.n_parts = draw_parts(p, &c, (uint32_t)c.n_groups, parts);
		c.detail = draw(2) ? SYMBOLS_NAMES : SYMBOLS_WHOLE;
		c.filter = op == FLEET_SHARES || (op == FLEET_SUMS && draw(2)) ? &filter : NULL;
		c.exact = op == FLEET_SUMS && draw(2);
	}
	compare_call(p, &c);
	matcher_release(&m[0]);
	matcher_release(&m[1]);
}

static void compare_all(uint32_t restarts)
{
	struct pair p = { 0 };
	pair_open(&p);
	for (int i = 0; i < CALLS; i++) {
		if (restarts && !draw(restarts))
			restart_server();
		if (!draw(50)) {
			pair_close(&p);
			pair_open(&p);
		}
		enum fleet_op op = (enum fleet_op)(FLEET_OPEN + draw(FLEET_CLOSE - FLEET_OPEN + 1));
		compare_drawn(&p, op == FLEET_CLOSE ? FLEET_ROWS : op);
	}
	pair_close(&p);
}

/* ---- tests ---- */

static void calls_give_what_the_storage_gives(void **state)
{
	compare_all(0);
}

static void so_they_do_while_the_server_is_restarted(void **state)
{
	compare_all(5);
}

/* An answer to a merge that is damaged: the mirror is dropped, and the call is asked once more. */
static void a_lying_dictionary_is_dropped(void **state)
{
	struct pair p = { 0 };
	struct fleet_server_status before, after;
	struct fleet_result r = { 0 };
	struct err e = { 0 };
	pair_open(&p);
	compare_drawn(&p, FLEET_MERGE);
	compare_drawn(&p, FLEET_MERGE);
	fleet_server_status((struct fleet_server *)(void *)peer, &before);
	assert_true(before.dictionary_bytes > 0);
	atomic_store(&lies, 1);
	compare_drawn(&p, FLEET_MERGE);
	assert_int_equal(atomic_load(&lies), 0);
	const struct source_part part = { .ref = p.series[0].ref, .after_ms = T0, .until_ms = T0 + 600000, .scale = 1 };
	const struct fleet_call c = { .op = FLEET_MERGE, .parts = &part, .n_parts = 1, .n_groups = 1 };
	atomic_store(&lies, 2);
	assert_int_equal(far_run(&p, &c, &r, &e), -ERR_CORRUPT);
	assert_int_equal(atomic_load(&lies), 0);
	compare_call(&p, &c);
	fleet_server_status((struct fleet_server *)(void *)peer, &after);
	assert_true(after.up);
	free(before.labels);
	free(after.labels);
	pair_close(&p);
}

/* Of a merge that opens its view, too: it is sent again at once, and does not wait for itself. */
static void a_view_is_opened_by_a_damaged_merge(void **state)
{
	struct pair p = { 0 };
	struct fleet_result r = { 0 };
	struct err e = { 0 };
	pair_open(&p);
	compare_drawn(&p, FLEET_MERGE);
	const struct source_part part = { .ref = p.series[0].ref, .after_ms = T0, .until_ms = T0 + 600000, .scale = 1 };
	const struct fleet_call c = { .op = FLEET_MERGE, .parts = &part, .n_parts = 1, .n_groups = 1 };
	struct fleet_peer_view *v = peer->ops->open(peer);
	const struct source_limits lim = { .deadline_mono_ns = clock_mono_ns() + INT64_C(5000000000) };
	atomic_store(&lies, 1);
	assert_int_equal(peer->ops->finish(peer->ops->start(v, &c, &lim), &r, &e), -ERR_BAD_DATA); /* this view has not selected the series */
	assert_int_equal(atomic_load(&lies), 0);
	peer->ops->close(v);
	pair_close(&p);
}

/* Threads that merge at once share the mirror; the server is restarted meanwhile. */
static atomic_int wrong;

static void *merge_many(void *arg)
{
	struct source_view *near = NULL;
	struct source *s = memsource_source(stored);
	struct err e = { 0 };
	const struct fleet_call all = { .op = FLEET_SELECT, .until_ms = T0 * 2 };
	const struct source_limits lim = { .deadline_mono_ns = clock_mono_ns() + INT64_C(60000000000) };
	if (s->open(s, &near, &e))
		abort();
	for (int i = 0; i < 40; i++) {
		struct fleet_peer_view *v = peer->ops->open(peer);
		struct fleet_result list = { 0 }, far = { 0 }, here = { 0 };
		if (!peer->ops->finish(peer->ops->start(v, &all, &lim), &list, &e)) {
			const struct source_part part = { .ref = list.series[i % 12].ref, .after_ms = T0, .until_ms = T0 + 600000, .scale = 1 };
			const struct fleet_call c = { .op = FLEET_MERGE, .parts = &part, .n_parts = 1, .n_groups = 1 };
			if (!peer->ops->finish(peer->ops->start(v, &c, &lim), &far, &e)) {
				if (fleet_call_run(near, &c, NULL, NULL, NULL, NULL, &here, &e) || stackvec_total(here.vecs[0]) != stackvec_total(far.vecs[0]) ||
				    here.vecs[0]->n != far.vecs[0]->n)
					atomic_fetch_add(&wrong, 1);
				fleet_result_release(&here);
				fleet_result_release(&far);
			} else if (e.code != ERR_UNAVAILABLE) {
				atomic_fetch_add(&wrong, 1);
				fprintf(stderr, "%s\n", e.msg);
			}
			fleet_result_release(&list);
		}
		peer->ops->close(v);
	}
	near->ops->release(near);
	return NULL;
}

static void threads_merge_at_once(void **state)
{
	pthread_t t[20];
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(pthread_create(&t[i], NULL, merge_many, NULL), 0);
	for (int i = 0; i < 20; i++) {
		clock_sleep_ms(20);
		restart_server();
	}
	for (size_t i = 0; i < 20; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(atomic_load(&wrong), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_give_what_the_storage_gives),
		cmocka_unit_test(so_they_do_while_the_server_is_restarted),
		cmocka_unit_test(a_lying_dictionary_is_dropped), cmocka_unit_test(a_view_is_opened_by_a_damaged_merge),
		cmocka_unit_test(threads_merge_at_once),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
