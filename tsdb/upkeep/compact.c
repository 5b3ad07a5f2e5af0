/* SPDX-License-Identifier: Apache-2.0 */
/* Combines the parts of an hour into one, when there is no other work. An hour has several if it was sealed early, or late and
 * back-filled data came. Its rows are brought back into a window and written like one. The new part names those it replaces; a crash
 * in between leaves both, of which the next open keeps the new one. It takes the place of the first in the chain of symbols and has
 * all that were gained from there on. Runs on the sealer's thread, one hour at a time, and then waits for four times as long as that
 * took. Parts with damaged values stay unchanged: the intact part of a series, its totals if its stacks are damaged, would be lost on
 * the way through a window. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/part/damage.h"
#include "tsdb/part/part_read.h"
#include "tsdb/seal/seal.h"
#include "tsdb/upkeep/compact.h"
#include "tsdb/version/tombstones.h"

#define IDLE_MS HOUR_MS
/* This many parts are combined without waiting for an idle hour. */
#define MANY 8
#define ROW_BYTES 4 /* of memory per sample, about */

/* The rows of parts on their way into a window. */
struct refill {
	const struct pstate *s;
	struct window *w;
	struct part_scratch scratch;
	struct cells cells;
	struct record_profile out;
	VEC(uint32_t) first, next; /* samples of each row, as chains */
	VEC(uint64_t) order;       /* of one row: column << 32 | cell */
	VEC(struct sealed_times) times; /* of each series of the part at hand */
	VEC(uint8_t) bad;               /* of each of them: it is damaged, and left out */
	uint64_t *lost;                 /* such series of all parts; NULL: that is an error */
	VEC(uint32_t) multiples;        /* chains of them */
	/* The series of the profiles at hand: out has fewer where some are hidden. */
	uint32_t n_series, series[RECORD_MAX_TYPES];
	int64_t factor[RECORD_MAX_TYPES];
};

struct compaction {
	struct tsdb *db;
	struct partition *p;
	struct part *const *from;
	size_t n;
	struct part *to;
	struct window *w;
};

/* ---- rows of a part, back into the window ---- */

/* From each series with its own values to its multiples, one after the other. */
static int chain_multiples(struct refill *c, const struct part *p, struct err *e)
{
	vec_reserve(&c->multiples, p->series.n + 1);
	for (size_t i = 0; i < p->series.n; i++)
		c->multiples.v[i] = UINT32_MAX;
	for (size_t i = p->series.n; i--;) {
		if (!c->times.v[i].factor)
			continue;
		const struct part_series *base = part_find(p, c->times.v[i].series);
		size_t of = base ? (size_t)(base - p->series.v) : i;
		if (c->lost && (c->bad.v[of] || (!base && p->lost))) {
			c->bad.v[i] = 1;
			++*c->lost;
			continue;
		}
		if (of == i || c->times.v[of].factor || base->is_float)
			return err_set(e, ERR_CORRUPT, "a sealed series is a multiple of none");
		c->multiples.v[i] = c->multiples.v[of];
		c->multiples.v[of] = (uint32_t)i;
	}
	return 0;
}

/* A series with damaged values is left out and counted, if that is requested; else, and after other errors, it ends. */
static int leave_out(struct refill *c, struct part *p, size_t i, const struct err *e)
{
	if (!damage_is(e))
		return -(int)e->code;
	damage_count(p, p->series.v[i].series, e);
	if (!c->lost)
		return -(int)e->code;
	c->bad.v[i] = 1;
	++*c->lost;
	return 0;
}

