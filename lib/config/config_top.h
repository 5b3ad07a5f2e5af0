/* SPDX-License-Identifier: Apache-2.0 */
/* The top level of the server's file: which sections there are, and the section `global`, which several modules
 * read. The other sections are decoded by the modules that own them (config_get(config_root(t), "rule_files")). */
#ifndef PYRRHA_CONFIG_CONFIG_TOP_H
#define PYRRHA_CONFIG_CONFIG_TOP_H

#include "config/config.h"
#include "model/labels.h"

struct config_global {
	int64_t scrape_interval_ms;     /* 10 s unless set */
	int64_t scrape_timeout_ms;      /* 0 = not set */
	int64_t evaluation_interval_ms; /* 1 m unless set */
	int64_t rule_query_offset_ms;
	struct config_map external_labels; /* $V and ${V} expanded from the environment */
	uint64_t body_size_limit;
	int64_t sample_limit, target_limit, label_limit, label_name_length_limit, label_value_length_limit;
	int64_t keep_dropped_targets;
};

/* Refuses unknown sections (with the place), and warns about those of Prometheus and Parca that do not apply, naming ours. */
int config_check_top(const struct config_tree *t, struct config_ctx *c, struct err *e) MUST_USE;
int config_global_decode(const struct config_tree *t, struct config_ctx *c, struct config_global *ret, struct err *e)
	MUST_USE;
/* external_labels as labels; the copy is in the arena. */
struct labels config_external_labels(const struct config_global *g, struct arena *a);

#endif
