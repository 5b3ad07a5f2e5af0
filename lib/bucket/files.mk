# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libbucket_a_SOURCES = \
  lib/bucket/backend.h \
  lib/bucket/bucket.c \
  lib/bucket/bucket.h \
  lib/bucket/s3.c \
  lib/bucket/s3.h \
  $(NULL)
