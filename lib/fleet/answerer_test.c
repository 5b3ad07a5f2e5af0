/* SPDX-License-Identifier: Apache-2.0 */
/* Questions as bytes to an answerer over a source that changes: each view has the state of its beginning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/testwait.h"
#include "fleet/answerer.h"
#include "fleet/answerer_sessions.h"
#include "fleet/answerer_views.h"
#include "fleet/question_memory.h"

/* ---- the source: everything that it answers follows from the generation at which a view was opened ---- */

#define T0 INT64_C(1700000000000)
#define PROFILES 3 /* refs 0, 1, 2; the last only from generation 2 on. Ref FLOATS is floats */
#define FLOATS 3u

static atomic_int generation = 1, open_views, calls_at_work, most_at_work;
static atomic_bool block, blocked; /* profiles wait while `block` */
static atomic_size_t more_profiles; /* of each series */
static atomic_uint_fast64_t seen_max_samples; /* of the last call of floats or sums */
static struct symbols *words;
static uint32_t columns[10]; /* of words: the i-th is the stack of a function "work i" */
static const struct ptype cpu = { { "process_cpu", 11 }, { "cpu", 3 }, { "nanoseconds", 11 }, { "cpu", 3 }, { "nanoseconds", 11 }, true, PROFILE_DELTA };
static const struct label series_labels[4][2] = {
	{ { { LABEL_NAME, 8 }, { "cpu", 3 } }, { { "pod", 3 }, { "a", 1 } } }, { { { LABEL_NAME, 8 }, { "cpu", 3 } }, { { "pod", 3 }, { "b", 1 } } },
	{ { { LABEL_NAME, 8 }, { "cpu", 3 } }, { { "pod", 3 }, { "c", 1 } } }, { { { LABEL_NAME, 8 }, { "up", 2 } }, { { "pod", 3 }, { "a", 1 } } },
};

struct state {
	struct source_view base;
	int generation;
};

static void state_release(struct source_view *v)
{
	atomic_fetch_sub(&open_views, 1);
	free(v);
}

static size_t state_profiles(struct source_view *v)
{
	return ((struct state *)v)->generation > 1 ? PROFILES : PROFILES - 1;
}

static int state_select(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
			struct source_series **ret, size_t *ret_n, struct err *e)
{
	(void)m, (void)n, (void)after_ms, (void)until_ms, (void)lim, (void)e;
	size_t k = 0, profiles = state_profiles(v);
	*ret = xcalloc(4, sizeof **ret);
	for (size_t i = 0; i < profiles; i++)
		(*ret)[k++] = (struct source_series){ { series_labels[i], 2 }, &cpu, i };
	(*ret)[k++] = (struct source_series){ { series_labels[FLOATS], 2 }, NULL, FLOATS };
	*ret_n = k;
	return 0;
}

static int state_types(struct source_view *v, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct source_type **ret, size_t *ret_n,
		       struct err *e)
{
	(void)after_ms, (void)until_ms, (void)lim, (void)e;
	*ret = xcalloc(1, sizeof **ret);
	**ret = (struct source_type){ VIEW("cpu"), &cpu, state_profiles(v) };
	*ret_n = 1;
	return 0;
}

/* The generation, and one more than it was before. */
static int state_floats(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
			source_floats_fn fn, void *arg, struct err *e)
{
	(void)after_ms, (void)until_ms;
	int rc = source_limits_check(lim, e);
	atomic_store(&seen_max_samples, lim->max_samples);
	for (size_t i = 0; i < n && !rc; i++) {
		assert_int_equal(refs[i], FLOATS);
		struct point *p = xcalloc(2, sizeof *p);
		p[0] = (struct point){ T0, ((struct state *)v)->generation };
		p[1] = (struct point){ T0 + 1000, ((struct state *)v)->generation + 0.5 };
		atomic_fetch_add(lim->samples_read, 2);
		rc = fn(arg, i, p, 2, e);
	}
	return rc;
}

static int state_profile_list(struct source_view *v, const uint64_t *refs, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
			      source_profiles_fn fn, void *arg, struct err *e)
{
	int rc = 0;
	int now = atomic_fetch_add(&calls_at_work, 1) + 1, most = atomic_load(&most_at_work);
	while (most < now && !atomic_compare_exchange_weak(&most_at_work, &most, now))
		;
	while (!rc && atomic_load(&block)) {
		atomic_store(&blocked, true);
		clock_sleep_ms(1);
		rc = source_limits_check(lim, e);
	}
	for (size_t i = 0; i < n && !rc; i++) {
		assert_true(refs[i] < state_profiles(v));
		size_t n_profiles = 1 + atomic_load(&more_profiles);
		struct source_profile *p = xcalloc(n_profiles, sizeof *p);
		for (size_t k = 0; k < n_profiles; k++)
			p[k] = (struct source_profile){ .t_ms = T0 + (int64_t)k, .duration_ns = 1, .cover_ms = 10000, .interval_ms = 10000, .weight = 1, .total = 100 + (int64_t)refs[i] };
		rc = fn(arg, i, p, n_profiles, e);
	}
	if (lim->damage)
		source_damage_add(lim->damage, after_ms, until_ms);
	else if (!rc)
		rc = err_set(e, ERR_CORRUPT, "an hour is damaged");
	atomic_fetch_sub(&calls_at_work, 1);
	return rc;
}

/* For each part 1,000 in a function of the generation, and 1 in another. */
static int state_merge(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail,
		       const struct source_limits *lim, struct stackvec **ret, struct err *e)
{
	(void)detail, (void)lim;
	int g = ((struct state *)v)->generation;
	for (size_t i = 0; i < n_groups; i++) {
		struct stackacc *a = stackacc_new(words);
		for (size_t k = 0; k < n; k++)
			if (parts[k].group == i) {
				stackacc_add(a, columns[g], 1000);
				stackacc_add(a, columns[0], 1);
			}
		ret[i] = stackacc_finish(a, e);
		stackacc_free(a);
	}
	return 0;
}

