/* SPDX-License-Identifier: Apache-2.0 */
/* The storage of this process as a peer. Its calls run where their answers are waited for: a union waits for this peer first, so that the other
 * servers work meanwhile. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "fleet/peer.h"

struct local_peer {
	struct fleet_peer peer;      /* first: the operations get the address of this member and cast it to the whole */
	atomic_int refs;
	struct source *source;       /* borrowed */
	struct labels *(*labels)(void *arg);
	void *arg;
	fleet_rows_fn rows;
	void *rows_arg;
};

struct local_view {
	const struct local_peer *peer; /* borrowed: who opened the view has a reference */
	struct source_view *view;    /* NULL: it could not be opened */
	struct err e;                /* why */
	struct labels *labels;       /* owned; NULL: none */
};

struct local_ask {
	struct local_view *view;
	const struct fleet_call *call;
	const struct source_limits *lim;
};

static struct fleet_peer_view *local_open(struct fleet_peer *p)
{
	struct local_peer *l = (struct local_peer *)p;
	struct local_view *v = NEW(struct local_view);
	v->peer = l;
	if (l->source->open(l->source, &v->view, &v->e))
		v->view = NULL;
	v->labels = l->labels ? l->labels(l->arg) : NULL;
	return (struct fleet_peer_view *)v;
}

static void local_close(struct fleet_peer_view *view)
{
	struct local_view *v = (struct local_view *)view;
	if (v->view)
		v->view->ops->release(v->view);
	free(v->labels);
	free(v);
}

static struct fleet_ask *local_start(struct fleet_peer_view *v, const struct fleet_call *call, const struct source_limits *lim)
{
	struct local_ask *a = NEW(struct local_ask);
	*a = (struct local_ask){ (struct local_view *)v, call, lim };
	return (struct fleet_ask *)a;
}

static int local_finish(struct fleet_ask *ask, struct fleet_result *ret, struct err *e)
{
	struct local_ask *a = (struct local_ask *)ask;
	struct local_view *v = a->view;
	int rc;
	if (v->view)
		rc = fleet_call_run(v->view, a->call, v->peer->rows, v->peer->rows_arg, a->lim, NULL, ret, e);
	else
		rc = err_set(e, v->e.code, "%s", v->e.msg);
	free(a);
	return rc;
}

static bool local_wait(struct fleet_ask *ask, int64_t until_ms)
{
	(void)ask;
	(void)until_ms;
	return true;
}

static void local_cancel(struct fleet_ask *ask)
{
	free(ask);
}

static struct labels local_labels(struct fleet_peer_view *view)
{
	const struct local_view *v = (const struct local_view *)view;
	return v->labels ? *v->labels : (struct labels){ 0 };
}

static const struct fleet_peer_ops local_ops = { local_open, local_close, local_start, local_finish, local_wait, local_cancel, local_labels };

static struct fleet_peer *local_ref(struct fleet_peer *p)
{
	atomic_fetch_add(&((struct local_peer *)p)->refs, 1);
	return p;
}

static void local_unref(struct fleet_peer *p)
{
	if (atomic_fetch_sub(&((struct local_peer *)p)->refs, 1) == 1)
		free(p);
}

struct fleet_peer *fleet_local_peer_new(struct source *s, struct labels *(*labels)(void *arg), void *arg, fleet_rows_fn rows, void *rows_arg)
{
	struct local_peer *l = NEW(struct local_peer);
	l->peer = (struct fleet_peer){ .ops = &local_ops, .unref = local_unref, .ref = local_ref };
	atomic_init(&l->refs, 1);
	l->source = s;
	l->labels = labels;
	l->arg = arg;
	l->rows = rows;
	l->rows_arg = rows_arg;
	return &l->peer;
}
