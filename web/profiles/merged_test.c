/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles with long names and deep stacks: writers of all formats hand over their text often enough, whatever one step of them writes. Frames that a
 * target chose cost no more than others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/utf8.h"
#include "pprof/pprof.h"
#include "web/profiles/flame_columns.h"
#include "web/profiles/merged.h"

#define NAME 20000      /* bytes of a function's name */
#define DEPTH 60        /* callers of each leaf */
#define LEAVES 300
#define CROWD 40        /* functions that all call each other */
#define MOST_TEXT ((size_t)8 << 20)

/* What a client would get, and the most that was in memory at a time. */
struct reader {
	struct buf *out;
	size_t most, all;
	uint64_t announced;
};

/* As httpd_out_stays does when an answer becomes a file: all but the last byte leave the buffer. */
static int reader_go_on(void *arg, struct err *e)
{
	struct reader *r = arg;
	(void)e;
	r->most = MAX(r->most, r->out->len);
	if (r->out->len > 1) {
		r->all += r->out->len - 1;
		r->out->ptr[0] = r->out->ptr[r->out->len - 1];
		r->out->len = 1;
	}
	return 0;
}

static int reader_need(void *arg, uint64_t bytes, struct err *e)
{
	struct reader *r = arg;
	(void)e;
	r->announced += bytes;
	return 0;
}

static uint32_t location_of(struct symbols *s, const char *name, size_t n, uint32_t number)
{
	char file[32];
	snprintf(file, sizeof file, "f%u.c", number);
	struct sym_function f = { .name = symbols_string(s, view_make(name, n)), .filename = symbols_string(s, view_of(file)), .start_line = number + 1 };
	struct sym_line line = { symbols_function(s, &f) + 1, number + 1, 0 };
	struct sym_location l = { .address = number, .n_lines = 1 };
	return symbols_location(s, &l, &line);
}

/* All functions but the leaves have long names. In the folded tree every odd node has no value of its own. */
static struct stackvec *long_names(struct symbols *s)
{
	static char name[NAME + 16];
	uint32_t stack[DEPTH + 2], crowd[CROWD];
	struct stackacc *a = stackacc_new(s);
	struct err e = { 0 };
	memset(name, '<', NAME);
	for (uint32_t i = 0; i < DEPTH; i++)
		stack[i + 2] = location_of(s, name, (size_t)snprintf(name + NAME, 16, "%05u", i) + NAME, i);
	for (uint32_t i = 0; i < LEAVES; i++) {
		char leaf[16];
		stack[1] = location_of(s, leaf, (size_t)snprintf(leaf, sizeof leaf, "caller%u", i), 1000 + i);
		stack[0] = location_of(s, leaf, (size_t)snprintf(leaf, sizeof leaf, "leaf%u", i), 5000 + i);
		stackacc_add(a, symbols_column(s, symbols_stack(s, stack, DEPTH + 2), 0), 100);
	}
	for (uint32_t i = 0; i < CROWD; i++)
		crowd[i] = location_of(s, name, (size_t)snprintf(name + NAME, 16, "c%04u", i) + NAME, 10000 + i);
	for (uint32_t i = 0; i < CROWD; i++)
		for (uint32_t k = 0; k < CROWD; k++)
			stackacc_add(a, symbols_column(s, symbols_stack(s, (uint32_t[]){ crowd[i], crowd[k] }, 2), 0), 10000);
	struct stackvec *v = stackacc_finish(a, &e);
	stackacc_free(a);
	return v;
}

static const struct ptype type = { VIEW("process_cpu"), VIEW("cpu"), VIEW("nanoseconds"), VIEW("cpu"), VIEW("nanoseconds"), true, PROFILE_DELTA };

typedef int writer(const struct promql_result *r, const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e);

static int folded_of(const struct promql_result *r, const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e)
{
	(void)r;
	return folded_text(m, permit, out, e);
}

static int speedscope_of(const struct promql_result *r, const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e)
{
	(void)r;
	return speedscope_json(m, VIEW("q"), permit, out, e);
}

