/* SPDX-License-Identifier: Apache-2.0 */
/* The decoded section `alerting`. Immutable once parsed. */
#ifndef PYRRHA_RULES_NOTIFIER_CONFIG_H
#define PYRRHA_RULES_NOTIFIER_CONFIG_H

#include "config/config_relabel.h"
#include "discovery/endpoint.h"
#include "rules/notifier/notifier.h"

/* One item of `alertmanagers`: a set of Alertmanagers that are told in the same way. */
struct alertmanager_config {
	struct notifier_config *config; /* owner of its arena; borrowed */
	struct endpoint_config endpoints;
	int64_t timeout_ms;
	int api_version;                /* there is one */
	struct relabel_config alert_relabel;
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

extern const struct endpoint_kind notifier_endpoints;

#endif
