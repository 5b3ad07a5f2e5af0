/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/admin/tsdb/…: deleting, cleaning, snapshots, as in Prometheus, and /api/v1/status/tsdb and …/bucket. The first are off unless a flag is
 * set, because anyone who reaches the port could destroy data. */
#include <stdlib.h>

#include "base/clock.h"
#include "model/admin.h"
#include "web/answer.h"
#include "web/internal.h"

#define STATUS_LIMIT 10
#define STATUS_LIMIT_MAX 10000

bool admin_allowed(struct httpd_request *rq, const struct web *w)
{
	struct err e;
	if (!w->o.enable_admin)
		err_set(&e, ERR_UNAVAILABLE, "admin APIs disabled: start with --web.enable-admin-api");
	else if (!w->admin)
		err_set(&e, ERR_UNAVAILABLE, "there is no storage");
	else
		return true;
	answer_error(rq, &e);
	return false;
}

static int delete_all(struct web *w, const struct httpd_request *rq, struct err *e)
{
	struct selectors s = { 0 };
	int64_t after, until;
	int rc = param_span(rq, true, &after, &until, e);
	if (!rc)
		rc = param_selectors(w, rq, &s, e);
	if (!rc && !s.n)
		rc = err_set(e, ERR_BAD_DATA, "no match[] parameter provided");
	for (size_t i = 0; i < s.n && !rc; i++)
		rc = w->admin->delete_series(w->admin, s.v[i].m, s.v[i].n, after, until, NULL, e);
	selectors_release(&s);
	return rc;
}

/* How many deletes are applied here and not in the bucket. */
static uint64_t deletes_waiting(struct web *w)
{
	struct admin_bucket x = { .configured = false };
	if (w->admin->bucket)
		w->admin->bucket(w->admin, &x);
	return x.waiting_deletes;
}

void serve_delete_series(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e;
	if (!admin_allowed(rq, w))
		return;
	if (delete_all(w, rq, &e)) {
		answer_error(rq, &e);
		return;
	}
	uint64_t waiting = deletes_waiting(w);
	if (!waiting) {
		httpd_status(rq, 204);
		return;
	}
	const struct view warning = VIEW("the bucket does not have the delete yet: the server puts it when the bucket answers. Until then, days that are in the bucket alone keep the deleted rows");
	struct buf *b = answer_begin(rq);
	json_object_begin(b);
	json_field_count(b, "waitingDeletes", waiting);
	json_object_end(b);
	answer_end(rq, &warning, 1, NULL, 0);
}

void serve_clean_tombstones(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e;
	if (!admin_allowed(rq, w))
		return;
	if (w->admin->clean(w->admin, &e))
		answer_error(rq, &e);
	else
		httpd_status(rq, 204);
}

void serve_snapshot(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e;
	char name[ADMIN_NAME_LEN];
	bool skip;
	if (!admin_allowed(rq, w))
		return;
	int rc = param_bool(rq, "skip_head", false, &skip, &e);
	if (!rc && skip)
		rc = param_error(&e, "skip_head", "a snapshot always has the head; leave it out");
	if (!rc)
		rc = w->admin->snapshot(w->admin, name, &e);
	if (rc) {
		answer_error(rq, &e);
	} else {
		struct buf *b = answer_begin(rq);
		json_object_begin(b);
		json_field_text(b, "name", name);
		json_object_end(b);
		answer_end(rq, NULL, 0, NULL, 0);
	}
}

/* ---- status ---- */

static void put_list(struct answer_rows *rows, const char *key, const struct admin_list *l)
{
	struct buf *b = rows->b;
	json_array_begin_at(b, key);
	for (size_t i = 0; i < l->n && answer_rows_more(rows); i++) {
		json_object_begin(b);
		json_field(b, "name", l->v[i].name);
		json_field_count(b, "value", l->v[i].value);
		json_object_end(b);
	}
	json_array_end(b);
}

static void put_status(struct answer_rows *rows, const struct admin_status *s)
{
	struct buf *b = rows->b;
	json_object_begin(b);
	json_object_begin_at(b, "headStats");
	json_field_count(b, "numSeries", s->num_series);
	json_field_count(b, "numLabelPairs", s->num_label_pairs);
	json_field_count(b, "chunkCount", s->chunks);
	json_field_int(b, "minTime", s->min_t_ms);
	json_field_int(b, "maxTime", s->max_t_ms);
	json_object_end(b);
	put_list(rows, "seriesCountByMetricName", &s->series_by_name);
	put_list(rows, "labelValueCountByLabelName", &s->values_by_label);
	put_list(rows, "memoryInBytesByLabelName", &s->bytes_by_label);
	put_list(rows, "seriesCountByLabelValuePair", &s->series_by_pair);
	json_object_begin_at(b, "storage");
	json_field_count(b, "partitions", s->partitions);
	json_field_count(b, "parts", s->parts);
	json_field_count(b, "windows", s->head_windows);
	json_field_count(b, "masks", s->masks);
	json_field_count(b, "diskBytes", s->disk_bytes);
	json_field_count(b, "headLogBytes", s->head_log_bytes);
	json_object_begin_at(b, "memory");
	json_field_count(b, "head", s->head_bytes);
	json_field_count(b, "dictionary", s->dictionary_bytes);
	json_field_count(b, "blockCache", s->cache_bytes);
	json_field_count(b, "queue", s->queue_bytes);
	json_object_end(b);
	json_object_end(b);
	json_object_end(b);
}

