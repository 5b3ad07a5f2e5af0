/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's configuration file, YAML. A parca-agent's file loads unchanged:
 *
 *	relabel_configs:           Prometheus's rules, on the labels of each process (docs/agent.md has the names)
 *	- source_labels: [__meta_kubernetes_pod_label_app]
 *	  target_label: app
 */
#ifndef PYRRHA_AGENT_AGENT_CONFIG_H
#define PYRRHA_AGENT_AGENT_CONFIG_H

#include "config/config_relabel.h"

struct agent_config {
	struct arena arena;
	struct relabel_config relabel;
	/* Labels that rules set by name; in the arena. */
	struct view *targets;
	size_t n_targets;
	bool empty; /* there was nothing in the file */
};

/* path NULL or "": no rules; how may be NULL. Errors and warnings (through warn, may be NULL) begin with file:line:column. Returns
 * owned. */
int agent_config_load(struct agent_config **ret, const char *path, const struct config_how *how,
		      void (*warn)(void *arg, const char *text), void *arg, struct err *e) MUST_USE;
void agent_config_free(struct agent_config *c);
/* Whether some rule looks at a label of this name: what costs something to find out is only found out then. */
bool agent_config_uses(const struct agent_config *c, struct view label);

#endif
