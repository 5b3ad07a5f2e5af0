/* SPDX-License-Identifier: Apache-2.0 */
/* Retention by time and size: drops whole partitions (partition_drop.c), oldest first. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/bucket/day_image.h"
#include "tsdb/part/part.h"
#include "tsdb/upkeep/partition_drop.h"
#include "tsdb/upkeep/retention_rules.h"

static uint64_t bytes_of(const struct pstate *s)
{
	return s->n_parts ? partition_db_bytes(s->parts[0]->db) : 0;
}

static bool is_old(struct tsdb *db, const struct partition *p)
{
	return db->o.retention_ms >= 0 && ((int64_t)p->day + 1) * DAY_MS <= retention_now_of(db, p) - db->o.retention_ms;
}

/* One that is old and in no version; returns a reference. */
static struct partition *find_empty(struct tsdb *db, const struct version *v)
{
	struct partition *old = NULL;
	mutex_lock(&db->state_lock);
	for (size_t i = 0; i < db->partitions.n && !old; i++) {
		struct partition *p = db->partitions.v[i];
		if (!p->closing && !atomic_load(&p->users) && !version_find(v, p->day) && is_old(db, p))
			old = partition_ref(p);
	}
	mutex_unlock(&db->state_lock);
	return old;
}

/* Partitions that never got a row (all were duplicates) are in no version, but their symbols hold the log back. */
static int forget_empty(struct tsdb *db, struct err *e) REQUIRES(db->seal_lock)
{
	int rc = 1;
	while (rc > 0) {
		struct version *v = tsdb_version(db, NULL);
		struct partition *p = find_empty(db, v);
		version_unref(v);
		rc = p ? tsdb_drop_partition(db, p, NULL, e) : 0;
		partition_unref(p);
	}
	return rc;
}

/* Oldest first, until the rest is small enough; the last one stays, and what was appended to just now. After a step of the
 * clock it waits, as long as the disk does not fill up. */
static bool is_over(struct tsdb *db, const struct version *v, size_t i, uint64_t total, bool waits)
{
	uint64_t most = db->o.retention_bytes;
	return most && total > (waits ? most + most / 10 : most) && i + 1 < v->n && !retention_is_recent(db, v->p[i]->p);
}

/* Holes go with the last day that they are of. */
static int retain_holes(struct tsdb *db, bool waits, struct err *e) REQUIRES(db->seal_lock)
{
	int64_t until = db->dropped.until_ms;
	if (!waits && db->o.retention_ms >= 0)
		until = MAX(until, (tsdb_retention_now_ms(db) - db->o.retention_ms) / DAY_MS * DAY_MS);
	holes_forget(&db->holes, until, hlog_first(db->log));
	return tsdb_sync_holes(db, e);
}

/* Whether a day leaves the disk, though not the storage: all of it is in the bucket. */
static bool is_let_go(struct tsdb *db, const struct pstate *s)
{
	if (!db->catalogue || !db->o.local_retention_ms || s->n_windows || s->tombstones ||
	    ((int64_t)s->p->day + 1) * DAY_MS > retention_now_of(db, s->p) - db->o.local_retention_ms)
		return false;
	struct day_up up = day_look_up(db->catalogue, s);
	return up.parts && up.facts && up.names && up.finished;
}

/* Days of the bucket that are not here count for the size as well, and the oldest go first. Returns what is left of them. */
static uint64_t drop_absent(struct tsdb *db, uint64_t here)
{
	uint64_t total = 0, bytes;
	uint32_t day;
	while (db->catalogue && db->o.retention_bytes && catalogue_oldest_absent(db->catalogue, &total, &day, &bytes) &&
	       here + total > db->o.retention_bytes) {
		LOG_INFO("msg", "a day leaves the bucket: the storage is too large", "partition", LOG_NUM(day), "bytes", LOG_NUM(bytes));
		catalogue_doom(db->catalogue, day);
	}
	return total;
}

/* It is noted as absent before it goes, so that no row begins it anew. */
static int let_go(struct tsdb *db, struct pstate *s, struct err *e) REQUIRES(db->seal_lock)
{
	char identity[CATALOGUE_IDENTITY_MAX];
	uint32_t day = s->p->day;
	int rc = partition_db_identity(s->p->db_parts, identity, sizeof identity, e);
	if (!rc)
		rc = catalogue_set(db->catalogue, day, identity, true, e);
	if (rc)
		return rc;
	catalogue_add_absent(db->catalogue, day);
	rc = tsdb_drop_partition(db, s->p, s, e);
	if (rc > 0) {
		LOG_INFO("msg", "a day left this disk: the bucket has it", "partition", LOG_NUM(day));
		return 0;
	}
	struct err stays;
	if (catalogue_set(db->catalogue, day, identity, false, &stays))
		LOG_WARN("msg", "a day stays on this disk, and is noted as gone from it", "partition", LOG_NUM(day), "err", stays.msg);
	return rc;
}

int tsdb_retain(struct tsdb *db, struct err *e)
{
	mutex_lock(&db->seal_lock);
	retention_clock_look(db);
	bool waits = retention_clock_waits(db);
	struct version *v = tsdb_version(db, NULL);
	uint64_t total = 0;
	int rc = 0;
	for (size_t i = 0; i < v->n; i++)
		total += bytes_of(v->p[i]);
	if (!waits)
		total += drop_absent(db, total);
	for (size_t i = 0; i < v->n && rc >= 0; i++) {
		struct pstate *s = v->p[i];
		uint64_t bytes = bytes_of(s);
		if (!is_over(db, v, i, total, waits) && (waits || !is_old(db, s->p))) {
			if (!waits && is_let_go(db, s))
				rc = let_go(db, s, e);
			continue;
		}
		rc = tsdb_drop_partition(db, s->p, s, e);
		total -= rc > 0 ? bytes : 0;
	}
	version_unref(v);
	if (rc >= 0)
		rc = dropped_sync(db, e);
	if (!rc)
		rc = retain_holes(db, waits, e);
	tsdb_free_dropped(db);
	if (!rc && !waits)
		rc = forget_empty(db, e);
	if (!rc)
		rc = retention_rules_due(db, e);
	mutex_unlock(&db->seal_lock);
	return rc;
}
