/* SPDX-License-Identifier: Apache-2.0 */
/* Deleting by selector: from the call to the record in the log; what that does is in facts.h. Private. */
#ifndef PYRRHA_TSDB_DELETE_H
#define PYRRHA_TSDB_DELETE_H

#include "tsdb/request.h"

/* Commits a request of facts and waits; takes it. Under seal_lock. */
int delete_submit(struct tsdb *db, struct request *r, struct err *e);

#endif
