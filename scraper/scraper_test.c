/* SPDX-License-Identifier: Apache-2.0 */
/* The scraper against a real HTTP server that serves well, hangs, fails, lies and bombs, into a sink that remembers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/testwait.h"
#include "pprof/pprof.h"
#include "scraper/scraper.h"
#include "scraper/testkit.h"

/* What the server gives. The heap grows by 5 objects of 100 bytes with each request. */
struct world {
	struct mutex lock;
	atomic_int heaps;
	atomic_int status;     /* of heap; 0 = 200 */
	atomic_bool restarted;
	char last[256];   /* request line of the last cpu */
};

static struct world world = { .lock = MUTEX_INIT(LOCK_ANY, "test world") };

static void give_heap(int fd)
{
	struct buf b = { 0 };
	int64_t n = ++world.heaps;
	int status = world.status;
	bool restarted = world.restarted;
	int64_t base = restarted ? 0 : 1000;
	int64_t v[] = { base + 5 * n, 100 * (base + 5 * n), 7, 700, 3, 300, 1, 100 };
	make_profile(&b, "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes", "space/bytes", v, 2,
		     clock_now_ns(), 0);
	if (status)
		stub_answer(fd, status, "", "no heap\ntoday", 13);
	else
		stub_answer(fd, 200, "", b.ptr, b.len);
	buf_free(&b);
}

static void give_cpu(int fd, const char *request)
{
	struct buf b = { 0 };
	const char *seconds = strstr(request, "seconds=");
	int64_t from = clock_now_ns();
	int64_t v[] = { 2, 20000000 };
	mutex_lock(&world.lock);
	snprintf(world.last, sizeof world.last, "%.*s", (int)strcspn(request, "\r"), request);
	mutex_unlock(&world.lock);
	if (seconds)
		clock_sleep_ms((seconds[8] - '0') * 1000);
	make_profile(&b, "samples/count cpu/nanoseconds", "cpu/nanoseconds", v, 1, from, clock_now_ns() - from);
	stub_answer(fd, 200, "", b.ptr, b.len);
	buf_free(&b);
}

/* A gauge that says a time of its own: now, an hour ago, or nothing. */
static void give_times(int fd, const char *path)
{
	struct buf b = { 0 };
	int64_t v[] = { 4 }, now = clock_now_ns();
	make_profile(&b, "goroutine/count", "goroutine/count", v, 1,
		     strstr(path, "now") ? now : strstr(path, "hour") ? now - INT64_C(3600000000000) : 0, 0);
	stub_answer(fd, 200, "", b.ptr, b.len);
	buf_free(&b);
}

/* A CPU profile that says it measured for two years, or for less than nothing. */
static void give_durations(int fd, const char *path)
{
	struct buf b = { 0 };
	int64_t v[] = { 4, 40 }, s = 1000000000;
	make_profile(&b, "samples/count cpu/nanoseconds", "cpu/nanoseconds", v, 1, clock_now_ns(),
		     strstr(path, "years") ? 2 * 366 * 86400 * s : -5 * s);
	stub_answer(fd, 200, "", b.ptr, b.len);
	buf_free(&b);
}

/* Folded text, the words of gperftools, heap profiles as text: what is no profile.proto. */
static void give_other(int fd, const char *path)
{
	static const char folded[] = "main;work;malloc 12\nmain;work 3\n";
	static const char heap[] = "heap profile: 3: 300 [ 3: 300] @ heapprofile\n 1: 100 [ 1: 100] @ 0x401001 0x402001\n 2: 200 [2: 200] @ 0x401001\n";
	static const char cpu[] = "\0\0\0\0\3\0\0\0\0\0\0\0\x10\x27\0\0\0\0\0\0\2\0\0\0\1\0\0\0\4\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0";
	if (strstr(path, "folded"))
		stub_answer(fd, 200, "Content-Type: text/plain\r\n", folded, sizeof folded - 1);
	else if (strstr(path, "heap"))
		stub_answer(fd, 200, "", heap, sizeof heap - 1);
	else
		stub_answer(fd, 200, "", cpu, sizeof cpu - 1);
}

static bool recv_alive(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK);
	return n != 0;
}

static struct buf bomb; /* 8 MiB of zeros */

static void give_bomb(int fd, bool as_encoding)
{
	stub_answer(fd, 200, as_encoding ? "Content-Encoding: gzip\r\n" : "", bomb.ptr, bomb.len);
}

