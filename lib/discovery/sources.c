/* SPDX-License-Identifier: Apache-2.0 */
/* Running providers, one for all jobs with equal configurations, and their groups.
 *
 *	job ── struct discovery ──┬── struct discovery_source ── provider (often with a thread)
 *	job ── struct discovery ──┘        │ groups, problem, ready; users
 *
 * Locks: `registry_lock` guards which sources run and how many use each; a source's own lock guards what it holds, and is
 * all that emitting takes. The first is taken before the second. A source without users waits IDLE_MS for a new one (a reload that
 * moves it from one job to another). Then the reaper, a thread, ends it. */
#include "discovery/discovery.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "discovery/group.h"
#include "discovery/metrics.h"

#define IDLE_MS 1000

struct discovery_source {
	const struct discovery_ops *ops;
	const void *config;
	struct discovery_provider *provider;
	void *owner;                     /* of config; a reference */
	void (*unref)(void *owner);
	char *name, *mechanism;
	const char *role;

	/* registry_lock guards these */
	unsigned users_n;
	int64_t idle_ms;                 /* monotonic: since when it has no users */

	struct mutex lock;               /* of the rest */
	struct group_set groups;
	VEC(struct discovery *) users;
	bool ready;
	char *problem;
	int64_t problem_since_ms, changed_ms;
};

struct discovery {
	char *job;
	void (*changed)(void *arg);
	void *arg;
	VEC(struct discovery_source *) sources;
	atomic_bool unread; /* changed was called, and discovery_each was not since */
};

static struct mutex registry_lock = MUTEX_INIT(RANK_DISCOVERY_REGISTRY, "discovery registry");
static pthread_cond_t registry_moved = PTHREAD_COND_INITIALIZER; /* something became idle, or has ended; or an end is wanted */
static struct {
	VEC(struct discovery_source *) sources;
	pthread_t reaper;
	bool reaper_runs, finish;
} registry;

/* ---- what a source emits ---- */

static void tell_users(struct discovery_source *s) REQUIRES(s->lock)
{
	for (size_t i = 0; i < s->users.n; i++) {
		struct discovery *d = s->users.v[i];
		if (atomic_exchange(&d->unread, true))
			metric_add(&discovery_table[SD_DELAYED], 1, d->job);
		d->changed(d->arg);
	}
}

static void count_targets(const struct discovery_source *s, const struct discovery *d, double more)
{
	metric_add(&discovery_table[SD_TARGETS], more, d->job, s->mechanism, s->role);
}

/* `put` is one of group_set_put and group_set_put_counted. */
static size_t take_in(struct discovery_source *s, const struct discovery_group *const *v, size_t n,
		      bool (*put)(struct group_set *s, const struct discovery_group *g)) REQUIRES(s->lock)
{
	size_t before = s->groups.targets, changed = 0;
	for (size_t i = 0; i < n; i++)
		changed += put(&s->groups, v[i]);
	if (!changed)
		return 0;
	s->changed_ms = clock_now_ms();
	for (size_t i = 0; i < s->users.n; i++)
		count_targets(s, s->users.v[i], (double)s->groups.targets - (double)before);
	tell_users(s);
	return changed;
}

static void take_in_locked(struct discovery_source *s, const struct discovery_group *const *v, size_t n,
			   bool (*put)(struct group_set *s, const struct discovery_group *g))
{
	mutex_lock(&s->lock);
	size_t changed = take_in(s, v, n, put);
	mutex_unlock(&s->lock);
	metric_add(&discovery_table[SD_RECEIVED], (double)n, s->mechanism, s->role);
	if (changed)
		metric_add(&discovery_table[SD_UPDATES], (double)changed, s->mechanism, s->role);
}

static void on_group(void *arg, const struct discovery_group *g)
{
	take_in_locked(arg, &g, 1, group_set_put);
}

static void on_groups(void *arg, const struct discovery_group *const *v, size_t n)
{
	take_in_locked(arg, v, n, group_set_put_counted);
}

void discovery_emit_groups(const struct discovery_emit *emit, const struct discovery_group *const *v, size_t n)
{
	if (emit->groups)
		emit->groups(emit->arg, v, n);
	else
		for (size_t i = 0; i < n; i++)
			emit->group(emit->arg, v[i]);
}

static void count_problem(const struct discovery_source *s, int more)
{
	metric_add(&discovery_table[SD_FAILED], more, s->mechanism, s->role);
}

static void on_problem(void *arg, const struct err *e)
{
	struct discovery_source *s = arg;
	bool wrong = e && e->code;
	mutex_lock(&s->lock);
	bool was = s->problem, news = wrong && (!was || !err_same_but_for_numbers(s->problem, e->msg));
	if (wrong && !was)
		s->problem_since_ms = clock_now_ms();
	free(s->problem);
	s->problem = wrong ? xstrdup(e->msg) : NULL;
	if (wrong != was)
		count_problem(s, wrong ? 1 : -1);
	mutex_unlock(&s->lock);
	if (news)
		LOG_WARN("msg", "discovery failed; what it told of before stays", "mechanism", s->mechanism, "name", s->name, "err",
			 e->msg);
	else if (was && !wrong)
		LOG_INFO("msg", "discovery works again", "mechanism", s->mechanism, "name", s->name);
}

