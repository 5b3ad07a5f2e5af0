/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that are not profile.proto: which are read, what is said of the others, and the limits. That what is read is right is
 * compared with google/pprof in tests/oracle/legacy_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pprof/pprof.h"

static int read_text(struct view text, const struct pprof_limits *lim, struct profile *p, struct err *e)
{
	struct err inner;
	profile_init(p, 0);
	int rc = pprof_decode(text.ptr, text.len, lim, p, e);
	if (!rc && profile_check(p, &inner))
		fail_msg("%s", inner.msg);
	return rc;
}

static void refuse(struct view text, const struct pprof_limits *lim, enum err_code code, const char *words)
{
	struct profile p;
	struct err e = { 0 };
	int rc = read_text(text, lim, &p, &e);
	if (rc != -(int)code || !strstr(e.msg, words))
		fail_msg("%.40s: %d, \"%s\" does not say \"%s\"", text.ptr, rc, e.msg, words);
	assert_int_equal(p.n_samples, 0);
	assert_int_equal(p.arena.used, 0);
	profile_release(&p);
}

static struct profile accept(struct view text, const struct pprof_limits *lim)
{
	struct profile p;
	struct err e = { 0 };
	if (read_text(text, lim, &p, &e))
		fail_msg("%.40s: %s", text.ptr, e.msg);
	assert_int_equal(e.code, 0); /* callers look at it, too */
	return p;
}

static const char *frame(const struct profile *p, uint32_t sample, uint32_t i)
{
	static char name[64];
	const struct profile_location *l = &p->locations[p->stack[p->samples[sample].first_location + i]];
	if (!l->n_lines)
		snprintf(name, sizeof name, "%llx", (unsigned long long)l->address);
	else
		snprintf(name, sizeof name, "%.*s", VIEW_ARG(profile_str(p, p->functions[p->lines[l->first_line].function - 1].name_str)));
	return name;
}

static void test_foreign(void **state)
{
	(void)state;
	static const struct { struct view body; const char *words; } all[] = {
		{ { "FLR\0\0\2\0\1", 8 }, "JFR" },
		{ { "FLR\0\0\2\0\1", 8 }, "async-profiler" },
		{ { "PERFILE2h\0\0\0", 12 }, "perf.data" },
		{ { "go 1.22 trace\0\0\0", 16 }, "execution trace" },
		{ { "goroutine 1 [running]:\nmain.main()\n", 35 }, "debug=2" },
		{ { "# HELP a b\n# TYPE a counter\na 1\n", 31 }, "metrics" },
		{ { "<html><body>no 404", 18 }, "<html>" },
		{ { "{\"$schema\":\"https://www.speedscope.app/\"}", 41 }, "speedscope" },
		{ { "\x28\xb5\x2f\xfd\0\0\0", 7 }, "zstd" },
		{ { "go_goroutines 12\ngo_threads 7\n", 30 }, "go_goroutines 12" },
		{ { "too many requests 3", 19 }, "too many requests 3" },
		{ { "a;b 1\n\1;c 2\n", 12 }, "pprof" },
		{ { "Unknown profile", 15 }, "Unknown profile" },
		{ { "num_symbols: 1\n", 15 }, "/pprof/symbol" },
	};
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		refuse(all[i].body, NULL, ERR_BAD_DATA, all[i].words);
}

static void test_folded(void **state)
{
	(void)state;
	static const struct pprof_folded said = { "wall", "nanoseconds" };
	struct pprof_limits lim = { .folded = &said };
	struct profile p = accept(VIEW("main;work;malloc 12\n\n[t tid=1];main;work 2.6\nmain;work;malloc 3\n"), NULL);
	assert_int_equal(p.n_samples, 3);
	assert_int_equal(p.n_locations, 4);
	assert_int_equal(p.values[0], 12);
	assert_int_equal(p.values[1], 3);
	assert_string_equal(frame(&p, 0, 0), "malloc");
	assert_string_equal(frame(&p, 1, 2), "[t tid=1]");
	assert_true(view_eqs(profile_str(&p, p.sample_types[0].type_str), "samples"));
	profile_release(&p);
	p = accept(VIEW("idle 7"), &lim); /* single frames and nothing at all only if it was asked for */
	assert_int_equal(p.n_samples, 1);
	assert_true(view_eqs(profile_str(&p, p.sample_types[0].type_str), "wall"));
	assert_true(view_eqs(profile_str(&p, p.sample_types[0].unit_str), "nanoseconds"));
	profile_release(&p);
	lim.asked_ns = 5;
	p = accept(VIEW(""), &lim);
	assert_int_equal(p.n_sample_types, 1);
	assert_int_equal(p.duration_ns, 5);
	profile_release(&p);
	refuse(VIEW("mostly idle 7"), NULL, ERR_BAD_DATA, "mostly idle 7");
	refuse(VIEW("a;b 1\na;c\n"), NULL, ERR_BAD_DATA, "line 2");
	refuse(VIEW("a;b 99999999999999999999\n"), NULL, ERR_BAD_DATA, "a;b");
	refuse(VIEW("a;b 1\nc 1e400\n"), NULL, ERR_BAD_DATA, "line 2");
}

