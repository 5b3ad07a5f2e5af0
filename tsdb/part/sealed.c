/* SPDX-License-Identifier: Apache-2.0 */
/* Writing of TOTALS and of a whole window, writing and reading of FLOATS; ROLLUP is in sealed_sums.c, DETAIL in detail.c; TOTALS are
 * read in sealed_points.c. */
#include "tsdb/part/sealed.h"

#include "tsdb/part/detail.h"

enum { MODE_OWN = 0 };

static int corrupt(struct err *e, const char *what)
{
	return err_set(e, ERR_CORRUPT, "%s of a sealed window are malformed", what);
}

void sealed_buffers_release(struct sealed_buffers *b)
{
	buf_free(&b->totals);
	buf_free(&b->rollup);
	for (int i = 0; i < 3; i++)
		buf_free(&b->detail[i]);
}

void sealed_put_times(struct buf *b, struct sealed_times t)
{
	buf_putc(b, SEALED_TIMES);
	buf_varint(b, t.series);
	buf_zigzag(b, t.factor);
}

/* ---- totals ---- */

/* A column of numbers that mostly repeat: the first, then the differences; if all are equal, only the first. */
static void put_deltas(struct buf *b, const int64_t *v, size_t n)
{
	bool same = true;
	for (size_t i = 1; i < n; i++)
		same &= v[i] == v[0];
	buf_putc(b, same);
	for (size_t i = 0; i < (same ? MIN(n, 1) : n); i++)
		buf_zigzag(b, i ? (int64_t)((uint64_t)v[i] - (uint64_t)v[i - 1]) : v[i]);
}

/* Stamps: the first, then differences of differences, expecting the interval. */
static void put_stamps(struct buf *b, const struct sealed_row *r, size_t n)
{
	int64_t step = n ? r[0].meta.interval_ms : 0;
	for (size_t i = 0; i < n; i++) {
		int64_t d = i ? r[i].t_ms - r[i - 1].t_ms : r[i].t_ms;
		buf_zigzag(b, i ? d - step : d);
		if (i)
			step = d;
	}
}

static int64_t *field(const struct sealed_row *r, size_t n, int64_t *out, int which)
{
	for (size_t i = 0; i < n; i++) {
		const struct sample_meta *m = &r[i].meta;
		const int64_t all[] = { m->interval_ms, m->asked_ms, m->duration_ns, m->period, r[i].cover_ms };
		out[i] = all[which];
	}
	return out;
}


static void put_totals(struct buf *b, const struct sealed_row *r, size_t n)
{
	int64_t *tmp = xreallocarray(NULL, n + 1, sizeof *tmp);
	uint64_t stale = 0;
	size_t last = 0;
	buf_putc(b, MODE_OWN);
	buf_varint(b, n);
	for (int f = 0; f < SEALED_FIELDS; f++)
		put_deltas(b, field(r, n, tmp, f), n);
	put_stamps(b, r, n);
	for (size_t i = 0; i < n; i++)
		buf_zigzag(b, r[i].total);
	for (size_t i = 0; i < n; i++)
		stale += r[i].stale;
	buf_varint(b, stale);
	for (size_t i = 0; i < n; i++)
		if (r[i].stale) {
			buf_varint(b, i - last);
			last = i;
		}
	free(tmp);
}

/* ---- a whole chunk ---- */

struct order {
	int64_t t_ms;
	uint32_t row;
};