static void give(int fd, const char *request, void *arg)
{
	const char *path = request + 4;
	if (strncmp(path, "/heap", 5) == 0)
		give_heap(fd);
	else if (strncmp(path, "/cpu", 4) == 0)
		give_cpu(fd, request);
	else if (strncmp(path, "/time", 5) == 0)
		give_times(fd, path);
	else if (strncmp(path, "/duration", 9) == 0)
		give_durations(fd, path);
	else if (strncmp(path, "/other", 6) == 0)
		give_other(fd, path);
	else if (strncmp(path, "/jfr", 4) == 0)
		stub_answer(fd, 200, "", "FLR\0\0\2\0\1", 8);
	else if (strncmp(path, "/hang", 5) == 0)
		(void)TEST_WAIT(!recv_alive(fd));
	else if (strncmp(path, "/500", 4) == 0)
		stub_answer(fd, 500, "", "profiling\n already in use", 25);
	else if (strncmp(path, "/garbage", 8) == 0)
		stub_answer(fd, 200, "", "<html>hello</html>", 18);
	else if (strncmp(path, "/bomb", 5) == 0)
		give_bomb(fd, strstr(path, "encoding") != NULL);
	else if (strncmp(path, "/cut", 4) == 0)
		stub_write(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort", 46);
	else
		stub_answer(fd, 404, "", "Unknown profile", 15);
}

/* A scraper over a fake sink and the server above. */
static int setup(void **state)
{
	struct scraper_bench *b = NEW(struct scraper_bench);
	world.heaps = world.status = 0;
	world.restarted = false;
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

/* Only what is named is asked for. */
#define NONE "memory: {enabled: false}, block: {enabled: false}, goroutine: {enabled: false}, mutex: {enabled: false}, "
#define NO_CPU "process_cpu: {enabled: false}, "

static void stores_a_static_target(void **state)
{
	struct scraper_bench *b = *state;
	struct kept k;
	scraper_bench_apply(b, "scrape_configs:\n"
		 "- job_name: go\n"
		 "  scrape_interval: 200ms\n"
		 "  profiling_config: {pprof_config: {memory: {path: /heap}, block: {enabled: false}, mutex: {enabled: false},\n"
		 "    goroutine: {enabled: false}, " NO_CPU "}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT'], labels: {zone: a}}]\n");
	assert_true(fake_sink_wait(&b->sink, "memory:alloc_space:bytes:space:bytes{", 2));
	fake_sink_find(&b->sink, "memory:alloc_space:bytes:space:bytes{", &k);
	assert_int_equal(k.kind, PROFILE_CUMULATIVE);
	assert_int_equal(k.total, 500); /* 5 more objects of 100 bytes, in the first of two stacks */
	assert_int_equal(k.cover_ms * 1000000, k.duration_ns);
	assert_non_null(strstr(k.series, "job=\"go\""));
	assert_non_null(strstr(k.series, "zone=\"a\""));
	assert_non_null(strstr(k.series, "instance=\"127.0.0.1:"));
	assert_null(strstr(k.series, "__"));
	fake_sink_find(&b->sink, "memory:alloc_objects:count:space:bytes{", &k);
	assert_int_equal(k.total, 5);
	fake_sink_find(&b->sink, "memory:inuse_space:bytes:space:bytes{", &k);
	assert_int_equal(k.kind, PROFILE_GAUGE);
	assert_int_equal(k.total, 800);
	assert_int_equal(k.duration_ns, 0);
	assert_int_equal(k.interval_ms, 200);
	/* The gauge is there from the first scrape, the increase from the second. */
	assert_true(fake_sink_find(&b->sink, "memory:inuse_space", NULL) > fake_sink_find(&b->sink, "memory:alloc_space", NULL));
	assert_true(fake_sink_wait_value(&b->sink, "up{", 1));
	assert_true(fake_sink_wait_value(&b->sink, "profile_up{", 1));
	assert_true(fake_sink_wait_value(&b->sink, "scrape_samples_scraped{", 2));
	fake_sink_find(&b->sink, "scrape_body_size_bytes{", &k);
	assert_true(k.v > 50);
	/* One scrape a slot; the first may have been late. */
	struct kept first;
	assert_true(fake_sink_nth(&b->sink, "memory:inuse_space", 1, &first));
	assert_true(fake_sink_nth(&b->sink, "memory:inuse_space", 8, &k));
	assert_true(k.t_ms - first.t_ms > 6 * 200 - 10);
	fake_sink_find(&b->sink, "scrape_duration_seconds{", &k);
	assert_true(k.v > 0 && k.v < 5);
	assert_non_null(strstr(k.series, "profile=\"memory\""));
}

/* The status row of a profile, or of the first whose URL contains what. */
struct seen_row {
	const char *what;
	bool found;
	enum target_health health;
	char error[1024], note[1024], url[512];
	int64_t last_scrape_ms;
	size_t rows, dropped;
	bool leaked; /* a parameter that may not be shown */
};

static bool see(void *arg, const struct status_target *t)
{
	struct seen_row *r = arg;
	r->rows++;
	r->leaked |= view_eqs(labels_get(t->discovered, VIEW("__param_api_token")), "hidden1");
	if (r->found || !memmem(t->scrape_url.ptr, t->scrape_url.len, r->what, strlen(r->what)))
		return true;
	r->found = true;
	r->health = t->health;
	r->last_scrape_ms = t->last_scrape_ms;
	snprintf(r->error, sizeof r->error, "%.*s", VIEW_ARG(t->last_error));
	snprintf(r->note, sizeof r->note, "%.*s", VIEW_ARG(t->note));
	snprintf(r->url, sizeof r->url, "%.*s", VIEW_ARG(t->scrape_url));
	return true;
}

static bool see_dropped(void *arg, const struct status_dropped *d)
{
	struct seen_row *r = arg;
	r->dropped++;
	r->leaked |= view_eqs(labels_get(d->discovered, VIEW("__param_api_token")), "hidden1");
	return true;
}

static struct seen_row row_of(struct scraper_bench *b, const char *what)
{
	struct seen_row r = { .what = what };
	struct status_targets *st = scraper_status(b->scraper);
	st->active(st, &(struct status_query){ 0 }, see, &r);
	st->dropped(st, &(struct status_query){ 0 }, see_dropped, &r);
	return r;
}

static void wait_health(struct scraper_bench *b, const char *url, const char *error, enum target_health health)
{
	struct seen_row r = { 0 };
	if (!TEST_WAIT((r = row_of(b, url), strstr(r.error, error) != NULL)))
		fail_msg("%s: the error is \"%s\", not \"%s\"", url, r.error, error);
	assert_int_equal(r.health, health);
}

static void wait_error(struct scraper_bench *b, const char *url, const char *error)
{
	wait_health(b, url, error, TARGET_DOWN);
}

#define BAD_JOB(name, what, more) \
	"- job_name: " name "\n  scrape_interval: 200ms\n" more \
	"  profiling_config: {pprof_config: {" NONE NO_CPU "bad: {path: " what "}}}\n" \
	"  static_configs: [{targets: ['127.0.0.1:PORT']}]\n"

/* The newest "up" of the job, if there is one. */
static void find_up(struct fake_sink *f, const char *job, struct kept *newest)
{
	mutex_lock(&f->lock);
	for (size_t i = 0; i < f->v.n; i++)
		if (strncmp(f->v.v[i].series, "up{", 3) == 0 && strstr(f->v.v[i].series, job))
			*newest = f->v.v[i];
	mutex_unlock(&f->lock);
}

static bool has_down(struct fake_sink *f, const char *job)
{
	bool down = false;
	mutex_lock(&f->lock);
	for (size_t i = 0; i < f->v.n; i++)
		down |= strncmp(f->v.v[i].series, "up{", 3) == 0 && strstr(f->v.v[i].series, job) && f->v.v[i].v < 0.5;
	mutex_unlock(&f->lock);
	return down;
}

/* Each bad target shows its own error, and the good one beside them keeps its schedule. */
static void bad_targets_delay_nobody(void **state)
{
	struct scraper_bench *b = *state;
	scraper_bench_apply(b, "scrape_configs:\n"
		 BAD_JOB("hang", "/hang", "  scrape_timeout: 400ms\n")
		 BAD_JOB("fails", "/500", "")
		 BAD_JOB("garbage", "/garbage", "")
		 BAD_JOB("bomb", "/bomb", "  body_size_limit: 1MB\n")
		 BAD_JOB("bomb2", "/bomb?encoding", "  body_size_limit: 1MB\n")
		 BAD_JOB("cut", "/cut", "")
		 BAD_JOB("jfr", "/jfr", "")
		 "- job_name: nobody\n  scrape_interval: 200ms\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "bad: {path: /nobody}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:1']}]\n"
		 "- job_name: good\n  scrape_interval: 200ms\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /heap}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	wait_error(b, "/hang", "timed out after");
	wait_error(b, "/hang", "connected, but no answer came");
	wait_error(b, "/500", "HTTP status 500: profiling already in use");
	wait_error(b, "/garbage", "not a profile");
	wait_error(b, "/jfr", "flight recorder (JFR), which is not read here");
	wait_error(b, "/bomb", "larger than 1048576 bytes after decompression");
	wait_error(b, "/bomb?encoding", "larger than the limit of 1.0MiB");
	wait_error(b, "/cut", "cut short: 5 of 1000 bytes");
	wait_error(b, "/nobody", "refused");
	int64_t from = clock_mono_ms();
	size_t n = fake_sink_find(&b->sink, "heap:inuse_space", NULL);
	clock_sleep_ms(1000);
	n = fake_sink_find(&b->sink, "heap:inuse_space", NULL) - n;
	size_t due = (size_t)(clock_mono_ms() - from) / 200;
	assert_in_range(n, due / 4, due + 2);
	assert_true(fake_sink_wait_value(&b->sink, "up{instance=\"127.0.0.1:1\"", 0));
	const char *bad[] = { "hang", "fails", "garbage", "bomb", "bomb2", "cut" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char job[64];
		snprintf(job, sizeof job, "job=\"%s\"", bad[i]);
		assert_true(has_down(&b->sink, job));
	}
}

static void a_missing_type_is_no_failure(void **state)
{
	struct scraper_bench *b = *state;
	/* mutex is not served and not named; memory is. */
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 200ms\n"
		 "  profiling_config: {pprof_config: {memory: {path: /heap}, block: {enabled: false}, "
		 "goroutine: {enabled: false}, " NO_CPU "}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	assert_true(fake_sink_wait_value(&b->sink, "up{instance", 1));
	struct seen_row r = { 0 };
	assert_true(TEST_WAIT((r = row_of(b, "/debug/pprof/mutex"), r.note[0])));
	assert_string_equal(r.note, "not served there (HTTP status 404): Unknown profile");
	assert_string_equal(r.error, "");
	assert_int_equal(r.health, TARGET_UNKNOWN);
	assert_int_equal(fake_sink_find(&b->sink, "profile=\"mutex\"", NULL), 0); /* neither profile_up nor anything else */
	/* Named, the same is one. */
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 200ms\n"
		 "  profiling_config: {pprof_config: {memory: {path: /heap}, block: {enabled: false}, mutex: {}, "
		 "goroutine: {enabled: false}, " NO_CPU "}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	assert_true(fake_sink_wait_value(&b->sink, "up{instance", 0));
	wait_health(b, "/debug/pprof/mutex", "404", TARGET_DOWN);
}

static void a_failed_scrape_ends_its_series(void **state)
{
	struct scraper_bench *b = *state;
	struct kept k = { 0 };
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 200ms\n"
		 "  profiling_config: {pprof_config: {memory: {path: /heap}, block: {enabled: false}, "
		 "goroutine: {enabled: false}, mutex: {enabled: false}, " NO_CPU "}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	assert_true(fake_sink_wait(&b->sink, "memory:alloc_space", 2));
	world.status = 503;
	wait_error(b, "/heap", "503: no heap today");
	assert_true(TEST_WAIT((fake_sink_find(&b->sink, "memory:alloc_space", &k), k.stale)));
	fake_sink_find(&b->sink, "memory:inuse_space", &k);
	assert_true(k.stale);
	size_t n = fake_sink_find(&b->sink, "memory:inuse_space", NULL);
	clock_sleep_ms(500);
	assert_int_equal(fake_sink_find(&b->sink, "memory:inuse_space", NULL), n); /* one marker, not one per failure */
	/* It comes back with what was added meanwhile, and the error is gone. */
	world.status = 0;
	n = fake_sink_find(&b->sink, "memory:alloc_space", NULL);
	assert_true(fake_sink_nth(&b->sink, "memory:alloc_space", n + 1, &k));
	assert_false(k.stale);
	assert_true(k.total > 500 && k.total % 500 == 0);
	assert_true(k.cover_ms > 500);
	assert_string_equal(row_of(b, "/heap").error, "");
	/* A restarted process counts from zero: all of it is the increase. */
	world.restarted = true;
	n = fake_sink_find(&b->sink, "memory:alloc_objects", NULL);
	assert_true(fake_sink_wait(&b->sink, "memory:alloc_objects", n + 2));
	bool whole = false; /* 5n of the first stack and 3 of the second */
	mutex_lock(&b->sink.lock);
	for (size_t i = 0; i < b->sink.v.n; i++)
		whole |= strstr(b->sink.v.v[i].series, "memory:alloc_objects") && b->sink.v.v[i].total % 5 == 3;
	mutex_unlock(&b->sink.lock);
	assert_true(whole);
}

/* One of them that covers so much. One that comes late covers more, and the next one less: beside load several may. */
static void one_covers(struct fake_sink *f, const char *what, int64_t least_ms, int64_t most_ms, struct kept *ret)
{
	size_t n = 1;
	do {
		assert_true(fake_sink_nth(f, what, ++n, ret));
		assert_true(ret->cover_ms > 0);
	} while ((ret->cover_ms < least_ms || ret->cover_ms > most_ms) && n < 100);
	assert_in_range(ret->cover_ms, least_ms, most_ms);
}

static void cpu_runs_back_to_back(void **state)
{
	struct scraper_bench *b = *state;
	struct kept k;
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 1s\n  scrape_timeout: 500ms\n"
		 "  profiling_config: {pprof_config: {" NONE "process_cpu: {path: /cpu}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	assert_true(fake_sink_wait(&b->sink, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{", 3));
	mutex_lock(&world.lock);
	assert_non_null(strstr(world.last, "GET /cpu?seconds=1 "));
	mutex_unlock(&world.lock);
	one_covers(&b->sink, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{", 1000, 1400, &k); /* no hole between two */
	assert_int_equal(k.kind, PROFILE_DELTA);
	assert_int_equal(k.asked_ms, 1000);
	assert_int_equal(k.interval_ms, 1000);
	assert_in_range(k.duration_ns, 1000000000, 1401000000);
	assert_in_range(llabs(clock_now_ms() - k.t_ms), 0, PATIENCE_MS);
}

static void other_formats(void **state)
{
	struct scraper_bench *b = *state;
	struct kept k;
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 1s\n  scrape_timeout: 500ms\n"
		 "  profiling_config: {pprof_config: {" NONE "process_cpu: {path: /other/cpu}, heap: {path: /other/heap}, "
		 "fgprof: {path: /other/folded}, wall: {path: /other/folded, delta: true, folded: {sample_type: wall, unit: nanoseconds}}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	assert_true(fake_sink_wait(&b->sink, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{", 1));
	fake_sink_find(&b->sink, "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta{", &k);
	assert_int_equal(k.total, 2 * 10000000);
	assert_int_equal(k.duration_ns, 1000000000); /* it says none, and was asked for a second */
	assert_true(fake_sink_wait(&b->sink, "heap:space:bytes:space:bytes{", 1));
	fake_sink_find(&b->sink, "heap:space:bytes:space:bytes{", &k);
	assert_int_equal(k.total, 300);
	assert_int_equal(k.kind, PROFILE_GAUGE);
	assert_true(fake_sink_wait(&b->sink, "fgprof:samples:count:samples:count:delta{", 1));
	assert_true(fake_sink_wait(&b->sink, "wall:wall:nanoseconds:wall:nanoseconds:delta{", 1));
	fake_sink_find(&b->sink, "wall:wall:nanoseconds:wall:nanoseconds:delta{", &k);
	assert_int_equal(k.total, 15);
	assert_int_equal(k.kind, PROFILE_DELTA);
	assert_int_equal(k.duration_ns, 1000000000);
}

/* godeltaprof: each answer is what happened since the one before. */
static void since_the_last_request(void **state)
{
	struct scraper_bench *b = *state;
	struct kept k;
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 300ms\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "godeltaprof_memory: {path: /heap}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	static const char alloc[] = "godeltaprof_memory:alloc_space:bytes:space:bytes:delta{";
	one_covers(&b->sink, alloc, 150, 450, &k);
	assert_int_equal(k.kind, PROFILE_DELTA);
	assert_int_equal(k.duration_ns, k.cover_ms * 1000000);
	assert_int_equal(k.asked_ms, 0);
	assert_true(k.total >= 1000); /* as it was, no increase */
	/* Of the first answer nobody knows since when it counts. */
	assert_true(fake_sink_find(&b->sink, "godeltaprof_memory:inuse_space:bytes:space:bytes{", NULL) > fake_sink_find(&b->sink, alloc, NULL));
}

static double counter(const char *name)
{
	struct buf text = { 0 };
	char key[128];
	double v = -1;
	metrics_render(&text);
	snprintf(key, sizeof key, "\n%s ", name);
	const char *line = strstr(text.ptr, key);
	if (line)
		num_parse_double(view_make(line + strlen(key), strcspn(line + strlen(key), "\n")), &v);
	buf_free(&text);
	return v;
}

/* A profile's own time counts if it lies within the request; else the end of the request does, and it is counted. */
static void stamps(void **state)
{
	struct scraper_bench *b = *state;
	static const char *const names[] = { "right:goroutine", "hour:goroutine", "none:goroutine" };
	double before = counter("pyrrha_target_profile_timestamps_replaced_total");
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 300ms\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "right: {path: /time/now}, hour: {path: /time/hour}, "
		 "none: {path: /time/none}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct kept k;
		one_covers(&b->sink, names[i], 150, 450, &k);
		assert_in_range(llabs(clock_now_ms() - k.t_ms), 0, PATIENCE_MS);
		assert_int_equal(k.total, 4);
	}
	double replaced = counter("pyrrha_target_profile_timestamps_replaced_total") - before;
	assert_true(replaced >= 4);
}

/* A duration that nobody can have measured is the scrape's instead: one profile must not cover years. */
static void durations(void **state)
{
	struct scraper_bench *b = *state;
	static const char *const names[] = { "years:cpu", "negative:cpu" };
	double before = counter("pyrrha_target_profile_durations_replaced_total");
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 1s\n  scrape_timeout: 500ms\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "years: {path: /duration/years, delta: true}, "
		 "negative: {path: /duration/negative, delta: true}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct kept k;
		one_covers(&b->sink, names[i], 1000, 1500, &k);
		assert_int_equal(k.duration_ns, 1000000000);
		assert_int_equal(k.kind, PROFILE_DELTA);
	}
	assert_true(counter("pyrrha_target_profile_durations_replaced_total") - before >= 2);
}

static void reload_keeps_what_stays(void **state)
{
	struct scraper_bench *b = *state;
	const char *old = "scrape_configs:\n- job_name: go\n  scrape_interval: 300ms\n"
			  "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /heap}}}\n"
			  "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n";
	const char *more = "- job_name: two\n  scrape_interval: 300ms\n"
			   "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /heap?two}}}\n"
			   "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n";
	char both[2048];
	struct kept k = { 0 };
	snprintf(both, sizeof both, "%s%s", old, more);
	scraper_bench_apply(b, both);
	assert_true(fake_sink_wait(&b->sink, "heap:alloc_space", 2));
	assert_int_equal(row_of(b, "two").rows, 2);
	/* The other job leaves: its series end; the first goes on with its baseline. */
	size_t n = fake_sink_find(&b->sink, "heap:alloc_space:bytes:space:bytes{instance=\"127.0.0.1", NULL);
	scraper_bench_apply(b, old);
	assert_int_equal(row_of(b, "two").rows, 1);
	assert_true(fake_sink_wait(&b->sink, "heap:alloc_space", n + 2));
	assert_true(TEST_WAIT((find_up(&b->sink, "job=\"two\"", &k), k.stale)));
	/* An interval that changed: the same endpoint, its baseline kept. */
	char slower[2048];
	snprintf(slower, sizeof slower, "global: {external_labels: {a: b}}\n%s", old);
	memcpy(strstr(slower, "300ms"), "200ms", 5);
	int heaps = world.heaps;
	n = fake_sink_find(&b->sink, "heap:alloc_space", NULL);
	scraper_bench_apply(b, slower);
	assert_true(fake_sink_wait(&b->sink, "heap:alloc_space", n + 1));
	fake_sink_find(&b->sink, "heap:alloc_space", &k);
	assert_true(world.heaps > heaps);
	assert_int_equal(k.total % 500, 0);
	assert_true(TEST_WAIT((fake_sink_find(&b->sink, "heap:inuse_space", &k), k.interval_ms == 200))); /* after one that was under way */
}

static void relabelling_decides(void **state)
{
	struct scraper_bench *b = *state;
	struct kept k;
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 200ms\n  params: {gc: ['1'], debug: ['0', 'x y'], api_token: [hidden1]}\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /heap}, other: {path: /other}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT', 'gone.example:80'], labels: {team: a-b}}]\n"
		 "  relabel_configs:\n"
		 "  - {source_labels: [__address__], regex: 'gone.*', action: drop}\n"
		 "  - {source_labels: [__profile_path__], regex: '/other', action: drop}\n"
		 "  - {source_labels: [team], regex: '(.*)-(.*)', target_label: squad, replacement: '$2'}\n"
		 "  - {target_label: __param_gc, replacement: '2'}\n"
		 "  metric_relabel_configs:\n"
		 "  - {source_labels: [__name__], regex: '.*objects.*', action: drop}\n"
		 "  - {regex: team, action: labeldrop}\n");
	assert_true(fake_sink_wait(&b->sink, "heap:alloc_space", 1));
	fake_sink_find(&b->sink, "heap:alloc_space", &k);
	assert_non_null(strstr(k.series, "squad=\"b\""));
	assert_null(strstr(k.series, "team"));
	assert_int_equal(fake_sink_find(&b->sink, "objects", NULL), 0);
	struct seen_row r = row_of(b, "/heap");
	assert_non_null(strstr(r.url, "/heap?gc=2&debug=0&debug=x%20y&api_token=<secret>"));
	assert_false(r.leaked);
	assert_int_equal(r.rows, 1);
	assert_int_equal(r.dropped, 3);
}

