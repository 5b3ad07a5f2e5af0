/* SPDX-License-Identifier: Apache-2.0 */
/* Generations: what is written is read; whatever else is refused, with words and without much memory.
 * GENERATION_SEEDS=DIRECTORY: also writes the seeds of the fuzz target there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include <zstd.h>

#include "base/alloc.h"
#include "tsdb/bucket/generation.h"
#include "tsdb/part/part.h"
#include "tsdb/testkit.h"

#define HEADER 18 /* bytes before the body */
#define DAY 19676

/* ---- making them ---- */

static struct generation_object object_of(uint64_t epoch, uint64_t serial, uint64_t size)
{
	struct generation_object o = { .stamp = { epoch, serial }, .size = size };
	for (int i = 0; i < SHA256_LEN; i++)
		o.sha256[i] = (uint8_t)(size * 31 + (unsigned)i * 7);
	return o;
}

static void add_part(struct generation *g, enum part_level level, uint32_t window, uint32_t number, uint64_t size, bool totals)
{
	struct generation_part *p = vec_add(&g->parts);
	p->level = (uint8_t)level;
	p->window = window;
	p->number = number;
	p->object = object_of(2 + number % 2, number + 1, size);
	p->file = 8 + number;
	p->header = VIEW("header \0 of a part");
	p->index = number % 2 ? VIEW("") : VIEW("\xff\xfe index");
	vec_push(&p->runs, (struct part_run){ PART_HEADER, false, 0, size / 2, 0 });
	vec_push(&p->runs, (struct part_run){ PART_TOTALS, true, size / 4, size / 2, UINT64_MAX });
	vec_push(&p->runs, (struct part_run){ PART_RUN_TAIL, false, size / 2, size - size / 2, UINT64_C(0x123456789abcdef0) });
	if (totals) {
		vec_push(&p->totals, VIEW("totals of an aggregate"));
		vec_push(&p->totals, VIEW(""));
		p->covers = VIEW("\0 covers");
		p->ends = VIEW("ends \0");
	}
}

static struct label labels[] = { { VIEW(LABEL_NAME), VIEW(KIT_CPU) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), VIEW("pod-1") } };
static struct label others[] = { { VIEW("job"), VIEW("kit") }, { VIEW("pod-1"), VIEW("pod") }, { VIEW("\xc3\xa4"), VIEW("a\0b") } };

static void add_series(struct generation *g, const char *type, struct labels l, int64_t min_ms, int64_t max_ms)
{
	struct generation_series *s = vec_add(&g->series);
	s->is_float = !type;
	if (type)
		assert_true(ptype_parse(view_of(type), &s->type));
	s->labels = l;
	s->min_ms = min_ms;
	s->max_ms = max_ms;
}

/* Every field has a value of its own. */
static struct generation make_day(void)
{
	struct generation g = { .kind = GENERATION_DAY, .id = "0-pod-7", .day = DAY, .stamp = { 3, 0x12345 }, .written_ms = 1700088888888,
				.finished = true, .deletes = { 2, 5 }, .min_ms = -7, .max_ms = INT64_MAX, .next_part = 100,
				.last_record = ((uint64_t)3 << 40) + 55 };
	add_part(&g, LEVEL_HOUR, 472230, 7, 1000, true);
	add_part(&g, LEVEL_HOUR, 472230, 8, UINT64_MAX, false);
	add_part(&g, LEVEL_HOUR, 472231, 1, 0, false);
	add_part(&g, LEVEL_6H, DAY * 4 + 3, 99, 12345678901, false);
	add_part(&g, LEVEL_DAY, DAY, 0, 1, false);
	g.symbols = object_of(3, 77, 4711);
	vec_push(&g.files, (struct generation_file){ VIEW("CURRENT"), VIEW("MANIFEST-000005\n") });
	vec_push(&g.files, (struct generation_file){ VIEW("MANIFEST-000005"), VIEW("\0\1\2\xff") });
	vec_push(&g.files, (struct generation_file){ VIEW("OPTIONS-000007"), VIEW("") });
	add_series(&g, KIT_CPU, (struct labels){ labels, 3 }, 5, 5);
	add_series(&g, NULL, (struct labels){ others, 3 }, -100, 100);
	add_series(&g, KIT_SAMPLES, (struct labels){ labels + 1, 2 }, 1, 0);
	add_series(&g, "memory:alloc_objects:count:space:bytes", (struct labels){ others, 1 }, INT64_MIN, INT64_MAX);
	g.series.v[3].type.kind = PROFILE_GAUGE;
	add_series(&g, NULL, (struct labels){ labels, 0 }, 1, 0);
	vec_push(&g.facts, (struct generation_fact){ 0, VIEW("hidden by a selector") });
	vec_push(&g.facts, (struct generation_fact){ UINT64_MAX, VIEW("") });
	vec_push(&g.notes, (struct generation_note){ VIEW("alert/1"), VIEW("\0pending"), -1 });
	vec_push(&g.notes, (struct generation_note){ VIEW(""), VIEW(""), INT64_MAX });
	return g;
}

