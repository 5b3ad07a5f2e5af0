/* SPDX-License-Identifier: Apache-2.0 */
/* The committer: one thread that makes appends durable and then visible. It takes all waiting requests, and writes the new symbols of
 * their partitions, then their records, in one write batch with one sync. Then it applies them to the windows and publishes the commit
 * as one step. Nothing can be queried before it is synced, because rows are only applied after that. Replay goes the same way
 * (tsdb_apply), so that memory is always what the log says. */

#include "base/clock.h"
#include "base/log.h"
#include "tsdb/version/db.h"
#include "tsdb/version/facts.h"
#include "tsdb/write/committer.h"
#include "tsdb/write/request.h"

#define MAX_GROUP 4096
/* Requests without a waiting caller are gathered for this many intervals, and no longer than PATIENCE_MS. A commit is a sync that wakes several
 * threads, which may cost more CPU than the profiles in it. */
#define PATIENCE 10
#define PATIENCE_MS 1000
#define ROWS_AT_ONCE 1024 /* under a lock: less than a millisecond */
#define MARK_EVERY_MS 3000
#define EXPIRE_EVERY_MS 600000

/* ---- applying ---- */

/* The window that takes new rows of an hour: the last of that hour. *v is replaced when one must be made. */
static struct window *need_window(struct version **v, struct partition *p, int64_t hour)
{
	const struct pstate *s = version_find(*v, p->day);
	for (size_t i = s ? s->n_windows : 0; i--;)
		if (s->windows[i]->hour == hour && !s->windows[i]->frozen)
			return s->windows[i];
	struct window *w = window_new(hour);
	size_t n = s ? s->n_windows : 0;
	struct window **all = xcalloc(n + 1, sizeof(*all));
	if (n)
		memcpy(all, s->windows, n * sizeof *all);
	all[n] = w;
	struct version *next = version_with(*v, p, all, n + 1, s ? s->parts : NULL, s ? s->n_parts : 0);
	free(all);
	window_unref(w); /* the version holds it */
	version_unref(*v);
	*v = next;
	return w;
}

/* The stamps of a record's rows. */
struct stamps {
	int64_t from_ms, until_ms;
	bool any;
};

static void stamps_add(struct stamps *s, int64_t t_ms)
{
	s->from_ms = s->any ? MIN(s->from_ms, t_ms) : t_ms;
	s->until_ms = s->any ? MAX(s->until_ms, t_ms) : t_ms;
	s->any = true;
}

/* Series that this partition does not know (their symbols were lost), and stamps that are there already. */
static void drop_unwanted(struct tsdb *db, const struct version *v, struct partition *p, struct record_profile *r)
	REQUIRES_SHARED(p->dict_lock)
{
	for (uint32_t i = r->n_series; i--;) {
		bool known = r->series[i] < p->index.series.n && !p->index.series.v[r->series[i]]->is_float;
		if (known && !tsdb_has_stamp(v, p, r->series[i], r->t_ms))
			continue;
		if (known)
			metric_inc(&tsdb_metrics[TM_DUPLICATES]);
		else
			atomic_fetch_add(&db->lost_records, 1);
		record_drop_series(r, i);
	}
}

static bool columns_known(const struct partition *p, const struct record_profile *r)
{
	return !r->n || r->columns.v[r->n - 1] < symbols_count(p->symbols, SYMBOLS_COLUMNS);
}

static void saw(struct tsdb *db, struct series *s, int64_t t_ms)
{
	series_saw(s, t_ms);
	if (t_ms > atomic_load_explicit(&db->newest_t, memory_order_relaxed))
		atomic_store_explicit(&db->newest_t, t_ms, memory_order_relaxed);
}

/* A record of a hundred thousand rows is not applied in one go: appends, and behind them queries, wait for the lock meanwhile. Requests
 * that arrive meanwhile only add to the dictionary. rows: so far, added to. */
