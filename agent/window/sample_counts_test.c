/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of stacks, and samples summed up by it: what a window says of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/window/sample_counts.h"

static void test_stack_tree(void **state)
{
	struct stack_tree t;
	struct stack_sweep s;

	stack_tree_init(&t);
	uint32_t main_ = stack_tree_add(&t, 0, 0x1000), gone = stack_tree_add(&t, main_, 0x2000);
	uint32_t kept = stack_tree_add(&t, main_, 0x3000), leaf = stack_tree_add(&t, kept, 0x4000);
	assert_int_equal(stack_tree_add(&t, main_, 0x2000), gone);
	assert_int_equal(t.nodes.v[leaf].depth, 3);
	stack_sweep_begin(&s, &t);
	stack_sweep_mark(&s, &t, leaf);
	stack_sweep_run(&s, &t);
	leaf = s.new_id[leaf];
	assert_int_equal(t.nodes.n, 4);
	assert_int_equal(t.nodes.v[leaf].frame, 0x4000);
	assert_int_equal(t.nodes.v[t.nodes.v[leaf].parent].frame, 0x3000);
	/* The index knows what is left, and only that. */
	assert_int_equal(stack_tree_add(&t, t.nodes.v[leaf].parent, 0x4000), leaf);
	assert_int_equal(stack_tree_add(&t, s.new_id[main_], 0x2000), 4);
	stack_sweep_release(&s);
	stack_tree_release(&t);
}

static void test_sample_counts(void **state)
{
	static const char one[16] = "one", two[16] = "two";
	struct process_info who = { .pid = 7 };
	struct stack_tree tree;
	struct frame_table frames;
	struct unwind_tables *tables;
	struct err e;

	atomic_store(&who.refs, 1000);
	stack_tree_init(&tree);
	frame_table_init(&frames);
	assert_int_equal(unwind_tables_new(&tables, NULL, &e), 0);
	uint32_t user = stack_tree_add(&tree, 0, 0x5000), kernel = stack_tree_add(&tree, user, 0xffffffff81000000);
	uint32_t cut = stack_tree_add(&tree, stack_tree_add(&tree, 0, FRAME_OF_MARK(END_DEPTH)), 0x6000);
	struct sample_counts *t[2] = { sample_counts_new(0, 10, 1000), sample_counts_new(10, 30, 1000) };
	sample_counts_add(t[0], WINDOW_ON_CPU, WAIT_UNKNOWN, &who, one, kernel, 3, 1);
	sample_counts_add(t[0], WINDOW_ON_CPU, WAIT_UNKNOWN, &who, one, kernel, 4, 5);
	sample_counts_add(t[0], WINDOW_OFF_CPU, WAIT_BLOCKED, &who, one, kernel, 1000, 1);
	sample_counts_add(t[0], WINDOW_OFF_CPU, WAIT_RUNNABLE, &who, one, kernel, 30, 0);
	sample_counts_add(t[1], WINDOW_OFF_CPU, WAIT_RUNNABLE, &who, one, kernel, 5, 2);
	sample_counts_add(t[0], WINDOW_ON_CPU, WAIT_UNKNOWN, &who, two, kernel, 5, 1);
	sample_counts_add(t[1], WINDOW_ON_CPU, WAIT_UNKNOWN, &who, one, kernel, 10, 1);
	sample_counts_add(t[1], WINDOW_ON_CPU, WAIT_UNKNOWN, NULL, one, cut, 1, 1);
	struct profile_window *w = sample_counts_export(t, 2, WINDOW_ON_CPU, &tree, &frames, tables);
	assert_int_equal(w->duration_ns, 30);
	assert_int_equal(w->start_unix_ns, 1000);
	assert_int_equal(w->samples.n, 3);
	assert_int_equal(w->samples.v[0].value_ns, 17);
	assert_int_equal(w->samples.v[0].count, 7);
	assert_int_equal(w->samples.v[0].n_frames, 2);
	assert_int_equal(w->frames.v[w->stacks.v[w->samples.v[0].stack]].kind, FRAME_KERNEL); /* the leaf */
	assert_int_equal(w->samples.v[2].process, 0);
	assert_string_equal(w->frames.v[w->stacks.v[w->samples.v[2].stack + 1]].mark, "[truncated: too deep]");
	profile_window_free(w);
	w = sample_counts_export(t, 2, WINDOW_OFF_CPU, &tree, &frames, tables); /* what is blocked and what waits for a CPU stay apart */
	assert_int_equal(w->samples.n, 2);
	assert_true(w->samples.v[0].state == WAIT_BLOCKED && w->samples.v[0].value_ns == 1000 && w->samples.v[0].count == 1);
	assert_true(w->samples.v[1].state == WAIT_RUNNABLE && w->samples.v[1].value_ns == 35 && w->samples.v[1].count == 2);
	profile_window_free(w);
	sample_counts_free(t[0]);
	sample_counts_free(t[1]);
	assert_int_equal(atomic_load(&who.refs), 1000);
	stack_tree_release(&tree);
	frame_table_release(&frames);
	unwind_tables_free(tables);
}

/* Whoever reads a profile learns how a stack ends: no two ends have the same text. */
static void test_marks(void **state)
{
	struct stack_marks m = { 0 };

	for (int i = END_BOTTOM + 1; i < END_CODES_; i++)
		for (int k = i; k < END_CODES_; k++) {
			const char *text = stack_marks_text(&m, FRAME_OF_MARK(k));
			if (i == k)
				assert_string_not_equal(text, "[truncated]");
			else
				assert_string_not_equal(text, stack_marks_text(&m, FRAME_OF_MARK(i)));
		}
	assert_string_equal(stack_marks_text(&m, FRAME_OF_MARK(END_NO_TABLE)), "[truncated: no unwind table]");
	assert_string_equal(stack_marks_text(&m, FRAME_OF_MARK(END_TABLES_FULL)), "[truncated: unwind tables are full]");
	assert_string_equal(stack_marks_text(&m, FRAME_OF_MARK(END_NOT_BUILT)), "[truncated: unwind table not built yet]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stack_tree),
		cmocka_unit_test(test_sample_counts),
		cmocka_unit_test(test_marks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
