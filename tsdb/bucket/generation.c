/* SPDX-License-Identifier: Apache-2.0 */
/* An object is
 *
 *	magic "pyrrhagn" | version u8 | kind u8 | size of the body u64 | body, a zstd frame | SHA-256 of all before it
 *
 * and the body is sections, each `tag u8 | length varint | content`. Readers pass over tags that they do not know. What a generation has
 * several of (parts, files, facts, notes) has a section each. */
#include "tsdb/bucket/generation.h"

#include <inttypes.h>
#include <stdio.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/cursor.h"
#include "base/map.h"
#include "tsdb/part/part.h"

#define MAGIC "pyrrhagn"
#define MAGIC_LEN 8
#define VERSION 1
#define HEADER_LEN (MAGIC_LEN + 2 + 8)
#define ZSTD_LEVEL 3
#define NO_STAMPS 1 /* flags of the head and of series */
#define FINISHED 2
#define SERIES_FLOAT 1
#define SERIES_EMPTY 2
#define SERIES_DELTA 4

enum generation_tag {
	TAG_HEAD = 1, TAG_PART, TAG_SYMBOLS, TAG_FILE, TAG_TEXTS, TAG_SERIES, TAG_FACT, TAG_NOTE, TAG_IDENTITY, TAG_COVERS,
	TAG_EXTERNAL, TAG_ENDS,
	TAG_PADDING = 255 /* bytes without a meaning */
};

/* How many bytes of memory each kind of content of an object may take. */
static size_t generation_allowed(size_t object_len, size_t most)
{
	return object_len < most / GENERATION_RATIO ? MIN(most, GENERATION_LEAST + object_len * GENERATION_RATIO) : most;
}

/* ---- writing ---- */

static void put_text(struct buf *b, struct view v)
{
	buf_varint(b, v.len);
	buf_putv(b, v);
}

static void put_stamp(struct buf *b, struct object_stamp s)
{
	buf_varint(b, s.epoch);
	buf_varint(b, s.serial);
}

static void put_object(struct buf *b, const struct generation_object *o)
{
	put_stamp(b, o->stamp);
	buf_varint(b, o->size);
	buf_put(b, o->sha256, SHA256_LEN);
}

/* Appends a section and empties its content. */
static void put_section(struct buf *body, enum generation_tag tag, struct buf *content)
{
	buf_putc(body, (char)tag);
	put_text(body, buf_view(content));
	body->overflow |= content->overflow;
	buf_reset(content);
}

static void put_head(struct buf *b, const struct generation *g)
{
	put_text(b, view_of(g->id));
	buf_varint(b, g->day);
	put_stamp(b, g->stamp);
	buf_varint(b, g->by_epoch);
	buf_zigzag(b, g->written_ms);
	buf_putc(b, (char)((g->finished ? FINISHED : 0) | (g->min_ms > g->max_ms ? NO_STAMPS : 0)));
	put_stamp(b, g->deletes);
	if (g->min_ms <= g->max_ms) {
		buf_zigzag(b, g->min_ms);
		buf_zigzag(b, g->max_ms);
	}
	buf_varint(b, g->next_part);
	buf_varint(b, g->last_record);
}

static void put_part(struct buf *b, const struct generation_part *p)
{
	buf_putc(b, (char)p->level);
	buf_varint(b, p->window);
	buf_varint(b, p->number);
	put_object(b, &p->object);
	buf_varint(b, p->file);
	put_text(b, p->header);
	put_text(b, p->index);
	buf_varint(b, p->runs.n);
	for (size_t i = 0; i < p->runs.n; i++) {
		const struct part_run *r = &p->runs.v[i];
		buf_putc(b, (char)r->kind);
		buf_putc(b, (char)r->aggregates);
		buf_varint(b, r->offset);
		buf_varint(b, r->length);
		buf_be64(b, r->hash);
	}
	buf_varint(b, p->totals.n);
	for (size_t i = 0; i < p->totals.n; i++)
		put_text(b, p->totals.v[i]);
}

/* Texts of the series, each once. */
struct generation_texts {
	struct map by_hash;
	VEC(struct view) v;
};

static uint32_t texts_number(struct generation_texts *t, struct view v)
{
	uint32_t i;
	if (!MAP_FIND_OR_ADD(&t->by_hash, hash_view(v), i, t->v.n, view_eq(t->v.v[i], v)))
		vec_push(&t->v, v);
	return i;
}

