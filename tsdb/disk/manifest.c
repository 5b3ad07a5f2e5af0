/* SPDX-License-Identifier: Apache-2.0 */
/* The framing of a MANIFEST is that of write-ahead files (wal.h). */
#include "tsdb/disk/manifest.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/files.h"
#include "tsdb/disk/wal.h"

#define MAX_BYTES ((size_t)256 << 20) /* limit of a list that is checked; RocksDB starts a new one after 4 MiB */

static int has_file(void *arg, const char *name, struct err *e)
{
	struct view v = view_of(name);
	(void)e;
	*(bool *)arg |= view_ends(v, VIEW(".sst")) || view_ends(v, VIEW(".log"));
	return 0;
}

bool manifest_is_gone(const char *path)
{
	AUTOFREE char *current = xasprintf("%s/CURRENT", path);
	bool any = false;
	if (access(path, F_OK) || access(current, F_OK) == 0 || errno != ENOENT)
		return false;
	IGNORE(files_each(path, has_file, &any, NULL)); /* RocksDB reports why it cannot be read */
	return any;
}

bool manifest_is_damaged(const char *path)
{
	AUTOFREE char *current = xasprintf("%s/CURRENT", path);
	CLEANUP(buf_free) struct buf name = { .max = 64 }, list = { .max = MAX_BYTES };
	struct wal_loss loss;
	if (buf_read_file(&name, current, NULL) || name.len < 2 || name.ptr[name.len - 1] != '\n' || strncmp(name.ptr, "MANIFEST-", 9))
		return false;
	AUTOFREE char *file = xasprintf("%s/%.*s", path, (int)(name.len - 1), name.ptr);
	if (buf_read_file(&list, file, NULL))
		return false;
	IGNORE(wal_each(buf_view(&list), NULL, NULL, &loss, NULL)); /* no thread to end it */
	return loss.holes || loss.tail;
}
