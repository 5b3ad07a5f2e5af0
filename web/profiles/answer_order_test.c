/* SPDX-License-Identifier: Apache-2.0 */
/* The same profiles in dictionaries that met everything in another order, so that all ids differ: answers of every format are the same bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/utf8.h"
#include "web/profiles/flame_columns.h"
#include "web/profiles/merged.h"

#define SAMPLES 400
#define MOST_DEPTH 6
#define MOST_LABELS 4

static const struct ptype type = { VIEW("process_cpu"), VIEW("cpu"), VIEW("nanoseconds"), VIEW("cpu"), VIEW("nanoseconds"), true, PROFILE_DELTA };

static uint64_t state;

static uint32_t draw(uint32_t n)
{
	state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash_u64(state) % n);
}

/* ---- profiles as they are told, whatever a dictionary makes of them ---- */

struct told_frame {
	uint32_t function, file, line, binary, address, inlined; /* inlined: a function + 1 that is inlined there; 0: none */
	bool nameless;
};

struct told_label {
	uint32_t key, value;
	bool is_num;
};

struct told_sample {
	struct told_frame frames[MOST_DEPTH]; /* leaf first */
	struct told_label labels[MOST_LABELS];
	uint32_t depth, n_labels;
	int64_t value, base;
};

static struct told_sample samples[SAMPLES];

static void tell_samples(void)
{
	state = 1;
	for (size_t i = 0; i < SAMPLES; i++) {
		struct told_sample *s = &samples[i];
		*s = (struct told_sample){ .depth = draw(MOST_DEPTH + 1), .n_labels = draw(3) ? 0 : draw(MOST_LABELS + 1) };
		for (uint32_t k = 0; k < s->depth; k++)
			s->frames[k] = (struct told_frame){ draw(8), draw(3), draw(3), draw(3), draw(2), draw(5) ? 0 : 1 + draw(8), draw(9) == 0 };
		for (uint32_t k = 0; k < s->n_labels; k++)
			s->labels[k] = (struct told_label){ draw(3), draw(3), draw(4) == 0 };
		s->value = draw(4) ? 1 + draw(2) : draw(1000); /* most are equal to others */
		s->base = draw(3) ? 0 : 1 + draw(3);
	}
}

static uint32_t text(struct symbols *s, const char *format, uint32_t number)
{
	char out[64];
	return symbols_string(s, view_make(out, (size_t)snprintf(out, sizeof out, format, number)));
}

static uint32_t function_of(struct symbols *s, uint32_t function, uint32_t file)
{
	struct sym_function f = { .name = text(s, "f%u", function), .filename = text(s, "file%u.c", file), .start_line = file * 10 };
	return symbols_function(s, &f);
}

static uint32_t location_of(struct symbols *s, const struct told_frame *f)
{
	struct sym_mapping m = { .start = 0x400000, .size = 4096 * (1 + f->binary), .file = text(s, "/bin/b%u", f->binary), .has = SYM_HAS_FUNCTIONS };
	struct sym_location l = { .address = 16 * f->function + f->address, .mapping = symbols_mapping(s, &m) + 1 };
	struct sym_line lines[2];
	if (f->binary)
		symbols_mark_main(s, &m);
	if (!f->nameless && f->inlined)
		lines[l.n_lines++] = (struct sym_line){ function_of(s, f->inlined - 1, f->file) + 1, f->line, 0 };
	if (!f->nameless)
		lines[l.n_lines++] = (struct sym_line){ function_of(s, f->function, f->file) + 1, f->line, 0 };
	return symbols_location(s, &l, lines);
}

