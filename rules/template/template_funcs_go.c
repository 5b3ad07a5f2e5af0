/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that text/template has itself. */
#include "base/num.h"
#include "rules/template/template_fmt.h"
#include "rules/template/template_func.h"
#include "rules/template/template_text.h"
#include "rules/template/template_unicode.h"

/* ---- index, slice, len ---- */

static int index_of(const struct tvalue *v, size_t cap, int64_t *ret, struct err *e)
{
	enum tkind k = tvalue_kind(v);
	if (v->type == TTYPE_INVALID || v->type == TTYPE_NIL)
		return err_set(e, ERR_EXECUTION, "cannot index slice/array with nil");
	if (k != TKIND_INT && k != TKIND_UINT)
		return err_set(e, ERR_EXECUTION, "cannot index slice/array with type %s", ttype_name(v->type));
	if (v->i < 0 || (uint64_t)v->i > cap)
		return err_set(e, ERR_EXECUTION, "index out of range: %lld", (long long)v->i);
	*ret = v->i;
	return 0;
}

static int index_sequence(const struct tvalue *item, const struct tvalue *by, struct tvalue *ret, struct err *e)
{
	bool vector = item->type == TTYPE_VECTOR;
	size_t n = vector ? item->vector.n : item->s.len;
	int64_t i = 0;
	int rc = index_of(by, n, &i, e);
	if (rc)
		return rc;
	if ((size_t)i >= n)
		return err_set(e, ERR_EXECUTION, "reflect: %s index out of range", vector ? "slice" : "string");
	if (vector)
		*ret = (struct tvalue){ .type = TTYPE_SAMPLE, .sample = item->vector.v[i] };
	else
		*ret = (struct tvalue){ .type = TTYPE_UINT8, .i = (unsigned char)item->s.ptr[i] };
	return 0;
}

static int index_map(const struct tvalue *item, const struct tvalue *by, struct tvalue *ret, struct err *e)
{
	if (by->type == TTYPE_INVALID || by->type == TTYPE_NIL)
		return err_set(e, ERR_EXECUTION, "value is nil; should be of type string");
	if (by->type != TTYPE_STRING)
		return err_set(e, ERR_EXECUTION, "value has type %s; should be string", ttype_name(by->type));
	if (item->type == TTYPE_LABELS) {
		*ret = TSTRING(labels_get(item->labels, by->s));
		return 0;
	}
	*ret = (struct tvalue){ .type = TTYPE_NIL };
	for (size_t i = 0; i < item->args->n; i++)
		if (view_eq(item->args->v[i].key, by->s))
			*ret = item->args->v[i].value;
	return 0;
}

static int f_index(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	struct tvalue item = a[0];
	int rc = texec_charge(x, 1, e);
	if (!rc && (item.type == TTYPE_INVALID || item.type == TTYPE_NIL))
		return err_set(e, ERR_EXECUTION, "index of untyped nil");
	for (size_t i = 1; i < n && !rc; i++) {
		struct tvalue next = { 0 };
		if (item.type == TTYPE_NIL || (item.type == TTYPE_SAMPLE && !item.sample))
			return err_set(e, ERR_EXECUTION, "index of nil pointer");
		struct tvalue to = tvalue_pointed(&item);
		enum tkind k = tvalue_kind(&to);
		if (k == TKIND_SLICE || k == TKIND_STRING)
			rc = index_sequence(&to, &a[i], &next, e);
		else if (k == TKIND_MAP)
			rc = index_map(&to, &a[i], &next, e);
		else
			rc = err_set(e, ERR_EXECUTION, "can't index item of type %s", ttype_name(to.type));
		item = next;
	}
	*ret = item;
	return rc;
}

static int f_slice(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	struct tvalue item = a[0];
	(void)x;
	if (item.type == TTYPE_INVALID || item.type == TTYPE_NIL)
		return err_set(e, ERR_EXECUTION, "slice of untyped nil");
	if (item.type == TTYPE_SAMPLE && !item.sample)
		return err_set(e, ERR_EXECUTION, "slice of nil pointer");
	if (n > 4)
		return err_set(e, ERR_EXECUTION, "too many slice indexes: %zu", n - 1);
	item = tvalue_pointed(&item);
	bool vector = item.type == TTYPE_VECTOR;
	if (!vector && tvalue_kind(&item) != TKIND_STRING)
		return err_set(e, ERR_EXECUTION, "can't slice item of type %s", ttype_name(item.type));
	if (!vector && n == 4)
		return err_set(e, ERR_EXECUTION, "cannot 3-index slice a string");
	size_t cap = vector ? item.vector.cap : item.s.len;
	int64_t at[3] = { 0, (int64_t)(vector ? item.vector.n : item.s.len), (int64_t)cap };
	for (size_t i = 1; i < n; i++) {
		int rc = index_of(&a[i], cap, &at[i - 1], e);
		if (rc)
			return rc;
	}
	for (size_t i = 0; i < (n == 4 ? 2 : 1); i++)
		if (at[i] > at[i + 1])
			return err_set(e, ERR_EXECUTION, "invalid slice index: %lld > %lld", (long long)at[i], (long long)at[i + 1]);
	if (vector) {
		item.vector.v += at[0];
		item.vector.n = (size_t)(at[1] - at[0]);
		item.vector.cap = (size_t)(at[2] - at[0]);
	} else {
		item.s = view_make(item.s.ptr + at[0], (size_t)(at[1] - at[0]));
	}
	*ret = item;
	return 0;
}

