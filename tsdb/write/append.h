/* SPDX-License-Identifier: Apache-2.0 */
/* The sink: what scrapers and receivers hand over. Private. */
#ifndef PYRRHA_TSDB_APPEND_H
#define PYRRHA_TSDB_APPEND_H

#include "tsdb/version/db.h"

int tsdb_append(struct sink *s, const struct sink_batch *b, struct sink_result *ret, struct err *e) MUST_USE;
/* The sink's notes. */
int tsdb_notes(struct sink *s, struct view prefix, void (*note)(void *arg, const struct sink_note *n), void *arg, struct err *e) MUST_USE;

#endif
