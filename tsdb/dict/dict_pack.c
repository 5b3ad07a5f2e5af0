/* SPDX-License-Identifier: Apache-2.0 */
/* A section of the rows becomes
 *
 *	table u8 | first id varint | count varint | streams, each varint length and bytes
 *
 * with a stream for each field, by table (fields says of which way each is written):
 *
 *	PLAIN   varints as they are
 *	DELTA   zigzags of the difference to the same field one entry before (of a location's lines: one line before)
 *	RECENT  numbers that mostly are one above the highest so far, or a little below it: 0 = varint beyond it follows, in the
 *	        same stream; n = highest + 2 - n
 *
 * Strings, label sets and what is rare (mappings, series) have ways of their own. */
#include "tsdb/dict/dict_pack.h"

#include "base/alloc.h"
#include "base/cursor.h"
#include "base/map.h"
#include "tsdb/dict/dict.h"

#define MAX_KEYS 64
#define DECIMAL_MAX 18 /* digits */
#define NO_KEY 1       /* a number's: never free */

enum way { PLAIN, DELTA, RECENT };

/* One field's stream, written or read. */
struct stream {
	struct buf out;
	struct cursor in;
	const uint8_t *start; /* of in */
	enum way way;
	uint64_t before, highest;
};

/* Of label sets: all but the values of one key, the one with most of them. */
struct pack_template {
	uint64_t hash;
	size_t at, len; /* in stream 1 */
};

struct pack {
	struct cursor c;       /* rows to pack, or what is unpacked */
	struct buf *rows;      /* unpacking: where they go */
	struct stream s[DICT_MAX_STREAMS];
	bool packing;
	uint64_t free_key;     /* of label sets: as in their rows; NO_KEY = none */
	struct map by_hash;
	VEC(struct pack_template) templates;
	struct buf row;
};

static const struct { uint8_t n; enum way way[DICT_MAX_STREAMS]; } fields[DICT_TABLES] = {
	[ROWS_STRINGS] = { 3, { PLAIN, PLAIN, DELTA } },
	[ROWS_MAPPINGS] = { 6, { DELTA, PLAIN, PLAIN, DELTA, DELTA, PLAIN } },
	[ROWS_FUNCTIONS] = { 4, { DELTA, DELTA, DELTA, PLAIN } },
	[ROWS_LOCATIONS] = { 6, { DELTA, DELTA, PLAIN, DELTA, DELTA, PLAIN } },
	[ROWS_NODES] = { 2, { PLAIN, DELTA } },
	[ROWS_STACKS] = { 1, { DELTA } },
	[ROWS_LABEL_SETS] = { 3, { PLAIN, PLAIN, DELTA } },
	[ROWS_COLUMNS] = { 2, { DELTA, RECENT } },
	[DICT_SERIES] = { 1, { PLAIN } },
};

/* ---- numbers ---- */

static void put_recent(struct stream *s, uint64_t v)
{
	if (v <= s->highest + 1) {
		buf_varint(&s->out, s->highest + 2 - v);
	} else {
		buf_varint(&s->out, 0);
		buf_varint(&s->out, v - s->highest - 2);
	}
	s->highest = MAX(s->highest, v);
}

static uint64_t get_recent(struct stream *s)
{
	uint64_t n = cursor_varint(&s->in);
	uint64_t v = n ? s->highest + 2 - n : s->highest + 2 + cursor_varint(&s->in);
	if (n ? n > s->highest + 2 : v < s->highest)
		s->in.bad = true;
	if (s->in.bad)
		return 0;
	s->highest = MAX(s->highest, v);
	return v;
}

static void put_number(struct stream *s, uint64_t v)
{
	if (s->way == RECENT)
		put_recent(s, v);
	else if (s->way == PLAIN)
		buf_varint(&s->out, v);
	else
		buf_zigzag(&s->out, (int64_t)(v - s->before));
	s->before = v;
}

static uint64_t get_number(struct stream *s)
{
	if (s->way == RECENT)
		return get_recent(s);
	if (s->way == PLAIN)
		return cursor_varint(&s->in);
	s->before += (uint64_t)cursor_zigzag(&s->in);
	return s->before;
}

