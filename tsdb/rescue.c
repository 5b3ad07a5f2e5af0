/* SPDX-License-Identifier: Apache-2.0 */
/* RocksDB's own repair is not for a log that must survive: it works in place, refuses files that overlap (a write-ahead file
 * that was flushed a moment ago and the table made of it always do), and when it fails it leaves an empty database, the next
 * open of which removes all files. A power loss can bring that about: RocksDB does not open a list of files (MANIFEST) whose
 * last, unsynced entry is there in length and not in content.
 *
 * So the repair is let loose on one file at a time, in a directory of its own, and what it finds is copied:
 *
 *	PATH.scratch   a link to one file, repaired and read; thrown away
 *	PATH.new       the new database, being filled; thrown away after a crash
 *	PATH.whole     the same, filled and synced: from the moment that it has this name it stands for PATH
 *	PATH.bad-TIME  the old one, if some file of it could not be read
 *
 * A record never changes, so that their union is the log: which of two files has it does not matter. What was trimmed the
 * caller does not take, and what a commit left that failed is void (hlog.c), which counts in whatever file it is found. Runs
 * before any thread. */
#include "tsdb/rescue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "tsdb/files.h"

#define TRIES 2
#define BATCH_BYTES (1 << 20)

struct file {
	bool is_log;
	unsigned long long number;
	char *name;
};

struct rescue {
	rocksdb_options_t *options;
	const char *path;
	char *scratch, *fresh, *whole;
	rescue_judge *judge;
	void *arg;
	rocksdb_t *to;
	rocksdb_writeoptions_t *write;
	rocksdb_readoptions_t *read;
	rocksdb_writebatch_t *batch, *voids; /* voids: written last */
	VEC(struct file) files;
	uint64_t taken, passed_over, bad_files;
};

static int add_file(void *arg, const char *name, struct err *e)
{
	struct rescue *r = arg;
	bool is_log = view_ends(view_of(name), VIEW(".log"));
	(void)e;
	if (is_log || view_ends(view_of(name), VIEW(".sst")))
		vec_push(&r->files, (struct file){ is_log, strtoull(name, NULL, 10), xstrdup(name) });
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

static int write_batch(struct rescue *r, rocksdb_writebatch_t *batch, struct err *e)
{
	char *error = NULL;
	rocksdb_write(r->to, r->write, batch, &error);
	rocksdb_writebatch_clear(batch);
	return rocks_err(&error, e, "cannot write", r->fresh);
}

static int copy_all(struct rescue *r, rocksdb_t *from, struct err *e)
{
	char *error = NULL;
	size_t bytes = 0;
	int rc = 0;
	rocksdb_iterator_t *it = rocksdb_create_iterator(from, r->read);
	for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it) && !rc; rocksdb_iter_next(it)) {
		size_t key_len, len;
		const char *key = rocksdb_iter_key(it, &key_len), *value = rocksdb_iter_value(it, &len);
		enum rescue_verdict verdict = r->judge(r->arg, key, key_len, view_make(value, len));
		r->taken += verdict == RESCUE_TAKE;
		r->passed_over += verdict == RESCUE_PASS;
		if (verdict == RESCUE_VOID)
			rocksdb_writebatch_put(r->voids, key, key_len, value, len);
		if (verdict != RESCUE_TAKE)
			continue;
		rocksdb_writebatch_put(r->batch, key, key_len, value, len);
		bytes += len;
		if (bytes >= BATCH_BYTES) {
			rc = write_batch(r, r->batch, e);
			bytes = 0;
		}
	}
	rocksdb_iter_get_error(it, &error);
	rocksdb_iter_destroy(it);
	int read = rocks_err(&error, e, "cannot read", r->scratch);
	return rc ? rc : read ? read : write_batch(r, r->batch, e);
}

static bool has_files(rocksdb_t *db)
{
	const rocksdb_livefiles_t *files = rocksdb_livefiles(db);
	bool any = rocksdb_livefiles_count(files) > 0;
	rocksdb_livefiles_destroy(files);
	return any;
}

/* -ERR_CORRUPT: it cannot be read. */
static int read_scratch(struct rescue *r, const struct file *f, struct err *e)
{
	char *error = NULL;
	rocksdb_repair_db(r->options, r->scratch, &error);
	int rc = rocks_err(&error, e, "cannot repair", r->scratch);
	if (rc)
		return rc;
	rocksdb_t *db = rocksdb_open_for_read_only(r->options, r->scratch, 0, &error);
	rc = rocks_err(&error, e, "cannot open", r->scratch);
	if (rc)
		return rc;
	if (!f->is_log && !has_files(db))
		rc = err_set(e, ERR_CORRUPT, "it is no table that can be read");
	if (!rc)
		rc = copy_all(r, db, e);
	rocksdb_close(db);
	return rc;
}

