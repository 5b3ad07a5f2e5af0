# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
librules_a_SOURCES = \
  rules/alert.c \
  rules/alert_series.c \
  rules/group.c \
  rules/group.h \
  rules/hurry.c \
  rules/manager.c \
  rules/metrics.c \
  rules/notes.c \
  rules/notes.h \
  rules/notifier/notifier.c \
  rules/notifier/notifier.h \
  rules/notifier/notifier_config.c \
  rules/notifier/notifier_config.h \
  rules/notifier/notifier_intake.c \
  rules/notifier/notifier_internal.h \
  rules/notifier/notifier_queue.c \
  rules/notifier/notifier_queue.h \
  rules/notifier/notifier_send.c \
  rules/notifier/notifier_sync.c \
  rules/output.c \
  rules/overlay.c \
  rules/overlay.h \
  rules/past.c \
  rules/place.c \
  rules/place.h \
  rules/profiles.c \
  rules/query.c \
  rules/record.c \
  rules/restore.c \
  rules/rule_file.c \
  rules/rule_file.h \
  rules/rules.h \
  rules/rules_config.c \
  rules/status.c \
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
  rules/template/template_value.h \
  rules/texts.c \
  rules/texts.h \
  $(NULL)
RULES_TESTS = \
  notifier_test \
  overlay_test \
  rule_file_test \
  rules_alert_test \
  rules_group_test \
  rules_oracle_test \
  rules_past_test \
  rules_profiles_test \
  template_oracle_test \
  template_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(RULES_TESTS)
TESTS += $(RULES_TESTS)
notifier_test_SOURCES = rules/notifier/notifier_test.c
overlay_test_SOURCES = rules/overlay_test.c
overlay_test_LDADD = $(RULES_TEST_LIBS)
rule_file_test_SOURCES = rules/rule_file_test.c
rule_file_test_LDADD = $(RULES_TEST_LIBS)
rules_alert_test_LDADD = $(RULES_TEST_LIBS)
rules_group_test_LDADD = $(RULES_TEST_LIBS)
rules_oracle_test_LDADD = $(RULES_TEST_LIBS)
rules_past_test_LDADD = $(RULES_TEST_LIBS)
rules_profiles_test_LDADD = $(RULES_TEST_LIBS)
template_oracle_test_LDADD = $(RULES_TEST_LIBS)
template_test_SOURCES = rules/template/template_test.c
template_test_LDADD = $(RULES_TEST_LIBS)
endif
