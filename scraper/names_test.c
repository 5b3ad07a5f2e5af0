/* SPDX-License-Identifier: Apache-2.0 */
/* Names of addresses asked of targets: each once, kept, asked again when the process is another one; and nothing fails when
 * there are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/num.h"
#include "base/testwait.h"
#include "model/status.h"
#include "scraper/scraper.h"
#include "scraper/testkit.h"

/* What the target is just now. */
static struct {
	atomic_int asked, heaps; /* requests */
	atomic_int process;      /* which it is */
	atomic_int hang_ms;      /* of the symbol page */
	atomic_bool late;        /* the symbol page knows nothing yet */
	atomic_bool more;        /* a stack that was not there before */
	char last[64];           /* request line of the last symbol page */
} target;

static void give_heap(int fd)
{
	struct buf b = { 0 };
	target.heaps++;
	buf_puts(&b, "heap profile: 1: 100 [ 1: 100] @ heapprofile\n 1: 100 [ 1: 100] @ 0x401001 0x402001\n");
	if (target.more)
		buf_puts(&b, " 1: 100 [ 1: 100] @ 0x403001 0x402001\n");
	buf_printf(&b, "MAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 fc:00 12 /bin/a\n7f%d000-7f%d000 r-xp 00000000 fc:00 13 /lib/b.so\n",
		   target.process, target.process + 1);
	stub_answer(fd, 200, "", b.ptr, b.len);
	buf_free(&b);
}

static void give_contention(int fd)
{
	struct buf b = { 0 };
	int n = ++target.heaps;
	buf_printf(&b, "--- contentionz 1 ---\nsampling period = 1\n  %d %d @ 0x401001 0x402001\n", 100 * n, 1000 + n);
	buf_printf(&b, "--- Memory map: ---\n  00400000-00fcb000: /bin/x\n  7f%d000-7f%d000: /lib/b.so\n", target.process, target.process + 1);
	stub_answer(fd, 200, "", b.ptr, b.len);
	buf_free(&b);
}

static void give_symbols(int fd, const char *request)
{
	struct buf b = { 0 };
	snprintf(target.last, sizeof target.last, "%.*s", (int)strcspn(request, "\r"), request);
	target.asked++;
	if (target.hang_ms)
		clock_sleep_ms(target.hang_ms);
	buf_puts(&b, "num_symbols: 1\n");
	if (!target.late)
		buf_printf(&b, "0x401000 work%d\n0x402000\tmain\nnonsense\n0xffffffffffffffffffff x\n0x999 unasked\n", target.process);
	stub_answer(fd, 200, "", b.ptr, b.len);
	buf_free(&b);
}

static void give(int fd, const char *request, void *arg)
{
	(void)arg;
	bool post = strncmp(request, "POST", 4) == 0, none = strstr(request, "/none/") != NULL;
	target.asked += post && none;
	if (post && none)
		stub_answer(fd, 404, "", "no", 2);
	else if (post)
		give_symbols(fd, request);
	else if (strstr(request, "contention"))
		give_contention(fd);
	else
		give_heap(fd);
}

static int setup(void **state)
{
	struct scraper_bench *b = NEW(struct scraper_bench);
	memset(&target, 0, sizeof target);
	scraper_bench_init(b, give, NULL, &(struct scraper_options){ .decoders = 2 });
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	scraper_bench_release(*state);
	free(*state);
	return 0;
}

static void scrape(struct scraper_bench *b, const char *type)
{
	AUTOFREE char *yaml = xasprintf("scrape_configs:\n- job_name: native\n  scrape_interval: 200ms\n  scrape_timeout: 500ms\n"
			       "  profiling_config: {pprof_config: {memory: {enabled: false}, block: {enabled: false}, mutex: {enabled: false}, "
			       "goroutine: {enabled: false}, process_cpu: {enabled: false}, %s}}\n"
			       "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n", type);
	scraper_bench_apply(b, yaml);
}

static void wait_leaf(struct scraper_bench *b, const char *series, const char *leaf)
{
	struct kept k = { .leaf = "" };
	if (!TEST_WAIT((fake_sink_find(&b->sink, series, &k), strcmp(k.leaf, leaf) == 0)))
		fail_msg("%s has the leaf %s, not %s", series, k.leaf, leaf);
}

