/* SPDX-License-Identifier: Apache-2.0 */
/* A running job, and when it is updated. That is at once the first time, when all its discovery has been read, and when its
 * configuration changed. Otherwise it is at most once per sync_interval_ms, however often discovery changes. One thread does that for
 * all jobs (sync_main), so that neither the requests nor whoever reloads wait for it.
 *
 *	setup   what a configuration makes of a job: client and discovery. scraper_apply makes it and leaves it in `next`,
 *	        the thread moves it to `now` and lets the one before go
 *
 * The scraper's lock is never held while discovery is started, asked or stopped: discovery calls pool_changed with a lock of its
 * own. */
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "scraper/internal.h"
#include "scraper/state/table.h"

/* How long the targets of what was configured before stay, at most, while new discovery is being read. */
#define TAKE_OVER_MS 15000

static void ref_config(void *c)
{
	scraper_config_ref(c);
}

static void release_config(void *c)
{
	scraper_config_unref(c);
}

static void pool_unref(struct scrape_pool *p)
{
	if (atomic_fetch_sub(&p->refs, 1) > 1)
		return;
	free(p->name);
	free(p);
}

struct setup *setup_ref(const struct setup *shared)
{
	struct setup *u = (struct setup *)(uintptr_t)shared;
	atomic_fetch_add(&u->refs, 1);
	return u;
}

void setup_unref(struct setup *u)
{
	if (!u || atomic_fetch_sub(&u->refs, 1) > 1)
		return;
	discovery_stop(u->discovery);
	fetch_client_unref(u->client);
	scraper_config_unref(u->config);
	pool_unref(u->pool);
	free(u);
}

/* Any thread that does not hold the lock: the pool is to be brought up to date. */
static void pool_changed(void *arg)
{
	struct scrape_pool *p = arg;
	struct scraper *s = p->scraper;
	bool known = atomic_exchange(&p->dirty, true) && atomic_load(&p->was_ready);
	if (known && !atomic_load(&p->waits))
		return; /* it will be looked at */
	mutex_lock(&s->lock);
	sync_wake(s);
	mutex_unlock(&s->lock);
}

static int setup_new(struct setup **ret, struct scrape_pool *p, const struct job_config *j, struct err *e)
{
	struct setup *u = NEW(struct setup);
	u->refs = 1;
	u->pool = p;
	atomic_fetch_add(&p->refs, 1);
	u->config = scraper_config_ref(j->config);
	u->job = j;
	u->client = fetch_client_new(&j->http, p->scraper->user_agent);
	fetch_client_owner(u->client, release_config, scraper_config_ref(j->config));
	const struct discovery_user user = { p->name, pool_changed, p, j->config, ref_config, release_config };
	if (discovery_start(&u->discovery, &j->sd, &user, e)) {
		setup_unref(u);
		return err_wrap(e, "job %s", j->name);
	}
	*ret = u;
	return 0;
}

const struct setup *pool_setup(const struct scrape_pool *p)
{
	mutex_assert_held(&p->scraper->lock);
	return p->next ? p->next : p->now;
}

struct scrape_pool *pool_new_job(struct scraper *s, const struct job_config *j, struct err *e)
{
	struct scrape_pool *p = NEW(struct scrape_pool);
	p->refs = 1;
	p->scraper = s;
	p->name = xstrdup(j->name);
	if (setup_new(&p->next, p, j, e)) {
		pool_unref(p);
		return NULL;
	}
	return p;
}

int pool_prepare(struct scrape_pool *p, const struct job_config *j, struct setup **ret, struct err *e)
{
	return setup_new(ret, p, j, e);
}

struct setup *pool_reconfigure(struct scrape_pool *p, struct setup *u)
{
	mutex_assert_held(&p->scraper->lock);
	struct setup *unused = p->next;
	if (!unused)
		p->take_over_ms = clock_mono_ms() + TAKE_OVER_MS;
	p->next = u;
	return unused;
}

void pool_free_job(struct scrape_pool *p)
{
	setup_unref(p->next);
	setup_unref(p->now);
	p->next = p->now = NULL;
	mutex_lock(&p->scraper->lock);
	for (size_t i = 0; i < p->groups.n; i++)
		pool_group_free(p->groups.v[i]);
	while (p->endpoints.n)
		pool_let_go(p, p->endpoints.v[p->endpoints.n - 1]);
	mutex_unlock(&p->scraper->lock);
	vec_free(&p->groups);
	vec_free(&p->endpoints);
	map_free(&p->group_index);
	map_free(&p->endpoint_index);
	free(p->refused);
	p->refused = NULL;
	pool_unref(p);
}

