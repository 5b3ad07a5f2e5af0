/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that grow with what the server has, larger than the memory of answers: targets, rules, metadata of as many rows as a test wants. The rows
 * are handed out by stand-ins of the scraper and the rules, which see how much memory is allocated meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <malloc.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/metrics.h"
#include "httpd/testclient.h"
#include "model/rules_status.h"
#include "web/fake_test.h"
#include "web/web.h"

#define MIB ((size_t)1 << 20)
#define ROW 10000             /* bytes of text of a row */
#define REQUESTS 4

static size_t n_rows;         /* of each answer */

/* Requests that hand out rows at a time: the last row waits until all of them have come there, or have ended. */
static struct {
	struct mutex lock;
	pthread_cond_t changed;
	unsigned wanted, there, ended;
	size_t allocated;         /* when all were there */
} gate = { .lock = MUTEX_INIT(LOCK_ANY, "gate"), .changed = PTHREAD_COND_INITIALIZER };

static size_t allocated(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

static void gate_pass(bool ended)
{
	mutex_lock(&gate.lock);
	gate.there += !ended;
	gate.ended += ended;
	if (gate.there + gate.ended == gate.wanted)
		gate.allocated = allocated();
	pthread_cond_broadcast(&gate.changed);
	while (!ended && gate.there + gate.ended < gate.wanted)
		mutex_wait(&gate.lock, &gate.changed);
	mutex_unlock(&gate.lock);
}

/* Row i has a text of its own. Calls put for each; a put that returns false ends it. */
static void each_row(bool (*put)(void *arg, struct view text, const void *how), void *arg, const void *how)
{
	char text[ROW];
	uint64_t x = 1;
	bool more = true;
	for (size_t i = 0; i < n_rows && more; i++) {
		for (size_t k = 0; k < sizeof text; k++) {
			x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
			text[k] = (char)('a' + (x >> 40) % 26);
		}
		more = put(arg, view_make(text, sizeof text), how);
		if (more && i + 1 == n_rows)
			gate_pass(false);
	}
	if (!more)
		gate_pass(true);
}

/* ---- the stand-ins ---- */

struct asked {
	bool (*target)(void *arg, const struct status_target *t);
	bool (*dropped)(void *arg, const struct status_dropped *d);
	const struct status_metadata_query *metadata;
	const struct status_rules_query *rules;
};

static bool put_target(void *arg, struct view text, const void *how)
{
	const struct asked *a = how;
	return a->target(arg, &(struct status_target){ .pool = VIEW("shop"), .last_error = text });
}

static size_t active(struct status_targets *s, const struct status_query *q, bool (*row)(void *arg, const struct status_target *t), void *arg)
{
	(void)s;
	(void)q;
	each_row(put_target, arg, &(struct asked){ .target = row });
	return n_rows;
}

static bool put_dropped(void *arg, struct view text, const void *how)
{
	const struct asked *a = how;
	return a->dropped(arg, &(struct status_dropped){ .pool = VIEW("shop"), .reason = text });
}

static size_t dropped(struct status_targets *s, const struct status_query *q, bool (*row)(void *arg, const struct status_dropped *d), void *arg)
{
	(void)s;
	(void)q;
	each_row(put_dropped, arg, &(struct asked){ .dropped = row });
	return n_rows;
}

static void jobs(struct status_targets *s, void (*job)(void *arg, const struct status_job *j), void *arg)
{
	(void)s;
	(void)job;
	(void)arg;
}

static bool put_family(void *arg, struct view text, const void *how)
{
	const struct asked *a = how;
	return a->metadata->family(arg, &(struct status_family){ VIEW("requests_total"), VIEW("counter"), text });
}

static void metadata(struct status_targets *s, const struct status_metadata_query *q)
{
	(void)s;
	if (!q->target || q->target(q->arg, (struct labels){ 0 }) > 0)
		each_row(put_family, q->arg, &(struct asked){ .metadata = q });
}

static struct status_targets targets = { .active = active, .dropped = dropped, .jobs = jobs, .metadata = metadata };

/* Each row is a group with one alert; the copy that the rules make of it is announced. */
static bool put_group(void *arg, struct view text, const void *how)
{
	const struct asked *a = how;
	struct label note = { VIEW("summary"), text };
	const struct status_alert alert = { .annotations = { &note, 1 }, .state = ALERT_FIRING };
	const struct status_rule rule = { .alerting = true, .name = VIEW("A"), .query = VIEW("x"), .state = ALERT_FIRING, .alerts = &alert, .n_alerts = 1 };
	const struct status_rule_group g = { .name = VIEW("g"), .file = VIEW("a.yml"), .rules = &rule, .n_rules = 1 };
	return a->rules->room(arg, text.len) && a->rules->group(arg, &g);
}

static void groups(struct status_rules *s, const struct status_rules_query *q)
{
	(void)s;
	each_row(put_group, q->arg, &(struct asked){ .rules = q });
}

static struct status_rules rules = { groups };

/* A group whose alerts take `rules_copy` bytes while they are shown. */
static size_t rules_copy;

static void large_group(struct status_rules *s, const struct status_rules_query *q)
{
	(void)s;
	if (q->room(q->arg, rules_copy))
		q->group(q->arg, &(struct status_rule_group){ .name = VIEW("g"), .file = VIEW("a.yml") });
}

static struct status_rules large_rules = { large_group };

/* ---- the server ---- */

static char *config_text(void *arg)
{
	(void)arg;
	char *text = xmalloc(3 * MIB + 1);
	memset(text, '#', 3 * MIB);
	text[3 * MIB] = 0;
	return text;
}

static struct web *start(size_t answer_bytes, const char *spool_dir)
{
	static const char *const listen[] = { "127.0.0.1:0" };
	const struct web_options o = { .listen = listen, .n_listen = 1, .query_timeout_ms = 120000, .answer_bytes = answer_bytes, .spool_dir = spool_dir,
				       .config_text = config_text };
	struct web *w;
	struct err e;
	assert_int_equal(web_start(&w, &o, &e), 0);
	web_set_parts(w, (struct promql_engine *)&w /* never looked into */, &fake_source, &targets);
	web_set_rules(w, &rules);
	web_set_ready(w, true);
	return w;
}

static void stop(struct web *w)
{
	web_stop(w, 0);
	metrics_free();
}

static void gate_open(unsigned requests, size_t rows)
{
	gate.wanted = requests;
	gate.there = gate.ended = 0;
	gate.allocated = 0;
	n_rows = rows;
}

/* The answer is JSON; whether it has the warning that rows are missing. */
static bool is_cut(const struct answer *a)
{
	json_t *j = json_loadb(a->body, a->n_body, 0, NULL);
	assert_non_null(j);
	bool cut = json_array_size(json_object_get(j, "warnings")) == 1;
	json_decref(j);
	return cut;
}

static const char *const paths[] = { "/api/v1/targets?state=active", "/api/v1/targets?state=dropped", "/api/v1/targets/metadata", "/api/v1/rules",
				     "/api/v1/alerts" };

/* An answer of 24 MB, and 4 MiB for all answers: it is a file while it is written. */
static void test_large(void **state)
{
	(void)state;
	struct web *w = start(4 * MIB, ".");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		size_t before = allocated();
		gate_open(1, 2400);
		struct answer a = test_get(web_address(w, 0), paths[i]);
		assert_int_equal(a.status, 200);
		assert_true(a.n_body > 2400 * ROW);
		assert_false(is_cut(&a));
		answer_free(&a);
		if (gate.allocated > before + 12 * MIB)
			fail_msg("%s: %zu MiB", paths[i], (gate.allocated - before) / MIB);
	}
	stop(w);
}

