/* SPDX-License-Identifier: Apache-2.0 */
/* DETAIL: three streams over the columns of the rollup, in its order, C of them, N samples in all.
 *
 *	0 counts  n escapes | L: C bytes, count-1 (255: the next escape, varint)   then for stream 1: n escapes, varints
 *	          = varint nl, nl x varint(count-1) | varint ng, ng x varint(gap-1) | L
 *	1 gaps    N bytes: row - previous row of the column - 1 (the first: the row itself); 255: the next escape of ng
 *	2 values  mode u8, then
 *	          BYTES   varint nv, nv x varint(value-1) | a byte value-1 per sample (255: the next escape)
 *	          SCALED  the same of value / g, after a varint g-1 per column with count > 1 (g: their common divisor)
 *	          DELTAS  varint g-1 per column with count > 1, then per sample zigzag(value/g - previous value/g)
 *
 *	Stream 2 has nothing of a column with one sample (its value is its sum), and in BYTES and SCALED nothing of one
 *	whose values are all equal to g (its sum is count x g).
 *
 * Separate keys, so that each stream gets a Huffman table of its own from zstd. */
#include "tsdb/part/detail.h"

#include "base/alloc.h"
#include "base/map.h"

#define SEEN_SLOTS 16384

/* ---- turning rows into columns ---- */

static void make_room(struct sealed_scratch *s, const struct chunk *c)
{
	uint32_t room = (c->n_columns + 63) & ~63u;
	size_t most = 0;
	if (room > s->room) {
		free(s->count);
		free(s->marks);
		s->count = xcalloc(room, sizeof *s->count);
		s->marks = xcalloc(room / 64, 1);
		s->room = room;
	}
	for (size_t i = 0; i < c->rows.n; i++)
		most = MAX(most, c->rows.v[i].n);
	vec_reserve(&s->row_columns, most + 1);
	vec_reserve(&s->row_values, most + 1);
}

static uint32_t count_samples(struct sealed_scratch *s, const struct chunk *c)
{
	uint32_t n = 0;
	for (size_t i = 0; i < c->rows.n; i++) {
		const struct chunk_row *r = &c->rows.v[i];
		if (r->stale)
			continue;
		chunk_row_samples(c, r, s->row_columns.v, NULL);
		for (uint32_t k = 0; k < r->n; k++) {
			uint32_t column = s->row_columns.v[k];
			s->count[column]++;
			s->marks[column / 64] = 1;
		}
		n += r->n;
	}
	return n;
}

/* The columns that occur, ascending; what was a count becomes the place of the column's next sample. */
static void list_columns(struct sealed_scratch *s)
{
	uint32_t at = 0;
	s->columns.n = s->start.n = 0;
	for (uint32_t i = 0; i < s->room / 64; i++) {
		if (!s->marks[i])
			continue;
		for (uint32_t c = i * 64; c < (i + 1) * 64; c++) {
			if (!s->count[c])
				continue;
			vec_push(&s->columns, c);
			vec_push(&s->start, at);
			at += s->count[c];
			s->count[c] = s->start.v[s->start.n - 1];
		}
	}
	vec_push(&s->start, at);
}

static void place_samples(struct sealed_scratch *s, const struct chunk *c, const uint32_t *order)
{
	for (size_t i = 0; i < c->rows.n; i++) {
		const struct chunk_row *r = &c->rows.v[order[i]];
		if (r->stale)
			continue;
		chunk_row_samples(c, r, s->row_columns.v, s->row_values.v);
		for (uint32_t k = 0; k < r->n; k++) {
			uint32_t at = s->count[s->row_columns.v[k]]++;
			s->rows.v[at] = (uint32_t)i;
			s->values.v[at] = s->row_values.v[k];
		}
	}
}

void detail_turn(struct detail_table *t, struct sealed_scratch *s, const struct chunk *c, const uint32_t *order)
{
	make_room(s, c);
	uint32_t n = count_samples(s, c);
	list_columns(s);
	vec_reserve(&s->rows, (size_t)n + 1);
	vec_reserve(&s->values, (size_t)n + 1);
	place_samples(s, c, order);
	for (size_t i = 0; i < s->columns.n; i++) {
		s->count[s->columns.v[i]] = 0;
		s->marks[s->columns.v[i] / 64] = 0;
	}
	*t = (struct detail_table){ (uint32_t)s->columns.n, n, s->columns.v, s->start.v, s->rows.v, s->values.v };
}

