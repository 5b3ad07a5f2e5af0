/* SPDX-License-Identifier: Apache-2.0 */
/* Flame graphs of stacks made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/lock.h"
#include "base/num.h"
#include "base/thread.h"
#include "model/flame.h"

/* A location per call: "main" one line; "main>inlined" two, the inlined one innermost; "0x10" none. */
static uint32_t location(struct symbols *s, const char *text, int64_t line)
{
	struct sym_mapping m = { .size = 0x1000, .offset = 0x400, .file = symbols_string(s, VIEW("/usr/bin/demo")) };
	struct sym_location l = { .mapping = symbols_mapping(s, &m) + 1 };
	struct sym_line lines[4];
	if (text[0] == '0') {
		l.address = strtoull(text, NULL, 16);
		return symbols_location(s, &l, NULL);
	}
	const char *names[4];
	size_t n = 0;
	char tmp[64];
	snprintf(tmp, sizeof tmp, "%s", text);
	for (char *save, *t = strtok_r(tmp, ">", &save); t; t = strtok_r(NULL, ">", &save))
		names[n++] = t;
	for (size_t i = 0; i < n; i++) { /* lines[0] is the innermost: the last one named */
		struct sym_function f = { .name = symbols_string(s, view_of(names[n - 1 - i])),
					  .filename = symbols_string(s, VIEW("demo.c")), .start_line = 1 };
		lines[i] = (struct sym_line){ symbols_function(s, &f) + 1, line, 0 };
	}
	l.address = (uint64_t)line;
	l.n_lines = (uint32_t)n;
	return symbols_location(s, &l, lines);
}

/* "main;work@7" is a stack, root first, with a line number. */
static uint32_t column(struct symbols *s, const char *stack)
{
	uint32_t locations[16];
	size_t n = 0;
	char tmp[128];
	snprintf(tmp, sizeof tmp, "%s", stack);
	for (char *save, *t = strtok_r(tmp, ";", &save); t; t = strtok_r(NULL, ";", &save)) {
		char *at = strchr(t, '@');
		int64_t line = 1;
		if (at)
			assert_true(num_parse_i64(view_of(at + 1), &line));
		if (at)
			*at = 0;
		locations[n++] = location(s, t, line);
	}
	for (size_t i = 0; i < n / 2; i++) {
		uint32_t x = locations[i];
		locations[i] = locations[n - 1 - i];
		locations[n - 1 - i] = x;
	}
	return symbols_column(s, symbols_stack(s, locations, n), 0);
}

struct sample {
	const char *stack;
	int64_t value;
};

static struct stackvec *vector(struct symbols *s, const struct sample *samples, size_t n)
{
	struct stackacc *a = stackacc_new(s);
	struct err e = { 0 };
	for (size_t i = 0; i < n; i++)
		stackacc_add(a, column(s, samples[i].stack), samples[i].value);
	struct stackvec *v = stackacc_finish(a, &e);
	assert_non_null(v);
	stackacc_free(a);
	return v;
}

/* One line per node, indented by its depth: name total self. */
static char *picture(const struct flame *f)
{
	struct buf b = { 0 };
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct flame_node row = flame_node(f, i), *n = &row;
		const struct flame_frame *frame = &f->frames[n->frame];
		if (f->is_float)
			buf_printf(&b, "%*s%.*s %g %g", (int)n->depth, "", VIEW_ARG(frame->name), n->total.d, n->self.d);
		else
			buf_printf(&b, "%*s%.*s %lld %lld", (int)n->depth, "", VIEW_ARG(frame->name), (long long)n->total.i,
				   (long long)n->self.i);
		if (f->has_base)
			buf_printf(&b, " | %lld %lld", (long long)n->base_total.i, (long long)n->base_self.i);
		buf_putc(&b, '\n');
	}
	return buf_take(&b, NULL);
}

static void check(struct stackvec *v, struct stackvec *base, double min_share, const char *want)
{
	struct flame f;
	struct err e = { 0 };
	assert_int_equal(flame_fold(&f, v, base, &(struct flame_ask){ .min_share = min_share }, &e), 0);
	char *got = picture(&f);
	assert_string_equal(got, want);
	free(got);
	flame_release(&f);
}

