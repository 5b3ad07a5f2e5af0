/* SPDX-License-Identifier: Apache-2.0 */
/* Removing objects. What a newer generation does not name goes after a while, so that readers of the one before can finish. Orphans (puts
 * whose generation never came) are found by listing. A day that goes gets a last generation that says so, before any of its objects go:
 * whatever else is left of it after a crash, that is the newest. The same list shows what the bucket has lost.
 *
 * Only objects under the own id are touched. Those of older epochs that nothing names never will be named: their writers are fenced. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/part/part.h"
#include "tsdb/transfer/transfer_private.h"

#define READERS_MS (10 * INT64_C(60000))
#define FENCE_KEPT_MS (90 * DAY_MS)
#define GONE_KEPT_MS (7 * DAY_MS)
#define SMALL_OBJECT 1024 /* bytes: fences, and `gone` */

/* ---- one after the other ---- */

void collect_add(struct transfer *t, const char *name)
{
	struct transfer_removal *r = vec_add(&t->removals);
	snprintf(r->name, sizeof r->name, "%s", name);
	r->due_mono_ms = clock_mono_ms() + READERS_MS;
}

int collect_removals(struct transfer *t, bool now, struct err *e)
{
	size_t n = 0;
	int rc = 0;
	for (size_t i = 0; i < t->removals.n; i++) {
		bool due = !rc && !atomic_load(&t->db->stopping) && (now || clock_mono_ms() >= t->removals.v[i].due_mono_ms);
		if (due)
			rc = t->objects->remove(t->objects, t->removals.v[i].name, e);
		if (!due || rc)
			t->removals.v[n++] = t->removals.v[i];
	}
	t->removals.n = n;
	return rc;
}

/* ---- orphans ---- */

/* The walk over all objects of this server. */
struct collect_walk {
	struct transfer *t;
	VEC(struct object_stamp) named; /* ascending */
	bool *seen;                     /* of each of these: the bucket has it */
	VEC(char *) remove;
	int64_t now_ms;
};

static int by_stamp(const void *a, const void *b)
{
	return object_stamp_cmp(*(const struct object_stamp *)a, *(const struct object_stamp *)b);
}

static void walk_add(struct collect_walk *w, struct object_stamp s)
{
	if (s.epoch)
		vec_push(&w->named, s);
}

static void walk_list_named(struct collect_walk *w, bool generations)
{
	struct transfer *t = w->t;
	w->named.n = 0;
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++) {
		const struct catalogue_day *d = &t->catalogue.days.v[i];
		if (generations)
			walk_add(w, d->stamp);
		for (size_t k = 0; !generations && k < d->parts.n; k++)
			walk_add(w, d->parts.v[k].object.stamp);
		if (!generations)
			walk_add(w, d->symbols.stamp);
	}
	rwlock_unlock(&t->catalogue.lock);
	for (size_t i = 0; !generations && i < t->uploads.n; i++)
		walk_add(w, t->uploads.v[i].part.object.stamp);
	if (w->named.n)
		qsort(w->named.v, w->named.n, sizeof *w->named.v, by_stamp);
	free(w->seen);
	w->seen = xcalloc(w->named.n + 1, sizeof *w->seen);
}

/* Whether it is named; notes that it is there. */
static bool walk_is_named(struct collect_walk *w, struct object_stamp s)
{
	const struct object_stamp *at = w->named.n ? bsearch(&s, w->named.v, w->named.n, sizeof s, by_stamp) : NULL;
	if (at)
		w->seen[at - w->named.v] = true;
	return at;
}

/* Whether an object that nothing names may go: in the own epoch only what is old, or was replaced and has waited (collect_removals). */
static bool walk_may_go(const struct collect_walk *w, struct object_stamp s, const struct objects_found *x)
{
	return s.epoch < w->t->server.epoch || (s.epoch == w->t->server.epoch && w->now_ms - x->modified_ms > w->t->db->o.grace_ms);
}

