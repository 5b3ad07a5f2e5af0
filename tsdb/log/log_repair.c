/* SPDX-License-Identifier: Apache-2.0 */
/* RocksDB's own repair is not safe for a log that must survive. It works in place, and refuses overlapping files (a write-ahead file
 * that was just flushed and its table always overlap). It drops a file for one bad block. When it fails, it leaves an empty database,
 * the next open of which removes all files.
 *
 * So each file is read without RocksDB (table.h, wal.h), around the damage, and the intact parts are copied:
 *
 *	PATH.new       the new database, being filled; thrown away after a crash
 *	PATH.whole     the same, filled and synced: from the moment that it has this name it stands for PATH
 *	PATH.bad-TIME  of the old one those files that could not be read wholly
 *
 * A record never changes, so that their union is the log: which of two files has it does not matter. The caller ignores trimmed
 * records. Remains of a failed commit are void (hlog.c), whichever file contains them. Runs before any thread, or without other users
 * of the log. */
#include "tsdb/log/log_repair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/vec.h"
#include "tsdb/disk/table.h"
#include "tsdb/disk/wal.h"

#define TRIES 2
#define BATCH_BYTES (1 << 20)

struct file {
	bool is_log, bad, cut; /* cut: at its end, as a power loss leaves it */
	unsigned long long number;
	char *name;
};

struct log_repair {
	rocksdb_options_t *options;
	const char *path;
	char *fresh, *whole;
	log_repair_judge *judge;
	void *arg;
	rocksdb_t *to;
	rocksdb_writeoptions_t *write;
	rocksdb_writebatch_t *batch, *voids; /* voids: written last */
	size_t bytes; /* in batch */
	VEC(struct file) files;
	bool write_failed;
	uint64_t taken, passed_over, bad_files;
	uint64_t highest; /* number of a record taken */
};

static int add_file(void *arg, const char *name, struct err *e)
{
	struct log_repair *r = arg;
	bool is_log = view_ends(view_of(name), VIEW(".log"));
	(void)e;
	if (is_log || view_ends(view_of(name), VIEW(".sst")))
		vec_push(&r->files, (struct file){ is_log, false, false, strtoull(name, NULL, 10), xstrdup(name) });
	return 0;
}

static int by_age(const void *a, const void *b)
{
	const struct file *x = a, *y = b;
	if (x->is_log != y->is_log)
		return x->is_log - y->is_log;
	return (x->number > y->number) - (x->number < y->number);
}

/* ---- one file ---- */

static int write_batch(struct log_repair *r, rocksdb_writebatch_t *batch, struct err *e)
{
	char *error = NULL;
	rocksdb_write(r->to, r->write, batch, &error);
	rocksdb_writebatch_clear(batch);
	r->bytes = 0;
	r->write_failed = error != NULL;
	return rocks_err(&error, e, "cannot write", r->fresh);
}

/* 0: it is the key of no record. */
static uint64_t number_of(struct view key)
{
	uint64_t number = 0;
	for (size_t i = 0; key.len == 8 && i < 8; i++)
		number = number << 8 | (uint8_t)key.ptr[i];
	return number;
}

static int copy(void *arg, struct view key, struct view value, struct err *e)
{
	struct log_repair *r = arg;
	enum log_repair_verdict verdict = r->judge(r->arg, key.ptr, key.len, value);
	r->taken += verdict == LOG_REPAIR_TAKE;
	r->passed_over += verdict == LOG_REPAIR_PASS;
	if (verdict == LOG_REPAIR_VOID)
		rocksdb_writebatch_put(r->voids, key.ptr, key.len, value.ptr, value.len);
	if (verdict != LOG_REPAIR_TAKE)
		return 0;
	rocksdb_writebatch_put(r->batch, key.ptr, key.len, value.ptr, value.len);
	r->highest = MAX(r->highest, number_of(key));
	r->bytes += value.len;
	return r->bytes < BATCH_BYTES ? 0 : write_batch(r, r->batch, e);
}

static int copy_entry(void *arg, struct view entry, struct err *e)
{
	int rc;
	wal_batch(entry, copy, arg, &rc, e);
	return rc;
}

static int copy_log(struct log_repair *r, const char *path, struct file *f, struct err *e)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct wal_loss loss;
	int read = buf_read_file(&bytes, path, e), rc = wal_each(buf_view(&bytes), copy_entry, r, &loss, e);
	f->bad = read || loss.holes;
	f->cut = loss.tail;
	return rc ? rc : read;
}

