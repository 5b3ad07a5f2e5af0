/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of graphs over stacks share: series of drawn profiles in a memsource, and queries about them. */
#ifndef PYRRHA_PROMQL_GRAPHKIT_H
#define PYRRHA_PROMQL_GRAPHKIT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "promql-like/memsource.h"
#include "promql-like/promql.h"
#include "promql-like/testlang/testlang_data.h"

#define END 600000
/* A failure here is no finding of the test. */
#define GRAPHKIT_CHECK(x) do { \
	if (!(x)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
		abort(); \
	} \
} while (0)

static uint64_t graphkit_state = 1;

static inline uint32_t draw(uint32_t n)
{
	graphkit_state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash_u64(graphkit_state) % n);
}

/* Up to six stacks of a few functions; recursion, inlined calls and an address without a symbol among them. */
static inline struct stackvec *draw_stacks(struct memsource *m)
{
	static const char *const frames[] = { "main@m.go:1!app", "f@f.go:2!app", "~g@g.go:3!app", "f@f.go:7!app", "h@h.go:4!lib", "0x1f!lib" };
	struct buf text = { 0 };
	for (uint32_t i = 0, n = 1 + draw(6); i < n; i++) {
		buf_puts(&text, i ? " | main@m.go:1!app" : "main@m.go:1!app");
		for (uint32_t k = draw(5); k > 0; k--)
			buf_printf(&text, ";%s", frames[draw(k == 1 ? 2 : ARRAY_LEN(frames))]);
		buf_printf(&text, " %u", 1 + draw(1000));
	}
	struct arena a;
	const char *error = "";
	arena_init(&a, 0);
	struct stackvec *v = testlang_stacks(&a, memsource_symbols(m), buf_view(&text), &error);
	GRAPHKIT_CHECK(v && !*error);
	arena_free(&a);
	buf_free(&text);
	return v;
}

static inline void add_series(struct memsource *m, const char *name, const char *pod)
{
	struct label l[] = { { VIEW(LABEL_NAME), view_of(name) }, { VIEW("pod"), view_of(pod) } };
	struct ptype type;
	struct err e = { 0 };
	GRAPHKIT_CHECK(ptype_parse(view_of(name), &type));
	for (int64_t t = 7000 + draw(9000); t < END; t += 10000 + draw(3) * 100) {
		struct source_profile p = { .t_ms = t, .duration_ns = type.kind == PROFILE_GAUGE ? 0 : 9000000000, .cover_ms = 10000 + draw(2) * 150,
					    .interval_ms = 10000, .weight = draw(8) ? 1 : 1.25, .period = 10 };
		p.stale = draw(20) == 0;
		struct stackvec *v = p.stale ? NULL : draw_stacks(m);
		GRAPHKIT_CHECK(memsource_add_profile(m, (struct labels){ l, 2 }, &type, &p, v, &e) == 0);
		stackvec_unref(v);
		if (draw(25) == 0)
			t += 60000;
	}
}

