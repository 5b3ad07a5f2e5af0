/* SPDX-License-Identifier: Apache-2.0 */
/* What a range query says at a step is what an instant query says there, and what a subquery holds of it: drawn at random, over
 * every function, aggregation and operator of the language, on series that come and go. PYRRHA_LONG makes it long,
 * PYRRHA_SEED another one; what differs is printed as a query. start(), end(), step() and range() are left out: they are
 * what a range has and an instant has not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "model/value.h"
#include "promql-like/memsource.h"
#include "promql-like/promql.h"
#include "promql-like/syntax/func.h"
#include "promql-like/testlang/testlang_data.h"

#define STEP 10000
#define START 20000
#define STEPS 26
#define END (START + (STEPS - 1) * STEP)

static uint64_t state;

static uint32_t draw(uint32_t n)
{
	state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash_u64(state) % n);
}

#define ONE_OF(...) one_of((const char *const[]){ __VA_ARGS__ }, ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })))
static const char *one_of(const char *const *list, size_t n)
{
	return list[draw((uint32_t)n)];
}

/* ---- data ---- */

static struct memsource *source;
static struct promql_engine *engine;

static void add_floats(const char *name, const char *key, const char *value, bool counter)
{
	struct label l[] = { { VIEW(LABEL_NAME), view_of(name) }, { view_of(key), view_of(value) }, { VIEW("zone"), view_of(draw(2) ? "x" : "y") } };
	struct err e;
	double v = 0;
	for (int64_t t = draw(9) * 1000; t < END + STEP; t += 5000 + draw(4) * 2500) {
		v = counter && draw(12) ? v + draw(20) : draw(40);
		double at = draw(30) == 0 ? value_from_bits(VALUE_STALE_BITS) : draw(60) == 0 ? NAN : v;
		assert_int_equal(memsource_add_float(source, (struct labels){ l, 3 }, t, at, &e), 0);
		if (draw(8) == 0)
			t += 60000;
	}
}

static struct stackvec *draw_stacks(void)
{
	static const char *const frames[] = { "main@m.go:1!app", "f@f.go:2!app", "~g@g.go:3!app", "f@f.go:7!app", "h@h.go:4!lib", "0x1f!lib" };
	struct buf text = { 0 };
	for (uint32_t i = 0, n = 1 + draw(5); i < n; i++) {
		buf_puts(&text, i ? " | main@m.go:1!app" : "main@m.go:1!app");
		for (uint32_t k = draw(5); k > 0; k--)
			buf_printf(&text, ";%s", frames[draw(ARRAY_LEN(frames))]);
		buf_printf(&text, " %u", 1 + draw(1000));
		if (draw(3) == 0)
			buf_printf(&text, " {thread=\"%u\"}", draw(2));
	}
	struct arena a;
	const char *error = "";
	arena_init(&a, 0);
	struct stackvec *v = testlang_stacks(&a, memsource_symbols(source), buf_view(&text), &error);
	if (!v)
		fail_msg("%s: %s", text.ptr, error);
	arena_free(&a);
	buf_free(&text);
	return v;
}

static void add_profiles(const char *name, const char *pod)
{
	struct label l[] = { { VIEW(LABEL_NAME), view_of(name) }, { VIEW("pod"), view_of(pod) }, { VIEW("zone"), view_of(draw(2) ? "x" : "y") } };
	struct ptype type;
	struct err e;
	assert_true(ptype_parse(view_of(name), &type));
	for (int64_t t = draw(12) * 1000; t < END + STEP; t += 10000) {
		struct source_profile p = { .t_ms = t, .duration_ns = type.kind == PROFILE_GAUGE ? 0 : 10000000000, .cover_ms = 10000,
					    .interval_ms = 10000, .weight = 1, .period = 10, .stale = draw(12) == 0 };
		struct stackvec *v = p.stale ? NULL : draw_stacks();
		assert_int_equal(memsource_add_profile(source, (struct labels){ l, 3 }, &type, &p, v, &e), 0);
		stackvec_unref(v);
		if (draw(7) == 0)
			t += 70000;
	}
}