static struct generation make_gone(void)
{
	return (struct generation){ .kind = GENERATION_GONE, .id = "x", .day = 20000, .stamp = { 1, 0 }, .min_ms = 1 };
}

static struct generation make_fence(void)
{
	return (struct generation){ .kind = GENERATION_FENCE, .id = "a-name-of-forty-characters-0123456789abc", .day = 0, .stamp = { 1, 9 }, .by_epoch = 3,
				    .min_ms = 1 };
}

static struct generation (*const makers[])(void) = { make_day, make_gone, make_fence };
static const char *const maker_names[] = { "day", "gone", "fence" };

static void encode(const struct generation *g, struct buf *ret)
{
	struct err e;
	buf_reset(ret);
	if (generation_encode(g, ret, &e))
		fail_msg("%s", e.msg);
}

/* An object whose checksum is right. */
static void wrap(struct view body, uint8_t version, uint8_t kind, uint64_t size, struct buf *ret)
{
	uint8_t hash[SHA256_LEN];
	buf_reset(ret);
	buf_puts(ret, "pyrrhagn");
	buf_putc(ret, (char)version);
	buf_putc(ret, (char)kind);
	buf_be64(ret, size);
	assert_true(buf_reserve(ret, ZSTD_compressBound(body.len)));
	size_t n = ZSTD_compress(ret->ptr + ret->len, ZSTD_compressBound(body.len), body.ptr, body.len, 1);
	assert_false(ZSTD_isError(n));
	ret->len += n;
	sha256_of(buf_view(ret), hash);
	buf_put(ret, hash, SHA256_LEN);
}

/* What the object that generation_encode makes has inside. */
static void get_body(const struct generation *g, struct buf *ret)
{
	struct buf b = { 0 };
	encode(g, &b);
	size_t n = b.len - HEADER - SHA256_LEN, size = (size_t)ZSTD_getFrameContentSize(b.ptr + HEADER, n);
	buf_reset(ret);
	assert_true(buf_reserve(ret, size));
	assert_int_equal(ZSTD_decompress(ret->ptr, size, b.ptr + HEADER, n), size);
	ret->len = size;
	buf_free(&b);
}

/* ---- comparing them ---- */

static void same_object(const struct generation_object *a, const struct generation_object *b)
{
	assert_int_equal(object_stamp_cmp(a->stamp, b->stamp), 0);
	assert_true(a->size == b->size);
	assert_memory_equal(a->sha256, b->sha256, SHA256_LEN);
}

static void same_part(const struct generation_part *a, const struct generation_part *b)
{
	assert_true(a->level == b->level && a->window == b->window && a->number == b->number && a->file == b->file);
	same_object(&a->object, &b->object);
	assert_true(view_eq(a->header, b->header) && view_eq(a->index, b->index) && view_eq(a->covers, b->covers) && view_eq(a->ends, b->ends));
	assert_true(a->runs.n == b->runs.n && a->totals.n == b->totals.n);
	for (size_t i = 0; i < a->runs.n; i++) {
		const struct part_run *x = &a->runs.v[i], *y = &b->runs.v[i];
		assert_true(x->kind == y->kind && x->aggregates == y->aggregates && x->offset == y->offset && x->length == y->length && x->hash == y->hash);
	}
	for (size_t i = 0; i < a->totals.n; i++)
		assert_true(view_eq(a->totals.v[i], b->totals.v[i]));
}

static void same_series(const struct generation *a, const struct generation *b)
{
	assert_int_equal(a->series.n, b->series.n);
	for (size_t i = 0; i < a->series.n; i++) {
		const struct generation_series *x = &a->series.v[i], *y = &b->series.v[i];
		assert_true(x->is_float == y->is_float && x->min_ms == y->min_ms && x->max_ms == y->max_ms && labels_eq(x->labels, y->labels));
		assert_true(x->is_float || (ptype_eq(&x->type, &y->type) && x->type.kind == y->type.kind && x->type.delta == y->type.delta));
	}
}

/* Without the series. */
static void same(const struct generation *a, const struct generation *b)
{
	assert_string_equal(a->id, b->id);
	assert_true(a->kind == b->kind && a->day == b->day && a->by_epoch == b->by_epoch && a->written_ms == b->written_ms);
	assert_true(a->finished == b->finished && a->min_ms == b->min_ms && a->max_ms == b->max_ms);
	assert_true(a->next_part == b->next_part && a->last_record == b->last_record);
	assert_true(!object_stamp_cmp(a->stamp, b->stamp) && !object_stamp_cmp(a->deletes, b->deletes));
	same_object(&a->symbols, &b->symbols);
	assert_true(a->parts.n == b->parts.n && a->files.n == b->files.n && a->facts.n == b->facts.n && a->notes.n == b->notes.n);
	for (size_t i = 0; i < a->parts.n; i++)
		same_part(&a->parts.v[i], &b->parts.v[i]);
	for (size_t i = 0; i < a->files.n; i++)
		assert_true(view_eq(a->files.v[i].name, b->files.v[i].name) && view_eq(a->files.v[i].bytes, b->files.v[i].bytes));
	for (size_t i = 0; i < a->facts.n; i++)
		assert_true(a->facts.v[i].number == b->facts.v[i].number && view_eq(a->facts.v[i].payload, b->facts.v[i].payload));
	for (size_t i = 0; i < a->notes.n; i++) {
		const struct generation_note *x = &a->notes.v[i], *y = &b->notes.v[i];
		assert_true(view_eq(x->key, y->key) && view_eq(x->value, y->value) && x->t_ms == y->t_ms);
	}
}

