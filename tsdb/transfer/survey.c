/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the generations that the bucket has of this server: at the start for the catalogue, and later to notice days that the bucket has lost. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/transfer/transfer_private.h"

#define FENCE_MOST 1024 /* bytes of a fence */

/* The generations that the bucket has: those that the catalogue does not know, and those that it knows. */
struct survey {
	struct transfer *t;
	VEC(struct object_stamp) unknown, known; /* as they are listed: ascending */
	bool has_fence; /* the fence that this server put at its start is listed */
};

static int survey_found(void *arg, const struct objects_found *x, struct err *e)
{
	struct survey *w = arg;
	struct object_name name;
	bool known = false;
	(void)e;
	if (!object_name_parse(x->key, &name) || name.kind != 'g')
		return 0;
	w->has_fence |= !object_stamp_cmp(name.stamp, w->t->server.fence);
	rwlock_read(&w->t->catalogue.lock);
	for (size_t i = 0; i < w->t->catalogue.days.n && !known; i++)
		known = !object_stamp_cmp(w->t->catalogue.days.v[i].stamp, name.stamp);
	rwlock_unlock(&w->t->catalogue.lock);
	if (!known)
		vec_push(&w->unknown, name.stamp);
	else if (x->size > FENCE_MOST)
		vec_push(&w->known, name.stamp);
	return 0;
}

/* Takes in a generation, if it is the newest of its day. */
static int survey_take(void *arg, struct object_stamp stamp, struct fetched_generation *x, struct err *e)
{
	struct transfer *t = arg;
	const struct generation *g = &x->g;
	char name[OBJECT_NAME_MAX];
	bool newer = true, away = false;
	int rc = x->rc;
	if (!rc && g->kind != GENERATION_FENCE) {
		rwlock_read(&t->catalogue.lock);
		const struct catalogue_day *d = catalogue_find(&t->catalogue, g->day);
		newer = !d || object_stamp_cmp(d->stamp, g->stamp) < 0;
		away = d && d->away;
		rwlock_unlock(&t->catalogue.lock);
		if (newer) /* without an identity: its parts are found on this disk by their hashes */
			return catalogue_put(&t->catalogue, g, buf_view(&x->b), "", away, e);
	}
	if (!rc || rc == -ERR_NOT_FOUND)
		return 0; /* it was removed meanwhile: a newer one is there */
	if (rc != -ERR_CORRUPT && rc != -ERR_LIMIT)
		return err_set(e, x->why.code, "%s", x->why.msg);
	object_name_generation(name, t->server.id, stamp);
	t->catalogue_is_damaged = true;
	damaged_note(t, name, "what this generation alone names is not seen; pyrtool bucket verify says what to do", &x->why);
	return 0;
}

static int survey_by_stamp(const void *a, const void *b)
{
	return object_stamp_cmp(*(const struct object_stamp *)a, *(const struct object_stamp *)b);
}

/* A day whose newest generation the bucket's list does not show. */
struct survey_lost {
	uint32_t day;
	struct object_stamp stamp;
};

/* A fence has its name, if it was the last one of its epoch. */
static bool survey_is_there(struct survey *w, struct object_stamp stamp)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct generation g;
	struct err e;
	char name[OBJECT_NAME_MAX];
	object_name_generation(name, w->t->server.id, stamp);
	int rc = object_io_get_generation(w->t->objects, name, &b, &g, &e);
	bool there = rc ? rc != -ERR_NOT_FOUND : g.kind != GENERATION_FENCE;
	generation_release(&g);
	return there;
}

void survey_forget_day(struct transfer *t, uint32_t day)
{
	struct version *v = tsdb_version(t->db, NULL);
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, day);
	bool here = d && d->identity[0] && version_find(v, day);
	rwlock_unlock(&t->catalogue.lock);
	version_unref(v);
	if (!here) {
		LOG_ERROR("msg", "the bucket has lost a day that is not on this disk", "partition", LOG_NUM(day));
		return;
	}
	LOG_ERROR("msg", "the bucket has lost a day: it goes up again", "partition", LOG_NUM(day));
	catalogue_drop(&t->catalogue, day);
	t->uploads.n = 0; /* as the objects that were put last */
}

/* Days that the bucket had and has not any more, as somebody emptied it: those of this disk go up again. Those that are not here stay in the
 * catalogue: nothing of theirs is removed, should the list have been incomplete. */
static void survey_note_lost(struct survey *w)
{
	struct transfer *t = w->t;
	VEC(struct survey_lost) lost = { 0 };
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++) {
		const struct catalogue_day *d = &t->catalogue.days.v[i];
		bool known = w->known.n && bsearch(&d->stamp, w->known.v, w->known.n, sizeof d->stamp, survey_by_stamp);
		if (!known && d->kind == GENERATION_DAY && d->stamp.epoch)
			vec_push(&lost, (struct survey_lost){ d->day, d->stamp });
	}
	rwlock_unlock(&t->catalogue.lock);
	for (size_t i = 0; i < lost.n; i++)
		if (!survey_is_there(w, lost.v[i].stamp))
			survey_forget_day(t, lost.v[i].day);
	vec_free(&lost);
}

/* Some stores list what was a moment ago (a directory of a network): generations that came last would be passed over, and removed later. All of them
 * were put before the fence, so a list that has the fence has them. */
static int survey_check_list(struct survey *w, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { .max = FENCE_MOST };
	char name[OBJECT_NAME_MAX];
	if (w->has_fence || !w->t->server.fence.epoch)
		return 0;
	object_name_generation(name, w->t->server.id, w->t->server.fence);
	int rc = object_io_get(w->t->objects, name, &b, e);
	if (rc == -ERR_NOT_FOUND)
		return 0; /* somebody has emptied the bucket since */
	return rc ? rc : err_set(e, ERR_UNAVAILABLE, "the bucket's list of generations lacks %s, which is there: it is asked again", name);
}

static int survey_list(struct survey *w, struct err *e)
{
	char prefix[OBJECT_NAME_MAX];
	object_name_prefix(prefix, w->t->server.id, 'g');
	int rc = w->t->objects->list(w->t->objects, prefix, "", survey_found, w, e);
	if (!rc)
		rc = survey_check_list(w, e);
	if (!rc)
		survey_note_lost(w);
	return rc;
}

static void survey_release(struct survey *w)
{
	vec_free(&w->unknown);
	vec_free(&w->known);
}

int survey_check(struct transfer *t, struct err *e)
{
	struct survey w = { .t = t };
	int rc = survey_list(&w, e);
	survey_release(&w);
	return rc;
}

int survey_bucket(struct transfer *t, struct err *e)
{
	struct survey w = { .t = t };
	int rc = survey_list(&w, e);
	if (!rc)
		rc = generations_fetch(t, t->server.id, w.unknown.v, w.unknown.n, survey_take, t, e);
	survey_release(&w);
	return rc;
}