static int svg_of(const struct promql_result *r, const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e)
{
	(void)r;
	return flame_svg(m, VIEW("q"), permit, out, e);
}

static int dot_of(const struct promql_result *r, const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e)
{
	(void)r;
	return call_graph_dot(m, VIEW("q"), permit, out, e);
}

static int flame_of(const struct promql_result *r, const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e)
{
	(void)r;
	return flamegraph_json(m, &(struct flame_ask){ 0 }, permit, out, e);
}

static int json_of(const struct promql_result *r, const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e)
{
	(void)m;
	return profiles_json(r, permit, out, e);
}

static int pprof_of(const struct promql_result *r, const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e)
{
	(void)m;
	return pprof_write(r, VIEW("q"), permit, out, e);
}

static int columns_of(const struct promql_result *r, const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e)
{
	struct frame_lists *lists = frame_lists_new(100000);
	struct buf columns = { 0 };
	(void)r;
	int rc = flamegraph_columns(lists, 0, m, &(struct flame_ask){ 0 }, permit, out, &columns, e);
	buf_putv(out, buf_view(&columns));
	buf_free(&columns);
	frame_lists_free(lists);
	return rc;
}

static void test_text_in_memory(void **state)
{
	static const struct {
		const char *name;
		writer *write;
		bool whole; /* this writer asks for memory for its whole answer */
	} writers[] = {
		{ "folded", folded_of, false }, { "speedscope", speedscope_of, false }, { "svg", svg_of, false }, { "dot", dot_of, false },
		{ "flamegraph", flame_of, false }, { "json", json_of, false }, { "pprof", pprof_of, false }, { "columns", columns_of, true },
	};
	struct symbols *s = symbols_new();
	struct stackvec *v = long_names(s);
	struct promql_profile p = { .type = &type, .vec = v, .weight = 1 };
	struct point point = { 0, 1 };
	struct promql_series series = { .points = &point, .n = 1, .profiles = &p };
	struct promql_result r = { .type = PROMQL_VECTOR, .series = &series, .n_series = 1 };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(writers); i++) {
		struct buf out = { 0 };
		struct reader reader = { .out = &out };
		struct permit permit = { reader_go_on, reader_need, &reader, (uint64_t)8 << 20 };
		struct merged_profile m = { .type = &type, .vec = v, .weight = 1 };
		struct err e = { 0 };
		assert_int_equal(writers[i].write(&r, &m, &permit, &out, &e), 0);
		reader.most = MAX(reader.most, out.len);
		print_message("%s: %zu bytes, at most %zu in memory, %zu announced\n", writers[i].name, reader.all + out.len, reader.most, (size_t)reader.announced);
		assert_true(reader.all + out.len > (size_t)NAME * DEPTH);
		assert_true(writers[i].whole ? 2 * reader.most <= reader.announced : reader.most <= MOST_TEXT);
		buf_free(&out);
	}
	stackvec_unref(v);
	symbols_unref(s);
}

/* Pictures are valid UTF-8, whatever names are. */
static void test_bad_names(void **state)
{
	static const char name[] = "a\xff\"\\\xe2\x82|\x01\n";
	static const struct { writer *write; const char *shown; } pictures[] = {
		{ dot_of, "a\xef\xbf\xbd\\\"\\\\\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd " }, { svg_of, "a\xef\xbf\xbd&#34;\\\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd " },
	};
	struct symbols *s = symbols_new();
	struct stackacc *a = stackacc_new(s);
	struct err e = { 0 };
	uint32_t stack[2] = { location_of(s, name, sizeof name - 1, 1), location_of(s, "main", 4, 2) };
	stackacc_add(a, symbols_column(s, symbols_stack(s, stack, 2), 0), 1000000);
	struct merged_profile m = { .type = &type, .vec = stackacc_finish(a, &e), .weight = 1 };
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pictures); i++) {
		struct buf out = { 0 };
		assert_int_equal(pictures[i].write(NULL, &m, NULL, &out, &e), 0);
		assert_true(utf8_valid(buf_view(&out)));
		assert_true(view_contains(buf_view(&out), view_of(pictures[i].shown)));
		buf_free(&out);
	}
	stackacc_free(a);
	stackvec_unref(m.vec);
	symbols_unref(s);
}

