# The storage. SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libtsdb.a
EXTRA_DIST += docs/format/head.md docs/format/partition.md
libtsdb_a_CFLAGS = $(AM_CFLAGS) $(ROCKSDB_CFLAGS) $(ZSTD_CFLAGS)
libtsdb_a_SOURCES = \
  tsdb/accounts.c \
  tsdb/accounts.h \
  tsdb/admin.c \
  tsdb/admin.h \
  tsdb/aggregate.c \
  tsdb/aggregate.h \
  tsdb/append.c \
  tsdb/append.h \
  tsdb/bounds.c \
  tsdb/bounds.h \
  tsdb/cells.c \
  tsdb/chunk.c \
  tsdb/chunk.h \
  tsdb/committer.c \
  tsdb/committer.h \
  tsdb/compact.c \
  tsdb/compact.h \
  tsdb/cover.c \
  tsdb/cursor.c \
  tsdb/cursor.h \
  tsdb/damage.c \
  tsdb/damage.h \
  tsdb/db.h \
  tsdb/delete.c \
  tsdb/detail.c \
  tsdb/detail.h \
  tsdb/detail_read.c \
  tsdb/dict.c \
  tsdb/dict.h \
  tsdb/dict_pack.c \
  tsdb/dict_pack.h \
  tsdb/drop.c \
  tsdb/drop.h \
  tsdb/dropped.c \
  tsdb/dropped.h \
  tsdb/evict.c \
  tsdb/evict.h \
  tsdb/facts.c \
  tsdb/facts.h \
  tsdb/format.c \
  tsdb/format.h \
  tsdb/head_sums.c \
  tsdb/head_sums.h \
  tsdb/hlog.c \
  tsdb/hlog.h \
  tsdb/index.c \
  tsdb/index.h \
  tsdb/inspect.c \
  tsdb/inspect.h \
  tsdb/join.c \
  tsdb/join.h \
  tsdb/keep.c \
  tsdb/keep.h \
  tsdb/list.c \
  tsdb/list.h \
  tsdb/lock_ranks.h \
  tsdb/mask_fact.c \
  tsdb/mask_fact.h \
  tsdb/masks.c \
  tsdb/masks.h \
  tsdb/match.c \
  tsdb/match.h \
  tsdb/matches.c \
  tsdb/merge.c \
  tsdb/metrics.c \
  tsdb/metrics.h \
  tsdb/name_finder.c \
  tsdb/name_finder.h \
  tsdb/names.c \
  tsdb/names.h \
  tsdb/notes.c \
  tsdb/notes.h \
  tsdb/own.c \
  tsdb/own.h \
  tsdb/part.c \
  tsdb/part.h \
  tsdb/part_list.c \
  tsdb/part_private.h \
  tsdb/part_write.c \
  tsdb/partition.c \
  tsdb/partition_load.c \
  tsdb/pdb.c \
  tsdb/plan.c \
  tsdb/plan.h \
  tsdb/readpart.c \
  tsdb/readpart.h \
  tsdb/rebuild.c \
  tsdb/record.c \
  tsdb/record.h \
  tsdb/remove.c \
  tsdb/remove.h \
  tsdb/replay.c \
  tsdb/replay.h \
  tsdb/request.c \
  tsdb/request.h \
  tsdb/rescue.c \
  tsdb/rescue.h \
  tsdb/retention.c \
  tsdb/retention.h \
  tsdb/retention_clock.c \
  tsdb/retention_clock.h \
  tsdb/rewrite.c \
  tsdb/rewrite.h \
  tsdb/rocks.c \
  tsdb/rocks.h \
  tsdb/rollup.c \
  tsdb/rollup.h \
  tsdb/salvage.c \
  tsdb/salvage.h \
  tsdb/seal.c \
  tsdb/seal.h \
  tsdb/seal_write.c \
  tsdb/sealed.c \
  tsdb/sealed.h \
  tsdb/sealed_points.c \
  tsdb/sealed_sums.c \
  tsdb/sealer.c \
  tsdb/sealer.h \
  tsdb/select.c \
  tsdb/set_asks.c \
  tsdb/set_asks.h \
  tsdb/snapshot.c \
  tsdb/sort.c \
  tsdb/sort.h \
  tsdb/space.c \
  tsdb/space.h \
  tsdb/stats.c \
  tsdb/steps.c \
  tsdb/steps.h \
  tsdb/sums.c \
  tsdb/sums_put.c \
  tsdb/sums_put.h \
  tsdb/table.c \
  tsdb/table.h \
  tsdb/tsdb.c \
  tsdb/tsdb.h \
  tsdb/view.c \
  tsdb/view.h \
  tsdb/view_open.c \
  tsdb/waiting.c \
  tsdb/wal.c \
  tsdb/wal.h \
  tsdb/window.c \
  tsdb/window.h

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
TSDB_TESTS = accounts_test aggregate_test budget_test cells_test compact_test cover_test dict_pack_test evict_test flip_test floats_test head_sums_test notes_test places_test retention_clock_test shares_test tsdb_codec_test tsdb_delete_test \
  tsdb_fault_test tsdb_format_test tsdb_midnight_test tsdb_model_test tsdb_names_test tsdb_points_test tsdb_tap_test tsdb_test
