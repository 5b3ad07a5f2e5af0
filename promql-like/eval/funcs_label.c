/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of labels and order. Elements pass through with their profiles. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "promql-like/eval/funcs.h"

static int by_step_time(const void *a, const void *b)
{
	const struct value_sample *x = a, *y = b;
	return (x->t_ms > y->t_ms) - (x->t_ms < y->t_ms);
}

/* Series that became equal are joined where they do not overlap. */
int merge_same_labels(struct value *v, struct err *e)
{
	struct map m = { 0 };
	int rc = 0;
	size_t out = 0;
	for (size_t i = 0; i < v->n && !rc; i++) {
		uint64_t h = labels_hash(v->s[i].labels);
		uint32_t id;
		struct value_series *same = NULL;
		for (size_t at = map_start(&m, h); !same && map_probe(&m, h, &at, &id);)
			if (labels_eq(v->s[id].labels, v->s[i].labels) && v->s[id].drop_name == v->s[i].drop_name)
				same = &v->s[id];
		if (!same) {
			map_insert(&m, h, (uint32_t)out);
			struct value_series moved = v->s[i];
			v->s[i] = (struct value_series){ 0 }; /* one owner, whatever fails below */
			v->s[out++] = moved;
			continue;
		}
		struct value_series *s = &v->s[i];
		same->s = xreallocarray(same->s, same->n + s->n, sizeof *s->s);
		if (s->n)
			memcpy(same->s + same->n, s->s, s->n * sizeof *s->s);
		same->n = same->cap = same->n + s->n;
		free(s->s);
		qsort(same->s, same->n, sizeof *same->s, by_step_time);
		for (size_t k = 1; k < same->n && !rc; k++)
			if (same->s[k].t_ms == same->s[k - 1].t_ms)
				rc = err_set(e, ERR_EXECUTION, "vector cannot contain metrics with the same labelset");
		s->s = NULL;
		s->n = 0;
	}
	if (!rc)
		v->n = out;
	map_free(&m);
	return rc;
}

#define VALUE_MOST ((size_t)1 << 20) /* bytes of a label's value, as for relabelling */
#define VALUE_SMALL ((size_t)1 << 10) /* bytes: a larger value counts as memory of the query */

/* Nested calls multiply the length of a value: 1.7 kB of query make a gigabyte. */
static int check_value(struct eval *q, const struct buf *value, struct err *e)
{
	if (value->overflow)
		return err_set(e, ERR_LIMIT, "the value of a label would be longer than %zu bytes", value->max);
	int rc = value->len > VALUE_SMALL ? eval_hold_bytes(q, value->len, e) : 0;
	return rc ? rc : eval_check(q, e);
}

static void set_label(struct eval *q, struct value_series *s, struct view name, struct view value)
{
	struct labels_builder b;
	labels_builder_init(&b, s->labels);
	labels_builder_set(&b, name, eval_view(q, value));
	s->labels = eval_labels(q, &b);
	labels_builder_free(&b);
	if (view_eqs(name, LABEL_NAME))
		s->drop_name = false;
}

bool label_name_ok(struct view v)
{
	return v.len && utf8_valid(v);
}

CALL(fn_label_replace)
{
	struct view to = string_arg(n->call.args[1]), with = string_arg(n->call.args[2]), from = string_arg(n->call.args[3]),
		    expr = string_arg(n->call.args[4]);
	struct regex *re;
	if (regex_new(&re, expr, true, e))
		return err_set(e, ERR_EXECUTION, "invalid regular expression in label_replace(): %.*s", VIEW_ARG(expr));
	if (!label_name_ok(to)) {
		regex_unref(re);
		return err_set(e, ERR_EXECUTION, "invalid destination label name in label_replace(): %.*s", VIEW_ARG(to));
	}
	struct value v = { 0 };
	int rc = eval_node(q, n->call.args[0], sp, &v, e);
	struct buf b = { .max = VALUE_MOST };
	for (size_t i = 0; i < v.n && rc >= 0; i++) {
		buf_reset(&b);
		rc = regex_expand(re, labels_get(v.s[i].labels, from), with, &b, &q->regex, e);
		int wrong = rc >= 0 ? check_value(q, &b, e) : 0;
		if (wrong)
			rc = wrong;
		else if (rc > 0)
			set_label(q, &v.s[i], to, buf_view(&b));
	}
	buf_free(&b);
	regex_unref(re);
	if (rc >= 0)
		rc = merge_same_labels(&v, e);
	if (rc < 0) {
		value_free(&v);
		return rc;
	}
	*ret = v;
	return 0;
}

