/* SPDX-License-Identifier: Apache-2.0 */
/* Start: the content of the head log is brought back into memory, record by record, as the committer did. A record that is missing or
 * damaged costs what it held, is counted and reported, and never refuses the start. */
#include "base/log.h"
#include "tsdb/log/record.h"
#include "tsdb/part/part.h"
#include "tsdb/version/db.h"
#include "tsdb/write/committer.h"
#include "tsdb/write/hole_find.h"
#include "tsdb/write/replay.h"


struct replay {
	struct tsdb *db;
	struct version *v;
	struct hlog_loss loss; /* so far */
	uint64_t tap_has;      /* up to this number the tap has everything */
};

/* All of a day is harmed: names of it are lost, or what was deleted with it is back. */
static void replay_harmed_day(struct tsdb *db, uint32_t day)
{
	int64_t after = (int64_t)day * DAY_MS, now = tsdb_now_ms(db);
	if (!holes_has_time(&db->holes, after, after + DAY_MS))
		holes_add(&db->holes, &(struct hole){ 0, 0, after, after + DAY_MS, now });
}

static bool lost_any(const struct replay *r)
{
	return r->loss.holes || r->loss.bad;
}

static bool replay_symbols(struct replay *r, struct partition *p, uint64_t number, struct view payload)
{
	struct err e;
	rwlock_write(&p->dict_lock);
	uint64_t lost = p->lost;
	int rc = (lost_any(r) ? dict_apply_lossy : dict_apply)(payload, p->symbols, &p->index, &p->lost, &e);
	dict_marks_now(&p->logged, p->symbols, &p->index);
	tsdb_count_lost_symbols(p);
	if (p->first_symbols == UINT64_MAX && !dict_marks_eq(&p->logged, &p->sealed))
		p->first_symbols = number;
	bool harmed = p->lost > lost;
	rwlock_unlock(&p->dict_lock);
	if (harmed)
		replay_harmed_day(r->db, p->day);
	if (rc)
		LOG_WARN("msg", "damaged symbols in the head log", "record", LOG_NUM(number), "err", e.msg);
	return rc == 0;
}

static void need(uint32_t *next, uint32_t id)
{
	if (id < UINT32_MAX)
		*next = MAX(*next, id + 1);
}

/* How much of the dictionary a record takes for granted. */
static struct dict_marks ids_of(const struct record *rec)
{
	struct dict_marks to = { .series = 0 };
	struct cursor c = cursor_of(rec->payload);
	struct record_profile x = { 0 };
	struct record_float f;
	while (rec->kind == RECORD_FLOATS && record_get_float(&c, &f))
		need(&to.series, f.series);
	while (rec->kind == RECORD_SAMPLES && record_get_profile(&c, &x)) {
		for (uint32_t i = 0; i < x.n_series; i++)
			need(&to.series, x.series[i]);
		if (x.n)
			need(&to.symbols.next[ROWS_COLUMNS], x.columns.v[x.n - 1]);
	}
	record_profile_release(&x);
	return to;
}

/* The samples of a record whose symbols were lost are kept: their columns get substitutes. So are the series, without labels and
 * unable to take rows, so that a later series does not get their ids, and with them their data in the log. */
static void make_up(struct tsdb *db, struct partition *p, const struct record *rec)
{
	struct dict_marks to = ids_of(rec);
	rwlock_write(&p->dict_lock);
	uint64_t lost = p->lost;
	if (to.symbols.next[ROWS_COLUMNS] > symbols_count(p->symbols, SYMBOLS_COLUMNS) || to.series > p->index.series.n) {
		dict_fill_up(&to, p->symbols, &p->index, false, &p->lost);
		dict_marks_now(&p->logged, p->symbols, &p->index);
		tsdb_count_lost_symbols(p);
	}
	bool harmed = p->lost > lost;
	rwlock_unlock(&p->dict_lock);
	if (harmed)
		replay_harmed_day(db, p->day);
}

