/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/part/part_cover.h"

#include <math.h>

#include "base/alloc.h"
#include "tsdb/part/part_ends.h"

/* ---- rows ---- */

static void cover_add_totals(const struct sealed_points *p, size_t lo, size_t hi, struct source_cover *ret)
{
	int64_t total = 0, magnitude = 0;
	for (size_t i = lo; i < hi && !p->small; i++)
		source_cover_add_total(ret, p->totals.v[i]);
	for (size_t i = lo; i < hi && p->small; i++) {
		int64_t v = p->totals.v[i];
		total += v;
		magnitude += v < 0 ? -v : v;
	}
	source_cover_add_other(ret, &(struct source_cover){ .total = total, .magnitude = (uint64_t)magnitude });
}

static double cover_weight_at(const struct sealed_columns *c, size_t i)
{
	return c->same_weight ? c->weight : c->weights.v[i];
}

static int64_t cover_ms_at(const struct sealed_columns *c, size_t i)
{
	return c->same_cover ? c->cover_ms : c->covers.v[i];
}

static int64_t cover_period_at(const struct sealed_columns *c, size_t i)
{
	return c->same_period ? c->period : c->periods.v[i];
}

/* Those in [lo, hi), of which none is a marker or hidden. */
static void cover_add_plain(const struct sealed_columns *c, size_t lo, size_t hi, struct source_cover *ret)
{
	const struct sealed_points *p = &c->points;
	if (lo >= hi)
		return;
	ret->n += hi - lo;
	cover_add_totals(p, lo, hi, ret);
	for (size_t i = lo; i < hi && !(c->same_weight && c->weight == 1); i++)
		source_weights_add(&ret->weights, (double)p->totals.v[i], cover_weight_at(c, i));
	for (size_t i = lo; i < hi && (i == lo || !c->same_period); i++)
		ret->period = MAX(ret->period, cover_period_at(c, i));
	if (p->every_ms && c->same_cover && c->cover_ms >= p->every_ms) {
		source_cover_add_span(ret, sealed_stamp(p, lo) - c->cover_ms, sealed_stamp(p, hi - 1));
		return;
	}
	for (size_t i = lo; i < hi; i++) {
		int64_t t = sealed_stamp(p, i);
		source_cover_add_span(ret, t - cover_ms_at(c, i), t);
	}
}

void part_cover_add_rows(const struct sealed_columns *c, size_t lo, size_t hi, bool (*hidden)(void *arg, int64_t t_ms), void *arg, struct source_cover *ret)
{
	size_t k = 0;
	if (!c->stale.n && !hidden) {
		cover_add_plain(c, lo, hi, ret);
		return;
	}
	for (size_t i = lo; i < hi; i++) {
		int64_t t = sealed_stamp(&c->points, i);
		while (k < c->stale.n && c->stale.v[k] < i)
			k++;
		bool stale = k < c->stale.n && c->stale.v[k] == i;
		if (!hidden || !hidden(arg, t))
			source_cover_add(ret, t, cover_ms_at(c, i), c->points.totals.v[i], cover_weight_at(c, i), cover_period_at(c, i), stale);
	}
}

/* ---- what is kept ---- */

/* Whether profiles of a whole part have one sign and one weight, and fit into a part_cover but for their spans. Sums of weights are then made of the total, so that
 * an answer is the same to the last digit wherever it comes from. */
static bool cover_is_plain(struct source_cover *c, double *ret_weight)
{
	double weight = c->weights.heaviest > 0 ? c->weights.heaviest : 1;
	if (!c->spans.n || c->n > UINT32_MAX || c->n_stale > UINT16_MAX || c->total < 0 || (uint64_t)c->total != c->magnitude ||
	    !(fabs(c->weights.extra - (double)c->total * (weight - 1)) <= 1e-12 * fabs(c->weights.extra)))
		return false;
	c->weights = (struct source_weights){ 0 };
	source_weights_add(&c->weights, (double)c->total, weight);
	*ret_weight = weight;
	return true;
}

/* Whether spans ascend, with holes between them, from a time that fits. */
static bool cover_spans_fit(const struct part *p, const struct source_cover *c)
{
	if (part_start_ms(p) - c->spans.v[0].after_ms > INT32_MAX)
		return false;
	for (size_t i = 1; i < c->spans.n; i++)
		if (c->spans.v[i].after_ms <= c->spans.v[i - 1].until_ms)
			return false;
	return true;
}

