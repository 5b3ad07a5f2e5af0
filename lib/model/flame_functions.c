/* SPDX-License-Identifier: Apache-2.0 */
/* Sums up the calls of a flame by function, searches them, and finds the paths that stay in a trimmed tree. */
#include <stdlib.h>

#include "model/flame_internal.h"

/* The calls of one frame, adjacent in memory. */
struct frame_sums {
	union flame_value self, total, base_self, base_total;
	double largest; /* self of one call */
	uint32_t call;  /* that one */
	uint32_t open;  /* its calls that contain the current one */
};

struct function_sums {
	struct frame_sums *v; /* by frame */
	bool *found;          /* by frame: it matches the search; NULL without one */
	uint32_t open_found;  /* matching calls that contain the current one */
};

static void enter(struct fold *f, struct function_sums *s, const struct fcall *c)
{
	struct frame_sums *x = &s->v[c->frame];
	const struct fbase b = fold_base(f, (size_t)(c - f->calls));
	double self = fold_larger(f, c->self, b.self);
	fold_add(f, &x->self, c->self);
	fold_add(f, &x->base_self, b.self);
	if (self > x->largest) {
		x->largest = self;
		x->call = (uint32_t)(c - f->calls);
	}
	if (s->found && s->found[c->frame] && !s->open_found++) {
		fold_add(f, &f->out->found, c->total);
		fold_add(f, &f->out->base_found, b.total);
	}
	if (x->open++)
		return;
	fold_add(f, &x->total, c->total);
	fold_add(f, &x->base_total, b.total);
}

static void leave(struct function_sums *s, const struct fcall *c)
{
	s->v[c->frame].open--;
	s->open_found -= s->found && s->found[c->frame];
}

/* Each call below the root and the root itself; the calls below it are between its begin and its end. */
static void sum_functions(struct fold *f, struct function_sums *s)
{
	VEC(uint32_t) open = { 0 };
	for (uint32_t at = f->root, end = at + f->calls[at].subtree; at < end; at++) {
		while (open.n > f->depths[at] - f->depths[f->root])
			leave(s, &f->calls[open.v[--open.n]]);
		enter(f, s, &f->calls[at]);
		vec_push(&open, at);
	}
	while (open.n)
		leave(s, &f->calls[open.v[--open.n]]);
	vec_free(&open);
}

static int by_total(const void *a, const void *b, void *arg)
{
	const struct flame_function *x = a, *y = b;
	double u = fold_larger(arg, x->total, x->base_total), v = fold_larger(arg, y->total, y->base_total);
	if (u != v)
		return (u < v) - (u > v);
	return (x->frame > y->frame) - (x->frame < y->frame); /* by name */
}

static int by_self(const void *a, const void *b, void *arg)
{
	const struct fold *f = arg;
	const struct flame_function *x = a, *y = b;
	double u = fold_larger(f, x->self, x->base_self), v = fold_larger(f, y->self, y->base_self);
	if (u != v)
		return (u < v) - (u > v);
	return (x->frame > y->frame) - (x->frame < y->frame); /* by name */
}

/* If there are more rows than wanted, keeps those with the largest totals and those with the largest selves;
 * by self. */
static size_t keep_largest(struct fold *f, struct flame_function *v, size_t n, size_t most)
{
	size_t half = most / 2, kept = MIN(n, half);
	if (n <= most)
		return n;
	qsort_r(v, n, sizeof *v, by_total, f);
	qsort_r(v + kept, n - kept, sizeof *v, by_self, f);
	qsort_r(v, most, sizeof *v, by_self, f);
	return most;
}

/* The way to the largest call of each of the first rows. */
static void keep_ways(struct fold *f, const struct function_sums *s, const struct flame_function *v, size_t n)
{
	for (size_t i = 0; i < n && s->v[v[i].frame].largest > 0; i++)
		for (uint32_t at = s->v[v[i].frame].call; at != f->root && !f->calls[at].kept; at = f->calls[at].parent)
			f->calls[at].kept = true;
}

static int find_frames(struct fold *f, const struct flame_ask *ask, bool *found, struct err *e)
{
	for (size_t i = 1; i < f->frames.n; i++) {
		int yes = ask->match(ask->match_arg, &f->frames.v[i], e);
		if (yes < 0)
			return yes;
		found[i] = yes;
	}
	return 0;
}

int fold_functions(struct fold *f, const struct flame_ask *ask, struct err *e)
{
	size_t n = 0, ways = fold_trims(f, ask) ? ask->keep : 0;
	if (!ask->functions && !ask->match && !ways)
		return 0;
	struct function_sums s = { .v = xcalloc(f->frames.n, sizeof *s.v) };
	struct flame_function *rows = f->out->functions = xcalloc(f->frames.n, sizeof *rows);
	bool *found AUTOFREE = xcalloc(f->frames.n, sizeof *found);
	int rc = ask->match ? find_frames(f, ask, found, e) : 0;
	s.found = ask->match ? found : NULL;
	if (!rc)
		sum_functions(f, &s);
	for (uint32_t i = 1; i < f->frames.n; i++) { /* 0 is "total", which is no function */
		const struct frame_sums *x = &s.v[i];
		if (fold_larger(f, x->total, x->base_total) == 0 && fold_larger(f, x->self, x->base_self) == 0)
			continue;
		f->out->n_found += found[i];
		rows[n++] = (struct flame_function){ .frame = i, .total = x->total, .self = x->self, .base_total = x->base_total, .base_self = x->base_self };
	}
	f->out->all_functions = n;
	qsort_r(rows, n, sizeof *rows, by_self, f);
	keep_ways(f, &s, rows, MIN(n, ways));
	f->out->n_functions = keep_largest(f, rows, n, ask->functions);
	free(s.v);
	return rc;
}

