/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/log/hlog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "tsdb/disk/manifest.h"
#include "tsdb/disk/rocks.h"
#include "tsdb/disk/text.h"
#include "tsdb/log/log_end.h"
#include "tsdb/log/log_extents.h"
#include "tsdb/log/log_repair.h"
#include "tsdb/log/notes.h"
#include "tsdb/log/record.h"

#define OPEN_TRIES 3
#define OPEN_WAIT_MS 100
#define BUFFER_LEAST (UINT64_C(1) << 20)
#define MARKS_MAX_BYTES ((size_t)64 << 20)
#define GAPS_MOST 4096 /* above it two become one */

/* Behind all numbers: which partitions are gone. Key: this byte, day u32, number u64; value: a hash of the key. */
#define GONE_PREFIX 0xff
#define GONE_LEN 13
#define FIRST_PREFIX 0xfe /* notes (notes.h); no number begins so */

struct gone {
	uint32_t day;
	uint64_t number; /* of the record of that deletion */
};

struct hlog {
	char *dir, *path;
	rocksdb_t *db;
	bool look_only;
	bool existed, rebuilt;      /* as of the opening: it was there; it was read around damage */
	uint64_t buffer_bytes;      /* of each of HLOG_BUFFERS */
	bool damaged;               /* it cannot be read or written in this state: the next opening rebuilds it */
	rocksdb_options_t *options, *in_memory; /* in_memory: NULL, or db is there, read around the damage */
	rocksdb_env_t *memory;
	rocksdb_writeoptions_t *sync, *unsynced;
	rocksdb_readoptions_t *read;
	rocksdb_writebatch_t *batch;
	uint64_t next;              /* of the record that is put next */
	uint64_t tried;             /* the last one that a commit was tried with */
	atomic_ullong last, first;  /* synced; not trimmed */
	uint64_t marked_last, marked_first; /* as head.marks has them */
	uint64_t marked_seen;
	uint64_t begin;             /* the first record of the replay that is no fact and not trimmed; 0 = none */
	bool marks_held;            /* see hlog_hold_marks; with the marks above under mark_lock */
	struct log_extents marked;      /* of head.marks and head.end, read at the opening */
	struct log_end end;             /* head.end; under mark_lock */
	bool end_failed;                /* the last write of head.end failed; under mark_lock */
	struct mutex extents_lock;
	struct log_extents extents;     /* of what was replayed and committed; under extents_lock, as is writing `first` in a trim */
	VEC(struct gone) gone;      /* as of the opening */
	struct notes *notes;        /* durable ones, and those of the batch */
	struct notes *repaired;     /* while the log is rebuilt: the newest of each so far */
	uint64_t last_note;         /* the highest number at the opening */
	struct mutex mark_lock;
	struct rwlock db_lock;      /* written by hlog_reopen: db may be NULL after it failed */
	struct mutex write_lock;    /* held around every write, inside of db_lock */
	bool broken;                /* a write failed; under write_lock */
};

/* ---- marks ---- */

static void marks_checksum(char out[20], uint64_t synced, uint64_t first)
{
	uint64_t both[2] = { synced, first };
	snprintf(out, 20, "%016" PRIx64, hash_stable(both, sizeof both));
}

/* The lines before the extents; *text moves behind them. */
static bool parse_marks(struct hlog *l, struct view *text)
{
	struct view line[4];
	int64_t synced, first;
	char sum[20];
	for (size_t i = 0; i < ARRAY_LEN(line); i++)
		if (!text_line(text, &line[i]))
			return false;
	if (!view_eqs(line[0], "pyrrha-head-marks 1") || !text_numbers(line[1], "synced #", &synced) || !text_numbers(line[2], "first #", &first))
		return false;
	marks_checksum(sum, (uint64_t)synced, (uint64_t)first);
	if (!view_starts(line[3], VIEW("checksum ")) || !view_ends(line[3], view_of(sum)))
		return false;
	l->marked_last = (uint64_t)synced;
	l->marked_first = (uint64_t)first;
	return true;
}

