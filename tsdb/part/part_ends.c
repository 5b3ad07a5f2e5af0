/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/part/part_ends.h"

#include "base/alloc.h"

struct part_ends *part_ends_new(const struct part *p)
{
	struct part_ends *ends = xcalloc(1, sizeof *ends + (p->series.n + 1) * sizeof *ends->v);
	ends->n = p->series.n;
	return ends;
}

size_t part_ends_bytes(const struct part *p)
{
	const struct part_ends *ends = atomic_load(&p->ends);
	return ends ? sizeof *ends + (ends->n + 1) * sizeof *ends->v : 0;
}

static uint32_t end_profiles(const struct part_cover *c)
{
	return c->n - c->n_stale;
}

/* ---- of columns ---- */

static uint32_t end_cover_ms(const struct sealed_columns *c, size_t i)
{
	return c->same_cover ? c->cover_ms : c->covers.v[i];
}

static int64_t end_stamp(const struct part *p, const struct sealed_columns *c, size_t i)
{
	return sealed_stamp(&c->points, i) - part_start_ms(p);
}

/* Where the earliest of the profiles after the first begins. False: one of them covers nothing, or does not follow the one before. */
static bool end_others_after(const struct part *p, const struct sealed_columns *c, size_t last, int64_t *ret)
{
	*ret = INT64_MAX;
	for (size_t i = 1; i <= last; i++) {
		*ret = MIN(*ret, end_stamp(p, c, i) - end_cover_ms(c, i));
		if (!end_cover_ms(c, i) || end_stamp(p, c, i) <= end_stamp(p, c, i - 1))
			return false;
	}
	return *ret > -INT32_MAX;
}

/* Whether there is no marker, or one behind all profiles. */
static bool end_marker_follows(const struct sealed_columns *c)
{
	return !c->stale.n || (c->stale.n == 1 && c->stale.v[0] == c->points.n - 1);
}

void part_ends_add(const struct part *p, const struct part_series *x, const struct sealed_columns *c, const struct part_cover *cover, struct part_end *ret)
{
	uint16_t state = atomic_load(&cover->state);
	size_t n = c->points.n - c->stale.n, last = n - 1;
	int64_t others = 0;
	if ((state != COVER_KNOWN && state != COVER_SPANS) || cover->weight != 1 || !n || !end_marker_follows(c) || !end_cover_ms(c, 0) ||
	    end_stamp(p, c, 0) != x->min_ms || (n > 1 && !end_others_after(p, c, last, &others)))
		return;
	uint32_t interval = c->same_interval ? c->interval_ms : c->intervals.v[last];
	if (interval > SOURCE_POINT_AHEAD_MAX || (c->stale.n && end_stamp(p, c, last) >= x->max_ms))
		return;
	*ret = (struct part_end){ .first_total = c->points.totals.v[0], .last_total = c->points.totals.v[last], .first_cover_ms = end_cover_ms(c, 0),
				  .last_cover_ms = end_cover_ms(c, last), .last_ms = (uint32_t)end_stamp(p, c, last), .interval_ms = interval,
				  .others_after_ms = n > 1 ? (int32_t)others : 0, .here = true };
}

/* ---- the payload of a generation ---- */

enum { END_HERE = 1, END_PERIODS = 2, END_ALL = 3 };

/* Columns: of all that are here one field after the other. */
enum { END_LAST, END_INTERVAL, END_COVER, END_FIRST_COVER, END_OTHERS, END_FIRST_TOTAL, END_LAST_TOTAL, END_COLUMNS };

static uint8_t end_flags(const struct part_end *x, const struct part_cover *cover)
{
	int64_t period = cover->period;
	if (!x->here)
		return 0;
	return END_HERE | (period > 1 && cover->total % period == 0 && x->first_total % period == 0 && x->last_total % period == 0 ? END_PERIODS : 0);
}

/* Totals are written as what they differ from the mean by. */
static int64_t end_mean(const struct part_cover *cover, int64_t unit)
{
	return cover->total / unit / end_profiles(cover);
}

static void end_put(struct buf *b, const struct part_end *x, const struct part_cover *cover, const struct part_series *series, int column)
{
	bool several = end_profiles(cover) > 1;
	int64_t unit = end_flags(x, cover) & END_PERIODS ? cover->period : 1;
	switch (column) {
	case END_LAST: if (cover->n_stale) buf_varint(b, series->max_ms - x->last_ms); break;
	case END_INTERVAL: buf_varint(b, x->interval_ms); break;
	case END_COVER: buf_varint(b, x->last_cover_ms); break;
	case END_FIRST_COVER: if (several) buf_zigzag(b, (int64_t)x->first_cover_ms - x->last_cover_ms); break;
	case END_OTHERS: if (several) buf_zigzag(b, (int64_t)series->min_ms - x->others_after_ms); break;
	case END_FIRST_TOTAL: if (several) buf_zigzag(b, x->first_total / unit - end_mean(cover, unit)); break;
	default: if (several) buf_zigzag(b, x->last_total / unit - end_mean(cover, unit));
	}
}

static size_t ends_count(const struct part *p)
{
	size_t n = 0;
	for (size_t i = 0; i < p->series.n; i++)
		n += !p->series.v[i].is_float;
	return n;
}