/* ---- the way there and back ---- */

static void write_seed(const char *kind, const char *what, struct view v)
{
	const char *dir = getenv("GENERATION_SEEDS");
	if (!dir)
		return;
	AUTOFREE char *path = xasprintf("%s/%s_%s", dir, what, kind);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(v.ptr, 1, v.len, f), v.len);
	assert_int_equal(fclose(f), 0);
}

static void test_round_trip(void **state)
{
	struct buf b = { 0 }, again = { 0 }, body = { 0 };
	char name[OBJECT_NAME_MAX];
	struct err e;
	for (size_t i = 0; i < ARRAY_LEN(makers); i++) {
		struct generation g = makers[i](), got;
		encode(&g, &b);
		object_name_generation(name, g.id, g.stamp);
		if (generation_decode(&got, buf_view(&b), name, &e))
			fail_msg("%s", e.msg);
		same(&g, &got);
		assert_int_equal(got.series.n, 0);
		assert_int_equal(generation_decode_series(&got, &e), 0);
		assert_int_equal(generation_decode_series(&got, &e), 0); /* twice does no harm */
		same_series(&g, &got);
		assert_true(generation_bytes(&g) == generation_bytes(&got));
		encode(&got, &again);
		assert_true(view_eq(buf_view(&b), buf_view(&again)));
		get_body(&g, &body);
		write_seed(maker_names[i], "object", buf_view(&b));
		buf_reset(&again);
		buf_putc(&again, (char)g.kind);
		buf_putv(&again, buf_view(&body));
		write_seed(maker_names[i], "body", buf_view(&again));
		generation_release(&got);
		/* Appended. */
		buf_reset(&again);
		buf_puts(&again, "before");
		assert_int_equal(generation_encode(&g, &again, &e), 0);
		assert_true(view_starts(buf_view(&again), VIEW("before")) && view_ends(buf_view(&again), buf_view(&b)));
		assert_int_equal(again.len, b.len + 6);
		generation_release(&g);
	}
	buf_free(&b);
	buf_free(&again);
	buf_free(&body);
}

/* A generation counts under its own name alone. */
static void test_names(void **state)
{
	static const char *const bad[] = {
		"0-pod-7/g/000003-0000012346", "0-pod-7/g/000002-0000012345", "0-pod-8/g/000003-0000012345", "0-pod-7/x/000003-0000012345",
		"0-pod-7/e/000003", "0-pod-7/d/00019676/000003-0000012345", "0-pod-7/g/000003-0000012345 ", "0-pod-7/g/000003-000001234",
		"0-pod-7/g/3-12345", "", "/", "0-pod-7", "0-pod-7/", "0-pod-7/g", "0-pod-7/g/", "0-pod-7//000003-0000012345",
		"0-POD-7/g/000003-0000012345", "0-pod-7/g/000003+0000012345", "0-pod-7/g/00000G-0000012345",
		"-pod-7/g/000003-0000012345", "a-name-of-more-than-forty-characters-0123/g/000003-0000012345",
	};
	struct generation g = make_day(), got;
	struct buf b = { 0 };
	struct err e;
	encode(&g, &b);
	assert_int_equal(generation_decode(&got, buf_view(&b), "0-pod-7/g/000003-0000012345", &e), 0);
	generation_release(&got);
	assert_int_equal(generation_decode(&got, buf_view(&b), NULL, &e), 0);
	generation_release(&got);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(generation_decode(&got, buf_view(&b), bad[i], &e), -ERR_CORRUPT);
		assert_true(strstr(e.msg, bad[i]) && strstr(e.msg, "generation 000003-0000012345 of 0-pod-7"));
		generation_release(&got);
	}
	generation_release(&g);
	buf_free(&b);
}

/* ---- damage ---- */

static void refused(struct view bytes, int rc)
{
	struct generation got;
	struct err e = { 0 };
	AUTOFREE char *copy = xmalloc(bytes.len + 1); /* a block of the very size, so that a sanitizer sees a read past its end */
	memcpy(copy, bytes.ptr, bytes.len);
	copy = xrealloc(copy, MAX(bytes.len, (size_t)1));
	int found = generation_decode(&got, view_make(copy, bytes.len), "0-pod-7/g/000003-0000012345", &e);
	if (found != rc || strlen(e.msg) < 20 || !strstr(e.msg, "0-pod-7/g/000003-0000012345"))
		fail_msg("%d, not %d: %s", found, rc, found ? e.msg : "");
	generation_release(&got);
}

