/* SPDX-License-Identifier: Apache-2.0 */
/* Filters that only choose among samples: the choice depends on a sample's stack or labels, not on its value, so it is made once for
 * each column. */
#include "promql-like/stacks/stack_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "promql-like/syntax/func.h"
#include "promql-like/values/query.h"

static bool has(const struct stack_filter *c, struct frames_memo *fm, uint32_t column)
{
	(void)c;
	return frames_memo_stack(fm, column, false);
}

static bool has_not(const struct stack_filter *c, struct frames_memo *fm, uint32_t column)
{
	(void)c;
	return !frames_memo_stack(fm, column, false);
}

/* ---- where ---- */

struct view sample_label_text(const struct symbols *s, const struct sym_label *l, char tmp[32])
{
	if (!l->is_num)
		return symbols_get_string(s, l->str);
	int n = snprintf(tmp, 32, "%lld", (long long)l->num);
	return view_make(tmp, (size_t)n);
}

/* Some value of the label satisfies it; a label that is not there is "". */
static bool label_matches(const struct frames *f, const struct matcher *m, const struct symbols *s, const struct sym_label *l, size_t n)
{
	bool there = false;
	for (size_t i = 0; i < n; i++) {
		char tmp[32];
		if (!view_eq(symbols_get_string(s, l[i].key), m->name))
			continue;
		there = true;
		if (frames_value(f, m, sample_label_text(s, &l[i], tmp)))
			return true;
	}
	return !there && frames_value(f, m, VIEW(""));
}

struct bound {
	bool set, has_unit;
	double v;          /* in base units if the unit is known */
};

/* "1mb", "-4", "": number and unit. */
static bool parse_bound(struct view t, struct bound *b)
{
	size_t i = 0;
	*b = (struct bound){ 0 };
	if (!t.len)
		return true;
	while (i < t.len && (strchr("+-.", t.ptr[i]) || (t.ptr[i] >= '0' && t.ptr[i] <= '9')))
		i++;
	if (!num_parse_double(view_make(t.ptr, i), &b->v))
		return false;
	b->set = true;
	if (i < t.len) {
		char unit[32] = "";
		struct unit_info u;
		for (size_t k = 0; i + k < t.len && k < sizeof unit - 1; k++)
			unit[k] = (char)(t.ptr[i + k] | 0x20);
		if (!unit_lookup(view_of(unit), &u))
			return false;
		b->has_unit = true;
		b->v *= u.factor;
	}
	return true;
}

static bool parse_bounds(struct view range, struct bound *lo, struct bound *hi)
{
	const char *colon = memchr(range.ptr, ':', range.len);
	if (!colon) {
		if (!range.len || !parse_bound(range, lo))
			return false;
		*hi = *lo;
		return true;
	}
	return parse_bound(view_make(range.ptr, (size_t)(colon - range.ptr)), lo) &&
	       parse_bound(view_make(colon + 1, range.len - (size_t)(colon + 1 - range.ptr)), hi) && (lo->set || hi->set);
}

static bool number_in(const struct bound *b, bool lower, double raw, double base)
{
	if (!b->set)
		return true;
	double v = b->has_unit ? base : raw;
	return lower ? v >= b->v : v <= b->v;
}

static bool in_range(const struct stack_filter *c, const struct symbols *s, const struct sym_label *l, size_t n)
{
	struct bound lo, hi;
	parse_bounds(c->range, &lo, &hi);
	for (size_t i = 0; i < n; i++) {
		if (!l[i].is_num || !view_eq(symbols_get_string(s, l[i].key), c->key))
			continue;
		struct view unit = symbols_get_string(s, l[i].unit);
		struct unit_info u;
		if (!unit.len && (view_eqs(c->key, "request") || view_eqs(c->key, "alignment")))
			unit = VIEW("bytes");
		else if (!unit.len)
			unit = c->key;
		unit_lookup(unit, &u);
		double raw = (double)l[i].num, base = raw * u.factor;
		if (number_in(&lo, true, raw, base) && number_in(&hi, false, raw, base))
			return true;
	}
	return false;
}

