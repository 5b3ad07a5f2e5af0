/* SPDX-License-Identifier: Apache-2.0 */
/* Text metrics through the whole scraper: a server that gives each path its next text, a sink that remembers, and rules. What
 * is stored is written as it would be in a table: `series value@scrape`, where the scrape is the number of its time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/testwait.h"
#include "scraper/internal.h"
#include "scraper/metrics_work.h"
#include "scraper/testkit.h"

#define TRIES 10 /* on a crowded host a scrape may take longer than its interval, which is its time-out */
#define MORE 8 /* texts of one test; the last is given for ever */

/* What the server gives: texts with a T for a time of the past, an F for one a minute ahead, an X for an hour. NULL: 500. */
static struct script {
	const char *texts[MORE], *headers;
	atomic_size_t given;
	int64_t now_ms;
} script;

static void expand(const char *text, struct buf *out)
{
	for (; *text; text++) {
		int64_t ahead = *text == 'T' ? -60000 : *text == 'F' ? 60000 : *text == 'X' ? 3600000 : 0;
		if (ahead)
			buf_printf(out, "%lld", (long long)(script.now_ms + ahead));
		else
			buf_putc(out, *text);
	}
}

static void give(int fd, const char *request, void *arg)
{
	size_t n = atomic_fetch_add(&script.given, 1), last = 0;
	while (last + 1 < MORE && script.texts[last + 1])
		last++;
	const char *text = script.texts[MIN(n, last)];
	if (strcmp(text, "500") == 0) {
		stub_answer(fd, 500, "", "no", 2);
		return;
	}
	struct buf b = { 0 };
	expand(text, &b);
	stub_answer(fd, 200, script.headers ? script.headers : "Content-Type: text/plain; version=0.0.4\r\n", b.ptr ? b.ptr : "", b.len);
	buf_free(&b);
}

struct bench {
	struct fake_sink sink;
	struct stub *stub;
	struct scraper *scraper;
};

static void no_warning(void *arg, const char *text)
{
	fail_msg("%s", text);
}

static void apply(struct bench *b, const char *more)
{
	struct buf text = { 0 };
	struct config_tree *t = NULL;
	struct scraper_config *c = NULL;
	struct err e = { 0 };
	buf_printf(&text, "scrape_configs:\n- job_name: j\n  scrape_interval: 200ms\n  metrics_path: /m\n%s"
			  "  static_configs: [{targets: ['127.0.0.1:%d'], labels: {instance: i}}]\n", more, stub_port(b->stub));
	if (config_parse(&t, buf_view(&text), "test.yml", &e) || scraper_config_parse(&c, t, no_warning, NULL, &e) ||
	    scraper_apply(b->scraper, c, &e))
		fail_msg("%s", e.msg);
	config_free(t);
	scraper_config_unref(c);
	buf_free(&text);
}

static void begin(struct bench *b, size_t memory)
{
	struct err e = { 0 };
	struct scraper_options o = { .decoders = 1, .memory_bytes = memory };
	fake_sink_init(&b->sink);
	atomic_store(&script.given, 0);
	script.now_ms = clock_now_ms();
	b->stub = stub_new(give, NULL);
	if (scraper_new(&b->scraper, &b->sink.sink, &o, &e))
		fail_msg("%s", e.msg);
}

static void end(struct bench *b)
{
	scraper_free(b->scraper);
	stub_free(b->stub);
	fake_sink_free(&b->sink);
}

/* The times of `up`, in order; at most max. */
static size_t scrape_times(const struct fake_sink *s, int64_t *ret, size_t max)
{
	size_t n = 0;
	for (size_t i = 0; i < s->v.n && n < max; i++)
		if (strncmp(s->v.v[i].series, "up{", 3) == 0)
			ret[n++] = s->v.v[i].t_ms;
	return n;
}

static void put_time(struct buf *out, int64_t t_ms, const int64_t *times, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (times[i] == t_ms) {
			buf_printf(out, "@%zu", i);
			return;
		}
	int64_t ahead = t_ms - script.now_ms;
	buf_puts(out, ahead > -100000 && ahead < -50000 ? "@T" : ahead > 30000 && ahead < 90000 ? "@F" : "@?");
	if (ahead % 60000)
		buf_printf(out, "%+lld", (long long)(ahead < 0 ? ahead + 60000 : ahead - 60000));
}

