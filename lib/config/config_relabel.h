/* SPDX-License-Identifier: Apache-2.0 */
/* relabel_configs: a list of rules, decoded and compiled. */
#ifndef PYRRHA_CONFIG_CONFIG_RELABEL_H
#define PYRRHA_CONFIG_CONFIG_RELABEL_H

#include "config/config.h"
#include "model/relabel.h"

struct relabel_config {
	struct relabel_rule *v; /* in the arena of the context */
	size_t n;
};

/* A custom field for a struct relabel_config: { "relabel_configs", CONFIG_CUSTOM, offset, .custom =
 * config_relabel_decode }. Each rule holds a reference to its expression: release before the arena is freed. */
int config_relabel_decode(struct config_ctx *c, const struct config_node *n, void *at, struct err *e) MUST_USE;
void config_relabel_release(struct relabel_config *r);

#endif
