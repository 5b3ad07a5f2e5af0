/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/cached/cached_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/map.h"
#include "tsdb/disk/text.h"

#define RUNS_HEAD "pyrrha-runs 1"
#define JOIN_GAP 16384 /* bytes between two runs that are fetched all the same, to save a request */
#define READ_PIECE (256 << 10)
#define ROOM_LEFT (UINT64_C(64) << 20) /* bytes that a fetch leaves free on the disk */

static char *file_path(const struct cached_file *f, const char *suffix)
{
	return xasprintf("%s/%s%s", f->dir->path, f->name, suffix);
}

static unsigned file_tail(const struct cached_file *f)
{
	return 1u << (f->runs.n - 1);
}

/* Where its bytes are: *ret_tail says whether RocksDB may open it. Returns owned. */
static char *file_data(const struct cached_file *f)
{
	char *sst = file_path(f, ".sst");
	if (f->whole) {
		free(sst);
		return file_path(f, "");
	}
	if (access(sst, F_OK) == 0)
		return sst;
	free(sst);
	return file_path(f, ".data");
}

/* ---- directories ---- */

struct cached_dir *cached_dir_new(const char *path, const struct generation *g, rocksdb_cache_t *cache)
{
	struct cached_dir *d = NEW(struct cached_dir);
	atomic_init(&d->refs, 1);
	d->path = xstrdup(path);
	d->db = partition_db_new_bare(path, cache);
	mutex_init(&d->lock, RANK_TSDB_CACHED_DIR, "cached directory");
	for (size_t i = 0; i < g->files.n; i++) {
		struct cached_list_file *f = vec_add(&d->list);
		*f = (struct cached_list_file){ .bytes = { 0 } };
		snprintf(f->name, sizeof f->name, "%.*s", (int)MIN(g->files.v[i].name.len, sizeof f->name - 1), g->files.v[i].name.ptr);
		buf_putv(&f->bytes, g->files.v[i].bytes);
	}
	return d;
}

static void dir_forget_list(struct cached_dir *d)
{
	for (size_t i = 0; i < d->list.n; i++)
		buf_free(&d->list.v[i].bytes);
	vec_free(&d->list);
}

void cached_dir_unref(struct cached_dir *d)
{
	if (!d || atomic_fetch_sub(&d->refs, 1) != 1)
		return;
	partition_db_unref(d->db);
	dir_forget_list(d);
	mutex_destroy(&d->lock);
	free(d->path);
	free(d);
}

/* Replaces a file of the directory. Queries do not wait for a sync: what a power loss takes is found and written again (dir_has, file_read_runs). */
static int dir_put(const struct cached_dir *d, const char *name, struct view bytes, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", d->path, name), *part = xasprintf("%s/%s.new", d->path, name);
	int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	if (fd >= 0)
		errno = ENOSPC; /* if only some of it fits */
	bool written = fd >= 0 && write(fd, bytes.ptr, bytes.len) == (ssize_t)bytes.len;
	int rc = written && !rename(part, path) ? 0 : err_errno(e, errno, "cannot write %s", path);
	if (fd >= 0)
		close(fd);
	if (rc)
		unlink(part); /* of a full disk, what fitted must not stay */
	return rc;
}

static bool dir_has(const struct cached_dir *d, const struct cached_list_file *f)
{
	AUTOFREE char *path = xasprintf("%s/%s", d->path, f->name);
	CLEANUP(buf_free) struct buf b = { .max = f->bytes.len + 1 };
	return !buf_read_file(&b, path, NULL) && view_eq(buf_view(&b), buf_view(&f->bytes));
}

/* Writes RocksDB's list of files, where the disk does not have it or has spoiled it, and opens the database. */
static int dir_open(struct cached_dir *d, struct err *e)
{
	int rc = 0;
	mutex_lock(&d->lock);
	for (size_t i = 0; i < d->list.n && !d->is_open && !rc; i++)
		if (!dir_has(d, &d->list.v[i]))
			rc = dir_put(d, d->list.v[i].name, buf_view(&d->list.v[i].bytes), e);
	if (!rc && !d->is_open)
		rc = partition_db_open_bare(d->db, e);
	if (!rc && !d->is_open) {
		d->is_open = true;
		dir_forget_list(d);
	}
	mutex_unlock(&d->lock);
	return rc;
}

/* ---- which runs are here ---- */