static void put_type(struct buf *b, struct generation_texts *t, const struct ptype *type)
{
	const struct view words[] = { type->name, type->sample_type, type->sample_unit, type->period_type, type->period_unit };
	buf_putc(b, (char)type->kind);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		buf_varint(b, texts_number(t, words[i]));
}

static void put_one_series(struct buf *b, struct generation_texts *t, const struct generation_series *s)
{
	bool empty = s->min_ms > s->max_ms;
	buf_putc(b, (char)((s->is_float ? SERIES_FLOAT : 0) | (empty ? SERIES_EMPTY : 0) | (!s->is_float && s->type.delta ? SERIES_DELTA : 0)));
	if (!s->is_float)
		put_type(b, t, &s->type);
	buf_varint(b, s->labels.n);
	for (size_t i = 0; i < s->labels.n; i++) {
		buf_varint(b, texts_number(t, s->labels.v[i].name));
		buf_varint(b, texts_number(t, s->labels.v[i].value));
	}
	if (!empty) {
		buf_zigzag(b, s->min_ms);
		buf_varint(b, (uint64_t)s->max_ms - (uint64_t)s->min_ms);
	}
}

static void put_series(struct buf *body, const struct generation *g, struct buf *content)
{
	struct generation_texts t = { .v = { 0 } };
	CLEANUP(buf_free) struct buf rows = { .max = GENERATION_MAX };
	buf_varint(&rows, g->series.n);
	for (size_t i = 0; i < g->series.n; i++)
		put_one_series(&rows, &t, &g->series.v[i]);
	buf_varint(content, t.v.n);
	for (size_t i = 0; i < t.v.n; i++)
		put_text(content, t.v.v[i]);
	put_section(body, TAG_TEXTS, content);
	put_section(body, TAG_SERIES, &rows);
	map_free(&t.by_hash);
	vec_free(&t.v);
}

static void put_external(struct buf *b, struct labels l)
{
	buf_varint(b, l.n);
	for (size_t i = 0; i < l.n; i++) {
		put_text(b, l.v[i].name);
		put_text(b, l.v[i].value);
	}
}

static void put_body(struct buf *body, const struct generation *g)
{
	CLEANUP(buf_free) struct buf b = { .max = GENERATION_MAX };
	put_head(&b, g);
	put_section(body, TAG_HEAD, &b);
	for (size_t i = 0; i < g->parts.n; i++) {
		put_part(&b, &g->parts.v[i]);
		put_section(body, TAG_PART, &b);
		if (g->parts.v[i].covers.len) {
			buf_putv(&b, g->parts.v[i].covers);
			put_section(body, TAG_COVERS, &b);
		}
		if (g->parts.v[i].ends.len) {
			buf_putv(&b, g->parts.v[i].ends);
			put_section(body, TAG_ENDS, &b);
		}
	}
	if (g->identity[0]) {
		buf_puts(&b, g->identity);
		put_section(body, TAG_IDENTITY, &b);
	}
	if (g->external.n) {
		put_external(&b, g->external);
		put_section(body, TAG_EXTERNAL, &b);
	}
	if (g->symbols.stamp.epoch) {
		put_object(&b, &g->symbols);
		put_section(body, TAG_SYMBOLS, &b);
	}
	for (size_t i = 0; i < g->files.n; i++) {
		put_text(&b, g->files.v[i].name);
		buf_putv(&b, g->files.v[i].bytes);
		put_section(body, TAG_FILE, &b);
	}
	if (g->series.n)
		put_series(body, g, &b);
	for (size_t i = 0; i < g->facts.n; i++) {
		buf_varint(&b, g->facts.v[i].number);
		buf_putv(&b, g->facts.v[i].payload);
		put_section(body, TAG_FACT, &b);
	}
	for (size_t i = 0; i < g->notes.n; i++) {
		buf_zigzag(&b, g->notes.v[i].t_ms);
		put_text(&b, g->notes.v[i].key);
		buf_putv(&b, g->notes.v[i].value);
		put_section(body, TAG_NOTE, &b);
	}
}

