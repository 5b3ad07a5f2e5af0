/* SPDX-License-Identifier: Apache-2.0 */
/* From the head log back into memory, at the start. Private. */
#ifndef PYRRHA_TSDB_REPLAY_H
#define PYRRHA_TSDB_REPLAY_H

#include "tsdb/version/db.h"

int tsdb_replay(struct tsdb *db, struct err *e) MUST_USE;

#endif