/* A file that cannot be written costs a fetch after the next start. */
static void file_write_runs(struct cached_file *f)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	AUTOFREE char *name = xasprintf("%s.runs", f->name);
	struct err e;
	buf_printf(&b, RUNS_HEAD "\nhave %u\nlevel %u\n", atomic_load(&f->have), f->level);
	text_put_checksum(&b, 0);
	IGNORE(dir_put(f->dir, name, buf_view(&b), &e));
}

/* What an earlier process has left. */
static void file_read_runs(struct cached_file *f)
{
	CLEANUP(buf_free) struct buf b = { .max = 4096 };
	AUTOFREE char *path = file_path(f, ".runs"), *sst = file_path(f, ".sst"), *data = file_path(f, f->whole ? "" : ".data");
	struct view lines, line;
	int64_t have;
	struct stat st;
	if (!f->whole && rename(sst, data) && errno != ENOENT)
		unlink(sst);
	if (stat(data, &st) || (uint64_t)st.st_size != f->size || buf_read_file(&b, path, NULL))
		return;
	if (text_checked(buf_view(&b), RUNS_HEAD, &lines) && text_line(&lines, &line) && text_numbers(line, "have #", &have))
		f->noted = (unsigned)have & (file_tail(f) * 2 - 1);
}

/* ---- leaving the disk ---- */

struct dir_shed {
	const char *path;
	VEC(char *) stems; /* of files of hours */
};

static int shed_find(void *arg, const char *name, struct err *e)
{
	struct dir_shed *s = arg;
	CLEANUP(buf_free) struct buf b = { .max = 4096 };
	AUTOFREE char *path = xasprintf("%s/%s", s->path, name);
	struct view lines, line;
	int64_t level = LEVEL_HOUR;
	size_t len = strlen(name);
	(void)e;
	if (len <= 5 || strcmp(name + len - 5, ".runs") || buf_read_file(&b, path, NULL) || !text_checked(buf_view(&b), RUNS_HEAD, &lines))
		return 0;
	bool has_level = text_line(&lines, &line) && text_line(&lines, &line) && text_numbers(line, "level #", &level);
	if (!has_level || level == LEVEL_HOUR) /* earlier programs did not write it */
		vec_push(&s->stems, xstrndup(path, strlen(path) - 5));
	return 0;
}

void cached_dir_shed_hours(const char *path)
{
	static const char *const suffixes[] = { ".runs", ".data", ".sst" };
	struct dir_shed s = { .path = path };
	struct err e;
	IGNORE(files_each(path, shed_find, &s, &e)); /* what is not found stays until the whole day leaves */
	for (size_t i = 0; i < s.stems.n; i++) {
		for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes; k++) {
			AUTOFREE char *file = xasprintf("%s%s", s.stems.v[i], suffixes[k]);
			unlink(file);
		}
		free(s.stems.v[i]);
	}
	vec_free(&s.stems);
}

/* ---- hashes ---- */

/* Symbols are held against the hash of their object, runs against theirs. */
struct file_hash {
	bool whole;
	struct sha256 sha;
	struct hash_stream run;
};

static void hash_add(struct file_hash *h, const char *p, size_t n)
{
	if (h->whole)
		sha256_add(&h->sha, p, n);
	else
		hash_stream_add(&h->run, p, n);
}

static bool hash_agrees(struct file_hash *h, const struct cached_file *f, const struct part_run *r)
{
	uint8_t sha[SHA256_LEN];
	if (!h->whole)
		return hash_stream_end(&h->run) == r->hash;
	sha256_end(&h->sha, sha);
	return !memcmp(sha, f->sha256, sizeof sha);
}

/* Whether the bytes of a run on this disk are those of the bucket. */
static bool file_holds(const struct cached_file *f, int fd, const struct part_run *r)
{
	struct file_hash h = { .whole = f->whole };
	char *piece = xmalloc(READ_PIECE);
	uint64_t at = 0;
	if (f->whole)
		sha256_begin(&h.sha);
	else
		hash_stream_begin(&h.run);
	while (at < r->length) {
		ssize_t n = pread(fd, piece, MIN(r->length - at, (uint64_t)READ_PIECE), (off_t)(r->offset + at));
		if (n <= 0)
			break;
		hash_add(&h, piece, (size_t)n);
		at += (uint64_t)n;
	}
	free(piece);
	return hash_agrees(&h, f, r) && at == r->length;
}

/* ---- what a part asks ---- */