static uint32_t column_of(struct symbols *s, const struct told_sample *x)
{
	uint32_t stack[MOST_DEPTH];
	struct sym_label labels[MOST_LABELS];
	for (uint32_t i = 0; i < x->depth; i++)
		stack[i] = location_of(s, &x->frames[i]);
	for (uint32_t i = 0; i < x->n_labels; i++) {
		const struct told_label *l = &x->labels[i];
		labels[i] = (struct sym_label){ .key = text(s, "key%u", l->key), .is_num = l->is_num };
		labels[i].str = l->is_num ? 0 : text(s, "value%u", l->value);
		labels[i].num = l->is_num ? l->value : 0;
		labels[i].unit = l->is_num ? text(s, "unit%u", l->value) : 0;
	}
	return symbols_column(s, symbols_stack(s, stack, x->depth), symbols_label_set(s, labels, x->n_labels));
}

/* A dictionary that met all samples, each way in another order; way 0 also has what no profile needs. */
static struct symbols *make_dictionary(unsigned way)
{
	struct symbols *s = symbols_new();
	struct told_sample other = { .depth = 1, .frames = { { .function = 3, .file = 3 } } };
	if (!way)
		column_of(s, &other);
	for (size_t i = 0; i < SAMPLES; i++)
		column_of(s, &samples[(i * (way ? 171 : 1) + way * 57) % SAMPLES]);
	return s;
}

/* floats: the values are doubles whose sum depends on the order of adding. */
static struct stackvec *make_vector(struct symbols *s, size_t from, size_t to, bool base, bool floats)
{
	struct stackacc *a = stackacc_new(s);
	struct err e = { 0 };
	for (size_t i = from; i < to; i++)
		stackacc_add(a, column_of(s, &samples[i]), base ? samples[i].base : samples[i].value);
	struct stackvec *v = stackacc_finish(a, &e);
	stackacc_free(a);
	if (!floats)
		return v;
	double *scaled = xcalloc(v->n + 1, sizeof *scaled);
	uint32_t *columns = xcalloc(v->n + 1, sizeof *columns);
	for (size_t i = 0; i < v->n; i++) {
		scaled[i] = (double)v->ints[i] / 7;
		columns[i] = v->columns[i];
	}
	struct stackvec *scaled_v = stackvec_new_floats(s, columns, scaled, v->n);
	stackvec_unref(v);
	return scaled_v;
}

/* ---- answers ---- */

enum kind { INTEGERS, FLOATS, DIFF, KINDS };

#define ELEMENTS 3

/* An answer of several elements, over one dictionary or over one each. */
struct order_bench {
	struct promql_result r;
	struct promql_series series[ELEMENTS];
	struct promql_profile profiles[ELEMENTS];
	struct label labels[ELEMENTS][1];
	struct point point;
	struct merged_profile m;
};

static void bench_make(struct order_bench *a, unsigned way, enum kind kind, bool one_dictionary)
{
	static const char *const names[ELEMENTS] = { "a", "f1", "value1" }; /* "a" and "f1" are texts of the dictionary, too */
	struct err e = { 0 };
	struct symbols *s = one_dictionary ? make_dictionary(way) : NULL;
	*a = (struct order_bench){ .r = { .type = PROMQL_VECTOR, .series = a->series, .n_series = ELEMENTS } };
	for (size_t i = 0; i < ELEMENTS; i++) {
		struct symbols *own = s ? symbols_ref(s) : make_dictionary(way + (unsigned)i);
		size_t from = i * 100, to = from + 200;
		a->profiles[i] = (struct promql_profile){ .type = &type, .vec = make_vector(own, from, to, false, kind == FLOATS) };
		if (kind == DIFF)
			a->profiles[i].base = make_vector(own, from, to, true, false);
		a->labels[i][0] = (struct label){ VIEW("pod"), view_of(names[i]) };
		a->series[i] = (struct promql_series){ .labels = { a->labels[i], 1 }, .points = &a->point, .n = 1, .profiles = &a->profiles[i] };
		symbols_unref(own);
	}
	symbols_unref(s);
	assert_int_equal(merged_make(&a->m, &a->r, NULL, &e), 0);
}