static void let_others_in(struct partition *p, size_t *rows, size_t more) REQUIRES_SHARED(p->dict_lock)
{
	if (*rows / ROWS_AT_ONCE != (*rows + more) / ROWS_AT_ONCE)
		rwlock_let_in(&p->dict_lock);
	*rows += more;
}

/* During a replay: the log of an older version may have rows that append refuses now, and with which a window could not be sealed. */
static void count_magnitudes(struct tsdb *db, const struct window *w, struct partition *p, struct record_profile *r)
{
	for (uint32_t i = r->n_series; i--;) {
		const struct chunk *c = window_chunk(w, r->series[i]);
		struct series *s = p->index.series.v[r->series[i]];
		uint64_t more = values_magnitude(r->values.v + (size_t)i * r->n, r->n), has = c ? c->magnitude : 0;
		if (has > INT64_MAX || more > INT64_MAX - has) {
			atomic_fetch_add(&db->lost_records, 1);
			record_drop_series(r, i);
		} else {
			s->magnitude = MIN(s->magnitude + more, (uint64_t)INT64_MAX);
		}
	}
}

static bool apply_samples(struct tsdb *db, struct version **v, struct partition *p, struct cursor *c, uint64_t number,
			  uint64_t seq, struct stamps *stamps) REQUIRES_SHARED(p->dict_lock)
{
	struct record_profile r = { 0 };
	bool ok = true;
	size_t rows = 0;
	while (record_get_profile(c, &r)) {
		if (day_of(r.t_ms) != p->day || !columns_known(p, &r)) {
			ok = false;
			continue;
		}
		stamps_add(stamps, r.t_ms);
		if (tsdb_is_sealed(*v, p, window_of(r.t_ms), number))
			continue;
		drop_unwanted(db, *v, p, &r);
		if (!r.n_series)
			continue;
		struct window *w = need_window(v, p, window_of(r.t_ms));
		if (seq == REPLAY_SEQ)
			count_magnitudes(db, w, p, &r);
		rwlock_write(&w->lock);
		window_add_profile(w, &r, number, seq);
		rwlock_unlock(&w->lock);
		for (uint32_t i = 0; i < r.n_series; i++)
			saw(db, p->index.series.v[r.series[i]], r.t_ms);
		let_others_in(p, &rows, 1 + r.n * r.n_series);
	}
	record_profile_release(&r);
	return ok && !c->bad;
}

static void keep_for_tap(struct tsdb *db, const struct partition *p, const struct record_float *f)
{
	if (db->o.tap && atomic_load_explicit(&db->o.tap->wanted, memory_order_relaxed))
		vec_push(&db->tapped, (struct sink_float){ p->index.series.v[f->series]->labels, f->t_ms, value_from_bits(f->bits) });
}

void tsdb_tap(struct tsdb *db, uint64_t number)
{
	if (db->o.tap)
		db->o.tap->take(db->o.tap, number, db->tapped.v, db->tapped.n);
	db->tapped.n = 0;
}

static bool apply_floats(struct tsdb *db, struct version **v, struct partition *p, struct cursor *c, uint64_t number,
			 uint64_t seq, struct stamps *stamps) REQUIRES_SHARED(p->dict_lock)
{
	struct record_float f;
	bool ok = true;
	for (size_t rows = 0; record_get_float(c, &f); let_others_in(p, &rows, 1)) {
		if (day_of(f.t_ms) != p->day || f.series >= p->index.series.n || !p->index.series.v[f.series]->is_float) {
			ok = false;
			continue;
		}
		stamps_add(stamps, f.t_ms);
		if (!p->index.series.v[f.series]->labels.n) { /* its symbols were lost */
			atomic_fetch_add(&db->lost_records, 1);
			continue;
		}
		if (tsdb_is_sealed(*v, p, window_of(f.t_ms), number)) {
			keep_for_tap(db, p, &f); /* of a replay: it was sealed before the tap had it */
			continue;
		}
		if (tsdb_has_stamp(*v, p, f.series, f.t_ms)) {
			metric_inc(&tsdb_metrics[TM_DUPLICATES]);
			continue;
		}
		struct window *w = need_window(v, p, window_of(f.t_ms));
		rwlock_write(&w->lock);
		window_add_float(w, &f, number, seq);
		rwlock_unlock(&w->lock);
		keep_for_tap(db, p, &f);
		saw(db, p->index.series.v[f.series], f.t_ms);
	}
	return ok && !c->bad;
}

