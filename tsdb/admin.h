/* SPDX-License-Identifier: Apache-2.0 */
/* The storage's part of the admin API. Private. */
#ifndef PYRRHA_TSDB_ADMIN_H
#define PYRRHA_TSDB_ADMIN_H

#include "tsdb/version/db.h"

void tsdb_admin_init(struct tsdb *db);

#endif