static void test_damage(void **state)
{
	struct generation g = make_day();
	struct buf b = { 0 };
	encode(&g, &b);
	for (size_t i = 0; i < b.len; i++) {
		refused(view_make(b.ptr, i), -ERR_CORRUPT);
		for (int bit = 0; bit < 8; bit++) {
			b.ptr[i] ^= (char)(1 << bit);
			refused(buf_view(&b), -ERR_CORRUPT);
			b.ptr[i] ^= (char)(1 << bit);
		}
	}
	buf_putc(&b, 0);
	refused(buf_view(&b), -ERR_CORRUPT);
	generation_release(&g);
	buf_free(&b);
}

static void test_versions(void **state)
{
	struct generation g = make_day(), got;
	struct buf body = { 0 }, b = { 0 };
	struct err e;
	get_body(&g, &body);
	for (int version = 0; version < 256; version++) {
		char says[32];
		snprintf(says, sizeof says, "version %d,", version);
		wrap(buf_view(&body), (uint8_t)version, GENERATION_DAY, body.len, &b);
		int rc = generation_decode(&got, buf_view(&b), "0-pod-7/g/000003-0000012345", &e);
		assert_int_equal(rc, version == 1 ? 0 : version ? -ERR_BAD_DATA : -ERR_CORRUPT);
		assert_true(!rc || (strstr(e.msg, says) && strstr(e.msg, "0-pod-7/g/000003-0000012345")));
		assert_int_equal(rc && strstr(e.msg, "newer"), version > 1);
		generation_release(&got);
	}
	for (int kind = 3; kind < 256; kind++) {
		wrap(buf_view(&body), 1, (uint8_t)kind, body.len, &b);
		refused(buf_view(&b), -ERR_CORRUPT);
	}
	/* The size that it says. */
	static const uint64_t sizes[] = { 0, 1, GENERATION_MAX };
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		wrap(buf_view(&body), 1, GENERATION_DAY, sizes[i], &b);
		refused(buf_view(&b), -ERR_CORRUPT);
	}
	wrap(buf_view(&body), 1, GENERATION_DAY, GENERATION_MAX + 1, &b);
	refused(buf_view(&b), -ERR_LIMIT);
	wrap(buf_view(&body), 1, GENERATION_DAY, UINT64_MAX, &b);
	refused(buf_view(&b), -ERR_LIMIT);
	wrap(VIEW(""), 1, GENERATION_DAY, 0, &b);
	refused(buf_view(&b), -ERR_CORRUPT);
	generation_release(&g);
	buf_free(&body);
	buf_free(&b);
}

/* ---- what no writer writes ---- */

enum { HEAD = 1, PART, SYMBOLS, FILES, TEXTS, SERIES, FACT, NOTE, IDENTITY, COVERS, EXTERNAL, ENDS };

/* One thing is wrong with it, which generation_encode does not look at. */
static void spoil(struct generation *g, int how)
{
	static struct label unsorted[] = { { VIEW("b"), VIEW("1") }, { VIEW("a"), VIEW("1") } };
	static struct label twice[] = { { VIEW("a"), VIEW("1") }, { VIEW("a"), VIEW("2") } };
	static struct label empty_value[] = { { VIEW("a"), VIEW("") } }, empty_name[] = { { VIEW(""), VIEW("a") } };
	struct generation_part *p = &g->parts.v[1];
	struct generation_file *f = &g->files.v[1];
	struct generation_series *s = &g->series.v[1];
	switch (how) {
	case 0: memcpy(g->id, "UPPER", 6); break;
	case 1: g->id[0] = 0; break;
	case 2: memcpy(g->id, "a/b", 4); break;
	case 3: g->day = 10000001; break;
	case 4: g->stamp.epoch = OBJECT_EPOCH_MAX; break;
	case 5: g->stamp.serial = OBJECT_SERIAL_MAX; break;
	case 6: g->stamp.epoch = 0; break;
	case 7: g->by_epoch = OBJECT_EPOCH_MAX; break;
	case 8: g->deletes.serial = OBJECT_SERIAL_MAX; break;
	case 9: g->parts.v[g->parts.n - 1].window++; break; /* of the next day */
	case 10: g->parts.v[g->parts.n - 1].level = 3; break;
	case 11: p->number = 100; break;
	case 12: p->number = 7; break;   /* as the one before */
	case 13: p->window--; break;     /* before the one before */
	case 14: p->object.stamp.epoch = 0; break;
	case 15: p->object.stamp.epoch = OBJECT_EPOCH_MAX; break;
	case 16: g->parts.v[0].runs.v[0].length = 1001; break;
	case 17: g->parts.v[0].runs.v[2].length++; break;
	case 18: p->runs.v[2].offset = UINT64_MAX, p->runs.v[2].length = 1; break;
	case 19: g->symbols.stamp.epoch = OBJECT_EPOCH_MAX; break;
	case 20: f->name = VIEW("LOCK"); break;
	case 21: f->name = VIEW(""); break;
	case 22: f->name = VIEW("../MANIFEST-000005"); break;
	case 23: f->name = VIEW("MANIFEST-/../../000005"); break;
	case 24: f->name = VIEW("MANIFEST-"); break;
	case 25: f->name = VIEW("MANIFEST-000005.dbtmp"); break;
	case 26: f->name = VIEW("CURRENT\0"); break;
	case 27: f->name = VIEW("OPTIONS-0000000000000000000000000000000000000000000000000000000000000001"); break;
	case 28: f->name = VIEW("CURRENT"); break; /* as the one before */
	case 29: s->labels = (struct labels){ unsorted, 2 }; break; /* from here on: series */
	case 30: s->labels = (struct labels){ twice, 2 }; break;
	case 31: s->labels = (struct labels){ empty_value, 1 }; break;
	case 32: s->labels = (struct labels){ empty_name, 1 }; break;
	case 33: g->series.v[0].type.kind = (enum profile_kind)0; break;
	case 34: g->series.v[0].type.kind = (enum profile_kind)4; break;
	case 35: g->parts.v[3].covers = VIEW("covers"); break; /* of a rollup */
	case 36:
		for (int i = 0; i < 16; i++)
			vec_push(&g->files, (struct generation_file){ view_make("OPTIONS-1234567890123456", (size_t)(9 + i)), VIEW("") });
		break;
	case 37: g->parts.v[0].covers = VIEW(""); break; /* its ends are there */
	default: assert_true(false);
	}
}

