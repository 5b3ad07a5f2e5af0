/* SPDX-License-Identifier: Apache-2.0 */
/* Readouts: numbers out of stacks. With a frame matcher one number per profile, which storage can often sum without returning a stack;
 * without one a row per function (line, file, binary, package), exact and never cut. Rows of a span are read some steps at a time, so
 * that a long range query holds only those. That is done in one pass (graph.c) if each profile is a sum of stored ones, else profile
 * by profile. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/frame.h"
#include "promql-like/eval/funcs.h"
#include "promql-like/eval/readout_calls.h"

/* {function="x"} names a row, which is there though nothing matches. */
static void name_asked_for(struct readout *r)
{
	if (!r->frame_rows || r->by != BY_FUNCTION)
		return;
	for (size_t i = 0; i < r->frames.filter.n; i++)
		if (r->frames.filter.m[i].op == MATCH_EQ && view_eqs(r->frames.filter.m[i].name, "function"))
			readout_touch_function(r, r->frames.filter.m[i].value);
}

static int read_rows(struct readout *r, struct value *v, struct err *e)
{
	VEC(struct lazy_profile *) all = { 0 };
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++)
			vec_push(&all, v->s[i].s[k].p);
	int rc = lazy_profiles_materialise(r->q, all.v, all.n, e);
	vec_free(&all);
	for (size_t i = 0; i < v->n && !rc; i++) {
		size_t in = readout_in(r, v->s[i].labels);
		for (size_t k = 0; k < v->s[i].n && !rc; k++) {
			struct value_sample *s = &v->s[i].s[k];
			readout_rows(r, lazy_side_whole(&s->p->a), false);
			if (s->p->diff)
				readout_rows(r, lazy_side_whole(&s->p->b), true);
			name_asked_for(r);
			rc = frames_failed(&r->frames, e);
			if (!rc)
				rc = readout_check_rows(r, e);
			if (!rc)
				rc = readout_put_rows(r, in, s, e);
			readout_forget_rows(r);
			if (!rc)
				rc = eval_check(r->q, e);
		}
	}
	return rc;
}

/* ---- calls ---- */

static int parse_granularity(struct readout *r, const struct node *arg, struct err *e)
{
	for (unsigned i = 0; i < ARRAY_LEN(granularity_names); i++)
		if (view_eqs(arg->string, granularity_names[i])) {
			r->by = (enum granularity)i;
			return 0;
		}
	return err_set(e, ERR_EXECUTION, "%s: \"%.*s\" is no granularity (function, line, file, binary, package): for frames that "
		       "match an expression write frames(\"%.*s\")", r->n->call.fn->name, VIEW_ARG(arg->string), VIEW_ARG(arg->string));
}

/* F, granularity, or both in this order, between the profiles and what is behind. */
static int parse_args(struct readout *r, size_t behind, struct err *e)
{
	struct node **args = r->n->call.args;
	size_t n = r->n->call.n - behind;
	struct node *first = n > 1 ? node_unwrap(args[1]) : NULL;
	if (!first)
		return 0;
	r->has_frames = first->kind != NODE_STRING;
	r->frame_rows = n > 2;
	if (!r->has_frames && n > 2)
		return err_set(e, ERR_EXECUTION, "%s: one granularity is enough; before it there can be a frame matcher, as in {function=\"x\"}",
			       r->n->call.fn->name);
	int rc = r->has_frames ? frames_init(&r->frames, r->q, first, e) : parse_granularity(r, first, e);
	return rc || n < 3 ? rc : parse_granularity(r, node_unwrap(args[2]), e);
}

static int parse_errors(struct readout *r, struct err *e)
{
	int rc = eval_node(r->q, r->n->call.args[r->n->call.n - 1], r->sp, &r->z, e);
	for (size_t i = 0; i < r->sp->n && !rc; i++)
		if (!(value_scalar(&r->z, i) >= 0 && value_scalar(&r->z, i) < HUGE_VAL))
			rc = err_set(e, ERR_EXECUTION, "%s: the last argument is a number of standard errors, 0 or more, got %g", r->n->call.fn->name,
				     value_scalar(&r->z, i));
	return rc;
}

static void forget_filters(struct readout *r)
{
	for (size_t i = 0; i < r->stack_filters.n; i++)
		stack_filter_release(&r->stack_filters.v[i]);
	vec_free(&r->stack_filters);
	r->in = r->n->call.args[0];
}

static void readout_free(struct readout *r)
{
	for (size_t i = 0; i < r->memos.n; i++) {
		free(r->memos.v[i].lines);
		free(r->memos.v[i].bare);
		free(r->memos.v[i].place);
		free(r->memos.v[i].marks);
		free(r->memos.v[i].marked);
		free(r->memos.v[i].names);
		symbols_unref(r->memos.v[i].s);
	}
	vec_free(&r->memos);
	vec_free(&r->rows);
	vec_free(&r->touched);
	vec_free(&r->tree);
	vec_free(&r->tree_rests);
	value_free(&r->z);
	vec_free(&r->out_keys);
	vec_free(&r->ins);
	map_free(&r->row_map);
	map_free(&r->out_map);
	buf_free(&r->tmp);
	free(r->sums);
	free(r->on);
	frames_release(&r->frames);
	forget_filters(r);
}