static bool where_keeps(const struct stack_filter *c, struct frames_memo *fm, uint32_t column)
{
	size_t n;
	const struct sym_label *l = symbols_get_label_set(fm->s, symbols_get_column(fm->s, column)->label_set, &n);
	if (!c->frames.filter.n)
		return in_range(c, fm->s, l, n);
	for (size_t i = 0; i < c->frames.filter.n; i++)
		if (!label_matches(&c->frames, &c->frames.filter.m[i], fm->s, l, n))
			return false;
	return true;
}

/* ---- the filters ---- */

static const struct {
	const char *name;
	bool (*keeps)(const struct stack_filter *c, struct frames_memo *m, uint32_t column);
} stack_filters[] = { { "focus", has }, { "ignore", has_not }, { "where", where_keeps } };

bool stack_filter_is_call(const struct node *n)
{
	for (size_t i = 0; i < ARRAY_LEN(stack_filters) && n->kind == NODE_CALL; i++)
		if (strcmp(n->call.fn->name, stack_filters[i].name) == 0)
			return true;
	return false;
}

static int init_where(struct stack_filter *c, struct eval *q, const struct node *n, struct err *e)
{
	struct node *arg = node_unwrap(n->call.args[1]);
	struct bound lo, hi;
	if (arg->kind == NODE_FRAMES) {
		if (n->call.n > 2)
			return err_set(e, ERR_EXECUTION, "where takes sample labels, or a key and a range: where(P, \"bytes\", \"1mb:4mb\")");
		return frames_init(&c->frames, q, arg, e);
	}
	if (n->call.n < 3)
		return err_set(e, ERR_EXECUTION, "where takes sample labels, as in where(P, {thread=\"x\"}), or a key and a range, as in "
			       "where(P, \"bytes\", \"1mb:4mb\")");
	c->key = string_arg(arg);
	c->range = string_arg(n->call.args[2]);
	if (!parse_bounds(c->range, &lo, &hi))
		return err_set(e, ERR_EXECUTION, "where: \"%.*s\" is no range such as 1mb:4mb, :64kb or 4096", VIEW_ARG(c->range));
	return 0;
}

int stack_filter_init(struct stack_filter *ret, struct eval *q, const struct node *n, struct err *e)
{
	*ret = (struct stack_filter){ 0 };
	for (size_t i = 0; i < ARRAY_LEN(stack_filters); i++)
		if (strcmp(n->call.fn->name, stack_filters[i].name) == 0)
			ret->keeps = stack_filters[i].keeps;
	return ret->keeps == where_keeps ? init_where(ret, q, n, e) : frames_init(&ret->frames, q, n->call.args[1], e);
}

void stack_filter_release(struct stack_filter *c)
{
	frames_release(&c->frames);
}

struct stackvec *stack_filter_run(const struct stack_filter *c, const struct stackvec *v, struct err *e)
{
	struct frames_memo fm;
	frames_memo_init(&fm, &c->frames, v->symbols);
	uint32_t *columns = xreallocarray(NULL, v->n + 1, sizeof *columns);
	int64_t *values = xreallocarray(NULL, v->n + 1, sizeof *values); /* or doubles: as wide */
	size_t n = 0;
	for (size_t i = 0; i < v->n; i++)
		if (c->keeps(c, &fm, v->columns[i])) {
			columns[n] = v->columns[i];
			memcpy(&values[n++], v->is_float ? (const void *)&v->floats[i] : (const void *)&v->ints[i], sizeof *values);
		}
	frames_memo_free(&fm);
	if (frames_failed(&c->frames, e)) {
		free(columns);
		free(values);
		return NULL;
	}
	return v->is_float ? stackvec_new_floats(v->symbols, columns, (double *)values, n)
			   : stackvec_new_ints(v->symbols, columns, values, n);
}