check_PROGRAMS += $(TSDB_TESTS)
TESTS += $(TSDB_TESTS)
accounts_test_SOURCES = tsdb/accounts_test.c
accounts_test_LDADD = $(TSDB_TEST_LIBS)
cells_test_SOURCES = tsdb/cells_test.c
cells_test_LDADD = $(TSDB_TEST_LIBS)
aggregate_test_SOURCES = tsdb/aggregate_test.c
aggregate_test_LDADD = $(TSDB_TEST_LIBS)
budget_test_SOURCES = tsdb/budget_test.c
budget_test_LDADD = $(TSDB_TEST_LIBS)
compact_test_SOURCES = tsdb/compact_test.c
compact_test_LDADD = $(TSDB_TEST_LIBS)
cover_test_SOURCES = tsdb/cover_test.c
cover_test_LDADD = $(TSDB_TEST_LIBS)
dict_pack_test_SOURCES = tsdb/dict_pack_test.c
dict_pack_test_LDADD = $(TSDB_TEST_LIBS)
evict_test_SOURCES = tsdb/evict_test.c
evict_test_LDADD = $(TSDB_TEST_LIBS)
flip_test_SOURCES = tsdb/flip_test.c
flip_test_LDADD = $(TSDB_TEST_LIBS)
floats_test_SOURCES = tsdb/floats_test.c
floats_test_LDFLAGS = -Wl,--wrap=rwlock_let_in
floats_test_LDADD = $(TSDB_TEST_LIBS)
notes_test_SOURCES = tsdb/notes_test.c
notes_test_LDADD = $(TSDB_TEST_LIBS)
places_test_SOURCES = tsdb/places_test.c
places_test_LDADD = $(TSDB_TEST_LIBS)
retention_clock_test_SOURCES = tsdb/retention_clock_test.c
shares_test_SOURCES = tsdb/shares_test.c
shares_test_LDADD = $(TSDB_TEST_LIBS)
retention_clock_test_LDADD = $(TSDB_TEST_LIBS)
head_sums_test_SOURCES = tsdb/head_sums_test.c
head_sums_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_codec_test_SOURCES = tsdb/codec_test.c
tsdb_codec_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_delete_test_SOURCES = tsdb/delete_test.c
tsdb_delete_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_fault_test_SOURCES = tsdb/tsdb_fault_test.c
tsdb_fault_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_format_test_SOURCES = tsdb/format_test.c
tsdb_format_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_midnight_test_SOURCES = tsdb/midnight_test.c
tsdb_midnight_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_model_test_SOURCES = tsdb/tsdb_model_test.c
tsdb_model_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_names_test_SOURCES = tsdb/names_test.c
tsdb_names_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_points_test_SOURCES = tsdb/points_test.c
tsdb_points_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_tap_test_SOURCES = tsdb/tap_test.c
tsdb_tap_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_test_SOURCES = tsdb/tsdb_test.c
tsdb_test_LDADD = $(TSDB_TEST_LIBS)
endif