void part_ends_encode(const struct part *p, const struct part_covers *covers, const struct part_ends *ends, struct buf *b)
{
	buf_varint(b, ends_count(p));
	for (size_t i = 0; i < p->series.n; i++)
		if (!p->series.v[i].is_float)
			buf_putc(b, (char)end_flags(&ends->v[i], &covers->v[i]));
	for (int column = 0; column < END_COLUMNS; column++)
		for (size_t i = 0; i < p->series.n; i++)
			if (!p->series.v[i].is_float && ends->v[i].here)
				end_put(b, &ends->v[i], &covers->v[i], &p->series.v[i], column);
}

/* ---- reading it ---- */

static uint32_t end_get_cover(struct cursor *c, int64_t base)
{
	int64_t v = cursor_zigzag(c);
	c->bad |= __builtin_add_overflow(v, base, &v) || v <= 0 || v > UINT32_MAX;
	return c->bad ? 0 : (uint32_t)v;
}

static int32_t end_get_others(struct cursor *c, const struct part_series *series, uint32_t last_ms)
{
	int64_t back = cursor_zigzag(c), after = 0;
	c->bad |= __builtin_sub_overflow((int64_t)series->min_ms, back, &after) || after <= -INT32_MAX || after >= last_ms;
	return c->bad ? 0 : (int32_t)after;
}

static int64_t end_get_total(struct cursor *c, const struct part_cover *cover, int64_t unit)
{
	int64_t v = cursor_zigzag(c);
	c->bad |= __builtin_add_overflow(v, end_mean(cover, unit), &v) || v < 0 || __builtin_mul_overflow(v, unit, &v) || v > cover->total;
	return v;
}

static void end_get(struct cursor *c, struct part_end *x, const struct part_cover *cover, const struct part_series *series, uint8_t flags, int column)
{
	bool several = end_profiles(cover) > 1;
	int64_t unit = flags & END_PERIODS ? cover->period : 1;
	uint64_t v = 0;
	int64_t rest;
	switch (column) {
	case END_LAST:
		v = cover->n_stale ? cursor_varint(c) : 0;
		c->bad |= v > series->max_ms - series->min_ms || !v != !cover->n_stale;
		x->last_ms = c->bad ? 0 : series->max_ms - (uint32_t)v;
		c->bad |= several != (x->last_ms > series->min_ms);
		break;
	case END_INTERVAL:
		x->interval_ms = cursor_u32(c);
		c->bad |= x->interval_ms > SOURCE_POINT_AHEAD_MAX;
		break;
	case END_COVER:
		x->first_cover_ms = x->last_cover_ms = cursor_u32(c);
		c->bad |= !x->last_cover_ms;
		break;
	case END_FIRST_COVER:
		if (several)
			x->first_cover_ms = end_get_cover(c, x->last_cover_ms);
		break;
	case END_OTHERS:
		if (several)
			x->others_after_ms = end_get_others(c, series, x->last_ms);
		break;
	case END_FIRST_TOTAL:
		x->first_total = several ? end_get_total(c, cover, unit) : cover->total;
		break;
	default:
		x->last_total = several ? end_get_total(c, cover, unit) : cover->total;
		c->bad |= __builtin_sub_overflow(cover->total, x->last_total, &rest);
		c->bad |= several && x->first_total > rest;
		c->bad |= end_profiles(cover) == 2 && x->first_total != rest;
		x->here = !c->bad;
	}
}

/* Whether a series can have an entry of these flags. */
static bool end_fits(const struct part_cover *cover, uint8_t flags)
{
	uint16_t state = atomic_load(&cover->state);
	if (!flags)
		return true;
	return flags <= END_ALL && (flags & END_HERE) && (state == COVER_KNOWN || state == COVER_SPANS) && cover->weight == 1 && cover->n_stale < 2 &&
	       (!(flags & END_PERIODS) || (cover->period > 1 && cover->total % cover->period == 0));
}

static int ends_malformed(const struct part *p, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "the first and last profiles of part %u, window %u, are malformed", p->number, p->window);
}

int part_ends_decode(const struct part *p, const struct part_covers *covers, struct view v, struct part_ends **ret, struct err *e)
{
	struct cursor c = cursor_of(v);
	size_t n = cursor_count(&c);
	struct view flags = cursor_bytes(&c, n);
	if (c.bad || n != ends_count(p))
		return ends_malformed(p, e);
	struct part_ends *ends = part_ends_new(p);
	for (int column = 0; column < END_COLUMNS; column++)
		for (size_t i = 0, k = 0; i < p->series.n && !c.bad; i++) {
			uint8_t f = p->series.v[i].is_float ? 0 : (uint8_t)flags.ptr[k++];
			c.bad |= !end_fits(&covers->v[i], f);
			if (f && !c.bad)
				end_get(&c, &ends->v[i], &covers->v[i], &p->series.v[i], f, column);
		}
	if (c.bad || c.p != c.end) {
		free(ends);
		return ends_malformed(p, e);
	}
	*ret = ends;
	return 0;
}

/* ---- of a day in the bucket ---- */

/* Decoded when a query first asks; without entries where the generation has none. */
static const struct part_ends *ends_of(struct part *p, const struct part_covers *covers)
{
	struct part_ends *all = atomic_load(&p->ends), *none = NULL;
	struct view known;
	if (all)
		return all;
	if (!p->lack->ends(p->lack, &known) || part_ends_decode(p, covers, known, &all, NULL))
		all = part_ends_new(p);
	if (atomic_compare_exchange_strong(&p->ends, &none, all))
		return all;
	free(all);
	return none;
}

const struct part_end *part_ends_known(struct part *p, const struct part_covers *covers, const struct part_series *x)
{
	const struct part_end *end = p->lack ? &ends_of(p, covers)->v[x - p->series.v] : NULL;
	return end && end->here ? end : NULL;
}
