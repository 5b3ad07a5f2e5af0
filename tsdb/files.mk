# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libtsdb_a_SOURCES = \
  tsdb/admin.c \
  tsdb/admin.h \
  tsdb/bucket/bucket_server.c \
  tsdb/bucket/bucket_server.h \
  tsdb/bucket/catalogue.c \
  tsdb/bucket/catalogue.h \
  tsdb/bucket/day_image.c \
  tsdb/bucket/day_image.h \
  tsdb/bucket/day_symbols.c \
  tsdb/bucket/day_symbols.h \
  tsdb/bucket/generation.c \
  tsdb/bucket/generation.h \
  tsdb/bucket/object_io.c \
  tsdb/bucket/object_io.h \
  tsdb/bucket/object_names.c \
  tsdb/bucket/object_names.h \
  tsdb/bucket_copy.c \
  tsdb/bucketkit.h \
  tsdb/cached/cached_day.c \
  tsdb/cached/cached_day.h \
  tsdb/cached/cached_days.c \
  tsdb/cached/cached_days.h \
  tsdb/cached/cached_fetch.c \
  tsdb/cached/cached_fetch.h \
  tsdb/cached/cached_file.c \
  tsdb/cached/cached_file.h \
  tsdb/cached/cached_server.h \
  tsdb/dict/dict.c \
  tsdb/dict/dict.h \
  tsdb/dict/dict_names.c \
  tsdb/dict/dict_names.h \
  tsdb/dict/dict_pack.c \
  tsdb/dict/dict_pack.h \
  tsdb/dict/index.c \
  tsdb/dict/index.h \
  tsdb/disk/manifest.c \
  tsdb/disk/manifest.h \
  tsdb/disk/metrics.c \
  tsdb/disk/metrics.h \
  tsdb/disk/rocks.c \
  tsdb/disk/rocks.h \
  tsdb/disk/table.c \
  tsdb/disk/table.h \
  tsdb/disk/text.c \
  tsdb/disk/text.h \
  tsdb/disk/wal.c \
  tsdb/disk/wal.h \
  tsdb/format.c \
  tsdb/format.h \
  tsdb/head/chunk.c \
  tsdb/head/chunk.h \
  tsdb/head/head_sums.c \
  tsdb/head/head_sums.h \
  tsdb/head/remove.c \
  tsdb/head/remove.h \
  tsdb/head/tombstone_fact.c \
  tsdb/head/tombstone_fact.h \
  tsdb/head/window.c \
  tsdb/head/window.h \
  tsdb/inspect.c \
  tsdb/inspect.h \
  tsdb/log/hlog.c \
  tsdb/log/hlog.h \
  tsdb/log/holes.c \
  tsdb/log/holes.h \
  tsdb/log/log_end.c \
  tsdb/log/log_end.h \
  tsdb/log/log_extents.c \
  tsdb/log/log_extents.h \
  tsdb/log/log_repair.c \
  tsdb/log/log_repair.h \
  tsdb/log/notes.c \
  tsdb/log/notes.h \
  tsdb/log/record.c \
  tsdb/log/record.h \
  tsdb/part/damage.c \
  tsdb/part/damage.h \
  tsdb/part/detail.c \
  tsdb/part/detail.h \
  tsdb/part/detail_read.c \
  tsdb/part/differences.c \
  tsdb/part/differences.h \
  tsdb/part/part.c \
  tsdb/part/part.h \
  tsdb/part/part_cover.c \
  tsdb/part/part_cover.h \
  tsdb/part/part_ends.c \
  tsdb/part/part_ends.h \
  tsdb/part/part_ingest.c \
  tsdb/part/part_list.c \
  tsdb/part/part_private.h \
  tsdb/part/part_read.c \
  tsdb/part/part_read.h \
  tsdb/part/part_runs.c \
  tsdb/part/part_runs.h \
  tsdb/part/part_stand_in.c \
  tsdb/part/part_write.c \
  tsdb/part/partition_bare.c \
  tsdb/part/partition_db.c \
  tsdb/part/partition_repair.c \
  tsdb/part/salvage.c \
  tsdb/part/salvage.h \
  tsdb/part/sealed.c \
  tsdb/part/sealed.h \
  tsdb/part/sealed_points.c \
  tsdb/part/sealed_sums.c \
  tsdb/read/column_filter.c \
  tsdb/read/column_filter.h \
  tsdb/read/column_names.c \
  tsdb/read/column_names.h \
  tsdb/read/cover.c \
  tsdb/read/matches.c \
  tsdb/read/merge.c \
  tsdb/read/merge_result.c \
  tsdb/read/merge_result.h \
  tsdb/read/plan.c \
  tsdb/read/plan.h \
  tsdb/read/point_list.c \
  tsdb/read/point_list.h \
  tsdb/read/points.c \
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
  tsdb/read/view_cached.c \
  tsdb/read/view_cached.h \
  tsdb/read/view_open.c \
  tsdb/seal/aggregate.c \
  tsdb/seal/aggregate.h \
  tsdb/seal/seal.c \
  tsdb/seal/seal.h \
  tsdb/seal/seal_write.c \
  tsdb/snapshot.c \
  tsdb/snapshot.h \
  tsdb/snapshot_mark.c \
  tsdb/snapshot_mark.h \
  tsdb/stats.c \
  tsdb/testkit.h \
  tsdb/transfer/collect.c \
  tsdb/transfer/copy.c \
  tsdb/transfer/damaged.c \
  tsdb/transfer/deletes.c \
  tsdb/transfer/generations.c \
  tsdb/transfer/hidden.c \
  tsdb/transfer/hidden.h \
  tsdb/transfer/mend.c \
  tsdb/transfer/opening.c \
  tsdb/transfer/others.c \
  tsdb/transfer/parallel.c \
  tsdb/transfer/retrieve.c \
  tsdb/transfer/space.c \
  tsdb/transfer/survey.c \
  tsdb/transfer/transfer.c \
  tsdb/transfer/transfer.h \
  tsdb/transfer/transfer_private.h \
  tsdb/transfer/tries.c \
  tsdb/transfer/upload.c \
  tsdb/tsdb.c \
  tsdb/tsdb.h \
  tsdb/upkeep/compact.c \
  tsdb/upkeep/compact.h \
  tsdb/upkeep/name_finder.c \
  tsdb/upkeep/name_finder.h \
  tsdb/upkeep/partition_drop.c \
  tsdb/upkeep/partition_drop.h \
  tsdb/upkeep/partition_open.c \
  tsdb/upkeep/partition_open.h \
  tsdb/upkeep/retention.c \
  tsdb/upkeep/retention_rules.c \
  tsdb/upkeep/retention_rules.h \
  tsdb/upkeep/rollup.c \
  tsdb/upkeep/rollup.h \
  tsdb/upkeep/sealer.c \
  tsdb/upkeep/sealer.h \
  tsdb/upkeep/tombstone_clean.c \
  tsdb/upkeep/tombstone_clean.h \
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
  tsdb/version/waiting.c \
  tsdb/write/append.c \
  tsdb/write/append.h \
  tsdb/write/committer.c \
  tsdb/write/committer.h \
  tsdb/write/delete.c \
  tsdb/write/delete.h \
  tsdb/write/hole_find.c \
  tsdb/write/hole_find.h \
  tsdb/write/replay.c \
  tsdb/write/replay.h \
  tsdb/write/request.c \
  tsdb/write/request.h \
  tsdb/write/sort.c \
  tsdb/write/sort.h \
  $(NULL)
