# tsdb/head: an hour in memory.
TSDB_HEAD_SOURCES = \
  tsdb/head/chunk.c \
  tsdb/head/chunk.h \
  tsdb/head/head_sums.c \
  tsdb/head/head_sums.h \
  tsdb/head/remove.c \
  tsdb/head/remove.h \
  tsdb/head/tombstone_fact.c \
  tsdb/head/tombstone_fact.h \
  tsdb/head/window.c \
  tsdb/head/window.h
if HAVE_CMOCKA
check_PROGRAMS += head_sums_test
TESTS += head_sums_test
head_sums_test_SOURCES = tsdb/head/head_sums_test.c
head_sums_test_LDADD = $(TSDB_TEST_LIBS)
endif