static int file_absent(struct cached_file *f, unsigned bits, struct err *e)
{
	atomic_fetch_or(&f->wanted, bits);
	atomic_fetch_add(&f->dir->skips, 1);
	return err_set(e, ERR_UNAVAILABLE, "%s is in the bucket, not on this disk", f->key);
}

/* Believes what an earlier process has left, if the tail agrees: from here on RocksDB may open the file. */
static void file_take_noted(struct cached_file *f)
{
	mutex_lock(&f->lock);
	if (f->noted) {
		AUTOFREE char *data = file_data(f), *sst = file_path(f, ".sst");
		int fd = f->noted & file_tail(f) ? open(data, O_RDONLY | O_CLOEXEC) : -1;
		bool holds = fd >= 0 && file_holds(f, fd, &f->runs.v[f->runs.n - 1]);
		if (fd >= 0)
			close(fd);
		struct err e;
		if (holds && (f->whole || (!rename(data, sst) && !dir_open(f->dir, &e))))
			atomic_fetch_or_explicit(&f->have, f->noted, memory_order_release);
		f->noted = 0;
	}
	mutex_unlock(&f->lock);
}

static int file_need(struct part_lack *l, enum part_kind kind, bool aggregates, struct err *e)
{
	struct cached_file *f = (struct cached_file *)l;
	unsigned bits = file_tail(f) | f->bit_of[aggregates][kind % CACHED_KINDS];
	if ((atomic_load_explicit(&f->have, memory_order_acquire) & bits) == bits)
		return 0;
	file_take_noted(f);
	return (atomic_load(&f->have) & bits) == bits ? 0 : file_absent(f, bits, e);
}

/* Somebody has removed the file, or its directory. RocksDB may have it open, and would not read what is fetched into another of its name. */
static void file_note_lost(struct cached_file *f)
{
	atomic_store(&f->have, 0);
	atomic_store(&f->dir->lost, true);
}

/* Looks at the runs of these bits that are here, and forgets those that are spoiled. */
static unsigned file_check(struct cached_file *f, unsigned bits)
{
	AUTOFREE char *path = file_data(f);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned spoiled = 0;
	for (size_t i = 0; i < f->runs.n; i++)
		if ((bits >> i & 1) && (fd < 0 || !file_holds(f, fd, &f->runs.v[i])))
			spoiled |= 1u << i;
	if (fd < 0)
		file_note_lost(f);
	else
		close(fd);
	atomic_fetch_and(&f->have, ~spoiled);
	return spoiled;
}

static int file_recheck(struct part_lack *l, enum part_kind kind, bool aggregates, struct err *e)
{
	struct cached_file *f = (struct cached_file *)l;
	unsigned spoiled = file_check(f, file_tail(f) | f->bit_of[aggregates][kind % CACHED_KINDS]);
	return spoiled ? file_absent(f, spoiled, e) : 0;
}

static bool file_totals(struct part_lack *l, uint32_t aggregate, struct view *ret)
{
	struct cached_file *f = (struct cached_file *)l;
	if (aggregate >= f->known_ends.n)
		return false;
	uint32_t from = aggregate ? f->known_ends.v[aggregate - 1] : 0;
	*ret = view_make(f->known.ptr + from, f->known_ends.v[aggregate] - from);
	return true;
}

static bool file_covers(struct part_lack *l, struct view *ret)
{
	struct cached_file *f = (struct cached_file *)l;
	*ret = buf_view(&f->covers);
	return ret->len;
}

static bool file_ends(struct part_lack *l, struct view *ret)
{
	struct cached_file *f = (struct cached_file *)l;
	*ret = buf_view(&f->ends);
	return ret->len;
}

/* ---- life ---- */

static void file_release(struct part_lack *l)
{
	cached_file_unref((struct cached_file *)l);
}

static struct cached_file *file_new(struct cached_dir *dir, uint64_t size)
{
	struct cached_file *f = NEW(struct cached_file);
	atomic_init(&f->refs, 1);
	f->lack = (struct part_lack){ file_need, file_recheck, file_totals, file_covers, file_ends, file_release };
	atomic_fetch_add_explicit(&dir->refs, 1, memory_order_relaxed);
	f->dir = dir;
	f->size = size;
	mutex_init(&f->lock, RANK_TSDB_CACHED_FILE, "cached file");
	return f;
}

struct cached_file *cached_file_ref(struct cached_file *f)
{
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
	return f;
}

