/* SPDX-License-Identifier: Apache-2.0 */
/* A job at work: its discovery, and its endpoints brought in line with what discovery says (pool_sync). An endpoint
 * that is found again, by labels, URL and name, keeps its memory and its place in the schedule, even when the rest of
 * the job's configuration has changed. All under the scraper's lock. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "scraper/internal.h"
#include "scraper/table.h"

static void release_config(void *c)
{
	scraper_config_unref(c);
}

static int new_client(struct pool *p, struct scraper_config *c, const struct job_config *j, struct fetch_client **ret,
		      struct err *e)
{
	int rc = fetch_client_new(ret, &j->http, p->scraper->user_agent, e);
	if (!rc)
		fetch_client_owner(*ret, release_config, scraper_config_ref(j->config));
	return rc;
}

struct pool *pool_new_job(struct scraper *s, struct scraper_config *c, const struct job_config *j, struct err *e)
{
	struct pool *p = NEW(struct pool);
	p->scraper = s;
	p->name = xstrdup(j->name);
	if (pool_reconfigure(p, c, j, e)) {
		pool_free_job(p);
		return NULL;
	}
	return p;
}

static void ref_config(void *c)
{
	scraper_config_ref(c);
}

/* Keeps running discovery when what it was started with has not changed. */
static int restart_discovery(struct pool *p, const struct job_config *j, struct err *e)
{
	struct discovery *d = NULL;
	if (p->discovery && discovery_same(&p->job->sd, &j->sd))
		return 0;
	const struct discovery_user user = { p->name, pool_changed, p, j->config, ref_config, release_config };
	int rc = discovery_start(&d, &j->sd, &user, e);
	if (rc)
		return rc;
	discovery_stop(p->discovery);
	p->discovery = d;
	return 0;
}

int pool_reconfigure(struct pool *p, struct scraper_config *c, const struct job_config *j, struct err *e)
{
	struct fetch_client *client = NULL;
	int rc = new_client(p, c, j, &client, e);
	if (!rc)
		rc = restart_discovery(p, j, e);
	if (rc) {
		fetch_client_unref(client);
		return err_wrap(e, "job %s", j->name);
	}
	fetch_client_unref(p->client);
	scraper_config_unref(p->config);
	p->client = client;
	p->config = scraper_config_ref(j->config);
	p->job = j;
	return 0;
}

static void drop_list(struct pool *p)
{
	for (size_t i = 0; i < p->dropped.n; i++)
		free(p->dropped.v[i]);
	p->dropped.n = 0;
	p->n_dropped = 0;
}

/* Out of the pool; its series get stale markers once what is under way is through. */
static void let_go(struct endpoint *ep)
{
	ep->gone = true;
	heap_remove(&ep->scraper->due, &ep->due);
	memory_settle(ep, 0);
	if (ep->flight) {
		atomic_store(&ep->scraper->some_gone, true);
		fetch_loop_wake(ep->scraper->loop);
	} else {
		work_dispatch(work_end(ep));
	}
	endpoint_unref(ep);
}

void pool_free_job(struct pool *p)
{
	for (size_t i = 0; i < p->endpoints.n; i++)
		let_go(p->endpoints.v[i]);
	vec_free(&p->endpoints);
	drop_list(p);
	vec_free(&p->dropped);
	discovery_stop(p->discovery);
	scraper_config_unref(p->config);
	fetch_client_unref(p->client);
	free(p->name);
	free(p);
}

static struct target *find_target(struct scraper *s, struct target_plan *plan)
{
	uint32_t id;
	for (size_t at = map_start(&s->target_index, plan->target_key);
	     map_probe(&s->target_index, plan->target_key, &at, &id);)
		if (s->targets.v[id]->key == plan->target_key)
			return s->targets.v[id];
	struct target *t = NEW(struct target);
	t->key = plan->target_key;
	t->index = (uint32_t)s->targets.n;
	t->labels = TAKE_PTR(plan->visible);
	t->last_up = -1;
	map_insert(&s->target_index, t->key, t->index);
	vec_push(&s->targets, t);
	return t;
}

static void set_text(char **to, const char *text)
{
	free(*to);
	*to = text ? xstrdup(text) : NULL;
}

/* What may change while the endpoint stays itself. */
static void adopt(struct pool *p, struct endpoint *ep, const struct type_config *t, struct target_plan *plan)
{
	bool moved = ep->interval_ms != plan->interval_ms;
	struct scraper_config *old = ep->config;
	struct fetch_client *old_client = ep->client;
	ep->config = scraper_config_ref(p->config);
	ep->job = p->job;
	ep->type = t;
	ep->client = fetch_client_ref(p->client);
	scraper_config_unref(old);
	fetch_client_unref(old_client);
	free(ep->discovered);
	ep->discovered = TAKE_PTR(plan->discovered);
	ep->interval_ms = plan->interval_ms;
	ep->timeout_ms = plan->timeout_ms;
	ep->deadline_ms = plan->deadline_ms;
	ep->asked_s = plan->asked_s;
	ep->matched = true;
	set_text(&ep->refused, plan->problem);
	if (moved && !ep->flight)
		schedule(ep, schedule_next(clock_now_ms(), ep->interval_ms, offset_of(ep)));
}

