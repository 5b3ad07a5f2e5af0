/* SPDX-License-Identifier: Apache-2.0 */
/* What the storage tells of itself: one table. */
#include "tsdb/delete.h"

struct metric tsdb_metrics[TM_COUNT] = {
	[TM_APPENDED_PROFILES] = { "pyrrha_appended_profiles_total", "Profiles that are durable.", METRIC_COUNTER },
	[TM_APPENDED_SAMPLES] = { "pyrrha_appended_samples_total", "Values of profiles that are durable.", METRIC_COUNTER },
	[TM_APPENDED_FLOATS] = { "pyrrha_appended_floats_total", "Float samples that are durable.", METRIC_COUNTER },
	[TM_DUPLICATES] = { "pyrrha_tsdb_duplicate_samples_total", "Profiles and floats refused because their series has that stamp already.", METRIC_COUNTER },
	[TM_TOO_OLD] = { "pyrrha_tsdb_too_old_samples_total", "Profiles and floats refused because retention no longer reaches them.", METRIC_COUNTER },
	[TM_TOO_NEW] = { "pyrrha_tsdb_too_new_samples_total", "Profiles and floats refused because they are over ten minutes ahead.", METRIC_COUNTER },
	[TM_OVER_LIMIT] = { "pyrrha_tsdb_series_over_limit_total", "New series refused because the day has its number (--storage.max-series).", METRIC_COUNTER },
	[TM_TYPE_CONFLICT] = { "pyrrha_tsdb_type_conflicts_total", "Samples refused because their series is of another type.", METRIC_COUNTER },
	[TM_LABEL_SETS_OVER] = { "pyrrha_tsdb_label_sets_over_limit_total", "Samples whose label set was replaced because the series has too many.", METRIC_COUNTER },
	[TM_NAMES_OVER] = { "pyrrha_tsdb_target_samples_other_total", "Samples that became \"(other)\", because their target named too much in a day.", METRIC_COUNTER },
	[TM_COMMITS] = { "pyrrha_tsdb_commits_total", "Group commits of the head log, one sync each.", METRIC_COUNTER },
	[TM_COMMIT_SECONDS] = { "pyrrha_tsdb_commit_duration_seconds", "From gathered to durable and visible.", METRIC_HISTOGRAM },
	[TM_COMMIT_FAILURES] = { "pyrrha_tsdb_commit_failures_total", "Commits that could not be written; their appends were refused.", METRIC_COUNTER },
	[TM_LOG_WRITTEN] = { "pyrrha_tsdb_head_log_written_bytes_total", "Bytes of records put into the head log.", METRIC_COUNTER },
	[TM_LOST_RECORDS] = { "pyrrha_tsdb_lost_records_total", "Log records found missing or damaged at start, and values of sealed parts that cannot be read.", METRIC_COUNTER },
	[TM_LOST_SYMBOLS] = { "pyrrha_tsdb_lost_symbols_total", "Entries of dictionaries (strings, places, stacks, series) that were lost: names read \"(lost)\".", METRIC_COUNTER },
	[TM_WRITE_FAILED] = { "pyrrha_tsdb_write_failed", "Whether the last commit could not be written (a full disk, say): what comes is refused until one can.", METRIC_GAUGE },
	[TM_QUEUE_BYTES] = { "pyrrha_tsdb_queue_bytes", "Appends that wait for the committer.", METRIC_GAUGE },
	[TM_HEAD_SERIES] = { "pyrrha_tsdb_head_series", "Series with data in the open windows.", METRIC_GAUGE },
	[TM_HEAD_WINDOWS] = { "pyrrha_tsdb_head_windows", "Windows in memory.", METRIC_GAUGE },
	[TM_HEAD_BYTES] = { "pyrrha_tsdb_head_bytes", "Memory of the windows.", METRIC_GAUGE },
	[TM_HEAD_LOG_BYTES] = { "pyrrha_tsdb_head_log_bytes", "Size of the head log.", METRIC_GAUGE },
	[TM_CACHE_BYTES] = { "pyrrha_tsdb_block_cache_bytes", "Memory of RocksDB's block cache.", METRIC_GAUGE },
	[TM_DICT_BYTES] = { "pyrrha_tsdb_dictionary_bytes", "Memory of dictionaries and series indexes.", METRIC_GAUGE },
	[TM_DICT_BUDGET] = { "pyrrha_tsdb_dictionary_budget_bytes", "Above this, dictionaries of days that nobody asks about leave memory.", METRIC_GAUGE },
	[TM_HEAD_BUDGET] = { "pyrrha_tsdb_head_budget_bytes", "Above half of this windows are sealed early, above all of it appends wait; what sealing takes counts.", METRIC_GAUGE },
	[TM_SEALING_BYTES] = { "pyrrha_tsdb_sealing_bytes", "Memory of the part that is being written, beside the open windows.", METRIC_GAUGE },
	[TM_LOG_MEMORY] = { "pyrrha_tsdb_head_log_memory_bytes", "Memory of what of the head log is not in a file yet: at most 192 MiB.", METRIC_GAUGE },
	[TM_TABLE_BYTES] = { "pyrrha_tsdb_table_index_bytes", "Memory of the indexes of the partitions' open files, beside the block cache.", METRIC_GAUGE },
	[TM_CACHE_BUDGET] = { "pyrrha_tsdb_block_cache_budget_bytes", "How large RocksDB's block cache may become.", METRIC_GAUGE },
	[TM_LOADED] = { "pyrrha_tsdb_dictionaries_loaded", "Partitions whose dictionary is in memory.", METRIC_GAUGE },
	[TM_EVICTED] = { "pyrrha_tsdb_dictionaries_evicted_total", "Dictionaries that left memory.", METRIC_COUNTER },
	[TM_PART_INDEX_BYTES] = { "pyrrha_tsdb_part_index_bytes", "Memory of what is known of each sealed part: its series and their bounds.", METRIC_GAUGE },
	[TM_WAITING] = { "pyrrha_tsdb_head_waits_total", "Appends that waited because the open windows, and sealing them, were over their budget.", METRIC_COUNTER },
	[TM_PARTITIONS] = { "pyrrha_tsdb_partitions", "Partitions (UTC days) with data.", METRIC_GAUGE },
	[TM_PARTS] = { "pyrrha_tsdb_parts", "Sealed parts.", METRIC_GAUGE },
	[TM_DISK_BYTES] = { "pyrrha_tsdb_partition_bytes", "Size of the partitions on disk.", METRIC_GAUGE },
	[TM_MIN_TIME] = { "pyrrha_tsdb_lowest_timestamp_seconds", "Oldest stamp stored.", METRIC_GAUGE },
	[TM_MAX_TIME] = { "pyrrha_tsdb_highest_timestamp_seconds", "Newest stamp stored.", METRIC_GAUGE },
	[TM_SEALS] = { "pyrrha_tsdb_seals_total", "Windows sealed into parts.", METRIC_COUNTER },
	[TM_SEAL_FAILURES] = { "pyrrha_tsdb_seal_failures_total", "Seals that failed and will be tried again.", METRIC_COUNTER },
	[TM_SEAL_SECONDS] = { "pyrrha_tsdb_seal_duration_seconds", "Time a seal took.", METRIC_HISTOGRAM },
	[TM_SEALED_BYTES] = { "pyrrha_tsdb_sealed_bytes_total", "Bytes of files written by seals.", METRIC_COUNTER },
	[TM_COMPACTIONS] = { "pyrrha_tsdb_compactions_total", "Hours whose several parts were made one.", METRIC_COUNTER },
	[TM_COMPACTION_FAILURES] = { "pyrrha_tsdb_compaction_failures_total", "Hours whose parts could not be made one; they stay.", METRIC_COUNTER },
	[TM_COMPACTION_SECONDS] = { "pyrrha_tsdb_compaction_duration_seconds", "Time that making one part of several took.", METRIC_HISTOGRAM },
	[TM_RETAINED] = { "pyrrha_tsdb_partitions_dropped_total", "Partitions dropped by retention.", METRIC_COUNTER },
	[TM_CLOCK_STEPS] = { "pyrrha_tsdb_clock_steps_total", "Steps of the wall clock by a minute or more, either way.", METRIC_COUNTER },
	[TM_CLOCK_STEP] = { "pyrrha_tsdb_clock_last_step_seconds", "How far the wall clock was set by the last step; negative = back, 0 = there was none.", METRIC_GAUGE },
	[TM_RETENTION_WAITS] = { "pyrrha_tsdb_retention_waits_seconds", "For how long retention drops nothing because of a step of the wall clock.", METRIC_GAUGE },
	[TM_NOTES] = { "pyrrha_tsdb_notes", "Notes that scrapes and rules find again after a restart, as how far an agent's windows were taken.", METRIC_GAUGE },
	[TM_NOTES_BYTES] = { "pyrrha_tsdb_notes_bytes", "Memory of the notes' keys and values.", METRIC_GAUGE },
	[TM_NOTES_OVER] = { "pyrrha_tsdb_notes_over_limit_total", "Notes refused because they are too large or too many.", METRIC_COUNTER },
	[TM_LAST_RECORD] = { "pyrrha_tsdb_last_record", "Number of the last synced log record.", METRIC_GAUGE },
};