static void bench_release(struct order_bench *a)
{
	merged_release(&a->m);
	for (size_t i = 0; i < ELEMENTS; i++) {
		stackvec_unref(a->profiles[i].vec);
		stackvec_unref(a->profiles[i].base);
	}
}

static const struct view query = VIEW("merge by (pod) (cpu[1m])");

static int put_pprof(const struct order_bench *a, struct buf *out, struct err *e)
{
	return pprof_write(&a->r, query, NULL, out, e);
}

static int put_json(const struct order_bench *a, struct buf *out, struct err *e)
{
	return profiles_json(&a->r, NULL, out, e);
}

static int put_folded(const struct order_bench *a, struct buf *out, struct err *e)
{
	return folded_text(&a->m, NULL, out, e);
}

static int put_speedscope(const struct order_bench *a, struct buf *out, struct err *e)
{
	return speedscope_json(&a->m, query, NULL, out, e);
}

static int put_svg(const struct order_bench *a, struct buf *out, struct err *e)
{
	return flame_svg(&a->m, query, NULL, out, e);
}

static int put_dot(const struct order_bench *a, struct buf *out, struct err *e)
{
	return call_graph_dot(&a->m, query, NULL, out, e);
}

static int put_flame(const struct order_bench *a, struct buf *out, struct err *e)
{
	return flamegraph_json(&a->m, &(struct flame_ask){ 0 }, NULL, out, e);
}

/* As the page asks: small nodes are left out, and some functions of many are rows. */
static const struct flame_ask trimmed = { .min_share = 0.01, .keep = 5, .functions = 6 };

static int put_trimmed(const struct order_bench *a, struct buf *out, struct err *e)
{
	return flamegraph_json(&a->m, &trimmed, NULL, out, e);
}

static struct frame_lists *lists;

static int put_columns(const struct order_bench *a, struct buf *out, struct err *e)
{
	struct buf columns = { 0 };
	int rc = flamegraph_columns(lists, 0, &a->m, &trimmed, NULL, out, &columns, e);
	buf_putv(out, buf_view(&columns));
	buf_free(&columns);
	return rc;
}

static const struct {
	const char *name;
	int (*put)(const struct order_bench *a, struct buf *out, struct err *e);
} formats[] = {
	{ "pprof", put_pprof }, { "json", put_json }, { "folded", put_folded }, { "speedscope", put_speedscope }, { "svg", put_svg },
	{ "dot", put_dot }, { "flamegraph", put_flame }, { "flamegraph, trimmed", put_trimmed }, { "columns", put_columns },
};

static void assert_same(const char *format, const struct buf *a, const struct buf *b)
{
	size_t at = 0;
	while (at < a->len && at < b->len && a->ptr[at] == b->ptr[at])
		at++;
	if (at < a->len || at < b->len) {
		size_t from = at > 80 ? at - 80 : 0;
		fail_msg("%s: %zu and %zu bytes, at %zu:\n%.160s\n%.160s", format, a->len, b->len, at, a->ptr + from, b->ptr + from);
	}
}

static void compare_answers(struct order_bench *a, struct order_bench *b)
{
	for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
		struct buf x = { 0 }, y = { 0 };
		struct err e = { 0 };
		if (formats[i].put(a, &x, &e) || formats[i].put(b, &y, &e))
			fail_msg("%s: %s", formats[i].name, e.msg);
		assert_true(x.len > 500);
		assert_same(formats[i].name, &x, &y);
		buf_free(&x);
		buf_free(&y);
	}
}

