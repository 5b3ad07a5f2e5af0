/* SPDX-License-Identifier: Apache-2.0 */
/* The scraper's life: threads, the loop that starts what is due, reloads, and the end. Shut down goes left to right:
 * the loop cancels its requests, the queue is closed, the decoders drain it. */
#include "scraper/memory.h"
#include "scraper/piece.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/units.h"
#include "scraper/names_ask.h"
#include "scraper/state/table.h"

#define MEMORY_BYTES ((size_t)512 << 20)
#define PROFILE_BYTES ((size_t)1 << 30) /* what one profile may take in memory */
#define LONGEST_WAIT_MS 1000
#define SYNC_INTERVAL_MS 5000
#define LARGE_BODIES_PER_S (UINT64_C(128) << 20)
#define DRAIN_MS 500                   /* at the end, for what waits to be decoded */

static void observe_interval(struct endpoint *ep, int64_t now_ms)
{
	char text[DURATION_LEN];
	if (!ep->last_start_ms)
		return;
	metric_observe(&scraper_table[M_INTERVAL], (double)(now_ms - ep->last_start_ms) / 1000,
		       units_format_duration(ep->interval_ms, text));
}

/* Starts what is due; returns how long until something is. */
static int start_due(struct scraper *s) REQUIRES(s->lock)
{
	int64_t now = clock_mono_ms();
	const struct heap_node *next;
	while ((next = heap_first(&s->due)) && next->key <= now) {
		struct endpoint *ep = heap_entry(next, struct endpoint, due);
		heap_remove(&s->due, &ep->due);
		if (!ep->extra && !ep->short_ms)
			observe_interval(ep, now);
		ep->last_start_ms = now;
		ask(ep);
	}
	int64_t wait = next ? next->key - now : LONGEST_WAIT_MS;
	return (int)MAX(MIN(wait, LONGEST_WAIT_MS), 0);
}

/* What storage could not take before: again, in order that no series of a target that left stays for the look-back. */
static void bury_again(struct scraper *s) REQUIRES(s->lock)
{
	struct work *w = s->unburied;
	s->unburied = NULL;
	for (struct work *next; w; w = next) {
		next = w->next;
		work_dispatch(w);
	}
}

static void *loop_main(void *arg)
{
	struct scraper *s = arg;
	struct err e = { 0 };
	int64_t buried_ms = 0;
	while (!atomic_load(&s->stopping)) {
		mutex_lock(&s->lock);
		flights_end_evicted(s);
		bool more = s->left && flights_end_left(s);
		if (s->unburied && clock_mono_ms() - buried_ms >= LONGEST_WAIT_MS) {
			buried_ms = clock_mono_ms();
			bury_again(s);
		}
		names_start(s);
		int wait = start_due(s);
		if (more)
			wait = 0;
		mutex_unlock(&s->lock);
		if (fetch_loop_turn(s->loop, wait, &e)) {
			LOG_ERROR("msg", "the scrape loop failed; it goes on", "err", e.msg);
			clock_sleep_ms(100);
		}
	}
	return NULL;
}

/* Whose queue the gauges show. The registry cannot be left, so it is asked here whether there is still one. */
static struct scraper *shown;
static struct mutex shown_lock = MUTEX_INIT(RANK_SCRAPER_SHOWN, "shown scraper");

static void collect(void *arg)
{
	mutex_lock(&shown_lock);
	if (shown) {
		mutex_lock(&shown->lock);
		metric_set(&scraper_table[M_QUEUE_ITEMS], (double)shown->n_waiting);
		metric_set(&scraper_table[M_QUEUE_BYTES], (double)shown->waiting_bytes);
		mutex_unlock(&shown->lock);
		metric_set(&scraper_table[M_MEMORY], (double)budget_used(&shown->memory));
		metric_set(&scraper_table[M_MEMORY_LIMIT], (double)shown->memory.max);
		metric_set(&scraper_table[M_RUNNING], (double)fetch_loop_running(shown->loop));
	}
	mutex_unlock(&shown_lock);
}

static void show(struct scraper *s)
{
	static bool known;
	mutex_lock(&shown_lock);
	bool first = !known;
	known = true;
	shown = s;
	mutex_unlock(&shown_lock);
	if (first)
		metrics_on_collect(collect, NULL);
}

