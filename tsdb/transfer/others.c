/* SPDX-License-Identifier: Apache-2.0 */
/* object_storage.read: all. Which other servers have days in the bucket, and which days: one thread lists, once a minute, the generations and
 * deletes of each of them that came since, and keeps the newest generation of each day in bucket/others/ID/DAY, and the deletes' objects as
 * bucket/others/ID/x-EPOCH-SERIAL. Queries read these days as they
 * read those of this server that have left its disk (tsdb/cached). Nothing of other servers is ever written or removed in the bucket. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/thread.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/cached/cached_days.h"
#include "tsdb/transfer/hidden.h"
#include "tsdb/transfer/transfer_private.h"

#define OTHERS_NICE 15
#define LOOK_EVERY_MS (60 * INT64_C(1000))
#define SERVERS_EVERY_MS (5 * LOOK_EVERY_MS)  /* how often the bucket is listed for further servers */
#define FULL_EVERY_MS (15 * LOOK_EVERY_MS)    /* between two lists of all generations and deletes of a server, not of the new ones alone */
#define RETRY_MS 10000
#define SERVERS_MOST 10000
#define DELETE_OBJECT_MAX ((size_t)1 << 20)
#define TODO_GENERATION "queries read its day as an older generation has it, or not at all; pyrtool bucket verify says what to do"
#define TODO_DELETE "what it deleted is seen here in days that were put before it"

struct other_server {
	struct cached_server base;
	char id[SERVER_ID_MAX + 1];
	struct bucket_catalogue catalogue;
	atomic_ullong hidden_number;
	struct mutex lock;              /* of the next; a leaf */
	VEC(struct transfer_delete) deletes; /* by stamp */
	/* Of the thread that looks. */
	struct object_stamp newest, newest_delete; /* names of the newest objects that were listed and taken in; 0, 0 = none yet */
	VEC(struct object_stamp) passed;           /* generations that were fetched and are not in the catalogue: fences, superseded ones, damaged ones; they are not fetched again */
	int64_t full_mono_ms;           /* when everything is listed next */
};

struct others {
	struct transfer *t;
	pthread_t thread;
	bool have_thread;
	struct mutex look_lock;         /* one look at a time; of the next two fields, and those of a server that say so */
	VEC(struct other_server *) v;   /* only added to */
	int64_t servers_mono_ms;        /* when the bucket is listed for further servers next */
	struct mutex status_lock;       /* of what follows; a leaf */
	int64_t looked_ms;
	char error[256];
};

/* ---- what is hidden ---- */

static int other_hidden(struct cached_server *s, const struct generation *g, struct hidden_facts *ret, struct err *e)
{
	struct other_server *o = (struct other_server *)s;
	int rc = 0;
	mutex_lock(&o->lock);
	for (size_t i = 0; i < o->deletes.n && !rc; i++)
		if (object_stamp_cmp(o->deletes.v[i].stamp, g->deletes) > 0)
			rc = hidden_add(&o->deletes.v[i], g, ret, e);
	mutex_unlock(&o->lock);
	return rc;
}

/* ---- the servers ---- */

static int delete_compare(const void *a, const void *b)
{
	return object_stamp_cmp(((const struct transfer_delete *)a)->stamp, ((const struct transfer_delete *)b)->stamp);
}

/* Takes d, in place of one that has its stamp. */
static void other_add_delete(struct other_server *o, struct transfer_delete d)
{
	mutex_lock(&o->lock);
	size_t i = 0;
	while (i < o->deletes.n && object_stamp_cmp(o->deletes.v[i].stamp, d.stamp))
		i++;
	if (i < o->deletes.n) {
		free(o->deletes.v[i].selector);
		o->deletes.v[i] = d;
	} else {
		vec_push(&o->deletes, d);
	}
	qsort(o->deletes.v, o->deletes.n, sizeof *o->deletes.v, delete_compare);
	atomic_fetch_add(&o->hidden_number, 1);
	mutex_unlock(&o->lock);
}