static int state_names(struct source_view *v, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, const struct source_limits *lim,
		       struct view **ret, size_t *ret_n, struct err *e)
{
	(void)v, (void)m, (void)n, (void)after_ms, (void)until_ms, (void)lim, (void)e;
	*ret = xcalloc(1, sizeof **ret);
	**ret = VIEW("pod");
	*ret_n = 1;
	return 0;
}

static int state_values(struct source_view *v, struct view name, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
			const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e)
{
	(void)name;
	return state_names(v, m, n, after_ms, until_ms, lim, ret, ret_n, e);
}

static int state_sums(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		      const struct source_limits *lim, double *ret, int64_t *exact, struct err *e)
{
	(void)f, (void)e;
	atomic_store(&seen_max_samples, lim->max_samples);
	for (size_t k = 0; k < n; k++) {
		assert_true(parts[k].group < n_groups);
		ret[parts[k].group] += ((struct state *)v)->generation;
		if (exact)
			exact[parts[k].group] += ((struct state *)v)->generation;
	}
	return 0;
}

static const struct source_ops state_ops = {
	.release = state_release, .select = state_select, .types = state_types, .floats = state_floats, .profiles = state_profile_list, .merge = state_merge,
	.sums = state_sums, .label_names = state_names, .label_values = state_values,
};

static int state_open(struct source *s, struct source_view **ret, struct err *e)
{
	(void)s;
	if (atomic_load(&generation) < 0)
		return err_set(e, ERR_UNAVAILABLE, "the storage is closed");
	struct state *v = NEW(struct state);
	v->base.ops = &state_ops;
	v->generation = atomic_load(&generation);
	atomic_fetch_add(&open_views, 1);
	*ret = &v->base;
	return 0;
}

static struct source source = { state_open };

static struct labels *external(void *arg)
{
	static const struct label region[] = { { { "region", 6 }, { "north", 5 } } };
	(void)arg;
	return labels_dup((struct labels){ region, 1 });
}

static void make_words(void)
{
	words = symbols_new();
	for (int i = 0; i < 10; i++) {
		char name[16];
		snprintf(name, sizeof name, "work %d", i);
		struct sym_function f = { .name = symbols_string(words, view_of(name)) };
		struct sym_line line = { symbols_function(words, &f) + 1, 7, 0 };
		struct sym_location l = { .n_lines = 1, .address = (uint64_t)i };
		uint32_t place = symbols_location(words, &l, &line);
		columns[i] = symbols_column(words, symbols_stack(words, &place, 1), 0);
	}
}

/* ---- an asker ---- */

struct asking {
	struct fleet_answerer *a;
	const char *name;
	struct fleet_dictionary_in *mirror;
	uint64_t view, session;
	struct fleet_answer answer;
	struct fleet_result result;
	struct arena arena;
	size_t bytes; /* of the answer */
	const atomic_bool *canceled;
};

static struct asking asking_new(struct fleet_answerer *a, const char *name)
{
	struct asking x = { .a = a, .name = name, .mirror = fleet_dictionary_in_new(64 << 20) };
	arena_init(&x.arena, 1 << 20);
	return x;
}

static void asking_forget(struct asking *x)
{
	fleet_result_release(&x->result);
	arena_reset(&x->arena);
	x->answer = (struct fleet_answer){ 0 };
}

static void asking_free(struct asking *x)
{
	asking_forget(x);
	fleet_dictionary_in_free(x->mirror);
	arena_free(&x->arena);
}

static int asking_run(struct asking *x, struct view body, const struct fleet_call *call)
{
	struct buf out = { 0 };
	struct err e = { 0 };
	struct fleet_asker asker = { .name = view_of(x->name), .arrived_ns = clock_mono_ns(), .canceled = x->canceled };
	int status = fleet_answerer_run(x->a, body, &asker, &out);
	asking_forget(x);
	x->bytes = out.len;
	if (status == 200) {
		if (fleet_answer_decode(&x->answer, &x->result, buf_view(&out), call, x->mirror, &x->arena, &e))
			fail_msg("%s", e.msg);
		x->view = x->answer.view;
		if (x->answer.session)
			x->session = x->answer.session;
	}
	buf_free(&out);
	return status;
}

/* Asks, with what the asker has. Returns the code of the answer's error. */
static enum err_code asking_send(struct asking *x, struct fleet_question *q)
{
	struct buf body = { 0 };
	q->view = x->view;
	if (q->call.op == FLEET_MERGE)
		fleet_dictionary_in_marks(x->mirror, &q->session, &q->has);
	fleet_question_encode(&body, q);
	assert_int_equal(asking_run(x, buf_view(&body), &q->call), 200);
	buf_free(&body);
	return x->answer.err.code;
}

static enum err_code ask(struct asking *x, enum fleet_op op)
{
	static const uint64_t floats[] = { FLOATS }, profiles[] = { 0, 1 };
	static const struct source_part parts[] = {
		{ .ref = 0, .after_ms = T0, .until_ms = T0 + 1000, .scale = 1 }, { .ref = 1, .after_ms = T0, .until_ms = T0 + 1000, .scale = 1, .group = 1 },
		{ .ref = 1, .after_ms = T0, .until_ms = T0 + 1000, .scale = 1, .group = 1 },
	};
	struct fleet_question q = { .call = { .op = op, .after_ms = T0 - 1, .until_ms = T0 + 60000 } };
	if (op == FLEET_MERGE || op == FLEET_SUMS) {
		q.call.parts = parts;
		q.call.n_parts = 3;
		q.call.n_groups = 2;
		q.call.exact = op == FLEET_SUMS;
	} else if (op == FLEET_FLOATS || op == FLEET_PROFILES) {
		q.call.refs = op == FLEET_FLOATS ? floats : profiles;
		q.call.n_refs = op == FLEET_FLOATS ? 1 : 2;
	}
	return asking_send(x, &q);
}

