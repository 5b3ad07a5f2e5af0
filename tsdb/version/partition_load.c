/* SPDX-License-Identifier: Apache-2.0 */
/* Loads dictionaries and series indexes from the parts of a day: completely for all users (partition_load), or for one query
 * (query_dict.h). */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/part/damage.h"
#include "tsdb/part/part.h"
#include "tsdb/part/part_read.h"
#include "tsdb/version/bounds.h"
#include "tsdb/version/db.h"
#include "tsdb/version/tombstones.h"

/* Values whose symbols are lost are kept: their columns get substitutes. */
static void make_up_columns(struct partition *p, struct part *part)
{
	struct part_reader r = { 0 };
	struct sealed_rollup rollup = { 0 };
	struct dict_marks to = { .series = 0 };
	uint32_t *columns = &to.symbols.next[ROWS_COLUMNS];
	struct view v;
	struct err e;
	for (size_t i = 0; i < part->series.n; i++)
		if (!part->series.v[i].is_float && !part_reader_get(&r, part, PART_ROLLUP, part->series.v[i].series, 0, &v, &e) &&
		    !sealed_get_rollup(v, &rollup, &e) && rollup.columns.n && rollup.columns.v[rollup.columns.n - 1] < UINT32_MAX)
			*columns = MAX(*columns, rollup.columns.v[rollup.columns.n - 1] + 1);
	part_reader_release(&r);
	sealed_rollup_release(&rollup);
	dict_fill_up(&to, p->symbols, &p->index, false, &p->lost);
}

/* The symbols of a part on their way into the dictionary. */
struct load_part {
	struct part *part;
	struct part_value value;
	bool packed, bad;
	struct err err;
	int rc;
};

static int by_origin(const void *a, const void *b)
{
	const struct part *x = ((const struct load_part *)a)->part, *y = ((const struct load_part *)b)->part;
	return (x->origin > y->origin) - (x->origin < y->origin);
}

static void fetch(struct load_part *x)
{
	x->rc = part_open_symbols(x->part, &x->value, &x->packed, &x->err);
	for (int tries = 0; x->rc == -ERR_IO && tries < 3; tries++) {
		part_value_release(&x->value);
		x->rc = part_open_symbols(x->part, &x->value, &x->packed, &x->err);
	}
}

static int apply(struct partition *p, struct load_part *x, enum dict_how how)
{
	struct view v = x->value.payload;
	if (x->rc)
		return x->rc;
	if (x->packed)
		return dict_apply_packed(v, how, p->symbols, &p->index, &p->lost, &x->err);
	return how == DICT_LOSSY ? dict_apply_lossy(v, p->symbols, &p->index, &p->lost, &x->err) :
	       how == DICT_SERIES_ONLY ? dict_apply_series(v, p->symbols, &p->index, &p->lost, &x->err) :
	       dict_apply(v, p->symbols, &p->index, &p->lost, &x->err);
}

static void apply_part(struct partition *p, struct load_part *x, enum dict_how how)
{
	x->rc = apply(p, x, how);
	x->bad = x->rc != 0;
	p->unread |= x->rc && damage_is_lack(x->part, &x->err);
	if (x->rc && !p->unread && (x->rc != -ERR_NOT_FOUND || !x->part->lost))
		LOG_WARN("msg", "symbols of a partition are damaged", "partition", LOG_NUM(p->day), "part", LOG_NUM(x->part->number), "err",
			 x->err.msg);
}

/* Whether the next part repeats all that this one brings: as a rule it does, and then every second part is enough. */
static bool is_repeated(struct partition *p, const struct load_part *x, const struct load_part *next)
{
	struct dict_marks have;
	if (x->rc || next->rc || !x->packed || !next->packed)
		return false;
	dict_marks_now(&have, p->symbols, &p->index);
	return dict_is_repeated(x->value.payload, next->value.payload, &have);
}

