/* SPDX-License-Identifier: Apache-2.0 */
/* The database of a partition: opening it, closing and removing it. */
#include "tsdb/part/part_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/disk/manifest.h"

/* ---- staying open ---- */

int partition_db_enter(struct partition_db *d, struct err *e) LOCKS_UNCHECKED /* it takes the lock if it returns 0 */
{
	struct err why;
	rwlock_read(&d->open_lock);
	while (!d->db && atomic_load(&d->bare_is_closed)) {
		rwlock_unlock(&d->open_lock);
		if (partition_db_open_bare(d, &why))
			return err_set(e, why.code, "%s", why.msg);
		rwlock_read(&d->open_lock);
	}
	if (d->db)
		return 0;
	rwlock_unlock(&d->open_lock);
	return err_set(e, ERR_IO, "the partition %s is closed after an error", d->dir);
}

void partition_db_leave(struct partition_db *d) LOCKS_UNCHECKED
{
	rwlock_unlock(&d->open_lock);
}

/* ---- opening ---- */

struct partition_db *partition_db_ref(struct partition_db *d)
{
	atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
	return d;
}

/* To another name, and that on disk: of a removal that a crash or a power loss cuts short nothing is opened again. If it cannot be
 * renamed it stays, and the next start tries again. */
static int move_away(const char *dir, struct err *e)
{
	AUTOFREE char *gone = xasprintf("%s" PARTITION_DB_GONE, dir), *parent = xstrdup(dir);
	char *slash = strrchr(parent, '/');
	files_remove_tree(gone);
	if (slash)
		*slash = '\0';
	return rename(dir, gone) ? err_errno(e, errno, "cannot rename %s", dir) : files_sync_dir(parent, e);
}

int partition_db_remove(const char *dir, struct err *e)
{
	AUTOFREE char *gone = xasprintf("%s" PARTITION_DB_GONE, dir);
	int rc = move_away(dir, e);
	if (!rc)
		files_remove_tree(gone);
	return rc;
}

int partition_db_move_away(struct partition_db *d, struct err *e)
{
	if (atomic_load(&d->moved))
		return 0;
	int rc = move_away(d->dir, e);
	if (rc && access(d->dir, F_OK) == 0)
		return rc;
	atomic_store(&d->moved, true); /* if it was renamed and not synced there is no way back */
	return 0;
}

int partition_db_remove_marked(const char *dir, struct err *e)
{
	static struct mutex lock = MUTEX_INIT(LOCK_LEAF, "marked partitions");
	AUTOFREE char *gone = xasprintf("%s" PARTITION_DB_GONE, dir);
	mutex_lock(&lock);
	bool marked = partition_db_has_mark(dir, NULL);
	int rc = marked ? move_away(dir, e) : 0;
	mutex_unlock(&lock);
	if (marked && !rc)
		files_remove_tree(gone);
	return rc;
}

void partition_db_free(struct partition_db *d)
{
	if (d->look_only)
		partition_bare_remove(d);
	if (d->db)
		rocksdb_close(d->db);
	rwlock_destroy(&d->open_lock);
	mutex_destroy(&d->parts_lock);
	vec_free(&d->parts);
	if (d->options)
		rocksdb_options_destroy(d->options);
	if (d->small)
		rocksdb_options_destroy(d->small);
	if (d->read)
		rocksdb_readoptions_destroy(d->read);
	if (d->env)
		rocksdb_envoptions_destroy(d->env);
	struct err e;
	if (atomic_load(&d->moved)) {
		AUTOFREE char *gone = xasprintf("%s" PARTITION_DB_GONE, d->dir);
		files_remove_tree(gone);
	} else if (atomic_load(&d->dropped) && partition_db_remove_marked(d->dir, &e))
		LOG_WARN("msg", "a partition that is not needed stays on disk", "dir", d->dir, "err", e.msg);
	free(d->aside);
	free(d->was);
	free(d->dir);
	free(d);
}

void partition_db_unref(struct partition_db *d)
{
	if (d && atomic_fetch_sub(&d->refs, 1) == 1)
		partition_db_free(d);
}

#define MARK "deleted"

