/* SPDX-License-Identifier: Apache-2.0 */
/* Content codings (RFC 9110 section 8.4.1): whether a client accepts one, and compression with it: zstd (RFC 8878), which browsers
 * and curl accept, or gzip. response.c chooses. */
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static size_t gzip(struct view in, int level, char *out, size_t room)
{
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(level);
	size_t n = c ? libdeflate_gzip_compress(c, in.ptr, in.len, out, room) : 0;
	libdeflate_free_compressor(c);
	return n;
}

/* Entries of libzstd's table, as a power of two: 8 kB, which stay in a core's first cache. The 64 kB that level 1 takes by itself do not: JSON
 * takes a sixth longer with them, and comes to the same bytes. */
#define TABLE_LOG 11

bool httpd_zstd_set(ZSTD_CCtx *c, int level)
{
	return !ZSTD_isError(ZSTD_CCtx_reset(c, ZSTD_reset_session_and_parameters)) &&
	       !ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level)) &&
	       !ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_hashLog, TABLE_LOG));
}

static size_t zstd(struct view in, int level, char *out, size_t room)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	size_t n = c && httpd_zstd_set(c, level) ? ZSTD_compress2(c, out, room, in.ptr, in.len) : 0;
	ZSTD_freeCCtx(c);
	return ZSTD_isError(n) ? 0 : n;
}

bool httpd_compress(enum httpd_coding coding, struct view in, int level, char **ret, size_t *ret_n)
{
	char *out = in.len ? malloc(in.len) : NULL, *fits;
	if (!out)
		return false;
	size_t n = coding == HTTPD_ZSTD ? zstd(in, level, out, in.len - 1) : gzip(in, level, out, in.len - 1); /* 0: not smaller */
	if (!n) {
		free(out);
		return false;
	}
	fits = realloc(out, n);
	*ret = fits ? fits : out;
	*ret_n = n;
	return true;
}

bool httpd_gzip_file(struct view in, int level, struct buf *ret)
{
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(level);
	size_t room = c ? libdeflate_gzip_compress_bound(c, in.len) : 0, n = 0;
	if (c && buf_reserve(ret, room))
		n = libdeflate_gzip_compress(c, in.ptr, in.len, ret->ptr, room);
	libdeflate_free_compressor(c);
	ret->len = n;
	return n > 0;
}

/* The text before the separator, without blanks around it; the list continues after it. */
static struct view next_item(struct view *list, char separator)
{
	struct view item = view_cut(list, separator);
	while (item.len && (item.ptr[0] == ' ' || item.ptr[0] == '\t')) {
		item.ptr++;
		item.len--;
	}
	while (item.len && (item.ptr[item.len - 1] == ' ' || item.ptr[item.len - 1] == '\t'))
		item.len--;
	return item;
}

/* Whether a weight among the parameters, q or Q, is above zero; none is 1. */
static bool is_wanted(struct view params)
{
	while (params.len) {
		struct view p = next_item(&params, ';');
		if (p.len < 2 || (p.ptr[0] != 'q' && p.ptr[0] != 'Q') || p.ptr[1] != '=')
			continue;
		for (size_t i = 2; i < p.len; i++) /* zero in any spelling has no other digit */
			if (p.ptr[i] >= '1' && p.ptr[i] <= '9')
				return true;
		return false;
	}
	return true;
}

bool httpd_accepts(struct view list, const char *coding)
{
	while (list.len) {
		struct view params = next_item(&list, ','), name = next_item(&params, ';');
		if (view_eq_nocase(name, view_of(coding)))
			return is_wanted(params);
	}
	return false;
}
