/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/tempfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int tempfile_open(const char *what, struct err *e)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = memfd_create(what, MFD_CLOEXEC);
	return fd >= 0 ? fd : err_errno(e, errno, "cannot make a temporary file for %s", what);
}

bool tempfile_write(int fd, const void *p, size_t n)
{
	for (const char *at = p; n;) {
		ssize_t put = write(fd, at, n);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		at += put;
		n -= (size_t)put;
	}
	return true;
}
