/* SPDX-License-Identifier: Apache-2.0 */
/* Configured names: aliases of profile types besides the built-in ones, and labels that only identify replicas. Immutable and
 * reference-counted, so that a query keeps what it began with while a reload brings others. */
#ifndef PYRRHA_PROMQL_ENGINE_NAMES_H
#define PYRRHA_PROMQL_ENGINE_NAMES_H

#include "promql-like/promql.h"

struct engine_names {
	int refs; /* atomic */
	struct promql_alias *aliases;
	size_t n_aliases;
	struct view *replica_labels;
	size_t n_replica_labels;
};

/* Copies. Returns owned. */
struct engine_names *engine_names_new(const struct promql_alias *aliases, size_t n_aliases, const char *const *replica_labels, size_t n_replica_labels)
	MUST_USE;
struct engine_names *engine_names_ref(struct engine_names *n) MUST_USE;
void engine_names_unref(struct engine_names *n); /* NULL does nothing */
/* The type of an alias, built-in ones included (n may be NULL); empty: it is unknown. Valid as long as n. */
struct view engine_names_alias(const struct engine_names *n, struct view name);

#endif