/* Notes what the record held, for a start that does not find it any more. */
static void apply_note(struct tsdb *db, const struct partition *p, enum record_kind kind, struct view payload, uint64_t number,
		       const struct stamps *stamps)
{
	if (stamps->any)
		hlog_saw_rows(db->log, p->day, number, stamps->from_ms, stamps->until_ms);
	else if (kind == RECORD_FACT && payload.len && *payload.ptr == FACT_GONE)
		hlog_forget_facts(db->log, p->day);
	else if (kind == RECORD_FACT)
		hlog_saw_fact(db->log, p->day, number);
}

bool tsdb_apply(struct tsdb *db, struct version **v, struct partition *p, enum record_kind kind, struct view payload,
		uint64_t number, uint64_t seq)
{
	struct cursor c = cursor_of(payload);
	struct stamps stamps = { .any = false };
	bool ok = true;
	partition_load(p);
	rwlock_read(&p->dict_lock);
	if (kind == RECORD_SAMPLES)
		ok = apply_samples(db, v, p, &c, number, seq, &stamps);
	else if (kind == RECORD_FLOATS)
		ok = apply_floats(db, v, p, &c, number, seq, &stamps);
	else if (kind == RECORD_FACT)
		ok = facts_apply(v, p, &c, number);
	rwlock_unlock(&p->dict_lock);
	apply_note(db, p, kind, payload, number, &stamps);
	return ok;
}

/* ---- committing ---- */

struct group {
	VEC(struct request *) requests;
	VEC(struct { struct partition *p; struct dict_marks to; uint64_t number; }) symbols;
};

/* Symbols of a partition that are not logged yet go first. They may be more than these requests use. */
static int put_symbols(struct tsdb *db, struct group *g, struct partition *p, struct err *e)
{
	for (size_t i = 0; i < g->symbols.n; i++)
		if (g->symbols.v[i].p == p)
			return 0;
	struct buf b = { 0 };
	__auto_type s = vec_add(&g->symbols);
	s->p = p;
	rwlock_read(&p->dict_lock);
	dict_marks_now(&s->to, p->symbols, &p->index);
	bool any = !dict_marks_eq(&s->to, &p->logged);
	if (any) {
		record_begin(&b, RECORD_SYMBOLS, p->day);
		dict_encode(&b, p->symbols, &p->index, &p->logged, &s->to, &p->dict_lock);
	}
	rwlock_unlock(&p->dict_lock);
	int rc = b.overflow ? err_set(e, ERR_LIMIT, "new symbols of one commit are over %zu bytes", BUF_DEFAULT_MAX) : 0;
	if (any && !rc) {
		s->number = hlog_put(db->log, &b);
		metric_add(&tsdb_metrics[TM_LOG_WRITTEN], (double)b.len);
	}
	buf_free(&b);
	return rc;
}

/* Behind the records: the last of a key counts. */
static void put_notes(struct tsdb *db, struct request *r)
{
	for (size_t i = 0; i < r->n_notes; i++) {
		metric_add(&tsdb_metrics[TM_LOG_WRITTEN], (double)(r->notes[i]->key_len + r->notes[i]->value_len));
		hlog_put_note(db->log, r->notes[i]);
	}
	r->n_notes = 0; /* the log's */
}

