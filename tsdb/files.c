/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/view.h"

int files_make_dirs(const char *path, struct err *e)
{
	char *copy = xstrdup(path);
	int rc = 0;
	for (char *p = copy + 1; !rc; p++) {
		if (*p && *p != '/')
			continue;
		char was = *p;
		*p = 0;
		if (mkdir(copy, 0750) && errno != EEXIST)
			rc = err_errno(e, errno, "cannot make the storage directory %s", copy);
		*p = was;
		if (!was)
			break;
	}
	free(copy);
	return rc;
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
	files_each(dir, remove_entry, (void *)dir, NULL);
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
	files_each(dir, remove_matching, &m, NULL);
}
