noinst_LIBRARIES += libfetch.a
FETCH_LIBS = libfetch.a $(CONFIG_LIBS) $(CURL_LIBS)
libfetch_a_CPPFLAGS = $(AM_CPPFLAGS) $(CURL_CFLAGS)
libfetch_a_SOURCES = \
  lib/fetch/fetch.c \
  lib/fetch/fetch.h \
  lib/fetch/fetch_client.c \
  lib/fetch/fetch_config.c \
  lib/fetch/fetch_internal.h \
  lib/fetch/fetch_loop.c \
  lib/fetch/fetch_oauth2.c \
  lib/fetch/fetch_share.c \
  lib/fetch/fetch_token.c
if HAVE_CMOCKA
check_PROGRAMS += fetch_test
TESTS += fetch_test
fetch_test_SOURCES = lib/fetch/fetch_test.c
fetch_test_LDADD = $(FETCH_LIBS) $(CMOCKA_LIBS)
endif