int partition_db_put_mark(struct partition_db *d, uint64_t from, struct err *e)
{
	char text[64];
	snprintf(text, sizeof text, "pyrrha-deleted 2\nfrom %" PRIu64 "\n", from);
	return files_put(d->dir, MARK, view_of(text), e);
}

void partition_db_remove_mark(const char *dir)
{
	AUTOFREE char *mark = xasprintf("%s/" MARK, dir);
	unlink(mark);
}

bool partition_db_has_mark(const char *dir, uint64_t *ret_from)
{
	AUTOFREE char *mark = xasprintf("%s/" MARK, dir);
	uint64_t from = 0;
	FILE *f = fopen(mark, "re");
	if (!f)
		return access(mark, F_OK) == 0;
	if (fscanf(f, "pyrrha-deleted 2\nfrom %" SCNu64, &from) != 1)
		from = 0;
	fclose(f);
	if (ret_from)
		*ret_from = from;
	return true;
}

const char *partition_db_dir(const struct partition_db *d)
{
	return d->dir;
}

bool partition_db_is_alone(const struct partition_db *d, size_t n_parts)
{
	return atomic_load(&d->refs) == (int)n_parts + 1;
}

void partition_db_drop(struct partition_db *d)
{
	atomic_store(&d->dropped, true);
}

static int remove_empty_log(void *dir, const char *name, struct err *e)
{
	struct stat st;
	(void)e;
	if (!view_ends(view_of(name), VIEW(".log")))
		return 0;
	AUTOFREE char *path = xasprintf("%s/%s", (const char *)dir, name);
	if (!stat(path, &st) && !st.st_size)
		unlink(path);
	return 0;
}

/* RocksDB begins a log each time that it opens the database, and keeps those before it until something is flushed, which of sealed days never is. */
static void remove_empty_logs(struct partition_db *d)
{
	IGNORE(files_each(d->dir, remove_empty_log, d->dir, NULL)); /* as far as it goes */
}

static rocksdb_t *try_open(struct partition_db *d, bool checks, bool read_only, struct err *e)
{
	char *error = NULL;
	if (!read_only)
		remove_empty_logs(d);
	rocksdb_options_set_paranoid_checks(d->options, checks);
	rocksdb_t *db = read_only ? rocksdb_open_for_read_only(d->options, d->dir, 0, &error)
				  : rocksdb_open(d->options, d->dir, &error);
	return rocks_err(&error, e, "cannot open the partition", d->dir) ? NULL : db;
}

/* RocksDB's own list of files (CURRENT, MANIFEST) is damaged or gone. */
static rocksdb_t *repair(struct partition_db *d, struct err *e)
{
	LOG_WARN("msg", "a partition's list of files is damaged: it is rebuilt from the files", "dir", d->dir, "err", e->msg);
	if (partition_repair(d->dir, &d->aside, e))
		return NULL;
	d->repaired = d->aside != NULL;
	return try_open(d, true, false, e);
}

/* A damaged or missing file must not cost the others, nor a full disk the queries; and what fails only for a moment is
 * not bad. */
rocksdb_t *partition_db_open_rocks(struct partition_db *d, struct err *e)
{
	if (d->look_only) {
		if (manifest_is_damaged(d->dir))
			LOG_WARN("msg", "a partition's list of files is damaged: files that only its end names are not seen; the next start of the server rebuilds it", "dir", d->dir);
		d->read_only = true;
		return try_open(d, false, true, e);
	}
	if (manifest_is_gone(d->dir)) { /* RocksDB would start an empty database, and remove the files that it does not know */
		err_set(e, ERR_CORRUPT, "it has no CURRENT");
		return repair(d, e);
	}
	rocksdb_t *db = try_open(d, true, false, e);
	for (int tries = 0; !db && tries < OPEN_TRIES; tries++) {
		LOG_WARN("msg", "a partition does not open as it should", "dir", d->dir, "err", e->msg);
		db = try_open(d, false, false, e);
		if (!db && (e->code == ERR_CORRUPT || strstr(e->msg, "No such file")) && tries + 1 == OPEN_TRIES)
			db = repair(d, e);
		if (!db && e->code != ERR_CORRUPT) {
			db = try_open(d, false, true, e);
			d->read_only = db != NULL;
		}
		if (!db && tries + 1 < OPEN_TRIES) {
			clock_sleep_ms(OPEN_WAIT_MS);
			db = try_open(d, true, false, e);
		}
	}
	if (db && d->read_only)
		LOG_WARN("msg", "a partition can be read and not be written: nothing is sealed into it until it can", "dir", d->dir);
	return db;
}

