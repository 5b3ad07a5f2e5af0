/* SPDX-License-Identifier: Apache-2.0 */
/* Waits until something may have happened to files: inotify on the folders that lead to them, never on the files
 * themselves. A file that is rewritten, renamed over, removed or missing is noticed. So is a change of a symbolic link on
 * the way to it (Kubernetes replaces ..data, then deletes its old target). A wake-up is only a hint. The waiting thread
 * checks the files, also regularly without a wake-up, because network file systems report nothing. One thread uses a
 * watch; path_watch_wake is for any. */
#ifndef PYRRHA_BASE_PATH_WATCH_H
#define PYRRHA_BASE_PATH_WATCH_H

#include "base/err.h"

struct path_watch;

struct path_watch *path_watch_new(void);
void path_watch_free(struct path_watch *w);
/* Forgets all paths and all past events. */
void path_watch_reset(struct path_watch *w);
/* From now on until the next reset. Links are followed as they are now. So after each wake-up reset, add the paths
 * again and only then read the files: then no change is missed. A pattern of glob works with one in its last part. */
void path_watch_add(struct path_watch *w, const char *path);
/* PATH_WATCH_CHANGED: something has happened since the last reset. */
enum path_watch_event { PATH_WATCH_TIMEOUT, PATH_WATCH_CHANGED, PATH_WATCH_WOKEN };
enum path_watch_event path_watch_wait(struct path_watch *w, int64_t timeout_ms);
/* Waits for a wake only, whatever happens to the files; true: woken. */
bool path_watch_pause(struct path_watch *w, int64_t timeout_ms);
/* Makes all waits return from now on: the program is shutting down. */
void path_watch_wake(struct path_watch *w);

#endif