/* The file of a delete: as its object, but for the folder. */
static void delete_file(char ret[OBJECT_NAME_MAX], struct object_stamp s)
{
	snprintf(ret, OBJECT_NAME_MAX, "x-%06" PRIx64 "-%010" PRIx64, s.epoch, s.serial);
}

/* One that is damaged is got from the bucket again. */
static int other_read_delete(void *arg, const char *name, struct err *e)
{
	struct other_server *o = arg;
	CLEANUP(buf_free) struct buf b = { .max = DELETE_OBJECT_MAX };
	struct object_name parsed;
	struct transfer_delete d;
	struct err why;
	(void)e;
	if (strncmp(name, "x-", 2))
		return 0;
	AUTOFREE char *path = xasprintf("%s/%s", o->catalogue.dir, name), *key = xasprintf("%s/x/%s", o->id, name + 2);
	if (object_name_parse(key, &parsed) && !buf_read_file(&b, path, &why) && !deletes_parse(buf_view(&b), &d, &why)) {
		d.stamp = parsed.stamp;
		d.here = true;
		other_add_delete(o, d);
	} else {
		unlink(path);
	}
	return 0;
}

static int other_read(struct other_server *o, struct err *e)
{
	int rc = catalogue_read(&o->catalogue, e);
	if (rc || access(o->catalogue.dir, F_OK))
		return rc;
	return files_each(o->catalogue.dir, other_read_delete, o, e);
}

static int other_add(struct others *all, const char *id, struct err *e)
{
	struct tsdb *db = all->t->db;
	struct other_server *o = NEW(struct other_server);
	snprintf(o->id, sizeof o->id, "%s", id);
	mutex_init(&o->lock, LOCK_LEAF, "deletes of another server");
	catalogue_init(&o->catalogue, xasprintf("%s/bucket/others/%s", db->path, id), true);
	o->base.db = db;
	o->base.id = o->id;
	o->base.catalogue = &o->catalogue;
	o->base.hidden = other_hidden;
	o->base.hidden_number = &o->hidden_number;
	vec_push(&all->v, o);
	int rc = other_read(o, e);
	cached_days_add_server(db, &o->base);
	return rc;
}

static struct other_server *others_find(struct others *all, const char *id)
{
	for (size_t i = 0; i < all->v.n; i++)
		if (!strcmp(all->v.v[i]->id, id))
			return all->v.v[i];
	return NULL;
}

/* Its days are read as this server's own, not once more. */
static bool others_is_own(struct others *all, const char *id)
{
	char own[SERVER_ID_MAX + 1], why[8];
	bucket_server_state(&all->t->server, own, why, sizeof why);
	return !strcmp(id, own[0] ? own : all->t->server.wanted);
}

struct others_ids {
	char first[OBJECTS_KEY_MAX + 1]; /* key */
};

static int others_first_key(void *arg, const struct objects_found *x, struct err *e)
{
	struct others_ids *ids = arg;
	(void)e;
	snprintf(ids->first, sizeof ids->first, "%s", x->key);
	return 1;
}

/* Behind all keys of a server, whose kinds are letters, or else behind this key. */
static void others_step(char after[OBJECTS_KEY_MAX + 1], const char *key)
{
	char next[OBJECTS_KEY_MAX + 8];
	size_t folder = strcspn(key, "/");
	int n = snprintf(next, sizeof next, "%.*s/zzz", (int)folder, key);
	bool fits = key[folder] && n <= OBJECTS_KEY_MAX && strcmp(next, key) > 0;
	snprintf(after, OBJECTS_KEY_MAX + 1, "%s", fits ? next : key);
}

