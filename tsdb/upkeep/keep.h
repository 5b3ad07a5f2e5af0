/* SPDX-License-Identifier: Apache-2.0 */
/* Retention by selector: what matches a rule is kept for less time than the rest. The sealer looks each minute (and at
 * once when the rules change) what has become too old: it goes from the windows, is masked in the parts (masks.h) by
 * facts that stand in no log, and a part is written anew without it once it is too old as a whole. Private. */
#ifndef PYRRHA_TSDB_KEEP_H
#define PYRRHA_TSDB_KEEP_H

#include "tsdb/version/masks.h"

struct keep_rules;

void keep_rules_free(struct keep_rules *r);
/* Brings the masks of all partitions up to date. */
int keep_due(struct tsdb *db, struct err *e) REQUIRES(db->seal_lock);

#endif