static void fill(void)
{
	static const char *const types[] = { "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "memory:inuse_space:bytes:space:bytes",
					     "goroutine:goroutine:count:goroutine:count" };
	struct promql_options o = { .lookback_ms = 30000, .subquery_step_ms = STEP, .max_samples = 5000000 };
	source = memsource_new();
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		for (uint32_t k = 0, n = 1 + draw(3); k < n; k++)
			add_profiles(types[i], (const char *[]){ "a", "b", "c" }[k]);
	for (uint32_t k = 0; k < 3; k++) {
		add_floats("m", "pod", (const char *[]){ "a", "b", "c" }[k], false);
		add_floats("c_total", "pod", (const char *[]){ "a", "b", "d" }[k], true);
		add_floats("h_bucket", "le", (const char *[]){ "1", "5", "+Inf" }[k], true);
	}
	add_floats("lone", "pod", "a", false);
	engine = promql_engine_new(memsource_source(source), &o);
}

static void empty(void)
{
	promql_engine_free(engine);
	memsource_free(source);
}

/* ---- queries ---- */

static void put_vector(struct buf *b, unsigned depth);

static void put_scalar(struct buf *b, unsigned depth)
{
	switch (depth ? draw(6) : draw(3)) {
	case 0: buf_printf(b, "%u", draw(5)); break;
	case 1: buf_puts(b, ONE_OF("0.5", "0.9", "-1", "2", "0", "60", "1e3", "NaN", "Inf")); break;
	case 2: buf_puts(b, ONE_OF("time()", "pi()", "3")); break;
	case 3:
		buf_puts(b, "scalar(");
		put_vector(b, depth - 1);
		buf_putc(b, ')');
		break;
	case 4:
		buf_puts(b, ONE_OF("min_of(", "max_of("));
		put_scalar(b, depth - 1);
		buf_putc(b, ',');
		put_scalar(b, depth - 1);
		buf_putc(b, ')');
		break;
	default:
		buf_putc(b, '(');
		put_scalar(b, depth - 1);
		buf_puts(b, ONE_OF(" + ", " * ", " - ", " / ", " % ", " ^ ", " > bool ", " atan2 "));
		put_scalar(b, depth - 1);
		buf_putc(b, ')');
	}
}

static void put_mods(struct buf *b)
{
	if (draw(8) == 0)
		buf_puts(b, ONE_OF(" offset 10s", " offset 25s", " offset -15s", " offset 1m"));
	if (draw(20) == 0)
		buf_puts(b, ONE_OF(" @ 100", " @ 155", " @ 0"));
}

static const char *selector(void)
{
	return ONE_OF("m", "c_total", "h_bucket", "lone", "m{pod=\"a\"}", "{pod=\"a\"}", "cpu", "cpu", "cpu{pod=\"a\"}", "cpu{pod!=\"a\"}",
		      "heap_inuse_space", "goroutines", "{__name__=~\"m|c_total\"}", "{zone=\"x\"}", "nothing", "cpu{zone=\"x\"}",
		      "{__name__=~\"process_cpu.*|memory.*\"}");
}

static void put_range(struct buf *b, unsigned depth)
{
	if (!depth || draw(3)) {
		buf_printf(b, "%s[%s]", selector(), ONE_OF("10s", "15s", "30s", "35s", "1m", "2m", "5s"));
	} else {
		buf_putc(b, '(');
		put_vector(b, depth - 1);
		buf_printf(b, ")[%s:%s]", ONE_OF("10s", "30s", "35s", "1m"), ONE_OF("", "5s", "10s", "7s"));
	}
	put_mods(b);
}

