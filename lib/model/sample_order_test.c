/* SPDX-License-Identifier: Apache-2.0 */
/* Samples that agree in functions and value: their order by texts, what it costs where a target chose them, and how soon it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "model/sample_order.h"

#define MOST_TIMES_ORDINARY 20

static uint64_t state;

static uint32_t draw(uint32_t n)
{
	return (uint32_t)(hash_u64(state++) % n);
}

static uint32_t text(struct symbols *s, const char *format, uint32_t number)
{
	char out[32];
	return symbols_string(s, view_make(out, (size_t)snprintf(out, sizeof out, format, number)));
}

/* All have the same function, so that all stacks of a length are one call. */
static uint32_t location(struct symbols *s, uint64_t address)
{
	struct sym_function f = { .name = symbols_string(s, VIEW("fn")) };
	struct sym_line line = { symbols_function(s, &f) + 1, 1, 0 };
	struct sym_location l = { .address = address, .n_lines = 1 };
	return symbols_location(s, &l, &line);
}

/* ---- the order itself ---- */

#define SAMPLES 2000
#define DEPTH 6
#define LABELS 5

/* As told, in the order of texts. */
struct told {
	uint32_t depth, n;
	uint32_t addresses[DEPTH]; /* from the root on */
	uint32_t labels[LABELS];   /* key * 16 + value */
};