static int read_times(struct refill *c, struct part *p, struct err *e)
{
	c->times.n = c->bad.n = 0;
	for (size_t i = 0; i < p->series.n; i++) {
		struct view v;
		int rc = 0;
		struct sealed_times none = { 0 };
		vec_push(&c->times, none);
		vec_push(&c->bad, 0);
		if (p->series.v[i].is_float)
			continue;
		rc = part_reader_get(&c->scratch.rollups, p, PART_ROLLUP, p->series.v[i].series, 0, &v, e);
		if (!rc)
			rc = sealed_get_rollup(v, &c->scratch.rollup, e);
		if (rc && (rc = leave_out(c, p, i, e)))
			return rc;
		if (!c->bad.v[i])
			c->times.v[i] = c->scratch.rollup.times;
	}
	return 0;
}

/* The series of the profile: one with its own values and its multiples. */
static int begin_profile(struct refill *c, const struct part *p, size_t of, struct err *e)
{
	c->n_series = 1;
	c->series[0] = p->series.v[of].series;
	for (uint32_t i = c->multiples.v[of]; i != UINT32_MAX; i = c->multiples.v[i]) {
		if (c->n_series == RECORD_MAX_TYPES)
			return err_set(e, ERR_CORRUPT, "a sealed series has more than %d multiples", RECORD_MAX_TYPES);
		c->series[c->n_series] = p->series.v[i].series;
		c->factor[c->n_series++] = c->times.v[i].factor;
	}
	return 0;
}

/* All series of the profile, then without those that are hidden at its stamp. False if that leaves none. */
static bool begin_row(struct refill *c, const struct part *p, int64_t t_ms, uint64_t *ret_hidden)
{
	struct record_profile *out = &c->out;
	uint32_t n_hidden = 0;
	*ret_hidden = 0;
	out->n_series = c->n_series;
	for (uint32_t i = 0; i < c->n_series; i++) {
		out->series[i] = c->series[i];
		out->times_of[i] = i ? 0 : 0xff;
		out->factor[i] = c->factor[i];
		if (c->s->tombstones && tombstones_hide(c->s, p, c->series[i], t_ms)) {
			*ret_hidden |= UINT64_C(1) << i;
			n_hidden++;
		}
	}
	return n_hidden < c->n_series;
}

static void chain_samples(struct refill *c, size_t n_rows)
{
	vec_reserve(&c->first, n_rows + 1);
	vec_reserve(&c->next, c->cells.values.n + 1);
	memset(c->first.v, 0xff, n_rows * sizeof *c->first.v);
	for (uint32_t i = 0; i < c->cells.values.n; i++) {
		c->next.v[i] = c->first.v[c->cells.rows.v[i]];
		c->first.v[c->cells.rows.v[i]] = i;
	}
}