static void apply_all(struct partition *p, struct load_part *v, size_t n, bool series_only, bool damaged)
{
	bool skipped = false; /* the part before */
	for (size_t i = 0; i < n; i++) {
		if (!i)
			fetch(&v[i]);
		if (i + 1 < n)
			fetch(&v[i + 1]);
		if (i + 1 == n) /* the last part's own symbols must be distinguishable from those before: both are needed */
			dict_marks_now(&p->sealed_before, p->symbols, &p->index);
		if (!skipped && !damaged && i + 2 < n && is_repeated(p, &v[i], &v[i + 1])) {
			skipped = true;
			continue;
		}
		apply_part(p, &v[i], series_only ? DICT_SERIES_ONLY : damaged ? DICT_LOSSY : DICT_WHOLE);
		if (v[i].bad && skipped)
			apply_part(p, &v[i - 1], series_only ? DICT_SERIES_ONLY : DICT_LOSSY);
		damaged |= v[i].bad;
		part_value_release(&v[i].value);
		if (skipped)
			part_value_release(&v[i - 1].value);
		skipped = false;
	}
}

/* All of the dictionary, from one value that the bucket has of the day. False: it has none. */
static bool load_packed(struct partition *p, bool series_only)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct err e;
	int rc = p->origin->symbols(p->origin, &b, &e);
	if (!rc)
		rc = dict_apply_packed(buf_view(&b), series_only ? DICT_SERIES_ONLY : DICT_WHOLE, p->symbols, &p->index, &p->lost, &e);
	p->unread = rc == -ERR_UNAVAILABLE;
	if (rc && rc != -ERR_NOT_FOUND && !p->unread)
		LOG_WARN("msg", "symbols of a day of the bucket are damaged", "partition", LOG_NUM(p->day), "err", e.msg);
	return rc != -ERR_NOT_FOUND;
}

/* Forgets what was loaded, as not all could be read; no thread uses it yet. */
static void load_nothing(struct partition *p) REQUIRES(p->dict_lock)
{
	index_release(&p->index);
	symbols_unref(p->symbols);
	p->symbols = symbols_new();
	index_init(&p->index, p->symbols);
	p->lost = 0;
}

/* Symbols in the order of writing: each part has its new ones, and those of the previous part. */
static void load_symbols(struct partition *p, const struct pstate *s, bool series_only)
{
	struct load_part *v = xcalloc(s->n_parts + 1, sizeof *v);
	size_t n = 0;
	bool damaged = false;
	for (size_t i = 0; i < s->n_parts; i++)
		if (s->parts[i]->level == LEVEL_HOUR) {
			damaged |= s->parts[i]->lost > 0;
			v[n++].part = s->parts[i];
		}
	qsort(v, n, sizeof *v, by_origin);
	apply_all(p, v, n, series_only, damaged);
	for (size_t i = 0; i < n && !series_only && !p->unread; i++) /* now that no other part has them */
		if (v[i].bad)
			make_up_columns(p, v[i].part);
	free(v);
	if (p->lost)
		LOG_WARN("msg", "entries of a partition's dictionary are lost and stand as \"(lost)\"", "partition",
			 LOG_NUM(p->day), "entries", LOG_NUM(p->lost));
}

static void widen(struct partition *p, const struct part *part)
{
	for (size_t i = 0; i < part->series.n; i++) {
		const struct part_series *s = &part->series.v[i];
		if (s->series >= p->index.series.n)
			continue;
		struct series *x = p->index.series.v[s->series];
		series_saw(x, part_start_ms(part) + s->min_ms);
		series_saw(x, part_start_ms(part) + s->max_ms);
		if (atomic_load(&x->max_t) > atomic_load(&x->last_t))
			atomic_store(&x->last_t, atomic_load(&x->max_t));
	}
}

/* Series of parts whose names are lost keep their ids: a new series with such an id would be shown with their data. */
static void keep_ids(struct partition *p, const struct pstate *s, bool series_only)
{
	struct dict_marks to = { .series = 0 };
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct part *x = s->parts[i];
		if (x->series.n)
			to.series = MAX(to.series, x->series.v[x->series.n - 1].series + 1);
	}
	dict_fill_up(&to, p->symbols, &p->index, series_only, &p->lost);
}

void partition_widen(struct partition *p, const struct pstate *s)
{
	for (size_t i = 0; i < s->n_parts; i++)
		widen(p, s->parts[i]);
	for (size_t i = 0; s->tombstones && i < s->tombstones->facts.n; i++)
		bounds_renew(p, s, s->tombstones->facts.v[i]);
}