#define SPOILT 38
#define SPOILT_SERIES 29

/* What a body that has a right checksum gives: 0 or why not, also of its series. What is accepted can be written and read again. */
static int read_body(struct view body, uint8_t kind, struct err *e)
{
	struct generation g, again;
	struct buf b = { 0 };
	wrap(body, 1, kind, body.len, &b);
	*e = (struct err){ 0 };
	int rc = generation_decode(&g, buf_view(&b), NULL, e);
	if (!rc) {
		rc = generation_decode_series(&g, e);
		assert_true(!rc || (!g.series.n && generation_decode_series(&g, e) == rc)); /* nothing half read stays */
	}
	if (!rc) {
		struct err other;
		encode(&g, &b);
		assert_int_equal(generation_decode(&again, buf_view(&b), NULL, &other), 0);
		assert_int_equal(generation_decode_series(&again, &other), 0);
		same(&g, &again);
		same_series(&g, &again);
		generation_release(&again);
	}
	assert_true(!rc || (rc == -(int)e->code && strlen(e->msg) > 20));
	generation_release(&g);
	buf_free(&b);
	return rc;
}

static void test_spoilt(void **state)
{
	struct buf body = { 0 };
	struct err e;
	for (int how = 0; how < SPOILT; how++) {
		struct generation g = make_day();
		spoil(&g, how);
		get_body(&g, &body);
		if (read_body(buf_view(&body), (uint8_t)g.kind, &e) != -ERR_CORRUPT)
			fail_msg("%d is accepted, or wrongly refused: %s", how, e.msg);
		assert_int_equal(strstr(e.msg, "the series of day 19676 of 0-pod-7") != NULL, how >= SPOILT_SERIES && how < 35);
		generation_release(&g);
	}
	buf_free(&body);
}

static void put_section(struct buf *b, int tag, struct view content)
{
	buf_putc(b, (char)tag);
	buf_varint(b, content.len);
	buf_putv(b, content);
}

static void head_alone(struct buf *ret)
{
	struct generation g = make_day(), head = g;
	head.parts.n = head.files.n = head.series.n = head.facts.n = head.notes.n = 0;
	head.symbols.stamp.epoch = 0;
	get_body(&head, ret);
	generation_release(&g);
}