static void on_ready(void *arg)
{
	struct discovery_source *s = arg;
	mutex_lock(&s->lock);
	if (!s->ready) {
		s->ready = true;
		tell_users(s);
	}
	mutex_unlock(&s->lock);
}

/* ---- sources: one for each configuration ---- */

static char *mechanism_of(const struct discovery_ops *ops)
{
	struct view key = view_of(ops->key);
	const struct view ends[] = { VIEW("_sd_configs"), VIEW("_configs") };
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (view_ends(key, ends[i]))
			return xstrndup(key.ptr, key.len - ends[i].len);
	return xstrdup(ops->key);
}

static char *name_of(const struct discovery_config *c)
{
	struct buf b = { .max = 1024 };
	if (c->ops->name)
		c->ops->name(c->config, &b);
	char *name = xstrndup(buf_view(&b).ptr, b.len);
	buf_free(&b);
	return name;
}

static void source_free(struct discovery_source *s)
{
	if (s->problem)
		count_problem(s, -1);
	if (s->unref)
		s->unref(s->owner);
	group_set_free(&s->groups);
	vec_free(&s->users);
	mutex_destroy(&s->lock);
	free(s->problem);
	free(s->mechanism);
	free(s->name);
	free(s);
}

static int source_new(struct discovery_source **ret, const struct discovery_config *c, const struct discovery_user *user, struct err *e)
{
	struct discovery_source *s = NEW(struct discovery_source);
	const struct discovery_emit emit = { on_group, on_problem, on_ready, s, on_groups };
	*s = (struct discovery_source){ .ops = c->ops, .config = c->config, .name = name_of(c), .mechanism = mechanism_of(c->ops),
			      .role = c->ops->role ? c->ops->role(c->config) : "" };
	mutex_init(&s->lock, RANK_DISCOVERY_SOURCE, "discovery source");
	if (user->owner) {
		user->ref(user->owner);
		s->owner = user->owner;
		s->unref = user->unref;
	}
	int rc = s->ops->start(&s->provider, s->config, &emit, e);
	if (rc) {
		source_free(s);
		return err_wrap(e, "%s", c->ops->key);
	}
	*ret = s;
	return 0;
}

static struct discovery_source *find_source(const struct discovery_config *c) REQUIRES(registry_lock)
{
	for (size_t i = 0; i < registry.sources.n; i++) {
		struct discovery_source *s = registry.sources.v[i];
		if (s->ops == c->ops && (s->config == c->config || s->ops->same(s->config, c->config)))
			return s;
	}
	return NULL;
}

static bool uses(const struct discovery *d, const struct discovery_source *s)
{
	for (size_t i = 0; i < d->sources.n; i++)
		if (d->sources.v[i] == s)
			return true;
	return false;
}

static int use(struct discovery *d, const struct discovery_config *c, const struct discovery_user *user, struct err *e) REQUIRES(registry_lock)
{
	struct discovery_source *s = find_source(c);
	if (s && uses(d, s))
		return 0;
	if (!s) {
		int rc = source_new(&s, c, user, e);
		if (rc)
			return rc;
		vec_push(&registry.sources, s);
	}
	s->users_n++;
	vec_push(&d->sources, s);
	mutex_lock(&s->lock);
	vec_push(&s->users, d);
	count_targets(s, d, (double)s->groups.targets);
	mutex_unlock(&s->lock);
	return 0;
}

static void leave(struct discovery *d, struct discovery_source *s)
{
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->users.n; i++)
		if (s->users.v[i] == d) {
			s->users.v[i] = s->users.v[--s->users.n];
			break;
		}
	count_targets(s, d, -(double)s->groups.targets);
	mutex_unlock(&s->lock);
	mutex_lock(&registry_lock);
	if (--s->users_n == 0)
		s->idle_ms = clock_mono_ms();
	mutex_unlock(&registry_lock);
}

/* ---- ending unused sources ---- */

/* Takes the next one out that has to end now. *ret_wait_ms: how long until one has to; -1 = none is idle. */
static struct discovery_source *take_idle(int64_t *ret_wait_ms) REQUIRES(registry_lock)
{
	*ret_wait_ms = -1;
	for (size_t i = 0; i < registry.sources.n; i++) {
		struct discovery_source *s = registry.sources.v[i];
		if (s->users_n)
			continue;
		int64_t wait = registry.finish ? 0 : s->idle_ms + IDLE_MS - clock_mono_ms();
		if (wait <= 0) {
			registry.sources.v[i] = registry.sources.v[--registry.sources.n];
			return s;
		}
		if (*ret_wait_ms < 0 || wait < *ret_wait_ms)
			*ret_wait_ms = wait;
	}
	return NULL;
}

