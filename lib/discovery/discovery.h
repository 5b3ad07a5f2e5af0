/* SPDX-License-Identifier: Apache-2.0 */
/* Service discovery: providers report groups of targets. A kind of provider is a row in a table, its code a file of its own
 * (sd_KIND.c). A provider emits groups. A group replaces the previous one of equal source; one without targets deletes it. A partial
 * result is never emitted: on failure the last groups stay.
 *
 * A provider with a thread of its own emits from it; what emit is given is copied before emit returns.
 *
 * Equal configurations run once, for all their users: the jobs of one configuration, and those of the next. The last user's going ends
 * a provider, a moment later and on a thread of its own, so that a reload finds it still running. */
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

/* Groups that discovery_each lends are immutable, each in one allocation, and reference-counted: a caller that refs one may keep it,
 * also after discovery_stop. (Those given to emit, and those on a stack, cannot be ref'd.) */
const struct discovery_group *discovery_group_ref(const struct discovery_group *g);
void discovery_group_unref(const struct discovery_group *g);
/* A copy that is counted, of any group. Returns owned: one reference. */
const struct discovery_group *discovery_group_copy(const struct discovery_group *g) MUST_USE;
bool discovery_group_eq(const struct discovery_group *a, const struct discovery_group *b);

/* How a provider tells. From any thread, but not two at once; not after stop has returned. */
struct discovery_emit {
	void (*group)(void *arg, const struct discovery_group *g); /* replaces that of equal source; no targets: deletes it */
	void (*problem)(void *arg, const struct err *e); /* what is wrong now (logged when more than its numbers change); NULL: nothing any more */
	void (*ready)(void *arg);                        /* everything was read for the first time; later calls do nothing */
	void *arg;
	/* Like group for each, but atomically: a target that moves from one group to another is always visible. Those with targets are
	 * counted (discovery_group_copy). Ask for it by discovery_emit_groups. */
	void (*groups)(void *arg, const struct discovery_group *const *v, size_t n);
};
void discovery_emit_groups(const struct discovery_emit *emit, const struct discovery_group *const *v, size_t n);

struct discovery_provider {
	const struct discovery_ops *ops;
};

/* One kind: its key in a scrape_config ("static_configs"), how an item of its list is decoded, how it runs. Each item is
 * a provider of its own. */
struct discovery_ops {
	const char *key;
	/* Decodes one item of the list (or all of it: whole_list) into *ret, in c's arena. */
	int (*decode)(struct config_ctx *c, const struct config_node *n, void **ret, struct err *e);
	/* Whether two decoded configurations are equal: then one provider does for both. All of it counts, the HTTP client's
	 * configuration as well: config_same does that, for a struct that one table decodes. */
	bool (*same)(const void *a, const void *b);
	/* Starts. It must not wait for the network or for files of others: a thread of its own does. config stays valid until
	 * stop has returned. */
	int (*start)(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e);
	/* Ends it and frees it; nothing is emitted afterwards. May take up to a second; is called under no lock. */
	void (*stop)(struct discovery_provider *p);

	/* The rest may be left out. */
	/* A short name for pages and logs, such as the URL or the file, without secrets. */
	void (*name)(const void *config, struct buf *out);
	/* For metrics, of kinds that have roles ("pod"). */
	const char *(*role)(const void *config);
	/* Says that stop is near, without waiting: of many that end at once, each is told before the first is waited for. */
	void (*cancel)(struct discovery_provider *p);
	bool whole_list; /* the list is one provider */
};

/* The kind of a key of a scrape_config; NULL if it is none. */
const struct discovery_ops *discovery_kind(struct view key);
/* Whether a key names discovery of Prometheus's that is not built in ("nomad_sd_configs"). */
bool discovery_known_elsewhere(struct view key);

/* The discovery part of a scrape_config (or an alertmanager_config): one item per provider. */
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

/* A user of providers: a job. */
struct discovery_user {
	const char *job; /* for logs, metrics and pages; copied */
	/* Called from any thread, when groups have changed, or the provider became ready. It must not call back, nor take a lock that
	 * is held while one of the functions below is called. */
	void (*changed)(void *arg);
	void *arg;
	/* The owner of the configurations' memory. A provider may outlive the job that started it, so it keeps a reference until it
	 * has ended. unref may be called from any thread. NULL: they outlive everything. */
	void *owner;
	void (*ref)(void *owner), (*unref)(void *owner);
};

/* The running providers of one job. Safe to use from several threads. */
struct discovery;

/* Uses all of them, or none. Those that already run are not started again, and their groups are available at once. */
int discovery_start(struct discovery **ret, const struct discovery_configs *configs, const struct discovery_user *user,
		    struct err *e) MUST_USE;
/* Does not wait for providers to end; changed is not called any more once it has returned. NULL does nothing. */
void discovery_stop(struct discovery *d);
/* All current groups, provider after provider; each may be ref'd. No lock is held meanwhile. */
void discovery_each(struct discovery *d, void (*group)(void *arg, const struct discovery_group *g), void *arg);
/* Whether each provider has read everything once. Until then what discovery_each lends may be a part. */
bool discovery_ready(struct discovery *d);

/* A provider as a page shows it; lent for the duration of a call. */
struct discovery_status {
	const char *kind;         /* "file_sd_configs" */
	const char *role;         /* "" = it has none */
	const char *name;         /* "" = it has none */
	size_t groups, targets;
	bool ready;
	const char *problem;      /* NULL = none */
	int64_t problem_since_ms; /* wall clock: since when there is one */
	int64_t changed_ms;       /* when a group last changed; 0 = none has come */
	unsigned users;           /* jobs */
};
void discovery_each_status(struct discovery *d, void (*fn)(void *arg, const struct discovery_status *s), void *arg);

/* Waits until all unused providers have ended. At the program's end, and of tests. */
void discovery_finish(void);
void discovery_register_metrics(void);

#endif