/* How many numbers the tables of a graph may hold; more steps at a time share more of what is read. */
#define CELLS_AT_ONCE (4u << 20)

/* All steps at once, where that can be done. *n_steps: how many to take next. */
static int read_graph(struct readout *r, struct value *v, const struct span *sp, bool *ret_done, size_t *n_steps, struct err *e)
{
	size_t rows;
	bool neighbours = r->measure == CALLERS || r->measure == CALLEES;
	*ret_done = false;
	*n_steps = STEPS_AT_ONCE;
	if (sp->n < 2 || neighbours || r->frame_rows)
		return 0;
	int rc = graph_read(r, v, sp, ret_done, &rows, e);
	if (!rc)
		rc = readout_check_rows(r, e);
	if (!rc && *ret_done)
		*n_steps = MAX(CELLS_AT_ONCE / (rows + 1), (size_t)STEPS_AT_ONCE);
	return rc;
}

/* Filters that only choose among samples need not be run: what they take out is passed over while reading. A share is of what they
 * leave, which is not known then. */
static int find_filters(struct readout *r, const struct span *sp, struct err *e)
{
	int rc = 0;
	r->in = r->n->call.args[0];
	if (sp->n < 2 || r->has_frames || (r->measure != SELF && r->measure != TOTAL))
		return 0;
	for (struct node *n = node_unwrap(r->in); stack_filter_is_call(n) && !rc; n = node_unwrap(r->in)) {
		struct stack_filter c;
		rc = stack_filter_init(&c, r->q, n, e);
		if (rc)
			break;
		vec_push(&r->stack_filters, c);
		r->in = n->call.args[0];
	}
	return rc;
}

/* The innermost filter around r->in, or the readout: the node named in warnings about numbers. */
static struct node *taker(const struct readout *r)
{
	struct node *n = r->n;
	for (size_t i = 0; i < r->stack_filters.n; i++)
		n = node_unwrap(n->call.args[0]);
	return n;
}

static int read_value(struct readout *r, const struct span *sp, struct value *ret, struct err *e)
{
	struct node *n = taker(r);
	struct value v;
	int rc = eval_node(r->q, r->in, sp, &v, e);
	if (rc)
		return rc;
	rc = keep_profiles(r->q, n, n->call.fn->name, "there are no stacks in a number", &v, e);
	if (rc)
		value_free(&v);
	else
		*ret = v;
	return rc;
}

static bool reads_rows(const struct readout *r)
{
	return (!r->has_frames || r->frame_rows || r->measure == CALLERS || r->measure == CALLEES) && r->measure != SAMPLES;
}

static int read_chunk(struct readout *r, const struct span *sp, size_t *n_steps, struct err *e)
{
	struct value v;
	bool sums = !reads_rows(r), done = false;
	int rc = sums ? readout_merged(r, sp, &done, e) : 0;
	if (sums && !rc && !done)
		rc = readout_rated(r, sp, &done, e);
	if (rc || done)
		return rc;
	done = sums || r->measure == SAMPLES;
	rc = read_value(r, sp, &v, e);
	if (rc)
		return rc;
	if (r->bound)
		rc = readout_keep_counted(r, &v, e);
	bool kept = false;
	if (!rc && r->q->once)
		rc = readout_kept(r, &v, &kept, e);
	if (rc || kept)
		done = true;
	else if (done)
		rc = r->measure == SAMPLES ? readout_samples(r, &v, e) : readout_sums(r, &v, e);
	else
		rc = read_graph(r, &v, sp, &done, n_steps, e);
	if (!rc && !done && r->stack_filters.n) { /* the filters have to be run */
		value_free(&v);
		forget_filters(r);
		rc = read_value(r, sp, &v, e);
		if (rc)
			return rc;
	}
	if (!rc && !done)
		rc = read_rows(r, &v, e);
	value_free(&v);
	return rc;
}

static int by_out(const void *a, const void *b, void *arg)
{
	const struct readout *r = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	if (r->out_keys.v[i].in != r->out_keys.v[k].in)
		return r->out_keys.v[i].in < r->out_keys.v[k].in ? -1 : 1;
	return readout_cmp_rows(r, r->out_keys.v[i].row, r->out_keys.v[k].row);
}

