/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/transfer/transfer.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/cached/cached_days.h"
#include "tsdb/part/part.h"
#include "tsdb/transfer/hidden.h"
#include "tsdb/transfer/transfer_private.h"

#define TRANSFER_NICE 15
#define ROUND_MS 1000
#define CHECK_EVERY_MS 60000
#define COLLECT_FIRST_MS (12 * INT64_C(60000)) /* after the start: readers of older generations have finished */
#define COLLECT_EVERY_MS (6 * INT64_C(3600000))
#define RETRY_MS 10000
#define OPEN_PATIENCE_MS 10000 /* how long a request of the start may go without an answer: the program waits for it */

/* ---- what the page shows ---- */

static void transfer_succeeded(struct transfer *t)
{
	mutex_lock(&t->status_lock);
	t->status.last_success_ms = tsdb_now_ms(t->db);
	t->status.last_error[0] = 0;
	mutex_unlock(&t->status_lock);
}

static void transfer_failed(struct transfer *t, const struct err *e)
{
	mutex_lock(&t->status_lock);
	bool same = err_same_but_for_numbers(t->status.last_error, e->msg);
	snprintf(t->status.last_error, sizeof t->status.last_error, "%s", e->msg);
	t->status.last_error_ms = tsdb_now_ms(t->db);
	mutex_unlock(&t->status_lock);
	metric_inc(&tsdb_metrics[TM_BUCKET_FAILURES]);
	if (!same)
		LOG_WARN("msg", "the bucket: will try again", "err", e->msg);
}

/* What waits to go up: parts with rows that the bucket does not have. */
static void status_waiting(struct transfer *t, struct admin_bucket *ret)
{
	int64_t now = tsdb_now_ms(t->db);
	struct version *v = tsdb_version(t->db, NULL);
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < v->n; i++) {
		const struct catalogue_day *d = catalogue_find(&t->catalogue, v->p[i]->p->day);
		uint64_t parts = 0;
		for (size_t k = 0; k < v->p[i]->n_parts; k++) {
			const struct part *p = v->p[i]->parts[k];
			if (p->level != LEVEL_HOUR || (d && d->identity[0] && day_has_rows(d, p)))
				continue;
			parts++;
			ret->waiting_bytes += p->bytes;
			int64_t since = MIN(part_end_ms(p), now); /* a window that was sealed early has not ended yet */
			ret->waiting_since_ms = ret->waiting_since_ms ? MIN(ret->waiting_since_ms, since) : since;
		}
		ret->waiting_parts += parts;
	}
	rwlock_unlock(&t->catalogue.lock);
	version_unref(v);
}

void transfer_status(struct tsdb *db, struct admin_bucket *ret)
{
	struct transfer *t = db->transfer;
	char id[SERVER_ID_MAX + 1], why[256];
	*ret = (struct admin_bucket){ .configured = t != NULL };
	if (!t)
		return;
	enum bucket_state state = bucket_server_state(&t->server, id, why, sizeof why);
	mutex_lock(&t->status_lock);
	*ret = t->status;
	snprintf(ret->why, sizeof ret->why, "%s", why[0] ? why : t->damaged_first);
	mutex_unlock(&t->status_lock);
	ret->configured = true;
	memcpy(ret->id, id, sizeof ret->id);
	ret->state = state == BUCKET_WRITES ? "writing" : state == BUCKET_FENCED ? "stopped" : "unreachable";
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++) {
		ret->days += t->catalogue.days.v[i].kind == GENERATION_DAY;
		ret->bytes += t->catalogue.days.v[i].bytes;
	}
	for (size_t i = 0; i < t->catalogue.absent.n; i++) {
		const struct catalogue_day *d = catalogue_find(&t->catalogue, t->catalogue.absent.v[i]);
		ret->absent_days++;
		if (d && d->min_ms <= d->max_ms) {
			ret->absent_from_ms = ret->absent_from_ms ? MIN(ret->absent_from_ms, d->min_ms) : d->min_ms;
			ret->absent_until_ms = MAX(ret->absent_until_ms, d->max_ms);
		}
	}
	rwlock_unlock(&t->catalogue.lock);
	cached_days_status(db, ret);
	others_status(t, ret);
	ret->waiting_deletes = atomic_load(&t->n_pending_deletes);
	status_waiting(t, ret);
	ret->waiting_since_ms = MIN(ret->waiting_since_ms, tsdb_now_ms(db));
}

/* ---- rounds ---- */

