/* SPDX-License-Identifier: Apache-2.0 */
/* Gives back the space of what was deleted: a part with masked rows is written anew without them, under a new number
 * and the old one's place in the chain of symbols (origin), and takes its place in one step; the old file goes with the
 * last query that reads it. A crash in between leaves both, of which the next open keeps the newer. A partition of
 * which nothing is left goes as a whole. Runs on the sealer's thread, one part at a time, under seal_lock. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/delete.h"
#include "tsdb/readpart.h"

/* One series of the new part. */
struct item {
	uint32_t series;
	bool is_float, copied; /* copied: its values as they are */
	struct sealed_buffers b;
	struct buf floats;
	struct part_series bounds;
};

struct rewrite {
	struct tsdb *db;
	struct partition *p;
	const struct pstate *s;
	struct part *from, *to;
	VEC(struct item) items;
	struct part_scratch rows, sums;
	struct record_profile profile;
	struct row_memory memory;
	struct sealed_space space;
};

/* ---- what becomes of a series ---- */

static bool touched(const struct rewrite *r, const struct part_series *x)
{
	int64_t start = part_start_ms(r->from), after = start + x->min_ms - 1, until;
	return !masks_next(r->s, r->from, x->series, &after, start + x->max_ms, &until) ||
	       after != start + x->min_ms - 1 || until != start + x->max_ms;
}

static int get_times(const struct part *p, uint32_t series, struct part_scratch *w, struct sealed_times *ret, struct err *e)
{
	PART_VALUE v = { 0 };
	int rc = part_get(p, PART_ROLLUP, series, 0, &v, e);
	if (!rc)
		rc = sealed_get_rollup(v.payload, &w->rollup, e);
	*ret = rc ? (struct sealed_times){ 0 } : w->rollup.times;
	return rc;
}

static bool same_masks(const struct rewrite *r, uint32_t a, uint32_t b)
{
	size_t n, m;
	const struct mask *x = masks_of(r->s, a, &n), *y = masks_of(r->s, b, &m);
	for (size_t i = 0; n == m && i < n; i++)
		if (x[i].below_part != y[i].below_part || x[i].after_ms != y[i].after_ms || x[i].until_ms != y[i].until_ms)
			return false;
	return n == m;
}

static void set_bounds(struct rewrite *r, struct item *x, int64_t min_ms, int64_t max_ms)
{
	x->bounds = (struct part_series){ .series = x->series, .is_float = x->is_float,
					  .min_ms = (uint32_t)(min_ms - part_start_ms(r->to)),
					  .max_ms = (uint32_t)(max_ms - part_start_ms(r->to)) };
}

static struct item *add_item(struct rewrite *r, uint32_t series, bool is_float)
{
	struct item *x = vec_add(&r->items);
	x->series = series;
	x->is_float = is_float;
	return x;
}

static void copy(struct rewrite *r, const struct part_series *b)
{
	struct item *x = add_item(r, b->series, b->is_float);
	x->copied = true;
	set_bounds(r, x, part_start_ms(r->from) + b->min_ms, part_start_ms(r->from) + b->max_ms);
}

static int keep_floats(struct rewrite *r, const struct part_series *b, struct err *e)
{
	PART_VALUE v = { 0 };
	struct sealed_floats f = { 0 };
	size_t kept = 0;
	int rc = part_get(r->from, PART_FLOATS, b->series, 0, &v, e);
	if (!rc)
		rc = sealed_get_floats(v.payload, &f, e);
	for (size_t i = 0; !rc && i < f.points.n; i++)
		if (!masks_hide(r->s, r->from, b->series, f.points.v[i].t_ms))
			f.points.v[kept++] = f.points.v[i];
	if (!rc && kept) {
		struct item *x = add_item(r, b->series, true);
		sealed_put_floats(&x->floats, f.points.v, kept);
		set_bounds(r, x, f.points.v[0].t_ms, f.points.v[kept - 1].t_ms);
	}
	vec_free(&f.points);
	return rc;
}

