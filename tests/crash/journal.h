/* SPDX-License-Identifier: Apache-2.0 */
/* What of a directory tree is on disk for sure: how many bytes of each file were synced, and which names of each directory
 * were made, changed and removed since it was synced. It assumes that files are only appended to, as those of the
 * storage are. Part of the fault layer: every call is made under its lock. The functions of the C library
 * that it needs itself are handed to it or called directly; below another directory they are not counted. */
#ifndef PYRRHA_TESTS_JOURNAL_H
#define PYRRHA_TESTS_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* dir: absolute; NULL = nothing is ours. What was taken away is kept in dir.trash until it is durable. */
void journal_start(const char *dir, const char *seed);
bool journal_ours(const char *path);
uint64_t journal_random(void);

void journal_open(int fd, const char *path, bool existed, int flags);
void journal_sync(int fd, const char *path);
/* What was written since the last sync is not on disk, and will not be even if a later sync succeeds. */
void journal_sync_failed(int fd);
void journal_truncate(int fd, off_t len);
void journal_made(const char *path, bool is_dir);
void journal_rmdir(const char *path);
int journal_unlink(int (*real_unlink)(const char *), const char *path);
int journal_rename(int (*real_rename)(const char *, const char *), const char *from, const char *to);

/* A line in $FAULTS_TRACE, if there is one; the path below the directory, for it. */
__attribute__((format(printf, 1, 2))) void journal_trace(const char *f, ...);
const char *journal_name(const char *path);

/* Makes the tree what a machine might find after its power failed. */
void journal_power_loss(void);

#endif