static int state_setup(void **s)
{
	static struct fleet_answerer_options o = { .source = &source, .labels = external };
	atomic_store(&generation, 1);
	*s = fleet_answerer_new(&o);
	return 0;
}

static int state_teardown(void **s)
{
	fleet_answerer_free(*s);
	assert_int_equal(atomic_load(&open_views), 0);
	return 0;
}

/* ---- tests ---- */

static void assert_merged(const struct asking *x, int g)
{
	assert_int_equal(x->result.n, 2);
	for (size_t i = 0; i < 2; i++) {
		struct err e;
		struct stackvec *v = stackvec_rebase(x->result.vecs[i], words, &e);
		assert_int_equal(v->n, 2);
		assert_int_equal(v->columns[0], columns[0]);
		assert_int_equal(v->columns[1], columns[g]);
		assert_int_equal(v->ints[0], i + 1);
		assert_int_equal(v->ints[1], 1000 * (i + 1));
		stackvec_unref(v);
	}
}

static void assert_state(struct asking *x, int g)
{
	assert_int_equal(ask(x, FLEET_SELECT), 0);
	assert_int_equal(x->result.n, g > 1 ? 4 : 3);
	for (size_t i = 0; i < x->result.n; i++) {
		size_t at = i + 1 == x->result.n ? FLOATS : i;
		assert_true(labels_eq(x->result.series[i].labels, (struct labels){ series_labels[at], 2 }));
		assert_int_equal(x->result.series[i].ref, at);
		assert_int_equal(x->result.series[i].type == NULL, at == FLOATS);
	}
	assert_int_equal(ask(x, FLEET_TYPES), 0);
	assert_int_equal(x->result.types[0].n_series, g > 1 ? 3 : 2);
	assert_int_equal(ask(x, FLEET_FLOATS), 0);
	assert_int_equal(x->result.floats[0].n, 2);
	assert_true(x->result.floats[0].v[1].v == g + 0.5);
	assert_int_equal(x->answer.samples, 2);
	assert_int_equal(ask(x, FLEET_SUMS), 0);
	assert_true(x->result.sums[1] == 2 * g && x->result.exact[1] == 2 * g);
	assert_int_equal(ask(x, FLEET_MERGE), 0);
	assert_merged(x, g);
	assert_int_equal(ask(x, FLEET_LABEL_NAMES), 0);
	assert_true(view_eqs(x->result.names[0], "pod"));
}

/* All calls of a view see the state at its beginning. */
static void test_views_stay(void **s)
{
	struct asking x = asking_new(*s, "user a"), y = asking_new(*s, "user b");
	assert_int_equal(ask(&x, FLEET_OPEN), 0);
	uint64_t token = x.view;
	assert_true(token && x.answer.opened && x.answer.labels.n == 1);
	assert_true(view_eqs(x.answer.labels.v[0].value, "north"));
	atomic_store(&generation, 2);
	assert_state(&x, 1);
	assert_true(x.view == token && !x.answer.opened);
	assert_state(&y, 2);
	assert_true(y.view && y.view != token && y.session && y.session != x.session);
	assert_state(&x, 1);
	assert_int_equal(atomic_load(&open_views), 2);
	assert_int_equal(ask(&x, FLEET_CLOSE), 0);
	assert_true(!x.view);
	assert_int_equal(atomic_load(&open_views), 1);
	x.view = token; /* closing twice is no error; asking is */
	assert_int_equal(ask(&x, FLEET_CLOSE), 0);
	x.view = token;
	assert_int_equal(ask(&x, FLEET_SELECT), ERR_NOT_FOUND);
	assert_true(x.answer.view_lost && !x.view);
	assert_int_equal(ask(&x, FLEET_CLOSE), 0); /* without a view none is opened for it */
	assert_int_equal(atomic_load(&open_views), 1);
	asking_free(&x);
	asking_free(&y);
}

/* Tokens and sessions are their asker's. */
static void test_askers(void **s)
{
	struct asking x = asking_new(*s, "user a"), y = asking_new(*s, "user b");
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	assert_int_equal(ask(&x, FLEET_MERGE), 0);
	y.view = x.view;
	assert_int_equal(ask(&y, FLEET_SELECT), ERR_NOT_FOUND);
	assert_true(y.answer.view_lost);
	y.view = x.view;
	assert_int_equal(ask(&y, FLEET_CLOSE), 0);
	assert_int_equal(ask(&x, FLEET_SELECT), 0); /* it was not closed */
	assert_int_equal(ask(&y, FLEET_SELECT), 0);
	struct fleet_dictionary_in *own = y.mirror;
	y.mirror = x.mirror; /* it says that it has the other one's dictionary */
	assert_int_equal(ask(&y, FLEET_MERGE), 0);
	assert_true(y.session != x.session);
	assert_merged(&y, 1);
	y.mirror = own;
	asking_free(&x);
	asking_free(&y);
}

