/* SPDX-License-Identifier: Apache-2.0 */
/* Frees the space of deleted rows. The visible rows of a part are brought back into a window and written like one, under a new number
 * and with the old one's place in the chain of symbols (origin). The new part replaces it in one step; the old file is removed after
 * the last query that reads it. A crash in between leaves both, of which the next open keeps the newer. An empty partition is dropped
 * as a whole. Runs on the sealer's thread, one part at a time, under seal_lock. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/part/damage.h"
#include "tsdb/seal/seal.h"
#include "tsdb/upkeep/compact.h"
#include "tsdb/upkeep/partition_drop.h"
#include "tsdb/upkeep/rollup.h"
#include "tsdb/upkeep/tombstone_clean.h"
#include "tsdb/version/bounds.h"
#include "tsdb/version/tombstones.h"

#define CLEAN_MS 30000 /* of a call that waits for it */

struct tombstone_clean {
	struct tsdb *db;
	struct partition *p;
	struct part *from, *to;
};

static bool sums_up(const struct part *rollup, uint32_t number)
{
	for (size_t i = 0; i < rollup->sums.n; i++)
		if (rollup->sums.v[i] == number)
			return true;
	return false;
}

static void publish(struct tombstone_clean *r)
{
	mutex_lock(&r->db->apply_lock);
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
	version_set_tombstones(next, r->p->day, tombstones_with(s->tombstones, NULL, parts, n));
	rwlock_read(&r->p->dict_lock);
	for (size_t i = 0; s->tombstones && i < s->tombstones->facts.n; i++)
		bounds_renew(r->p, version_find(next, r->p->day), s->tombstones->facts.v[i]);
	rwlock_unlock(&r->p->dict_lock);
	tsdb_publish(r->db, next, 0);
	part_retire(r->from);
	tsdb_trim_log(r->db);
	mutex_unlock(&r->db->apply_lock);
	free(parts);
	version_unref(v);
}

static struct part *new_part(struct tsdb *db, struct partition *p, const struct part *from)
{
	struct part *to = NEW(struct part);
	atomic_init(&to->refs, 1);
	to->window = from->window;
	to->origin = from->origin;
	for (size_t i = 0; i < from->sums.n; i++) /* their files may be there still */
		vec_push(&to->sums, from->sums.v[i]);
	to->lost = from->lost; /* what was lost before stays lost */
	to->first_record = from->first_record;
	to->last_record = from->last_record;
	mutex_lock(&db->apply_lock);
	to->number = p->next_part++;
	mutex_unlock(&db->apply_lock);
	return to;
}

static int write_part(struct tombstone_clean *r, struct window *w, struct err *e)
{
	struct buf symbols = { 0 };
	int rc = part_get_symbols(r->from, &symbols, e);
	if (rc && damage_is(e)) {
		compact_all_symbols(r->p, &symbols);
		rc = 0;
	}
	if (!rc)
		rc = seal_write(r->p, w, r->to, &symbols, e);
	buf_free(&symbols);
	return rc;
}

/* The values that are damaged here are whole in the bucket: the part is fetched from there before it is rewritten. */
static int clean_may_lose(struct tsdb *db, const struct pstate *s, struct part *p, struct err *e)
{
	if (!part_has_damage(p) || atomic_load(&p->given_up) || !db->keeper.keeps || !db->keeper.keeps(db->keeper.arg, p))
		return 0;
	atomic_store(&p->awaits, true);
	return err_set(e, ERR_CORRUPT, "values of part %u of day %u are damaged, and are fetched from the bucket first", p->number, s->p->day);
}

static int clean_part(struct tsdb *db, const struct pstate *s, struct part *from, struct err *e)
{
	struct tombstone_clean r = { .db = db, .p = s->p, .from = from, .to = new_part(db, s->p, from) };
	struct window *w = window_new(from->window);
	partition_load(s->p);
	int rc = compact_refill(s, &from, 1, w, &r.to->lost, e);
	if (!rc)
		rc = clean_may_lose(db, s, from, e);
	if (!rc)
		rc = damage_keep(from, e);
	if (!rc)
		rc = write_part(&r, w, e);
	if (!rc) {
		uint64_t back = from->bytes > r.to->bytes ? from->bytes - r.to->bytes : 0;
		publish(&r);
		metric_inc(&tsdb_metrics[TM_REWRITTEN]);
		metric_add(&tsdb_metrics[TM_REWRITTEN_BYTES], (double)back);
		LOG_DEBUG("msg", "rewrote a part without deleted rows", "partition", LOG_NUM(s->p->day), "part",
			  LOG_NUM(from->number), "bytes", LOG_NUM(r.to->bytes), "bytes_back", LOG_NUM(back));
	}
	window_unref(w);
	part_unref(r.to);
	return rc;
}

/* ---- what is due ---- */

/* The first part with hidden rows that was not found to be damaged. */
static struct part *next_part(const struct pstate *s)
{
	for (size_t i = 0; s->tombstones && i < s->n_parts; i++)
		if (s->parts[i]->level == LEVEL_HOUR && !s->parts[i]->damaged && tombstones_due(s->tombstones, s->parts[i]))
			return s->parts[i];
	return NULL;
}

/* 1: something was done, 0: there is no work. *drop: whether to check if a whole partition can be dropped; if queries prevent it now,
 * they will a moment later too, and the check takes time. */
static int one_step(struct tsdb *db, bool *drop, struct err *e) REQUIRES(db->seal_lock)
{
	int rc = *drop ? tsdb_drop_deleted(db, e) : 0;
	*drop = rc > 0;
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n && !rc; i++) {
		const struct pstate *s = v->p[i];
		struct part *p = next_part(s);
		if (!p)
			continue;
		rc = clean_part(db, s, p, e);
		if (rc == -ERR_CORRUPT || rc == -ERR_NOT_FOUND || rc == -ERR_EXECUTION) {
			LOG_WARN("msg", "a part with deleted rows cannot be rewritten: they stay hidden, their space stays used",
				 "partition", LOG_NUM(s->p->day), "part", LOG_NUM(p->number), "err", e->msg);
			p->damaged = true;
			rc = 0;
		}
		rc = rc ? rc : 1;
	}
	version_unref(v);
	return rc;
}

int tombstone_clean_due(struct tsdb *db, size_t parts, int64_t until_mono_ms, struct err *e)
{
	bool drop = true;
	int rc = 1;
	for (size_t done = 0; rc == 1 && (!parts || done < parts) && !clean_is_over(db, until_mono_ms); done++) {
		mutex_lock(&db->seal_lock);
		rc = one_step(db, &drop, e);
		mutex_unlock(&db->seal_lock);
	}
	return rc;
}

int tsdb_clean(struct tsdb *db, struct err *e)
{
	int64_t until = clock_mono_ms() + (db->o.clean_ms ? db->o.clean_ms : CLEAN_MS);
	int rc = tombstone_clean_due(db, 0, until, e);
	if (!rc)
		rc = compact_due(db, true, until, e);
	if (!rc)
		rc = rollup_due(db, e);
	if (rc >= 0 && atomic_load(&db->stopping))
		return err_set(e, ERR_UNAVAILABLE, "the storage is shutting down: the rest is cleaned after the next start");
	return rc <= 0 ? rc : err_set(e, ERR_TIMEOUT, "not everything was cleaned within %lld s: the rest is cleaned in the background",
				      (long long)(db->o.clean_ms ? db->o.clean_ms : CLEAN_MS) / 1000);
}
