/* SPDX-License-Identifier: Apache-2.0 */
/* Rollups: per series the sums of 6 and of 24 hours, so that a merge over a long range reads a few vectors. One is made once its hours
 * are over and sealed. It lists the parts it sums, and is ignored (and rebuilt) when these are no longer exactly the existing ones. A
 * series whose columns hardly repeat from hour to hour, as those of short-lived processes, would only be stored twice: it has none,
 * and queries read its hours. The same holds for aggregates. Runs on the sealer's thread. */
#include "base/alloc.h"
#include "base/log.h"
#include "tsdb/dict/dict_names.h"
#include "tsdb/part/damage.h"
#include "tsdb/part/part_read.h"
#include "tsdb/seal/aggregate.h"
#include "tsdb/upkeep/rollup.h"
#include "tsdb/version/evict.h"
#include "tsdb/version/late_names.h"
#include "tsdb/version/tombstones.h"

#define AFTER_MS (15 * INT64_C(60000)) /* as seal.c waits for late rows: it goes to the bucket together with the last of its hours */
/* Sums have at most one entry for this many that they sum up, or they are left out. */
#define MIN_SAVING 2

/* The sums of one series, before they are written. */
struct rolled {
	struct buf value;
	struct sealed_times times;
	size_t in, out; /* entries summed up, of the sums */
	bool damaged;   /* of some hour: it has none, so that a query reads the hours and reports the damage */
};

struct rollup {
	struct tsdb *db;
	struct partition *p;
	struct part *out;
	struct part *const *parts; /* that it sums */
	size_t n;
	struct part_scratch scratch;
	struct dense dense;
	size_t in; /* entries added to it */
	struct rolled *series;   /* one for each of out->series */
	struct rolled *services; /* one for each of the aggregates */
	VEC(uint32_t) columns;
	VEC(int64_t) sums;
	struct aggregate_member *members; /* one for each of out->series */
	struct aggregates aggregates;
	struct late_names *late; /* of the day; borrowed */
	struct buf names;        /* of the day's stacks (dict_names.h); empty: it gets none */
};

/* Ids and bounds of all series of the parts. */
static void list_series(struct rollup *r)
{
	uint32_t most = 0;
	for (size_t i = 0; i < r->n; i++)
		if (r->parts[i]->series.n)
			most = MAX(most, r->parts[i]->series.v[r->parts[i]->series.n - 1].series + 1);
	struct part_series *all = xcalloc(most + 1, sizeof *all);
	for (size_t i = 0; i < r->n; i++) {
		uint32_t offset = (uint32_t)(part_start_ms(r->parts[i]) - part_start_ms(r->out));
		for (size_t k = 0; k < r->parts[i]->series.n; k++) {
			struct part_series s = r->parts[i]->series.v[k], *x = &all[s.series];
			if (s.is_float)
				continue;
			s.min_ms += offset;
			s.max_ms += offset;
			if (!x->max_ms)
				*x = s;
			x->min_ms = MIN(x->min_ms, s.min_ms);
			x->max_ms = MAX(x->max_ms, s.max_ms);
		}
	}
	for (uint32_t i = 0; i < most; i++)
		if (all[i].max_ms)
			vec_push(&r->out->series, all[i]);
	free(all);
}

static void make_room(struct rollup *r)
{
	rwlock_read(&r->p->dict_lock);
	dense_reserve(&r->dense, symbols_count(r->p->symbols, SYMBOLS_COLUMNS));
	rwlock_unlock(&r->p->dict_lock);
}