static void transfer_look_at_epochs(struct transfer *t)
{
	char name[OBJECT_NAME_MAX];
	struct err why;
	uint64_t epoch = t->server.foreign_epoch;
	if (!epoch)
		return;
	err_set(&why, ERR_CORRUPT, "this server has epoch %llu", (unsigned long long)t->server.epoch);
	object_name_epoch(name, t->server.id, epoch);
	damaged_note(t, name, "no server is started so often, so none has taken this epoch: remove the object from the bucket", &why);
}

static int transfer_begin(struct transfer *t, struct err *e) REQUIRES(t->run_lock)
{
	char id[SERVER_ID_MAX + 1], why[256];
	int rc = 0;
	if (bucket_server_state(&t->server, id, why, sizeof why) == BUCKET_AWAY)
		rc = bucket_server_start(&t->server, e);
	if (rc)
		return rc;
	transfer_look_at_epochs(t);
	catalogue_keep_id(&t->catalogue, t->server.id);
	if (!t->uploads.n)
		rc = upload_read_journal(t, e);
	if (!rc)
		rc = survey_bucket(t, e);
	if (!rc)
		rc = deletes_fetch(t, e);
	if (rc)
		return rc;
	t->has_begun = true;
	retrieve_tidy(t);
	LOG_INFO("msg", "writes to its bucket", "id", t->server.id, "epoch", LOG_NUM(t->server.epoch), "days", LOG_NUM(t->catalogue.days.n));
	retrieve_note_absent(t);
	t->next_check_mono_ms = clock_mono_ms() + CHECK_EVERY_MS;
	return 0;
}

/* Uploads come early: what only this disk has is in danger. But a day with a missing part is put once it has that. A day that cannot be fetched is
 * no reason to keep what is to be removed. */
static int transfer_round(struct transfer *t, bool now, struct err *e) REQUIRES(t->run_lock)
{
	int64_t mono = clock_mono_ms();
	struct err fetch, mend;
	bool lost = false;
	int rc = 0;
	if (now || mono >= t->next_check_mono_ms) {
		rc = bucket_server_check(&t->server, &lost, e);
		transfer_look_at_epochs(t);
		t->next_check_mono_ms = mono + CHECK_EVERY_MS;
	}
	if (lost) {
		LOG_ERROR("msg", "somebody has emptied the bucket: what this disk has goes up again", "id", t->server.id);
		t->uploads.n = 0;
		rc = survey_check(t, e);
	}
	int mend_rc = rc ? 0 : mend_parts(t, now, &mend);
	if (!rc)
		rc = mend_apply_deletes(t, e);
	if (!rc)
		rc = deletes_put_pending(t, e);
	if (!rc)
		rc = upload_days(t, now, e);
	if (!rc)
		rc = collect_gone(t, e);
	if (!rc)
		rc = retrieve_visits(t, e);
	int fetch_rc = rc ? 0 : MIN(retrieve_next(t, now, &fetch), 0);
	if (!rc)
		rc = collect_removals(t, now, e);
	if (!rc && (now || mono >= t->next_collect_mono_ms)) {
		upload_tidy_journal(t);
		retrieve_tidy(t);
		rc = collect_orphans(t, e);
		if (!rc)
			rc = deletes_collect(t, e);
		t->next_collect_mono_ms = mono + COLLECT_EVERY_MS;
	}
	retrieve_note_absent(t);
	if (rc || !(fetch_rc | mend_rc))
		return rc;
	*e = fetch_rc ? fetch : mend;
	return -(int)e->code;
}

static int transfer_step(struct transfer *t, bool now, struct err *e)
{
	char id[SERVER_ID_MAX + 1], why[256];
	mutex_lock(&t->run_lock);
	enum bucket_state state = bucket_server_state(&t->server, id, why, sizeof why);
	int rc = 0;
	if (!t->has_begun && state != BUCKET_FENCED) {
		t->server.was_empty = false; /* by now the directory has records */
		rc = transfer_begin(t, e);
		if (!rc)
			rc = retrieve_apply_facts(t, e);
	}
	if (!rc && state != BUCKET_FENCED)
		rc = transfer_round(t, now, e);
	else if (!rc && now)
		rc = err_set(e, ERR_CONFLICT, "%s", why);
	mutex_unlock(&t->run_lock);
	return rc;
}

static void *transfer_thread(void *arg)
{
	struct transfer *t = arg;
	struct err e;
	int64_t next = 0;
	thread_give_way(TRANSFER_NICE);
	while (tsdb_pause(t->db, ROUND_MS)) {
		if (clock_mono_ms() < next)
			continue;
		int rc = transfer_step(t, false, &e);
		if (rc && !atomic_load(&t->db->stopping)) {
			transfer_failed(t, &e);
			next = clock_mono_ms() + RETRY_MS;
		} else if (!rc) {
			transfer_succeeded(t);
		}
	}
	return NULL;
}

