/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/bucket/object_io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

#define PIECE ((size_t)256 << 10)
#define DAMAGED_TRIES 3

/* ---- in memory ---- */

static int io_read_memory(void *arg, uint64_t offset, char *p, size_t n, struct err *e)
{
	const struct view *v = arg;
	if (offset > v->len || n > v->len - offset)
		return err_set(e, ERR_INTERNAL, "more of an object is read than there is");
	memcpy(p, v->ptr + offset, n);
	return 0;
}

int object_io_put(struct objects *o, const char *name, struct view bytes, struct err *e)
{
	struct objects_body b = { .size = bytes.len, .read = io_read_memory, .arg = &bytes };
	sha256_of(bytes, b.sha256);
	return o->put(o, name, &b, e);
}

static int io_append(void *arg, const char *p, size_t n, struct err *e)
{
	struct buf *b = arg;
	buf_put(b, p, n);
	return b->overflow ? err_set(e, ERR_LIMIT, "it has more than %zu bytes", b->max ? b->max : BUF_DEFAULT_MAX) : 0;
}

int object_io_get(struct objects *o, const char *name, struct buf *b, struct err *e)
{
	return o->get(o, name, 0, UINT64_MAX, io_append, b, NULL, e);
}

int object_io_get_generation(struct objects *o, const char *name, struct buf *b, struct generation *ret, struct err *e)
{
	int rc = 0;
	*ret = (struct generation){ .min_ms = 1 };
	b->max = GENERATION_MAX;
	for (int tries = 0; tries < DAMAGED_TRIES; tries++) {
		buf_reset(b);
		rc = object_io_get(o, name, b, e);
		if (rc)
			return rc;
		rc = generation_decode(ret, buf_view(b), name, e);
		if (rc != -ERR_CORRUPT)
			return rc;
		generation_release(ret);
		*ret = (struct generation){ .min_ms = 1 };
	}
	return rc;
}

/* ---- files ---- */

struct io_file {
	int fd;
	const char *path;
	uint64_t at, size;
	struct sha256 hash;
};

static int io_read_file(void *arg, uint64_t offset, char *p, size_t n, struct err *e)
{
	const struct io_file *f = arg;
	while (n) {
		ssize_t got = pread(f->fd, p, n, (off_t)offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(e, errno, "cannot read %s", f->path);
		if (!got)
			return err_set(e, ERR_CORRUPT, "%s has become shorter", f->path);
		p += got;
		n -= (size_t)got;
		offset += (uint64_t)got;
	}
	return 0;
}

int object_io_put_file(struct objects *o, const char *name, const char *file, uint64_t size, const uint8_t sha256[SHA256_LEN], struct err *e)
{
	struct io_file f = { .path = file };
	struct objects_body b = { .size = size, .read = io_read_file, .arg = &f };
	memcpy(b.sha256, sha256, SHA256_LEN);
	f.fd = open(file, O_RDONLY | O_CLOEXEC);
	if (f.fd < 0)
		return err_errno(e, errno, "cannot open %s", file);
	int rc = o->put(o, name, &b, e);
	close(f.fd);
	return rc;
}

static int io_write_file(void *arg, const char *p, size_t n, struct err *e)
{
	struct io_file *f = arg;
	if (n > f->size - f->at)
		return err_set(e, ERR_CORRUPT, "the object of %s has more than %" PRIu64 " bytes", f->path, f->size);
	sha256_add(&f->hash, p, n);
	while (n) {
		ssize_t put = pwrite(f->fd, p, n, (off_t)f->at);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return err_errno(e, errno, "cannot write %s", f->path);
		p += put;
		n -= (size_t)put;
		f->at += (uint64_t)put;
	}
	return 0;
}

/* Hashes what an earlier try has left; what is longer than the object begins anew. */
static int io_resume(struct io_file *f, struct err *e)
{
	struct stat st;
	AUTOFREE char *p = xmalloc(PIECE);
	if (fstat(f->fd, &st))
		return err_errno(e, errno, "cannot look at %s", f->path);
	uint64_t has = (uint64_t)st.st_size <= f->size ? (uint64_t)st.st_size : 0;
	int rc = 0;
	while (f->at < has && !rc) {
		size_t n = (size_t)MIN((uint64_t)PIECE, has - f->at);
		rc = io_read_file(f, f->at, p, n, e);
		if (!rc)
			sha256_add(&f->hash, p, n);
		f->at += n;
	}
	return rc;
}

/* Fetches what is missing behind the end of the file; ret: the hash of all of it. */
static int io_fetch(struct objects *o, const char *name, struct io_file *f, uint8_t ret[SHA256_LEN], struct err *e)
{
	uint64_t whole = f->size;
	sha256_begin(&f->hash);
	int rc = io_resume(f, e);
	if (!rc && f->at < f->size)
		rc = o->get(o, name, f->at, f->size - f->at, io_write_file, f, &whole, e);
	sha256_end(&f->hash, ret);
	if (!rc && (whole != f->size || f->at != f->size))
		rc = err_set(e, ERR_CORRUPT, "object %s has %" PRIu64 " bytes, not %" PRIu64, name, whole, f->size);
	if (!rc && (ftruncate(f->fd, (off_t)f->size) || fsync(f->fd)))
		rc = err_errno(e, errno, "cannot write %s", f->path);
	return rc;
}

int object_io_get_file(struct objects *o, const char *name, const char *file, uint64_t size, const uint8_t sha256[SHA256_LEN], struct err *e)
{
	uint8_t hash[SHA256_LEN];
	int rc = 0;
	for (int tries = 0; tries < DAMAGED_TRIES; tries++) { /* what an earlier try left may be damaged, or bits flipped on the way: from the beginning */
		struct io_file f = { .path = file, .size = size };
		f.fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | (tries ? O_TRUNC : 0), 0640);
		if (f.fd < 0)
			return err_errno(e, errno, "cannot open %s", file);
		rc = io_fetch(o, name, &f, hash, e);
		close(f.fd);
		if (rc || !memcmp(hash, sha256, SHA256_LEN))
			return rc;
	}
	unlink(file);
	return err_set(e, ERR_CORRUPT, "object %s does not have the bytes that its generation says: it is damaged, or was replaced", name);
}