/* Whether the series is, in every part, the same multiple of the same other one, and in none without it. */
static int find_times(struct rollup *r, uint32_t series, struct sealed_times *ret, struct part **ret_failed, struct err *e)
{
	*ret = (struct sealed_times){ 0 };
	for (size_t i = 0; i < r->n; i++) {
		if (!part_find(r->parts[i], series))
			continue;
		PART_VALUE v = { 0 };
		int rc = part_get(r->parts[i], PART_ROLLUP, series, 0, &v, e);
		if (!rc)
			rc = sealed_get_rollup(v.payload, &r->scratch.rollup, e);
		*ret_failed = r->parts[i];
		if (rc)
			return rc;
		struct sealed_times t = r->scratch.rollup.times;
		if (!t.factor || (ret->factor && (ret->factor != t.factor || ret->series != t.series))) {
			*ret = (struct sealed_times){ 0 };
			return 0;
		}
		*ret = t;
	}
	for (size_t i = 0; i < r->n && ret->factor; i++)
		if (part_find(r->parts[i], ret->series) && !part_find(r->parts[i], series))
			*ret = (struct sealed_times){ 0 };
	return 0;
}

static int add_part(struct rollup *r, const struct part *p, uint32_t series, struct err *e)
{
	struct part_sums s;
	size_t n;
	uint64_t read = 0;
	int rc = part_sum(p, series, INT64_MIN, INT64_MAX, &r->scratch, &s, &n, &read, e);
	if (rc || !n || !s.n)
		return rc;
	r->in += s.n;
	if (s.columns[s.n - 1] >= r->dense.room)
		return err_set(e, ERR_CORRUPT, "a sealed window names a column that its dictionary lacks");
	return dense_add(&r->dense, s.columns, s.sums, s.n, s.factor) ? 0 :
	       err_set(e, ERR_EXECUTION, "sums of a rollup do not fit in 64 bits");
}

static void take_sums(struct rollup *r, struct rolled *x)
{
	size_t room = dense_count(&r->dense);
	vec_reserve(&r->columns, room + 1);
	vec_reserve(&r->sums, room + 1);
	r->columns.n = r->sums.n = dense_take(&r->dense, r->columns.v, r->sums.v);
	x->in = r->in;
	x->out = r->columns.n;
	r->in = 0;
	sealed_put_rollup(&x->value, r->columns.v, r->sums.v, r->columns.n);
}

static bool is_worth_it(const struct rollup *r, const struct rolled *x)
{
	return r->db->o.keep_aggregates || x->out * MIN_SAVING <= x->in;
}

static int sum_series(struct rollup *r, uint32_t series, struct rolled *x, struct err *e)
{
	struct part *failed = NULL;
	int rc = find_times(r, series, &x->times, &failed, e);
	if (!rc && x->times.factor) {
		sealed_put_times(&x->value, x->times);
	} else if (!rc) {
		for (size_t i = 0; i < r->n && !rc; i++) {
			failed = r->parts[i];
			rc = add_part(r, failed, series, e);
		}
		take_sums(r, x);
	}
	if (!rc || !damage_is(e))
		return rc;
	damage_count(failed, series, e);
	x->damaged = true;
	return 0;
}

/* Whether to keep number i; a multiple goes with what it is a multiple of. */
static bool is_kept(const struct rollup *r, size_t i)
{
	if (r->series[i].damaged)
		return false;
	if (!r->series[i].times.factor)
		return is_worth_it(r, &r->series[i]);
	const struct part_series *base = part_find(r->out, r->series[i].times.series);
	return base && !r->series[base - r->out->series.v].damaged && is_worth_it(r, &r->series[base - r->out->series.v]);
}

/* Those that save too little are dropped. */
static void keep_some(struct rollup *r)
{
	size_t n = r->out->series.n, kept = 0;
	bool *keep = xcalloc(n + 1, sizeof *keep);
	for (size_t i = 0; i < n; i++)
		keep[i] = is_kept(r, i);
	for (size_t i = 0; i < n; i++) {
		if (!keep[i]) {
			buf_free(&r->series[i].value);
			continue;
		}
		r->out->series.v[kept] = r->out->series.v[i];
		r->series[kept++] = r->series[i];
	}
	for (size_t i = kept; i < n; i++)
		r->series[i] = (struct rolled){ .in = 0 };
	r->out->series.n = kept;
	free(keep);
}

