# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libremote_a_SOURCES = \
  lib/remote/backlog.c \
  lib/remote/backlog.h \
  lib/remote/backlog_internal.h \
  lib/remote/backlog_read.c \
  lib/remote/encode.c \
  lib/remote/outlet.c \
  lib/remote/outlet.h \
  lib/remote/receive.c \
  lib/remote/remote.h \
  lib/remote/remote_write.c \
  lib/remote/remote_write.h \
  lib/remote/segment.c \
  lib/remote/segment.h \
  lib/remote/write_config.c \
  lib/remote/write_config.h \
  lib/remote/write_filter.c \
  lib/remote/write_filter.h \
  $(NULL)
EXTRA_DIST += \
  lib/remote/remote.proto \
  $(NULL)
REMOTE_TESTS = \
  backlog_test \
  remote_test \
  remote_write_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(REMOTE_TESTS)
TESTS += $(REMOTE_TESTS)
backlog_test_SOURCES = lib/remote/backlog_test.c
backlog_test_LDADD = $(REMOTE_TEST_LIBS)
remote_test_SOURCES = lib/remote/remote_test.c
remote_test_LDADD = $(REMOTE_TEST_LIBS)
remote_write_test_SOURCES = lib/remote/remote_write_test.c
remote_write_test_LDADD = $(REMOTE_TEST_LIBS)
endif
