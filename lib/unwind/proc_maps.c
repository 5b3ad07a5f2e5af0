/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/proc_maps.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"

#define PIECE 32768u
#define LINES_MAX 100000

/* A number at *at and the one character behind it, which must be `then`; moves behind both. */
static bool number(char **at, int base, char then, uint64_t *ret)
{
	char *end;

	*ret = strtoull(*at, &end, base);
	if (end == *at || *end != then)
		return false;
	*at = end + 1;
	return true;
}

/* 7f01-7f02 r-xp 00001000 fd:01 1234   /path: the path may hold anything but a newline, and comes last. False if the memory
 * is not executable. */
static bool parse(char *line, struct proc_map *m)
{
	uint64_t major, minor;
	char *at = line;

	if (!number(&at, 16, '-', &m->start) || !number(&at, 16, ' ', &m->end) || strlen(at) < 5 || at[2] != 'x' ||
	    m->end <= m->start)
		return false;
	at += 5;
	if (!number(&at, 16, ' ', &m->file_offset) || !number(&at, 16, ':', &major) || !number(&at, 16, ' ', &minor))
		return false;
	m->ino = strtoull(at, &at, 10);
	m->dev = makedev((unsigned)major, (unsigned)minor);
	m->path = at + strspn(at, " ");
	return true;
}

bool proc_maps_each(uint32_t pid, proc_maps_fn *fn, void *arg)
{
	struct proc_map m;
	char name[64];
	size_t have = 0, lines = 0;
	ssize_t n;

	snprintf(name, sizeof name, "/proc/%u/maps", pid);
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	AUTOFREE char *text = xmalloc(2 * PIECE + 1);
	while (lines < LINES_MAX && (n = read(fd, text + have, 2 * PIECE - have)) > 0) {
		char *line = text, *end = text + have + n;
		for (char *nl; (nl = memchr(line, '\n', (size_t)(end - line))); line = nl + 1) {
			*nl = 0;
			lines++;
			if (parse(line, &m))
				fn(arg, &m);
		}
		have = (size_t)(end - line);
		if (have > PIECE)
			break;       /* no path is that long */
		memmove(text, line, have);
	}
	close(fd);
	return true;
}