TSDB_TESTS = \
  accounts_test \
  aggregate_test \
  budget_test \
  cached_test \
  compact_test \
  cover_test \
  dict_names_test \
  dict_pack_test \
  differences_test \
  evict_test \
  failures_test \
  flip_test \
  floats_test \
  generation_test \
  head_sums_test \
  holes_test \
  late_names_test \
  lives_test \
  marks_test \
  merge_names_test \
  notes_test \
  object_names_test \
  others_test \
  part_cover_test \
  part_runs_test \
  places_test \
  plan_test \
  point_list_test \
  puts_test \
  repair_test \
  replay_test \
  retention_clock_test \
  shares_test \
  transfer_test \
  tsdb_codec_test \
  tsdb_delete_test \
  tsdb_fault_test \
  tsdb_format_test \
  tsdb_midnight_test \
  tsdb_model_test \
  tsdb_points_test \
  tsdb_tap_test \
  tsdb_test \
  value_scan_test \
  weigh_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(TSDB_TESTS)
TESTS += $(TSDB_TESTS)
accounts_test_SOURCES = tsdb/version/accounts_test.c
accounts_test_LDADD = $(TSDB_TEST_LIBS)
aggregate_test_SOURCES = tsdb/seal/aggregate_test.c
aggregate_test_LDADD = $(TSDB_TEST_LIBS)
budget_test_SOURCES = tsdb/budget_test.c
budget_test_LDADD = $(TSDB_TEST_LIBS)
cached_test_SOURCES = tsdb/cached/cached_test.c
cached_test_LDADD = $(TSDB_TEST_LIBS)
compact_test_SOURCES = tsdb/upkeep/compact_test.c
compact_test_LDADD = $(TSDB_TEST_LIBS)
cover_test_SOURCES = tsdb/read/cover_test.c
cover_test_LDADD = $(TSDB_TEST_LIBS)
dict_names_test_SOURCES = tsdb/dict/dict_names_test.c
dict_names_test_LDADD = $(TSDB_TEST_LIBS)
dict_pack_test_SOURCES = tsdb/dict/dict_pack_test.c
dict_pack_test_LDADD = $(TSDB_TEST_LIBS)
differences_test_SOURCES = tsdb/part/differences_test.c
differences_test_LDADD = $(TSDB_TEST_LIBS)
evict_test_SOURCES = tsdb/version/evict_test.c
evict_test_LDADD = $(TSDB_TEST_LIBS)
failures_test_SOURCES = tsdb/transfer/failures_test.c
failures_test_LDADD = $(TSDB_TEST_LIBS)
flip_test_SOURCES = tsdb/flip_test.c
flip_test_LDADD = $(TSDB_TEST_LIBS)
floats_test_SOURCES = tsdb/write/floats_test.c
floats_test_LDADD = $(TSDB_TEST_LIBS)
generation_test_SOURCES = tsdb/bucket/generation_test.c
generation_test_LDADD = $(TSDB_TEST_LIBS)
head_sums_test_SOURCES = tsdb/head/head_sums_test.c
head_sums_test_LDADD = $(TSDB_TEST_LIBS)
holes_test_SOURCES = tsdb/holes_test.c
holes_test_LDADD = $(TSDB_TEST_LIBS)
late_names_test_SOURCES = tsdb/upkeep/late_names_test.c
late_names_test_LDADD = $(TSDB_TEST_LIBS)
lives_test_SOURCES = tsdb/transfer/lives_test.c
lives_test_LDADD = $(TSDB_TEST_LIBS)
marks_test_SOURCES = tsdb/log/marks_test.c
marks_test_LDADD = $(TSDB_TEST_LIBS)
merge_names_test_SOURCES = tsdb/read/merge_names_test.c
merge_names_test_LDADD = $(TSDB_TEST_LIBS)
notes_test_SOURCES = tsdb/log/notes_test.c
notes_test_LDADD = $(TSDB_TEST_LIBS)
object_names_test_SOURCES = tsdb/bucket/object_names_test.c
object_names_test_LDADD = $(TSDB_TEST_LIBS)
others_test_SOURCES = tsdb/transfer/others_test.c
others_test_LDADD = $(TSDB_TEST_LIBS)
part_cover_test_SOURCES = tsdb/part/part_cover_test.c
part_cover_test_LDADD = $(TSDB_TEST_LIBS)
part_runs_test_SOURCES = tsdb/part/part_runs_test.c
part_runs_test_LDADD = $(TSDB_TEST_LIBS)
places_test_SOURCES = tsdb/part/places_test.c
places_test_LDADD = $(TSDB_TEST_LIBS)
plan_test_SOURCES = tsdb/read/plan_test.c
plan_test_LDADD = $(TSDB_TEST_LIBS)
point_list_test_SOURCES = tsdb/read/point_list_test.c
point_list_test_LDADD = $(TSDB_TEST_LIBS)
puts_test_SOURCES = tsdb/transfer/puts_test.c
puts_test_LDADD = $(TSDB_TEST_LIBS)
repair_test_SOURCES = tsdb/transfer/repair_test.c
repair_test_LDADD = $(TSDB_TEST_LIBS)
replay_test_SOURCES = tsdb/write/replay_test.c
replay_test_LDADD = $(TSDB_TEST_LIBS)
retention_clock_test_SOURCES = tsdb/version/retention_clock_test.c
retention_clock_test_LDADD = $(TSDB_TEST_LIBS)
shares_test_SOURCES = tsdb/read/shares_test.c
shares_test_LDADD = $(TSDB_TEST_LIBS)
transfer_test_SOURCES = tsdb/transfer/transfer_test.c
transfer_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_codec_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_delete_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_fault_test_SOURCES = tsdb/tsdb_fault_test.c
tsdb_fault_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_format_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_midnight_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_model_test_SOURCES = tsdb/tsdb_model_test.c
tsdb_model_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_points_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_tap_test_LDADD = $(TSDB_TEST_LIBS)
tsdb_test_SOURCES = tsdb/tsdb_test.c
tsdb_test_LDADD = $(TSDB_TEST_LIBS)
value_scan_test_SOURCES = tsdb/read/value_scan_test.c
value_scan_test_LDADD = $(TSDB_TEST_LIBS)
weigh_test_SOURCES = tsdb/read/weigh_test.c
weigh_test_LDADD = $(TSDB_TEST_LIBS)
endif
