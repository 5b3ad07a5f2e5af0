/* SPDX-License-Identifier: Apache-2.0 */
/* Dictionaries that one query has for itself. A partition's dictionary that is in memory is everybody's (partition_load), and stays
 * there while a view holds the partition. A query over many days would bring all of theirs there, so as soon as those that it has
 * brought are the budget (dictionary_bytes), of further days it gets
 *
 *	their series     for as long as the view lives: an index without stacks, small
 *	their stacks     one day's at a time, for who merges or filters: read, used, and given back
 *
 * What a query takes so is bounded by the budget, one dictionary and its answer. Any thread of the view. Private. */
#ifndef PYRRHA_TSDB_OWN_H
#define PYRRHA_TSDB_OWN_H

#include "tsdb/version/db.h"

struct own;
/* Borrows both. */
struct own *own_new(struct tsdb *db, struct version *v);
void own_free(struct own *o);
/* Partition number p of the version, or one that has its series alone: its index is to be used. Borrowed, as long as the view. */
struct partition *own_series(struct own *o, size_t p);
/* Whether its stacks would be this query's own. */
bool own_has(struct own *o, size_t p);
/* Partition number p, or one that nobody else has, with its whole dictionary. It goes back by own_give. */
struct partition *own_stacks(struct own *o, size_t p);
void own_give(struct own *o, struct partition *p);

/* Counts memory that a query has for itself in the account of dictionaries, less what it counted before. */
void own_count(struct tsdb *db, size_t bytes, size_t before);

#endif
