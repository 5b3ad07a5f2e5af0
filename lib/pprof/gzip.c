/* SPDX-License-Identifier: Apache-2.0 */
/* gzip both ways, with libdeflate: whole buffers, the output capped before it is allocated. */
#include <libdeflate.h>

#include "base/alloc.h"
#include "pprof/internal.h"

#define MEMBER_MIN 18      /* header and trailer */
#define RATIO_MAX 1032     /* what deflate can reach */
#define LEVEL_DEFAULT 6

static void free_decompressor(struct libdeflate_decompressor **d)
{
	libdeflate_free_decompressor(*d);
}

static void free_compressor(struct libdeflate_compressor **c)
{
	libdeflate_free_compressor(*c);
}

bool pprof_is_gzip(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	return n >= 2 && p[0] == 0x1f && p[1] == 0x8b;
}

/* The size in the last member's trailer, as far as it is plausible: correct for one member below 4 GiB. */
static size_t guess_size(const uint8_t *p, size_t n, size_t max)
{
	uint32_t said = n < MEMBER_MIN ? 0 : (uint32_t)p[n - 4] | (uint32_t)p[n - 3] << 8 | (uint32_t)p[n - 2] << 16 |
					     (uint32_t)p[n - 1] << 24;
	size_t guess = MIN((size_t)said, n * RATIO_MAX);
	return MIN(MAX(guess, (size_t)4096), max);
}

/* The output: as large as guessed, doubled when that was wrong. */
struct output {
	struct arena *arena;
	uint8_t *p;
	size_t len, cap, max;
};

static int grow(struct output *o, struct err *e)
{
	if (o->cap >= o->max)
		return err_set(e, ERR_LIMIT, "the profile is larger than %zu bytes after decompression", o->max);
	size_t cap = o->cap > o->max / 2 ? o->max : o->cap * 2;
	uint8_t *p = arena_alloc(o->arena, cap);
	if (!p)
		return err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", o->arena->max);
	memcpy(p, o->p, o->len);
	o->p = p;
	o->cap = cap;
	return 0;
}

/* One member at in; *ret_used bytes of it. */
static int gunzip_member(struct libdeflate_decompressor *d, const uint8_t *in, size_t n, size_t at, struct output *o,
			 size_t *ret_used, struct err *e)
{
	for (;;) {
		size_t got = 0;
		enum libdeflate_result r =
			libdeflate_gzip_decompress_ex(d, in + at, n - at, o->p + o->len, o->cap - o->len, ret_used, &got);
		if (r == LIBDEFLATE_SUCCESS) {
			o->len += got;
			return 0;
		}
		if (r != LIBDEFLATE_INSUFFICIENT_SPACE)
			return err_set(e, ERR_BAD_DATA, "the gzip member at byte %zu of %zu is corrupt or cut short", at, n);
		int rc = grow(o, e);
		if (rc)
			return rc;
	}
}

int pprof_gunzip(const void *bytes, size_t n, size_t max, struct arena *a, struct view *ret, struct err *e)
{
	const uint8_t *in = bytes;
	struct libdeflate_decompressor *d CLEANUP(free_decompressor) = libdeflate_alloc_decompressor();
	if (!d)
		return err_set(e, ERR_LIMIT, "no memory to decompress with");
	struct output o = { .arena = a, .max = max, .cap = guess_size(in, n, max) };
	o.p = arena_alloc(a, o.cap);
	if (!o.p)
		return err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", a->max);
	for (size_t at = 0, used; at < n; at += used) {
		if (!pprof_is_gzip(in + at, n - at))
			return err_set(e, ERR_BAD_DATA, "byte %zu of %zu: what follows the gzip member is not gzip", at, n);
		int rc = gunzip_member(d, in, n, at, &o, &used, e);
		if (rc)
			return rc;
	}
	*ret = (struct view){ (const char *)o.p, o.len };
	return 0;
}

int pprof_gzip(struct view raw, int level, struct buf *out, struct err *e)
{
	struct libdeflate_compressor *c CLEANUP(free_compressor) = libdeflate_alloc_compressor(level ? level : LEVEL_DEFAULT);
	if (!c)
		return err_set(e, ERR_INTERNAL, "no compressor of level %d", level);
	size_t bound = libdeflate_gzip_compress_bound(c, raw.len);
	if (!buf_reserve(out, bound))
		return err_set(e, ERR_LIMIT, "the compressed profile is larger than %zu bytes",
			       out->max ? out->max : BUF_DEFAULT_MAX);
	size_t n = libdeflate_gzip_compress(c, raw.ptr, raw.len, out->ptr + out->len, bound);
	if (!n)
		return err_set(e, ERR_INTERNAL, "compressing %zu bytes failed", raw.len);
	out->len += n;
	out->ptr[out->len] = 0;
	return 0;
}