/* Compares with `want` the samples of the first n scrapes, in the order of the batches; only series whose name is a word of `names` ("a b"). A difference
 * fails the test if this is the last try; else it returns false. */
static bool expect(struct bench *b, size_t n, const char *names, const char *want, bool last)
{
	int64_t times[MORE];
	char value[NUM_LEN];
	struct buf out = { 0 };
	assert_true(fake_sink_wait(&b->sink, "up{", n + 1));
	mutex_lock(&b->sink.lock);
	size_t all = scrape_times(&b->sink, times, n + 1);
	size_t scrape = 0;
	for (size_t i = 0; i < b->sink.v.n && scrape < n; i++) {
		const struct kept *k = &b->sink.v.v[i];
		size_t len = strcspn(k->series, "{");
		const char *found = strstr(names, k->series) ? names : memmem(names, strlen(names), k->series, len);
		bool whole = found && (found == names || found[-1] == ' ') && (!found[len] || found[len] == ' ');
		if (whole) {
			buf_printf(&out, "%s%s %s", out.len ? "\n" : "", k->series, k->stale ? "stale" : num_format(k->v, value));
			put_time(&out, k->t_ms, times, all);
		}
		scrape += strncmp(k->series, "scrape_series_added{", 20) == 0; /* the last of a batch */
	}
	mutex_unlock(&b->sink.lock);
	bool as_wanted = strcmp(out.ptr ? out.ptr : "", want) == 0;
	if (!as_wanted && last)
		fail_msg("is:\n%s\nwant:\n%s", out.ptr, want);
	buf_free(&out);
	return as_wanted;
}