void sync_wake(struct scraper *s)
{
	s->sync_calls++;
	pthread_cond_signal(&s->sync_came);
}

/* ---- the thread ---- */

static struct scrape_pool *leaving_pool(struct scraper *s) REQUIRES(s->lock)
{
	return s->leaving.n ? s->leaving.v[--s->leaving.n] : NULL;
}

/* Of the pools that are due the one that waited longest since its last turn: a job that changes all the time and is slow has
 * one turn like the others. Without one, of those whose discovery was not all read yet, one that was not asked about in this round. *next: when one will be due. A new configuration takes over once its discovery was read, so that targets
 * which it has as well are not left meanwhile. */
static struct scrape_pool *due_pool(struct scraper *s, int64_t now, int64_t *next, bool *ask_ready) REQUIRES(s->lock)
{
	struct scrape_pool *due = NULL, *unread = NULL;
	for (size_t i = 0; i < s->pools.n; i++) {
		struct scrape_pool *p = s->pools.v[i];
		if (!p->next && !atomic_load(&p->dirty))
			continue;
		int64_t at = !p->next ? p->not_before_ms : p->now ? p->take_over_ms : 0;
		if (now >= at) {
			if (!due || p->synced_ms < due->synced_ms)
				due = p;
			continue;
		}
		if ((p->next || !atomic_load(&p->was_ready)) && p->asked_ready != s->sync_calls)
			unread = p;
		*next = MIN(*next, at);
	}
	*ask_ready = !due && unread;
	return due ? due : unread;
}

static void wait_until(struct scraper *s, int64_t ms) REQUIRES(s->lock)
{
	if (ms == INT64_MAX)
		mutex_wait(&s->lock, &s->sync_came);
	else
		mutex_wait_ms(&s->lock, &s->sync_came, ms);
}

/* The new configuration takes over. Returns the one before. */
static struct setup *take_setup(struct scrape_pool *p)
{
	mutex_assert_held(&p->scraper->lock);
	struct setup *old = NULL;
	if (p->next) {
		old = p->now;
		p->now = p->next;
		p->next = NULL;
		p->revision++;
		atomic_store(&p->waits, false);
	}
	return old;
}

/* Only this thread changes p->now: it may read it without the lock. */
static void bring_up_to_date(struct scrape_pool *p)
{
	struct scraper *s = p->scraper;
	mutex_lock(&s->lock);
	struct setup *old = take_setup(p);
	atomic_store(&p->dirty, false);
	mutex_unlock(&s->lock);
	setup_unref(old);
	bool ready = discovery_ready(p->now->discovery); /* before its groups are read */
	pool_sync(p);
	atomic_store(&p->was_ready, ready);
	/* As long as nothing was told, the first time is still to come. */
	p->synced_ms = clock_mono_ms();
	p->not_before_ms = ready || p->groups.n ? p->synced_ms + s->sync_interval_ms : 0;
}

void *sync_main(void *arg)
{
	struct scraper *s = arg;
	mutex_lock(&s->lock);
	while (!atomic_load(&s->stopping)) {
		int64_t next = INT64_MAX;
		bool ask_ready = false;
		struct scrape_pool *left = leaving_pool(s), *p = left ? NULL : due_pool(s, clock_mono_ms(), &next, &ask_ready);
		if (!left && !p) {
			wait_until(s, next);
			continue;
		}
		uint64_t calls = s->sync_calls;
		struct setup *asked = ask_ready ? setup_ref(pool_setup(p)) : NULL;
		if (asked)
			atomic_store(&p->waits, p->next != NULL);
		mutex_unlock(&s->lock);
		if (left) {
			pool_empty(left);
			pool_free_job(left);
		} else if (!asked || discovery_ready(asked->discovery)) {
			bring_up_to_date(p);
		} else {
			p->asked_ready = calls;
		}
		setup_unref(asked);
		mutex_lock(&s->lock);
	}
	mutex_unlock(&s->lock);
	return NULL;
}