static struct endpoint *new_endpoint(struct pool *p, struct target_plan *plan)
{
	struct endpoint *ep = NEW(struct endpoint);
	ep->refs = 1;
	ep->scraper = p->scraper;
	ep->hash = plan->hash;
	ep->url = TAKE_PTR(plan->url);
	ep->name = TAKE_PTR(plan->name);
	ep->receipt = receipt_new();
	ep->delta.budget = &p->scraper->memory;
	ep->target = find_target(p->scraper, plan);
	ep->target->refs++;
	vec_push(&ep->target->endpoints, ep);
	vec_push(&p->endpoints, ep);
	return ep;
}

/* By hash: the pool's endpoints, as they are and as they come. */
struct sync {
	struct pool *pool;
	struct arena arena;
	struct map index;
	size_t targets;
	size_t failed;
};

static struct endpoint *find_endpoint(const struct sync *y, uint64_t hash)
{
	uint32_t id;
	for (size_t at = map_start(&y->index, hash); map_probe(&y->index, hash, &at, &id);)
		if (y->pool->endpoints.v[id]->hash == hash)
			return y->pool->endpoints.v[id];
	return NULL;
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

static void keep_dropped(struct pool *p, struct target_plan *plan)
{
	p->n_dropped++;
	if (!p->job->keep_dropped_targets || p->dropped.n < (size_t)p->job->keep_dropped_targets)
		vec_push(&p->dropped, TAKE_PTR(plan->discovered));
}

static void sync_endpoint(struct sync *y, const struct type_config *t, struct target_plan *plan)
{
	struct pool *p = y->pool;
	struct endpoint *ep = find_endpoint(y, plan->hash);
	if (ep && ep->matched)
		return; /* the same once more: one is enough */
	const char *limit = over_label_limits(p->job, *plan->visible);
	if (limit) {
		plan->problem = xstrdup(limit);
		metric_inc(&scraper_table[M_LABEL_LIMITS]);
	}
	if (!ep) {
		ep = new_endpoint(p, plan);
		map_insert(&y->index, ep->hash, (uint32_t)p->endpoints.n - 1);
	}
	adopt(p, ep, t, plan);
}

static void sync_target(struct sync *y, struct labels group, struct labels target)
{
	const struct job_config *j = y->pool->job;
	bool any = false;
	for (size_t i = 0; i < j->n_types; i++) {
		struct target_plan plan;
		if (!j->types[i].enabled)
			continue;
		target_plan_make(j, &j->types[i], group, target, &y->arena, &plan);
		if (plan.dropped) {
			keep_dropped(y->pool, &plan);
		} else if (plan.problem) {
			metric_inc(&scraper_table[M_SYNC_FAILED]);
			LOG_WARN("msg", "target cannot be scraped", "job", j->name, "profile", j->types[i].name, "err",
				 plan.problem);
		} else {
			sync_endpoint(y, &j->types[i], &plan);
			any = true;
		}
		target_plan_release(&plan);
		arena_reset(&y->arena);
	}
	y->targets += any;
}

static void sync_group(void *arg, const struct discovery_group *g)
{
	for (size_t i = 0; i < g->n_targets; i++)
		sync_target(arg, g->labels, g->targets[i]);
}

/* Everything or nothing: which targets of too many would be scraped should not depend on chance. */
static void check_target_limit(struct sync *y)
{
	struct pool *p = y->pool;
	if (!p->job->target_limit || y->targets <= (size_t)p->job->target_limit)
		return;
	metric_inc(&scraper_table[M_TARGET_LIMIT]);
	char *text = xasprintf("the job has %zu targets, target_limit is %lld: none is scraped", y->targets,
			       (long long)p->job->target_limit);
	for (size_t i = 0; i < p->endpoints.n; i++)
		set_text(&p->endpoints.v[i]->refused, text);
	free(text);
}

static void sweep(struct pool *p)
{
	size_t kept = 0;
	for (size_t i = 0; i < p->endpoints.n; i++) {
		struct endpoint *ep = p->endpoints.v[i];
		if (ep->matched)
			p->endpoints.v[kept++] = ep;
		else
			let_go(ep);
	}
	p->endpoints.n = kept;
}

void pool_sync(struct pool *p)
{
	struct sync y = { .pool = p };
	arena_init(&y.arena, (size_t)16 << 20);
	for (size_t i = 0; i < p->endpoints.n; i++) {
		p->endpoints.v[i]->matched = false;
		map_insert(&y.index, p->endpoints.v[i]->hash, (uint32_t)i);
	}
	drop_list(p);
	discovery_each(p->discovery, sync_group, &y);
	sweep(p);
	check_target_limit(&y);
	map_free(&y.index);
	arena_free(&y.arena);
	metric_add(&scraper_table[M_SYNCS], 1, p->name);
	metric_set(&scraper_table[M_POOL_TARGETS], (double)y.targets, p->name);
}
