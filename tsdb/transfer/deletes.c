/* SPDX-License-Identifier: Apache-2.0 */
/* Deletes reach the bucket as objects of their own, because a day that is not here has no facts: whoever brings it back, or reads it there,
 * applies those that are newer than its generation. The order on disk and in the bucket:
 *
 *	1. bucket/deletes notes the delete as pending     a crash from here on: the next start applies it, for the second time if need be
 *	2. the facts are in the head log                  it is hidden here; generations made from now on have it. The file says so: the
 *	                                                  next start would delete what came since
 *	3. the object is in the bucket                    it is hidden wherever days of the bucket are read
 *	4. bucket/deletes notes the object as applied     generations say that they have all deletes up to it
 *
 * A day that local retention let go and that has rows of a newer delete is fetched, rewritten, put again, and let go again.
 *
 * bucket/deletes is
 *
 *	pyrrha-deletes 1
 *	id ID
 *	applied EPOCH SERIAL
 *	of each pending delete: here 1 (step 2 is done) or 0, and its lines, as in an object
 *	of each one that is in the bucket: at EPOCH SERIAL, and its lines. Days that are read in the bucket need them before the bucket has answered
 *	checksum ...
 *
 * and a delete's lines are
 *
 *	made MS after MS until MS
 *	select SELECTOR */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/thread.h"
#include "model/selector.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/disk/text.h"
#include "tsdb/transfer/transfer_private.h"
#include "tsdb/write/delete.h"

#define DELETES_FILE "deletes"
#define DELETES_HEAD "pyrrha-deletes 1"
#define DELETE_HEAD "pyrrha-delete 1"
#define DELETE_MAX ((size_t)1 << 20)
#define PENDING_MAX 10000
#define PUT_WAIT_MS 3000 /* so long a delete by the API waits for the bucket */
#define DAMAGED_TRIES 3 /* asked for again: the bits may have flipped on the way */
#define DAMAGED_TODO "days that come back may show again what it deleted; delete it once more (/api/v1/admin/tsdb/delete_series), then remove this object from the bucket"
#define AHEAD_MS (10 * INT64_C(60000)) /* stamps are at most so far ahead of the clock */

/* ---- text ---- */

static void deletes_put_lines(struct buf *b, const struct transfer_delete *d)
{
	buf_printf(b, "made %" PRId64 " after %" PRId64 " until %" PRId64 "\nselect %s\n", d->made_ms, d->after_ms, d->until_ms, d->selector);
}

static bool deletes_parse_lines(struct view *lines, struct transfer_delete *d)
{
	struct view line, select;
	int64_t n[3];
	if (!text_line(lines, &line) || !text_numbers(line, "made # after # until #", n) || !text_line(lines, &select) || !view_starts(select, VIEW("select ")))
		return false;
	*d = (struct transfer_delete){ .made_ms = n[0], .after_ms = n[1], .until_ms = n[2], .selector = xstrndup(select.ptr + 7, select.len - 7) };
	return true;
}

static int deletes_write(struct transfer *t, struct err *e) REQUIRES(t->deletes_lock)
{
	CLEANUP(buf_free) struct buf b = { .max = 256 << 20 };
	buf_printf(&b, DELETES_HEAD "\nid %s\napplied %" PRIu64 " %" PRIu64 "\n", t->server.id, t->applied.epoch, t->applied.serial);
	for (size_t i = 0; i < t->pending_deletes.n; i++) {
		buf_printf(&b, "here %d\n", t->pending_deletes.v[i].here);
		deletes_put_lines(&b, &t->pending_deletes.v[i]);
	}
	for (size_t i = 0; i < t->deletes.n; i++) {
		buf_printf(&b, "at %" PRIu64 " %" PRIu64 "\n", t->deletes.v[i].stamp.epoch, t->deletes.v[i].stamp.serial);
		deletes_put_lines(&b, &t->deletes.v[i]);
	}
	text_put_checksum(&b, 0);
	int rc = b.overflow ? err_set(e, ERR_LIMIT, "the list of what was deleted of days that are in the bucket is over 256 MiB: a delete leaves it when the last day that it is about leaves the bucket") : files_make_dirs(t->server.dir, e);
	if (!rc)
		rc = files_put(t->server.dir, DELETES_FILE, buf_view(&b), e);
	atomic_store(&t->n_pending_deletes, t->pending_deletes.n);
	return rc;
}

