# tsdb/write: what comes in, is deleted, is replayed.
TSDB_WRITE_SOURCES = \
  tsdb/write/append.c \
  tsdb/write/append.h \
  tsdb/write/committer.c \
  tsdb/write/committer.h \
  tsdb/write/delete.c \
  tsdb/write/replay.c \
  tsdb/write/replay.h \
  tsdb/write/request.c \
  tsdb/write/request.h \
  tsdb/write/sort.c \
  tsdb/write/sort.h
if HAVE_CMOCKA
check_PROGRAMS += floats_test tsdb_delete_test tsdb_tap_test
TESTS += floats_test tsdb_delete_test tsdb_tap_test
floats_test_SOURCES = tsdb/write/floats_test.c
floats_test_LDFLAGS = -Wl,--wrap=rwlock_let_in
floats_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_delete_test_SOURCES = tsdb/write/delete_test.c
tsdb_delete_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_tap_test_SOURCES = tsdb/write/tap_test.c
tsdb_tap_test_LDADD = $(TSDB_TEST_LIBS)
endif