/* A dictionary is sent once; one that was forgotten on either side is sent anew. */
static void test_sessions(void **s)
{
	struct asking x = asking_new(*s, "user a");
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	assert_int_equal(ask(&x, FLEET_MERGE), 0);
	size_t first = x.bytes;
	uint64_t session = x.session;
	assert_int_equal(ask(&x, FLEET_MERGE), 0);
	assert_true(x.session == session && x.bytes < first);
	size_t without_rows = x.bytes;
	assert_merged(&x, 1);
	/* An asker that claims to have more of it than there is gets vectors without rows; one that claims to have less than an empty one, all rows. */
	const struct source_part part = { .ref = 0, .after_ms = T0, .until_ms = T0 + 1000, .scale = 1 };
	struct fleet_question q = { .call = { .op = FLEET_MERGE, .parts = &part, .n_parts = 1, .n_groups = 1 }, .view = x.view, .session = x.session };
	struct fleet_asker asker = { .name = view_of(x.name), .arrived_ns = clock_mono_ns() };
	for (int fill = 0; fill < 0x100; fill += 0xff) {
		struct buf body = { 0 }, out = { 0 };
		memset(&q.has, fill, sizeof q.has);
		fleet_question_encode(&body, &q);
		assert_int_equal(fleet_answerer_run(*s, buf_view(&body), &asker, &out), 200);
		assert_true(fill ? out.len <= without_rows : out.len > without_rows);
		buf_free(&body);
		buf_free(&out);
	}
	fleet_dictionary_in_free(x.mirror);
	x.mirror = fleet_dictionary_in_new(64 << 20);
	assert_int_equal(ask(&x, FLEET_MERGE), 0);
	assert_true(x.session != session);
	assert_merged(&x, 1);
	for (size_t i = 0; i < 2 * FLEET_SESSIONS_MAX; i++) { /* of another asker: it makes room itself */
		struct asking y = asking_new(*s, "user b");
		assert_int_equal(ask(&y, FLEET_SELECT), 0);
		assert_int_equal(ask(&y, FLEET_MERGE), 0);
		assert_int_equal(ask(&y, FLEET_CLOSE), 0);
		asking_free(&y);
	}
	session = x.session;
	assert_int_equal(ask(&x, FLEET_MERGE), 0);
	assert_true(x.session == session);
	for (size_t i = 0; i < FLEET_SESSIONS_MAX; i++) { /* of many others: they make the server forget this one */
		char name[16];
		snprintf(name, sizeof name, "user %zu", i);
		struct asking y = asking_new(*s, name);
		assert_int_equal(ask(&y, FLEET_SELECT), 0);
		assert_int_equal(ask(&y, FLEET_MERGE), 0);
		assert_int_equal(ask(&y, FLEET_CLOSE), 0);
		asking_free(&y);
	}
	session = x.session;
	assert_int_equal(ask(&x, FLEET_MERGE), 0);
	assert_true(x.session != session);
	assert_merged(&x, 1);
	asking_free(&x);
}

/* The table of sessions by itself: what the largest may take, and all of them. */
static void test_session_memory(void **s)
{
	struct answerer_sessions *t = answerer_sessions_new(1);
	struct answerer_session *x = answerer_sessions_enter(t, 0, 1), *y = answerer_sessions_enter(t, 0, 2);
	uint64_t id = x->id;
	(void)s;
	assert_int_equal(answerer_sessions_count(t), 2); /* in use */
	assert_true(x != y);
	struct err e = { 0 };
	struct buf out = { 0 };
	struct symbols_marks none;
	symbols_marks_start(&none);
	struct stackacc *acc = stackacc_new(words);
	stackacc_add(acc, columns[1], 1);
	struct stackvec *v = stackacc_finish(acc, &e);
	stackacc_free(acc);
	assert_int_equal(fleet_dictionary_put(x->dictionary, &out, (const struct stackvec *const *)&v, 1, SYMBOLS_WHOLE, &none, &e), 0);
	answerer_sessions_leave(t, x);
	x = answerer_sessions_enter(t, id, 1); /* it has more than a quarter of what all may have */
	assert_true(x->id != id);
	assert_int_equal(fleet_dictionary_put(y->dictionary, &out, (const struct stackvec *const *)&v, 1, SYMBOLS_WHOLE, &none, &e), 0);
	id = x->id;
	answerer_sessions_leave(t, x);
	answerer_sessions_leave(t, y); /* too much together: the one that was not used for longer goes */
	assert_int_equal(answerer_sessions_count(t), 1);
	answerer_sessions_free(t);
	stackvec_unref(v);
	buf_free(&out);
}

/* No room: the view that was not asked for the longest goes. */
static void test_eviction(void **s)
{
	struct asking first = asking_new(*s, "user a"), second = asking_new(*s, "user a"), x = asking_new(*s, "user a");
	assert_int_equal(ask(&first, FLEET_OPEN), 0);
	assert_int_equal(ask(&second, FLEET_OPEN), 0);
	clock_sleep_ms(2);
	assert_int_equal(ask(&first, FLEET_SELECT), 0);
	for (size_t i = 0; i < FLEET_VIEWS_MAX - 1; i++) {
		clock_sleep_ms(i < 2 ? 2 : 0);
		x.view = 0;
		assert_int_equal(ask(&x, FLEET_OPEN), 0);
	}
	assert_int_equal(atomic_load(&open_views), FLEET_VIEWS_MAX);
	assert_int_equal(ask(&second, FLEET_SELECT), ERR_NOT_FOUND);
	assert_true(second.answer.view_lost);
	assert_int_equal(ask(&first, FLEET_SELECT), 0);
	/* Another asker's first view makes one of these go, and theirs never makes that one go. */
	struct asking other = asking_new(*s, "user b");
	assert_int_equal(ask(&other, FLEET_OPEN), 0);
	clock_sleep_ms(2);
	for (size_t i = 0; i < 2 * FLEET_VIEWS_MAX; i++) {
		x.view = 0;
		assert_int_equal(ask(&x, FLEET_OPEN), 0);
	}
	assert_int_equal(ask(&other, FLEET_SELECT), 0);
	assert_int_equal(atomic_load(&open_views), FLEET_VIEWS_MAX);
	asking_free(&other);
	asking_free(&first);
	asking_free(&second);
	asking_free(&x);
}