/* ---- writing ---- */

/* Bytes, of which 255 stands for the next number of a list. */
struct byte_stream {
	struct buf bytes, escapes;
	uint64_t n_escapes;
};

/* A byte, or 255 and the number in the list of escapes. There is room for the byte. */
static inline void put_byte(struct byte_stream *s, uint64_t v)
{
	if (LIKELY(v < ESCAPE)) {
		s->bytes.ptr[s->bytes.len++] = (char)v;
		return;
	}
	s->bytes.ptr[s->bytes.len++] = (char)ESCAPE;
	buf_varint(&s->escapes, v);
	s->n_escapes++;
}

static bool stream_begin(struct byte_stream *s, size_t room)
{
	*s = (struct byte_stream){ 0 };
	return buf_reserve(&s->bytes, room + 1);
}

static void stream_put_escapes(struct buf *out, const struct byte_stream *s)
{
	buf_varint(out, s->n_escapes);
	buf_putv(out, buf_view(&s->escapes));
}

static void stream_release(struct byte_stream *s)
{
	buf_free(&s->bytes);
	buf_free(&s->escapes);
}

static void put_positions(const struct detail_table *t, struct buf *counts, struct buf *gaps)
{
	struct byte_stream l, g;
	bool room = stream_begin(&l, t->n_columns);
	if (!stream_begin(&g, t->n_samples) || !room)
		counts->overflow = true;
	for (uint32_t k = 0; !counts->overflow && k < t->n_columns; k++) {
		uint32_t next = 0, end = t->start[k + 1];
		put_byte(&l, end - t->start[k] - 1);
		for (uint32_t i = t->start[k]; i < end; i++) {
			put_byte(&g, t->rows[i] - next);
			next = t->rows[i] + 1;
		}
	}
	stream_put_escapes(counts, &l);
	stream_put_escapes(counts, &g);
	buf_putv(counts, buf_view(&l.bytes));
	buf_free(gaps);
	*gaps = g.bytes;
	g.bytes = (struct buf){ 0 };
	stream_release(&l);
	stream_release(&g);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

/* The common divisor of a column's values, never so large that it has no int64. */
static int64_t divisor(const struct detail_table *t, uint32_t k)
{
	uint64_t g = 0;
	for (uint32_t i = t->start[k]; i < t->start[k + 1] && g != 1; i++)
		g = gcd(g, magnitude(t->values[i]));
	return g && g <= INT64_MAX ? (int64_t)g : 1;
}

struct census {
	uint64_t small, large; /* samples that fit a byte after dividing, that do not */
	bool negative, scaled;
};

static void take_census(const struct detail_table *t, uint32_t k, int64_t g, struct census *c)
{
	uint64_t small = 0;
	bool negative = false;
	uint32_t end = t->start[k + 1], n = end - t->start[k];
	if (g == 1)
		for (uint32_t i = t->start[k]; i < end; i++) {
			negative |= t->values[i] <= 0;
			small += magnitude(t->values[i]) < ESCAPE;
		}
	else
		for (uint32_t i = t->start[k]; i < end; i++) {
			negative |= t->values[i] <= 0;
			small += magnitude(t->values[i] / g) < ESCAPE;
		}
	c->negative |= negative;
	c->small += small;
	c->large += n - small;
	c->scaled |= g > 2;
}

static const int64_t *divisors(const struct detail_table *t, struct sealed_scratch *s, struct census *c)
{
	*c = (struct census){ 0 };
	vec_reserve(&s->divisors, (size_t)t->n_columns + 1);
	for (uint32_t k = 0; k < t->n_columns; k++) {
		if (t->start[k + 1] - t->start[k] < 2)
			continue;
		s->divisors.v[k] = divisor(t, k);
		take_census(t, k, s->divisors.v[k], c);
	}
	return s->divisors.v;
}

/* Whether every other large value occurred before, as the nanoseconds that an agent gives each sample of a window: zstd finds repeated
 * values, but not repeated differences. The table keeps the last value of each slot. */
static bool values_repeat(const struct detail_table *t)
{
	int64_t *seen = xcalloc(SEEN_SLOTS, sizeof *seen);
	uint64_t n = 0, met = 0;
	for (uint32_t k = 0; k < t->n_columns; k++) {
		if (t->start[k + 1] - t->start[k] < 2)
			continue;
		for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++) {
			int64_t *slot = &seen[hash_u64((uint64_t)t->values[i]) % SEEN_SLOTS];
			met += *slot == t->values[i];
			n++;
			*slot = t->values[i];
		}
	}
	free(seen);
	return met * 2 >= n;
}

