# The storage. SPDX-License-Identifier: Apache-2.0
include tsdb/files.mk
noinst_LIBRARIES += libtsdb.a
libtsdb_a_CFLAGS = $(AM_CFLAGS) $(ROCKSDB_CFLAGS) $(ZSTD_CFLAGS)

# What a program that links the storage needs.
TSDB_LIBS = libtsdb.a $(MODEL_LIBS) $(ROCKSDB_LIBS) $(ZSTD_LIBS)

if HAVE_CMOCKA
check_LIBRARIES += libtsdbkit.a
endif
libtsdbkit_a_SOURCES = tsdb/testkit.c tsdb/bucketkit.c tsdb/liveskit.c tsdb/liveskit.h
TSDB_TEST_LIBS = libtsdbkit.a $(TSDB_LIBS) $(CMOCKA_LIBS)
floats_test_LDFLAGS = -Wl,--wrap=rwlock_let_in
marks_test_LDFLAGS = -Wl,--wrap=log_extents_put
repair_test_LDFLAGS = -Wl,--wrap=pwrite,--wrap=pwrite64,--wrap=statvfs,--wrap=statvfs64
replay_test_LDFLAGS = -Wl,--wrap=rocksdb_iter_next,--wrap=rocksdb_iter_valid,--wrap=rocksdb_iter_get_error \
  -Wl,--wrap=rocksdb_open,--wrap=rocksdb_open_for_read_only,--wrap=buf_read_file
tsdb_codec_test_SOURCES = tsdb/part/codec_test.c
tsdb_delete_test_SOURCES = tsdb/write/delete_test.c
tsdb_format_test_SOURCES = tsdb/format_test.c
tsdb_midnight_test_SOURCES = tsdb/midnight_test.c
tsdb_points_test_SOURCES = tsdb/read/points_test.c
tsdb_tap_test_SOURCES = tsdb/write/tap_test.c
