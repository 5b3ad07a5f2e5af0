/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a copy of days of a bucket: an ordinary storage directory, which does not act as the server that put them. It takes no epoch, puts and
 * removes nothing, and has no bucket/ in the end. The days come as those of a returning server do (retrieve.c): files before the partitions are opened, facts after the
 * replay. All of it happens inside tsdb_open, which tsdb_bucket_get calls, on its caller's thread. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/files.h"
#include "tsdb/transfer/transfer_private.h"

/* Records of the copy are numbered above those of its server, as the parts have these numbers: as in a directory that takes the next
 * epoch. */
static int copy_choose_base(struct transfer *t, struct err *e)
{
	uint64_t newest = 0;
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++)
		newest = MAX(newest, MAX(t->catalogue.days.v[i].stamp.epoch, t->catalogue.days.v[i].last_record >> 40));
	rwlock_unlock(&t->catalogue.lock);
	t->server.base = newest + 1;
	return newest + 1 < OBJECT_EPOCH_MAX ? 0 : err_set(e, ERR_CORRUPT, "a generation of %s has a record number that no server can have", t->server.id);
}

/* Whether a failed day leaves the others to fetch: what is wrong is the day, not the bucket or this disk. */
static bool copy_goes_on(int rc)
{
	return rc == -ERR_CORRUPT || rc == -ERR_NOT_FOUND || rc == -ERR_BAD_DATA || rc == -ERR_LIMIT;
}

/* Fetches the files of a day. done gets what is wrong with it. */
static int copy_fetch(struct transfer *t, uint32_t day, struct err *e)
{
	const struct tsdb_bucket_copy *c = t->db->o.copy;
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, day);
	bool there = d && d->kind == GENERATION_DAY;
	rwlock_unlock(&t->catalogue.lock);
	int rc = there ? retrieve_files(t, day, c->lenient, e) : err_set(e, ERR_NOT_FOUND, "%s has nothing of that day in the bucket", t->server.id);
	if (rc && copy_goes_on(rc)) {
		AUTOFREE char *left = xasprintf("%s/partitions/%u.fetch", t->db->path, day);
		files_remove_tree(left);
		c->done(c->arg, day, e);
		return 0;
	}
	if (!rc)
		c->done(c->arg, day, NULL);
	return rc;
}

int copy_files(struct transfer *t, struct err *e)
{
	const struct tsdb_bucket_copy *c = t->db->o.copy;
	VEC(uint32_t) days = { 0 };
	mutex_lock(&t->run_lock);
	snprintf(t->server.id, sizeof t->server.id, "%s", c->id);
	int rc = survey_bucket(t, e);
	if (!rc)
		rc = deletes_fetch(t, e);
	*c->ret_damaged = t->catalogue_is_damaged || t->deletes_are_damaged;
	t->has_begun = !rc;
	if (!rc)
		rc = copy_choose_base(t, e);
	for (size_t i = 0; i < c->n; i++)
		vec_push(&days, c->days[i]);
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n && !c->n; i++)
		if (t->catalogue.days.v[i].kind == GENERATION_DAY)
			vec_push(&days, t->catalogue.days.v[i].day);
	rwlock_unlock(&t->catalogue.lock);
	for (size_t i = 0; i < days.n && !rc; i++)
		rc = copy_fetch(t, days.v[i], e);
	if (!rc && !days.n)
		rc = err_set(e, ERR_NOT_FOUND, "%s has no days in the bucket", c->id);
	vec_free(&days);
	mutex_unlock(&t->run_lock);
	return rc;
}
