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

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/map.h"
#include "base/vec.h"

#define TRAILER 5
#define FOOTER 53
#define HANDLES 40 /* bytes of the footer for its two handles, filled up with zeros */
#define FORMAT_VERSION 5
#define MAGIC UINT64_C(0x88e241b785f4cff7)
#define CHECKSUM_XXH3 4
#define NO_COMPRESSION 0
#define ZSTD 7
#define KEY_TRAILER 8
#define TYPE_PUT 1
#define MAX_FILE ((size_t)1 << 30)
#define MAX_BLOCK ((size_t)1 << 30)
#define MAX_INDEX ((size_t)1 << 28)

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

/* Where a block is; size is without the trailer. */
struct handle {
	uint64_t at, size;
};

static bool get_handle(struct cursor *c, struct handle *ret)
{
	ret->at = cursor_varint(c);
	ret->size = cursor_varint(c);
	return !c->bad;
}

/* Reads the FOOTER bytes at p. *ret_zeros: the bytes between the handles and the version. */
static bool get_footer(const uint8_t *p, struct handle *ret_metaindex, struct handle *ret_index, struct view *ret_zeros)
{
	if (get_le(p + FOOTER - 8, 8) != MAGIC || p[0] != CHECKSUM_XXH3)
		return false;
	struct cursor c = cursor_of(view_make((const char *)p + 1, HANDLES));
	if (!get_handle(&c, ret_metaindex) || !get_handle(&c, ret_index))
		return false;
	*ret_zeros = view_make((const char *)c.p, (size_t)(c.end - c.p));
	return true;
}

static bool get_index(struct table *t, struct view *ret)
{
	struct handle metaindex, index;
	struct view zeros;
	return t->n >= FOOTER && get_footer(t->p + t->n - FOOTER, &metaindex, &index, &zeros) && get_block(t, index.at, index.size, ret);
}

/* The blocks that the index names. */
struct handles {
	VEC(struct handle) v;
};

/* Each entry of the index is complete (its keys share nothing), so each has a whole handle. */
static bool next_entry(struct cursor *c, struct view *ret_key, struct handle *ret)
{
	uint64_t shared = cursor_varint(c), unshared = cursor_varint(c);
	if (shared || unshared > (uint64_t)(c->end - c->p))
		return false;
	*ret_key = cursor_bytes(c, unshared);
	return get_handle(c, ret);
}

static bool list_blocks(struct view index, struct handles *h)
{
	struct handle x;
	struct view key;
	if (!cut_restarts(&index))
		return false;
	struct cursor c = cursor_of(index);
	while (c.p < c.end) {
		if (!next_entry(&c, &key, &x))
			return false;
		vec_push(&h->v, x);
	}
	return true;
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

/* ---- the index alone ---- */

static int read_at(int fd, const char *path, void *p, size_t n, uint64_t at, struct err *e)
{
	for (size_t got = 0; got < n;) {
		ssize_t now = pread(fd, (char *)p + got, n - got, (off_t)(at + got));
		if (now < 0 && errno == EINTR)
			continue;
		if (now < 0)
			return err_errno(e, errno, "cannot read %s", path);
		if (!now)
			return err_set(e, ERR_CORRUPT, "%s became shorter while it was read", path);
		got += (size_t)now;
	}
	return 0;
}

static bool is_zero(struct view v)
{
	for (size_t i = 0; i < v.len; i++)
		if (v.ptr[i])
			return false;
	return true;
}

/* Whether a block with its trailer lies in the first `end` bytes. */
static bool is_before(const struct handle *h, uint64_t end)
{
	return h->at <= end && h->size <= end - h->at && end - h->at - h->size >= TRAILER;
}

/* RocksDB writes the metaindex directly before the footer. */
static bool footer_is_whole(const uint8_t *footer, uint64_t file_size, struct handle *ret_index)
{
	struct handle metaindex;
	struct view zeros;
	uint64_t end = file_size - FOOTER;
	return get_footer(footer, &metaindex, ret_index, &zeros) && is_zero(zeros) && get_le(footer + 1 + HANDLES, 4) == FORMAT_VERSION &&
	       is_before(&metaindex, end) && metaindex.at + metaindex.size + TRAILER == end && is_before(ret_index, metaindex.at);
}

static int each_listed(const char *path, struct view index, uint64_t index_at, table_block_fn *fn, void *arg, struct err *e)
{
	uint64_t end = 0; /* of the blocks so far */
	int rc = 0;
	if (!cut_restarts(&index))
		return err_set(e, ERR_CORRUPT, "%s: its index is malformed", path);
	struct cursor c = cursor_of(index);
	while (c.p < c.end && !rc) {
		struct view separator;
		struct handle h;
		if (!next_entry(&c, &separator, &h))
			return err_set(e, ERR_CORRUPT, "%s: its index is malformed", path);
		if (h.at != end || !is_before(&h, index_at))
			return err_set(e, ERR_CORRUPT, "%s: its index names a block at %" PRIu64 " of %" PRIu64 " bytes, which cannot be", path,
				       h.at, h.size);
		end += h.size + TRAILER;
		rc = fn(arg, separator, h.at, h.size + TRAILER, e);
	}
	return rc;
}

int table_each_block(int fd, const char *path, table_block_fn *fn, void *arg, uint64_t *ret_size, struct err *e)
{
	CLEANUP(buf_free) struct buf stored = { .max = MAX_INDEX + TRAILER };
	uint8_t footer[FOOTER];
	struct handle h;
	struct view index;
	struct stat st;
	if (fstat(fd, &st))
		return err_errno(e, errno, "cannot read %s", path);
	if (st.st_size < FOOTER)
		return err_set(e, ERR_CORRUPT, "%s: %jd bytes are too few for a table", path, (intmax_t)st.st_size);
	int rc = read_at(fd, path, footer, FOOTER, (uint64_t)st.st_size - FOOTER, e);
	if (rc)
		return rc;
	if (!footer_is_whole(footer, (uint64_t)st.st_size, &h))
		return err_set(e, ERR_CORRUPT, "%s: its footer is damaged", path);
	if (h.size > MAX_INDEX || !buf_reserve(&stored, h.size + TRAILER))
		return err_set(e, ERR_LIMIT, "%s: its index has %" PRIu64 " bytes, at most %zu are read", path, h.size, MAX_INDEX);
	rc = read_at(fd, path, stored.ptr, h.size + TRAILER, h.at, e);
	if (rc)
		return rc;
	struct table t = { .p = (const uint8_t *)stored.ptr, .n = h.size + TRAILER, .contents.max = MAX_INDEX };
	*ret_size = (uint64_t)st.st_size;
	rc = get_block(&t, 0, h.size, &index) ? each_listed(path, index, h.at, fn, arg, e) :
	     err_set(e, ERR_CORRUPT, "%s: its index is damaged", path);
	buf_free(&t.contents);
	return rc;
}