/* The deletes of the file, from behind its head. */
static void deletes_read_list(struct transfer *t, struct view lines) REQUIRES(t->deletes_lock)
{
	struct view line;
	struct transfer_delete d;
	int64_t n[2];
	while (text_line(&lines, &line)) {
		bool put = text_numbers(line, "at # #", n);
		if ((!put && !text_numbers(line, "here #", n)) || !deletes_parse_lines(&lines, &d))
			return;
		d.here = !put && n[0] != 0; /* those that this process puts have it */
		if (put) {
			d.stamp = (struct object_stamp){ (uint64_t)n[0], (uint64_t)n[1] };
			vec_push(&t->deletes, d);
		} else {
			vec_push(&t->pending_deletes, d);
		}
	}
}

int deletes_read(struct transfer *t, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/" DELETES_FILE, t->server.dir);
	CLEANUP(buf_free) struct buf b = { .max = 256 << 20 };
	struct view lines, line, id;
	int64_t n[2];
	int rc = buf_read_file(&b, path, e);
	if (rc)
		return rc == -ERR_NOT_FOUND ? 0 : rc;
	if (!text_checked(buf_view(&b), DELETES_HEAD, &lines) || !text_line(&lines, &id) || !text_line(&lines, &line) || !text_numbers(line, "applied # #", n)) {
		LOG_ERROR("msg", "the list of deletes that wait for the bucket is damaged: what was deleted last may be seen in days of the bucket; delete it again", "file", path);
		return 0;
	}
	mutex_lock(&t->deletes_lock);
	struct view is = view_make(id.ptr + MIN(id.len, (size_t)3), id.len - MIN(id.len, (size_t)3));
	if (is.len <= SERVER_ID_MAX) {
		memcpy(t->deletes_id, is.ptr, is.len);
		t->deletes_id[is.len] = 0;
	}
	t->applied = (struct object_stamp){ (uint64_t)n[0], (uint64_t)n[1] };
	deletes_read_list(t, lines);
	atomic_store(&t->n_pending_deletes, t->pending_deletes.n);
	mutex_unlock(&t->deletes_lock);
	return 0;
}

void deletes_release(struct transfer *t)
{
	for (size_t i = 0; i < t->pending_deletes.n; i++)
		free(t->pending_deletes.v[i].selector);
	for (size_t i = 0; i < t->deletes.n; i++)
		free(t->deletes.v[i].selector);
	vec_free(&t->pending_deletes);
	vec_free(&t->deletes);
}

/* ---- one delete ---- */

static int deletes_apply(struct transfer *t, const struct transfer_delete *d, uint32_t below_part, int64_t after_ms, int64_t until_ms, struct err *e)
{
	struct selector s;
	after_ms = MAX(after_ms, d->after_ms);
	until_ms = MIN(until_ms, d->until_ms);
	if (after_ms >= until_ms)
		return 0;
	int rc = selector_parse(&s, view_of(d->selector), e);
	if (!rc)
		rc = tsdb_delete_below(t->db, below_part, s.m.v, s.m.n, after_ms, until_ms, NULL, e);
	selector_release(&s);
	return rc;
}

/* Takes a stamp and puts it. */
static int deletes_put(struct transfer *t, struct transfer_delete *d, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	char name[OBJECT_NAME_MAX];
	d->stamp = bucket_server_stamp(&t->server);
	buf_printf(&b, DELETE_HEAD "\nid %s\n", t->server.id);
	deletes_put_lines(&b, d);
	text_put_checksum(&b, 0);
	object_name_delete(name, t->server.id, d->stamp);
	return object_io_put(t->objects, name, buf_view(&b), e);
}

