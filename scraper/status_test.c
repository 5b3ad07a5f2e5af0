/* SPDX-License-Identifier: Apache-2.0 */
/* What the scraper tells the page: rows by page, search and health; dropped ones with their reason; jobs; what rules do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/testwait.h"
#include "scraper/internal.h"
#include "scraper/testkit.h"

#define JOB(name, targets, more) \
	"- job_name: " name "\n  scrape_interval: 1h\n" \
	"  profiling_config: {pprof_config: {process_cpu: {enabled: false}, goroutine: {enabled: false}, block: {enabled: false}," \
	" mutex: {enabled: false}}}\n" more "  static_configs: [{targets: [" targets "]}]\n"

struct bench {
	struct fake_sink sink;
	struct scraper *scraper;
	struct status_targets *st;
};

static void apply(struct bench *b, const char *yaml)
{
	struct config_tree *t = NULL;
	struct scraper_config *c = NULL;
	struct err e = { 0 };
	if (config_parse(&t, view_of(yaml), "test.yml", &e) || scraper_config_parse(&c, t, NULL, NULL, &e) ||
	    scraper_apply(b->scraper, c, &e))
		fail_msg("%s", e.msg);
	config_free(t);
	scraper_config_unref(c);
}

/* What rows say, one per line. */
static bool put_row(void *arg, const struct status_target *t)
{
	buf_printf(arg, "%.*s %.*s\n", VIEW_ARG(t->pool), VIEW_ARG(labels_get(t->labels, VIEW("instance"))));
	return true;
}

static bool put_one(void *arg, const struct status_target *t)
{
	put_row(arg, t);
	return false;
}

static bool put_dropped(void *arg, const struct status_dropped *d)
{
	buf_printf(arg, "%.*s %.*s %.*s: %.*s%s\n", VIEW_ARG(d->pool), VIEW_ARG(labels_get(d->discovered, VIEW("__address__"))),
		   VIEW_ARG(labels_get(d->discovered, VIEW("__param_token"))), VIEW_ARG(d->reason), d->failed ? " (failed)" : "");
	return true;
}

static void put_job(void *arg, const struct status_job *j)
{
	buf_printf(arg, "%.*s %zu targets %zu dropped (%zu rows, %zu failed)", VIEW_ARG(j->pool), j->targets, j->dropped,
		   j->dropped_rows, j->failed);
	for (size_t i = 0; i < j->n_sources; i++)
		buf_printf(arg, " %.*s %zu in %zu%s", VIEW_ARG(j->sources[i].kind), j->sources[i].targets, j->sources[i].groups,
			   j->sources[i].ready ? " ready" : "");
	buf_putc(arg, '\n');
}

static void put_step(void *arg, const struct relabel_rule *r, struct labels after, bool keep)
{
	buf_printf(arg, "%s %s ", relabel_action_text(r->action), keep ? "keeps" : "drops");
	labels_format(after, arg);
	buf_putc(arg, '\n');
}

/* Discovery is read by the loop: waits for the targets to be there. */
static void wait_rows(struct bench *b, size_t n)
{
	struct buf out = { 0 };
	size_t have = 0;
	if (!TEST_WAIT((buf_reset(&out), have = b->st->active(b->st, &(struct status_query){ 0 }, put_row, &out), have == n)))
		assert_int_equal(have, n);
	buf_free(&out);
}

#define EXPECT(call, n_want, text) do { \
	struct buf out_ = { 0 }, *out = &out_; \
	assert_int_equal((call), (n_want)); \
	assert_string_equal(buf_view(out).ptr, (text)); \
	buf_free(out); \
} while (0)
#define ACTIVE(...) b->st->active(b->st, &(struct status_query){ __VA_ARGS__ }, put_row, out)
#define DROPPED(...) b->st->dropped(b->st, &(struct status_query){ __VA_ARGS__ }, put_dropped, out)