static int f_len(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	struct tvalue to = tvalue_pointed(&a[0]);
	(void)x, (void)n;
	switch (tvalue_kind(&to)) {
	case TKIND_STRING:
		*ret = TINT(to.s.len);
		return 0;
	case TKIND_MAP:
		*ret = TINT(to.type == TTYPE_LABELS ? to.labels.n : to.args->n);
		return 0;
	case TKIND_SLICE:
		*ret = TINT(to.vector.n);
		return 0;
	case TKIND_INVALID:
		return err_set(e, ERR_EXECUTION, "reflect: call of reflect.Value.Type on zero Value");
	default:
		if (to.type == TTYPE_NIL || to.type == TTYPE_SAMPLE)
			return err_set(e, ERR_EXECUTION, "len of nil pointer");
		return err_set(e, ERR_EXECUTION, "len of type %s", ttype_name(to.type));
	}
}

/* ---- printing ---- */

static int f_print(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	struct buf b = texec_buf(x);
	go_sprint(a, n, &b);
	return texec_take(x, &b, ret, e);
}

static int f_println(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	struct buf b = texec_buf(x);
	go_sprintln(a, n, &b);
	return texec_take(x, &b, ret, e);
}

static int f_printf(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	struct buf b = texec_buf(x);
	go_sprintf(a[0].s, a + 1, n - 1, &b);
	return texec_take(x, &b, ret, e);
}

/* The arguments as text, escaped. */
static int escaped(struct texec *x, const struct tvalue *a, size_t n, void (*escape)(struct view v, struct buf *out), struct tvalue *ret,
		   struct err *e)
{
	struct buf text = texec_buf(x), b = texec_buf(x);
	go_sprint_values(a, n, &text);
	escape(buf_view(&text), &b);
	b.overflow |= text.overflow;
	buf_free(&text);
	return texec_take(x, &b, ret, e);
}

static int f_html(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	return escaped(x, a, n, ttext_html, ret, e);
}

static int f_js(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	return escaped(x, a, n, ttext_js, ret, e);
}

static int f_urlquery(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	return escaped(x, a, n, ttext_query, ret, e);
}

/* ---- logic and comparison ---- */

static int f_not(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	(void)x, (void)n, (void)e;
	*ret = TBOOL(!tvalue_truth(&a[0]));
	return 0;
}

static bool is_basic(enum tkind k)
{
	return k == TKIND_BOOL || k == TKIND_INT || k == TKIND_UINT || k == TKIND_FLOAT || k == TKIND_STRING;
}

static bool is_none(const struct tvalue *v)
{
	return v->type == TTYPE_INVALID || v->type == TTYPE_NIL;
}

static int incompatible(const struct tvalue *a, const struct tvalue *b, struct err *e)
{
	return err_set(e, ERR_EXECUTION, "incompatible types for comparison: %s and %s", ttype_name(a->type), ttype_name(b->type));
}

static int not_comparable(const struct tvalue *v, const struct tvalue *other, struct err *e)
{
	struct buf a = { .max = 4096 }, b = { .max = 4096 };
	go_sprintf(VIEW("%s"), v, 1, &a);
	go_sprint(other, 1, &b);
	if (other == v)
		err_set(e, ERR_EXECUTION, "non-comparable type %.*s: %s", VIEW_ARG(buf_view(&a)), ttype_name(v->type));
	else
		err_set(e, ERR_EXECUTION, "non-comparable types %.*s: %s, %s: %.*s", VIEW_ARG(buf_view(&a)), ttype_name(v->type),
			ttype_name(other->type), VIEW_ARG(buf_view(&b)));
	buf_free(&a);
	buf_free(&b);
	return -ERR_EXECUTION;
}

/* Two of one kind that has no order. */
static int equal_others(const struct tvalue *a, const struct tvalue *b, bool *ret, struct err *e)
{
	enum tkind ka = is_none(a) ? TKIND_INVALID : tvalue_kind(a), kb = is_none(b) ? TKIND_INVALID : tvalue_kind(b);
	*ret = false;
	if (ka != kb && ka != TKIND_INVALID && kb != TKIND_INVALID)
		return not_comparable(a, b, e);
	if (tvalue_is_nil(a) || tvalue_is_nil(b)) {
		*ret = tvalue_is_nil(a) == tvalue_is_nil(b);
		return 0;
	}
	if (kb == TKIND_MAP || kb == TKIND_SLICE || b->type == TTYPE_DATA)
		return not_comparable(b, b, e);
	if (a->type == b->type)
		*ret = a->type == TTYPE_TIME ? ttime_cmp(a->time, b->time) == 0 : a->sample == b->sample; /* pointers: the same */
	return 0;
}

