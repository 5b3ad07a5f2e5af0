/* SPDX-License-Identifier: Apache-2.0 */
/* Service discovery: providers that tell of groups of targets. A provider is a row in a table, its code a file of its
 * own (sd_KIND.c). It emits groups; a group replaces the previous one of equal source, one without targets deletes
 * it; nothing partial is ever emitted: on failure the last groups stay.
 *
 * A provider with a thread of its own emits from it; what emit is given is copied before emit returns. */
#ifndef PYRRHA_DISCOVERY_DISCOVERY_H
#define PYRRHA_DISCOVERY_DISCOVERY_H

#include "config/config.h"
#include "model/labels.h"

/* Each target is a label set with __address__; `labels` are those of the whole group. */
struct discovery_group {
	const char *source;
	struct labels labels;
	const struct labels *targets;
	size_t n_targets;
};

struct discovery_emit {
	void (*group)(void *arg, const struct discovery_group *g);
	void *arg;
};

struct discovery_provider {
	const struct discovery_ops *ops;
};

/* One kind: its key in a scrape_config ("static_configs"), how a list item is decoded, how it runs. */
struct discovery_ops {
	const char *key;
	/* Decodes the whole list under the key into *ret, in c's arena. */
	int (*decode)(struct config_ctx *c, const struct config_node *n, void **ret, struct err *e);
	/* Whether two decoded configurations are equal (then the running provider is kept over a reload). */
	bool (*same)(const void *a, const void *b);
	/* Starts; config stays valid until stop has returned. */
	int (*start)(struct discovery_provider **ret, const void *config, const char *job,
		     const struct discovery_emit *emit, struct err *e);
	/* Ends it and frees it; nothing is emitted afterwards. */
	void (*stop)(struct discovery_provider *p);
};

/* All kinds, ended by NULL. */
extern const struct discovery_ops *const discovery_kinds[];
/* The kind of a key of a scrape_config; NULL if it is none. */
const struct discovery_ops *discovery_kind(struct view key);
/* Whether a key names discovery of Prometheus's that is not built in ("consul_sd_configs"). */
bool discovery_known_elsewhere(struct view key);

/* What a scrape_config (or an alertmanager_config) says about discovery: one item per key that is there. */
struct discovery_config {
	const struct discovery_ops *ops;
	void *config;
};

struct discovery_configs {
	struct discovery_config *v; /* in the arena of the context */
	size_t n;
};

/* The keys of the map n that are discovery, decoded. A kind that is not built in is an error that names the rest. */
int discovery_decode(struct config_ctx *c, const struct config_node *n, struct discovery_configs *ret, struct err *e)
	MUST_USE;
bool discovery_same(const struct discovery_configs *a, const struct discovery_configs *b);

/* The providers of one job at work, and the groups they told of. */
struct discovery;

/* Starts them all, or none. configs are borrowed until discovery_stop. changed is called, from whatever thread, when
 * groups have changed; it must not call back. */
int discovery_start(struct discovery **ret, const struct discovery_configs *configs, const char *job,
		    void (*changed)(void *arg), void *arg, struct err *e) MUST_USE;
void discovery_stop(struct discovery *d);
/* All groups as they are now; lent for the duration of the call, under a lock. */
void discovery_each(struct discovery *d, void (*group)(void *arg, const struct discovery_group *g), void *arg);

#endif
