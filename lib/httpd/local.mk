noinst_LIBRARIES += libhttpd.a
libhttpd_a_SOURCES = \
  lib/httpd/httpd.c lib/httpd/httpd.h lib/httpd/internal.h lib/httpd/listen.c lib/httpd/metrics.c lib/httpd/origin.c \
  lib/httpd/multipart.c lib/httpd/request.c lib/httpd/response.c lib/httpd/route.c lib/httpd/slots.c lib/httpd/slots.h lib/httpd/watch.c lib/httpd/work.c
HTTPD_LIBS = libhttpd.a $(MHD_LIBS) $(ZLIB_LIBS)
if HAVE_CMOCKA
check_PROGRAMS += httpd_test admission_test
TESTS += httpd_test admission_test
admission_test_SOURCES = lib/httpd/admission_test.c lib/httpd/testclient.h
admission_test_LDADD = $(HTTPD_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
httpd_test_SOURCES = lib/httpd/httpd_test.c lib/httpd/testclient.h
httpd_test_LDADD = $(HTTPD_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
endif
