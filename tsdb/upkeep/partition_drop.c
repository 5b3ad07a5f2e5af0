/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a partition. Runs on the sealer's thread, under seal_lock.
 *
 * By age or size it is dropped at once, even while it is read. Its directory is marked; then the file `dropped` says that its records
 * up to the last number are void. Its day may return, with higher numbers. On a full disk, where that cannot be written, its directory
 * is renamed first, and the day takes nothing in until it could be. A separate thread (drop_free) closes it, removes its files and
 * frees its dictionary, so that no other thread waits for that.
 *
 * A partition of which everything was deleted is dropped too, but its day may return: late profiles make a new partition of that day,
 * whose ids and part numbers start again. The log's records of the old one (rows, symbols, tombstones, late names) must not apply to
 * the new one. The old directory must not be mistaken for the new one's, wherever the power fails. The states on disk, in this order:
 *
 *	1. nothing_left    every row of its parts is hidden by facts in the log (synced), there are no windows; nobody reads
 *	                   it, no append uses its ids, and those that need some wait from here on
 *	2. the mark        partitions/DAY/deleted, synced with its directory, names the log's next number, M
 *	3. the commit      a fact in the log, number N >= M, synced, and under the day's key the number N: this is the
 *	                   moment. A crash before: the mark means nothing and is removed. After it: records of the day up to
 *	                   N are void, and a directory with a mark M <= N is the old one
 *	4. the rename      to DAY.gone, and partitions/ synced; then its files are removed, at leisure
 *	5. the next append makes the new partition: its records are numbered above N, its directory has no mark
 *
 * If step 3 fails, the state on disk is unknown. The log then takes no commit before it was reopened and everything above its last
 * acknowledged number was made void (hlog_reopen). The partition is kept until the next try. If 4 fails, the old directory is in the
 * way: seals of the day fail and try again, and so does the next start. */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/map.h"
#include "tsdb/part/part.h"
#include "tsdb/upkeep/partition_drop.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/version/late_names.h"
#include "tsdb/version/tombstones.h"
#include "tsdb/write/committer.h"
#include "tsdb/write/request.h"

#define READERS_WAIT_MS 50

static void forget_partition(struct tsdb *db, struct partition *p)
{
	mutex_lock(&db->state_lock);
	for (size_t i = 0; i < db->partitions.n; i++)
		if (db->partitions.v[i] == p) {
			db->partitions.v[i] = db->partitions.v[--db->partitions.n];
			mutex_unlock(&db->state_lock);
			partition_unref(p);
			return;
		}
	mutex_unlock(&db->state_lock);
}

/* Takes no more appends for p, if none is on its way; open_again lets them in (to it, or to the next of its day). */
static bool shut_partition(struct tsdb *db, struct partition *p) REQUIRES(db->apply_lock)
{
	mutex_assert_held(&db->apply_lock);
	mutex_lock(&db->state_lock);
	bool shut = p->closing = !atomic_load(&p->users);
	mutex_unlock(&db->state_lock);
	return shut;
}

static void open_again(struct tsdb *db, struct partition *p)
{
	mutex_lock(&db->state_lock);
	p->closing = false;
	pthread_cond_broadcast(&db->state_cond);
	mutex_unlock(&db->state_lock);
}

/* ---- by age or size ---- */

/* On disk it is deleted from here on, or unchanged. */
static int note_drop(struct tsdb *db, struct partition *p, uint64_t record, struct err *e)
{
	int rc = p->db_parts ? partition_db_put_mark(p->db_parts, record, e) : 0;
	if (!rc)
		rc = dropped_add(db, p->day, record, e);
	if (!rc || !p->db_parts)
		return rc;
	rc = partition_db_move_away(p->db_parts, e);
	if (rc)
		partition_db_remove_mark(partition_db_dir(p->db_parts));
	else
		dropped_must_add(db, p->day, record);
	return rc;
}

