/* SPDX-License-Identifier: Apache-2.0 */
/* What is hidden of a day that is read from the bucket, beyond what its generation says. Private. */
#ifndef PYRRHA_TSDB_HIDDEN_H
#define PYRRHA_TSDB_HIDDEN_H

#include "tsdb/cached/cached_server.h"
#include "tsdb/transfer/transfer_private.h"

/* Deletes that are newer than the generation, in the bucket or on their way, and what retention by selector has passed: as cached_server.hidden, of
 * this server itself. */
int hidden_list(struct cached_server *s, const struct generation *g, struct hidden_facts *ret, struct err *e) MUST_USE;
/* Adds what a delete that is newer than the generation hides of its series. */
int hidden_add(const struct transfer_delete *d, const struct generation *g, struct hidden_facts *ret, struct err *e) MUST_USE;

#endif