/* Missing or damaged marks prevent no start; only that they cannot be read now does, because the next marks would replace them. */
static int read_marks_file(struct hlog *l, bool *ret_whole, struct err *e)
{
	AUTOFREE char *name = xasprintf("%s/head.marks", l->dir);
	CLEANUP(buf_free) struct buf b = { .max = MARKS_MAX_BYTES };
	struct err why = { 0 };
	*ret_whole = false;
	int rc = buf_read_file(&b, name, &why);
	if (rc == -ERR_NOT_FOUND) {
		if (l->existed)
			LOG_WARN("msg", "the file head.marks of the head log is missing: should records be missing at the beginning or the end of the log, nothing can tell", "file", name);
		return 0;
	}
	if (rc && rocks_of_the_place(&why)) {
		*e = why;
		return rc;
	}
	struct view rest = buf_view(&b);
	bool whole = log_extents_parse(&l->marked, rest);
	if (!rc && !parse_marks(l, &rest))
		rc = err_set(&why, ERR_CORRUPT, "its lines or its checksum are wrong");
	*ret_whole = !rc && whole;
	if (rc)
		LOG_WARN("msg", "head.marks is damaged: the head log counts as complete; records missing at its beginning or end are not noticed", "file",
			 name, "err", why.msg);
	else if (!whole && rest.len)
		LOG_WARN("msg", "the list of days and time ranges in head.marks is damaged: time ranges of lost records are estimated from their neighbours",
			 "file", name);
	else if (!whole)
		LOG_INFO("msg", "head.marks is of an older version: time ranges of lost records are estimated from their neighbours", "file", name);
	return 0;
}

/* Reads head.marks, and adds what head.end says of later records. Without a valid head.marks, head.end is ignored. */
static int read_marks(struct hlog *l, struct err *e)
{
	struct log_extents end = { .seen = 0 };
	bool whole;
	int rc = read_marks_file(l, &whole, e);
	if (!rc)
		rc = log_end_read(l->dir, &end, e);
	if (!rc && l->marked_first && end.seen > l->marked_last)
		l->marked_last = end.seen;
	if (!rc && whole && end.seen > l->marked.seen)
		log_extents_add(&l->marked, &end);
	log_extents_release(&end);
	return rc;
}

static int write_marks(const char *dir, uint64_t synced, uint64_t first, const struct buf *extents, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { .max = MARKS_MAX_BYTES };
	char sum[20];
	marks_checksum(sum, synced, first);
	buf_printf(&b, "pyrrha-head-marks 1\nsynced %" PRIu64 "\nfirst %" PRIu64 "\nchecksum %s\n", synced, first, sum);
	buf_putv(&b, buf_view(extents));
	return b.overflow ? err_set(e, ERR_LIMIT, "the marks of the head log %s are too large", dir) : files_put(dir, "head.marks", buf_view(&b), e);
}

/* The text of the extents, and the first record that is not trimmed as of the same moment; returns the last record that the extents have. */
static uint64_t put_extents(struct hlog *l, struct buf *b, uint64_t *ret_first)
{
	mutex_lock(&l->extents_lock);
	log_extents_put(&l->extents, b);
	uint64_t seen = l->extents.seen;
	*ret_first = atomic_load(&l->first);
	mutex_unlock(&l->extents_lock);
	return seen;
}

/* The text is taken under mark_lock: else a trim could write its marks and delete records in between, and the older text would then claim
 * these records. If `first` is what head.marks has, so are the extents that a trim took away: both change under one lock. */
int hlog_mark(struct hlog *l, struct err *e)
{
	CLEANUP(buf_free) struct buf text = { .max = MARKS_MAX_BYTES };
	uint64_t first;
	int rc = 0;
	mutex_lock(&l->mark_lock);
	uint64_t seen = put_extents(l, &text, &first), last = atomic_load(&l->last);
	if (!l->marks_held && (last != l->marked_last || first != l->marked_first || seen != l->marked_seen)) {
		rc = write_marks(l->dir, last, first, &text, e);
		if (!rc) {
			l->marked_last = last;
			l->marked_first = first;
			l->marked_seen = seen;
		}
	}
	mutex_unlock(&l->mark_lock);
	return rc;
}

void hlog_hold_marks(struct hlog *l, bool hold)
{
	mutex_lock(&l->mark_lock);
	l->marks_held = hold;
	mutex_unlock(&l->mark_lock);
}

/* ---- extents ---- */

void hlog_saw_rows(struct hlog *l, uint32_t day, uint64_t number, int64_t from_ms, int64_t until_ms)
{
	mutex_lock(&l->extents_lock);
	log_extents_add_rows(&l->extents, day, number, from_ms, until_ms);
	mutex_unlock(&l->extents_lock);
}

void hlog_saw_fact(struct hlog *l, uint32_t day, uint64_t number)
{
	mutex_lock(&l->extents_lock);
	log_extents_add_fact(&l->extents, day, number);
	mutex_unlock(&l->extents_lock);
}

void hlog_saw_all(struct hlog *l, uint64_t number)
{
	mutex_lock(&l->extents_lock);
	l->extents.seen = MAX(l->extents.seen, number);
	mutex_unlock(&l->extents_lock);
}

