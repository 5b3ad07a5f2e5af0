/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/head/chunk.h"

#define TOO_LARGE ((uint64_t)INT64_MAX + 1)
#define BLOCK_MIN 4096
#define BLOCK_MAX 65536

void row_memory_release(struct row_memory *m)
{
	for (size_t i = 0; i < m->blocks.n; i++)
		free(m->blocks.v[i]);
	vec_free(&m->blocks);
	*m = (struct row_memory){ 0 };
}

static uint8_t *row_alloc(struct row_memory *m, size_t n)
{
	if (n > m->left) {
		size_t size = MIN(MAX(m->bytes, BLOCK_MIN), BLOCK_MAX);
		size = MAX(size, n);
		m->at = xmalloc(size);
		m->left = size;
		m->bytes += size;
		vec_push(&m->blocks, m->at);
	}
	uint8_t *at = m->at;
	m->at += n;
	m->left -= n;
	return at;
}

void chunk_release(struct chunk *c)
{
	vec_free(&c->rows);
	vec_free(&c->metas);
}

size_t chunk_bytes(const struct chunk *c)
{
	return sizeof *c + c->rows.cap * sizeof *c->rows.v + c->metas.cap * sizeof *c->metas.v;
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

static uint64_t magnitude_of(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

static uint64_t add_magnitude(uint64_t a, uint64_t b)
{
	return __builtin_add_overflow(a, b, &a) || a > TOO_LARGE ? TOO_LARGE : a;
}

uint64_t values_magnitude(const int64_t *v, size_t n)
{
	uint64_t sum = 0, all = 0;
	for (size_t i = 0; i < n; i++) {
		all |= magnitude_of(v[i]);
		sum += magnitude_of(v[i]);
	}
	if (!n || all <= TOO_LARGE / n)
		return sum;
	sum = 0;
	for (size_t i = 0; i < n; i++)
		sum = add_magnitude(sum, magnitude_of(v[i]));
	return sum;
}

static uint8_t width_of(const int64_t *v, size_t n)
{
	uint64_t all = 0;
	for (size_t i = 0; i < n; i++)
		all |= (uint64_t)v[i];
	return all < 0x100 ? 1 : all < 0x10000 ? 2 : all <= UINT32_MAX ? 4 : 8;
}

static uint8_t gap_width(const uint32_t *columns, size_t n)
{
	uint32_t all = 0;
	for (size_t i = 1; i < n; i++)
		all |= columns[i] - columns[i - 1];
	return all < 0x10000 ? 2 : 4;
}

#define PUT_ALL(type, from) do { \
	for (size_t i_ = 0; i_ < n; i_++) { \
		type x_ = (type)(from); \
		memcpy(at + i_ * sizeof x_, &x_, sizeof x_); \
	} \
	at += n * sizeof(type); \
} while (0)

static void put_samples(struct chunk_row *r, uint8_t *at, const uint32_t *columns, const int64_t *values, size_t n)
{
	r->data = at;
	if (r->index_width == 2)
		PUT_ALL(uint16_t, i_ ? columns[i_] - columns[i_ - 1] : 0);
	else
		PUT_ALL(uint32_t, i_ ? columns[i_] - columns[i_ - 1] : 0);
	switch (r->value_width) {
	case 1: PUT_ALL(uint8_t, values[i_]); break;
	case 2: PUT_ALL(uint16_t, values[i_]); break;
	case 4: PUT_ALL(uint32_t, values[i_]); break;
	default: PUT_ALL(int64_t, values[i_]);
	}
}

static bool any_zero(const int64_t *v, size_t n)
{
	bool zero = false;
	for (size_t i = 0; i < n; i++)
		zero |= !v[i];
	return zero;
}

static void add_samples(struct chunk *c, struct row_memory *m, struct chunk_row *r, const uint32_t *columns, const int64_t *values,
			size_t n)
{
	r->index_width = gap_width(columns, n);
	r->value_width = width_of(values, n);
	r->n = (uint32_t)n;
	r->first = n ? columns[0] : 0;
	put_samples(r, row_alloc(m, n * (r->index_width + r->value_width)), columns, values, n);
	if (n)
		c->n_columns = MAX(c->n_columns, columns[n - 1] + 1);
	c->magnitude = add_magnitude(c->magnitude, values_magnitude(values, n));
}

/* Samples of value 0 are left out: they add nothing. */
static void add_nonzero(struct chunk *c, struct row_memory *m, struct chunk_row *r, const uint32_t *columns, const int64_t *values,
			size_t n)
{
	uint32_t *some = xreallocarray(NULL, n + 1, sizeof *some);
	int64_t *some_values = xreallocarray(NULL, n + 1, sizeof *some_values);
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (values[i]) {
			some[kept] = columns[i];
			some_values[kept++] = values[i];
		}
	add_samples(c, m, r, some, some_values, kept);
	free(some);
	free(some_values);
}

static void add_total(struct chunk_row *r, const int64_t *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (__builtin_add_overflow(r->total, values[i], &r->total)) {
			r->total = INT64_MAX; /* the sink refuses such profiles; only a damaged record gets here */
			return;
		}
}

void chunk_add(struct chunk *c, struct row_memory *m, const struct record_profile *p, uint32_t i, struct chunk *base,
	       uint64_t seq)
{
	struct chunk_row r = { .t_ms = p->t_ms, .seq = seq, .cover_ms = p->cover_ms, .stale = p->stale };
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
			r.at = (uint32_t)(base->rows.n - 1);
			r.n = base->rows.v[r.at].n;
			c->n_columns = MAX(c->n_columns, base->n_columns);
			c->magnitude = add_magnitude(c->magnitude, values_magnitude(values, p->n));
		} else if (any_zero(values, p->n)) {
			add_nonzero(c, m, &r, p->columns.v, values, p->n);
		} else {
			add_samples(c, m, &r, p->columns.v, values, p->n);
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

/* ---- sums ---- */

void dense_reserve(struct dense *d, uint32_t n_columns)
{
	uint32_t room = (n_columns + DENSE_SLACK + 63) & ~63u;
	if (room <= d->room)
		return;
	dense_release(d);
	d->sums = xcalloc(room, sizeof *d->sums);
	d->marks = xcalloc(room / 64, 1);
	d->room = room;
}

void dense_release(struct dense *d)
{
	free(d->sums);
	free(d->marks);
	*d = (struct dense){ 0 };
}

bool dense_is_empty(const struct dense *d)
{
	return !d->magnitude;
}

size_t dense_bytes(const struct dense *d)
{
	return d->room * sizeof *d->sums;
}

bool dense_fits(const struct dense *d, uint64_t all, int64_t factor)
{
	return !__builtin_mul_overflow(all, magnitude_of(factor), &all) && add_magnitude(d->magnitude, all) < TOO_LARGE;
}

bool dense_expect(struct dense *d, uint64_t all, int64_t factor)
{
	if (__builtin_mul_overflow(all, magnitude_of(factor), &all) || add_magnitude(d->magnitude, all) >= TOO_LARGE)
		return false;
	d->magnitude += all;
	return true;
}

bool dense_move(struct dense *to, struct dense *from)
{
	bool over = false;
	to->magnitude = add_magnitude(to->magnitude, from->magnitude);
	for (uint32_t i = 0; i < from->room / 64; i++) {
		if (!from->marks[i])
			continue;
		int64_t *x = to->sums + (size_t)i * 64, *y = from->sums + (size_t)i * 64;
		for (int k = 0; k < 64; k++)
			over |= __builtin_add_overflow(x[k], y[k], &x[k]);
		memset(y, 0, 64 * sizeof *y);
		from->marks[i] = 0;
		to->marks[i] = 1;
	}
	from->magnitude = 0;
	return !over;
}

bool dense_add(struct dense *d, const uint32_t *columns, const int64_t *values, size_t n, int64_t factor)
{
	bool over = false;
	uint64_t all = values_magnitude(values, n);
	if (__builtin_mul_overflow(all, magnitude_of(factor), &all))
		all = TOO_LARGE;
	d->magnitude = add_magnitude(d->magnitude, all);
	if (d->magnitude < TOO_LARGE) {
		for (size_t i = 0; i < n; i++) {
			d->sums[columns[i]] += values[i] * factor;
			d->marks[columns[i] / 64] = 1;
		}
		return true;
	}
	for (size_t i = 0; i < n; i++) {
		int64_t value;
		over |= __builtin_mul_overflow(values[i], factor, &value);
		over |= __builtin_add_overflow(d->sums[columns[i]], value, &d->sums[columns[i]]);
		d->marks[columns[i] / 64] = 1;
	}
	return !over;
}

size_t dense_count(const struct dense *d)
{
	size_t n = 0;
	for (uint32_t i = 0; i < d->room / 64; i++)
		n += d->marks[i];
	return n * 64;
}

size_t dense_take(struct dense *d, uint32_t *columns, int64_t *sums)
{
	size_t n = 0;
	for (uint32_t i = 0; i < d->room / 64; i++) {
		if (!d->marks[i])
			continue;
		int64_t *s = d->sums + (size_t)i * 64;
		for (uint32_t k = 0; k < 64; k++) {
			columns[n] = i * 64 + k;
			sums[n] = s[k];
			n += s[k] != 0;
		}
		memset(s, 0, 64 * sizeof *s);
		d->marks[i] = 0;
	}
	d->magnitude = 0;
	return n;
}

/* ---- reading ---- */

/* Runs body for each sample of a row that has its own: `column` and `value` are set. */
#define EACH_SAMPLE(r, body) do { \
	const uint8_t *ip_ = (r)->data, *vp_ = ip_ + (size_t)(r)->n * (r)->index_width; \
	size_t n_ = (r)->n; \
	uint32_t column = (r)->first; \
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
		column += i_; \
		int64_t value = v_; \
		body; \
	} \
	break;

static void add_row(const struct chunk_row *r, int64_t factor, struct dense *d)
{
	int64_t *sums = d->sums;
	uint8_t *marks = d->marks;
	if (factor == 1)
		EACH_SAMPLE(r, sums[column] += value; marks[column / 64] = 1);
	else
		EACH_SAMPLE(r, sums[column] += value * factor; marks[column / 64] = 1);
}

static bool add_row_checked(const struct chunk_row *r, int64_t factor, struct dense *d)
{
	bool over = false;
	EACH_SAMPLE(r, int64_t x; over |= __builtin_mul_overflow(value, factor, &x);
		    over |= __builtin_add_overflow(d->sums[column], x, &d->sums[column]); d->marks[column / 64] = 1);
	return !over;
}

static int too_large(struct err *e)
{
	return err_set(e, ERR_EXECUTION, "a sum of values does not fit in 64 bits: ask for a shorter range or fewer series");
}

/* Rows [*lo, *hi) hold all that is selected; the rest of them must be looked at if the chunk is unsorted. */
void chunk_bounds(const struct chunk *c, size_t visible, int64_t after, int64_t until, size_t *lo, size_t *hi)
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

/* The row that has the samples of this one. */
static const struct chunk_row *own_row(const struct chunk *c, const struct chunk_row *r, int64_t *factor)
{
	*factor = r->index_width ? 1 : c->factor;
	return r->index_width ? r : &c->base->rows.v[r->at];
}

int chunk_sum(const struct chunk *c, size_t visible, int64_t after_ms, int64_t until_ms, struct dense *d, uint64_t *ret_read,
	      struct err *e)
{
	size_t lo, hi;
	chunk_bounds(c, visible, after_ms, until_ms, &lo, &hi);
	if (lo == hi)
		return 0;
	d->magnitude = add_magnitude(d->magnitude, c->magnitude);
	bool checked = d->magnitude >= TOO_LARGE, ok = true;
	for (size_t i = lo; i < hi; i++) {
		const struct chunk_row *r = &c->rows.v[i];
		int64_t factor;
		if (r->stale || !r->n || r->t_ms <= after_ms || r->t_ms > until_ms)
			continue;
		const struct chunk_row *own = own_row(c, r, &factor);
		*ret_read += own->n;
		if (checked)
			ok &= add_row_checked(own, factor, d);
		else
			add_row(own, factor, d);
	}
	return ok ? 0 : too_large(e);
}

void chunk_add_rows(const struct chunk *c, size_t from, size_t to, int64_t by, struct dense *d, uint64_t *ret_read)
{
	for (size_t i = from; i < to; i++) {
		const struct chunk_row *r = &c->rows.v[i];
		int64_t factor;
		if (r->stale || !r->n)
			continue;
		const struct chunk_row *own = own_row(c, r, &factor);
		*ret_read += own->n;
		add_row(own, factor * by, d);
	}
}

int chunk_add_row(const struct chunk *c, const struct chunk_row *r, struct dense *d, uint64_t *ret_read, struct err *e)
{
	int64_t factor;
	if (r->stale || !r->n)
		return 0;
	const struct chunk_row *own = own_row(c, r, &factor);
	*ret_read += own->n;
	d->magnitude = add_magnitude(d->magnitude, c->magnitude);
	if (d->magnitude < TOO_LARGE)
		add_row(own, factor, d);
	else if (!add_row_checked(own, factor, d))
		return too_large(e);
	return 0;
}

static bool has(const uint64_t *match, uint32_t n, uint32_t column)
{
	return column < n && (match[column / 64] >> column % 64 & 1);
}

static bool sum_matching(const struct chunk_row *r, const uint64_t *match, uint32_t n_match, int64_t factor, int64_t *ret)
{
	int64_t sum = 0;
	bool over = false;
	EACH_SAMPLE(r, if (has(match, n_match, column)) over |= __builtin_add_overflow(sum, value, &sum));
	over |= __builtin_mul_overflow(sum, factor, ret);
	return !over;
}

int chunk_row_sums(const struct chunk *c, size_t visible, const uint64_t *match, uint32_t n_match, int64_t *out,
		   struct err *e)
{
	bool ok = true;
	for (size_t i = 0; i < visible && ok; i++) {
		const struct chunk_row *r = &c->rows.v[i];
		int64_t factor;
		out[i] = 0;
		if (r->stale || !r->n)
			continue;
		const struct chunk_row *own = own_row(c, r, &factor);
		ok = sum_matching(own, match, n_match, factor, &out[i]);
	}
	return ok ? 0 : too_large(e);
}

void chunk_row_samples(const struct chunk *c, const struct chunk_row *r, uint32_t *columns, int64_t *values)
{
	int64_t factor;
	size_t n = 0;
	if (r->stale || !r->n)
		return;
	const struct chunk_row *own = own_row(c, r, &factor);
	if (values)
		EACH_SAMPLE(own, columns[n] = column; values[n++] = value * factor);
	else
		EACH_SAMPLE(own, columns[n++] = column; (void)value);
}

void cells_release(struct cells *c)
{
	vec_free(&c->t_ms);
	vec_free(&c->summed);
	vec_free(&c->rows);
	vec_free(&c->columns);
	vec_free(&c->values);
}

static bool take_cells(const struct chunk_row *r, uint32_t number, int64_t factor, struct cells *out)
{
	bool over = false;
	size_t at = out->rows.n, end = at + r->n;
	vec_reserve(&out->rows, end);
	vec_reserve(&out->columns, end);
	vec_reserve(&out->values, end);
	EACH_SAMPLE(r, out->rows.v[at] = number; out->columns.v[at] = column;
		    over |= __builtin_mul_overflow(value, factor, &out->values.v[at]); at++);
	out->rows.n = out->columns.n = out->values.n = end;
	return !over;
}

int chunk_cells(const struct chunk *c, size_t visible, struct cells *out, struct err *e)
{
	bool ok = true;
	out->t_ms.n = out->rows.n = out->columns.n = out->values.n = 0;
	for (size_t i = 0; i < visible && ok; i++) {
		const struct chunk_row *r = &c->rows.v[i];
		vec_push(&out->t_ms, r->t_ms);
		if (r->stale)
			continue;
		int64_t factor;
		const struct chunk_row *own = own_row(c, r, &factor);
		ok = !own->n || take_cells(own, (uint32_t)i, factor, out);
	}
	return ok ? 0 : too_large(e);
}

size_t chunk_sample_bytes(const struct chunk *c)
{
	size_t n = c->base && c->n_times ? chunk_sample_bytes(c->base) : 0;
	for (size_t i = 0; i < c->rows.n; i++)
		n += (size_t)c->rows.v[i].n * (c->rows.v[i].index_width + c->rows.v[i].value_width);
	return n;
}
