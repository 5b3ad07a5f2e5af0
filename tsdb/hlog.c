/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/hlog.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "tsdb/files.h"
#include "tsdb/record.h"
#include "tsdb/rocks.h"

#define OPEN_TRIES 3
#define OPEN_WAIT_MS 100

struct hlog {
	char *dir, *path;
	rocksdb_t *db;
	bool look_only;
	rocksdb_options_t *options;
	rocksdb_writeoptions_t *sync;
	rocksdb_readoptions_t *read;
	rocksdb_writebatch_t *batch;
	uint64_t next;              /* of the record that is put next */
	atomic_ullong last, first;  /* synced; not trimmed */
	uint64_t marked_last, marked_first; /* as head.marks has them */
	pthread_mutex_t mark_lock;
	pthread_rwlock_t db_lock;   /* written by hlog_reopen: db may be NULL after it failed */
};

/* ---- marks ---- */

static void marks_checksum(char out[20], uint64_t synced, uint64_t first)
{
	uint64_t both[2] = { synced, first };
	snprintf(out, 20, "%016" PRIx64, hash_bytes(both, sizeof both));
}

static void read_marks(struct hlog *l)
{
	char *name = xasprintf("%s/head.marks", l->dir), sum[20], want[20];
	unsigned long long synced, first;
	FILE *f = fopen(name, "re");
	if (f) {
		if (fscanf(f, "pyrrha-head-marks 1\nsynced %llu\nfirst %llu\nchecksum %16s", &synced, &first, sum) == 3) {
			marks_checksum(want, synced, first);
			if (!strcmp(sum, want)) {
				l->marked_last = synced;
				l->marked_first = first;
			}
		}
		fclose(f);
	}
	free(name);
}

static int write_marks(const char *dir, uint64_t synced, uint64_t first, struct err *e)
{
	char text[160], sum[20];
	marks_checksum(sum, synced, first);
	snprintf(text, sizeof text, "pyrrha-head-marks 1\nsynced %" PRIu64 "\nfirst %" PRIu64 "\nchecksum %s\n", synced, first, sum);
	return files_put(dir, "head.marks", view_of(text), e);
}

int hlog_mark(struct hlog *l, struct err *e)
{
	pthread_mutex_lock(&l->mark_lock);
	uint64_t last = atomic_load(&l->last), first = atomic_load(&l->first);
	int rc = 0;
	if (last != l->marked_last || first != l->marked_first) {
		rc = write_marks(l->dir, last, first, e);
		if (!rc) {
			l->marked_last = last;
			l->marked_first = first;
		}
	}
	pthread_mutex_unlock(&l->mark_lock);
	return rc;
}

/* ---- open, close ---- */

static void free_log(struct hlog *l)
{
	if (l->db)
		rocksdb_close(l->db);
	if (l->batch)
		rocksdb_writebatch_destroy(l->batch);
	if (l->sync)
		rocksdb_writeoptions_destroy(l->sync);
	if (l->read)
		rocksdb_readoptions_destroy(l->read);
	if (l->options)
		rocksdb_options_destroy(l->options);
	pthread_mutex_destroy(&l->mark_lock);
	pthread_rwlock_destroy(&l->db_lock);
	free(l->dir);
	free(l->path);
	free(l);
}

static int look(struct hlog *l, struct err *e)
{
	char *error = NULL;
	l->db = rocksdb_open_for_read_only(l->options, l->path, 0, &error);
	return rocks_err(&error, e, "cannot open the head log", l->path);
}

/* What fails only for a moment does not refuse a start. */
static int open_db(struct hlog *l, bool *ret_writable, struct err *e)
{
	char *error = NULL;
	int rc = -1;
	for (int tries = 0; rc && tries < OPEN_TRIES; tries++) {
		if (tries)
			clock_sleep_ms(OPEN_WAIT_MS);
		l->db = rocksdb_open(l->options, l->path, &error);
		rc = rocks_err(&error, e, "cannot open the head log", l->path);
		*ret_writable = !rc;
		if (!rc)
			break;
		struct err read_only = { 0 };
		if (rc == -ERR_CORRUPT && !rocks_repair(l->options, l->path, &read_only)) {
			LOG_WARN("msg", "the head log's list of files was damaged and was made anew", "err", e->msg);
			continue;
		}
		l->db = rocksdb_open_for_read_only(l->options, l->path, 0, &error);
		if (rocks_err(&error, &read_only, "cannot open the head log for reading", l->path))
			continue;
		LOG_WARN("msg", "the head log can be read and not be written: appends are refused until it can", "err", e->msg);
		rc = 0;
	}
	return rc;
}