/* Lists the first key of each folder. A server that cannot be read does not hide the next one. */
static int others_list_servers(struct others *all, struct err *e)
{
	struct others_ids ids;
	struct object_name name;
	struct err one;
	char after[OBJECTS_KEY_MAX + 1] = "";
	int rc = 0;
	for (size_t n = 0; n < SERVERS_MOST && !atomic_load(&all->t->db->stopping); n++) {
		ids.first[0] = 0;
		int rc_list = all->t->objects->list(all->t->objects, "", after, others_first_key, &ids, &one);
		if (rc_list)
			return err_set(e, one.code, "%s", one.msg);
		if (!ids.first[0])
			return rc;
		if (object_name_parse(ids.first, &name) && !others_find(all, name.id) && !others_is_own(all, name.id)) {
			LOG_INFO("msg", "the bucket has another server: queries read its days from now on", "id", name.id);
			if (other_add(all, name.id, &one) && !rc)
				rc = err_set(e, one.code, "%s: %s", name.id, one.msg);
		}
		others_step(after, ids.first);
	}
	return err_set(e, ERR_LIMIT, "the bucket's prefix has more than %d folders: servers behind them are not seen", SERVERS_MOST);
}

/* ---- what is listed of a server ---- */

struct other_list {
	struct other_server *o;
	char kind;
	VEC(struct object_stamp) stamps; /* ascending */
};

static int other_found(void *arg, const struct objects_found *x, struct err *e)
{
	struct other_list *l = arg;
	struct object_name name;
	(void)e;
	if (object_name_parse(x->key, &name) && name.kind == l->kind)
		vec_push(&l->stamps, name.stamp);
	return 0;
}

static int other_list(struct others *all, struct other_list *l, struct object_stamp after, struct err *e)
{
	char prefix[OBJECT_NAME_MAX], from[OBJECT_NAME_MAX] = "";
	object_name_prefix(prefix, l->o->id, l->kind);
	if (after.epoch && l->kind == 'g')
		object_name_generation(from, l->o->id, after);
	else if (after.epoch)
		object_name_delete(from, l->o->id, after);
	return all->t->objects->list(all->t->objects, prefix, from, other_found, l, e);
}

static int stamp_compare(const void *a, const void *b)
{
	return object_stamp_cmp(*(const struct object_stamp *)a, *(const struct object_stamp *)b);
}

static bool other_lists(const struct other_list *l, struct object_stamp s)
{
	return l->stamps.n && bsearch(&s, l->stamps.v, l->stamps.n, sizeof s, stamp_compare);
}

/* ---- its deletes ---- */

/* Whether it is known, and its file is written (`here`). */
static bool other_has_delete(struct other_server *o, struct object_stamp stamp)
{
	bool has = false;
	mutex_lock(&o->lock);
	for (size_t i = 0; i < o->deletes.n && !has; i++)
		has = !object_stamp_cmp(o->deletes.v[i].stamp, stamp) && o->deletes.v[i].here;
	mutex_unlock(&o->lock);
	return has;
}

/* It hides its rows, even if its file cannot be written. */
static int other_take_delete(struct others *all, struct other_server *o, struct object_stamp stamp, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { .max = DELETE_OBJECT_MAX };
	char name[OBJECT_NAME_MAX], file[OBJECT_NAME_MAX];
	struct transfer_delete d;
	object_name_delete(name, o->id, stamp);
	int rc = object_io_get(all->t->objects, name, &b, e);
	if (!rc)
		rc = deletes_parse(buf_view(&b), &d, e);
	if (rc == -ERR_NOT_FOUND)
		return 0; /* it was removed, as all generations of its days have it */
	if (rc == -ERR_CORRUPT || rc == -ERR_LIMIT) {
		damaged_note(all->t, name, TODO_DELETE, e);
		return 0;
	}
	if (rc)
		return rc;
	d.stamp = stamp;
	delete_file(file, stamp);
	rc = files_make_dirs(o->catalogue.dir, e);
	if (!rc)
		rc = files_put(o->catalogue.dir, file, buf_view(&b), e);
	d.here = !rc;
	other_add_delete(o, d);
	return rc;
}