static struct part_span cover_span(const struct part *p, const struct source_span *s)
{
	return (struct part_span){ (int32_t)(s->after_ms - part_start_ms(p)), (uint32_t)(s->until_ms - part_start_ms(p)) };
}

static void cover_fill(struct part_cover *to, const struct source_cover *c, double weight)
{
	to->total = c->total;
	to->period = c->period;
	to->weight = weight;
	to->n = (uint32_t)c->n;
	to->n_stale = (uint16_t)c->n_stale;
}

static struct part_covers *covers_new(const struct part *p)
{
	return xcalloc(1, sizeof(struct part_covers) + (p->series.n + 1) * sizeof(struct part_cover));
}

/* Appends the list of spans; they move. */
static struct part_covers *covers_set_spans(const struct part *p, struct part_covers *c, const struct part_span *v, size_t n)
{
	size_t fixed = sizeof *c + (p->series.n + 1) * sizeof *c->v;
	c = xrealloc(c, fixed + n * sizeof *v);
	c->n_spans = n;
	c->spans = (struct part_span *)(void *)((char *)c + fixed);
	if (n)
		memcpy(c->spans, v, n * sizeof *v);
	return c;
}

struct part_covers *part_covers_of(struct part *p)
{
	struct part_covers *all = atomic_load(&p->covers), *none = NULL;
	struct view known;
	if (all)
		return all;
	if (!p->lack || !p->lack->covers(p->lack, &known) || part_covers_decode(p, known, &all, NULL))
		all = covers_new(p);
	if (atomic_compare_exchange_strong(&p->covers, &none, all))
		return all;
	free(all);
	return none;
}

size_t part_index_bytes(const struct part *p)
{
	const struct part_covers *c = atomic_load(&p->covers);
	return p->series.cap * sizeof *p->series.v + p->aggregates.cap * sizeof *p->aggregates.v +
	       (c ? sizeof *c + (p->series.n + 1) * sizeof *c->v + c->n_spans * sizeof *c->spans : 0) + part_ends_bytes(p);
}

/* ---- a series ---- */

static const struct part_span *cover_spans(const struct part_covers *c, const struct part_cover *x, size_t *ret_n)
{
	bool several = atomic_load(&x->state) == COVER_SPANS;
	*ret_n = several ? x->list.n : 1;
	return several ? c->spans + x->list.first : &x->span;
}

bool part_cover_known(struct part *p, const struct part_series *x, struct source_cover *ret)
{
	const struct part_covers *c = part_covers_of(p);
	const struct part_cover *from = &c->v[x - p->series.v];
	uint16_t state = atomic_load(&from->state);
	size_t n;
	if (state != COVER_KNOWN && state != COVER_SPANS)
		return false;
	const struct part_span *spans = cover_spans(c, from, &n);
	ret->n += from->n;
	ret->n_stale += from->n_stale;
	source_cover_add_total(ret, from->total);
	source_weights_add(&ret->weights, (double)from->total, from->weight);
	ret->period = MAX(ret->period, from->period);
	for (size_t i = 0; i < n; i++)
		source_cover_add_span(ret, part_start_ms(p) + spans[i].after_ms, part_start_ms(p) + spans[i].until_ms);
	return true;
}

/* small: `c` is plain, of one stretch. */
static void cover_keep(struct part *p, struct part_cover *to, const struct source_cover *c, bool small, double weight)
{
	uint16_t state = COVER_NOT_ASKED;
	if (!atomic_compare_exchange_strong(&to->state, &state, COVER_TAKEN))
		return;
	if (small) {
		cover_fill(to, c, weight);
		to->span = cover_span(p, &c->spans.v[0]);
	}
	atomic_store(&to->state, small ? COVER_KNOWN : COVER_MANY);
}

