/* SPDX-License-Identifier: Apache-2.0 */
/* The notifier: made, configured, ended; and its thread. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "rules/notifier/notifier_internal.h"

#define QUEUE_CAPACITY 10000
#define BATCH_SIZE 256
#define DRAIN_MS 3000
#define WAIT_MS 1000
#define SYNC_PAUSE_MS 200 /* discovery may have news all the time */

/* ---- the thread ---- */

static bool has_work(struct notifier *n) REQUIRES(n->lock)
{
	bool work = false;
	for (size_t i = 0; i < n->sets.n && !work; i++)
		for (size_t k = 0; k < n->sets.v[i]->receivers.n && !work; k++) {
			const struct receiver *r = n->sets.v[i]->receivers.v[k];
			work = r->fetch || r->queue.n;
		}
	return work;
}

static bool at_end(struct notifier *n)
{
	mutex_lock(&n->lock);
	bool end = n->closing && (n->o.drop_at_end || clock_mono_ms() >= n->deadline_ms || !has_work(n));
	mutex_unlock(&n->lock);
	return end;
}

/* From when on discovery's news is read; somebody may wait for it. */
static int64_t sync_time(struct notifier *n, int64_t last_ms)
{
	mutex_lock(&n->lock);
	bool awaited = n->asked != n->answered;
	mutex_unlock(&n->lock);
	return awaited ? 0 : atomic_load(&n->stale) ? last_ms + SYNC_PAUSE_MS : INT64_MAX;
}

/* How long to wait for what curl has to do. */
static int wait_ms(struct notifier *n, int64_t last_ms)
{
	int64_t now = clock_mono_ms(), until = MIN(now + WAIT_MS, sync_time(n, last_ms));
	mutex_lock(&n->lock);
	if (n->closing)
		until = MIN(until, n->deadline_ms);
	mutex_unlock(&n->lock);
	return (int)MAX(until - now, 0);
}

static void *notifier_main(void *arg)
{
	struct notifier *n = arg;
	struct err e = { 0 };
	int64_t synced_ms = 0;
	while (!at_end(n)) {
		if (clock_mono_ms() >= sync_time(n, synced_ms)) {
			notifier_sync(n);
			synced_ms = clock_mono_ms();
		}
		notifier_start_batches(n);
		if (fetch_loop_turn(n->loop, wait_ms(n, synced_ms), &e)) {
			LOG_ERROR("msg", "the notifier's loop failed; it goes on", "err", e.msg);
			clock_sleep_ms(100);
		}
	}
	return NULL;
}

/* ---- what the configuration says ---- */

static void on_discovery(void *arg)
{
	struct receiver_set *s = arg;
	atomic_store(&s->dirty, true);
	atomic_store(&s->n->stale, true);
	fetch_loop_wake(s->n->loop);
}

static void ref_config(void *owner)
{
	notifier_config_ref(owner);
}

static void unref_config(void *owner)
{
	notifier_config_unref(owner);
}