static void asked_once(void **state)
{
	struct scraper_bench *b = *state;
	struct kept k;
	scrape(b, "heap: {path: /pprof/heap?x=y}");
	assert_true(fake_sink_wait(&b->sink, "heap:space", 4));
	mutex_lock(&b->sink.lock);
	for (size_t i = 0; i < b->sink.v.n; i++) /* from the first scrape on */
		if (strstr(b->sink.v.v[i].series, "heap:space"))
			assert_string_equal(b->sink.v.v[i].leaf, "work0");
	mutex_unlock(&b->sink.lock);
	assert_int_equal(target.asked, 1);
	assert_string_equal(target.last, "POST /pprof/symbol HTTP/1.1");
	fake_sink_find(&b->sink, "heap:space", &k);
	assert_int_equal(k.total, 100);
	target.more = true; /* only what is new is asked for, and what has no name is not asked for again */
	int before = target.heaps;
	assert_true(TEST_WAIT(target.heaps >= before + 5));
	assert_int_equal(target.asked, 2);
	target.process = 3; /* mappings have moved: it is another process, whose names are others */
	wait_leaf(b, "heap:space", "work3");
}

static bool see(void *arg, const struct status_target *t)
{
	snprintf(arg, 256, "%.*s", VIEW_ARG(t->note));
	return true;
}

static void note_of(struct scraper_bench *b, char *ret, size_t n)
{
	struct status_targets *st = scraper_status(b->scraper);
	assert_true(n >= 256);
	ret[0] = 0;
	st->active(st, &(struct status_query){ 0 }, see, ret);
}

static void no_names_are_no_failure(void **state)
{
	struct scraper_bench *b = *state;
	char note[256] = "";
	scrape(b, "heap: {path: /none/heap}");
	assert_true(fake_sink_wait(&b->sink, "heap:space", 3));
	wait_leaf(b, "heap:space", "0x401000");
	assert_true(fake_sink_wait_value(&b->sink, "profile_up{", 1));
	assert_int_equal(target.asked, 1); /* and then not for a while */
	note_of(b, note, sizeof note);
	assert_non_null(strstr(note, "HTTP status 404"));
}

/* The symbol page hangs: the scrape waits for it, then it is stored without names; others go on. At the end nobody waits. */
static void a_page_that_hangs(void **state)
{
	struct scraper_bench *b = *state;
	target.hang_ms = 4000;
	scrape(b, "heap: {path: /pprof/heap}, other: {path: /none/heap}");
	assert_true(fake_sink_wait(&b->sink, "other:space", 2));
	wait_leaf(b, "heap:space", "0x401000");
	assert_true(fake_sink_wait_value(&b->sink, "up{", 1));
}

static void the_end_does_not_wait(void **state)
{
	struct scraper_bench *b = *state;
	target.hang_ms = 4000;
	scrape(b, "heap: {path: /pprof/heap}");
	assert_true(TEST_WAIT(target.asked));
	int64_t from = clock_mono_ms();
	scraper_stop(b->scraper);
	assert_true(clock_mono_ms() - from < 3600);
	assert_true(fake_sink_find(&b->sink, "heap:space", NULL) > 0); /* what was fetched is stored, without names */
}

/* Stacks are known again by their names where they have some: increases are made before they get them, so that a name that
 * comes late makes no new stack of an old one. */
static void increases(void **state)
{
	struct scraper_bench *b = *state;
	static const char series[] = "lock:contentions:count:contentions:count{";
	target.process = 7;
	target.late = true;
	scrape(b, "lock: {path: /pprof/contention}");
	assert_true(fake_sink_wait(&b->sink, series, 2));
	target.late = false;
	target.process = 8;
	wait_leaf(b, series, "work8");
	mutex_lock(&b->sink.lock);
	for (size_t i = 0; i < b->sink.v.n; i++)
		if (strstr(b->sink.v.v[i].series, series))
			assert_true(b->sink.v.v[i].total < 100);
	mutex_unlock(&b->sink.lock);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(asked_once),
		TEST(no_names_are_no_failure),
		TEST(a_page_that_hangs),
		TEST(the_end_does_not_wait),
		TEST(increases),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
