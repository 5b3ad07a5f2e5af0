/* SPDX-License-Identifier: Apache-2.0 */
/* A queue on disk: what is read is what was appended, once and in order, whatever was torn, flipped or full. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/log.h"
#include "remote/backlog_internal.h"

static char dir[64];
static const struct backlog_options roomy; /* all defaults */
static const struct backlog_options small = { .max_bytes = 1 << 20, .segment_bytes = 4096 };

static int set_up(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	/* where syncing costs nothing, if there is such a place: everything is synced here */
	snprintf(dir, sizeof dir, "%sbacklog_test.XXXXXX", access("/dev/shm", W_OK) ? "" : "/dev/shm/");
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	files_remove_tree(dir);
	return 0;
}

/* ---- what is appended: commit `number` has one sample of each of the series 0..number % 5, at the time `number` ---- */

struct names {
	char text[5][16];
	struct label l[5][2];
	struct backlog_series s[5];
};

static void name_series(struct names *x)
{
	memset(x->s, 0, sizeof x->s);
	for (int i = 0; i < 5; i++) {
		snprintf(x->text[i], sizeof x->text[i], "series-%d", i);
		x->l[i][0] = (struct label){ VIEW("__name__"), view_of(x->text[i]) };
		x->l[i][1] = (struct label){ VIEW("job"), VIEW("a") };
		x->s[i].labels = (struct labels){ x->l[i], 2 };
	}
}

static int append(struct backlog *b, struct names *x, uint64_t number, uint64_t *dropped)
{
	struct backlog_sample v[5];
	size_t n = number % 5 + 1;
	struct err e;
	for (size_t i = 0; i < n; i++)
		v[i] = (struct backlog_sample){ &x->s[i], (int64_t)number, value_from_bits(VALUE_STALE_BITS + number) };
	return backlog_append(b, number, v, n, dropped, &e);
}

static struct backlog *open_at(uint64_t begin, const struct backlog_options *o)
{
	struct backlog *b;
	struct err e = { 0 };
	int rc = backlog_open(&b, dir, o, &e);
	if (rc)
		fail_msg("%s", e.msg);
	if (backlog_is_new(b))
		assert_int_equal(backlog_begin(b, begin, &e), 0);
	return b;
}

static void append_all(struct backlog *b, uint64_t from, uint64_t to)
{
	struct names x;
	uint64_t dropped;
	name_series(&x);
	for (uint64_t i = from; i <= to; i++)
		assert_int_equal(append(b, &x, i, &dropped), 0);
}

/* Reads all that waits in rounds of `most`, and counts each sample: bit i of seen[number] is series i. */
struct seen {
	uint8_t of[2000];
	uint64_t samples, lost, last[5];
	bool out_of_order, twice;
};

static void see(struct seen *s, const struct sink_float *f)
{
	struct view name = labels_get(f->labels, VIEW("__name__"));
	assert_true(name.len == 8 && f->t_ms > 0 && f->t_ms < 2000);
	int i = name.ptr[7] - '0';
	assert_in_range(i, 0, 4);
	assert_true(value_bits(f->v) == VALUE_STALE_BITS + (uint64_t)f->t_ms);
	s->twice |= s->of[f->t_ms] & 1 << i;
	s->of[f->t_ms] |= (uint8_t)(1 << i);
	s->out_of_order |= s->last[i] > (uint64_t)f->t_ms;
	s->last[i] = (uint64_t)f->t_ms;
	s->samples++;
}

static void read_all(struct backlog *b, size_t most, struct seen *s)
{
	struct backlog_floats to = { 0 };
	struct err e = { 0 };
	for (int idle = 0; idle < 3;) {
		unsigned parts = 1;
		uint64_t lost;
		to.n = 0;
		int rc = backlog_next(b, most, 1 << 20, &parts, &to, &lost, &e);
		s->lost += lost;
		for (size_t i = 0; i < to.n; i++)
			see(s, &to.v[i]);
		idle = rc || !to.n ? idle + 1 : 0;
		if (to.n)
			backlog_done(b);
	}
	vec_free(&to);
}

static void check_whole(const struct seen *s, uint64_t from, uint64_t to)
{
	for (uint64_t i = 0; i < ARRAY_LEN(s->of); i++)
		if (s->of[i] != (i >= from && i <= to ? (1 << (i % 5 + 1)) - 1 : 0))
			fail_msg("commit %u: %x", (unsigned)i, s->of[i]);
	assert_false(s->out_of_order || s->twice);
	assert_int_equal(s->lost, 0);
}

