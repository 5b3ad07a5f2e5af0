/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config_watch.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"

#define CALM_MS 300    /* files are the same for so long before they are read */
#define CALM_TRIES 10  /* then they are read although they keep changing; at most as often */

struct config_watch {
	struct config_watch_options o;
	struct path_watch *paths;
	struct config_sources sources; /* as they are told */
	pthread_t thread;
};

/* Waits until the files are the same twice in a row, or for long enough; false: the end has come. */
static bool calm_down(struct config_watch *w, uint64_t *now)
{
	for (int i = 0; i < CALM_TRIES; i++) {
		uint64_t before = *now;
		if (path_watch_pause(w->paths, CALM_MS))
			return false;
		*now = config_sources_are(&w->sources);
		if (*now == before)
			break;
	}
	return true;
}

/* Watches before it looks, so that nothing is missed in between. False: the end has come. */
static bool look(struct config_watch *w)
{
	w->o.sources(w->o.arg, &w->sources);
	path_watch_reset(w->paths);
	config_sources_watch(&w->sources, w->paths);
	uint64_t were = config_sources_were(&w->sources), now = config_sources_are(&w->sources);
	if (now == were)
		return path_watch_wait(w->paths, w->o.interval_ms) != PATH_WATCH_WOKEN && !path_watch_pause(w->paths, CALM_MS);
	if (!calm_down(w, &now))
		return false;
	if (now != were)
		w->o.reload(w->o.arg);
	return true;
}

static void *run(void *arg)
{
	while (look(arg))
		;
	return NULL;
}

int config_watch_start(struct config_watch **ret, const struct config_watch_options *o, struct err *e)
{
	struct config_watch *w = NEW(struct config_watch);
	w->o = *o;
	w->paths = path_watch_new();
	int rc = thread_start(&w->thread, "config-watch", run, w, e);
	if (rc) {
		path_watch_free(w->paths);
		free(w);
		return rc;
	}
	*ret = w;
	return 0;
}

void config_watch_stop(struct config_watch *w)
{
	if (!w)
		return;
	path_watch_wake(w->paths);
	pthread_join(w->thread, NULL);
	path_watch_free(w->paths);
	config_sources_free(&w->sources);
	free(w);
}
