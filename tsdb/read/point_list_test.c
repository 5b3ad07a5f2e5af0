/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of profiles come to the same as the profiles: random series, hours and windows, with a plain model of what a window takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "tsdb/read/point_list.h"
#include "tsdb/testkit.h"

#define LIST_MS 1000 /* of one hour of these series */
#define ROUNDS 60000

struct list_rows {
	VEC(struct source_point) v; /* markers too (cover_ms 0) */
};

/* What a window comes to: whole profiles, and parts of others in order of time. */
struct window_sum {
	int64_t whole, n;
	double parts;
};

static void sum_add(struct window_sum *s, const struct source_point *p, int64_t until, int64_t from, int64_t to)
{
	int64_t ms = MIN(until, to) - MAX(p->t_ms - p->cover_ms, from);
	if (ms <= 0)
		return;
	if (ms == p->cover_ms)
		s->whole += p->total;
	else
		s->parts += (double)p->total * ((double)ms / (double)p->cover_ms);
}

/* Of profiles and markers in order of time, as promql-like/eval/pwindow.h says. */
static struct window_sum model_window(const struct list_rows *r, int64_t from, int64_t to)
{
	struct window_sum s = { 0 };
	size_t newest = SIZE_MAX;
	for (size_t i = 0; i < r->v.n; i++)
		if (r->v.v[i].t_ms <= to && r->v.v[i].cover_ms)
			newest = i;
	for (size_t i = 0; i < r->v.n && newest != SIZE_MAX; i++) {
		const struct source_point *p = &r->v.v[i];
		if (!p->cover_ms || p->t_ms > to)
			continue;
		s.n += p->t_ms > from;
		int64_t ahead = i == newest ? p->ahead : 0;
		if (i == newest && i + 1 < r->v.n && r->v.v[i + 1].t_ms <= to)
			ahead = MIN(ahead, r->v.v[i + 1].t_ms - p->t_ms);
		if (p->t_ms > from || i == newest)
			sum_add(&s, p, p->t_ms + ahead, from, to);
	}
	return s;
}

static struct window_sum points_window(const struct source_points *p, int64_t from, int64_t to)
{
	struct window_sum s = { 0 };
	size_t lo = 0, hi = 0;
	while (hi < p->n && p->v[hi].t_ms <= to)
		hi++;
	while (lo < hi && p->v[lo].t_ms <= from)
		lo++;
	s.n = (int64_t)(source_points_before(p, hi) - source_points_before(p, lo));
	for (size_t i = hi ? MIN(lo, hi - 1) : hi; i < hi; i++) {
		assert_true(i + 1 < hi || !p->v[i].is_run); /* the newest is itself */
		if (p->v[i].is_run)
			assert_true(p->v[i].t_ms - p->v[i].cover_ms >= from);
		sum_add(&s, &p->v[i], p->v[i].t_ms + (i + 1 == hi ? p->v[i].ahead : 0), from, to);
	}
	return s;
}

/* ---- random series ---- */

struct dice {
	uint64_t state;
};

static int64_t roll(struct dice *d, int64_t n)
{
	return (int64_t)(kit_random(&d->state) % (uint64_t)n);
}

/* The profiles of an hour, and its marker. */
static void make_hour(struct dice *d, struct list_rows *r, int64_t start, int64_t every)
{
	int64_t t = start + roll(d, every + 1);
	for (; t <= start + LIST_MS; t += every + (roll(d, 4) ? 0 : roll(d, 5) - 2)) {
		int64_t cover = roll(d, 5) ? every : 1 + roll(d, 2 * every);
		if (t <= start || (r->v.n && t <= r->v.v[r->v.n - 1].t_ms))
			continue;
		if (roll(d, 7))
			vec_push(&r->v, (struct source_point){ t, roll(d, 100), (uint32_t)cover, 0, (uint32_t)(every + roll(d, 9)) & SOURCE_POINT_AHEAD_MAX });
		if (!roll(d, 60)) { /* the series ends here */
			if (r->v.n && t + 2 <= start + LIST_MS)
				vec_push(&r->v, (struct source_point){ .t_ms = t + 2 });
			return;
		}
	}
}