static bool asking_is_lost(struct asking *x, uint64_t token)
{
	x->view = token;
	return ask(x, FLEET_SELECT) == ERR_NOT_FOUND;
}

/* Views that nobody asks for are released by themselves, and old ones although they are asked for. */
static void test_time(void **s)
{
	(void)s;
	struct fleet_answerer *a = fleet_answerer_new(&(struct fleet_answerer_options){ .source = &source, .view_idle_ms = 30 });
	struct asking x = asking_new(a, "user a");
	assert_int_equal(ask(&x, FLEET_OPEN), 0);
	assert_int_equal(x.answer.labels.n, 0);
	assert_true(TEST_WAIT(atomic_load(&open_views) == 0));
	assert_int_equal(ask(&x, FLEET_SELECT), ERR_NOT_FOUND);
	fleet_answerer_free(a);
	a = x.a = fleet_answerer_new(&(struct fleet_answerer_options){ .source = &source, .view_age_ms = 200 });
	int64_t begin = clock_mono_ms();
	assert_int_equal(ask(&x, FLEET_OPEN), 0);
	uint64_t token = x.view;
	assert_true(TEST_WAIT(asking_is_lost(&x, token)));
	assert_true(clock_mono_ms() - begin >= 200);
	assert_true(TEST_WAIT(atomic_load(&open_views) == 0));
	asking_free(&x);
	fleet_answerer_free(a);
}

/* What is wrong with a call is told in its answer; the view stays. */
static void test_errors(void **s)
{
	struct asking x = asking_new(*s, "user a");
	struct fleet_question q = { .call = { .op = FLEET_FLOATS, .after_ms = T0 - 1, .until_ms = T0 + 1000 } };
	assert_int_equal(ask(&x, FLEET_FLOATS), ERR_BAD_DATA); /* nothing was selected yet */
	assert_true(x.view && x.answer.opened);
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	assert_int_equal(ask(&x, FLEET_FLOATS), 0);
	static const uint64_t bad[][1] = { { 0 }, { 1 }, { 4 }, { 100000 }, { UINT64_MAX }, { UINT64_C(1) << 32 } };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) { /* profiles, and what there is not */
		q.call.refs = bad[i];
		q.call.n_refs = 1;
		assert_int_equal(asking_send(&x, &q), ERR_BAD_DATA);
	}
	q.call.op = FLEET_PROFILES;
	for (size_t i = 2; i < ARRAY_LEN(bad); i++) {
		q.call.refs = bad[i];
		assert_int_equal(asking_send(&x, &q), ERR_BAD_DATA);
	}
	q.call.refs = bad[0];
	assert_int_equal(asking_send(&x, &q), 0);
	assert_int_equal(x.answer.damaged.met, 1);
	assert_int_equal(x.answer.damaged.until_ms, T0 + 1000);
	assert_true(x.answer.damaged.from_ms <= T0 && x.answer.damaged.from_ms >= T0 - 1);
	q.strict = true;
	assert_int_equal(asking_send(&x, &q), ERR_CORRUPT);
	q.strict = false;
	q.max_answer = 10; /* not even a head */
	assert_int_equal(asking_send(&x, &q), ERR_LIMIT);
	q.max_answer = 0;
	q.max_bytes = 10;
	assert_int_equal(asking_send(&x, &q), ERR_LIMIT);
	q.max_bytes = 0;
	struct source_part p = { .ref = FLOATS, .after_ms = T0, .until_ms = T0 + 1000, .scale = 1 };
	struct fleet_question merge = { .call = { .op = FLEET_MERGE, .parts = &p, .n_parts = 1, .n_groups = 1 } };
	assert_int_equal(asking_send(&x, &merge), ERR_BAD_DATA);
	p.ref = 0;
	p.scale = __builtin_nan("");
	assert_int_equal(asking_send(&x, &merge), ERR_BAD_DATA);
	atomic_store(&generation, -1);
	x.view = 0;
	assert_int_equal(ask(&x, FLEET_SELECT), ERR_UNAVAILABLE);
	assert_true(!x.view && !x.answer.view_lost);
	asking_free(&x);
}

/* Only calls whose samples are held have the server's limit of samples: the others have that of the question. */
static void test_samples(void **s)
{
	(void)s;
	struct fleet_answerer *a = fleet_answerer_new(&(struct fleet_answerer_options){ .source = &source, .max_samples = 1000 });
	struct asking x = asking_new(a, "user a");
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	assert_int_equal(ask(&x, FLEET_FLOATS), 0);
	assert_int_equal(atomic_load(&seen_max_samples), 1000);
	assert_int_equal(ask(&x, FLEET_SUMS), 0);
	assert_int_equal(atomic_load(&seen_max_samples), 0);
	asking_free(&x);
	fleet_answerer_free(a);
}

/* A source counts on parts of shares that are whole. */
static void test_shares(void **s)
{
	struct asking x = asking_new(*s, "user a");
	struct matcher m = { MATCH_EQ, VIEW("function"), VIEW("main"), NULL };
	struct source_frame_filter f = { .m = &m, .n = 1 };
	struct source_part p = { .ref = 0, .after_ms = T0, .until_ms = T0 + 1000, .scale = 1 };
	struct fleet_question q = { .call = { .op = FLEET_SHARES, .parts = &p, .n_parts = 1, .n_groups = 1, .filter = &f } };
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	assert_int_equal(asking_send(&x, &q), ERR_BAD_DATA);
	assert_non_null(strstr(x.answer.err.msg, "not supported")); /* it comes to the source, which has none */
	p.scale = 2;
	assert_int_equal(asking_send(&x, &q), ERR_BAD_DATA);
	assert_non_null(strstr(x.answer.err.msg, "scaled or weighed"));
	p.scale = 1;
	p.weigh = (struct source_weigh){ 1000, 1, false };
	assert_int_equal(asking_send(&x, &q), ERR_BAD_DATA);
	assert_non_null(strstr(x.answer.err.msg, "scaled or weighed"));
	asking_free(&x);
}

