/* SPDX-License-Identifier: Apache-2.0 */
/* Directories: making, listing, removing. */
#ifndef PYRRHA_TSDB_FILES_H
#define PYRRHA_TSDB_FILES_H

#include "base/err.h"

/* Makes the directory and what is above it. */
int files_make_dirs(const char *path, struct err *e);
/* Removes a directory and all in it, as far as it goes. */
void files_remove_tree(const char *dir);
/* Removes the files of dir whose name ends so. */
void files_remove_matching(const char *dir, const char *suffix);
/* Calls fn for each name in dir but . and .. */
int files_each(const char *dir, int (*fn)(void *arg, const char *name, struct err *e), void *arg, struct err *e);

#endif
