/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tsdb/part/part_read.h"
#include "tsdb/version/tombstones.h"

/* ---- parts ---- */

static struct tsdb_part_info info_of(const struct pstate *s, const struct part *p)
{
	return (struct tsdb_part_info){ .partition = s->p->day, .number = p->number, .hours = (int)level_hours(p->level),
					.start_ms = part_start_ms(p), .end_ms = part_end_ms(p), .bytes = p->bytes,
					.samples = p->level == LEVEL_HOUR ? p->samples : 0, .series = p->series.n,
					.aggregates = p->aggregates.n };
}

void tsdb_each_part(struct tsdb *db, void (*fn)(void *arg, const struct tsdb_part_info *p), void *arg)
{
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->p[i]->n_parts; k++) {
			struct tsdb_part_info info = info_of(v->p[i], v->p[i]->parts[k]);
			fn(arg, &info);
		}
	version_unref(v);
}

void tsdb_each_dictionary(struct tsdb *db, void (*fn)(void *arg, const struct tsdb_dictionary_info *d), void *arg)
{
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n; i++) {
		struct partition *p = v->p[i]->p;
		partition_load(p);
		rwlock_read(&p->dict_lock);
		const struct symbols *s = p->symbols;
		struct tsdb_dictionary_info d = {
			.partition = p->day, .strings = symbols_count(s, SYMBOLS_STRINGS), .mappings = symbols_count(s, SYMBOLS_MAPPINGS),
			.functions = symbols_count(s, SYMBOLS_FUNCTIONS), .locations = symbols_count(s, SYMBOLS_LOCATIONS),
			.nodes = symbols_count(s, SYMBOLS_NODES), .stacks = symbols_count(s, SYMBOLS_STACKS),
			.label_sets = symbols_count(s, SYMBOLS_LABEL_SETS), .columns = symbols_count(s, SYMBOLS_COLUMNS),
			.series = p->index.series.n, .memory_bytes = symbols_bytes(s) + index_bytes(&p->index), .lost = p->lost,
		};
		for (uint32_t l = 0; l < d.locations; l++)
			d.nameless += !symbols_get_location(s, l)->n_lines;
		rwlock_unlock(&p->dict_lock);
		fn(arg, &d);
	}
	version_unref(v);
}

void tsdb_each_hole(struct tsdb *db, void (*fn)(void *arg, const struct tsdb_hole *x), void *arg)
{
	size_t n;
	AUTOFREE struct hole *all = holes_list(&db->holes, &n);
	for (size_t i = 0; i < n; i++)
		fn(arg, &(struct tsdb_hole){ all[i].first, all[i].last, all[i].after_ms, all[i].until_ms, all[i].found_ms });
}

/* ---- payloads ---- */

static const struct { enum part_kind kind; const char *name; uint8_t streams; } kinds[] = {
	{ PART_TOTALS, "totals", 1 }, { PART_ROLLUP, "rollup", 1 }, { PART_DETAIL, "detail", 3 }, { PART_FLOATS, "floats", 1 },
};

struct payloads {
	void (*fn)(void *arg, const struct tsdb_payload *p);
	void *arg;
	const struct tsdb_part_info *info;
	const struct part *part;
};

static void one_payload(const struct payloads *x, const char *name, enum part_kind kind, uint32_t series, uint8_t streams,
			const struct labels *l)
{
	struct tsdb_payload p = { .part = x->info, .kind = name, .labels = l };
	for (uint8_t i = 0; i < streams; i++) {
		PART_VALUE v = { 0 };
		if (part_get(x->part, kind, series, i, &v, NULL) == 0)
			p.bytes += v.payload.len;
	}
	if (p.bytes)
		x->fn(x->arg, &p);
}

static void part_payloads(const struct payloads *x, const struct index *index)
{
	one_payload(x, "header", PART_HEADER, 0, 1, NULL);
	one_payload(x, "symbols", PART_SYMBOLS, 0, 1, NULL);
	one_payload(x, "index", PART_INDEX, 0, 1, NULL);
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		for (size_t i = 0; i < x->part->series.n; i++) {
			uint32_t id = x->part->series.v[i].series;
			if (id < index->series.n)
				one_payload(x, kinds[k].name, kinds[k].kind, id, kinds[k].streams, &index->series.v[id]->labels);
		}
		for (size_t i = 0; i < x->part->aggregates.n; i++)
			one_payload(x, kinds[k].name, kinds[k].kind, PART_AGGREGATE | (uint32_t)i, kinds[k].streams, NULL);
	}
	one_payload(x, "names", PART_NAMES, 0, 1, NULL);
}