static void put_string(struct buf *b, const struct func *f, size_t i)
{
	if (strncmp(f->name, "label_replace", 13) == 0)
		buf_puts(b, i == 1 ? ONE_OF("\"pod\"", "\"new\"", "\"__name__\"") : i == 2 ? ONE_OF("\"$1\"", "\"z\"", "\"\"")
			 : i == 3 ? ONE_OF("\"pod\"", "\"zone\"", "\"__name__\"", "\"none\"") : ONE_OF("\"(.*)\"", "\"(a|b)\"", "\"q\"", "\"\""));
	else if (strcmp(f->name, "label_join") == 0)
		buf_puts(b, i == 1 ? ONE_OF("\"new\"", "\"pod\"") : i == 2 ? "\"-\"" : ONE_OF("\"pod\"", "\"zone\"", "\"__name__\""));
	else if (strcmp(f->name, "diff") == 0)
		buf_puts(b, "\"share\"");
	else if (strcmp(f->name, "collapse") == 0)
		buf_puts(b, "\"recursion\"");
	else
		buf_puts(b, ONE_OF("\"pod\"", "\"zone\"", "\"le\""));
}

/* What a string would mean: nothing, a granularity, an expression. */
enum strings { NO_STRING, GRANULARITY, EXPRESSION };

static void put_frames(struct buf *b, enum strings strings)
{
	if (strings == GRANULARITY && draw(2))
		buf_puts(b, ONE_OF("\"function\"", "\"line\"", "\"file\"", "\"binary\"", "\"package\""));
	else
		buf_puts(b, strings != EXPRESSION ? ONE_OF("{function=\"f\"}", "frames(\"g\")", "{binary!=\"lib\"}", "{function=~\"f|h\",line!=\"7\"}")
				 : ONE_OF("{function=\"f\"}", "\"g\"", "\"f\"", "{file=~\"[gh].go\"}", "{function!=\"f\"}", "\"nope\""));
}

static bool is_bound(const struct func *f)
{
	return strstr(f->name, "share_") != NULL;
}

static void put_args(struct buf *b, const struct func *f, unsigned depth)
{
	int least, most;
	func_arity(f, &least, &most);
	int n = most < 0 ? least + 1 + (int)draw(2) : least + (most > least ? (int)draw((uint32_t)(most - least) + 1) : 0);
	for (int i = 0; i < n; i++) {
		char c = func_arg(f, (size_t)n, (size_t)i);
		if (i)
			buf_puts(b, ", ");
		if (c == 's')
			put_scalar(b, depth && !is_bound(f) ? depth - 1 : 0);
		else if (c == 'S')
			put_string(b, f, (size_t)i);
		else if (c == 'v')
			put_vector(b, depth ? depth - 1 : 0);
		else if (c == 'm')
			put_range(b, depth ? depth - 1 : 0);
		else if (c == 'w')
			buf_puts(b, n == 2 ? ONE_OF("{thread=\"1\"}", "{thread!=\"1\"}", "{thread=\"\"}") : "\"bytes\"");
		else if (c == 'g')
			buf_puts(b, ONE_OF("\"function\"", "\"line\"", "\"file\"", "\"binary\""));
		else
			put_frames(b, c != 'r' ? EXPRESSION : n < 3 || (is_bound(f) && n < 4) ? GRANULARITY : NO_STRING);
		if (c == 'w' && n > 2) {
			buf_puts(b, ", \"1:400\"");
			break;
		}
	}
}

