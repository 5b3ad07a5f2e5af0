# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libselfprof_a_SOURCES = \
  lib/selfprof/cpu.c \
  lib/selfprof/heap.c \
  lib/selfprof/heap.h \
  lib/selfprof/heap_live.c \
  lib/selfprof/heap_live.h \
  lib/selfprof/own_code.c \
  lib/selfprof/own_code.h \
  lib/selfprof/own_names.c \
  lib/selfprof/own_names.h \
  lib/selfprof/pages.c \
  lib/selfprof/pages.h \
  lib/selfprof/pieces.c \
  lib/selfprof/pieces.h \
  lib/selfprof/selfprof.h \
  lib/selfprof/stacks.c \
  lib/selfprof/stacks.h \
  lib/selfprof/ticks.c \
  lib/selfprof/ticks.h \
  $(NULL)
SELFPROF_TESTS = \
  selfprof_heap_test \
  selfprof_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(SELFPROF_TESTS)
TESTS += $(SELFPROF_TESTS)
selfprof_heap_test_LDADD = $(SELFPROF_TEST_LIBS)
selfprof_test_SOURCES = lib/selfprof/selfprof_test.c
selfprof_test_LDADD = $(SELFPROF_TEST_LIBS)
endif
