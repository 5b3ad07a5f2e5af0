# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libpromql_a_SOURCES = \
  promql-like/active_queries.c \
  promql-like/active_queries.h \
  promql-like/engine.c \
  promql-like/eval/eval.c \
  promql-like/eval/eval.h \
  promql-like/eval/eval_aggr.c \
  promql-like/eval/eval_binary.c \
  promql-like/eval/eval_call.c \
  promql-like/eval/eval_merge.c \
  promql-like/eval/eval_selector.c \
  promql-like/eval/eval_totals.c \
  promql-like/eval/fetch.c \
  promql-like/eval/fetch.h \
  promql-like/eval/filters.c \
  promql-like/eval/funcs.h \
  promql-like/eval/funcs_diff.c \
  promql-like/eval/funcs_histogram.c \
  promql-like/eval/funcs_info.c \
  promql-like/eval/funcs_label.c \
  promql-like/eval/funcs_math.c \
  promql-like/eval/funcs_profile.c \
  promql-like/eval/funcs_range.c \
  promql-like/eval/funcs_time.c \
  promql-like/eval/functions.c \
  promql-like/eval/pwindow.c \
  promql-like/eval/pwindow.h \
  promql-like/eval/rate_totals.c \
  promql-like/eval/readout_calls.c \
  promql-like/eval/readout_calls.h \
  promql-like/eval/readout_merged.c \
  promql-like/eval/readout_rated.c \
  promql-like/eval/readout_wanted.c \
  promql-like/graphkit.h \
  promql-like/hold.c \
  promql-like/hold.h \
  promql-like/memsource.c \
  promql-like/memsource.h \
  promql-like/promql.h \
  promql-like/recorded.c \
  promql-like/result.c \
  promql-like/result.h \
  promql-like/stacks/frames.c \
  promql-like/stacks/frames.h \
  promql-like/stacks/graph.c \
  promql-like/stacks/graph_rows.c \
  promql-like/stacks/graph_rows.h \
  promql-like/stacks/graph_terms.c \
  promql-like/stacks/graph_terms.h \
  promql-like/stacks/reading.c \
  promql-like/stacks/readout.h \
  promql-like/stacks/readout_choice.c \
  promql-like/stacks/readout_kept.c \
  promql-like/stacks/readout_out.c \
  promql-like/stacks/readout_rows.c \
  promql-like/stacks/readout_sums.c \
  promql-like/stacks/rewrite.c \
  promql-like/stacks/rewrite.h \
  promql-like/stacks/shared.c \
  promql-like/stacks/shared.h \
  promql-like/stacks/stack_filter.c \
  promql-like/stacks/stack_filter.h \
  promql-like/stacks/tagroot.c \
  promql-like/stacks/tagroot.h \
  promql-like/syntax/ast.c \
  promql-like/syntax/ast.h \
  promql-like/syntax/check.c \
  promql-like/syntax/engine_names.c \
  promql-like/syntax/engine_names.h \
  promql-like/syntax/examples.c \
  promql-like/syntax/func.h \
  promql-like/syntax/func_rows.h \
  promql-like/syntax/parse.c \
  promql-like/syntax/parser.c \
  promql-like/syntax/parser.h \
  promql-like/syntax/parser_time.c \
  promql-like/syntax/parser_tokens.c \
  promql-like/syntax/print.c \
  promql-like/syntax/print_json.c \
  promql-like/syntax/printer.h \
  promql-like/syntax/signatures.c \
  promql-like/testlang/testlang.c \
  promql-like/testlang/testlang.h \
  promql-like/testlang/testlang_case.c \
  promql-like/testlang/testlang_case.h \
  promql-like/testlang/testlang_check.c \
  promql-like/testlang/testlang_data.c \
  promql-like/testlang/testlang_data.h \
  promql-like/testlang/testlang_lines.c \
  promql-like/testlang/testlang_profiles.c \
  promql-like/thresholds.c \
  promql-like/values/arith.h \
  promql-like/values/explain.c \
  promql-like/values/explain.h \
  promql-like/values/lazy_profile.c \
  promql-like/values/lazy_profile.h \
  promql-like/values/memory_guard.c \
  promql-like/values/memory_guard.h \
  promql-like/values/query.c \
  promql-like/values/query.h \
  promql-like/values/value.c \
  promql-like/weight.c \
  $(NULL)
PROMQL_TESTS = \
  graph_rows_test \
  memory_guard_test \
  promql_agree_test \
  promql_engine_test \
  promql_graph_test \
  promql_parser_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(PROMQL_TESTS)
TESTS += $(PROMQL_TESTS)
graph_rows_test_SOURCES = promql-like/graph_rows_test.c
graph_rows_test_LDADD = $(PROMQL_TEST_LIBS)
memory_guard_test_SOURCES = promql-like/values/memory_guard_test.c
memory_guard_test_LDADD = $(PROMQL_TEST_LIBS)
promql_agree_test_LDADD = $(PROMQL_TEST_LIBS)
promql_engine_test_LDADD = $(PROMQL_TEST_LIBS)
promql_graph_test_LDADD = $(PROMQL_TEST_LIBS)
promql_parser_test_LDADD = $(PROMQL_TEST_LIBS)
endif
