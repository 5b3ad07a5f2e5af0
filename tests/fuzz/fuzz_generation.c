/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a generation, the object that names what a day of a bucket consists of; and as a generation's kind and body, which a
 * checksum and zstd else keep from being looked at. What is accepted is within its limits and stays the same when it is written and
 * read again. tsdb/bucket/generation_test.c writes the seeds. */
#include <string.h>

#include <zstd.h>

#include "base/alloc.h"
#include "tests/fuzz/fuzz.h"
#include "tsdb/bucket/generation.h"
#include "tsdb/part/part.h"

const char fuzz_target[] = "generation";

/* The views of a generation lie in its body. */
static void check_view(const struct generation *g, struct view v)
{
	REQUIRE(!v.len || (v.ptr >= g->body.ptr && v.len <= (size_t)(g->body.ptr + g->body.len - v.ptr)), "%zu bytes", v.len);
}

static void check_parts(const struct generation *g)
{
	for (size_t i = 0; i < g->parts.n; i++) {
		const struct generation_part *p = &g->parts.v[i];
		check_view(g, p->header);
		check_view(g, p->index);
		check_view(g, p->covers);
		check_view(g, p->ends);
		REQUIRE(!p->covers.len || p->level == LEVEL_HOUR, "part %zu", i);
		REQUIRE(!p->ends.len || p->covers.len, "part %zu", i);
		for (size_t k = 0; k < p->totals.n; k++)
			check_view(g, p->totals.v[k]);
		for (size_t k = 0; k < p->runs.n; k++)
			REQUIRE(p->runs.v[k].length <= p->object.size && p->runs.v[k].offset <= p->object.size - p->runs.v[k].length, "part %zu, run %zu", i, k);
		REQUIRE(p->object.stamp.epoch && p->number < g->next_part, "part %zu", i);
	}
}

static void check_series(const struct generation *g)
{
	for (size_t i = 0; i < g->series.n; i++) {
		const struct labels l = g->series.v[i].labels;
		for (size_t k = 0; k < l.n; k++) {
			check_view(g, l.v[k].name);
			check_view(g, l.v[k].value);
			REQUIRE(l.v[k].name.len && l.v[k].value.len && (!k || view_cmp(l.v[k - 1].name, l.v[k].name) < 0), "series %zu, label %zu", i, k);
		}
	}
}

static void check(const struct generation *g)
{
	REQUIRE(server_id_is_valid(view_of(g->id)) && g->stamp.epoch && g->stamp.epoch < OBJECT_EPOCH_MAX, "id %s", g->id);
	check_parts(g);
	check_series(g);
	for (size_t i = 0; i < g->files.n; i++) {
		check_view(g, g->files.v[i].name);
		check_view(g, g->files.v[i].bytes);
		REQUIRE(!memchr(g->files.v[i].name.ptr, '/', g->files.v[i].name.len), "file %zu", i);
	}
	for (size_t i = 0; i < g->facts.n; i++)
		check_view(g, g->facts.v[i].payload);
	for (size_t i = 0; i < g->notes.n; i++) {
		check_view(g, g->notes.v[i].key);
		check_view(g, g->notes.v[i].value);
	}
}

/* Decodes it with its series; ret is to be released in any case. */
static bool decode(struct generation *ret, struct view v)
{
	struct err e = { 0 };
	int rc = generation_decode(ret, v, NULL, &e);
	if (!rc)
		rc = generation_decode_series(ret, &e);
	REQUIRE(!rc || (rc == -(int)e.code && e.msg[0] && (e.code == ERR_CORRUPT || e.code == ERR_BAD_DATA || e.code == ERR_LIMIT)), "%d: %s", rc, e.msg);
	return !rc;
}

static void read_object(struct view v)
{
	struct generation g, same;
	struct buf out = { 0 }, again = { 0 };
	struct err e;
	if (decode(&g, v)) {
		check(&g);
		REQUIRE(!generation_encode(&g, &out, &e), "%s", e.msg);
		REQUIRE(decode(&same, buf_view(&out)), "it is refused when it was written again");
		REQUIRE(same.parts.n == g.parts.n && same.series.n == g.series.n && same.facts.n == g.facts.n && same.notes.n == g.notes.n, "something is lost");
		REQUIRE(!generation_encode(&same, &again, &e), "%s", e.msg);
		REQUIRE(view_eq(buf_view(&out), buf_view(&again)), "%zu bytes, then %zu", out.len, again.len);
		generation_release(&same);
	}
	generation_release(&g);
	buf_free(&out);
	buf_free(&again);
}

/* An object with this kind and body. */
static void read_body(uint8_t kind, struct view body)
{
	struct buf b = { 0 };
	uint8_t hash[SHA256_LEN];
	buf_puts(&b, "pyrrhagn\1");
	buf_putc(&b, (char)kind);
	buf_be64(&b, body.len);
	REQUIRE(buf_reserve(&b, ZSTD_compressBound(body.len)), "%zu bytes", body.len);
	size_t n = ZSTD_compress(b.ptr + b.len, ZSTD_compressBound(body.len), body.ptr, body.len, 1);
	REQUIRE(!ZSTD_isError(n), "%s", ZSTD_getErrorName(n));
	b.len += n;
	sha256_of(buf_view(&b), hash);
	buf_put(&b, hash, SHA256_LEN);
	read_object(buf_view(&b));
	buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct view v = { (const char *)data, n };
	read_object(v);
	if (n)
		read_body(data[0], view_make(v.ptr + 1, n - 1));
	return 0;
}
