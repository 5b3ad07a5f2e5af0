/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"

#define PIECE 32768u
#define FILES_MAX 16384u             /* as MAPPINGS_MAX of process.h */

/* 7f01-7f02 r-xp 00001000 fd:01 1234   /path: the path may hold anything but a newline, and comes last. */
static void take_line(struct proc_files *out, const char *line)
{
	struct proc_file f;
	uint64_t major, minor;
	char *at;

	f.start = strtoull(line, &at, 16);
	if (*at != '-')
		return;
	f.end = strtoull(at + 1, &at, 16);
	if (at[0] != ' ' || strnlen(at, 6) < 6 || at[3] != 'x' || at[5] != ' ')
		return;
	strtoull(at + 6, &at, 16);
	major = strtoull(at, &at, 16);
	if (*at != ':')
		return;
	minor = strtoull(at + 1, &at, 16);
	f.ino = strtoull(at, &at, 10);
	f.dev = makedev((unsigned)major, (unsigned)minor);
	if (f.ino && out->v.n < FILES_MAX)
		vec_push(&out->v, f);
}

bool proc_files_read(struct proc_files *out, uint32_t pid)
{
	char name[64], *text = xmalloc(2 * PIECE + 1);
	size_t have = 0;
	ssize_t n;

	*out = (struct proc_files){ 0 };
	snprintf(name, sizeof name, "/proc/%u/maps", pid);
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, text + have, 2 * PIECE - have)) > 0) {
		char *line = text, *end = text + have + n;
		for (char *nl; (nl = memchr(line, '\n', (size_t)(end - line))); line = nl + 1) {
			*nl = 0;
			take_line(out, line);
		}
		have = (size_t)(end - line);
		if (have > PIECE)
			break;       /* no path is that long */
		memmove(text, line, have);
	}
	if (fd >= 0)
		close(fd);
	free(text);
	return out->v.n > 0;
}

const struct proc_file *proc_files_at(const struct proc_files *p, uint64_t addr)
{
	size_t lo = 0, hi = p->v.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (p->v.v[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo < p->v.n && p->v.v[lo].start <= addr ? &p->v.v[lo] : NULL;
}

void proc_files_release(struct proc_files *p)
{
	vec_free(&p->v);
}
