/* SPDX-License-Identifier: Apache-2.0 */
/* What is hidden of a day that is read from the bucket, beyond what its generation says. Private. */
#ifndef PYRRHA_TSDB_HIDDEN_H
#define PYRRHA_TSDB_HIDDEN_H

#include "tsdb/cached/cached_day.h"

/* Deletes that are newer than the generation, in the bucket or on their way, and what retention by selector has passed: as tsdb.hidden. */
int hidden_list(struct tsdb *db, const struct generation *g, struct hidden_facts *ret, struct err *e) MUST_USE;

#endif
