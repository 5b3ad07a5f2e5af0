/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/chunk.h"

#define TOO_LARGE ((uint64_t)INT64_MAX + 1)

void chunk_release(struct chunk *c)
{
	vec_free(&c->columns);
	vec_free(&c->sums);
	vec_free(&c->rows);
	vec_free(&c->metas);
	vec_free(&c->bytes);
	map_free(&c->index);
}

size_t chunk_bytes(const struct chunk *c)
{
	return sizeof *c + c->columns.cap * sizeof *c->columns.v + c->sums.cap * sizeof *c->sums.v +
	       c->rows.cap * sizeof *c->rows.v + c->metas.cap * sizeof *c->metas.v + c->bytes.cap +
	       (c->index.slots ? (c->index.mask + 1) * sizeof *c->index.slots : 0);
}

void chunk_scratch_release(struct chunk_scratch *s)
{
	vec_free(&s->own);
	vec_free(&s->base);
	vec_free(&s->selected);
}

/* ---- adding ---- */

/* Durations differ in their nanoseconds, so that it is not worth looking far back. */
static uint32_t meta_of(struct chunk *c, const struct sample_meta *m)
{
	for (size_t i = c->metas.n, tries = 8; i-- && tries--;)
		if (c->metas.v[i].duration_ns == m->duration_ns && c->metas.v[i].period == m->period &&
		    c->metas.v[i].interval_ms == m->interval_ms && c->metas.v[i].asked_ms == m->asked_ms)
			return (uint32_t)i;
	vec_push(&c->metas, *m);
	return (uint32_t)(c->metas.n - 1);
}

/* The map keeps and compares the upper half of a hash. This one is a bijection of the column into it, so that equal
 * halves are equal columns and a look-up touches nothing but the slot. */
static uint64_t column_hash(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x85ebca6bu;
	x ^= x >> 13;
	x *= 0xc2b2ae35u;
	x ^= x >> 16;
	return (uint64_t)x << 32;
}

static uint32_t local_of(struct chunk *c, uint32_t column)
{
	uint64_t h = column_hash(column);
	uint32_t local;
	size_t at = map_start(&c->index, h);
	if (map_probe(&c->index, h, &at, &local))
		return local;
	local = (uint32_t)c->columns.n;
	map_insert(&c->index, h, local);
	vec_push(&c->columns, column);
	vec_push(&c->sums, 0);
	return local;
}