/* Puts the first pending one, and notes that it is done. Others may be made meanwhile: a bucket that hangs does not hold them up. */
static int deletes_put_first(struct transfer *t, struct err *e) REQUIRES(t->deletes_lock)
{
	struct transfer_delete d = t->pending_deletes.v[0];
	mutex_unlock(&t->deletes_lock);
	int rc = deletes_put(t, &d, e);
	mutex_lock(&t->deletes_lock);
	if (rc)
		return rc;
	memmove(t->pending_deletes.v, t->pending_deletes.v + 1, --t->pending_deletes.n * sizeof *t->pending_deletes.v);
	vec_push(&t->deletes, d);
	t->applied = d.stamp;
	return deletes_write(t, e);
}

int deletes_put_pending(struct transfer *t, struct err *e)
{
	int rc = 0;
	mutex_lock(&t->deletes_lock);
	if (!t->deletes_are_put) {
		t->deletes_are_put = true;
		while (!rc && t->pending_deletes.n && !atomic_load(&t->db->stopping))
			rc = deletes_put_first(t, e);
		t->deletes_are_put = false;
		pthread_cond_broadcast(&t->deletes_put);
	}
	mutex_unlock(&t->deletes_lock);
	return rc;
}

int deletes_apply_pending(struct transfer *t, struct err *e)
{
	int rc = 0;
	bool any = false;
	mutex_lock(&t->deletes_lock);
	for (size_t i = 0; i < t->pending_deletes.n && !rc; i++) {
		struct transfer_delete *d = &t->pending_deletes.v[i];
		if (d->here)
			continue;
		rc = deletes_apply(t, d, UINT32_MAX, INT64_MIN / 2, INT64_MAX / 2, e);
		any = d->here = !rc;
	}
	if (!rc && any)
		rc = deletes_write(t, e);
	mutex_unlock(&t->deletes_lock);
	return rc;
}

struct object_stamp deletes_applied(struct transfer *t)
{
	mutex_lock(&t->deletes_lock);
	struct object_stamp s = t->applied;
	mutex_unlock(&t->deletes_lock);
	return s;
}

/* Whether the bucket answered lately: else a caller would wait for its time-outs. */
static bool deletes_can_put(struct transfer *t)
{
	char id[SERVER_ID_MAX + 1], why[256];
	mutex_lock(&t->status_lock);
	bool ok = !t->status.last_error[0];
	mutex_unlock(&t->status_lock);
	return ok && bucket_server_state(&t->server, id, why, sizeof why) == BUCKET_WRITES;
}

static void *deletes_run(void *arg)
{
	struct transfer *t = arg;
	struct err e;
	mutex_lock(&t->deletes_lock);
	while (!atomic_load(&t->db->stopping)) {
		if (!t->deletes_wanted) {
			mutex_wait(&t->deletes_lock, &t->deletes_made);
			continue;
		}
		t->deletes_wanted = false;
		mutex_unlock(&t->deletes_lock);
		if (deletes_put_pending(t, &e) && !atomic_load(&t->db->stopping))
			LOG_WARN("msg", "a delete is not in the bucket yet, it follows", "err", e.msg);
		mutex_lock(&t->deletes_lock);
	}
	mutex_unlock(&t->deletes_lock);
	return NULL;
}

int deletes_start(struct transfer *t, struct err *e)
{
	int rc = thread_start(&t->deletes_thread, "bucket deletes", deletes_run, t, e);
	t->have_deletes_thread = !rc;
	return rc;
}

void deletes_stop(struct transfer *t)
{
	if (!t->have_deletes_thread)
		return;
	mutex_lock(&t->deletes_lock);
	pthread_cond_broadcast(&t->deletes_made);
	pthread_cond_broadcast(&t->deletes_put);
	mutex_unlock(&t->deletes_lock);
	pthread_join(t->deletes_thread, NULL);
	t->have_deletes_thread = false;
}

