/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point of the storage's floats, and the thread that writes and sends them.
 *
 *	committer ── take ──► intake (memory) ──► [thread `remote-write`] ──► outlets, each a queue on disk ──► receivers
 *
 * The storage keeps in its log what the queues do not have on disk yet. There is a limit: if a queue cannot be written for long, or
 * the memory for new floats is full, floats are dropped and counted. So a failing disk delays neither ingestion nor the log. Before
 * the storage has read its log there is no thread: the caller that passes floats writes them.
 * lock guards the intake and what waits for the thread; outlets are the thread's alone. */
#include "remote/remote_write.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "remote/outlet.h"

#define QUEUE_BYTES ((uint64_t)1 << 30)
#define INTAKE_MAX ((size_t)64 << 20)  /* callers wait above it, and drop more while nothing can be written */
#define INTAKE_FLUSH ((size_t)1 << 20)
#define TAKE_WAIT_MS 5000
#define FLUSH_MS 1000
#define GIVE_UP_MS 60000               /* so long is it tried to write what was taken in */
#define LOOK_MS 1000
#define CLOSE_MS 1000

struct intake {
	struct arena arena;
	VEC(struct sink_float) floats;
	uint64_t number;
};

/* A configuration that the thread is to take over. */
struct change {
	struct remote_write_config *config; /* a reference */
	struct fetch_client **clients;      /* one per receiver; references */
	bool of_start;                      /* no caller waits for it: it is retried until it works */
	int64_t again_ms;
	int rc;
	struct err e;
	bool done;
};

struct remote_write {
	struct tap tap;
	struct remote_write_options o;
	char *dir, *user_agent;
	struct fetch_loop *loop;
	pthread_t thread;
	bool thread_runs;
	struct mutex apply;         /* one change at a time */
	struct mutex lock;
	pthread_cond_t moved;       /* the intake was taken, or a change is done */
	/* lock guards: */
	struct intake in;
	uint64_t handed;            /* the number of the last call of take */
	uint64_t lost;              /* samples that were dropped because the intake was full, not counted yet */
	uint64_t flushed;           /* outlets have everything up to here on disk */
	bool full, closing, ending; /* full: floats are dropped, which is logged */
	struct change *change;
	bool changing;              /* the thread is at it */
	/* the thread's: */
	struct intake work;         /* what is being written */
	int64_t work_since_ms;      /* since when, 0 = nothing is */
	int64_t work_tried_ms;      /* when it was last tried */
	int64_t in_since_ms, close_ms;
	VEC(struct outlet *) outlets;
	bool told_profiles;
};

/* ---- floats come ---- */

static void put(struct intake *in, uint64_t number, const struct sink_float *f, size_t n)
{
	double highest = 0;
	in->number = number;
	for (size_t i = 0; i < n; i++) {
		struct labels l = i && f[i].labels.v == f[i - 1].labels.v ? in->floats.v[in->floats.n - 1].labels
									 : labels_copy(&in->arena, f[i].labels);
		vec_push(&in->floats, (struct sink_float){ l, f[i].t_ms, f[i].v });
		highest = MAX(highest, (double)f[i].t_ms / 1000);
	}
	metric_add(&outlet_metrics[RM_IN], (double)n);
	if (highest > metric_get(&outlet_metrics[RM_HIGHEST_IN]))
		metric_set(&outlet_metrics[RM_HIGHEST_IN], highest);
}

static size_t bytes_of(const struct intake *in)
{
	return in->arena.used + in->floats.n * sizeof *in->floats.v;
}

/* False: there was none within some seconds, or nothing can be written. */
static bool wait_for_room(struct remote_write *w) REQUIRES(w->lock)
{
	int64_t until = clock_mono_ms() + TAKE_WAIT_MS;
	while (bytes_of(&w->in) > INTAKE_MAX && !w->full && mutex_wait_ms(&w->lock, &w->moved, until))
		;
	bool room = bytes_of(&w->in) <= INTAKE_MAX;
	if (!room && !w->full)
		LOG_ERROR("msg", "remote-write queues are not written: samples are dropped until they are");
	w->full = !room;
	return room;
}

static void flush(struct remote_write *w, bool end);

/* During a replay: whether a queue has the floats of the intake but not newer ones, or the reverse. */
static bool is_between(const struct remote_write *w, uint64_t number)
{
	for (size_t i = 0; w->in.floats.n && i < w->outlets.n; i++)
		if ((w->outlets.v[i]->number >= w->in.number) != (w->outlets.v[i]->number >= number))
			return true;
	return false;
}