static void test_sections(void **state)
{
	/* Sections behind a head. */
	static const struct {
		int rc, tag;
		struct view content;
		int tag2;
		struct view content2;
	} rows[] = {
		{ 0, 0, VIEW(""), 255, VIEW("unknown") },
		{ 0, TEXTS, VIEW(""), 0, VIEW("") },
		{ 0, TEXTS, VIEW("\0"), SERIES, VIEW("\0") },
		{ 0, TEXTS, VIEW("\1\1a"), SERIES, VIEW("\1\3\1\0\0") },
		{ 0, TEXTS, VIEW("\0"), SERIES, VIEW("\1\3\0") },
		{ -ERR_CORRUPT, TEXTS, VIEW("\1\1a!"), SERIES, VIEW("\1\3\1\0\0") },       /* a text too many */
		{ -ERR_CORRUPT, TEXTS, VIEW("\2\1a"), SERIES, VIEW("\1\3\1\0\0") },        /* a text too few */
		{ -ERR_CORRUPT, TEXTS, VIEW("\1\2a"), SERIES, VIEW("\1\3\1\0\0") },        /* a text too short */
		{ -ERR_CORRUPT, TEXTS, VIEW("\1\1a"), SERIES, VIEW("\1\3\1\0\1") },        /* no such text */
		{ -ERR_CORRUPT, TEXTS, VIEW("\1\1a"), SERIES, VIEW("\1\3\1\0\0!") },
		{ -ERR_CORRUPT, TEXTS, VIEW("\1\1a"), SERIES, VIEW("\2\3\1\0\0") },
		{ -ERR_CORRUPT, TEXTS, VIEW("\1\1a"), SERIES, VIEW("\1\3\2\0\0") },
		{ -ERR_CORRUPT, TEXTS, VIEW("\1\1a"), SERIES, VIEW("\1\1\1\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01") }, /* beyond the end of time */
		{ -ERR_CORRUPT, SERIES, VIEW("\1\3\1\0\0"), 0, VIEW("") },                 /* no texts */
		{ -ERR_CORRUPT, TEXTS, VIEW("\0"), TEXTS, VIEW("\0") },                    /* two of what there is once */
		{ -ERR_CORRUPT, SERIES, VIEW("\0"), SERIES, VIEW("\0") },
		{ -ERR_CORRUPT, SYMBOLS, VIEW("\1\1\1abcdefghijklmnopqrstuvwxyz012345"), SYMBOLS, VIEW("\1\1\1abcdefghijklmnopqrstuvwxyz012345") },
		{ 0, SYMBOLS, VIEW("\1\1\1abcdefghijklmnopqrstuvwxyz012345"), 0, VIEW("") },
		{ -ERR_CORRUPT, SYMBOLS, VIEW("\1\1\1abcdefghijklmnopqrstuvwxyz01234"), 0, VIEW("") },
		{ -ERR_CORRUPT, SYMBOLS, VIEW("\1\1\1abcdefghijklmnopqrstuvwxyz0123456"), 0, VIEW("") },
		{ -ERR_CORRUPT, PART, VIEW(""), 0, VIEW("") },
		{ -ERR_CORRUPT, COVERS, VIEW("of no part"), 0, VIEW("") },
		{ -ERR_CORRUPT, ENDS, VIEW("of no part"), 0, VIEW("") },
		{ -ERR_CORRUPT, FILES, VIEW(""), 0, VIEW("") },
		{ -ERR_CORRUPT, FACT, VIEW(""), 0, VIEW("") },
		{ -ERR_CORRUPT, NOTE, VIEW(""), 0, VIEW("") },
		{ -ERR_CORRUPT, NOTE, VIEW("\0\5key"), 0, VIEW("") },
		{ -ERR_CORRUPT, FACT, VIEW("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0, VIEW("") },
	};
	struct buf head = { 0 }, b = { 0 };
	struct err e;
	head_alone(&head);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		buf_reset(&b);
		buf_putv(&b, buf_view(&head));
		put_section(&b, rows[i].tag, rows[i].content);
		put_section(&b, rows[i].tag2, rows[i].content2);
		int rc = read_body(buf_view(&b), GENERATION_DAY, &e);
		if (rc != rows[i].rc)
			fail_msg("row %zu: %d %s", i, rc, rc ? e.msg : "");
	}
	/* The body begins with the section of the head, and has it once. */
	buf_reset(&b);
	put_section(&b, FACT, VIEW("\1"));
	buf_putv(&b, buf_view(&head));
	assert_int_equal(read_body(buf_view(&b), GENERATION_DAY, &e), -ERR_CORRUPT);
	buf_reset(&b);
	buf_putv(&b, buf_view(&head));
	buf_putv(&b, buf_view(&head));
	assert_int_equal(read_body(buf_view(&b), GENERATION_DAY, &e), -ERR_CORRUPT);
	buf_reset(&b);
	put_section(&b, 200, VIEW(""));
	assert_int_equal(read_body(buf_view(&b), GENERATION_DAY, &e), -ERR_CORRUPT);
	buf_free(&head);
	buf_free(&b);
}

/* Covers are of the part of an hour whose section they follow, and there is something in them; so are its first and last profiles, behind its covers. Programs that
 * do not know them pass over them. */
static void test_covers(void **state)
{
	struct generation g = make_day(), got;
	struct buf part = { 0 }, b = { 0 };
	struct err e;
	(void)state;
	size_t n_parts = g.parts.n;
	g.parts.n = 1;
	get_body(&g, &part);
	const char *covers = memmem(part.ptr, part.len, "\12\10\0 covers", 10);
	assert_non_null(covers);
	for (int how = 0; how < 10; how++) {
		buf_reset(&b);
		buf_put(&b, part.ptr, (size_t)(covers - part.ptr));
		if (how == 3)
			put_section(&b, FACT, VIEW("\1"));
		if (how >= 6)
			put_section(&b, how == 7 ? 200 : COVERS, VIEW("all"));
		if (how >= 6)
			put_section(&b, ENDS, how == 9 ? VIEW("") : VIEW("ends"));
		if (how == 8)
			put_section(&b, ENDS, VIEW("twice"));
		if (how && how < 6)
			put_section(&b, how == 5 ? 200 : COVERS, how == 4 ? VIEW("") : VIEW("all"));
		if (how == 2)
			put_section(&b, COVERS, VIEW("twice"));
		int rc = read_body(buf_view(&b), GENERATION_DAY, &e);
		assert_int_equal(rc, how == 2 || how == 4 || how > 6 ? -ERR_CORRUPT : 0);
		if (rc)
			continue;
		wrap(buf_view(&b), 1, GENERATION_DAY, b.len, &part);
		assert_int_equal(generation_decode(&got, buf_view(&part), NULL, &e), 0);
		assert_int_equal(got.parts.n, 1);
		assert_true(view_eqs(got.parts.v[0].covers, how == 1 || how == 3 || how == 6 ? "all" : ""));
		assert_true(view_eqs(got.parts.v[0].ends, how == 6 ? "ends" : ""));
		generation_release(&got);
		get_body(&g, &part);
		covers = memmem(part.ptr, part.len, "\12\10\0 covers", 10);
	}
	g.parts.n = n_parts;
	generation_release(&g);
	buf_free(&part);
	buf_free(&b);
}

/* Every byte of a body changed in turn and the body cut there: refused or consistent. */
static void test_changed_bodies(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(makers); i++) {
		struct generation g = makers[i]();
		struct buf body = { 0 };
		struct err e;
		uint64_t random = i;
		size_t accepted = 0;
		get_body(&g, &body);
		assert_int_equal(read_body(buf_view(&body), (uint8_t)g.kind, &e), 0);
		for (size_t k = 0; k < body.len; k++) {
			char was = body.ptr[k];
			IGNORE(read_body(view_make(body.ptr, k), (uint8_t)g.kind, &e)); /* or not */
			for (int way = 0; way < 4; way++) {
				body.ptr[k] = way == 0 ? (char)(was + 1) : way == 1 ? (char)(was - 1) : way == 2 ? (char)0xff : (char)kit_random(&random);
				accepted += !read_body(buf_view(&body), (uint8_t)g.kind, &e);
			}
			body.ptr[k] = was;
		}
		assert_true(accepted && accepted < 4 * body.len);
		generation_release(&g);
		buf_free(&body);
	}
}