/* Has the thread put what waits, and gives it a while. */
static void deletes_await(struct transfer *t)
{
	int64_t until = clock_mono_ms() + PUT_WAIT_MS;
	mutex_lock(&t->deletes_lock);
	t->deletes_wanted = true;
	pthread_cond_signal(&t->deletes_made);
	while (t->pending_deletes.n && !atomic_load(&t->db->stopping) && (t->deletes_wanted || t->deletes_are_put))
		if (!mutex_wait_ms(&t->deletes_lock, &t->deletes_put, until))
			break;
	mutex_unlock(&t->deletes_lock);
}

/* No row that there is now has a later stamp: the clock may have been set back since rows came. */
static int64_t deletes_newest_ms(struct transfer *t, int64_t now)
{
	int64_t newest = MAX(now + AHEAD_MS, (int64_t)atomic_load(&t->db->newest_t));
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++)
		newest = MAX(newest, t->catalogue.days.v[i].max_ms);
	rwlock_unlock(&t->catalogue.lock);
	return newest;
}

int transfer_delete(struct tsdb *db, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms, uint64_t *ret_series, struct err *e)
{
	struct transfer *t = db->transfer;
	CLEANUP(buf_free) struct buf text = { .max = DELETE_MAX };
	int64_t now = tsdb_now_ms(db);
	struct err later;
	selector_format(m, n, &text);
	if (text.overflow)
		return err_set(e, ERR_LIMIT, "the selector is too long");
	if (after_ms >= until_ms)
		return tsdb_delete_here(db, m, n, after_ms, until_ms, ret_series, e); /* which says why not */
	struct transfer_delete d = { .made_ms = now, .after_ms = MAX(after_ms, INT64_MIN / 4), .until_ms = MIN(until_ms, deletes_newest_ms(t, now)) };
	mutex_lock(&t->deletes_lock);
	int rc = t->pending_deletes.n < PENDING_MAX ? 0 : err_set(e, ERR_LIMIT, "%d deletes wait for the bucket", PENDING_MAX);
	if (!rc) {
		d.selector = buf_take(&text, NULL);
		vec_push(&t->pending_deletes, d);
		atomic_fetch_add(&t->db->hidden_number, 1);
		rc = deletes_write(t, e);
	}
	if (!rc)
		rc = tsdb_delete_here(db, m, n, after_ms, until_ms, ret_series, e);
	if (!rc) {
		t->pending_deletes.v[t->pending_deletes.n - 1].here = true;
		if (deletes_write(t, &later))
			LOG_WARN("msg", "a delete is done, and may be done again at the next start", "err", later.msg);
	}
	if (rc && d.selector) { /* it is refused, and not to be applied at the next start either */
		free(t->pending_deletes.v[--t->pending_deletes.n].selector);
		if (deletes_write(t, &later))
			LOG_WARN("msg", "a delete that failed may be applied at the next start", "err", later.msg);
	}
	mutex_unlock(&t->deletes_lock);
	if (rc || !deletes_can_put(t))
		return rc;
	if (t->have_deletes_thread)
		deletes_await(t);
	else if (deletes_put_pending(t, &later))
		LOG_WARN("msg", "a delete is not in the bucket yet, it follows", "err", later.msg);
	return 0;
}

/* ---- those of the bucket ---- */

/* Deletes of the bucket, as they are read. */
struct deletes_walk {
	struct transfer *t;
	VEC(struct object_stamp) stamps;
	VEC(struct transfer_delete) v;
};

int deletes_parse(struct view bytes, struct transfer_delete *ret, struct err *e)
{
	struct view lines, id;
	struct selector s;
	if (!text_checked(bytes, DELETE_HEAD, &lines) || !text_line(&lines, &id) || !deletes_parse_lines(&lines, ret))
		return err_set(e, ERR_CORRUPT, "it is no delete, or damaged");
	int rc = selector_parse(&s, view_of(ret->selector), e);
	selector_release(&s);
	if (!rc)
		return 0;
	free(TAKE_PTR(ret->selector));
	e->code = ERR_CORRUPT;
	return -ERR_CORRUPT;
}