/* ---- memory ---- */

#define ROOM (4u << 20)

struct giving {
	pthread_t thread;
	struct question_held *held;
};

static void *give_later(void *arg)
{
	clock_sleep_ms(20);
	question_held_release(((struct giving *)arg)->held);
	return NULL;
}

/* The budget of all questions: who has much leaves a quarter to others, who begins waits, who has begun does not. */
static void test_question_memory(void **s)
{
	struct question_memory m;
	struct question_held a, b;
	struct err e = { 0 };
	(void)s;
	question_memory_init(&m, ROOM);
	question_held_init(&a, &m);
	question_held_init(&b, &m);
	assert_int_equal(question_held_take(&a, ROOM, &e), -ERR_LIMIT);
	assert_int_equal(question_held_take(&a, ROOM / 16 * 12, &e), 0);
	assert_int_equal(question_held_take(&b, ROOM / 4, &e), -ERR_BUSY);
	assert_non_null(strstr(e.msg, "busy"));
	assert_int_equal(question_held_take(&b, ROOM / 256, &e), 0); /* it is small */
	a.max_bytes = 10;
	assert_int_equal(question_held_list(&b, 10, &e), 0);
	b.max_bytes = 19;
	assert_int_equal(question_held_list(&b, 10, &e), -ERR_LIMIT);
	question_held_release(&b);
	int64_t begin = clock_mono_ns();
	assert_false(question_held_wait(&b, ROOM / 4, begin + 20000000, NULL));
	assert_true(clock_mono_ns() >= begin + 20000000);
	atomic_bool canceled = true;
	assert_false(question_held_wait(&b, ROOM / 4, INT64_MAX, &canceled));
	assert_false(question_held_wait(&b, ROOM, INT64_MAX, NULL)); /* there never is */
	struct giving g = { .held = &a };
	assert_int_equal(pthread_create(&g.thread, NULL, give_later, &g), 0);
	assert_true(question_held_wait(&b, ROOM / 4, INT64_MAX, NULL));
	pthread_join(g.thread, NULL);
	assert_int_equal(budget_used(&m.all), 0);
	question_memory_destroy(&m);
}

static atomic_bool guard_stops;
static atomic_int guarded;

static void *guard_enter(void *arg, const atomic_uint_fast64_t *samples_read, const atomic_bool **ret_stopped)
{
	assert_int_equal(atomic_load(samples_read), 0);
	*ret_stopped = &guard_stops;
	atomic_fetch_add(&guarded, 1);
	return arg;
}

static void guard_leave(void *arg, void *x)
{
	assert_ptr_equal(arg, x);
	atomic_fetch_sub(&guarded, 1);
}

static void *ask_profiles(void *arg)
{
	return (void *)(intptr_t)ask(arg, FLEET_PROFILES);
}

static void test_memory(void **s)
{
	(void)s;
	struct fleet_answerer *a = fleet_answerer_new(&(struct fleet_answerer_options){
		.source = &source, .max_memory_bytes = ROOM, .guard_enter = guard_enter, .guard_leave = guard_leave, .guard_arg = &guarded });
	struct asking x = asking_new(a, "user a");
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	atomic_store(&more_profiles, ROOM / sizeof(struct source_profile)); /* a list that is larger than all that there is */
	assert_int_equal(ask(&x, FLEET_PROFILES), ERR_LIMIT);
	atomic_store(&more_profiles, ROOM / sizeof(struct source_profile) * 2 / 5); /* two lists: more than a question may have of it */
	assert_int_equal(ask(&x, FLEET_PROFILES), ERR_LIMIT);
	atomic_store(&more_profiles, ROOM / sizeof(struct source_profile) / 4); /* two lists, and their answer, which takes less */
	assert_int_equal(ask(&x, FLEET_PROFILES), 0);
	atomic_store(&more_profiles, 0);
	assert_int_equal(ask(&x, FLEET_PROFILES), 0); /* all was given back */
	/* The guard stops what waits in the source. */
	pthread_t t;
	void *code;
	atomic_store(&blocked, false);
	atomic_store(&block, true);
	assert_int_equal(pthread_create(&t, NULL, ask_profiles, &x), 0);
	assert_true(TEST_WAIT(atomic_load(&blocked)));
	assert_int_equal(atomic_load(&guarded), 1);
	atomic_store(&guard_stops, true);
	pthread_join(t, &code);
	assert_int_equal((intptr_t)code, ERR_BUSY);
	atomic_store(&block, false);
	atomic_store(&guard_stops, false);
	assert_int_equal(atomic_load(&guarded), 0);
	asking_free(&x);
	fleet_answerer_free(a);
}

/* A question that is decoded into more than there is room for is answered, with an error. */
static void test_decoded_memory(void **s)
{
	(void)s;
	static uint64_t refs[1 << 15];
	struct fleet_answerer *a = fleet_answerer_new(&(struct fleet_answerer_options){ .source = &source, .max_memory_bytes = 1 << 18 });
	struct asking x = asking_new(a, "user a");
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	struct fleet_question q = { .call = { .op = FLEET_PROFILES, .after_ms = T0 - 1, .until_ms = T0 + 1000, .refs = refs, .n_refs = ARRAY_LEN(refs) }, .left_ms = 1000 };
	enum err_code code = asking_send(&x, &q);
	assert_true(code == ERR_LIMIT || code == ERR_BUSY);
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	asking_free(&x);
	fleet_answerer_free(a);
}

