/* SPDX-License-Identifier: Apache-2.0 */
/* Rewriting stacks: for each stack of a vector a callback selects the frames that stay, leaf first; the result is in the query's own
 * dictionary. Stacks and locations are worked out once each. */
#ifndef PYRRHA_PROMQL_REWRITE_H
#define PYRRHA_PROMQL_REWRITE_H

#include "model/stackvec.h"

struct eval;
struct rewrite;

/* Calls rewrite_add... for what stays; false: samples of this stack go. */
typedef bool (*rewrite_fn)(void *arg, struct rewrite *rw, const uint32_t *locations, size_t n);

/* Returns owned; NULL and *e on overflow. */
struct stackvec *rewrite_stacks(struct eval *q, const struct stackvec *v, rewrite_fn fn, void *arg, struct err *e);

/* Which samples of a stack fare alike, by what their labels are; called before fn of such a sample. */
typedef uint32_t (*rewrite_variant_fn)(void *arg, uint32_t label_set);
/* Like rewrite_stacks, if the result for a stack depends on its samples' labels as well. */
struct stackvec *rewrite_samples(struct eval *q, const struct stackvec *v, rewrite_fn fn, rewrite_variant_fn variant, void *arg, struct err *e);

/* Lines [first, end) of a location of the old dictionary (end may exceed them). */
void rewrite_add(struct rewrite *rw, uint32_t location, uint32_t first, uint32_t end);
/* The lines whose bit is set; beyond the 64th they stay. */
void rewrite_add_mask(struct rewrite *rw, uint32_t location, uint64_t mask);
/* All lines, the outermost first. */
void rewrite_add_reversed(struct rewrite *rw, uint32_t location);
/* A frame that is only a name, in a file that may be "". */
void rewrite_add_name(struct rewrite *rw, struct view name, struct view file);

#endif