/* What a reader needs memory for: the largest of the body, the lists, and (rather too much) the series. */
static size_t generation_needs(const struct generation *g, size_t body)
{
	size_t lists = g->parts.n * sizeof *g->parts.v + g->facts.n * sizeof *g->facts.v + g->notes.n * sizeof *g->notes.v, series = 0;
	for (size_t i = 0; i < g->parts.n; i++)
		lists += g->parts.v[i].runs.n * sizeof *g->parts.v->runs.v + g->parts.v[i].totals.n * sizeof *g->parts.v->totals.v;
	for (size_t i = 0; i < g->series.n; i++)
		series += sizeof *g->series.v + (g->series.v[i].labels.n + 4) * (sizeof(struct label) + 2 * sizeof(struct view));
	return MAX(body, MAX(lists, series));
}

/* A generation that repeats itself more than readers believe gets bytes that zstd cannot shorten. */
static void put_padding(struct buf *body, size_t needs)
{
	CLEANUP(buf_free) struct buf b = { .max = GENERATION_MAX };
	for (uint64_t i = 0; i < needs / GENERATION_RATIO / 8 + 1; i++)
		buf_be64(&b, hash_u64(i + 1));
	put_section(body, TAG_PADDING, &b);
}

/* Appends a zstd frame. Returns its bytes, or 0: it does not fit. */
static size_t put_frame(struct buf *out, const struct buf *body)
{
	size_t room = ZSTD_compressBound(body->len);
	if (!buf_reserve(out, room + SHA256_LEN))
		return 0;
	size_t n = ZSTD_compress(out->ptr + out->len, room, body->ptr, body->len, ZSTD_LEVEL);
	return ZSTD_isError(n) ? 0 : n;
}

int generation_encode(const struct generation *g, struct buf *out, struct err *e)
{
	CLEANUP(buf_free) struct buf body = { .max = GENERATION_MAX };
	uint8_t hash[SHA256_LEN];
	size_t start = out->len;
	put_body(&body, g);
	for (bool padded = false;; padded = true) {
		if (body.overflow)
			return err_set(e, ERR_LIMIT, "day %u has too many series and parts for its generation: it is over %zu MiB", g->day, GENERATION_MAX >> 20);
		out->len = start;
		buf_put(out, MAGIC, MAGIC_LEN);
		buf_putc(out, VERSION);
		buf_putc(out, (char)g->kind);
		buf_be64(out, body.len);
		size_t n = put_frame(out, &body);
		if (!n) {
			out->len = start;
			return err_set(e, ERR_LIMIT, "the generation of day %u is too large", g->day);
		}
		out->len += n;
		size_t needs = generation_needs(g, body.len);
		if (padded || needs <= generation_allowed(HEADER_LEN + n + SHA256_LEN, SIZE_MAX))
			break;
		put_padding(&body, needs);
	}
	sha256_of(view_make(out->ptr + start, out->len - start), hash);
	buf_put(out, hash, SHA256_LEN);
	return 0;
}

/* ---- reading ---- */

/* Whether there is room for one more item of so many bytes in the lists; if not, the section that is read ends. */
static bool lists_reserve(struct generation *g, struct cursor *c, size_t bytes)
{
	g->lists += bytes;
	if (g->lists <= g->lists_max)
		return true;
	c->bad = true;
	return false;
}

static struct view get_text(struct cursor *c)
{
	return cursor_bytes(c, cursor_count(c));
}

static struct object_stamp get_stamp(struct cursor *c)
{
	struct object_stamp s = { .epoch = cursor_varint(c) };
	s.serial = cursor_varint(c);
	if (s.epoch >= OBJECT_EPOCH_MAX || s.serial >= OBJECT_SERIAL_MAX)
		c->bad = true;
	return s;
}

static struct generation_object get_object(struct cursor *c)
{
	struct generation_object o = { .stamp = get_stamp(c) };
	o.size = cursor_varint(c);
	struct view hash = cursor_bytes(c, SHA256_LEN);
	if (!c->bad)
		memcpy(o.sha256, hash.ptr, SHA256_LEN);
	c->bad |= !o.stamp.epoch;
	return o;
}

static uint64_t get_be64(struct cursor *c)
{
	struct view v = cursor_bytes(c, 8);
	uint64_t x = 0;
	for (size_t i = 0; !c->bad && i < 8; i++)
		x = x << 8 | (uint8_t)v.ptr[i];
	return x;
}

