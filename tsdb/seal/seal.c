/* SPDX-License-Identifier: Apache-2.0 */
/* Turning windows of the head into parts on disk, and trimming the log. One at a time (seal_lock): the sealer (sealer.h), and a
 * thread that only seals early, when the head is over half of its budget.
 *
 * A seal freezes a window (later rows go to a new one). It writes one file with the new symbols of its partition, the window's index
 * and its series, and ingests it. Then it publishes a version in which the part replaces the window. A crash in between loses nothing.
 * Before the ingest the log still has everything; after it the part says which records it covers, and replay skips them.
 *
 * A part repeats the symbols of the previous part, and the log keeps those of the last part for a while. So one damaged file costs its
 * hour, but no other hour its names. */
#include <malloc.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/part/damage.h"
#include "tsdb/seal/seal.h"
#include "tsdb/version/facts.h"

#define KEEP_SYMBOLS_MS (2 * HOUR_MS)
#define SEAL_AFTER_MS (15 * INT64_C(60000))
#define TRIM_BYTES ((size_t)16 << 20)
#define SYMBOLS_WAIT_MS (10 * INT64_C(60000))

/* ---- sealing ---- */

struct seal {
	struct tsdb *db;
	struct partition *p;
	struct window *w;
	struct part *part;
	struct dict_marks to;
};

static int write_window(struct seal *s, struct err *e)
{
	struct buf symbols = { 0 };
	rwlock_read(&s->p->dict_lock);
	dict_encode(&symbols, s->p->symbols, &s->p->index, &s->p->sealed_before, &s->to, &s->p->dict_lock);
	rwlock_unlock(&s->p->dict_lock);
	int rc = seal_write(s->p, s->w, s->part, &symbols, e);
	buf_free(&symbols);
	return rc;
}

/* ---- before and after ---- */

static int begin(struct seal *s, struct err *e)
{
	int rc = 0;
	mutex_lock(&s->db->apply_lock);
	if (!s->p->db_parts)
		rc = partition_make_parts(s->p, e);
	if (!rc) {
		s->w->frozen = true;
		s->p->sealing = true;
		s->p->next_symbols = UINT64_MAX;
		s->to = s->p->logged;
		s->part = NEW(struct part);
		atomic_init(&s->part->refs, 1);
		s->part->level = LEVEL_HOUR;
		s->part->window = (uint32_t)s->w->hour;
		s->part->number = s->part->origin = s->p->next_part++;
		s->part->first_record = s->w->first_record;
		s->part->last_record = s->w->last_record;
	}
	mutex_unlock(&s->db->apply_lock);
	return rc;
}

static void publish(struct seal *s) REQUIRES(s->db->apply_lock)
{
	struct version *v = tsdb_version(s->db, NULL);
	const struct pstate *ps = version_find(v, s->p->day);
	struct window **windows = xcalloc(ps->n_windows + 1, sizeof(*windows));
	struct part **parts = xcalloc(ps->n_parts + 1, sizeof(*parts));
	size_t n = 0;
	for (size_t i = 0; i < ps->n_windows; i++)
		if (ps->windows[i] != s->w)
			windows[n++] = ps->windows[i];
	if (ps->n_parts)
		memcpy(parts, ps->parts, ps->n_parts * sizeof *parts);
	parts[ps->n_parts] = s->part;
	struct version *next = version_with(v, s->p, windows, n, parts, ps->n_parts + 1);
	tsdb_count_head(s->db, next);
	tsdb_publish(s->db, next, 0);
	free(windows);
	free(parts);
	version_unref(v);
}

/* Records below this number are not needed: all of their rows and symbols are in parts. */
static uint64_t needed_from(struct tsdb *db) REQUIRES(db->apply_lock)
{
	uint64_t from = db->applied + 1;
	struct version *v = tsdb_version(db, NULL);
	/* For all known partitions: one may have symbols in the log and no rows yet. */
	mutex_lock(&db->state_lock);
	for (size_t i = 0; i < db->partitions.n; i++) {
		const struct partition *p = db->partitions.v[i];
		from = MIN(from, p->first_symbols);
		if (clock_mono_ms() - p->kept_mono_ms < KEEP_SYMBOLS_MS)
			from = MIN(from, p->kept_symbols);
	}
	mutex_unlock(&db->state_lock);
	for (size_t i = 0; i < v->n; i++) {
		for (size_t k = 0; k < v->p[i]->n_windows; k++)
			from = MIN(from, v->p[i]->windows[k]->first_record);
	}
	version_unref(v);
	return db->o.tap ? MIN(from, db->o.tap->durable(db->o.tap) + 1) : from;
}