void hlog_note_end(struct hlog *l)
{
	struct err e = { 0 };
	mutex_lock(&l->mark_lock);
	mutex_lock(&l->extents_lock);
	int rc = l->marks_held ? 0 : log_end_write(&l->end, l->dir, &l->extents, l->marked_seen, &e);
	mutex_unlock(&l->extents_lock);
	if (rc && !l->end_failed)
		LOG_WARN("msg", "cannot write head.end: if the process is killed and the newest records of the head log are lost, the next start will not notice", "err", e.msg);
	l->end_failed = rc != 0;
	mutex_unlock(&l->mark_lock);
}

void hlog_forget_facts(struct hlog *l, uint32_t day)
{
	mutex_lock(&l->extents_lock);
	log_extents_forget_day(&l->extents, day);
	mutex_unlock(&l->extents_lock);
}

const struct log_extents *hlog_extents_marked(const struct hlog *l)
{
	return &l->marked;
}

const struct log_extents *hlog_extents_replayed(const struct hlog *l)
{
	return &l->extents;
}

/* ---- keys ---- */

static void put_be(char *to, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (char)(v >> (8 * (bytes - 1 - i)));
}

static uint64_t get_be(const char *from, int bytes)
{
	uint64_t v = 0;
	for (int i = 0; i < bytes; i++)
		v = v << 8 | (uint8_t)from[i];
	return v;
}

static void put_key(char key[8], uint64_t number)
{
	put_be(key, number, 8);
}

static void put_gone_key(char key[GONE_LEN], uint32_t day, uint64_t number)
{
	key[0] = (char)GONE_PREFIX;
	put_be(key + 1, day, 4);
	put_be(key + 5, number, 8);
}

static bool get_gone_key(const char *key, size_t len, struct gone *ret)
{
	if (len != GONE_LEN || (uint8_t)key[0] != GONE_PREFIX)
		return false;
	*ret = (struct gone){ (uint32_t)get_be(key + 1, 4), get_be(key + 5, 8) };
	return true;
}

/* ---- writing to RocksDB ---- */

/* Every write goes through here, one at a time, and no write follows a failed one. Debian's RocksDB is built with assertions, and one
 * of them ends the process on a write to a file whose earlier write failed. */
static int write_batch(struct hlog *l, rocksdb_writebatch_t *batch, bool sync, const char *what, struct err *e)
{
	char *error = NULL;
	int rc = 0;
	rwlock_read(&l->db_lock);
	mutex_lock(&l->write_lock);
	if (!l->db || l->broken) {
		rc = err_set(e, ERR_IO, "%s %s: it is closed after an error", what, l->path);
	} else {
		rocksdb_write(l->db, sync ? l->sync : l->unsynced, batch, &error);
		rc = rocks_err(&error, e, what, l->path);
		l->broken = rc != 0;
		l->damaged |= rc == -ERR_CORRUPT; /* RocksDB met a bad block when it put files together */
	}
	mutex_unlock(&l->write_lock);
	rwlock_unlock(&l->db_lock);
	return rc;
}

bool hlog_is_broken(struct hlog *l)
{
	mutex_lock(&l->write_lock);
	bool broken = l->broken;
	mutex_unlock(&l->write_lock);
	return broken;
}

/* ---- partitions that are gone ---- */

/* Behind the records, and before the partitions that are gone. */
static int load_notes(struct hlog *l, struct err *e)
{
	char *error = NULL;
	uint64_t damaged = 0;
	notes_clear(l->notes);
	l->last_note = 0;
	rocksdb_iterator_t *it = rocksdb_create_iterator(l->db, l->read);
	for (rocksdb_iter_seek(it, NOTES_PREFIX, NOTES_PREFIX_LEN); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
		size_t len, value_len;
		const char *key = rocksdb_iter_key(it, &len), *value = rocksdb_iter_value(it, &value_len);
		if (len < NOTES_PREFIX_LEN || memcmp(key, NOTES_PREFIX, NOTES_PREFIX_LEN) != 0)
			break;
		damaged += !notes_load(l->notes, view_make(key, len), view_make(value, value_len), &l->last_note);
	}
	rocksdb_iter_get_error(it, &error);
	rocksdb_iter_destroy(it);
	if (damaged)
		LOG_WARN("msg", "damaged notes in the head log: who wrote them begins without", "notes", LOG_NUM(damaged));
	return rocks_err(&error, e, "cannot read the head log", l->path);
}

/* Calls fn for each that the database has. */
static int each_gone(struct hlog *l, void (*fn)(void *arg, const char *key, struct gone g), void *arg, struct err *e)
{
	char from[1] = { (char)GONE_PREFIX }, *error = NULL;
	rocksdb_iterator_t *it = rocksdb_create_iterator(l->db, l->read);
	for (rocksdb_iter_seek(it, from, 1); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
		size_t len, value_len;
		struct gone g;
		const char *key = rocksdb_iter_key(it, &len), *value = rocksdb_iter_value(it, &value_len);
		if (get_gone_key(key, len, &g) && value_len == 8 && get_be(value, 8) == hash_stable(key, len))
			fn(arg, key, g);
	}
	rocksdb_iter_get_error(it, &error);
	rocksdb_iter_destroy(it);
	return rocks_err(&error, e, "cannot read the head log", l->path);
}