/* An answer of more than 64 MiB ends there, and says so. */
static void test_end(void **state)
{
	(void)state;
	struct web *w = start(4 * MIB, ".");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		gate_open(1, 8000);
		struct answer a = test_get(web_address(w, 0), paths[i]);
		assert_int_equal(a.status, 200);
		assert_true(a.n_body >= 64 * MIB && a.n_body < 65 * MIB);
		assert_true(is_cut(&a));
		answer_free(&a);
	}
	stop(w);
}

/* Where there are no files, what does not fit is an error. */
static void test_no_files(void **state)
{
	(void)state;
	struct web *w = start(4 * MIB, NULL);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		gate_open(1, 2400);
		struct answer a = test_get(web_address(w, 0), paths[i]);
		assert_int_equal(a.status, 422);
		assert_non_null(strstr(a.body, "all answers together may have 4.0MiB: ask for less"));
		answer_free(&a);
		gate_open(1, 150);
		a = test_get(web_address(w, 0), paths[i]);
		assert_int_equal(a.status, 200);
		assert_false(is_cut(&a));
		answer_free(&a);
	}
	stop(w);
}

/* Metadata of all targets is sorted in memory, in half of what answers have. */
static void test_metadata(void **state)
{
	(void)state;
	struct web *w = start(8 * MIB, ".");
	gate_open(1, 300);
	struct answer a = test_get(web_address(w, 0), "/api/v1/metadata");
	assert_int_equal(a.status, 200);
	assert_false(is_cut(&a));
	answer_free(&a);
	gate_open(1, 2400);
	a = test_get(web_address(w, 0), "/api/v1/metadata");
	assert_int_equal(a.status, 200);
	assert_true(a.n_body < 4 * MIB && is_cut(&a));
	answer_free(&a);
	stop(w);
}

