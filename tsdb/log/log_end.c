/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/log/log_end.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "tsdb/disk/rocks.h"
#include "tsdb/log/log_extents.h"

#define END_FILE "head.end"
#define END_MAX_BYTES ((size_t)64 << 10)

static int end_open(struct log_end *f, const char *name, struct err *e)
{
	struct stat st;
	f->fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644); /* a pipe of that name would wait for a reader */
	if (f->fd < 0)
		return err_errno(e, errno, "cannot make %s", name);
	if (fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode))
		return 0;
	log_end_close(f);
	return err_set(e, ERR_IO, "%s is no file: remove it", name);
}

/* One write: a kill leaves the old text or the new one. Only of a text above a page may it leave a part, whose checksum is wrong; head.marks then says
 * less of the end, as after a power loss. What an earlier, longer text leaves behind the checksum is ignored. */
int log_end_write(struct log_end *f, const char *dir, const struct log_extents *x, uint64_t above, struct err *e)
{
	CLEANUP(buf_free) struct buf text = { .max = END_MAX_BYTES };
	AUTOFREE char *name = xasprintf("%s/" END_FILE, dir);
	int rc = f->fd < 0 ? end_open(f, name, e) : 0;
	log_extents_put_above(x, above, &text);
	if (rc || text.overflow)
		return rc;
	ssize_t n = pwrite(f->fd, text.ptr, text.len, 0);
	if (n < 0)
		return err_errno(e, errno, "cannot write %s", name);
	return (size_t)n == text.len ? 0 : err_set(e, ERR_IO, "cannot write %s: the disk took %zd of %zu bytes", name, n, text.len);
}

int log_end_read(const char *dir, struct log_extents *x, struct err *e)
{
	AUTOFREE char *name = xasprintf("%s/" END_FILE, dir);
	CLEANUP(buf_free) struct buf text = { .max = END_MAX_BYTES };
	struct err why = { 0 };
	int rc = buf_read_file(&text, name, &why);
	if (rc && rc != -ERR_NOT_FOUND && rocks_of_the_place(&why)) {
		*e = why;
		return rc;
	}
	if (!log_extents_parse(x, buf_view(&text)) && rc != -ERR_NOT_FOUND)
		LOG_INFO("msg", "head.end is damaged, which a power loss can do: if records of the last seconds before it are missing at the end of the head log, that is not noticed",
			 "file", name);
	return 0;
}

void log_end_close(struct log_end *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}
