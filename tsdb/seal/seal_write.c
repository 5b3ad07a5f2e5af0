/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a window into the file of a part: its series are encoded one by one, then the sums by service, and everything is written in
 * the order of the part's keys. Runs on the thread that seals. */
#include "base/alloc.h"
#include "tsdb/seal/aggregate.h"
#include "tsdb/seal/seal.h"

/* One series of the window on its way to disk. */
struct item {
	uint32_t series;
	const struct chunk *chunk;
	const struct fchunk *fchunk;
	struct sealed_buffers b;
	bool same_places; /* its samples have the places of those of series places_of */
	uint32_t places_of;
	struct buf floats;
};

/* A window being written. */
struct writing {
	struct partition *p;
	struct window *w;
	struct part *part;
	const struct buf *symbols;
	VEC(struct item) items; /* by series */
	struct aggregates aggregates;
	struct sealed_scratch scratch;
	size_t bytes;           /* of all that, as it counts in the head's budget */
};

static int by_series(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return (x->series > y->series) - (x->series < y->series);
}

static void list_items(struct writing *s)
{
	for (size_t i = 0; i < s->w->chunks.n; i++) {
		if (!s->w->chunks.v[i]->rows.n)
			continue; /* all of it was deleted */
		struct item *x = vec_add(&s->items);
		x->series = s->w->chunks.v[i]->series;
		x->chunk = s->w->chunks.v[i];
	}
	for (size_t i = 0; i < s->w->fchunks.n; i++) {
		if (!s->w->fchunks.v[i]->points.n)
			continue;
		struct item *x = vec_add(&s->items);
		x->series = s->w->fchunks.v[i]->series;
		x->fchunk = s->w->fchunks.v[i];
	}
	if (s->items.n)
		qsort(s->items.v, s->items.n, sizeof *s->items.v, by_series);
}

static void float_bounds(struct item *x)
{
	x->b.min_t = INT64_MAX;
	x->b.max_t = INT64_MIN;
	for (size_t i = 0; i < x->fchunk->points.n; i++) {
		x->b.min_t = MIN(x->b.min_t, x->fchunk->points.v[i].t_ms);
		x->b.max_t = MAX(x->b.max_t, x->fchunk->points.v[i].t_ms);
	}
}

static bool same_bytes(const struct buf *a, const struct buf *b)
{
	return view_eq(buf_view(a), buf_view(b));
}

/* The types of a profile often have the same stacks: their places are stored once. */
static void share_places(struct item *x, const struct item *before)
{
	x->same_places = same_bytes(&x->b.detail[0], &before->b.detail[0]) && same_bytes(&x->b.detail[1], &before->b.detail[1]);
	if (!x->same_places)
		return;
	x->places_of = before->series;
	buf_free(&x->b.detail[0]);
	buf_free(&x->b.detail[1]);
	x->b.detail[0] = x->b.detail[1] = (struct buf){ 0 };
}

static size_t buffer_bytes(const struct sealed_buffers *b)
{
	return b->totals.cap + b->rollup.cap + b->detail[0].cap + b->detail[1].cap + b->detail[2].cap;
}

static void takes(struct writing *s, size_t bytes)
{
	s->bytes += bytes;
	atomic_fetch_add(&s->p->db->sealing_bytes, bytes);
}

/* No thread writes to a frozen window, so its lock is not needed during this long work. */
static int encode_items(struct writing *s, struct err *e)
{
	const struct item *before = NULL; /* the last that says itself where its samples are */
	int rc = 0;
	for (size_t i = 0; i < s->items.n && !rc; i++) {
		struct item *x = &s->items.v[i];
		if (x->chunk) {
			rc = sealed_encode(x->chunk, &s->scratch, &x->b, e);
			if (!rc && !x->b.times.factor && before)
				share_places(x, before);
			if (!x->b.times.factor && !x->same_places)
				before = x;
		} else {
			sealed_put_floats(&x->floats, x->fchunk->points.v, x->fchunk->points.n);
			float_bounds(x);
		}
		s->part->samples += x->b.samples;
		takes(s, sizeof *x + buffer_bytes(&x->b) + x->floats.cap);
		if (x->b.min_t > x->b.max_t)
			continue;
		vec_push(&s->part->series, (struct part_series){
			.series = x->series, .is_float = !x->chunk, .min_ms = (uint32_t)(x->b.min_t - part_start_ms(s->part)),
			.max_ms = (uint32_t)(x->b.max_t - part_start_ms(s->part)) });
	}
	return rc;
}

/* After the items: what of them adds up by service. */
static int encode_aggregates(struct writing *s, struct err *e)
{
	struct aggregate_member *m = xcalloc(s->items.n + 1, sizeof *m);
	size_t n = 0;
	for (size_t i = 0; i < s->items.n; i++)
		if (s->items.v[i].chunk)
			m[n++] = (struct aggregate_member){ .series = s->items.v[i].series, .chunk = s->items.v[i].chunk,
							    .times = s->items.v[i].b.times };
	int rc = aggregates_encode(&s->aggregates, s->p, m, n, &s->scratch, e);
	for (size_t i = 0; i < s->aggregates.v.n && !rc; i++) {
		vec_push(&s->part->aggregates, 0);
		takes(s, buffer_bytes(&s->aggregates.v.v[i].b));
	}
	for (size_t i = 0, k = 0; i < n && !rc; i++) {
		while (k < s->part->series.n && s->part->series.v[k].series < m[i].series)
			k++;
		if (!m[i].aggregate || k == s->part->series.n || s->part->series.v[k].series != m[i].series)
			continue;
		s->part->series.v[k].aggregate = m[i].aggregate;
		s->part->aggregates.v[m[i].aggregate - 1]++;
	}
	free(m);
	return rc;
}

