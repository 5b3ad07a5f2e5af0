# tsdb/upkeep: what the sealer does later.
TSDB_UPKEEP_SOURCES = \
  tsdb/upkeep/compact.c \
  tsdb/upkeep/compact.h \
  tsdb/upkeep/name_finder.c \
  tsdb/upkeep/name_finder.h \
  tsdb/upkeep/partition_drop.c \
  tsdb/upkeep/partition_drop.h \
  tsdb/upkeep/retention.c \
  tsdb/upkeep/retention.h \
  tsdb/upkeep/retention_rules.c \
  tsdb/upkeep/retention_rules.h \
  tsdb/upkeep/rollup.c \
  tsdb/upkeep/rollup.h \
  tsdb/upkeep/sealer.c \
  tsdb/upkeep/sealer.h \
  tsdb/upkeep/tombstone_clean.c \
  tsdb/upkeep/tombstone_clean.h
if HAVE_CMOCKA
check_PROGRAMS += compact_test late_names_test
TESTS += compact_test late_names_test
compact_test_SOURCES = tsdb/upkeep/compact_test.c
compact_test_LDADD = $(TSDB_TEST_LIBS)
late_names_test_SOURCES = tsdb/upkeep/late_names_test.c
late_names_test_LDADD = $(TSDB_TEST_LIBS)
endif