static void rows_by_page_and_search(void **state)
{
	struct bench *b = *state;
	apply(b, "scrape_configs:\n" JOB("one", "'127.0.0.1:1', '127.0.0.2:1', '127.0.0.3:1'", "") JOB("two", "'127.0.0.4:1'", ""));
	wait_rows(b, 4);
	EXPECT(ACTIVE(.limit = 2), 4, "one 127.0.0.1:1\none 127.0.0.2:1\n");
	EXPECT(ACTIVE(.limit = 2, .offset = 2), 4, "one 127.0.0.3:1\ntwo 127.0.0.4:1\n");
	EXPECT(ACTIVE(.offset = 9), 4, "");
	EXPECT(ACTIVE(.pool = VIEW("two")), 1, "two 127.0.0.4:1\n");
	EXPECT(ACTIVE(.pool = VIEW("three")), 0, "");
	EXPECT(ACTIVE(.search = VIEW("0.0.3:1")), 1, "one 127.0.0.3:1\n");
	EXPECT(ACTIVE(.search = VIEW("DEBUG/PPROF"), .limit = 1, .offset = 3), 4, "two 127.0.0.4:1\n");
	EXPECT(ACTIVE(.health = HEALTH_BIT(TARGET_UP)), 0, "");
	struct buf one = { 0 };
	b->st->active(b->st, &(struct status_query){ 0 }, put_one, &one);
	assert_string_equal(one.ptr, "one 127.0.0.1:1\n");
	buf_free(&one);
	struct buf jobs = { 0 };
	b->st->jobs(b->st, put_job, &jobs);
	assert_string_equal(jobs.ptr, "one 3 targets 0 dropped (0 rows, 0 failed) static_configs 3 in 1 ready\n"
				       "two 1 targets 0 dropped (0 rows, 0 failed) static_configs 1 in 1 ready\n");
	buf_free(&jobs);
}

/* Whatever order discovery has them in. */
static void rows_by_labels(void **state)
{
	struct bench *b = *state;
	apply(b, "scrape_configs:\n" JOB("one", "'127.0.0.3:1', '127.0.0.1:1', '127.0.0.4:1', '127.0.0.2:1'", "") JOB("a", "'127.0.0.9:1'", ""));
	wait_rows(b, 5);
	EXPECT(ACTIVE(.limit = 3), 5, "one 127.0.0.1:1\none 127.0.0.2:1\none 127.0.0.3:1\n");
	EXPECT(ACTIVE(.offset = 3), 5, "one 127.0.0.4:1\na 127.0.0.9:1\n");
}

#define RULES \
	"  params: {token: [hidden]}\n" \
	"  relabel_configs:\n  - {target_label: a, replacement: b}\n" \
	"  - {source_labels: [__address__], regex: '.*2:1', action: drop}\n" \
	"  - {source_labels: [__address__], regex: '.*3:1', target_label: __address__, replacement: ''}\n"

static void dropped_with_the_reason(void **state)
{
	struct bench *b = *state;
	apply(b, "scrape_configs:\n" JOB("one", "'127.0.0.1:1', '127.0.0.2:1', '127.0.0.3:1'", RULES));
	wait_rows(b, 1);
	EXPECT(DROPPED(.search = VIEW("rule 2")), 1, "one 127.0.0.2:1 <secret>: relabel_configs, rule 2: drop\n");
	EXPECT(DROPPED(.search = VIEW("hidden")), 0, "");
	EXPECT(DROPPED(.search = VIEW("__ADDRESS__"), .offset = 1), 2, "one 127.0.0.3:1 <secret>: the target has no __address__ (failed)\n");
	struct buf jobs = { 0 };
	b->st->jobs(b->st, put_job, &jobs);
	assert_string_equal(jobs.ptr, "one 1 targets 2 dropped (2 rows, 1 failed) static_configs 3 in 1 ready\n");
	buf_free(&jobs);
	EXPECT(DROPPED(.search = VIEW("0.2:1"), .offset = 1), 1, "");
}

static void what_rules_make_of_labels(void **state)
{
	struct bench *b = *state;
	struct label l[] = { { VIEW("__address__"), VIEW("127.0.0.2:1") }, { VIEW("__param_token"), VIEW("hidden") } };
	struct buf out = { 0 };
	struct err e = { 0 };
	apply(b, "scrape_configs:\n" JOB("one", "'127.0.0.1:1'", RULES));
	assert_int_equal(b->st->relabel(b->st, VIEW("one"), (struct labels){ l, 2 }, put_step, &out, &e), 0);
	assert_string_equal(out.ptr, "replace keeps {__address__=\"127.0.0.2:1\", __param_token=\"<secret>\", a=\"b\"}\n"
				     "drop drops {}\nreplace drops {}\n");
	assert_int_equal(b->st->relabel(b->st, VIEW("two"), (struct labels){ l, 2 }, put_step, &out, &e), -ERR_BAD_DATA);
	buf_reset(&out);
	assert_int_equal(b->st->config(b->st, VIEW("one"), &out, &e), 0);
	assert_non_null(strstr(out.ptr, "job_name: one\n"));
	assert_null(strstr(out.ptr, "hidden"));
	buf_free(&out);
}

/* How long the lock is held while all rows are asked for: with PYRRHA_LONG=1 of 10,000 targets, to be read in the output. */
struct prober {
	struct scraper *s;
	atomic_bool end;
	int64_t worst_ns;
};