/* Those that the bucket does not have any more: all its days have them. */
static void other_forget_deletes(struct other_server *o, const struct other_list *l)
{
	VEC(struct transfer_delete) gone = { 0 };
	char file[OBJECT_NAME_MAX];
	size_t n = 0;
	mutex_lock(&o->lock);
	for (size_t i = 0; i < o->deletes.n; i++) {
		if (other_lists(l, o->deletes.v[i].stamp))
			o->deletes.v[n++] = o->deletes.v[i];
		else
			vec_push(&gone, o->deletes.v[i]);
	}
	o->deletes.n = n;
	mutex_unlock(&o->lock);
	for (size_t i = 0; i < gone.n; i++) {
		delete_file(file, gone.v[i].stamp);
		AUTOFREE char *path = xasprintf("%s/%s", o->catalogue.dir, file);
		unlink(path);
		free(gone.v[i].selector);
	}
	vec_free(&gone);
}

static int other_look_at_deletes(struct others *all, struct other_server *o, bool full, struct other_list *l, struct err *e)
{
	int rc = other_list(all, l, full ? (struct object_stamp){ 0, 0 } : o->newest_delete, e);
	for (size_t i = 0; i < l->stamps.n && !rc; i++)
		if (!other_has_delete(o, l->stamps.v[i]))
			rc = other_take_delete(all, o, l->stamps.v[i], e);
	if (!rc && l->stamps.n)
		o->newest_delete = l->stamps.v[l->stamps.n - 1];
	return rc;
}

/* ---- its generations ---- */

/* The argument of other_take: which server's generations are taken in. */
struct other_taking {
	struct others *all;
	struct other_server *o;
};

static int other_take(void *arg, struct object_stamp stamp, struct fetched_generation *x, struct err *e)
{
	const struct other_taking *t = arg;
	struct other_server *o = t->o;
	char name[OBJECT_NAME_MAX];
	bool damaged = x->rc == -ERR_CORRUPT || x->rc == -ERR_LIMIT || x->rc == -ERR_BAD_DATA;
	if (x->rc == -ERR_NOT_FOUND) /* its owner removed it after the list was made, as the day has a newer one */
		return 0;
	if (x->rc && !damaged)
		return err_set(e, x->why.code, "%s", x->why.msg);
	if (damaged) {
		object_name_generation(name, o->id, stamp);
		damaged_note(t->all->t, name, TODO_GENERATION, &x->why);
	}
	if (x->rc || x->g.kind == GENERATION_FENCE) {
		if (x->rc != -ERR_BAD_DATA) /* a store's refusal has that code as well: it is tried again */
			vec_push(&o->passed, stamp);
		return 0;
	}
	rwlock_read(&o->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&o->catalogue, x->g.day);
	bool newer = !d || d->unwritten || object_stamp_cmp(d->stamp, x->g.stamp) < 0;
	rwlock_unlock(&o->catalogue.lock);
	if (!newer)
		vec_push(&o->passed, stamp);
	return newer ? catalogue_put(&o->catalogue, &x->g, buf_view(&x->b), "", true, e) : 0;
}

/* Days that the catalogue has, and whose generation a full list does not show: forgotten, if it is not there. */
static int other_forget_days(struct others *all, struct other_server *o, const struct other_list *l, struct err *e)
{
	VEC(struct catalogue_day) gone = { 0 };
	char name[OBJECT_NAME_MAX];
	int rc = 0;
	rwlock_read(&o->catalogue.lock);
	for (size_t i = 0; i < o->catalogue.days.n; i++)
		if (!other_lists(l, o->catalogue.days.v[i].stamp))
			vec_push(&gone, o->catalogue.days.v[i]);
	rwlock_unlock(&o->catalogue.lock);
	for (size_t i = 0; i < gone.n && !rc; i++) {
		CLEANUP(buf_free) struct buf b = { 0 };
		struct generation g;
		object_name_generation(name, o->id, gone.v[i].stamp);
		rc = object_io_get_generation(all->t->objects, name, &b, &g, e);
		generation_release(&g);
		if (rc == -ERR_NOT_FOUND)
			catalogue_drop(&o->catalogue, gone.v[i].day);
		if (rc == -ERR_NOT_FOUND || rc == -ERR_CORRUPT)
			rc = 0;
	}
	vec_free(&gone);
	return rc;
}