static int start_threads(struct scraper *s, unsigned n, struct err *e)
{
	n++; /* one that is spared what is heavy */
	s->workers = xcalloc(n, sizeof *s->workers);
	for (unsigned i = 0; i < n; i++) {
		struct scrape_worker *w = &s->workers[i];
		w->scraper = s;
		w->spare = i == n - 1;
		profile_init(&w->profile, PROFILE_BYTES);
		memory_join_decoder(w);
		w->profile.arena.budget = &w->memory;
		int rc = thread_start(&w->thread, "decoder", worker_main, w, e);
		if (rc) {
			profile_release(&w->profile);
			return rc;
		}
		s->n_workers = i + 1;
	}
	int rc = thread_start(&s->thread, "scraper", loop_main, s, e);
	s->thread_runs = rc == 0;
	if (!rc)
		rc = thread_start(&s->sync_thread, "targets", sync_main, s, e);
	s->sync_runs = rc == 0;
	return rc;
}

static const struct eviction eviction = { turn_evict, flight_evict, kept_evict };

int scraper_new(struct scraper **ret, struct sink *sink, const struct scraper_options *o, struct err *e)
{
	struct scraper *s = NEW(struct scraper);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_cond_init(&s->sync_came, NULL);
	mutex_init(&s->apply_lock, RANK_SCRAPER_APPLY, "scraper change");
	mutex_init(&s->lock, RANK_SCRAPER, "scraper");
	s->sync_interval_ms = o && o->reload_interval_ms ? o->reload_interval_ms : SYNC_INTERVAL_MS;
	s->status = (struct status_targets){ status_active, status_dropped, status_jobs, status_relabel, status_config, status_metadata };
	s->sink = sink;
	s->user_agent = xstrdup(o && o->user_agent ? o->user_agent : "pyrrha");
	s->replicas = o && o->replicas ? o->replicas : 1;
	s->replica = o ? o->replica : 0;
	s->evict = &eviction;
	s->memory.max = o && o->memory_bytes ? o->memory_bytes : MEMORY_BYTES;
	pthread_cond_init(&s->work_came, NULL);
	pthread_cond_init(&s->light_came, NULL);
	pthread_cond_init(&s->memory_came, NULL);
	s->loop = fetch_loop_new(e);
	if (s->loop)
		fetch_loop_pace(s->loop, LARGE_BODIES_PER_S);
	int rc = cursors_load(&s->cursors, sink, e);
	if (!rc)
		rc = s->loop ? start_threads(s, o && o->decoders ? o->decoders : (unsigned)MAX(1, MIN(cpus, 8)), e)
			     : -ERR_INTERNAL;
	if (rc) {
		scraper_free(s);
		return rc;
	}
	show(s);
	*ret = s;
	return 0;
}

static struct scrape_pool *find_pool(struct scraper *s, const char *name) REQUIRES(s->apply_lock)
{
	for (size_t i = 0; i < s->pools.n; i++)
		if (strcmp(s->pools.v[i]->name, name) == 0)
			return s->pools.v[i];
	return NULL;
}

/* The effects of a configuration, computed before anything changes. */
struct change {
	size_t n;                 /* jobs */
	struct scrape_pool **made;       /* NULL: there is one */
	struct setup **setups;    /* for that one; NULL: unchanged */
	struct scrape_pool **kept;
};

static void change_release(struct change *ch)
{
	for (size_t i = 0; i < ch->n; i++) {
		if (ch->made[i])
			pool_free_job(ch->made[i]);
		setup_unref(ch->setups[i]);
	}
	free(ch->made);
	free(ch->setups);
	free(ch->kept);
}

static bool has_changed(struct scraper *s, const struct scrape_pool *p, const struct job_config *j) REQUIRES(s->apply_lock)
{
	mutex_lock(&s->lock); /* the setup may be moved meanwhile */
	bool changed = !view_eq(j->fingerprint, pool_setup(p)->job->fingerprint);
	mutex_unlock(&s->lock);
	return changed;
}

static int prepare(struct scraper *s, struct scraper_config *c, struct change *ch, struct err *e) REQUIRES(s->apply_lock)
{
	int rc = 0;
	*ch = (struct change){ c->n_jobs, xcalloc(c->n_jobs, sizeof(struct scrape_pool *)), xcalloc(c->n_jobs, sizeof(struct setup *)),
			       xcalloc(c->n_jobs, sizeof(struct scrape_pool *)) };
	for (size_t i = 0; i < c->n_jobs && !rc; i++) {
		ch->kept[i] = find_pool(s, c->jobs[i]->name);
		if (!ch->kept[i]) {
			ch->made[i] = pool_new_job(s, c->jobs[i], e);
			rc = ch->made[i] ? 0 : -(int)(e ? e->code : ERR_INTERNAL);
		} else if (has_changed(s, ch->kept[i], c->jobs[i])) {
			rc = pool_prepare(ch->kept[i], c->jobs[i], &ch->setups[i], e);
			metric_inc(&scraper_table[rc ? M_RELOADS_FAILED : M_RELOADS]);
		}
	}
	return rc;
}