static void get_head(struct generation *g, struct cursor *c)
{
	struct view id = get_text(c);
	if (server_id_is_valid(id))
		memcpy(g->id, id.ptr, id.len);
	else
		c->bad = true;
	g->day = cursor_u32(c);
	g->stamp = get_stamp(c);
	g->by_epoch = cursor_varint(c);
	c->bad |= !g->stamp.epoch || g->by_epoch >= OBJECT_EPOCH_MAX || (g->kind == GENERATION_FENCE && g->by_epoch <= g->stamp.epoch);
	g->written_ms = cursor_zigzag(c);
	uint8_t flags = cursor_u8(c);
	g->finished = flags & FINISHED;
	g->deletes = get_stamp(c);
	g->min_ms = flags & NO_STAMPS ? 1 : cursor_zigzag(c);
	g->max_ms = flags & NO_STAMPS ? 0 : cursor_zigzag(c);
	g->next_part = cursor_u32(c);
	g->last_record = cursor_varint(c);
	c->bad |= (!(flags & NO_STAMPS) && g->min_ms > g->max_ms) || g->day > 10000000;
}

static bool part_precedes(const struct generation_part *a, const struct generation_part *b)
{
	if (a->level != b->level)
		return a->level < b->level;
	return a->window != b->window ? a->window < b->window : a->number < b->number;
}

static void get_runs(struct generation *g, struct generation_part *p, struct cursor *c)
{
	for (size_t n = cursor_count(c); n && !c->bad && lists_reserve(g, c, sizeof *p->runs.v); n--) {
		struct part_run r = { .kind = cursor_u8(c) };
		r.aggregates = cursor_u8(c);
		r.offset = cursor_varint(c);
		r.length = cursor_varint(c);
		r.hash = get_be64(c);
		c->bad |= r.offset > p->object.size || r.length > p->object.size - r.offset;
		vec_push(&p->runs, r);
	}
}

/* Whether a window of a level lies in the day: a part of another one would answer for it. */
static bool part_is_of_day(const struct generation_part *p, uint32_t day)
{
	return p->level == LEVEL_HOUR ? p->window / 24 == day : p->level == LEVEL_6H ? p->window / 4 == day : p->level == LEVEL_DAY && p->window == day;
}

static void get_part(struct generation *g, struct cursor *c)
{
	if (!lists_reserve(g, c, sizeof *g->parts.v))
		return;
	struct generation_part *p = vec_add(&g->parts);
	p->level = cursor_u8(c);
	p->window = cursor_u32(c);
	p->number = cursor_u32(c);
	p->object = get_object(c);
	p->file = cursor_varint(c);
	p->header = get_text(c);
	p->index = get_text(c);
	get_runs(g, p, c);
	for (size_t n = cursor_count(c); n && !c->bad && lists_reserve(g, c, sizeof *p->totals.v); n--)
		vec_push(&p->totals, get_text(c));
	c->bad |= !part_is_of_day(p, g->day) || p->number >= g->next_part || (g->parts.n > 1 && !part_precedes(p - 1, p));
}

/* Whether RocksDB gives such names to the small files of a database. A name from a hostile bucket must not lead out of the day's directory. */
static bool file_name_is_valid(struct view name)
{
	size_t digits = view_starts(name, VIEW("MANIFEST-")) ? strlen("MANIFEST-") : view_starts(name, VIEW("OPTIONS-")) ? strlen("OPTIONS-") : 0;
	if (!digits)
		return view_eqs(name, "CURRENT");
	for (size_t i = digits; i < name.len; i++)
		if (name.ptr[i] < '0' || name.ptr[i] > '9')
			return false;
	return name.len > digits && name.len < 64;
}

static void get_file(struct generation *g, struct cursor *c)
{
	struct generation_file f = { .name = get_text(c) };
	f.bytes = cursor_bytes(c, (size_t)(c->end - c->p));
	c->bad |= !file_name_is_valid(f.name) || g->files.n >= GENERATION_FILES_MAX;
	for (size_t i = 0; i < g->files.n; i++)
		c->bad |= view_eq(g->files.v[i].name, f.name);
	vec_push(&g->files, f);
}

static void get_fact(struct generation *g, struct cursor *c)
{
	if (!lists_reserve(g, c, sizeof *g->facts.v))
		return;
	struct generation_fact *f = vec_add(&g->facts);
	f->number = cursor_varint(c);
	f->payload = cursor_bytes(c, (size_t)(c->end - c->p));
}

