/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kernel/cgroup_id.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bpf/abi.h"

#define MOUNTINFO_MAX (1u << 20)

unsigned cgroup_memory_hierarchy(void)
{
	static const char memory[] = "memory\t";
	char text[256];
	unsigned ret = 0;

	FILE *f = fopen("/proc/cgroups", "re");
	while (f && fgets(text, sizeof text, f))
		if (strncmp(text, memory, sizeof memory - 1) == 0)
			ret = (unsigned)strtoul(text + sizeof memory - 1, NULL, 10);
	if (f)
		fclose(f);
	return ret;
}

/* "36 25 0:31 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory": the word at `want` of a line, and what
 * stands behind the dash. */
static bool mount_line(char *line, char **point, char **type, char **options)
{
	char *dash = strstr(line, " - "), *save = NULL;

	if (!dash)
		return false;
	*dash = 0;
	char *word = strtok_r(line, " ", &save);
	for (int i = 0; word && i < 4; i++)
		word = strtok_r(NULL, " ", &save);
	*point = word;
	*type = strtok_r(dash + 3, " ", &save);
	char *source = *type ? strtok_r(NULL, " ", &save) : NULL;
	*options = source ? strtok_r(NULL, " ", &save) : NULL;
	return *point && *type && *options;
}

static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ','))
			return true;
	return false;
}

bool cgroup_mount(const char *mountinfo, bool v1, char *ret, size_t max)
{
	AUTOFREE char *text = xstrdup(mountinfo);
	char *save = NULL, *point, *type, *options;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (!mount_line(line, &point, &type, &options))
			continue;
		if (v1 ? strcmp(type, "cgroup") == 0 && has_word(options, "memory") : strcmp(type, "cgroup2") == 0)
			return (size_t)snprintf(ret, max, "%s", point) < max;
	}
	return false;
}

static char *read_mountinfo(void)
{
	char *text = xcalloc(1, MOUNTINFO_MAX);
	size_t n = 0;
	int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

	for (ssize_t r; fd >= 0 && n < MOUNTINFO_MAX - 1 && (r = read(fd, text + n, MOUNTINFO_MAX - 1 - n)) > 0;)
		n += (size_t)r;
	if (fd >= 0)
		close(fd);
	return text;
}

void cgroup_tree_open(struct cgroup_tree *ret)
{
	AUTOFREE char *info = read_mountinfo();

	*ret = (struct cgroup_tree){ .hierarchy = cgroup_memory_hierarchy(), .fd = -1 };
	if (cgroup_mount(info, ret->hierarchy != 0, ret->mount, sizeof ret->mount))
		ret->fd = open(ret->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void cgroup_tree_close(struct cgroup_tree *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

static uint64_t inode_of(const struct cgroup_tree *t, uint64_t id)
{
	return id ^ (uint64_t)t->hierarchy << CGROUP_HIERARCHY_SHIFT;
}

#define FILEID_KERNFS 0xfe           /* include/linux/exportfs.h: a handle is the 64-bit inode */

bool cgroup_tree_path(const struct cgroup_tree *t, uint64_t id, char *ret, size_t max)
{
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + sizeof(uint64_t)];
	} u = { .h = { .handle_bytes = sizeof(uint64_t), .handle_type = FILEID_KERNFS } };
	uint64_t inode = inode_of(t, id);
	char link[64];

	memcpy(u.h.f_handle, &inode, sizeof inode);
	int fd = t->fd >= 0 && id ? open_by_handle_at(t->fd, &u.h, O_PATH | O_CLOEXEC) : -1;
	if (fd < 0)
		return false;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, ret, max);
	close(fd);
	if (n <= 0 || (size_t)n >= max || ret[0] != '/')
		return false;
	ret[n] = 0;
	/* Above the mount point, as a container sees the groups beside its own, a path begins at the root of the hierarchy. */
	size_t above = strlen(t->mount);
	if (strncmp(ret, t->mount, above) == 0 && (!ret[above] || ret[above] == '/'))
		memmove(ret, ret + above, (size_t)n + 1 - above);
	if (!ret[0])
		snprintf(ret, max, "/");
	return true;
}

enum cgroup_sameness cgroup_tree_is(const struct cgroup_tree *t, struct view path, uint64_t id)
{
	char full[4608];
	struct stat st;

	if (t->fd < 0 || !path.len || !id || view_starts(path, VIEW("/..")) ||
	    (size_t)snprintf(full, sizeof full, "%s%.*s", t->mount, VIEW_ARG(path)) >= sizeof full || stat(full, &st) < 0)
		return CGROUP_UNKNOWN;
	return st.st_ino == inode_of(t, id) ? CGROUP_SAME : CGROUP_OTHER;
}

int cgroup_id_of(const char *path, uint64_t *ret, struct err *e)
{
	unsigned hierarchy = cgroup_memory_hierarchy();
	char mount[512], full[4096];
	struct stat st;

	AUTOFREE char *info = read_mountinfo();
	if (!cgroup_mount(info, hierarchy != 0, mount, sizeof mount))
		return err_set(e, ERR_NOT_FOUND, "no hierarchy of control groups is mounted here (%s)",
			       hierarchy ? "cgroup with memory" : "cgroup2");
	size_t n = strlen(mount);
	if (strncmp(path, mount, n) == 0 && (!path[n] || path[n] == '/'))
		path += n;
	if ((size_t)snprintf(full, sizeof full, "%s%s%s", mount, *path == '/' ? "" : "/", path) >= sizeof full)
		return err_set(e, ERR_BAD_DATA, "the path of the control group is too long");
	if (stat(full, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_NOT_FOUND, "there is no control group %s", full);
	*ret = st.st_ino | (uint64_t)hierarchy << CGROUP_HIERARCHY_SHIFT;
	return 0;
}