int part_cover_read(struct part *p, const struct part_series *x, struct part_scratch *w, struct source_cover *ret, struct err *e)
{
	struct source_cover all = { 0 };
	double weight = 1;
	int rc = part_columns(p, x->series, w, e);
	if (rc)
		return rc;
	part_cover_add_rows(&w->columns, 0, w->columns.points.n, NULL, NULL, &all);
	bool plain = cover_is_plain(&all, &weight);
	cover_keep(p, &part_covers_of(p)->v[x - p->series.v], &all, plain && all.spans.n == 1 && cover_spans_fit(p, &all), weight);
	source_cover_add_other(ret, &all);
	for (size_t i = 0; i < all.spans.n; i++)
		source_cover_add_span(ret, all.spans.v[i].after_ms, all.spans.v[i].until_ms);
	source_cover_release(&all);
	return 0;
}

/* ---- the payload of a generation ---- */

enum { ENTRY_HERE = 1, ENTRY_STALE = 2, ENTRY_WEIGHT = 4, ENTRY_PERIODS = 8, ENTRY_SPANS = 16, ENTRY_ALL = 31 };

/* Columns: of all that are here one field after the other, as neighbours are alike. */
enum { COLUMN_N, COLUMN_STALE, COLUMN_WEIGHT, COLUMN_PERIOD, COLUMN_TOTAL, COLUMN_BACK, COLUMN_AHEAD, COLUMN_SPANS, COLUMNS };

static uint8_t entry_flags(const struct part_cover *x)
{
	uint16_t state = atomic_load(&x->state);
	if (state != COVER_KNOWN && state != COVER_SPANS)
		return 0;
	return (uint8_t)(ENTRY_HERE | (x->n_stale ? ENTRY_STALE : 0) | (x->weight != 1 ? ENTRY_WEIGHT : 0) |
			 (x->period > 1 && x->total && x->total % x->period == 0 ? ENTRY_PERIODS : 0) | (state == COVER_SPANS ? ENTRY_SPANS : 0));
}

static uint64_t weight_bits(double weight)
{
	uint64_t bits;
	memcpy(&bits, &weight, sizeof bits);
	return bits;
}

static void put_spans(struct buf *b, const struct part_span *s, size_t n)
{
	buf_varint(b, n);
	for (size_t i = 0; i + 1 < n; i++) {
		buf_varint(b, (uint64_t)((int64_t)s[i].until_ms - s[i].after_ms));
		buf_varint(b, (uint64_t)((int64_t)s[i + 1].after_ms - s[i].until_ms));
	}
}

static void put_entry(struct buf *b, const struct part_covers *c, const struct part_cover *x, const struct part_series *series, int column)
{
	uint8_t flags = entry_flags(x);
	size_t n;
	const struct part_span *spans = cover_spans(c, x, &n);
	switch (column) {
	case COLUMN_N: buf_varint(b, x->n); break;
	case COLUMN_STALE: if (flags & ENTRY_STALE) buf_varint(b, x->n_stale); break;
	case COLUMN_WEIGHT: if (flags & ENTRY_WEIGHT) buf_be64(b, weight_bits(x->weight)); break;
	case COLUMN_PERIOD: buf_varint(b, (uint64_t)x->period); break;
	case COLUMN_TOTAL: buf_varint(b, (uint64_t)(flags & ENTRY_PERIODS ? x->total / x->period : x->total)); break;
	case COLUMN_BACK: buf_zigzag(b, (int64_t)series->min_ms - spans[0].after_ms); break;
	case COLUMN_AHEAD: buf_varint(b, series->max_ms - spans[n - 1].until_ms); break;
	default: if (flags & ENTRY_SPANS) put_spans(b, spans, n);
	}
}

static size_t covers_count(const struct part *p)
{
	size_t n = 0;
	for (size_t i = 0; i < p->series.n; i++)
		n += !p->series.v[i].is_float;
	return n;
}

void part_covers_encode(const struct part *p, const struct part_covers *c, struct buf *b)
{
	buf_varint(b, covers_count(p));
	for (size_t i = 0; i < p->series.n; i++)
		if (!p->series.v[i].is_float)
			buf_putc(b, (char)entry_flags(&c->v[i]));
	for (int column = 0; column < COLUMNS; column++)
		for (size_t i = 0; i < p->series.n; i++)
			if (!p->series.v[i].is_float && entry_flags(&c->v[i]))
				put_entry(b, c, &c->v[i], &p->series.v[i], column);
}

struct cover_spans {
	VEC(struct part_span) v;
};