static void note_gone(void *arg, const char *key, struct gone g)
{
	struct hlog *l = arg;
	(void)key;
	vec_push(&l->gone, g);
}

uint64_t hlog_gone(const struct hlog *l, uint32_t day)
{
	uint64_t number = 0;
	for (size_t i = 0; i < l->gone.n; i++)
		if (l->gone.v[i].day == day)
			number = MAX(number, l->gone.v[i].number);
	return number;
}

void hlog_put_gone(struct hlog *l, uint32_t day, uint64_t number)
{
	char key[GONE_LEN], value[8];
	put_gone_key(key, day, number);
	put_be(value, hash_stable(key, sizeof key), 8);
	rocksdb_writebatch_put(l->batch, key, sizeof key, value, sizeof value);
}

int hlog_forget_gone(struct hlog *l, uint32_t day, struct err *e)
{
	char from[GONE_LEN], to[GONE_LEN];
	put_gone_key(from, 0, 0);
	put_gone_key(to, day, 0);
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	rocksdb_writebatch_delete_range(batch, from, sizeof from, to, sizeof to);
	int rc = write_batch(l, batch, false, "cannot write the head log", e);
	rocksdb_writebatch_destroy(batch);
	return rc;
}

/* ---- open, close ---- */

static void close_db(struct hlog *l)
{
	if (l->db)
		rocksdb_close(l->db);
	if (l->in_memory)
		rocksdb_options_destroy(l->in_memory);
	if (l->memory)
		rocksdb_env_destroy(l->memory);
	l->db = NULL;
	l->in_memory = NULL;
	l->memory = NULL;
}

static void free_log(struct hlog *l)
{
	close_db(l);
	if (l->batch)
		rocksdb_writebatch_destroy(l->batch);
	if (l->sync)
		rocksdb_writeoptions_destroy(l->sync);
	if (l->unsynced)
		rocksdb_writeoptions_destroy(l->unsynced);
	if (l->read)
		rocksdb_readoptions_destroy(l->read);
	if (l->options)
		rocksdb_options_destroy(l->options);
	mutex_destroy(&l->mark_lock);
	mutex_destroy(&l->extents_lock);
	log_extents_release(&l->marked);
	log_end_close(&l->end);
	log_extents_release(&l->extents);
	mutex_destroy(&l->write_lock);
	rwlock_destroy(&l->db_lock);
	vec_free(&l->gone);
	notes_free(l->notes);
	notes_free(l->repaired);
	free(l->dir);
	free(l->path);
	free(l);
}

/* Trimmed records may still be in a file that was not removed yet, but are ignored. Facts are kept for longer than the rest, and one
 * too many does no harm. */
static enum log_repair_verdict repair_judge_key(void *arg, const char *key, size_t len, struct view value)
{
	const struct hlog *l = arg;
	struct gone g;
	struct record r;
	struct err e;
	if (len > NOTES_PREFIX_LEN && !memcmp(key, NOTES_PREFIX, NOTES_PREFIX_LEN))
		return notes_judge(l->repaired, view_make(key, len), value);
	if (get_gone_key(key, len, &g)) {
		if (!value.len)
			return LOG_REPAIR_VOID;
		return value.len == 8 && get_be(value.ptr, 8) == hash_stable(key, len) ? LOG_REPAIR_TAKE : LOG_REPAIR_PASS;
	}
	if (len != 8 || record_parse(get_be(key, 8), value, &r, &e))
		return LOG_REPAIR_PASS;
	if (record_is_void(&r))
		return LOG_REPAIR_VOID;
	return get_be(key, 8) >= l->marked_first || r.kind == RECORD_FACT ? LOG_REPAIR_TAKE : LOG_REPAIR_PASS;
}

/* A file cannot be read, as the list of them after a power loss that tore its last entry, or is not there. Not a write that failed. */
static bool is_damaged(const struct err *e)
{
	return e->code == ERR_CORRUPT || strstr(e->msg, "No such file") || strstr(e->msg, "Input/output error");
}

static rocksdb_options_t *log_options(const struct hlog *l)
{
	rocksdb_options_t *o = rocks_options(NULL);
	/* Never point in time: that open deletes the log behind a flipped byte. */
	rocksdb_options_set_wal_recovery_mode(o, rocksdb_skip_any_corrupted_records_recovery);
	/* A record lives for an hour and a quarter: in large buffers most are trimmed before they would leave memory, and compressing the
	 * rest does not pay. */
	rocksdb_options_set_write_buffer_size(o, l->buffer_bytes);
	rocksdb_options_set_compression(o, rocksdb_no_compression);
	rocksdb_options_set_max_write_buffer_number(o, HLOG_BUFFERS);
	return o;
}

