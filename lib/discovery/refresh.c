/* SPDX-License-Identifier: Apache-2.0 */
/* One thread per provider. It collects what a refresh emits, and passes it on when the refresh has succeeded. So a refresh may emit
 * step by step and still fail at the end. Of emitted groups only the names of their sources are kept. */
#include "discovery/refresh.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"
#include "discovery/group.h"
#include "discovery/metrics.h"

#define MIN_INTERVAL_MS 100

struct refresher {
	struct discovery_provider provider;
	struct refresh_config config;
	void *state;
	struct discovery_emit emit;
	pthread_t thread;
	atomic_bool cancel;

	struct mutex lock;
	pthread_cond_t wake;
	bool now; /* do not wait for the interval; lock guards it */

	/* The thread's own. */
	struct group_set collected;
	VEC(char *) told; /* sources of the groups that it last told */
};

static void collect_group(void *arg, const struct discovery_group *g)
{
	struct refresher *r = arg;
	group_set_put(&r->collected, g);
}

static void collect_groups(void *arg, const struct discovery_group *const *v, size_t n)
{
	struct refresher *r = arg;
	for (size_t i = 0; i < n; i++)
		group_set_put_counted(&r->collected, v[i]);
}

static void ignore_problem(void *arg, const struct err *e)
{
}

static void ignore_ready(void *arg)
{
}

static void forget_told(struct refresher *r)
{
	for (size_t i = 0; i < r->told.n; i++)
		free(r->told.v[i]);
	r->told.n = 0;
}

/* Groups, and the deletion of those of before that are not there any more, as one. e: what is wrong with a part of it. */
static void tell(struct refresher *r, const struct err *e)
{
	struct discovery_group *vanished AUTOFREE = xcalloc(r->told.n, sizeof *vanished);
	VEC(const struct discovery_group *) v = { 0 };
	for (size_t i = 0; i < r->told.n; i++) {
		vanished[i].source = r->told.v[i];
		if (!group_set_get(&r->collected, r->told.v[i]))
			vec_push(&v, &vanished[i]);
	}
	for (size_t i = 0; i < r->collected.groups.n; i++)
		vec_push(&v, r->collected.groups.v[i]);
	discovery_emit_groups(&r->emit, v.v, v.n);
	vec_free(&v);
	forget_told(r);
	for (size_t i = 0; i < r->collected.groups.n; i++)
		vec_push(&r->told, xstrdup(r->collected.groups.v[i]->source));
	r->emit.problem(r->emit.arg, e->code ? e : NULL);
	if (!e->code)
		r->emit.ready(r->emit.arg);
}

static void refresh_once(struct refresher *r)
{
	const struct discovery_emit collect = { collect_group, ignore_problem, ignore_ready, r, collect_groups };
	struct err e = { 0 };
	int64_t begin = clock_mono_ns();
	int rc = r->config.refresh(r->state, &collect, &r->cancel, &e);
	if (!atomic_load(&r->cancel)) {
		metric_add(&discovery_table[SD_REFRESHES], 1, r->config.kind);
		metric_observe(&discovery_table[SD_REFRESH_SECONDS], (double)(clock_mono_ns() - begin) / 1e9, r->config.kind);
		if (e.code)
			metric_add(&discovery_table[SD_REFRESH_FAILURES], 1, r->config.kind);
		if (!rc)
			tell(r, &e);
		else
			r->emit.problem(r->emit.arg, &e);
	}
	group_set_free(&r->collected);
}

/* Until the time, or somebody wants it now. */
static void wait_until(struct refresher *r, int64_t mono_ms)
{
	mutex_lock(&r->lock);
	while (!r->now && !atomic_load(&r->cancel) && mutex_wait_ms(&r->lock, &r->wake, mono_ms))
		;
	r->now = false;
	mutex_unlock(&r->lock);
}

static void *refresh_main(void *arg)
{
	struct refresher *r = arg;
	while (!atomic_load(&r->cancel)) {
		int64_t begin = clock_mono_ms();
		refresh_once(r);
		wait_until(r, MAX(begin + r->config.interval_ms, clock_mono_ms() + MIN_INTERVAL_MS));
	}
	return NULL;
}

static void refresher_free(struct refresher *r)
{
	if (r->config.release)
		r->config.release(r->state);
	forget_told(r);
	vec_free(&r->told);
	pthread_cond_destroy(&r->wake);
	mutex_destroy(&r->lock);
	free(r);
}

int refresh_start(struct discovery_provider **ret, const struct discovery_ops *ops, const struct refresh_config *config,
		  void *state, const struct discovery_emit *emit, struct err *e)
{
	struct refresher *r = NEW(struct refresher);
	r->provider.ops = ops;
	r->config = *config;
	r->config.interval_ms = MAX(config->interval_ms, MIN_INTERVAL_MS);
	r->state = state;
	r->emit = *emit;
	mutex_init(&r->lock, LOCK_LEAF, "refresher");
	pthread_cond_init(&r->wake, NULL);
	char name[16];
	snprintf(name, sizeof name, "sd-%s", config->kind);
	int rc = thread_start(&r->thread, name, refresh_main, r, e);
	if (rc) {
		refresher_free(r);
		return rc;
	}
	*ret = &r->provider;
	return 0;
}

void refresh_cancel(struct discovery_provider *p)
{
	struct refresher *r = (struct refresher *)p;
	mutex_lock(&r->lock);
	r->now = true;
	atomic_store(&r->cancel, true);
	pthread_cond_broadcast(&r->wake);
	mutex_unlock(&r->lock);
}

void refresh_stop(struct discovery_provider *p)
{
	struct refresher *r = (struct refresher *)p;
	refresh_cancel(p);
	pthread_join(r->thread, NULL);
	refresher_free(r);
}
