/* SPDX-License-Identifier: Apache-2.0 */
/* Retention by time and size: drops whole partitions (partition_drop.c), oldest first. Also the other end of a partition's life: finding those on
 * disk at start. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/num.h"
#include "tsdb/part/damage.h"
#include "tsdb/upkeep/partition_drop.h"
#include "tsdb/upkeep/retention.h"
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
	for (size_t i = 0; i < v->n && rc >= 0; i++) {
		struct pstate *s = v->p[i];
		uint64_t bytes = bytes_of(s);
		if (!is_over(db, v, i, total, waits) && (waits || !is_old(db, s->p)))
			continue;
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

/* ---- at start ---- */

/* A directory that cannot be opened is set aside for inspection; the others must not wait for that. */
static void set_aside(const struct tsdb *db, const char *name, const char *why)
{
	AUTOFREE char *from = xasprintf("%s/partitions/%s", db->path, name);
	AUTOFREE char *to = xasprintf("%s/partitions/%s.bad-%lld", db->path, name, (long long)clock_now_ms());
	if (rename(from, to))
		LOG_ERROR("msg", "a partition cannot be opened and not be set aside", "dir", from, "err", why);
	else
		LOG_ERROR("msg", "a partition cannot be opened and was set aside: its data is not served", "dir", to, "err", why);
}

/* It was dropped, or deleted as a whole, and a crash came before it was removed. */
static bool is_gone(const struct tsdb *db, int64_t day, const char *dir)
{
	uint64_t from = 0, dropped = dropped_record(&db->dropped, (uint32_t)day);
	if (dropped == DROPPED_ALL)
		return true;
	if (!partition_db_has_mark(dir, &from))
		return false;
	if (dropped && dropped >= from)
		return true;
	if (hlog_gone(db->log, (uint32_t)day) && hlog_gone(db->log, (uint32_t)day) >= from)
		return true;
	if (!db->o.read_only)
		partition_db_remove_mark(dir); /* the crash came before the log had it */
	return false;
}

static int tidy_one(void *arg, const char *name, struct err *e)
{
	struct tsdb *db = arg;
	(void)e;
	AUTOFREE char *dir = xasprintf("%s/partitions/%s", db->path, name);
	if (view_ends(view_of(name), VIEW(PARTITION_DB_GONE)))
		files_remove_tree(dir);
	if (view_ends(view_of(name), VIEW(PARTITION_DB_NEW)))
		partition_repair_finish(dir);
	return 0;
}

/* A partition that only cannot be opened now (permissions, no memory, no descriptors) is whole: the start fails, rather than to lose it. The hole is
 * on disk before the damaged partition leaves: a start that fails later would not find the partition again, and say nothing. */
static int open_failed(struct tsdb *db, const char *name, int64_t day, const struct err *why, struct err *e)
{
	struct err unwritten;
	if (damage_is_none(why) && !db->o.read_only)
		return err_set(e, why->code, "%s", why->msg);
	atomic_fetch_add(&db->lost_records, 1);
	if (!holes_has_time(&db->holes, day * DAY_MS, (day + 1) * DAY_MS))
		holes_add(&db->holes, &(struct hole){ 0, 0, day * DAY_MS, (day + 1) * DAY_MS, tsdb_now_ms(db) });
	if (db->o.read_only) {
		LOG_ERROR("msg", "a partition cannot be opened", "partition", name, "err", why->msg);
		return 0;
	}
	if (holes_sync(&db->holes, db->path, &unwritten))
		LOG_WARN("msg", "that a partition cannot be opened cannot be written down, will try again", "err", unwritten.msg);
	set_aside(db, name, why->msg);
	return 0;
}

static int open_one(void *arg, const char *name, struct err *e)
{
	struct tsdb *db = arg;
	int64_t day;
	struct err bad;
	struct part **parts = NULL;
	size_t n = 0;
	AUTOFREE char *dir = xasprintf("%s/partitions/%s", db->path, name);
	if (!num_parse_i64(view_of(name), &day) || day < 0 || day > 10000000)
		return 0;
	if (is_gone(db, day, dir)) {
		if (!db->o.read_only && partition_db_remove(dir, &bad))
			LOG_WARN("msg", "a partition that is not needed stays on disk", "dir", dir, "err", bad.msg);
		return 0;
	}
	struct partition *p = partition_new(db, (uint32_t)day);
	if (partition_open_parts(p, &parts, &n, &bad)) {
		partition_unref(p);
		return open_failed(db, name, day, &bad, e);
	}
	atomic_store(&p->loaded, n == 0);
	vec_push(&db->partitions, p);
	if (n) {
		mutex_lock(&db->apply_lock);
		struct version *v = tsdb_version(db, NULL);
		tsdb_publish(db, version_with(v, p, NULL, 0, parts, n), 0);
		version_unref(v);
		mutex_unlock(&db->apply_lock);
	}
	for (size_t i = 0; i < n; i++)
		part_unref(parts[i]);
	free(parts);
	return 0;
}

struct names_list {
	VEC(char *) v;
};

static int note_name(void *arg, const char *name, struct err *e)
{
	struct names_list *l = arg;
	(void)e;
	vec_push(&l->v, xstrdup(name));
	return 0;
}

/* The names are listed first: fn may make and rename some. */
static int each_name(const char *dir, int (*fn)(void *arg, const char *name, struct err *e), struct tsdb *db, struct err *e)
{
	struct names_list l = { .v = { 0 } };
	int rc = files_each(dir, note_name, &l, e);
	for (size_t i = 0; i < l.v.n; i++) {
		if (!rc)
			rc = fn(db, l.v.v[i], e);
		free(l.v.v[i]);
	}
	vec_free(&l.v);
	return rc;
}

int tsdb_open_partitions(struct tsdb *db, struct err *e)
{
	AUTOFREE char *dir = xasprintf("%s/partitions", db->path);
	int rc = db->o.read_only ? 0 : files_make_dirs(dir, e);
	if (!rc && !db->o.read_only)
		rc = each_name(dir, tidy_one, db, e);
	return rc ? rc : each_name(dir, open_one, db, e);
}
