/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: HTTP services that this server itself asks or tells, Alertmanagers or other servers. An item of a list in the configuration names a set of
 * them by discovery; all of a set are asked in the same way.
 *
 *	item ── discovery ──► targets ── relabel_configs ──► scheme://address/path, each over the set's client
 */
#ifndef PYRRHA_DISCOVERY_ENDPOINT_H
#define PYRRHA_DISCOVERY_ENDPOINT_H

#include "base/vec.h"
#include "config/config_http.h"
#include "config/config_relabel.h"
#include "discovery/discovery.h"
#include "fetch/fetch.h"

/* What an item has beside the keys of its module. */
struct endpoint_config {
	int scheme;                     /* 0 http, 1 https */
	const char *path_prefix;
	struct http_config http;
	struct relabel_config relabel;
	struct discovery_configs sd;
	struct view fingerprint;        /* of the whole item; equal: nothing about it has changed */
};

/* scheme, path_prefix, relabel_configs and the keys of HTTP clients: a CONFIG_INLINE row of the module's table, which has endpoint_other_key. */
extern const struct config_table endpoint_table;
bool endpoint_other_key(struct view key);
/* After the module's table: the discovery and the fingerprint of item n. Release c also after an error. */
int endpoint_config_finish(struct config_ctx *ctx, const struct config_node *n, struct endpoint_config *c, struct err *e) MUST_USE;
void endpoint_config_release(struct endpoint_config *c);
/* " KINDs by static_configs, KINDs by ..." for --config.check; first: whether nothing is before it. */
void endpoint_config_check(const struct endpoint_config *c, const char *kinds, bool first, struct buf *out);

/* What the endpoints are. */
struct endpoint_kind {
	const char *a, *noun;           /* for messages: "an Alertmanager", "Alertmanager" */
	const char *path_label;         /* the label that has the URL's path, for relabelling */
	const char *path;               /* of the URL, after path_prefix */
};

/* The URL of a discovered target. Labels that steer: __address__, __scheme__, and the path's. */
struct endpoint_place {
	char *url;                      /* owned; of a dropped one the URL without relabelling. NULL: there is a problem */
	bool dropped;                   /* by relabelling */
};
/* Strings of e are not borrowed; the arena is for relabelling. */
int endpoint_place_make(const struct endpoint_kind *k, const struct endpoint_config *c, struct labels group, struct labels target, struct arena *a,
			struct endpoint_place *ret, struct err *e) MUST_USE;

/* An item at work: its discovery runs, and it has a client. */
struct endpoint_set;

/* Borrows k; c is kept by the user's owner, of which references are taken. Returns owned. */
int endpoint_set_new(struct endpoint_set **ret, const struct endpoint_kind *k, const struct endpoint_config *c, const char *user_agent,
		     const struct discovery_user *user, struct err *e) MUST_USE;
void endpoint_set_free(struct endpoint_set *s); /* NULL does nothing */
struct fetch_client *endpoint_set_client(const struct endpoint_set *s);

/* Whether discovery has read everything once; until then what it has found may be a part. */
bool endpoint_set_ready(const struct endpoint_set *s);

struct endpoints_found {
	VEC(char *) urls;               /* a URL is there once for each time that it was found */
	VEC(char *) dropped;            /* by relabelling */
	struct err problem;             /* of the first target that is no endpoint; code 0: none */
};
/* What discovery has found by now. Under no lock that its user's `changed` takes. */
void endpoint_set_find(struct endpoint_set *s, struct endpoints_found *ret);
void endpoints_found_release(struct endpoints_found *f);

#endif
