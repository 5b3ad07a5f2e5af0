/* SPDX-License-Identifier: Apache-2.0 */
/* One call of each peer: all are started, then finished in the order in which their answers come. What is missing becomes a warning here, and nowhere else. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fleet/union_internal.h"

struct union_ask *union_asks_new(const struct union_view *v)
{
	return xcalloc(v->n_peers + 1, sizeof(struct union_ask));
}

void union_asks_free(const struct union_view *v, struct union_ask *asks)
{
	for (size_t i = 0; asks && i < v->n_peers; i++)
		fleet_result_release(&asks[i].result);
	free(asks);
}

struct labels union_peer_labels(struct union_view *v, size_t peer)
{
	mutex_lock(&v->lock);
	struct labels l = v->peers[peer].labels;
	mutex_unlock(&v->lock);
	return l;
}

/* Errors that concern a server and not the question. Those of this process's own storage are the question's. */
static bool ask_is_missing(const struct union_peer *p, int rc)
{
	switch (-rc) {
	case ERR_UNAVAILABLE:
	case ERR_TIMEOUT:
	case ERR_CORRUPT:
	case ERR_IO:
	case ERR_DENIED:
	case ERR_INTERNAL:
	case ERR_BAD_DATA:
		return p->peer->name != NULL;
	default:
		return false;
	}
}

/* The share of a dead peer is missing in a range. */
static int ask_missing(const struct union_peer *p, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct err *e)
{
	if (!lim->damage || lim->whole)
		return err_set(e, ERR_UNAVAILABLE, "server %s: %s", p->peer->name, p->why);
	source_missing_add(lim->damage, p->peer->name, p->why, after_ms, until_ms);
	return 0;
}

static void ask_note_dead(struct union_view *v, struct union_peer *p, const char *why)
{
	mutex_lock(&v->lock);
	if (!p->dead)
		snprintf(p->why, sizeof p->why, "%s", why);
	p->dead = true; /* why stays as it is from now on */
	mutex_unlock(&v->lock);
}

static bool ask_is_dead(struct union_view *v, const struct union_peer *p)
{
	mutex_lock(&v->lock);
	bool dead = p->dead;
	mutex_unlock(&v->lock);
	return dead;
}

static void ask_note_contact(struct union_view *v, struct union_peer *p)
{
	struct labels labels = p->peer->ops->labels(p->view);
	mutex_lock(&v->lock);
	p->labels = labels;
	p->contacted = true;
	mutex_unlock(&v->lock);
}

/* ---- the calls of all peers ---- */

#define ASK_SLICE_MS 5 /* how long one server is waited for, before it is seen whether others have answered */

/* A call under way. */
struct ask_work {
	size_t peer;
	struct fleet_ask *ask;       /* NULL: it is over */
	bool local;
	struct fleet_result result;
};

struct ask_works {
	struct union_view *v;
	const struct source_limits *lim;
	VEC(struct ask_work) all;
	size_t n_left;
	bool announced;              /* that the thread waits */
};

/* The calls of a peer that are not over. */
static void ask_cancel(struct ask_works *w, size_t peer)
{
	for (size_t i = 0; i < w->all.n; i++) {
		struct ask_work *x = &w->all.v[i];
		if (!x->ask || x->peer != peer)
			continue;
		w->v->peers[peer].peer->ops->cancel(x->ask);
		x->ask = NULL;
		w->n_left--;
	}
}

static void ask_start(struct ask_works *w, size_t peer, const struct union_split *s)
{
	struct union_peer *p = &w->v->peers[peer];
	for (size_t i = 0; i < s->calls.n; i++) {
		struct fleet_ask *ask = p->peer->ops->start(p->view, &s->calls.v[i], w->lim);
		vec_push(&w->all, ((struct ask_work){ .peer = peer, .ask = ask, .local = !p->peer->name }));
		w->n_left++;
	}
}

static struct ask_work *ask_find_ready(struct ask_works *w, struct ask_work **ret_first)
{
	*ret_first = NULL;
	for (int servers = 0; servers < 2; servers++) /* this process works while the servers do */
		for (size_t i = 0; i < w->all.n; i++) {
			struct ask_work *x = &w->all.v[i];
			if (!x->ask || x->local == servers)
				continue;
			*ret_first = *ret_first ? *ret_first : x;
			if (w->n_left == 1 || w->v->peers[x->peer].peer->ops->wait(x->ask, 0))
				return x;
		}
	return NULL;
}

/* The call whose answer came first, or the only one that is left. So the answers of others were read when the last one comes, or its time is over. */
static struct ask_work *ask_next(struct ask_works *w)
{
	struct ask_work *first, *ready;
	while (!(ready = ask_find_ready(w, &first))) {
		if (!w->announced && w->lim->waits)
			w->lim->waits(w->lim->waits_arg);
		w->announced = true;
		IGNORE(w->v->peers[first->peer].peer->ops->wait(first->ask, clock_mono_ms() + ASK_SLICE_MS)); /* all are looked at again */
	}
	return ready;
}

static int ask_finish(struct ask_works *w, struct ask_work *x, struct union_ask *asks, int64_t after_ms, int64_t until_ms, struct err *e)
{
	struct union_peer *p = &w->v->peers[x->peer];
	struct err one = { 0 };
	int rc = p->peer->ops->finish(x->ask, &x->result, &one);
	x->ask = NULL;
	w->n_left--;
	if (!rc) {
		ask_note_contact(w->v, p);
		return 0;
	}
	if (!ask_is_missing(p, rc))
		return err_set(e, one.code, "%s", one.msg);
	ask_note_dead(w->v, p, one.msg);
	asks[x->peer].failed = true; /* by this call alone: another question may find the peer dead at any time */
	ask_cancel(w, x->peer);
	return ask_missing(p, after_ms, until_ms, w->lim, e);
}

/* Hands over results. Of a peer whose calls did not all come back there is none. */
static void ask_collect(struct ask_works *w, struct union_ask *asks, bool failed)
{
	for (size_t i = 0; i < w->all.n; i++) {
		struct ask_work *x = &w->all.v[i];
		if (failed || asks[x->peer].failed)
			fleet_result_release(&x->result);
		else
			union_split_join(&asks[x->peer].result, &x->result);
	}
	vec_free(&w->all);
}

int union_ask_all(struct union_view *v, struct union_ask *asks, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct err *e)
{
	static const struct source_limits no_limits;
	struct ask_works w = { .v = v, .lim = lim ? lim : &no_limits };
	struct union_split *splits = xcalloc(v->n_peers + 1, sizeof *splits);
	int rc = 0;
	for (size_t i = 0; i < v->n_peers && !rc; i++) {
		if (asks[i].wanted && ask_is_dead(v, &v->peers[i])) {
			asks[i].wanted = false;
			rc = ask_missing(&v->peers[i], after_ms, until_ms, w.lim, e);
		} else if (asks[i].wanted) {
			rc = union_split_make(&asks[i].call, v->peers[i].peer->max, &splits[i], e);
		}
	}
	for (size_t i = 0; i < v->n_peers && !rc; i++)
		ask_start(&w, i, &splits[i]);
	while (w.n_left && !rc)
		rc = ask_finish(&w, ask_next(&w), asks, after_ms, until_ms, e);
	for (size_t i = 0; i < v->n_peers && w.n_left; i++)
		ask_cancel(&w, i);
	ask_collect(&w, asks, rc);
	for (size_t i = 0; i < v->n_peers; i++)
		union_split_release(&splits[i]);
	free(splits);
	return rc;
}
