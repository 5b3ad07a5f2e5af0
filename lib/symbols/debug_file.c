/* SPDX-License-Identifier: Apache-2.0 */
/* The path of the file, and the name in its link, come from a target. They are resolved below our root without magic links, and beside
 * the file without any links, but never where a reader may have to wait (mounts.h). A file found there is used only if it belongs to
 * the first. */
#include "symbols/debug_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <lzma.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "elf/elf_file.h"
#include "symbols/mounts.h"

#define FOLDER "/usr/lib/debug"
#define CHECKSUM_BYTES_MAX ((uint64_t)64 << 20) /* of files that only a checksum tells */
#define ID_MAX 32

/* Where only root puts files. */
static int open_ours(const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .resolve = RESOLVE_NO_MAGICLINKS };
	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

/* Where a target's file lies. */
static int open_theirs(const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS };
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = root < 0 || mounts_way_waits(0, root, path) ? -1 : (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
	if (root >= 0)
		close(root);
	return fd;
}

int debug_file_by_build_id(const char *build_id)
{
	char path[256];
	if (strlen(build_id) < 4 || strspn(build_id, "0123456789abcdef") != strlen(build_id))
		return -1;
	snprintf(path, sizeof path, FOLDER "/.build-id/%.2s/%s.debug", build_id, build_id + 2);
	return open_ours(path);
}

struct link {
	char name[256];
	uint32_t checksum;
	uint8_t id[ID_MAX];
	size_t id_len;
};

/* The section: a name, NUL, padding to a multiple of 4, then the checksum of the file it names. */
static bool read_link(int fd, struct link *l)
{
	struct elf_file f;
	char raw[256 + 8];
	*l = (struct link){ .checksum = 0 };
	if (elf_open(&f, fd, NULL))
		return false;
	const Elf64_Shdr *s = elf_section(&f, ".gnu_debuglink");
	bool ok = s && s->sh_size <= sizeof raw && elf_section_read(&f, s, 0, raw, s->sh_size);
	size_t n = ok ? strnlen(raw, s->sh_size) : 0, at = (n + 4) & ~(size_t)3;
	ok = n > 0 && n < sizeof l->name && at + 4 <= s->sh_size;
	if (ok) {
		memcpy(l->name, raw, n + 1);
		memcpy(&l->checksum, raw + at, 4);
		l->id_len = elf_build_id(&f, l->id, sizeof l->id);
	}
	elf_close(&f);
	return ok && !strchr(l->name, '/');
}

static bool has_checksum(const struct elf_file *f, uint32_t want)
{
	uint8_t chunk[65536] UNINITIALIZED;
	uint32_t sum = 0;
	if (f->size > CHECKSUM_BYTES_MAX)
		return false;
	for (uint64_t at = 0; at < f->size;) {
		size_t n = (size_t)MIN(sizeof chunk, f->size - at);
		if (!elf_read(f, at, chunk, n))
			return false;
		sum = lzma_crc32(chunk, n, sum);
		at += n;
	}
	return sum == want;
}

static bool belongs(int fd, const struct link *l)
{
	struct elf_file f;
	uint8_t id[ID_MAX];
	if (elf_open(&f, fd, NULL))
		return false;
	size_t n = elf_build_id(&f, id, sizeof id);
	bool ok = n && l->id_len ? n == l->id_len && memcmp(id, l->id, n) == 0 : has_checksum(&f, l->checksum);
	elf_close(&f);
	return ok;
}

int debug_file_by_link(int fd, const char *path)
{
	static const struct { const char *before, *between; } places[] = { { "", "/" }, { "", "/.debug/" }, { FOLDER, "/" } };
	const char *slash = path[0] == '/' ? strrchr(path, '/') : NULL;
	struct link l;
	char full[4096];
	if (!slash || !read_link(fd, &l))
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		int n = snprintf(full, sizeof full, "%s%.*s%s%s", places[i].before, (int)(slash - path), path, places[i].between,
				 l.name);
		int debug = n < (int)sizeof full && strcmp(full, path) != 0 ?
			(places[i].before[0] ? open_ours : open_theirs)(full) : -1;
		if (debug >= 0 && belongs(debug, &l))
			return debug;
		if (debug >= 0)
			close(debug);
	}
	return -1;
}