static void test_fold(void **state)
{
	struct symbols *s = symbols_new();
	const struct sample samples[] = {
		{ "main;work@3;sort", 5 }, { "main;work@4", 2 }, { "main;idle", 1 }, { "main;work@9;sort", 10 },
		{ "main;rec;rec;rec", 4 }, { "main;outer>inner", 3 }, { "0x10;0x20", 6 }, { "main;zero", 0 },
	};
	struct stackvec *v = vector(s, samples, ARRAY_LEN(samples));
	check(v, NULL, 0,
	      "total 31 0\n"
	      " demo+0x410 6 0\n"
	      "  demo+0x420 6 6\n"
	      " main 25 0\n"
	      "  idle 1 1\n"
	      "  outer 3 0\n"
	      "   inner 3 3\n"
	      "  rec 4 0\n"
	      "   rec 4 0\n"
	      "    rec 4 4\n"
	      "  work 17 2\n"
	      "   sort 15 15\n");
	check(v, NULL, 0.15,
	      "total 31 0\n"
	      " demo+0x410 6 0\n"
	      "  demo+0x420 6 6\n"
	      " main 25 0\n"
	      "  (other) 8 8\n"
	      "  work 17 2\n"
	      "   sort 15 15\n");
	stackvec_unref(v);
	symbols_unref(s);
	(void)state;
}

/* Trimming: a small tree stays whole. The way to the largest call of a function is kept. One node per parent stands for what was cut,
 * and says how many nodes that were. */
static void test_trim(void **state)
{
	struct symbols *s = symbols_new();
	struct flame f;
	struct err e = { 0 };
	const struct sample samples[] = {
		{ "main;a;x", 1000 }, { "main;b;c;deep", 3 }, { "main;b;c;more", 1 }, { "main;b;d", 2 }, { "main;e", 1 }, { "main;g;deep", 2 },
	};
	struct stackvec *v = vector(s, samples, ARRAY_LEN(samples));
	assert_int_equal(flame_fold(&f, v, NULL, &(struct flame_ask){ .min_share = 0.1, .keep = 2 }, &e), 0);
	char *got = picture(&f);
	assert_string_equal(got, "total 1009 0\n"
				 " main 1009 0\n"
				 "  (other) 3 3\n"
				 "  a 1000 0\n"
				 "   x 1000 1000\n"
				 "  b 6 0\n"
				 "   (other) 2 2\n"
				 "   c 4 0\n"
				 "    (other) 1 1\n"
				 "    deep 3 3\n");
	free(got);
	assert_int_equal(f.nodes.cut[2], 3);
	assert_int_equal(f.nodes.cut[6], 1);
	assert_int_equal(f.nodes.cut[5], 0);
	assert_int_equal(f.hidden, 5);
	assert_int_equal(f.n_functions, 0);
	flame_release(&f);
	for (size_t whole = 11; whole <= 12; whole++) { /* "total" is one of 12 */
		assert_int_equal(flame_fold(&f, v, NULL, &(struct flame_ask){ .min_share = 0.1, .whole = whole }, &e), 0);
		assert_int_equal(f.hidden, whole < 12 ? 8 : 0);
		flame_release(&f);
	}
	struct view path[] = { VIEW("main"), VIEW("b") }; /* four nodes more below it */
	assert_int_equal(flame_fold(&f, v, NULL, &(struct flame_ask){ .min_share = 0.9, .root = path, .n_root = 2, .whole = 5 }, &e), 0);
	assert_int_equal(f.hidden, 0);
	flame_release(&f);
	stackvec_unref(v);
	symbols_unref(s);
	(void)state;
}

static void test_lines(void **state)
{
	struct symbols *s = symbols_new();
	const struct sample samples[] = { { "main;work@3;sort@8", 5 }, { "main;work@4;sort@8", 2 } };
	struct stackvec *v = vector(s, samples, ARRAY_LEN(samples));
	struct flame f;
	struct err e = { 0 };
	assert_int_equal(flame_fold(&f, v, NULL, NULL, &e), 0);
	assert_int_equal(f.n_nodes, 4);
	assert_int_equal(f.nodes.line[2], 0); /* work: two lines */
	assert_int_equal(f.nodes.line[3], 8);
	assert_true(view_eqs(f.frames[f.nodes.frame[3]].binary, "demo"));
	assert_true(view_eqs(f.frames[f.nodes.frame[3]].file, "demo.c"));
	flame_release(&f);
	stackvec_unref(v);
	symbols_unref(s);
	(void)state;
}