static void leave(struct tsdb *db, struct partition *p)
{
	mutex_lock(&db->apply_lock);
	if (p->db_parts)
		partition_db_drop(p->db_parts);
	struct version *v = tsdb_version(db, NULL);
	tsdb_publish(db, version_without(v, p->day), 0);
	version_unref(v);
	hlog_forget_facts(db->log, p->day);
	forget_partition(db, p);
	open_again(db, p);
	mutex_unlock(&db->apply_lock);
}

int tsdb_drop_partition(struct tsdb *db, struct partition *p, struct pstate *s, struct err *e)
{
	mutex_assert_held(&db->seal_lock);
	int64_t start = clock_mono_ns();
	uint32_t day = p->day;
	mutex_lock(&db->apply_lock);
	bool shut = shut_partition(db, p);
	uint64_t record = db->applied; /* all of its own, as none is on its way */
	mutex_unlock(&db->apply_lock);
	int rc = shut ? note_drop(db, p, record, e) : 0;
	if (shut && rc)
		open_again(db, p);
	if (!shut || rc)
		return rc;
	partition_ref(p);
	if (s) {
		atomic_fetch_add(&s->refs, 1);
		vec_push(&db->leaving, s);
	}
	leave(db, p);
	partition_unref(p);
	struct err unwritten;
	/* Below until_ms the file says all that these said. */
	if (((int64_t)day + 1) * DAY_MS <= db->dropped.until_ms && hlog_forget_gone(db->log, day + 1, &unwritten))
		LOG_DEBUG("msg", "the log keeps what it need not", "err", unwritten.msg);
	if (s) {
		metric_inc(&tsdb_metrics[TM_RETAINED]);
		LOG_INFO("msg", "dropped a partition", "partition", LOG_NUM(day), "us", LOG_NUM((clock_mono_ns() - start) / 1000));
	}
	return 1;
}

/* ---- what it leaves ---- */

struct remains {
	struct tsdb *db;
	VEC(struct pstate *) v;
};

static void *drop_free(void *arg)
{
	struct remains *r = arg;
	int64_t start = clock_mono_ns();
	for (size_t i = 0; i < r->v.n; i++) {
		dict_unions_forget_everywhere(r->db, r->v.v[i]->p->symbols);
		dict_unions_forget_day(r->db, r->v.v[i]->p);
		pstate_unref(r->v.v[i]); /* the last one, if no query looks at it */
	}
	LOG_DEBUG("msg", "freed what dropped partitions left", "partitions", LOG_NUM(r->v.n), "us",
		  LOG_NUM((clock_mono_ns() - start) / 1000));
	vec_free(&r->v);
	free(r);
	return NULL;
}

void tsdb_wait_dropped(struct tsdb *db)
{
	if (db->have_dropper)
		pthread_join(db->dropper, NULL);
	db->have_dropper = false;
}

void tsdb_free_dropped(struct tsdb *db)
{
	struct err e;
	if (!db->leaving.n)
		return;
	tsdb_wait_dropped(db);
	struct remains *r = NEW(struct remains);
	r->db = db;
	for (size_t i = 0; i < db->leaving.n; i++)
		vec_push(&r->v, db->leaving.v[i]);
	vec_free(&db->leaving);
	db->have_dropper = !thread_start(&db->dropper, "drop", drop_free, r, &e);
	if (!db->have_dropper)
		drop_free(r);
}

/* ---- because all of it was deleted ---- */

static bool nothing_left(const struct pstate *s)
{
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct part *p = s->parts[i];
		if (p->lost && p->level == LEVEL_HOUR)
			return false; /* its content is unknown */
		for (size_t k = 0; p->level == LEVEL_HOUR && k < p->series.n; k++) {
			int64_t start = part_start_ms(p), after = start + p->series.v[k].min_ms - 1, until;
			if (tombstones_next(s, p, p->series.v[k].series, &after, start + p->series.v[k].max_ms, &until))
				return false;
		}
	}
	return s->n_parts && !s->n_windows;
}

static struct pstate *find_deleted(const struct version *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (nothing_left(v->p[i]))
			return v->p[i];
	return NULL;
}

/* From here on no append enters it and no new query sees it. Returns its state, owned; NULL: there is none, or it is in
 * use. */
