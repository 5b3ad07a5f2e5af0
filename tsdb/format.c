/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/format.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/log.h"
#include "base/num.h"
#include "tsdb/version/db.h"

#define FORMAT 5 /* 1 had no aggregates, 2 no sums in bytes, 3 symbols of parts in rows, all places, one kind of detail, 4 no names in rollups */

/* The line that stands behind the first, which it is the checksum of. */
static void put_checksum(struct buf *b, struct view line)
{
	buf_printf(b, "checksum %016" PRIx64 "\n", hash_stable_view(line));
}

int format_write(const char *dir, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	buf_printf(&b, "pyrrha-tsdb %d\n", FORMAT);
	put_checksum(&b, buf_view(&b));
	return files_put(dir, "version", buf_view(&b), e);
}

/* The number that the file says. *ret_sure: its checksum holds; older ones have none. False: it is damaged, so that a flipped bit in
 * the number refuses no start. */
static bool parse_format(const struct buf *b, int64_t *ret, bool *ret_sure)
{
	const struct view name = VIEW("pyrrha-tsdb ");
	CLEANUP(buf_free) struct buf sum = { 0 };
	struct view all = buf_view(b);
	const char *end = all.len ? memchr(all.ptr, '\n', all.len) : NULL;
	struct view line = view_make(all.ptr, end ? (size_t)(end - all.ptr) + 1 : 0), rest = view_make(line.ptr + line.len, all.len - line.len);
	*ret_sure = false;
	if (!end || !view_starts(line, name) ||
	    !num_parse_i64(view_make(line.ptr + name.len, line.len - name.len - 1), ret))
		return false;
	put_checksum(&sum, line);
	*ret_sure = view_eq(rest, buf_view(&sum));
	return *ret_sure || !rest.len;
}

int format_check(struct tsdb *db, struct err *e)
{
	AUTOFREE char *name = xasprintf("%s/version", db->path);
	CLEANUP(buf_free) struct buf b = { .max = 4096 };
	int64_t format;
	int rc = buf_read_file(&b, name, e);
	bool sure;
	if (rc == -ERR_NOT_FOUND && db->o.read_only)
		return err_set(e, ERR_NOT_FOUND, "%s is not a storage directory: there is no %s", db->path, name);
	if (rc && rc != -ERR_NOT_FOUND && rc != -ERR_LIMIT)
		return rc;
	bool whole = !rc && parse_format(&b, &format, &sure);
	if (whole && format > FORMAT)
		return err_set(e, ERR_CORRUPT, "%s was written by a newer Pyrrha (format %lld, this one knows %d): run that one, "
			       "or start with another --storage.path", db->path, (long long)format, FORMAT);
	if ((whole && format == FORMAT && sure) || db->o.read_only)
		return 0;
	if (rc == -ERR_NOT_FOUND)
		return format_write(db->path, e);
	if (!whole)
		LOG_WARN("msg", "the file with the storage's format is damaged: this program's format is assumed, and the file is rewritten", "file",
			 name);
	/* Older, or without a checksum: existing data stays unchanged; an older program may not be able to read new data. */
	if (format_write(db->path, e) && whole && format < FORMAT)
		return -(int)e->code;
	return 0;
}