CALL(fn_label_join)
{
	struct view to = string_arg(n->call.args[1]), separator = string_arg(n->call.args[2]);
	for (size_t i = 3; i < n->call.n; i++)
		if (!label_name_ok(string_arg(n->call.args[i])))
			return err_set(e, ERR_EXECUTION, "invalid source label name in label_join(): %.*s",
				       VIEW_ARG(string_arg(n->call.args[i])));
	if (!label_name_ok(to))
		return err_set(e, ERR_EXECUTION, "invalid destination label name in label_join(): %.*s", VIEW_ARG(to));
	struct value v;
	int rc = eval_node(q, n->call.args[0], sp, &v, e);
	if (rc)
		return rc;
	struct buf b = { .max = VALUE_MOST };
	for (size_t i = 0; i < v.n && !rc; i++) {
		buf_reset(&b);
		for (size_t k = 3; k < n->call.n; k++) {
			if (k > 3)
				buf_putv(&b, separator);
			buf_putv(&b, labels_get(v.s[i].labels, string_arg(n->call.args[k])));
		}
		rc = check_value(q, &b, e);
		if (!rc)
			set_label(q, &v.s[i], to, buf_view(&b));
	}
	buf_free(&b);
	if (!rc)
		rc = merge_same_labels(&v, e);
	if (rc) {
		value_free(&v);
		return rc;
	}
	*ret = v;
	return 0;
}

/* ---- order: only an instant query's answer keeps it ----
 *
 * Of equal values the first by labels is first, as in topk. */

static int sort_compare(const struct value_series *x, const struct value_series *y, bool falls)
{
	double p = x->n ? x->s[0].v : NAN, q = y->n ? y->s[0].v : NAN;
	int c = isnan(p) || isnan(q) ? isnan(p) - isnan(q) /* last */ : falls ? (p < q) - (p > q) : (p > q) - (p < q);
	return c ? c : labels_cmp(x->labels, y->labels);
}

static int ascending(const void *a, const void *b)
{
	return sort_compare(a, b, false);
}

static int descending(const void *a, const void *b)
{
	return sort_compare(a, b, true);
}

static void note_order(struct eval *q, const struct node *n)
{
	char place[32];
	if (q->is_range)
		eval_note(q, false, "PromQL warning: sort is ineffective for range queries since results are always ordered by labels (%s)",
			  eval_place(q, n->start, place));
}

static int sort_values(struct eval *q, struct node *n, const struct span *sp, int (*order)(const void *, const void *),
		       struct value *ret, struct err *e)
{
	int rc = eval_node(q, n->call.args[0], sp, ret, e);
	note_order(q, n);
	if (!rc && sp->n == 1 && ret->n)
		qsort(ret->s, ret->n, sizeof *ret->s, order);
	return rc;
}

CALL(fn_sort)
{
	return sort_values(q, n, sp, ascending, ret, e);
}

CALL(fn_sort_desc)
{
	return sort_values(q, n, sp, descending, ret, e);
}

/* "a2" before "a10": runs of digits compare as numbers. */
static int natural_cmp(struct view a, struct view b)
{
	size_t i = 0, k = 0;
	while (i < a.len && k < b.len) {
		bool da = a.ptr[i] >= '0' && a.ptr[i] <= '9', db = b.ptr[k] >= '0' && b.ptr[k] <= '9';
		if (da != db || !da) {
			if (a.ptr[i] != b.ptr[k])
				return (unsigned char)a.ptr[i] < (unsigned char)b.ptr[k] ? -1 : 1;
			i++;
			k++;
			continue;
		}
		size_t si = i, sk = k;
		while (si < a.len && a.ptr[si] == '0')
			si++;
		while (sk < b.len && b.ptr[sk] == '0')
			sk++;
		size_t ei = si, ek = sk;
		while (ei < a.len && a.ptr[ei] >= '0' && a.ptr[ei] <= '9')
			ei++;
		while (ek < b.len && b.ptr[ek] >= '0' && b.ptr[ek] <= '9')
			ek++;
		if (ei - si != ek - sk)
			return ei - si < ek - sk ? -1 : 1;
		int c = memcmp(a.ptr + si, b.ptr + sk, ei - si);
		if (c)
			return c;
		i = ei;
		k = ek;
	}
	return (i < a.len) - (k < b.len);
}

struct label_order {
	const struct node *n;
	int sign;
};

static int by_labels(const void *a, const void *b, void *arg)
{
	const struct label_order *o = arg;
	const struct value_series *x = a, *y = b;
	for (size_t i = 1; i < o->n->call.n; i++) {
		struct view name = string_arg(o->n->call.args[i]);
		int c = natural_cmp(labels_get(x->labels, name), labels_get(y->labels, name));
		if (c)
			return c * o->sign;
	}
	return labels_cmp(x->labels, y->labels) * o->sign;
}

static int sort_labels(struct eval *q, struct node *n, const struct span *sp, int sign, struct value *ret, struct err *e)
{
	int rc = eval_node(q, n->call.args[0], sp, ret, e);
	struct label_order o = { n, sign };
	note_order(q, n);
	if (!rc && sp->n == 1 && ret->n)
		qsort_r(ret->s, ret->n, sizeof *ret->s, by_labels, &o);
	return rc;
}

CALL(fn_sort_by_label)
{
	return sort_labels(q, n, sp, 1, ret, e);
}

CALL(fn_sort_by_label_desc)
{
	return sort_labels(q, n, sp, -1, ret, e);
}