/* What a generation has of rows [lo, hi) of one hour; false: markers are between them. */
static bool hour_of(const struct list_rows *r, size_t lo, size_t hi, struct point_hour *ret)
{
	size_t n = hi - lo;
	if (n && !r->v.v[hi - 1].cover_ms)
		n--;
	for (size_t i = lo; i < lo + n; i++)
		if (!r->v.v[i].cover_ms)
			return false;
	if (!n)
		return false;
	const struct source_point *v = r->v.v + lo, *last = &v[n - 1];
	*ret = (struct point_hour){ .first = v[0], .last = *last, .n = (uint32_t)n, .others_after_ms = n > 1 ? INT64_MAX : 0, .has_marker = lo + n < hi,
				    .marker_ms = r->v.v[hi - 1].t_ms };
	ret->first.ahead = 0; /* not known */
	for (size_t i = 1; i < n; i++) {
		ret->others_after_ms = MIN(ret->others_after_ms, v[i].t_ms - v[i].cover_ms);
		ret->total += i + 1 < n ? v[i].total : 0;
	}
	return true;
}

static void add_rows(struct point_list *l, const struct list_rows *r, size_t lo, size_t hi)
{
	point_list_flush(l);
	for (size_t i = lo; i < hi; i++) {
		if (r->v.v[i].cover_ms)
			point_list_add(l, r->v.v[i]);
		else
			point_list_add_marker(l, r->v.v[i].t_ms);
	}
}

/* Adds a list's hours; `read` says which of them are read. */
static size_t add_list(struct point_list *l, const struct list_rows *r, struct dice *d, int read)
{
	size_t joined = 0;
	for (size_t lo = 0, hi; lo < r->v.n; lo = hi) {
		int64_t end = (r->v.v[lo].t_ms + LIST_MS - 1) / LIST_MS * LIST_MS;
		struct point_hour h;
		for (hi = lo; hi < r->v.n && r->v.v[hi].t_ms <= end;)
			hi++;
		bool known = (!read || roll(d, read)) && hour_of(r, lo, hi, &h) && point_list_can_join(l, &h);
		if (known)
			point_list_join(l, &h);
		else
			add_rows(l, r, lo, hi);
		joined += known;
	}
	point_list_flush(l);
	return joined;
}

static int by_time(const void *a, const void *b)
{
	const struct source_point *x = a, *y = b;
	return (x->t_ms > y->t_ms) - (x->t_ms < y->t_ms);
}

/* No two have one stamp: their order is not defined. */
static bool join_rows(struct list_rows *all, const struct list_rows *more)
{
	for (size_t i = 0; i < more->v.n; i++)
		vec_push(&all->v, more->v.v[i]);
	if (all->v.n)
		qsort(all->v.v, all->v.n, sizeof *all->v.v, by_time);
	for (size_t i = 1; i < all->v.n; i++)
		if (all->v.v[i].t_ms == all->v.v[i - 1].t_ms)
			return false;
	return true;
}

