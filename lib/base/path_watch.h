/* SPDX-License-Identifier: Apache-2.0 */
/* Waits until something may have happened to files: inotify on the folders that lead to them, never on the files
 * themselves. A file that is written anew, renamed over, removed or not there yet is noticed, and so is a symbolic link on
 * the way to it that is pointed elsewhere (Kubernetes swaps ..data, then deletes what it pointed to). What wakes up is a
 * hint: whoever waits looks at the files, and also looks from time to time without having been woken (file systems of a
 * network tell nothing). One thread uses a watch; path_watch_wake is for any. */
#ifndef PYRRHA_BASE_PATH_WATCH_H
#define PYRRHA_BASE_PATH_WATCH_H

#include "base/err.h"

struct path_watch;

struct path_watch *path_watch_new(void);
void path_watch_free(struct path_watch *w);
/* Forgets all paths and all that has happened. */
void path_watch_reset(struct path_watch *w);
/* From now on until the next reset. Links are followed as they are now: after each wake reset, add again and only then
 * look at the files, so that nothing is missed in between. A pattern of glob works with one in its last part. */
void path_watch_add(struct path_watch *w, const char *path);
/* PATH_WATCH_CHANGED: something has happened since the last reset. */
enum path_watch_event { PATH_WATCH_TIMEOUT, PATH_WATCH_CHANGED, PATH_WATCH_WOKEN };
enum path_watch_event path_watch_wait(struct path_watch *w, int64_t timeout_ms);
/* Waits for a wake only, whatever happens to the files; true: woken. */
bool path_watch_pause(struct path_watch *w, int64_t timeout_ms);
/* Makes waits return from now on, for good: the end has come. */
void path_watch_wake(struct path_watch *w);

#endif
