/* SPDX-License-Identifier: Apache-2.0 */
/* One bringing up to date of a job: its endpoints in line with what discovery says. An endpoint with the same labels, URL and name
 * keeps its memory and its place in the schedule, even when the rest of the job's configuration has changed.
 *
 *	discovery's groups   ── same object, same configuration ──►  nothing to do
 *	                     └─ new ──► plans (relabelling; no lock) ──► endpoints (under the lock, a little at a time)
 *	groups no longer there ──► their endpoints leave, unless another group has them
 *
 * So the cost depends on the number of changes, and scrapes continue meanwhile: the lock is held for about PIECE_NS at a time. New
 * endpoints are scraped from the end on, when it is known whether the job has too many targets. Runs in the sync thread, the only one
 * that changes a pool's groups and endpoints; others read them under the scraper's lock. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "scraper/internal.h"
#include "scraper/memory.h"
#include "scraper/state/table.h"

#define PIECE_NS 1000000
#define PLANS 256        /* that are made before they are taken in */
#define PLAN_ARENA ((size_t)16 << 20)
#define WARNINGS 5       /* for one sync */
#define PLAN_NS 50000    /* that a plan may take of CPU without being called slow */

struct plan {
	const struct type_config *type;
	uint32_t target;
	struct target_plan p;
};

struct sync {
	struct scrape_pool *pool;
	const struct setup *setup;
	struct arena arena;
	VEC(const struct discovery_group *) found; /* references */
	VEC(struct plan) plans;
	VEC(struct endpoint *) fresh;
	struct map fresh_by_asked;         /* asked_hash -> place in fresh, of those without a baseline to take over yet */
	struct pool_group *group;          /* at work */
	int64_t locked_ns;
	size_t problems;
	int64_t slow_ns;                   /* of CPU, that plans took beyond PLAN_NS each */
};

static bool ending(const struct sync *y)
{
	return atomic_load_explicit(&y->pool->scraper->stopping, memory_order_relaxed);
}

static void lock(struct sync *y) ACQUIRES(y->pool->scraper->lock)
{
	mutex_lock(&y->pool->scraper->lock);
	y->locked_ns = clock_mono_ns();
}

static void unlock(struct sync *y) RELEASES(y->pool->scraper->lock)
{
	mutex_unlock(&y->pool->scraper->lock);
}

/* Between two steps: lets others have the lock now and then. */
static void breathe(struct sync *y) REQUIRES(y->pool->scraper->lock)
{
	if (clock_mono_ns() - y->locked_ns < PIECE_NS)
		return;
	unlock(y);
	clock_sleep_us(50); /* waiting threads get the lock: unlocking alone does not pass it on */
	lock(y);
}

/* ---- endpoints ---- */

static struct endpoint *find_endpoint(const struct scrape_pool *p, uint64_t hash)
{
	uint32_t id;
	for (size_t at = map_start(&p->endpoint_index, hash); map_probe(&p->endpoint_index, hash, &at, &id);)
		if (p->endpoints.v[id]->hash == hash)
			return p->endpoints.v[id];
	return NULL;
}

void pool_let_go(struct scrape_pool *p, struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	struct endpoint *last = p->endpoints.v[--p->endpoints.n];
	map_remove(&p->endpoint_index, ep->hash, ep->place);
	if (last != ep) {
		map_remove(&p->endpoint_index, last->hash, last->place);
		last->place = ep->place;
		map_insert(&p->endpoint_index, last->hash, last->place);
		p->endpoints.v[last->place] = last;
	}
	ep->gone = true;
	ep->pool = NULL;
	heap_remove(&ep->scraper->due, &ep->due);
	memory_settle(ep, 0);
	if (ep->flight)
		flight_left(ep); /* its series end once that is through */
	else
		work_dispatch(work_end(ep));
	endpoint_unref(ep);
}

static struct target *find_target(struct scraper *s, struct target_plan *plan)
{
	mutex_assert_held(&s->lock);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&s->target_index, plan->target_key, id, s->targets.n, s->targets.v[id]->key == plan->target_key))
		return s->targets.v[id];
	struct target *t = NEW(struct target);
	t->key = plan->target_key;
	t->index = id;
	t->labels = TAKE_PTR(plan->visible);
	t->last_up = -1;
	vec_push(&s->targets, t);
	return t;
}