static int sum_all(struct rollup *r, struct err *e)
{
	int rc = 0;
	r->series = xcalloc(r->out->series.n + 1, sizeof *r->series);
	for (size_t i = 0; i < r->out->series.n && !rc; i++)
		rc = sum_series(r, r->out->series.v[i].series, &r->series[i], e);
	if (!rc)
		keep_some(r);
	return rc;
}

static void group_series(struct rollup *r)
{
	size_t n = r->out->series.n;
	r->members = xcalloc(n + 1, sizeof *r->members);
	for (size_t i = 0; i < n; i++)
		r->members[i].series = r->out->series.v[i].series;
	aggregates_group(&r->aggregates, r->p, r->members, n);
	for (size_t i = 0; i < n; i++)
		r->out->series.v[i].aggregate = r->members[i].aggregate;
	for (size_t i = 0; i < r->aggregates.v.n; i++)
		vec_push(&r->out->aggregates, (uint32_t)r->aggregates.v.v[i].members.n);
}

/* The part's aggregate that sums up just what it has of these series; 0 = none. */
static uint32_t same_aggregate(const struct rollup *r, const struct part *p, const struct aggregate *a)
{
	uint32_t which = 0, n = 0;
	for (size_t i = 0; i < a->members.n; i++) {
		const struct part_series *s = part_find(p, r->members[a->members.v[i]].series);
		if (!s)
			continue;
		if (!s->aggregate || (which && which != s->aggregate))
			return 0;
		which = s->aggregate;
		n++;
	}
	return which && p->aggregates.v[which - 1] == n ? which : 0;
}

/* How many the sums of number i have, or what they are a multiple of. */
static size_t entries(const struct rollup *r, size_t i)
{
	if (r->series[i].times.factor)
		i = (size_t)(part_find(r->out, r->series[i].times.series) - r->out->series.v);
	return r->series[i].out;
}

static int sum_aggregate(struct rollup *r, uint32_t number, struct err *e)
{
	const struct aggregate *a = &r->aggregates.v.v[number];
	struct rolled *x = &r->services[number];
	size_t in = 0;
	int rc = 0;
	for (size_t i = 0; i < r->n && !rc; i++) {
		uint32_t same = same_aggregate(r, r->parts[i], a);
		if (same)
			rc = add_part(r, r->parts[i], PART_AGGREGATE | (same - 1), e);
		for (size_t k = 0; !same && k < a->members.n && !rc; k++)
			rc = add_part(r, r->parts[i], r->members[a->members.v[k]].series, e);
	}
	take_sums(r, x);
	for (size_t k = 0; k < a->members.n; k++)
		in += entries(r, a->members.v[k]);
	x->in = in; /* it is read instead of their sums, not of their hours */
	x->damaged = rc && damage_is(e); /* an aggregate of an hour is: its series answer */
	return x->damaged ? 0 : rc;
}

/* The sums of services; those that save too little have no members. */
static int sum_aggregates(struct rollup *r, struct err *e)
{
	int rc = 0;
	r->services = xcalloc(r->aggregates.v.n + 1, sizeof *r->services);
	for (uint32_t i = 0; i < r->aggregates.v.n && !rc; i++) {
		rc = sum_aggregate(r, i, e);
		if (rc || (!r->services[i].damaged && is_worth_it(r, &r->services[i])))
			continue;
		buf_free(&r->services[i].value);
		r->out->aggregates.v[i] = 0;
		for (size_t k = 0; k < r->aggregates.v.v[i].members.n; k++)
			r->out->series.v[r->aggregates.v.v[i].members.v[k]].aggregate = 0;
	}
	return rc;
}

static int put_rolled(struct part_writer *w, uint32_t series, const struct rolled *x, struct err *e)
{
	if (x->value.overflow)
		return err_set(e, ERR_LIMIT, "a value of a rollup is over %zu bytes", BUF_DEFAULT_MAX);
	return part_put(w, PART_ROLLUP, series, 0, buf_view(&x->value), e);
}

