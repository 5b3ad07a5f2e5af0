/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that sum up six hours, and a day. Private. */
#ifndef PYRRHA_TSDB_ROLLUP_H
#define PYRRHA_TSDB_ROLLUP_H

#include "tsdb/version/db.h"

int rollup_due(struct tsdb *db, struct err *e) MUST_USE;

#endif