int transfer_run(struct tsdb *db, bool now, struct err *e)
{
	if (!db->transfer)
		return err_set(e, ERR_UNAVAILABLE, "no bucket is configured");
	int rc = transfer_step(db->transfer, now, e);
	return rc ? rc : others_look(db->transfer, e);
}

/* ---- start and end ---- */

static bool transfer_has(const char *path, const char *name)
{
	AUTOFREE char *file = xasprintf("%s/%s", path, name);
	return access(file, F_OK) == 0;
}

bool transfer_is_empty(const char *path)
{
	AUTOFREE char *dir = xasprintf("%s/partitions", path);
	bool empty = !transfer_has(path, "head"); /* the file `version` is made before the bucket is asked */
	DIR *d = opendir(dir);
	struct dirent *x;
	while (d && (x = readdir(d)))
		empty &= x->d_name[0] < '0' || x->d_name[0] > '9';
	if (d)
		closedir(d);
	return empty;
}

/* As transfer_begin, for a start that others wait for. */
static int transfer_begin_opening(struct transfer *t, struct err *e) REQUIRES(t->run_lock)
{
	transfer_note_opening(t, "the bucket is asked which days it has");
	LOG_INFO("msg", "asks the bucket which days it has, before anything is taken in");
	atomic_store(&t->objects->patience_ms, OPEN_PATIENCE_MS);
	int rc = transfer_begin(t, e);
	atomic_store(&t->objects->patience_ms, 0);
	return rc;
}

/* The current day of a server that returns must be whole before it takes rows: they may be there already. */
static int transfer_fetch_today(struct transfer *t, struct err *e)
{
	uint32_t day = day_of(tsdb_now_ms(t->db));
	AUTOFREE char *dir = xasprintf("%s/partitions/%u", t->db->path, day);
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, day);
	bool wanted = d && d->kind == GENERATION_DAY && !d->away && !d->identity[0];
	rwlock_unlock(&t->catalogue.lock);
	if (!wanted || access(dir, F_OK) == 0)
		return 0;
	return retrieve_files(t, day, true, e);
}

/* A server that returns needs what the bucket has of today before it takes rows: without it the start is refused. One that does not know yet
 * whether it returns begins anew, and takes another id later. */
static int transfer_return(struct transfer *t, int rc_away, const struct err *away, struct err *e) REQUIRES(t->run_lock)
{
	char id[SERVER_ID_MAX + 1], why[256];
	enum bucket_state state = bucket_server_state(&t->server, id, why, sizeof why);
	if (state == BUCKET_AWAY) {
		if (t->server.was_empty && t->server.wanted[0])
			LOG_WARN("msg", "whether the bucket has days of this server is not known, so it begins anew; if it has, this directory gets another "
				 "id later. To come back as the server, stop it, empty the directory, and start it when the bucket answers", "id", t->server.wanted);
		int rc = bucket_server_begin_alone(&t->server, e);
		catalogue_keep_id(&t->catalogue, t->server.id);
		return rc;
	}
	if (!t->server.returning)
		return 0;
	if (rc_away)
		return err_set(e, away->code, "%s comes back to an empty directory, and its bucket does not say what it has: %s", id, away->msg);
	return transfer_fetch_today(t, e);
}

int transfer_open(struct tsdb *db, bool was_empty, struct err *e)
{
	struct err away;
	if (!db->o.objects || db->o.read_only)
		return 0;
	struct transfer *t = NEW(struct transfer);
	t->db = db;
	t->objects = db->o.objects;
	mutex_init(&t->run_lock, RANK_TSDB_TRANSFER, "transfer");
	mutex_init(&t->deletes_lock, RANK_TSDB_DELETES, "bucket deletes");
	pthread_cond_init(&t->deletes_made, NULL);
	pthread_cond_init(&t->deletes_put, NULL);
	mutex_init(&t->status_lock, LOCK_LEAF, "transfer status");
	catalogue_init(&t->catalogue, xasprintf("%s/bucket/days", db->path), false);
	t->next_collect_mono_ms = clock_mono_ms() + COLLECT_FIRST_MS;
	db->transfer = t;
	db->catalogue = &t->catalogue;
	t->own.db = db;
	t->own.id = "";
	t->own.catalogue = &t->catalogue;
	t->own.hidden = hidden_list;
	t->own.hidden_number = &db->hidden_number;
	if (!db->o.copy)
		cached_days_start(db, &t->own);
	db->keeper = (struct part_keeper){ mend_keeps, t };
	int rc = bucket_server_init(&t->server, t->objects, db->path, db->o.server_id, was_empty, e);
	if (!rc)
		rc = catalogue_read(&t->catalogue, e);
	if (!rc)
		rc = deletes_read(t, e);
	if (!rc && db->o.copy)
		return copy_files(t, e);
	if (!rc && db->o.read_others)
		rc = others_open(t, e);
	if (rc)
		return rc;
	if (!was_empty && !t->server.returning && !retrieve_has_facts(t))
		return 0; /* all that it needs is here: the thread asks the bucket */
	mutex_lock(&t->run_lock);
	t->is_opening = true;
	int rc_away = transfer_begin_opening(t, &away);
	rc = transfer_return(t, rc_away, &away, e);
	transfer_note_opening(t, "%s", "");
	mutex_unlock(&t->run_lock);
	if (rc_away)
		transfer_failed(t, &away);
	return rc;
}