static uint64_t magnitude_of(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

static void grow(struct chunk *c, int64_t v)
{
	if (__builtin_add_overflow(c->magnitude, magnitude_of(v), &c->magnitude) || c->magnitude > TOO_LARGE)
		c->magnitude = TOO_LARGE;
}

static void put_value(uint8_t *at, uint8_t width, int64_t v)
{
	switch (width) {
	case 1: *at = (uint8_t)v; break;
	case 2: memcpy(at, &(uint16_t){ (uint16_t)v }, 2); break;
	case 4: memcpy(at, &(uint32_t){ (uint32_t)v }, 4); break;
	default: memcpy(at, &v, 8);
	}
}

static uint8_t width_of(const int64_t *v, size_t n)
{
	uint64_t all = 0;
	for (size_t i = 0; i < n; i++)
		all |= (uint64_t)v[i];
	return all < 0x100 ? 1 : all < 0x10000 ? 2 : all <= UINT32_MAX ? 4 : 8;
}

/* Samples of value 0 are left out: they add nothing. */
static void add_samples(struct chunk *c, struct row *r, const uint32_t *columns, const int64_t *values, size_t n)
{
	r->index_width = c->columns.n + n <= 0x10000 ? 2 : 4;
	r->value_width = width_of(values, n);
	r->at = c->bytes.n;
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		kept += values[i] != 0;
	r->n = (uint32_t)kept;
	vec_reserve(&c->bytes, c->bytes.n + kept * (r->index_width + r->value_width));
	uint8_t *index = c->bytes.v + r->at, *value = index + kept * r->index_width;
	for (size_t i = 0; i < n; i++) {
		if (!values[i])
			continue;
		uint32_t local = local_of(c, columns[i]);
		put_value(index, r->index_width, local);
		put_value(value, r->value_width, values[i]);
		index += r->index_width;
		value += r->value_width;
		grow(c, values[i]);
		if (__builtin_add_overflow(c->sums.v[local], values[i], &c->sums.v[local]))
			c->magnitude = TOO_LARGE;
	}
	c->bytes.n += kept * (r->index_width + r->value_width);
}

static void add_total(struct row *r, const int64_t *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (__builtin_add_overflow(r->total, values[i], &r->total)) {
			r->total = INT64_MAX; /* the sink refuses such profiles; only a damaged record gets here */
			return;
		}
}

void chunk_add(struct chunk *c, const struct record_profile *p, uint32_t i, struct chunk *base, uint64_t seq)
{
	struct row r = { .t_ms = p->t_ms, .seq = seq, .cover_ms = p->cover_ms, .stale = p->stale };
	const int64_t *values = p->values.v + (size_t)i * p->n;
	if (c->rows.n && p->t_ms < c->rows.v[c->rows.n - 1].t_ms)
		c->unsorted = true;
	if (!p->stale) {
		r.meta = meta_of(c, &p->meta);
		add_total(&r, values, p->n);
		bool times = base && !base->base && p->n && (!c->base || (c->base == base && c->factor == p->factor[i]));
		if (times) {
			c->base = base;
			c->factor = p->factor[i];
			c->n_times++;
			r.at = base->rows.n - 1;
			r.n = base->rows.v[r.at].n;
			for (size_t k = 0; k < p->n; k++)
				grow(c, values[k]);
		} else {
			add_samples(c, &r, p->columns.v, values, p->n);
		}
	}
	vec_push(&c->rows, r);
}

size_t chunk_visible(const struct chunk *c, uint64_t seq)
{
	size_t n = c->rows.n;
	while (n && c->rows.v[n - 1].seq > seq)
		n--;
	return n;
}

/* ---- reading ---- */

#define EACH_SAMPLE(c, r, body) do { \
	const uint8_t *ip_ = (c)->bytes.v + (r)->at, *vp_ = ip_ + (size_t)(r)->n * (r)->index_width; \
	size_t n_ = (r)->n; \
	switch ((r)->index_width * 16 + (r)->value_width) { \
	case 0x21: LOOP_(uint16_t, uint8_t, body) \
	case 0x22: LOOP_(uint16_t, uint16_t, body) \
	case 0x24: LOOP_(uint16_t, uint32_t, body) \
	case 0x28: LOOP_(uint16_t, int64_t, body) \
	case 0x41: LOOP_(uint32_t, uint8_t, body) \
	case 0x42: LOOP_(uint32_t, uint16_t, body) \
	case 0x44: LOOP_(uint32_t, uint32_t, body) \
	default: LOOP_(uint32_t, int64_t, body) \
	} \
} while (0)

#define LOOP_(itype, vtype, body) \
	for (size_t k_ = 0; k_ < n_; k_++) { \
		itype i_; vtype v_; \
		memcpy(&i_, ip_ + k_ * sizeof i_, sizeof i_); \
		memcpy(&v_, vp_ + k_ * sizeof v_, sizeof v_); \
		uint32_t local = i_; \
		int64_t value = v_; \
		body; \
	} \
	break;

static void add_row(const struct chunk *c, const struct row *r, int64_t *sums)
{
	EACH_SAMPLE(c, r, sums[local] += value);
}

static void sub_row(const struct chunk *c, const struct row *r, int64_t *sums)
{
	EACH_SAMPLE(c, r, sums[local] -= value);
}

static bool add_row_checked(const struct chunk *c, const struct row *r, int64_t *sums)
{
	bool over = false;
	EACH_SAMPLE(c, r, over |= __builtin_add_overflow(sums[local], value, &sums[local]));
	return !over;
}

static int too_large(struct err *e)
{
	return err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or fewer series");
}

/* Rows [*lo, *hi) hold all that is selected; the rest of them must be looked at if the chunk is unsorted. */
static void bounds(const struct chunk *c, size_t visible, int64_t after, int64_t until, size_t *lo, size_t *hi)
{
	*lo = 0;
	*hi = visible;
	if (c->unsorted)
		return;
	size_t a = 0, b = visible;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (c->rows.v[m].t_ms <= after)
			a = m + 1;
		else
			b = m;
	}
	*lo = a;
	b = visible;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (c->rows.v[m].t_ms <= until)
			a = m + 1;
		else
			b = m;
	}
	*hi = a;
}

