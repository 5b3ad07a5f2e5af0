# Rules and alerts: see docs/ARCHITECTURE.md. SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += docs/alertmanager.md docs/rules.md docs/format/rule-notes.md
noinst_LIBRARIES += librules.a
librules_a_SOURCES = rules/alert.c rules/alert_series.c rules/group.c rules/group.h rules/hurry.c rules/manager.c rules/metrics.c rules/notes.c rules/notes.h rules/output.c rules/overlay.c rules/overlay.h rules/past.c rules/place.c \
  rules/place.h rules/profiles.c rules/query.c rules/record.c rules/restore.c rules/rule_file.c rules/rule_file.h rules/rules.h \
  rules/rules_config.c rules/status.c rules/texts.c rules/texts.h
librules_a_SOURCES += rules/notifier.c rules/notifier.h rules/notifier_config.c rules/notifier_config.h rules/notifier_intake.c rules/notifier_internal.h \
  rules/notifier_place.c rules/notifier_queue.c rules/notifier_queue.h rules/notifier_send.c rules/notifier_sync.c
RULES_LIBS = librules.a $(PROMQL_LIBS) $(CONFIG_LIBS)

if HAVE_CMOCKA
RULES_TESTS = rule_file_test rules_alert_test rules_group_test rules_oracle_test rules_past_test rules_profiles_test
check_PROGRAMS += $(RULES_TESTS)
TESTS += $(RULES_TESTS)
rules_alert_test_SOURCES = rules/alert_test.c rules/testkit.h
rules_alert_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
rules_profiles_test_SOURCES = rules/profiles_test.c rules/testkit.h
rules_profiles_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
rules_past_test_SOURCES = rules/past_test.c rules/testkit.h
rules_past_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
rules_oracle_test_SOURCES = tests/oracle/rules_test.c rules/testkit.h
rules_oracle_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
rules_group_test_SOURCES = rules/group_test.c rules/testkit.h
rules_group_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += notifier_test
TESTS += notifier_test
notifier_test_SOURCES = rules/notifier_test.c
notifier_test_LDADD = librules.a $(PROMQL_LIBS) $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
rule_file_test_SOURCES = rules/rule_file_test.c
rule_file_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
endif

# Templates of labels and annotations.
EXTRA_DIST += docs/rules-templates.md
librules_a_SOURCES += rules/template.c rules/template.h rules/template_exec.c rules/template_exec.h rules/template_float.c \
  rules/template_fmt.c rules/template_fmt.h rules/template_func.c rules/template_func.h rules/template_funcs_go.c \
  rules/template_funcs_ours.c rules/template_funcs_prometheus.c rules/template_lex.c rules/template_lex.h rules/template_link.c rules/template_means.c \
  rules/template_link.h rules/template_methods.c rules/template_node.c rules/template_node.h rules/template_number.c \
  rules/template_number.h rules/template_parse.c rules/template_quote.c rules/template_quote.h rules/template_text.c \
  rules/template_text.h rules/template_time.c rules/template_time.h rules/template_unicode.c rules/template_unicode.h \
  rules/template_value.c rules/template_value.h
if HAVE_CMOCKA
check_PROGRAMS += template_test template_oracle_test
TESTS += template_test template_oracle_test
template_test_SOURCES = rules/template_test.c
template_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
template_oracle_test_SOURCES = tests/oracle/template_test.c
template_oracle_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
endif
