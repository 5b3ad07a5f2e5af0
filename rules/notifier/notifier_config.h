/* SPDX-License-Identifier: Apache-2.0 */
/* The decoded section `alerting`. Immutable once parsed. */
#ifndef PYRRHA_RULES_NOTIFIER_CONFIG_H
#define PYRRHA_RULES_NOTIFIER_CONFIG_H

#include "config/config_http.h"
#include "config/config_relabel.h"
#include "discovery/discovery.h"
#include "rules/notifier/notifier.h"

/* One item of `alertmanagers`: a set of Alertmanagers that are told in the same way. */
struct alertmanager_config {
	struct notifier_config *config; /* owner of its arena; borrowed */
	int scheme;                     /* 0 http, 1 https */
	const char *path_prefix;
	int64_t timeout_ms;
	int api_version;                /* there is one */
	struct http_config http;
	struct relabel_config relabel, alert_relabel;
	struct discovery_configs sd;
	struct view fingerprint;        /* equal: nothing about it has changed */
};

struct notifier_config {
	int refs; /* atomic */
	struct arena arena;
	struct relabel_config alert_relabel;
	struct labels external_labels;
	struct alertmanager_configs {
		struct alertmanager_config *v;
		size_t n;
	} sets;
};

/* The URL of one Alertmanager of a set, from its discovered labels. */
struct alertmanager_place {
	char *url;     /* owned; for a dropped one the URL without relabelling. NULL: there is a problem */
	bool dropped;  /* by relabelling */
};
/* Strings of e are not borrowed; the arena is for relabelling. */
int alertmanager_place_make(const struct alertmanager_config *c, struct labels group, struct labels target, struct arena *a,
			    struct alertmanager_place *ret, struct err *e) MUST_USE;

#endif
