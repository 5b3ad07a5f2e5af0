EXTRA_DIST += docs/web-configuration.md
noinst_LIBRARIES += libhttpd.a
libhttpd_a_SOURCES = \
  lib/httpd/encoding.c lib/httpd/httpd.c lib/httpd/httpd.h lib/httpd/internal.h lib/httpd/listen.c lib/httpd/metrics.c lib/httpd/origin.c \
  lib/httpd/multipart.c lib/httpd/packer.c lib/httpd/request.c lib/httpd/request_fields.c lib/httpd/response.c lib/httpd/route.c lib/httpd/slots.c lib/httpd/slots.h lib/httpd/watch.c lib/httpd/watched.c lib/httpd/work.c \
  lib/httpd/web_config.c lib/httpd/web_config.h lib/httpd/web_reading.c lib/httpd/web_reading.h lib/httpd/web_logins.c lib/httpd/web_tls.c lib/httpd/web_tls.h \
  lib/httpd/web_ciphers.c lib/httpd/web_current.c lib/httpd/client_cert.c lib/httpd/tls.c \
  lib/httpd/authorization.c lib/httpd/authorization.h lib/httpd/bcrypt.c lib/httpd/bcrypt.h lib/httpd/admit.c lib/httpd/login.c lib/httpd/login.h lib/httpd/login_known.c lib/httpd/login_known.h \
  lib/httpd/login_failures.c lib/httpd/login_failures.h
HTTPD_LIBS = libhttpd.a $(CONFIG_LIBS) $(MHD_LIBS) $(GNUTLS_LIBS) $(CRYPT_LIBS) $(DEFLATE_LIBS) $(ZSTD_LIBS)
if HAVE_CMOCKA
check_PROGRAMS += httpd_test admission_test login_test
TESTS += httpd_test admission_test login_test
login_test_SOURCES = lib/httpd/login_test.c lib/httpd/testclient.h
login_test_LDADD = $(HTTPD_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
admission_test_SOURCES = lib/httpd/admission_test.c lib/httpd/testclient.h
admission_test_LDADD = $(HTTPD_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
httpd_test_SOURCES = lib/httpd/httpd_test.c lib/httpd/testclient.h
httpd_test_LDADD = $(HTTPD_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) $(ZLIB_LIBS)
check_PROGRAMS += web_config_test tls_test
TESTS += web_config_test tls_test
tls_test_SOURCES = lib/httpd/tls_test.c lib/httpd/testcert.h lib/httpd/testclient.h
tls_test_LDADD = $(HTTPD_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
web_config_test_SOURCES = lib/httpd/web_config_test.c lib/httpd/testcert.h
web_config_test_LDADD = $(HTTPD_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
endif