static void test_runs(void **state)
{
	struct dice d = { 1 };
	size_t n_windows = 0, n_joined = 0, n_shorter = 0, n_parts = 0;
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct list_rows one = { .v = { 0 } }, other = { .v = { 0 } }, all = { .v = { 0 } };
		int64_t every = 20 + roll(&d, 200), hours = 1 + roll(&d, 8), whole = roll(&d, 3);
		for (int64_t h = 0; h < hours; h++)
			if (roll(&d, 6))
				make_hour(&d, &one, h * LIST_MS, every);
		for (int64_t h = 0; h < hours && round % 4 == 0; h++) /* late rows, or those of another server */
			if (!roll(&d, 3))
				make_hour(&d, &other, h * LIST_MS, every);
		struct source_windows w = { .range_ms = 1 + roll(&d, 3 * LIST_MS), .step_ms = 1 + roll(&d, 2 * LIST_MS), .n = (size_t)(1 + roll(&d, 12)) };
		w.until_ms = roll(&d, 3 * LIST_MS);
		if (whole) {
			w.range_ms = (1 + roll(&d, 3)) * LIST_MS;
			w.step_ms = (1 + roll(&d, 3)) * LIST_MS;
			w.until_ms = w.until_ms / LIST_MS * LIST_MS;
		}
		struct point_list l = { .windows = &w };
		struct source_points p;
		point_list_reset(&l);
		bool distinct = join_rows(&all, &one) && join_rows(&all, &other);
		n_joined += add_list(&l, &one, &d, round % 3 ? 3 : 0);
		n_joined += add_list(&l, &other, &d, 0);
		point_list_finish(&l, &p);
		assert_true(p.plain);
		n_shorter += p.n * 2 < all.v.n;
		for (size_t k = 0; k < w.n && distinct; k++) {
			int64_t to = w.until_ms + (int64_t)k * w.step_ms, from = to - w.range_ms;
			struct window_sum a = model_window(&all, from, to), b = points_window(&p, from, to);
			if (a.whole != b.whole || a.parts != b.parts || a.n != b.n)
				fail_msg("round %d, (%lld, %lld]: %lld + %.17g of %lld, want %lld + %.17g of %lld", round, (long long)from, (long long)to, (long long)b.whole,
					 b.parts, (long long)b.n, (long long)a.whole, a.parts, (long long)a.n);
			n_windows++;
			n_parts += a.parts != 0;
		}
		source_points_release(&p);
		vec_free(&one.v);
		vec_free(&other.v);
		vec_free(&all.v);
	}
	assert_true(n_joined > ROUNDS && n_shorter > ROUNDS / 10 && n_windows > ROUNDS && n_parts > ROUNDS / 10);
}

/* ---- edges ---- */

static void test_edges(void **state)
{
	struct dice d = { 2 };
	(void)state;
	for (int round = 0; round < 200000; round++) {
		struct source_windows w = { roll(&d, 100) - 50, roll(&d, 40), roll(&d, 20), (size_t)(1 + roll(&d, 6)) };
		int64_t from = roll(&d, 300) - 150, until = from + roll(&d, 20);
		bool want = false;
		if (!w.step_ms)
			w.n = 1;
		for (size_t k = 0; k < w.n; k++)
			for (int side = 0; side < 2; side++) {
				int64_t at = w.until_ms + (int64_t)k * w.step_ms - side * w.range_ms;
				want |= at >= from && at < until;
			}
		assert_int_equal(source_windows_edge(&w, from, until), want);
	}
}

/* Sums that are too large are said to be, however they come. */
static void test_large(void **state)
{
	struct source_windows w = { 5000, 5000, 1, 1 };
	(void)state;
	for (int more = 0; more < 2; more++) {
		struct point_list l = { .windows = &w };
		struct source_points p;
		point_list_reset(&l);
		for (int64_t k = 0; k < 3; k++) {
			int64_t large = (int64_t)(SOURCE_POINTS_MOST / 9) + (k == 2 ? more : 0) - 1;
			struct point_hour h = { .first = { k * 1000 + 10, large, 10, 0, 0 }, .last = { k * 1000 + 1000, large, 10, 0, 10 }, .n = 3, .total = large + 1,
						.others_after_ms = k * 1000 + 10 };
			h.total += k == 2 ? (int64_t)(SOURCE_POINTS_MOST % 9) + 5 : 0;
			assert_true(point_list_can_join(&l, &h));
			point_list_join(&l, &h);
		}
		point_list_flush(&l);
		assert_int_equal(l.size < SOURCE_POINTS_MOST, !more);
		point_list_finish(&l, &p);
		assert_int_equal(p.plain, !more);
		source_points_release(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_runs), cmocka_unit_test(test_edges), cmocka_unit_test(test_large) };
	return cmocka_run_group_tests_name("point list", tests, NULL, NULL);
}