/* Its readable content, around the damage, without a write. Appends are refused. */
static int open_in_memory(struct hlog *l, struct err *e)
{
	close_db(l);
	l->memory = rocksdb_create_mem_env();
	l->in_memory = log_options(l);
	rocksdb_options_set_env(l->in_memory, l->memory);
	l->damaged = l->broken = l->rebuilt = true;
	notes_clear(l->repaired);
	return log_repair_in_memory(l->in_memory, l->path, repair_judge_key, l, l->marked_last, &l->db, e);
}

/* No other thread has it. */
static int make_anew(struct hlog *l, struct err *e)
{
	notes_clear(l->repaired);
	l->rebuilt = true;
	int rc = log_repair(l->options, l->path, repair_judge_key, l, l->marked_last, e);
	l->damaged = rc != 0;
	return rc;
}

static int open_to_write(struct hlog *l, struct err *e)
{
	char *error = NULL;
	l->db = rocksdb_open(l->options, l->path, &error);
	return rocks_err(&error, e, "cannot open the head log", l->path);
}

static int open_to_read(struct hlog *l, struct err *e)
{
	char *error = NULL;
	l->db = rocksdb_open_for_read_only(l->options, l->path, 0, &error);
	l->broken = true;
	return rocks_err(&error, e, "cannot open the head log for reading", l->path);
}

/* Unchanged, or, if it cannot be written, read-only: then appends are refused until hlog_reopen. anew: without the damaged parts. */
static int try_open(struct hlog *l, bool anew, struct err *e)
{
	struct err other = { 0 };
	close_db(l);
	l->broken = false;
	if (!anew && (manifest_is_damaged(l->path) || log_repair_is_needed(l->path, l->marked_last)))
		return err_set(e, ERR_CORRUPT, "the head log %s: a file of it is damaged", l->path);
	if (l->look_only)
		return anew ? open_in_memory(l, e) : open_to_read(l, e);
	if ((anew || manifest_is_gone(l->path)) && make_anew(l, e)) { /* opened without a list, it would be emptied */
		LOG_WARN("msg", "the head log is damaged and cannot be rebuilt", "err", e->msg);
		return anew ? open_in_memory(l, e) : -(int)e->code;
	}
	int rc = open_to_write(l, e);
	if (!rc || is_damaged(e))
		return rc;
	rc = open_to_read(l, &other);
	if (!rc)
		LOG_WARN("msg", "the head log can be read and not be written: appends are refused until it can", "err", e->msg);
	else
		*e = other;
	return rc;
}

/* A temporary failure does not prevent a start, and damage never does. */
static int open_db(struct hlog *l, struct err *e)
{
	int rc = -1;
	for (int tries = 0; rc && tries < OPEN_TRIES; tries++) {
		if (tries)
			clock_sleep_ms(OPEN_WAIT_MS);
		rc = try_open(l, tries + 1 == OPEN_TRIES && is_damaged(e), e); /* not at once: it may only have been read wrong */
	}
	return rc;
}

/* After something of it could not be read: that may pass, else the last try opens it without the damaged parts. An error of the machine (no
 * memory, no descriptors) is no damage, and a rebuild would meet it too. */
static int open_again(struct hlog *l, bool is_last, struct err *e)
{
	bool anew = is_last && !rocks_of_the_place(e);
	if (l->in_memory)
		return -(int)e->code;
	LOG_WARN("msg", "the head log cannot be read as it lies", "dir", l->path, "err", e->msg);
	clock_sleep_ms(OPEN_WAIT_MS);
	return try_open(l, anew, e);
}

static int read_beside_records(struct hlog *l, struct err *e)
{
	int rc = -1;
	for (int tries = 0; rc && tries < OPEN_TRIES; tries++) {
		if (tries && open_again(l, tries + 1 == OPEN_TRIES, e))
			continue;
		l->gone.n = 0;
		rc = each_gone(l, note_gone, l, e);
		if (!rc)
			rc = load_notes(l, e);
	}
	return rc;
}

