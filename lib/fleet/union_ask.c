/* SPDX-License-Identifier: Apache-2.0 */
/* One call of each peer: all are started, then all are finished. What is missing becomes a warning here, and nowhere else. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
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

int union_ask_all(struct union_view *v, struct union_ask *asks, int64_t after_ms, int64_t until_ms, const struct source_limits *lim, struct err *e)
{
	static const struct source_limits no_limits;
	struct fleet_ask **at_work = xcalloc(v->n_peers + 1, sizeof(*at_work));
	int rc = 0;
	lim = lim ? lim : &no_limits;
	for (size_t i = 0; i < v->n_peers && !rc; i++)
		if (asks[i].wanted && ask_is_dead(v, &v->peers[i])) {
			asks[i].wanted = false;
			rc = ask_missing(&v->peers[i], after_ms, until_ms, lim, e);
		}
	for (size_t i = 0; i < v->n_peers && !rc; i++)
		if (asks[i].wanted)
			at_work[i] = v->peers[i].peer->ops->start(v->peers[i].view, &asks[i].call, lim);
	for (int servers = 0; servers < 2; servers++) /* this process works while the servers do */
		for (size_t i = 0; i < v->n_peers; i++) {
			struct union_peer *p = &v->peers[i];
			if (!at_work[i] || (p->peer->name != NULL) != servers)
				continue;
			struct err one = { 0 };
			int failed = p->peer->ops->finish(at_work[i], &asks[i].result, &one);
			if (!failed) {
				ask_note_contact(v, p);
			} else if (ask_is_missing(p, failed)) {
				ask_note_dead(v, p, one.msg);
				failed = rc ? 0 : ask_missing(p, after_ms, until_ms, lim, &one);
			}
			if (failed && !rc)
				rc = err_set(e, one.code, "%s", one.msg);
		}
	free(at_work);
	return rc;
}
