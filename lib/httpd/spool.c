/* SPDX-License-Identifier: Apache-2.0 */
/* A large answer on its way into a file: what its writer has written so far is compressed and goes to disk, so that memory holds a few
 * MiB of an answer of any size. The file has no name (O_TMPFILE), so nothing is left of it after the answer, or after a crash.
 *
 *	writer ─► httpd_request.out ─► zstd, gzip or plain ─► packed ─► file ─► httpd_send_file
 *	           some MiB                                    1 MiB
 *
 * All files together have an eighth of what is free on their disk. The worker of the request is the only thread in a spool. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

#include "base/units.h"
#include "httpd/internal.h"

#define LEVEL 1
#define FED_AT_ONCE ((size_t)64 << 10)  /* bytes; less waits for more */
#define PIECE ((size_t)256 << 10)       /* of input, compressed at once: then the client is looked after */
#define WRITTEN_AT_ONCE ((size_t)1 << 20)
#define DISK_SHARE 8                    /* of what is free, one part is for files of answers */

struct spool {
	struct httpd *httpd;
	const atomic_bool *canceled;
	enum httpd_coding coding;
	ZSTD_CCtx *zstd;
	z_stream z;
	struct buf packed;
	int fd;
	uint64_t written;
	struct err err;         /* code 0: none */
};

static int spool_fail(struct spool *s, struct err *e)
{
	if (e)
		*e = s->err;
	return s->err.code ? -(int)s->err.code : 0;
}

/* A file system that has no O_TMPFILE has the file with a name for a moment. */
static int spool_open(const char *dir)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
		return fd;
	char *name AUTOFREE = xasprintf("%s/answer.XXXXXX", dir);
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		unlink(name);
	return fd;
}

static bool spool_set_up(struct spool *s)
{
	if (s->coding == HTTPD_ZSTD) {
		s->zstd = ZSTD_createCCtx();
		return s->zstd && httpd_zstd_set(s->zstd, LEVEL);
	}
	return s->coding == HTTPD_PLAIN || deflateInit2(&s->z, LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK;
}

struct spool *spool_new(struct httpd *h, enum httpd_coding coding, const atomic_bool *canceled)
{
	struct spool *s = NEW(struct spool);
	*s = (struct spool){ .httpd = h, .canceled = canceled, .coding = coding, .fd = spool_open(h->spool_dir) };
	if (s->fd < 0)
		err_set(&s->err, ERR_UNAVAILABLE, "the answer is large, and there is no file for it in %s: %s", h->spool_dir, strerror(errno));
	else if (!spool_set_up(s))
		err_set(&s->err, ERR_UNAVAILABLE, "there is no memory to compress the answer");
	return s;
}

void spool_free(struct spool *s)
{
	if (!s)
		return;
	if (s->coding == HTTPD_ZSTD)
		ZSTD_freeCCtx(s->zstd);
	else if (s->coding == HTTPD_GZIP)
		deflateEnd(&s->z);
	if (s->fd >= 0)
		close(s->fd);
	atomic_fetch_sub(&s->httpd->spooled, s->written);
	buf_free(&s->packed);
	free(s);
}

/* Adds n bytes to the total of all files of answers. Returns false, with an error, if the total passes its share of the free disk. */
static bool spool_may_write(struct spool *s, size_t n)
{
	struct statvfs fs;
	uint64_t all = atomic_fetch_add(&s->httpd->spooled, n) + n, free_bytes;
	s->written += n;
	if (fstatvfs(s->fd, &fs))
		return true; /* writing says what is wrong */
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (all <= (free_bytes + all) / DISK_SHARE)
		return true;
	char have[24];
	err_set(&s->err, ERR_BUSY, "the answer is large, and %s are free on the disk for the files of answers (an eighth of what is free): ask for "
		"less, or try again when there are fewer large answers", units_format_size((free_bytes + all) / DISK_SHARE, have));
	return false;
}

static void spool_write(struct spool *s)
{
	size_t n = s->packed.len;
	uint64_t at = s->written;
	if (s->err.code || !n || !spool_may_write(s, n))
		return;
	for (size_t done = 0; done < n;) {
		ssize_t w = pwrite(s->fd, s->packed.ptr + done, n - done, (off_t)(at + done));
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0) {
			err_set(&s->err, ERR_UNAVAILABLE, "the answer is large, and its file could not be written: %s", strerror(errno));
			return;
		}
		done += (size_t)w;
	}
	sync_file_range(s->fd, (off_t)at, (off_t)n, SYNC_FILE_RANGE_WRITE); /* dirty pages are memory of the control group */
	s->packed.len = 0;
}