static int by_column(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* The samples of a row, by column, and their multiples. */
static int take_samples(struct refill *c, size_t row, struct err *e)
{
	struct record_profile *out = &c->out;
	bool over = false;
	c->order.n = out->columns.n = out->values.n = 0;
	for (uint32_t i = c->first.v[row]; i != UINT32_MAX; i = c->next.v[i])
		vec_push(&c->order, (uint64_t)c->cells.columns.v[i] << 32 | i);
	out->n = c->order.n;
	if (out->n)
		qsort(c->order.v, out->n, sizeof *c->order.v, by_column);
	vec_reserve(&out->columns, out->n + 1);
	vec_reserve(&out->values, out->n * out->n_series + 1);
	for (size_t i = 0; i < out->n; i++) {
		int64_t value = c->cells.values.v[(uint32_t)c->order.v[i]];
		out->columns.v[i] = (uint32_t)(c->order.v[i] >> 32);
		out->values.v[i] = value;
		for (uint32_t s = 1; s < out->n_series; s++)
			over |= __builtin_mul_overflow(value, out->factor[s], &out->values.v[s * out->n + i]);
	}
	out->columns.n = out->n;
	out->values.n = out->n * out->n_series;
	return over ? err_set(e, ERR_CORRUPT, "a value of a sealed part does not fit in 64 bits") : 0;
}

static int add_profiles(struct refill *c, struct part *p, size_t of, struct err *e) LOCKS_UNCHECKED /* no other thread has the window */
{
	int rc = begin_profile(c, p, of, e);
	if (!rc)
		rc = part_cells(p, c->series[0], NULL, &c->scratch, &c->cells, e);
	if (!rc && !c->cells.t_ms.n) /* no samples at all: then it did not read the stamps */
		rc = part_totals(p, c->series[0], &c->scratch, e);
	if (rc) {
		if (c->lost)
			*c->lost += c->n_series - 1; /* its multiples go with it */
		return leave_out(c, p, of, e);
	}
	size_t n = c->scratch.totals.rows.n;
	if (!rc)
		chain_samples(c, n);
	for (size_t i = 0; i < n && !rc; i++) {
		const struct sealed_row *row = &c->scratch.totals.rows.v[i];
		uint64_t hidden;
		if (!begin_row(c, p, row->t_ms, &hidden))
			continue;
		c->out.t_ms = row->t_ms;
		c->out.cover_ms = row->cover_ms;
		c->out.stale = row->stale;
		c->out.meta = row->meta;
		rc = take_samples(c, i, e);
		for (uint32_t k = c->n_series; k-- && hidden;)
			if (hidden >> k & 1)
				record_drop_series(&c->out, k);
		if (!rc)
			window_add_profile(c->w, &c->out, 0, 0);
	}
	return rc;
}

static int add_floats(struct refill *c, const struct part *p, uint32_t series, struct err *e) LOCKS_UNCHECKED /* no other thread has the window */
{
	struct sealed_floats f = { 0 };
	PART_VALUE v = { 0 };
	int rc = part_get(p, PART_FLOATS, series, 0, &v, e);
	if (!rc)
		rc = sealed_get_floats(v.payload, &f, e);
	for (size_t i = 0; !rc && i < f.points.n; i++)
		if (!c->s->tombstones || !tombstones_hide(c->s, p, series, f.points.v[i].t_ms))
			window_add_float(c->w, &(struct record_float){ series, f.points.v[i].t_ms, f.points.v[i].bits }, 0, 0);
	vec_free(&f.points);
	return rc;
}

static int add_part(struct refill *c, struct part *p, struct err *e)
{
	int rc = read_times(c, p, e);
	if (!rc)
		rc = chain_multiples(c, p, e);
	for (size_t i = 0; i < p->series.n && !rc; i++) {
		if (c->bad.v[i])
			continue;
		if (atomic_load(&c->s->p->db->stopping))
			return err_set(e, ERR_UNAVAILABLE, "the storage is shutting down");
		if (p->series.v[i].is_float && add_floats(c, p, p->series.v[i].series, e))
			rc = leave_out(c, p, i, e);
		else if (!p->series.v[i].is_float && !c->times.v[i].factor)
			rc = add_profiles(c, p, i, e);
	}
	return rc;
}

int compact_refill(const struct pstate *s, struct part *const *from, size_t n, struct window *w, uint64_t *ret_lost, struct err *e)
{
	struct refill c = { .s = s, .w = w, .lost = ret_lost };
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++)
		rc = add_part(&c, from[i], e);
	part_scratch_release(&c.scratch);
	cells_release(&c.cells);
	record_profile_release(&c.out);
	vec_free(&c.first);
	vec_free(&c.next);
	vec_free(&c.order);
	vec_free(&c.times);
	vec_free(&c.multiples);
	vec_free(&c.bad);
	return rc;
}

/* ---- writing ---- */

/* The first of them in the chain of symbols, which need not have the lowest number: it may have been rewritten. */
static const struct part *first_of_chain(const struct compaction *c)
{
	const struct part *first = c->from[0];
	for (size_t i = 1; i < c->n; i++)
		if (c->from[i]->origin < first->origin)
			first = c->from[i];
	return first;
}

