# The language: parser, functions, evaluation. SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libpromql.a
EXTRA_DIST += docs/profql.md
libpromql_a_SOURCES = \
  promql-like/active_queries.c \
  promql-like/active_queries.h \
  promql-like/arith.h \
  promql-like/ast.c \
  promql-like/ast.h \
  promql-like/check.c \
  promql-like/choose.c \
  promql-like/choose.h \
  promql-like/engine.c \
  promql-like/engine_names.c \
  promql-like/engine_names.h \
  promql-like/eval.c \
  promql-like/eval.h \
  promql-like/eval_aggr.c \
  promql-like/eval_binary.c \
  promql-like/eval_call.c \
  promql-like/eval_merge.c \
  promql-like/eval_selector.c \
  promql-like/eval_totals.c \
  promql-like/examples.c \
  promql-like/explain.c \
  promql-like/explain.h \
  promql-like/filters.c \
  promql-like/frames.c \
  promql-like/frames.h \
  promql-like/func.h \
  promql-like/func_rows.h \
  promql-like/funcs.h \
  promql-like/funcs_diff.c \
  promql-like/funcs_histogram.c \
  promql-like/funcs_info.c \
  promql-like/funcs_label.c \
  promql-like/funcs_math.c \
  promql-like/funcs_profile.c \
  promql-like/funcs_range.c \
  promql-like/funcs_time.c \
  promql-like/functions.c \
  promql-like/graph.c \
  promql-like/graph_rows.c \
  promql-like/graph_rows.h \
  promql-like/graph_terms.c \
  promql-like/graph_terms.h \
  promql-like/lexer.c \
  promql-like/lexer.h \
  promql-like/memory_guard.c \
  promql-like/memory_guard.h \
  promql-like/memsource.c \
  promql-like/memsource.h \
  promql-like/parse.c \
  promql-like/parser.c \
  promql-like/parser.h \
  promql-like/parser_time.c \
  promql-like/parser_tokens.c \
  promql-like/print.c \
  promql-like/print_json.c \
  promql-like/printer.h \
  promql-like/prof.c \
  promql-like/prof.h \
  promql-like/promql.h \
  promql-like/pwindow.c \
  promql-like/pwindow.h \
  promql-like/query.c \
  promql-like/query.h \
  promql-like/reading.c \
  promql-like/rate_totals.c \
  promql-like/readout.c \
  promql-like/readout.h \
  promql-like/readout_calls.h \
  promql-like/readout_choice.c \
  promql-like/readout_kept.c \
  promql-like/readout_merged.c \
  promql-like/readout_out.c \
  promql-like/readout_rated.c \
  promql-like/readout_rows.c \
  promql-like/readout_sums.c \
  promql-like/readout_wanted.c \
  promql-like/recorded.c \
  promql-like/result.c promql-like/hold.c promql-like/hold.h \
  promql-like/result.h \
  promql-like/rewrite.c \
  promql-like/rewrite.h \
  promql-like/shared.c \
  promql-like/shared.h \
  promql-like/signatures.c \
  promql-like/tagroot.c \
  promql-like/tagroot.h \
  promql-like/testlang.c \
  promql-like/testlang.h \
  promql-like/testlang_case.c \
  promql-like/testlang_case.h \
  promql-like/testlang_check.c \
  promql-like/testlang_data.c \
  promql-like/testlang_data.h \
  promql-like/testlang_lines.c \
  promql-like/testlang_profiles.c \
  promql-like/thresholds.c \
  promql-like/value.c \
  promql-like/weight.c
PROMQL_LIBS = libpromql.a $(MODEL_LIBS)

check_PROGRAMS += lang_test
TESTS += lang_test
lang_test_SOURCES = promql-like/lang_test.c
lang_test_LDADD = $(PROMQL_LIBS)
EXTRA_DIST += tests/lang/profiles.test tests/lang/profql.test tests/lang/math.test tests/lang/operators.test \
  tests/lang/time.test tests/lang/aggregations.test tests/lang/ranges.test tests/lang/labels.test tests/lang/errors.test tests/lang/expressions.test tests/lang/mixed.test tests/lang/readouts.test tests/lang/experimental.test
if HAVE_CMOCKA
check_PROGRAMS += promql_parser_test promql_engine_test promql_graph_test promql_agree_test
TESTS += promql_parser_test promql_engine_test promql_graph_test promql_agree_test
promql_agree_test_SOURCES = promql-like/agree_test.c
promql_agree_test_LDADD = $(PROMQL_LIBS) $(CMOCKA_LIBS)
promql_graph_test_SOURCES = promql-like/graph_test.c
promql_graph_test_LDADD = $(PROMQL_LIBS) $(CMOCKA_LIBS)
promql_parser_test_SOURCES = promql-like/parser_test.c
promql_parser_test_LDADD = $(PROMQL_LIBS) $(CMOCKA_LIBS)
promql_engine_test_SOURCES = promql-like/engine_test.c
promql_engine_test_LDADD = $(PROMQL_LIBS) $(CMOCKA_LIBS)
endif
