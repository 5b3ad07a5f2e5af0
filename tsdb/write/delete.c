/* SPDX-License-Identifier: Apache-2.0 */
/* A delete is one commit with a fact per partition. When it is synced, the committer removes the rows from the windows and hides them
 * in the parts, in one step with the version. Replay does the same at the same place of the log, so that later rows stay. The call
 * holds seal_lock from the moment it looks at the parts until then: no window becomes a part in between. */
#include "base/alloc.h"
#include "base/log.h"
#include "tsdb/head/tombstone_fact.h"
#include "tsdb/log/record.h"
#include "tsdb/write/committer.h"
#include "tsdb/write/delete.h"
#include "tsdb/write/request.h"

/* The fact of one partition, if it has matching data: of its parts with lower numbers. */
static int add_fact(struct request *r, struct partition *p, uint32_t below_part, const struct matcher *m, size_t n, int64_t after_ms,
		    int64_t until_ms, uint64_t *series, struct err *e)
{
	uint32_t *ids = NULL;
	size_t n_ids = 0;
	partition_load(p);
	struct regex_meter meter = { .max_ns = REGEX_QUERY_NS, .max_name = "10 s of a deletion" };
	int rc = index_select(&p->index, &p->dict_lock, m, n, after_ms, until_ms, &meter, &ids, &n_ids, e);
	if (!rc && n_ids) {
		struct request_record *x = vec_add(&r->records);
		struct tombstone_fact f = { .below_part = MIN(below_part, p->next_part), .after_ms = after_ms, .until_ms = until_ms };
		f.series.v = ids;
		f.series.n = n_ids;
		x->p = partition_enter(p);
		x->kind = RECORD_FACT;
		record_begin(&x->bytes, RECORD_FACT, p->day);
		tombstone_fact_put(&x->bytes, &f);
		*series += n_ids;
	}
	free(ids);
	return rc;
}

static int delete_locked(struct tsdb *db, uint32_t below_part, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
			 uint64_t *series, struct err *e) REQUIRES(db->seal_lock)
{
	struct request *r = NEW(struct request);
	struct version *v = tsdb_version(db, NULL);
	int rc = 0;
	for (size_t i = 0; i < v->n && !rc; i++) {
		int64_t start = (int64_t)v->p[i]->p->day * DAY_MS;
		if (start < until_ms && start + DAY_MS > after_ms)
			rc = add_fact(r, v->p[i]->p, below_part, m, n, after_ms, until_ms, series, e);
	}
	version_unref(v);
	/* With nothing to say it is a commit all the same if the last one failed: what that left in the log must not come back. */
	if (rc || (!r->records.n && !atomic_load(&db->write_failed))) {
		request_free(db, r);
		return rc;
	}
	return tsdb_commit(db, r, e);
}

int tsdb_delete_here(struct tsdb *db, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, uint64_t *ret_series,
		     struct err *e)
{
	return tsdb_delete_below(db, UINT32_MAX, m, n, after_ms, until_ms, ret_series, e);
}

int tsdb_delete_below(struct tsdb *db, uint32_t below_part, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, uint64_t *ret_series,
		      struct err *e)
{
	uint64_t series = 0;
	if (after_ms >= until_ms)
		return err_set(e, ERR_BAD_DATA, "nothing to delete: the end of the range is not after its start");
	tsdb_flush(db);
	mutex_lock(&db->seal_lock);
	int rc = delete_locked(db, below_part, m, n, after_ms, until_ms, &series, e);
	mutex_unlock(&db->seal_lock);
	if (!rc && series) {
		metric_inc(&tsdb_metrics[TM_DELETES]);
		LOG_INFO("msg", "deleted by selector", "series", LOG_NUM(series), "after_ms", LOG_NUM(after_ms), "until_ms",
			 LOG_NUM(until_ms));
	}
	if (ret_series)
		*ret_series = rc ? 0 : series;
	return rc;
}
