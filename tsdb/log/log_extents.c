/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/log/log_extents.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "tsdb/disk/text.h"

#define EXTENTS_SPAN_MS INT64_C(60000)
#define EXTENTS_SPAN_MOST (INT64_C(86400000) * 2)
#define EXTENTS_MOST 256 /* extents of a log; when there are more, neighbours of one day are joined */
#define EXTENTS_APART 256 /* most record numbers between two extents that are joined */
#define EXTENTS_HEAD "pyrrha-head-extents 1"

/* ---- adding ---- */

static bool extent_joins(const struct log_extents *x, const struct log_extent *a, const struct log_extent *b)
{
	int64_t span = MAX(a->until_ms, b->until_ms) - MIN(a->from_ms, b->from_ms);
	int64_t most = x->span_ms ? x->span_ms : EXTENTS_SPAN_MS;
	return a->day == b->day && span <= most && (b->first <= a->last + EXTENTS_APART || most > EXTENTS_SPAN_MS);
}

static void extent_join(struct log_extent *a, const struct log_extent *b)
{
	a->first = MIN(a->first, b->first);
	a->last = MAX(a->last, b->last);
	a->from_ms = MIN(a->from_ms, b->from_ms);
	a->until_ms = MAX(a->until_ms, b->until_ms);
}

/* Joins the extent e with the newest extent of its day that may grow by it, else appends e to the rows. */
static void extents_take(struct log_extents *x, const struct log_extent *e)
{
	for (size_t i = x->rows.n; i--;)
		if (extent_joins(x, &x->rows.v[i], e)) {
			extent_join(&x->rows.v[i], e);
			return;
		}
	vec_push(&x->rows, *e);
}

static void extents_condense(struct log_extents *x)
{
	while (x->rows.n > EXTENTS_MOST / 2 && x->span_ms < EXTENTS_SPAN_MOST) {
		size_t n = x->rows.n;
		x->span_ms = (x->span_ms ? x->span_ms : EXTENTS_SPAN_MS) * 2;
		x->rows.n = 0;
		for (size_t i = 0; i < n; i++) {
			struct log_extent e = x->rows.v[i]; /* what is taken is never ahead of what is read */
			extents_take(x, &e);
		}
	}
}

void log_extents_add_rows(struct log_extents *x, uint32_t day, uint64_t number, int64_t from_ms, int64_t until_ms)
{
	size_t before = x->rows.n;
	extents_take(x, &(struct log_extent){ day, number, number, from_ms, until_ms });
	if (x->rows.n > before && x->rows.n > EXTENTS_MOST)
		extents_condense(x);
}

static struct log_facts *extents_facts_of(struct log_extents *x, uint32_t day)
{
	for (size_t i = 0; i < x->facts.n; i++)
		if (x->facts.v[i].day == day)
			return &x->facts.v[i];
	struct log_facts *f = vec_add(&x->facts);
	*f = (struct log_facts){ .day = day };
	return f;
}

void log_extents_add_fact(struct log_extents *x, uint32_t day, uint64_t number)
{
	struct log_facts *f = extents_facts_of(x, day);
	vec_push(&f->numbers, number);
	f->count++;
	f->last = number;
}

static void extents_drop_facts(struct log_extents *x, size_t i)
{
	vec_free(&x->facts.v[i].numbers);
	x->facts.v[i] = x->facts.v[--x->facts.n];
}

void log_extents_forget_day(struct log_extents *x, uint32_t day)
{
	for (size_t i = x->facts.n; i--;)
		if (x->facts.v[i].day == day)
			extents_drop_facts(x, i);
}

/* ---- trimming ---- */

static bool extents_is_kept(const struct log_keep *keep, size_t n, uint64_t number, uint32_t day)
{
	size_t a = 0, b = n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (keep[m].number < number)
			a = m + 1;
		else
			b = m;
	}
	return a < n && keep[a].number == number && keep[a].day == day;
}

