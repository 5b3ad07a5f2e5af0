# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libhttpd_a_SOURCES = \
  lib/httpd/admit.c \
  lib/httpd/authorization.c \
  lib/httpd/authorization.h \
  lib/httpd/bcrypt.c \
  lib/httpd/bcrypt.h \
  lib/httpd/client_cert.c \
  lib/httpd/encoding.c \
  lib/httpd/framing.c \
  lib/httpd/httpd.c \
  lib/httpd/httpd.h \
  lib/httpd/internal.h \
  lib/httpd/listen.c \
  lib/httpd/login.c \
  lib/httpd/login.h \
  lib/httpd/login_failures.c \
  lib/httpd/login_failures.h \
  lib/httpd/login_known.c \
  lib/httpd/login_known.h \
  lib/httpd/login_proven.c \
  lib/httpd/login_proven.h \
  lib/httpd/login_turns.c \
  lib/httpd/login_turns.h \
  lib/httpd/metrics.c \
  lib/httpd/multipart.c \
  lib/httpd/networks.h \
  lib/httpd/origin.c \
  lib/httpd/packer.c \
  lib/httpd/request.c \
  lib/httpd/request_fields.c \
  lib/httpd/response.c \
  lib/httpd/route.c \
  lib/httpd/sender.c \
  lib/httpd/slots.c \
  lib/httpd/slots.h \
  lib/httpd/spool.c \
  lib/httpd/testcert.h \
  lib/httpd/testclient.h \
  lib/httpd/tls.c \
  lib/httpd/watch.c \
  lib/httpd/watched.c \
  lib/httpd/web_ciphers.c \
  lib/httpd/web_config.c \
  lib/httpd/web_config.h \
  lib/httpd/web_current.c \
  lib/httpd/web_logins.c \
  lib/httpd/web_reading.c \
  lib/httpd/web_reading.h \
  lib/httpd/web_tls.c \
  lib/httpd/web_tls.h \
  lib/httpd/work.c \
  $(NULL)
HTTPD_TESTS = \
  admission_test \
  httpd_test \
  login_test \
  login_turns_test \
  tls_test \
  web_config_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(HTTPD_TESTS)
TESTS += $(HTTPD_TESTS)
admission_test_SOURCES = lib/httpd/admission_test.c
admission_test_LDADD = $(HTTPD_TEST_LIBS)
httpd_test_SOURCES = lib/httpd/httpd_test.c
login_test_SOURCES = lib/httpd/login_test.c
login_test_LDADD = $(HTTPD_TEST_LIBS)
login_turns_test_SOURCES = lib/httpd/login_turns_test.c
login_turns_test_LDADD = $(HTTPD_TEST_LIBS)
tls_test_SOURCES = lib/httpd/tls_test.c
tls_test_LDADD = $(HTTPD_TEST_LIBS)
web_config_test_SOURCES = lib/httpd/web_config_test.c
web_config_test_LDADD = $(HTTPD_TEST_LIBS)
endif
