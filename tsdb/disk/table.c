/* SPDX-License-Identifier: Apache-2.0 */
/* The needed part of RocksDB's block-based tables (table/format.h, format_version 5), with the options of rocks.c:
 *
 *	file    := data block* other block* metaindex block, footer
 *	footer  := checksum type u8, handles of metaindex and index, zeros up to 41 bytes, version u32, magic u64     53 bytes
 *	handle  := offset varint, size varint: of a block without its trailer
 *	block   := contents, trailer: compression u8, checksum u32       compression 0 none, 7 zstd behind a varint, the size it has then
 *	contents:= entry*, restart u32 * n, n u32
 *	entry   := shared varint, unshared varint, value length varint, the key's end, value
 *
 * Fixed numbers are little-endian. Entries of data have keys that end in 8 bytes, sequence and type; those of the index have a handle
 * for a value, and no length of it. The checksum is the lower half of XXH3-64 of the stored contents, mixed with the compression byte.
 *
 * Without an index the blocks are found one behind the other: zstd says itself where it ends, and what is not compressed ends in its
 * restarts. */
#include "tsdb/disk/table.h"

#include <zstd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "tsdb/disk/cursor.h"

#define TRAILER 5
#define FOOTER 53
#define MAGIC UINT64_C(0x88e241b785f4cff7)
#define CHECKSUM_XXH3 4
#define NO_COMPRESSION 0
#define ZSTD 7
#define KEY_TRAILER 8
#define TYPE_PUT 1
#define MAX_FILE ((size_t)1 << 30)
#define MAX_BLOCK ((size_t)1 << 30)

struct table {
	const uint8_t *p;
	size_t n;
	struct buf contents; /* of a block that was compressed */
	struct buf key;
	table_fn *fn;
	void *arg;
	struct table_loss *loss;
};

static uint64_t get_le(const uint8_t *p, int bytes)
{
	uint64_t v = 0;
	for (int i = bytes; i--;)
		v = v << 8 | p[i];
	return v;
}

/* ---- blocks ---- */

static bool checksum_holds(const uint8_t *p, size_t size)
{
	uint32_t sum = (uint32_t)hash_stable(p, size) ^ p[size] * UINT32_C(0x6b9083d9);
	return get_le(p + size + 1, 4) == sum;
}

static bool unpack(struct table *t, const uint8_t *p, size_t size, struct view *ret)
{
	struct cursor c = cursor_of(view_make((const char *)p, size));
	uint64_t n = cursor_varint(&c);
	buf_reset(&t->contents);
	if (c.bad || n > MAX_BLOCK || !buf_reserve(&t->contents, n))
		return false;
	size_t got = ZSTD_decompress(t->contents.ptr, n, c.p, (size_t)(c.end - c.p));
	*ret = view_make(t->contents.ptr, n);
	return !ZSTD_isError(got) && got == n;
}

/* The contents of the block at `at`; false: it is damaged. */
static bool get_block(struct table *t, uint64_t at, uint64_t size, struct view *ret)
{
	if (at > t->n || t->n - at < TRAILER || size > t->n - at - TRAILER || !checksum_holds(t->p + at, size))
		return false;
	*ret = view_make((const char *)t->p + at, size);
	return t->p[at + size] == NO_COMPRESSION || (t->p[at + size] == ZSTD && unpack(t, t->p + at, size, ret));
}

/* The end of the entries. */
static bool cut_restarts(struct view *block)
{
	if (block->len < 8)
		return false;
	uint64_t n = get_le((const uint8_t *)block->ptr + block->len - 4, 4);
	if (n > (block->len - 4) / 4)
		return false;
	block->len -= 4 + 4 * (size_t)n;
	return true;
}

static bool next_key(struct table *t, struct cursor *c, size_t shared, size_t unshared)
{
	if (shared > t->key.len || unshared > (size_t)(c->end - c->p))
		return false;
	t->key.len = shared;
	buf_put(&t->key, c->p, unshared);
	c->p += unshared;
	return !t->key.overflow;
}

/* Hands on what a data block has; false: it is malformed, as no block does that passed its checksum and is one of data. */
static bool read_entries(struct table *t, struct view block, int *rc, struct err *e)
{
	if (!cut_restarts(&block))
		return false;
	struct cursor c = cursor_of(block);
	buf_reset(&t->key);
	while (c.p < c.end && !*rc) {
		uint64_t shared = cursor_varint(&c), unshared = cursor_varint(&c), len = cursor_varint(&c);
		if (c.bad || !next_key(t, &c, shared, unshared) || len > (uint64_t)(c.end - c.p) || t->key.len < KEY_TRAILER)
			return false;
		struct view value = cursor_bytes(&c, len);
		if (t->key.ptr[t->key.len - KEY_TRAILER] == TYPE_PUT)
			*rc = t->fn(t->arg, view_make(t->key.ptr, t->key.len - KEY_TRAILER), value, e);
	}
	return true;
}