static void test_all_once(void **state)
{
	for (size_t most = 1; most < 1000; most = most * 3 + 1) {
		struct seen s = { 0 };
		struct err e;
		struct backlog *b = open_at(9, &small);
		assert_int_equal(backlog_number(b), 9);
		append_all(b, 10, 500);
		assert_int_equal(backlog_number(b), 500);
		assert_int_equal(backlog_pending(b), 1471);
		read_all(b, most, &s);
		assert_int_equal(backlog_pending(b), 0);
		assert_true(b->segments.n == 1 && backlog_bytes(b) < 8192);
		assert_int_equal(backlog_save(b, &e), 0);
		append_all(b, 501, 600);
		backlog_close(b);
		b = open_at(0, &small);
		assert_int_equal(backlog_number(b), 600);
		append_all(b, 601, 620);
		read_all(b, most, &s);
		check_whole(&s, 10, 620);
		backlog_close(b);
		files_remove_tree(dir);
	}
	(void)state;
}

/* What was under way is sent again as it was, also if more has come and the limits are others. */
static void test_a_round_again(void **state)
{
	struct backlog_floats first = { 0 }, again = { 0 };
	struct err e;
	uint64_t lost;
	unsigned parts = 3;
	struct backlog *b = open_at(0, &small);
	append_all(b, 1, 300);
	for (int i = 0; i < 4; i++) {
		first.n = 0;
		assert_int_equal(backlog_next(b, 77, 1 << 20, &parts, &first, &lost, &e), 0);
		assert_int_equal(backlog_intend(b, parts, &e), 0);
		if (i < 3)
			backlog_done(b);
	}
	struct labels *names = labels_dup(first.v[0].labels);
	size_t n = first.n;
	int64_t t0 = first.v[0].t_ms, t1 = first.v[n - 1].t_ms;
	for (int i = 0; i < 2; i++) { /* also after a restart that sent nothing */
		backlog_close(b);
		b = open_at(0, &small);
		append_all(b, 301 + (uint64_t)i, 301 + (uint64_t)i);
		parts = 1;
		again.n = 0;
		assert_int_equal(backlog_next(b, 5, 1, &parts, &again, &lost, &e), 0);
		assert_true(again.n == n && parts == 3 && again.v[0].t_ms == t0 && again.v[n - 1].t_ms == t1);
		assert_true(labels_eq(*names, again.v[0].labels));
	}
	backlog_done(b);
	again.n = 0;
	assert_int_equal(backlog_next(b, 5, 1 << 20, &parts, &again, &lost, &e), 0);
	assert_int_equal(again.n, 5);
	backlog_close(b);
	free(names);
	vec_free(&first);
	vec_free(&again);
	(void)state;
}

static char *file_of(uint64_t sequence)
{
	return xasprintf("%s/%010llu.segment", dir, (unsigned long long)sequence);
}

static void put_file(const char *path, struct view v)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(v.ptr, 1, v.len, f), v.len);
	fclose(f);
}

/* The last segment ends anywhere: it has whole commits, says which, and what it lacks is appended again. */
static void test_torn(void **state)
{
	struct buf whole = { 0 };
	struct err e;
	static const struct backlog_options one = { .max_bytes = 1 << 20 };
	struct backlog *b = open_at(0, &one);
	append_all(b, 1, 20);
	backlog_close(b);
	AUTOFREE char *path = file_of(1);
	assert_int_equal(buf_read_file(&whole, path, &e), 0);
	for (size_t n = SEGMENT_HEADER; n < whole.len; n++) {
		struct seen s = { 0 };
		put_file(path, view_make(whole.ptr, n));
		b = open_at(0, &one);
		uint64_t has = backlog_number(b);
		assert_in_range(has, 0, 19);
		append_all(b, has + 1, 20);
		read_all(b, 7, &s);
		check_whole(&s, 1, 20);
		backlog_close(b);
		files_remove_tree(dir);
		assert_int_equal(mkdir(dir, 0700), 0);
	}
	buf_free(&whole);
	(void)state;
}

