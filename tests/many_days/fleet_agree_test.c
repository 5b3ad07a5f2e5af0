/* SPDX-License-Identifier: Apache-2.0 */
/* Ten servers that have the targets of a fortnight between them, and one that has them all. A thousand questions of all kinds are asked of a union of the ten, over HTTP, and of the
 * one. Their answers are equal byte by byte.
 *
 *	days 0 to 7      a target is scraped by one of three servers
 *	days 8 to 14     by one of four: most targets have moved
 *	servers 4 to 9   have nothing, or what other shares of targets bring
 *
 * Meanwhile hours are sealed, rows deleted, names come late, servers end and start again, and forget what askers have.
 *
 * PYRRHA_SEED=n draws others, PYRRHA_LONG=1 twenty times as many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "fleet/answerer.h"
#include "fleet/server.h"
#include "fleet/union.h"
#include "tests/fleet/listenkit.h"
#include "tests/many_days/agree.h"
#include "tests/many_days/fortnight.h"

#define QUESTIONS 1000
#define SERVERS 10
#define FORGET_EVERY 15

/* A server: a storage, and the HTTP interface that other servers ask. */
struct fleet_member {
	struct fortnight f;
	struct rwlock lock;               /* guards answerer: read by those who answer with it */
	struct fleet_answerer *answerer;  /* NULL: the server is being started again */
	struct listener *listener;
	struct promql_engine *engine;     /* makes rows of graphs */
	struct fleet_server *server;      /* as the querier sees it */
};

struct fleet_test {
	struct fortnight all;
	struct fleet_member members[SERVERS];
	struct fleet_loop *loop;
	struct fetch_client *client;
	struct fleet_union *united;
	struct pool *pool;
	struct agree agree;
};

/* Rows are made by the engine of the server that has them. */
static int member_rows(void *arg, struct source_view *v, const struct source_graph *g, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn, void *fn_arg,
		       struct err *e)
{
	return promql_rows(arg, v, g, lim, ret_fits, fn, fn_arg, e);
}

static bool member_serve(void *arg, int fd, const char *request, struct view body)
{
	struct fleet_member *m = arg;
	const struct fleet_asker asker = { .name = VIEW("test"), .arrived_ns = clock_mono_ns() };
	struct buf out = { 0 };
	(void)request;
	rwlock_read(&m->lock); /* views are closed at any time: nobody waits for that */
	int status = m->answerer ? fleet_answerer_run(m->answerer, body, &asker, &out) : 503;
	rwlock_unlock(&m->lock);
	listener_answer(fd, status == 200 ? "200 OK" : "503 Service Unavailable", FLEET_WIRE_TYPE, buf_view(&out));
	buf_free(&out);
	return true;
}

static void member_start(struct fleet_test *t, struct fleet_member *m)
{
	struct source *s = tsdb_source(m->f.k.db);
	m->engine = promql_engine_new(s, &(struct promql_options){ .subquery_step_ms = HOUR, .pool = t->pool });
	rwlock_write(&m->lock);
	m->answerer = fleet_answerer_new(&(struct fleet_answerer_options){ .source = s, .pool = t->pool, .rows = member_rows, .rows_arg = m->engine });
	rwlock_unlock(&m->lock);
}

static void member_stop(struct fleet_member *m)
{
	rwlock_write(&m->lock);
	fleet_answerer_free(m->answerer);
	m->answerer = NULL;
	rwlock_unlock(&m->lock);
	promql_engine_free(m->engine);
}

static struct fleet_peer **fleet_peers(void *arg, size_t *ret_n)
{
	struct fleet_test *t = arg;
	struct fleet_peer **p = xcalloc(SERVERS, sizeof(struct fleet_peer *));
	for (size_t i = 0; i < SERVERS; i++) {
		p[i] = fleet_server_peer(t->members[i].server);
		p[i]->ref(p[i]);
	}
	*ret_n = SERVERS;
	return p;
}

