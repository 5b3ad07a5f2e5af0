/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path_watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#define MAX_LINKS 16 /* one after another */
#define EVENTS (IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

struct path_watch {
	int inotify; /* -1: cannot be had; waits time out */
	int wake;
};

struct path_watch *path_watch_new(void)
{
	struct path_watch *w = NEW(struct path_watch);
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->inotify = -1;
	path_watch_reset(w);
	return w;
}

void path_watch_free(struct path_watch *w)
{
	if (!w)
		return;
	if (w->inotify >= 0)
		close(w->inotify);
	if (w->wake >= 0)
		close(w->wake);
	free(w);
}

void path_watch_reset(struct path_watch *w)
{
	if (w->inotify >= 0)
		close(w->inotify);
	w->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

/* The folder of a path, "." of a bare name. Returns owned. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return xstrdup(".");
	return xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static void watch_folder(struct path_watch *w, const char *path)
{
	char *folder = folder_of(path);
	if (w->inotify >= 0 && inotify_add_watch(w->inotify, folder, EVENTS | IN_ONLYDIR) < 0 && errno == ENOENT && strchr(folder, '/'))
		watch_folder(w, folder); /* it is not there yet: where it would be made */
	free(folder);
}

static void follow(struct path_watch *w, const char *path, unsigned links);

/* Target of the link at `path` (its first `len` bytes), followed by the rest of the path. */
static void follow_link(struct path_watch *w, const char *path, size_t len, unsigned links)
{
	char target[PATH_MAX];
	char *link = xstrndup(path, len), *folder = folder_of(link);
	ssize_t n = readlink(link, target, sizeof target - 1);
	watch_folder(w, link);
	if (n > 0) {
		target[n] = 0;
		char *to = target[0] == '/' ? xasprintf("%s%s", target, path + len) : xasprintf("%s/%s%s", folder, target, path + len);
		follow(w, to, links + 1);
		free(to);
	}
	free(folder);
	free(link);
}

/* The folder of the path, and of the first link on the way; follow_link finds the folders behind it. */
static void follow(struct path_watch *w, const char *path, unsigned links)
{
	size_t len = 0;
	if (links > MAX_LINKS || strlen(path) >= PATH_MAX)
		return;
	watch_folder(w, path);
	while (path[len]) {
		struct stat st;
		len += strspn(path + len, "/");
		len += strcspn(path + len, "/");
		char *part = xstrndup(path, len);
		bool is_link = lstat(part, &st) == 0 && S_ISLNK(st.st_mode);
		free(part);
		if (is_link) {
			follow_link(w, path, len, links);
			return;
		}
	}
}

void path_watch_add(struct path_watch *w, const char *path)
{
	follow(w, path, 0);
}

/* 1: the watch, 2: the wake, 0: neither in that time. */
static int await(struct path_watch *w, bool files, int64_t timeout_ms)
{
	struct pollfd p[] = { { .fd = w->wake, .events = POLLIN }, { .fd = w->inotify, .events = POLLIN } };
	int64_t end = clock_mono_ms() + timeout_ms;
	for (;;) {
		int64_t left = MAX(end - clock_mono_ms(), 0);
		int n = poll(p, files && w->inotify >= 0 ? 2 : 1, (int)MIN(left, INT_MAX));
		if (n > 0)
			return p[0].revents ? 2 : 1;
		if (n == 0 && left == 0)
			return 0;
	}
}

enum path_watch_event path_watch_wait(struct path_watch *w, int64_t timeout_ms)
{
	static const enum path_watch_event is[] = { PATH_WATCH_TIMEOUT, PATH_WATCH_CHANGED, PATH_WATCH_WOKEN };
	return is[await(w, true, timeout_ms)];
}

bool path_watch_pause(struct path_watch *w, int64_t timeout_ms)
{
	return await(w, false, timeout_ms) == 2;
}

void path_watch_wake(struct path_watch *w)
{
	if (eventfd_write(w->wake, 1) < 0) {
		/* full: it is awake */
	}
}