static const struct expected_rule {
	const char *what, *more, *texts[MORE], *headers;
	size_t n;
	const char *names, *want;
} rules[] = {
	{ "samples, and what is told of them", "", { "a 1\na{b=\"c\"} 2\n", "a 3\nnew 4\n" }, NULL, 2,
	  "a new up scrape_samples_scraped scrape_samples_post_metric_relabeling scrape_series_added",
	  "a{instance=\"i\", job=\"j\"} 1@0\na{b=\"c\", instance=\"i\", job=\"j\"} 2@0\nup{instance=\"i\", job=\"j\"} 1@0\n"
	  "scrape_samples_scraped{instance=\"i\", job=\"j\"} 2@0\nscrape_samples_post_metric_relabeling{instance=\"i\", job=\"j\"} 2@0\n"
	  "scrape_series_added{instance=\"i\", job=\"j\"} 2@0\n"
	  "a{instance=\"i\", job=\"j\"} 3@1\nnew{instance=\"i\", job=\"j\"} 4@1\na{b=\"c\", instance=\"i\", job=\"j\"} stale@1\n"
	  "up{instance=\"i\", job=\"j\"} 1@1\nscrape_samples_scraped{instance=\"i\", job=\"j\"} 2@1\n"
	  "scrape_samples_post_metric_relabeling{instance=\"i\", job=\"j\"} 2@1\nscrape_series_added{instance=\"i\", job=\"j\"} 1@1" },
	{ "a series that comes back is one more that began", "", { "a 1\nb 1\n", "b 2\n", "a 3\nb 3\n" }, NULL, 3, "a scrape_series_added",
	  "a{instance=\"i\", job=\"j\"} 1@0\nscrape_series_added{instance=\"i\", job=\"j\"} 2@0\na{instance=\"i\", job=\"j\"} stale@1\n"
	  "scrape_series_added{instance=\"i\", job=\"j\"} 0@1\na{instance=\"i\", job=\"j\"} 3@2\nscrape_series_added{instance=\"i\", job=\"j\"} 1@2" },
	{ "a failed scrape is an empty one", "", { "a 1\n", "500", "500", "a 2\n" }, NULL, 4, "a up",
	  "a{instance=\"i\", job=\"j\"} 1@0\nup{instance=\"i\", job=\"j\"} 1@0\na{instance=\"i\", job=\"j\"} stale@1\nup{instance=\"i\", job=\"j\"} 0@1\n"
	  "up{instance=\"i\", job=\"j\"} 0@2\na{instance=\"i\", job=\"j\"} 2@3\nup{instance=\"i\", job=\"j\"} 1@3" },
	{ "a broken body is none, and ends all", "", { "a 1\nb 1\n", "a 2\nb\n", "a 3\n" }, NULL, 3, "a b scrape_samples_scraped",
	  "a{instance=\"i\", job=\"j\"} 1@0\nb{instance=\"i\", job=\"j\"} 1@0\nscrape_samples_scraped{instance=\"i\", job=\"j\"} 2@0\n"
	  "a{instance=\"i\", job=\"j\"} stale@1\nb{instance=\"i\", job=\"j\"} stale@1\nscrape_samples_scraped{instance=\"i\", job=\"j\"} 1@1\n"
	  "a{instance=\"i\", job=\"j\"} 3@2\nscrape_samples_scraped{instance=\"i\", job=\"j\"} 1@2" },
	{ "an empty body is fine", "", { "a 1\n", "", "a 2\n" }, NULL, 2, "a up",
	  "a{instance=\"i\", job=\"j\"} 1@0\nup{instance=\"i\", job=\"j\"} 1@0\na{instance=\"i\", job=\"j\"} stale@1\nup{instance=\"i\", job=\"j\"} 1@1" },
	{ "the target's labels win", "", { "a{job=\"x\",exported_job=\"y\",instance=\"\",z=\"\"} 1\n" }, NULL, 1, "a",
	  "a{exported_exported_job=\"x\", exported_job=\"y\", instance=\"i\", job=\"j\"} 1@0" },
	{ "the text's labels win", "  honor_labels: true\n", { "a{job=\"x\",exported_job=\"y\",instance=\"\"} 1\n" }, NULL, 1, "a",
	  "a{exported_job=\"y\", job=\"x\"} 1@0" },
	{ "times of the text", "", { "a 1 T\nb 1 F\nc 1 X\nd 1\n", "d 2\n" }, NULL, 2, "a b c d",
	  "a{instance=\"i\", job=\"j\"} 1@T\nb{instance=\"i\", job=\"j\"} 1@F\nd{instance=\"i\", job=\"j\"} 1@0\nd{instance=\"i\", job=\"j\"} 2@1" },
	{ "times of the text are not honoured", "  honor_timestamps: false\n", { "a 1 T\n", "b 1\n" }, NULL, 2, "a b",
	  "a{instance=\"i\", job=\"j\"} 1@0\nb{instance=\"i\", job=\"j\"} 1@1\na{instance=\"i\", job=\"j\"} stale@1" },
	{ "series with times end, too", "  track_timestamps_staleness: true\n", { "a 1 T\n", "b 1\n" }, NULL, 2, "a b",
	  "a{instance=\"i\", job=\"j\"} 1@T\nb{instance=\"i\", job=\"j\"} 1@1\na{instance=\"i\", job=\"j\"} stale@1" },
	{ "in order, once", "", { "a 1 T\na 2 F\na 3 T\n", "a 4 T\na 2 F\na 5 F\n" }, NULL, 2, "a scrape_samples_scraped",
	  "a{instance=\"i\", job=\"j\"} 1@T\na{instance=\"i\", job=\"j\"} 2@F\nscrape_samples_scraped{instance=\"i\", job=\"j\"} 3@0\n"
	  "scrape_samples_scraped{instance=\"i\", job=\"j\"} 3@1" },
	{ "of one series twice the first", "", { "a 1\na 2\na{b=\"\"} 3\n" }, NULL, 1, "a", "a{instance=\"i\", job=\"j\"} 1@0" },
	{ "two spellings are one series", "", { "a{b=\"1\",c=\"2\"} 1\n", "a{c=\"2\",b=\"1\"} 2\n" }, NULL, 2, "a",
	  "a{b=\"1\", c=\"2\", instance=\"i\", job=\"j\"} 1@0\na{b=\"1\", c=\"2\", instance=\"i\", job=\"j\"} 2@1" },
	{ "relabelling", "  metric_relabel_configs: [{source_labels: [__name__], regex: d, action: drop}, {source_labels: [l], target_label: __name__, "
			 "regex: (.+), replacement: '${1}_x'}]\n", { "a{l=\"m\"} 1\nd 1\n" }, NULL, 1,
	  "a d m_x scrape_samples_scraped scrape_samples_post_metric_relabeling",
	  "m_x{instance=\"i\", job=\"j\", l=\"m\"} 1@0\nscrape_samples_scraped{instance=\"i\", job=\"j\"} 2@0\n"
	  "scrape_samples_post_metric_relabeling{instance=\"i\", job=\"j\"} 1@0" },
	{ "sample_limit counts what relabelling left", "  sample_limit: 2\n  metric_relabel_configs: [{source_labels: [__name__], regex: d, action: drop}]\n",
	  { "a 1\nb 1\nd 1\n", "a 2\nb 2\nc 2\nd 2\n" }, NULL, 2, "a b c up scrape_samples_post_metric_relabeling",
	  "a{instance=\"i\", job=\"j\"} 1@0\nb{instance=\"i\", job=\"j\"} 1@0\nup{instance=\"i\", job=\"j\"} 1@0\n"
	  "scrape_samples_post_metric_relabeling{instance=\"i\", job=\"j\"} 2@0\n"
	  "a{instance=\"i\", job=\"j\"} stale@1\nb{instance=\"i\", job=\"j\"} stale@1\nup{instance=\"i\", job=\"j\"} 0@1\n"
	  "scrape_samples_post_metric_relabeling{instance=\"i\", job=\"j\"} 3@1" },
	{ "a second value of a series counts for no limit", "  sample_limit: 2\n", { "a 1\na 2\nb 1\n" }, NULL, 1, "a b up",
	  "a{instance=\"i\", job=\"j\"} 1@0\nb{instance=\"i\", job=\"j\"} 1@0\nup{instance=\"i\", job=\"j\"} 1@0" },
	{ "label_limit", "  label_limit: 3\n", { "a 1\n", "a{b=\"c\"} 1\n" }, NULL, 2, "a up",
	  "a{instance=\"i\", job=\"j\"} 1@0\nup{instance=\"i\", job=\"j\"} 1@0\na{instance=\"i\", job=\"j\"} stale@1\nup{instance=\"i\", job=\"j\"} 0@1" },
	{ "label_value_length_limit", "  label_value_length_limit: 5\n", { "a{b=\"12345\"} 1\n", "a{b=\"123456\"} 1\n" }, NULL, 2, "up",
	  "up{instance=\"i\", job=\"j\"} 1@0\nup{instance=\"i\", job=\"j\"} 0@1" },
	{ "a body of body_size_limit is over it", "  body_size_limit: 8B\n", { "a 1\nb 1", "a 1\nb 1\n" }, NULL, 2, "up",
	  "up{instance=\"i\", job=\"j\"} 1@0\nup{instance=\"i\", job=\"j\"} 0@1" },
	{ "no type of the answer", "", { "a 1\n" }, "", 1, "a up", "up{instance=\"i\", job=\"j\"} 0@0" },
	{ "another type of the answer", "", { "a 1\n" }, "Content-Type: text/html\r\n", 1, "a up", "up{instance=\"i\", job=\"j\"} 0@0" },
	{ "a type to fall back on", "  fallback_scrape_protocol: PrometheusText0.0.4\n", { "a 1\n" }, "Content-Type: text/html\r\n", 1, "a up",
	  "a{instance=\"i\", job=\"j\"} 1@0\nup{instance=\"i\", job=\"j\"} 1@0" },
	{ "OpenMetrics is not what was asked for", "  fallback_scrape_protocol: PrometheusText0.0.4\n", { "a 1 1\n# EOF\n" },
	  "Content-Type: application/openmetrics-text; version=1.0.0\r\n", 1, "a up", "up{instance=\"i\", job=\"j\"} 0@0" },
};