/* A varint of the row, into stream i or out of it. */
static uint64_t number(struct pack *p, unsigned i)
{
	uint64_t v;
	if (p->packing) {
		v = cursor_varint(&p->c);
		put_number(&p->s[i], v);
	} else {
		v = get_number(&p->s[i]);
		p->c.bad |= p->s[i].in.bad;
		buf_varint(p->rows, v);
	}
	return v;
}

static uint8_t byte(struct pack *p, unsigned i)
{
	uint8_t b = cursor_u8(p->packing ? &p->c : &p->s[i].in);
	buf_putc(p->packing ? &p->s[i].out : p->rows, (char)b);
	p->c.bad |= p->s[i].in.bad;
	return b;
}

void dict_field_init(struct dict_field *f, const struct dict_section *x, unsigned stream)
{
	*f = (struct dict_field){ .in = cursor_of(x->streams[stream]), .stream = stream, .table = x->table };
}

/* One loop for each way, so that the loops are short. */
bool dict_field_get(struct dict_field *f, uint64_t *out, size_t n)
{
	struct stream s = { .in = f->in, .way = fields[f->table].way[f->stream], .before = f->before, .highest = f->highest };
	if (s.way == PLAIN)
		for (size_t i = 0; i < n; i++)
			out[i] = cursor_varint(&s.in);
	else if (s.way == DELTA)
		for (size_t i = 0; i < n; i++)
			out[i] = s.before += (uint64_t)cursor_zigzag(&s.in);
	else
		for (size_t i = 0; i < n; i++)
			out[i] = get_recent(&s);
	f->in = s.in;
	f->before = s.before;
	f->highest = s.highest;
	return !f->in.bad;
}

/* ---- strings: 0 = the text of a number, whose difference to the last is in stream 2; or the length and 1 ---- */

static bool is_decimal(struct view v, uint64_t *ret)
{
	if (!v.len || v.len > DECIMAL_MAX || (v.ptr[0] == '0' && v.len > 1))
		return false;
	*ret = 0;
	for (size_t i = 0; i < v.len; i++) {
		if (v.ptr[i] < '0' || v.ptr[i] > '9')
			return false;
		*ret = *ret * 10 + (uint64_t)(v.ptr[i] - '0');
	}
	return true;
}

static void pack_string(struct pack *p)
{
	uint64_t n;
	struct view v = cursor_bytes(&p->c, cursor_count(&p->c));
	bool decimal = is_decimal(v, &n);
	put_number(&p->s[0], decimal ? 0 : v.len + 1);
	if (decimal)
		put_number(&p->s[2], n);
	else
		buf_putv(&p->s[1].out, v);
}

static void unpack_string(struct pack *p)
{
	uint64_t n = get_number(&p->s[0]);
	if (n) {
		p->s[1].in.bad |= n - 1 > (uint64_t)(p->s[1].in.end - p->s[1].in.p);
		struct view v = p->s[1].in.bad ? VIEW("") : cursor_bytes(&p->s[1].in, (size_t)n - 1);
		buf_varint(p->rows, v.len);
		buf_putv(p->rows, v);
	} else {
		buf_reset(&p->row);
		buf_printf(&p->row, "%llu", (unsigned long long)get_number(&p->s[2]));
		buf_varint(p->rows, p->row.len);
		buf_putv(p->rows, buf_view(&p->row));
	}
	p->c.bad |= p->s[0].in.bad || p->s[1].in.bad || p->s[2].in.bad;
}

/* ---- locations ---- */

static void location(struct pack *p)
{
	number(p, 0);
	number(p, 1);
	for (uint64_t n = number(p, 2) >> 1; n && !p->c.bad; n--)
		for (unsigned i = 3; i < 6; i++)
			number(p, i);
}

/* ---- label sets: stream 0 has 0 for a new template, which is next in stream 1, or the number of an earlier one plus 1; stream 2 has
 * the values of the free key, whose number is at the begin of stream 1. A template is the set's row without those values. ---- */

struct raw_label {
	uint64_t key, value, unit; /* unit: of numbers */
};

static struct raw_label get_label(struct cursor *c, uint64_t free_key)
{
	struct raw_label l = { .key = cursor_varint(c) };
	if (l.key != free_key || l.key & 1)
		l.value = cursor_varint(c);
	if (l.key & 1)
		l.unit = cursor_varint(c);
	return l;
}