static void limits_are_said(void **state)
{
	struct scraper_bench *b = *state;
	scraper_bench_apply(b, "scrape_configs:\n"
		 "- job_name: many\n  scrape_interval: 200ms\n  target_limit: 1\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /a}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT', 'localhost:PORT']}]\n"
		 "- job_name: wide\n  scrape_interval: 200ms\n  label_limit: 2\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /b}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n"
		 "- job_name: deep\n  scrape_interval: 200ms\n  sample_limit: 1\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /heap}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	wait_error(b, "/a", "2 targets, target_limit is 1");
	wait_error(b, "/b", "label_limit");
	wait_error(b, "/heap", "2 stacks, sample_limit is 1");
}

/* The heap has several sample types: the second is one series too many. */
static void new_series_are_limited(void **state)
{
	struct scraper_bench *b = *state;
	scraper_bench_apply(b, "scrape_configs:\n- job_name: new\n  scrape_interval: 200ms\n  series_limit: 1\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /heap}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	wait_error(b, "/heap", "more than 1 new series within an hour, series_limit is 1");
}

static void a_full_storage_fails_visibly(void **state)
{
	struct scraper_bench *b = *state;
	b->sink.fail = ERR_LIMIT;
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 200ms\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /heap}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	wait_error(b, "/heap", "not stored: the sink was told to fail");
	assert_true(fake_sink_wait_value(&b->sink, "up{", 0));
	b->sink.fail = 0;
	assert_true(fake_sink_wait_value(&b->sink, "up{", 1));
	assert_string_equal(row_of(b, "/heap").error, "");
}

/* Storage that is slow: scrapes go on, what does not fit is dropped, counted, and the target is down. */
static void what_is_dropped_is_counted(void **state)
{
	struct scraper_bench *b = *state;
	double before = counter("pyrrha_target_scrapes_dropped_total");
	b->sink.slow_ms = 700;
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 100ms\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /heap}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	assert_true(TEST_WAIT(world.heaps > 8 && counter("pyrrha_target_scrapes_dropped_total") - before >= 3));
	b->sink.slow_ms = 0;
	assert_true(TEST_WAIT(has_down(&b->sink, "job=\"go\""))); /* after the successes that came before it */
}