void tsdb_trim_log(struct tsdb *db)
{
	mutex_assert_held(&db->apply_lock);
	struct err e;
	size_t n;
	AUTOFREE struct log_keep *facts = facts_needed(db, &n);
	if (tsdb_sync_holes(db, &e)) /* they would vanish with the numbers that are missing */
		LOG_WARN("msg", "what the head log has lost cannot be written down: it is not trimmed", "err", e.msg);
	else if (hlog_trim(db->log, needed_from(db), facts, n, &e))
		LOG_WARN("msg", "cannot trim the head log", "err", e.msg);
	else
		hlog_give_back(db->log);
}

static void finish(struct seal *s, bool done)
{
	mutex_lock(&s->db->apply_lock);
	s->p->sealing = false;
	if (done) {
		s->p->sealed_before = s->p->sealed;
		s->p->sealed = s->to;
		s->p->kept_symbols = s->p->first_symbols;
		s->p->kept_mono_ms = clock_mono_ms();
		s->p->first_symbols = s->p->next_symbols;
		publish(s);
		tsdb_trim_log(s->db);
	} else {
		s->w->frozen = false; /* it goes on taking rows until the next try */
	}
	mutex_unlock(&s->db->apply_lock);
}

static void seal_release(struct seal *s)
{
	part_unref(s->part);
	partition_unref(s->p);
	window_unref(s->w);
}

static int seal_window(struct tsdb *db, struct partition *p, struct window *w, struct err *e)
{
	struct seal s = { .db = db, .p = partition_ref(p), .w = window_ref(w) };
	int64_t start = clock_mono_ns();
	int rc = begin(&s, e);
	if (!rc) {
		rc = write_window(&s, e);
		finish(&s, rc == 0);
	}
	metric_inc(&tsdb_metrics[rc ? TM_SEAL_FAILURES : TM_SEALS]);
	if (!rc) {
		metric_observe(&tsdb_metrics[TM_SEAL_SECONDS], (double)(clock_mono_ns() - start) / 1e9);
		metric_add(&tsdb_metrics[TM_SEALED_BYTES], (double)s.part->bytes);
		LOG_DEBUG("msg", "sealed a window", "partition", LOG_NUM(p->day), "hour", LOG_NUM(w->hour), "part",
			  LOG_NUM(s.part->number), "bytes", LOG_NUM(s.part->bytes), "samples", LOG_NUM(s.part->samples));
	}
	seal_release(&s);
	return rc;
}

/* ---- what is due ---- */

struct due {
	struct partition *p;
	struct window *w;
	size_t bytes;
	bool due;
};

static size_t window_bytes(struct window *w)
{
	rwlock_read(&w->lock);
	size_t n = window_memory(w);
	rwlock_unlock(&w->lock);
	return n;
}

/* A window is due a quarter of an hour after its end; one with late rows a quarter of an hour after the first. The same holds for one
 * ahead of the clock, which was wrong, or is: it would hold the log back for as long as it is ahead. */
static bool is_due(const struct tsdb *db, const struct window *w)
{
	int64_t now_ms = tsdb_now_ms(db);
	if (db->o.seal_interval_ms && clock_mono_ms() - w->opened_mono_ms >= db->o.seal_interval_ms)
		return true;
	return (now_ms >= (w->hour + 1) * HOUR_MS + SEAL_AFTER_MS || now_ms < (w->hour - 1) * HOUR_MS) &&
	       (clock_mono_ms() - w->opened_mono_ms >= SEAL_AFTER_MS || db->o.now_ms || w->bytes > (1 << 20));
}

static int by_size(const void *a, const void *b)
{
	const struct due *x = a, *y = b;
	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

bool seal_concerns_one(const struct err *e)
{
	return !damage_is_none(e);
}

/* What cannot be sealed holds up other windows of its partition, unless only this window is not sealable, and none of other partitions, unless
 * the machine refuses. */
static int seal_listed(struct tsdb *db, struct due *d, size_t n, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < n && (!rc || seal_concerns_one(e)) && !atomic_load(&db->stopping); i++) {
		struct err one;
		int rc_one = d[i].due ? seal_window(db, d[i].p, d[i].w, &one) : 0;
		if (!rc_one)
			continue;
		rc = rc_one;
		*e = one;
		for (size_t k = i + 1; k < n && rc != NOT_SEALABLE; k++)
			d[k].due &= d[k].p != d[i].p;
	}
	return rc;
}