static void test_diff(void **state)
{
	struct symbols *s = symbols_new();
	const struct sample now[] = { { "main;new", 5 }, { "main;same", 2 } };
	const struct sample then[] = { { "main;old", 3 }, { "main;same", 2 } };
	struct stackvec *v = vector(s, now, ARRAY_LEN(now)), *base = vector(s, then, ARRAY_LEN(then));
	check(v, base, 0,
	      "total 7 0 | 5 0\n"
	      " main 7 0 | 5 0\n"
	      "  new 5 5 | 0 0\n"
	      "  old 0 0 | 3 3\n"
	      "  same 2 2 | 2 2\n");
	struct err e;
	struct stackvec *half = stackvec_sum(s, &v, (double[]){ 0.5 }, 1, &e);
	check(half, NULL, 0,
	      "total 3.5 0\n"
	      " main 3.5 0\n"
	      "  new 2.5 2.5\n"
	      "  same 1 1\n");
	stackvec_unref(half);
	stackvec_unref(v);
	stackvec_unref(base);
	symbols_unref(s);
	(void)state;
}

/* A dictionary that others fill too, one deep stack, empty profiles, and totals that do not fit. */
static void test_edges(void **state)
{
	struct symbols *s = symbols_new();
	struct stackvec *none = stackvec_empty(s);
	check(none, NULL, 0, "total 0 0\n");
	for (int i = 0; i < 5000; i++) {
		char other[32];
		snprintf(other, sizeof other, "f%d;g%d", i, i);
		column(s, other);
	}
	uint32_t deep[3000];
	for (size_t i = 0; i < ARRAY_LEN(deep); i++)
		deep[i] = location(s, "down", (int64_t)i);
	uint32_t c = symbols_column(s, symbols_stack(s, deep, ARRAY_LEN(deep)), 0);
	struct stackacc *a = stackacc_new(s);
	struct err e = { 0 };
	stackacc_add(a, c, 1);
	struct stackvec *v = stackacc_finish(a, &e);
	struct flame f;
	assert_int_equal(flame_fold(&f, v, NULL, NULL, &e), 0);
	assert_int_equal(f.n_nodes, ARRAY_LEN(deep) + 1);
	assert_int_equal(f.nodes.self[ARRAY_LEN(deep)].i, 1);
	flame_release(&f);
	const struct sample large[] = { { "a", INT64_MAX }, { "b", 1 } };
	struct stackvec *over = vector(s, large, 2);
	assert_int_equal(flame_fold(&f, over, NULL, NULL, &e), -ERR_EXECUTION);
	stackvec_unref(over);
	/* Infinities that cancel on the way to the root, and a difference that does not fit. */
	const struct sample two[] = { { "a;b", 1 }, { "a;c", -1 } };
	struct stackvec *ints = vector(s, two, 2), *endless = stackvec_sum(s, &ints, (double[]){ INFINITY }, 1, &e);
	assert_int_equal(flame_fold(&f, endless, NULL, NULL, &e), -ERR_EXECUTION);
	const struct sample up[] = { { "a", INT64_MAX } }, down[] = { { "a", -2 } };
	struct stackvec *most = vector(s, up, 1), *less = vector(s, down, 1);
	struct buf out = { 0 };
	assert_int_equal(flame_fold(&f, most, less, NULL, &e), 0);
	assert_int_equal(flame_folded(&f, NULL, &out, &e), -ERR_EXECUTION);
	buf_free(&out);
	flame_release(&f);
	stackvec_unref(most);
	stackvec_unref(less);
	stackvec_unref(ints);
	stackvec_unref(endless);
	stackvec_unref(v);
	stackvec_unref(none);
	stackacc_free(a);
	symbols_unref(s);
	(void)state;
}