static int copy_table(struct log_repair *r, const char *path, struct file *f, struct err *e)
{
	struct table_loss loss;
	int rc = table_each(path, copy, r, &loss, e);
	f->bad = rc || loss.blocks || loss.index;
	if (loss.blocks || loss.index)
		err_set(e, ERR_CORRUPT, loss.index ? "its index cannot be read" : "%llu blocks of it cannot be read",
			(unsigned long long)loss.blocks);
	return rc;
}

/* A record that is read twice is put twice: that does no harm. */
static int take(struct log_repair *r, struct file *f, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", r->path, f->name);
	uint64_t taken = r->taken, passed_over = r->passed_over;
	int rc = 0;
	f->bad = true;
	for (int tries = 0; f->bad && tries < TRIES; tries++) { /* it may only have been read wrong */
		struct err other = { 0 };
		r->taken = taken;
		r->passed_over = passed_over;
		rc = f->is_log ? copy_log(r, path, f, &other) : copy_table(r, path, f, &other);
		if (!rc || !r->write_failed) {
			int written = write_batch(r, r->batch, &other);
			rc = written ? written : rc;
		}
		*e = other;
		if (r->write_failed)
			return rc;
	}
	return rc && rocks_of_the_place(e) ? rc : 0;
}

/* A write-ahead file that is cut at its end is damaged if the log was known to have more than is found. */
static void judge_files(struct log_repair *r, uint64_t synced)
{
	for (size_t i = 0; i < r->files.n; i++) {
		struct file *f = &r->files.v[i];
		f->bad |= f->cut && r->highest < synced;
		r->bad_files += f->bad;
		if (f->bad)
			LOG_ERROR("msg", "a file of the head log is damaged: what only the damaged part of it held is lost", "dir", r->path,
				  "file", f->name);
	}
}

/* ---- all of it ---- */

static int fill(struct log_repair *r, uint64_t synced, struct err *e)
{
	char *error = NULL;
	int rc = files_each(r->path, add_file, r, e);
	if (rc)
		return rc;
	if (r->files.n)
		qsort(r->files.v, r->files.n, sizeof *r->files.v, by_age);
	r->to = rocksdb_open(r->options, r->fresh, &error);
	rc = rocks_err(&error, e, "cannot make", r->fresh);
	for (size_t i = 0; i < r->files.n && !rc; i++)
		rc = take(r, &r->files.v[i], e);
	judge_files(r, synced);
	if (!rc)
		rc = write_batch(r, r->voids, e);
	if (!rc) {
		rocksdb_flushoptions_t *o = rocksdb_flushoptions_create(); /* it waits */
		rocksdb_flush(r->to, o, &error);
		rocksdb_flushoptions_destroy(o);
		rc = rocks_err(&error, e, "cannot write", r->fresh);
	}
	return rc;
}

static int sync_above(const char *path, struct err *e)
{
	AUTOFREE char *above = xstrdup(path);
	char *slash = strrchr(above, '/');
	if (slash)
		*slash = 0;
	return files_sync_dir(above, e);
}

static int move(const char *from, const char *to, struct err *e)
{
	return rename(from, to) ? err_errno(e, errno, "cannot rename %s", from) : sync_above(to, e);
}

/* PATH.whole replaces the existing directory. */
static int put_in_place(const char *path, const char *whole, const char *away, struct err *e)
{
	int rc = access(path, F_OK) ? 0 : move(path, away, e);
	return rc ? rc : move(whole, path, e);
}

struct keeping {
	const struct log_repair *r;
	const char *dir;
};

static int remove_whole(void *arg, const char *name, struct err *e)
{
	const struct keeping *k = arg;
	(void)e;
	for (size_t i = 0; i < k->r->files.n; i++)
		if (k->r->files.v[i].bad && !strcmp(k->r->files.v[i].name, name))
			return 0;
	AUTOFREE char *path = xasprintf("%s/%s", k->dir, name);
	unlink(path);
	return 0;
}

/* Only damaged files are kept: the intact ones are in the new log. */
static void keep_bad(const struct log_repair *r, const char *dir)
{
	IGNORE(files_each(dir, remove_whole, &(struct keeping){ r, dir }, NULL)); /* what stays takes room, no more */
	LOG_ERROR("msg", "damaged files of the head log are kept aside; the directory can be removed when it is no longer needed",
		  "dir", dir, "files", LOG_NUM(r->bad_files));
}

static int swap(struct log_repair *r, struct err *e)
{
	AUTOFREE char *bad = xasprintf("%s" LOG_REPAIR_BAD "%lld", r->path, (long long)clock_now_ms());
	int rc = sync_above(r->fresh, e); /* the name that it has until now, before it gets another */
	if (!rc)
		rc = move(r->fresh, r->whole, e);
	if (!rc)
		rc = put_in_place(r->path, r->whole, bad, e);
	if (!rc && !r->bad_files)
		files_remove_tree(bad);
	else if (!rc)
		keep_bad(r, bad);
	return rc;
}