/* Fills in the entry of a series, if a generation can have it. */
static void covers_add(const struct part *p, struct part_cover *to, struct source_cover *c, struct cover_spans *list)
{
	double weight;
	if (!cover_is_plain(c, &weight) || !cover_spans_fit(p, c) || c->spans.n > PART_COVER_SPANS_MAX || list->v.n + c->spans.n > PART_COVER_LIST_MAX)
		return;
	cover_fill(to, c, weight);
	atomic_store(&to->state, c->spans.n == 1 ? COVER_KNOWN : COVER_SPANS);
	if (c->spans.n == 1) {
		to->span = cover_span(p, &c->spans.v[0]);
		return;
	}
	to->list.first = (uint32_t)list->v.n;
	to->list.n = (uint32_t)c->spans.n;
	for (size_t i = 0; i < c->spans.n; i++)
		vec_push(&list->v, cover_span(p, &c->spans.v[i]));
}

void part_covers_put(const struct part *p, struct buf *covers, struct buf *ends)
{
	struct part_covers *c = covers_new(p);
	struct part_ends *x = part_ends_new(p);
	struct part_scratch w = { .sums = { 0 } };
	struct cover_spans list = { .v = { 0 } };
	struct err e;
	for (size_t i = 0; i < p->series.n; i++) {
		struct source_cover all = { 0 };
		if (p->series.v[i].is_float || part_columns(p, p->series.v[i].series, &w, &e))
			continue;
		part_cover_add_rows(&w.columns, 0, w.columns.points.n, NULL, NULL, &all);
		covers_add(p, &c->v[i], &all, &list);
		part_ends_add(p, &p->series.v[i], &w.columns, &c->v[i], &x->v[i]);
		source_cover_release(&all);
	}
	c = covers_set_spans(p, c, list.v.v, list.v.n);
	part_covers_encode(p, c, covers);
	part_ends_encode(p, c, x, ends);
	part_scratch_release(&w);
	vec_free(&list.v);
	free(x);
	free(c);
}

int part_ends_put(const struct part *p, struct view covers, struct buf *ends)
{
	struct part_scratch w = { .sums = { 0 } };
	struct part_covers *c;
	struct err e;
	int rc = part_covers_decode(p, covers, &c, &e);
	if (rc)
		return rc;
	struct part_ends *x = part_ends_new(p);
	for (size_t i = 0; i < p->series.n; i++)
		if (!p->series.v[i].is_float && !part_columns(p, p->series.v[i].series, &w, &e))
			part_ends_add(p, &p->series.v[i], &w.columns, &c->v[i], &x->v[i]);
	part_ends_encode(p, c, x, ends);
	part_scratch_release(&w);
	free(x);
	free(c);
	return 0;
}

/* ---- reading it ---- */

static double get_weight(struct cursor *c)
{
	struct view v = cursor_bytes(c, 8);
	uint64_t bits = 0;
	double weight;
	for (size_t i = 0; !c->bad && i < 8; i++)
		bits = bits << 8 | (uint8_t)v.ptr[i];
	memcpy(&weight, &bits, sizeof weight);
	c->bad |= !(weight > 0) || !isfinite(weight) || weight == 1;
	return weight;
}

static int64_t get_total(struct cursor *c, int64_t times)
{
	uint64_t v = cursor_varint(c);
	int64_t total = 0;
	c->bad |= v > INT64_MAX || __builtin_mul_overflow((int64_t)v, times, &total);
	return total;
}

static int32_t get_after(struct cursor *c, const struct part_series *series)
{
	int64_t back = cursor_zigzag(c), after = 0;
	c->bad |= __builtin_sub_overflow((int64_t)series->min_ms, back, &after) || after < -INT32_MAX || after > series->max_ms || after > INT32_MAX;
	return (int32_t)after;
}