/* Two elements merged into one: its weight is their mean by value, and covered_s / weight is the time that was measured. */
static void test_weights(void **state)
{
	static const struct {
		struct promql_profile p[2];
		double weight, seconds;
		bool mixed;
	} rows[] = {
		{ { { .value = 3, .covered_s = 60, .weight = 1 }, { .value = 1, .covered_s = 60, .weight = 1 } }, 1, 60, false },
		{ { { .value = 3, .covered_s = 60, .weight = 2.5 }, { .value = 1, .covered_s = 60, .weight = 2.5 } }, 2.5, 24, false },
		{ { { .value = 2, .covered_s = 60, .weight = 2.5 }, { .value = 1, .covered_s = 60, .weight = 1 } }, 2, 30, true },
		{ { { .value = 0, .covered_s = 60, .weight = 1 }, { .value = 1, .covered_s = 60, .weight = 2.5 } }, 2.5, 24, false },
		{ { { .value = 0, .covered_s = 60, .weight = 2.5 }, { .value = 0, .covered_s = 60, .weight = 1 } }, 2.5, 24, false },
		{ { { .value = 3, .covered_s = 60, .weight = 2, .mixed = true }, { .value = 1, .covered_s = 60, .weight = 2 } }, 2, 30, true },
		{ { { .value = 3, .covered_s = 60, .weight = 1 }, { .value = 1, .covered_s = 15, .weight = 1 } }, 1, 60, false }, /* it was there for less */
		{ { { .value = 10, .covered_s = 10, .weight = 1, .moment = true }, { .value = 4, .covered_s = 4, .weight = 1, .moment = true } }, 20 / 14., 7, true },
		{ { { .value = 10, .covered_s = 10, .weight = 1, .moment = true }, { .value = 10, .covered_s = 10.01, .weight = 1, .moment = true } }, 1.0005, 10.005, false },
		/* A diff whose first element is as its base is. */
		{ { { .value = 0, .first = 2, .covered_s = 60, .weight = 2.5 }, { .value = 1, .first = 1, .covered_s = 60, .weight = 1 } }, 2, 30, true },
		{ { { .value = 3, .covered_s = 60, .per_s = 60, .weight = 1 }, { .value = 1, .covered_s = 10, .per_s = 60, .weight = 1 } }, 1, 60, false },
	};
	struct symbols *s = symbols_new();
	struct stackvec *v = long_names(s);
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct point point = { 100000, 1 };
		struct promql_profile p[2] = { rows[i].p[0], rows[i].p[1] };
		struct promql_series series[2];
		for (size_t k = 0; k < 2; k++) {
			p[k].type = &type;
			p[k].vec = v;
			p[k].first = p[k].first ? p[k].first : p[k].value;
			series[k] = (struct promql_series){ .points = &point, .n = 1, .profiles = &p[k] };
		}
		struct promql_result r = { .type = PROMQL_VECTOR, .series = series, .n_series = 2, .t_ms = 100000 };
		struct merged_profile m;
		struct profile file;
		struct buf out = { 0 };
		struct err e = { 0 };
		merged_head_of(&m, &r);
		if (fabs(m.weight - rows[i].weight) > 1e-6 || fabs(merged_seconds(&m) - rows[i].seconds) > 1e-3 || m.mixed != rows[i].mixed)
			fail_msg("row %zu: weight %g, %g s, %s", i, m.weight, merged_seconds(&m), m.mixed ? "mixed" : "one weight");
		assert_int_equal(pprof_write(&r, VIEW("q"), NULL, &out, &e), 0);
		profile_init(&file, 0);
		assert_int_equal(pprof_decode(out.ptr, out.len, NULL, &file, &e), 0);
		assert_true(fabs((double)file.duration_ns / 1e9 - rows[i].seconds) < 1e-3);
		assert_int_equal(file.n_comments, rows[i].mixed ? 2 : 1);
		profile_release(&file);
		buf_free(&out);
	}
	stackvec_unref(v);
	symbols_unref(s);
}

