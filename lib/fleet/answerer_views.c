/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/answerer_views.h"

#include <errno.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/lock.h"
#include "fleet/answerer.h"
#include "fleet/answerer_metrics.h"

struct answerer_views {
	struct mutex lock;           /* of what follows */
	pthread_cond_t changed;      /* the thread has something to do, or ends */
	pthread_t thread;
	bool has_thread, closed;
	struct answerer_views_options o; /* not under it */
	int64_t tidy_ms;             /* clock_mono_ms: when it is to tidy up next */
	VEC(struct answerer_view *) v; /* listed ones, in no order */
};

uint64_t answerer_random(void)
{
	uint64_t x = 0;
	while (!x)
		if (getrandom(&x, sizeof x, 0) != sizeof x && errno != EINTR)
			abort(); /* no random numbers: tokens could be guessed */
	return x;
}

static void views_destroy(struct answerer_view *x)
{
	x->view->ops->release(x->view);
	vec_free(&x->kinds);
	mutex_destroy(&x->lock);
	free(x);
}

/* Takes the i-th out of the list. Returns the view if the caller has to destroy it, without the lock: releasing it may take long. */
static struct answerer_view *views_unlist(struct answerer_views *t, size_t i, const char *why) REQUIRES(t->lock)
{
	struct answerer_view *x = t->v.v[i];
	t->v.v[i] = t->v.v[--t->v.n];
	x->listed = false;
	metric_add(&answerer_metrics[M_VIEWS_OPEN], -1);
	metric_add(&answerer_metrics[M_VIEWS_DROPPED], 1, why);
	return x->users ? NULL : x;
}

/* Why a view is not kept any longer; NULL: it is. */
static const char *views_why_old(const struct answerer_views *t, const struct answerer_view *x, int64_t now_ms)
{
	if (now_ms - x->opened_ms >= t->o.age_ms)
		return "age";
	return !x->users && now_ms - x->used_ms >= t->o.idle_ms ? "idle" : NULL;
}

/* A view that is too old; NULL: there is none. */
static struct answerer_view *views_next_old(struct answerer_views *t, int64_t now_ms) REQUIRES(t->lock)
{
	for (size_t i = t->v.n; i-- > 0;) {
		const char *why = views_why_old(t, t->v.v[i], now_ms);
		struct answerer_view *x = why ? views_unlist(t, i, why) : NULL;
		if (x)
			return x;
	}
	return NULL;
}

/* When the thread has something to do; INT64_MAX: never, as things are. */
static int64_t views_next_ms(const struct answerer_views *t) REQUIRES(t->lock)
{
	int64_t next = t->o.tidy ? t->tidy_ms : INT64_MAX;
	for (size_t i = 0; i < t->v.n; i++) {
		const struct answerer_view *x = t->v.v[i];
		next = MIN(next, x->opened_ms + t->o.age_ms);
		if (!x->users)
			next = MIN(next, x->used_ms + t->o.idle_ms);
	}
	return next;
}

static void *views_thread(void *arg)
{
	struct answerer_views *t = arg;
	mutex_lock(&t->lock);
	while (!t->closed) {
		struct answerer_view *x = views_next_old(t, clock_mono_ms());
		int64_t next = views_next_ms(t);
		if (x) {
			mutex_unlock(&t->lock);
			views_destroy(x);
			mutex_lock(&t->lock);
		} else if (t->o.tidy && t->tidy_ms <= clock_mono_ms()) {
			t->tidy_ms = clock_mono_ms() + t->o.tidy_ms;
			mutex_unlock(&t->lock);
			t->o.tidy(t->o.arg);
			mutex_lock(&t->lock);
		} else if (next == INT64_MAX) {
			mutex_wait(&t->lock, &t->changed);
		} else {
			mutex_wait_ms(&t->lock, &t->changed, next);
		}
	}
	mutex_unlock(&t->lock);
	return NULL;
}

struct answerer_views *answerer_views_new(const struct answerer_views_options *o)
{
	struct answerer_views *t = NEW(struct answerer_views);
	mutex_init(&t->lock, LOCK_LEAF, "views of other servers");
	pthread_cond_init(&t->changed, NULL);
	t->o = *o;
	t->tidy_ms = clock_mono_ms() + o->tidy_ms;
	return t;
}

void answerer_views_free(struct answerer_views *t)
{
	mutex_lock(&t->lock);
	t->closed = true;
	pthread_cond_signal(&t->changed);
	mutex_unlock(&t->lock);
	if (t->has_thread)
		pthread_join(t->thread, NULL);
	for (size_t i = 0; i < t->v.n; i++) {
		metric_add(&answerer_metrics[M_VIEWS_OPEN], -1);
		views_destroy(t->v.v[i]);
	}
	vec_free(&t->v);
	pthread_cond_destroy(&t->changed);
	mutex_destroy(&t->lock);
	free(t);
}

static bool views_has_many(const struct answerer_views *t, uint64_t asker) REQUIRES(t->lock)
{
	size_t n = 0;
	for (size_t i = 0; i < t->v.n; i++)
		n += t->v.v[i]->asker == asker;
	return n > FLEET_VIEWS_MAX / 4;
}