/* One that is damaged is passed over: without it rows that were deleted may come back, but without the days nothing would. */
static int deletes_get(struct deletes_walk *w, const char *name, struct object_stamp stamp, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { .max = DELETE_MAX };
	struct transfer_delete d;
	for (int tries = 0; tries < DAMAGED_TRIES; tries++) {
		buf_reset(&b);
		int rc = object_io_get(w->t->objects, name, &b, e);
		if (rc && rc != -ERR_LIMIT)
			return rc == -ERR_NOT_FOUND ? 0 : rc;
		if (rc || deletes_parse(buf_view(&b), &d, e))
			continue;
		d.stamp = stamp;
		vec_push(&w->v, d);
		return 0;
	}
	damaged_note(w->t, name, DAMAGED_TODO, e);
	w->t->deletes_are_damaged = true;
	return 0;
}

static int deletes_found(void *arg, const struct objects_found *x, struct err *e)
{
	struct deletes_walk *w = arg;
	struct object_name name;
	(void)e;
	if (object_name_parse(x->key, &name) && name.kind == 'x')
		vec_push(&w->stamps, name.stamp);
	return 0;
}

/* In place of those that an earlier try has read. One that was put since the bucket was asked is the newest, and one that a stale list does not
 * show yet. is_same: those of the file are of this id; else they say nothing of its days. */
static void deletes_take(struct transfer *t, struct deletes_walk *w, bool is_same) REQUIRES(t->deletes_lock)
{
	struct object_stamp last = w->v.n ? w->v.v[w->v.n - 1].stamp : (struct object_stamp){ 0, 0 };
	for (size_t i = 0; i < t->deletes.n; i++) {
		if (object_stamp_cmp(t->deletes.v[i].stamp, last) > 0 && (is_same || t->deletes.v[i].here))
			vec_push(&w->v, t->deletes.v[i]);
		else
			free(t->deletes.v[i].selector);
	}
	t->deletes.n = 0;
	atomic_fetch_add(&t->db->hidden_number, 1);
	for (size_t i = 0; i < w->v.n; i++)
		vec_push(&t->deletes, w->v.v[i]);
	w->v.n = 0;
}

int deletes_fetch(struct transfer *t, struct err *e)
{
	struct deletes_walk w = { .t = t };
	char prefix[OBJECT_NAME_MAX], name[OBJECT_NAME_MAX];
	object_name_prefix(prefix, t->server.id, 'x');
	int rc = t->objects->list(t->objects, prefix, "", deletes_found, &w, e);
	for (size_t i = 0; i < w.stamps.n && !rc; i++) {
		object_name_delete(name, t->server.id, w.stamps.v[i]);
		rc = deletes_get(&w, name, w.stamps.v[i], e);
	}
	mutex_lock(&t->deletes_lock);
	bool is_same = !strcmp(t->deletes_id, t->server.id); /* else the directory has another id now */
	if (!is_same)
		t->applied = (struct object_stamp){ 0, 0 };
	if (!rc)
		deletes_take(t, &w, is_same);
	/* A directory that returns has each day with the deletes that are newer than it. */
	if (!rc && w.stamps.n && !t->applied.epoch && t->server.returning)
		t->applied = w.stamps.v[w.stamps.n - 1];
	if (!rc && (t->deletes.n || t->pending_deletes.n))
		rc = deletes_write(t, e);
	mutex_unlock(&t->deletes_lock);
	for (size_t i = 0; i < w.v.n; i++)
		free(w.v.v[i].selector);
	vec_free(&w.v);
	vec_free(&w.stamps);
	return rc;
}

