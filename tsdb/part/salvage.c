/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/part/salvage.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/disk/table.h"
#include "tsdb/part/damage.h"
#include "tsdb/part/part_private.h"

#define TRIES 2

struct entry {
	enum part_kind kind; /* as in keys: streams of detail have kinds of their own */
	uint32_t series;
	uint8_t stream, version;
	struct view payload;
};

struct salvage {
	struct partition_db *d;
	const struct part *bad;
	struct part *to;
	struct arena arena;
	VEC(struct entry) v;
	bool has_header, has_index;
	uint64_t bytes;
};

/* ---- reading ---- */

static int take(void *arg, struct view key, struct view value, struct err *e)
{
	struct salvage *s = arg;
	struct view payload;
	(void)e;
	if (key.len != KEY_LEN || (uint8_t)key.ptr[0] != s->bad->level || part_key_word(key.ptr + 1) != s->bad->window ||
	    part_key_word(key.ptr + 5) != s->bad->number || part_open_value(key.ptr, value.ptr, value.len, &payload, NULL))
		return 0;
	struct entry x = { (uint8_t)key.ptr[9], part_key_word(key.ptr + 10), (uint8_t)key.ptr[14], (uint8_t)value.ptr[0],
			   arena_view(&s->arena, payload) };
	if (x.kind == PART_DETAIL && x.stream) /* of an older part */
		x.kind = x.stream == 1 ? PART_DETAIL_1 : PART_DETAIL_2;
	s->bytes += payload.len;
	vec_push(&s->v, x);
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->series > y->series) - (x->series < y->series);
}

/* A file that is not there, or of which nothing can be read, has nothing. */
static int read_file(struct salvage *s, const char *file, struct err *e)
{
	struct table_loss loss = { 0 };
	int rc = 0;
	for (int tries = 0; tries < TRIES && (!tries || rc || loss.blocks || loss.index); tries++) { /* it may only have been read wrong */
		struct err other = { 0 };
		s->v.n = s->bytes = 0;
		rc = table_each(file, take, s, &loss, &other);
		*e = other;
	}
	if (rc && rocks_of_the_place(e))
		return rc;
	if (s->v.n)
		qsort(s->v.v, s->v.n, sizeof *s->v.v, by_key);
	return 0;
}

static const struct entry *find(const struct salvage *s, enum part_kind kind, uint32_t series)
{
	struct entry key = { .kind = kind, .series = series };
	return s->v.n ? bsearch(&key, s->v.v, s->v.n, sizeof key, by_key) : NULL;
}

/* ---- what the part says of itself ---- */

static void get_head(struct salvage *s)
{
	const struct entry *header = find(s, PART_HEADER, 0), *index = find(s, PART_INDEX, 0);
	struct part *to = s->to;
	to->number = s->bad->number; /* older ones do not say their origin: it is this */
	s->has_header = header && !part_parse_header(to, header->payload, NULL);
	if (!s->has_header) {
		to->sums.n = 0;
		to->first_record = to->last_record = to->samples = 0;
		to->origin = to->number;
	}
	vec_push(&to->sums, s->bad->number);
	if (to->origin != s->bad->number)
		vec_push(&to->sums, to->origin);
	s->has_index = index && !part_parse_index(to, index->payload, index->version, NULL);
	if (!s->has_index)
		to->series.n = to->aggregates.n = 0;
	to->number = s->d->next_number++;
}

static void widen(struct part_series *x, int64_t ms)
{
	x->min_ms = (uint32_t)MIN((int64_t)x->min_ms, ms);
	x->max_ms = (uint32_t)MAX((int64_t)x->max_ms, ms);
}

/* The bounds of a series whose index is lost: those of its stamps, or else the whole hour. */
static struct part_series bounds_of(const struct salvage *s, uint32_t series, bool is_float)
{
	struct part_series x = { .series = series, .min_ms = UINT32_MAX, .is_float = is_float };
	struct sealed_totals t = { 0 };
	struct sealed_floats f = { 0 };
	int64_t start = part_start_ms(s->bad);
	const struct entry *v = find(s, is_float ? PART_FLOATS : PART_TOTALS, series);
	for (int hops = 0; v && !is_float && hops < 2; hops++) {
		if (sealed_get_totals(v->payload, &t, NULL) || !t.times.factor)
			break;
		v = find(s, PART_TOTALS, t.times.series);
		t.rows.n = 0;
	}
	if (v && is_float && sealed_get_floats(v->payload, &f, NULL))
		f.points.n = 0;
	for (size_t i = 0; i < t.rows.n; i++)
		widen(&x, t.rows.v[i].t_ms - start);
	for (size_t i = 0; i < f.points.n; i++)
		widen(&x, f.points.v[i].t_ms - start);
	if (x.min_ms > x.max_ms || x.max_ms > HOUR_MS) {
		x.min_ms = 1;
		x.max_ms = HOUR_MS;
	}
	sealed_totals_release(&t);
	vec_free(&f.points);
	return x;
}

static int by_series(const void *a, const void *b)
{
	const struct part_series *x = a, *y = b;
	return (x->series > y->series) - (x->series < y->series);
}

/* From the keys that there are. */
static void make_index(struct salvage *s)
{
	struct part *to = s->to;
	for (size_t i = 0; i < s->v.n; i++) {
		const struct entry *x = &s->v.v[i];
		if (x->series & PART_AGGREGATE)
			continue;
		if (x->kind == PART_TOTALS || x->kind == PART_FLOATS || (x->kind == PART_ROLLUP && !find(s, PART_TOTALS, x->series)))
			vec_push(&to->series, bounds_of(s, x->series, x->kind == PART_FLOATS));
	}
	if (to->series.n)
		qsort(to->series.v, to->series.n, sizeof *to->series.v, by_series);
	to->lost++; /* the rest is unknown */
}