static void take(struct tap *t, uint64_t number, const struct sink_float *f, size_t n)
{
	struct remote_write *w = (struct remote_write *)(void *)t;
	if (!w->thread_runs && is_between(w, number))
		flush(w, false);
	mutex_lock(&w->lock);
	bool first = !w->in.floats.n, threaded = w->thread_runs;
	if (n && (!threaded || wait_for_room(w)))
		put(&w->in, number, f, n);
	else if (n)
		w->lost += n;
	w->in.number = w->handed = number; /* the void records between two calls have no floats */
	bool much = bytes_of(&w->in) > INTAKE_FLUSH;
	mutex_unlock(&w->lock);
	if (!threaded && much)
		flush(w, false);
	else if (threaded && n && (first || much))
		fetch_loop_wake(w->loop);
}

static uint64_t durable(struct tap *t)
{
	struct remote_write *w = (struct remote_write *)(void *)t;
	mutex_lock(&w->lock);
	uint64_t number = w->in.floats.n || w->work_since_ms ? w->flushed : w->handed;
	mutex_unlock(&w->lock);
	return number;
}

/* ---- and are written ---- */

static bool take_intake(struct remote_write *w)
{
	mutex_lock(&w->lock);
	if (!w->work_since_ms && w->in.floats.n) {
		struct intake empty = w->work;
		w->work = w->in;
		w->in = empty;
		w->in.number = w->work.number;
		w->work_since_ms = clock_mono_ms();
	}
	mutex_unlock(&w->lock);
	w->in_since_ms = 0;
	return w->work_since_ms;
}

static bool may_give_up(struct remote_write *w)
{
	mutex_lock(&w->lock);
	bool much = bytes_of(&w->in) > INTAKE_MAX;
	mutex_unlock(&w->lock);
	return much || clock_mono_ms() - w->work_since_ms > GIVE_UP_MS;
}

static void work_is_done(struct remote_write *w)
{
	mutex_lock(&w->lock);
	w->flushed = w->work.number;
	w->work_since_ms = 0;
	pthread_cond_broadcast(&w->moved);
	mutex_unlock(&w->lock);
	w->work.floats.n = 0;
	arena_reset(&w->work.arena);
}

/* Puts on disk what came. Floats that cannot be written stay for the next attempt, for a while. end: also stores the position if no
 * float was selected. */
static void flush(struct remote_write *w, bool end)
{
	struct err e;
	bool failed = false;
	w->work_tried_ms = clock_mono_ms();
	if (!take_intake(w)) {
		for (size_t i = 0; end && i < w->outlets.n; i++)
			if (outlet_append(w->outlets.v[i], w->in.number, NULL, 0, true, &e))
				LOG_WARN("msg", "cannot note how far a remote-write queue is", "err", e.msg);
		return;
	}
	for (size_t i = 0; i < w->outlets.n; i++)
		failed |= outlet_append(w->outlets.v[i], w->work.number, w->work.floats.v, w->work.floats.n, end, &e) != 0;
	if (failed && !may_give_up(w))
		return;
	for (size_t i = 0; failed && i < w->outlets.n; i++)
		outlet_give_up(w->outlets.v[i], w->work.number, w->work.floats.n);
	work_is_done(w);
}

/* The time at which the intake is written. */
static int64_t flush_time(struct remote_write *w, int64_t now_ms)
{
	int64_t wait = FLUSH_MS;
	mutex_lock(&w->lock);
	bool any = w->in.floats.n, much = bytes_of(&w->in) > INTAKE_FLUSH;
	mutex_unlock(&w->lock);
	if (w->work_since_ms)
		return w->work_tried_ms + LOOK_MS; /* it failed then */
	if (!any)
		return INT64_MAX;
	for (size_t i = 0; i < w->outlets.n; i++)
		wait = MIN(wait, w->outlets.v[i]->config->queue.deadline_ms / 2);
	if (!w->in_since_ms)
		w->in_since_ms = now_ms;
	return much ? now_ms : w->in_since_ms + wait;
}

/* ---- what the configuration says ---- */

/* Names of directories come from no configuration. */
static char *dir_of(const struct remote_write *w, const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	if (strspn(name, plain) == strlen(name) && strlen(name) <= 64)
		return xasprintf("%s/%s", w->dir, name);
	return xasprintf("%s/=%016llx", w->dir, (unsigned long long)hash_stable_view(view_of(name)));
}