int transfer_restore(struct tsdb *db, struct err *e)
{
	struct transfer *t = db->transfer;
	struct lost_days lost = { 0 };
	struct err away;
	if (!t)
		return 0;
	mutex_lock(&t->run_lock);
	retrieve_list_lost(t, &lost);
	mend_find(t);
	t->is_opening = true;
	int rc = (lost.v.n || t->mends.n) && !t->has_begun ? transfer_begin_opening(t, &away) : 0;
	for (size_t i = lost.v.n; i-- && !rc;) { /* the newest first: rows are about to come for it. One that cannot be fetched is no reason to leave out the others */
		LOG_WARN("msg", "a day that was on this disk is not there any more: it is fetched from the bucket", "partition", LOG_NUM(lost.v.v[i]));
		int one_rc = retrieve_lost(t, lost.v.v[i], &away);
		if (transfer_is_away(one_rc))
			rc = one_rc;
		else if (one_rc)
			transfer_failed(t, &away);
	}
	if (!rc && t->has_begun)
		rc = mend_parts(t, true, &away);
	int rc_names = mend_check_names(t, e);
	transfer_note_opening(t, "%s", "");
	mutex_unlock(&t->run_lock);
	vec_free(&lost.v);
	if (rc)
		transfer_failed(t, &away);
	return rc_names;
}

int transfer_start(struct tsdb *db, struct err *e)
{
	struct transfer *t = db->transfer;
	if (!t)
		return 0;
	if (db->o.copy)
		return retrieve_apply_facts(t, e);
	mutex_lock(&t->run_lock);
	int rc = retrieve_apply_facts(t, e);
	if (!rc && t->has_begun)
		rc = retrieve_finish(t, e);
	if (!rc)
		rc = deletes_apply_pending(t, e);
	if (!rc)
		rc = mend_apply_deletes(t, e);
	t->is_open = !rc;
	if (!rc)
		rc = retrieve_keep_here(t, e);
	retrieve_note_absent(t);
	t->is_opening = false;
	mutex_unlock(&t->run_lock);
	if (!rc && !db->o.no_transfer) {
		rc = thread_start(&t->thread, "bucket", transfer_thread, t, e);
		t->have_thread = !rc;
		if (!rc)
			rc = deletes_start(t, e);
		if (!rc)
			rc = others_start(t, e);
	}
	return rc;
}

void transfer_close(struct tsdb *db)
{
	struct transfer *t = db->transfer;
	if (!t)
		return;
	if (t->have_thread)
		pthread_join(t->thread, NULL);
	deletes_stop(t);
	others_stop(t);
	cached_days_stop(db);
	others_free(t);
	vec_free(&t->uploads);
	vec_free(&t->removals);
	vec_free(&t->seen);
	vec_free(&t->mends);
	vec_free(&t->mended);
	vec_free(&t->facts_due);
	vec_free(&t->left_out);
	vec_free(&t->visits);
	vec_free(&t->checked);
	deletes_release(t);
	damaged_release(t);
	buf_free(&t->pending);
	catalogue_release(&t->catalogue);
	bucket_server_release(&t->server);
	mutex_destroy(&t->run_lock);
	mutex_destroy(&t->deletes_lock);
	pthread_cond_destroy(&t->deletes_made);
	pthread_cond_destroy(&t->deletes_put);
	mutex_destroy(&t->status_lock);
	db->transfer = NULL;
	db->catalogue = NULL;
	db->keeper = (struct part_keeper){ NULL, NULL };
	free(t);
}

uint64_t transfer_first_record(const struct tsdb *db)
{
	return db->transfer ? db->transfer->server.base << 40 : 0;
}