static void each_rule(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		struct bench b;
		fprintf(stderr, "%s\n", rules[i].what);
		memcpy(script.texts, rules[i].texts, sizeof script.texts);
		script.headers = rules[i].headers;
		bool as_wanted = false;
		for (int tries = 0; !as_wanted && tries < TRIES; tries++) {
			begin(&b, 0);
			apply(&b, rules[i].more);
			as_wanted = expect(&b, rules[i].n, rules[i].names, rules[i].want, tries + 1 == TRIES);
			end(&b);
		}
	}
}

/* Of a target that was removed all ends, what is told of it too. A reload with other rules ends what they no longer make. */
static void removed(void **state)
{
	struct bench b;
	struct kept k;
	struct err e = { 0 };
	memset(script.texts, 0, sizeof script.texts);
	script.texts[0] = "a 1\nb 2\n";
	script.headers = NULL;
	begin(&b, 0);
	apply(&b, "");
	assert_true(fake_sink_wait(&b.sink, "a{", 2));
	apply(&b, "  metric_relabel_configs: [{source_labels: [__name__], regex: b, replacement: c, target_label: __name__}]\n");
	assert_true(fake_sink_wait(&b.sink, "c{", 2));
	fake_sink_find(&b.sink, "b{", &k);
	assert_true(k.stale);
	fake_sink_find(&b.sink, "a{", &k);
	assert_false(k.stale);
	struct scraper_config *none = scraper_config_new(0);
	assert_int_equal(scraper_apply(b.scraper, none, &e), 0);
	scraper_config_unref(none);
	static const char *const series[] = { "a{", "c{", "up{", "scrape_duration_seconds{", "scrape_samples_scraped{",
					      "scrape_samples_post_metric_relabeling{", "scrape_series_added{" };
	for (size_t i = 0; i < ARRAY_LEN(series); i++) {
		if (!TEST_WAIT((fake_sink_find(&b.sink, series[i], &k), k.stale)))
			fail_msg("%s goes on", series[i]);
	}
	end(&b);
}