void tsdb_each_payload(struct tsdb *db, void (*fn)(void *arg, const struct tsdb_payload *p), void *arg)
{
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n; i++) {
		struct partition *p = v->p[i]->p;
		partition_load(p);
		rwlock_read(&p->dict_lock);
		for (size_t k = 0; k < v->p[i]->n_parts; k++) {
			struct tsdb_part_info info = info_of(v->p[i], v->p[i]->parts[k]);
			struct payloads x = { fn, arg, &info, v->p[i]->parts[k] };
			part_payloads(&x, &p->index);
		}
		rwlock_unlock(&p->dict_lock);
	}
	version_unref(v);
}

/* ---- verifying ---- */

struct check {
	void (*fn)(void *arg, const char *where, const char *what, const char *todo);
	void *arg;
	struct tsdb_verified *ret;
	const struct pstate *s;
	const struct part *part;
	uint32_t n_series, n_columns;
	struct part_scratch a, b;
	VEC(int64_t) sums;
};

static const char *const lost_hour = "the other hours are not affected: delete the rest of it with /api/v1/admin/tsdb/delete_series, or put a snapshot's partition in its place";

static void when(char *ret, size_t len, int64_t t_ms)
{
	time_t t = (time_t)(t_ms / 1000);
	struct tm tm;
	if (!gmtime_r(&t, &tm) || !strftime(ret, len, "%Y-%m-%dT%H:%MZ", &tm))
		snprintf(ret, len, "%" PRId64, t_ms);
}

static void wrong(struct check *c, int64_t series, const char *what, const char *todo)
{
	char where[160], at[32], of[32] = "";
	c->ret->problems++;
	when(at, sizeof at, part_start_ms(c->part));
	if (series >= 0)
		snprintf(of, sizeof of, series & PART_AGGREGATE ? ", aggregate %u" : ", series %u", (uint32_t)series & ~PART_AGGREGATE);
	snprintf(where, sizeof where, "partitions/%u, part %u (%s, %d h)%s", c->s->p->day, c->part->number, at,
		 (int)level_hours(c->part->level), of);
	c->fn(c->arg, where, what, todo);
}

/* The rollup; *ret_total what it adds up to, times the factor. */
static bool check_rollup(struct check *c, uint32_t series, int64_t *ret_total)
{
	struct err e;
	PART_VALUE v = { 0 };
	int rc = part_get(c->part, PART_ROLLUP, series, 0, &v, &e);
	if (!rc)
		rc = sealed_get_rollup(v.payload, &c->a.rollup, &e);
	if (rc) {
		wrong(c, series, e.msg, lost_hour);
		return false;
	}
	struct sealed_times t = c->a.rollup.times;
	if (t.factor && (!part_find(c->part, t.series) || t.series == series)) {
		wrong(c, series, "it is a multiple of a series that the part does not have", lost_hour);
		return false;
	}
	*ret_total = 0;
	for (size_t i = 0; i < c->a.rollup.columns.n; i++) {
		*ret_total = (int64_t)((uint64_t)*ret_total + (uint64_t)c->a.rollup.sums.v[i]);
		if (c->a.rollup.columns.v[i] >= c->n_columns) {
			wrong(c, series, "it names a column that the partition's dictionary lacks", lost_hour);
			return false;
		}
	}
	return true;
}

static void check_rows(struct check *c, uint32_t series, int64_t total)
{
	struct err e;
	int rc = part_totals(c->part, series, &c->b, &e);
	int64_t sum = 0;
	for (size_t i = 0; !rc && i < c->b.totals.rows.n; i++) {
		const struct sealed_row *r = &c->b.totals.rows.v[i];
		sum = (int64_t)((uint64_t)sum + (uint64_t)(r->stale ? 0 : r->total));
		if (r->t_ms <= part_start_ms(c->part) || r->t_ms > part_end_ms(c->part))
			wrong(c, series, "a profile's stamp is not within the part's hour", lost_hour);
	}
	if (rc)
		wrong(c, series, e.msg, lost_hour);
	else if (sum != total)
		wrong(c, series, "the totals of its profiles are not what its stacks add up to", lost_hour);
}

/* All of the detail has to add up to the rollup. */
static void check_detail(struct check *c, uint32_t series)
{
	struct err e;
	struct sealed_detail d;
	uint64_t read = 0;
	size_t n = c->a.rollup.columns.n;
	int rc = part_detail(c->part, series, &c->a, &d, &e);
	vec_reserve(&c->sums, n + 1);
	if (n)
		memset(c->sums.v, 0, n * sizeof *c->sums.v);
	if (!rc && n)
		rc = sealed_sum_rows(&d, 0, (uint32_t)c->b.totals.rows.n, c->sums.v, &read, &e);
	if (rc)
		wrong(c, series, e.msg, lost_hour);
	else if (n && memcmp(c->sums.v, c->a.rollup.sums.v, n * sizeof *c->sums.v) != 0)
		wrong(c, series, "the values of its profiles are not what its sums say", lost_hour);
}