static struct pstate *take_out(struct tsdb *db)
{
	mutex_lock(&db->apply_lock);
	struct version *v = tsdb_version(db, NULL);
	struct pstate *s = find_deleted(v);
	if (s) {
		if (shut_partition(db, s->p))
			atomic_fetch_add(&s->refs, 1);
		else
			s = NULL;
	}
	if (s)
		tsdb_publish(db, version_without(v, s->p->day), 0);
	version_unref(v);
	mutex_unlock(&db->apply_lock);
	return s;
}

/* Whether the queries that saw it are over. */
static bool is_alone(const struct pstate *s)
{
	bool alone = atomic_load(&s->refs) == 1 && partition_db_is_alone(s->p->db_parts, s->n_parts);
	for (size_t k = 0; k < s->n_parts; k++)
		alone &= atomic_load(&s->parts[k]->refs) == 1;
	return alone;
}

/* The same, a while later if need be: the last reference of a query is its version's. */
static bool wait_alone(struct tsdb *db, const struct pstate *s)
{
	int64_t until = clock_mono_ms() + READERS_WAIT_MS;
	bool alone;
	atomic_fetch_add(&db->readers_waiters, 1);
	mutex_lock(&db->readers_lock);
	while (!(alone = is_alone(s)) && mutex_wait_ms(&db->readers_lock, &db->readers_cond, until))
		;
	mutex_unlock(&db->readers_lock);
	atomic_fetch_sub(&db->readers_waiters, 1);
	return alone;
}

static int commit_gone(struct tsdb *db, struct partition *p, struct err *e) REQUIRES(db->seal_lock)
{
	struct request *r = NEW(struct request);
	struct request_record *x = vec_add(&r->records);
	x->p = partition_enter(p);
	x->kind = RECORD_FACT;
	x->gone = true;
	record_begin(&x->bytes, RECORD_FACT, p->day);
	buf_putc(&x->bytes, FACT_GONE);
	return tsdb_commit(db, r, e);
}

static void put_back(struct tsdb *db, const struct pstate *s)
{
	mutex_lock(&db->apply_lock);
	struct version *v = tsdb_version(db, NULL);
	struct version *next = version_with(v, s->p, s->windows, s->n_windows, s->parts, s->n_parts);
	version_set_tombstones(next, s->p->day, tombstones_ref(s->tombstones));
	version_set_late_names(next, s->p->day, late_names_ref(s->names));
	tsdb_publish(db, next, 0);
	version_unref(v);
	open_again(db, s->p);
	mutex_unlock(&db->apply_lock);
}

/* Its directory goes with the last reference to its parts, which is that of s. */
static void let_go(struct tsdb *db, const struct pstate *s)
{
	mutex_lock(&db->apply_lock);
	partition_db_drop(s->p->db_parts);
	partition_db_unref(s->p->db_parts);
	s->p->db_parts = NULL;
	forget_partition(db, s->p);
	open_again(db, s->p);
	mutex_unlock(&db->apply_lock);
}

int tsdb_drop_deleted(struct tsdb *db, struct err *e)
{
	mutex_assert_held(&db->seal_lock);
	struct pstate *s = take_out(db);
	if (!s)
		return 0;
	uint32_t day = s->p->day;
	int rc = 0;
	bool go = wait_alone(db, s);
	if (go) {
		rc = partition_db_put_mark(s->p->db_parts, hlog_last(db->log) + 1, e);
		if (!rc)
			rc = commit_gone(db, s->p, e);
		if (rc)
			partition_db_remove_mark(partition_db_dir(s->p->db_parts));
	}
	if (go && !rc) {
		vec_push(&db->emptied, (struct dropped_day){ day, hlog_last(db->log) }); /* before its day may begin again */
		let_go(db, s);
		dict_unions_forget_everywhere(db, s->p->symbols);
		dict_unions_forget_day(db, s->p);
	} else {
		put_back(db, s);
	}
	pstate_unref(s);
	if (go && !rc)
		LOG_INFO("msg", "dropped a partition of which everything was deleted", "partition", LOG_NUM(day));
	return rc ? rc : go;
}