/* Once it is open: RocksDB opens the files of a day when they are read first. */
static void db_note_bare(struct partition_db *d)
{
	const rocksdb_livefiles_t *files = rocksdb_livefiles(d->db);
	partition_bare_add(d, (size_t)rocksdb_livefiles_count(files) + 1);
	rocksdb_livefiles_destroy(files);
}

int partition_db_open_bare(struct partition_db *d, struct err *e)
{
	int rc = 0;
	while (!rc && !atomic_load(&d->bare_is_open)) {
		if (!rwlock_try_write(&d->open_lock)) { /* It does not wait for readers: one may be waiting for a lock that the caller holds. */
			clock_sleep_ms(1);
			continue;
		}
		bool was = d->db != NULL;
		if (!was)
			d->db = partition_db_open_rocks(d, e);
		rc = d->db ? 0 : -(int)e->code;
		atomic_store(&d->bare_is_open, !rc);
		if (!rc && !was) {
			atomic_store(&d->bare_is_closed, false);
			db_note_bare(d);
		}
		rwlock_unlock(&d->open_lock);
	}
	return rc;
}

/* At the first opening: RocksDB would open a list with a torn end, as after a power loss, without an error, and remove the files that
 * are no longer in it. After a write that failed it may end so, too (partition_db_reopen): then that is what there is. */
rocksdb_t *partition_db_open_first(struct partition_db *d, struct err *e)
{
	for (int tries = 0; tries < OPEN_TRIES; tries++) {
		if (d->look_only || !manifest_is_damaged(d->dir))
			return partition_db_open_rocks(d, e);
		clock_sleep_ms(OPEN_WAIT_MS / 10); /* it may only have been read wrong */
	}
	err_set(e, ERR_CORRUPT, "the partition %s: its list of files is damaged", d->dir);
	rocksdb_t *db = repair(d, e);
	if (!db) {
		db = try_open(d, false, true, e);
		d->read_only = db != NULL;
	}
	return db;
}

bool partition_db_read_only(const struct partition_db *d)
{
	return atomic_load(&d->read_only);
}

void partition_db_count_lost(struct partition_db *d, atomic_ullong *count)
{
	d->count_lost = count;
}

uint32_t partition_db_next_number(const struct partition_db *d)
{
	return d->next_number;
}

static uint64_t property(struct partition_db *d, const char *name)
{
	uint64_t n = 0;
	if (atomic_load(&d->bare_is_closed) || partition_db_enter(d, NULL))
		return 0;
	char *v = rocksdb_property_value(d->db, name);
	if (v) {
		n = strtoull(v, NULL, 10);
		rocksdb_free(v);
	}
	partition_db_leave(d);
	return n;
}

uint64_t partition_db_bytes(struct partition_db *d)
{
	return property(d, "rocksdb.total-sst-files-size");
}

uint64_t partition_db_table_memory(struct partition_db *d)
{
	return property(d, "rocksdb.estimate-table-readers-mem");
}

struct db_snapshot {
	const struct partition_db *d;
	const char *dir;
};

/* The copy rewrites its readable values when it is opened. */
static int db_snapshot_aside(void *arg, const char *name, struct err *e)
{
	const struct db_snapshot *s = arg;
	(void)e;
	if (!view_ends(view_of(name), VIEW(PARTITION_DB_ASIDE)))
		return 0;
	AUTOFREE char *from = xasprintf("%s/%s", s->d->dir, name), *to = xasprintf("%s/%s", s->dir, name);
	if (link(from, to))
		LOG_WARN("msg", "a snapshot lacks what is readable in a damaged file", "file", from, "err", strerror(errno));
	return 0;
}

int partition_db_snapshot(struct partition_db *d, const char *dir, struct err *e)
{
	int rc = partition_db_enter(d, e);
	if (rc)
		return rc;
	rc = rocks_checkpoint(d->db, dir, e);
	partition_db_leave(d);
	return rc ? rc : files_each(d->dir, db_snapshot_aside, &(struct db_snapshot){ d, dir }, e);
}
