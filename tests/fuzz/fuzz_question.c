/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a question of another server; and with the hash made right, which else keeps them from being looked at. What is accepted is
 * within the limits of wire.h and says the same when it is written and read again. tests/fleet/wire_hostile_test.c writes the seeds. */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "fleet/wire.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "question";

static void check_part(const struct source_part *p, size_t n_groups)
{
	uint64_t n = MAX(p->n_steps, 1u);
	REQUIRE(p->group + n <= n_groups, "%u + %llu of %zu", p->group, (unsigned long long)n, n_groups);
	REQUIRE(n == 1 || p->step_ms > 0, "%lld", (long long)p->step_ms);
	REQUIRE(p->until_ms <= INT64_MAX - (int64_t)n * MAX(p->step_ms, 0), "%lld", (long long)p->until_ms);
}

static void check_graph(const struct source_graph *g)
{
	REQUIRE(g->n_steps <= FLEET_STEPS_MAX && g->n_lanes <= FLEET_LANES_MAX && g->n_refs <= FLEET_REFS_MAX && g->first[g->n_refs] <= FLEET_TERMS_MAX, "%zu steps",
		g->n_steps);
	for (size_t i = 0; i < g->n_refs; i++)
		REQUIRE(g->first[i] < g->first[i + 1], "series %zu", i);
	for (size_t i = 0; i < g->first[g->n_refs]; i++) {
		const struct source_graph_term *t = &g->terms[i];
		REQUIRE(t->step < g->n_steps && t->lane < g->n_lanes && t->after_ms < t->until_ms && isfinite(t->scale), "term %zu", i);
	}
}

static void check_question(const struct fleet_question *q)
{
	const struct fleet_call *c = &q->call;
	REQUIRE(c->op > 0 && c->op < FLEET_OPS, "%d", (int)c->op);
	REQUIRE(c->n_m <= FLEET_MATCHERS_MAX && c->n_refs <= FLEET_REFS_MAX && c->n_parts <= FLEET_PARTS_MAX && c->n_groups <= FLEET_GROUPS_MAX,
		"%d", (int)c->op);
	for (size_t i = 0; i < c->n_m; i++)
		REQUIRE(c->m[i].value.len <= FLEET_TEXT_MAX && !c->m[i].re == (c->m[i].op < MATCH_RE), "matcher %zu", i);
	for (size_t i = 0; i < c->n_parts; i++)
		check_part(&c->parts[i], c->n_groups);
	REQUIRE(!c->graph == (c->op != FLEET_ROWS), "%d", (int)c->op);
	if (c->graph)
		check_graph(c->graph);
	REQUIRE(!c->tiles == (c->op != FLEET_COVERS), "%d", (int)c->op);
	REQUIRE(!c->tiles || (c->tiles->width_ms > 0 && c->tiles->n * (c->n_refs + 1) <= FLEET_TILES_MAX), "%zu tiles", c->tiles->n);
	REQUIRE(c->filter || (c->op != FLEET_SHARES && c->op != FLEET_MATCHES), "%d", (int)c->op);
	REQUIRE(!c->filter || !c->filter->any || !c->filter->n, "%zu", c->filter->n);
}

static void read_question(struct view v)
{
	struct fleet_question q, same;
	struct buf out = { 0 }, again = { 0 };
	struct err e = { 0 };
	int rc = fleet_question_decode(&q, v, NULL, &e);
	REQUIRE(rc == -(int)e.code && (!rc || (e.msg[0] && (e.code == ERR_BAD_DATA || e.code == ERR_LIMIT))), "%d: %s", rc, e.msg);
	if (!rc) {
		check_question(&q);
		fleet_question_encode(&out, &q);
		REQUIRE(!fleet_question_decode(&same, buf_view(&out), NULL, &e), "%s", e.msg);
		fleet_question_encode(&again, &same);
		REQUIRE(view_eq(buf_view(&out), buf_view(&again)), "%zu bytes, then %zu", out.len, again.len);
		fleet_question_release(&same);
	}
	fleet_question_release(&q);
	buf_free(&out);
	buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct buf b = { 0 };
	read_question(view_make((const char *)data, n));
	buf_put(&b, data, n > 8 ? n - 8 : 0);
	uint64_t hash = htole64(hash_stable(buf_view(&b).ptr, b.len));
	buf_put(&b, &hash, sizeof hash);
	read_question(buf_view(&b));
	buf_free(&b);
	return 0;
}
