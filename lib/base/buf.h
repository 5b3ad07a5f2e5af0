/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow, up to a ceiling. Zero-initialised is empty with the default ceiling (BUF_DEFAULT_MAX).
 * A write past the ceiling sets `overflow` and is dropped as a whole. Writers may continue and check once at the
 * end. */
#ifndef PYRRHA_BASE_BUF_H
#define PYRRHA_BASE_BUF_H

#include "base/attrs.h"
#include "base/err.h"
#include "base/view.h"

#define BUF_DEFAULT_MAX ((size_t)1 << 30)

struct buf {
	char *ptr; /* NUL-terminated once anything was written */
	size_t len, cap;
	size_t max; /* bytes; 0 = BUF_DEFAULT_MAX */
	bool overflow;
};

void buf_free(struct buf *b);
static inline void buf_reset(struct buf *b)
{
	b->len = 0;
	b->overflow = false;
	if (b->ptr)
		b->ptr[0] = 0;
}
/* Gives back the memory that it does not use, if that is much. */
void buf_trim(struct buf *b);
/* Room for n more bytes; false (and overflow set) if the ceiling forbids it. */
bool buf_reserve(struct buf *b, size_t n);
/* The capacity that a buffer has after buf_reserve(b, n). */
size_t buf_cap_for(const struct buf *b, size_t n);
/* Makes the capacity at least that many bytes, or one more than the ceiling if that is less. */
void buf_grow(struct buf *b, size_t cap);
void buf_put(struct buf *b, const void *p, size_t n);
void buf_putc(struct buf *b, char c);
void buf_puts(struct buf *b, const char *s);
void buf_putv(struct buf *b, struct view v);
void buf_int(struct buf *b, int64_t v);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* A JSON string with its quotes; invalid UTF-8 becomes U+FFFD, '<' '>' '&' are escaped (pages embed it). */
void buf_json_string(struct buf *b, struct view v);
/* Unsigned LEB128, and zigzag for signed. */
void buf_varint(struct buf *b, uint64_t v);
void buf_zigzag(struct buf *b, int64_t v);
/* Big-endian, for keys that sort. */
void buf_be32(struct buf *b, uint32_t v);
void buf_be64(struct buf *b, uint64_t v);

/* Adds what the file, or the descriptor (path: for messages), holds up to its end. ERR_LIMIT: more than the ceiling; else as
 * err_errno. After an error some of it may have been added. */
int buf_read_file(struct buf *b, const char *path, struct err *e) MUST_USE;
/* Whether path is a regular file, or a link to one: reading a pipe or a device may block for ever. For callers that let a
 * library read the file. */
int buf_check_file(const char *path, struct err *e) MUST_USE;
int buf_read_fd(struct buf *b, int fd, const char *path, struct err *e) MUST_USE;

static inline struct view buf_view(const struct buf *b)
{
	return (struct view){ b->ptr ? b->ptr : "", b->len };
}
/* Returns owned: the bytes (NUL-terminated), the buffer is empty afterwards. */
char *buf_take(struct buf *b, size_t *ret_len);

#endif
