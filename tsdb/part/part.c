/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/part/part_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/dict/dict_pack.h"

#define TRAILER 8
#define READ_TRIES 3

/* ---- keys and values ---- */

void part_make_key(char k[KEY_LEN], enum part_level level, uint32_t window, uint32_t part, enum part_kind kind,
		   uint32_t series, uint8_t stream)
{
	const uint32_t words[] = { window, part };
	k[0] = (char)level;
	for (int i = 0; i < 8; i++)
		k[1 + i] = (char)(words[i / 4] >> (24 - 8 * (i % 4)));
	k[9] = (char)kind;
	for (int i = 0; i < 4; i++)
		k[10 + i] = (char)(series >> (24 - 8 * i));
	k[14] = (char)stream;
}

enum part_kind part_key_kind(bool one_kind, enum part_kind kind, uint8_t stream)
{
	return kind != PART_DETAIL || one_kind || !stream ? kind : stream == 1 ? PART_DETAIL_1 : PART_DETAIL_2;
}

uint32_t part_key_word(const char *p)
{
	const uint8_t *b = (const uint8_t *)p;
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static uint64_t be64(const char *p)
{
	return (uint64_t)part_key_word(p) << 32 | part_key_word(p + 4);
}

uint8_t part_version_of(enum part_kind kind)
{
	switch (kind) {
	case PART_HEADER: return HEADER_VERSION;
	case PART_SYMBOLS: return SYMBOLS_VERSION;
	case PART_INDEX: return INDEX_VERSION;
	case PART_ROLLUP: return ROLLUP_VERSION;
	case PART_DETAIL: return PLACES_VERSION;
	default: return VALUE_VERSION;
	}
}

int part_open_value(const char *key, const char *v, size_t len, struct view *ret, struct err *e)
{
	if (len < 1 + TRAILER)
		return err_set(e, ERR_CORRUPT, "a value of a sealed part is %zu bytes short", 1 + TRAILER - len);
	if (be64(v + len - TRAILER) != hash_stable_seed(v, len - TRAILER, hash_stable(key, KEY_LEN)))
		return err_set(e, ERR_CORRUPT, "a value of a sealed part fails its checksum");
	uint8_t newest = part_version_of((enum part_kind)key[9]);
	if (!v[0] || (uint8_t)v[0] > newest)
		return err_set(e, ERR_CORRUPT, "a value of a sealed part has version %u, this program reads %u: use the newer one",
			       (uint8_t)v[0], newest);
	*ret = view_make(v + 1, len - 1 - TRAILER);
	return 0;
}

/* ---- parts ---- */

void part_know(struct part *p)
{
	mutex_lock(&p->db->parts_lock);
	vec_push(&p->db->parts, p);
	mutex_unlock(&p->db->parts_lock);
}

static void forget_part(const struct part *p)
{
	struct partition_db *d = p->db;
	mutex_lock(&d->parts_lock);
	for (size_t i = 0; i < d->parts.n; i++)
		if (d->parts.v[i] == p) {
			d->parts.v[i] = d->parts.v[--d->parts.n];
			break;
		}
	mutex_unlock(&d->parts_lock);
}

struct part *part_ref(struct part *p)
{
	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

void part_retire(struct part *p)
{
	atomic_store(&p->retired, true);
}

/* A part is a file, so that its range of keys is; files that are only partly in the range would stay. */
void part_forget_file(const struct part *p)
{
	char from[KEY_LEN], to[KEY_LEN], *error = NULL;
	struct err e;
	part_make_key(from, p->level, p->window, p->number, PART_HEADER, 0, 0);
	part_make_key(to, p->level, p->window, p->number, (enum part_kind)0xff, UINT32_MAX, 0xff);
	rocksdb_delete_file_in_range(p->db->db, from, KEY_LEN, to, KEY_LEN, &error);
	if (rocks_err(&error, &e, "cannot remove a part of", p->db->dir))
		LOG_WARN("msg", "a part that is no longer needed stays on disk", "err", e.msg);
}

char *part_aside(const struct part *p)
{
	return xasprintf("%s/%u-%u-%u" PARTITION_DB_ASIDE, p->db->dir, p->level, p->window, p->number);
}

void part_remove_file(const struct part *p)
{
	AUTOFREE char *aside = part_aside(p);
	part_forget_file(p);
	unlink(aside);
}

void part_unref(struct part *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	if (p->db && !p->db->look_only && !atomic_load(&p->db->read_only) && atomic_load(&p->retired) && !partition_db_enter(p->db, NULL)) {
		part_remove_file(p);
		partition_db_leave(p->db);
	}
	if (p->db)
		forget_part(p);
	if (p->lack)
		p->lack->release(p->lack);
	partition_db_unref(p->db);
	vec_free(&p->sums);
	vec_free(&p->series);
	vec_free(&p->aggregates);
	map_free(&p->bad);
	free(atomic_load(&p->covers));
	free(atomic_load(&p->ends));
	free(p);
}

const struct part_series *part_find(const struct part *p, uint32_t series)
{
	size_t a = 0, b = p->series.n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (p->series.v[m].series < series)
			a = m + 1;
		else
			b = m;
	}
	return a < p->series.n && p->series.v[a].series == series ? &p->series.v[a] : NULL;
}

void part_put_header(struct buf *b, const struct part *p)
{
	buf_varint(b, p->first_record);
	buf_varint(b, p->last_record);
	buf_varint(b, p->samples);
	buf_varint(b, p->sums.n);
	for (size_t i = 0; i < p->sums.n; i++)
		buf_varint(b, p->sums.v[i]);
	buf_varint(b, p->origin);
	if (p->lost)
		buf_varint(b, p->lost);
}

int part_parse_header(struct part *p, struct view v, struct err *e)
{
	struct cursor c = cursor_of(v);
	p->first_record = cursor_varint(&c);
	p->last_record = cursor_varint(&c);
	p->samples = cursor_varint(&c);
	for (size_t n = cursor_count(&c); n && !c.bad; n--)
		vec_push(&p->sums, cursor_u32(&c));
	p->origin = c.bad || c.p == c.end ? p->number : cursor_u32(&c); /* older ones do not say */
	p->lost = c.bad || c.p == c.end ? 0 : cursor_varint(&c);
	if (p->level != LEVEL_HOUR)
		p->origin = 0; /* of the rollups of one window the newest counts */
	return c.bad ? err_set(e, ERR_CORRUPT, "the header of a sealed part is malformed") : 0;
}

void part_put_index(struct buf *b, const struct part *p)
{
	uint32_t next = 0;
	buf_varint(b, p->series.n);
	for (size_t i = 0; i < p->series.n; i++) {
		const struct part_series *s = &p->series.v[i];
		buf_varint(b, (uint64_t)(s->series - next) << 1 | s->is_float);
		next = s->series + 1;
		buf_varint(b, s->min_ms);
		buf_varint(b, s->max_ms - s->min_ms);
		buf_varint(b, s->aggregate);
	}
	buf_varint(b, p->aggregates.n);
}

/* Counts the members of the n aggregates. */
static bool count_members(struct part *p, size_t n)
{
	if (n > p->series.n)
		return false;
	vec_reserve(&p->aggregates, n);
	for (size_t i = 0; i < n; i++)
		vec_push(&p->aggregates, 0);
	for (size_t i = 0; i < p->series.n; i++) {
		if (p->series.v[i].aggregate > n)
			return false;
		if (p->series.v[i].aggregate)
			p->aggregates.v[p->series.v[i].aggregate - 1]++;
	}
	return true;
}

int part_parse_index(struct part *p, struct view v, uint8_t version, struct err *e)
{
	struct cursor c = cursor_of(v);
	size_t n = cursor_count(&c);
	uint64_t next = 0;
	vec_reserve(&p->series, n);
	for (size_t i = 0; i < n && !c.bad; i++) {
		uint64_t x = cursor_varint(&c), id = next + (x >> 1);
		struct part_series s = { .series = (uint32_t)id, .is_float = x & 1, .min_ms = cursor_u32(&c) };
		s.max_ms = s.min_ms + cursor_u32(&c);
		s.aggregate = version > 1 ? cursor_u32(&c) : 0;
		c.bad |= id > UINT32_MAX - 1;
		next = id + 1;
		vec_push(&p->series, s);
	}
	if (version > 1)
		c.bad |= !count_members(p, cursor_varint(&c));
	return c.bad ? err_set(e, ERR_CORRUPT, "the index of a sealed part is malformed") : 0;
}

/* ---- reading ---- */

_Thread_local struct read_tally read_tally;

int part_need(const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream, struct err *e)
{
	return p->lack ? p->lack->need(p->lack, part_key_kind(p->one_kind, kind, stream), series & PART_AGGREGATE, e) : 0;
}

static int value_get(const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream, struct part_value *ret,
		     struct err *e)
{
	char key[KEY_LEN], *error = NULL;
	size_t len;
	part_make_key(key, p->level, p->window, p->number, part_key_kind(p->one_kind, kind, stream), series, stream);
	int rc = partition_db_enter(p->db, e);
	if (rc)
		return rc;
	ret->db = p->db;
	for (int tries = 0; !tries || (rc == -ERR_CORRUPT && tries < READ_TRIES); tries++) { /* it may only have been read wrong */
		ret->pin = rocksdb_get_pinned(p->db->db, p->db->read, key, KEY_LEN, &error);
		rc = rocks_err(&error, e, "cannot read the partition", p->db->dir);
	}
	const char *v = ret->pin ? rocksdb_pinnableslice_value(ret->pin, &len) : NULL;
	if (!rc && !v)
		rc = err_set(e, ERR_NOT_FOUND, "a sealed part has no such value");
	if (!v) {
		partition_db_leave(p->db);
		ret->db = NULL;
		return rc;
	}
	read_tally_add(len);
	rc = part_open_value(key, v, len, &ret->payload, e);
	ret->version = rc ? 0 : (uint8_t)v[0];
	return rc ? err_wrap(e, "%s, window %u, part %u", p->db->dir, p->window, p->number) : 0;
}

static bool part_knows_totals(const struct part *p, enum part_kind kind, uint32_t series, struct view *ret)
{
	return p->lack && kind == PART_TOTALS && series & PART_AGGREGATE && p->lack->totals(p->lack, series & ~PART_AGGREGATE, ret);
}

int part_get(const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream, struct part_value *ret,
	     struct err *e)
{
	if (part_knows_totals(p, kind, series, &ret->payload)) {
		ret->version = VALUE_VERSION;
		return 0;
	}
	int rc = part_need(p, kind, series, stream, e);
	if (!rc)
		rc = value_get(p, kind, series, stream, ret, e);
	if (!rc || !p->lack || (rc != -ERR_CORRUPT && rc != -ERR_IO && rc != -ERR_NOT_FOUND))
		return rc;
	struct err why;
	if (!p->lack->recheck(p->lack, part_key_kind(p->one_kind, kind, stream), series & PART_AGGREGATE, &why))
		return rc;
	part_value_release(ret);
	return err_set(e, why.code, "%s", why.msg);
}

int part_open_symbols(const struct part *p, struct part_value *ret, bool *ret_packed, struct err *e)
{
	int rc = part_get(p, PART_SYMBOLS, 0, 0, ret, e);
	*ret_packed = !rc && ret->version >= SYMBOLS_VERSION;
	return rc;
}

int part_get_symbols(const struct part *p, struct buf *rows, struct err *e)
{
	PART_VALUE v = { 0 };
	int rc = part_get(p, PART_SYMBOLS, 0, 0, &v, e);
	if (rc)
		return rc;
	if (v.version >= SYMBOLS_VERSION)
		return dict_unpack(rows, v.payload, e);
	buf_putv(rows, v.payload);
	return 0;
}

void part_value_release(struct part_value *v)
{
	if (v->pin)
		rocksdb_pinnableslice_destroy(v->pin);
	if (v->db)
		partition_db_leave(v->db);
	v->pin = NULL;
	v->db = NULL;
}

/* The common prefix of keys of one kind in one part: it prevents steps into another part. */
#define KEY_KIND_LEN 10

/* Whether the iterator is at key, after a few steps or a seek. */
static bool reader_find(struct part_reader *r, const char *key)
{
	size_t len;
	for (int steps = 0; r->it && rocksdb_iter_valid(r->it) && steps < 4; steps++) {
		const char *at = rocksdb_iter_key(r->it, &len);
		int cmp = len == KEY_LEN ? memcmp(at, key, KEY_LEN) : 1;
		if (cmp > 0 || memcmp(at, key, KEY_KIND_LEN))
			break;
		if (cmp == 0)
			return true;
		rocksdb_iter_next(r->it);
	}
	rocksdb_iter_seek(r->it, key, KEY_LEN);
	if (!rocksdb_iter_valid(r->it))
		return false;
	const char *at = rocksdb_iter_key(r->it, &len);
	return len == KEY_LEN && memcmp(at, key, KEY_LEN) == 0;
}

/* An iterator that reached a bad block or file reports its end. Then, and when there is no such value, a point look-up decides. */
static int reader_look_up(struct part_reader *r, const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream,
			  struct view *ret, struct err *e)
{
	part_value_release(&r->value);
	int rc = part_get(p, kind, series, stream, &r->value, e);
	*ret = r->value.payload;
	r->version = rc ? 0 : r->value.version;
	return rc;
}

int part_reader_get(struct part_reader *r, const struct part *p, enum part_kind kind, uint32_t series, uint8_t stream,
		    struct view *ret, struct err *e)
{
	char key[KEY_LEN];
	size_t len;
	if (part_knows_totals(p, kind, series, ret)) {
		r->version = VALUE_VERSION;
		return 0;
	}
	int lacks = part_need(p, kind, series, stream, e);
	if (lacks)
		return lacks;
	if (r->db != p->db) {
		part_reader_release(r);
		int closed = partition_db_enter(p->db, e);
		if (closed)
			return closed;
		r->db = p->db;
		r->it = rocksdb_create_iterator(p->db->db, p->db->read);
	}
	part_make_key(key, p->level, p->window, p->number, part_key_kind(p->one_kind, kind, stream), series, stream);
	if (!reader_find(r, key))
		return reader_look_up(r, p, kind, series, stream, ret, e);
	const char *v = rocksdb_iter_value(r->it, &len);
	read_tally_add(len);
	int rc = part_open_value(key, v, len, ret, e);
	r->version = rc ? 0 : (uint8_t)v[0];
	return rc ? reader_look_up(r, p, kind, series, stream, ret, e) : 0;
}

void part_reader_release(struct part_reader *r)
{
	part_value_release(&r->value);
	if (r->it)
		rocksdb_iter_destroy(r->it);
	if (r->db)
		partition_db_leave(r->db);
	r->it = NULL;
	r->db = NULL;
}

/* ---- what a part says of itself ---- */

static int part_load(struct part *p, struct view header, struct err *e)
{
	PART_VALUE index = { 0 };
	int rc = part_parse_header(p, header, e);
	if (!rc)
		rc = part_get(p, PART_INDEX, 0, 0, &index, e);
	return rc ? rc : part_parse_index(p, index.payload, index.version, e);
}

int part_read_head(struct part *p, struct err *e)
{
	int rc = 0;
	if (p->level >= LEVELS)
		return err_set(e, ERR_CORRUPT, "its level %d is unknown", p->level);
	for (int tries = 0; tries < OPEN_TRIES; tries++) {
		PART_VALUE header = { 0 };
		p->sums.n = p->series.n = p->aggregates.n = 0;
		rc = part_get(p, PART_HEADER, 0, 0, &header, e);
		p->one_kind = header.version < HEADER_VERSION;
		if (!rc)
			rc = part_load(p, header.payload, e);
		if (rc != -ERR_IO) /* what fails only for a moment is not lost */
			break;
		clock_sleep_ms(OPEN_WAIT_MS / 10);
	}
	return rc;
}
