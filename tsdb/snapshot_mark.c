/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/snapshot_mark.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/disk/text.h"
#include "tsdb/version/db.h"

#define SNAPSHOT_MARK "snapshot"
#define SNAPSHOT_HEAD "pyrrha-snapshot 1"

int snapshot_mark_put(const struct tsdb *db, const char *dir, bool finished, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	buf_printf(&b, SNAPSHOT_HEAD "\nstate %s\nmade %" PRId64 "\nrecord %" PRIu64 "\n", finished ? "finished" : "unfinished", tsdb_now_ms(db),
		   hlog_last(db->log));
	text_put_checksum(&b, 0);
	return files_put(dir, SNAPSHOT_MARK, buf_view(&b), e);
}

static bool has(const struct tsdb *db, const char *name)
{
	AUTOFREE char *path = xasprintf("%s/%s", db->path, name);
	return access(path, F_OK) == 0;
}

/* A process had it open: its number is in the file. */
static bool was_opened(const struct tsdb *db)
{
	AUTOFREE char *path = xasprintf("%s/lock", db->path);
	struct stat st;
	return stat(path, &st) == 0 && st.st_size > 0;
}

/* When it was made, for a message; 0: the mark is damaged. */
static int64_t parse(const struct tsdb *db, bool *ret_finished)
{
	AUTOFREE char *path = xasprintf("%s/" SNAPSHOT_MARK, db->path);
	CLEANUP(buf_free) struct buf b = { .max = 4096 };
	struct view lines, state, line;
	int64_t made = 0;
	*ret_finished = true;
	if (buf_read_file(&b, path, NULL) || !text_checked(buf_view(&b), SNAPSHOT_HEAD, &lines) || !text_line(&lines, &state) ||
	    !text_line(&lines, &line) || !text_numbers(line, "made #", &made))
		return 0;
	*ret_finished = view_eqs(state, "state finished");
	return made;
}

int snapshot_mark_check(const struct tsdb *db, struct err *e)
{
	bool marked = has(db, SNAPSHOT_MARK), opened = was_opened(db), finished;
	char when[RFC3339_LEN];
	if (!marked) {
		if (!has(db, "version") && has(db, "head") && !opened && !db->o.read_only)
			return err_set(e, ERR_CORRUPT, "%s has a head log and no file `version`, and no server has used it: it is half of a snapshot, or "
				       "of a copy. Copy it again as a whole, or start with another --storage.path", db->path);
		return 0;
	}
	int64_t made = parse(db, &finished);
	clock_rfc3339_ms(made, when);
	if (!finished)
		return err_set(e, ERR_CORRUPT, "%s is half of a snapshot: making it was interrupted. Use another snapshot, or start with another "
			       "--storage.path", db->path);
	if (opened)
		return err_set(e, ERR_CORRUPT, "a snapshot of %s was copied over the storage directory %s, which was in use before: files of both are "
			       "mixed, and those that the snapshot does not know would be removed. Copy the snapshot into an empty directory. To start with "
			       "the mixture, and without what was stored since the snapshot, remove the file %s/" SNAPSHOT_MARK, when, db->path, db->path);
	return 0;
}

bool snapshot_mark_remove(const struct tsdb *db)
{
	AUTOFREE char *path = xasprintf("%s/" SNAPSHOT_MARK, db->path);
	struct err e;
	if (unlink(path))
		return errno == ENOENT;
	if (files_sync_dir(db->path, &e))
		LOG_WARN("msg", "the mark of a snapshot may come back after a power loss", "file", path, "err", e.msg);
	return true;
}