/* The generations that need not be fetched, ascending. */
static void other_list_known(struct other_server *o, struct other_list *ret)
{
	rwlock_read(&o->catalogue.lock);
	for (size_t i = 0; i < o->catalogue.days.n; i++)
		if (!o->catalogue.days.v[i].unwritten)
			vec_push(&ret->stamps, o->catalogue.days.v[i].stamp);
	rwlock_unlock(&o->catalogue.lock);
	for (size_t i = 0; i < o->passed.n; i++)
		vec_push(&ret->stamps, o->passed.v[i]);
	if (ret->stamps.n)
		qsort(ret->stamps.v, ret->stamps.n, sizeof *ret->stamps.v, stamp_compare);
}

/* After a full list: those that are listed no more need not be remembered. */
static void other_forget_passed(struct other_server *o, const struct other_list *l)
{
	size_t n = 0;
	for (size_t i = 0; i < o->passed.n; i++)
		if (other_lists(l, o->passed.v[i]))
			o->passed.v[n++] = o->passed.v[i];
	o->passed.n = n;
}

static int other_look_at_generations(struct others *all, struct other_server *o, bool full, struct other_list *l, struct err *e)
{
	VEC(struct object_stamp) unknown = { 0 };
	struct other_list known = { .o = o };
	int rc = other_list(all, l, full ? (struct object_stamp){ 0, 0 } : o->newest, e);
	if (!rc && full) {
		other_forget_passed(o, l);
		rc = other_forget_days(all, o, l, e);
	}
	other_list_known(o, &known);
	for (size_t i = 0; i < l->stamps.n && !rc; i++)
		if (!other_lists(&known, l->stamps.v[i]))
			vec_push(&unknown, l->stamps.v[i]);
	if (!rc)
		rc = generations_fetch(all->t, o->id, unknown.v, unknown.n, other_take, &(struct other_taking){ all, o }, e);
	if (!rc && l->stamps.n)
		o->newest = l->stamps.v[l->stamps.n - 1];
	vec_free(&known.stamps);
	vec_free(&unknown);
	return rc;
}

/* Deletes first: one that is listed no more by then is in all generations that are listed after it. They are forgotten last. */
static int other_look(struct others *all, struct other_server *o, bool full, struct err *e)
{
	struct other_list deletes = { .o = o, .kind = 'x' }, generations = { .o = o, .kind = 'g' };
	atomic_store(&o->base.is_own, others_is_own(all, o->id));
	int rc = other_look_at_deletes(all, o, full, &deletes, e);
	if (!rc)
		rc = other_look_at_generations(all, o, full, &generations, e);
	if (!rc && full) {
		other_forget_deletes(o, &deletes);
		if (!generations.stamps.n && !deletes.stamps.n)
			rmdir(o->catalogue.dir); /* the bucket has nothing of it any more */
		o->full_mono_ms = clock_mono_ms() + FULL_EVERY_MS;
	}
	vec_free(&deletes.stamps);
	vec_free(&generations.stamps);
	return rc;
}

/* ---- looking ---- */

static void others_note(struct others *all, int rc, const struct err *e)
{
	mutex_lock(&all->status_lock);
	bool same = rc && err_same_but_for_numbers(all->error, e->msg);
	snprintf(all->error, sizeof all->error, "%s", rc ? e->msg : "");
	if (!rc)
		all->looked_ms = tsdb_now_ms(all->t->db);
	mutex_unlock(&all->status_lock);
	if (rc && !same)
		LOG_WARN("msg", "the bucket does not say which days other servers have: will try again", "err", e->msg);
}

/* If one server cannot be listed the others are listed all the same. */
static int others_look_locked(struct others *all, bool full, struct err *e) REQUIRES(all->look_lock)
{
	int64_t now = clock_mono_ms();
	struct err one;
	int rc = 0;
	if (full || now >= all->servers_mono_ms) {
		rc = others_list_servers(all, e);
		all->servers_mono_ms = now + (rc ? 0 : SERVERS_EVERY_MS);
	}
	for (size_t i = 0; i < all->v.n && !atomic_load(&all->t->db->stopping); i++) {
		struct other_server *o = all->v.v[i];
		int rc_one = other_look(all, o, full || now >= o->full_mono_ms, &one);
		if (rc_one && !rc)
			rc = err_set(e, one.code, "%s: %s", o->id, one.msg);
	}
	return rc;
}