/* What the asker says that it has, below what is built in. */
static void test_marks(void **s)
{
	struct asking x = asking_new(*s, "user a");
	struct fleet_question q = { .call = { .op = FLEET_MERGE }, .session = 1 }, back;
	struct buf body = { 0 };
	struct err e = { 0 };
	struct symbols_marks start;
	symbols_marks_start(&start);
	fleet_question_encode(&body, &q);
	assert_int_equal(fleet_question_decode(&back, buf_view(&body), NULL, &e), 0);
	assert_true(symbols_marks_eq(&back.has, &start));
	fleet_question_release(&back);
	buf_free(&body);
	asking_free(&x);
}

/* A question of few bytes must not ask for an unlimited number of steps. */
static void test_steps(void **s)
{
	(void)s;
	static struct source_part parts[FLEET_PART_STEPS_MAX / FLEET_GROUPS_MAX + 1];
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		parts[i] = (struct source_part){ .ref = i, .after_ms = T0, .until_ms = T0 + 1000, .scale = 1, .n_steps = FLEET_GROUPS_MAX, .step_ms = 1 };
	for (size_t n = ARRAY_LEN(parts) - 1; n <= ARRAY_LEN(parts); n++) {
		struct fleet_question q = { .call = { .op = FLEET_SUMS, .parts = parts, .n_parts = n, .n_groups = FLEET_GROUPS_MAX } }, back;
		struct buf body = { 0 };
		struct err e = { 0 };
		fleet_question_encode(&body, &q);
		assert_int_equal(fleet_question_decode(&back, buf_view(&body), NULL, &e), n == ARRAY_LEN(parts) ? -ERR_BAD_DATA : 0);
		fleet_question_release(&back);
		buf_free(&body);
	}
}

/* Sessions that nobody uses are given up, with what they hold of days. */
static void test_idle_sessions(void **s)
{
	(void)s;
	struct fleet_answerer *a = fleet_answerer_new(&(struct fleet_answerer_options){ .source = &source, .session_idle_ms = 40 });
	struct asking x = asking_new(a, "user a");
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	assert_int_equal(ask(&x, FLEET_MERGE), 0);
	uint64_t session = x.session;
	clock_sleep_ms(300);
	assert_int_equal(ask(&x, FLEET_MERGE), 0);
	assert_true(x.session != session);
	assert_merged(&x, 1);
	asking_free(&x);
	fleet_answerer_free(a);
	struct answerer_sessions *t = answerer_sessions_new(1 << 20);
	struct answerer_session *y = answerer_sessions_enter(t, 0, 1);
	struct buf out = { 0 };
	struct err e = { 0 };
	struct stackacc *acc = stackacc_new(words);
	struct symbols_marks none;
	symbols_marks_start(&none);
	stackacc_add(acc, columns[1], 1);
	struct stackvec *v = stackacc_finish(acc, &e);
	stackacc_free(acc);
	assert_int_equal(fleet_dictionary_put(y->dictionary, &out, (const struct stackvec *const *)&v, 1, SYMBOLS_WHOLE, &none, &e), 0);
	size_t bytes = fleet_dictionary_out_bytes(y->dictionary);
	answerer_sessions_tidy(t, INT64_MAX); /* it is in use, and stays; what it has of `words` does not */
	assert_int_equal(answerer_sessions_count(t), 1);
	assert_true(fleet_dictionary_out_bytes(y->dictionary) < bytes);
	answerer_sessions_leave(t, y);
	answerer_sessions_tidy(t, clock_mono_ms() - 100000);
	assert_int_equal(answerer_sessions_count(t), 1);
	answerer_sessions_tidy(t, INT64_MAX);
	assert_int_equal(answerer_sessions_count(t), 0);
	answerer_sessions_free(t);
	stackvec_unref(v);
	buf_free(&out);
}

/* Time, and a client that leaves: its view is not kept, as nobody knows it. */
static void test_canceled(void **s)
{
	struct asking x = asking_new(*s, "user a");
	static const uint64_t refs[] = { 0 };
	struct fleet_question q = { .call = { .op = FLEET_PROFILES, .until_ms = T0 + 1, .refs = refs, .n_refs = 1 }, .left_ms = 20 };
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	atomic_store(&block, true);
	assert_int_equal(asking_send(&x, &q), ERR_TIMEOUT);
	assert_true(x.view);
	atomic_bool gone = true;
	x.canceled = &gone;
	q.left_ms = 0;
	assert_int_equal(asking_send(&x, &q), ERR_CANCELED);
	assert_true(x.view); /* the asker has it from earlier */
	x.view = 0;
	assert_int_equal(ask(&x, FLEET_SELECT), ERR_CANCELED);
	assert_true(!x.view);
	assert_int_equal(atomic_load(&open_views), 1);
	atomic_store(&block, false);
	asking_free(&x);
}

/* A view that is closed while a question is at work on it stays until that is done. */
static void *ask_blocked(void *arg)
{
	assert_int_equal(ask(arg, FLEET_PROFILES), 0);
	return NULL;
}

static void test_closed_in_use(void **s)
{
	struct asking x = asking_new(*s, "user a"), y = asking_new(*s, "user a");
	pthread_t t;
	assert_int_equal(ask(&x, FLEET_SELECT), 0);
	y.view = x.view;
	atomic_store(&blocked, false);
	atomic_store(&block, true);
	assert_int_equal(pthread_create(&t, NULL, ask_blocked, &y), 0);
	assert_true(TEST_WAIT(atomic_load(&blocked)));
	assert_int_equal(ask(&x, FLEET_CLOSE), 0);
	assert_int_equal(atomic_load(&open_views), 1);
	atomic_store(&block, false);
	pthread_join(t, NULL);
	assert_int_equal(y.result.n, 2);
	assert_int_equal(atomic_load(&open_views), 0);
	asking_free(&x);
	asking_free(&y);
}