/* One profile of the old part as the head would have taken it. */
static int add_row(struct rewrite *r, struct chunk *c, const struct sealed_row *row, struct err *e)
{
	struct record_profile *p = &r->profile;
	struct part_sums sums;
	size_t n = 0;
	uint64_t read = 0;
	*p = (struct record_profile){ .columns = p->columns, .values = p->values, .n_series = 1, .t_ms = row->t_ms,
				      .cover_ms = row->cover_ms, .stale = row->stale, .meta = row->meta };
	p->columns.n = p->values.n = 0;
	int rc = row->stale ? 0 : part_sum(r->from, c->series, row->t_ms - 1, row->t_ms, &r->sums, &sums, &n, &read, e);
	for (size_t i = 0; !rc && n && i < sums.n; i++) {
		int64_t value;
		if (!sums.sums[i])
			continue;
		if (__builtin_mul_overflow(sums.sums[i], sums.factor, &value))
			rc = err_set(e, ERR_CORRUPT, "a value of a sealed part does not fit in 64 bits");
		vec_push(&p->columns, sums.columns[i]);
		vec_push(&p->values, value);
	}
	p->n = p->columns.n;
	if (!rc)
		chunk_add(c, &r->memory, p, 0, NULL, 1);
	return rc;
}

static int keep_rows(struct rewrite *r, const struct part_series *b, struct err *e)
{
	struct chunk c = { .series = b->series };
	struct item *x = NULL;
	int rc = part_totals(r->from, b->series, &r->rows, e);
	for (size_t i = 0; !rc && i < r->rows.totals.rows.n; i++) {
		const struct sealed_row *row = &r->rows.totals.rows.v[i];
		if (!masks_hide(r->s, r->from, b->series, row->t_ms))
			rc = add_row(r, &c, row, e);
	}
	if (!rc && c.rows.n) {
		x = add_item(r, b->series, false);
		rc = sealed_encode(&c, &r->space, &x->b, e);
		set_bounds(r, x, x->b.min_t, x->b.max_t);
		r->to->samples += x->b.samples;
	}
	chunk_release(&c);
	row_memory_release(&r->memory);
	return rc;
}

static struct item *find_item(struct rewrite *r, uint32_t series)
{
	for (size_t i = 0; i < r->items.n; i++)
		if (r->items.v[i].series == series)
			return &r->items.v[i];
	return NULL;
}

/* A series that was a multiple of another stays one if the same was deleted of both. */
static int keep_multiple(struct rewrite *r, const struct part_series *b, struct sealed_times times, struct err *e)
{
	const struct part_series *base = part_find(r->from, times.series);
	if (!touched(r, b) && base && !touched(r, base)) {
		copy(r, b);
		return 0;
	}
	if (!base || !same_masks(r, b->series, times.series))
		return keep_rows(r, b, e);
	const struct item *kept = find_item(r, times.series);
	if (!kept)
		return 0; /* nothing is left of either */
	struct part_series bounds = kept->bounds;
	struct item *x = add_item(r, b->series, false);
	x->b.times = times;
	sealed_put_times(&x->b.totals, times);
	sealed_put_times(&x->b.rollup, times);
	x->bounds = bounds;
	x->bounds.series = b->series;
	return 0;
}

static int choose(struct rewrite *r, const struct part_series *b, bool multiples, struct err *e)
{
	struct sealed_times times = { 0 };
	int rc = b->is_float ? 0 : get_times(r->from, b->series, &r->sums, &times, e);
	if (rc || (times.factor != 0) != multiples)
		return rc;
	if (times.factor)
		return keep_multiple(r, b, times, e);
	if (!touched(r, b)) {
		copy(r, b);
		return 0;
	}
	return b->is_float ? keep_floats(r, b, e) : keep_rows(r, b, e);
}

/* ---- writing ---- */

static int by_series(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return (x->series > y->series) - (x->series < y->series);
}