static bool left_out(const char *name)
{
	static const char *const names[] = { "start", "end", "step", "range", "frames" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static void put_clause(struct buf *b)
{
	if (draw(2))
		buf_printf(b, " %s (%s) ", ONE_OF("by", "without"), ONE_OF("pod", "zone", "pod, zone", "function", "le", ""));
}

static void put_aggregate(struct buf *b, const struct promql_function_info *f, unsigned depth)
{
	enum aggregate_op op;
	assert_true(aggregate_lookup(view_of(f->name), &op));
	buf_puts(b, f->name);
	if (op == AGGR_SPLIT)
		buf_puts(b, " by (thread) ");
	else
		put_clause(b);
	buf_putc(b, '(');
	if (aggregate_info(op)->param == 's') {
		if (op == AGGR_QUANTILE || op == AGGR_LIMIT_RATIO)
			buf_puts(b, ONE_OF("0.5", "0.2", "-0.7", "1"));
		else if (draw(3))
			buf_puts(b, ONE_OF("1", "2", "3"));
		else
			put_scalar(b, 0);
		buf_puts(b, ", ");
	} else if (aggregate_info(op)->param == 'S') {
		buf_puts(b, ONE_OF("\"val\", ", "\"pod\", "));
	}
	if (op == AGGR_MERGE && draw(2))
		put_range(b, 0);
	else
		put_vector(b, depth ? depth - 1 : 0);
	buf_putc(b, ')');
}

static void put_function(struct buf *b, const struct promql_function_info *f, unsigned depth)
{
	if (f->aggregation) {
		put_aggregate(b, f, depth);
		return;
	}
	const struct func *fn = func_lookup(view_of(f->name));
	buf_printf(b, "%s(", f->name);
	put_args(b, fn, depth);
	buf_putc(b, ')');
}

static size_t n_functions(void)
{
	size_t n = 0;
	while (promql_function_at(n))
		n++;
	return n;
}

static void put_binary(struct buf *b, unsigned depth)
{
	const char *op = ONE_OF("+", "-", "*", "/", "%", "^", "atan2", "==", "!=", "<", "<=", ">", ">=", "== bool", "< bool", "and", "or", "unless");
	buf_putc(b, '(');
	put_vector(b, depth - 1);
	buf_printf(b, " %s ", op);
	bool set = *op == 'a' ? op[1] == 'n' : *op == 'o' || *op == 'u';
	if (!set && draw(4) == 0) {
		put_scalar(b, depth - 1);
	} else {
		if (draw(3) == 0)
			buf_printf(b, "%s (%s) %s", ONE_OF("on", "ignoring"), ONE_OF("pod", "zone", "pod, zone", ""),
				   set ? "" : ONE_OF("", "", "group_left ", "group_right ", "group_left (zone) "));
		put_vector(b, depth - 1);
	}
	buf_putc(b, ')');
}

static void put_vector(struct buf *b, unsigned depth)
{
	uint32_t kind = depth ? draw(10) : 0;
	if (kind < 3) {
		buf_puts(b, selector());
		put_mods(b);
		return;
	}
	if (kind < 5) {
		put_binary(b, depth);
		return;
	}
	for (;;) {
		struct promql_function_info f = *promql_function_at(draw((uint32_t)n_functions()));
		if (left_out(f.name) || (!f.aggregation && func_lookup(view_of(f.name))->ret != PROMQL_VECTOR))
			continue;
		put_function(b, &f, depth);
		return;
	}
}

/* ---- comparing ---- */

static bool same(double a, double b)
{
	if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
		return (isnan(a) && isnan(b)) || a == b;
	return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) + 1e-12;
}

/* How many points the result has at t, and series s's there; false: none. */
static bool point_at(const struct promql_series *s, int64_t t, double *ret)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->points[i].t_ms == t) {
			*ret = s->points[i].v;
			return true;
		}
	return false;
}

static const struct promql_series *find(const struct promql_result *r, struct labels l)
{
	for (size_t i = 0; i < r->n_series; i++)
		if (labels_eq(r->series[i].labels, l))
			return &r->series[i];
	return NULL;
}

static void put_at(const struct promql_result *r, int64_t t, struct buf *out)
{
	double v;
	for (size_t i = 0; i < r->n_series; i++)
		if (point_at(&r->series[i], t, &v)) {
			labels_json(r->series[i].labels, out);
			buf_printf(out, " %.17g; ", v);
		}
	if (r->type == PROMQL_SCALAR)
		buf_printf(out, "%.17g", r->scalar);
	if (!out->ptr)
		buf_puts(out, "nothing");
}

static unsigned long n_compared, n_points, n_errors, n_differ;

