# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libbase_a_SOURCES = \
  lib/base/alloc.c \
  lib/base/alloc.h \
  lib/base/arena.c \
  lib/base/arena.h \
  lib/base/attrs.h \
  lib/base/base64.c \
  lib/base/base64.h \
  lib/base/budget.c \
  lib/base/budget.h \
  lib/base/buf.c \
  lib/base/buf.h \
  lib/base/buf_read.c \
  lib/base/clock.c \
  lib/base/clock.h \
  lib/base/clock_steps.c \
  lib/base/clock_steps.h \
  lib/base/cursor.c \
  lib/base/cursor.h \
  lib/base/err.c \
  lib/base/err.h \
  lib/base/files.c \
  lib/base/files.h \
  lib/base/flag.c \
  lib/base/flag.h \
  lib/base/heap.c \
  lib/base/heap.h \
  lib/base/json.c \
  lib/base/json.h \
  lib/base/line.h \
  lib/base/lock.c \
  lib/base/lock.h \
  lib/base/lock_ranks.h \
  lib/base/log.c \
  lib/base/log.h \
  lib/base/map.c \
  lib/base/map.h \
  lib/base/memory_limit.c \
  lib/base/memory_limit.h \
  lib/base/memory_parts.c \
  lib/base/memory_parts.h \
  lib/base/metrics.c \
  lib/base/metrics.h \
  lib/base/num.c \
  lib/base/num.h \
  lib/base/opts.c \
  lib/base/opts.h \
  lib/base/path_watch.c \
  lib/base/path_watch.h \
  lib/base/permit.h \
  lib/base/queue.c \
  lib/base/queue.h \
  lib/base/radix.c \
  lib/base/radix.h \
  lib/base/redact.c \
  lib/base/redact.h \
  lib/base/regex.c \
  lib/base/regex.h \
  lib/base/regex_re2.c \
  lib/base/regex_re2.h \
  lib/base/room.c \
  lib/base/room.h \
  lib/base/sha256.c \
  lib/base/sha256.h \
  lib/base/testwait.h \
  lib/base/thread.c \
  lib/base/thread.h \
  lib/base/typo.c \
  lib/base/typo.h \
  lib/base/units.c \
  lib/base/units.h \
  lib/base/utf8.c \
  lib/base/utf8.h \
  lib/base/varint.h \
  lib/base/vec.h \
  lib/base/view.h \
  $(NULL)
BASE_TESTS = \
  base_test \
  json_test \
  lock_test \
  opts_test \
  path_watch_test \
  regex_test \
  sha256_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(BASE_TESTS)
TESTS += $(BASE_TESTS)
base_test_SOURCES = lib/base/base_test.c
base_test_LDADD = $(BASE_TEST_LIBS)
json_test_SOURCES = lib/base/json_test.c
json_test_LDADD = $(BASE_TEST_LIBS)
lock_test_SOURCES = lib/base/lock_test.c
lock_test_LDADD = $(BASE_TEST_LIBS)
opts_test_SOURCES = lib/base/opts_test.c
opts_test_LDADD = $(BASE_TEST_LIBS)
path_watch_test_SOURCES = lib/base/path_watch_test.c
path_watch_test_LDADD = $(BASE_TEST_LIBS)
regex_test_SOURCES = lib/base/regex_test.c
regex_test_LDADD = $(BASE_TEST_LIBS)
sha256_test_SOURCES = lib/base/sha256_test.c
sha256_test_LDADD = $(BASE_TEST_LIBS)
endif