int hlog_open(struct hlog **ret, const char *dir, uint64_t memory, bool *ret_writable, struct err *e)
{
	struct hlog *l = NEW(struct hlog);
	mutex_init(&l->mark_lock, RANK_TSDB_LOG_MARKS, "log marks");
	mutex_init(&l->extents_lock, LOCK_LEAF, "log extents");
	mutex_init(&l->write_lock, RANK_TSDB_LOG_WRITE, "log writes");
	rwlock_init(&l->db_lock, RANK_TSDB_LOG_DB, "log");
	l->dir = xstrdup(dir);
	l->path = xasprintf("%s/head", dir);
	l->notes = notes_new();
	l->repaired = notes_new();
	l->next = 1;
	atomic_init(&l->last, 0);
	atomic_init(&l->first, 1);
	l->buffer_bytes = MAX(memory / HLOG_BUFFERS, BUFFER_LEAST);
	l->options = log_options(l);
	l->look_only = !ret_writable;
	l->marks_held = true;
	l->end.fd = -1;
	int rc = l->look_only ? 0 : log_repair_finish(l->path, e);
	AUTOFREE char *current = xasprintf("%s/CURRENT", l->path); /* a look at a missing log leaves its directory */
	l->existed = access(current, F_OK) == 0;
	if (!rc)
		rc = read_marks(l, e);
	if (!rc)
		rc = open_db(l, e);
	if (rc) {
		free_log(l);
		return rc;
	}
	l->sync = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(l->sync, 1);
	l->unsynced = rocksdb_writeoptions_create();
	l->read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_fill_cache(l->read, 0);
	l->batch = rocksdb_writebatch_create();
	atomic_store(&l->first, MAX(l->marked_first, 1));
	rc = read_beside_records(l, e);
	if (rc) {
		free_log(l);
		return rc;
	}
	if (ret_writable)
		*ret_writable = !l->broken;
	*ret = l;
	return 0;
}

int hlog_close(struct hlog *l, struct err *e)
{
	if (!l)
		return 0;
	int rc = l->look_only ? 0 : hlog_mark(l, e);
	free_log(l);
	return rc;
}

/* ---- replay ---- */

/* Gaps come in ascending order. */
static void lost(struct hlog_loss *x, uint64_t first, uint64_t last)
{
	struct hlog_gap *before = x->gaps.n ? &x->gaps.v[x->gaps.n - 1] : NULL;
	if (before && (first <= before->last + 1 || x->gaps.n == GAPS_MOST))
		before->last = MAX(before->last, last);
	else
		vec_push(&x->gaps, (struct hlog_gap){ first, last });
	if (!x->first || first < x->first)
		x->first = first;
	if (last > x->last)
		x->last = last;
}

/* Below the first mark only facts are left, so that holes there mean nothing. Without marks (they are lost, or this is the first open)
 * what lies before the first record that is no fact counts as trimmed. */
static void look_for_hole(const struct hlog *l, struct hlog_loss *x, uint64_t before, uint64_t number)
{
	uint64_t from = MAX(before + 1, l->marked_first);
	if (from >= number || (!l->marked_first && !l->begin))
		return;
	x->holes += number - from;
	lost(x, from, number - 1);
}

static bool is_begin(const struct hlog *l, uint64_t number, struct view record)
{
	struct record r;
	struct err e;
	return number >= l->marked_first && !record_parse(number, record, &r, &e) && r.kind != RECORD_FACT;
}

/* Goes on behind the record *before. */
static int replay_rest(struct hlog *l, bool (*fn)(void *arg, uint64_t number, struct view record), void *arg, uint64_t *before,
		       struct hlog_loss *ret, struct err *e)
{
	char *error = NULL, from[8];
	put_key(from, *before + 1);
	rocksdb_iterator_t *it = rocksdb_create_iterator(l->db, l->read);
	for (rocksdb_iter_seek(it, from, sizeof from); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
		size_t key_len, len;
		const char *key = rocksdb_iter_key(it, &key_len), *value = rocksdb_iter_value(it, &len);
		if (key_len && (uint8_t)key[0] >= FIRST_PREFIX)
			break;
		if (key_len != 8)
			continue;
		uint64_t number = get_be(key, 8);
		look_for_hole(l, ret, *before, number);
		if (!l->begin && is_begin(l, number, view_make(value, len)))
			l->begin = number;
		if (!fn(arg, number, view_make(value, len))) {
			ret->bad++;
			lost(ret, number, number);
		}
		*before = number;
	}
	rocksdb_iter_get_error(it, &error);
	rocksdb_iter_destroy(it);
	return rocks_err(&error, e, "cannot read the head log", l->path);
}

int hlog_replay(struct hlog *l, bool (*fn)(void *arg, uint64_t number, struct view record), void *arg,
		struct hlog_loss *ret, struct err *e)
{
	uint64_t before = 0;
	int rc = -1;
	*ret = (struct hlog_loss){ 0 };
	for (int tries = 0; rc && tries < OPEN_TRIES; tries++)
		if (!tries || !open_again(l, tries + 1 == OPEN_TRIES, e))
			rc = replay_rest(l, fn, arg, &before, ret, e);
	if (rc) /* what it would find missing was not read */
		return rc;
	if (before < l->marked_last) {
		ret->cut = l->marked_last - MAX(before, l->marked_first ? l->marked_first - 1 : 0);
		ret->holes += ret->cut;
		if (ret->cut)
			lost(ret, l->marked_last - ret->cut + 1, l->marked_last);
		before = l->marked_last;
	}
	for (size_t i = 0; i < l->gone.n; i++)
		before = MAX(before, l->gone.v[i].number); /* what comes is not void */
	before = MAX(before, l->last_note);
	l->next = before + 1;
	atomic_store(&l->last, before);
	if (!l->marked_first)
		atomic_store(&l->first, l->begin ? l->begin : l->next);
	return 0;
}