/* The first and the last end are known: those between. */
static void get_spans(struct cursor *c, struct part_cover *x, struct cover_spans *list)
{
	int64_t after = x->span.after_ms, last = x->span.until_ms;
	size_t n = cursor_count(c), first = list->v.n;
	c->bad |= n < 2 || n > PART_COVER_SPANS_MAX || first + n > PART_COVER_LIST_MAX;
	for (size_t i = 0; i + 1 < n && !c->bad; i++) {
		int64_t until = after + cursor_u32(c), next = until + cursor_u32(c);
		c->bad |= until < 0 || next <= until || next > last || next > INT32_MAX;
		vec_push(&list->v, (struct part_span){ (int32_t)after, (uint32_t)until });
		after = next;
	}
	vec_push(&list->v, (struct part_span){ (int32_t)after, (uint32_t)last });
	x->list.first = (uint32_t)first;
	x->list.n = (uint32_t)n;
}

static void get_entry(struct cursor *c, struct part_cover *x, const struct part_series *series, uint8_t flags, int column, struct cover_spans *list)
{
	uint64_t v = 0;
	switch (column) {
	case COLUMN_N:
		x->n = cursor_u32(c);
		c->bad |= !x->n;
		break;
	case COLUMN_STALE:
		v = flags & ENTRY_STALE ? cursor_u32(c) : 0;
		x->n_stale = (uint16_t)v;
		c->bad |= v > UINT16_MAX || v >= x->n || !v != !(flags & ENTRY_STALE);
		break;
	case COLUMN_WEIGHT:
		x->weight = flags & ENTRY_WEIGHT ? get_weight(c) : 1;
		break;
	case COLUMN_PERIOD:
		v = cursor_varint(c);
		x->period = (int64_t)v;
		c->bad |= v > INT64_MAX;
		break;
	case COLUMN_TOTAL:
		x->total = get_total(c, flags & ENTRY_PERIODS ? x->period : 1);
		break;
	case COLUMN_BACK:
		x->span.after_ms = get_after(c, series);
		break;
	case COLUMN_AHEAD:
		v = cursor_varint(c);
		c->bad |= v > series->max_ms - series->min_ms;
		x->span.until_ms = c->bad ? 0 : series->max_ms - (uint32_t)v;
		c->bad |= x->span.after_ms > (int64_t)x->span.until_ms;
		break;
	default:
		if (flags & ENTRY_SPANS)
			get_spans(c, x, list);
		atomic_store(&x->state, flags & ENTRY_SPANS ? COVER_SPANS : COVER_KNOWN);
	}
}

static bool cover_bounds_fit(const struct part *p, const struct part_series *x)
{
	return x->min_ms <= x->max_ms && x->max_ms <= level_hours(p->level) * HOUR_MS;
}

int part_covers_decode(const struct part *p, struct view v, struct part_covers **ret, struct err *e)
{
	struct cursor c = cursor_of(v);
	struct cover_spans list = { .v = { 0 } };
	size_t n = cursor_count(&c);
	struct view flags = cursor_bytes(&c, n);
	if (c.bad || n != covers_count(p))
		return err_set(e, ERR_CORRUPT, "the covers of part %u, window %u, are malformed", p->number, p->window);
	struct part_covers *all = covers_new(p);
	for (int column = 0; column < COLUMNS; column++)
		for (size_t i = 0, k = 0; i < p->series.n && !c.bad; i++) {
			uint8_t f = p->series.v[i].is_float ? 0 : (uint8_t)flags.ptr[k++];
			c.bad |= f > ENTRY_ALL || (f && (!(f & ENTRY_HERE) || !cover_bounds_fit(p, &p->series.v[i])));
			if (f && !c.bad)
				get_entry(&c, &all->v[i], &p->series.v[i], f, column, &list);
		}
	if (c.bad || c.p != c.end) {
		free(all);
		vec_free(&list.v);
		return err_set(e, ERR_CORRUPT, "the covers of part %u, window %u, are malformed", p->number, p->window);
	}
	*ret = covers_set_spans(p, all, list.v.v, list.v.n);
	vec_free(&list.v);
	return 0;
}

int part_covers_check_both(const struct part *p, struct view covers, struct view ends, struct err *e)
{
	struct part_covers *c;
	struct part_ends *x;
	int rc = part_covers_decode(p, covers, &c, e);
	if (rc)
		return rc;
	if (ends.len) {
		rc = part_ends_decode(p, c, ends, &x, e);
		if (!rc)
			free(x);
	}
	free(c);
	return rc;
}

int part_covers_check(const struct part *p, struct view v, struct err *e)
{
	return part_covers_check_both(p, v, VIEW(""), e);
}