static bool views_goes_before(const struct answerer_view *x, const struct answerer_view *y)
{
	return !x->users != !y->users ? !x->users : x->used_ms < y->used_ms;
}

/* The view that makes room for one of the asker: that was not asked for the longest; one in use only if all are. */
static size_t views_oldest(const struct answerer_views *t, uint64_t asker) REQUIRES(t->lock)
{
	enum { ANY, OF_MANY, OWN } found = ANY, is;
	size_t oldest = 0;
	bool own = views_has_many(t, asker);
	for (size_t i = 0; i < t->v.n; i++) {
		const struct answerer_view *x = t->v.v[i];
		is = own ? (x->asker == asker ? OWN : ANY) : views_has_many(t, x->asker) ? OF_MANY : ANY;
		if (!i || is > found || (is == found && views_goes_before(x, t->v.v[oldest]))) {
			oldest = i;
			found = is;
		}
	}
	return oldest;
}

static size_t views_index(const struct answerer_views *t, uint64_t token) REQUIRES(t->lock)
{
	size_t i = 0;
	while (i < t->v.n && t->v.v[i]->token != token)
		i++;
	return i;
}

struct answerer_view *answerer_views_add(struct answerer_views *t, struct source_view *view, uint64_t asker)
{
	struct answerer_view *x = NEW(struct answerer_view), *evicted = NULL;
	x->view = view;
	x->asker = asker;
	x->users = 1;
	x->listed = true;
	x->opened_ms = x->used_ms = clock_mono_ms();
	mutex_init(&x->lock, LOCK_LEAF, "refs of another server");
	mutex_lock(&t->lock);
	do
		x->token = answerer_random();
	while (views_index(t, x->token) < t->v.n);
	if (t->v.n >= FLEET_VIEWS_MAX)
		evicted = views_unlist(t, views_oldest(t, asker), "room");
	vec_push(&t->v, x);
	metric_add(&answerer_metrics[M_VIEWS_OPEN], 1);
	if (!t->has_thread)
		t->has_thread = thread_start(&t->thread, "source-views", views_thread, t, NULL) == 0;
	pthread_cond_signal(&t->changed);
	mutex_unlock(&t->lock);
	if (evicted)
		views_destroy(evicted);
	return x;
}

struct answerer_view *answerer_views_find(struct answerer_views *t, uint64_t token, uint64_t asker)
{
	mutex_lock(&t->lock);
	size_t i = views_index(t, token);
	struct answerer_view *x = i < t->v.n ? t->v.v[i] : NULL;
	if (x && (x->asker != asker || views_why_old(t, x, clock_mono_ms())))
		x = NULL; /* what is too old is left to the thread */
	if (x)
		x->users++;
	mutex_unlock(&t->lock);
	return x;
}

void answerer_views_leave(struct answerer_views *t, struct answerer_view *x, bool drop)
{
	mutex_lock(&t->lock);
	x->users--;
	x->used_ms = clock_mono_ms();
	if (drop && x->listed)
		views_unlist(t, views_index(t, x->token), "closed");
	bool last = !x->users && !x->listed;
	if (!x->users)
		pthread_cond_signal(&t->changed); /* the view is idle from now on */
	mutex_unlock(&t->lock);
	if (last)
		views_destroy(x);
}

/* ---- which series an asker knows ---- */

#define REFS_A_WORD 32

int answerer_view_add_series(struct answerer_view *x, const struct source_series *s, size_t n, struct err *e)
{
	uint64_t most = 0;
	for (size_t i = 0; i < n; i++)
		most = MAX(most, s[i].ref);
	if (most > UINT32_MAX)
		return err_set(e, ERR_LIMIT, "the storage has more series than a question of another server can name (2^32)");
	mutex_lock(&x->lock);
	size_t before = x->kinds.n, words = n ? most / REFS_A_WORD + 1 : 0;
	if (words > before) {
		vec_reserve(&x->kinds, words);
		memset(x->kinds.v + before, 0, (words - before) * sizeof *x->kinds.v);
		x->kinds.n = words;
	}
	for (size_t i = 0; i < n; i++)
		x->kinds.v[s[i].ref / REFS_A_WORD] |= (s[i].type ? UINT64_C(2) : UINT64_C(1)) << s[i].ref % REFS_A_WORD * 2;
	mutex_unlock(&x->lock);
	return 0;
}

bool answerer_view_has(struct answerer_view *x, const uint64_t *refs, size_t n, size_t stride, bool floats)
{
	const uint64_t kind = floats ? 1 : 2;
	bool all = true;
	mutex_lock(&x->lock);
	for (size_t i = 0; i < n && all; i++) {
		uint64_t ref = *(const uint64_t *)(const void *)((const char *)refs + i * stride);
		all = ref / REFS_A_WORD < x->kinds.n && x->kinds.v[ref / REFS_A_WORD] >> ref % REFS_A_WORD * 2 & kind;
	}
	mutex_unlock(&x->lock);
	return all;
}