/* What was not stored is not taken for stored: a marker comes once more, a time of a text is not out of order. */
static void not_stored(void **state)
{
	struct bench b;
	struct kept k;
	memset(script.texts, 0, sizeof script.texts);
	script.texts[0] = "a 1 T\nb 1\n";
	script.headers = NULL;
	begin(&b, 0);
	atomic_store(&b.sink.lose, ERR_IO);
	apply(&b, "");
	assert_true(TEST_WAIT(stub_requests(b.stub) >= 2));
	atomic_store(&b.sink.lose, 0);
	assert_true(fake_sink_wait(&b.sink, "a{", 1));
	fake_sink_find(&b.sink, "a{", &k);
	assert_int_equal(k.t_ms, script.now_ms - 60000);
	assert_true(fake_sink_wait(&b.sink, "b{", 3));
	assert_int_equal(fake_sink_find(&b.sink, "a{", NULL), 1); /* once it is there, once is enough */
	end(&b);
}

/* The marker of a series that ended in a batch that was lost comes with the next. */
static void end_not_stored(void **state)
{
	struct bench b;
	struct kept k = { .stale = false };
	memset(script.texts, 0, sizeof script.texts);
	script.texts[0] = "a 1\nb 1\n";
	script.texts[1] = "b 2\n";
	script.headers = NULL;
	begin(&b, 0);
	apply(&b, "");
	assert_true(fake_sink_wait(&b.sink, "a{", 1));
	atomic_store(&b.sink.lose, ERR_IO);
	assert_true(TEST_WAIT(stub_requests(b.stub) >= 3));
	atomic_store(&b.sink.lose, 0);
	assert_true(TEST_WAIT((fake_sink_find(&b.sink, "a{", &k), k.stale)));
	end(&b);
}

static void times_of_slots(void **state)
{
	assert_int_equal(metrics_work_snap(10002, 10000, 15000), 10000);
	assert_int_equal(metrics_work_snap(9998, 10000, 15000), 10000);
	assert_int_equal(metrics_work_snap(10003, 10000, 15000), 10003);
	assert_int_equal(metrics_work_snap(9997, 10000, 15000), 9997);
	assert_int_equal(metrics_work_snap(10002, 10000, 100), 10002);
	assert_int_equal(metrics_work_snap(10001, 10000, 100), 10000);
	assert_int_equal(metrics_work_snap(1, 0, 15000), 1);
}

/* The memory of what is remembered is counted, given back, and ends a scrape that would take too much. */
static void memory(void **state)
{
	struct bench b;
	struct buf text = { 0 };
	for (int i = 0; i < 20000; i++)
		buf_printf(&text, "a{n=\"%d\"} 1\n", i);
	memset(script.texts, 0, sizeof script.texts);
	script.texts[0] = text.ptr;
	script.headers = NULL;
	begin(&b, (size_t)64 << 20);
	apply(&b, "");
	assert_true(fake_sink_wait_value(&b.sink, "scrape_samples_scraped{", 20000));
	assert_in_range(budget_used(&b.scraper->memory), 20000 * 100, (size_t)40 << 20);
	end(&b);
	begin(&b, (size_t)2 << 20);
	apply(&b, "");
	assert_true(fake_sink_wait_value(&b.sink, "up{", 0));
	end(&b);
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rule),
		cmocka_unit_test(removed),
		cmocka_unit_test(not_stored),
		cmocka_unit_test(end_not_stored),
		cmocka_unit_test(memory),
		cmocka_unit_test(times_of_slots),
	};
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