static bool replay_record(void *arg, uint64_t number, struct view bytes)
{
	struct replay *r = arg;
	mutex_assert_held(&r->db->apply_lock);
	struct record rec;
	struct err e;
	if (record_parse(number, bytes, &rec, &e)) {
		LOG_WARN("msg", "damaged record in the head log", "err", e.msg);
		return false;
	}
	if (record_is_void(&rec))
		return true;
	if (rec.kind != RECORD_FACT && number < hlog_first(r->db->log))
		return true; /* trimmed, and there still */
	if (number <= dropped_record(&r->db->dropped, rec.partition))
		return true; /* retention took what else there was of it */
	if (number <= hlog_gone(r->db->log, rec.partition))
		return true; /* of one that was deleted as a whole */
	if (rec.kind == RECORD_FACT && rec.payload.len && *rec.payload.ptr == FACT_GONE) /* what goes with it is lost */
		replay_harmed_day(r->db, rec.partition);
	struct partition *p = tsdb_enter_partition(r->db, rec.partition);
	partition_load(p);
	if (lost_any(r))
		make_up(r->db, p, &rec);
	bool ok;
	if (rec.kind == RECORD_SYMBOLS)
		ok = replay_symbols(r, p, number, rec.payload);
	else
		ok = tsdb_apply(r->db, &r->v, p, rec.kind, rec.payload, number, REPLAY_SEQ);
	if (number > r->tap_has)
		tsdb_tap(r->db, number);
	r->db->tapped.n = 0;
	partition_leave(p);
	return ok;
}

static void restore_last_stamps(struct tsdb *db)
{
	for (size_t i = 0; i < db->partitions.n; i++) {
		const struct index *x = &db->partitions.v[i]->index;
		for (size_t k = 0; k < x->series.n; k++)
			atomic_store(&x->series.v[k]->last_t, atomic_load(&x->series.v[k]->max_t));
	}
}

static void report(const struct tsdb *db, const struct hlog_loss *loss)
{
	if (!loss->holes && !loss->bad)
		return;
	LOG_WARN("msg", "the head log lost records: what they held is gone", "missing", LOG_NUM(loss->holes), "damaged",
		 LOG_NUM(loss->bad), "cut_tail", LOG_NUM(loss->cut), "first", LOG_NUM(loss->first), "last",
		 LOG_NUM(loss->last), "lost_symbols", LOG_NUM(atomic_load(&db->lost_symbols)));
}

/* The highest number that a part covers: a record of it or below would be taken for one that is sealed. */
static uint64_t last_sealed(const struct version *v)
{
	uint64_t last = 0;
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->p[i]->n_parts; k++)
			if (v->p[i]->parts[k]->level == LEVEL_HOUR)
				last = MAX(last, v->p[i]->parts[k]->last_record);
	return last;
}

/* What the log lacks is only known after all of it was read: after an error, records that were merely not read would be noted as lost. */
static void replay_finish(struct replay *r, uint64_t tap_last)
{
	struct tsdb *db = r->db;
	mutex_assert_held(&db->apply_lock);
	uint64_t above = MAX(MAX(last_sealed(r->v), dropped_last(&db->dropped)), tap_last);
	hlog_begin_above(db->log, db->first_record);
	hole_find(db, r->v, &r->loss);
	hole_find_end(db, r->v, above);
	hlog_number_above(db->log, above);
	restore_last_stamps(db);
	db->applied = hlog_last(db->log);
	hlog_saw_all(db->log, db->applied);
	tsdb_count_head(db, r->v);
	tsdb_publish(db, r->v, REPLAY_SEQ);
}

int tsdb_replay(struct tsdb *db, struct err *e)
{
	struct replay r = { .db = db, .v = tsdb_version(db, NULL), .tap_has = UINT64_MAX };
	struct err unwritten;
	uint64_t tap_last = 0;
	mutex_lock(&db->apply_lock);
	int rc = db->o.tap ? db->o.tap->open(db->o.tap, &r.tap_has, &tap_last, e) : 0;
	if (!rc)
		rc = hlog_replay(db->log, replay_record, &r, &r.loss, e);
	if (!rc)
		replay_finish(&r, tap_last);
	else
		version_unref(r.v);
	mutex_unlock(&db->apply_lock);
	vec_free(&r.loss.gaps);
	if (rc)
		return rc;
	atomic_fetch_add(&db->lost_records, r.loss.holes + r.loss.bad);
	report(db, &r.loss);
	if (!db->o.read_only && tsdb_sync_holes(db, &unwritten))
		LOG_WARN("msg", "what the head log has lost cannot be written down, will try again", "err", unwritten.msg);
	if (db->o.tap)
		db->o.tap->ready(db->o.tap, hlog_last(db->log));
	return 0;
}
