# tsdb/part: sealed parts, a day's database on disk.
TSDB_PART_SOURCES = \
  tsdb/part/damage.c \
  tsdb/part/damage.h \
  tsdb/part/detail.c \
  tsdb/part/detail.h \
  tsdb/part/detail_read.c \
  tsdb/part/part.c \
  tsdb/part/part.h \
  tsdb/part/part_list.c \
  tsdb/part/part_private.h \
  tsdb/part/part_read.c \
  tsdb/part/part_read.h \
  tsdb/part/part_write.c \
  tsdb/part/partition_db.c \
  tsdb/part/partition_repair.c \
  tsdb/part/salvage.c \
  tsdb/part/salvage.h \
  tsdb/part/sealed.c \
  tsdb/part/sealed.h \
  tsdb/part/sealed_points.c \
  tsdb/part/sealed_sums.c
if HAVE_CMOCKA
check_PROGRAMS += places_test tsdb_codec_test
TESTS += places_test tsdb_codec_test
places_test_SOURCES = tsdb/part/places_test.c
places_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_codec_test_SOURCES = tsdb/part/codec_test.c
tsdb_codec_test_LDADD = $(TSDB_TEST_LIBS)
endif
