# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libfleet_a_SOURCES = \
  lib/fleet/answerer.c \
  lib/fleet/answerer.h \
  lib/fleet/answerer_check.c \
  lib/fleet/answerer_check.h \
  lib/fleet/answerer_metrics.c \
  lib/fleet/answerer_metrics.h \
  lib/fleet/answerer_sessions.c \
  lib/fleet/answerer_sessions.h \
  lib/fleet/answerer_views.c \
  lib/fleet/answerer_views.h \
  lib/fleet/call.c \
  lib/fleet/call.h \
  lib/fleet/dictionary.c \
  lib/fleet/dictionary.h \
  lib/fleet/fleet.c \
  lib/fleet/fleet.h \
  lib/fleet/fleet_config.c \
  lib/fleet/fleet_config.h \
  lib/fleet/fleet_internal.h \
  lib/fleet/fleet_loop.c \
  lib/fleet/fleet_loop.h \
  lib/fleet/fleet_probe.c \
  lib/fleet/fleet_self.c \
  lib/fleet/fleet_self.h \
  lib/fleet/fleet_targets.c \
  lib/fleet/fleet_unknown.c \
  lib/fleet/peer.h \
  lib/fleet/peer_local.c \
  lib/fleet/question_memory.c \
  lib/fleet/question_memory.h \
  lib/fleet/server.c \
  lib/fleet/server.h \
  lib/fleet/server_answer.c \
  lib/fleet/server_ask.c \
  lib/fleet/server_exchange.c \
  lib/fleet/server_health.c \
  lib/fleet/server_internal.h \
  lib/fleet/server_refs.c \
  lib/fleet/server_send.c \
  lib/fleet/server_view.c \
  lib/fleet/union.c \
  lib/fleet/union.h \
  lib/fleet/union_ask.c \
  lib/fleet/union_dictionary.c \
  lib/fleet/union_internal.h \
  lib/fleet/union_join.c \
  lib/fleet/union_labels.c \
  lib/fleet/union_lists.c \
  lib/fleet/union_merge.c \
  lib/fleet/union_parts.c \
  lib/fleet/union_rows.c \
  lib/fleet/union_select.c \
  lib/fleet/union_series.c \
  lib/fleet/union_split.c \
  lib/fleet/union_sums.c \
  lib/fleet/wire.h \
  lib/fleet/wire_answer.c \
  lib/fleet/wire_lists.c \
  lib/fleet/wire_question.c \
  lib/fleet/wire_result.h \
  lib/fleet/wire_rows.c \
  lib/fleet/wire_series.c \
  lib/fleet/wire_values.c \
  lib/fleet/wire_values.h \
  $(NULL)
FLEET_TESTS = \
  answerer_test \
  dictionary_test \
  fleet_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(FLEET_TESTS)
TESTS += $(FLEET_TESTS)
answerer_test_SOURCES = lib/fleet/answerer_test.c
answerer_test_LDADD = $(FLEET_TEST_LIBS)
dictionary_test_SOURCES = lib/fleet/dictionary_test.c
dictionary_test_LDADD = $(FLEET_TEST_LIBS)
fleet_test_SOURCES = lib/fleet/fleet_test.c
fleet_test_LDADD = $(FLEET_TEST_LIBS)
endif