static void drop_old(struct scraper *s, const struct scraper_config *c) REQUIRES(s->lock, s->apply_lock)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->pools.n; i++) {
		struct scrape_pool *p = s->pools.v[i];
		if (scraper_config_job(c, p->name))
			s->pools.v[kept++] = p;
		else
			vec_push(&s->leaving, p);
	}
	s->pools.n = kept;
}

/* Only what is quick: the rest is the sync thread's. What is left in ch is to be released. */
static struct scraper_config *take_over(struct scraper *s, struct scraper_config *c, struct change *ch) REQUIRES(s->lock, s->apply_lock)
{
	struct scraper_config *old = s->config;
	drop_old(s, c);
	for (size_t i = 0; i < ch->n; i++) {
		if (ch->made[i])
			vec_push(&s->pools, TAKE_PTR(ch->made[i]));
		else if (ch->setups[i])
			ch->setups[i] = pool_reconfigure(ch->kept[i], ch->setups[i]);
	}
	s->config = scraper_config_ref(c);
	metric_set(&scraper_table[M_POOLS], (double)s->pools.n);
	sync_wake(s);
	return old;
}

int scraper_apply(struct scraper *s, struct scraper_config *c, struct err *e)
{
	struct change ch;
	struct scraper_config *old = NULL;
	mutex_lock(&s->apply_lock);
	int rc = prepare(s, c, &ch, e);
	mutex_lock(&s->lock);
	if (!rc && s->stopped)
		rc = err_set(e, ERR_UNAVAILABLE, "the scraper has stopped");
	if (!rc)
		old = take_over(s, c, &ch);
	mutex_unlock(&s->lock);
	change_release(&ch);
	scraper_config_unref(old);
	mutex_unlock(&s->apply_lock);
	return rc;
}

struct status_targets *scraper_status(struct scraper *s)
{
	return &s->status;
}

void scraper_stop(struct scraper *s)
{
	if (s->stopped)
		return;
	atomic_store(&s->stopping, true);
	if (s->loop)
		fetch_loop_wake(s->loop);
	if (s->thread_runs)
		pthread_join(s->thread, NULL);
	mutex_lock(&s->lock);
	sync_wake(s);
	mutex_unlock(&s->lock);
	if (s->sync_runs)
		pthread_join(s->sync_thread, NULL);
	mutex_lock(&s->lock);
	s->stopped = true;
	flights_drop(s);
	names_drop(s);
	atomic_store(&s->give_up_ms, clock_mono_ms() + DRAIN_MS);
	pthread_cond_broadcast(&s->work_came);
	pthread_cond_broadcast(&s->light_came);
	pthread_cond_broadcast(&s->memory_came);
	mutex_unlock(&s->lock);
	for (unsigned i = 0; i < s->n_workers; i++) {
		pthread_join(s->workers[i].thread, NULL);
		profile_release(&s->workers[i].profile);
	}
	s->n_workers = 0;
}

void scraper_free(struct scraper *s)
{
	if (!s)
		return;
	show(NULL);
	scraper_stop(s);
	for (size_t i = 0; i < s->pools.n; i++)
		pool_free_job(s->pools.v[i]); /* it has stopped: no markers at the end, the series go on */
	for (size_t i = 0; i < s->leaving.n; i++)
		pool_free_job(s->leaving.v[i]);
	mutex_lock(&s->lock);
	bury_again(s); /* it has stopped: they go */
	mutex_unlock(&s->lock);
	discovery_finish();
	vec_free(&s->pools);
	vec_free(&s->leaving);
	object_statuses_release(&s->objects);
	heap_free(&s->due);
	heap_free(&s->light);
	heap_free(&s->heavy);
	heap_free(&s->claims);
	vec_free(&s->holders);
	vec_free(&s->targets);
	map_free(&s->target_index);
	cursors_release(&s->cursors);
	scraper_config_unref(s->config);
	fetch_loop_free(s->loop);
	pthread_cond_destroy(&s->work_came);
	pthread_cond_destroy(&s->light_came);
	pthread_cond_destroy(&s->memory_came);
	pthread_cond_destroy(&s->sync_came);
	mutex_destroy(&s->apply_lock);
	mutex_destroy(&s->lock);
	free(s->workers);
	free(s->user_agent);
	free(s);
}