struct selection {
	const struct chunk *c;
	size_t visible, lo, hi;
	int64_t after, until;
	size_t n_own, n_times; /* rows selected */
};

static bool row_in(const struct row *r, int64_t after, int64_t until)
{
	return r->t_ms > after && r->t_ms <= until;
}

static void count_rows(struct selection *s)
{
	for (size_t i = s->lo; i < s->hi; i++) {
		const struct row *r = &s->c->rows.v[i];
		if (!row_in(r, s->after, s->until) || r->stale)
			continue;
		if (r->index_width)
			s->n_own++;
		else
			s->n_times++;
	}
}

static void start_sums(int64_t *sums, const struct chunk *c, bool with_all)
{
	for (size_t i = 0; i < c->sums.n; i++)
		sums[i] = with_all ? c->sums.v[i] : 0;
}

/* Own rows: added up, or all of the chunk's less those that are not selected, whichever reads less. */
static bool sum_own(const struct selection *s, int64_t *sums, uint64_t *read)
{
	const struct chunk *c = s->c;
	bool checked = c->magnitude >= TOO_LARGE, ok = true;
	size_t own_rows = c->rows.n - c->n_times;
	bool inverse = !checked && s->n_own * 2 > own_rows;
	start_sums(sums, c, inverse);
	if (inverse && s->n_own == own_rows)
		return true;
	size_t lo = inverse ? 0 : s->lo, hi = inverse ? c->rows.n : s->hi;
	for (size_t i = lo; i < hi; i++) {
		const struct row *r = &c->rows.v[i];
		bool in = i < s->visible && row_in(r, s->after, s->until);
		if (r->stale || !r->index_width || in == inverse)
			continue;
		*read += r->n;
		if (inverse)
			sub_row(c, r, sums);
		else if (checked)
			ok &= add_row_checked(c, r, sums);
		else
			add_row(c, r, sums);
	}
	return ok;
}

static bool sum_times(const struct selection *s, int64_t *sums, uint64_t *read)
{
	const struct chunk *base = s->c->base;
	bool checked = base->magnitude >= TOO_LARGE, ok = true;
	size_t base_rows = base->rows.n - base->n_times;
	bool inverse = !checked && s->n_times * 2 > base_rows && s->c->n_times == base_rows;
	start_sums(sums, base, inverse);
	if (inverse && s->n_times == base_rows)
		return true;
	size_t lo = inverse ? 0 : s->lo, hi = inverse ? s->c->rows.n : s->hi;
	for (size_t i = lo; i < hi; i++) {
		const struct row *r = &s->c->rows.v[i];
		bool in = i < s->visible && row_in(r, s->after, s->until);
		if (r->stale || r->index_width || in == inverse)
			continue;
		*read += r->n;
		if (inverse)
			sub_row(base, &base->rows.v[r->at], sums);
		else if (checked)
			ok &= add_row_checked(base, &base->rows.v[r->at], sums);
		else
			add_row(base, &base->rows.v[r->at], sums);
	}
	return ok;
}

int chunk_sum(const struct chunk *c, size_t visible, int64_t after_ms, int64_t until_ms, struct chunk_scratch *w,
	      struct chunk_sums ret[2], size_t *ret_n, uint64_t *ret_read, struct err *e)
{
	struct selection s = { .c = c, .visible = visible, .after = after_ms, .until = until_ms };
	*ret_n = 0;
	bounds(c, visible, after_ms, until_ms, &s.lo, &s.hi);
	count_rows(&s);
	if (s.n_own) {
		vec_reserve(&w->own, c->sums.n);
		if (!sum_own(&s, w->own.v, ret_read))
			return too_large(e);
		ret[(*ret_n)++] = (struct chunk_sums){ c->columns.v, w->own.v, 1, c->columns.n };
	}
	if (s.n_times) {
		vec_reserve(&w->base, c->base->sums.n);
		if (!sum_times(&s, w->base.v, ret_read))
			return too_large(e);
		/* Each product fits while the whole chunk's magnitude does. */
		if (c->magnitude >= TOO_LARGE)
			for (size_t i = 0; i < c->base->columns.n; i++) {
				int64_t product;
				if (__builtin_mul_overflow(w->base.v[i], c->factor, &product))
					return too_large(e);
			}
		ret[(*ret_n)++] = (struct chunk_sums){ c->base->columns.v, w->base.v, c->factor, c->base->columns.n };
	}
	return 0;
}