static int walk_data(void *arg, const struct objects_found *x, struct err *e)
{
	struct collect_walk *w = arg;
	struct object_name name;
	(void)e;
	if (object_name_parse(x->key, &name) && name.kind == 'd' && !walk_is_named(w, name.stamp) && walk_may_go(w, name.stamp, x))
		vec_push(&w->remove, xstrdup(x->key));
	return 0;
}

/* Fences stay for as long as a writer of their epoch might come back from a pause. */
static bool walk_is_fence(struct collect_walk *w, const char *name, int64_t modified_ms)
{
	CLEANUP(buf_free) struct buf b = { .max = SMALL_OBJECT };
	struct generation g = { .min_ms = 1 };
	struct err e;
	bool fence = object_io_get(w->t->objects, name, &b, &e) || generation_decode(&g, buf_view(&b), name, &e) ||
		     (g.kind == GENERATION_FENCE && w->now_ms - modified_ms < FENCE_KEPT_MS);
	generation_release(&g);
	return fence; /* what cannot be read stays as well */
}

static int walk_generation(void *arg, const struct objects_found *x, struct err *e)
{
	struct collect_walk *w = arg;
	struct object_name name;
	(void)e;
	if (!object_name_parse(x->key, &name) || name.kind != 'g' || walk_is_named(w, name.stamp) || name.stamp.epoch > w->t->server.epoch)
		return 0;
	if (name.stamp.epoch == w->t->server.epoch && name.stamp.serial >= w->t->server.next_generation)
		return 0;
	if (x->size > SMALL_OBJECT || !walk_is_fence(w, x->key, x->modified_ms))
		vec_push(&w->remove, xstrdup(x->key));
	return 0;
}

static bool collect_is_waiting(const struct transfer *t, const char *name)
{
	for (size_t i = 0; i < t->removals.n; i++)
		if (!strcmp(t->removals.v[i].name, name))
			return true;
	return false;
}

static int walk_remove(struct collect_walk *w, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < w->remove.n; i++) {
		if (!rc && !collect_is_waiting(w->t, w->remove.v[i]) && !atomic_load(&w->t->db->stopping))
			rc = w->t->objects->remove(w->t->objects, w->remove.v[i], e);
		free(w->remove.v[i]);
	}
	w->remove.n = 0;
	return rc;
}

static bool walk_has_unseen(const struct collect_walk *w)
{
	for (size_t i = 0; i < w->named.n; i++)
		if (!w->seen[i])
			return true;
	return false;
}

/* A list may lag behind, so the object is asked for as well. */
static bool walk_is_missing(struct collect_walk *w, const char *id, uint32_t day, struct object_stamp s)
{
	CLEANUP(buf_free) struct buf b = { .max = 1 };
	char name[OBJECT_NAME_MAX];
	struct err e;
	const struct object_stamp *at = s.epoch ? bsearch(&s, w->named.v, w->named.n, sizeof s, by_stamp) : NULL;
	if (!at || w->seen[at - w->named.v])
		return false;
	object_name_data(name, id, day, s);
	return object_io_get(w->t->objects, name, &b, &e) == -ERR_NOT_FOUND;
}

/* Days of which the bucket has lost an object that their generation names. */
static void walk_note_missing(struct collect_walk *w)
{
	struct transfer *t = w->t;
	VEC(struct catalogue_day) days = { 0 }; /* without a lock for `parts`: only this thread changes the parts of a day */
	if (!walk_has_unseen(w))
		return;
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++)
		vec_push(&days, t->catalogue.days.v[i]);
	rwlock_unlock(&t->catalogue.lock);
	for (size_t i = 0; i < days.n; i++) {
		const struct catalogue_day *d = &days.v[i];
		bool missing = walk_is_missing(w, d->id, d->day, d->symbols.stamp);
		for (size_t k = 0; k < d->parts.n && !missing; k++)
			missing = walk_is_missing(w, d->id, d->day, d->parts.v[k].object.stamp);
		if (missing)
			survey_forget_day(t, d->day); /* frees its own parts alone */
	}
	for (size_t i = 0; i < t->uploads.n; i++)
		if (walk_is_missing(w, t->server.id, t->uploads.v[i].day, t->uploads.v[i].part.object.stamp))
			t->uploads.n = 0;
	vec_free(&days);
}