static int by_time(const void *a, const void *b)
{
	const struct order *x = a, *y = b;
	if (x->t_ms != y->t_ms)
		return x->t_ms < y->t_ms ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

/* Into s->order: the rows by stamp. */
static void order_rows(struct sealed_scratch *s, const struct chunk *c)
{
	vec_reserve(&s->order, c->rows.n + 1);
	for (size_t i = 0; i < c->rows.n; i++)
		s->order.v[i] = (uint32_t)i;
	if (!c->unsorted)
		return;
	struct order *o = xreallocarray(NULL, c->rows.n + 1, sizeof *o);
	for (size_t i = 0; i < c->rows.n; i++)
		o[i] = (struct order){ c->rows.v[i].t_ms, (uint32_t)i };
	qsort(o, c->rows.n, sizeof *o, by_time);
	for (size_t i = 0; i < c->rows.n; i++)
		s->order.v[i] = o[i].row;
	free(o);
}

/* Whether every row of c is the factor times the row of base that has the same number. */
static bool is_multiple(const struct chunk *c)
{
	const struct chunk *b = c->base;
	if (!b || b->base || b->rows.n != c->rows.n)
		return false;
	for (size_t i = 0; i < c->rows.n; i++) {
		const struct chunk_row *x = &c->rows.v[i], *y = &b->rows.v[i];
		if (x->t_ms != y->t_ms || x->stale != y->stale || x->cover_ms != y->cover_ms)
			return false;
		if (x->stale)
			continue;
		if (x->index_width ? x->n || y->n : x->at != i)
			return false;
		const struct sample_meta *m = &c->metas.v[x->meta], *k = &b->metas.v[y->meta];
		if (m->duration_ns != k->duration_ns || m->period != k->period || m->interval_ms != k->interval_ms ||
		    m->asked_ms != k->asked_ms)
			return false;
	}
	return true;
}

static void encode_rows(const struct chunk *c, const uint32_t *order, struct sealed_buffers *ret)
{
	struct sealed_row *rows = xcalloc(c->rows.n + 1, sizeof *rows);
	for (size_t i = 0; i < c->rows.n; i++) {
		const struct chunk_row *r = &c->rows.v[order[i]];
		rows[i] = (struct sealed_row){ .t_ms = r->t_ms, .total = r->total, .cover_ms = r->cover_ms, .stale = r->stale };
		if (!r->stale)
			rows[i].meta = c->metas.v[r->meta];
		else if (i)
			rows[i].meta = rows[i - 1].meta; /* so that a marker does not disturb the differences */
	}
	put_totals(&ret->totals, rows, c->rows.n);
	free(rows);
}

int sealed_encode(const struct chunk *c, struct sealed_scratch *s, struct sealed_buffers *ret, struct err *e)
{
	struct detail_table t;
	ret->min_t = INT64_MAX;
	ret->max_t = INT64_MIN;
	for (size_t i = 0; i < c->rows.n; i++) {
		ret->min_t = MIN(ret->min_t, c->rows.v[i].t_ms);
		ret->max_t = MAX(ret->max_t, c->rows.v[i].t_ms);
	}
	if (is_multiple(c)) {
		ret->times = (struct sealed_times){ c->base->series, c->factor };
		sealed_put_times(&ret->totals, ret->times);
		sealed_put_times(&ret->rollup, ret->times);
		return 0;
	}
	order_rows(s, c);
	encode_rows(c, s->order.v, ret);
	detail_turn(&t, s, c, s->order.v);
	return detail_finish(&t, s, &ret->rollup, ret->detail, &ret->samples, e);
}

void sealed_scratch_release(struct sealed_scratch *s)
{
	free(s->count);
	free(s->marks);
	vec_free(&s->row_columns);
	vec_free(&s->columns);
	vec_free(&s->start);
	vec_free(&s->rows);
	vec_free(&s->order);
	vec_free(&s->row_values);
	vec_free(&s->values);
	vec_free(&s->divisors);
	vec_free(&s->sums);
	*s = (struct sealed_scratch){ 0 };
}

/* ---- floats ---- */

static int by_stamp(const void *a, const void *b)
{
	const struct fpoint *x = a, *y = b;
	return (x->t_ms > y->t_ms) - (x->t_ms < y->t_ms);
}

/* Stamps as differences of differences. Values are xored with the previous one, without the zero bytes at the low end: an unchanged
 * value is one byte, a whole number a few. */
void sealed_put_floats(struct buf *b, const struct fpoint *p, size_t n)
{
	struct fpoint *sorted = xreallocarray(NULL, n + 1, sizeof *sorted);
	int64_t t = 0, step = 0;
	uint64_t bits = 0;
	if (n)
		memcpy(sorted, p, n * sizeof *p);
	qsort(sorted, n, sizeof *sorted, by_stamp);
	buf_varint(b, n);
	for (size_t i = 0; i < n; i++) {
		int64_t d = sorted[i].t_ms - t;
		buf_zigzag(b, d - step);
		step = i ? d : 0;
		t = sorted[i].t_ms;
	}
	for (size_t i = 0; i < n; i++) {
		buf_varint(b, __builtin_bswap64(sorted[i].bits ^ bits));
		bits = sorted[i].bits;
	}
	free(sorted);
}

int sealed_get_floats(struct view v, struct sealed_floats *ret, struct err *e)
{
	struct cursor c = cursor_of(v);
	int64_t t = 0, step = 0;
	uint64_t bits = 0;
	size_t n = cursor_count(&c);
	vec_reserve(&ret->points, n + 1);
	for (size_t i = 0; i < n; i++) {
		int64_t d = (int64_t)((uint64_t)cursor_zigzag(&c) + (uint64_t)step);
		t = (int64_t)((uint64_t)t + (uint64_t)d);
		step = i ? d : 0;
		ret->points.v[i] = (struct fpoint){ .t_ms = t };
	}
	for (size_t i = 0; i < n; i++) {
		bits ^= __builtin_bswap64(cursor_varint(&c));
		ret->points.v[i].bits = bits;
	}
	ret->points.n = n;
	return c.bad ? corrupt(e, "floats") : 0;
}