/* Room for what a step puts out. */
static bool spool_room(struct spool *s, size_t n)
{
	if (s->packed.len >= WRITTEN_AT_ONCE)
		spool_write(s);
	if (!s->err.code && !buf_reserve(&s->packed, n))
		err_set(&s->err, ERR_UNAVAILABLE, "there is no memory to compress the answer");
	return !s->err.code;
}

static void spool_zstd(struct spool *s, struct view in, bool last)
{
	ZSTD_inBuffer from = { in.ptr, in.len, 0 };
	size_t left = 1;
	while ((from.pos < from.size || (last && left)) && spool_room(s, ZSTD_CStreamOutSize())) {
		ZSTD_outBuffer to = { s->packed.ptr, s->packed.cap - 1, s->packed.len };
		left = ZSTD_compressStream2(s->zstd, &to, &from, last ? ZSTD_e_end : ZSTD_e_continue);
		s->packed.len = to.pos;
		if (ZSTD_isError(left))
			err_set(&s->err, ERR_UNAVAILABLE, "the answer could not be compressed: %s", ZSTD_getErrorName(left));
	}
}

static void spool_gzip(struct spool *s, struct view in, bool last)
{
	int rc = Z_OK;
	s->z.next_in = (Bytef *)(uintptr_t)in.ptr;
	s->z.avail_in = (uInt)in.len;
	while ((s->z.avail_in || (last && rc != Z_STREAM_END)) && spool_room(s, FED_AT_ONCE)) {
		s->z.next_out = (Bytef *)s->packed.ptr + s->packed.len;
		s->z.avail_out = (uInt)(s->packed.cap - 1 - s->packed.len);
		rc = deflate(&s->z, last ? Z_FINISH : Z_NO_FLUSH);
		s->packed.len = (size_t)((char *)s->z.next_out - s->packed.ptr);
		if (rc == Z_STREAM_ERROR)
			err_set(&s->err, ERR_UNAVAILABLE, "the answer could not be compressed");
	}
}

static void spool_piece(struct spool *s, struct view in, bool last)
{
	if (s->coding == HTTPD_ZSTD)
		spool_zstd(s, in, last);
	else if (s->coding == HTTPD_GZIP)
		spool_gzip(s, in, last);
	else if (in.len && spool_room(s, in.len))
		buf_putv(&s->packed, in);
}

int spool_put(struct spool *s, struct view in, bool last, struct err *e)
{
	do {
		struct view piece = view_make(in.ptr, MIN(in.len, PIECE));
		in = view_make(in.ptr + piece.len, in.len - piece.len);
		if (s->canceled && atomic_load_explicit(s->canceled, memory_order_relaxed))
			return err_set(e, ERR_CANCELED, "canceled");
		if (!s->err.code)
			spool_piece(s, piece, last && !in.len);
	} while (in.len);
	if (last)
		spool_write(s);
	return spool_fail(s, e);
}

int spool_feed(struct spool *s, struct buf *answer, struct err *e)
{
	if (answer->len <= FED_AT_ONCE)
		return spool_fail(s, e);
	int rc = spool_put(s, view_make(answer->ptr, answer->len - 1), false, e);
	answer->ptr[0] = answer->ptr[answer->len - 1];
	answer->ptr[1] = 0;
	answer->len = 1;
	return rc;
}

int spool_take(struct spool *s, uint64_t *ret_size)
{
	int fd = s->fd;
	*ret_size = s->written;
	s->fd = -1;
	s->written = 0;
	return fd;
}