/* A flipped bit costs some samples, which are counted, if it is not in the last segment; nothing comes twice or changed. */
static void test_flips(void **state)
{
	static const struct backlog_options pages = { .max_bytes = 1 << 20, .segment_bytes = 1024 };
	struct err e;
	struct buf before = { 0 };
	struct backlog *b = open_at(0, &pages);
	append_all(b, 1, 60);
	assert_true(b->segments.n > 2);
	backlog_close(b);
	AUTOFREE char *path = file_of(2);
	assert_int_equal(buf_read_file(&before, path, &e), 0);
	for (size_t at = 0; at < before.len; at += 7) {
		struct seen s = { 0 };
		before.ptr[at] ^= 0x10;
		put_file(path, buf_view(&before));
		before.ptr[at] ^= 0x10;
		b = open_at(0, &pages);
		append_all(b, 61, 70);
		read_all(b, 50, &s);
		assert_false(s.twice || s.out_of_order);
		assert_int_equal(s.samples + s.lost, 14 * 15);
		assert_true(s.lost > 0);
		assert_int_equal(backlog_pending(b), 0);
		backlog_close(b);
		files_remove_tree(dir);
		b = open_at(0, &pages);
		append_all(b, 1, 60);
		backlog_close(b);
	}
	buf_free(&before);
	(void)state;
}

/* What is damaged in the last segment is not counted as waiting, nor what waits behind it as sent. */
static void test_damage_of_what_was_sent(void **state)
{
	struct backlog *b = open_at(0, &roomy);
	struct backlog_floats to = { 0 };
	struct err e = { 0 };
	struct names x;
	uint64_t lost, dropped, at = 0;
	unsigned parts;
	(void)state;
	name_series(&x);
	for (uint64_t i = 1; i <= 40; i++) {
		at = i == 6 ? b->segments.v[0].bytes : at;
		assert_int_equal(append(b, &x, i, &dropped), 0);
	}
	assert_int_equal(backlog_next(b, 30, 1 << 20, &parts, &to, &lost, &e), 0);
	assert_int_equal(backlog_intend(b, 1, &e), 0);
	backlog_done(b);
	assert_int_equal(backlog_save(b, &e), 0);
	backlog_close(b);
	char *path AUTOFREE = xasprintf("%s/0000000001.segment", dir);
	struct buf bytes = { 0 };
	assert_int_equal(buf_read_file(&bytes, path, &e), 0);
	bytes.ptr[at + SEGMENT_BLOCK_HEADER] ^= 1;
	put_file(path, buf_view(&bytes));
	buf_free(&bytes);
	vec_free(&to);
	log_setup(LOG_LEVEL_ERROR + 1, LOG_FORMAT_LOGFMT);
	b = open_at(0, &roomy);
	assert_int_equal(backlog_pending(b), 90);
	struct seen s = { 0 };
	read_all(b, 7, &s);
	assert_int_equal(s.samples, 90);
	assert_int_equal(backlog_pending(b), 0);
	append_all(b, 41, 41);
	assert_int_equal(backlog_pending(b), 2);
	read_all(b, 7, &s);
	assert_int_equal(backlog_pending(b), 0);
	backlog_close(b);
}

static void test_bound(void **state)
{
	static const struct backlog_options tiny = { .max_bytes = 16384, .segment_bytes = 2048 };
	struct backlog *b = open_at(0, &tiny);
	struct names x;
	struct seen s = { 0 };
	uint64_t total = 0, written = 0, dropped;
	name_series(&x);
	for (uint64_t i = 1; i < 1000; i++) {
		assert_int_equal(append(b, &x, i, &dropped), 0);
		total += dropped;
		written += i % 5 + 1;
		assert_true(backlog_bytes(b) <= 16384 + 2048);
	}
	assert_true(total > 0 && total < written);
	assert_int_equal(backlog_pending(b), written - total);
	read_all(b, 100, &s);
	assert_int_equal(s.samples, written - total);
	assert_true(s.of[999] && !s.of[1] && !s.twice && !s.out_of_order && !s.lost);
	backlog_close(b);
	(void)state;
}

