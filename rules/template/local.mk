# rules/template: the templates of labels and annotations, as Go and Prometheus have them.
RULES_TEMPLATE_SOURCES = \
  rules/template/template.c \
  rules/template/template.h \
  rules/template/template_exec.c \
  rules/template/template_exec.h \
  rules/template/template_float.c \
  rules/template/template_fmt.c \
  rules/template/template_fmt.h \
  rules/template/template_func.c \
  rules/template/template_func.h \
  rules/template/template_funcs_go.c \
  rules/template/template_funcs_ours.c \
  rules/template/template_funcs_prometheus.c \
  rules/template/template_lex.c \
  rules/template/template_lex.h \
  rules/template/template_link.c \
  rules/template/template_link.h \
  rules/template/template_means.c \
  rules/template/template_methods.c \
  rules/template/template_node.c \
  rules/template/template_node.h \
  rules/template/template_number.c \
  rules/template/template_number.h \
  rules/template/template_parse.c \
  rules/template/template_quote.c \
  rules/template/template_quote.h \
  rules/template/template_text.c \
  rules/template/template_text.h \
  rules/template/template_time.c \
  rules/template/template_time.h \
  rules/template/template_unicode.c \
  rules/template/template_unicode.h \
  rules/template/template_value.c \
  rules/template/template_value.h
if HAVE_CMOCKA
check_PROGRAMS += template_test template_oracle_test
TESTS += template_test template_oracle_test
template_test_SOURCES = rules/template/template_test.c
template_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
template_oracle_test_SOURCES = tests/oracle/template_test.c
template_oracle_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
endif