static struct endpoint *new_endpoint(struct sync *y, struct target_plan *plan)
{
	mutex_assert_held(&y->pool->scraper->lock);
	struct scrape_pool *p = y->pool;
	struct endpoint *ep = NEW(struct endpoint);
	ep->refs = 1;
	ep->scraper = p->scraper;
	ep->pool = p;
	ep->hash = plan->hash;
	ep->asked_hash = plan->asked_hash;
	ep->slot_hash = plan->slot_hash;
	ep->url = TAKE_PTR(plan->url);
	ep->name = TAKE_PTR(plan->name);
	ep->socket = TAKE_PTR(plan->socket);
	ep->receipt = receipt_new();
	memory_join(ep);
	ep->base = baseline_new(&ep->memory);
	metric_cache_init(&ep->metrics, &ep->memory);
	ep->target = find_target(p->scraper, plan);
	ep->target->refs++;
	vec_push(&ep->target->endpoints, ep);
	ep->place = (uint32_t)p->endpoints.n;
	map_insert(&p->endpoint_index, ep->hash, ep->place);
	vec_push(&p->endpoints, ep);
	vec_push(&y->fresh, ep);
	return ep;
}

/* Fields that may change while the endpoint stays the same. */
static void adopt(struct sync *y, struct endpoint *ep, struct plan *plan)
{
	mutex_assert_held(&y->pool->scraper->lock);
	bool moved = ep->interval_ms && ep->interval_ms != plan->p.interval_ms;
	if (ep->config != y->setup->config || ep->client != y->setup->client) {
		struct scraper_config *old = ep->config;
		struct fetch_client *old_client = ep->client;
		ep->config = scraper_config_ref(y->setup->config);
		ep->client = fetch_client_ref(y->setup->client);
		scraper_config_unref(old);
		fetch_client_unref(old_client);
	}
	ep->job = y->setup->job;
	ep->type = plan->type;
	discovery_group_unref(ep->group);
	ep->group = discovery_group_ref(y->group->group);
	ep->group_target = plan->target;
	ep->interval_ms = plan->p.interval_ms;
	ep->timeout_ms = plan->p.timeout_ms;
	ep->deadline_ms = plan->p.deadline_ms;
	ep->asked_s = plan->p.asked_s;
	if (y->setup->job->agent && plan->type->delta && !ep->cursor)
		ep->cursor = cursors_get(&ep->scraper->cursors, plan->p.cursor_key, clock_now_ms());
	free(ep->refused);
	ep->refused = TAKE_PTR(plan->p.problem);
	if (moved && !ep->flight && ep->due.at)
		schedule(ep, schedule_next(clock_now_ms(), ep->interval_ms, offset_of(ep)));
}

static const char *over_label_limits(const struct job_config *j, struct labels l)
{
	if (j->label_limit && l.n + 1 > (size_t)j->label_limit)
		return "more labels than label_limit allows";
	for (size_t i = 0; i < l.n; i++) {
		if (j->label_name_length_limit && l.v[i].name.len > (size_t)j->label_name_length_limit)
			return "a label's name is longer than label_name_length_limit";
		if (j->label_value_length_limit && l.v[i].value.len > (size_t)j->label_value_length_limit)
			return "a label's value is longer than label_value_length_limit";
	}
	return NULL;
}

/* ---- groups ---- */

void pool_group_free(struct pool_group *g)
{
	for (size_t i = 0; i < g->dropped.n; i++)
		free(g->dropped.v[i].problem);
	vec_free(&g->dropped);
	vec_free(&g->endpoints);
	discovery_group_unref(g->group);
	scraper_config_unref(g->config);
	free(g);
}

static uint64_t key_of(const struct discovery_group *g, unsigned revision)
{
	return hash_u64((uintptr_t)g + revision);
}

static struct pool_group *find_group(const struct scrape_pool *p, const struct discovery_group *g)
{
	uint32_t id;
	uint64_t key = key_of(g, p->revision);
	for (size_t at = map_start(&p->group_index, key); map_probe(&p->group_index, key, &at, &id);)
		if (p->groups.v[id]->group == g && p->groups.v[id]->revision == p->revision)
			return p->groups.v[id];
	return NULL;
}

static void add_group(struct scrape_pool *p, struct pool_group *g)
{
	map_insert(&p->group_index, key_of(g->group, g->revision), (uint32_t)p->groups.n);
	vec_push(&p->groups, g);
}

static void remove_group(struct scrape_pool *p, size_t i)
{
	struct pool_group *g = p->groups.v[i], *last = p->groups.v[--p->groups.n];
	map_remove(&p->group_index, key_of(g->group, g->revision), (uint32_t)i);
	if (last == g)
		return;
	map_remove(&p->group_index, key_of(last->group, last->revision), (uint32_t)p->groups.n);
	map_insert(&p->group_index, key_of(last->group, last->revision), (uint32_t)i);
	p->groups.v[i] = last;
}