/* The key that most often has a value that is newer than all before. */
static uint64_t find_free_key(struct cursor c, size_t n)
{
	struct seen { uint64_t key, highest; size_t news; } seen[MAX_KEYS], *best = NULL;
	size_t n_seen = 0;
	for (; n && !c.bad; n--)
		for (size_t k = cursor_count(&c); k && !c.bad; k--) {
			struct raw_label l = get_label(&c, NO_KEY);
			size_t i = 0;
			while (i < n_seen && seen[i].key != l.key)
				i++;
			if (l.key & 1 || i == MAX_KEYS)
				continue;
			if (i == n_seen)
				seen[n_seen++] = (struct seen){ l.key, l.value, 0 };
			seen[i].news += l.value > seen[i].highest;
			seen[i].highest = MAX(seen[i].highest, l.value);
			if (!best || seen[i].news > best->news)
				best = &seen[i];
		}
	return best && best->news ? best->key : NO_KEY;
}

/* The number of the template in p->row and 1; 0: it is new, and has one from now on. */
static uint64_t find_template(struct pack *p)
{
	struct view row = buf_view(&p->row), all = buf_view(&p->s[1].out);
	uint64_t h = hash_view(row);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&p->by_hash, h, id, p->templates.n, p->templates.v[id].hash == h &&
			    view_eq(view_make(all.ptr + p->templates.v[id].at, p->templates.v[id].len), row)))
		return (uint64_t)id + 1;
	vec_push(&p->templates, (struct pack_template){ h, all.len, row.len });
	buf_putv(&p->s[1].out, row);
	return 0;
}

static void pack_label_set(struct pack *p)
{
	size_t n = cursor_count(&p->c);
	buf_reset(&p->row);
	buf_varint(&p->row, n);
	for (; n && !p->c.bad; n--) {
		struct raw_label l = get_label(&p->c, NO_KEY);
		buf_varint(&p->row, l.key);
		if (l.key == p->free_key)
			put_number(&p->s[2], l.value);
		else
			buf_varint(&p->row, l.value);
		if (l.key & 1)
			buf_varint(&p->row, l.unit);
	}
	put_number(&p->s[0], find_template(p));
}

/* For a template that is new in stream 1. */
static void take_template(struct pack *p)
{
	struct cursor *c = &p->s[1].in;
	const uint8_t *from = c->p;
	for (size_t n = cursor_count(c); n && !c->bad; n--)
		get_label(c, p->free_key);
	vec_push(&p->templates, (struct pack_template){ 0, (size_t)(from - p->s[1].start), (size_t)(c->p - from) });
}

static void unpack_label_set(struct pack *p)
{
	uint64_t t = get_number(&p->s[0]);
	if (!t) {
		take_template(p);
		t = p->templates.n;
	}
	p->c.bad |= p->s[0].in.bad || p->s[1].in.bad || t > p->templates.n;
	if (p->c.bad)
		return;
	struct pack_template *at = &p->templates.v[t - 1];
	struct cursor c = { p->s[1].start + at->at, p->s[1].start + at->at + at->len, false };
	size_t n = cursor_count(&c);
	buf_varint(p->rows, n);
	for (; n; n--) {
		struct raw_label l = get_label(&c, p->free_key);
		buf_varint(p->rows, l.key);
		buf_varint(p->rows, l.key == p->free_key && !(l.key & 1) ? get_number(&p->s[2]) : l.value);
		if (l.key & 1)
			buf_varint(p->rows, l.unit);
	}
	p->c.bad |= p->s[2].in.bad;
}

/* ---- sections ---- */

static void series(struct pack *p)
{
	bool is_float = !byte(p, 0);
	for (int i = 0; i < 5 && !is_float; i++)
		number(p, 0);
	for (uint64_t n = number(p, 0); n && !p->c.bad; n--) {
		number(p, 0);
		number(p, 0);
	}
}

static void entry(struct pack *p, unsigned t)
{
	switch (t) {
	case ROWS_STRINGS:
		(p->packing ? pack_string : unpack_string)(p);
		break;
	case ROWS_MAPPINGS:
		for (unsigned i = 0; i < 5; i++)
			number(p, i);
		byte(p, 5);
		break;
	case ROWS_LOCATIONS: location(p); break;
	case ROWS_LABEL_SETS:
		(p->packing ? pack_label_set : unpack_label_set)(p);
		break;
	case DICT_SERIES: series(p); break;
	default:
		for (unsigned i = 0; i < fields[t].n; i++)
			number(p, i);
	}
}

