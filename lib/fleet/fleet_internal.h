/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet at work: items of the configuration run discovery (endpoint_set); what they find are targets.
 *
 * Locks: `apply` guards what the configuration says, and is held while discovery is started or read; `lock` guards the list of targets, and is held for a few
 * instructions. Targets change under both. */
#ifndef PYRRHA_FLEET_INTERNAL_H
#define PYRRHA_FLEET_INTERNAL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/vec.h"
#include "fleet/fleet.h"
#include "fleet/server.h"
#include "fleet/union.h"

/* One other server. Immutable, but for the last two. */
struct fleet_target {
	int refs;                    /* atomic */
	char *url;                   /* scheme://host:port/prefix */
	struct fleet_server *server;
	struct fleet_config *owner;  /* a reference: of the configuration that it was made by */
	const struct http_config *http; /* of owner */
	int64_t timeout_ms;
	uint64_t calls;              /* when the thread last looked; lock guards it */
	int64_t due_ms;              /* monotonic: when it is asked how it is unless somebody asks it before; lock guards it */
};

/* An item of `servers` at work. */
struct fleet_set {
	struct fleet *f;
	struct fleet_config *owner;  /* a reference: of the configuration that names it */
	const struct fleet_server_config *config; /* of owner */
	struct endpoint_set *endpoints;
	char *problem;               /* what is wrong with a target that it found; NULL: nothing. apply guards it */
};

struct fleet {
	struct source source;        /* first: the seams' functions get their addresses */
	struct status_servers status;
	struct fleet_options o;
	char *user_agent;
	struct fleet_peer *local;
	struct fleet_union *all;
	atomic_bool asks;            /* there are servers in the configuration */

	struct mutex apply;
	struct fleet_loop *loop;     /* NULL: there was no server yet. apply guards it, and all up to the next lock */
	struct fleet_config *config; /* a reference; NULL before the first */
	VEC(struct fleet_set *) sets;
	pthread_t thread;
	bool thread_runs;

	struct mutex lock;           /* guards what follows */
	VEC(struct fleet_target *) targets;
	bool searching;              /* discovery has not read everything yet: there may be more targets */
	bool stale, closing;         /* discovery has news; the end has begun */
	pthread_cond_t news;         /* of these */
};

/* fleet_targets.c. Makes the targets those that the sets have found by now. */
void fleet_sync(struct fleet *f) REQUIRES(f->apply);
/* References to all, in the order of the configuration; ret_searching (may be NULL): whether there may be more. Returns owned. */
struct fleet_target **fleet_targets(struct fleet *f, size_t *ret_n, bool *ret_searching);
void fleet_targets_release(struct fleet_target **v, size_t n);
void fleet_target_unref(struct fleet_target *m);
void fleet_set_free(struct fleet_set *s); /* NULL does nothing */

/* fleet_unknown.c. Stands for servers that discovery has not found yet: all its calls fail. Not counted: it may be unref'd any number of times. */
struct fleet_peer *fleet_unknown_peer(void);

/* fleet_probe.c: the thread. */
void *fleet_main(void *fleet);

#endif
