/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as another server's answer to a question: the length of the question (varint), the question, the answer. Both hashes are made right,
 * which else keep bytes from being looked at. What is accepted fits the question, and says the same when it is written and read again.
 * tests/fleet/wire_hostile_test.c writes the seeds. */
#include <string.h>

#include "base/map.h"
#include "fleet/wire.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "answer";

#define MEMORY_MAX ((size_t)16 << 20)
#define ELEMENTS_MAX 100000 /* of a question, so that runs do not take all of the time */

static void check_lists(const struct fleet_result *r, const struct fleet_call *c)
{
	for (size_t i = 0; i < r->n; i++) {
		for (size_t k = 0; r->floats && k < r->floats[i].n; k++)
			REQUIRE(r->floats[i].v[k].t_ms > c->after_ms && r->floats[i].v[k].t_ms <= c->until_ms, "series %zu, %zu", i, k);
		for (size_t k = 0; r->profiles && k < r->profiles[i].n; k++)
			REQUIRE(r->profiles[i].v[k].t_ms > c->after_ms && r->profiles[i].v[k].t_ms <= c->until_ms, "series %zu, %zu", i, k);
		for (size_t k = 1; r->points && k < r->points[i].n; k++)
			REQUIRE(r->points[i].v[k].t_ms >= r->points[i].v[k - 1].t_ms, "series %zu, %zu", i, k);
	}
}

static void check_rows(const struct fleet_result *r, const struct source_graph *g)
{
	REQUIRE(r->fits || !r->n, "%zu rows", r->n);
	for (size_t i = 0; i < r->n; i++) {
		const struct fleet_row *x = &r->rows[i];
		REQUIRE(x->lane < g->n_lanes && x->n, "row %zu", i);
		for (size_t k = 0; k < x->n; k++)
			REQUIRE(x->steps[k] < g->n_steps && (!k || x->steps[k - 1] < x->steps[k]), "row %zu, %zu", i, k);
	}
}

static void check_result(const struct fleet_result *r, const struct fleet_call *c)
{
	REQUIRE(r->op == c->op, "%d", (int)r->op);
	if (r->floats || r->profiles || r->points || r->covers)
		REQUIRE(r->n == c->n_refs, "%zu of %zu", r->n, c->n_refs);
	if (r->sums || r->vecs || r->shares.match)
		REQUIRE(r->n == c->n_groups && !r->exact == (c->op != FLEET_SUMS || !c->exact), "%zu of %zu", r->n, c->n_groups);
	check_lists(r, c);
	if (r->rows)
		check_rows(r, c->graph);
	for (size_t i = 0; r->series && i < r->n; i++) {
		const struct labels l = r->series[i].labels;
		REQUIRE(r->series[i].ref <= UINT32_MAX && (!i || labels_cmp(r->series[i - 1].labels, l) <= 0), "series %zu", i);
		for (size_t k = 0; k < l.n; k++)
			REQUIRE(l.v[k].name.len && l.v[k].value.len && (!k || view_cmp(l.v[k - 1].name, l.v[k].name) < 0), "series %zu, label %zu", i, k);
	}
	for (size_t i = 0; r->vecs && i < r->n; i++)
		for (size_t k = 0; k < r->vecs[i]->n; k++)
			REQUIRE(r->vecs[i]->columns[k] < symbols_count(r->vecs[i]->symbols, SYMBOLS_COLUMNS) &&
					(!k || r->vecs[i]->columns[k - 1] < r->vecs[i]->columns[k]),
				"group %zu, %zu", i, k);
}

static int decode(struct fleet_answer *a, struct fleet_result *r, struct view v, const struct fleet_call *c, struct fleet_dictionary_in *d,
		  struct arena *arena)
{
	struct err e = { 0 };
	int rc = fleet_answer_decode(a, r, v, c, d, arena, &e);
	REQUIRE(rc == -(int)e.code && (!rc || (e.msg[0] && (e.code == ERR_CORRUPT || e.code == ERR_LIMIT))), "%d: %s", rc, e.msg);
	return rc;
}

static void read_answer(struct view v, const struct fleet_question *q)
{
	struct fleet_dictionary_in *in = fleet_dictionary_in_new(MEMORY_MAX);
	struct fleet_dictionary_out *out = fleet_dictionary_out_new();
	struct fleet_answer a, same_a;
	struct fleet_result r, same;
	struct arena arena;
	struct buf b = { 0 }, again = { 0 };
	struct err e;
	arena_init(&arena, MEMORY_MAX);
	if (!decode(&a, &r, v, &q->call, in, &arena)) {
		if (!a.err.code)
			check_result(&r, &q->call);
		int rc = fleet_answer_encode(&b, &a, &r, out, q, &e);
		REQUIRE(!rc || (q->call.op == FLEET_MERGE && e.code == ERR_EXECUTION), "%s", e.msg);
		if (!rc && q->call.op != FLEET_MERGE) {
			REQUIRE(!decode(&same_a, &same, buf_view(&b), &q->call, in, &arena), "it is refused when it was written again");
			REQUIRE(!fleet_answer_encode(&again, &same_a, &same, out, q, &e), "%s", e.msg);
			REQUIRE(view_eq(buf_view(&b), buf_view(&again)), "%zu bytes, then %zu", b.len, again.len);
			fleet_result_release(&same);
		}
		fleet_result_release(&r);
	}
	arena_free(&arena);
	buf_free(&b);
	buf_free(&again);
	fleet_dictionary_in_free(in);
	fleet_dictionary_out_free(out);
}

/* Appends the bytes with a hash that is right in place of theirs. */
static void sign(struct buf *b, struct view v)
{
	buf_put(b, v.ptr, v.len > 8 ? v.len - 8 : 0);
	uint64_t hash = htole64(hash_stable(buf_view(b).ptr, b->len));
	buf_put(b, &hash, sizeof hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct cursor c = cursor_of(view_make((const char *)data, n));
	struct view question = cursor_bytes(&c, cursor_count(&c));
	struct view answer = view_make((const char *)c.p, (size_t)(c.end - c.p));
	struct fleet_question q;
	struct buf b = { 0 }, signed_answer = { 0 };
	struct err e;
	sign(&b, question);
	sign(&signed_answer, answer);
	if (!fleet_question_decode(&q, buf_view(&b), NULL, &e) && q.call.n_groups <= ELEMENTS_MAX) {
		read_answer(answer, &q);
		read_answer(buf_view(&signed_answer), &q);
	}
	fleet_question_release(&q);
	buf_free(&b);
	buf_free(&signed_answer);
	return 0;
}