void cached_file_unref(struct cached_file *f)
{
	if (!f || atomic_fetch_sub(&f->refs, 1) != 1)
		return;
	mutex_destroy(&f->lock);
	vec_free(&f->runs);
	buf_free(&f->known);
	vec_free(&f->known_ends);
	buf_free(&f->covers);
	buf_free(&f->ends);
	cached_dir_unref(f->dir);
	free(f);
}

int cached_file_of_part(struct cached_file **ret, struct cached_dir *dir, const struct generation *g, const struct generation_part *p, struct err *e)
{
	if (!p->runs.n || p->runs.n > CACHED_RUNS_MAX || p->runs.v[p->runs.n - 1].kind != PART_RUN_TAIL)
		return err_set(e, ERR_CORRUPT, "the runs of part %u of day %u are malformed", p->number, g->day);
	for (size_t i = 0; i < p->runs.n; i++)
		if (p->runs.v[i].length > p->object.size || p->runs.v[i].offset > p->object.size - p->runs.v[i].length)
			return err_set(e, ERR_CORRUPT, "a run of part %u of day %u lies behind the end of its object", p->number, g->day);
	struct cached_file *f = file_new(dir, p->object.size);
	for (size_t i = 0; i < p->totals.n; i++) {
		buf_putv(&f->known, p->totals.v[i]);
		vec_push(&f->known_ends, (uint32_t)f->known.len);
	}
	buf_putv(&f->covers, p->covers);
	buf_trim(&f->covers);
	buf_putv(&f->ends, p->ends);
	buf_trim(&f->ends);
	snprintf(f->name, sizeof f->name, "%06" PRIu64, p->file);
	f->level = p->level;
	object_name_data(f->key, g->id, g->day, p->object.stamp);
	for (size_t i = 0; i < p->runs.n; i++) {
		vec_push(&f->runs, p->runs.v[i]);
		if (p->runs.v[i].kind < CACHED_KINDS)
			f->bit_of[p->runs.v[i].aggregates][p->runs.v[i].kind] = 1u << i;
	}
	file_read_runs(f);
	*ret = f;
	return 0;
}

struct cached_file *cached_file_of_symbols(struct cached_dir *dir, const struct generation *g)
{
	struct cached_file *f = file_new(dir, g->symbols.size);
	snprintf(f->name, sizeof f->name, "symbols");
	f->level = LEVELS;
	object_name_data(f->key, g->id, g->day, g->symbols.stamp);
	f->whole = true;
	memcpy(f->sha256, g->symbols.sha256, sizeof f->sha256);
	vec_push(&f->runs, (struct part_run){ .kind = PART_RUN_TAIL, .length = g->symbols.size });
	file_read_runs(f);
	return f;
}

/* ---- fetching ---- */

struct file_get {
	int fd;
	uint64_t at;
	const char *path;
	struct cached_cost *cost;
};

static int file_got(void *arg, const char *p, size_t n, struct err *e)
{
	struct file_get *g = arg;
	while (n) {
		ssize_t k = pwrite(g->fd, p, n, (off_t)g->at);
		if (k <= 0)
			return err_errno(e, errno, "cannot write %s", g->path);
		g->at += (uint64_t)k;
		p += k;
		n -= (size_t)k;
		g->cost->bytes += (uint64_t)k;
	}
	return 0;
}

