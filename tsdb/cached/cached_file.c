/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/cached/cached_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/map.h"
#include "tsdb/disk/text.h"

#define RUNS_HEAD "pyrrha-runs 1"
#define JOIN_GAP 16384 /* bytes between two runs that are fetched all the same, to save a request */
#define READ_PIECE (256 << 10)

static char *file_path(const struct cached_file *f, const char *suffix)
{
	return xasprintf("%s/%s%s", f->dir, f->name, suffix);
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

/* ---- which runs are here ---- */

/* A file that cannot be written costs a fetch after the next start. */
static void file_write_runs(struct cached_file *f)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	AUTOFREE char *path = file_path(f, ".runs"), *part = file_path(f, ".runs-new");
	buf_printf(&b, RUNS_HEAD "\nhave %u\n", atomic_load(&f->have));
	text_put_checksum(&b, 0);
	int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	if (fd < 0)
		return;
	bool written = write(fd, b.ptr, b.len) == (ssize_t)b.len;
	close(fd);
	if (!written || rename(part, path))
		unlink(part);
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
	atomic_fetch_add(f->skips, 1);
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
		if (holds && (f->whole || (!rename(data, sst) && !partition_db_open_bare(f->db, &e))))
			atomic_fetch_or_explicit(&f->have, f->noted, memory_order_release);
		f->noted = 0;
	}
	mutex_unlock(&f->lock);
}

static int file_need(struct part_lack *l, enum part_kind kind, bool aggregates, struct err *e)
{
	struct cached_file *f = (struct cached_file *)l;
	unsigned bits = file_tail(f) | f->bit_of[aggregates][kind & 0xff];
	if ((atomic_load_explicit(&f->have, memory_order_acquire) & bits) == bits)
		return 0;
	file_take_noted(f);
	return (atomic_load(&f->have) & bits) == bits ? 0 : file_absent(f, bits, e);
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
	if (fd >= 0)
		close(fd);
	atomic_fetch_and(&f->have, ~spoiled);
	return spoiled;
}

static int file_recheck(struct part_lack *l, enum part_kind kind, bool aggregates, struct err *e)
{
	struct cached_file *f = (struct cached_file *)l;
	unsigned spoiled = file_check(f, file_tail(f) | f->bit_of[aggregates][kind & 0xff]);
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

/* ---- life ---- */

static void file_release(struct part_lack *l)
{
	cached_file_unref((struct cached_file *)l);
}

static struct cached_file *file_new(const char *dir, uint64_t size, atomic_ullong *skips)
{
	struct cached_file *f = NEW(struct cached_file);
	atomic_init(&f->refs, 1);
	f->lack = (struct part_lack){ file_need, file_recheck, file_totals, file_release };
	f->dir = xstrdup(dir);
	f->size = size;
	f->skips = skips;
	mutex_init(&f->lock, LOCK_LEAF, "cached file");
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
	free(f->dir);
	free(f);
}

int cached_file_of_part(struct cached_file **ret, const char *dir, const struct generation *g, const struct generation_part *p,
			struct partition_db *db, atomic_ullong *skips, struct err *e)
{
	if (!p->runs.n || p->runs.n > CACHED_RUNS_MAX || p->runs.v[p->runs.n - 1].kind != PART_RUN_TAIL)
		return err_set(e, ERR_CORRUPT, "the runs of part %u of day %u are malformed", p->number, g->day);
	for (size_t i = 0; i < p->runs.n; i++)
		if (p->runs.v[i].length > p->object.size || p->runs.v[i].offset > p->object.size - p->runs.v[i].length)
			return err_set(e, ERR_CORRUPT, "a run of part %u of day %u lies behind the end of its object", p->number, g->day);
	struct cached_file *f = file_new(dir, p->object.size, skips);
	f->db = db;
	for (size_t i = 0; i < p->totals.n; i++) {
		buf_putv(&f->known, p->totals.v[i]);
		vec_push(&f->known_ends, (uint32_t)f->known.len);
	}
	snprintf(f->name, sizeof f->name, "%06" PRIu64, p->file);
	object_name_data(f->key, g->id, g->day, p->object.stamp);
	for (size_t i = 0; i < p->runs.n; i++) {
		vec_push(&f->runs, p->runs.v[i]);
		f->bit_of[p->runs.v[i].aggregates][p->runs.v[i].kind] = 1u << i;
	}
	file_read_runs(f);
	*ret = f;
	return 0;
}

struct cached_file *cached_file_of_symbols(const char *dir, const struct generation *g, atomic_ullong *skips)
{
	struct cached_file *f = file_new(dir, g->symbols.size, skips);
	snprintf(f->name, sizeof f->name, "symbols");
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

int cached_file_fetch(struct cached_file *f, struct objects *o, struct cached_cost *ret, struct err *e)
{
	*ret = (struct cached_cost){ 0 };
	unsigned bits = cached_file_lacks(f);
	if (!bits)
		return 0;
	AUTOFREE char *path = file_data(f), *sst = file_path(f, ".sst");
	struct file_get g = { .path = path, .cost = ret, .fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640) };
	if (g.fd < 0 && errno == ENOENT && !files_make_dirs(f->dir, e)) /* somebody has removed it */
		g.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	if (g.fd < 0)
		return err_errno(e, errno, "cannot open %s", path);
	int rc = ftruncate(g.fd, (off_t)f->size) ? err_errno(e, errno, "cannot make %s as long as its object", path) : 0;
	if (!rc)
		rc = file_get_runs(f, o, &g, bits, e);
	for (size_t i = 0; i < f->runs.n && !rc; i++)
		if ((bits >> i & 1) && !file_holds(f, g.fd, &f->runs.v[i]))
			rc = err_set(e, ERR_CORRUPT, "%s: bytes %" PRIu64 " to %" PRIu64 " are not those that its generation has", f->key, f->runs.v[i].offset,
				     f->runs.v[i].offset + f->runs.v[i].length);
	close(g.fd);
	if (!rc && !f->whole && (bits & file_tail(f)) && strcmp(path, sst) && rename(path, sst))
		rc = err_errno(e, errno, "cannot rename %s", path);
	if (!rc && !f->whole)
		rc = partition_db_open_bare(f->db, e);
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