static int write_group(struct tsdb *db, struct group *g, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < g->requests.n && !rc; i++)
		for (size_t k = 0; k < g->requests.v[i]->records.n && !rc; k++)
			rc = put_symbols(db, g, g->requests.v[i]->records.v[k].p, e);
	for (size_t i = 0; i < g->requests.n && !rc; i++)
		for (size_t k = 0; k < g->requests.v[i]->records.n; k++) {
			struct request_record *r = &g->requests.v[i]->records.v[k];
			r->payload_end = r->bytes.len;
			r->number = hlog_put(db->log, &r->bytes);
			if (r->gone)
				hlog_put_gone(db->log, r->p->day, r->number);
			metric_add(&tsdb_metrics[TM_LOG_WRITTEN], (double)r->bytes.len);
		}
	if (rc) {
		hlog_abort(db->log);
		return rc;
	}
	for (size_t i = 0; i < g->requests.n; i++)
		put_notes(db, g->requests.v[i]);
	return hlog_commit(db->log, e);
}

static void apply_group(struct tsdb *db, struct group *g)
{
	mutex_lock(&db->apply_lock);
	uint64_t seq = db->seq + 1;
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < g->symbols.n; i++) {
		struct partition *p = g->symbols.v[i].p;
		p->logged = g->symbols.v[i].to;
		if (g->symbols.v[i].number && p->first_symbols == UINT64_MAX)
			p->first_symbols = g->symbols.v[i].number;
		if (g->symbols.v[i].number && p->sealing && p->next_symbols == UINT64_MAX)
			p->next_symbols = g->symbols.v[i].number;
	}
	for (size_t i = 0; i < g->requests.n; i++)
		for (size_t k = 0; k < g->requests.v[i]->records.n; k++) {
			struct request_record *r = &g->requests.v[i]->records.v[k];
			struct view payload = { r->bytes.ptr + RECORD_HEADER, r->payload_end - RECORD_HEADER };
			if (!tsdb_apply(db, &v, r->p, r->kind, payload, r->number, seq))
				LOG_ERROR("msg", "a record that was just written is malformed", "record",
					  LOG_NUM(r->number));
		}
	db->applied = hlog_last(db->log);
	hlog_saw_all(db->log, db->applied);
	tsdb_count_head(db, v);
	tsdb_publish(db, v, seq);
	uint64_t last = db->applied;
	mutex_unlock(&db->apply_lock);
	hlog_note_end(db->log);
	tsdb_tap(db, last); /* the requests still hold the partitions */
}

static void count_group(struct tsdb *db, const struct group *g)
{
	uint64_t profiles = 0, samples = 0, floats = 0;
	for (size_t i = 0; i < g->requests.n; i++) {
		profiles += g->requests.v[i]->profiles;
		samples += g->requests.v[i]->samples;
		floats += g->requests.v[i]->floats;
	}
	atomic_fetch_add(&db->appended_profiles, profiles);
	atomic_fetch_add(&db->appended_samples, samples);
	atomic_fetch_add(&db->appended_floats, floats);
	metric_add(&tsdb_metrics[TM_APPENDED_PROFILES], (double)profiles);
	metric_add(&tsdb_metrics[TM_APPENDED_SAMPLES], (double)samples);
	metric_add(&tsdb_metrics[TM_APPENDED_FLOATS], (double)floats);
}

/* The newest stamps that failed requests set for their series are reset, so that a retry is no duplicate. */
static void forget_stamps(struct request *r)
{
	for (size_t i = 0; i < r->touched.n; i++) {
		struct series *s = r->touched.v[i];
		atomic_store(&s->last_t, atomic_load(&s->max_t));
	}
}