/* ---- with the index ---- */

static bool get_handle(struct cursor *c, uint64_t *at, uint64_t *size)
{
	*at = cursor_varint(c);
	*size = cursor_varint(c);
	return !c->bad;
}

static bool get_index(struct table *t, struct view *ret)
{
	uint64_t at, size;
	if (t->n < FOOTER)
		return false;
	const uint8_t *footer = t->p + t->n - FOOTER;
	if (get_le(footer + FOOTER - 8, 8) != MAGIC || footer[0] != CHECKSUM_XXH3)
		return false;
	struct cursor c = cursor_of(view_make((const char *)footer + 1, 40));
	return get_handle(&c, &at, &size) && get_handle(&c, &at, &size) && get_block(t, at, size, ret);
}

struct handle {
	uint64_t at, size;
};

/* The blocks that the index names. */
struct handles {
	VEC(struct handle) v;
};

/* Each entry of the index is complete (its keys share nothing), so each has a whole handle. */
static bool list_blocks(struct view index, struct handles *h)
{
	if (!cut_restarts(&index))
		return false;
	struct cursor c = cursor_of(index);
	while (c.p < c.end && !c.bad) {
		uint64_t shared = cursor_varint(&c), unshared = cursor_varint(&c), at, size;
		if (shared || unshared > (uint64_t)(c.end - c.p))
			return false;
		c.p += unshared;
		if (!get_handle(&c, &at, &size))
			return false;
		vec_push(&h->v, (struct handle){ at, size });
	}
	return !c.bad;
}

static int read_listed(struct table *t, const struct handles *h, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < h->v.n && !rc; i++) {
		struct view block;
		if (!get_block(t, h->v.v[i].at, h->v.v[i].size, &block) || !read_entries(t, block, &rc, e))
			t->loss->blocks++;
	}
	return rc;
}

/* ---- without it ---- */

/* The size of the contents that begin here; 0: it cannot be told. */
static size_t find_end_zstd(const uint8_t *p, size_t n)
{
	struct cursor c = cursor_of(view_make((const char *)p, n));
	cursor_varint(&c);
	if (c.bad || c.end - c.p < 4 || get_le(c.p, 4) != ZSTD_MAGICNUMBER)
		return 0;
	size_t frame = ZSTD_findFrameCompressedSize(c.p, (size_t)(c.end - c.p));
	return ZSTD_isError(frame) ? 0 : (size_t)(c.p - p) + frame;
}

/* Restarts begin with one that is 0, which no entry does: its key has 8 bytes at least, none shared. */
static size_t find_end_plain(const uint8_t *p, size_t n)
{
	struct cursor c = cursor_of(view_make((const char *)p, n));
	while (!c.bad && c.end - c.p >= 8 && get_le(c.p, 4)) {
		uint64_t shared = cursor_varint(&c), unshared = cursor_varint(&c), len = cursor_varint(&c), left = (uint64_t)(c.end - c.p);
		(void)shared;
		if (c.bad || unshared > left || len > left - unshared)
			return 0;
		c.p += unshared + len;
	}
	size_t at = (size_t)(c.p - p);
	for (size_t k = 1; !c.bad && at + 4 * k + 4 <= n; k++)
		if (get_le(p + at + 4 * k, 4) == k && at + 4 * k + 4 + TRAILER <= n && checksum_holds(p, at + 4 * k + 4))
			return at + 4 * k + 4;
	return 0;
}

/* Ends at the first unreadable block, be it of data or the index behind them. */
static int read_in_order(struct table *t, struct err *e)
{
	int rc = 0;
	size_t at = 0;
	while (at < t->n && !rc) {
		struct view block;
		size_t size = find_end_zstd(t->p + at, t->n - at);
		if (!size || !get_block(t, at, size, &block)) {
			size = find_end_plain(t->p + at, t->n - at);
			if (!size || !get_block(t, at, size, &block))
				break;
		}
		if (!read_entries(t, block, &rc, e))
			break;
		at += size + TRAILER;
	}
	return rc;
}

int table_each(const char *path, table_fn *fn, void *arg, struct table_loss *ret, struct err *e)
{
	CLEANUP(buf_free) struct buf file = { .max = MAX_FILE };
	struct handles h = { 0 };
	struct view index;
	*ret = (struct table_loss){ 0 };
	int rc = buf_read_file(&file, path, e);
	if (rc)
		return rc;
	struct table t = { .p = (const uint8_t *)file.ptr, .n = file.len, .fn = fn, .arg = arg, .loss = ret };
	ret->index = !get_index(&t, &index) || !list_blocks(index, &h);
	rc = ret->index ? read_in_order(&t, e) : read_listed(&t, &h, e);
	vec_free(&h.v);
	buf_free(&t.contents);
	buf_free(&t.key);
	return rc;
}