/* ---- threads ---- */

#define THREADS 8

struct worker {
	pthread_t thread;
	struct asking x;
};

static void *work(void *arg)
{
	struct asking *x = &((struct worker *)arg)->x;
	for (int i = 0; i < 60; i++) {
		x->view = 0;
		enum err_code code = ask(x, FLEET_SELECT);
		for (int k = 0; k < 4 && !code; k++)
			code = ask(x, k == 1 ? FLEET_FLOATS : k == 2 ? FLEET_PROFILES : FLEET_MERGE);
		if (!code && i % 3)
			code = ask(x, FLEET_CLOSE);
		assert_int_equal(code, 0);
	}
	return NULL;
}

static void test_threads(void **s)
{
	struct worker w[THREADS];
	for (size_t i = 0; i < THREADS; i++) {
		w[i].x = asking_new(*s, i % 2 ? "user a" : "address 10.0.0.1");
		if (i > 3) { /* two askers with one mirror each */
			fleet_dictionary_in_free(w[i].x.mirror);
			w[i].x.mirror = w[i - 4].x.mirror;
		}
	}
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	for (int i = 0; i < 50; i++) {
		atomic_store(&generation, 1 + i % 9);
		clock_sleep_ms(1);
	}
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(w[i].thread, NULL);
	for (size_t i = 0; i < THREADS; i++) {
		if (i > 3)
			w[i].x.mirror = NULL;
		asking_free(&w[i].x);
	}
}

/* ---- strangers ---- */

/* Bytes of all kinds of questions, changed at every place, with a hash that fits (so that all of it is read) and with one that does not. */
static void test_garbage(void **s)
{
	struct asking x = asking_new(*s, "user a");
	static const char *const texts[] = { "", "P", "GET / HTTP/1.1", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_int_equal(asking_run(&x, view_of(texts[i]), NULL), 400);
	assert_int_equal(atomic_load(&open_views), 0);
	uint64_t dice = 1;
	for (int op = FLEET_OPEN; op < FLEET_OPS; op++) {
		struct buf body = { 0 };
		static const uint64_t refs[] = { 0, 1 };
		static const struct source_tiles tiles = { T0, 1000, 3 };
		static const struct source_windows windows = { T0, 1000, 1000, 3 };
		static const struct source_part parts[] = { { .ref = 0, .after_ms = T0, .until_ms = T0 + 1000, .scale = 0.5, .n_steps = 2, .step_ms = 1000 } };
		static const uint32_t first[] = { 0, 1, 2 };
		static const struct source_graph_term terms[] = { { T0, T0 + 1000, 1, 0, 0 }, { T0, T0 + 2000, 0.5, 1, 0 } };
		static const int bits[] = { 60 };
		static const struct source_graph graph = { .readout = { "self(x)", 7 }, .n_steps = 2, .refs = refs, .first = first, .n_refs = 2, .terms = terms,
							   .bits = bits, .n_lanes = 1 };
		struct matcher m = { MATCH_EQ, VIEW("function"), VIEW("main"), NULL };
		struct source_frame_filter f = { .m = &m, .n = 1 };
		struct fleet_question q = { .call = { .op = (enum fleet_op)op, .until_ms = T0, .m = &m, .n_m = 1, .label = VIEW("pod"), .refs = refs, .n_refs = 2,
						      .windows = &windows, .tiles = &tiles, .parts = parts, .n_parts = 1, .n_groups = 2, .filter = &f, .graph = &graph } };
		fleet_question_encode(&body, &q);
		size_t n = body.len - 8; /* without the hash */
		for (int i = 0; i < 2000; i++) {
			struct buf b = { 0 };
			buf_put(&b, body.ptr, n);
			for (int k = i % 3; k >= 0; k--) {
				dice = hash_u64(dice);
				b.ptr[dice % n] = (char)(dice >> 32 & (i & 1 ? 0xff : 0x01 << (dice >> 60 & 7)));
			}
			if (i % 5 == 0)
				b.len = (dice >> 20) % n;
			b.len = MIN(b.len, n);
			uint64_t hash = hash_stable(b.ptr, b.len);
			if (i % 7)
				buf_put(&b, &hash, sizeof hash);
			struct buf out = { 0 };
			struct fleet_asker asker = { .name = VIEW("user a"), .arrived_ns = clock_mono_ns() };
			int status = fleet_answerer_run(*s, buf_view(&b), &asker, &out);
			assert_true((status == 200 || status == 400) && out.len);
			buf_free(&b);
			buf_free(&out);
		}
		buf_free(&body);
	}
	assert_true(atomic_load(&open_views) <= FLEET_VIEWS_MAX);
	asking_free(&x);
}

int main(void)
{
#define WITH_STATE(f) cmocka_unit_test_setup_teardown(f, state_setup, state_teardown)
	const struct CMUnitTest tests[] = {
		WITH_STATE(test_views_stay), WITH_STATE(test_askers), WITH_STATE(test_sessions), cmocka_unit_test(test_session_memory),
		WITH_STATE(test_eviction), WITH_STATE(test_time), WITH_STATE(test_errors), WITH_STATE(test_canceled), WITH_STATE(test_closed_in_use),
		WITH_STATE(test_threads), WITH_STATE(test_garbage),
		WITH_STATE(test_samples), WITH_STATE(test_shares), cmocka_unit_test(test_question_memory), WITH_STATE(test_memory), WITH_STATE(test_decoded_memory),
		WITH_STATE(test_marks), cmocka_unit_test(test_steps), WITH_STATE(test_idle_sessions),
	};
	make_words();
	fleet_answerer_register_metrics();
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	symbols_unref(words);
	metrics_free();
	return failed;
}