static void differ(const char *query, int64_t t, const char *what, const struct promql_result *a, const char *other, const struct promql_result *b)
{
	struct buf x = { 0 }, y = { 0 };
	put_at(a, t, &x);
	put_at(b, t, &y);
	print_error("%s\n  at %g: %s %s\n         %s %s\n", query, (double)t / 1000, what, x.ptr, other, y.ptr);
	buf_free(&x);
	buf_free(&y);
	n_differ++;
}

/* b may be an instant's vector or scalar. */
static bool equal_at(const struct promql_result *a, const struct promql_result *b, int64_t t)
{
	size_t na = 0, nb = 0;
	double v, w;
	for (size_t i = 0; i < b->n_series; i++)
		nb += point_at(&b->series[i], t, &w);
	if (b->type == PROMQL_SCALAR)
		return a->n_series == 1 && point_at(&a->series[0], t, &v) && same(v, b->scalar);
	for (size_t i = 0; i < a->n_series; i++) {
		if (!point_at(&a->series[i], t, &v))
			continue;
		const struct promql_series *s = find(b, a->series[i].labels);
		if (!s || !point_at(s, t, &w) || !same(v, w))
			return false;
		na++;
		n_points++;
	}
	return na == nb;
}

static void compare_subquery(const char *query, const struct promql_result *range)
{
	struct promql_result sub;
	struct err e = { 0 };
	struct buf b = { 0 };
	buf_printf(&b, "(%s)[%ds:%ds]", query, STEPS * STEP / 1000, STEP / 1000);
	if (promql_instant(engine, buf_view(&b), END, NULL, &sub, &e)) {
		print_error("%s\n  %s\n", b.ptr, e.msg);
		n_differ++;
	} else {
		for (int64_t t = START; t <= END; t += STEP)
			if (!equal_at(range, &sub, t)) {
				differ(query, t, "range:", range, "subquery:", &sub);
				break;
			}
		promql_result_release(&sub);
	}
	buf_free(&b);
}

/* What a function cannot take is dropped with a warning, and an error where nothing remains: at a step, not over the range. */
static bool nothing_left(const struct err *e)
{
	return strstr(e->msg, "has no meaning") || strstr(e->msg, "has only numbers") ||
	       strstr(e->msg, "the number of observations of");
}

/* An error of the range is one at some step, and the other way round. */
static void compare(const char *query)
{
	struct promql_result range, at;
	struct err e = { 0 }, one = { 0 }, parse = { 0 };
	struct promql_expr *x;
	if (promql_parse(&x, view_of(query), &parse))
		return; /* types that do not fit */
	bool scalar = x->root->type == PROMQL_SCALAR;
	promql_expr_free(x);
	n_compared++;
	int rc = promql_range(engine, view_of(query), START, END, STEP, NULL, &range, &e);
	int64_t failed = -1;
	bool differs = false;
	for (int64_t t = START; t <= END && !differs; t += STEP) {
		struct err why = { 0 };
		if (promql_instant(engine, view_of(query), t, NULL, &at, &why)) {
			failed = t;
			one = why;
			continue;
		}
		if (!rc && !equal_at(&range, &at, t)) {
			differ(query, t, "range:  ", &range, "instant:", &at);
			differs = true;
		}
		promql_result_release(&at);
	}
	n_errors += rc != 0;
	if (rc && failed < 0) {
		print_error("%s\n  the range alone fails: %s\n", query, e.msg);
		n_differ++;
	} else if (!rc && failed >= 0 && !nothing_left(&one)) {
		print_error("%s\n  at %g, not in the range: %s\n", query, (double)failed / 1000, one.msg);
		n_differ++;
	}
	if (!rc && !differs && !scalar && failed < 0)
		compare_subquery(query, &range);
	if (!rc)
		promql_result_release(&range);
}