static int put_value(struct rewrite *r, struct part_writer *w, const struct item *x, enum part_kind kind, uint8_t stream,
		     const struct buf *b, struct err *e)
{
	if (!x->copied)
		return part_put(w, kind, x->series, stream, buf_view(b), e);
	PART_VALUE v = { 0 };
	int rc = part_get(r->from, kind, x->series, stream, &v, e);
	if (rc == -ERR_NOT_FOUND && kind == PART_DETAIL)
		return 0; /* a multiple has none */
	return rc ? rc : part_put(w, kind, x->series, stream, v.payload, e);
}

static int put_items(struct rewrite *r, struct part_writer *w, struct err *e)
{
	int rc = 0;
	for (enum part_kind kind = PART_TOTALS; kind <= PART_FLOATS && !rc; kind++)
		for (size_t i = 0; i < r->items.n && !rc; i++) {
			struct item *x = &r->items.v[i];
			if (x->is_float != (kind == PART_FLOATS))
				continue;
			if (kind == PART_TOTALS)
				rc = put_value(r, w, x, kind, 0, &x->b.totals, e);
			else if (kind == PART_ROLLUP)
				rc = put_value(r, w, x, kind, 0, &x->b.rollup, e);
			else if (kind == PART_FLOATS)
				rc = put_value(r, w, x, kind, 0, &x->floats, e);
			for (uint8_t k = 0; kind == PART_DETAIL && !x->b.times.factor && k < 3 && !rc; k++)
				rc = put_value(r, w, x, kind, k, &x->b.detail[k], e);
		}
	return rc;
}

static int put_all(struct rewrite *r, struct part_writer *w, struct err *e)
{
	struct buf b = { 0 };
	PART_VALUE symbols = { 0 };
	part_put_header(&b, r->to);
	int rc = part_put(w, PART_HEADER, 0, 0, buf_view(&b), e);
	if (!rc)
		rc = part_get(r->from, PART_SYMBOLS, 0, 0, &symbols, e);
	if (!rc)
		rc = part_put(w, PART_SYMBOLS, 0, 0, symbols.payload, e);
	buf_reset(&b);
	part_put_index(&b, r->to);
	if (!rc)
		rc = part_put(w, PART_INDEX, 0, 0, buf_view(&b), e);
	buf_free(&b);
	return rc ? rc : put_items(r, w, e);
}

static int write_part(struct rewrite *r, struct err *e)
{
	struct part_writer *w;
	int rc = part_writer_new(&w, r->p->db_parts, LEVEL_HOUR, r->to->window, r->to->number, e);
	if (rc)
		return rc;
	rc = put_all(r, w, e);
	if (!rc)
		return part_writer_finish(w, r->to, e);
	part_writer_abort(w);
	return rc;
}

/* ---- in its place ---- */

static bool sums_up(const struct part *rollup, uint32_t number)
{
	for (size_t i = 0; i < rollup->sums.n; i++)
		if (rollup->sums.v[i] == number)
			return true;
	return false;
}

static void publish(struct rewrite *r)
{
	pthread_mutex_lock(&r->db->apply_lock);
	struct version *v = tsdb_version(r->db, NULL);
	const struct pstate *s = version_find(v, r->p->day);
	struct part **parts = xcalloc(s->n_parts + 1, sizeof(*parts));
	size_t n = 0;
	for (size_t i = 0; i < s->n_parts; i++) {
		struct part *x = s->parts[i];
		if (x == r->from)
			parts[n++] = r->to;
		else if (x->level == LEVEL_HOUR || !sums_up(x, r->from->number))
			parts[n++] = x;
		else
			part_retire(x);
	}
	struct version *next = version_with(v, r->p, s->windows, s->n_windows, parts, n);
	version_set_masks(next, r->p->day, masks_with(s->masks, NULL, parts, n));
	pthread_rwlock_rdlock(&r->p->dict_lock);
	for (size_t i = 0; s->masks && i < s->masks->facts.n; i++)
		delete_bounds(r->p, version_find(next, r->p->day), s->masks->facts.v[i]);
	pthread_rwlock_unlock(&r->p->dict_lock);
	tsdb_publish(r->db, next, 0);
	part_retire(r->from);
	tsdb_trim_log(r->db);
	pthread_mutex_unlock(&r->db->apply_lock);
	free(parts);
	version_unref(v);
}