static void get_note(struct generation *g, struct cursor *c)
{
	if (!lists_reserve(g, c, sizeof *g->notes.v))
		return;
	struct generation_note *n = vec_add(&g->notes);
	n->t_ms = cursor_zigzag(c);
	n->key = get_text(c);
	n->value = cursor_bytes(c, (size_t)(c->end - c->p));
}

/* Of what there is once. */
static void get_view(struct view *ret, struct cursor *c)
{
	c->bad |= ret->ptr != NULL;
	*ret = cursor_bytes(c, (size_t)(c->end - c->p));
}

/* Of the part before. */
static void get_covers(struct generation *g, struct cursor *c)
{
	struct generation_part *p = g->parts.n ? &g->parts.v[g->parts.n - 1] : NULL;
	c->bad |= !p || p->covers.len || p->level != LEVEL_HOUR || c->p == c->end;
	if (!c->bad)
		p->covers = cursor_bytes(c, (size_t)(c->end - c->p));
}

/* Of the part before, behind its covers. */
static void get_ends(struct generation *g, struct cursor *c)
{
	struct generation_part *p = g->parts.n ? &g->parts.v[g->parts.n - 1] : NULL;
	c->bad |= !p || !p->covers.len || p->ends.len || c->p == c->end;
	if (!c->bad)
		p->ends = cursor_bytes(c, (size_t)(c->end - c->p));
}

static void get_symbols(struct generation *g, struct cursor *c)
{
	c->bad |= g->symbols.stamp.epoch != 0;
	g->symbols = get_object(c);
}

static void get_identity(struct generation *g, struct cursor *c)
{
	size_t len = (size_t)(c->end - c->p);
	c->bad |= len >= sizeof g->identity;
	if (c->bad)
		return;
	memcpy(g->identity, c->p, len);
	g->identity[len] = 0;
	c->p = c->end;
}

static void get_external(struct generation *g, struct cursor *c)
{
	size_t n = cursor_count(c);
	c->bad |= c->end - c->p > GENERATION_EXTERNAL_BYTES + 10 * GENERATION_EXTERNAL_MAX;
	struct label *v = n <= GENERATION_EXTERNAL_MAX ? arena_calloc(&g->arena, n + 1, sizeof *v) : NULL;
	c->bad |= !v || g->external.v;
	for (size_t i = 0; i < n && !c->bad; i++) {
		v[i].name = get_text(c);
		v[i].value = get_text(c);
		c->bad |= !v[i].name.len || !v[i].value.len || (i && view_cmp(v[i - 1].name, v[i].name) >= 0);
	}
	if (!c->bad)
		g->external = (struct labels){ v, n };
}

static int get_section(struct generation *g, uint8_t tag, struct view v, struct err *e)
{
	struct cursor c = cursor_of(v);
	switch (tag) {
	case TAG_HEAD: get_head(g, &c); break;
	case TAG_PART: get_part(g, &c); break;
	case TAG_SYMBOLS: get_symbols(g, &c); break;
	case TAG_FILE: get_file(g, &c); break;
	case TAG_TEXTS: get_view(&g->texts, &c); break;
	case TAG_SERIES: get_view(&g->rows, &c); break;
	case TAG_FACT: get_fact(g, &c); break;
	case TAG_NOTE: get_note(g, &c); break;
	case TAG_IDENTITY: get_identity(g, &c); break;
	case TAG_COVERS: get_covers(g, &c); break;
	case TAG_EXTERNAL: get_external(g, &c); break;
	case TAG_ENDS: get_ends(g, &c); break;
	default: return 0; /* of a later program, which says that older ones may pass over it */
	}
	if (g->lists > g->lists_max)
		return err_set(e, ERR_LIMIT, "a generation has too many parts, facts and notes%s: their lists are over %zu MiB",
			       g->lists_max < GENERATION_LISTS_MAX ? " for its length" : "", g->lists_max >> 20);
	return c.bad || c.p != c.end ? err_set(e, ERR_CORRUPT, "section %u of a generation is malformed", tag) : 0;
}

static int get_body(struct generation *g, struct err *e)
{
	struct cursor c = cursor_of(buf_view(&g->body));
	bool first = true;
	int rc = 0;
	while (c.p < c.end && !rc) {
		uint8_t tag = cursor_u8(&c);
		struct view v = get_text(&c);
		if (c.bad || first != (tag == TAG_HEAD))
			return err_set(e, ERR_CORRUPT, "a generation is malformed");
		first = false;
		rc = get_section(g, tag, v, e);
	}
	return rc || !first ? rc : err_set(e, ERR_CORRUPT, "a generation is empty");
}