static int told_cmp(const struct told *a, const struct told *b)
{
	for (uint32_t i = 0; i < a->depth && i < b->depth; i++)
		if (a->addresses[i] != b->addresses[i])
			return a->addresses[i] < b->addresses[i] ? -1 : 1;
	if (a->depth != b->depth)
		return a->depth < b->depth ? -1 : 1;
	for (uint32_t i = 0; i < a->n && i < b->n; i++)
		if (a->labels[i] != b->labels[i])
			return a->labels[i] < b->labels[i] ? -1 : 1;
	return (a->n > b->n) - (a->n < b->n);
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static uint32_t told_column(struct symbols *s, struct told *x)
{
	uint32_t stack[DEPTH];
	struct sym_label l[LABELS];
	*x = (struct told){ .depth = 1 + draw(DEPTH), .n = draw(LABELS + 1) };
	for (uint32_t i = 0; i < x->depth; i++) {
		x->addresses[i] = draw(2);
		stack[x->depth - 1 - i] = location(s, x->addresses[i]);
	}
	for (uint32_t i = 0; i < x->n; i++) {
		x->labels[i] = draw(3) * 16 + draw(3);
		l[i] = (struct sym_label){ .key = text(s, "key%u", x->labels[i] / 16), .str = text(s, "value%u", x->labels[i] % 16) };
	}
	qsort(x->labels, x->n, sizeof *x->labels, by_number);
	return symbols_column(s, symbols_stack(s, stack, x->depth), symbols_label_set(s, l, x->n));
}

static struct stackvec *vector_of(struct symbols *s, const uint32_t *columns, size_t n)
{
	struct stackacc *a = stackacc_new(s);
	struct err e = { 0 };
	for (size_t i = 0; i < n; i++)
		stackacc_add(a, columns[i], 1);
	struct stackvec *v = stackacc_finish(a, &e);
	stackacc_free(a);
	return v;
}

/* Stacks of a depth are ties; the texts were met in an order of their own. */
static void by_texts(void **unused)
{
	(void)unused;
	state = 1;
	for (uint32_t round = 0; round < 5; round++) {
		struct symbols *s = symbols_new();
		struct told *of = xcalloc(SAMPLES + 1, sizeof *of); /* by column */
		uint32_t columns[SAMPLES];
		struct sample_order o = { 0 };
		struct err e = { 0 };
		for (uint32_t i = 0; i < 4; i++) {
			text(s, "key%u", draw(3));
			text(s, "value%u", draw(3));
			location(s, draw(2));
		}
		for (size_t i = 0; i < SAMPLES; i++) {
			struct told x;
			columns[i] = told_column(s, &x);
			assert_true(columns[i] <= SAMPLES);
			of[columns[i]] = x;
		}
		struct stackvec *v = vector_of(s, columns, SAMPLES);
		assert_int_equal(sample_order_make(&o, v, SAMPLES_BY_VALUE, NULL, &e), 0);
		assert_int_equal(o.n, v->n);
		size_t ties = 0;
		for (size_t i = 1; i < o.n; i++) {
			const struct told *a = &of[v->columns[o.samples[i - 1]]], *b = &of[v->columns[o.samples[i]]];
			if (v->ints[o.samples[i - 1]] != v->ints[o.samples[i]] || a->depth != b->depth)
				continue;
			ties++;
			if (told_cmp(a, b) >= 0)
				fail_msg("round %u, sample %zu is not behind the one before", round, i);
		}
		assert_true(ties > 100);
		sample_order_release(&o);
		stackvec_unref(v);
		symbols_unref(s);
		free(of);
	}
}

/* ---- what it costs ---- */

struct asked {
	size_t n, end_at; /* end_at: the question that ends the work; 0: none */
};

static int asked_go_on(void *arg, struct err *e)
{
	struct asked *x = arg;
	return ++x->n == x->end_at ? err_set(e, ERR_TIMEOUT, "its time is over") : 0;
}

/* The time of ordering, the least of three. */
static int64_t time_order(struct symbols *s, const uint32_t *columns, size_t n, size_t *ret_asked)
{
	struct stackvec *v = vector_of(s, columns, n);
	int64_t least = INT64_MAX;
	for (size_t round = 0; round < 3; round++) {
		struct sample_order o = { 0 };
		struct asked asked = { 0 };
		struct permit permit = { .go_on = asked_go_on, .arg = &asked };
		struct err e = { 0 };
		int64_t from = clock_mono_ns();
		assert_int_equal(sample_order_make(&o, v, SAMPLES_BY_VALUE, &permit, &e), 0);
		if (round) /* the first one makes the call tree */
			least = MIN(least, clock_mono_ns() - from);
		*ret_asked = asked.n;
		assert_int_equal(o.n, n);
		sample_order_release(&o);
		asked = (struct asked){ .end_at = asked.n - 1 };
		assert_int_equal(sample_order_make(&o, v, SAMPLES_BY_VALUE, &permit, &e), -ERR_TIMEOUT);
		assert_int_equal(asked.n, asked.end_at);
		sample_order_release(&o);
	}
	stackvec_unref(v);
	return least;
}

#define TIES 5000

/* Leaves of one function at many addresses, called by a chain of `depth`. */
static int64_t time_leaves(uint32_t depth)
{
	struct symbols *s = symbols_new();
	uint32_t *stack = xcalloc(depth + 1, sizeof *stack), columns[TIES];
	size_t asked;
	for (uint32_t i = 1; i <= depth; i++)
		stack[i] = location(s, i);
	for (uint32_t i = 0; i < TIES; i++) {
		stack[0] = location(s, 1000000 + i * 2654435761u);
		columns[i] = symbols_column(s, symbols_stack(s, stack, depth + 1), 0);
	}
	int64_t ns = time_order(s, columns, TIES, &asked);
	print_message("%d ties below %u callers: %.3f ms, %zu questions\n", TIES, depth, (double)ns / 1e6, asked);
	assert_true(asked > TIES * 8 / PERMIT_STEPS);
	symbols_unref(s);
	free(stack);
	return ns;
}

static void deep_stacks(void **unused)
{
	(void)unused;
	int64_t ordinary = time_leaves(1);
	assert_true(time_leaves(3000) < MOST_TIMES_ORDINARY * ordinary);
}

#define SETS 1000
#define KEYS 250

/* Sets that differ in one value. backwards: their keys were met from the last one on, so that no set has its labels sorted. */
static int64_t time_labels(bool backwards)
{
	struct symbols *s = symbols_new();
	struct sym_label l[KEYS];
	uint32_t columns[SETS], leaf = location(s, 1), stack = symbols_stack(s, &leaf, 1), value = text(s, "v%u", 0);
	size_t asked;
	for (uint32_t i = 0; i < KEYS; i++)
		l[i] = (struct sym_label){ .key = text(s, "key%03u", backwards ? KEYS - 1 - i : i), .str = value };
	for (uint32_t i = 0; i < SETS; i++) {
		l[backwards ? 0 : KEYS - 1].str = text(s, "x%u", i);
		columns[i] = symbols_column(s, stack, symbols_label_set(s, l, KEYS));
	}
	int64_t ns = time_order(s, columns, SETS, &asked);
	print_message("%d sets of %d keys%s: %.3f ms, %zu questions\n", SETS, KEYS, backwards ? " met backwards" : "", (double)ns / 1e6, asked);
	assert_true(asked > SETS * 8 * KEYS / PERMIT_STEPS);
	symbols_unref(s);
	return ns;
}

static void unsorted_labels(void **unused)
{
	(void)unused;
	int64_t ordinary = time_labels(false);
	assert_true(time_labels(true) < MOST_TIMES_ORDINARY * ordinary);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(by_texts), cmocka_unit_test(deep_stacks), cmocka_unit_test(unsorted_labels) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