static int put_all(struct rollup *r, struct part_writer *w, struct err *e)
{
	CLEANUP(buf_free) struct buf header = { 0 }, index = { 0 };
	part_put_header(&header, r->out);
	int rc = part_put(w, PART_HEADER, 0, 0, buf_view(&header), e);
	part_put_index(&index, r->out);
	if (!rc)
		rc = part_put(w, PART_INDEX, 0, 0, buf_view(&index), e);
	for (size_t i = 0; i < r->out->series.n && !rc; i++)
		rc = put_rolled(w, r->out->series.v[i].series, &r->series[i], e);
	for (uint32_t i = 0; i < r->aggregates.v.n && !rc; i++)
		if (r->out->aggregates.v[i])
			rc = put_rolled(w, PART_AGGREGATE | i, &r->services[i], e);
	if (!rc && r->names.len)
		rc = part_put(w, PART_NAMES, 0, 0, buf_view(&r->names), e);
	return rc;
}

/* Names of the day's stacks. They are left out if the day's dictionary is larger than half the budget of dictionaries, as two or three times
 * its size is needed here for a moment, or if some of it is lost. */
static void rollup_put_names(struct rollup *r, struct buf *out)
{
	if (r->out->level != LEVEL_DAY || r->p->lost || evict_bytes(r->p) > r->db->o.dictionary_bytes / 2)
		return;
	struct symbols *names = symbols_new();
	uint32_t *place;
	rwlock_read(&r->p->dict_lock);
	struct symbols_map *map = symbols_map_new(r->p->symbols, names, SYMBOLS_NAMES);
	late_names_map(r->late, map);
	for (uint32_t i = 0, n = symbols_count(r->p->symbols, SYMBOLS_COLUMNS); i < n; i++)
		symbols_map_column(map, i);
	uint32_t n = symbols_map_columns(map, &place);
	rwlock_unlock(&r->p->dict_lock);
	symbols_map_free(map);
	dict_names_put(out, names, place, n, late_names_number(r->late));
	if (out->overflow)
		buf_free(out);
	free(place);
	symbols_unref(names);
}

static int write_rollup(struct rollup *r, struct err *e)
{
	struct part_writer *w;
	uint64_t bytes = 0;
	int rc = sum_all(r, e);
	if (rc)
		return rc;
	group_series(r);
	rc = sum_aggregates(r, e);
	for (size_t i = 0; i < r->out->series.n; i++)
		bytes += r->series[i].value.len;
	if (!rc)
		rollup_put_names(r, &r->names);
	if (!rc)
		rc = part_writer_new(&w, r->p->db_parts, r->out->level, r->out->window, r->out->number, bytes, r->out->series.n, e);
	if (rc)
		return rc;
	rc = put_all(r, w, e);
	if (!rc)
		return part_writer_finish(w, r->out, e);
	part_writer_abort(w);
	return rc;
}

static void release(struct rollup *r, size_t n_series)
{
	for (size_t i = 0; r->series && i < n_series; i++)
		buf_free(&r->series[i].value);
	for (size_t i = 0; r->services && i < r->aggregates.v.n; i++)
		buf_free(&r->services[i].value);
	free(r->series);
	free(r->services);
	part_scratch_release(&r->scratch);
	aggregates_release(&r->aggregates);
	free(r->members);
	dense_release(&r->dense);
	vec_free(&r->columns);
	buf_free(&r->names);
	vec_free(&r->sums);
	part_unref(r->out);
	partition_unref(r->p);
}

static void publish(struct rollup *r)
{
	mutex_lock(&r->db->apply_lock);
	struct version *v = tsdb_version(r->db, NULL);
	const struct pstate *ps = version_find(v, r->p->day);
	struct part **parts = xcalloc(ps->n_parts + 1, sizeof(*parts));
	size_t n = 0;
	for (size_t i = 0; i < ps->n_parts; i++) {
		if (ps->parts[i]->level == r->out->level && ps->parts[i]->window == r->out->window)
			part_retire(ps->parts[i]); /* it no longer sums what there is */
		else
			parts[n++] = ps->parts[i];
	}
	parts[n++] = r->out;
	tsdb_publish(r->db, version_with(v, r->p, ps->windows, ps->n_windows, parts, n), 0);
	free(parts);
	version_unref(v);
	mutex_unlock(&r->db->apply_lock);
}