static int put_buf(struct part_writer *w, enum part_kind kind, uint32_t series, uint8_t stream, const struct buf *b,
		   struct err *e)
{
	if (b->overflow)
		return err_set(e, ERR_LIMIT, "a value of a part is over %zu bytes", BUF_DEFAULT_MAX);
	return part_put(w, kind, series, stream, buf_view(b), e);
}

static int put_head(struct writing *s, struct part_writer *w, struct err *e)
{
	struct buf header = { 0 }, index = { 0 };
	part_put_header(&header, s->part);
	part_put_index(&index, s->part);
	int rc = put_buf(w, PART_HEADER, 0, 0, &header, e);
	if (!rc)
		rc = part_put_symbols(w, buf_view(s->symbols), e);
	if (!rc)
		rc = put_buf(w, PART_INDEX, 0, 0, &index, e);
	buf_free(&header);
	buf_free(&index);
	return rc;
}

/* The entries of a series or an aggregate under a kind of keys. */
static int put_profiles(struct part_writer *w, enum part_kind kind, uint32_t series, const struct sealed_buffers *b,
			struct err *e)
{
	int stream = kind == PART_DETAIL ? 0 : kind == PART_DETAIL_1 ? 1 : kind == PART_DETAIL_2 ? 2 : -1;
	if (kind == PART_TOTALS)
		return put_buf(w, kind, series, 0, &b->totals, e);
	if (kind == PART_ROLLUP)
		return put_buf(w, kind, series, 0, &b->rollup, e);
	return stream < 0 || b->times.factor ? 0 : put_buf(w, PART_DETAIL, series, (uint8_t)stream, &b->detail[stream], e);
}

static int put_item(struct part_writer *w, enum part_kind kind, const struct item *x, struct err *e)
{
	if (!x->chunk)
		return kind == PART_FLOATS ? put_buf(w, kind, x->series, 0, &x->floats, e) : 0;
	if (x->same_places && kind == PART_DETAIL)
		return part_put_places(w, x->series, x->places_of, e);
	if (x->same_places && kind == PART_DETAIL_1)
		return 0; /* the other series has it */
	return put_profiles(w, kind, x->series, &x->b, e);
}

static int put_items(struct writing *s, struct part_writer *w, struct err *e)
{
	int rc = 0;
	for (enum part_kind kind = PART_TOTALS; kind <= PART_DETAIL_2 && !rc; kind++) {
		for (size_t i = 0; i < s->items.n && !rc; i++)
			rc = put_item(w, kind, &s->items.v[i], e);
		for (size_t i = 0; i < s->aggregates.v.n && !rc; i++)
			rc = put_profiles(w, kind, PART_AGGREGATE | (uint32_t)i, &s->aggregates.v.v[i].b, e);
	}
	return rc;
}

static void count(const struct buf *b, uint64_t *bytes, uint64_t *n)
{
	*bytes += b->len;
	*n += b->len > 0;
}

/* For all values of series. */
static uint64_t count_bytes(const struct writing *s, uint64_t *n)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < s->items.n; i++) {
		const struct item *x = &s->items.v[i];
		count(&x->b.totals, &bytes, n);
		count(&x->b.rollup, &bytes, n);
		for (int k = 0; k < 3; k++)
			count(&x->b.detail[k], &bytes, n);
		count(&x->floats, &bytes, n);
	}
	return bytes;
}

static int write_part(struct writing *s, struct err *e)
{
	struct part_writer *w;
	int rc = encode_items(s, e);
	if (!rc)
		rc = encode_aggregates(s, e);
	if (rc)
		return rc;
	uint64_t n_values = 0, n_bytes = count_bytes(s, &n_values);
	rc = part_writer_new(&w, s->p->db_parts, LEVEL_HOUR, s->part->window, s->part->number, n_bytes, n_values, e);
	if (rc)
		return rc;
	rc = put_head(s, w, e);
	if (!rc)
		rc = put_items(s, w, e);
	if (!rc)
		return part_writer_finish(w, s->part, e);
	part_writer_abort(w);
	return rc;
}

int seal_write(struct partition *p, struct window *w, struct part *part, const struct buf *symbols, struct err *e)
{
	struct writing s = { .p = p, .w = w, .part = part, .symbols = symbols };
	list_items(&s);
	takes(&s, symbols->cap + (w->frozen ? 0 : w->bytes)); /* one of the head counts there */
	int rc = write_part(&s, e);
	for (size_t i = 0; i < s.items.n; i++) {
		sealed_buffers_release(&s.items.v[i].b);
		buf_free(&s.items.v[i].floats);
	}
	vec_free(&s.items);
	aggregates_release(&s.aggregates);
	sealed_scratch_release(&s.scratch);
	atomic_fetch_sub(&p->db->sealing_bytes, s.bytes);
	tsdb_head_changed(p->db);
	return rc;
}