/* Series of a metric whose newest sample is none. */
static void count_ends(struct fake_sink *f, const char *what, size_t *ret_series, size_t *ret_ended)
{
	struct map seen = { 0 };
	*ret_series = *ret_ended = 0;
	mutex_lock(&f->lock);
	for (size_t i = f->v.n; i--;) { /* the newest first; series are told apart by hash, which does for a test */
		uint32_t id;
		uint64_t h = hash_view(view_of(f->v.v[i].series));
		size_t at = map_start(&seen, h);
		if (strncmp(f->v.v[i].series, what, strlen(what)) || map_probe(&seen, h, &at, &id))
			continue;
		map_insert(&seen, h, 1);
		++*ret_series;
		*ret_ended += f->v.v[i].stale;
	}
	mutex_unlock(&f->lock);
	map_free(&seen);
}

static void wait_ends(struct fake_sink *f, const char *what, size_t series)
{
	size_t n = 0, ended = 0;
	if (!TEST_WAIT((count_ends(f, what, &n, &ended), n >= series && ended == n)))
		fail_msg("%s: %zu series (%zu are wanted), of which %zu ended", what, n, series, ended);
}

/* 500 targets of 5 types that one reload removes: dead ones, some of them asked at that moment. */
static void removed_targets_leave_no_ghosts(void **state)
{
	struct scraper_bench *b = *state;
	struct buf yaml = { 0 };
	buf_puts(&yaml, "scrape_configs:\n- job_name: go\n  scrape_interval: 3s\n  profiling_config: {pprof_config: {process_cpu: {path: "
			"/hang, seconds: 1}}}\n  static_configs:\n");
	for (int i = 0; i < 500; i++)
		buf_printf(&yaml, "  - {targets: ['127.0.0.1:%s'], labels: {n: '%d'}}\n", i % 25 ? "1" : "PORT", i);
	scraper_bench_apply(b, yaml.ptr);
	buf_free(&yaml);
	size_t n = 0, ended;
	assert_true(TEST_WAIT((count_ends(&b->sink, "profile_up{", &n, &ended), n >= 2400)));
	b->sink.slow_ms = 2; /* the ends come faster than they are taken */
	scraper_bench_apply(b, "scrape_configs: []\n");
	wait_ends(&b->sink, "up{", 480);
	wait_ends(&b->sink, "profile_up{", 2400);
	wait_ends(&b->sink, "scrape_duration_seconds{", 2400);
	clock_sleep_ms(1200); /* nothing comes after them, not even from the requests that were under way */
	count_ends(&b->sink, "up{", &n, &ended);
	assert_true(n >= 480 && ended == n);
}