static void collect(void *arg)
{
	struct tsdb *db = arg;
	struct tsdb_stats s;
	tsdb_stats(db, &s);
	delete_collect(&s);
	metric_set(&tsdb_metrics[TM_LOST_RECORDS], (double)s.lost_records);
	metric_set(&tsdb_metrics[TM_LOST_SYMBOLS], (double)s.lost_symbols);
	metric_set(&tsdb_metrics[TM_WRITE_FAILED], atomic_load(&db->write_failed));
	struct admin_clock clock;
	tsdb_clock(db, &clock);
	metric_set(&tsdb_metrics[TM_RETENTION_WAITS], (double)clock.retention_waits_ms / 1000);
	metric_set(&tsdb_metrics[TM_QUEUE_BYTES], (double)queue_bytes(db->queue));
	metric_set(&tsdb_metrics[TM_HEAD_SERIES], (double)s.head_series);
	metric_set(&tsdb_metrics[TM_HEAD_WINDOWS], (double)s.head_windows);
	metric_set(&tsdb_metrics[TM_HEAD_BYTES], (double)s.head_bytes);
	metric_set(&tsdb_metrics[TM_HEAD_LOG_BYTES], (double)s.head_log_bytes);
	metric_set(&tsdb_metrics[TM_CACHE_BYTES], (double)s.cache_bytes);
	metric_set(&tsdb_metrics[TM_DICT_BYTES], (double)s.dictionary_bytes);
	metric_set(&tsdb_metrics[TM_LOADED], (double)s.loaded);
	metric_set(&tsdb_metrics[TM_PART_INDEX_BYTES], (double)s.part_index_bytes);
	metric_set(&tsdb_metrics[TM_DICT_BUDGET], (double)db->o.dictionary_bytes);
	metric_set(&tsdb_metrics[TM_LOG_MEMORY], (double)s.head_log_memory);
	metric_set(&tsdb_metrics[TM_TABLE_BYTES], (double)s.table_bytes);
	metric_set(&tsdb_metrics[TM_SEALING_BYTES], (double)s.sealing_bytes);
	metric_set(&tsdb_metrics[TM_HEAD_BUDGET], (double)db->o.head_bytes);
	metric_set(&tsdb_metrics[TM_CACHE_BUDGET], (double)db->o.cache_bytes);
	metric_set(&tsdb_metrics[TM_PARTITIONS], (double)s.partitions);
	metric_set(&tsdb_metrics[TM_PARTS], (double)s.parts);
	metric_set(&tsdb_metrics[TM_DISK_BYTES], (double)s.disk_bytes);
	metric_set(&tsdb_metrics[TM_MIN_TIME], (double)s.min_t_ms / 1e3);
	metric_set(&tsdb_metrics[TM_MAX_TIME], (double)s.max_t_ms / 1e3);
	metric_set(&tsdb_metrics[TM_NOTES], (double)s.notes);
	metric_set(&tsdb_metrics[TM_NOTES_BYTES], (double)s.notes_bytes);
	metric_set(&tsdb_metrics[TM_LAST_RECORD], (double)s.last_record);
}

void tsdb_register_metrics(struct tsdb *db)
{
	metrics_register(tsdb_metrics, ARRAY_LEN(tsdb_metrics));
	metrics_register(delete_metrics, n_delete_metrics);
	metrics_on_collect(collect, db);
}