bool hlog_may_be_trimmed(const struct hlog *l)
{
	return !l->marked_first && l->existed && !l->rebuilt;
}

void hlog_number_above(struct hlog *l, uint64_t number)
{
	if (number < l->next)
		return;
	if (!hlog_may_be_trimmed(l))
		LOG_WARN("msg", "the head log ends before records that parts were made of: what came after its end and was not sealed is gone",
			 "dir", l->path, "last", LOG_NUM(l->next - 1), "sealed", LOG_NUM(number));
	if (!l->begin)
		atomic_store(&l->first, number + 1); /* it is empty, or has facts alone: no gap can be seen in it */
	l->next = number + 1;
	atomic_store(&l->last, number);
}

void hlog_begin_above(struct hlog *l, uint64_t number)
{
	if (l->begin || atomic_load(&l->last) || number < l->next)
		return;
	atomic_store(&l->first, number + 1);
	l->next = number + 1;
	atomic_store(&l->last, number);
}

/* ---- writing ---- */

uint64_t hlog_put(struct hlog *l, struct buf *record)
{
	char key[8];
	record_end(record, l->next);
	put_key(key, l->next);
	rocksdb_writebatch_put(l->batch, key, sizeof key, record->ptr, record->len);
	return l->next++;
}

struct notes *hlog_notes(struct hlog *l)
{
	return l->notes;
}

void hlog_put_note(struct hlog *l, struct note *n)
{
	notes_put(l->notes, n);
}

/* A record with only a number. */
static void void_record(struct buf *b)
{
	record_begin(b, RECORD_FACT, 0);
	buf_putc(b, FACT_VOID);
}

static void put_notes(struct hlog *l)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	if (!notes_has_put(l->notes))
		return;
	if (l->next == atomic_load(&l->last) + 1) {
		void_record(&b);
		hlog_put(l, &b);
	}
	notes_write(l->notes, l->batch, l->next - 1);
}

int hlog_expire_notes(struct hlog *l, int64_t before_ms, struct err *e)
{
	if (hlog_is_broken(l))
		return 0;
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	size_t n = notes_expire(l->notes, before_ms, batch);
	int rc = n ? write_batch(l, batch, false, "cannot write the head log", e) : 0;
	rocksdb_writebatch_destroy(batch);
	return rc;
}

void hlog_abort(struct hlog *l)
{
	notes_abort(l->notes);
	rocksdb_writebatch_clear(l->batch);
	l->next = atomic_load(&l->last) + 1;
}

int hlog_commit(struct hlog *l, struct err *e)
{
	put_notes(l);
	if (!hlog_is_broken(l))
		l->tried = MAX(l->tried, l->next - 1);
	int rc = write_batch(l, l->batch, true, "cannot write the head log", e);
	rocksdb_writebatch_clear(l->batch);
	if (rc) {
		notes_failed(l->notes);
		l->next = atomic_load(&l->last) + 1;
	} else {
		notes_committed(l->notes);
		atomic_store(&l->last, l->next - 1);
	}
	return rc;
}

struct cut {
	rocksdb_writebatch_t *batch;
	uint64_t last;
};

static void cut_gone(void *arg, const char *key, struct gone g)
{
	const struct cut *c = arg;
	if (g.number > c->last)
		rocksdb_writebatch_put(c->batch, key, GONE_LEN, "", 0);
}

/* Everything above the last synced number: a failed commit said that it is not there. Its numbers are not used again, and void records
 * replace it: so an old record is recognised in any file that still has it. */
static int cut_above(struct hlog *l, struct err *e)
{
	char key[8], *error = NULL;
	struct cut c = { rocksdb_writebatch_create(), atomic_load(&l->last) };
	l->tried += notes_has_failed(l->notes); /* a number above theirs, for what was before them */
	for (uint64_t number = c.last + 1; number <= l->tried; number++) {
		struct buf b = { 0 };
		void_record(&b);
		record_end(&b, number);
		put_key(key, number);
		rocksdb_writebatch_put(c.batch, key, sizeof key, b.ptr, b.len);
		buf_free(&b);
	}
	notes_undo(l->notes, c.batch, l->tried);
	int rc = each_gone(l, cut_gone, &c, e);
	if (!rc) {
		rocksdb_write(l->db, l->sync, c.batch, &error);
		rc = rocks_err(&error, e, "cannot write the head log", l->path);
	}
	rocksdb_writebatch_destroy(c.batch);
	if (!rc && l->tried > c.last) {
		atomic_store(&l->last, l->tried);
		l->next = l->tried + 1;
	}
	if (!rc)
		notes_undone(l->notes);
	return rc;
}