static void test_agree(void **unused)
{
	(void)unused;
	const char *seed = getenv("PYRRHA_SEED"), *is_long = getenv("PYRRHA_LONG");
	uint64_t first = seed ? strtoull(seed, NULL, 10) : 1, rounds = is_long && *is_long ? 400 : 12;
	for (uint64_t r = 0; r < rounds; r++) {
		state = first + r;
		fill();
		for (size_t i = 0; i < n_functions(); i++) {
			struct promql_function_info f = *promql_function_at(i);
			struct buf b = { 0 };
			if (left_out(f.name))
				continue;
			put_function(&b, &f, 1 + draw(3));
			compare(b.ptr);
			if (f.profiles) { /* its stacks too */
				struct buf rows = { 0 };
				buf_printf(&rows, "%s(%s, \"line\")", ONE_OF("self", "total"), b.ptr);
				compare(rows.ptr);
				buf_free(&rows);
			}
			buf_reset(&b);
			if (draw(3) == 0) {
				put_binary(&b, 1 + draw(3));
				compare(b.ptr);
			}
			buf_free(&b);
		}
		empty();
		if (n_differ > 20)
			break;
	}
	print_message("%lu queries, %lu points are equal, %lu queries are errors both ways\n", n_compared, n_points, n_errors);
	if (n_differ)
		fail_msg("%lu of %lu queries differ", n_differ, n_compared);
}

/* ---- which rows are wanted ----
 *
 * A comparison of rows with a number is answered without making the others. x * 1 is no readout, so that all of its rows are made:
 * the answers are equal byte by byte. */

static void put_rows(struct buf *b)
{
	static const char *const operands[] = { "cpu", "merge(cpu[1m])", "merge by (pod)(cpu[1m])", "merge by (zone)(cpu[2m] offset 20s)", "rate(cpu[1m])", "goroutines",
						"-cpu", "diff(merge(cpu[30s]), merge(cpu[30s] offset 30s))", "{__name__=~\"process_cpu.*|memory.*\"}",
						"label_replace(cpu, \"function\", \"x\", \"\", \"\")", "diff(cpu, cpu offset 30s, \"share\")", "sum(cpu) * 0.1",
						"nothing", "focus(merge(cpu[1m]), \"g\")" };
	const char *name = ONE_OF("share", "self_share", "total", "self", "share");
	buf_printf(b, "%s(%s%s)", name, operands[draw(ARRAY_LEN(operands))],
		   ONE_OF("", "", "", ", \"line\"", ", \"function\"", ", {function=~\"f|g\"}, \"function\"", ", {function=\"f\"}"));
}

/* By the steps that compare_chosen asks for. */
static struct promql_shared *shared[STEPS];

/* What queries have in common is computed once, and each gets the answer that it would have by itself. */
static void compare_shared(const char *query, int64_t t, int alone_rc, const struct promql_result *alone)
{
	struct promql_result r;
	struct err e = { 0 };
	struct promql_params p = { .asker = PROMQL_RULES, .shared = shared[(t - START) / STEP] };
	for (int i = 0; i < 3; i++) { /* made, found, found again: with what was made for who asks again */
		p.as_first = draw(2); /* nothing is really written */
		int rc = promql_instant(engine, view_of(query), t, &p, &r, &e);
		if (rc != alone_rc) {
			print_error("%s\n  at %g, shared: %s\n", query, (double)t / 1000, rc ? e.msg : "no error");
			n_differ++;
		} else if (!rc && !equal_at(&r, alone, t)) {
			differ(query, t, "shared:", &r, "alone: ", alone);
		}
		if (!rc)
			promql_result_release(&r);
		if (draw(20) == 0)
			promql_shared_wrote(p.shared, view_of(ONE_OF("m", "", "cpu")));
	}
}

