/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories: making, listing, removing; writing small files atomically; the limit of open files. */
#ifndef PYRRHA_BASE_FILES_H
#define PYRRHA_BASE_FILES_H

#include "base/err.h"
#include "base/view.h"

/* Makes the directory and what is above it; what it made is there after a power loss. */
int files_make_dirs(const char *path, struct err *e) MUST_USE;
/* Removes a directory and everything in it, as far as possible. */
void files_remove_tree(const char *dir);
/* Removes the files of dir whose name ends so, as far as it goes. */
void files_remove_matching(const char *dir, const char *suffix);
/* Calls fn for each name in dir but . and .. */
int files_each(const char *dir, int (*fn)(void *arg, const char *name, struct err *e), void *arg, struct err *e) MUST_USE;

/* Makes dir/name hold these bytes, synced. After a crash the file has either the old or the new content. */
int files_put(const char *dir, const char *name, struct view bytes, struct err *e) MUST_USE;
/* Makes the names in a directory outlast a power loss. */
int files_sync_dir(const char *dir, struct err *e) MUST_USE;

/* Raises the soft limit to the hard one, at most to 1048576. The soft limit, often 1024, is for programs that use select(). Once, before
 * threads start; children inherit it. */
void files_raise_limit(void);

#endif
