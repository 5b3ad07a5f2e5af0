/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

#define ENOUGH ((rlim_t)1 << 20)

int files_sync_dir(const char *dir, struct err *e)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 || fsync(fd) ? err_errno(e, errno, "cannot sync %s", dir) : 0;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* The name in the directory above it, too. */
static int make_dir(const char *path, struct err *e)
{
	if (access(path, F_OK) == 0)
		return 0; /* a full disk may not say that it is there */
	if (mkdir(path, 0750))
		return errno == EEXIST ? 0 : err_errno(e, errno, "cannot make the directory %s", path);
	AUTOFREE char *above = xstrdup(path);
	char *slash = strrchr(above, '/');
	if (!slash)
		return files_sync_dir(".", e);
	slash[slash == above] = 0;
	return files_sync_dir(above, e);
}

int files_make_dirs(const char *path, struct err *e)
{
	char *copy = xstrdup(path);
	int rc = 0;
	for (char *p = copy + 1; !rc; p++) {
		if (*p && *p != '/')
			continue;
		char was = *p;
		*p = 0;
		rc = make_dir(copy, e);
		*p = was;
		if (!was)
			break;
	}
	free(copy);
	return rc;
}

static int write_all(int fd, struct view v)
{
	while (v.len) {
		ssize_t n = write(fd, v.ptr, v.len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		v.ptr += n;
		v.len -= (size_t)n;
	}
	return fsync(fd);
}

int files_put(const char *dir, const char *name, struct view bytes, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", dir, name), *tmp = xasprintf("%s/%s.new", dir, name);
	int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	bool ok = fd >= 0 && write_all(fd, bytes) == 0;
	int saved = errno;
	if (fd >= 0)
		close(fd);
	if (ok && rename(tmp, path)) {
		ok = false;
		saved = errno;
	}
	if (!ok)
		unlink(tmp); /* of a full disk, what fitted must not stay */
	return ok ? files_sync_dir(dir, e) : err_errno(e, saved, "cannot write %s", path);
}

static int remove_entry(void *arg, const char *name, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", (const char *)arg, name);
	struct stat st;
	(void)e;
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
		files_remove_tree(path);
	else
		unlink(path);
	return 0;
}

void files_remove_tree(const char *dir)
{
	IGNORE(files_each(dir, remove_entry, (void *)dir, NULL)); /* as far as it goes */
	rmdir(dir);
}

int files_each(const char *dir, int (*fn)(void *arg, const char *name, struct err *e), void *arg, struct err *e)
{
	DIR *d = opendir(dir);
	int rc = 0;
	if (!d)
		return err_errno(e, errno, "cannot read %s", dir);
	for (struct dirent *x; !rc && (x = readdir(d));)
		if (!view_eqs(view_of(x->d_name), ".") && !view_eqs(view_of(x->d_name), ".."))
			rc = fn(arg, x->d_name, e);
	closedir(d);
	return rc;
}

struct matching {
	const char *dir, *suffix;
};

static int remove_matching(void *arg, const char *name, struct err *e)
{
	const struct matching *m = arg;
	(void)e;
	if (view_ends(view_of(name), view_of(m->suffix))) {
		AUTOFREE char *path = xasprintf("%s/%s", m->dir, name);
		unlink(path);
	}
	return 0;
}

void files_remove_matching(const char *dir, const char *suffix)
{
	struct matching m = { dir, suffix };
	IGNORE(files_each(dir, remove_matching, &m, NULL)); /* as far as it goes */
}

void files_raise_limit(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= MIN(r.rlim_max, ENOUGH))
		return;
	r.rlim_cur = MIN(r.rlim_max, ENOUGH);
	setrlimit(RLIMIT_NOFILE, &r);
}
