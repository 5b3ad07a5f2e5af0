/* SPDX-License-Identifier: Apache-2.0 */
/* Partitions at the start, and how long they stay. Private. */
#ifndef PYRRHA_TSDB_RETENTION_H
#define PYRRHA_TSDB_RETENTION_H

#include "tsdb/version/db.h"

int tsdb_open_partitions(struct tsdb *db, struct err *e) MUST_USE;

#endif
