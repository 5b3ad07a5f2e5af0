/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing. A directory holds
 *
 *	lock         flock'ed by the process that has it open
 *	version      "pyrrha-tsdb 5" and a checksum
 *	head/        the head log (a RocksDB)     head.marks   how far it was synced
 *	head.end     what its newest records hold
 *	dropped      which days retention dropped
 *	head.holes   what the head log has lost   head.holes.copy   the same
 *	snapshot     of a snapshot that was not opened yet: whether it is complete
 *	partitions/  a database per UTC day
 *	bucket/      which server it is to its bucket, and what that has
 */
#include "tsdb/tsdb.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/flag.h"
#include "base/log.h"
#include "tsdb/admin.h"
#include "tsdb/format.h"
#include "tsdb/read/scratch.h"
#include "tsdb/read/view.h"
#include "tsdb/seal/seal.h"
#include "tsdb/snapshot.h"
#include "tsdb/snapshot_mark.h"
#include "tsdb/transfer/transfer.h"
#include "tsdb/upkeep/name_finder.h"
#include "tsdb/upkeep/partition_drop.h"
#include "tsdb/upkeep/partition_open.h"
#include "tsdb/upkeep/retention_rules.h"
#include "tsdb/upkeep/sealer.h"
#include "tsdb/version/db.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/write/append.h"
#include "tsdb/write/committer.h"
#include "tsdb/write/replay.h"

#define QUEUE_ITEMS 65536

/* The holder of the lock, according to the file: " (process 123, pyrrha)". */
static void say_holder(int fd, char *ret, size_t len)
{
	char pid[24] = "", name[64] = "", *end;
	ret[0] = 0;
	ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
	long id = n > 0 ? strtol(pid, &end, 10) : 0;
	if (id <= 0)
		return;
	AUTOFREE char *path = xasprintf("/proc/%ld/comm", id);
	FILE *f = fopen(path, "re");
	if (f) {
		if (fgets(name, sizeof name, f))
			name[strcspn(name, "\n")] = 0;
		fclose(f);
	}
	snprintf(ret, len, " (process %ld%s%s)", id, name[0] ? ", " : "", name);
}

