# Rules and alerts: see docs/ARCHITECTURE.md. SPDX-License-Identifier: Apache-2.0
include rules/files.mk
noinst_LIBRARIES += librules.a
RULES_LIBS = librules.a $(PROMQL_LIBS) $(CONFIG_LIBS)
RULES_TEST_LIBS = $(RULES_LIBS) $(CMOCKA_LIBS)
notifier_test_LDADD = librules.a $(PROMQL_LIBS) $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
rules_alert_test_SOURCES = rules/alert_test.c
rules_group_test_SOURCES = rules/group_test.c
rules_oracle_test_SOURCES = tests/oracle/rules_test.c
rules_past_test_SOURCES = rules/past_test.c
rules_profiles_test_SOURCES = rules/profiles_test.c
template_oracle_test_SOURCES = tests/oracle/template_test.c
