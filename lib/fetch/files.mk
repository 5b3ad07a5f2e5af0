# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libfetch_a_SOURCES = \
  lib/fetch/fetch.c \
  lib/fetch/fetch.h \
  lib/fetch/fetch_client.c \
  lib/fetch/fetch_config.c \
  lib/fetch/fetch_internal.h \
  lib/fetch/fetch_kept.c \
  lib/fetch/fetch_loop.c \
  lib/fetch/fetch_oauth2.c \
  lib/fetch/fetch_share.c \
  lib/fetch/fetch_token.c \
  lib/fetch/fetch_upload.c \
  $(NULL)
FETCH_TESTS = \
  fetch_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(FETCH_TESTS)
TESTS += $(FETCH_TESTS)
fetch_test_SOURCES = lib/fetch/fetch_test.c
fetch_test_LDADD = $(FETCH_TEST_LIBS)
endif
