# The storage. SPDX-License-Identifier: Apache-2.0
include tsdb/disk/local.mk
include tsdb/dict/local.mk
include tsdb/log/local.mk
include tsdb/head/local.mk
include tsdb/part/local.mk
include tsdb/version/local.mk
include tsdb/read/local.mk
include tsdb/write/local.mk
include tsdb/seal/local.mk
include tsdb/upkeep/local.mk
noinst_LIBRARIES += libtsdb.a
EXTRA_DIST += docs/format/head.md docs/format/partition.md
libtsdb_a_CFLAGS = $(AM_CFLAGS) $(ROCKSDB_CFLAGS) $(ZSTD_CFLAGS)
libtsdb_a_SOURCES = $(TSDB_DISK_SOURCES) \
  $(TSDB_DICT_SOURCES) \
  $(TSDB_LOG_SOURCES) \
  $(TSDB_HEAD_SOURCES) \
  $(TSDB_PART_SOURCES) \
  $(TSDB_VERSION_SOURCES) \
  $(TSDB_READ_SOURCES) \
  $(TSDB_WRITE_SOURCES) \
  $(TSDB_SEAL_SOURCES) \
  $(TSDB_UPKEEP_SOURCES) \
  tsdb/admin.c \
  tsdb/admin.h \
  tsdb/format.c \
  tsdb/format.h \
  tsdb/inspect.c \
  tsdb/inspect.h \
  tsdb/snapshot.c \
  tsdb/stats.c \
  tsdb/tsdb.c \
  tsdb/tsdb.h

# What a program that links the storage needs.
TSDB_LIBS = libtsdb.a $(MODEL_LIBS) $(ROCKSDB_LIBS) $(ZSTD_LIBS)

if HAVE_CMOCKA
check_LIBRARIES = libtsdbkit.a
libtsdbkit_a_SOURCES = tsdb/testkit.c tsdb/testkit.h
TSDB_TEST_LIBS = libtsdbkit.a $(TSDB_LIBS) $(CMOCKA_LIBS)
EXTRA_DIST += tests/fixtures/tsdb-format-1.tar.gz tests/fixtures/tsdb-format-1.answers tests/fixtures/tsdb-format-2.tar.gz \
  tests/fixtures/tsdb-format-2.answers tests/fixtures/tsdb-format-3.tar.gz tests/fixtures/tsdb-format-3.answers \
  tests/fixtures/tsdb-format-4.tar.gz tests/fixtures/tsdb-format-4.answers

# A test is a word here and two lines below.
TSDB_TESTS = budget_test flip_test \
  tsdb_fault_test tsdb_format_test tsdb_midnight_test tsdb_model_test tsdb_test
check_PROGRAMS += $(TSDB_TESTS)
TESTS += $(TSDB_TESTS)
budget_test_SOURCES = tsdb/budget_test.c
budget_test_LDADD = $(TSDB_TEST_LIBS)
flip_test_SOURCES = tsdb/flip_test.c
flip_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_fault_test_SOURCES = tsdb/tsdb_fault_test.c
tsdb_fault_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_format_test_SOURCES = tsdb/format_test.c
tsdb_format_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_midnight_test_SOURCES = tsdb/midnight_test.c
tsdb_midnight_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_model_test_SOURCES = tsdb/tsdb_model_test.c
tsdb_model_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_test_SOURCES = tsdb/tsdb_test.c
tsdb_test_LDADD = $(TSDB_TEST_LIBS)
endif
