# Rules and alerts: see docs/ARCHITECTURE.md. SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += docs/alertmanager.md docs/rules.md docs/rules-templates.md docs/format/rule-notes.md
include rules/template/local.mk
include rules/notifier/local.mk
noinst_LIBRARIES += librules.a
librules_a_SOURCES = $(RULES_TEMPLATE_SOURCES) $(RULES_NOTIFIER_SOURCES) \
  rules/alert.c \
  rules/alert_series.c \
  rules/group.c \
  rules/group.h \
  rules/hurry.c \
  rules/manager.c \
  rules/metrics.c \
  rules/notes.c \
  rules/notes.h \
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
  rules/texts.c \
  rules/texts.h
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
rule_file_test_SOURCES = rules/rule_file_test.c
rule_file_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
endif