int deletes_apply_day(struct transfer *t, uint32_t day, struct object_stamp from, uint32_t below_part, struct err *e)
{
	int64_t start = (int64_t)day * DAY_MS;
	int rc = 0;
	mutex_lock(&t->deletes_lock);
	for (size_t i = 0; i < t->deletes.n && !rc; i++)
		if (object_stamp_cmp(t->deletes.v[i].stamp, from) > 0)
			rc = deletes_apply(t, &t->deletes.v[i], below_part, start, start + DAY_MS, e);
	for (size_t i = 0; i < t->pending_deletes.n && !rc; i++)
		if (t->pending_deletes.v[i].here)
			rc = deletes_apply(t, &t->pending_deletes.v[i], below_part, start, start + DAY_MS, e);
	mutex_unlock(&t->deletes_lock);
	return rc;
}

/* Whether a delete has anything of a day's series. */
static int deletes_touch(const struct transfer_delete *d, struct generation *g, bool *ret, struct err *e)
{
	struct selector s;
	int rc = selector_parse(&s, view_of(d->selector), e);
	for (size_t i = 0; i < g->series.n && !rc && !*ret; i++) {
		const struct generation_series *x = &g->series.v[i];
		if (x->min_ms > x->max_ms || x->min_ms > d->until_ms || x->max_ms <= d->after_ms)
			continue;
		int matches = matchers_match(s.m.v, s.m.n, x->labels, NULL, e);
		rc = MIN(matches, 0);
		*ret = matches == 1;
	}
	selector_release(&s);
	return rc;
}

int deletes_touch_day(struct transfer *t, uint32_t day, struct object_stamp from, bool *ret, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct generation g = { .min_ms = 1 };
	int rc = 0;
	*ret = false;
	mutex_lock(&t->deletes_lock);
	bool newer = t->deletes.n && object_stamp_cmp(t->deletes.v[t->deletes.n - 1].stamp, from) > 0;
	if (newer)
		rc = generations_read(t, day, &b, &g, e);
	if (newer && !rc)
		rc = generation_decode_series(&g, e);
	for (size_t i = 0; newer && i < t->deletes.n && !rc && !*ret; i++)
		if (object_stamp_cmp(t->deletes.v[i].stamp, from) > 0)
			rc = deletes_touch(&t->deletes.v[i], &g, ret, e);
	mutex_unlock(&t->deletes_lock);
	generation_release(&g);
	return rc;
}

/* ---- their end ---- */

/* The beginning of the oldest day that the bucket has, ms. */
static int64_t deletes_oldest_ms(struct transfer *t)
{
	int64_t oldest = INT64_MAX;
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++)
		if (t->catalogue.days.v[i].kind == GENERATION_DAY)
			oldest = MIN(oldest, (int64_t)t->catalogue.days.v[i].day * DAY_MS);
	rwlock_unlock(&t->catalogue.lock);
	return oldest;
}

/* The first from *i on that is over. */
static bool deletes_find_over(struct transfer *t, int64_t oldest_ms, size_t *i, char name[OBJECT_NAME_MAX])
{
	mutex_lock(&t->deletes_lock);
	for (; *i < t->deletes.n; ++*i) {
		const struct transfer_delete *d = &t->deletes.v[*i];
		if (d->until_ms <= oldest_ms && object_stamp_cmp(d->stamp, t->applied) < 0)
			break;
	}
	bool found = *i < t->deletes.n;
	if (found)
		object_name_delete(name, t->server.id, t->deletes.v[*i].stamp);
	mutex_unlock(&t->deletes_lock);
	return found;
}

int deletes_collect(struct transfer *t, struct err *e)
{
	int64_t oldest = deletes_oldest_ms(t);
	char name[OBJECT_NAME_MAX];
	int rc = 0;
	if (oldest == INT64_MAX)
		return 0;
	for (size_t i = 0; !rc && deletes_find_over(t, oldest, &i, name);) {
		rc = t->objects->remove(t->objects, name, e);
		if (rc)
			break;
		mutex_lock(&t->deletes_lock); /* others are only added meanwhile */
		free(t->deletes.v[i].selector);
		memmove(t->deletes.v + i, t->deletes.v + i + 1, (--t->deletes.n - i) * sizeof *t->deletes.v);
		mutex_unlock(&t->deletes_lock);
	}
	return rc;
}