static struct outlet *find(const struct remote_write *w, const char *name)
{
	for (size_t i = 0; i < w->outlets.n; i++)
		if (!strcmp(w->outlets.v[i]->name, name))
			return w->outlets.v[i];
	return NULL;
}

static int open_outlet(struct remote_write *w, struct change *c, size_t i, struct outlet **ret, struct err *e)
{
	const struct receiver_config *r = &c->config->receivers.v[i];
	uint64_t from = durable(&w->tap);
	const struct backlog_options o = { .max_bytes = w->o.queue_bytes, .segment_bytes = w->o.segment_bytes };
	AUTOFREE char *dir = dir_of(w, r->name);
	int rc = outlet_new(ret, c->config, r, fetch_client_ref(c->clients[i]), w->loop, dir, &o, e);
	if (!rc && w->thread_runs && backlog_is_new((*ret)->backlog)) {
		rc = backlog_begin((*ret)->backlog, from, e);
		(*ret)->number = from;
		if (rc) {
			outlet_free(*ret);
			*ret = NULL;
		}
	}
	return rc ? err_wrap(e, "remote_write %s", r->name) : 0;
}

static bool is_wanted(const struct remote_write *w, const char *name)
{
	for (size_t i = 0; i < w->outlets.n; i++) {
		AUTOFREE char *dir = dir_of(w, w->outlets.v[i]->name);
		if (!strcmp(strrchr(dir, '/') + 1, name))
			return true;
	}
	return false;
}

static int remove_unwanted(void *arg, const char *name, struct err *e)
{
	struct remote_write *w = arg;
	(void)e;
	if (!is_wanted(w, name)) {
		AUTOFREE char *dir = xasprintf("%s/%s", w->dir, name);
		LOG_INFO("msg", "the queue of a remote-write receiver that is gone is removed", "dir", dir);
		files_remove_tree(dir);
	}
	return 0;
}

/* The outlets of a new configuration, in its order; new ones are opened. At the start one that cannot be leaves a gap (NULL). */
static int find_all(struct remote_write *w, struct change *c, struct outlet **all, struct outlet **fresh, struct err *e)
{
	const struct receiver_configs *r = &c->config->receivers;
	int rc = 0;
	for (size_t i = 0; i < r->n && (!rc || c->of_start); i++) {
		if ((all[i] = find(w, r->v[i].name)))
			continue;
		int failed = open_outlet(w, c, i, &fresh[i], e);
		all[i] = failed ? NULL : fresh[i];
		rc = rc ? rc : failed;
	}
	return rc;
}

static void use(struct remote_write *w, struct change *c, struct outlet **all, struct outlet **fresh)
{
	const struct receiver_configs *r = &c->config->receivers;
	for (size_t i = 0; i < w->outlets.n; i++) {
		bool stays = false;
		for (size_t k = 0; k < r->n; k++)
			stays |= all[k] == w->outlets.v[i];
		if (!stays)
			outlet_free(w->outlets.v[i]);
	}
	w->outlets.n = 0;
	for (size_t i = 0; i < r->n; i++) {
		if (all[i] && !fresh[i] && all[i]->owner != c->config)
			outlet_configure(all[i], c->config, &r->v[i], fetch_client_ref(c->clients[i]));
		if (all[i])
			vec_push(&w->outlets, all[i]);
	}
}

/* If a new one cannot be opened, nothing changes; at the start the others work, and this one is retried. */
static int take_over(struct remote_write *w, struct change *c, struct err *e)
{
	const struct receiver_configs *r = &c->config->receivers;
	struct outlet **all = xcalloc(r->n + 1, sizeof(struct outlet *)), **fresh = xcalloc(r->n + 1, sizeof(struct outlet *));
	int rc = find_all(w, c, all, fresh, e);
	for (size_t i = 0; i < r->n && rc && !c->of_start; i++)
		outlet_free(fresh[i]);
	if (!rc || c->of_start)
		use(w, c, all, fresh);
	free(all);
	free(fresh);
	if (rc) {
		atomic_store(&w->tap.wanted, w->outlets.n > 0);
		return rc;
	}
	struct err left;
	if (access(w->dir, F_OK) == 0 && files_each(w->dir, remove_unwanted, w, &left)) /* there is none until there is a receiver */
		LOG_WARN("msg", "remote_write: queues of receivers that are gone stay on disk", "err", left.msg);
	if (r->n && !w->told_profiles)
		LOG_INFO("msg", "remote_write sends floats; profiles are not sent", "receivers", LOG_NUM(r->n));
	w->told_profiles |= r->n > 0;
	atomic_store(&w->tap.wanted, r->n > 0);
	return 0;
}