static void compare_chosen(const char *with, const char *without)
{
	struct promql_result a, b;
	struct err e = { 0 }, f = { 0 };
	n_compared++;
	for (int64_t t = START; t <= END; t += 4 * STEP) {
		int x = promql_instant(engine, view_of(with), t, NULL, &a, &e), y = promql_instant(engine, view_of(without), t, NULL, &b, &f);
		bool equal = x == y;
		if (!x && !y) {
			equal = a.n_series == b.n_series;
			for (size_t i = 0; i < a.n_series && equal; i++)
				equal = labels_eq(a.series[i].labels, b.series[i].labels) &&
					memcmp(&a.series[i].points[0].v, &b.series[i].points[0].v, sizeof(double)) == 0;
		}
		if (!equal) {
			print_error("%s\n  at %g: differs from %s (%s; %s)\n", with, (double)t / 1000, without, x ? e.msg : "", y ? f.msg : "");
			n_differ++;
		}
		n_points += x ? 0 : a.n_series;
		compare_shared(with, t, x, &a);
		if (!x)
			promql_result_release(&a);
		if (!y)
			promql_result_release(&b);
	}
}

static void test_chosen(void **unused)
{
	(void)unused;
	const char *seed = getenv("PYRRHA_SEED"), *is_long = getenv("PYRRHA_LONG");
	uint64_t first = seed ? strtoull(seed, NULL, 10) : 1, rounds = is_long && *is_long ? 200 : 4;
	unsigned long n_found = 0;
	n_compared = n_points = 0;
	for (uint64_t r = 0; r < rounds; r++) {
		state = first + r;
		fill();
		for (size_t i = 0; i < STEPS; i++)
			shared[i] = promql_shared_new(engine, 0);
		for (int i = 0; i < 100; i++) {
			struct buf rows = { 0 }, with = { 0 }, without = { 0 };
			char number[32];
			snprintf(number, sizeof number, "%s", ONE_OF("0", "0.1", "0.5", "0.25", "1", "-0.1", "1e-7", "-1e-7", "3e-7", "1e-6", "2e-6", "NaN"));
			const char *op = ONE_OF(">", ">=", "<", "<=", "==", "!=", "> bool");
			bool usual = draw(3) == 0;
			if (usual)
				buf_printf(&rows, "%s(cpu) - %s %s(%s)", ONE_OF("total", "self", "share"), ONE_OF("", "fill_right(0)"), ONE_OF("total", "self", "share"),
					   ONE_OF("-cpu", "cpu offset 10s", "diff(cpu offset 10s, cpu)"));
			else
				put_rows(&rows);
			if (!usual && draw(2)) {
				buf_puts(&rows, ONE_OF(" - ", " - ", " - fill_right(0) ", " - fill(0) ", " - fill_left(0.3) ", " - on (function, pod) ", " - ignoring (pod) "));
				put_rows(&rows);
			}
			switch (draw(5)) {
			case 4: /* what rules ask beside */
				put_vector(&with, 2);
				buf_puts(&without, with.ptr);
				break;
			case 0:
				buf_printf(&with, "%s %s (%s)", number, op, rows.ptr);
				buf_printf(&without, "%s %s ((%s) * 1)", number, op, rows.ptr);
				break;
			case 1: {
				const char *top = ONE_OF("topk(2,", "bottomk(3,", "topk by (pod)(1,", "bottomk by (function)(1,");
				buf_printf(&with, "%s %s)", top, rows.ptr);
				buf_printf(&without, "%s (%s) * 1)", top, rows.ptr);
				break;
			}
			default:
				buf_printf(&with, "%s %s %s", rows.ptr, op, number);
				buf_printf(&without, "((%s) * 1) %s %s", rows.ptr, op, number);
			}
			compare_chosen(with.ptr, without.ptr);
			buf_free(&rows);
			buf_free(&with);
			buf_free(&without);
		}
		for (size_t i = 0; i < STEPS; i++) {
			n_found += promql_shared_stats(shared[i]).found;
			promql_shared_free(shared[i]);
		}
		empty();
		if (n_differ > 20)
			break;
	}
	print_message("%lu queries, %lu rows are equal; %lu subexpressions were shared\n", n_compared, n_points, n_found);
	assert_true(n_found > 1000);
	if (n_differ)
		fail_msg("%lu answers differ", n_differ);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_agree), cmocka_unit_test(test_chosen) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