/* Of all kinds, about these series; static: a test may ask only some. */
static const char *const queries[] = {
	"self(merge(rate(cpu[35s])))", "total(merge(rate(cpu[35s])))", "share(rate(cpu[1m]))", "self_share(merge(cpu[1m]))",
	"self(cpu)", "total(merge by (pod)(cpu[20s]), \"line\")", "total(increase(cpu[40s]), \"binary\")", "self(merge(cpu[1m]), \"file\")",
	"total(merge(heap_inuse_space[45s]))", "self(heap_inuse_space offset 1m)", "share(merge(cpu[1m]) * 3, \"package\")",
	"self(merge(cpu[1m]) - merge(cpu[1m] offset 1m))", "total(diff(merge(rate(cpu[1m])), merge(rate(cpu[1m] offset 2m)), \"share\"))",
	"total(avg_over_time(cpu[1m]))", "self(max_over_time(cpu[1m]))", "total(sum by (pod)(rate(cpu[1m])) / 7)",
	"topk(2, self(merge(rate(cpu[35s]))))", "bottomk(2, total(rate(cpu[35s])))", "topk by (pod)(1, share(rate(cpu[1m])))",
	"topk by (function)(1, total(rate(cpu[1m])))", "topk(1, self(merge(cpu[1m]) - merge(cpu[1m] offset 1m)))",
	"topk(scalar(count(cpu)), total(merge(cpu[1m])))", "self(merge(cpu[1m] @ 300))", "sum by (function)(self(rate(cpu[1m])))",
	"total(merge(cpu{pod=\"a\"}[1m]) or merge(cpu{pod=\"none\"}[1m]))", "self(focus(merge(cpu[1m]), \"f\"))",
	/* of a function: storage is asked for many steps at once where they want the same a step later */
	"total(merge(cpu[1m]), {function=\"f\"})", "share(merge by (pod)(cpu[20s]), {function=\"g\"})", "self(merge(cpu[1m] @ 300), {function=\"f\"})",
	"total(merge(rate(cpu[35s])), {function=\"f\"})", "total(diff(merge(cpu[1m]), merge(cpu[1m] offset 7s)), {function=\"f\"})",
	"total(merge(cpu[1m]) or label_replace(merge(cpu[1m]), \"x\", \"y\", \"\", \"\"), {function=\"f\"})", /* the same twice */
	"share(merge(cpu[1m] offset 1m) * 3, {function=~\"f|h\"})", "samples(merge(cpu[1m]), {function=\"f\"})",
	/* windows with whole minutes in them, of which a source may hand out sums */
	"self(merge(rate(cpu[4m])))", "total(merge(cpu[5m]))", "total(merge(rate(cpu[5m] offset 17s)))", "self(merge(rate(cpu[3m])) - merge(rate(cpu[2m] offset 3m)))",
	"topk(2, total(merge by (pod)(rate(cpu[10m]))))", "self(merge(cpu[2h]))",
	/* scales that are no small fractions */
	"self(merge(rate(cpu[35s])) * 1e200)", "total(merge(rate(cpu[35s])) / 1e200)", "self(merge(rate(cpu[35s])) / 3e12)",
	"topk(2, self(merge(rate(cpu[35s])) * Inf))", "self(merge(rate(cpu[35s]) / 1e12) + merge(cpu[35s]) * 1.5)",
	/* of which only values are looked at: no profile is made for the range */
	"rate(cpu[35s])", "sum(rate(cpu[1m]))", "sum by (pod)(increase(cpu[35s]))", "avg(rate(cpu[1m] offset 1m))", "max(rate(cpu[1m]))",
	"topk(2, rate(cpu[1m]))", "sum(sum_over_time(cpu[1m]))", "avg(avg_over_time(heap_inuse_space[1m]))", "count(merge_over_time(cpu[20s]))",
	"sum(merge_over_time(heap_inuse_space[45s]))", "sum without (pod)(max_over_time(cpu[1m]))", "min(min_over_time(cpu[1m]))",
	"sum(first_over_time(cpu[1m]))", "last_over_time(cpu[1m])", "abs(rate(cpu[1m] @ 300))", "count_over_time(cpu[1m])",
	"stddev(rate({__name__=~\"process_cpu.*\"}[1m]))", "absent_over_time(cpu[1s])", "sum(rate(cpu[1m])) / sum(increase(cpu[1m]))",
	"total(ignore(focus(rate(cpu[1m]), {function=\"f\"}), \"lib\"))", "share(focus(merge(cpu[1m]), \"f\"))", "self(ignore(merge(cpu[4h]), {function=\"g\"}))",
	"total(focus(diff(merge(cpu[1m]), merge(cpu[1m] offset 1m)), \"h\"))", "self(focus(hide(merge(cpu[1m]), \"f\"), \"h\"))",
	"topk(2, self(focus(merge(cpu[1m]), \"f\")))", "callers(merge(cpu[1m]), {function=\"f\"})", "self(merge(cpu[1s]))",
};

#endif