/* For small counts, a divisor above 1 is coincidence, and costs more than it saves. */
static int choose_mode(const struct detail_table *t, const struct census *c)
{
	if (c->negative || (c->large * 8 > c->small + c->large && !values_repeat(t)))
		return VALUES_DELTAS;
	if (c->large * 8 > c->small + c->large)
		return VALUES_BYTES;
	return c->scaled && c->large + c->small ? VALUES_SCALED : VALUES_BYTES;
}

static bool all_equal(const struct detail_table *t, uint32_t k, int64_t v)
{
	for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++)
		if (t->values[i] != v)
			return false;
	return true;
}

static void put_deltas(const struct detail_table *t, const int64_t *g, struct buf *out)
{
	for (uint32_t k = 0; k < t->n_columns; k++) {
		int64_t before = 0;
		if (t->start[k + 1] - t->start[k] < 2)
			continue;
		for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++) {
			int64_t v = t->values[i] / g[k];
			buf_zigzag(out, (int64_t)((uint64_t)v - (uint64_t)before));
			before = v;
		}
	}
}

static void put_bytes(const struct detail_table *t, const int64_t *g, bool scaled, struct buf *out)
{
	struct byte_stream s;
	if (!stream_begin(&s, t->n_samples))
		out->overflow = true;
	for (uint32_t k = 0; !out->overflow && k < t->n_columns; k++) {
		int64_t by = scaled ? g[k] : 1;
		if (t->start[k + 1] - t->start[k] < 2 || all_equal(t, k, by))
			continue;
		if (by == 1)
			for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++)
				put_byte(&s, (uint64_t)t->values[i] - 1);
		else
			for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++)
				put_byte(&s, (uint64_t)(t->values[i] / by) - 1);
	}
	stream_put_escapes(out, &s);
	buf_putv(out, buf_view(&s.bytes));
	stream_release(&s);
}

static void put_values(const struct detail_table *t, struct sealed_scratch *s, struct buf *out)
{
	struct census c;
	const int64_t *g = divisors(t, s, &c);
	int mode = choose_mode(t, &c);
	buf_putc(out, (char)mode);
	if (mode != VALUES_BYTES)
		for (uint32_t k = 0; k < t->n_columns; k++)
			if (t->start[k + 1] - t->start[k] > 1)
				buf_varint(out, (uint64_t)g[k] - 1);
	if (mode == VALUES_DELTAS)
		put_deltas(t, g, out);
	else
		put_bytes(t, g, mode == VALUES_SCALED, out);
}

int detail_finish(const struct detail_table *t, struct sealed_scratch *s, struct buf *rollup, struct buf detail[3],
		  uint64_t *ret_samples, struct err *e)
{
	bool over = false;
	vec_reserve(&s->sums, (size_t)t->n_columns + 1);
	for (uint32_t k = 0; k < t->n_columns; k++) {
		int64_t sum = 0;
		for (uint32_t i = t->start[k]; i < t->start[k + 1]; i++)
			over |= __builtin_add_overflow(sum, t->values[i], &sum);
		s->sums.v[k] = sum;
	}
	sealed_put_rollup(rollup, t->columns, s->sums.v, t->n_columns);
	put_positions(t, &detail[0], &detail[1]);
	put_values(t, s, &detail[2]);
	*ret_samples = t->n_samples;
	bool full = rollup->overflow || detail[0].overflow || detail[1].overflow || detail[2].overflow;
	if (over || full)
		return err_set(e, ERR_EXECUTION, over ? "sums of a window do not fit in 64 bits" : "a series' window is too large");
	return 0;
}