/* The disk takes nothing for a while: what failed is not there, and can be tried again. */
static void test_full_disk(void **state)
{
	struct rlimit was, none;
	struct names x;
	struct seen s = { 0 };
	uint64_t dropped;
	struct err e;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	struct backlog *b = open_at(0, &small);
	name_series(&x);
	for (uint64_t i = 1; i <= 60; i++) {
		none = was;
		none.rlim_cur = i % 3 ? 60 : 700; /* a header fits, or a little more */
		setrlimit(RLIMIT_FSIZE, &none);
		int rc = append(b, &x, i, &dropped);
		setrlimit(RLIMIT_FSIZE, &was);
		if (rc)
			assert_int_equal(append(b, &x, i, &dropped), 0);
		assert_int_equal(backlog_number(b), i);
	}
	assert_true(b->segments.n < 61);
	backlog_close(b);
	b = open_at(0, &small);
	append_all(b, 61, 70);
	read_all(b, 10, &s);
	check_whole(&s, 1, 70);
	assert_int_equal(backlog_save(b, &e), 0);
	backlog_close(b);
	(void)state;
}

/* A full queue on a disk that takes nothing: the oldest samples make way for what is written, not for what is not. */
static void test_full_queue_on_a_full_disk(void **state)
{
	static const struct backlog_options tiny = { .max_bytes = 16384, .segment_bytes = 2048 };
	struct backlog *b = open_at(0, &tiny);
	struct rlimit was, none;
	struct names x;
	uint64_t dropped = 0;
	uint64_t i = 1;
	name_series(&x);
	for (uint64_t all = 0; !all || backlog_bytes(b) < tiny.max_bytes - 30; i++, all += dropped) /* no block is that small */
		assert_int_equal(append(b, &x, i, &dropped), 0);
	getrlimit(RLIMIT_FSIZE, &was);
	none = was;
	none.rlim_cur = 60; /* a header fits */
	uint64_t pending = backlog_pending(b);
	setrlimit(RLIMIT_FSIZE, &none);
	for (unsigned k = 0; k < 100; k++) {
		int rc = append(b, &x, i, &dropped);
		uint64_t now = backlog_pending(b);
		if (!rc || dropped || now != pending) {
			setrlimit(RLIMIT_FSIZE, &was);
			fail_msg("try %u: rc %d, %" PRIu64 " dropped, %" PRIu64 " of %" PRIu64 " pending", k, rc, dropped, now, pending);
		}
	}
	setrlimit(RLIMIT_FSIZE, &was);
	assert_int_equal(append(b, &x, i, &dropped), 0);
	backlog_close(b);
	(void)state;
}

/* How far it was sent is lost: everything comes again. Headers are lost: what they held, and it goes on. */
static void test_lost_files(void **state)
{
	struct seen s = { 0 }, again = { 0 };
	struct err e;
	struct backlog *b = open_at(0, &small);
	append_all(b, 1, 20);
	read_all(b, 10, &s);
	assert_int_equal(backlog_save(b, &e), 0);
	backlog_close(b);
	AUTOFREE char *position = xasprintf("%s/position", dir), *first = file_of(1);
	put_file(position, VIEW("pyrrha-remote-position 1\nat 1 99999 3 7\nuntil 1 2 3 4 parts 9\nchecksum 0\n"));
	b = open_at(0, &small);
	read_all(b, 10, &again);
	check_whole(&again, 1, 20);
	backlog_close(b);
	put_file(first, VIEW("nothing like it"));
	b = open_at(20, &small);
	append_all(b, 21, 30);
	again = (struct seen){ 0 };
	read_all(b, 10, &again);
	check_whole(&again, 21, 30);
	backlog_close(b);
	(void)state;
}

/* Payloads that are made up: refused, or consistent. */
static void test_bad_blocks(void **state)
{
	static const char *const bad[] = { "", "\1", "\1\1\5\0\0", "\1\1\0\1\1\377\377\377\377\17", "\1\1\0\0\1\0\0", "\1\1\0\0\0x" };
	static const size_t lens[] = { 0, 1, 5, 10, 7, 6 };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct segment_reader r;
		struct segment_read block = { 0 };
		struct err e;
		segment_reader_init(&r, 4);
		assert_int_equal(segment_get_block(&r, view_make(bad[i], lens[i]), &block, &e), -ERR_CORRUPT);
		assert_int_equal(block.samples.n, 0);
		vec_free(&block.samples);
		segment_reader_release(&r);
	}
	(void)state;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_all_once), TEST(test_a_round_again), TEST(test_torn), TEST(test_flips), TEST(test_damage_of_what_was_sent),
		TEST(test_bound), TEST(test_full_disk), TEST(test_full_queue_on_a_full_disk),
		TEST(test_lost_files), TEST(test_bad_blocks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
