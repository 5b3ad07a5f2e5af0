/* SPDX-License-Identifier: Apache-2.0 */
/* Unreadable values of sealed parts: how queries, and the making of new parts from old ones, treat them. A damaged value loses its
 * series' data in that part. The rest is answered, and the answer says so (struct source_damage). */
#ifndef PYRRHA_TSDB_DAMAGE_H
#define PYRRHA_TSDB_DAMAGE_H

#include "model/source.h"
#include "tsdb/part/part.h"

/* Whether an error of reading a part says that the value is damaged or gone; else reading failed for now. */
bool damage_is(const struct err *e);
/* Whether an error of opening a partition is one of the machine (permissions, no memory, no descriptors, a full disk), so that the partition may
 * be whole. */
bool damage_is_none(const struct err *e);
/* Whether an error of reading a part says that its file is not whole on this disk and the value is not there. A reader goes on without it: the view
 * knows of it, and reads again once it is here (tsdb/read/view_cached.h). */
bool damage_is_lack(const struct part *p, const struct err *e);
/* Counts (once) that a value of the series cannot be read, and logs the part's first. Any thread. */
void damage_count(struct part *p, uint32_t series, const struct err *e);
/* After reading a value failed with e: 0 if the query goes on without it, which *lim then knows, else the error. */
int damage_pass(const struct source_limits *lim, struct part *p, uint32_t series, const struct err *e) MUST_USE;
/* Before a part is replaced by one made of it: if values of it are damaged its file is kept in the partition's DAY.bad-STAMP. Under
 * seal_lock. */
int damage_keep(struct part *p, struct err *e) MUST_USE;
/* A link to the file in DAY.bad-STAMP. A missing one counts as none. */
int damage_keep_file(struct partition_db *d, const char *file, struct err *e) MUST_USE;

#endif