static int make_rollup(struct tsdb *db, const struct pstate *ps, enum part_level level, uint32_t window, uint32_t first,
		       uint32_t hours, struct err *e)
{
	struct rollup r = { .db = db, .p = partition_ref(ps->p), .late = ps->names };
	partition_load(r.p);
	r.parts = ps->parts + ps->hour_first[first];
	r.n = ps->hour_first[first + hours] - ps->hour_first[first];
	r.out = NEW(struct part);
	atomic_init(&r.out->refs, 1);
	r.out->level = level;
	r.out->window = window;
	mutex_lock(&db->apply_lock);
	r.out->number = r.p->next_part++;
	mutex_unlock(&db->apply_lock);
	for (size_t i = 0; i < r.n; i++)
		vec_push(&r.out->sums, r.parts[i]->number);
	list_series(&r);
	make_room(&r);
	size_t n_series = r.out->series.n; /* before some are left out */
	int rc = write_rollup(&r, e);
	if (!rc)
		publish(&r);
	release(&r, n_series);
	return rc;
}

/* Hours that still have deleted rows: they are rewritten first. */
static bool has_masks(const struct pstate *ps, uint32_t first, uint32_t hours)
{
	for (uint32_t i = ps->hour_first[first]; ps->tombstones && i < ps->hour_first[first + hours]; i++)
		if (tombstones_touch_part(ps, ps->parts[i]))
			return true;
	return false;
}

/* Hours that retention by selector is passing: it would be stale an hour later. */
static bool is_cut(const struct pstate *ps, uint32_t first, uint32_t hours)
{
	return ps->p->rules_cut >> (hours == 24 ? 4 : first / 6) & 1;
}

/* Hours that still have rows in memory would make it stale at once. */
static bool has_windows(const struct pstate *ps, uint32_t first, uint32_t hours)
{
	for (size_t i = 0; i < ps->n_windows; i++) {
		int64_t h = ps->windows[i]->hour - (int64_t)ps->p->day * 24;
		if (h >= first && h < first + hours)
			return true;
	}
	return false;
}

static bool wanted(struct tsdb *db, const struct pstate *ps, uint32_t first, uint32_t hours)
{
	int64_t end = ((int64_t)ps->p->day * 24 + first + hours) * HOUR_MS;
	return tsdb_now_ms(db) >= end + AFTER_MS && !has_windows(ps, first, hours) && !has_masks(ps, first, hours) && !is_cut(ps, first, hours) &&
	       ps->hour_first[first + hours] - ps->hour_first[first] > 1;
}

static bool is_missing(const struct part *rollup)
{
	return !rollup || atomic_load(&rollup->no_sums);
}

static int rollup_partition(struct tsdb *db, const struct pstate *ps, struct err *e)
{
	int rc = 0;
	for (uint32_t i = 0; i < 4 && !rc; i++)
		if (is_missing(ps->six[i]) && wanted(db, ps, i * 6, 6))
			rc = make_rollup(db, ps, LEVEL_6H, ps->p->day * 4 + i, i * 6, 6, e);
	if (!rc && is_missing(ps->all_day) && wanted(db, ps, 0, 24))
		rc = make_rollup(db, ps, LEVEL_DAY, ps->p->day, 0, 24, e);
	return rc;
}

int rollup_due(struct tsdb *db, struct err *e)
{
	int rc = 0;
	mutex_lock(&db->seal_lock);
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n && !rc && !atomic_load(&db->stopping); i++)
		rc = rollup_partition(db, v->p[i], e);
	version_unref(v);
	mutex_unlock(&db->seal_lock);
	if (rc == -ERR_EXECUTION) {
		LOG_WARN("msg", "a rollup is left out", "err", e->msg);
		rc = 0;
	}
	return rc;
}