/* The dictionary keeps its calls: what one graph met must not show in the next. */
static void test_again(void **state)
{
	struct symbols *s = symbols_new();
	const struct sample first[] = { { "main@3;f@1", 1 }, { "main@3;g>h@2", 1 } };
	const struct sample second[] = { { "main@9;f@7", 4 }, { "main@9;g>h@8", 5 }, { "x", 1 } };
	struct stackvec *a = vector(s, first, ARRAY_LEN(first)), *b = vector(s, second, ARRAY_LEN(second));
	struct flame f;
	struct err e = { 0 };
	for (int round = 0; round < 2; round++) {
		check(a, NULL, 0, "total 2 0\n main 2 0\n  f 1 1\n  g 1 0\n   h 1 1\n");
		check(b, NULL, 0, "total 10 0\n main 9 0\n  f 4 4\n  g 5 0\n   h 5 5\n x 1 1\n");
		assert_int_equal(flame_fold(&f, b, NULL, NULL, &e), 0);
		assert_int_equal(f.n_frames, 6);
		const int64_t lines[] = { 0, 9, 7, 8, 8, 1 };
		for (size_t i = 0; i < ARRAY_LEN(lines); i++)
			assert_int_equal(f.nodes.line[i], lines[i]);
		flame_release(&f);
	}
	stackvec_unref(a);
	stackvec_unref(b);
	symbols_unref(s);
	(void)state;
}

/* One thread adds stacks to a dictionary while others draw those that are there: what each draws is what it would be if
 * nobody else was at work. */
#define STEPS 24
#define PER_STEP 20

struct crowd {
	struct symbols *s;
	uint32_t columns[STEPS * PER_STEP]; /* ascending */
	char *want[STEPS];                  /* drawn of the first so many steps */
	atomic_int steps;                   /* that are there */
	atomic_int wrong, drawn;
};

/* Calls of names and lines that meet again in many stacks, with inlined ones and ones without a name. */
static void stack_of(char text[static 96], unsigned i)
{
	snprintf(text, 96, "main@%u;f%u@%u;%s%u@%u;0x%x", 1 + i % 3, i % 7, 1 + i % 11, i % 2 ? "g>h" : "k", i % 5, 1 + i % 13, 16 + i);
}

static char *drawn(struct symbols *s, const uint32_t *columns, size_t n)
{
	struct stackacc *a = stackacc_new(s);
	struct err e = { 0 };
	struct flame f;
	for (size_t i = 0; i < n; i++)
		stackacc_add(a, columns[i], (int64_t)i + 1);
	struct stackvec *v = stackacc_finish(a, &e);
	stackacc_free(a);
	if (!v || flame_fold(&f, v, NULL, NULL, &e))
		return NULL;
	char *text = picture(&f);
	flame_release(&f);
	stackvec_unref(v);
	return text;
}

static void add_steps(struct crowd *c)
{
	char text[96];
	for (unsigned i = 0; i < STEPS * PER_STEP; i++) {
		stack_of(text, i);
		c->columns[i] = column(c->s, text);
		if ((i + 1) % PER_STEP == 0)
			atomic_store_explicit(&c->steps, (int)((i + 1) / PER_STEP), memory_order_release);
	}
}

static void work(void *arg, size_t i, unsigned worker)
{
	struct crowd *c = arg;
	if (!i) {
		add_steps(c);
		return;
	}
	int n = atomic_load_explicit(&c->steps, memory_order_acquire);
	if (!n)
		return;
	char *text = drawn(c->s, c->columns, (size_t)n * PER_STEP);
	if (!text || strcmp(text, c->want[n - 1]) != 0)
		atomic_fetch_add(&c->wrong, 1);
	atomic_fetch_add(&c->drawn, 1);
	free(text);
}

static void test_many_threads(void **state)
{
	struct crowd c = { .s = symbols_new() };
	struct pool *pool = pool_new(3, "draw");
	add_steps(&c);
	for (size_t i = 0; i < STEPS; i++)
		assert_non_null(c.want[i] = drawn(c.s, c.columns, (i + 1) * PER_STEP));
	for (int round = 0; round < 5; round++) {
		symbols_unref(c.s);
		c.s = symbols_new();
		atomic_store(&c.steps, 0);
		pool_run(pool, 100, work, &c);
		work(&c, 1, 0); /* all of it is there now, however the threads ran */
		assert_int_equal(atomic_load(&c.wrong), 0);
	}
	assert_true(atomic_load(&c.drawn) >= 5);
	for (size_t i = 0; i < STEPS; i++)
		free(c.want[i]);
	pool_free(pool);
	symbols_unref(c.s);
	(void)state;
}

