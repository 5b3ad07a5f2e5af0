# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libbucket_a_SOURCES = \
  lib/bucket/backend.c \
  lib/bucket/backend.h \
  lib/bucket/bucket.c \
  lib/bucket/bucket.h \
  lib/bucket/bucket_config.c \
  lib/bucket/bucket_fs.c \
  lib/bucket/s3.c \
  lib/bucket/s3.h \
  lib/bucket/throttle.c \
  lib/bucket/throttle.h \
  $(NULL)
BUCKET_TESTS = \
  bucket_config_test \
  bucket_retry_test \
  bucket_test \
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
endif
