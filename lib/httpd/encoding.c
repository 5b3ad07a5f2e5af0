/* SPDX-License-Identifier: Apache-2.0 */
/* Content codings (RFC 9110 section 8.4.1): which one a client takes, and compressing for it: zstd (RFC 8878), for which browsers
 * and curl ask, and gzip for everybody else. */
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zstd.h>

#include "internal.h"

static size_t gzip(struct view in, int level, char *out, size_t room)
{
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(level);
	size_t n = c ? libdeflate_gzip_compress(c, in.ptr, in.len, out, room) : 0;
	libdeflate_free_compressor(c);
	return n;
}

static size_t zstd(struct view in, int level, char *out, size_t room)
{
	size_t n = ZSTD_compress(out, room, in.ptr, in.len, level);
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

bool httpd_accepts(struct view list, const char *coding)
{
	size_t n = strlen(coding);
	while (list.len) {
		struct view item = view_cut(&list, ',');
		while (item.len && item.ptr[0] == ' ') {
			item.ptr++;
			item.len--;
		}
		if (item.len < n || strncasecmp(item.ptr, coding, n) != 0)
			continue;
		struct view rest = view_make(item.ptr + n, item.len - n);
		if (rest.len && rest.ptr[0] != ';' && rest.ptr[0] != ' ')
			continue;
		const char *q = rest.len ? memmem(rest.ptr, rest.len, "q=", 2) : NULL;
		if (!q)
			return true;
		for (q += 2; q < rest.ptr + rest.len; q++) /* zero in any spelling has no other digit */
			if (*q >= '1' && *q <= '9')
				return true;
		return false;
	}
	return false;
}
