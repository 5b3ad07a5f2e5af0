/* SPDX-License-Identifier: Apache-2.0 */
/* Deleting by selector: from the call to the record in the log, and from the record to windows and masks. Private. */
#ifndef PYRRHA_TSDB_DELETE_H
#define PYRRHA_TSDB_DELETE_H

#include "tsdb/masks.h"

extern struct metric delete_metrics[];
extern const size_t n_delete_metrics;
void delete_collect(const struct tsdb_stats *s);
/* A part was written anew without what was deleted; so many bytes came back. */
void delete_count_rewrite(uint64_t bytes_back);

/* What a fact in the log does to memory; commit and replay. *v is replaced. False if it makes no sense. Under
 * apply_lock and dict_lock (read). */
bool delete_apply(struct tsdb *db, struct version **v, struct partition *p, struct cursor *c, uint64_t number);
/* Makes the bounds of the series of a fact (NULL: of all) what windows and unmasked parts say. Under apply_lock and
 * dict_lock. */
void delete_bounds(struct partition *p, const struct pstate *s, const struct mask_fact *f);
/* Commits a request of facts and waits; takes it. Under seal_lock. */
int delete_submit(struct tsdb *db, struct request *r, struct err *e);
void delete_count_names(uint64_t n);
/* Numbers of the facts that are still needed, ascending: the trim of the log leaves them. malloc'd. */
uint64_t *delete_facts(struct tsdb *db, size_t *ret_n);

#endif