/* The callback runs after the partitions were left: a deletion then looks for unused ones. */
static void finish_group(struct tsdb *db, struct group *g, int rc, const struct err *e)
{
	static const struct err none;
	for (size_t i = 0; i < g->requests.n; i++) {
		struct request *r = g->requests.v[i];
		void (*done)(void *arg, const struct err *e) = r->done;
		void *arg = r->done_arg;
		if (rc)
			forget_stamps(r);
		request_free(db, r);
		if (done)
			done(arg, rc ? e : &none);
	}
	mutex_lock(&db->flush_lock);
	db->finished += g->requests.n;
	pthread_cond_broadcast(&db->flush_cond);
	mutex_unlock(&db->flush_lock);
	g->requests.n = g->symbols.n = 0;
}

/* The log is reopened after a failed write, at most once a second: the disk may have room again. */
static int recover(struct tsdb *db, struct err *e)
{
	int64_t now = clock_mono_ms();
	if (now - db->recovered_mono_ms < 1000)
		return err_set(e, ERR_IO, "the head log could not be written a moment ago: %s", db->write_error.msg);
	db->recovered_mono_ms = now;
	int rc = hlog_reopen(db->log, e);
	if (rc)
		db->write_error = *e;
	else
		LOG_INFO("msg", "the head log is open again after a failed write");
	return rc;
}

static void commit_group(struct tsdb *db, struct group *g)
{
	struct err e = { 0 };
	int64_t start = clock_mono_ns();
	int rc = atomic_load(&db->write_failed) || hlog_is_broken(db->log) ? recover(db, &e) : 0;
	if (!rc && (rc = write_group(db, g, &e)))
		db->write_error = e;
	atomic_store(&db->write_failed, rc != 0);
	if (rc) {
		metric_inc(&tsdb_metrics[TM_COMMIT_FAILURES]);
		LOG_ERROR("msg", "a commit failed, its appends are refused", "err", e.msg);
	} else {
		apply_group(db, g);
		count_group(db, g);
		metric_inc(&tsdb_metrics[TM_COMMITS]);
		metric_observe(&tsdb_metrics[TM_COMMIT_SECONDS], (double)(clock_mono_ns() - start) / 1e9);
	}
	finish_group(db, g, rc, &e);
}

/* ---- gathering ---- */

void tsdb_hurry(struct tsdb *db, bool begin)
{
	mutex_lock(&db->flush_lock);
	db->waiters += begin ? 1 : -1u;
	pthread_cond_signal(&db->hurry_cond);
	mutex_unlock(&db->flush_lock);
}

/* A quarter of what may wait is there: gathering ends. */
static bool enough(const struct tsdb *db)
{
	return db->waiters || db->queued > db->o.queue_bytes / 4 || db->submitted - db->finished > MAX_GROUP;
}

int tsdb_submit(struct tsdb *db, struct request *r, struct err *e)
{
	size_t size = r->size;
	bool pressing = !r->patient;
	mutex_lock(&db->flush_lock);
	db->submitted++;
	db->queued += size;
	db->pressing += pressing;
	if (enough(db) || (pressing && db->pressing == 1))
		pthread_cond_signal(&db->hurry_cond);
	mutex_unlock(&db->flush_lock);
	if (queue_push(db->queue, r, size))
		return 0;
	mutex_lock(&db->flush_lock);
	db->submitted--;
	db->queued -= size;
	db->pressing -= pressing;
	pthread_cond_broadcast(&db->flush_cond); /* a flush may have counted on it */
	mutex_unlock(&db->flush_lock);
	return err_set(e, ERR_UNAVAILABLE, "the storage is shutting down");
}

struct waiter {
	struct mutex lock;
	pthread_cond_t cond;
	bool done;
	struct err e;
};

static void wake(void *arg, const struct err *e)
{
	struct waiter *w = arg;
	mutex_lock(&w->lock);
	w->done = true;
	w->e = *e;
	pthread_cond_signal(&w->cond);
	mutex_unlock(&w->lock);
}