static void test_malformed(void **state)
{
	(void)state;
	static const char cut[] = "\0\0\0\0\3\0\0\0\0\0\0\0\x10\x27\0\0\0\0\0\0\1\0\0\0\xff\0\0\0\4\0\0\0";
	static const char huge[] = "\0\0\0\0\3\0\0\0\0\0\0\0\x10\x27\0\0\0\0\0\0\1\0\0\0\xff\xff\xff\xff\4\0\0\0";
	refuse(view_make(cut, sizeof cut - 1), NULL, ERR_BAD_DATA, "cut short");
	refuse(view_make(huge, sizeof huge - 1), NULL, ERR_BAD_DATA, "cut short");
	refuse(VIEW("heap profile: 1: 2 [1: 2] @ other\n"), NULL, ERR_BAD_DATA, "other");
	refuse(VIEW("heap profile: 1: 2 [1: 2] @ heap_v2/5\nx\n"), NULL, ERR_BAD_DATA, "line 2");
	refuse(VIEW("heap profile: 1: 2 [1: 2] @ heap_v2/5\n0: 7 [1: 2] @ 0x1\n"), NULL, ERR_BAD_DATA, "0 objects");
	refuse(VIEW("heap profile: 1: 2 [1: 2] @ heap_v2/5\n-1: -9223372036854775807 [1: 2] @ 0x1\n-1: -9223372036854775808 [1: 2] @ 0x1\n"),
	       NULL, ERR_BAD_DATA, "line");
	refuse(VIEW("--- contentionz 1 ---\nfoo = 3\n"), NULL, ERR_BAD_DATA, "foo");
	refuse(VIEW("--- contentionz 1 ---\n9223372036854775807 9223372036854775807 @ 0x10000000000000000\n"), NULL, ERR_BAD_DATA, "64 bits");
	refuse(VIEW("goroutine profile: total 1\nx\n"), NULL, ERR_BAD_DATA, "line 2");
	refuse(VIEW("--- threadz 1 ---\n--- not a thread\n"), NULL, ERR_BAD_DATA, "Thread");
	refuse(VIEW("--- heapz 1 ---\nformat = java\n 7 1 @ 0x3\n"), NULL, ERR_BAD_DATA, "what its values are");
}

static void test_limits(void **state)
{
	(void)state;
	struct buf b = { 0 };
	const struct { struct pprof_limits lim; const char *words; } all[] = {
		{ { .max_samples = 50 }, "samples" }, { { .max_depth = 50 }, "frames" }, { { .max_locations = 50 }, "locations" },
		{ { .max_bytes = 500 }, "bytes" },
	};
	buf_puts(&b, "goroutine profile: total 1\n");
	for (int i = 0; i < 100; i++) {
		buf_puts(&b, "1 @");
		for (int k = 0; k < 100; k++)
			buf_printf(&b, " 0x%x", k + 1);
		buf_puts(&b, "\n");
	}
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		refuse(buf_view(&b), &all[i].lim, ERR_LIMIT, all[i].words);
	struct buf maps = { 0 }; /* what a line may become by its attributes, and be */
	buf_puts(&maps, "goroutine profile: total 1\n1 @ 0x1\n--- Memory map: ---\na=\n");
	for (int i = 0; i < 40000; i++)
		buf_puts(&maps, "$a");
	refuse(buf_view(&maps), NULL, ERR_LIMIT, "a line is longer than 65536 bytes");
	buf_reset(&maps);
	buf_puts(&maps, "goroutine profile: total 1\n1 @ 0x1\n--- Memory map: ---\n");
	for (int i = 0; i < 17000; i++)
		buf_printf(&maps, "%x-%x: /f%d\n", 0x1000 + 16 * i, 0x1008 + 16 * i, i);
	refuse(buf_view(&maps), NULL, ERR_LIMIT, "more than 16384 mappings");
	buf_free(&maps);
	struct profile p;
	struct err e;
	profile_init(&p, b.len + 4096); /* the arena's own cap */
	assert_int_equal(pprof_decode(b.ptr, b.len, NULL, &p, &e), -ERR_LIMIT);
	profile_release(&p);
	buf_free(&b);
}

static int no_more(void *arg, struct err *e)
{
	return --*(int *)arg < 0 ? err_set(e, ERR_TIMEOUT, "it takes too long") : 0;
}

static void test_go_on(void **state)
{
	(void)state;
	struct buf b = { 0 };
	int turns = 3;
	for (int i = 0; i < 100000; i++)
		buf_puts(&b, "a;b 1\n");
	refuse(buf_view(&b), &(struct pprof_limits){ .go_on = no_more, .go_on_arg = &turns }, ERR_TIMEOUT, "too long");
	buf_free(&b);
}

static void test_gzip(void **state)
{
	(void)state;
	struct buf b = { 0 };
	struct err e;
	assert_int_equal(pprof_gzip(VIEW("threadcreate profile: total 1\n2 @ 0x401001\n"), 0, &b, &e), 0);
	struct profile p = accept(buf_view(&b), NULL);
	assert_int_equal(p.values[0], 2);
	assert_string_equal(frame(&p, 0, 0), "401000");
	assert_int_equal(p.mappings[p.locations[0].mapping - 1].limit, UINT64_MAX);
	profile_release(&p);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_go_on),
		cmocka_unit_test(test_gzip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
