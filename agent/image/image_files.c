/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/image/image_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/runtime/proc_reader.h"
#include "symbols/mounts.h"

#define PATH_BYTES_MAX 4096

/* Below the root of a process, 0: below ours. */
static int open_below(const char *root, uint32_t pid, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS };
	int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	int fd = mounts_way_waits(pid, dir, path) ? -1 : (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
	close(dir);
	return fd;
}

static int open_mapped(const struct image_hint *hint)
{
	if (!hint->pid || !hint->ino || mounts_file_waits(hint->pid, hint->dev))
		return -1;
	return proc_reader_open_mapped(hint->pid, hint->start, hint->end);
}

int image_open_file(const char *path, const struct image_hint *hint, enum image_way way)
{
	char root[64];

	if (way == WAY_MAP_FILES)
		return open_mapped(hint);
	if (path[0] != '/' || strnlen(path, PATH_BYTES_MAX) == PATH_BYTES_MAX)
		return -1;
	if (way == WAY_OUR_ROOT)
		return open_below("/", 0, path);
	snprintf(root, sizeof root, "/proc/%u/root", hint->pid);
	return hint->pid ? open_below(root, hint->pid, path) : -1;
}

void image_key_of_fd(int fd, struct view path, struct image_key *ret)
{
	struct elf_file f;
	struct stat st;

	memset(ret, 0, sizeof *ret);
	ret->path = path;
	if (fstat(fd, &st) == 0) {
		ret->dev = st.st_dev;
		ret->ino = st.st_ino;
	}
	if (elf_open(&f, fd, NULL) == 0) {
		ret->build_id_len = (uint8_t)elf_build_id(&f, ret->build_id, sizeof ret->build_id);
		elf_close(&f);
	}
}

/* The name the kernel gives an open file, as records of mappings have it. */
static bool is_called(int fd, const char *path)
{
	char name[64], target[PATH_BYTES_MAX];

	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(name, target, sizeof target);
	return n > 0 && view_eqs(view_make(target, (size_t)n), path);
}

/* Is this the file that was mapped? Whichever way it was found: by now another one may be mapped there, or have its
 * name. f NULL: it is not ELF. */
static bool same_file(const struct image *im, int fd, const struct elf_file *f, enum image_way way)
{
	uint8_t id[BUILD_ID_MAX];
	struct stat st;

	if (im->build_id_len) {
		size_t n = f ? elf_build_id(f, id, sizeof id) : 0;
		return n == im->build_id_len && memcmp(id, im->build_id, n) == 0;
	}
	/* Devices differ if a file system is stacked on another (overlayfs), and inodes may, too. */
	return (im->ino && fstat(fd, &st) == 0 && st.st_ino == im->ino) || (way == WAY_MAP_FILES && is_called(fd, im->path));
}

int image_find_file(const struct image *im, const struct image_hint *hint, struct elf_file *f, bool *is_elf)
{
	for (enum image_way way = 0; way < WAYS; way++) {
		int fd = image_open_file(im->path, hint, way);
		if (fd < 0)
			continue;
		*is_elf = elf_open(f, fd, NULL) == 0;
		if (same_file(im, fd, *is_elf ? f : NULL, way))
			return fd;
		if (*is_elf)
			elf_close(f);
		close(fd);
	}
	return -1;
}