static int take_once(struct rescue *r, const struct file *f, struct err *e)
{
	AUTOFREE char *file = xasprintf("%s/%s", r->path, f->name), *copy = xasprintf("%s/%s", r->scratch, f->name);
	files_remove_tree(r->scratch);
	if (mkdir(r->scratch, 0750))
		return err_errno(e, errno, "cannot make %s", r->scratch);
	if (link(file, copy))
		return err_errno(e, errno, "cannot link %s", copy);
	return read_scratch(r, f, e);
}

static int take(struct rescue *r, const struct file *f, struct err *e)
{
	int rc = -1;
	for (int tries = 0; rc && tries < TRIES; tries++) /* it may only have been read wrong */
		rc = take_once(r, f, e);
	if (!rc || rocks_of_the_place(e))
		return rc;
	LOG_ERROR("msg", "a file of the head log cannot be read: what only it held is lost", "dir", r->path, "file", f->name, "err",
		  e->msg);
	r->bad_files++;
	return 0;
}

/* ---- all of it ---- */

static int fill(struct rescue *r, struct err *e)
{
	char *error = NULL;
	files_remove_tree(r->fresh);
	int rc = files_each(r->path, add_file, r, e);
	if (rc)
		return rc;
	if (r->files.n)
		qsort(r->files.v, r->files.n, sizeof *r->files.v, by_age);
	r->to = rocksdb_open(r->options, r->fresh, &error);
	rc = rocks_err(&error, e, "cannot make", r->fresh);
	for (size_t i = 0; i < r->files.n && !rc; i++)
		rc = take(r, &r->files.v[i], e);
	if (!rc)
		rc = write_batch(r, r->voids, e);
	if (!rc) {
		rocksdb_flushoptions_t *o = rocksdb_flushoptions_create(); /* it waits */
		rocksdb_flush(r->to, o, &error);
		rocksdb_flushoptions_destroy(o);
		rc = rocks_err(&error, e, "cannot write", r->fresh);
	}
	if (r->to)
		rocksdb_close(r->to);
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

/* PATH.whole takes the place of what is there. */
static int put_in_place(const char *path, const char *whole, const char *away, struct err *e)
{
	int rc = access(path, F_OK) ? 0 : move(path, away, e);
	return rc ? rc : move(whole, path, e);
}

static int swap(struct rescue *r, struct err *e)
{
	AUTOFREE char *bad = xasprintf("%s.bad-%lld", r->path, (long long)clock_now_ms());
	int rc = sync_above(r->fresh, e); /* the name that it has until now, before it gets another */
	if (!rc)
		rc = move(r->fresh, r->whole, e);
	if (!rc)
		rc = put_in_place(r->path, r->whole, bad, e);
	if (!rc && !r->bad_files)
		files_remove_tree(bad);
	return rc;
}

static void rescue_release(struct rescue *r)
{
	files_remove_tree(r->scratch);
	for (size_t i = 0; i < r->files.n; i++)
		free(r->files.v[i].name);
	vec_free(&r->files);
	rocksdb_writebatch_destroy(r->batch);
	rocksdb_writebatch_destroy(r->voids);
	rocksdb_writeoptions_destroy(r->write);
	rocksdb_readoptions_destroy(r->read);
	free(r->scratch);
	free(r->fresh);
	free(r->whole);
}

int rescue_log(rocksdb_options_t *o, const char *path, rescue_judge *judge, void *arg, struct err *e)
{
	struct rescue r = { .options = o, .path = path, .scratch = xasprintf("%s.scratch", path), .fresh = xasprintf("%s.new", path),
			    .whole = xasprintf("%s.whole", path), .judge = judge, .arg = arg, .write = rocksdb_writeoptions_create(),
			    .read = rocksdb_readoptions_create(), .batch = rocksdb_writebatch_create(),
			    .voids = rocksdb_writebatch_create() };
	rocksdb_writeoptions_disable_WAL(r.write, 1);
	rocksdb_readoptions_set_fill_cache(r.read, 0);
	int rc = fill(&r, e);
	if (!rc)
		rc = swap(&r, e);
	else
		files_remove_tree(r.fresh);
	if (!rc)
		LOG_WARN("msg", "the head log's list of files was damaged or gone: the log was made anew from its files", "dir", path,
			 "files", LOG_NUM(r.files.n), "unreadable", LOG_NUM(r.bad_files), "records", LOG_NUM(r.taken), "passed_over",
			 LOG_NUM(r.passed_over));
	rescue_release(&r);
	return rc;
}

int rescue_finish(const char *path, struct err *e)
{
	AUTOFREE char *scratch = xasprintf("%s.scratch", path), *fresh = xasprintf("%s.new", path),
		      *whole = xasprintf("%s.whole", path),
		      *bad = xasprintf("%s.bad-%lld", path, (long long)clock_now_ms());
	if (access(scratch, F_OK) == 0)
		files_remove_tree(scratch);
	if (access(fresh, F_OK) == 0)
		files_remove_tree(fresh);
	return access(whole, F_OK) ? 0 : put_in_place(path, whole, bad, e);
}
