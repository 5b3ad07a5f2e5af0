/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/bucket/day_symbols.h"

#include <inttypes.h>
#include <zstd.h>

#define ZSTD_LEVEL 3

int day_symbols_encode(struct buf *out, struct view packed, struct err *e)
{
	size_t bound = ZSTD_compressBound(packed.len);
	if (packed.len > DAY_SYMBOLS_MAX || !buf_reserve(out, bound))
		return err_set(e, ERR_LIMIT, "the dictionary of a day is too large: %zu bytes", packed.len);
	size_t n = ZSTD_compress(out->ptr + out->len, bound, packed.ptr, packed.len, ZSTD_LEVEL);
	if (ZSTD_isError(n))
		return err_set(e, ERR_INTERNAL, "zstd: %s", ZSTD_getErrorName(n));
	out->len += n;
	return 0;
}

int day_symbols_decode(struct buf *out, struct view object, struct err *e)
{
	unsigned long long size = ZSTD_getFrameContentSize(object.ptr, object.len);
	if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || ZSTD_findFrameCompressedSize(object.ptr, object.len) != object.len)
		return err_set(e, ERR_CORRUPT, "the symbols of a day are no zstd frame with a size");
	if (size > DAY_SYMBOLS_MAX || !buf_reserve(out, (size_t)size + 1))
		return err_set(e, ERR_LIMIT, "the symbols of a day say that they have %llu bytes", size);
	size_t n = ZSTD_decompress(out->ptr + out->len, (size_t)size, object.ptr, object.len);
	if (ZSTD_isError(n) || n != size)
		return err_set(e, ERR_CORRUPT, "the symbols of a day cannot be inflated");
	out->len += n;
	return 0;
}
