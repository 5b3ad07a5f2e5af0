/* SPDX-License-Identifier: Apache-2.0 */
/* A gap is a run of record numbers that the log lacks. What its records held is known from, in this order:
 *
 *	head.marks   the extents that it had of them when they were there (tsdb/log/log_extents.h)
 *	neighbours   the records before and after it: what lies between their stamps if they are of one day, else both days
 *	the clock    a log that lacks its end: until now
 *
 * Hours whose part covers the gap have lost nothing. Runs before threads. */
#include "tsdb/write/hole_find.h"

#include <stdlib.h>

#include "base/log.h"
#include "tsdb/log/log_extents.h"
#include "tsdb/part/part.h"

#define MARGIN_MS INT64_C(60000)          /* stamps are not in the order of commits: a scrape takes its time */
#define MOST_HOURS (INT64_C(24) * 40)     /* that are looked at one by one */

struct hole_finder {
	struct tsdb *db;
	const struct version *v;
	struct hlog_gap gap;
	int64_t now_ms;
	VEC(struct source_span) spans;
};

static void hole_span(struct hole_finder *f, int64_t after_ms, int64_t until_ms)
{
	if (after_ms < until_ms)
		vec_push(&f->spans, (struct source_span){ after_ms, until_ms });
}

static void hole_span_days(struct hole_finder *f, uint32_t first, uint32_t last)
{
	hole_span(f, (int64_t)first * DAY_MS, ((int64_t)last + 1) * DAY_MS);
}

/* ---- what the gap held ---- */

/* The gap's records up to what the marks had seen. */
static void hole_by_marks(struct hole_finder *f, const struct log_extents *marked)
{
	for (size_t i = 0; i < marked->rows.n; i++) {
		const struct log_extent *x = &marked->rows.v[i];
		if (x->first <= f->gap.last && x->last >= f->gap.first)
			hole_span(f, x->from_ms - 1, x->until_ms);
	}
}

/* The extents nearest to the records from `first` to the gap's last, on either side; one around them is both. */
static void hole_neighbours(const struct hole_finder *f, uint64_t first, const struct log_extent **before, const struct log_extent **after)
{
	const struct log_extents *there = hlog_extents_replayed(f->db->log);
	for (size_t i = 0; i < there->rows.n; i++) {
		const struct log_extent *x = &there->rows.v[i];
		if (x->first < first && (!*before || MIN(x->last, first - 1) > MIN((*before)->last, first - 1)))
			*before = x;
		if (x->last > f->gap.last && (!*after || MAX(x->first, f->gap.last + 1) < MAX((*after)->first, f->gap.last + 1)))
			*after = x;
	}
}

static void hole_by_neighbours(struct hole_finder *f, uint64_t first)
{
	const struct log_extent *before = NULL, *after = NULL;
	hole_neighbours(f, first, &before, &after);
	if (before && after && before->day == after->day) {
		hole_span(f, MIN(before->from_ms, after->from_ms) - MARGIN_MS, MAX(before->until_ms, after->until_ms) + MARGIN_MS);
	} else if (before && after) {
		hole_span_days(f, before->day, before->day);
		hole_span_days(f, after->day, after->day);
	} else if (before) {
		hole_span(f, before->from_ms - MARGIN_MS, MAX(f->now_ms, before->until_ms) + MARGIN_MS);
	} else if (after) {
		hole_span(f, (int64_t)after->day * DAY_MS, after->until_ms + MARGIN_MS);
	} else {
		hole_span(f, 0, f->now_ms + MARGIN_MS); /* the log is gone, and nothing says what it held */
	}
}

/* ---- what of it is elsewhere ---- */

static bool hole_is_void(const struct hole_finder *f, int64_t hour)
{
	uint32_t day = (uint32_t)(hour / 24);
	const struct pstate *s = version_find(f->v, day);
	return dropped_record(&f->db->dropped, day) >= f->gap.last || hlog_gone(f->db->log, day) >= f->gap.last ||
	       (s && tsdb_is_sealed(f->v, s->p, hour, f->gap.last));
}

static void hole_put(struct hole_finder *f, int64_t after_ms, int64_t until_ms)
{
	holes_add(&f->db->holes, &(struct hole){ f->gap.first, f->gap.last, after_ms, until_ms, f->now_ms });
}

