/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mounts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

#define TEXT_MAX ((size_t)16 << 20)

struct mount {
	uint64_t dev;
	char point[4096];
	bool waits;
};

/* Up to the next blank; blanks and backslashes in names stand as \040. */
static const char *word(const char *at, const char *end, char *out, size_t size)
{
	size_t n = 0;

	while (at < end && *at != ' ') {
		char c = *at++;
		if (c == '\\' && end - at >= 3) {
			c = (char)((at[0] - '0') << 6 | (at[1] - '0') << 3 | (at[2] - '0'));
			at += 3;
		}
		if (n + 1 < size)
			out[n++] = c;
	}
	out[n] = 0;
	return at < end ? at + 1 : end;
}

/* 36 35 0:98 /root /point rw,noatime shared:1 ... - fuse.sshfs source options */
static bool parse(struct view line, struct mount *m)
{
	const char *at = line.ptr, *end = line.ptr + line.len;
	char text[64];
	char *colon, *last;

	at = word(at, end, text, sizeof text);
	at = word(at, end, text, sizeof text);
	at = word(at, end, text, sizeof text);
	unsigned long major_ = strtoul(text, &colon, 10), minor_ = *colon == ':' ? strtoul(colon + 1, &last, 10) : 0;
	if (*colon != ':' || *last)
		return false;
	m->dev = makedev((unsigned)major_, (unsigned)minor_);
	at = word(at, end, m->point, sizeof m->point); /* its root */
	at = word(at, end, m->point, sizeof m->point);
	do
		at = word(at, end, text, sizeof text);
	while (at < end && strcmp(text, "-") != 0);
	word(at, end, text, sizeof text);
	m->waits = strcmp(text, "fuse") == 0 || strcmp(text, "fuseblk") == 0 || strncmp(text, "fuse.", 5) == 0;
	return true;
}

static bool next_mount(struct view *rest, struct mount *m)
{
	while (rest->len) {
		const char *nl = memchr(rest->ptr, '\n', rest->len);
		struct view line = view_make(rest->ptr, nl ? (size_t)(nl - rest->ptr) : rest->len);
		size_t skip = line.len + (nl != NULL);
		*rest = view_make(rest->ptr + skip, rest->len - skip);
		if (parse(line, m))
			return true;
	}
	return false;
}

bool mounts_device_waits(struct view mountinfo, uint64_t dev)
{
	struct mount m;

	while (next_mount(&mountinfo, &m))
		if (m.dev == dev)
			return m.waits;
	return true;
}

bool mounts_path_waits(struct view mountinfo, const char *path)
{
	struct mount m;

	while (next_mount(&mountinfo, &m)) {
		size_t n = strlen(m.point);
		if (m.waits && strncmp(path, m.point, n) == 0 && (path[n] == '/' || !path[n] || m.point[n - 1] == '/'))
			return true;
	}
	return false;
}

static bool read_mounts(uint32_t pid, struct buf *out)
{
	char name[64];
	ssize_t n = 1;

	snprintf(name, sizeof name, pid ? "/proc/%u/mountinfo" : "/proc/self/mountinfo", pid);
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n > 0 && out->len < TEXT_MAX) {
		char piece[16384];
		n = read(fd, piece, sizeof piece);
		if (n > 0)
			buf_put(out, piece, (size_t)n);
	}
	if (fd >= 0)
		close(fd);
	return fd >= 0 && n == 0;
}

/* Memory files are on a mount of the kernel's own that no list has. */
static bool is_memory(uint64_t dev)
{
	static uint64_t memory;
	struct stat st;

	if (!memory) {
		int fd = memfd_create("pyrrha-device", MFD_CLOEXEC);
		memory = fd >= 0 && fstat(fd, &st) == 0 ? st.st_dev : UINT64_MAX;
		if (fd >= 0)
			close(fd);
	}
	return dev == memory;
}

bool mounts_wait(uint32_t pid, uint64_t dev, const char *path)
{
	struct buf its = { 0 }, ours = { 0 };
	bool waits = false;

	if (dev && major(dev) == 0 && !is_memory(dev) && read_mounts(pid, &its))
		/* Its file may have come from elsewhere; what we have mounted is known, too. */
		waits = mounts_device_waits(buf_view(&its), dev) &&
			(!pid || !read_mounts(0, &ours) || mounts_device_waits(buf_view(&ours), dev));
	if (!waits && path && (its.len || read_mounts(pid, &its)))
		waits = mounts_path_waits(buf_view(&its), path);
	buf_free(&its);
	buf_free(&ours);
	return waits;
}
