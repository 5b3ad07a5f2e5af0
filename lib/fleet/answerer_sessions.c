/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/answerer_sessions.h"

#include "base/clock.h"
#include "base/lock.h"
#include "fleet/answerer.h"
#include "fleet/answerer_metrics.h"
#include "fleet/answerer_views.h"

struct answerer_sessions {
	struct mutex lock;           /* of what follows */
	size_t max_bytes;
	size_t bytes;                /* of listed ones */
	uint64_t turns;
	VEC(struct answerer_session *) v; /* listed ones, in no order */
};

struct answerer_sessions *answerer_sessions_new(size_t max_bytes)
{
	struct answerer_sessions *t = NEW(struct answerer_sessions);
	mutex_init(&t->lock, LOCK_LEAF, "dictionaries of other servers");
	t->max_bytes = max_bytes;
	return t;
}

static void session_destroy(struct answerer_session *x)
{
	fleet_dictionary_out_free(x->dictionary);
	free(x);
}

static void session_count(struct answerer_sessions *t, struct answerer_session *x, size_t bytes) REQUIRES(t->lock)
{
	metric_add(&answerer_metrics[M_DICTIONARY_BYTES], (double)bytes - (double)x->bytes);
	t->bytes += bytes - x->bytes;
	x->bytes = bytes;
}

/* Takes the i-th out of the list. Returns the session if the caller has to destroy it, without the lock. */
static struct answerer_session *session_unlist(struct answerer_sessions *t, size_t i) REQUIRES(t->lock)
{
	struct answerer_session *x = t->v.v[i];
	session_count(t, x, 0);
	t->v.v[i] = t->v.v[--t->v.n];
	x->listed = false;
	metric_add(&answerer_metrics[M_DICTIONARIES], -1);
	return x->users ? NULL : x;
}

/* Any listed session, for its destruction; NULL: there is none. */
static struct answerer_session *session_take(struct answerer_sessions *t)
{
	mutex_lock(&t->lock);
	struct answerer_session *x = t->v.n ? session_unlist(t, 0) : NULL;
	mutex_unlock(&t->lock);
	return x;
}

void answerer_sessions_free(struct answerer_sessions *t)
{
	for (struct answerer_session *x; (x = session_take(t));)
		session_destroy(x);
	vec_free(&t->v);
	mutex_destroy(&t->lock);
	free(t);
}

static size_t session_index(const struct answerer_sessions *t, uint64_t id) REQUIRES(t->lock)
{
	size_t i = 0;
	while (i < t->v.n && t->v.v[i]->id != id)
		i++;
	return i;
}

static bool session_has_many(const struct answerer_sessions *t, uint64_t asker) REQUIRES(t->lock)
{
	size_t n = 0, bytes = 0;
	for (size_t i = 0; i < t->v.n; i++)
		if (t->v.v[i]->asker == asker) {
			n++;
			bytes += t->v.v[i]->bytes;
		}
	return n > FLEET_SESSIONS_MAX / 4 || bytes > t->max_bytes / 4;
}

/* The one that makes room for `except`: that was not used for the longest; t->v.n: there is no other that is not in use. */
static size_t session_oldest(const struct answerer_sessions *t, const struct answerer_session *except) REQUIRES(t->lock)
{
	enum { ANY, OF_MANY, OWN } found = ANY, is;
	size_t oldest = t->v.n;
	bool own = session_has_many(t, except->asker);
	for (size_t i = 0; i < t->v.n; i++) {
		const struct answerer_session *x = t->v.v[i];
		if (x == except || x->users)
			continue;
		is = own ? (x->asker == except->asker ? OWN : ANY) : session_has_many(t, x->asker) ? OF_MANY : ANY;
		if (oldest == t->v.n || is > found || (is == found && x->turn < t->v.v[oldest]->turn)) {
			oldest = i;
			found = is;
		}
	}
	return oldest;
}

/* One that has to make room; NULL: there is room, or all others are in use. */
static struct answerer_session *session_evict(struct answerer_sessions *t, const struct answerer_session *except) REQUIRES(t->lock)
{
	if (t->v.n <= FLEET_SESSIONS_MAX && t->bytes <= t->max_bytes)
		return NULL;
	size_t i = session_oldest(t, except);
	return i < t->v.n ? session_unlist(t, i) : NULL;
}