/* ---- memory ---- */

/* Many things that have no bytes. Their lists are limited before they are allocated. */
static void test_many(void **state)
{
	enum { PER_MIB = 1 << 20, LISTS = 64 }; /* MiB of lists that are accepted */
	for (int what = 0; what < 5; what++) {
		struct generation g = make_day(), got;
		struct buf body = { 0 }, b = { 0 };
		struct err e;
		size_t each = what == 0 ? sizeof(struct generation_fact) : what == 1 ? sizeof(struct generation_note) :
			      what == 2 ? sizeof(struct view) : what == 3 ? sizeof(struct part_run) : sizeof(struct generation_part);
		size_t n = (size_t)LISTS * PER_MIB / each;
		struct generation_part *p = &g.parts.v[0];
		for (size_t i = 0; i < n * 3 / 2; i++)
			switch (what) {
			case 0: vec_push(&g.facts, (struct generation_fact){ 0, VIEW("") }); break;
			case 1: vec_push(&g.notes, (struct generation_note){ VIEW(""), VIEW(""), 0 }); break;
			case 2: vec_push(&p->totals, VIEW("")); break;
			case 3: vec_push(&p->runs, (struct part_run){ 0 }); break;
			default: vec_push(&g.parts, (struct generation_part){ .level = 2, .window = DAY, .number = (uint32_t)i + 1, .object = object_of(1, i, 0) });
			}
		g.next_part = UINT32_MAX;
		get_body(&g, &body);
		wrap(buf_view(&body), 1, GENERATION_DAY, body.len, &b);
		assert_int_equal(generation_decode(&got, buf_view(&b), NULL, &e), -ERR_LIMIT);
		assert_non_null(strstr(e.msg, "64 MiB"));
		size_t there = what == 0 ? got.facts.n : what == 1 ? got.notes.n : what == 2 ? got.parts.v[0].totals.n :
			       what == 3 ? got.parts.v[0].runs.n : got.parts.n;
		assert_in_range(there, n * 9 / 10, n);
		generation_release(&got);
		generation_release(&g);
		buf_free(&body);
		buf_free(&b);
	}
}