static int equal(const struct tvalue *a, const struct tvalue *b, bool *ret, struct err *e)
{
	enum tkind ka = tvalue_kind(a), kb = tvalue_kind(b);
	bool basic_a = is_basic(ka), basic_b = is_basic(kb);
	*ret = false;
	if (!basic_a && !basic_b)
		return equal_others(a, b, ret, e);
	if ((ka == TKIND_INT && kb == TKIND_UINT) || (ka == TKIND_UINT && kb == TKIND_INT))
		*ret = a->i == b->i; /* the unsigned are bytes */
	else if (ka != kb)
		return is_none(a) || is_none(b) ? 0 : incompatible(a, b, e);
	else if (ka == TKIND_BOOL)
		*ret = a->b == b->b;
	else if (ka == TKIND_FLOAT)
		*ret = a->f == b->f;
	else if (ka == TKIND_STRING)
		*ret = view_eq(a->s, b->s);
	else
		*ret = a->i == b->i;
	return 0;
}

/* What comparing the values looks at. */
static uint64_t cost(const struct tvalue *v)
{
	return tvalue_kind(v) == TKIND_STRING ? v->s.len / 64 : 1;
}

static int f_eq(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	bool is = false;
	int rc = n < 2 ? err_set(e, ERR_EXECUTION, "missing argument for comparison") : 0;
	for (size_t i = 1; i < n && !is && !rc; i++) {
		rc = texec_charge(x, cost(&a[i]), e);
		if (!rc)
			rc = equal(&a[0], &a[i], &is, e);
	}
	*ret = TBOOL(is);
	return rc;
}

static int f_ne(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	int rc = f_eq(x, a, n, ret, e);
	ret->b = !ret->b;
	return rc;
}

static int f_lt(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	enum tkind ka = tvalue_kind(&a[0]), kb = tvalue_kind(&a[1]);
	int rc = texec_charge(x, cost(&a[0]), e);
	(void)n;
	if (rc)
		return rc;
	if (!is_basic(ka) || !is_basic(kb))
		return err_set(e, ERR_EXECUTION, "invalid type for comparison");
	bool integers = (ka == TKIND_INT || ka == TKIND_UINT) && (kb == TKIND_INT || kb == TKIND_UINT);
	if (ka != kb && !integers)
		return incompatible(&a[0], &a[1], e);
	if (ka == TKIND_BOOL)
		return err_set(e, ERR_EXECUTION, "invalid type for comparison");
	*ret = TBOOL(ka == TKIND_FLOAT ? a[0].f < a[1].f : ka == TKIND_STRING ? view_cmp(a[0].s, a[1].s) < 0 : a[0].i < a[1].i);
	return 0;
}

static int f_le(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	int rc = f_lt(x, a, n, ret, e);
	return rc || ret->b ? rc : f_eq(x, a, n, ret, e);
}

static int f_gt(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	int rc = f_le(x, a, n, ret, e);
	ret->b = !ret->b;
	return rc;
}

static int f_ge(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)
{
	int rc = f_lt(x, a, n, ret, e);
	ret->b = !ret->b;
	return rc;
}

const struct tfunc tfuncs_go[] = {
	{ "and", { TPARAM_VALUE, TPARAM_VALUE }, true, NULL },
	{ "call", { TPARAM_VALUE, TPARAM_VALUE }, true, NULL },
	{ "eq", { TPARAM_VALUE, TPARAM_VALUE }, true, f_eq },
	{ "ge", { TPARAM_VALUE, TPARAM_VALUE }, false, f_ge },
	{ "gt", { TPARAM_VALUE, TPARAM_VALUE }, false, f_gt },
	{ "html", { TPARAM_ANY }, true, f_html },
	{ "index", { TPARAM_VALUE, TPARAM_VALUE }, true, f_index },
	{ "js", { TPARAM_ANY }, true, f_js },
	{ "le", { TPARAM_VALUE, TPARAM_VALUE }, false, f_le },
	{ "len", { TPARAM_VALUE }, false, f_len },
	{ "lt", { TPARAM_VALUE, TPARAM_VALUE }, false, f_lt },
	{ "ne", { TPARAM_VALUE, TPARAM_VALUE }, false, f_ne },
	{ "not", { TPARAM_VALUE }, false, f_not },
	{ "or", { TPARAM_VALUE, TPARAM_VALUE }, true, NULL },
	{ "print", { TPARAM_ANY }, true, f_print },
	{ "printf", { TPARAM_STRING, TPARAM_ANY }, true, f_printf },
	{ "println", { TPARAM_ANY }, true, f_println },
	{ "slice", { TPARAM_VALUE, TPARAM_VALUE }, true, f_slice },
	{ "urlquery", { TPARAM_ANY }, true, f_urlquery },
	{ 0 },
};
