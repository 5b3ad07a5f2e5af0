# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libpprof_a_SOURCES = \
  lib/pprof/decode.c \
  lib/pprof/draft.c \
  lib/pprof/draft.h \
  lib/pprof/encode.c \
  lib/pprof/folded.c \
  lib/pprof/gzip.c \
  lib/pprof/ids.c \
  lib/pprof/internal.h \
  lib/pprof/legacy.c \
  lib/pprof/legacy.h \
  lib/pprof/legacy_cpu.c \
  lib/pprof/legacy_heap.c \
  lib/pprof/legacy_java.c \
  lib/pprof/legacy_maps.c \
  lib/pprof/legacy_scan.c \
  lib/pprof/legacy_text.c \
  lib/pprof/limits.c \
  lib/pprof/merge.c \
  lib/pprof/pprof.h \
  lib/pprof/prune.c \
  lib/pprof/samples.c \
  lib/pprof/tables.c \
  lib/pprof/wire.c \
  lib/pprof/wire.h \
  $(NULL)
EXTRA_DIST += \
  lib/pprof/profile.proto \
  $(NULL)
PPROF_TESTS = \
  pprof_legacy_test \
  pprof_test \
  pprof_traps_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(PPROF_TESTS)
TESTS += $(PPROF_TESTS)
pprof_legacy_test_LDADD = $(PPROF_TEST_LIBS)
pprof_test_LDADD = $(PPROF_TEST_LIBS)
pprof_traps_test_LDADD = $(PPROF_TEST_LIBS)
endif
