/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the flame share: the tree while it is folded. flame.c makes it, flame_functions.c sums it up by function,
 * flame_emit.c writes what of it is shown. */
#ifndef PYRRHA_MODEL_FLAME_INTERNAL_H
#define PYRRHA_MODEL_FLAME_INTERNAL_H

#include <math.h>

#include "base/vec.h"
#include "model/flame.h"

/* A set of ids, each with its place among them. */
struct idset {
	uint64_t *bits;
	uint32_t *below; /* members before each word */
	size_t words, n;
};

#define UNMET UINT32_MAX /* frame of a call that no node led to yet */

struct fcall {
	uint32_t parent, frame;
	uint32_t first_child, next_sibling; /* 0 = none: the root is nobody's child */
	int64_t line;
	union flame_value self, total, base_self, base_total;
	uint32_t subtree; /* calls in it, itself included, if any of them has a value; else 0: it is not shown */
	bool kept;        /* shown, however small it is */
};

struct fold {
	struct flame *out;
	const struct symbols *s;
	bool is_float, overflow;
	struct idset needed, met; /* nodes of the dictionary; calls of its tree */
	uint32_t *nodes;          /* needed, ascending, without the root */
	uint32_t *call_at;        /* by place of the node: the call of it */
	struct fcall *calls;      /* by place in met */
	uint32_t *frame_of;       /* by name of the tree: frame + 1 */
	uint32_t root;            /* the call that all is relative to */
	uint32_t other;           /* frame "(other)"; 0: nothing goes there */
	VEC(struct flame_frame) frames; /* [0] "total"; once all are there, the rest is by name ascending */
};

static inline void fold_add(struct fold *f, union flame_value *to, union flame_value v)
{
	if (f->is_float)
		to->d += v.d;
	else
		f->overflow |= __builtin_add_overflow(to->i, v.i, &to->i);
}

static inline double fold_magnitude(const struct fold *f, union flame_value v)
{
	return fabs(f->is_float ? v.d : (double)v.i);
}

/* Of a diff the larger side. */
static inline double fold_larger(const struct fold *f, union flame_value a, union flame_value b)
{
	return MAX(fold_magnitude(f, a), fold_magnitude(f, b));
}

/* Whether what is small is left out of that tree. */
static inline bool fold_trims(const struct fold *f, const struct flame_ask *ask)
{
	return ask->min_share > 0 && f->calls[f->root].subtree > ask->whole;
}

/* flame_functions.c: the rows of functions below the root, what a search finds, and which calls are kept. */
int fold_functions(struct fold *f, const struct flame_ask *ask, struct err *e);
/* flame_emit.c: the nodes, then only the frames that are in use. */
void fold_emit(struct fold *f, const struct flame_ask *ask);
void fold_drop_frames(struct fold *f);

#endif
