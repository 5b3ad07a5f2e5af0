/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a question that was decoded can be run on a view: a source trusts its callers, and another server may be a stranger. wire.h has checked what can be told
 * without a view: times, groups, counts. Pure. */
#ifndef PYRRHA_FLEET_ANSWERER_CHECK_H
#define PYRRHA_FLEET_ANSWERER_CHECK_H

#include "fleet/answerer_views.h"
#include "fleet/call.h"

/* ERR_BAD_DATA: a series that the asker did not get from this view, or of another kind than the operation is about; a scale that is no number, or, of shares, is
 * not 1. ERR_LIMIT: the places of the result alone take more than max_bytes (0 = unlimited). */
int answerer_check(const struct fleet_call *c, struct answerer_view *x, uint64_t max_bytes, struct err *e) MUST_USE;

/* Bytes of the places of the result, which a call allocates before it reads. */
uint64_t answerer_places(const struct fleet_call *c);

#endif
