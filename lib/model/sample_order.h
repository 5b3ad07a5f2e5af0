/* SPDX-License-Identifier: Apache-2.0 */
/* The samples of a profile in the order in which answers list them. Ids of a dictionary are in the order in which things were met first,
 * which differs from one start of a program to the next; the order of answers depends on values and texts only. */
#ifndef PYRRHA_MODEL_SAMPLE_ORDER_H
#define PYRRHA_MODEL_SAMPLE_ORDER_H

#include "base/permit.h"
#include "base/vec.h"
#include "model/stackvec.h"

enum sample_order_by {
	SAMPLES_BY_VALUE, /* the largest first, whatever their signs; equal ones as a flame graph has their stacks */
	SAMPLES_BY_STACK, /* as a flame graph has their stacks; those of the same functions by value, the largest first */
};

/* A set of sample labels by their texts. In the dictionary it is by the ids of these. */
struct sample_labels {
	VEC(struct sym_label) copy;
};

/* The labels of a set: by key, then texts before numbers, then by value and unit. Borrowed, from the dictionary if they are in that order there,
 * or from *l until the next call. Release with sample_labels_release. */
const struct sym_label *sample_labels_sorted(struct sample_labels *l, const struct symbols *s, uint32_t set, size_t *ret_n);
void sample_labels_release(struct sample_labels *l);

/* A sample with its key for sorting (radix.h). */
struct order_key {
	uint64_t key, place; /* place: in `samples`, before they are sorted */
};

/* An order and the memory for making it, which the next one uses again. Zeroed is empty. */
struct sample_order {
	uint32_t *samples;   /* indices of the vector: those of samples that are not zero */
	size_t n;
	uint32_t *columns, *calls; /* by place: the column, and where its call is among all calls of the dictionary */
	struct order_key *keys;
	size_t room;         /* of all of these arrays */
};

/* Orders the samples of v. In one dictionary no two samples are equal: the last to decide are lines, files, addresses, and labels. permit may
 * be NULL (no limits); an error that it reports is returned. Release with sample_order_release, also after an error. */
int sample_order_make(struct sample_order *o, const struct stackvec *v, enum sample_order_by by, const struct permit *permit, struct err *e) MUST_USE;
void sample_order_release(struct sample_order *o);

#endif
