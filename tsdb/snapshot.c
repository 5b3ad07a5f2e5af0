/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of what is durable, as a storage directory of its own. */
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "tsdb/format.h"
#include "tsdb/part/part.h"
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

int tsdb_snapshot(struct tsdb *db, const char *dir, struct err *e)
{
	if (access(dir, F_OK) == 0)
		return err_set(e, ERR_CONFLICT, "cannot make a snapshot in %s: it exists", dir);
	tsdb_flush(db);
	mutex_lock(&db->seal_lock); /* no seal moves rows from one to the other meanwhile */
	int rc = files_make_dirs(dir, e);
	if (!rc)
		rc = hlog_snapshot(db->log, dir, e);
	if (!rc)
		rc = snapshot_partitions(db, dir, e);
	if (!rc && db->dropped.until_ms + (int64_t)db->dropped.days.n)
		rc = dropped_write(&db->dropped, dir, e);
	if (!rc)
		rc = format_write(dir, e); /* last: it marks the rest as complete */
	mutex_unlock(&db->seal_lock);
	return rc;
}