static int file_by_offset(const void *a, const void *b)
{
	const struct part_run *x = a, *y = b;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Neighbours are one request. */
static int file_get_runs(struct cached_file *f, struct objects *o, struct file_get *g, unsigned bits, struct err *e)
{
	VEC(struct part_run) v = { 0 };
	int rc = 0;
	for (size_t i = 0; i < f->runs.n; i++)
		if (bits >> i & 1)
			vec_push(&v, f->runs.v[i]);
	qsort(v.v, v.n, sizeof *v.v, file_by_offset);
	for (size_t i = 0, k; i < v.n && !rc; i = k) {
		uint64_t end = v.v[i].offset + v.v[i].length;
		for (k = i + 1; k < v.n && v.v[k].offset <= end + JOIN_GAP; k++)
			end = MAX(end, v.v[k].offset + v.v[k].length);
		g->at = v.v[i].offset;
		g->cost->requests++;
		rc = o->get(o, f->key, v.v[i].offset, end - v.v[i].offset, file_got, g, NULL, e);
	}
	vec_free(&v);
	return rc;
}

/* Until the database is open the directory may be missing: nothing has been read of it. */
static int file_make_dir(struct cached_file *f, struct err *e)
{
	mutex_lock(&f->dir->lock);
	bool open = f->dir->is_open;
	mutex_unlock(&f->dir->lock);
	return open || !mkdir(f->dir->path, 0750) || errno == EEXIST ? 0 : files_make_dirs(f->dir->path, e); /* which syncs what it makes */
}

/* The log of the newest rows is on the same disk: queries do not fill it. */
static int file_check_room(const struct cached_file *f, unsigned bits, struct err *e)
{
	struct statvfs fs;
	uint64_t bytes = 0;
	for (size_t i = 0; i < f->runs.n; i++)
		bytes += bits >> i & 1 ? f->runs.v[i].length : 0;
	if (statvfs(f->dir->path, &fs) || (uint64_t)fs.f_bavail * fs.f_frsize >= bytes + ROOM_LEFT)
		return 0;
	return err_set(e, ERR_UNAVAILABLE, "no room for %" PRIu64 " bytes of a day of the bucket: the disk of %s is full", bytes, f->dir->path);
}

int cached_file_fetch(struct cached_file *f, struct objects *o, struct cached_cost *ret, struct err *e)
{
	*ret = (struct cached_cost){ 0 };
	unsigned bits = cached_file_lacks(f);
	if (!bits)
		return 0;
	AUTOFREE char *path = file_data(f), *sst = file_path(f, ".sst");
	bool was_here = atomic_load(&f->have) != 0;
	struct file_get g = { .path = path, .cost = ret, .fd = -1 };
	int rc = file_make_dir(f, e);
	if (rc)
		return rc;
	if (!atomic_load(&f->dir->lost))
		g.fd = open(path, O_RDWR | O_CLOEXEC | (was_here ? 0 : O_CREAT), 0640);
	if (g.fd < 0 && (atomic_load(&f->dir->lost) || errno == ENOENT)) {
		file_note_lost(f);
		return err_set(e, ERR_UNAVAILABLE, "%s was removed: the next query makes it anew", f->dir->path);
	}
	if (g.fd < 0)
		return err_errno(e, errno, "cannot open %s", path);
	rc = ftruncate(g.fd, (off_t)f->size) ? err_errno(e, errno, "cannot make %s as long as its object", path) : 0;
	if (!rc)
		rc = file_check_room(f, bits, e);
	if (!rc)
		rc = file_get_runs(f, o, &g, bits, e);
	for (size_t i = 0; i < f->runs.n && !rc; i++)
		if ((bits >> i & 1) && !file_holds(f, g.fd, &f->runs.v[i]))
			rc = err_set(e, ERR_CORRUPT, "%s: bytes %" PRIu64 " to %" PRIu64 " are not those that its generation has", f->key, f->runs.v[i].offset,
				     f->runs.v[i].offset + f->runs.v[i].length);
	close(g.fd);
	if (!rc && !f->whole && (bits & file_tail(f)) && strcmp(path, sst) && rename(path, sst))
		rc = err_errno(e, errno, "cannot rename %s", path);
	if (!rc && !f->whole && (rc = dir_open(f->dir, e)))
		file_note_lost(f); /* RocksDB's list of files is spoiled: the next query writes it anew */
	if (rc)
		return rc;
	atomic_fetch_or_explicit(&f->have, bits, memory_order_release);
	file_write_runs(f);
	return 0;
}

/* ---- symbols ---- */

bool cached_file_need_symbols(struct cached_file *f)
{
	return !file_need(&f->lack, (enum part_kind)PART_RUN_TAIL, false, NULL);
}

int cached_file_read_symbols(struct cached_file *f, struct buf *b, struct err *e)
{
	AUTOFREE char *path = file_path(f, "");
	uint8_t sha[SHA256_LEN];
	size_t before = b->len;
	int rc = file_need(&f->lack, (enum part_kind)PART_RUN_TAIL, false, e);
	if (rc)
		return rc;
	b->max = before + f->size;
	rc = buf_read_file(b, path, e);
	if (!rc)
		sha256_of(view_make(b->ptr + before, b->len - before), sha);
	if (!rc && b->len - before == f->size && !memcmp(sha, f->sha256, sizeof sha))
		return 0;
	atomic_store(&f->have, 0);
	return file_absent(f, file_tail(f), e);
}
