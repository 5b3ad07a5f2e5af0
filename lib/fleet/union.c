/* SPDX-License-Identifier: Apache-2.0 */
/* The union as a source: opens a view of each peer, which asks nobody yet. Locks: each guards what its field says, and none is held while another is
 * taken, a peer is asked, or a caller's function runs. Runs on query threads. */
#include "fleet/union.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/union_internal.h"

struct fleet_union {
	struct source source;        /* first: open gets its address */
	struct fleet_peer **(*peers)(void *arg, size_t *ret_n);
	void *arg;
	struct mutex lock;
	struct union_dictionary *dictionary; /* of the next view; reference. Under lock */
};

static void union_forget_series(struct union_series *s)
{
	vec_free(&s->holders);
	for (size_t i = 0; i < s->joined.n; i++)
		union_joined_free(s->joined.v[i]);
	vec_free(&s->joined);
}

static void union_view_release(struct source_view *sv)
{
	struct union_view *v = (struct union_view *)sv;
	for (size_t i = 0; i < v->series.n; i++)
		union_forget_series(&v->series.v[i]);
	vec_free(&v->series);
	map_free(&v->by_labels);
	arena_free(&v->arena);
	for (size_t i = 0; i < v->n_peers; i++) {
		v->peers[i].peer->ops->close(v->peers[i].view);
		v->peers[i].peer->unref(v->peers[i].peer);
	}
	free(v->peers);
	union_dictionary_unref(v->dictionary);
	mutex_destroy(&v->lock);
	free(v);
}

static const struct source_ops union_ops = {
	.release = union_view_release, .select = union_select, .types = union_types, .floats = union_floats, .profiles = union_profiles,
	.points = union_points, .covers = union_covers, .merge = union_merge, .sums = union_sums, .shares = union_shares, .matches = union_matches,
	.rows = union_rows,
	.label_names = union_label_names, .label_values = union_label_values,
};

/* The dictionary for a view: the one of the views before, unless it has become too large. */
static struct union_dictionary *union_take_dictionary(struct fleet_union *u)
{
	mutex_lock(&u->lock);
	struct union_dictionary *d = union_dictionary_ref(u->dictionary);
	mutex_unlock(&u->lock);
	if (!union_dictionary_is_full(d))
		return d;
	struct union_dictionary *next = union_dictionary_new(), *old = d;
	mutex_lock(&u->lock);
	if (u->dictionary == d) {
		u->dictionary = union_dictionary_ref(next);
		d = next;
	} else {
		d = union_dictionary_ref(u->dictionary);
	}
	mutex_unlock(&u->lock);
	if (d == next)
		union_dictionary_unref(old); /* the union's */
	else
		union_dictionary_unref(next);
	union_dictionary_unref(old);
	return d;
}

static int union_open(struct source *s, struct source_view **ret, struct err *e)
{
	(void)e;
	struct fleet_union *u = (struct fleet_union *)s;
	struct union_view *v = NEW(struct union_view);
	v->base.ops = &union_ops;
	mutex_init(&v->lock, LOCK_LEAF, "view of servers");
	arena_init(&v->arena, 0); /* answers are bounded, and it has an array of labels for each of their series */
	v->dictionary = union_take_dictionary(u);
	struct fleet_peer **peers = u->peers(u->arg, &v->n_peers);
	v->peers = xcalloc(v->n_peers + 1, sizeof *v->peers);
	for (size_t i = 0; i < v->n_peers; i++) {
		v->peers[i].peer = peers[i];
		v->peers[i].view = peers[i]->ops->open(peers[i]);
	}
	free(peers);
	*ret = &v->base;
	return 0;
}

struct fleet_union *fleet_union_new(struct fleet_peer **(*peers)(void *arg, size_t *ret_n), void *arg)
{
	struct fleet_union *u = NEW(struct fleet_union);
	u->source.open = union_open;
	u->peers = peers;
	u->arg = arg;
	u->dictionary = union_dictionary_new();
	mutex_init(&u->lock, LOCK_LEAF, "union of servers");
	return u;
}

void fleet_union_free(struct fleet_union *u)
{
	if (!u)
		return;
	union_dictionary_unref(u->dictionary);
	mutex_destroy(&u->lock);
	free(u);
}

struct source *fleet_union_source(struct fleet_union *u)
{
	return &u->source;
}
