/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pieces of an agent's history are cut, what its answers say, and how the cursor is written down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "scraper/state/cursor.h"
#include "scraper/seen.h"

#define T INT64_C(1700000000000) /* a multiple of 10 s; of 15 s, 5 s after one */

static struct cursor_answer answer_of(const char *boot, const char *covered, const char *windows, const char *finished, const char *next)
{
	char v[CURSOR_HEADERS][128] = { 0 };
	struct cursor_answer a;
	const char *said[] = { boot, covered, windows, finished, next };
	for (int i = 0; i < CURSOR_HEADERS; i++)
		snprintf(v[i], sizeof v[i], "%s", said[i]);
	cursor_parse_answer(v, &a);
	return a;
}

/* The windows of 10 s that begin in the piece, as an agent answers. */
static struct cursor_answer windows_of(const struct cursor_piece *p, const char *boot, int64_t first_ms)
{
	int64_t from = (p->from_ms + 9999) / 10000 * 10000, to = (p->to_ms + 9999) / 10000 * 10000;
	struct cursor_answer a = { .start_ms = from, .end_ms = to, .finished_ms = to, .first = (uint64_t)((from - first_ms) / 10000 + 1),
				   .last = (uint64_t)((to - first_ms) / 10000) };
	snprintf(a.boot, sizeof a.boot, "%s", boot);
	return a;
}

/* Asked at any time, now and then or often, the pieces are the same. */
static void pieces_follow_from_windows_and_interval(void **state)
{
	(void)state;
	static const int64_t intervals[] = { 1000, 5000, 10000, 15000, 20000, 60000 };
	for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
		int64_t ends[2][64], lost = 0;
		for (int server = 0; server < 2; server++) {
			struct history_cursor c = { .at = { "b", 0, T } };
			int64_t now = T + (server ? 300000 : 0);
			for (int n = 0; n < 12; now += server ? 1700 : 333) {
				struct cursor_piece p = cursor_next(&c, intervals[i], now);
				if (!p.to_ms)
					continue;
				struct cursor_answer a = windows_of(&p, "b", T);
				if (a.end_ms > now) /* as an agent whose clock is right says */
					a = (struct cursor_answer){ .boot = "b", .finished_ms = now / 10000 * 10000 };
				uint64_t more;
				if (cursor_learn(&c, &p, &a, a.end_ms ? 200 : 404, intervals[i], now) != CURSOR_TAKEN)
					continue;
				assert_true(a.end_ms <= now);
				struct cursor_at to = cursor_after(&p, &a, &more);
				lost += (int64_t)more;
				cursor_move(&c, &to, more, now);
				ends[server][n++] = to.end_ms;
			}
		}
		assert_memory_equal(ends[0], ends[1], 12 * sizeof ends[0][0]);
		assert_int_equal(lost, 0);
		for (int n = 1; n < 12; n++)
			assert_true(ends[0][n] - ends[0][n - 1] <= (intervals[i] + 9999) / 10000 * 10000);
	}
}

static void begins_one_interval_back(void **state)
{
	(void)state;
	struct history_cursor c = { 0 };
	struct cursor_piece p = cursor_next(&c, 10000, T + 2500);
	assert_int_equal(p.from_ms, T - 10000);
	assert_int_equal(p.to_ms, T);
	p = cursor_next(&c, 10000, T + 1500); /* the window may not be finished yet */
	assert_int_equal(p.from_ms, T - 20000);
	p = cursor_next(&c, 1000, T + 2500); /* shorter than a window: the newest window */
	assert_int_equal(p.from_ms, T - 10000);
	p = cursor_next(&c, 60000, T + 2500);
	assert_int_equal(p.to_ms - p.from_ms, 60000);
	assert_int_equal(p.to_ms % 60000, 0);
}

