/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/syntax/engine_names.h"

#include <stdlib.h>

#include "base/alloc.h"

struct engine_names *engine_names_new(const struct promql_alias *aliases, size_t n_aliases, const char *const *replica_labels, size_t n_replica_labels)
{
	struct engine_names *n = NEW(struct engine_names);
	*n = (struct engine_names){ 1, xcalloc(n_aliases + 1, sizeof *n->aliases), n_aliases,
				    xcalloc(n_replica_labels + 1, sizeof *n->replica_labels), n_replica_labels };
	for (size_t i = 0; i < n_aliases; i++)
		n->aliases[i] = (struct promql_alias){ xstrdup(aliases[i].alias), xstrdup(aliases[i].name) };
	for (size_t i = 0; i < n_replica_labels; i++)
		n->replica_labels[i] = view_of(xstrdup(replica_labels[i]));
	return n;
}

struct engine_names *engine_names_ref(struct engine_names *n)
{
	__atomic_add_fetch(&n->refs, 1, __ATOMIC_RELAXED);
	return n;
}

void engine_names_unref(struct engine_names *n)
{
	if (!n || __atomic_sub_fetch(&n->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (size_t i = 0; i < n->n_aliases; i++) {
		free((char *)n->aliases[i].alias);
		free((char *)n->aliases[i].name);
	}
	for (size_t i = 0; i < n->n_replica_labels; i++)
		free((char *)n->replica_labels[i].ptr);
	free(n->aliases);
	free(n->replica_labels);
	free(n);
}

struct view engine_names_alias(const struct engine_names *n, struct view name)
{
	for (size_t i = 0; n && i < n->n_aliases; i++)
		if (view_eqs(name, n->aliases[i].alias))
			return view_of(n->aliases[i].name);
	return ptype_alias(name);
}
