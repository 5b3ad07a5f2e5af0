/* SPDX-License-Identifier: Apache-2.0 */
/* Dictionaries of several partitions, brought together in one: what a profile over midnight is made of. Bringing a stack
 * over costs much more than adding it up, so that what was met stays for the next query, for a while. Thread-safe. */
#ifndef PYRRHA_TSDB_DICT_UNION_H
#define PYRRHA_TSDB_DICT_UNION_H

#include "model/stackvec.h"
#include "tsdb/version/db.h"

/* max_bytes: above it everything that was met is forgotten after the query. */
struct dict_unions *dict_unions_new(size_t max_bytes);
void dict_unions_free(struct dict_unions *j);
/* The sum of v[i], which are over the symbols of of[i]'s partition, over common symbols, with names that came late.
 * Returns owned; NULL and *e on overflow. Takes the partitions' dict_lock. */
struct stackvec *dict_unions_sum(struct dict_unions *j, const struct pstate *const *of, struct stackvec *const *v, size_t n, struct err *e);
/* Adds v, which is over p's symbols, to *sum (NULL: nothing yet), which is over common symbols and becomes another; names: that came
 * late, or NULL. Negative and *e on overflow; *sum stays then. */
int dict_unions_add(struct dict_unions *j, struct partition *p, struct late_names *names, const struct stackvec *v, struct stackvec **sum,
		    struct err *e) MUST_USE;
/* Frees one of the added dictionaries. */
void dict_unions_forget(struct dict_unions *j, const struct symbols *from);
/* Forgets what has not been used for ten minutes; all: whatever it is. */
void dict_unions_tidy(struct dict_unions *j, bool all);
size_t dict_unions_bytes(struct dict_unions *j);

#endif
