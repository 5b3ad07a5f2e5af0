/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/crash/life_bucket.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "tests/crash/life.h"
#include "tsdb/bucket/generation.h"
#include "tsdb/bucket/object_io.h"

#define FETCH_TRIES 30

void life_bucket_open(struct life_bucket *b, const char *dir)
{
	struct err e;
	b->config = (struct bucket_config){ .type = BUCKET_FILESYSTEM, .prefix = "", .directory = dir, .requests = 16, .shown = dir };
	atomic_init(&b->stop, false);
	if (bucket_open(&b->bucket, &b->config, &b->stop, &e))
		die("the bucket cannot be opened: %s", e.msg);
}

void life_bucket_close(struct life_bucket *b)
{
	bucket_free(b->bucket);
}

static struct admin_bucket bucket_status(struct tsdb *db)
{
	struct admin_bucket s;
	struct storage_admin *a = tsdb_admin(db);
	a->bucket(a, &s);
	return s;
}

bool life_bucket_fetch(struct tsdb *db)
{
	struct err e;
	int rc = 0;
	for (int i = 0; i < FETCH_TRIES && (!i || bucket_status(db).absent_days); i++)
		rc = tsdb_upload(db, &e);
	return rc == 0;
}

/* ---- orphans ---- */

struct bucket_walk {
	struct objects *o;
	uint64_t epoch;                /* newest */
	VEC(struct generation) newest; /* of each day */
	VEC(char *) data;
};

static void walk_take(struct bucket_walk *w, struct generation *g)
{
	for (size_t i = 0; i < w->newest.n; i++)
		if (w->newest.v[i].day == g->day) {
			bool newer = object_stamp_cmp(w->newest.v[i].stamp, g->stamp) < 0;
			generation_release(newer ? &w->newest.v[i] : g);
			if (newer)
				w->newest.v[i] = *g;
			return;
		}
	vec_push(&w->newest, *g);
}

static int walk_found(void *arg, const struct objects_found *x, struct err *e)
{
	struct bucket_walk *w = arg;
	struct object_name name;
	CLEANUP(buf_free) struct buf b = { 0 };
	struct generation g;
	if (!object_name_parse(x->key, &name))
		die("an object of no known name: %s", x->key);
	if (name.kind == 'e')
		w->epoch = MAX(w->epoch, name.stamp.epoch);
	if (name.kind == 'd')
		vec_push(&w->data, xstrdup(x->key));
	if (name.kind != 'g')
		return 0;
	if (object_io_get_generation(w->o, x->key, &b, &g, e))
		die("a generation cannot be read: %s", e->msg);
	if (g.kind == GENERATION_FENCE)
		generation_release(&g);
	else
		walk_take(w, &g);
	return 0;
}

static bool walk_is_named(const struct bucket_walk *w, const struct object_name *n)
{
	for (size_t i = 0; i < w->newest.n; i++) {
		const struct generation *g = &w->newest.v[i];
		for (size_t k = 0; k <= g->parts.n && g->day == n->day; k++)
			if (!object_stamp_cmp(n->stamp, k < g->parts.n ? g->parts.v[k].object.stamp : g->symbols.stamp))
				return true;
	}
	return false;
}

void life_bucket_check_orphans(struct life_bucket *b, struct tsdb *db)
{
	struct bucket_walk w = { .o = bucket_objects(b->bucket) };
	struct err e;
	char prefix[OBJECT_NAME_MAX];
	snprintf(prefix, sizeof prefix, "%s/", bucket_status(db).id);
	if (w.o->list(w.o, prefix, "", walk_found, &w, &e))
		die("the bucket cannot be listed: %s", e.msg);
	for (size_t i = 0; i < w.data.n; i++) {
		struct object_name n;
		if (object_name_parse(w.data.v[i], &n) && n.stamp.epoch < w.epoch && !walk_is_named(&w, &n))
			die("the object %s is named by no generation", w.data.v[i]);
		free(w.data.v[i]);
	}
	for (size_t i = 0; i < w.newest.n; i++)
		generation_release(&w.newest.v[i]);
	vec_free(&w.newest);
	vec_free(&w.data);
}