static int inflate_body(struct generation *g, struct cursor *c, size_t object_len, struct err *e)
{
	uint64_t size = get_be64(c);
	g->body.max = GENERATION_MAX + 1;
	if (size > GENERATION_MAX)
		return err_set(e, ERR_LIMIT, "a generation says that it has %" PRIu64 " bytes, more than %zu MiB", size, GENERATION_MAX >> 20);
	size_t left = (size_t)(c->end - c->p);
	if (ZSTD_getFrameContentSize(c->p, left) != size || ZSTD_findFrameCompressedSize(c->p, left) != left)
		return err_set(e, ERR_CORRUPT, "a generation has another size than it says");
	if (size > generation_allowed(object_len, GENERATION_MAX))
		return err_set(e, ERR_LIMIT, "a generation of %zu bytes says that it has %" PRIu64 ", more than %d for each: no server makes such a one", object_len, size,
			       GENERATION_RATIO);
	if (!buf_reserve(&g->body, size))
		return err_set(e, ERR_LIMIT, "a generation is too large");
	size_t n = ZSTD_decompress(g->body.ptr, size, c->p, left);
	if (ZSTD_isError(n) || n != size)
		return err_set(e, ERR_CORRUPT, "a generation cannot be inflated");
	g->body.len = size;
	return 0;
}

static int check_name(const struct generation *g, const char *name, struct err *e)
{
	struct object_name n;
	if (!name)
		return 0;
	if (object_name_parse(name, &n) && n.kind == 'g' && !strcmp(n.id, g->id) && !object_stamp_cmp(n.stamp, g->stamp))
		return 0;
	return err_set(e, ERR_CORRUPT, "it says that it is generation %06" PRIx64 "-%010" PRIx64 " of %s", g->stamp.epoch, g->stamp.serial, g->id);
}

int generation_decode(struct generation *ret, struct view bytes, const char *name, struct err *e)
{
	uint8_t hash[SHA256_LEN];
	*ret = (struct generation){ .min_ms = 1 };
	arena_init(&ret->arena, generation_allowed(bytes.len, GENERATION_SERIES_MAX));
	ret->lists_max = generation_allowed(bytes.len, GENERATION_LISTS_MAX);
	if (bytes.len < HEADER_LEN + SHA256_LEN || memcmp(bytes.ptr, MAGIC, MAGIC_LEN))
		return err_set(e, ERR_CORRUPT, "%s is not a generation", name ? name : "it");
	struct view hashed = view_make(bytes.ptr, bytes.len - SHA256_LEN);
	sha256_of(hashed, hash);
	if (memcmp(hash, hashed.ptr + hashed.len, SHA256_LEN))
		return err_set(e, ERR_CORRUPT, "%s fails its checksum", name ? name : "a generation");
	struct cursor c = cursor_of(view_make(hashed.ptr + MAGIC_LEN, hashed.len - MAGIC_LEN));
	uint8_t version = cursor_u8(&c), kind = cursor_u8(&c);
	if (!version)
		return err_set(e, ERR_CORRUPT, "%s has version 0, which no program writes", name ? name : "a generation");
	if (version > VERSION)
		return err_set(e, ERR_BAD_DATA, "%s has version %u, this program reads %u: use the newer one", name ? name : "a generation", version, VERSION);
	if (kind > GENERATION_FENCE)
		return err_set(e, ERR_CORRUPT, "%s is of no known kind", name ? name : "a generation");
	ret->kind = (enum generation_kind)kind;
	int rc = inflate_body(ret, &c, bytes.len, e);
	if (!rc)
		rc = get_body(ret, e);
	if (!rc)
		rc = check_name(ret, name, e);
	return rc && name ? err_wrap(e, "%s", name) : rc;
}

/* ---- series ---- */

struct generation_rows {
	struct generation *g;
	VEC(struct view) texts;
	struct cursor c;
};

static struct view rows_text(struct generation_rows *r)
{
	uint64_t i = cursor_varint(&r->c);
	if (i < r->texts.n)
		return r->texts.v[i];
	r->c.bad = true;
	return view_make("", 0);
}

