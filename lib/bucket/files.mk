# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libbucket_a_SOURCES = \
  lib/bucket/backend.c \
  lib/bucket/backend.h \
  lib/bucket/bucket.c \
  lib/bucket/bucket.h \
  lib/bucket/bucket_config.c \
  lib/bucket/bucket_fs.c \
  lib/bucket/credentials.c \
  lib/bucket/credentials.h \
  lib/bucket/credentials_file.c \
  lib/bucket/credentials_http.c \
  lib/bucket/credentials_key.c \
  lib/bucket/credentials_source.h \
  lib/bucket/fakeserver.h \
  lib/bucket/s3.c \
  lib/bucket/s3.h \
  lib/bucket/s3_error.c \
  lib/bucket/s3_error.h \
  lib/bucket/s3_exchange.c \
  lib/bucket/s3_exchange.h \
  lib/bucket/s3_list.c \
  lib/bucket/s3_list.h \
  lib/bucket/s3_url.c \
  lib/bucket/s3_url.h \
  lib/bucket/s3_xml.c \
  lib/bucket/s3_xml.h \
  lib/bucket/sigv4.c \
  lib/bucket/sigv4.h \
  lib/bucket/throttle.c \
  lib/bucket/throttle.h \
  $(NULL)
BUCKET_TESTS = \
  bucket_config_test \
  bucket_retry_test \
  bucket_test \
  credentials_test \
  s3_test \
  sigv4_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(BUCKET_TESTS)
TESTS += $(BUCKET_TESTS)
bucket_config_test_SOURCES = lib/bucket/bucket_config_test.c
bucket_config_test_LDADD = $(BUCKET_TEST_LIBS)
bucket_retry_test_SOURCES = lib/bucket/bucket_retry_test.c
bucket_retry_test_LDADD = $(BUCKET_TEST_LIBS)
bucket_test_SOURCES = lib/bucket/bucket_test.c
bucket_test_LDADD = $(BUCKET_TEST_LIBS)
credentials_test_SOURCES = lib/bucket/credentials_test.c
credentials_test_LDADD = $(BUCKET_TEST_LIBS)
s3_test_SOURCES = lib/bucket/s3_test.c
s3_test_LDADD = $(BUCKET_TEST_LIBS)
sigv4_test_SOURCES = lib/bucket/sigv4_test.c
sigv4_test_LDADD = $(BUCKET_TEST_LIBS)
endif
