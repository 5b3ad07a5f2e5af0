# promql-like/testlang: the language of *.test files.
PROMQL_TESTLANG_SOURCES = \
  promql-like/testlang/testlang.c \
  promql-like/testlang/testlang.h \
  promql-like/testlang/testlang_case.c \
  promql-like/testlang/testlang_case.h \
  promql-like/testlang/testlang_check.c \
  promql-like/testlang/testlang_data.c \
  promql-like/testlang/testlang_data.h \
  promql-like/testlang/testlang_lines.c \
  promql-like/testlang/testlang_profiles.c
check_PROGRAMS += lang_test
TESTS += lang_test
lang_test_SOURCES = promql-like/testlang/lang_test.c
lang_test_LDADD = $(PROMQL_LIBS)
