/* SPDX-License-Identifier: Apache-2.0 */
/* Putting generations. Those of an epoch are numbered without gaps, so a fence that a newer epoch puts under the next number stops this one
 * (bucket_server.h). A put without an answer may have arrived: the same bytes are put again under the same number before anything else. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/transfer/transfer_private.h"

#define TOGETHER 8 /* generations in memory at a time */

/* A generation is in the bucket. If the disk is full the memory knows it; the next start asks the bucket. */
static void generations_note(struct transfer *t, const struct generation *g, struct view bytes, const char *identity, bool away)
{
	struct err e;
	if (catalogue_put(&t->catalogue, g, bytes, identity, away, &e))
		LOG_WARN("msg", "a generation is in the bucket and cannot be noted here", "partition", LOG_NUM(g->day), "err", e.msg);
}

int generations_put_pending(struct transfer *t, struct err *e)
{
	char name[OBJECT_NAME_MAX];
	struct generation g;
	if (!t->pending.len)
		return 0;
	object_name_generation(name, t->server.id, t->pending_stamp);
	int rc = object_io_put(t->objects, name, buf_view(&t->pending), e);
	if (rc == -ERR_CONFLICT)
		bucket_server_fenced(&t->server, "another process has put a generation under the next number of this one");
	if (rc)
		return rc;
	t->server.next_generation = t->pending_stamp.serial + 1;
	metric_inc(&tsdb_metrics[TM_BUCKET_GENERATIONS]);
	rc = generation_decode(&g, buf_view(&t->pending), name, e);
	if (!rc)
		generations_note(t, &g, buf_view(&t->pending), t->pending_identity, t->pending_away);
	generation_release(&g);
	buf_free(&t->pending);
	t->pending = (struct buf){ 0 };
	return rc;
}

int generations_put(struct transfer *t, struct generation *g, const char *identity, bool away, struct err *e)
{
	struct buf bytes = { .max = GENERATION_MAX };
	int rc = generations_put_pending(t, e);
	if (!rc)
		rc = bucket_server_check(&t->server, NULL, e);
	if (!rc)
		rc = bucket_server_note_generation(&t->server, t->server.next_generation, e);
	if (rc)
		return rc;
	g->stamp = (struct object_stamp){ t->server.epoch, t->server.next_generation };
	rc = generation_encode(g, &bytes, e);
	for (int drop = 0; drop < 2 && rc == -ERR_LIMIT; drop++) { /* readers can do without ends, and without covers */
		for (size_t i = 0; i < g->parts.n; i++) {
			g->parts.v[i].ends = view_make(NULL, 0);
			if (drop)
				g->parts.v[i].covers = view_make(NULL, 0);
		}
		buf_reset(&bytes);
		rc = generation_encode(g, &bytes, e);
	}
	if (rc) {
		buf_free(&bytes);
		if (e->code == ERR_LIMIT) /* of this day, not of the bucket: that is so when it is full */
			e->code = ERR_BAD_DATA;
		return -(int)e->code;
	}
	buf_free(&t->pending);
	t->pending = bytes;
	t->pending_stamp = g->stamp;
	t->pending_away = away;
	snprintf(t->pending_identity, sizeof t->pending_identity, "%s", identity);
	return generations_put_pending(t, e);
}

int generations_read(struct transfer *t, uint32_t day, struct buf *b, struct generation *ret, struct err *e)
{
	char name[OBJECT_NAME_MAX], identity[CATALOGUE_IDENTITY_MAX] = "";
	struct object_stamp stamp = { 0, 0 };
	bool away = false;
	*ret = (struct generation){ .min_ms = 1 };
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, day);
	if (d) {
		stamp = d->stamp;
		away = d->away;
		memcpy(identity, d->identity, sizeof identity);
		object_name_generation(name, d->id, stamp);
	}
	rwlock_unlock(&t->catalogue.lock);
	if (!stamp.epoch)
		return err_set(e, ERR_NOT_FOUND, "day %u has no generation", day);
	b->max = GENERATION_MAX;
	int rc = catalogue_bytes(&t->catalogue, day, b, e);
	if (!rc)
		rc = generation_decode(ret, buf_view(b), name, e);
	if (!rc || (rc != -ERR_CORRUPT && rc != -ERR_NOT_FOUND))
		return rc;
	generation_release(ret);
	rc = object_io_get_generation(t->objects, name, b, ret, e);
	if (!rc)
		generations_note(t, ret, buf_view(b), identity, away);
	return rc;
}

struct generations_batch {
	struct transfer *t;
	const char *id;
	const struct object_stamp *stamps;
	struct fetched_generation v[TOGETHER];
};

static int generations_fetch_one(void *arg, size_t i, struct err *e)
{
	struct generations_batch *f = arg;
	struct fetched_generation *x = &f->v[i];
	char name[OBJECT_NAME_MAX];
	(void)e;
	object_name_generation(name, f->id, f->stamps[i]);
	x->rc = object_io_get_generation(f->t->objects, name, &x->b, &x->g, &x->why);
	return 0;
}

int generations_fetch(struct transfer *t, const char *id, const struct object_stamp *stamps, size_t n,
		      int (*take)(void *arg, struct object_stamp stamp, struct fetched_generation *x, struct err *e), void *arg, struct err *e)
{
	struct generations_batch *f = NEW(struct generations_batch);
	struct err one;
	int rc = 0;
	bool away = false;
	for (size_t at = 0; at < n && !away; at += TOGETHER) {
		if (atomic_load(&t->db->stopping)) {
			rc = err_set(e, ERR_CANCELED, "the storage shuts down");
			break;
		}
		size_t k = MIN(n - at, (size_t)TOGETHER);
		*f = (struct generations_batch){ .t = t, .id = id, .stamps = stamps + at };
		IGNORE(parallel_each(MAX(t->db->o.objects_at_once, 1), k, generations_fetch_one, f, &one)); /* each has a result of its own */
		for (size_t i = 0; i < k; i++) {
			away |= transfer_is_away(f->v[i].rc) || f->v[i].rc == -ERR_DENIED;
			if (take(arg, stamps[at + i], &f->v[i], &one) && !rc)
				rc = err_set(e, one.code, "%s", one.msg);
			generation_release(&f->v[i].g);
			buf_free(&f->v[i].b);
		}
	}
	free(f);
	return rc;
}