static void do_change(struct remote_write *w)
{
	mutex_lock(&w->lock);
	struct change *c = w->change && !w->change->done && clock_mono_ms() >= w->change->again_ms ? w->change : NULL;
	w->changing = c != NULL;
	mutex_unlock(&w->lock);
	if (!c)
		return;
	atomic_store(&w->tap.wanted, true); /* what comes from here on is for new ones */
	flush(w, false);
	int rc = take_over(w, c, &c->e);
	atomic_store(&w->tap.wanted, w->outlets.n > 0);
	if (!rc && c->of_start)
		LOG_INFO("msg", "all queues of remote_write are open after all");
	mutex_lock(&w->lock);
	c->rc = rc;
	c->done = !rc || !c->of_start;
	c->again_ms = clock_mono_ms() + LOOK_MS;
	w->changing = false;
	pthread_cond_broadcast(&w->moved);
	mutex_unlock(&w->lock);
}

static void change_free(struct change *c)
{
	for (size_t i = 0; c && i < c->config->receivers.n; i++)
		fetch_client_unref(c->clients[i]);
	if (c) {
		free(c->clients);
		remote_write_config_unref(c->config);
	}
	free(c);
}

static void unref_config(void *owner)
{
	remote_write_config_unref(owner);
}

static struct change *change_new(struct remote_write *w, struct remote_write_config *config)
{
	struct change *c = NEW(struct change);
	c->config = remote_write_config_ref(config);
	c->clients = xcalloc(config->receivers.n + 1, sizeof(struct fetch_client *));
	for (size_t i = 0; i < config->receivers.n; i++) {
		c->clients[i] = fetch_client_new(&config->receivers.v[i].http, w->user_agent);
		fetch_client_owner(c->clients[i], unref_config, remote_write_config_ref(config));
	}
	return c;
}

int remote_write_apply(struct remote_write *w, struct remote_write_config *config, struct err *e)
{
	struct change *c = change_new(w, config), *old;
	int rc = 0;
	mutex_lock(&w->apply);
	mutex_lock(&w->lock);
	while (w->changing) /* with one from before there was a thread */
		mutex_wait(&w->lock, &w->moved);
	old = w->change;
	w->change = c;
	bool threaded = w->thread_runs;
	if (threaded) {
		fetch_loop_wake(w->loop);
		while (!c->done && !w->ending)
			mutex_wait(&w->lock, &w->moved);
		w->change = NULL;
		rc = c->rc;
		if (rc)
			*e = c->e;
	}
	mutex_unlock(&w->lock);
	mutex_unlock(&w->apply);
	change_free(old);
	if (threaded)
		change_free(c);
	return rc;
}

/* ---- the thread ---- */

static bool is_sending(const struct remote_write *w)
{
	for (size_t i = 0; i < w->outlets.n; i++)
		if (outlet_is_sending(w->outlets.v[i]))
			return true;
	return false;
}

static void *remote_write_main(void *arg)
{
	struct remote_write *w = arg;
	struct err e = { 0 };
	for (bool ending = false; !ending;) {
		mutex_lock(&w->lock);
		bool closing = w->closing;
		uint64_t lost = w->lost;
		w->lost = 0;
		ending = w->ending;
		mutex_unlock(&w->lock);
		int64_t now = clock_mono_ms(), next = now + LOOK_MS;
		if (closing && !w->close_ms)
			w->close_ms = now + CLOSE_MS;
		do_change(w);
		if (flush_time(w, now) <= now)
			flush(w, false);
		next = MIN(next, flush_time(w, now));
		for (size_t i = 0; i < w->outlets.n; i++) {
			outlet_count_lost(w->outlets.v[i], lost);
			next = MIN(next, outlet_step(w->outlets.v[i], now, closing));
		}
		if (ending && is_sending(w) && now < w->close_ms)
			ending = false;
		if (!ending && fetch_loop_turn(w->loop, (int)MIN(MAX(next - clock_mono_ms(), 0), LOOK_MS), &e)) {
			LOG_ERROR("msg", "the loop of remote-write failed; it goes on", "err", e.msg);
			clock_sleep_ms(100);
		}
	}
	flush(w, true);
	for (size_t i = 0; i < w->outlets.n; i++)
		outlet_step(w->outlets.v[i], clock_mono_ms(), true);
	return NULL;
}

/* ---- the storage begins ---- */