int hlog_reopen(struct hlog *l, struct err *e)
{
	rwlock_write(&l->db_lock);
	close_db(l);
	int rc = l->damaged || manifest_is_gone(l->path) ? make_anew(l, e) : 0;
	if (!rc)
		rc = open_to_write(l, e);
	if (!rc)
		rc = cut_above(l, e);
	l->damaged |= rc && is_damaged(e);
	l->broken = rc != 0;
	rwlock_unlock(&l->db_lock);
	return rc;
}

uint64_t hlog_last(const struct hlog *l)
{
	return atomic_load(&l->last);
}

uint64_t hlog_first(const struct hlog *l)
{
	return atomic_load(&l->first);
}

int hlog_trim(struct hlog *l, uint64_t below, const struct log_keep *keep, size_t n_keep, struct err *e)
{
	uint64_t from = 0;
	char a[8], b[8];
	mutex_lock(&l->mark_lock);
	bool held = l->marks_held; /* they would claim what is trimmed */
	mutex_unlock(&l->mark_lock);
	if (held || below <= atomic_load(&l->first) || l->in_memory) /* no mark passes what could not be read and is not kept aside yet */
		return 0;
	/* The mark first: a crash in between leaves records too many, which replay skips. */
	mutex_lock(&l->extents_lock);
	atomic_store(&l->first, below);
	log_extents_trim(&l->extents, below, keep, n_keep);
	mutex_unlock(&l->extents_lock);
	int rc = hlog_mark(l, e);
	if (rc)
		return rc;
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	for (size_t i = 0; i <= n_keep; i++) {
		uint64_t to = i < n_keep && keep[i].number < below ? keep[i].number : below;
		put_key(a, from);
		put_key(b, to);
		if (from < to)
			rocksdb_writebatch_delete_range(batch, a, 8, b, 8);
		from = to + 1;
		if (to == below)
			break;
	}
	rc = write_batch(l, batch, false, "cannot trim the head log", e);
	rocksdb_writebatch_destroy(batch);
	return rc;
}

void hlog_give_back(struct hlog *l)
{
	char *error = NULL;
	rocksdb_flushoptions_t *o = rocksdb_flushoptions_create();
	rocksdb_flushoptions_set_wait(o, 0);
	rwlock_read(&l->db_lock);
	mutex_lock(&l->write_lock);
	if (l->db && !l->broken) {
		rocksdb_flush(l->db, o, &error); /* its write-ahead file goes with it */
		l->broken = rocks_err(&error, NULL, "", "") != 0;
	}
	mutex_unlock(&l->write_lock);
	rwlock_unlock(&l->db_lock);
	rocksdb_flushoptions_destroy(o);
}

int hlog_snapshot(struct hlog *l, const char *dir, struct err *e)
{
	AUTOFREE char *head = xasprintf("%s/head", dir);
	/* Records committed meanwhile may or may not be in it: the mark is older. */
	CLEANUP(buf_free) struct buf text = { .max = MARKS_MAX_BYTES };
	uint64_t first;
	put_extents(l, &text, &first);
	uint64_t last = atomic_load(&l->last);
	rwlock_read(&l->db_lock);
	int rc = l->db && !l->in_memory ? rocks_checkpoint(l->db, head, e) : err_set(e, ERR_IO, "the head log is closed after an error");
	rwlock_unlock(&l->db_lock);
	return rc ? rc : write_marks(dir, last, first, &text, e);
}

static uint64_t property(const struct hlog *l, const char *name)
{
	uint64_t n = 0;
	char *v = l->db ? rocksdb_property_value(l->db, name) : NULL;
	if (v) {
		n = strtoull(v, NULL, 10);
		rocksdb_free(v);
	}
	return n;
}

uint64_t hlog_bytes(struct hlog *l)
{
	rwlock_read(&l->db_lock);
	uint64_t n = property(l, "rocksdb.total-sst-files-size") + property(l, "rocksdb.cur-size-all-mem-tables");
	rwlock_unlock(&l->db_lock);
	return n;
}

uint64_t hlog_memory(struct hlog *l)
{
	rwlock_read(&l->db_lock);
	uint64_t n = property(l, "rocksdb.size-all-mem-tables");
	rwlock_unlock(&l->db_lock);
	return n;
}
