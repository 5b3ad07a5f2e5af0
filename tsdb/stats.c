/* SPDX-License-Identifier: Apache-2.0 */
/* The current content of the storage, counted over partitions, parts and windows, and as metrics. */
#include "tsdb/cached/cached_days.h"
#include "tsdb/part/part_cover.h"
#include "tsdb/transfer/transfer.h"
#include "tsdb/version/db.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/version/evict.h"
#include "tsdb/version/tombstones.h"

static void window_stats(struct window *w, struct tsdb_stats *ret)
{
	rwlock_read(&w->lock);
	ret->head_windows++;
	ret->head_bytes += window_memory(w);
	ret->head_series += w->chunks.n + w->fchunks.n;
	rwlock_unlock(&w->lock);
}

static void bounds(struct tsdb_stats *ret, int64_t lo, int64_t hi)
{
	if (lo > hi)
		return;
	if (!ret->min_t_ms || lo < ret->min_t_ms)
		ret->min_t_ms = lo;
	ret->max_t_ms = MAX(ret->max_t_ms, hi);
}

static void partition_stats(struct partition *p, struct tsdb_stats *ret)
{
	ret->loaded++;
	ret->dictionary_bytes += evict_bytes(p);
	rwlock_read(&p->dict_lock);
	ret->series += p->index.series.n;
	for (size_t i = 0; i < p->index.series.n; i++)
		bounds(ret, atomic_load(&p->index.series.v[i]->min_t), atomic_load(&p->index.series.v[i]->max_t));
	rwlock_unlock(&p->dict_lock);
}

static void part_stats(const struct part *x, bool loaded, struct tsdb_stats *ret)
{
	ret->parts++;
	ret->part_index_bytes += part_index_bytes(x);
	for (size_t i = 0; !loaded && x->level == LEVEL_HOUR && i < x->series.n; i++)
		bounds(ret, part_start_ms(x) + x->series.v[i].min_ms, part_start_ms(x) + x->series.v[i].max_ms);
}

void tsdb_stats(struct tsdb *db, struct tsdb_stats *ret)
{
	*ret = (struct tsdb_stats){
		.appended_profiles = atomic_load(&db->appended_profiles), .appended_samples = atomic_load(&db->appended_samples),
		.appended_floats = atomic_load(&db->appended_floats), .lost_records = atomic_load(&db->lost_records),
		.lost_symbols = atomic_load(&db->lost_symbols),
		.cache_bytes = rocksdb_cache_get_usage(db->cache), .sealing_bytes = atomic_load(&db->sealing_bytes),
		.first_record = hlog_first(db->log), .last_record = hlog_last(db->log), .head_log_bytes = hlog_bytes(db->log),
		.head_log_memory = hlog_memory(db->log), .holes = atomic_load(&db->holes.n_harmful),
	};
	notes_count(hlog_notes(db->log), &ret->notes, &ret->notes_bytes);
	struct version *v = tsdb_version(db, NULL);
	ret->partitions = v->n;
	for (size_t i = 0; i < v->n; i++) {
		bool loaded = atomic_load(&v->p[i]->p->loaded);
		if (loaded)
			partition_stats(v->p[i]->p, ret);
		ret->dictionary_bytes += evict_series_bytes(v->p[i]->p);
		for (size_t k = 0; k < v->p[i]->n_parts; k++)
			part_stats(v->p[i]->parts[k], loaded, ret);
		ret->tombstones += v->p[i]->tombstones ? v->p[i]->tombstones->v.n : 0;
		if (v->p[i]->n_parts) {
			ret->disk_bytes += partition_db_bytes(v->p[i]->parts[0]->db);
			ret->table_bytes += partition_db_table_memory(v->p[i]->parts[0]->db);
		}
		for (size_t k = 0; k < v->p[i]->n_windows; k++)
			window_stats(v->p[i]->windows[k], ret);
	}
	ret->part_index_bytes += cached_days_index_bytes(db);
	ret->dictionary_bytes += cached_days_memory(db) + dict_unions_bytes(db->dict_unions) + dict_unions_names_bytes(db) + atomic_load(&db->query_dict_bytes);
	version_unref(v);
}

static void stats_bucket(struct tsdb *db)
{
	struct admin_bucket b;
	transfer_status(db, &b);
	if (!b.configured)
		return;
	metric_set(&tsdb_metrics[TM_BUCKET_STATE], !strcmp(b.state, "writing") ? 1 : !strcmp(b.state, "stopped") ? -1 : 0);
	metric_set(&tsdb_metrics[TM_BUCKET_DAYS], (double)b.days);
	metric_set(&tsdb_metrics[TM_BUCKET_BYTES], (double)b.bytes);
	metric_set(&tsdb_metrics[TM_BUCKET_WAITING], (double)b.waiting_parts);
	metric_set(&tsdb_metrics[TM_BUCKET_WAITING_BYTES], (double)b.waiting_bytes);
	metric_set(&tsdb_metrics[TM_BUCKET_WAITING_SECONDS], b.waiting_since_ms ? (double)(tsdb_now_ms(db) - b.waiting_since_ms) / 1e3 : 0);
	metric_set(&tsdb_metrics[TM_BUCKET_ABSENT], (double)b.absent_days);
	metric_set(&tsdb_metrics[TM_BUCKET_CACHE_BYTES], (double)b.cache_bytes);
	metric_set(&tsdb_metrics[TM_BUCKET_CACHE_BUDGET], (double)b.cache_max_bytes);
	metric_set(&tsdb_metrics[TM_BUCKET_READS], (double)b.reads);
	metric_set(&tsdb_metrics[TM_BUCKET_READ_BYTES], (double)b.read_bytes);
	metric_set(&tsdb_metrics[TM_BUCKET_READ_FAILURES], (double)b.read_failures);
	metric_set(&tsdb_metrics[TM_BUCKET_OTHER_SERVERS], (double)b.other_servers);
	metric_set(&tsdb_metrics[TM_BUCKET_OTHER_DAYS], (double)b.other_days);
	metric_set(&tsdb_metrics[TM_BUCKET_DAMAGED], (double)b.damaged_objects);
}

static void collect(void *arg)
{
	struct tsdb *db = arg;
	struct tsdb_stats s;
	tsdb_stats(db, &s);
	metric_set(&tsdb_metrics[TM_LOST_RECORDS], (double)s.lost_records);
	metric_set(&tsdb_metrics[TM_LOST_SYMBOLS], (double)s.lost_symbols);
	metric_set(&tsdb_metrics[TM_HOLES], (double)s.holes);
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
	metric_set(&tsdb_metrics[TM_LOG_BUDGET], (double)db->o.log_bytes);
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
	metric_set(&tsdb_metrics[TM_MASKS], (double)s.tombstones);
	metric_set(&tsdb_metrics[TM_LAST_RECORD], (double)s.last_record);
	stats_bucket(db);
}

void tsdb_register_metrics(struct tsdb *db)
{
	metrics_register(tsdb_metrics, ARRAY_LEN(tsdb_metrics));
	metrics_on_collect(collect, db);
}