static int lock_dir(struct tsdb *db, struct err *e)
{
	AUTOFREE char *name = xasprintf("%s/lock", db->path);
	char text[96];
	db->lock_fd = open(name, db->o.read_only ? O_RDONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	if (db->lock_fd < 0 && errno == EROFS) /* what is there can be asked for all the same */
		db->lock_fd = open(name, O_RDONLY | O_CLOEXEC);
	if (db->lock_fd < 0 && db->o.read_only && errno == ENOENT)
		return 0; /* a snapshot that was never opened, or no storage at all: check_format tells */
	if (db->lock_fd < 0)
		return err_errno(e, errno, "cannot open %s", name);
	if (flock(db->lock_fd, (db->o.read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) {
		int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
		if (!db->o.read_only && snapshot_mark_remove(db) && (ftruncate(db->lock_fd, 0) || pwrite(db->lock_fd, text, (size_t)n, 0) != n))
			LOG_DEBUG("msg", "cannot write the owner into the lock file", "file", name);
		return 0;
	}
	if (errno != EWOULDBLOCK)
		return err_errno(e, errno, "cannot lock %s", name);
	say_holder(db->lock_fd, text, sizeof text);
	return err_set(e, ERR_CONFLICT, "%s is in use by another process%s: stop it or choose another directory (--storage.path)",
		       db->path, text);
}

static void set_defaults(struct tsdb_options *o)
{
	if (!o->retention_ms)
		o->retention_ms = 15 * DAY_MS;
	if (!o->head_bytes)
		o->head_bytes = 256 << 20;
	if (!o->cache_bytes)
		o->cache_bytes = 256 << 20;
	if (!o->dictionary_bytes)
		o->dictionary_bytes = 256 << 20;
	if (!o->queue_bytes)
		o->queue_bytes = 64 << 20;
	if (!o->log_bytes)
		o->log_bytes = HLOG_BUFFERS * (UINT64_C(64) << 20);
	if (!o->commit_interval_ms)
		o->commit_interval_ms = 20;
	if (!o->service_labels)
		o->service_labels = TSDB_SERVICE_LABELS;
	if (!o->max_series)
		o->max_series = 1000000;
	if (!o->bucket_cache_bytes)
		o->bucket_cache_bytes = UINT64_C(10) << 30;
	if (!o->grace_ms)
		o->grace_ms = DAY_MS;
	if (!o->max_target_functions)
		o->max_target_functions = 200000;
	if (!o->max_target_locations)
		o->max_target_locations = 500000;
	if (!o->max_target_stacks)
		o->max_target_stacks = 1000000;
	if (!o->max_label_sets)
		o->max_label_sets = 10000;
}

static struct tsdb *db_new(const struct tsdb_options *o)
{
	struct tsdb *db = NEW(struct tsdb);
	db->o = *o;
	set_defaults(&db->o);
	db->path = xstrdup(o->path);
	db->o.path = db->path;
	db->service_labels = xstrdup(db->o.service_labels);
	db->o.service_labels = db->service_labels;
	db->lock_fd = -1;
	db->sink = (struct sink){ tsdb_append, tsdb_notes };
	db->source.open = tsdb_view_open;
	tsdb_admin_init(db);
	mutex_init(&db->apply_lock, RANK_TSDB_APPLY, "apply");
	mutex_init(&db->seal_lock, RANK_TSDB_SEAL, "seal");
	mutex_init(&db->state_lock, RANK_TSDB_STATE, "state");
	mutex_init(&db->rules_lock, LOCK_LEAF, "retention rules");
	pthread_cond_init(&db->state_cond, NULL);
	mutex_init(&db->flush_lock, LOCK_LEAF, "flush");
	pthread_cond_init(&db->flush_cond, NULL);
	pthread_cond_init(&db->hurry_cond, NULL);
	mutex_init(&db->head_lock, LOCK_LEAF, "head");
	pthread_cond_init(&db->head_cond, NULL);
	pthread_cond_init(&db->stop_cond, NULL);
	mutex_init(&db->readers_lock, LOCK_LEAF, "readers");
	pthread_cond_init(&db->readers_cond, NULL);
	atomic_init(&db->newest_t, INT64_MIN);
	retention_clock_init(&db->retention_clock);
	holes_init(&db->holes);
	db->current = NEW(struct version);
	atomic_init(&db->current->refs, 1);
	db->current->p = xcalloc(1, sizeof(*db->current->p));
	db->dict_unions = dict_unions_new(SYMBOLS_WHOLE, db->o.dictionary_bytes);
	db->name_unions = dict_unions_new(SYMBOLS_NAMES, db->o.dictionary_bytes / 2);
	db->scratch_pool = scratch_pool_new();
	db->queue = queue_new(QUEUE_ITEMS, db->o.queue_bytes);
	db->cache = rocksdb_cache_create_lru(db->o.cache_bytes);
	return db;
}

static void db_free(struct tsdb *db)
{
	tsdb_wait_dropped(db);
	vec_free(&db->leaving);
	dropped_release(&db->dropped);
	vec_free(&db->emptied);
	retention_clock_destroy(&db->retention_clock);
	holes_destroy(&db->holes);
	retention_rules_unref(db->rules);
	name_finder_free(db->finder);
	version_unref(db->current);
	for (size_t i = 0; i < db->partitions.n; i++)
		partition_unref(db->partitions.v[i]);
	vec_free(&db->partitions);
	vec_free(&db->tapped);
	dict_unions_free(db->dict_unions);
	dict_unions_free(db->name_unions);
	scratch_pool_free(db->scratch_pool);
	if (db->queue)
		queue_free(db->queue);
	if (db->cache)
		rocksdb_cache_destroy(db->cache);
	if (db->lock_fd >= 0)
		close(db->lock_fd);
	mutex_destroy(&db->apply_lock);
	mutex_destroy(&db->seal_lock);
	mutex_destroy(&db->state_lock);
	mutex_destroy(&db->rules_lock);
	pthread_cond_destroy(&db->state_cond);
	mutex_destroy(&db->flush_lock);
	pthread_cond_destroy(&db->flush_cond);
	pthread_cond_destroy(&db->hurry_cond);
	mutex_destroy(&db->head_lock);
	pthread_cond_destroy(&db->head_cond);
	pthread_cond_destroy(&db->stop_cond);
	mutex_destroy(&db->readers_lock);
	pthread_cond_destroy(&db->readers_cond);
	free(db->path);
	free(db->service_labels);
	free(db);
}

int tsdb_open(struct tsdb **ret, const struct tsdb_options *o, struct err *e)
{
	struct tsdb *db = db_new(o);
	bool writable = true, was_empty = transfer_is_empty(db->path);
	int rc = db->o.read_only ? 0 : files_make_dirs(db->path, e);
	if (!rc)
		rc = snapshot_mark_check(db, e);
	if (!rc)
		rc = lock_dir(db, e);
	if (!rc && !db->o.read_only)
		snapshot_tidy(db);
	if (!rc)
		rc = format_check(db, e);
	if (!rc)
		rc = transfer_open(db, was_empty, e);
	if (!rc)
		rc = dropped_read(db, e);
	if (!rc)
		rc = holes_read(&db->holes, db->path, tsdb_now_ms(db), e);
	if (!rc)
		rc = hlog_open(&db->log, db->path, db->o.log_bytes, db->o.read_only ? NULL : &writable, e);
	atomic_store(&db->write_failed, !writable);
	if (!rc)
		rc = tsdb_open_partitions(db, e);
	if (!rc)
		rc = transfer_restore(db, e);
	db->first_record = transfer_first_record(db);
	if (!rc)
		rc = tsdb_replay(db, e);
	if (!rc) {
		dropped_start(db, hlog_last(db->log));
		retention_clock_start(db);
	}
	if (!rc && !db->o.no_sealing && !db->o.read_only) {
		rc = thread_start(&db->sealer, "seal", tsdb_sealer, db, e);
		db->have_sealer = !rc;
		if (!rc)
			rc = thread_start(&db->early_sealer, "seal-early", tsdb_early_sealer, db, e);
		db->have_early_sealer = db->have_sealer && !rc;
	}
	if (!rc && !db->o.read_only) {
		rc = thread_start(&db->committer, "commit", tsdb_committer, db, e);
		db->have_committer = !rc;
	}
	if (!rc)
		rc = transfer_start(db, e);
	if (rc) {
		IGNORE(tsdb_close(db, NULL)); /* rc says what was first */
		return rc;
	}
	*ret = db;
	return 0;
}

void tsdb_wind_down(struct tsdb *db)
{
	if (db->o.objects_stop)
		flag_raise(db->o.objects_stop);
	tsdb_stop(db);
}

int tsdb_close(struct tsdb *db, struct err *e)
{
	if (!db)
		return 0;
	queue_close(db->queue);
	tsdb_wind_down(db);
	tsdb_hurry(db, true);
	if (db->have_sealer)
		pthread_join(db->sealer, NULL);
	if (db->have_early_sealer)
		pthread_join(db->early_sealer, NULL);
	transfer_close(db); /* its thread may wait for the committer; the sealer reads its catalogue */
	if (db->have_committer)
		pthread_join(db->committer, NULL);
	int rc = hlog_close(db->log, e);
	db_free(db);
	return rc;
}

int tsdb_upload(struct tsdb *db, struct err *e)
{
	return transfer_run(db, true, e);
}

struct sink *tsdb_sink(struct tsdb *db)
{
	return &db->sink;
}

struct source *tsdb_source(struct tsdb *db)
{
	return &db->source;
}
