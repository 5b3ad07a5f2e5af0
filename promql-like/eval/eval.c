/* SPDX-License-Identifier: Apache-2.0 */
/* The centre of evaluation: preparations (times, invariance, aliases), the function of each node, subqueries, and the reuse of results
 * that are equal at every step. */
#include "promql-like/eval/eval.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/lock.h"
#include "promql-like/stacks/shared.h"
#include "promql-like/values/explain.h"

/* ---- before ---- */

static int duration_value(struct eval *q, const struct node *n, double *ret, struct err *e)
{
	if (n->kind == NODE_NUMBER) {
		*ret = n->number.v;
		return 0;
	}
	double a = 0, b = 0;
	int rc = n->dur.lhs ? duration_value(q, n->dur.lhs, &a, e) : 0;
	if (!rc && n->dur.rhs)
		rc = duration_value(q, n->dur.rhs, &b, e);
	if (rc)
		return rc;
	switch (n->dur.op) {
	case OP_STEP: *ret = (double)q->top.step / 1000 * q->is_range; break;
	case OP_RANGE: *ret = ((double)q->top.end - (double)q->top.start) / 1000; break;
	case OP_MIN_OF: *ret = fmin(a, b); break;
	case OP_MAX_OF: *ret = fmax(a, b); break;
	case OP_ADD: *ret = a + b; break;
	case OP_SUB: *ret = a - b; break;
	case OP_MUL: *ret = a * b; break;
	case OP_DIV:
	case OP_MOD:
		if (b == 0)
			return parse_error(e, q->x->src, n->start, n->dur.op == OP_DIV ? "division by zero" : "modulo by zero");
		*ret = n->dur.op == OP_DIV ? a / b : fmod(a, b);
		break;
	case OP_POW: *ret = pow(a, b); break;
	default: break;
	}
	if (!(fabs(*ret) < 9.2e9))
		return parse_error(e, q->x->src, n->start, "duration out of range");
	return 0;
}

static int set_duration(struct eval *q, const struct node *n, bool positive, int64_t *ret_ms, struct err *e)
{
	double v;
	if (!n)
		return 0;
	int rc = duration_value(q, n, &v, e);
	if (rc)
		return rc;
	if (positive && v <= 0)
		return parse_error(e, q->x->src, n->start, "duration must be greater than 0");
	*ret_ms = llround(v * 1000);
	if (positive && !*ret_ms)
		return parse_error(e, q->x->src, n->start, "duration must be a millisecond at least");
	return 0;
}

static int prepare_mods(struct eval *q, struct time_mods *m, struct err *e)
{
	if (m->at == AT_START || m->at == AT_END)
		m->at_ms = m->at == AT_START ? q->top.start : q->top.end;
	const int64_t far = INT64_MAX / 2; /* beyond which nothing is, and where ranges and offsets can be added to it */
	m->at_ms = MAX(MIN(m->at_ms, far), -far);
	return set_duration(q, m->offset_expr, false, &m->offset_ms, e);
}

/* `cpu` selects series that are called cpu, or the name in the table: one of two literals. */
static int expand_alias(struct eval *q, struct matcher *m, struct err *e)
{
	if (m->op != MATCH_EQ || !view_eqs(m->name, LABEL_NAME))
		return 0;
	struct view full = engine_names_alias(q->names, m->value);
	if (!full.len)
		return 0;
	char *both = arena_printf(&q->arena, "%.*s|%.*s", VIEW_ARG(m->value), VIEW_ARG(full));
	struct matcher *n = arena_calloc(&q->arena, 1, sizeof *n);
	if (!both || !n)
		return err_set(e, ERR_LIMIT, "the query needs too much memory");
	int rc = matcher_init(n, MATCH_RE, m->name, view_of(both), e);
	if (rc)
		return rc;
	vec_push(&q->matchers, n);
	*m = *n;
	return 0;
}

static bool depends_on_time(const struct node *n)
{
	static const char *const names[] = { "time", "timestamp", "predict_linear", "start", "end", "step", "range" };
	const struct func *f = n->call.fn;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(f->name, names[i]) == 0)
			return true;
	return f->form == FUNC_TIME; /* with an argument they would not, but that is rare */
}

static int prepare_children(struct eval *q, struct node *n, bool *all_invariant, struct err *e)
{
	struct node *kids[2] = { 0 };
	struct node **list = kids;
	size_t count = 0;
	switch (n->kind) {
	case NODE_BINARY: kids[count++] = n->binary.lhs; kids[count++] = n->binary.rhs; break;
	case NODE_AGGREGATE:
		kids[count++] = n->aggr.expr;
		if (n->aggr.param)
			kids[count++] = n->aggr.param;
		break;
	case NODE_CALL: list = n->call.args; count = n->call.n; break;
	case NODE_UNARY: kids[count++] = n->unary.expr; break;
	case NODE_PAREN: kids[count++] = n->paren; break;
	case NODE_RANGE: kids[count++] = n->range.sel; break;
	case NODE_SUBQUERY: kids[count++] = n->sub.expr; break;
	default: break;
	}
	*all_invariant = true;
	for (size_t i = 0; i < count; i++) {
		int rc = eval_prepare(q, list[i], e);
		if (rc)
			return rc;
		*all_invariant &= list[i]->invariant;
	}
	return 0;
}