/* A ULID (26 digits of base 32, the first ten a time) that is always the same for the same part. */
static void put_ulid(struct buf *b, const struct admin_block *x)
{
	static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
	char text[26], *p = text;
	uint64_t halves[] = { (uint64_t)MAX(x->min_t_ms, 0), (uint64_t)x->level << 32 | x->number };
	for (size_t h = 0; h < 2; h++)
		for (int i = h ? 16 : 10; i-- > 0;)
			*p++ = i > 12 ? '0' : digits[halves[h] >> (5 * i) & 31];
	json_field(b, "ulid", view_make(text, sizeof text));
}

static void put_block(struct buf *b, const struct admin_block *x)
{
	json_object_begin(b);
	put_ulid(b, x);
	json_field_int(b, "minTime", x->min_t_ms);
	json_field_int(b, "maxTime", x->max_t_ms);
	json_object_begin_at(b, "stats");
	json_field_count(b, "numSamples", x->samples);
	json_field_count(b, "numSeries", x->series);
	json_field_count(b, "numBytes", x->bytes);
	json_object_end(b);
	json_object_begin_at(b, "compaction");
	json_field_count(b, "level", x->level);
	json_object_end(b);
	json_field_count(b, "version", 1);
	json_object_end(b);
}

void serve_tsdb_blocks(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e;
	if (!w->admin) {
		err_set(&e, ERR_UNAVAILABLE, "there is no storage");
		answer_error(rq, &e);
		return;
	}
	size_t n;
	struct admin_block *v AUTOFREE = w->admin->blocks(w->admin, &n);
	struct answer_rows rows;
	answer_rows_begin(&rows, rq);
	json_object_begin(rows.b);
	json_array_begin_at(rows.b, "blocks");
	for (size_t i = 0; i < n && answer_rows_more(&rows); i++)
		put_block(rows.b, &v[i]);
	json_array_end(rows.b);
	json_object_end(rows.b);
	answer_rows_end(&rows);
}

void serve_tsdb_status(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e;
	int64_t limit;
	if (param_whole(rq, "limit", 1, STATUS_LIMIT_MAX, STATUS_LIMIT, &limit, &e)) {
		answer_error(rq, &e);
	} else if (!w->admin) {
		err_set(&e, ERR_UNAVAILABLE, "there is no storage");
		answer_error(rq, &e);
	} else {
		struct admin_status *s = w->admin->status(w->admin, (size_t)limit);
		struct answer_rows rows;
		answer_rows_begin(&rows, rq);
		put_status(&rows, s);
		answer_rows_end(&rows);
		free(s);
	}
}

/* 0 is "": it was never. */
static void put_moment(struct buf *b, const char *key, int64_t t_ms)
{
	char when[RFC3339_LEN];
	json_field_text(b, key, t_ms ? clock_rfc3339_ms(t_ms, when) : "");
}

static void put_bucket(struct buf *b, const struct web *w, const struct admin_bucket *x)
{
	json_field_text(b, "store", w->o.object_store ? w->o.object_store : "");
	json_field_text(b, "state", x->state);
	json_field_text(b, "id", x->id);
	json_field_text(b, "why", x->why);
	json_field_count(b, "days", x->days);
	json_field_count(b, "bytes", x->bytes);
	json_object_begin_at(b, "waiting");
	json_field_count(b, "parts", x->waiting_parts);
	json_field_count(b, "bytes", x->waiting_bytes);
	put_moment(b, "since", x->waiting_since_ms);
	json_field_count(b, "deletes", x->waiting_deletes);
	json_object_end(b);
	put_moment(b, "lastSuccess", x->last_success_ms);
	json_field_text(b, "lastError", x->last_error);
	put_moment(b, "lastErrorTime", x->last_error_ms);
	json_object_begin_at(b, "absent");
	json_field_count(b, "days", x->absent_days);
	put_moment(b, "from", x->absent_from_ms);
	put_moment(b, "until", x->absent_until_ms);
	json_object_end(b);
	json_object_begin_at(b, "cache");
	json_field_count(b, "bytes", x->cache_bytes);
	json_field_count(b, "maxBytes", x->cache_max_bytes);
	json_field_count(b, "requests", x->reads);
	json_field_count(b, "fetchedBytes", x->read_bytes);
	json_field_count(b, "failures", x->read_failures);
	json_object_end(b);
	if (x->reads_others) {
		json_object_begin_at(b, "others");
		json_field_count(b, "servers", x->other_servers);
		json_field_count(b, "days", x->other_days);
		json_field_count(b, "bytes", x->other_bytes);
		put_moment(b, "from", x->other_from_ms);
		put_moment(b, "until", x->other_until_ms);
		put_moment(b, "lastSuccess", x->other_looked_ms);
		json_field_text(b, "lastError", x->other_error);
		json_object_end(b);
	}
	json_field_count(b, "damagedObjects", x->damaged_objects);
}

void serve_bucket_status(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct admin_bucket x = { .configured = false };
	struct err e;
	if (!w->admin) {
		err_set(&e, ERR_UNAVAILABLE, "there is no storage");
		answer_error(rq, &e);
		return;
	}
	w->admin->bucket(w->admin, &x);
	struct buf *b = answer_begin(rq);
	json_object_begin(b);
	json_field_bool(b, "configured", x.configured);
	if (x.configured)
		put_bucket(b, w, &x);
	json_object_end(b);
	answer_end(rq, NULL, 0, NULL, 0);
}
