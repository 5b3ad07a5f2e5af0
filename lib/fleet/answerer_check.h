/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a question that was decoded can be run on a view: a source trusts its callers, and another server may be a stranger. Pure. */
#ifndef PYRRHA_FLEET_ANSWERER_CHECK_H
#define PYRRHA_FLEET_ANSWERER_CHECK_H

#include "fleet/answerer_views.h"
#include "fleet/call.h"

/* Brings the range to times that can be added to each other; there are no stamps beyond them. */
void answerer_clamp(struct fleet_call *c);
/* ERR_BAD_DATA: a series that the asker did not get from this view, or has not the kind that the operation is about; times and numbers beyond what sums of them
 * can be; a missing filter. ERR_LIMIT: the places of the result alone take more than max_bytes (0 = unlimited). */
int answerer_check(const struct fleet_call *c, struct answerer_view *x, uint64_t max_bytes, struct err *e) MUST_USE;

#endif
