/* SPDX-License-Identifier: Apache-2.0 */
/* Files into a buffer. Beside buf.c, because errors hide secrets, which fills a buffer. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

static size_t max_of(const struct buf *b)
{
	return b->max ? b->max : BUF_DEFAULT_MAX;
}

int buf_read_fd(struct buf *b, int fd, const char *path, struct err *e)
{
	char part[65536] UNINITIALIZED;
	ssize_t n = 0;
	while (!b->overflow && ((n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0)
			buf_put(b, part, (size_t)n);
	if (b->overflow)
		return err_set(e, ERR_LIMIT, "%s: over %zu bytes", path, max_of(b));
	return n < 0 ? err_errno(e, errno, "cannot read %s", path) : 0;
}

static int check_kind(const char *path, const struct stat *st, struct err *e)
{
	if (S_ISREG(st->st_mode))
		return 0;
	return err_set(e, ERR_IO, "cannot read %s: it is a %s, not a file", path,
		       S_ISDIR(st->st_mode)    ? "directory"
		       : S_ISFIFO(st->st_mode) ? "pipe"
		       : S_ISSOCK(st->st_mode) ? "socket"
					       : "device");
}

int buf_check_file(const char *path, struct err *e)
{
	struct stat st;
	return stat(path, &st) ? err_errno(e, errno, "cannot read %s", path) : check_kind(path, &st, e);
}

int buf_read_file(struct buf *b, const char *path, struct err *e)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* to open a pipe would wait for a writer */
	if (fd < 0)
		return err_errno(e, errno, "cannot read %s", path);
	int rc = fstat(fd, &st) ? err_errno(e, errno, "cannot read %s", path) : check_kind(path, &st, e);
	if (!rc && st.st_size > 0 && (size_t)st.st_size > max_of(b))
		rc = err_set(e, ERR_LIMIT, "%s: over %zu bytes", path, max_of(b));
	if (!rc)
		rc = buf_read_fd(b, fd, path, e);
	close(fd);
	return rc;
}
