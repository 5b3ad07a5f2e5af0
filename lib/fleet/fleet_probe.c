/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet's thread: it follows discovery, and asks servers how they are that nobody asks. */
#include "base/clock.h"
#include "base/thread.h"
#include "fleet/fleet_internal.h"

#define SYNC_PAUSE_MS 200    /* the least time between two rounds: discovery may report changes all the time */
#define TICK_MS 1000
#define PROBE_EVERY_MS 60000
#define PROBE_TIMEOUT_MS 2000
#define PROBE_THREADS 7      /* beside this one */

static bool probe_is_due(struct fleet *f, struct fleet_target *m, int64_t now_ms)
{
	struct fleet_server_status s;
	fleet_server_status(m->server, &s);
	free(s.labels);
	mutex_lock(&f->lock);
	if (s.calls != m->calls) {
		m->calls = s.calls;
		m->due_ms = now_ms + PROBE_EVERY_MS;
	}
	bool due = now_ms >= m->due_ms;
	if (due)
		m->due_ms = now_ms + PROBE_EVERY_MS;
	mutex_unlock(&f->lock);
	return due;
}

static bool fleet_is_closing(struct fleet *f)
{
	mutex_lock(&f->lock);
	bool closing = f->closing;
	mutex_unlock(&f->lock);
	return closing;
}

struct probe {
	struct fleet *f;
	struct fleet_target **due;
};

static void probe_run(void *arg, size_t i, unsigned worker)
{
	const struct probe *p = arg;
	struct err e;
	(void)worker;
	if (fleet_is_closing(p->f))
		return;
	if (fleet_server_probe(p->due[i]->server, PROBE_TIMEOUT_MS, &e))
		return; /* its status says why */
}

static void fleet_probe(struct fleet *f, struct pool *pool)
{
	size_t n, n_due = 0;
	struct fleet_target **targets = fleet_targets(f, &n, NULL), **due = xcalloc(n + 1, sizeof(struct fleet_target *));
	int64_t now_ms = clock_mono_ms();
	for (size_t i = 0; i < n; i++)
		if (probe_is_due(f, targets[i], now_ms))
			due[n_due++] = targets[i];
	struct probe p = { f, due };
	pool_run(pool, n_due, probe_run, &p);
	free(due);
	fleet_targets_release(targets, n);
}

/* Waits for news of discovery, at most a tick. Returns whether there are any; *ret_end: it is time to end. */
static bool fleet_wait(struct fleet *f, int64_t until_ms, bool *ret_end)
{
	mutex_lock(&f->lock);
	while (!f->stale && !f->closing && clock_mono_ms() < until_ms)
		mutex_wait_ms(&f->lock, &f->news, until_ms);
	bool stale = f->stale;
	f->stale = false;
	*ret_end = f->closing;
	mutex_unlock(&f->lock);
	return stale;
}

void *fleet_main(void *arg)
{
	struct fleet *f = arg;
	struct pool *pool = pool_new(PROBE_THREADS, "fleet-probe");
	for (bool end = false; !end;) {
		bool stale = fleet_wait(f, clock_mono_ms() + TICK_MS, &end);
		if (stale && !end) {
			mutex_lock(&f->apply);
			fleet_sync(f);
			mutex_unlock(&f->apply);
			clock_sleep_ms(SYNC_PAUSE_MS);
		}
		if (!end)
			fleet_probe(f, pool);
	}
	pool_free(pool);
	return NULL;
}