/* Forgets that days are gone. All older generations of theirs have left: the walk over the generations was complete, and none waits. Else a day
 * would be back. */
static int gone_expire(struct transfer *t, struct err *e)
{
	VEC(uint32_t) days = { 0 };
	char name[OBJECT_NAME_MAX];
	int rc = 0;
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++) {
		const struct catalogue_day *d = &t->catalogue.days.v[i];
		if (d->kind == GENERATION_GONE && tsdb_now_ms(t->db) - d->written_ms > GONE_KEPT_MS)
			vec_push(&days, d->day);
	}
	rwlock_unlock(&t->catalogue.lock);
	for (size_t i = 0; i < days.n && !rc; i++) {
		rwlock_read(&t->catalogue.lock);
		object_name_generation(name, t->server.id, catalogue_find(&t->catalogue, days.v[i])->stamp);
		rwlock_unlock(&t->catalogue.lock);
		rc = t->objects->remove(t->objects, name, e);
		if (!rc)
			catalogue_drop(&t->catalogue, days.v[i]);
	}
	vec_free(&days);
	return rc;
}

int collect_orphans(struct transfer *t, struct err *e)
{
	struct collect_walk w = { .t = t, .now_ms = tsdb_now_ms(t->db) };
	char prefix[OBJECT_NAME_MAX];
	if (t->pending.len || t->catalogue_is_damaged)
		return 0; /* what they name is not known */
	walk_list_named(&w, true);
	object_name_prefix(prefix, t->server.id, 'g');
	int rc = t->objects->list(t->objects, prefix, "", walk_generation, &w, e);
	if (!rc && walk_has_unseen(&w))
		rc = survey_check(t, e);
	if (!rc)
		rc = walk_remove(&w, e);
	walk_list_named(&w, false);
	object_name_prefix(prefix, t->server.id, 'd');
	if (!rc)
		rc = t->objects->list(t->objects, prefix, "", walk_data, &w, e);
	if (!rc)
		walk_note_missing(&w);
	if (!rc)
		rc = walk_remove(&w, e);
	for (size_t i = 0; i < w.remove.n; i++)
		free(w.remove.v[i]);
	vec_free(&w.remove);
	vec_free(&w.named);
	free(w.seen);
	return rc || t->removals.n ? rc : gone_expire(t, e);
}

/* ---- days that are gone ---- */

static bool gone_is_old(struct transfer *t, uint32_t day)
{
	const struct tsdb *db = t->db;
	return db->o.retention_ms >= 0 && !retention_clock_waits(t->db) && ((int64_t)day + 1) * DAY_MS <= tsdb_retention_now_ms(t->db) - db->o.retention_ms;
}

/* The storage deleted or dropped what the generation has: nothing that it names is of a later record. */
static bool gone_has_record(struct tsdb *db, const struct catalogue_day *d) REQUIRES(db->seal_lock)
{
	mutex_assert_held(&db->seal_lock);
	uint64_t dropped = MAX(dropped_record(&db->dropped, d->day), hlog_gone(db->log, d->day)); /* what the log had at the start */
	for (size_t i = 0; i < db->emptied.n; i++)
		if (db->emptied.v[i].day == d->day)
			dropped = MAX(dropped, db->emptied.v[i].record);
	return d->last_record && dropped >= d->last_record;
}

static bool gone_by_record(struct tsdb *db, const struct catalogue_day *d)
{
	mutex_lock(&db->seal_lock);
	bool gone = gone_has_record(db, d);
	mutex_unlock(&db->seal_lock);
	return gone;
}

