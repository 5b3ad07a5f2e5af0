/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory_limit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/num.h"

/* The number in the file of a group; UINT64_MAX: none, or "max". */
static uint64_t limit_in(const char *root, const char *base, struct view group, const char *name)
{
	AUTOFREE char *path = xasprintf("%s/sys/fs/cgroup%s%.*s/%s", root, base, (int)group.len, group.ptr, name);
	struct buf text = { 0 };
	uint64_t n = UINT64_MAX;
	if (!buf_read_file(&text, path, NULL)) {
		while (text.len && text.ptr[text.len - 1] == '\n')
			text.len--;
		if (!num_parse_u64(buf_view(&text), &n))
			n = UINT64_MAX;
	}
	buf_free(&text);
	return n;
}

/* Of a group and all groups above it. Within a container what is mounted may be the group itself: the path is looked for from there,
 * too. */
static uint64_t least_of(const char *root, const char *base, struct view group, const char *name)
{
	uint64_t least = UINT64_MAX;
	for (;;) {
		while (group.len && group.ptr[group.len - 1] == '/')
			group.len--;
		least = MIN(least, limit_in(root, base, group, name));
		if (!group.len)
			return least;
		while (group.len && group.ptr[group.len - 1] != '/')
			group.len--;
	}
}

/* A line of /proc/self/cgroup: number ":" controllers ":" path; of version 2 "0::" path. */
static uint64_t limit_of_line(const char *root, struct view line)
{
	struct view group = line, number = view_cut(&group, ':'), controllers = view_cut(&group, ':');
	if (!number.len || !group.len)
		return UINT64_MAX;
	if (!controllers.len)
		return MIN(least_of(root, "", group, "memory.max"), least_of(root, "/unified", group, "memory.max"));
	return view_eqs(controllers, "memory") ? least_of(root, "/memory", group, "memory.limit_in_bytes") : UINT64_MAX;
}

uint64_t memory_limit(const char *root)
{
	uint64_t least = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	AUTOFREE char *path = xasprintf("%s/proc/self/cgroup", root);
	struct buf text = { 0 };
	if (!buf_read_file(&text, path, NULL))
		for (struct view rest = buf_view(&text); rest.len;)
			least = MIN(least, limit_of_line(root, view_cut(&rest, '\n')));
	buf_free(&text);
	return least;
}
