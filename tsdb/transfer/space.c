/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the disk has room before a day is fetched. A full disk would stop the storage from taking rows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/units.h"
#include "tsdb/transfer/transfer_private.h"

#define SPACE_LEFT (UINT64_C(64) << 20) /* bytes that a fetched day leaves free */

/* Bytes of a day that are still to be fetched. */
static uint64_t space_needed(const struct generation *g, const char *dir)
{
	uint64_t n = 0;
	for (size_t i = 0; i < g->parts.n; i++) {
		const struct generation_part *p = &g->parts.v[i];
		AUTOFREE char *file = xasprintf("%s/%06" PRIu64 ".sst", dir, p->file);
		struct stat st;
		uint64_t has = stat(file, &st) ? 0 : (uint64_t)st.st_size;
		n += p->object.size > has ? p->object.size - has : 0;
	}
	return n;
}

int space_check(struct transfer *t, const struct generation *g, const char *dir, struct err *e)
{
	AUTOFREE char *partitions = xasprintf("%s/partitions", t->db->path);
	struct statvfs fs;
	char need[24], has[24];
	if (statvfs(partitions, &fs) && statvfs(t->db->path, &fs))
		return 0; /* writing says what is wrong */
	uint64_t bytes = space_needed(g, dir), left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (!bytes || left >= bytes + SPACE_LEFT)
		return 0;
	return err_set(e, ERR_IO, "no room for day %u: %s of it are to be fetched, and %s are free on the disk of %s; it stays in the bucket alone until there is room", g->day,
		       units_format_size(bytes, need), units_format_size(left, has), t->db->path);
}

bool space_is_out(const struct err *e)
{
	return strstr(e->msg, "No space left") || strstr(e->msg, "quota exceeded");
}
