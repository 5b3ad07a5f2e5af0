/* SPDX-License-Identifier: Apache-2.0 */
/* The union of several peers is a source. A question opens a view of it; a view holds one state of each peer.
 *
 * Series have their peer's external labels (labels of their own win); matchers on these names are evaluated here, on the result. A series that
 * several peers have under equal labels is one series: its profiles are those of all; where several have profiles of the same time, the rule of
 * replicas (model/replicas.h) says which count. Series of one peer, nearly all,
 * are asked of that peer alone, many in one call.
 *
 * A peer that does not answer is left out for the rest of the view: its share is missing, and lim->damage says so with the peer's name and the range
 * (source_missing_add). With lim->whole that is an error instead, ERR_UNAVAILABLE. */
#ifndef PYRRHA_FLEET_UNION_H
#define PYRRHA_FLEET_UNION_H

#include "fleet/peer.h"

struct fleet_union;

/* The peers of a question: peers(arg, &n) returns a malloc'd array of references, which the view gives back. It is called when a view is opened.
 * Without any the source is empty.
 * Returns owned. */
struct fleet_union *fleet_union_new(struct fleet_peer **(*peers)(void *arg, size_t *ret_n), void *arg);
/* No view may be open. */
void fleet_union_free(struct fleet_union *u);
struct source *fleet_union_source(struct fleet_union *u);

#endif
