# The language: parser, functions, evaluation. SPDX-License-Identifier: Apache-2.0
include promql-like/files.mk
noinst_LIBRARIES += libpromql.a
PROMQL_LIBS = libpromql.a $(MODEL_LIBS)

# Files in the language of tests: needs no cmocka.
check_PROGRAMS += lang_test
TESTS += lang_test
lang_test_SOURCES = promql-like/testlang/lang_test.c
lang_test_LDADD = $(PROMQL_LIBS)

PROMQL_TEST_LIBS = $(PROMQL_LIBS) $(CMOCKA_LIBS)
promql_agree_test_SOURCES = promql-like/agree_test.c
promql_engine_test_SOURCES = promql-like/engine_test.c
promql_graph_test_SOURCES = promql-like/graph_test.c
promql_parser_test_SOURCES = promql-like/syntax/parser_test.c