void compact_all_symbols(struct partition *p, struct buf *b)
{
	struct dict_marks from;
	dict_marks_start(&from);
	rwlock_read(&p->dict_lock);
	dict_encode(b, p->symbols, &p->index, &from, &p->sealed, &p->dict_lock);
	rwlock_unlock(&p->dict_lock);
}

/* The dictionary's new entries from the first of the parts on. */
static int encode_symbols(struct compaction *c, struct buf *b, struct err *e)
{
	CLEANUP(buf_free) struct buf rows = { 0 };
	struct dict_marks from;
	int rc = part_get_symbols(first_of_chain(c), &rows, e);
	if (rc && damage_is(e)) {
		compact_all_symbols(c->p, b);
		return 0;
	}
	if (rc)
		return rc;
	rwlock_read(&c->p->dict_lock);
	rc = dict_first(buf_view(&rows), c->p->symbols, &c->p->index, &from, e);
	if (!rc)
		dict_encode(b, c->p->symbols, &c->p->index, &from, &c->p->sealed, &c->p->dict_lock);
	rwlock_unlock(&c->p->dict_lock);
	return rc;
}

static void replaces(struct part *to, uint32_t number)
{
	vec_push(&to->sums, number);
}

static struct part *new_part(struct compaction *c)
{
	struct part *to = NEW(struct part);
	atomic_init(&to->refs, 1);
	to->level = LEVEL_HOUR;
	to->window = c->from[0]->window;
	to->origin = first_of_chain(c)->origin;
	to->first_record = UINT64_MAX;
	for (size_t i = 0; i < c->n; i++) {
		const struct part *p = c->from[i];
		to->lost += p->lost; /* what was lost before stays lost */
		to->first_record = MIN(to->first_record, p->first_record);
		to->last_record = MAX(to->last_record, p->last_record);
		replaces(to, p->number);
		if (p->origin != p->number) /* the part it was rewritten from may still be on disk: a query reads it */
			replaces(to, p->origin);
		for (size_t k = 0; k < p->sums.n; k++)
			replaces(to, p->sums.v[k]);
	}
	mutex_lock(&c->db->apply_lock);
	to->number = c->p->next_part++;
	mutex_unlock(&c->db->apply_lock);
	return to;
}

static bool is_replaced(const struct part *to, const struct part *x)
{
	for (size_t i = 0; i < to->sums.n; i++) {
		if (x->level == LEVEL_HOUR && x->number == to->sums.v[i])
			return true;
		for (size_t k = 0; x->level != LEVEL_HOUR && k < x->sums.n; k++)
			if (x->sums.v[k] == to->sums.v[i])
				return true; /* a rollup of parts that go */
	}
	return false;
}

static void publish(struct compaction *c)
{
	mutex_lock(&c->db->apply_lock);
	struct version *v = tsdb_version(c->db, NULL);
	const struct pstate *s = version_find(v, c->p->day);
	struct part **parts = xcalloc(s->n_parts + 1, sizeof(*parts));
	size_t n = 0;
	for (size_t i = 0; i < s->n_parts; i++)
		if (!is_replaced(c->to, s->parts[i]))
			parts[n++] = s->parts[i];
		else
			part_retire(s->parts[i]);
	parts[n++] = c->to;
	struct version *next = version_with(v, c->p, s->windows, s->n_windows, parts, n);
	version_set_tombstones(next, c->p->day, tombstones_with(s->tombstones, NULL, parts, n));
	tsdb_publish(c->db, next, 0);
	tsdb_trim_log(c->db);
	mutex_unlock(&c->db->apply_lock);
	free(parts);
	version_unref(v);
}

static void compaction_release(struct compaction *c)
{
	window_unref(c->w);
	part_unref(c->to);
}