static void what_an_answer_says(void **state)
{
	(void)state;
	struct history_cursor c = { .at = { "b", 5, T } };
	struct cursor_piece p = cursor_next(&c, 10000, T + 13000);
	assert_int_equal(p.from_ms, T);
	/* not finished */
	struct cursor_answer a = answer_of("b", "", "", "1700000000000", "");
	assert_int_equal(cursor_learn(&c, &p, &a, 404, 10000, T + 13000), CURSOR_WAIT);
	assert_int_equal(c.from_ms, 0);
	/* windows were dropped: on where there is something */
	a = answer_of("b", "", "", "1700000120000", "1700000070000");
	assert_int_equal(cursor_learn(&c, &p, &a, 404, 10000, T + 125000), CURSOR_MOVED);
	p = cursor_next(&c, 10000, T + 125000);
	assert_int_equal(p.from_ms, T + 70000);
	a = answer_of("b", "1700000070000-1700000080000", "13-13", "1700000120000", "");
	assert_int_equal(cursor_learn(&c, &p, &a, 200, 10000, T + 125000), CURSOR_TAKEN);
	uint64_t lost;
	struct cursor_at to = cursor_after(&p, &a, &lost);
	assert_int_equal(lost, 7);
	cursor_move(&c, &to, lost, T);
	/* another run: one window at least */
	p = cursor_next(&c, 10000, T + 125000);
	a = answer_of("c", "1700000084000-1700000090000", "1-1", "1700000120000", "");
	assert_int_equal(cursor_learn(&c, &p, &a, 200, 10000, T + 125000), CURSOR_TAKEN);
	to = cursor_after(&p, &a, &lost);
	assert_int_equal(lost, 1);
	cursor_move(&c, &to, lost, T);
	assert_string_equal(c.at.boot, "c");
	assert_int_equal(c.lost, 8);
	/* the agent's clock was set back by an hour: what comes has higher numbers */
	p = cursor_next(&c, 10000, T + 125000);
	a = answer_of("c", "", "", "1699996400000", "");
	assert_int_equal(cursor_learn(&c, &p, &a, 404, 10000, T + 125000), CURSOR_MOVED);
	p = cursor_next(&c, 10000, T + 125000);
	assert_int_equal(p.from_ms, 1);
	assert_true(p.to_ms > 0);
	a = answer_of("c", "", "", "1699996400000", "1699996390000");
	assert_int_equal(cursor_learn(&c, &p, &a, 404, 10000, T + 125000), CURSOR_MOVED);
	p = cursor_next(&c, 10000, T + 125000);
	assert_int_equal(p.from_ms, 1699996390000);
	/* no agent, or an old one */
	a = answer_of("", "", "", "", "");
	assert_int_equal(cursor_learn(&c, &p, &a, 200, 10000, T), CURSOR_OLD);
	/* one that says nothing of how far it is is waited for, not for ever */
	a = answer_of("c", "", "", "", "");
	assert_int_equal(cursor_learn(&c, &p, &a, 404, 10000, p.to_ms + 20000), CURSOR_WAIT);
	assert_int_equal(cursor_learn(&c, &p, &a, 404, 10000, p.to_ms + 80000), CURSOR_MOVED);
}

/* A malformed header is ignored. */
static void answers_that_lie(void **state)
{
	(void)state;
	struct cursor_answer a = answer_of("b b", "9-3", "x-y", "-5", "99999999999999999999");
	assert_string_equal(a.boot, "");
	assert_true(!a.start_ms && !a.end_ms && !a.first && !a.last && !a.finished_ms && !a.next_ms);
	a = answer_of("b", "1-1700000000000", "1-", "", "");
	assert_int_equal(a.end_ms, 0); /* half a century in one piece */
	a = answer_of("0123456789012345678901234567890123456789012345678901234567890123", "", "", "", "");
	assert_string_equal(a.boot, "");
}

/* Nothing is taken that is not of the piece: it was stored before, or will come again. */
static void answers_about_other_times(void **state)
{
	static const struct { const char *covered, *windows; enum cursor_news want; } rows[] = {
		{ "1700000000000-1700000010000", "6-6", CURSOR_TAKEN },
		{ "1700000004000-1700000010000", "8-9", CURSOR_TAKEN }, /* a hole */
		{ "1700000000000-1700000010000", "", CURSOR_TAKEN },    /* it does not number them */
		{ "1699999999999-1700000010000", "6-6", CURSOR_TAKEN }, /* rounded */
		{ "1699999970000-1700000010000", "6-9", CURSOR_WRONG },
		{ "1699999990000-1700000000000", "6-6", CURSOR_WRONG },
		{ "1700000000000-1700000010000", "5-6", CURSOR_WRONG },
		{ "1700000000000-1700000010000", "1-9", CURSOR_WRONG },
		{ "1700000020000-1700000030000", "8-8", CURSOR_WRONG },
		{ "1700000000000-1700086400000", "6-8646", CURSOR_WRONG },
		{ "2700000000000-2700000010000", "6-6", CURSOR_WRONG },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct history_cursor c = { .at = { "b", 5, T }, .met = true };
		struct cursor_piece p = cursor_next(&c, 10000, T + 13000);
		struct cursor_answer a = answer_of("b", rows[i].covered, rows[i].windows, "1700000010000", "");
		assert_int_equal(p.from_ms, T);
		if (cursor_learn(&c, &p, &a, 200, 10000, T + 13000) != rows[i].want)
			fail_msg("%s %s", rows[i].covered, rows[i].windows);
	}
	/* It is asked for three times; then the next is, and nothing of it was learnt. */
	struct history_cursor c = { .at = { "b", 5, T }, .met = true };
	struct cursor_answer a = answer_of("b", "2700000000000-2700000010000", "6-6", "", "");
	for (int i = 0; i < 3; i++) {
		struct cursor_piece p = cursor_next(&c, 10000, T + 25000);
		assert_int_equal(p.from_ms, T);
		assert_int_equal(cursor_learn(&c, &p, &a, 200, 10000, T + 25000), CURSOR_WRONG);
	}
	assert_int_equal(cursor_next(&c, 10000, T + 25000).from_ms, T + 10000);
	assert_true(!c.ahead_ms && c.at.end_ms == T);
}

