/* SPDX-License-Identifier: Apache-2.0 */
/* A delete is one commit with a fact per partition. When it is synced the committer takes the rows out of the windows
 * and masks them in the parts, in one step with the version; replay does the same at the same place of the log, so
 * that rows that came later stay. The call holds seal_lock from the moment it looks at the parts until then: no window
 * becomes a part in between. */
#include "tsdb/delete.h"

#include "base/alloc.h"
#include "base/log.h"
#include "tsdb/names.h"
#include "tsdb/remove.h"

enum { DM_DELETES, DM_MASKS, DM_REMOVED, DM_REWRITTEN, DM_BYTES, DM_NAMES, DM_COUNT };
struct metric delete_metrics[] = {
	[DM_DELETES] = { "pyrrha_tsdb_deletes_total", "Deletes by selector that found something.", METRIC_COUNTER },
	[DM_MASKS] = { "pyrrha_tsdb_masks", "Deleted ranges of series that are hidden and still take space.", METRIC_GAUGE },
	[DM_REMOVED] = { "pyrrha_tsdb_deleted_head_rows_total", "Profiles and floats that deletes took out of memory.", METRIC_COUNTER },
	[DM_REWRITTEN] = { "pyrrha_tsdb_parts_rewritten_total", "Sealed parts written anew without what was deleted.", METRIC_COUNTER },
	[DM_BYTES] = { "pyrrha_tsdb_deleted_bytes_total", "Bytes on disk that rewriting gave back.", METRIC_COUNTER },
	[DM_NAMES] = { "pyrrha_tsdb_late_names_total", "Locations that got their lines after they were stored.", METRIC_COUNTER },
};
const size_t n_delete_metrics = DM_COUNT;

void delete_collect(const struct tsdb_stats *s)
{
	metric_set(&delete_metrics[DM_MASKS], (double)s->masks);
}

void delete_count_rewrite(uint64_t bytes_back)
{
	metric_inc(&delete_metrics[DM_REWRITTEN]);
	metric_add(&delete_metrics[DM_BYTES], (double)bytes_back);
}

void delete_count_names(uint64_t n)
{
	metric_add(&delete_metrics[DM_NAMES], (double)n);
}

/* ---- bounds ---- */

/* The part's bounds of the series without what is masked: exact where a mask covers one end of them. */
static void saw_part(struct series *x, const struct pstate *s, const struct part *p, const struct part_series *b)
{
	int64_t lo = part_start_ms(p) + b->min_ms, hi = part_start_ms(p) + b->max_ms, after = lo - 1, until;
	bool any = false;
	int64_t last = 0;
	while (masks_next(s, p, b->series, &after, hi, &until)) {
		if (!any)
			series_saw(x, after + 1);
		any = true;
		last = after = until;
	}
	if (any)
		series_saw(x, last);
}

static void saw_window(struct series *x, struct window *w, uint32_t id)
{
	pthread_rwlock_rdlock(&w->lock);
	const struct chunk *c = x->is_float ? NULL : window_chunk(w, id);
	const struct fchunk *f = x->is_float ? window_fchunk(w, id) : NULL;
	for (size_t i = 0; c && i < c->rows.n; i++)
		series_saw(x, c->rows.v[i].t_ms);
	for (size_t i = 0; f && i < f->points.n; i++)
		series_saw(x, f->points.v[i].t_ms);
	pthread_rwlock_unlock(&w->lock);
}

static void one_bound(struct partition *p, const struct pstate *s, uint32_t id)
{
	struct series *x = p->index.series.v[id];
	atomic_store(&x->min_t, INT64_MAX);
	atomic_store(&x->max_t, INT64_MIN);
	for (size_t i = 0; s && i < s->n_parts; i++) {
		const struct part_series *b = s->parts[i]->level == LEVEL_HOUR ? part_find(s->parts[i], id) : NULL;
		if (b)
			saw_part(x, s, s->parts[i], b);
	}
	for (size_t i = 0; s && i < s->n_windows; i++)
		saw_window(x, s->windows[i], id);
}

void delete_bounds(struct partition *p, const struct pstate *s, const struct mask_fact *f)
{
	for (size_t i = 0; i < (f ? f->series.n : p->index.series.n); i++) {
		uint32_t id = f ? f->series.v[i] : (uint32_t)i;
		if (id < p->index.series.n)
			one_bound(p, s, id);
	}
}

/* ---- from the log to memory ---- */

/* v with the masks of one partition replaced; takes v and m. */
static struct version *set_masks(struct version *v, struct partition *p, struct masks *m)
{
	const struct pstate *s = version_find(v, p->day);
	struct version *next = version_with(v, p, s->windows, s->n_windows, s->parts, s->n_parts);
	version_set_masks(next, p->day, m);
	version_unref(v);
	return next;
}

