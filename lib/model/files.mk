# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libmodel_a_SOURCES = \
  lib/model/admin.h \
  lib/model/alertmanagers.h \
  lib/model/call_order.c \
  lib/model/call_order.h \
  lib/model/calltree.c \
  lib/model/calltree.h \
  lib/model/flame.c \
  lib/model/flame.h \
  lib/model/flame_emit.c \
  lib/model/flame_folded.c \
  lib/model/flame_functions.c \
  lib/model/flame_internal.h \
  lib/model/frame.c \
  lib/model/frame.h \
  lib/model/frame_filter.c \
  lib/model/frame_filter.h \
  lib/model/functions.c \
  lib/model/functions.h \
  lib/model/labels.c \
  lib/model/labels.h \
  lib/model/lexer.c \
  lib/model/lexer.h \
  lib/model/matcher.c \
  lib/model/matcher.h \
  lib/model/md5.c \
  lib/model/md5.h \
  lib/model/objects.h \
  lib/model/profile.c \
  lib/model/profile.h \
  lib/model/ptype.c \
  lib/model/ptype.h \
  lib/model/relabel.c \
  lib/model/relabel.h \
  lib/model/replicas.c \
  lib/model/replicas.h \
  lib/model/rules_past.h \
  lib/model/rules_status.c \
  lib/model/rules_status.h \
  lib/model/sample_order.c \
  lib/model/sample_order.h \
  lib/model/selector.c \
  lib/model/selector.h \
  lib/model/selector_probes.h \
  lib/model/servers.h \
  lib/model/sink.h \
  lib/model/source.c \
  lib/model/source.h \
  lib/model/sourcekit.h \
  lib/model/stackvec.c \
  lib/model/stackvec.h \
  lib/model/stackvec_export.c \
  lib/model/status.c \
  lib/model/status.h \
  lib/model/symbols.c \
  lib/model/symbols.h \
  lib/model/symbols_import.c \
  lib/model/symbols_internal.h \
  lib/model/symbols_load.c \
  lib/model/symbols_map.c \
  lib/model/symbols_read.c \
  lib/model/symbols_room.c \
  lib/model/symbols_rows.c \
  lib/model/symbols_rows.h \
  lib/model/tap.h \
  lib/model/value.h \
  $(NULL)
MODEL_TESTS = \
  flame_agree_test \
  flame_test \
  frame_filter_test \
  model_test \
  relabel_test \
  replicas_test \
  sample_order_test \
  source_test \
  stackvec_test \
  symbols_rows_test \
  symbols_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(MODEL_TESTS)
TESTS += $(MODEL_TESTS)
flame_agree_test_SOURCES = lib/model/flame_agree_test.c
flame_agree_test_LDADD = $(MODEL_TEST_LIBS)
flame_test_SOURCES = lib/model/flame_test.c
flame_test_LDADD = $(MODEL_TEST_LIBS)
frame_filter_test_SOURCES = lib/model/frame_filter_test.c
frame_filter_test_LDADD = $(MODEL_TEST_LIBS)
model_test_SOURCES = lib/model/model_test.c
model_test_LDADD = $(MODEL_TEST_LIBS)
relabel_test_SOURCES = lib/model/relabel_test.c
relabel_test_LDADD = $(MODEL_TEST_LIBS)
replicas_test_SOURCES = lib/model/replicas_test.c
replicas_test_LDADD = $(MODEL_TEST_LIBS)
sample_order_test_SOURCES = lib/model/sample_order_test.c
sample_order_test_LDADD = $(MODEL_TEST_LIBS)
source_test_SOURCES = lib/model/source_test.c
source_test_LDADD = $(MODEL_TEST_LIBS)
stackvec_test_SOURCES = lib/model/stackvec_test.c
stackvec_test_LDADD = $(MODEL_TEST_LIBS)
symbols_rows_test_SOURCES = lib/model/symbols_rows_test.c
symbols_rows_test_LDADD = $(MODEL_TEST_LIBS)
symbols_test_SOURCES = lib/model/symbols_test.c
symbols_test_LDADD = $(MODEL_TEST_LIBS)
endif