/* As an instant query has them: rows that a later step met first are put beside the others of their profile. */
static void sort_out(struct readout *r)
{
	uint32_t *order = xcalloc(r->out.n + 1, sizeof *order);
	struct value_series *s = xcalloc(r->out.n + 1, sizeof *s);
	for (size_t i = 0; i < r->out.n; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, r->out.n, sizeof *order, by_out, r);
	for (size_t i = 0; i < r->out.n; i++)
		s[i] = r->out.s[order[i]];
	free(order);
	free(r->out.s);
	r->out.s = s;
	r->out.cap = r->out.n + 1;
}

int readout_run(struct eval *q, struct node *n, const struct span *sp, enum measure m, enum bound bound, struct row_choice *c,
		struct value *ret, struct err *e)
{
	struct readout r = { .q = q, .n = n, .measure = m, .bound = bound, .sp = sp, .choice = c };
	value_start(q, &r.out, PROMQL_VECTOR);
	int rc = parse_args(&r, bound != NO_BOUND, e);
	if (!rc && bound)
		rc = parse_errors(&r, e);
	bool stacks = reads_rows(&r);
	r.in = n->call.args[0];
	if (!rc)
		rc = find_filters(&r, sp, e);
	size_t at_once = stacks ? STEPS_AT_ONCE : sp->n;
	for (size_t i = 0, n_steps = at_once; i < sp->n && !rc; i += at_once, at_once = n_steps) {
		struct span part = { span_at(sp, i), 0, sp->step, MIN(at_once, sp->n - i) };
		part.end = span_at(&part, part.n - 1);
		uint64_t held = atomic_load(&q->bytes);
		rc = read_chunk(&r, &part, &n_steps, e);
		if (!q->once || sp->n > 1) /* else they may be kept */
			eval_give_bytes(q, atomic_load(&q->bytes) - held); /* the stacks of these steps are gone */
	}
	if (!rc && stacks && sp->n > 1)
		sort_out(&r);
	if (c && c->put)
		c->put->by = r.by;
	if (c && !rc)
		readout_find_twins(&r);
	readout_free(&r);
	return value_finish(&r.out, rc, ret);
}

int readout_answer(struct eval *q, struct node *root, const struct source_graph *a, const struct span *sp, bool *ret_fits, source_rows_fn fn, void *arg,
		   struct err *e)
{
	struct node *n = node_unwrap(root);
	const char *name = n->kind == NODE_CALL ? n->call.fn->name : "";
	bool self = strcmp(name, "self") == 0;
	if ((!self && strcmp(name, "total") != 0) || sp->n < 2)
		return err_set(e, ERR_BAD_DATA, "rows of a graph are those of self(x) or total(x) at two steps or more");
	struct readout r = { .q = q, .n = n, .measure = self ? SELF : TOTAL, .sp = sp };
	int rc = parse_args(&r, 0, e);
	r.in = n->call.args[0];
	if (!rc && r.has_frames)
		rc = err_set(e, ERR_BAD_DATA, "rows of a graph are of all frames: leave out the matcher of frames");
	if (!rc)
		rc = find_filters(&r, sp, e);
	if (!rc && node_unwrap(r.in)->kind != NODE_SELECTOR)
		rc = err_set(e, ERR_BAD_DATA, "rows of a graph are of x, or of focus, ignore or where of x");
	if (!rc)
		rc = graph_answer(&r, a, sp, ret_fits, fn, arg, e);
	value_start(q, &r.out, PROMQL_VECTOR);
	readout_free(&r);
	return rc;
}

#define READOUT(name, measure, bound) CALL(name) { return readout_run(q, n, sp, measure, bound, NULL, ret, e); }
READOUT(fn_self, SELF, NO_BOUND)
READOUT(fn_total, TOTAL, NO_BOUND)
READOUT(fn_share, SHARE, NO_BOUND)
READOUT(fn_share_low, SHARE, LOW)
READOUT(fn_share_high, SHARE, HIGH)
READOUT(fn_self_share, SELF_SHARE, NO_BOUND)
READOUT(fn_self_share_low, SELF_SHARE, LOW)
READOUT(fn_self_share_high, SELF_SHARE, HIGH)
READOUT(fn_samples, SAMPLES, NO_BOUND)

/* callers and callees: their second argument is F always. */
static int neighbours(struct eval *q, struct node *n, const struct span *sp, enum measure m, struct value *ret, struct err *e)
{
	struct node *arg = node_unwrap(n->call.args[1]);
	if (arg->kind != NODE_STRING)
		return readout_run(q, n, sp, m, NO_BOUND, NULL, ret, e);
	/* here a string can only be an expression */
	struct node frames = { .kind = NODE_CALL, .call = { func_lookup(VIEW("frames")), &n->call.args[1], 1 } };
	struct node *args[] = { n->call.args[0], &frames };
	struct node copy = *n;
	copy.call.args = args;
	return readout_run(q, &copy, sp, m, NO_BOUND, NULL, ret, e);
}

CALL(fn_callers)
{
	return neighbours(q, n, sp, CALLERS, ret, e);
}

CALL(fn_callees)
{
	return neighbours(q, n, sp, CALLEES, ret, e);
}
