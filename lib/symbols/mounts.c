/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/mounts.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

#define TEXT_MAX ((size_t)16 << 20)
#define PATH_BYTES 4096

/* The servers of files: the kernel, a process, or the file systems below. */
enum kind { KERNEL, FUSE, OVERLAY };

struct mount {
	uint64_t id, dev;
	enum kind kind;
	char point[PATH_BYTES];
	struct view options;         /* of the file system, as they stand there */
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

static bool numbers(const char *text, struct mount *m)
{
	char *colon, *last;
	unsigned long major_ = strtoul(text, &colon, 10), minor_ = *colon == ':' ? strtoul(colon + 1, &last, 10) : 0;

	if (*colon != ':' || *last)
		return false;
	m->dev = makedev((unsigned)major_, (unsigned)minor_);
	return true;
}

static enum kind kind_of(const char *type)
{
	if (strcmp(type, "fuse") == 0 || strcmp(type, "fuseblk") == 0 || strncmp(type, "fuse.", 5) == 0)
		return FUSE;
	return strcmp(type, "overlay") == 0 ? OVERLAY : KERNEL;
}

/* 36 35 0:98 /root /point rw,noatime shared:1 ... - fuse.sshfs source options */
static bool parse(struct view line, struct mount *m)
{
	const char *at = line.ptr, *end = line.ptr + line.len;
	char text[64];

	at = word(at, end, text, sizeof text);
	m->id = strtoul(text, NULL, 10);
	at = word(at, end, text, sizeof text);
	at = word(at, end, text, sizeof text);
	if (!numbers(text, m))
		return false;
	at = word(at, end, m->point, sizeof m->point); /* its root */
	at = word(at, end, m->point, sizeof m->point);
	do
		at = word(at, end, text, sizeof text);
	while (at < end && strcmp(text, "-") != 0);
	at = word(at, end, text, sizeof text);
	m->kind = kind_of(text);
	at = word(at, end, text, sizeof text);
	m->options = view_make(at, (size_t)(end - at));
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

static bool find(struct view text, uint64_t dev, struct mount *m)
{
	while (next_mount(&text, m))
		if (m->dev == dev)
			return true;
	return false;
}

static bool find_id(struct view text, uint64_t id, struct mount *m)
{
	while (next_mount(&text, m))
		if (m->id == id)
			return true;
	return false;
}

static bool is_below(const char *path, const char *point)
{
	size_t n = strlen(point);
	return strncmp(path, point, n) == 0 && (path[n] == '/' || !path[n] || point[n - 1] == '/');
}

static bool fuse_above(struct view text, const char *path)
{
	struct mount m;

	while (next_mount(&text, &m))
		if (m.kind == FUSE && is_below(path, m.point))
			return true;
	return false;
}

static bool has_fuse(struct view text)
{
	struct mount m;

	while (next_mount(&text, &m))
		if (m.kind == FUSE)
			return true;
	return false;
}

/* One of the folders below it is on such a file system: lowerdir=/a:/b,upperdir=/c. Those without a leading slash are as whoever
 * mounted it called them. */
static bool layers_wait(const struct mounts_known *k, struct view options)
{
	const char *at = options.ptr, *end = options.ptr + options.len;
	char path[PATH_BYTES];

	if (!has_fuse(k->its) && !has_fuse(k->host))
		return false;
	while (at < end) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		if (!slash)
			return false;
		const char *stop = slash;
		while (stop < end && *stop != ':' && *stop != ',' && *stop != '\n')
			stop++;
		word(slash, stop, path, sizeof path);
		if (fuse_above(k->its, path) || fuse_above(k->host, path))
			return true;
		at = stop;
	}
	return false;
}

static bool waits(const struct mounts_known *k, const struct mount *m)
{
	struct mount same;

	if (m->kind != OVERLAY)
		return m->kind == FUSE;
	/* The owner of a user namespace may mount both, and hide one below the other. */
	return (k->anybodys && !find(k->host, m->dev, &same)) || layers_wait(k, m->options);
}

bool mounts_device_waits(const struct mounts_known *k, uint64_t dev)
{
	struct mount m;

	/* Its file may have come from elsewhere: what the host has mounted is known, too. */
	return (!find(k->its, dev, &m) && !find(k->host, dev, &m)) || waits(k, &m);
}

bool mounts_path_waits(const struct mounts_known *k, const char *path)
{
	struct view rest = k->its;
	struct mount m;

	while (next_mount(&rest, &m))
		if (m.kind != KERNEL && is_below(path, m.point) && waits(k, &m))
			return true;
	return false;
}

static bool read_mounts(uint32_t pid, struct buf *out)
{
	char name[64];
	ssize_t n = 1;

	snprintf(name, sizeof name, pid ? "/proc/%u/mountinfo" : "/proc/self/mountinfo", pid);
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n > 0 && out->len < TEXT_MAX) {
		char piece[16384] UNINITIALIZED;
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

/* Whether its mount namespace belongs to a user namespace below ours (which is the first one, or BPF would not be allowed): then
 * mounting there needed no privilege. */
static bool made_by_anybody(uint32_t pid)
{
	struct stat its, ours;
	char name[64];

	snprintf(name, sizeof name, "/proc/%u/ns/mnt", pid);
	int ns = pid ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	if (ns < 0)
		return false;        /* it is gone, or it is we */
	int user = ioctl(ns, NS_GET_USERNS);
	bool ok = user >= 0 && fstat(user, &its) == 0 && stat("/proc/self/ns/user", &ours) == 0 && its.st_ino == ours.st_ino;
	if (user >= 0)
		close(user);
	close(ns);
	return !ok;
}

struct known {
	struct buf its, host;
	struct mounts_known k;
};

/* False: the process is gone. */
static bool know(struct known *n, uint32_t pid)
{
	*n = (struct known){ 0 };
	bool there = read_mounts(pid, &n->its);
	if (there && !read_mounts(1, &n->host))
		read_mounts(0, &n->host);
	n->k = (struct mounts_known){ buf_view(&n->its), buf_view(&n->host), made_by_anybody(pid) };
	return there;
}

static void forget(struct known *n)
{
	buf_free(&n->its);
	buf_free(&n->host);
}

bool mounts_file_waits(uint32_t pid, uint64_t dev)
{
	struct known n;

	if (!dev || major(dev) != 0 || is_memory(dev))
		return false;
	bool yes = know(&n, pid) && mounts_device_waits(&n.k, dev);
	forget(&n);
	return yes;
}

/* Whether the folder itself is on such a file system, which is told without asking it. In a process whose root is not
 * where something is mounted, no list has it. */
static bool folder_waits(const struct mounts_known *k, int dir)
{
	struct statx st;
	struct mount m;

	if (statx(dir, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MNT_ID, &st))
		return true;
	if (st.stx_mask & STATX_MNT_ID && (find_id(k->its, st.stx_mnt_id, &m) || find_id(k->host, st.stx_mnt_id, &m)))
		return waits(k, &m);
	return st.stx_dev_major == 0 && mounts_device_waits(k, makedev(0, st.stx_dev_minor));
}

bool mounts_way_waits(uint32_t pid, int dir, const char *path)
{
	struct known n;
	bool yes = know(&n, pid) && (mounts_path_waits(&n.k, path) || folder_waits(&n.k, dir));

	forget(&n);
	return yes;
}