/* Takes in one plan. The same endpoint once more in a group: one is enough. */
static void take_plan(struct sync *y, struct plan *plan)
{
	mutex_assert_held(&y->pool->scraper->lock);
	struct pool_group *g = y->group;
	if (!plan->p.url) {
		g->failed += plan->p.problem != NULL;
		vec_push(&g->dropped, (struct dropped_type){ plan->target, (uint16_t)(plan->type - y->setup->job->types),
							     (uint16_t)MIN(plan->p.rule, UINT16_MAX), TAKE_PTR(plan->p.problem) });
		return;
	}
	struct endpoint *ep = find_endpoint(y->pool, plan->p.hash);
	if (ep && ep->newest == g)
		return;
	if (!ep) {
		ep = new_endpoint(y, &plan->p);
		ep->is_metrics = plan->type->metrics;
	}
	adopt(y, ep, plan);
	ep->newest = g;
	ep->n_groups++;
	vec_push(&g->endpoints, ep);
}

static void take_plans(struct sync *y)
{
	if (!y->plans.n)
		return;
	lock(y);
	for (size_t i = 0; i < y->plans.n; i++) {
		take_plan(y, &y->plans.v[i]);
		if (i % 8 == 7)
			breathe(y);
	}
	unlock(y);
	for (size_t i = 0; i < y->plans.n; i++)
		target_plan_release(&y->plans.v[i].p);
	y->plans.n = 0;
}

static void note_problem(struct sync *y, const struct type_config *t, const char *problem)
{
	metric_inc(&scraper_table[M_SYNC_FAILED]);
	if (y->problems++ < WARNINGS)
		LOG_WARN("msg", "target cannot be scraped", "job", y->setup->job->name, "profile", t->name, "err", problem);
}

/* All jobs share the sync thread: rules from an object must not occupy it for long. */
static void make_plan(struct sync *y, const struct discovery_group *g, struct plan *plan)
{
	const struct job_config *j = y->setup->job;
	if (!j->confined) {
		target_plan_make(j, plan->type, g->labels, g->targets[plan->target], &y->arena, &plan->p);
	} else if (y->slow_ns > j->confined->sync_max_ns) {
		plan->p.problem = xstrdup("relabelling this job takes too long");
	} else {
		int64_t from = clock_cpu_ns();
		target_plan_make(j, plan->type, g->labels, g->targets[plan->target], &y->arena, &plan->p);
		y->slow_ns += MAX(clock_cpu_ns() - from - PLAN_NS, 0);
	}
	arena_reset(&y->arena);
}

/* Returns whether it is a target: one type of it is enough. */
static bool plan_target(struct sync *y, const struct discovery_group *g, uint32_t target)
{
	const struct job_config *j = y->setup->job;
	bool any = false;
	for (size_t i = 0; i < j->n_types && !ending(y); i++) {
		if (!j->types[i].enabled)
			continue;
		struct plan *plan = vec_add(&y->plans);
		plan->type = &j->types[i];
		plan->target = target;
		make_plan(y, g, plan);
		if (plan->p.problem)
			note_problem(y, plan->type, plan->p.problem);
		const char *limit = plan->p.visible ? over_label_limits(j, *plan->p.visible) : NULL;
		if (limit) {
			plan->p.problem = xstrdup(limit);
			metric_inc(&scraper_table[M_LABEL_LIMITS]);
		}
		any |= plan->p.url != NULL;
	}
	return any;
}

static void plan_group(struct sync *y, const struct discovery_group *found)
{
	struct scrape_pool *p = y->pool;
	struct pool_group *g = NEW(struct pool_group);
	g->group = discovery_group_ref(found);
	g->config = scraper_config_ref(y->setup->config);
	g->job = y->setup->job;
	g->revision = p->revision;
	g->round = p->round;
	y->group = g;
	for (size_t i = 0; i < found->n_targets && !ending(y); i++) {
		g->targets += plan_target(y, found, (uint32_t)i);
		if (y->plans.n >= PLANS)
			take_plans(y);
	}
	take_plans(y);
	lock(y);
	add_group(p, g);
	p->n_targets += g->targets;
	unlock(y);
}

static void collect(void *arg, const struct discovery_group *g)
{
	struct sync *y = arg;
	vec_push(&y->found, discovery_group_ref(g));
}