int hlog_open(struct hlog **ret, const char *dir, bool *ret_writable, struct err *e)
{
	struct hlog *l = NEW(struct hlog);
	pthread_mutex_init(&l->mark_lock, NULL);
	pthread_rwlock_init(&l->db_lock, NULL);
	l->dir = xstrdup(dir);
	l->path = xasprintf("%s/head", dir);
	l->next = 1;
	atomic_init(&l->last, 0);
	atomic_init(&l->first, 1);
	l->options = rocks_options(NULL);
	/* Never point in time: that open deletes the log behind a flipped byte. */
	rocksdb_options_set_wal_recovery_mode(l->options, rocksdb_skip_any_corrupted_records_recovery);
	/* A record lives for an hour and a quarter: most are trimmed before they would leave memory, and it does not pay
	 * to compress the rest. */
	rocksdb_options_set_write_buffer_size(l->options, 64 << 20);
	rocksdb_options_set_compression(l->options, rocksdb_no_compression);
	rocksdb_options_set_max_write_buffer_number(l->options, 3);
	l->look_only = !ret_writable;
	int rc = l->look_only ? look(l, e) : open_db(l, ret_writable, e);
	if (rc) {
		free_log(l);
		return rc;
	}
	l->sync = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(l->sync, 1);
	l->read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_fill_cache(l->read, 0);
	l->batch = rocksdb_writebatch_create();
	read_marks(l);
	*ret = l;
	return 0;
}

int hlog_close(struct hlog *l, struct err *e)
{
	if (!l)
		return 0;
	int rc = l->look_only ? 0 : hlog_mark(l, e);
	free_log(l);
	return rc;
}

/* ---- replay ---- */

static uint64_t key_number(const char *key)
{
	uint64_t v = 0;
	for (int i = 0; i < 8; i++)
		v = v << 8 | (uint8_t)key[i];
	return v;
}

static void lost(struct hlog_loss *x, uint64_t first, uint64_t last)
{
	if (!x->first || first < x->first)
		x->first = first;
	if (last > x->last)
		x->last = last;
}

/* Below the first mark only facts are left, so that holes there mean nothing. Without marks (they are lost, or this
 * is the first open) the prefix counts as trimmed. */
static void look_for_hole(struct hlog *l, struct hlog_loss *x, uint64_t before, uint64_t number)
{
	uint64_t from = before + 1;
	if (from < l->marked_first || !l->marked_first)
		from = l->marked_first ? l->marked_first : before ? before + 1 : number;
	if (from >= number)
		return;
	x->holes += number - from;
	lost(x, from, number - 1);
}

int hlog_replay(struct hlog *l, bool (*fn)(void *arg, uint64_t number, struct view record), void *arg,
		struct hlog_loss *ret, struct err *e)
{
	char *error = NULL;
	uint64_t before = 0;
	*ret = (struct hlog_loss){ 0 };
	rocksdb_iterator_t *it = rocksdb_create_iterator(l->db, l->read);
	for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
		size_t key_len, len;
		const char *key = rocksdb_iter_key(it, &key_len), *value = rocksdb_iter_value(it, &len);
		if (key_len != 8)
			continue;
		uint64_t number = key_number(key);
		look_for_hole(l, ret, before, number);
		if (!fn(arg, number, view_make(value, len))) {
			ret->bad++;
			lost(ret, number, number);
		}
		before = number;
	}
	rocksdb_iter_get_error(it, &error);
	rocksdb_iter_destroy(it);
	if (before < l->marked_last) {
		ret->cut = l->marked_last - MAX(before, l->marked_first ? l->marked_first - 1 : 0);
		ret->holes += ret->cut;
		if (ret->cut)
			lost(ret, l->marked_last - ret->cut + 1, l->marked_last);
		before = l->marked_last;
	}
	l->next = before + 1;
	atomic_store(&l->last, before);
	atomic_store(&l->first, l->marked_first ? l->marked_first : 1);
	return rocks_err(&error, e, "cannot read the head log", l->path);
}

/* ---- writing ---- */

static void put_key(char key[8], uint64_t number)
{
	for (int i = 0; i < 8; i++)
		key[i] = (char)(number >> (56 - 8 * i));
}

uint64_t hlog_put(struct hlog *l, struct buf *record)
{
	char key[8];
	record_end(record, l->next);
	put_key(key, l->next);
	rocksdb_writebatch_put(l->batch, key, sizeof key, record->ptr, record->len);
	return l->next++;
}

void hlog_abort(struct hlog *l)
{
	rocksdb_writebatch_clear(l->batch);
	l->next = atomic_load(&l->last) + 1;
}

