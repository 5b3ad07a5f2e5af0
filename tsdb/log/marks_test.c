/* SPDX-License-Identifier: Apache-2.0 */
/* head.marks beside trims: what it says of the log's records must not outlive them, or the next start takes the trimmed records for lost.
 * The committer's thread writes the marks every few seconds, the sealer's trims. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "tsdb/log/hlog.h"
#include "tsdb/log/log_extents.h"
#include "tsdb/log/record.h"
#include "tsdb/testkit.h"

#define FACT_DAY 19000u
#define ROW_DAY 19001u
#define RECORDS 20u
#define LOG_BYTES ((uint64_t)3 << 20)
#define MEET_MS 200 /* hlog_mark is held up so long for a trim to overtake it, which happens only if their lock is broken */

/* ---- a moment in hlog_mark ---- */

static atomic_bool armed;   /* hlog_mark shall wait once, after it has made the text of the extents */
static atomic_bool held_up; /* it is made, and not written yet */
static struct hlog *trimmed; /* hlog_mark is held up until a trim has moved the first record of this log, at most MEET_MS */

void __real_log_extents_put(const struct log_extents *x, struct buf *b);
void __wrap_log_extents_put(const struct log_extents *x, struct buf *b);

void __wrap_log_extents_put(const struct log_extents *x, struct buf *b)
{
	__real_log_extents_put(x, b);
	if (!atomic_exchange(&armed, false))
		return;
	uint64_t first = hlog_first(trimmed);
	atomic_store(&held_up, true);
	for (int64_t until = clock_mono_ms() + MEET_MS; hlog_first(trimmed) == first && clock_mono_ms() < until;)
		usleep(100);
}

/* ---- the log ---- */

static bool replay_none(void *arg, uint64_t number, struct view record)
{
	(void)arg, (void)number, (void)record;
	return true;
}

static struct hlog *open_log(const char *dir)
{
	struct hlog_loss loss;
	struct hlog *l;
	struct err e;
	bool writable;
	assert_int_equal(hlog_open(&l, dir, LOG_BYTES, &writable, &e), 0);
	assert_true(writable);
	assert_int_equal(hlog_replay(l, replay_none, NULL, &loss, &e), 0);
	vec_free(&loss.gaps);
	hlog_hold_marks(l, false);
	return l;
}

static void put(struct hlog *l, enum record_kind kind, uint32_t day)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct err e;
	record_begin(&b, kind, day);
	if (kind == RECORD_FACT)
		buf_putc(&b, FACT_NAMES);
	uint64_t number = hlog_put(l, &b);
	assert_int_equal(hlog_commit(l, &e), 0);
	if (kind == RECORD_FACT)
		hlog_saw_fact(l, day, number);
	else
		hlog_saw_rows(l, day, number, KIT_T0, KIT_T0 + 1);
	hlog_saw_all(l, number);
}

static void *mark(void *log)
{
	struct err e;
	assert_int_equal(hlog_mark(log, &e), 0);
	return NULL;
}

/* The extents that head.marks has: as a start finds them. */
static void expect_no_facts(const char *dir)
{
	AUTOFREE char *path = xasprintf("%s/head.marks", dir);
	CLEANUP(buf_free) struct buf b = { 0 };
	struct log_extents x = { .seen = 0 };
	struct err e;
	assert_int_equal(buf_read_file(&b, path, &e), 0);
	assert_true(log_extents_parse(&x, buf_view(&b)));
	assert_int_equal(x.facts.n, 0);
	assert_int_equal(x.seen, RECORDS + 1);
	log_extents_release(&x);
}

/* A trim begins after another thread has made the text for head.marks and before it has written that file. */
static void test_trim_meets_mark(void **state)
{
	struct kit k;
	pthread_t thread;
	struct err e;
	(void)state;
	kit_init(&k);
	struct hlog *l = trimmed = open_log(k.dir);
	put(l, RECORD_FACT, FACT_DAY);
	for (unsigned i = 0; i < RECORDS; i++)
		put(l, RECORD_FLOATS, ROW_DAY);
	atomic_store(&armed, true);
	assert_int_equal(thread_start(&thread, "mark", mark, l, &e), 0);
	while (!atomic_load(&held_up))
		usleep(100);
	assert_int_equal(hlog_trim(l, RECORDS, NULL, 0, &e), 0);
	pthread_join(thread, NULL);
	expect_no_facts(k.dir);
	assert_int_equal(hlog_close(l, &e), 0);
	kit_free(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_trim_meets_mark) };
	log_setup(LOG_LEVEL_ERROR + 1, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests_name("marks", tests, NULL, NULL);
}