static int others_look_now(struct others *all, bool full, struct err *e)
{
	mutex_lock(&all->look_lock);
	int rc = others_look_locked(all, full, e);
	mutex_unlock(&all->look_lock);
	if (!atomic_load(&all->t->db->stopping))
		others_note(all, rc, e);
	return rc;
}

int others_look(struct transfer *t, struct err *e)
{
	return t->others ? others_look_now(t->others, true, e) : 0;
}

static void *others_run(void *arg)
{
	struct others *all = arg;
	struct err e;
	int rc;
	thread_give_way(OTHERS_NICE);
	do
		rc = others_look_now(all, false, &e);
	while (tsdb_pause(all->t->db, rc ? RETRY_MS : LOOK_EVERY_MS));
	return NULL;
}

/* ---- start and end ---- */

static int others_read_one(void *arg, const char *name, struct err *e)
{
	struct others *all = arg;
	if (!server_id_is_valid(view_of(name)) || others_is_own(all, name))
		return 0;
	return other_add(all, name, e);
}

int others_open(struct transfer *t, struct err *e)
{
	AUTOFREE char *dir = xasprintf("%s/bucket/others", t->db->path);
	struct others *all = NEW(struct others);
	all->t = t;
	mutex_init(&all->look_lock, RANK_TSDB_OTHERS, "other servers");
	mutex_init(&all->status_lock, LOCK_LEAF, "status of other servers");
	t->others = all;
	return access(dir, F_OK) ? 0 : files_each(dir, others_read_one, all, e);
}

int others_start(struct transfer *t, struct err *e)
{
	if (!t->others)
		return 0;
	int rc = thread_start(&t->others->thread, "bucket others", others_run, t->others, e);
	t->others->have_thread = !rc;
	return rc;
}

void others_stop(struct transfer *t)
{
	if (t->others && t->others->have_thread)
		pthread_join(t->others->thread, NULL);
}

void others_free(struct transfer *t)
{
	struct others *all = t->others;
	if (!all)
		return;
	for (size_t i = 0; i < all->v.n; i++) {
		struct other_server *o = all->v.v[i];
		for (size_t k = 0; k < o->deletes.n; k++)
			free(o->deletes.v[k].selector);
		vec_free(&o->deletes);
		vec_free(&o->passed);
		catalogue_release(&o->catalogue);
		mutex_destroy(&o->lock);
		free(o);
	}
	vec_free(&all->v);
	mutex_destroy(&all->look_lock);
	mutex_destroy(&all->status_lock);
	free(all);
	t->others = NULL;
}

static void others_add_day(void *arg, const struct catalogue_day *d)
{
	struct admin_bucket *ret = arg;
	ret->other_days++;
	ret->other_bytes += d->bytes;
	ret->other_from_ms = ret->other_from_ms ? MIN(ret->other_from_ms, d->min_ms) : d->min_ms;
	ret->other_until_ms = MAX(ret->other_until_ms, d->max_ms);
}

void others_status(struct transfer *t, struct admin_bucket *ret)
{
	struct cached_server *s;
	ret->reads_others = t->others != NULL;
	if (!t->others)
		return;
	for (size_t i = 1; (s = cached_days_server(t->db, i)); i++) {
		uint64_t before = ret->other_days;
		if (!atomic_load(&s->is_own))
			catalogue_each(s->catalogue, INT64_MIN / 4, INT64_MAX / 4, others_add_day, ret);
		ret->other_servers += ret->other_days > before;
	}
	mutex_lock(&t->others->status_lock);
	ret->other_looked_ms = t->others->looked_ms;
	snprintf(ret->other_error, sizeof ret->other_error, "%s", t->others->error);
	mutex_unlock(&t->others->status_lock);
}
