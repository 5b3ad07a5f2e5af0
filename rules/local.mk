# Rules and alerts: see docs/ARCHITECTURE.md. SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += librules.a
librules_a_SOURCES = rules/place.c rules/place.h rules/rule_file.c rules/rule_file.h rules/rules.h rules/rules_config.c rules/texts.c \
  rules/texts.h
RULES_LIBS = librules.a $(PROMQL_LIBS) $(CONFIG_LIBS)

if HAVE_CMOCKA
check_PROGRAMS += rule_file_test
TESTS += rule_file_test
rule_file_test_SOURCES = rules/rule_file_test.c
rule_file_test_LDADD = $(RULES_LIBS) $(CMOCKA_LIBS)
endif