/* Storage that cannot write, at once or later: targets are down, and say why; what ends is told again. */
static void what_was_not_stored_is_told(void **state)
{
	struct scraper_bench *b = *state;
	scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 200ms\n"
		 "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /heap}}}\n"
		 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
	assert_true(fake_sink_wait(&b->sink, "heap:alloc_space", 2));
	double before = counter("pyrrha_target_scrapes_not_stored_total");
	b->sink.lose = ERR_IO;
	wait_error(b, "/heap", "not stored: the sink lost it");
	assert_true(counter("pyrrha_target_scrapes_not_stored_total") > before);
	/* A series that ended meanwhile ends for whoever asks later. */
	world.status = 503;
	int asked = world.heaps;
	assert_true(TEST_WAIT(world.heaps >= asked + 3));
	b->sink.lose = 0;
	wait_error(b, "/heap", "503");
	wait_ends(&b->sink, "heap:inuse_space", 1);
	world.status = 0;
	assert_true(fake_sink_wait_value(&b->sink, "up{", 1));
	/* The target leaves while nothing is taken, then while all is lost: it ends when storage is back. */
	for (int i = 0; i < 2; i++) {
		*(i ? &b->sink.lose : &b->sink.refuse) = ERR_IO;
		scraper_bench_apply(b, "scrape_configs: []\n");
		clock_sleep_ms(1500);
		b->sink.lose = b->sink.refuse = 0;
		wait_ends(&b->sink, "up{", 1);
		wait_ends(&b->sink, "profile_up{", 1);
		wait_ends(&b->sink, "heap:inuse_space", 1);
		size_t n = fake_sink_find(&b->sink, "heap:inuse_space", NULL);
		scraper_bench_apply(b, "scrape_configs:\n- job_name: go\n  scrape_interval: 200ms\n"
			 "  profiling_config: {pprof_config: {" NONE NO_CPU "heap: {path: /heap}}}\n"
			 "  static_configs: [{targets: ['127.0.0.1:PORT']}]\n");
		assert_true(fake_sink_wait(&b->sink, "heap:inuse_space", n + 2));
	}
}

static int begin(void **state)
{
	char *zeros = calloc(1, 8 << 20);
	struct err e = { 0 };
	assert_int_equal(pprof_gzip(view_make(zeros, 8 << 20), 1, &bomb, &e), 0);
	free(zeros);
	return scraper_tests_begin(state);
}

static int end(void **state)
{
	buf_free(&bomb);
	return scraper_tests_end(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(stores_a_static_target),
		TEST(bad_targets_delay_nobody),
		TEST(a_missing_type_is_no_failure),
		TEST(a_failed_scrape_ends_its_series),
		TEST(cpu_runs_back_to_back),
		TEST(other_formats), TEST(since_the_last_request),
		TEST(stamps), TEST(durations),
		TEST(reload_keeps_what_stays),
		TEST(relabelling_decides),
		TEST(limits_are_said),
		TEST(new_series_are_limited),
		TEST(a_full_storage_fails_visibly),
		TEST(what_is_dropped_is_counted),
		TEST(removed_targets_leave_no_ghosts),
		TEST(what_was_not_stored_is_told),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
