/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/active_queries.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

struct active_queries {
	int fd; /* below 0: the file cannot be written */
	unsigned slots;
	char *crashed;
};

static char *read_crashed(int fd)
{
	struct buf b = { 0 };
	char slot[ACTIVE_QUERY_BYTES];
	off_t at = 0;
	while (at < (64 << 20) && pread(fd, slot, sizeof slot, at) == (ssize_t)sizeof slot) {
		if (slot[0]) {
			buf_put(&b, slot, strnlen(slot, sizeof slot));
			buf_putc(&b, '\n');
		}
		at += (off_t)sizeof slot;
	}
	return buf_take(&b, &(size_t){ 0 });
}

static void write_slot(const struct active_queries *a, unsigned slot, const char *bytes, size_t n)
{
	/* No room, or an error of the disk: the query matters, not its note. */
	ssize_t done = pwrite(a->fd, bytes, n, (off_t)slot * ACTIVE_QUERY_BYTES);
	(void)done;
}

struct active_queries *active_queries_open(const char *path, unsigned slots)
{
	static const char empty[ACTIVE_QUERY_BYTES];
	struct active_queries *a = NEW(struct active_queries);
	a->slots = slots;
	a->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	if (a->fd < 0)
		return a;
	a->crashed = read_crashed(a->fd);
	if (ftruncate(a->fd, 0) == 0)
		for (unsigned i = 0; i < slots; i++)
			write_slot(a, i, empty, sizeof empty);
	return a;
}

void active_queries_close(struct active_queries *a)
{
	if (!a)
		return;
	if (a->fd >= 0)
		close(a->fd);
	free(a->crashed);
	free(a);
}

const char *active_queries_crashed(const struct active_queries *a)
{
	return a && a->crashed ? a->crashed : "";
}

void active_queries_put(struct active_queries *a, unsigned slot, struct view query)
{
	char bytes[ACTIVE_QUERY_BYTES];
	if (!a || a->fd < 0)
		return;
	size_t n = MIN(query.len, sizeof bytes - 1);
	memcpy(bytes, query.ptr, n);
	bytes[n] = 0;
	write_slot(a, slot, bytes, n + 1);
}

void active_queries_clear(struct active_queries *a, unsigned slot)
{
	if (a && a->fd >= 0)
		write_slot(a, slot, "", 1);
}