static void fleet_make(struct fleet_test *t, uint64_t seed)
{
	struct err e = { 0 };
	fortnight_make(&t->all, seed);
	if (fleet_loop_new(&t->loop, &e))
		fail_msg("%s", e.msg);
	t->client = fetch_client_new(NULL, "fleet_agree_test");
	for (unsigned i = 0; i < SERVERS; i++) {
		struct fleet_member *m = &t->members[i];
		char url[80];
		rwlock_init(&m->lock, LOCK_ANY, "server of a fleet");
		fortnight_make_shard(&m->f, seed, &(struct fortnight_shard){ i, 3, 4 });
		member_start(t, m);
		m->listener = listener_new(member_serve, m);
		snprintf(url, sizeof url, "http://127.0.0.1:%d", listener_port(m->listener));
		m->server = fleet_server_new(&(struct fleet_server_options){ .loop = t->loop, .client = t->client, .url = url });
	}
	t->united = fleet_union_new(fleet_peers, t);
}

static void fleet_free(struct fleet_test *t)
{
	fleet_union_free(t->united);
	for (unsigned i = 0; i < SERVERS; i++) {
		struct fleet_peer *p = fleet_server_peer(t->members[i].server);
		p->unref(p);
		listener_free(t->members[i].listener);
		member_stop(&t->members[i]);
		fortnight_free(&t->members[i].f);
		rwlock_destroy(&t->members[i].lock);
	}
	fleet_loop_free(t->loop);
	fetch_client_unref(t->client);
	fortnight_free(&t->all);
}

/* The same is done to the storage that has all and to those that have a share; these end before it and start after it. */
static void fleet_each(struct fleet_test *t, void (*change)(struct fortnight *f))
{
	change(&t->all);
	for (unsigned i = 0; i < SERVERS; i++) {
		member_stop(&t->members[i]);
		change(&t->members[i].f);
		member_start(t, &t->members[i]);
	}
}

static void fleet_compare(struct fleet_test *t, unsigned first, unsigned n)
{
	struct promql_options o = { .subquery_step_ms = HOUR, .pool = t->pool };
	t->agree.one = promql_engine_new(fleet_union_source(t->united), &o);
	t->agree.other = promql_engine_new(tsdb_source(t->all.k.db), &o);
	for (unsigned i = first; i < first + n && t->agree.differ < AGREE_MOST_DIFFERENCES; i++) {
		struct fleet_member *m = &t->members[i % SERVERS];
		if (i % FORGET_EVERY == 0)
			fortnight_forget(&m->f, true);
		if (i % FORGET_EVERY == 5) { /* a restart, in which the asker's views and dictionaries are forgotten */
			member_stop(m);
			kit_reopen(&m->f.k);
			member_start(t, m);
		}
		agree_compare(&t->agree, i);
	}
	promql_engine_free(t->agree.one);
	promql_engine_free(t->agree.other);
}

static void test_ten_servers_and_one(void **state)
{
	const char *seed = getenv("PYRRHA_SEED"), *is_long = getenv("PYRRHA_LONG");
	unsigned n = QUESTIONS * (is_long && *is_long ? 20 : 1);
	struct fleet_test *t = xcalloc(1, sizeof *t);
	(void)state;
	t->agree = (struct agree){ .names = { "ten", "one" }, .state = seed ? strtoull(seed, NULL, 10) : 1 };
	promql_enable(PROMQL_ALL_FEATURES);
	outputs_init(&t->agree.outputs);
	t->pool = pool_new(2, "query");
	fleet_make(t, t->agree.state);
	fleet_compare(t, 0, n * 8 / 20);
	fleet_each(t, fortnight_reopen_small);
	fleet_compare(t, n * 8 / 20, n * 3 / 20);
	fleet_each(t, fortnight_settle);
	fleet_compare(t, n * 11 / 20, n * 3 / 20);
	fleet_each(t, fortnight_change);
	fleet_compare(t, n * 14 / 20, n * 3 / 20);
	fleet_each(t, fortnight_upload);
	fleet_compare(t, n * 17 / 20, n * 3 / 20);
	fleet_free(t);
	outputs_release(&t->agree.outputs);
	pool_free(t->pool);
	agree_print(&t->agree);
	unsigned differ = t->agree.differ, other = t->agree.digits + t->agree.files, nothing = t->agree.errors + t->agree.empty;
	free(t);
	if (differ || other)
		fail_msg("%u answers differ, and %u in last digits or files", differ, other);
	assert_true(nothing * 5 < n); /* most answers must have data: two empty ones are equal in any case */
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_ten_servers_and_one) };
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