/* Metadata of the parts of s (NULL: there are none). */
static void load(struct partition *p, const struct pstate *s, bool series_only) REQUIRES(p->dict_lock)
{
	p->unread = false;
	if (s) {
		if (!p->origin || !load_packed(p, series_only))
			load_symbols(p, s, series_only);
		if (p->unread) {
			load_nothing(p);
			return;
		}
		keep_ids(p, s, series_only);
		partition_widen(p, s);
	}
	/* Columns of an evicted dictionary that cannot be read again stay taken: a new one must not get their id. */
	dict_fill_up(&p->sealed, p->symbols, &p->index, series_only, &p->lost);
}

/* Those of a dictionary that is read again count once. */
void tsdb_count_lost_symbols(struct partition *p)
{
	rwlock_assert_writing(&p->dict_lock);
	if (p->lost <= p->lost_counted)
		return;
	atomic_fetch_add(&p->db->lost_symbols, p->lost - p->lost_counted);
	p->lost_counted = p->lost;
}

void partition_load(struct partition *p)
{
	atomic_store_explicit(&p->used_mono_ms, clock_mono_ms(), memory_order_relaxed);
	if (atomic_load(&p->loaded))
		return;
	struct version *v = tsdb_version(p->db, NULL);
	rwlock_write(&p->dict_lock);
	if (!atomic_load(&p->loaded)) {
		load(p, p->origin ? p->origin->s : version_find(v, p->day), false);
		dict_marks_now(&p->sealed, p->symbols, &p->index);
		p->logged = p->sealed;
		tsdb_count_lost_symbols(p);
		atomic_store(&p->loaded, !p->unread);
	}
	rwlock_unlock(&p->dict_lock);
	version_unref(v);
}

/* A new partition with the parts of p, whose dictionary is read into it. Fields of p that belong to the sealer are not copied, as the sealer may be writing them. */
static struct partition *partition_of_same_parts(struct partition *p)
{
	struct partition *n = partition_new(p->db, p->day);
	n->db_parts = partition_db_ref(p->db_parts);
	n->origin = p->origin;
	n->dictionary = p->dictionary;
	rwlock_read(&p->dict_lock); /* another thread may load it */
	n->sealed = p->sealed; /* so many entries the dictionary must have when it is loaded */
	n->lost_counted = p->lost_counted;
	rwlock_unlock(&p->dict_lock);
	atomic_store(&n->loaded, false);
	return n;
}

struct partition *partition_empty_copy(struct partition *p)
{
	struct partition *n = partition_of_same_parts(p);
	n->next_part = p->next_part;
	n->kept_symbols = p->kept_symbols;
	n->kept_mono_ms = p->kept_mono_ms;
	n->rules_done = p->rules_done;
	atomic_init(&n->live_t_ms, atomic_load(&p->live_t_ms));
	atomic_init(&n->live_boot_ms, atomic_load(&p->live_boot_ms));
	n->rules_next_part = p->rules_next_part;
	return n;
}

/* Puts symbols in the place of p's that have no strings but those of its series. */
static void keep_series(struct partition *p)
{
	struct symbols *s = symbols_new();
	struct index x;
	index_init(&x, s);
	for (size_t i = 0; i < p->index.series.n; i++) {
		const struct series *from = p->index.series.v[i];
		uint32_t id = index_add(&x, from->labels, from->hash, from->is_float ? NULL : &from->type);
		struct series *to = x.series.v[id];
		atomic_store(&to->min_t, atomic_load(&from->min_t));
		atomic_store(&to->max_t, atomic_load(&from->max_t));
		atomic_store(&to->last_t, atomic_load(&from->last_t));
	}
	index_release(&p->index);
	symbols_unref(p->symbols);
	p->symbols = s;
	p->index = x;
}

struct partition *partition_read(const struct pstate *s, bool series_only)
{
	struct partition *p = partition_of_same_parts(s->p);
	rwlock_write(&p->dict_lock); /* no thread waits for it */
	load(p, s, series_only);
	if (series_only)
		keep_series(p);
	rwlock_unlock(&p->dict_lock);
	atomic_store(&p->loaded, true);
	return p;
}
