/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a query. A query that parses is printed as one that parses to the same. It is answered, or refused with a
 * message, at an instant and over a range, on a few series of both kinds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "promql-like/memsource.h"
#include "promql-like/promql.h"
#include "promql-like/testlang/testlang_data.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "promql";

static struct memsource *source;
static struct promql_engine *engine;
static unsigned long n_runs, n_parsed, n_answered;

/* So that a long run can say how much of it reached the engine. */
static void say(void)
{
	fprintf(stderr, "%lu inputs, %lu parsed and went to the engine, %lu answered\n", n_runs, n_parsed, n_answered);
}

static void add_floats(const char *name, const char *job, double step)
{
	struct label l[] = { { VIEW(LABEL_NAME), view_of(name) }, { VIEW("job"), view_of(job) } };
	struct err e = { 0 };
	for (int i = 0; i < 20; i++)
		REQUIRE(memsource_add_float(source, (struct labels){ l, 2 }, i * 10000, i * step, &e) == 0, "%s", e.msg);
}

static void add_profiles(const char *type, const char *job)
{
	struct label l[] = { { VIEW(LABEL_NAME), view_of(type) }, { VIEW("job"), view_of(job) } };
	struct ptype t;
	struct err e = { 0 };
	struct arena a;
	const char *error = "";
	arena_init(&a, 0);
	REQUIRE(ptype_parse(view_of(type), &t), "%s", type);
	struct stackvec *v = testlang_stacks(&a, memsource_symbols(source),
					     VIEW("main@m.go:1!app;f@f.go:2!app;~g@g.go:3!app 100 {thread=\"1\"} | main@m.go:1!app;0x1f!lib 7"), &error);
	REQUIRE(v, "%s", error);
	for (int i = 1; i < 20; i++) {
		struct source_profile p = { .t_ms = i * 10000, .duration_ns = t.kind == PROFILE_GAUGE ? 0 : 10000000000,
					    .cover_ms = 10000, .interval_ms = 10000, .weight = 1, .period = 10 };
		p.stale = i == 15;
		REQUIRE(memsource_add_profile(source, (struct labels){ l, 2 }, &t, &p, p.stale ? NULL : v, &e) == 0, "%s", e.msg);
	}
	stackvec_unref(v);
	arena_free(&a);
}

static void fill(void)
{
	struct promql_options o = { .max_samples = 20000, .timeout_ms = 2000 };
	source = memsource_new();
	add_floats("up", "a", 0);
	add_floats("c_total", "a", 5);
	add_floats("c_total", "b", -1);
	add_profiles("process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "a");
	add_profiles("process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "b");
	add_profiles("memory:inuse_space:bytes:space:bytes", "a");
	engine = promql_engine_new(memsource_source(source), &o);
}

/* The other two forms too, if `all`. */
static char *print(struct view query, bool all, struct err *e)
{
	struct promql_expr *x;
	struct buf b = { 0 }, other = { 0 };
	if (promql_parse(&x, query, e))
		return NULL;
	if (all) {
		REQUIRE(promql_format(x, NULL, &other, e) == 0, "not laid out");
		REQUIRE(promql_expr_json(x, NULL, &other, e) == 0, "not written as JSON");
	}
	promql_expr_print(x, &b);
	promql_expr_free(x);
	buf_free(&other);
	return buf_take(&b, &(size_t){ 0 });
}

static void answer(struct view query)
{
	struct promql_result r;
	struct err e = { 0 };
	struct promql_params p = { .profiles = true, .explain = true };
	if (promql_instant(engine, query, 150000, &p, &r, &e) == 0) {
		n_answered++;
		promql_result_release(&r);
	} else {
		REQUIRE(e.msg[0], "an error without words");
	}
	if (promql_range(engine, query, 100000, 170000, 35000, NULL, &r, &e) == 0)
		promql_result_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct err e = { 0 };
	struct view query = view_make((const char *)data, n);
	if (!engine) {
		fill();
		atexit(say);
	}
	if (n > 2000)
		return 0;
	if (++n_runs % 1000000 == 0)
		say();
	char *once = print(query, true, &e);
	if (!once) {
		REQUIRE(e.msg[0], "an error without words");
		return 0;
	}
	n_parsed++;
	char *twice = print(view_of(once), false, &e);
	REQUIRE(twice, "%s\n%s", once, e.msg);
	REQUIRE(strcmp(once, twice) == 0, "%s\n%s", once, twice);
	answer(query);
	free(once);
	free(twice);
	return 0;
}
