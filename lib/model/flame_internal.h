/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the flame graph: the tree while it is folded. flame.c makes it, flame_functions.c sums it up by
 * function, flame_emit.c writes the visible part. */
#ifndef PYRRHA_MODEL_FLAME_INTERNAL_H
#define PYRRHA_MODEL_FLAME_INTERNAL_H

#include <math.h>

#include "base/vec.h"
#include "model/calltree.h"
#include "model/flame.h"

/* A set of ids, each with its place among them. */
struct idset {
	uint64_t *bits;
	uint32_t *below; /* members before each word */
	size_t words, n;
};

struct fcall {
	uint32_t parent, frame;
	uint32_t subtree : 31; /* number of calls in its subtree, itself included: those that follow */
	uint32_t kept : 1;     /* shown, however small it is */
	int32_t line;     /* that all nodes of the call that are met are at; 0 = several, or unknown; CALL_LINES: see wide */
	union flame_value self, total;
};

/* The line of a call that 32 bits do not hold. */
struct wide_line {
	uint32_t call;
	int64_t line;
};

/* For a diff: the side that is subtracted. */
struct fbase {
	union flame_value self, total;
};

struct fold {
	struct flame *out;
	const struct symbols *s;
	bool is_float, overflow;
	struct idset met;         /* places in the order of the dictionary's calls */
	bool dense;               /* all are met: their places here are those there */
	struct room room, depths_room;
	struct fcall *calls;      /* by place in met: each before all below it, children by name ascending */
	uint32_t *depths;         /* as calls */
	struct fbase *bases;      /* as calls; NULL: no diff */
	VEC(struct wide_line) wide; /* by call */
	uint32_t *frame_of;       /* by name of the tree: frame + 1 */
	uint32_t root;            /* the call that all is relative to */
	uint32_t other;           /* frame "(other)"; 0: nothing goes there */
	bool *used;               /* by frame: a node has it */
	VEC(struct flame_frame) frames; /* [0] "total"; once all are there, the rest is by name ascending */
};

/* flame_emit.c: of a call whose line is CALL_LINES. */
int64_t fold_wide_line(const struct fold *f, size_t call);

static inline int64_t fold_line(const struct fold *f, size_t call)
{
	int32_t line = f->calls[call].line;
	return LIKELY(line != CALL_LINES) ? line : fold_wide_line(f, call);
}

/* If the flame is not a diff, the other side is 0. */
static inline struct fbase fold_base(const struct fold *f, size_t call)
{
	return f->bases ? f->bases[call] : (struct fbase){ { 0 }, { 0 } };
}

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

/* For a diff the larger side. */
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
int fold_functions(struct fold *f, const struct flame_ask *ask, struct err *e) MUST_USE;
/* flame_emit.c: the nodes, then only the frames that are in use. */
int fold_emit(struct fold *f, const struct flame_ask *ask, struct err *e) MUST_USE;
void fold_drop_frames(struct fold *f);

#endif
