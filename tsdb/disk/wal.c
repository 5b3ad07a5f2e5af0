/* SPDX-License-Identifier: Apache-2.0 */
/* The file is made of blocks of 32 KiB (db/log_format.h of RocksDB; the format has been the same since LevelDB):
 *
 *	block   := piece* zeros       fewer than 7 bytes are left over
 *	piece   := checksum u32, length u16 (both little-endian), type u8, bytes
 *	type    := 1 a whole entry, 2 its first, 3 a middle or 4 its last piece
 *
 * The checksum is CRC-32C of type and bytes, rotated right by 15 bits, plus 0xa282ead8. If a piece fails it, its length may be wrong.
 * So the next piece is looked for where the length says, and if there is none, at the next block.
 *
 * An entry of a write-ahead file is a batch (db/write_batch.cc):
 *
 *	batch   := sequence u64, count u32 (both little-endian), change*
 *	change  := type u8, key, and a value if the type has one; both with a varint length in front */
#include "tsdb/disk/wal.h"

#include <pthread.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cursor.h"

#define BLOCK 32768
#define HEADER 7
#define BATCH_HEADER 12

enum { WHOLE = 1, FIRST, MIDDLE, LAST };
enum { CHANGE_DELETE = 0, CHANGE_PUT = 1, CHANGE_LOG_DATA = 3, CHANGE_NOTHING = 13, CHANGE_DELETE_RANGE = 15 };

/* ---- CRC-32C ---- */

static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
		table[0][i] = crc;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

static uint32_t get_le(const uint8_t *p, int bytes)
{
	uint32_t v = 0;
	for (int i = bytes; i--;)
		v = v << 8 | p[i];
	return v;
}

static uint32_t crc32c(const uint8_t *p, size_t n)
{
	uint32_t crc = UINT32_MAX;
	pthread_once(&table_once, make_table);
	for (; n >= 8; n -= 8, p += 8) {
		uint32_t a = get_le(p, 4) ^ crc, b = get_le(p + 4, 4);
		crc = table[7][a & 0xff] ^ table[6][a >> 8 & 0xff] ^ table[5][a >> 16 & 0xff] ^ table[4][a >> 24] ^
		      table[3][b & 0xff] ^ table[2][b >> 8 & 0xff] ^ table[1][b >> 16 & 0xff] ^ table[0][b >> 24];
	}
	for (; n; n--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return ~crc;
}

/* ---- pieces ---- */

struct piece {
	const uint8_t *bytes;
	size_t len;
	uint8_t type;
};

static bool get_piece(const uint8_t *p, size_t n, size_t at, struct piece *ret)
{
	size_t left = BLOCK - at % BLOCK;
	if (left < HEADER || n - at < HEADER)
		return false;
	*ret = (struct piece){ p + at + HEADER, get_le(p + at + 4, 2), p[at + 6] };
	if (!ret->type || ret->len > n - at - HEADER || ret->len > left - HEADER)
		return false;
	uint32_t crc = crc32c(p + at + 6, 1 + ret->len);
	return get_le(p + at, 4) == (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* Where to continue after a damaged piece. */
static size_t behind(const uint8_t *p, size_t n, size_t at)
{
	struct piece next;
	size_t block = at + (BLOCK - at % BLOCK);
	size_t by_length = n - at >= HEADER ? at + HEADER + get_le(p + at + 4, 2) : n;
	if (by_length < n && by_length < block && get_piece(p, n, by_length, &next))
		return by_length;
	return MIN(block, n);
}

static bool is_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

/* The bytes read so far. */
struct reading {
	struct buf entry;
	bool within;    /* an entry whose last piece did not come yet */
	size_t damaged; /* damaged places since the last intact piece */
	struct wal_loss *loss;
};

/* An entry without its end, or an end without its entry. */
static void broken(struct reading *r)
{
	r->within = false;
	r->damaged++;
}

/* 1: there is a complete entry. */
static int add_piece(struct reading *r, const struct piece *x)
{
	if (x->type > LAST)
		return 0;
	bool begins = x->type == WHOLE || x->type == FIRST;
	if (begins && r->within)
		broken(r);
	if (!begins && !r->within) {
		r->loss->holes += !r->damaged; /* else that place was reported already */
		return 0;
	}
	if (begins)
		buf_reset(&r->entry);
	r->loss->holes += r->damaged;
	r->damaged = 0;
	buf_put(&r->entry, x->bytes, x->len);
	r->within = x->type == FIRST || x->type == MIDDLE;
	return !r->within;
}

int wal_each(struct view bytes, int (*fn)(void *arg, struct view entry, struct err *e), void *arg, struct wal_loss *ret, struct err *e)
{
	const uint8_t *p = (const uint8_t *)bytes.ptr;
	struct reading r = { .loss = ret };
	size_t n = bytes.len, at = 0;
	int rc = 0;
	*ret = (struct wal_loss){ 0 };
	while (at < n && !rc) {
		struct piece x;
		if (BLOCK - at % BLOCK < HEADER) {
			at += BLOCK - at % BLOCK;
		} else if (get_piece(p, n, at, &x)) {
			at = (size_t)(x.bytes - p) + x.len;
			if (add_piece(&r, &x) && fn)
				rc = fn(arg, buf_view(&r.entry), e);
		} else if (!p[at] && is_zero(p + at, n - at)) {
			break; /* room made beforehand */
		} else {
			broken(&r);
			at = behind(p, n, at);
		}
	}
	ret->tail = r.within || r.damaged;
	buf_free(&r.entry);
	return rc;
}

/* ---- batches ---- */

uint64_t wal_sequence(struct view entry)
{
	uint64_t v = 0;
	for (size_t i = 8; i-- && entry.len >= BATCH_HEADER;)
		v = v << 8 | (uint8_t)entry.ptr[i];
	return v;
}

static struct view get_bytes(struct cursor *c)
{
	uint64_t n = cursor_varint(c);
	if (n > (uint64_t)(c->end - c->p))
		c->bad = true;
	return cursor_bytes(c, c->bad ? 0 : (size_t)n);
}

bool wal_batch(struct view entry, int (*fn)(void *arg, struct view key, struct view value, struct err *e), void *arg, int *ret_rc,
	       struct err *e)
{
	struct cursor c = cursor_of(entry);
	*ret_rc = 0;
	if (entry.len < BATCH_HEADER)
		return false;
	c.p += BATCH_HEADER;
	while (c.p < c.end && !c.bad && !*ret_rc) {
		uint8_t type = cursor_u8(&c);
		if (type == CHANGE_NOTHING)
			continue;
		struct view key = get_bytes(&c), value = { 0 };
		if (type == CHANGE_PUT || type == CHANGE_DELETE_RANGE)
			value = get_bytes(&c);
		else if (type != CHANGE_DELETE && type != CHANGE_LOG_DATA)
			c.bad = true;
		if (type == CHANGE_PUT && !c.bad)
			*ret_rc = fn(arg, key, value, e);
	}
	return !c.bad;
}