static void rows_type(struct generation_rows *r, struct ptype *t, bool delta)
{
	uint8_t kind = cursor_u8(&r->c);
	r->c.bad |= kind < PROFILE_DELTA || kind > PROFILE_GAUGE;
	t->kind = (enum profile_kind)kind;
	t->delta = delta;
	t->name = rows_text(r);
	t->sample_type = rows_text(r);
	t->sample_unit = rows_text(r);
	t->period_type = rows_text(r);
	t->period_unit = rows_text(r);
}

/* Whether lists with room for one more text or series, and the labels, are within the limit. */
static bool rows_fit(const struct generation_rows *r, size_t texts, size_t series)
{
	const struct arena *a = &r->g->arena;
	size_t lists = texts * sizeof *r->texts.v + series * sizeof *r->g->series.v;
	return a->used <= a->max && lists <= a->max - a->used;
}

/* False: over the limit. */
static bool rows_next(struct generation_rows *r)
{
	if (!rows_fit(r, r->texts.n, r->g->series.n + 1))
		return false;
	struct generation_series *s = vec_add(&r->g->series);
	uint8_t flags = cursor_u8(&r->c);
	s->is_float = flags & SERIES_FLOAT;
	if (!s->is_float)
		rows_type(r, &s->type, flags & SERIES_DELTA);
	size_t n = cursor_count(&r->c);
	if (n > (size_t)(r->c.end - r->c.p) / 2) { /* a label has two numbers */
		r->c.bad = true;
		return true;
	}
	struct label *v = arena_calloc(&r->g->arena, n + 1, sizeof *v);
	if (!v)
		return false;
	for (size_t i = 0; i < n && !r->c.bad; i++) {
		v[i].name = rows_text(r);
		v[i].value = rows_text(r);
		r->c.bad |= !v[i].name.len || !v[i].value.len || (i && view_cmp(v[i - 1].name, v[i].name) >= 0);
	}
	s->labels = (struct labels){ v, n };
	s->min_ms = flags & SERIES_EMPTY ? 1 : cursor_zigzag(&r->c);
	s->max_ms = flags & SERIES_EMPTY ? 0 : (int64_t)((uint64_t)s->min_ms + cursor_varint(&r->c));
	r->c.bad |= !(flags & SERIES_EMPTY) && s->max_ms < s->min_ms;
	return true;
}

/* False: over the limit. */
static bool rows_read(struct generation_rows *r)
{
	bool fits = true;
	r->c = cursor_of(r->g->texts.ptr ? r->g->texts : VIEW(""));
	for (size_t n = cursor_count(&r->c); n && !r->c.bad && (fits = rows_fit(r, r->texts.n + 1, 0)); n--)
		vec_push(&r->texts, get_text(&r->c));
	r->c.bad |= r->c.p != r->c.end;
	if (!fits || r->c.bad)
		return fits;
	r->c = cursor_of(r->g->rows);
	for (size_t n = cursor_count(&r->c); n && !r->c.bad && fits; n--)
		fits = rows_next(r);
	r->c.bad |= r->c.p != r->c.end;
	return fits;
}

int generation_decode_series(struct generation *g, struct err *e)
{
	struct generation_rows r = { .g = g };
	int rc = 0;
	if (g->series.n || !g->rows.len)
		return 0;
	if (!rows_read(&r))
		rc = err_set(e, ERR_LIMIT, "the series of day %u of %s need more than %zu MiB", g->day, g->id, g->arena.max >> 20);
	else if (r.c.bad)
		rc = err_set(e, ERR_CORRUPT, "the series of day %u of %s are malformed", g->day, g->id);
	vec_free(&r.texts);
	if (rc)
		vec_free(&g->series);
	return rc;
}

void generation_release(struct generation *g)
{
	for (size_t i = 0; i < g->parts.n; i++) {
		vec_free(&g->parts.v[i].runs);
		vec_free(&g->parts.v[i].totals);
	}
	vec_free(&g->parts);
	vec_free(&g->files);
	vec_free(&g->series);
	vec_free(&g->facts);
	vec_free(&g->notes);
	buf_free(&g->body);
	arena_free(&g->arena);
}

uint64_t generation_bytes(const struct generation *g)
{
	uint64_t n = g->symbols.size;
	for (size_t i = 0; i < g->parts.n; i++)
		n += g->parts.v[i].object.size;
	return n;
}