static void begin_section(struct pack *p, unsigned t)
{
	for (unsigned i = 0; i < fields[t].n; i++) {
		buf_reset(&p->s[i].out);
		p->s[i].way = fields[t].way[i];
		p->s[i].before = p->s[i].highest = 0;
	}
	p->templates.n = 0;
	map_free(&p->by_hash);
}

static void pack_section(struct pack *p, struct buf *out)
{
	unsigned t = cursor_u8(&p->c);
	uint64_t first = cursor_varint(&p->c);
	size_t n = cursor_count(&p->c);
	p->c.bad |= t < ROWS_STRINGS || t >= DICT_TABLES;
	if (p->c.bad)
		return;
	begin_section(p, t);
	if (t == ROWS_LABEL_SETS) {
		p->free_key = find_free_key(p->c, n);
		buf_varint(&p->s[1].out, p->free_key);
	}
	for (size_t i = 0; i < n && !p->c.bad; i++)
		entry(p, t);
	buf_putc(out, (char)t);
	buf_varint(out, first);
	buf_varint(out, n);
	for (unsigned i = 0; i < fields[t].n; i++) {
		buf_varint(out, p->s[i].out.len);
		buf_putv(out, buf_view(&p->s[i].out));
		out->overflow |= p->s[i].out.overflow;
	}
}

bool dict_next_section(struct cursor *c, struct dict_section *ret)
{
	if (c->bad || c->p == c->end)
		return false;
	*ret = (struct dict_section){ .bytes.ptr = (const char *)c->p };
	ret->table = cursor_u8(c);
	ret->first = cursor_varint(c);
	ret->n = cursor_varint(c);
	c->bad |= ret->table < ROWS_STRINGS || ret->table >= DICT_TABLES;
	for (unsigned i = 0; !c->bad && i < fields[ret->table].n; i++)
		ret->streams[i] = cursor_bytes(c, cursor_count(c));
	ret->bytes.len = (size_t)((const char *)c->p - ret->bytes.ptr);
	return !c->bad;
}

static void unpack_section(struct pack *p)
{
	struct dict_section x;
	if (!dict_next_section(&p->c, &x))
		return;
	unsigned t = x.table;
	uint64_t first = x.first, n = x.n;
	begin_section(p, t);
	for (unsigned i = 0; i < fields[t].n; i++) {
		p->s[i].in = cursor_of(x.streams[i]);
		p->s[i].start = p->s[i].in.p;
	}
	if (t == ROWS_LABEL_SETS)
		p->free_key = cursor_varint(&p->s[1].in);
	buf_putc(p->rows, (char)t);
	buf_varint(p->rows, first);
	buf_varint(p->rows, n);
	for (; n && !p->c.bad && !p->rows->overflow; n--)
		entry(p, t);
	for (unsigned i = 0; i < fields[t].n; i++)
		p->c.bad |= p->s[i].in.bad || p->s[i].in.p != p->s[i].in.end;
}

static void release(struct pack *p)
{
	for (int i = 0; i < DICT_MAX_STREAMS; i++)
		buf_free(&p->s[i].out);
	map_free(&p->by_hash);
	vec_free(&p->templates);
	buf_free(&p->row);
}

static int finish(struct pack *p, struct view from, const struct buf *out, struct err *e)
{
	size_t at = (size_t)(p->c.p - (const uint8_t *)from.ptr);
	release(p);
	if (out->overflow)
		return err_set(e, ERR_LIMIT, "symbols of a part are too large");
	return p->c.bad ? err_set(e, ERR_CORRUPT, "symbols are malformed before byte %zu of %zu", at, from.len) : 0;
}

int dict_pack(struct buf *out, struct view rows, struct err *e)
{
	struct pack p = { .c = cursor_of(rows), .packing = true };
	while (!p.c.bad && !out->overflow && p.c.p < p.c.end)
		pack_section(&p, out);
	return finish(&p, rows, out, e);
}

int dict_unpack(struct buf *out, struct view packed, struct err *e)
{
	struct pack p = { .c = cursor_of(packed), .rows = out };
	while (!p.c.bad && !out->overflow && p.c.p < p.c.end)
		unpack_section(&p);
	return finish(&p, packed, out, e);
}