/* ---- chosen names ---- */

#define CHOSEN 10000
#define MOST_TIMES_ORDINARY 20

/* A sample of many frames of one name. chosen: each line makes up for the plain hash of its file, so that their sum is the same for all. */
static struct stackvec *many_frames(struct symbols *s, bool chosen)
{
	uint32_t *stack = xcalloc(CHOSEN, sizeof *stack);
	struct stackacc *a = stackacc_new(s);
	struct err e = { 0 };
	for (uint32_t i = 0; i < CHOSEN; i++) {
		char text[32];
		struct view file = view_make(text, (size_t)snprintf(text, sizeof text, "f%05u", i));
		struct sym_function f = { .name = symbols_string(s, VIEW("fn")), .filename = symbols_string(s, file) };
		struct sym_line line = { symbols_function(s, &f) + 1, (int64_t)((chosen ? 12345 : i) - hash_stable_view(file)), 0 };
		struct sym_location l = { .address = i, .n_lines = 1 };
		stack[i] = symbols_location(s, &l, &line);
	}
	stackacc_add(a, symbols_column(s, symbols_stack(s, stack, CHOSEN), 0), 100);
	struct stackvec *v = stackacc_finish(a, &e);
	stackacc_free(a);
	free(stack);
	return v;
}

/* Counts the questions that are asked between two frames of a stack. */
struct asked {
	const struct buf *out;
	size_t in_stack, end_at; /* end_at: the question that ends the work; 0: none */
};

static int asked_go_on(void *arg, struct err *e)
{
	struct asked *x = arg;
	char last = x->out->len ? x->out->ptr[x->out->len - 1] : 0;
	x->in_stack += last >= '0' && last <= '9' && memmem(x->out->ptr, x->out->len, "\"stack\":[", 9);
	return x->end_at && x->in_stack >= x->end_at ? err_set(e, ERR_TIMEOUT, "its time is over") : 0;
}

static int64_t time_json(bool chosen)
{
	struct symbols *s = symbols_new();
	struct stackvec *v = many_frames(s, chosen);
	struct promql_profile p = { .type = &type, .vec = v, .weight = 1 };
	struct point point = { 0, 1 };
	struct promql_series series = { .points = &point, .n = 1, .profiles = &p };
	struct promql_result r = { .type = PROMQL_VECTOR, .series = &series, .n_series = 1 };
	int64_t least = INT64_MAX;
	for (size_t round = 0; round < 3; round++) {
		struct buf out = { 0 };
		struct asked asked = { .out = &out, .end_at = round == 2 ? 2 : 0 };
		struct permit permit = { .go_on = asked_go_on, .arg = &asked };
		struct err e = { 0 };
		int64_t from = clock_mono_ns();
		int rc = profiles_json(&r, &permit, &out, &e);
		if (round < 2)
			least = MIN(least, clock_mono_ns() - from);
		assert_int_equal(rc, round < 2 ? 0 : -ERR_TIMEOUT);
		assert_int_equal(asked.in_stack, CHOSEN / PERMIT_STEPS);
		buf_free(&out);
	}
	stackvec_unref(v);
	symbols_unref(s);
	return least;
}

/* A target chooses its lines, and knows the hash; within a long stack it is asked whether the answer is still wanted. */
static void test_chosen_lines(void **state)
{
	(void)state;
	int64_t ordinary = time_json(false), chosen = time_json(true);
	print_message("ordinary %.3f ms, chosen %.3f ms\n", (double)ordinary / 1e6, (double)chosen / 1e6);
	assert_true(chosen < MOST_TIMES_ORDINARY * ordinary);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_text_in_memory), cmocka_unit_test(test_bad_names), cmocka_unit_test(test_weights), cmocka_unit_test(test_chosen_lines) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