int hlog_commit(struct hlog *l, struct err *e)
{
	char *error = NULL;
	int rc = 0;
	pthread_rwlock_rdlock(&l->db_lock);
	if (l->db)
		rocksdb_write(l->db, l->sync, l->batch, &error);
	else
		rc = err_set(e, ERR_IO, "the head log %s is closed after an error", l->path);
	pthread_rwlock_unlock(&l->db_lock);
	rocksdb_writebatch_clear(l->batch);
	if (!rc)
		rc = rocks_err(&error, e, "cannot write the head log", l->path);
	if (rc)
		l->next = atomic_load(&l->last) + 1;
	else
		atomic_store(&l->last, l->next - 1);
	return rc;
}

/* Everything above the last synced number: a failed commit said that it is not there. */
static int cut_above(struct hlog *l, struct err *e)
{
	char from[8], to[8], *error = NULL;
	put_key(from, atomic_load(&l->last) + 1);
	put_key(to, UINT64_MAX);
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	rocksdb_writebatch_delete_range(batch, from, 8, to, 8);
	rocksdb_write(l->db, l->sync, batch, &error);
	rocksdb_writebatch_destroy(batch);
	return rocks_err(&error, e, "cannot write the head log", l->path);
}

int hlog_reopen(struct hlog *l, struct err *e)
{
	char *error = NULL;
	pthread_rwlock_wrlock(&l->db_lock);
	if (l->db)
		rocksdb_close(l->db);
	l->db = rocksdb_open(l->options, l->path, &error);
	int rc = rocks_err(&error, e, "cannot open the head log again", l->path);
	if (!rc)
		rc = cut_above(l, e);
	pthread_rwlock_unlock(&l->db_lock);
	return rc;
}

uint64_t hlog_last(const struct hlog *l)
{
	return atomic_load(&l->last);
}

uint64_t hlog_first(const struct hlog *l)
{
	return atomic_load(&l->first);
}

int hlog_trim(struct hlog *l, uint64_t below, const uint64_t *keep, size_t n_keep, struct err *e)
{
	uint64_t from = 0;
	char *error = NULL, a[8], b[8];
	if (below <= atomic_load(&l->first))
		return 0;
	/* The mark first: a crash in between leaves records too many, which replay skips. */
	atomic_store(&l->first, below);
	int rc = hlog_mark(l, e);
	if (rc)
		return rc;
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	for (size_t i = 0; i <= n_keep; i++) {
		uint64_t to = i < n_keep && keep[i] < below ? keep[i] : below;
		put_key(a, from);
		put_key(b, to);
		if (from < to)
			rocksdb_writebatch_delete_range(batch, a, 8, b, 8);
		from = to + 1;
		if (to == below)
			break;
	}
	rocksdb_writeoptions_t *unsynced = rocksdb_writeoptions_create();
	pthread_rwlock_rdlock(&l->db_lock);
	if (l->db)
		rocksdb_write(l->db, unsynced, batch, &error);
	pthread_rwlock_unlock(&l->db_lock);
	rocksdb_writeoptions_destroy(unsynced);
	rocksdb_writebatch_destroy(batch);
	return rocks_err(&error, e, "cannot trim the head log", l->path);
}

void hlog_give_back(struct hlog *l)
{
	char *error = NULL;
	rocksdb_flushoptions_t *o = rocksdb_flushoptions_create();
	rocksdb_flushoptions_set_wait(o, 0);
	pthread_rwlock_rdlock(&l->db_lock);
	if (l->db)
		rocksdb_flush(l->db, o, &error); /* its write-ahead file goes with it */
	pthread_rwlock_unlock(&l->db_lock);
	rocks_err(&error, NULL, "", "");
	rocksdb_flushoptions_destroy(o);
}

int hlog_snapshot(struct hlog *l, const char *dir, struct err *e)
{
	AUTOFREE char *head = xasprintf("%s/head", dir);
	/* What is committed meanwhile may or may not be in it: the mark is from before. */
	uint64_t last = atomic_load(&l->last), first = atomic_load(&l->first);
	pthread_rwlock_rdlock(&l->db_lock);
	int rc = l->db ? rocks_checkpoint(l->db, head, e) : err_set(e, ERR_IO, "the head log is closed after an error");
	pthread_rwlock_unlock(&l->db_lock);
	return rc ? rc : write_marks(dir, last, first, e);
}

static uint64_t property(const struct hlog *l, const char *name)
{
	uint64_t n = 0;
	char *v = l->db ? rocksdb_property_value(l->db, name) : NULL;
	if (v) {
		n = strtoull(v, NULL, 10);
		rocksdb_free(v);
	}
	return n;
}

uint64_t hlog_bytes(struct hlog *l)
{
	pthread_rwlock_rdlock(&l->db_lock);
	uint64_t n = property(l, "rocksdb.total-sst-files-size") + property(l, "rocksdb.cur-size-all-mem-tables");
	pthread_rwlock_unlock(&l->db_lock);
	return n;
}