static int tap_open(struct tap *t, uint64_t *ret_has, uint64_t *ret_last, struct err *e)
{
	struct remote_write *w = (struct remote_write *)(void *)t;
	mutex_lock(&w->lock);
	struct change *c = TAKE_PTR(w->change);
	mutex_unlock(&w->lock);
	w->loop = fetch_loop_new(e);
	int rc = w->loop ? 0 : -(int)e->code;
	if (c)
		c->of_start = true;
	if (!rc && c && take_over(w, c, e)) {
		LOG_ERROR("msg", "a queue of remote_write cannot be opened, it is tried again and again", "err", e->msg); /* the rest works */
		mutex_lock(&w->lock);
		if (!w->change) /* there may have been a reload */
			w->change = TAKE_PTR(c);
		mutex_unlock(&w->lock);
	}
	change_free(c);
	*ret_has = UINT64_MAX;
	*ret_last = 0;
	for (size_t i = 0; i < w->outlets.n; i++) {
		struct outlet *o = w->outlets.v[i];
		if (backlog_is_new(o->backlog)) {
			o->number = UINT64_MAX; /* until it begins */
			continue;
		}
		*ret_has = MIN(*ret_has, o->number);
		*ret_last = MAX(*ret_last, o->number);
	}
	return rc;
}

static void tap_ready(struct tap *t, uint64_t number)
{
	struct remote_write *w = (struct remote_write *)(void *)t;
	struct err e = { 0 };
	flush(w, false);
	w->in.number = w->handed = number;
	if (!w->work_since_ms && !w->in.floats.n)
		w->flushed = number;
	for (size_t i = 0; i < w->outlets.n; i++) {
		struct outlet *o = w->outlets.v[i];
		if (!backlog_is_new(o->backlog))
			continue;
		if (backlog_begin(o->backlog, number, &e))
			LOG_WARN("msg", "the queue of a remote-write receiver cannot be written", "remote_name", o->name, "err", e.msg);
		o->number = number;
	}
	mutex_lock(&w->lock); /* apply may be called already */
	w->thread_runs = !thread_start(&w->thread, "remote-write", remote_write_main, w, &e);
	bool runs = w->thread_runs;
	mutex_unlock(&w->lock);
	if (!runs) {
		LOG_ERROR("msg", "remote_write cannot run", "err", e.msg);
		atomic_store(&w->tap.wanted, false);
	}
}

/* ---- begin and end ---- */

void remote_write_new(struct remote_write **ret, const struct remote_write_options *o)
{
	struct remote_write *w = NEW(struct remote_write);
	w->o = *o;
	w->o.queue_bytes = o->queue_bytes ? o->queue_bytes : QUEUE_BYTES;
	w->dir = xstrdup(o->dir);
	w->user_agent = xstrdup(o->user_agent ? o->user_agent : "pyrrha");
	w->tap.open = tap_open;
	w->tap.ready = tap_ready;
	w->tap.take = take;
	w->tap.durable = durable;
	arena_init(&w->in.arena, 0);
	arena_init(&w->work.arena, 0);
	mutex_init(&w->apply, RANK_REMOTE_WRITE_APPLY, "remote_write change");
	mutex_init(&w->lock, RANK_REMOTE_WRITE, "remote_write");
	pthread_cond_init(&w->moved, NULL);
	*ret = w;
}

struct tap *remote_write_tap(struct remote_write *w)
{
	return &w->tap;
}

static void set_ending(struct remote_write *w, bool ending)
{
	mutex_lock(&w->lock);
	w->closing = true;
	w->ending |= ending;
	pthread_cond_broadcast(&w->moved);
	mutex_unlock(&w->lock);
	if (w->loop)
		fetch_loop_wake(w->loop);
}

void remote_write_close(struct remote_write *w)
{
	if (w)
		set_ending(w, false);
}

void remote_write_free(struct remote_write *w)
{
	if (!w)
		return;
	set_ending(w, true);
	if (w->thread_runs)
		pthread_join(w->thread, NULL);
	for (size_t i = 0; i < w->outlets.n; i++)
		outlet_free(w->outlets.v[i]);
	vec_free(&w->outlets);
	change_free(w->change);
	if (w->loop)
		fetch_loop_free(w->loop);
	vec_free(&w->in.floats);
	vec_free(&w->work.floats);
	arena_free(&w->in.arena);
	arena_free(&w->work.arena);
	mutex_destroy(&w->apply);
	mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->moved);
	free(w->dir);
	free(w->user_agent);
	free(w);
}

void remote_write_register_metrics(void)
{
	metrics_register(outlet_metrics, RM_COUNT_);
}