static void take_groups(struct sync *y)
{
	struct scrape_pool *p = y->pool;
	discovery_each(y->setup->discovery, collect, y);
	for (size_t i = 0; i < y->found.n && !ending(y); i++) {
		struct pool_group *g = find_group(p, y->found.v[i]);
		if (g)
			g->round = p->round;
		else
			plan_group(y, y->found.v[i]);
	}
	for (size_t i = 0; i < y->found.n; i++)
		discovery_group_unref(y->found.v[i]);
	vec_free(&y->found);
}

static void index_fresh(struct sync *y)
{
	for (size_t i = 0; i < y->fresh.n; i++)
		map_insert(&y->fresh_by_asked, y->fresh.v[i]->asked_hash, (uint32_t)i);
}

/* It leaves. If one came that asks the same, its labels have changed and the process is the same: that one goes on from its
 * baseline. */
static void hand_on(struct sync *y, struct endpoint *ep)
{
	uint32_t id;
	for (size_t at = map_start(&y->fresh_by_asked, ep->asked_hash); map_probe(&y->fresh_by_asked, ep->asked_hash, &at, &id);)
		if (y->fresh.v[id]->asked_hash == ep->asked_hash && y->fresh.v[id] != ep) {
			map_remove(&y->fresh_by_asked, ep->asked_hash, id);
			baseline_bequeath(ep, y->fresh.v[id]);
			return;
		}
}

/* Removes targets whose groups are all gone. */
static void sweep(struct sync *y)
{
	struct scrape_pool *p = y->pool;
	for (size_t i = p->groups.n; i-- > 0;) {
		struct pool_group *g = p->groups.v[i];
		if (g->round == p->round)
			continue;
		lock(y);
		remove_group(p, i);
		p->n_targets -= g->targets;
		for (size_t k = 0; k < g->endpoints.n; k++) {
			struct endpoint *ep = g->endpoints.v[k];
			if (ep->newest == g)
				ep->newest = NULL;
			if (--ep->n_groups == 0) {
				hand_on(y, ep);
				pool_let_go(p, ep);
			}
			breathe(y);
		}
		unlock(y);
		pool_group_free(g);
	}
	fetch_loop_wake(p->scraper->loop);
}

/* Everything or nothing: which targets of too many would be scraped should not depend on chance. */
static void check_target_limit(struct sync *y)
{
	struct scrape_pool *p = y->pool;
	int64_t limit = y->setup->job->target_limit;
	char *text = NULL;
	if (limit && p->n_targets > (size_t)limit) {
		metric_inc(&scraper_table[M_TARGET_LIMIT]);
		text = xasprintf("the job has %zu targets, target_limit is %lld: none is scraped", p->n_targets, (long long)limit);
	}
	lock(y);
	char *old = p->refused;
	p->refused = text;
	unlock(y);
	free(old);
}

static void place_fresh(struct sync *y)
{
	if (!y->fresh.n)
		return;
	lock(y);
	for (size_t i = 0; i < y->fresh.n; i++) {
		struct endpoint *ep = y->fresh.v[i];
		if (!ep->due.at && !ep->flight)
			schedule(ep, schedule_next(clock_now_ms(), ep->interval_ms, offset_of(ep)));
		breathe(y);
	}
	unlock(y);
	fetch_loop_wake(y->pool->scraper->loop);
	vec_free(&y->fresh);
}

void pool_sync(struct scrape_pool *p)
{
	struct sync y = { .pool = p, .setup = p->now };
	arena_init(&y.arena, PLAN_ARENA);
	p->round++;
	take_groups(&y);
	if (!ending(&y)) {
		index_fresh(&y);
		sweep(&y);
		check_target_limit(&y);
		place_fresh(&y);
	}
	if (y.problems > WARNINGS)
		LOG_WARN("msg", "more targets cannot be scraped", "job", p->name, "n", LOG_NUM(y.problems - WARNINGS));
	metric_add(&scraper_table[M_SYNCS], 1, p->name);
	metric_add(&scraper_table[M_SLOTS_MISSED], 0, p->name); /* there from the start */
	metric_set(&scraper_table[M_POOL_TARGETS], (double)p->n_targets, p->name);
	vec_free(&y.plans);
	vec_free(&y.fresh);
	map_free(&y.fresh_by_asked);
	arena_free(&y.arena);
}

void pool_empty(struct scrape_pool *p)
{
	struct sync y = { .pool = p };
	p->round++;
	sweep(&y);
	metric_set(&scraper_table[M_POOL_TARGETS], 0, p->name);
}
