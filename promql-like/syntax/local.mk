# promql-like/syntax: text into a tree, and back; what functions take and give.
PROMQL_SYNTAX_SOURCES = \
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
  promql-like/syntax/signatures.c
if HAVE_CMOCKA
check_PROGRAMS += promql_parser_test
TESTS += promql_parser_test
promql_parser_test_SOURCES = promql-like/syntax/parser_test.c
promql_parser_test_LDADD = $(PROMQL_LIBS) $(CMOCKA_LIBS)
endif
