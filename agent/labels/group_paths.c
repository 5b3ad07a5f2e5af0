/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/labels/group_paths.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/kernel/cgroup_id.h"
#include "agent/labels/cgroup.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/vec.h"

#define CGROUP_TEXT_MAX 16384        /* bytes of /proc/PID/cgroup, which has a line for each hierarchy of cgroups of version 1 */
#define KNOWN_MAX 8192u              /* groups; of a path each */

struct known_path {
	uint64_t id;
	char *path;
};

struct group_paths {
	struct cgroup_tree tree;
	struct map index;            /* id -> known[] */
	VEC(struct known_path) known;
	char text[CGROUP_TEXT_MAX];  /* of the last call */
};

struct group_paths *group_paths_new(void)
{
	struct group_paths *x = NEW(struct group_paths);
	cgroup_tree_open(&x->tree);
	return x;
}

static void forget_all(struct group_paths *x)
{
	for (size_t i = 0; i < x->known.n; i++)
		free(x->known.v[i].path);
	x->known.n = 0;
	map_clear(&x->index);
}

void group_paths_free(struct group_paths *x)
{
	if (!x)
		return;
	forget_all(x);
	vec_free(&x->known);
	map_free(&x->index);
	cgroup_tree_close(&x->tree);
	free(x);
}

static struct view keep(struct group_paths *x, uint64_t id, struct view path)
{
	if (x->known.n == KNOWN_MAX)
		forget_all(x);
	map_insert(&x->index, hash_u64(id), (uint32_t)x->known.n);
	vec_push(&x->known, (struct known_path){ id, xstrndup(path.ptr, path.len) });
	return view_of(x->known.v[x->known.n - 1].path);
}

/* What the process says of itself. */
static struct view path_of_process(struct group_paths *x, uint32_t pid)
{
	struct cgroup_info info;
	char path[64];
	size_t have = 0;
	ssize_t n;

	snprintf(path, sizeof path, "/proc/%u/cgroup", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && have < sizeof x->text && (n = read(fd, x->text + have, sizeof x->text - have)) > 0)
		have += (size_t)n;
	if (fd >= 0)
		close(fd);
	while (have && x->text[have - 1] != '\n') /* The last line may have been cut off: its path would be another group's. */
		have--;
	return have && cgroup_parse(view_make(x->text, have), &info) ? info.path : VIEW("");
}

struct view group_paths_get(struct group_paths *x, uint64_t id, uint32_t pid)
{
	struct cgroup_info info;
	char found[4096];
	uint32_t i;

	for (size_t at = map_start(&x->index, hash_u64(id)); map_probe(&x->index, hash_u64(id), &at, &i);)
		if (x->known.v[i].id == id)
			return view_of(x->known.v[i].path);
	if (cgroup_tree_path(&x->tree, id, found, sizeof found)) {
		cgroup_parse_path(view_of(found), &info); /* which leaves out " (deleted)" */
		return keep(x, id, info.path);
	}
	struct view path = path_of_process(x, pid);
	switch (cgroup_tree_is(&x->tree, path, id)) {
	case CGROUP_SAME:
		return keep(x, id, path);
	case CGROUP_OTHER:
		return VIEW("");
	case CGROUP_UNKNOWN:
		break;
	}
	return path;
}