static void check_profiles(struct check *c, uint32_t series)
{
	int64_t total, base;
	if (!check_rollup(c, series, &total) || c->part->level != LEVEL_HOUR)
		return;
	struct sealed_times t = c->a.rollup.times;
	if (t.factor && check_rollup(c, t.series, &base)) {
		total = (int64_t)((uint64_t)base * (uint64_t)t.factor);
		check_rows(c, series, total);
	} else if (!t.factor) {
		check_rows(c, series, total);
		check_detail(c, series);
	}
}

static void check_floats(struct check *c, uint32_t series)
{
	struct err e;
	PART_VALUE v = { 0 };
	struct sealed_floats f = { 0 };
	int rc = part_get(c->part, PART_FLOATS, series, 0, &v, &e);
	if (!rc)
		rc = sealed_get_floats(v.payload, &f, &e);
	if (rc)
		wrong(c, series, e.msg, lost_hour);
	vec_free(&f.points);
}

static void check_part(struct check *c)
{
	struct err e;
	CLEANUP(buf_free) struct buf symbols = { 0 };
	if (c->part->level == LEVEL_HOUR && part_get_symbols(c->part, &symbols, &e))
		wrong(c, -1, e.msg, "its symbols are repeated in the next part of the partition; if that is intact too nothing is lost");
	if (c->part->lost) {
		char what[96];
		snprintf(what, sizeof what, "%" PRIu64 " values were lost when it was made of a damaged one", c->part->lost);
		wrong(c, -1, what, "the damaged file is kept beside the partition, in DAY.bad-STAMP; answers about the hour carry a warning; a snapshot has its values");
	}
	for (size_t i = 0; i < c->part->series.n; i++) {
		const struct part_series *x = &c->part->series.v[i];
		c->ret->series++;
		if (x->series >= c->n_series)
			wrong(c, x->series, "the partition's dictionary lacks it", lost_hour);
		else if (x->is_float)
			check_floats(c, x->series);
		else
			check_profiles(c, x->series);
	}
	for (uint32_t i = 0; i < c->part->aggregates.n; i++)
		if (c->part->aggregates.v[i])
			check_profiles(c, PART_AGGREGATE | i);
}

static void check_partition(struct check *c)
{
	struct partition *p = c->s->p;
	partition_load(p);
	rwlock_read(&p->dict_lock);
	c->n_series = (uint32_t)p->index.series.n;
	c->n_columns = symbols_count(p->symbols, SYMBOLS_COLUMNS);
	uint64_t lost = p->lost;
	rwlock_unlock(&p->dict_lock);
	if (lost) {
		char where[48], what[96];
		snprintf(where, sizeof where, "partitions/%u", p->day);
		snprintf(what, sizeof what, "%" PRIu64 " entries of its dictionary are lost and stand as \"(lost)\"", lost);
		c->ret->problems++;
		c->fn(c->arg, where, what, "values still add up; a snapshot's partition in its place brings the names back");
	}
	for (size_t i = 0; i < c->s->n_parts; i++) {
		c->part = c->s->parts[i];
		c->ret->parts++;
		c->ret->bytes += c->part->bytes;
		c->ret->samples += c->part->level == LEVEL_HOUR ? c->part->samples : 0;
		check_part(c);
	}
}

static void report_hole(void *arg, const struct tsdb_hole *x)
{
	struct check *c = arg;
	char where[80], what[160], from[RFC3339_LEN], until[RFC3339_LEN];
	snprintf(where, sizeof where, x->first ? "head, records %" PRIu64 " to %" PRIu64 : "head, a day", x->first, x->last);
	snprintf(what, sizeof what, "data between %s and %s is lost", clock_rfc3339_ms(x->after_ms, from), clock_rfc3339_ms(x->until_ms, until));
	c->ret->problems++;
	c->fn(c->arg, where, what, "answers about that time carry a warning until retention has passed it; a snapshot may have the data");
}

void tsdb_verify(struct tsdb *db, void (*fn)(void *, const char *, const char *, const char *), void *arg,
		 struct tsdb_verified *ret)
{
	struct check c = { .fn = fn, .arg = arg, .ret = ret };
	struct version *v = tsdb_version(db, NULL);
	*ret = (struct tsdb_verified){ .partitions = v->n, .log_records = hlog_last(db->log) - hlog_first(db->log) + 1 };
	uint64_t lost = atomic_load(&db->lost_records);
	if (lost) {
		char what[96];
		snprintf(what, sizeof what, "%" PRIu64 " parts or log records are missing or cannot be read", lost);
		ret->problems++;
		fn(arg, db->path, what, "the messages before this one name each; the server starts without them, and a snapshot has them");
	}
	tsdb_each_hole(db, report_hole, &c);
	for (size_t i = 0; i < v->n; i++) {
		c.s = v->p[i];
		check_partition(&c);
	}
	version_unref(v);
	part_scratch_release(&c.a);
	part_scratch_release(&c.b);
	vec_free(&c.sums);
}