static void session_use(struct answerer_sessions *t, struct answerer_session *x) REQUIRES(t->lock)
{
	x->users++;
	x->turn = ++t->turns;
}

/* A new session, in use. */
static struct answerer_session *session_add(struct answerer_sessions *t, uint64_t asker)
{
	struct answerer_session *x = NEW(struct answerer_session);
	x->dictionary = fleet_dictionary_out_new();
	x->asker = asker;
	x->listed = true;
	mutex_lock(&t->lock);
	do
		x->id = answerer_random();
	while (session_index(t, x->id) < t->v.n);
	vec_push(&t->v, x);
	metric_add(&answerer_metrics[M_DICTIONARIES], 1);
	session_use(t, x);
	struct answerer_session *evicted = session_evict(t, x);
	mutex_unlock(&t->lock);
	if (evicted)
		session_destroy(evicted);
	return x;
}

/* The asker's session with this id, in use. NULL: there is none, or it had become too large and is given up. */
static struct answerer_session *session_find(struct answerer_sessions *t, uint64_t id, uint64_t asker)
{
	struct answerer_session *large = NULL;
	mutex_lock(&t->lock);
	size_t i = session_index(t, id);
	struct answerer_session *x = i < t->v.n && t->v.v[i]->asker == asker ? t->v.v[i] : NULL;
	if (x && x->bytes > t->max_bytes / 4) {
		large = session_unlist(t, i);
		x = NULL;
	}
	if (x)
		session_use(t, x);
	mutex_unlock(&t->lock);
	if (large)
		session_destroy(large);
	return x;
}

struct answerer_session *answerer_sessions_enter(struct answerer_sessions *t, uint64_t id, uint64_t asker)
{
	struct answerer_session *x = session_find(t, id, asker);
	return x ? x : session_add(t, asker);
}

static void session_leave(struct answerer_sessions *t, struct answerer_session *x, bool used)
{
	struct answerer_session *evicted;
	size_t bytes = fleet_dictionary_out_bytes(x->dictionary);
	mutex_lock(&t->lock);
	if (used)
		x->used_ms = clock_mono_ms();
	if (x->listed)
		session_count(t, x, bytes);
	while ((evicted = session_evict(t, x))) { /* x stays in use meanwhile */
		mutex_unlock(&t->lock);
		session_destroy(evicted);
		mutex_lock(&t->lock);
	}
	x->users--;
	bool last = !x->users && !x->listed;
	mutex_unlock(&t->lock);
	if (last)
		session_destroy(x);
}

void answerer_sessions_leave(struct answerer_sessions *t, struct answerer_session *x)
{
	session_leave(t, x, true);
}

/* A listed session that is idle, for its destruction; NULL: there is none. */
static struct answerer_session *session_take_idle(struct answerer_sessions *t, int64_t before_ms)
{
	struct answerer_session *idle = NULL;
	mutex_lock(&t->lock);
	for (size_t i = 0; i < t->v.n && !idle; i++)
		if (!t->v.v[i]->users && t->v.v[i]->used_ms < before_ms)
			idle = session_unlist(t, i);
	mutex_unlock(&t->lock);
	return idle;
}

void answerer_sessions_tidy(struct answerer_sessions *t, int64_t before_ms)
{
	VEC(struct answerer_session *) all = { 0 };
	for (struct answerer_session *x; (x = session_take_idle(t, before_ms));)
		session_destroy(x);
	mutex_lock(&t->lock);
	for (size_t i = 0; i < t->v.n; i++) {
		t->v.v[i]->users++;
		vec_push(&all, t->v.v[i]);
	}
	mutex_unlock(&t->lock);
	for (size_t i = 0; i < all.n; i++) {
		fleet_dictionary_out_drop_idle(all.v[i]->dictionary, before_ms);
		session_leave(t, all.v[i], false);
	}
	vec_free(&all);
}

size_t answerer_sessions_count(struct answerer_sessions *t)
{
	mutex_lock(&t->lock);
	size_t n = t->v.n;
	mutex_unlock(&t->lock);
	return n;
}
