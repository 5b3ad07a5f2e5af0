# tsdb/read: what queries ask.
TSDB_READ_SOURCES = \
  tsdb/read/column_filter.c \
  tsdb/read/column_filter.h \
  tsdb/read/cover.c \
  tsdb/read/matches.c \
  tsdb/read/merge.c \
  tsdb/read/plan.c \
  tsdb/read/plan.h \
  tsdb/read/scratch.c \
  tsdb/read/scratch.h \
  tsdb/read/select.c \
  tsdb/read/set_requests.c \
  tsdb/read/set_requests.h \
  tsdb/read/steps.c \
  tsdb/read/steps.h \
  tsdb/read/sums.c \
  tsdb/read/sums_put.c \
  tsdb/read/sums_put.h \
  tsdb/read/value_scan.c \
  tsdb/read/view.c \
  tsdb/read/view.h \
  tsdb/read/view_open.c
if HAVE_CMOCKA
check_PROGRAMS += cover_test shares_test tsdb_points_test value_scan_test
TESTS += cover_test shares_test tsdb_points_test value_scan_test
value_scan_test_SOURCES = tsdb/read/value_scan_test.c
value_scan_test_LDADD = $(TSDB_TEST_LIBS)
cover_test_SOURCES = tsdb/read/cover_test.c
cover_test_LDADD = $(TSDB_TEST_LIBS)
shares_test_SOURCES = tsdb/read/shares_test.c
shares_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_points_test_SOURCES = tsdb/read/points_test.c
tsdb_points_test_LDADD = $(TSDB_TEST_LIBS)
endif
