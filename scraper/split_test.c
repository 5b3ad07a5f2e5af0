/* SPDX-License-Identifier: Apache-2.0 */
/* One pull of a host becomes a series per container and process name: names, sums, idle series, labels that win. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/testwait.h"
#include "pprof/pprof.h"
#include "scraper/scraper.h"
#include "scraper/testkit.h"

static atomic_bool quiet; /* the second process uses no CPU */

/* Appends a label to the profile, whose arrays lie in its arena and have room for the test's few. */
static void add_label(struct profile *p, uint32_t sample, const char *key, const char *value)
{
	struct profile_sample *s = &p->samples[sample];
	p->strings[p->n_strings] = view_of(key);
	p->strings[p->n_strings + 1] = view_of(value);
	if (!s->n_labels)
		s->first_label = p->n_labels;
	p->labels[p->n_labels++] = (struct profile_label){ .key_str = p->n_strings, .str = p->n_strings + 1 };
	p->n_strings += 2;
	s->n_labels++;
}

static void give_host(int fd, const char *request, void *arg)
{
	struct buf raw = { 0 }, out = { 0 };
	struct profile p;
	struct err e;
	bool both = !quiet;
	if (strstr(request, "/debug/pprof/offcpu")) { /* an agent that does not profile waits */
		stub_answer(fd, 404, "", NULL, 0);
		return;
	}
	int64_t v[] = { 1, 100, 2, 200, 4, 400 }, now = clock_now_ns();
	make_profile(&raw, "samples/count cpu/nanoseconds", "cpu/nanoseconds", v, both ? 3 : 2, now - 1000000, 1000000);
	profile_init(&p, 0);
	if (pprof_decode(raw.ptr, raw.len, NULL, &p, &e) == 0) {
		struct view *strings = arena_calloc(&p.arena, p.n_strings + 64, sizeof *strings);
		memcpy(strings, p.strings, p.n_strings * sizeof *strings);
		p.strings = strings;
		p.labels = arena_calloc(&p.arena, 64, sizeof *p.labels);
		for (uint32_t i = 0; i < p.n_samples; i++) {
			add_label(&p, i, "pid", i ? "2" : "1");
			add_label(&p, i, "comm", i < 2 ? "web" : "db");
			if (i < 2)
				add_label(&p, i, "container", "shop");
			add_label(&p, i, "team", "blue");
			add_label(&p, i, "__name__", "other");
		}
		uint32_t *comments = arena_calloc(&p.arena, 1, sizeof *comments);
		p.strings[p.n_strings] = VIEW("pyrrha: series  team __name__ absent");
		comments[0] = p.n_strings++;
		p.comments = comments;
		p.n_comments = 1;
		assert_int_equal(pprof_encode_gz(&p, &out, &e), 0);
	}
	stub_answer(fd, 200, "", out.ptr, out.len);
	profile_release(&p);
	buf_free(&raw);
	buf_free(&out);
}

#define MANY 1100
static atomic_bool later; /* what was much is little */

/* A host with more processes than a pull may make series of. */
static void give_many(int fd, const char *request, void *arg)
{
	static int64_t v[2 * MANY];
	static char names[MANY][16];
	struct buf raw = { 0 }, out = { 0 };
	struct profile p;
	struct err e;
	if (strstr(request, "/debug/pprof/offcpu")) {
		stub_answer(fd, 404, "", NULL, 0);
		return;
	}
	for (uint32_t i = 0; i < MANY; i++) {
		v[2 * i] = 1;
		v[2 * i + 1] = i < 1000 ? 10 : later ? 1 : 1000;
		snprintf(names[i], sizeof names[i], "p%u", i);
	}
	make_profile(&raw, "samples/count cpu/nanoseconds", "cpu/nanoseconds", v, MANY, clock_now_ns() - 1000000, 1000000);
	profile_init(&p, 0);
	if (pprof_decode(raw.ptr, raw.len, NULL, &p, &e) == 0) {
		struct view *strings = arena_calloc(&p.arena, p.n_strings + 2 * MANY, sizeof *strings);
		memcpy(strings, p.strings, p.n_strings * sizeof *strings);
		p.strings = strings;
		p.labels = arena_calloc(&p.arena, MANY, sizeof *p.labels);
		for (uint32_t i = 0; i < MANY; i++)
			add_label(&p, i, "comm", names[i]);
		assert_int_equal(pprof_encode_gz(&p, &out, &e), 0);
	}
	stub_answer(fd, 200, "", out.ptr, out.len);
	profile_release(&p);
	buf_free(&raw);
	buf_free(&out);
}

static struct scraper_config *parse(const char *text)
{
	struct config_tree *t;
	struct scraper_config *c;
	struct err e;
	if (config_parse(&t, view_of(text), "test.yml", &e) || scraper_config_parse(&c, t, NULL, NULL, &e))
		fail_msg("%s", e.msg);
	config_free(t);
	return c;
}

