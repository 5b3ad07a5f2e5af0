/* SPDX-License-Identifier: Apache-2.0 */
/* tsdb_bucket_get: makes the directory of a copy as DIR.tmp and renames it when it is complete. An ordinary tsdb_open makes it: its option `copy`
 * has tsdb/transfer/copy.c fetch the days. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "tsdb/tsdb.h"

static int copy_find_entry(void *arg, const char *name, struct err *e)
{
	(void)name;
	return err_set(e, ERR_CONFLICT, "%s is not empty: days of a bucket are fetched into a directory that is empty or not there", (const char *)arg);
}

/* dir is empty or not there, and so is the place where it is made. */
static int copy_check_dir(char *dir, const char *making, struct err *e)
{
	int rc = access(dir, F_OK) ? 0 : files_each(dir, copy_find_entry, dir, e);
	if (!rc && access(making, F_OK) == 0)
		rc = err_set(e, ERR_CONFLICT, "%s exists, left of an earlier call or in use by one: remove it", making);
	return rc;
}

int tsdb_bucket_get(const struct tsdb_bucket_copy *c, struct err *e)
{
	AUTOFREE char *dir = xstrdup(c->dir);
	for (size_t n = strlen(dir); n > 1 && dir[n - 1] == '/';)
		dir[--n] = 0;
	AUTOFREE char *making = xasprintf("%s.tmp", dir), *bucket = xasprintf("%s/bucket", making);
	struct tsdb_options o = { .path = making, .retention_ms = -1, .objects = c->objects, .objects_at_once = c->objects_at_once, .server_id = c->id, .no_sealing = true, .no_transfer = true,
				  .copy = c };
	struct tsdb *db;
	int rc = copy_check_dir(dir, making, e);
	if (rc)
		return rc;
	rc = tsdb_open(&db, &o, e);
	if (!rc)
		rc = tsdb_close(db, e);
	if (!rc)
		files_remove_tree(bucket);
	if (!rc && rename(making, dir))
		rc = err_errno(e, errno, "cannot rename %s", making);
	if (rc)
		files_remove_tree(making);
	return rc;
}