bool collect_was_dropped(struct transfer *t, uint32_t day)
{
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, day);
	struct catalogue_day copy = d ? *d : (struct catalogue_day){ .day = day }; /* its parts are not looked at */
	rwlock_unlock(&t->catalogue.lock);
	return gone_by_record(t->db, &copy);
}

static bool gone_is_due(struct transfer *t, const struct version *v, const struct catalogue_day *d)
{
	const struct pstate *s = version_find(v, d->day);
	char identity[CATALOGUE_IDENTITY_MAX] = "";
	struct err e;
	if (s && s->p->db_parts && partition_db_identity(s->p->db_parts, identity, sizeof identity, &e))
		return false;
	if (s) /* all of it was deleted, and what came since is not sealed */
		return !s->n_parts && strcmp(identity, d->identity) && gone_by_record(t->db, d);
	/* What this disk has dropped is said of all days up to a time: it says nothing of a day that was never here. */
	return d->doomed || gone_is_old(t, d->day) || (!d->away && d->identity[0] && gone_by_record(t->db, d));
}

/* Nothing drops it meanwhile. */
bool collect_is_lost(struct transfer *t, const struct catalogue_day *d)
{
	if (d->kind != GENERATION_DAY || d->away || !d->identity[0])
		return false;
	mutex_lock(&t->db->seal_lock);
	struct version *v = tsdb_version(t->db, NULL);
	bool lost = !version_find(v, d->day) && !gone_has_record(t->db, d);
	version_unref(v);
	mutex_unlock(&t->db->seal_lock);
	return lost;
}

static int gone_put(struct transfer *t, uint32_t day, struct err *e)
{
	struct generation g = { .kind = GENERATION_GONE, .day = day, .min_ms = 1, .written_ms = tsdb_now_ms(t->db), .last_record = hlog_last(t->db->log) };
	VEC(struct object_stamp) old = { 0 };
	struct object_stamp generation = { 0, 0 };
	char name[OBJECT_NAME_MAX];
	snprintf(g.id, sizeof g.id, "%s", t->server.id);
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, day);
	for (size_t i = 0; d && i < d->parts.n; i++)
		vec_push(&old, d->parts.v[i].object.stamp);
	if (d && d->symbols.stamp.epoch)
		vec_push(&old, d->symbols.stamp);
	if (d)
		generation = d->stamp;
	rwlock_unlock(&t->catalogue.lock);
	int rc = generations_put(t, &g, "", false, e);
	if (!rc && generation.epoch) {
		object_name_generation(name, g.id, generation);
		collect_add(t, name);
	}
	for (size_t i = 0; i < old.n && !rc; i++) {
		object_name_data(name, g.id, day, old.v[i]);
		collect_add(t, name);
	}
	vec_free(&old);
	return rc;
}

int collect_gone(struct transfer *t, struct err *e)
{
	struct version *v = tsdb_version(t->db, NULL);
	VEC(struct catalogue_day) days = { 0 };
	VEC(uint32_t) due = { 0 }, lost = { 0 };
	int rc = 0;
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++)
		vec_push(&days, t->catalogue.days.v[i]); /* without their parts, which are not looked at */
	rwlock_unlock(&t->catalogue.lock);
	for (size_t i = 0; i < days.n; i++) {
		if (days.v[i].kind == GENERATION_DAY && gone_is_due(t, v, &days.v[i]))
			vec_push(&due, days.v[i].day);
		else if (!version_find(v, days.v[i].day) && collect_is_lost(t, &days.v[i]))
			vec_push(&lost, days.v[i].day);
	}
	for (size_t i = 0; i < due.n && !rc; i++)
		rc = gone_put(t, due.v[i], e);
	for (size_t i = 0; i < lost.n && !rc; i++) {
		LOG_WARN("msg", "a day that was on this disk is not there any more: the bucket has it", "partition", LOG_NUM(lost.v[i]));
		rc = catalogue_set(&t->catalogue, lost.v[i], "", false, e);
	}
	vec_free(&days);
	vec_free(&due);
	vec_free(&lost);
	version_unref(v);
	return rc;
}