/* ---- what is missing ---- */

/* For a series' values; for a multiple of another only that reference. */
static uint64_t count_missing(const struct salvage *s, uint32_t series)
{
	struct sealed_rollup r = { 0 };
	const struct entry *rollup = find(s, PART_ROLLUP, series), *places = find(s, PART_DETAIL, series);
	uint64_t missing = !find(s, PART_TOTALS, series) + !rollup;
	if (rollup && !sealed_get_rollup(rollup->payload, &r, NULL) && !r.times.factor)
		missing += !places + !find(s, PART_DETAIL_2, series) +
			   (!find(s, PART_DETAIL_1, series) && (!places || places->version < PLACES_VERSION));
	sealed_rollup_release(&r);
	return missing;
}

/* An incomplete aggregate is ignored. */
static void drop_aggregates(struct salvage *s)
{
	struct part *to = s->to;
	for (uint32_t a = 0; a < to->aggregates.n; a++) {
		if (!to->aggregates.v[a] || !count_missing(s, PART_AGGREGATE | a))
			continue;
		to->aggregates.v[a] = 0;
		for (size_t i = 0; i < to->series.n; i++)
			if (to->series.v[i].aggregate == a + 1)
				to->series.v[i].aggregate = 0;
	}
}

/* Without a header the part's range of log records is unknown. Rows that the log still has are recognised by their stamps, so a series
 * without stamps is dropped. */
static bool is_kept(const struct salvage *s, const struct part_series *x)
{
	return s->has_header || x->is_float || find(s, PART_TOTALS, x->series);
}

static void count_lost(struct salvage *s)
{
	struct part *to = s->to;
	size_t kept = 0;
	for (size_t i = 0; i < to->series.n; i++) {
		const struct part_series *x = &to->series.v[i];
		to->lost += x->is_float ? !find(s, PART_FLOATS, x->series) : count_missing(s, x->series);
		if (is_kept(s, x))
			to->series.v[kept++] = *x;
	}
	to->series.n = kept;
	to->lost += !find(s, PART_SYMBOLS, 0);
	drop_aggregates(s);
}

/* ---- writing ---- */

static bool is_written(const struct salvage *s, const struct entry *x)
{
	if (x->kind <= PART_INDEX || x->kind == PART_NAMES)
		return false;
	if (x->series & PART_AGGREGATE) {
		uint32_t a = x->series & ~PART_AGGREGATE;
		return a < s->to->aggregates.n && s->to->aggregates.v[a];
	}
	return part_find(s->to, x->series);
}

static int put_entry(struct part_writer *w, const struct entry *x, struct err *e)
{
	enum part_kind kind = x->kind == PART_DETAIL_1 || x->kind == PART_DETAIL_2 ? PART_DETAIL : x->kind;
	return part_put_version(w, kind, x->series, x->stream, x->version, x->payload, e);
}

static int put_all(struct salvage *s, struct part_writer *w, struct err *e)
{
	CLEANUP(buf_free) struct buf header = { 0 }, index = { 0 };
	const struct entry *symbols = find(s, PART_SYMBOLS, 0);
	part_put_header(&header, s->to);
	part_put_index(&index, s->to);
	int rc = part_put(w, PART_HEADER, 0, 0, buf_view(&header), e);
	if (!rc && symbols)
		rc = put_entry(w, symbols, e);
	if (!rc)
		rc = part_put(w, PART_INDEX, 0, 0, buf_view(&index), e);
	for (size_t i = 0; i < s->v.n && !rc; i++)
		if (is_written(s, &s->v.v[i]))
			rc = put_entry(w, &s->v.v[i], e);
	return rc;
}

static int write_part(struct salvage *s, struct err *e)
{
	struct part_writer *w;
	int rc = part_writer_new(&w, s->d, s->to->level, s->to->window, s->to->number, s->bytes, s->v.n, e);
	if (rc)
		return rc;
	rc = put_all(s, w, e);
	if (!rc)
		return part_writer_finish(w, s->to, e);
	part_writer_abort(w);
	return rc;
}

int salvage_part(struct partition_db *d, const char *file, const struct part *bad, struct part **ret, struct err *e)
{
	struct salvage s = { .d = d, .bad = bad, .to = NEW(struct part) };
	atomic_init(&s.to->refs, 1);
	arena_init(&s.arena, 0);
	s.to->level = bad->level;
	s.to->window = bad->window;
	int rc = damage_keep_file(d, file, e);
	if (!rc)
		rc = read_file(&s, file, e);
	if (!rc) {
		get_head(&s);
		if (!s.has_index)
			make_index(&s);
		count_lost(&s);
		rc = write_part(&s, e);
	}
	if (rc)
		part_unref(s.to);
	else
		*ret = s.to;
	vec_free(&s.v);
	arena_free(&s.arena);
	return rc;
}

static int identify(void *arg, struct view key, struct view value, struct err *e)
{
	struct part *p = arg;
	struct view payload;
	if (key.len != KEY_LEN || part_open_value(key.ptr, value.ptr, value.len, &payload, NULL))
		return 0;
	p->level = (uint8_t)key.ptr[0];
	p->window = part_key_word(key.ptr + 1);
	p->number = part_key_word(key.ptr + 5);
	return err_set(e, ERR_CANCELED, "that is enough");
}

bool salvage_identify(const char *file, struct part *ret)
{
	struct table_loss loss;
	struct err e;
	return table_each(file, identify, ret, &loss, &e) == -ERR_CANCELED;
}
