# tsdb/seal: an hour in memory becomes a part.
TSDB_SEAL_SOURCES = \
  tsdb/seal/aggregate.c \
  tsdb/seal/aggregate.h \
  tsdb/seal/seal.c \
  tsdb/seal/seal.h \
  tsdb/seal/seal_write.c
if HAVE_CMOCKA
check_PROGRAMS += aggregate_test
TESTS += aggregate_test
aggregate_test_SOURCES = tsdb/seal/aggregate_test.c
aggregate_test_LDADD = $(TSDB_TEST_LIBS)
endif