static int set_new(struct receiver_set **ret, struct notifier *n, const struct alertmanager_config *c, struct err *e)
{
	struct receiver_set *s = NEW(struct receiver_set);
	s->n = n;
	s->config = c;
	s->owner = notifier_config_ref(c->config);
	atomic_store(&s->dirty, true);
	const struct discovery_user user = { .job = "alertmanagers", .changed = on_discovery, .arg = s, .owner = c->config,
					     .ref = ref_config, .unref = unref_config };
	int rc = endpoint_set_new(&s->endpoints, &notifier_endpoints, &c->endpoints, n->user_agent, &user, e);
	if (rc) {
		receiver_set_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

/* One that is at work as c says, and that is not taken yet. */
static struct receiver_set *take_same(struct notifier *n, const struct alertmanager_config *c, bool *taken) REQUIRES(n->apply)
{
	for (size_t i = 0; i < n->sets.n; i++)
		if (!taken[i] && view_eq(n->sets.v[i]->config->endpoints.fingerprint, c->endpoints.fingerprint)) {
			taken[i] = true;
			return n->sets.v[i];
		}
	return NULL;
}

static int make_sets(struct notifier *n, struct notifier_config *c, struct receiver_set **sets, bool *fresh, bool *taken, struct err *e) REQUIRES(n->apply)
{
	int rc = 0;
	for (size_t i = 0; i < c->sets.n && !rc; i++) {
		sets[i] = take_same(n, &c->sets.v[i], taken);
		fresh[i] = !sets[i];
		if (fresh[i])
			rc = set_new(&sets[i], n, &c->sets.v[i], e);
	}
	for (size_t i = 0; i < c->sets.n && rc; i++)
		if (fresh[i])
			receiver_set_free(sets[i]);
	return rc;
}

static void take_sets(struct notifier *n, struct notifier_config *c, struct receiver_set *const *sets, const bool *taken) REQUIRES(n->apply)
{
	struct notifier_config *old = n->config;
	mutex_lock(&n->lock);
	for (size_t i = 0; i < n->sets.n; i++)
		if (!taken[i])
			vec_push(&n->gone, n->sets.v[i]);
	n->sets.n = 0;
	for (size_t i = 0; i < c->sets.n; i++)
		vec_push(&n->sets, sets[i]);
	n->config = notifier_config_ref(c);
	mutex_unlock(&n->lock);
	notifier_config_unref(old);
}

/* Who was there at once gets the first alert. */
static void await_sync(struct notifier *n)
{
	mutex_lock(&n->lock);
	unsigned mine = ++n->asked;
	fetch_loop_wake(n->loop);
	while ((int)(n->answered - mine) < 0 && !n->closing)
		mutex_wait(&n->lock, &n->synced);
	mutex_unlock(&n->lock);
}

int notifier_apply(struct notifier *n, struct notifier_config *c, struct err *e)
{
	mutex_lock(&n->apply);
	struct receiver_set **sets = xcalloc(c->sets.n + 1, sizeof(struct receiver_set *));
	bool *fresh = xcalloc(c->sets.n + 1, sizeof *fresh), *taken = xcalloc(n->sets.n + 1, sizeof *taken);
	int rc = make_sets(n, c, sets, fresh, taken, e);
	if (!rc)
		take_sets(n, c, sets, taken);
	free(sets);
	free(fresh);
	free(taken);
	mutex_unlock(&n->apply);
	if (!rc)
		await_sync(n);
	return rc;
}

/* ---- what others see ---- */

static void each(struct status_alertmanagers *status, bool dropped, void (*url)(void *arg, struct view url), void *arg)
{
	struct notifier *n = (struct notifier *)(void *)status;
	mutex_lock(&n->lock);
	for (size_t i = 0; i < n->sets.n; i++) {
		const struct receiver_set *s = n->sets.v[i];
		for (size_t k = 0; k < s->receivers.n && !dropped; k++)
			url(arg, view_of(s->receivers.v[k]->shown));
		for (size_t k = 0; k < s->dropped.n && dropped; k++)
			url(arg, view_of(s->dropped.v[k]));
	}
	mutex_unlock(&n->lock);
}

struct status_alertmanagers *notifier_status(struct notifier *n)
{
	return &n->status;
}

const struct alert_sink *notifier_sink(struct notifier *n)
{
	return &n->sink;
}

/* ---- begin and end ---- */

int notifier_new(struct notifier **ret, const struct notifier_options *o, struct err *e)
{
	struct notifier *n = NEW(struct notifier);
	n->o = *o;
	n->o.queue_capacity = o->queue_capacity ? o->queue_capacity : QUEUE_CAPACITY;
	n->o.batch_size = o->batch_size ? o->batch_size : BATCH_SIZE;
	n->o.drain_ms = o->drain_ms ? o->drain_ms : DRAIN_MS;
	n->user_agent = xstrdup(o->user_agent ? o->user_agent : "pyrrha");
	n->status.each = each;
	n->sink = (struct alert_sink){ notifier_take, n };
	mutex_init(&n->apply, RANK_NOTIFIER_APPLY, "notifier change");
	mutex_init(&n->lock, RANK_NOTIFIER, "notifier");
	pthread_cond_init(&n->synced, NULL);
	n->loop = fetch_loop_new(e);
	int rc = n->loop ? thread_start(&n->thread, "notifier", notifier_main, n, e) : -ERR_INTERNAL;
	n->thread_runs = n->loop && !rc;
	if (rc) {
		notifier_free(n);
		return rc;
	}
	metric_set(&notifier_metrics[NM_CAPACITY], (double)n->o.queue_capacity);
	*ret = n;
	return 0;
}

void notifier_close(struct notifier *n)
{
	if (!n)
		return;
	mutex_lock(&n->lock);
	if (!n->closing)
		n->deadline_ms = clock_mono_ms() + n->o.drain_ms;
	n->closing = true;
	pthread_cond_broadcast(&n->synced);
	mutex_unlock(&n->lock);
	if (n->loop)
		fetch_loop_wake(n->loop);
}

static size_t left(const struct notifier *n)
{
	size_t left = 0;
	for (size_t i = 0; i < n->sets.n; i++)
		for (size_t k = 0; k < n->sets.v[i]->receivers.n; k++)
			left += n->sets.v[i]->receivers.v[k]->queue.n + n->sets.v[i]->receivers.v[k]->sending.n;
	return left;
}

void notifier_free(struct notifier *n)
{
	if (!n)
		return;
	notifier_close(n);
	if (n->thread_runs)
		pthread_join(n->thread, NULL);
	if (left(n))
		LOG_WARN("msg", "alerts were not sent before the end", "alerts", LOG_NUM(left(n)));
	for (size_t i = 0; i < n->sets.n; i++)
		receiver_set_free(n->sets.v[i]);
	for (size_t i = 0; i < n->gone.n; i++)
		receiver_set_free(n->gone.v[i]);
	vec_free(&n->sets);
	vec_free(&n->gone);
	notifier_config_unref(n->config);
	if (n->loop)
		fetch_loop_free(n->loop);
	mutex_destroy(&n->apply);
	mutex_destroy(&n->lock);
	pthread_cond_destroy(&n->synced);
	free(n->user_agent);
	free(n);
}