static bool has(const uint64_t *match, uint32_t n, uint32_t column)
{
	return column < n && (match[column / 64] >> column % 64 & 1);
}

static bool sum_matching(const struct chunk *c, const struct row *r, const uint8_t *hit, int64_t *ret)
{
	int64_t sum = 0;
	bool over = false;
	EACH_SAMPLE(c, r, if (hit[local]) over |= __builtin_add_overflow(sum, value, &sum));
	*ret = sum;
	return !over;
}

static uint8_t *hits(const struct chunk *c, const uint64_t *match, uint32_t n_match)
{
	uint8_t *hit = xmalloc(c->columns.n + 1);
	for (size_t i = 0; i < c->columns.n; i++)
		hit[i] = has(match, n_match, c->columns.v[i]);
	return hit;
}

int chunk_row_sums(const struct chunk *c, size_t visible, const uint64_t *match, uint32_t n_match, int64_t *out,
		   struct err *e)
{
	uint8_t *own = hits(c, match, n_match), *base = c->base ? hits(c->base, match, n_match) : NULL;
	bool ok = true;
	for (size_t i = 0; i < visible && ok; i++) {
		const struct row *r = &c->rows.v[i];
		out[i] = 0;
		if (r->stale)
			continue;
		if (r->index_width)
			ok = sum_matching(c, r, own, &out[i]);
		else
			ok = sum_matching(c->base, &c->base->rows.v[r->at], base, &out[i]) &&
			     !__builtin_mul_overflow(out[i], c->factor, &out[i]);
	}
	free(own);
	free(base);
	return ok ? 0 : too_large(e);
}

void chunk_row_locals(const struct chunk *c, const struct row *r, uint32_t *locals, int64_t *values)
{
	const struct chunk *from = r->index_width ? c : c->base;
	const struct row *row = r->index_width ? r : &c->base->rows.v[r->at];
	int64_t factor = r->index_width ? 1 : c->factor;
	size_t n = 0;
	if (values)
		EACH_SAMPLE(from, row, locals[n] = local; values[n++] = value * factor);
	else
		EACH_SAMPLE(from, row, locals[n++] = local; (void)value);
}

void chunk_row_samples(const struct chunk *c, const struct row *r, uint32_t *columns, int64_t *values)
{
	const uint32_t *of = r->index_width ? c->columns.v : c->base->columns.v;
	chunk_row_locals(c, r, columns, values);
	for (uint32_t i = 0; i < r->n; i++)
		columns[i] = of[columns[i]];
}

void cells_release(struct cells *c)
{
	vec_free(&c->t_ms);
	vec_free(&c->rows);
	vec_free(&c->columns);
	vec_free(&c->values);
}

static bool take_cells(const struct chunk *c, const struct row *r, uint32_t number, int64_t factor, struct cells *out)
{
	bool over = false;
	size_t at = out->rows.n, end = at + r->n;
	vec_reserve(&out->rows, end);
	vec_reserve(&out->columns, end);
	vec_reserve(&out->values, end);
	EACH_SAMPLE(c, r, out->rows.v[at] = number; out->columns.v[at] = c->columns.v[local];
		    over |= __builtin_mul_overflow(value, factor, &out->values.v[at]); at++);
	out->rows.n = out->columns.n = out->values.n = end;
	return !over;
}

int chunk_cells(const struct chunk *c, size_t visible, struct cells *out, struct err *e)
{
	bool ok = true;
	out->t_ms.n = out->rows.n = out->columns.n = out->values.n = 0;
	for (size_t i = 0; i < visible && ok; i++) {
		const struct row *r = &c->rows.v[i];
		vec_push(&out->t_ms, r->t_ms);
		if (r->stale)
			continue;
		ok = r->index_width ? take_cells(c, r, (uint32_t)i, 1, out)
				    : take_cells(c->base, &c->base->rows.v[r->at], (uint32_t)i, c->factor, out);
	}
	return ok ? 0 : too_large(e);
}