static void log_repair_release(struct log_repair *r)
{
	for (size_t i = 0; i < r->files.n; i++)
		free(r->files.v[i].name);
	vec_free(&r->files);
	rocksdb_writebatch_destroy(r->batch);
	rocksdb_writebatch_destroy(r->voids);
	rocksdb_writeoptions_destroy(r->write);
	free(r->fresh);
	free(r->whole);
}

static void log_repair_init(struct log_repair *r)
{
	r->fresh = xasprintf("%s.new", r->path);
	r->whole = xasprintf("%s.whole", r->path);
	r->write = rocksdb_writeoptions_create();
	r->batch = rocksdb_writebatch_create();
	r->voids = rocksdb_writebatch_create();
	rocksdb_writeoptions_disable_WAL(r->write, 1);
}

static void say(const struct log_repair *r, const char *what)
{
	LOG_WARN("msg", what, "dir", r->path, "files", LOG_NUM(r->files.n), "damaged", LOG_NUM(r->bad_files), "records",
		 LOG_NUM(r->taken), "passed_over", LOG_NUM(r->passed_over));
}

int log_repair(rocksdb_options_t *o, const char *path, log_repair_judge *judge, void *arg, uint64_t synced, struct err *e)
{
	struct log_repair r = { .options = o, .path = path, .judge = judge, .arg = arg };
	log_repair_init(&r);
	files_remove_tree(r.fresh);
	int rc = fill(&r, synced, e);
	if (r.to)
		rocksdb_close(r.to);
	if (!rc)
		rc = swap(&r, e);
	else
		files_remove_tree(r.fresh);
	if (!rc)
		say(&r, "the head log or its list of files was damaged: it was rebuilt from everything readable in its files");
	log_repair_release(&r);
	return rc;
}

int log_repair_in_memory(rocksdb_options_t *o, const char *path, log_repair_judge *judge, void *arg, uint64_t synced,
			 rocksdb_t **ret, struct err *e)
{
	struct log_repair r = { .options = o, .path = path, .judge = judge, .arg = arg };
	log_repair_init(&r);
	int rc = fill(&r, synced, e);
	if (rc && r.to)
		rocksdb_close(r.to);
	if (!rc) {
		*ret = r.to;
		say(&r, "the head log or its list of files is damaged and cannot be written: what can be read of its files was read into memory");
	}
	log_repair_release(&r);
	return rc;
}

int log_repair_finish(const char *path, struct err *e)
{
	AUTOFREE char *fresh = xasprintf("%s.new", path), *whole = xasprintf("%s.whole", path),
		      *bad = xasprintf("%s" LOG_REPAIR_BAD "%lld", path, (long long)clock_now_ms());
	if (access(fresh, F_OK) == 0)
		files_remove_tree(fresh);
	return access(whole, F_OK) ? 0 : put_in_place(path, whole, bad, e);
}

/* ---- looking before RocksDB does ---- */

struct looking {
	const char *path;
	uint64_t highest; /* number of a record */
	uint64_t sequence; /* of the file's last entry */
	bool hole, tail;
};

static int see(void *arg, struct view key, struct view value, struct err *e)
{
	struct looking *l = arg;
	(void)value, (void)e;
	l->highest = MAX(l->highest, number_of(key));
	return 0;
}

/* RocksDB asserts that sequence numbers ascend: in a file that repeats itself, after a write that went astray, they do not. */
static int see_entry(void *arg, struct view entry, struct err *e)
{
	struct looking *l = arg;
	uint64_t sequence = wal_sequence(entry);
	int rc;
	l->hole |= sequence < l->sequence;
	l->sequence = sequence;
	wal_batch(entry, see, arg, &rc, e);
	return rc;
}

static int look_at(void *arg, const char *name, struct err *e)
{
	struct looking *l = arg;
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct wal_loss loss;
	if (!view_ends(view_of(name), VIEW(".log")))
		return 0;
	AUTOFREE char *path = xasprintf("%s/%s", l->path, name);
	if (buf_read_file(&bytes, path, e))
		return 0; /* RocksDB will report it */
	l->sequence = 0;
	IGNORE(wal_each(buf_view(&bytes), see_entry, l, &loss, e)); /* what it stops at RocksDB will say */
	l->hole |= loss.holes > 0;
	l->tail |= loss.tail;
	return 0;
}

bool log_repair_is_needed(const char *path, uint64_t synced)
{
	struct looking l = { .path = path };
	struct err e;
	IGNORE(files_each(path, look_at, &l, &e)); /* RocksDB will report it */
	return l.hole || (l.tail && l.highest && l.highest < synced);
}