static void rewrite_release(struct rewrite *r)
{
	for (size_t i = 0; i < r->items.n; i++) {
		sealed_buffers_release(&r->items.v[i].b);
		buf_free(&r->items.v[i].floats);
	}
	vec_free(&r->items);
	part_scratch_release(&r->rows);
	part_scratch_release(&r->sums);
	record_profile_release(&r->profile);
	sealed_space_release(&r->space);
	part_unref(r->to);
}

static int rewrite_part(struct tsdb *db, const struct pstate *s, struct part *from, struct err *e)
{
	struct rewrite r = { .db = db, .p = s->p, .s = s, .from = from };
	int rc = 0;
	r.to = NEW(struct part);
	atomic_init(&r.to->refs, 1);
	r.to->window = from->window;
	r.to->origin = from->origin;
	for (size_t i = 0; i < from->sums.n; i++) /* their files may be there still */
		vec_push(&r.to->sums, from->sums.v[i]);
	r.to->first_record = from->first_record;
	r.to->last_record = from->last_record;
	pthread_mutex_lock(&db->apply_lock);
	r.to->number = s->p->next_part++;
	pthread_mutex_unlock(&db->apply_lock);
	for (int multiples = 0; multiples < 2 && !rc; multiples++)
		for (size_t i = 0; i < from->series.n && !rc; i++)
			rc = choose(&r, &from->series.v[i], multiples, e);
	if (r.items.n)
		qsort(r.items.v, r.items.n, sizeof *r.items.v, by_series);
	for (size_t i = 0; i < r.items.n; i++)
		vec_push(&r.to->series, r.items.v[i].bounds);
	if (!rc)
		rc = write_part(&r, e);
	if (!rc) {
		uint64_t back = from->bytes > r.to->bytes ? from->bytes - r.to->bytes : 0;
		publish(&r);
		delete_count_rewrite(back);
		LOG_DEBUG("msg", "wrote a part anew without what was deleted", "partition", LOG_NUM(s->p->day), "part",
			  LOG_NUM(from->number), "bytes", LOG_NUM(r.to->bytes), "bytes_back", LOG_NUM(back));
	}
	rewrite_release(&r);
	return rc;
}

/* ---- what is due ---- */

/* The first part with masked rows that was not found to be damaged. */
static struct part *next_part(const struct pstate *s)
{
	for (size_t i = 0; s->masks && i < s->n_parts; i++)
		if (s->parts[i]->level == LEVEL_HOUR && !s->parts[i]->damaged && masks_due(s->masks, s->parts[i]))
			return s->parts[i];
	return NULL;
}

/* 1: something was done, 0: nothing is to be done. */
static int one_step(struct tsdb *db, struct err *e)
{
	int rc = tsdb_drop_deleted(db, e);
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n && !rc; i++) {
		const struct pstate *s = v->p[i];
		struct part *p = next_part(s);
		if (!p)
			continue;
		rc = rewrite_part(db, s, p, e);
		if (rc == -ERR_CORRUPT || rc == -ERR_NOT_FOUND || rc == -ERR_EXECUTION) {
			LOG_WARN("msg", "a part with deleted rows cannot be written anew: they stay hidden, their space stays taken",
				 "partition", LOG_NUM(s->p->day), "part", LOG_NUM(p->number), "err", e->msg);
			p->damaged = true;
			rc = 0;
		}
		rc = rc ? rc : 1;
	}
	version_unref(v);
	return rc;
}

int rewrite_due(struct tsdb *db, size_t parts, struct err *e)
{
	int rc = 1;
	for (size_t done = 0; rc == 1 && (!parts || done < parts) && !atomic_load(&db->stopping); done++) {
		pthread_mutex_lock(&db->seal_lock);
		rc = one_step(db, e);
		pthread_mutex_unlock(&db->seal_lock);
	}
	return rc < 0 ? rc : 0;
}

int tsdb_clean(struct tsdb *db, struct err *e)
{
	int rc = rewrite_due(db, 0, e);
	if (!rc)
		rc = compact_due(db, true, e);
	return rc ? rc : rollup_due(db, e);
}