/* However many children a call has, in whatever order they came: by name. */
static void test_order(void **state)
{
	static const size_t counts[] = { 2, 3, 23, 24, 25, 26, 500 };
	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
		struct symbols *s = symbols_new();
		size_t n = counts[k];
		char(*stacks)[24] = xcalloc(n, sizeof *stacks);
		struct sample *samples = xcalloc(n, sizeof *samples);
		for (size_t i = 0; i < n; i++) { /* 211 has no divisor in common with any of the counts */
			snprintf(stacks[i], sizeof stacks[i], "main;f%03zu", i * 211 % n);
			samples[i] = (struct sample){ stacks[i], (int64_t)(i * 211 % n) + 1 };
		}
		struct stackvec *v = vector(s, samples, n);
		struct buf want = { 0 };
		buf_printf(&want, "total %zu 0\n main %zu 0\n", n * (n + 1) / 2, n * (n + 1) / 2);
		for (size_t i = 0; i < n; i++)
			buf_printf(&want, "  f%03zu %zu %zu\n", i, i + 1, i + 1);
		check(v, NULL, 0, want.ptr);
		buf_free(&want);
		stackvec_unref(v);
		symbols_unref(s);
		free(samples);
		free(stacks);
	}
}

/* Answers `left` questions of a fold, and refuses the next one. As in the server, a lock of requests is taken, so no lock of lower rank may be
 * held: builds with lock checks abort then. */
struct asked {
	int left;
	uint64_t bytes;
	struct mutex *requests;
};

static int answer_question(struct asked *a, struct err *e)
{
	mutex_lock(a->requests);
	mutex_unlock(a->requests);
	return a->left-- > 0 ? 0 : err_set(e, ERR_CANCELED, "no more");
}

static int asked_go_on(void *arg, struct err *e)
{
	return answer_question(arg, e);
}

static int asked_need(void *arg, uint64_t bytes, struct err *e)
{
	struct asked *a = arg;
	a->bytes += bytes;
	return answer_question(arg, e);
}

#define MANY_STACKS 6000

/* Folding ends at whichever question it is refused, and what was announced is no less than what the tree takes. */
static void test_permit(void **state)
{
	(void)state;
	static struct sample samples[MANY_STACKS]; /* so many that the fold asks once more when it has counted the calls */
	static char stacks[MANY_STACKS][16];
	struct mutex requests;
	struct asked a = { 0 };
	struct permit permit = { asked_go_on, asked_need, &a };
	struct flame f;
	struct err e = { 0 };
	int questions = 0, rc = -1;
	mutex_init(&requests, RANK_HTTPD_WORK, "requests");
	for (size_t i = 0; i < MANY_STACKS; i++) {
		snprintf(stacks[i], sizeof stacks[i], "main;f%zu", i);
		samples[i] = (struct sample){ stacks[i], 1 };
	}
	for (; rc && questions < 100; questions++) {
		struct symbols *s = symbols_new();
		struct stackvec *v = vector(s, samples, ARRAY_LEN(samples));
		a = (struct asked){ .left = questions, .requests = &requests };
		rc = flame_fold(&f, v, NULL, &(struct flame_ask){ .permit = &permit }, &e);
		if (rc)
			assert_int_equal(rc, -ERR_CANCELED);
		stackvec_unref(v);
		symbols_unref(s);
	}
	assert_int_equal(rc, 0);
	assert_true(questions > 4);
	assert_true(a.bytes >= f.n_nodes * (2 * sizeof(int64_t) + 2 * sizeof(union flame_value)));
	flame_release(&f);
	mutex_destroy(&requests);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_permit), cmocka_unit_test(test_fold), cmocka_unit_test(test_trim), cmocka_unit_test(test_lines), cmocka_unit_test(test_diff),
		cmocka_unit_test(test_edges), cmocka_unit_test(test_again), cmocka_unit_test(test_order),
		cmocka_unit_test(test_many_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