static void notes(void **state)
{
	(void)state;
	struct cursor_at at = { "84780a16", 17, T }, back;
	char key[CURSOR_KEY_LEN], value[CURSOR_VALUE_MAX + 3];
	uint64_t k;
	struct view seen;
	cursor_note_key(0xfedcba9876543210, key);
	size_t n = cursor_note_value(&at, value);
	memcpy(value + n, "\0xy", 3);
	assert_true(cursor_note_parse(view_make(key, sizeof key), view_make(value, n + 3), &k, &back, &seen));
	assert_true(k == 0xfedcba9876543210 && back.number == 17 && back.end_ms == T && seen.len == 3);
	assert_string_equal(back.boot, "84780a16");
	for (size_t cut = 0; cut < n; cut++)
		assert_false(cursor_note_parse(view_make(key, sizeof key), view_make(value, cut), &k, &back, &seen));
	assert_false(cursor_note_parse(view_make(key, sizeof key - 1), view_make(value, n), &k, &back, &seen));
}

struct groups {
	int n;
	int64_t age;
	struct buf text;
};

static bool take_group(void *arg, int64_t age_ms, struct labels l)
{
	struct groups *g = arg;
	g->n++;
	g->age += age_ms;
	labels_format(l, &g->text);
	return true;
}

static void what_was_seen(void **state)
{
	(void)state;
	struct label a[] = { { VIEW("comm"), VIEW("web") }, { VIEW("node"), VIEW("n1") } }, b[] = { { VIEW("comm"), VIEW("db") } };
	struct labels la = { a, 2 }, lb = { b, 1 };
	struct scrape_series s[4] = { { .group = &la, .seen = true, .last_seen_ms = T }, { .group = &lb, .live = true, .last_seen_ms = T - 20000 },
			       { .group = &lb, .live = true, .last_seen_ms = T - 400000 }, { .live = true } };
	struct scrape_series *v[] = { &s[0], &s[1], &s[2], &s[3] };
	struct series_set set = { .v = { .v = v, .n = 4 } };
	struct buf out = { 0 };
	struct arena arena;
	struct groups g = { 0 };
	arena_init(&arena, 1 << 20);
	seen_encode(&set, 0, T, &out);
	seen_decode(buf_view(&out), &arena, take_group, &g);
	assert_int_equal(g.n, 2);
	assert_int_equal(g.age, 20000);
	assert_string_equal(g.text.ptr, "{comm=\"web\", node=\"n1\"}{comm=\"db\"}");
	for (size_t cut = 0; cut < out.len; cut++) /* in a block of its own, for sanitizers */
		for (int flip = 0; flip < 256; flip += 51) {
			struct buf part = { 0 };
			buf_put(&part, out.ptr, cut + 1);
			part.ptr[cut] = (char)(part.ptr[cut] ^ flip);
			seen_decode(buf_view(&part), &arena, take_group, &g);
			buf_free(&part);
		}
	buf_free(&g.text);
	buf_free(&out);
	arena_free(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_follow_from_windows_and_interval),
		cmocka_unit_test(begins_one_interval_back),
		cmocka_unit_test(what_an_answer_says),
		cmocka_unit_test(answers_that_lie),
		cmocka_unit_test(answers_about_other_times),
		cmocka_unit_test(notes),
		cmocka_unit_test(what_was_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
