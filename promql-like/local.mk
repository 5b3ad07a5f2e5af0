# The language: parser, functions, evaluation. SPDX-License-Identifier: Apache-2.0
include promql-like/syntax/local.mk
include promql-like/values/local.mk
include promql-like/stacks/local.mk
include promql-like/eval/local.mk
include promql-like/testlang/local.mk
noinst_LIBRARIES += libpromql.a
EXTRA_DIST += docs/profql.md
libpromql_a_SOURCES = $(PROMQL_SYNTAX_SOURCES) \
  $(PROMQL_VALUES_SOURCES) \
  $(PROMQL_STACKS_SOURCES) \
  $(PROMQL_EVAL_SOURCES) \
  $(PROMQL_TESTLANG_SOURCES) \
  promql-like/active_queries.c \
  promql-like/active_queries.h \
  promql-like/engine.c \
  promql-like/hold.c \
  promql-like/hold.h \
  promql-like/memsource.c \
  promql-like/memsource.h \
  promql-like/promql.h \
  promql-like/recorded.c \
  promql-like/result.c \
  promql-like/result.h \
  promql-like/thresholds.c \
  promql-like/weight.c
PROMQL_LIBS = libpromql.a $(MODEL_LIBS)

EXTRA_DIST += tests/lang/profiles.test tests/lang/profql.test tests/lang/math.test tests/lang/operators.test \
  tests/lang/time.test tests/lang/aggregations.test tests/lang/ranges.test tests/lang/labels.test tests/lang/errors.test tests/lang/expressions.test tests/lang/mixed.test tests/lang/readouts.test tests/lang/experimental.test
if HAVE_CMOCKA
check_PROGRAMS += promql_engine_test promql_graph_test promql_agree_test
TESTS += promql_engine_test promql_graph_test promql_agree_test
promql_agree_test_SOURCES = promql-like/agree_test.c
promql_agree_test_LDADD = $(PROMQL_LIBS) $(CMOCKA_LIBS)
promql_graph_test_SOURCES = promql-like/graph_test.c
promql_graph_test_LDADD = $(PROMQL_LIBS) $(CMOCKA_LIBS)
promql_engine_test_SOURCES = promql-like/engine_test.c
promql_engine_test_LDADD = $(PROMQL_LIBS) $(CMOCKA_LIBS)
endif
