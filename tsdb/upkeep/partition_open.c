/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of a partition's life in this process: those found on disk at the start, and one that was fetched from a bucket. */
#include "tsdb/upkeep/partition_open.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/num.h"
#include "tsdb/part/damage.h"
#include "tsdb/part/part.h"
#include "tsdb/version/tombstones.h"

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
	if (view_ends(view_of(name), VIEW(PARTITION_DB_MAKING)))
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

static void opened_release(struct part **parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		part_unref(parts[i]);
	free(parts);
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
	opened_release(parts, n);
	return 0;
}

int tsdb_remove_empty(struct tsdb *db, uint32_t day, struct err *e)
{
	struct version *v = tsdb_version(db, NULL);
	bool empty = !version_find(v, day);
	version_unref(v);
	for (size_t i = 0; i < db->partitions.n && empty; i++) {
		struct partition *p = db->partitions.v[i];
		if (p->day != day)
			continue;
		int rc = p->db_parts ? partition_db_move_away(p->db_parts, e) : 0;
		if (rc)
			return rc;
		if (p->db_parts)
			partition_db_drop(p->db_parts);
		db->partitions.v[i] = db->partitions.v[--db->partitions.n];
		partition_unref(p);
		return 0;
	}
	return 0;
}

int tsdb_open_partition(struct tsdb *db, uint32_t day, struct err *e)
{
	char name[16];
	snprintf(name, sizeof name, "%u", day);
	return open_one(db, name, e);
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

/* ---- one that was fetched ---- */

/* A day of which the head log has facts or symbols, and neither rows nor a database: the fetched one may take its place, if its parts have all of
 * these symbols. Else ids that the log gave away would be given away again. */
static bool fetched_may_replace(struct tsdb *db, struct partition *old, struct partition *p, struct part **parts, size_t n)
{
	struct dict_marks has, parts_have;
	struct partition *own = NULL;
	struct version *v = tsdb_version(db, NULL), *next = NULL;
	bool may = !version_find(v, old->day) && !old->db_parts;
	dict_marks_start(&parts_have);
	rwlock_read(&old->dict_lock);
	dict_marks_now(&has, old->symbols, &old->index);
	rwlock_unlock(&old->dict_lock);
	if (may && !dict_marks_eq(&has, &parts_have)) {
		next = version_with(v, p, NULL, 0, parts, n); /* to read them, not to be published */
		own = partition_read(version_find(next, p->day), false);
		dict_marks_now(&parts_have, own->symbols, &own->index);
	}
	may &= dict_marks_within(&has, &parts_have);
	partition_unref(own);
	version_unref(next);
	version_unref(v);
	return may;
}

/* Lists p, in the place of old if that is not NULL. False: appends are on their way to old. */
static bool fetched_list(struct tsdb *db, struct partition *p, struct partition *old)
{
	bool done = !old;
	mutex_lock(&db->state_lock);
	if (!old)
		vec_push(&db->partitions, p);
	for (size_t i = 0; old && i < db->partitions.n; i++)
		if (db->partitions.v[i] == old && !old->closing && !atomic_load(&old->users)) {
			db->partitions.v[i] = p;
			done = true;
		}
	mutex_unlock(&db->state_lock);
	if (done)
		partition_unref(old);
	return done;
}

/* Rows hidden by `facts` are never seen, not even before the facts are in the head log. */
static bool fetched_publish(struct tsdb *db, struct partition *p, struct partition *old, struct part **parts, size_t n, const struct tombstone_fact *facts,
			    size_t n_facts)
{
	mutex_lock(&db->apply_lock);
	bool done = fetched_list(db, p, old);
	if (done) {
		struct version *v = tsdb_version(db, NULL), *next = version_with(v, p, NULL, 0, parts, n);
		version_set_tombstones(next, p->day, tombstones_with_rules(NULL, facts, n_facts, parts, n));
		tsdb_publish(db, next, 0);
		version_unref(v);
	}
	mutex_unlock(&db->apply_lock);
	return done;
}

int partition_open_fetched(struct tsdb *db, uint32_t day, uint32_t next_part, const struct tombstone_fact *facts, size_t n_facts, struct err *e)
{
	struct part **parts = NULL;
	size_t n = 0;
	struct partition *p = partition_new(db, day);
	int rc = partition_open_parts(p, &parts, &n, e);
	if (rc) {
		partition_unref(p);
		return rc;
	}
	atomic_store(&p->loaded, n == 0);
	p->next_part = MAX(p->next_part, next_part);
	mutex_lock(&db->seal_lock);
	struct partition *old = tsdb_partition(db, day);
	if ((old && !fetched_may_replace(db, old, p, parts, n)) || !fetched_publish(db, p, old, parts, n, facts, n_facts)) {
		rc = err_set(e, ERR_BUSY, "day %u was fetched, and the head log has more of it: the next start opens it", day);
		opened_release(parts, n);
		parts = NULL;
		n = 0;
		partition_unref(p);
	}
	partition_unref(old);
	mutex_unlock(&db->seal_lock);
	opened_release(parts, n);
	return rc;
}
