/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of what is durable, as a storage directory of its own. It is made as NAME.tmp, and renamed when it is complete and synced. */
#include "tsdb/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "tsdb/format.h"
#include "tsdb/part/part.h"
#include "tsdb/snapshot_mark.h"
#include "tsdb/version/db.h"

static int snapshot_partitions(struct tsdb *db, const char *dir, struct err *e)
{
	AUTOFREE char *partitions = xasprintf("%s/partitions", dir);
	struct version *v = tsdb_version(db, NULL);
	int rc = files_make_dirs(partitions, e);
	for (size_t i = 0; i < v->n && !rc; i++) {
		AUTOFREE char *to = xasprintf("%s/%u", partitions, v->p[i]->p->day);
		if (v->p[i]->n_parts)
			rc = partition_db_snapshot(v->p[i]->parts[0]->db, to, e);
	}
	version_unref(v);
	return rc;
}

static int snapshot_fill(struct tsdb *db, const char *dir, struct err *e)
{
	int rc = files_make_dirs(dir, e);
	if (!rc)
		rc = snapshot_mark_put(db, dir, false, e);
	if (!rc)
		rc = hlog_snapshot(db->log, dir, e);
	if (!rc)
		rc = snapshot_partitions(db, dir, e);
	if (!rc && db->dropped.until_ms + (int64_t)db->dropped.days.n)
		rc = dropped_write(&db->dropped, dir, e);
	if (!rc)
		rc = holes_write(&db->holes, dir, e);
	if (!rc)
		rc = format_write(dir, e);
	if (!rc)
		rc = snapshot_mark_put(db, dir, true, e); /* last: it says that the rest is complete */
	return rc ? rc : files_sync_dir(dir, e);
}

static int snapshot_rename(const char *from, const char *to, struct err *e)
{
	AUTOFREE char *above = xstrdup(to);
	char *slash = strrchr(above, '/');
	if (rename(from, to))
		return err_errno(e, errno, "cannot rename %s", from);
	if (slash)
		*slash = 0;
	return slash ? files_sync_dir(above, e) : 0;
}

int tsdb_snapshot(struct tsdb *db, const char *dir, struct err *e)
{
	AUTOFREE char *unfinished = xasprintf("%s" SNAPSHOT_UNFINISHED, dir);
	if (access(dir, F_OK) == 0)
		return err_set(e, ERR_CONFLICT, "cannot make a snapshot in %s: it exists", dir);
	tsdb_flush(db);
	mutex_lock(&db->seal_lock); /* no seal moves rows from one to the other meanwhile */
	files_remove_tree(unfinished);
	int rc = snapshot_fill(db, unfinished, e);
	if (!rc)
		rc = snapshot_rename(unfinished, dir, e);
	if (rc)
		files_remove_tree(unfinished);
	mutex_unlock(&db->seal_lock);
	return rc;
}

static int snapshot_tidy_one(void *arg, const char *name, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", (const char *)arg, name);
	(void)e;
	if (view_ends(view_of(name), VIEW(SNAPSHOT_UNFINISHED)))
		files_remove_tree(path);
	return 0;
}

void snapshot_tidy(const struct tsdb *db)
{
	AUTOFREE char *all = xasprintf("%s/snapshots", db->path);
	if (access(all, F_OK) == 0)
		IGNORE(files_each(all, snapshot_tidy_one, all, NULL)); /* what stays takes room, no more */
}