bool delete_apply(struct tsdb *db, struct version **v, struct partition *p, struct cursor *c, uint64_t number)
{
	(void)db;
	struct mask_fact f = { .number = number };
	bool known = mask_fact_get(c, &f), ok = !c->bad;
	if (known)
		p->next_part = MAX(p->next_part, f.below_part); /* those below it are masked, also if they are gone by now */
	const struct pstate *s = version_find(*v, p->day);
	size_t removed = 0;
	if (known && s) {
		for (size_t i = 0; i < s->n_windows; i++) {
			struct window *w = s->windows[i];
			if (w->hour * HOUR_MS >= f.until_ms || (w->hour + 1) * HOUR_MS <= f.after_ms)
				continue;
			pthread_rwlock_wrlock(&w->lock);
			removed += remove_from_window(w, &f);
			pthread_rwlock_unlock(&w->lock);
		}
		*v = set_masks(*v, p, masks_with(s->masks, &f, s->parts, s->n_parts));
		delete_bounds(p, version_find(*v, p->day), &f);
	}
	metric_add(&delete_metrics[DM_REMOVED], (double)removed);
	vec_free(&f.series);
	return ok;
}

static int by_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

uint64_t *delete_facts(struct tsdb *db, size_t *ret_n)
{
	VEC(uint64_t) out = { 0 };
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; v->p[i]->names && k < v->p[i]->names->facts.n; k++)
			vec_push(&out, v->p[i]->names->facts.v[k]);
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; v->p[i]->masks && k < v->p[i]->masks->facts.n; k++)
			if (v->p[i]->masks->facts.v[k]->number)
				vec_push(&out, v->p[i]->masks->facts.v[k]->number);
	version_unref(v);
	if (out.n)
		qsort(out.v, out.n, sizeof *out.v, by_u64);
	*ret_n = out.n;
	return out.v;
}

/* ---- the call ---- */

struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	struct err e;
};

static void wake(void *arg, const struct err *e)
{
	struct waiter *w = arg;
	pthread_mutex_lock(&w->lock);
	w->done = true;
	w->e = *e;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

int delete_submit(struct tsdb *db, struct request *r, struct err *e)
{
	struct waiter w = { .done = false };
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.cond, NULL);
	r->done = wake;
	r->done_arg = &w;
	r->size = sizeof *r;
	tsdb_hurry(db, true);
	int rc = tsdb_submit(db, r, e);
	if (rc) {
		request_free(db, r);
	} else {
		pthread_mutex_lock(&w.lock);
		while (!w.done)
			pthread_cond_wait(&w.cond, &w.lock);
		pthread_mutex_unlock(&w.lock);
		if (w.e.code) {
			rc = -(int)w.e.code;
			if (e)
				*e = w.e;
		}
	}
	tsdb_hurry(db, false);
	pthread_mutex_destroy(&w.lock);
	pthread_cond_destroy(&w.cond);
	return rc;
}

/* The fact of one partition, if it has something of it. */
static int add_fact(struct request *r, struct partition *p, const struct matcher *m, size_t n, int64_t after_ms,
		    int64_t until_ms, uint64_t *series, struct err *e)
{
	uint32_t *ids = NULL;
	size_t n_ids = 0;
	partition_load(p);
	struct regex_meter meter = { .max_ns = REGEX_QUERY_NS, .max_name = "10 s of a deletion" };
	int rc = index_select(&p->index, &p->dict_lock, m, n, after_ms, until_ms, &meter, &ids, &n_ids, e);
	if (!rc && n_ids) {
		struct request_record *x = vec_add(&r->records);
		struct mask_fact f = { .below_part = p->next_part, .after_ms = after_ms, .until_ms = until_ms };
		f.series.v = ids;
		f.series.n = n_ids;
		x->p = partition_enter(p);
		x->kind = RECORD_FACT;
		record_begin(&x->bytes, RECORD_FACT, p->day);
		mask_fact_put(&x->bytes, &f);
		*series += n_ids;
	}
	free(ids);
	return rc;
}

static int delete_locked(struct tsdb *db, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
			 uint64_t *series, struct err *e)
{
	struct request *r = NEW(struct request);
	struct version *v = tsdb_version(db, NULL);
	int rc = 0;
	for (size_t i = 0; i < v->n && !rc; i++) {
		int64_t start = (int64_t)v->p[i]->p->day * DAY_MS;
		if (start < until_ms && start + DAY_MS > after_ms)
			rc = add_fact(r, v->p[i]->p, m, n, after_ms, until_ms, series, e);
	}
	version_unref(v);
	/* With nothing to say it is a commit all the same if the last one failed: what that left in the log must not come back. */
	if (rc || (!r->records.n && !atomic_load(&db->write_failed))) {
		request_free(db, r);
		return rc;
	}
	return delete_submit(db, r, e);
}

int tsdb_delete(struct tsdb *db, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, uint64_t *ret_series,
		struct err *e)
{
	uint64_t series = 0;
	if (after_ms >= until_ms)
		return err_set(e, ERR_BAD_DATA, "nothing to delete: the end of the range is not after its start");
	tsdb_flush(db);
	pthread_mutex_lock(&db->seal_lock);
	int rc = delete_locked(db, m, n, after_ms, until_ms, &series, e);
	pthread_mutex_unlock(&db->seal_lock);
	if (!rc && series) {
		metric_inc(&delete_metrics[DM_DELETES]);
		LOG_INFO("msg", "deleted by selector", "series", LOG_NUM(series), "after_ms", LOG_NUM(after_ms), "until_ms",
			 LOG_NUM(until_ms));
	}
	if (ret_series)
		*ret_series = rc ? 0 : series;
	return rc;
}
