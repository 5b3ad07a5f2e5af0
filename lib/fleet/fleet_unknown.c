/* SPDX-License-Identifier: Apache-2.0 */
/* A peer for the servers that discovery has yet to find: an answer without them says so, as one without a server that is away. */
#include "fleet/fleet_internal.h"

static struct fleet_peer unknown;

static struct fleet_peer *unknown_ref(struct fleet_peer *p)
{
	return p;
}

static void unknown_unref(struct fleet_peer *p)
{
	(void)p;
}

/* Neither views nor calls have a state. */
static struct fleet_peer_view *unknown_open(struct fleet_peer *p)
{
	return (struct fleet_peer_view *)(void *)p;
}

static void unknown_close(struct fleet_peer_view *v)
{
	(void)v;
}

static struct fleet_ask *unknown_start(struct fleet_peer_view *v, const struct fleet_call *call, const struct source_limits *lim)
{
	(void)call;
	(void)lim;
	return (struct fleet_ask *)(void *)v;
}

static int unknown_finish(struct fleet_ask *a, struct fleet_result *ret, struct err *e)
{
	(void)a;
	(void)ret;
	return err_set(e, ERR_UNAVAILABLE, "discovery has not found all of them yet");
}

static bool unknown_wait(struct fleet_ask *a, int64_t until_ms)
{
	(void)a;
	(void)until_ms;
	return true;
}

static void unknown_cancel(struct fleet_ask *a)
{
	(void)a;
}

static struct labels unknown_labels(struct fleet_peer_view *v)
{
	(void)v;
	return (struct labels){ 0 };
}

static const struct fleet_peer_ops unknown_ops = {
	.open = unknown_open, .close = unknown_close, .start = unknown_start, .finish = unknown_finish, .wait = unknown_wait, .cancel = unknown_cancel,
	.labels = unknown_labels,
};
static struct fleet_peer unknown = { .ops = &unknown_ops, .name = "query.servers", .unref = unknown_unref, .ref = unknown_ref };

struct fleet_peer *fleet_unknown_peer(void)
{
	return &unknown;
}
