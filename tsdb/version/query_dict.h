/* SPDX-License-Identifier: Apache-2.0 */
/* Dictionaries as one query sees them. A partition's dictionary that is in memory is everybody's (partition_load), and stays there while a view
 * holds the partition. A query over many days would load all of their dictionaries. So of a day whose dictionary is not in memory it gets
 *
 *	its series     an index without stacks, small: all that a selector and a graph of totals need. The partition keeps it for the next query
 *	its stacks     for who merges or filters: everybody's, as long as those that the query has loaded are within the budget
 *	               (dictionary_bytes). Of further days one at a time: read, used, and given back
 *
 * So the memory of a query is bounded by the budget, one dictionary and its answer. Any thread of the view. Private. */
#ifndef PYRRHA_TSDB_QUERY_DICT_H
#define PYRRHA_TSDB_QUERY_DICT_H

#include "tsdb/version/db.h"

struct query_dict;
/* Borrows both. */
struct query_dict *query_dict_new(struct tsdb *db, struct version *v);
void query_dict_free(struct query_dict *o);
/* Partition number p of the version, or a private one with only its series: for using its index. Borrowed, as long as the view. */
struct partition *query_dict_series(struct query_dict *o, size_t p);
/* Loads the stacks of a day, if they are within the budget. */
void query_dict_bring(struct query_dict *o, size_t p);
/* Whether its stacks would be this query's own. */
bool query_dict_has(struct query_dict *o, size_t p);
/* Partition number p, or a private one, with its whole dictionary, or with none (partition.unread). It goes back by query_dict_give. */
struct partition *query_dict_stacks(struct query_dict *o, size_t p);
/* The same for who needs it once: what is not in memory stays out of it. */
struct partition *query_dict_stacks_once(struct query_dict *o, size_t p);
void query_dict_give(struct query_dict *o, struct partition *p);

/* Counts memory that a query has for itself in the account of dictionaries, less what it counted before. */
void query_dict_count(struct tsdb *db, size_t bytes, size_t before);

#endif