int eval_prepare(struct eval *q, struct node *n, struct err *e)
{
	bool all;
	int rc = prepare_children(q, n, &all, e);
	if (rc)
		return rc;
	n->invariant = all;
	switch (n->kind) {
	case NODE_SELECTOR:
		n->invariant = n->sel.mods.at != AT_NONE;
		rc = prepare_mods(q, &n->sel.mods, e);
		for (size_t i = 0; i < n->sel.n && !rc; i++)
			rc = expand_alias(q, &n->sel.m[i], e);
		break;
	case NODE_RANGE: return set_duration(q, n->range.expr, true, &n->range.ms, e);
	case NODE_SUBQUERY:
		n->invariant = n->sub.mods.at != AT_NONE;
		rc = prepare_mods(q, &n->sub.mods, e);
		if (!rc)
			rc = set_duration(q, n->sub.range_expr, true, &n->sub.range_ms, e);
		if (!rc)
			rc = set_duration(q, n->sub.step_expr, true, &n->sub.step_ms, e);
		break;
	case NODE_CALL:
		if (depends_on_time(n))
			n->invariant = false;
		break;
	default: break;
	}
	return rc;
}

/* Aggregations of numbers, whatever they are of. */
static bool of_numbers(enum aggregate_op op)
{
	return op == AGGR_COUNT || op == AGGR_MIN || op == AGGR_MAX || op == AGGR_GROUP || op == AGGR_STDDEV || op == AGGR_STDVAR ||
	       op == AGGR_QUANTILE || op == AGGR_COUNT_VALUES;
}

void eval_want_values(struct node *n)
{
	n->values_only = true;
	if (n->kind == NODE_PAREN)
		eval_want_values(n->paren);
	else if (n->kind == NODE_AGGREGATE && (of_numbers(n->aggr.op) || aggregate_passes_on(n->aggr.op)))
		eval_want_values(n->aggr.expr);
	else if (n->kind == NODE_CALL && n->call.fn->form == FUNC_MAP)
		eval_want_values(n->call.args[0]);
}

/* ---- nodes ---- */

static int eval_number(struct eval *q, double x, const struct span *sp, struct value *ret, struct err *e)
{
	struct value v;
	value_start(q, &v, PROMQL_SCALAR);
	struct value_series *s = value_add(&v, (struct labels){ 0 }, false);
	int rc = 0;
	for (size_t i = 0; i < sp->n && !rc; i++)
		rc = series_push(q, s, span_at(sp, i), x, NULL, e);
	if (rc) {
		value_free(&v);
		return rc;
	}
	*ret = v;
	return 0;
}

static int dispatch(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	switch (n->kind) {
	case NODE_NUMBER: return eval_number(q, n->number.v, sp, ret, e);
	case NODE_STRING:
		value_start(q, ret, PROMQL_STRING);
		ret->str = n->string;
		return 0;
	case NODE_SELECTOR: return eval_selector(q, n, sp, ret, e);
	case NODE_PAREN: return eval_node(q, n->paren, sp, ret, e);
	case NODE_UNARY: return eval_unary(q, n, sp, ret, e);
	case NODE_BINARY: return eval_binary(q, n, sp, ret, e);
	case NODE_AGGREGATE:
		return n->aggr.op == AGGR_MERGE ? eval_merge(q, n, sp, ret, e)
		     : n->aggr.op == AGGR_SPLIT ? eval_split(q, n, sp, ret, e) : eval_aggregate(q, n, sp, ret, e);
	case NODE_CALL: return eval_call(q, n, sp, ret, e);
	case NODE_RANGE:
	case NODE_SUBQUERY:
	case NODE_FRAMES:
	case NODE_DURATION: break;
	}
	return err_set(e, ERR_INTERNAL, "a node of kind %d cannot be evaluated by itself", n->kind);
}

/* The same at every step: evaluated once per query, handed out as copies. */
static int eval_invariant(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	struct span one = { sp->start, sp->start, sp->step, 1 };
	struct value *m = &q->memo[n->id], mine;
	mutex_lock(&q->memo_lock);
	bool known = m->q;
	mutex_unlock(&q->memo_lock);
	/* Not under the lock: what is below may be invariant too, and may wait for other workers. */
	uint64_t counted = atomic_load(&q->counted);
	int rc = known ? 0 : dispatch(q, n, &one, &mine, e);
	if (rc)
		return rc;
	atomic_fetch_add(&q->counted, (atomic_load(&q->counted) - counted) * (sp->n - 1)); /* taken at every step, read once */
	if (!known) {
		mutex_lock(&q->memo_lock);
		known = m->q;
		if (!known)
			*m = mine;
		mutex_unlock(&q->memo_lock);
		if (known)
			value_free(&mine); /* another worker was faster */
	}
	return value_copy_steps(q, m, sp, ret, e);
}

/* Not kept if it had warnings: these have a place in this query. */
static int eval_once(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	struct view text = shared_text(q, n);
	bool found;
	int rc = shared_find(q->once, q, text, sp, n->values_only, ret, &found, e);
	if (rc || found)
		return rc;
	uint64_t counted = atomic_load(&q->counted), lacks = source_damage_met(&q->damage);
	size_t notes = q->notes.n;
	rc = dispatch(q, n, sp, ret, e);
	if (!rc && q->notes.n == notes && source_damage_met(&q->damage) == lacks)
		shared_keep(q->once, q, text, sp, n->values_only, ret, atomic_load(&q->counted) - counted);
	return rc;
}

int eval_node(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	int rc = eval_check(q, e);
	if (rc)
		return rc;
	struct explaining at = explain_begin(q, n);
	bool worth = n->invariant && sp->n > 1 && n->kind != NODE_NUMBER && n->kind != NODE_STRING;
	bool once = n->once && q->once && (sp->n == 1 || sp->n == q->top.n);
	rc = worth ? eval_invariant(q, n, sp, ret, e) : once ? eval_once(q, n, sp, ret, e) : dispatch(q, n, sp, ret, e);
	explain_end(q, n, rc ? NULL : ret, at);
	return eval_error_at(q, n, rc, e);
}