/* Lets registry_lock go meanwhile. All that are due are told before the first is waited for. */
static bool reap_due(int64_t *ret_wait_ms) REQUIRES(registry_lock)
{
	VEC(struct discovery_source *) due = { 0 };
	for (struct discovery_source *s; (s = take_idle(ret_wait_ms));)
		vec_push(&due, s);
	if (!due.n)
		return false;
	mutex_unlock(&registry_lock);
	for (size_t i = 0; i < due.n; i++)
		if (due.v[i]->ops->cancel)
			due.v[i]->ops->cancel(due.v[i]->provider);
	for (size_t i = 0; i < due.n; i++) {
		due.v[i]->ops->stop(due.v[i]->provider);
		source_free(due.v[i]);
	}
	vec_free(&due);
	mutex_lock(&registry_lock);
	return true;
}

static void wait_moved(int64_t ms) REQUIRES(registry_lock)
{
	if (ms < 0)
		mutex_wait(&registry_lock, &registry_moved);
	else
		mutex_wait_ms(&registry_lock, &registry_moved, clock_mono_ms() + ms);
}

static void *reaper_main(void *arg)
{
	int64_t wait;
	mutex_lock(&registry_lock);
	for (;;) {
		if (reap_due(&wait))
			continue;
		if (registry.finish)
			break;
		wait_moved(wait);
	}
	mutex_unlock(&registry_lock);
	return NULL;
}

static void wake_reaper(void)
{
	int64_t wait;
	mutex_lock(&registry_lock);
	if (!registry.reaper_runs && !registry.finish)
		registry.reaper_runs = thread_start(&registry.reaper, "sd-reaper", reaper_main, NULL, NULL) == 0;
	if (registry.reaper_runs)
		pthread_cond_broadcast(&registry_moved);
	else
		reap_due(&wait); /* no thread could be started: discovery_finish ends the rest */
	mutex_unlock(&registry_lock);
}

void discovery_finish(void)
{
	int64_t wait;
	mutex_lock(&registry_lock);
	while (registry.finish) /* somebody else is at it */
		mutex_wait(&registry_lock, &registry_moved);
	registry.finish = true;
	pthread_cond_broadcast(&registry_moved);
	if (registry.reaper_runs) {
		mutex_unlock(&registry_lock);
		pthread_join(registry.reaper, NULL);
		mutex_lock(&registry_lock);
	}
	while (reap_due(&wait))
		;
	registry.reaper_runs = registry.finish = false;
	if (!registry.sources.n)
		vec_free(&registry.sources);
	pthread_cond_broadcast(&registry_moved);
	mutex_unlock(&registry_lock);
}

/* ---- the providers of one job ---- */

int discovery_start(struct discovery **ret, const struct discovery_configs *configs, const struct discovery_user *user,
		    struct err *e)
{
	struct discovery *d = NEW(struct discovery);
	d->job = xstrdup(user->job);
	d->changed = user->changed;
	d->arg = user->arg;
	int rc = 0;
	mutex_lock(&registry_lock);
	for (size_t i = 0; i < configs->n && !rc; i++)
		rc = use(d, &configs->v[i], user, e);
	mutex_unlock(&registry_lock);
	if (rc) {
		discovery_stop(d);
		return rc;
	}
	*ret = d;
	return 0;
}

void discovery_stop(struct discovery *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->sources.n; i++)
		leave(d, d->sources.v[i]);
	if (d->sources.n)
		wake_reaper();
	vec_free(&d->sources);
	free(d->job);
	free(d);
}

void discovery_each(struct discovery *d, void (*group)(void *arg, const struct discovery_group *g), void *arg)
{
	VEC(const struct discovery_group *) now = { 0 };
	atomic_store(&d->unread, false);
	for (size_t i = 0; i < d->sources.n; i++) {
		struct discovery_source *s = d->sources.v[i];
		mutex_lock(&s->lock);
		vec_reserve(&now, now.n + s->groups.groups.n);
		for (size_t k = 0; k < s->groups.groups.n; k++)
			now.v[now.n++] = discovery_group_ref(s->groups.groups.v[k]);
		mutex_unlock(&s->lock);
	}
	for (size_t i = 0; i < now.n; i++) {
		group(arg, now.v[i]);
		discovery_group_unref(now.v[i]);
	}
	vec_free(&now);
}

bool discovery_ready(struct discovery *d)
{
	bool ready = true;
	for (size_t i = 0; i < d->sources.n && ready; i++) {
		struct discovery_source *s = d->sources.v[i];
		mutex_lock(&s->lock);
		ready = s->ready;
		mutex_unlock(&s->lock);
	}
	return ready;
}

void discovery_each_status(struct discovery *d, void (*fn)(void *arg, const struct discovery_status *s), void *arg)
{
	for (size_t i = 0; i < d->sources.n; i++) {
		struct discovery_source *s = d->sources.v[i];
		mutex_lock(&s->lock);
		struct discovery_status st = { .kind = s->ops->key, .role = s->role, .name = s->name,
					       .groups = s->groups.groups.n, .targets = s->groups.targets,
					       .ready = s->ready, .problem_since_ms = s->problem ? s->problem_since_ms : 0,
					       .changed_ms = s->changed_ms, .users = (unsigned)s->users.n };
		char *problem AUTOFREE = s->problem ? xstrdup(s->problem) : NULL;
		mutex_unlock(&s->lock);
		st.problem = problem;
		fn(arg, &st);
	}
}