/* Above half of the budget the largest are due, until a quarter of it remains: sealing one takes nearly as much memory again, and more
 * rows arrive meanwhile. */
static void seal_largest(struct tsdb *db, struct due *d, size_t n, size_t total)
{
	if (total <= db->o.head_bytes / 2)
		return;
	qsort(d, n, sizeof *d, by_size);
	for (size_t i = 0; i < n && total > db->o.head_bytes / 4; i++) {
		d[i].due = true;
		total -= MIN(total, d[i].bytes);
	}
}

/* Partitions that could only be opened for reading are tried again. */
static int reopen_due(struct tsdb *db, struct err *e) REQUIRES(db->seal_lock)
{
	struct version *v = tsdb_version(db, NULL);
	int rc = 0;
	for (size_t i = 0; i < v->n && (!rc || seal_concerns_one(e)); i++) {
		struct err one;
		int rc_one = v->p[i]->p->db_parts && partition_db_read_only(v->p[i]->p->db_parts) ? partition_reopen_parts(v->p[i]->p, &one) : 0;
		if (!rc_one)
			continue;
		rc = rc_one;
		*e = one;
	}
	version_unref(v);
	return rc;
}

/* Symbols without rows, late names of a day that is over, would hold the log back for ever: they get a separate, empty part after a
 * while. */
static int seal_symbols(struct tsdb *db, const struct version *v, bool all, struct err *e) REQUIRES(db->seal_lock)
{
	int rc = 0;
	for (size_t i = 0; i < v->n && !rc; i++) {
		struct partition *p = v->p[i]->p;
		mutex_lock(&db->apply_lock);
		bool any = !v->p[i]->n_windows && p->first_symbols != UINT64_MAX;
		mutex_unlock(&db->apply_lock);
		if (!any)
			p->symbols_since_mono_ms = 0;
		else if (!p->symbols_since_mono_ms)
			p->symbols_since_mono_ms = clock_mono_ms();
		if (!any || (!all && clock_mono_ms() - p->symbols_since_mono_ms < SYMBOLS_WAIT_MS))
			continue;
		struct window *w = window_new((int64_t)p->day * 24 + 23);
		rc = seal_window(db, p, w, e);
		window_unref(w);
	}
	return rc;
}

int seal_due(struct tsdb *db, enum seal_what what, struct err *e)
{
	VEC(struct due) list = { 0 };
	size_t total = 0, large = 0;
	mutex_lock(&db->seal_lock);
	int rc = reopen_due(db, e);
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->p[i]->n_windows; k++) {
			struct window *w = v->p[i]->windows[k];
			size_t bytes = window_bytes(w);
			total += bytes;
			bool due = what == SEAL_ALL || (what == SEAL_AGED && is_due(db, w));
			vec_push(&list, (struct due){ v->p[i]->p, w, bytes, due });
		}
	large = total;
	if (what == SEAL_LARGEST && list.n)
		seal_largest(db, list.v, list.n, total);
	struct err one;
	int rc_one = list.n && (!rc || seal_concerns_one(e)) ? seal_listed(db, list.v, list.n, &one) : 0;
	if (rc_one) {
		rc = rc_one;
		*e = one;
	}
	vec_free(&list);
	if (!rc && what != SEAL_LARGEST)
		rc = seal_symbols(db, v, what == SEAL_ALL, e);
	version_unref(v);
	mutex_unlock(&db->seal_lock);
	/* The windows' memory, and that of sealing, is mixed with lasting allocations in the arenas of two threads. */
	if (large > atomic_load(&db->head_bytes) + TRIM_BYTES)
		malloc_trim(0);
	return rc;
}

/* Appends may be waiting for it: a separate thread, which runs at normal priority. */
void *tsdb_early_sealer(void *arg)
{
	struct tsdb *db = arg;
	int64_t next_try = 0;
	struct err e;
	while (tsdb_wait_head(db, next_try)) {
		int rc = seal_due(db, SEAL_LARGEST, &e);
		if (rc)
			LOG_ERROR("msg", "cannot seal, will try again", "err", e.msg);
		next_try = clock_mono_ms() + (rc ? 10000 : 50); /* not after each commit */
	}
	return NULL;
}