static int compact(struct tsdb *db, const struct pstate *s, struct part *const *from, size_t n, struct err *e)
{
	struct compaction c = { .db = db, .p = s->p, .from = from, .n = n, .w = window_new(from[0]->window) };
	struct buf symbols = { 0 };
	int64_t start = clock_mono_ns();
	c.to = new_part(&c);
	int rc = compact_refill(s, from, n, c.w, NULL, e);
	if (!rc)
		rc = encode_symbols(&c, &symbols, e);
	if (!rc)
		rc = seal_write(c.p, c.w, c.to, &symbols, e);
	buf_free(&symbols);
	metric_inc(&tsdb_metrics[rc ? TM_COMPACTION_FAILURES : TM_COMPACTIONS]);
	if (!rc) {
		publish(&c);
		metric_observe(&tsdb_metrics[TM_COMPACTION_SECONDS], (double)(clock_mono_ns() - start) / 1e9);
		LOG_DEBUG("msg", "made one part of several", "partition", LOG_NUM(s->p->day), "hour", LOG_NUM(c.to->window), "parts",
			  LOG_NUM(n), "bytes", LOG_NUM(c.to->bytes));
	}
	compaction_release(&c);
	return rc;
}

/* ---- what is due ---- */

static bool may_merge(struct tsdb *db, const struct pstate *s, uint32_t hour, bool now)
{
	uint32_t lo = s->hour_first[hour], n = s->hour_first[hour + 1] - lo;
	int64_t end = ((int64_t)s->p->day * 24 + hour + 1) * HOUR_MS;
	uint64_t samples = 0;
	if (n < 2 || tsdb_now_ms(db) < end + 2 * IDLE_MS)
		return false;
	if (!now && n < MANY && clock_mono_ms() - s->p->kept_mono_ms < IDLE_MS)
		return false;
	for (size_t i = 0; i < s->n_windows; i++)
		if (s->windows[i]->hour == (int64_t)s->p->day * 24 + hour)
			return false; /* more is to come */
	for (uint32_t i = lo; i < lo + n; i++) {
		if (s->parts[i]->damaged || tombstones_touch_part(s, s->parts[i]))
			return false; /* it is rewritten first */
		samples += s->parts[i]->samples;
	}
	/* The window they fill, and as much again for the part made of it, beside the head in the head's budget. */
	return 2 * samples * ROW_BYTES + atomic_load(&db->head_bytes) < db->o.head_bytes;
}

/* 1: an hour was merged, 0: there is none. */
static int one_hour(struct tsdb *db, bool now, struct err *e)
{
	struct version *v = tsdb_version(db, NULL);
	int rc = 0;
	for (size_t i = 0; i < v->n && !rc; i++)
		for (uint32_t h = 0; h < 24 && !rc; h++) {
			const struct pstate *s = v->p[i];
			if (!may_merge(db, s, h, now))
				continue;
			uint32_t lo = s->hour_first[h], n = s->hour_first[h + 1] - lo;
			partition_load(s->p);
			rc = compact(db, s, s->parts + lo, n, e);
			if (rc == -ERR_CORRUPT || rc == -ERR_NOT_FOUND || rc == -ERR_EXECUTION) {
				LOG_WARN("msg", "parts of an hour cannot be made one: they stay", "partition", LOG_NUM(s->p->day), "hour",
					 LOG_NUM(h), "err", e->msg);
				s->parts[lo]->damaged = true;
				rc = 0;
			} else if (!rc) {
				rc = 1;
			}
		}
	version_unref(v);
	return rc;
}

int compact_due(struct tsdb *db, bool now, int64_t until_mono_ms, struct err *e)
{
	int rc = 1;
	int64_t start = clock_mono_ms();
	if (!now && start < atomic_load(&db->compact_after_ms))
		return 0;
	do {
		mutex_lock(&db->seal_lock);
		rc = one_hour(db, now, e);
		mutex_unlock(&db->seal_lock);
	} while (now && rc == 1 && !clean_is_over(db, until_mono_ms));
	atomic_store(&db->compact_after_ms, clock_mono_ms() + 4 * (clock_mono_ms() - start));
	return rc;
}