static void *probe(void *arg)
{
	struct prober *p = arg;
	while (!atomic_load(&p->end)) {
		int64_t from = clock_mono_ns();
		mutex_lock(&p->s->lock);
		mutex_unlock(&p->s->lock);
		p->worst_ns = MAX(p->worst_ns, clock_mono_ns() - from);
		clock_sleep_ms(1);
	}
	return NULL;
}

static void asking_for_all_holds_nobody_up(void **state)
{
	struct bench *b = *state;
	const char *is_long = getenv("PYRRHA_LONG");
	size_t n = is_long && is_long[0] ? 10000 : 300;
	struct buf targets = { 0 }, yaml = { 0 }, out = { 0 };
	for (size_t i = 0; i < n; i++)
		buf_printf(&targets, "%s'127.%zu.%zu.1:1'", i ? "," : "", i / 250, i % 250);
	buf_printf(&yaml, "scrape_configs:\n- job_name: many\n  scrape_interval: 1h\n  static_configs: [{targets: [%s]}]\n", targets.ptr);
	apply(b, yaml.ptr);
	wait_rows(b, 5 * n);
	struct prober p = { .s = b->scraper };
	pthread_t t;
	assert_int_equal(pthread_create(&t, NULL, probe, &p), 0);
	int64_t from = clock_mono_ns();
	assert_int_equal(b->st->active(b->st, &(struct status_query){ .search = VIEW("no such text") }, put_row, &out), 0);
	int64_t searched = clock_mono_ns() - from;
	from = clock_mono_ns();
	assert_int_equal(b->st->active(b->st, &(struct status_query){ .limit = 10 }, put_row, &out), 5 * n);
	int64_t paged = clock_mono_ns() - from;
	atomic_store(&p.end, true);
	pthread_join(t, NULL);
	print_message("%zu rows: searched in %.1f ms, a page in %.1f ms; others waited for at most %.2f ms\n", 5 * n,
		      (double)searched / 1e6, (double)paged / 1e6, (double)p.worst_ns / 1e6);
	buf_free(&targets);
	buf_free(&yaml);
	buf_free(&out);
}

/* Asks for everything while jobs and their targets come and go; under sanitizers that says most. */
struct asker {
	struct bench *b;
	atomic_bool end;
	atomic_size_t rows;
};

static void *ask_all(void *arg)
{
	struct asker *a = arg;
	while (!atomic_load(&a->end)) {
		struct buf out = { 0 };
		size_t n = a->b->st->active(a->b->st, &(struct status_query){ .search = VIEW("127") }, put_row, &out);
		n += a->b->st->dropped(a->b->st, &(struct status_query){ 0 }, put_dropped, &out);
		a->b->st->jobs(a->b->st, put_job, &out);
		atomic_fetch_add(&a->rows, n);
		buf_free(&out);
	}
	return NULL;
}

static void asked_while_jobs_change(void **state)
{
	struct bench *b = *state;
	struct asker a = { .b = b };
	pthread_t t;
	assert_int_equal(pthread_create(&t, NULL, ask_all, &a), 0);
	for (int i = 0; i < 40; i++) {
		apply(b, "scrape_configs:\n" JOB("one", "'127.0.0.1:1', '127.0.0.2:1', '127.0.0.3:1'", RULES) JOB("two", "'127.0.0.4:1'", ""));
		clock_sleep_ms(2);
		apply(b, i % 2 ? "scrape_configs:\n" JOB("one", "'127.0.0.5:1'", "") : "scrape_configs: []\n");
		clock_sleep_ms(2);
	}
	atomic_store(&a.end, true);
	pthread_join(t, NULL);
	assert_true(atomic_load(&a.rows) > 0);
}

static int setup(void **state)
{
	struct bench *b = NEW(struct bench);
	struct scraper_options o = { .decoders = 1 };
	struct err e = { 0 };
	fake_sink_init(&b->sink);
	if (scraper_new(&b->scraper, &b->sink.sink, &o, &e))
		fail_msg("%s", e.msg);
	b->st = scraper_status(b->scraper);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;
	scraper_free(b->scraper);
	fake_sink_free(&b->sink);
	free(b);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rows_by_page_and_search),
		TEST(rows_by_labels),
		TEST(dropped_with_the_reason),
		TEST(what_rules_make_of_labels),
		TEST(asking_for_all_holds_nobody_up),
		TEST(asked_while_jobs_change),
	};
	return cmocka_run_group_tests(tests, scraper_tests_begin, scraper_tests_end);
}