static void extents_trim_facts(struct log_facts *f, uint64_t below, const struct log_keep *keep, size_t n_keep)
{
	size_t n = 0;
	for (size_t i = 0; i < f->numbers.n; i++)
		if (f->numbers.v[i] >= below || extents_is_kept(keep, n_keep, f->numbers.v[i], f->day))
			f->numbers.v[n++] = f->numbers.v[i];
	f->numbers.n = f->count = n;
	f->last = n ? f->numbers.v[n - 1] : 0;
}

void log_extents_trim(struct log_extents *x, uint64_t below, const struct log_keep *keep, size_t n_keep)
{
	size_t n = 0;
	for (size_t i = 0; i < x->rows.n; i++)
		if (x->rows.v[i].last >= below)
			x->rows.v[n++] = x->rows.v[i];
	x->rows.n = n;
	if (n < EXTENTS_MOST / 4)
		x->span_ms = 0;
	for (size_t i = x->facts.n; i--;) {
		extents_trim_facts(&x->facts.v[i], below, keep, n_keep);
		if (!x->facts.v[i].count)
			extents_drop_facts(x, i);
	}
}

void log_extents_release(struct log_extents *x)
{
	while (x->facts.n)
		extents_drop_facts(x, x->facts.n - 1);
	vec_free(&x->facts);
	vec_free(&x->rows);
	x->seen = 0;
	x->span_ms = 0;
}

/* ---- text ---- */

void log_extents_put(const struct log_extents *x, struct buf *b)
{
	log_extents_put_above(x, 0, b);
}

void log_extents_put_above(const struct log_extents *x, uint64_t above, struct buf *b)
{
	size_t from = b->len;
	buf_printf(b, EXTENTS_HEAD "\nseen %" PRIu64 "\n", x->seen);
	for (size_t i = 0; i < x->rows.n; i++) {
		const struct log_extent *e = &x->rows.v[i];
		if (e->last <= above)
			continue;
		buf_printf(b, "rows day %u records %" PRIu64 " to %" PRIu64 " stamps %" PRId64 " to %" PRId64 "\n", e->day, e->first, e->last,
			   e->from_ms, e->until_ms);
	}
	for (size_t i = 0; i < x->facts.n; i++)
		if (x->facts.v[i].last > above)
			buf_printf(b, "facts day %u count %" PRIu64 " last %" PRIu64 "\n", x->facts.v[i].day, x->facts.v[i].count, x->facts.v[i].last);
	text_put_checksum(b, from);
}

static bool extents_parse_line(struct log_extents *x, struct view line)
{
	int64_t n[5];
	if (text_numbers(line, "rows day # records # to # stamps # to #", n))
		vec_push(&x->rows, (struct log_extent){ (uint32_t)n[0], (uint64_t)n[1], (uint64_t)n[2], n[3], n[4] });
	else if (text_numbers(line, "facts day # count # last #", n))
		vec_push(&x->facts, (struct log_facts){ .day = (uint32_t)n[0], .count = (uint64_t)n[1], .last = (uint64_t)n[2] });
	else if (text_numbers(line, "seen #", n))
		x->seen = (uint64_t)n[0];
	else
		return false;
	return true;
}

bool log_extents_parse(struct log_extents *x, struct view text)
{
	const char *at = text.len ? memmem(text.ptr, text.len, EXTENTS_HEAD, strlen(EXTENTS_HEAD)) : NULL;
	struct view lines, line;
	log_extents_release(x);
	bool ok = at && text_checked(view_make(at, text.len - (size_t)(at - text.ptr)), EXTENTS_HEAD, &lines);
	while (ok && text_line(&lines, &line))
		ok = extents_parse_line(x, line);
	if (!ok)
		log_extents_release(x);
	return ok;
}

void log_extents_add(struct log_extents *x, struct log_extents *newer)
{
	for (size_t i = 0; i < newer->rows.n; i++)
		vec_push(&x->rows, newer->rows.v[i]);
	for (size_t i = 0; i < newer->facts.n; i++) {
		struct log_facts *f = extents_facts_of(x, newer->facts.v[i].day);
		f->count = newer->facts.v[i].count;
		f->last = newer->facts.v[i].last;
	}
	x->seen = MAX(x->seen, newer->seen);
	log_extents_release(newer);
}