/* What the rules copy, and a text that is a single row, are announced too. */
static void test_beside(void **state)
{
	(void)state;
	struct web *w = start(8 * MIB, ".");
	web_set_rules(w, &large_rules);
	for (size_t i = 0; i < 2; i++) {
		rules_copy = i ? 9 * MIB : 7 * MIB;
		struct answer a = test_get(web_address(w, 0), "/api/v1/alerts");
		assert_int_equal(a.status, i ? 422 : 200);
		answer_free(&a);
	}
	struct answer a = test_get(web_address(w, 0), "/api/v1/status/config");
	assert_int_equal(a.status, 422);
	answer_free(&a);
	stop(w);
	w = start(16 * MIB, ".");
	a = test_get(web_address(w, 0), "/api/v1/status/config");
	assert_int_equal(a.status, 200);
	assert_true(a.n_body > 3 * MIB);
	answer_free(&a);
	stop(w);
}

struct client {
	pthread_t thread;
	const char *address, *path;
	struct answer answer;
};

static void *client_run(void *arg)
{
	struct client *c = arg;
	c->answer = test_get(c->address, c->path);
	return NULL;
}

/* Several at a time share what there is: with files all of them are complete, without some are told to try again. */
static void several(const char *spool_dir, const char *path, size_t rows)
{
	struct web *w = start(8 * MIB, spool_dir);
	struct client clients[REQUESTS];
	size_t before = allocated();
	unsigned good = 0, busy = 0;
	gate_open(REQUESTS, rows);
	for (size_t i = 0; i < REQUESTS; i++) {
		clients[i] = (struct client){ .address = web_address(w, 0), .path = path };
		assert_int_equal(pthread_create(&clients[i].thread, NULL, client_run, &clients[i]), 0);
	}
	for (size_t i = 0; i < REQUESTS; i++) {
		pthread_join(clients[i].thread, NULL);
		good += clients[i].answer.status == 200 && clients[i].answer.n_body > rows * ROW;
		busy += clients[i].answer.status == 503 && strstr(clients[i].answer.body, "try again") && test_header(&clients[i].answer, "Retry-After");
		answer_free(&clients[i].answer);
	}
	assert_int_equal(good + busy, REQUESTS);
	if (spool_dir)
		assert_int_equal(good, REQUESTS);
	else
		assert_in_range(busy, 1, REQUESTS);
	if (gate.allocated > before + 20 * MIB)
		fail_msg("%s: %zu MiB", path, (gate.allocated - before) / MIB);
	gate_open(1, rows); /* the memory of the earlier answers is no longer counted */
	struct answer a = test_get(web_address(w, 0), path);
	assert_int_equal(a.status, 200);
	answer_free(&a);
	stop(w);
}

static void test_several(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		several(".", paths[i], 1200);
		several(NULL, paths[i], 350);
	}
	several(NULL, "/api/v1/metadata", 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large), cmocka_unit_test(test_end), cmocka_unit_test(test_no_files), cmocka_unit_test(test_metadata),
		cmocka_unit_test(test_beside), cmocka_unit_test(test_several),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
