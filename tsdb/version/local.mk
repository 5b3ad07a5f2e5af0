# tsdb/version: partitions and versions, what is hidden or named late, how long dictionaries stay.
TSDB_VERSION_SOURCES = \
  tsdb/version/accounts.c \
  tsdb/version/accounts.h \
  tsdb/version/bounds.c \
  tsdb/version/bounds.h \
  tsdb/version/db.h \
  tsdb/version/dict_union.c \
  tsdb/version/dict_union.h \
  tsdb/version/dropped.c \
  tsdb/version/dropped.h \
  tsdb/version/evict.c \
  tsdb/version/evict.h \
  tsdb/version/facts.c \
  tsdb/version/facts.h \
  tsdb/version/late_names.c \
  tsdb/version/late_names.h \
  tsdb/version/partition.c \
  tsdb/version/partition_load.c \
  tsdb/version/query_dict.c \
  tsdb/version/query_dict.h \
  tsdb/version/retention_clock.c \
  tsdb/version/retention_clock.h \
  tsdb/version/tombstones.c \
  tsdb/version/tombstones.h \
  tsdb/version/waiting.c
if HAVE_CMOCKA
check_PROGRAMS += accounts_test evict_test retention_clock_test
TESTS += accounts_test evict_test retention_clock_test
accounts_test_SOURCES = tsdb/version/accounts_test.c
accounts_test_LDADD = $(TSDB_TEST_LIBS)
evict_test_SOURCES = tsdb/version/evict_test.c
evict_test_LDADD = $(TSDB_TEST_LIBS)
retention_clock_test_SOURCES = tsdb/version/retention_clock_test.c
retention_clock_test_LDADD = $(TSDB_TEST_LIBS)
endif