/* The limit of series is that of the arena, and all that they need counts. */
static void test_many_series(void **state)
{
	for (int what = 0; what < 3; what++) {
		struct generation g = make_day(), got;
		struct buf body = { 0 }, b = { 0 }, rows = { 0 };
		struct err e;
		size_t n = 100000;
		head_alone(&body);
		buf_varint(&rows, what == 0 ? n : 0);
		for (size_t i = 0; what == 0 && i < n; i++)
			buf_putc(&rows, 0);
		put_section(&body, TEXTS, buf_view(&rows));
		buf_reset(&rows);
		buf_varint(&rows, what == 1 ? n : 1);
		if (what == 2) {
			buf_puts(&rows, "\3");
			buf_varint(&rows, n);
		}
		for (size_t i = 0; i < n; i++)
			buf_put(&rows, "\3\0", 2);
		put_section(&body, SERIES, buf_view(&rows));
		wrap(buf_view(&body), 1, GENERATION_DAY, body.len, &b);
		assert_int_equal(generation_decode(&got, buf_view(&b), NULL, &e), 0);
		assert_true(got.arena.max <= GENERATION_SERIES_MAX);
		got.arena.max = 1 << 20;
		assert_int_equal(generation_decode_series(&got, &e), -ERR_LIMIT);
		assert_non_null(strstr(e.msg, "the series of day 19676 of 0-pod-7"));
		assert_true(got.arena.used <= 1 << 20 && !got.series.n);
		generation_release(&got);
		generation_release(&g);
		buf_free(&body);
		buf_free(&rows);
		buf_free(&b);
	}
}

static int decode_small(const struct buf *body, struct generation *ret, size_t *ret_len, struct err *e)
{
	struct buf b = { 0 };
	wrap(buf_view(body), 1, GENERATION_DAY, body->len, &b);
	*ret_len = b.len;
	int rc = generation_decode(ret, buf_view(&b), NULL, e);
	buf_free(&b);
	return rc;
}

/* The decoder refuses an object of a few KiB that would take hundreds of MiB: its length bounds the memory of body, lists and series. */
static void test_small_objects(void **state)
{
	struct generation got;
	struct buf body = { 0 }, rows = { .max = GENERATION_MAX };
	struct err e;
	size_t len, large = (size_t)200 << 20;
	head_alone(&body);
	body.max = GENERATION_MAX;
	AUTOFREE char *zeros = xcalloc(1, large);
	put_section(&body, 200, view_make(zeros, large));
	assert_int_equal(decode_small(&body, &got, &len, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "more than 512 for each"));
	assert_true(len < 100000 && !got.body.cap);
	generation_release(&got);
	head_alone(&body);
	for (int i = 0; i < 300000; i++)
		put_section(&body, FACT, VIEW("\1"));
	assert_int_equal(decode_small(&body, &got, &len, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "for its length"));
	assert_true(len < 10000 && got.facts.n * sizeof *got.facts.v <= GENERATION_LEAST + len * GENERATION_RATIO);
	generation_release(&got);
	head_alone(&body);
	put_section(&body, TEXTS, VIEW("\0"));
	buf_varint(&rows, 100000);
	for (int i = 0; i < 100000; i++)
		buf_put(&rows, "\3\0", 2);
	put_section(&body, SERIES, buf_view(&rows));
	assert_int_equal(decode_small(&body, &got, &len, &e), 0);
	assert_int_equal(generation_decode_series(&got, &e), -ERR_LIMIT);
	generation_release(&got);
	buf_free(&body);
	buf_free(&rows);
}

/* A generation whose content repeats itself compresses well. It is read all the same: its writer pads it. */
static void test_repeats(void **state)
{
	struct generation g = make_day(), got;
	struct buf b = { 0 };
	struct err e;
	AUTOFREE char *zeros = xcalloc(1, 8 << 20);
	for (size_t i = 0; i < g.parts.n; i++)
		g.parts.v[i].index = view_make(zeros, 8 << 20);
	encode(&g, &b);
	assert_in_range(b.len, g.parts.n * (8 << 20) / GENERATION_RATIO, g.parts.n * (8 << 20) / 100);
	if (generation_decode(&got, buf_view(&b), NULL, &e))
		fail_msg("%s", e.msg);
	same(&g, &got);
	generation_release(&got);
	generation_release(&g);
	buf_free(&b);
}

/* What does not fit is not written. */
static void test_too_large(void **state)
{
	struct generation g = make_day();
	struct buf b = { 0 };
	struct err e;
	AUTOFREE char *large = xcalloc(1, GENERATION_MAX / 2);
	for (int i = 0; i < 2; i++)
		vec_push(&g.files, (struct generation_file){ VIEW("OPTIONS-1"), view_make(large, GENERATION_MAX / 2) });
	buf_puts(&b, "before");
	assert_int_equal(generation_encode(&g, &b, &e), -ERR_LIMIT);
	assert_non_null(strstr(e.msg, "256 MiB"));
	assert_true(view_eqs(buf_view(&b), "before"));
	generation_release(&g);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_names), cmocka_unit_test(test_damage), cmocka_unit_test(test_versions),
		cmocka_unit_test(test_spoilt), cmocka_unit_test(test_sections), cmocka_unit_test(test_covers), cmocka_unit_test(test_changed_bodies), cmocka_unit_test(test_many),
		cmocka_unit_test(test_many_series), cmocka_unit_test(test_small_objects), cmocka_unit_test(test_repeats), cmocka_unit_test(test_too_large),
	};
	return cmocka_run_group_tests_name("generations", tests, NULL, NULL);
}
