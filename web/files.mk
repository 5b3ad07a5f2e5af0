# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libweb_a_SOURCES = \
  web/admin.c \
  web/answer.c \
  web/answer.h \
  web/api_alertmanagers.c \
  web/api_features.c \
  web/api_frames.c \
  web/api_language.c \
  web/api_links.c \
  web/api_metadata.c \
  web/api_pins.c \
  web/api_query.c \
  web/api_rules.c \
  web/api_rules_past.c \
  web/api_series.c \
  web/api_servers.c \
  web/api_source.c \
  web/api_status.c \
  web/api_targets.c \
  web/api_types.c \
  web/api_write.c \
  web/assets.h \
  web/fake_test.h \
  web/federate.c \
  web/formats.c \
  web/formats.h \
  web/internal.h \
  web/lanes.c \
  web/lookup.c \
  web/lookup.h \
  web/management.c \
  web/matrix_columns.c \
  web/matrix_columns.h \
  web/metadata.h \
  web/pages.c \
  web/params.c \
  web/params.h \
  web/pins.c \
  web/pins.h \
  web/profiles/dot.c \
  web/profiles/flame_columns.c \
  web/profiles/flame_columns.h \
  web/profiles/flame_svg.c \
  web/profiles/flamegraph.c \
  web/profiles/frame_lists.c \
  web/profiles/merged.c \
  web/profiles/merged.h \
  web/profiles/pprof_out.c \
  web/profiles/profiles_json.c \
  web/profiles/speedscope.c \
  web/question.c \
  web/remedies.c \
  web/remedies.h \
  web/selectors.c \
  web/source_links.c \
  web/source_links.h \
  web/symbolz.c \
  web/web.c \
  web/web.h \
  $(NULL)
EXTRA_DIST += \
  web/embed.sh \
  $(NULL)
WEB_TESTS = \
  answer_memory_test \
  answer_order_test \
  flame_real_test \
  frame_lists_test \
  merged_test \
  params_test \
  pins_test \
  rules_view_test \
  servers_test \
  source_ask_test \
  source_links_test \
  values_test \
  web_test \
  write_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(WEB_TESTS)
TESTS += $(WEB_TESTS)
answer_memory_test_SOURCES = web/answer_memory_test.c
answer_memory_test_LDADD = $(WEB_TEST_LIBS)
answer_order_test_SOURCES = web/profiles/answer_order_test.c
answer_order_test_LDADD = $(WEB_TEST_LIBS)
flame_real_test_SOURCES = web/flame_real_test.c
frame_lists_test_SOURCES = web/profiles/frame_lists_test.c
frame_lists_test_LDADD = $(WEB_TEST_LIBS)
merged_test_SOURCES = web/profiles/merged_test.c
merged_test_LDADD = $(WEB_TEST_LIBS)
params_test_SOURCES = web/params_test.c
params_test_LDADD = $(WEB_TEST_LIBS)
pins_test_SOURCES = web/pins_test.c
pins_test_LDADD = $(WEB_TEST_LIBS)
rules_view_test_SOURCES = web/rules_view_test.c
rules_view_test_LDADD = $(WEB_TEST_LIBS)
servers_test_SOURCES = web/servers_test.c
servers_test_LDADD = $(WEB_TEST_LIBS)
source_ask_test_SOURCES = web/source_ask_test.c
source_ask_test_LDADD = $(WEB_TEST_LIBS)
source_links_test_SOURCES = web/source_links_test.c
source_links_test_LDADD = $(WEB_TEST_LIBS)
values_test_SOURCES = web/values_test.c
values_test_LDADD = $(WEB_TEST_LIBS)
web_test_SOURCES = web/web_test.c
web_test_LDADD = $(WEB_TEST_LIBS)
write_test_SOURCES = web/write_test.c
write_test_LDADD = $(WEB_TEST_LIBS)
endif