/* Ways of making the same answer: another order of ids; also a dictionary for each element. */
static void test_same_bytes(void **state_)
{
	static const struct {
		unsigned way;
		bool one_dictionary;
	} others[] = { { 1, true }, { 2, true }, { 0, false }, { 3, false } };
	(void)state_;
	tell_samples();
	lists = frame_lists_new(100000);
	for (unsigned kind = INTEGERS; kind < KINDS; kind++)
		for (size_t i = 0; i < ARRAY_LEN(others); i++) {
			struct order_bench a, b;
			print_message("kind %u, way %u%s\n", kind, others[i].way, others[i].one_dictionary ? "" : ", dictionaries");
			bench_make(&a, 0, kind, true);
			bench_make(&b, others[i].way, kind, others[i].one_dictionary);
			compare_answers(&a, &b);
			bench_release(&a);
			bench_release(&b);
		}
	frame_lists_free(lists);
}

/* ---- names in other alphabets ---- */

static void put_named(const char *name, size_t n, struct buf *out)
{
	struct symbols *s = symbols_new();
	struct err e = { 0 };
	struct sym_function f = { .name = symbols_string(s, view_make(name, n)) };
	struct sym_line line = { symbols_function(s, &f) + 1, 1, 0 };
	struct sym_location l = { .address = 1, .n_lines = 1 };
	struct stackacc *a = stackacc_new(s);
	uint32_t leaf = symbols_location(s, &l, &line), wide[] = { leaf, leaf };
	l.address = 2;
	line.function = 0;
	uint32_t other = symbols_location(s, &l, &line);
	stackacc_add(a, symbols_column(s, symbols_stack(s, wide, 2), 0), 100);
	stackacc_add(a, symbols_column(s, symbols_stack(s, &other, 1), 0), 1100); /* boxes of the name have room for 14 letters */
	struct stackvec *v = stackacc_finish(a, &e);
	struct merged_profile m = { .type = &type, .vec = v };
	assert_int_equal(flame_svg(&m, VIEW("q"), NULL, out, &e), 0);
	assert_true(utf8_valid(buf_view(out)));
	stackacc_free(a);
	stackvec_unref(v);
	symbols_unref(s);
}

static void expect_named(const char *name, size_t n, const char *title, const char *shown)
{
	struct buf out = { 0 }, want = { 0 };
	put_named(name, n, &out);
	buf_printf(&want, "<title>%s, ", title);
	if (!strstr(out.ptr, want.ptr))
		fail_msg("no \"%s\" in\n%s", want.ptr, out.ptr);
	buf_reset(&want);
	buf_printf(&want, ">%s</text>", shown);
	if (!strstr(out.ptr, want.ptr))
		fail_msg("no \"%s\" in\n%s", want.ptr, out.ptr);
	buf_free(&out);
	buf_free(&want);
}

#define NAMED(name, title, shown) expect_named(name, sizeof(name) - 1, title, shown)
#define U_FFFD "\xef\xbf\xbd"

static void test_svg_names(void **state_)
{
	(void)state_;
	NAMED("größe", "größe", "größe");
	NAMED("a<b>&\"c", "a&#60;b&#62;&#38;&#34;c", "a&#60;b&#62;&#38;&#34;c");
	NAMED("обработатьЗапросПользователя", "обработатьЗапросПользователя", "обработатьЗа..");
	NAMED("abcdefghijklmnop", "abcdefghijklmnop", "abcdefghijkl..");
	NAMED("名前を計算する関数", "名前を計算する関数", "名前を計算す.."); /* each as wide as two */
	NAMED("名前を計算する", "名前を計算する", "名前を計算する");
	NAMED("a\xff\xc3z\xe2\x82", "a" U_FFFD U_FFFD "z" U_FFFD U_FFFD, "a" U_FFFD U_FFFD "z" U_FFFD U_FFFD);
	NAMED("a\x01\n\xef\xbf\xbfz", "a" U_FFFD " " U_FFFD "z", "a" U_FFFD " " U_FFFD "z");
	NAMED("e\xcc\x81" "bcdefghijklmn", "e\xcc\x81" "bcdefghijklmn", "e\xcc\x81" "bcdefghijklmn"); /* an accent of its own takes no room */
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_svg_names) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