/* Adds the hours of a span that lost something, joined where they follow each other. Returns how many holes that is. */
static size_t hole_put_span(struct hole_finder *f, struct source_span x)
{
	int64_t from = window_of(x.after_ms + 1), until = window_of(x.until_ms), after = 0;
	bool open = false;
	size_t n = 0;
	if (until - from > MOST_HOURS) {
		hole_put(f, x.after_ms, x.until_ms);
		return 1;
	}
	for (int64_t hour = from; hour <= until + 1; hour++) {
		bool harmed = hour <= until && !hole_is_void(f, hour);
		if (harmed && !open)
			after = MAX(x.after_ms, hour * HOUR_MS);
		if (!harmed && open)
			hole_put(f, after, MIN(x.until_ms, hour * HOUR_MS));
		n += !harmed && open;
		open = harmed;
	}
	return n;
}

static int span_by_begin(const void *a, const void *b)
{
	const struct source_span *x = a, *y = b;
	return (x->after_ms > y->after_ms) - (x->after_ms < y->after_ms);
}

/* A gap without harm is noted too: the next replay no longer knows what it was. */
static void hole_put_spans(struct hole_finder *f)
{
	size_t n = 0, found = 0;
	if (f->spans.n)
		qsort(f->spans.v, f->spans.n, sizeof *f->spans.v, span_by_begin);
	for (size_t i = 0; i < f->spans.n; i++)
		if (n && f->spans.v[i].after_ms <= f->spans.v[n - 1].until_ms)
			f->spans.v[n - 1].until_ms = MAX(f->spans.v[n - 1].until_ms, f->spans.v[i].until_ms);
		else
			f->spans.v[n++] = f->spans.v[i];
	for (size_t i = 0; i < n; i++)
		found += hole_put_span(f, f->spans.v[i]);
	if (!found)
		hole_put(f, 0, 0);
	f->spans.n = 0;
}

/* ---- all of them ---- */

static void hole_find_gap(struct hole_finder *f, struct hlog_gap gap)
{
	const struct log_extents *marked = hlog_extents_marked(f->db->log);
	if (holes_has_records(&f->db->holes, gap.first, gap.last))
		return;
	f->gap = gap;
	hole_by_marks(f, marked);
	if (gap.last > marked->seen)
		hole_by_neighbours(f, MAX(gap.first, marked->seen + 1));
	hole_put_spans(f);
}

static const struct log_facts *hole_facts_of(const struct log_extents *x, uint32_t day)
{
	for (size_t i = 0; i < x->facts.n; i++)
		if (x->facts.v[i].day == day)
			return &x->facts.v[i];
	return NULL;
}

/* Facts of a day are fewer than the marks say, or their newest is missing: what a delete had hidden is back, or names that came late are gone. */
static void hole_find_facts(struct hole_finder *f, const struct log_facts *marked)
{
	const struct log_facts *there = hole_facts_of(hlog_extents_replayed(f->db->log), marked->day);
	int64_t after = (int64_t)marked->day * DAY_MS;
	uint64_t n = 0;
	if (dropped_record(&f->db->dropped, marked->day) >= marked->last || hlog_gone(f->db->log, marked->day) >= marked->last)
		return;
	bool newest = false; /* an older copy of the log has facts that were trimmed since */
	for (size_t i = 0; there && i < there->numbers.n; i++) {
		n += there->numbers.v[i] <= marked->last;
		newest |= there->numbers.v[i] == marked->last;
	}
	if (n >= marked->count && newest)
		return;
	n = MIN(n, marked->count - 1);
	LOG_WARN("msg", "the head log lost facts of a day: deletes, or names that came late", "partition", LOG_NUM(marked->day), "lost",
		 LOG_NUM(marked->count - n));
	atomic_fetch_add(&f->db->lost_records, marked->count - n);
	if (!holes_has_time(&f->db->holes, after, after + DAY_MS))
		holes_add(&f->db->holes, &(struct hole){ 0, 0, after, after + DAY_MS, f->now_ms });
}

void hole_find(struct tsdb *db, const struct version *v, const struct hlog_loss *loss)
{
	struct hole_finder f = { .db = db, .v = v, .now_ms = tsdb_now_ms(db) };
	const struct log_extents *marked = hlog_extents_marked(db->log);
	for (size_t i = 0; i < loss->gaps.n; i++)
		hole_find_gap(&f, loss->gaps.v[i]);
	for (size_t i = 0; i < marked->facts.n; i++)
		hole_find_facts(&f, &marked->facts.v[i]);
	vec_free(&f.spans);
}

void hole_find_end(struct tsdb *db, const struct version *v, uint64_t last)
{
	struct hole_finder f = { .db = db, .v = v, .now_ms = tsdb_now_ms(db) };
	if (last > hlog_last(db->log) && !hlog_may_be_trimmed(db->log))
		hole_find_gap(&f, (struct hlog_gap){ hlog_last(db->log) + 1, last });
	vec_free(&f.spans);
}