static void test_split(void **state)
{
	struct fake_sink sink;
	struct scraper *s;
	struct err e;
	struct kept k;
	char text[512];
	fake_sink_init(&sink);
	struct stub *stub = stub_new(give_host, NULL);
	snprintf(text, sizeof text, "scrape_configs:\n- job_name: agent\n  scrape_interval: 200ms\n  profiling_config:\n"
		 "    preset: agent\n    pprof_config: {on_cpu: {delta: false, kind: delta}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:%d'], labels: {container: target, node: n1, rack: r1}}]\n", stub_port(stub));
	struct scraper_config *c = parse(text);
	assert_int_equal(scraper_new(&s, &sink.sink, &(struct scraper_options){ .decoders = 1 }, &e), 0);
	assert_int_equal(scraper_apply(s, c, &e), 0);
	scraper_config_unref(c);

	const char *web = "on_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{comm=\"web\", container=\"shop\", "
			  "instance=\"127.0.0.1", *db = "on_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{comm=\"db\", instance=";
	assert_true(fake_sink_wait(&sink, web, 2));
	fake_sink_find(&sink, web, &k);
	assert_int_equal(k.total, 300);
	assert_non_null(strstr(k.series, "rack=\"r1\""));
	assert_null(strstr(k.series, "pid="));
	/* What the profile names itself, and nothing that could change what it is. */
	assert_non_null(strstr(k.series, "team=\"blue\""));
	assert_null(strstr(k.series, "other"));
	fake_sink_find(&sink, db, &k);
	assert_int_equal(k.total, 400);
	assert_null(strstr(k.series, "container")); /* it is in none; the target's own is the agent's */
	assert_non_null(strstr(k.series, "node=\"n1\", rack=\"r1\""));
	fake_sink_find(&sink, "on_cpu:samples:count:cpu:nanoseconds:delta{comm=\"db\"", &k);
	assert_int_equal(k.total, 4);
	/* The agent does not profile waits: nothing is told of that type. */
	snprintf(text, sizeof text, "up{container=\"target\", instance=\"127.0.0.1:%d\", job=\"agent\", node=\"n1\", rack", stub_port(stub));
	assert_true(fake_sink_wait_value(&sink, text, 1));

	assert_int_equal(fake_sink_find(&sink, "profile=\"off_cpu\"", &k), 0);

	/* A process that used no CPU reads 0, not absent. */
	quiet = true;
	assert_true(TEST_WAIT((fake_sink_find(&sink, db, &k), k.total == 0)));
	assert_false(k.stale);
	scraper_free(s);
	stub_free(stub);
	fake_sink_free(&sink);
}

/* A job that does not honour the samples' labels: the target's stay what they are. */
static void test_exported(void **state)
{
	struct fake_sink sink;
	struct scraper *s;
	struct err e;
	struct kept k;
	char text[512];
	quiet = false;
	fake_sink_init(&sink);
	struct stub *stub = stub_new(give_host, NULL);
	snprintf(text, sizeof text, "scrape_configs:\n- job_name: agent\n  scrape_interval: 200ms\n  honor_labels: false\n"
		 "  profiling_config:\n    preset: agent\n    series_labels: [container, comm]\n"
		 "    pprof_config: {on_cpu: {delta: false, kind: delta}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:%d'], labels: {container: target, exported_container: too}}]\n",
		 stub_port(stub));
	struct scraper_config *c = parse(text);
	assert_int_equal(scraper_new(&s, &sink.sink, &(struct scraper_options){ .decoders = 1 }, &e), 0);
	assert_int_equal(scraper_apply(s, c, &e), 0);
	scraper_config_unref(c);
	const char *web = "on_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{comm=\"web\", container=\"target\", "
			  "exported_container=\"too\", exported_exported_container=\"shop\", instance=";
	assert_true(fake_sink_wait(&sink, web, 1));
	fake_sink_find(&sink, web, &k);
	assert_int_equal(k.total, 300);
	assert_null(strstr(k.series, "team="));
	scraper_free(s);
	stub_free(stub);
	fake_sink_free(&sink);
}

/* Above 1,000 series per pull the smallest are one series, and counted; nothing is lost. Which they are does not change with
 * each pull: a series that is there stays. */
static void test_too_many(void **state)
{
	struct fake_sink sink;
	struct scraper *s;
	struct err e;
	struct kept k;
	char text[512];
	fake_sink_init(&sink);
	scraper_register_metrics();
	struct stub *stub = stub_new(give_many, NULL);
	snprintf(text, sizeof text, "scrape_configs:\n- job_name: agent\n  scrape_interval: 2s\n  profiling_config:\n"
		 "    preset: agent\n    pprof_config: {on_cpu: {delta: false, kind: delta}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:%d']}]\n", stub_port(stub));
	struct scraper_config *c = parse(text);
	assert_int_equal(scraper_new(&s, &sink.sink, &(struct scraper_options){ .decoders = 1 }, &e), 0);
	assert_int_equal(scraper_apply(s, c, &e), 0);
	scraper_config_unref(c);
	const char *other = "on_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{comm=\"(other)\"";
	assert_true(fake_sink_wait(&sink, other, 1)); /* a scrape begins anywhere in its first interval */
	fake_sink_find(&sink, other, &k);
	assert_int_equal(k.total, 10 * (MANY - 1000));
	assert_int_equal(fake_sink_find(&sink, "on_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{", NULL) % 1001, 0); /* of each pull */
	const char *large = "on_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{comm=\"p1099\"";
	fake_sink_find(&sink, large, &k);
	assert_int_equal(k.total, 1000);
	struct buf b = { 0 };
	metrics_render(&b);
	assert_non_null(strstr(b.ptr, "pyrrha_target_scrapes_split_other_total "));
	assert_null(strstr(b.ptr, "pyrrha_target_scrapes_split_other_total 0\n"));
	buf_free(&b);
	later = true;
	assert_true(TEST_WAIT((fake_sink_find(&sink, large, &k), k.total == 1)));
	fake_sink_find(&sink, other, &k);
	assert_int_equal(k.total, 10 * (MANY - 1000));
	assert_int_equal(fake_sink_find(&sink, "on_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{", NULL) % 1001, 0); /* of each pull */
	scraper_free(s);
	stub_free(stub);
	fake_sink_free(&sink);
	metrics_free();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_split), cmocka_unit_test(test_exported), cmocka_unit_test(test_too_many) };
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