int tsdb_commit(struct tsdb *db, struct request *r, struct err *e)
{
	struct waiter w = { .done = false };
	mutex_init(&w.lock, LOCK_LEAF, "deletion");
	pthread_cond_init(&w.cond, NULL);
	r->done = wake;
	r->done_arg = &w;
	r->size = sizeof *r;
	tsdb_hurry(db, true);
	int rc = tsdb_submit(db, r, e);
	if (rc) {
		request_free(db, r);
	} else {
		mutex_lock(&w.lock);
		while (!w.done)
			mutex_wait(&w.lock, &w.cond);
		mutex_unlock(&w.lock);
		if (w.e.code) {
			rc = -(int)w.e.code;
			if (e)
				*e = w.e;
		}
	}
	tsdb_hurry(db, false);
	mutex_destroy(&w.lock);
	pthread_cond_destroy(&w.cond);
	return rc;
}

void tsdb_flush(struct tsdb *db)
{
	tsdb_hurry(db, true);
	mutex_lock(&db->flush_lock);
	uint64_t target = db->submitted;
	while (db->finished < MIN(target, db->submitted)) /* what is refused is not submitted after all */
		mutex_wait(&db->flush_lock, &db->flush_cond);
	mutex_unlock(&db->flush_lock);
	tsdb_hurry(db, false);
}

/* Sleeps until the commit that has begun to gather should be written: an interval after the first request that somebody waits
 * for. Appends meanwhile wake no thread. */
static void wait_for_more(struct tsdb *db)
{
	mutex_lock(&db->flush_lock);
	bool pressed = db->pressing;
	int64_t interval = db->o.commit_interval_ms, patient = MAX(interval, MIN(interval * PATIENCE, (int64_t)PATIENCE_MS));
	int64_t until = clock_mono_ms() + (pressed ? interval : patient);
	while (!enough(db) && mutex_wait_ms(&db->flush_lock, &db->hurry_cond, until))
		if (db->pressing && !pressed) {
			pressed = true;
			until = MIN(until, clock_mono_ms() + interval);
		}
	mutex_unlock(&db->flush_lock);
}

/* When what is beside the commits is due, monotonic. */
struct chores {
	int64_t mark_ms, expire_ms;
};

static void do_chores(struct tsdb *db, struct chores *next)
{
	struct err e;
	int64_t now = clock_mono_ms();
	if (now >= next->mark_ms) {
		next->mark_ms = now + MARK_EVERY_MS;
		if (hlog_mark(db->log, &e))
			LOG_WARN("msg", "cannot write the log's marks", "err", e.msg);
	}
	if (now >= next->expire_ms) {
		next->expire_ms = now + EXPIRE_EVERY_MS;
		if (hlog_expire_notes(db->log, tsdb_retention_now_ms(db) - SINK_NOTE_KEPT_MS, &e))
			LOG_WARN("msg", "cannot forget old notes", "err", e.msg);
	}
}

/* Takes what waits, and what comes within the interval. False: the queue is closed and empty. */
static bool gather(struct tsdb *db, struct group *g, struct chores *next)
{
	struct request *r = queue_pop(db->queue, 500);
	do_chores(db, next);
	if (!r)
		return !queue_closed(db->queue) || queue_len(db->queue);
	vec_push(&g->requests, r);
	size_t bytes = r->size, pressing = !r->patient;
	if (db->o.commit_interval_ms > 0)
		wait_for_more(db);
	while (g->requests.n < MAX_GROUP && (r = queue_pop(db->queue, 0))) {
		vec_push(&g->requests, r);
		bytes += r->size;
		pressing += !r->patient;
	}
	mutex_lock(&db->flush_lock);
	db->queued -= bytes;
	db->pressing -= pressing;
	mutex_unlock(&db->flush_lock);
	return true;
}

void *tsdb_committer(void *arg)
{
	struct tsdb *db = arg;
	struct group g = { 0 };
	struct chores next = { 0 };
	while (gather(db, &g, &next))
		if (g.requests.n)
			commit_group(db, &g);
	vec_free(&g.requests);
	vec_free(&g.symbols);
	return NULL;
}
