include lib/fetch/files.mk
noinst_LIBRARIES += libfetch.a
FETCH_LIBS = libfetch.a $(CONFIG_LIBS) $(CURL_LIBS)
libfetch_a_CPPFLAGS = $(AM_CPPFLAGS) $(CURL_CFLAGS)
FETCH_TEST_LIBS = $(FETCH_LIBS) $(CMOCKA_LIBS)
