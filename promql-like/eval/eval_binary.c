/* SPDX-License-Identifier: Apache-2.0 */
/* Unary minus and binary operators. Matching series are found once for the whole span (by the signature of their labels); per step
 * only existing ones take part. Profiles: + merges, - is a diff, a number scales; everything else works on their values. */
#include <math.h>
#include <string.h>

#include "promql-like/eval/eval.h"
#include "model/lexer.h"

/* ---- one pair of elements ---- */

struct pair_result {
	bool keep;
	double v;
	struct lazy_profile *p;
};

static int scale_profile(struct lazy_profile *p, double by, struct pair_result *r, struct err *e)
{
	int rc = lazy_profile_scale(p, by, &r->p, e);
	if (!rc)
		r->v = lazy_profile_value(r->p);
	return rc;
}

static int add_profiles(const struct value_sample *a, const struct value_sample *b, struct pair_result *r, struct err *e)
{
	double scale;
	int rc = lazy_profile_compatible(a->p->type, b->p->type, MEET_ADDED, "+", &scale, e);
	struct lazy_profile *sum = NULL;
	if (!rc)
		rc = lazy_profile_scale(a->p, 1, &sum, e);
	if (!rc)
		rc = lazy_profile_accumulate(sum, b->p, scale, e);
	if (rc) {
		lazy_profile_unref(sum);
		return rc;
	}
	r->p = sum;
	r->v = lazy_profile_value(sum);
	return 0;
}

static int subtract_profiles(const struct value_sample *a, const struct value_sample *b, struct pair_result *r, struct err *e)
{
	double scale;
	struct lazy_profile *other = b->p, *scaled = NULL;
	int rc = lazy_profile_compatible(a->p->type, b->p->type, MEET_SUBTRACTED, "-", &scale, e);
	if (!rc && scale != 1) {
		rc = lazy_profile_scale(b->p, scale, &scaled, e);
		other = scaled;
	}
	if (!rc)
		rc = lazy_profile_diff(a->p, other, 1, &r->p, e);
	lazy_profile_unref(scaled);
	if (!rc)
		r->v = lazy_profile_value(r->p);
	return rc;
}

/* a, b in the order they are written; vector_left: which one's value a comparison returns. What no case below makes a profile of
 * is a number: the arithmetic of the values. */
static int combine(const struct node *n, const struct value_sample *a, const struct value_sample *b, bool left_kept,
		   struct pair_result *r, struct err *e)
{
	enum binary_op op = n->binary.op;
	*r = (struct pair_result){ .keep = true };
	if (binary_op_info(op)->comparison) {
		bool is = binary_number(op, a->v, b->v) != 0;
		if (n->binary.is_bool) {
			r->v = is;
			return 0;
		}
		const struct value_sample *kept = left_kept ? a : b;
		r->keep = is;
		r->v = kept->v;
		r->p = is ? lazy_profile_ref(kept->p) : NULL;
		return 0;
	}
	if (a->p && b->p && op == OP_ADD)
		return add_profiles(a, b, r, e);
	if (a->p && b->p && op == OP_SUB)
		return subtract_profiles(a, b, r, e);
	if (a->p && !b->p && (op == OP_MUL || op == OP_DIV))
		return scale_profile(a->p, op == OP_MUL ? b->v : 1 / b->v, r, e);
	if (b->p && !a->p && op == OP_MUL)
		return scale_profile(b->p, a->v, r, e);
	r->v = binary_number(op, a->v, b->v);
	return 0;
}

/* ---- with scalars ---- */

static int scalars(struct eval *q, struct node *n, struct value *a, struct value *b, const struct span *sp,
		   struct value *ret)
{
	(void)q;
	for (size_t i = 0; i < sp->n; i++)
		a->s[0].s[i].v = binary_number(n->binary.op, a->s[0].s[i].v, value_scalar(b, i));
	*ret = *a;
	*a = (struct value){ 0 };
	return 0;
}

static int vector_scalar(struct eval *q, struct node *n, struct value *vec, struct value *num, bool vector_left,
			 const struct span *sp, struct value *ret, struct err *e)
{
	bool drops = !binary_op_info(n->binary.op)->comparison || n->binary.is_bool;
	for (size_t i = 0; i < vec->n; i++) {
		struct value_series *s = &vec->s[i];
		size_t out = 0;
		s->drop_name |= drops;
		for (size_t k = 0; k < s->n; k++) {
			size_t step = sp->n > 1 ? (size_t)((s->s[k].t_ms - sp->start) / sp->step) : 0;
			struct value_sample number = { .v = value_scalar(num, step) }, x = s->s[k];
			struct pair_result r;
			int rc = combine(n, vector_left ? &x : &number, vector_left ? &number : &x, vector_left, &r, e);
			if (rc) {
				memmove(s->s + out, s->s + k, (s->n - k) * sizeof *s->s);
				atomic_fetch_sub(&q->held, k - out);
				s->n -= k - out;
				return rc;
			}
			lazy_profile_unref(x.p);
			if (r.keep)
				s->s[out++] = (struct value_sample){ x.t_ms, r.v, r.p };
		}
		atomic_fetch_sub(&q->held, s->n - out);
		s->n = out;
	}
	value_compact(vec);
	*ret = *vec;
	*vec = (struct value){ 0 };
	return 0;
}

/* ---- signatures ---- */

/* The labels that decide which elements meet. */
static struct labels signature(struct eval *q, const struct node *n, struct labels l)
{
	return eval_group_labels(q, l, &n->binary.matching, !n->binary.on);
}

struct signatures {
	uint32_t *left, *right; /* by series */
	struct labels *labels;  /* by signature */
	size_t n;
};

static uint32_t sig_id(struct map *m, struct signatures *s, struct labels key)
{
	uint64_t h = labels_hash(key);
	uint32_t id;
	if (!MAP_FIND_OR_ADD(m, h, id, s->n, labels_eq(s->labels[id], key)))
		s->labels[s->n++] = key;
	return id;
}

static void make_signatures(struct eval *q, const struct node *n, const struct value *a, const struct value *b,
			    struct signatures *s)
{
	struct map m = { 0 };
	*s = (struct signatures){ .left = xcalloc(a->n + 1, 4), .right = xcalloc(b->n + 1, 4) };
	s->labels = xcalloc(a->n + b->n + 1, sizeof *s->labels);
	for (size_t i = 0; i < a->n; i++)
		s->left[i] = sig_id(&m, s, signature(q, n, a->s[i].labels));
	for (size_t i = 0; i < b->n; i++)
		s->right[i] = sig_id(&m, s, signature(q, n, b->s[i].labels));
	map_free(&m);
}

static void signatures_free(struct signatures *s)
{
	free(s->left);
	free(s->right);
	free(s->labels);
}

/* ---- set operators ---- */

/* Keeps of v the samples whose signature is (or is not) present in other at the same step. After an error those of the steps that were not looked
 * at are still there. */
static int keep_by_presence(struct eval *q, struct value *v, const uint32_t *sig, struct value *other,
			    const uint32_t *other_sig, size_t n_sigs, const struct span *sp, bool wanted, struct err *e)
{
	/* present[sig]: the step (plus one) at which it was last seen */
	size_t *present = xcalloc(n_sigs + 1, sizeof *present), *cv = xcalloc(v->n + 1, sizeof *cv),
	       *co = xcalloc(other->n + 1, sizeof *co), *out = xcalloc(v->n + 1, sizeof *out);
	size_t i = 0;
	int rc = 0;
	for (; i < sp->n; i++) {
		int64_t t = span_at(sp, i);
		rc = eval_check_at(q, i, e);
		if (rc)
			break;
		for (size_t k = 0; k < other->n; k++)
			if (series_at(&other->s[k], &co[k], t))
				present[other_sig[k]] = i + 1;
		for (size_t k = 0; k < v->n; k++) {
			struct value_sample *s = series_at(&v->s[k], &cv[k], t);
			if (!s)
				continue;
			if ((present[sig[k]] == i + 1) == wanted)
				v->s[k].s[out[k]++] = *s;
			else
				lazy_profile_unref(s->p);
		}
	}
	for (size_t k = 0; k < v->n; k++) {
		for (size_t j = out[k]; rc && j < v->s[k].n; j++)
			if (v->s[k].s[j].t_ms >= span_at(sp, i))
				v->s[k].s[out[k]++] = v->s[k].s[j];
		atomic_fetch_sub(&q->held, v->s[k].n - out[k]);
		v->s[k].n = out[k];
	}
	free(present);
	free(cv);
	free(co);
	free(out);
	return rc;
}

/* Puts the samples of `from`, which goes, among those of `to`; both are in the order of time and have none in common. */
static void interleave(struct value_series *to, struct value_series *from)
{
	size_t i = to->n, k = from->n, out = i + k;
	if (to->cap < out) {
		to->cap = out;
		to->s = xreallocarray(to->s, out, sizeof *to->s);
	}
	to->n = out;
	while (k)
		to->s[--out] = i && to->s[i - 1].t_ms > from->s[k - 1].t_ms ? to->s[--i] : from->s[--k];
	free(from->s);
	*from = (struct value_series){ 0 };
}

/* Moves b's series to a. Elements with equal labels are one series: a's at some steps, b's at others. */
static void unite(struct value *a, struct value *b)
{
	struct map m = { 0 };
	uint32_t id;
	for (size_t i = 0; i < a->n; i++)
		map_insert(&m, labels_hash(a->s[i].labels) ^ a->s[i].drop_name, (uint32_t)i);
	for (size_t i = 0; i < b->n; i++) {
		struct value_series *s = &b->s[i], *same = NULL;
		uint64_t h = labels_hash(s->labels) ^ s->drop_name;
		for (size_t at = map_start(&m, h); !same && map_probe(&m, h, &at, &id);)
			if (labels_eq(a->s[id].labels, s->labels) && a->s[id].drop_name == s->drop_name)
				same = &a->s[id];
		if (same)
			interleave(same, s);
		else
			*value_add(a, s->labels, s->drop_name) = *s;
		*s = (struct value_series){ 0 };
	}
	b->n = 0;
	map_free(&m);
}

static int set_operation(struct eval *q, struct node *n, struct value *a, struct value *b, const struct span *sp,
			 struct value *ret, struct err *e)
{
	struct signatures s;
	int rc;
	make_signatures(q, n, a, b, &s);
	if (n->binary.op == OP_OR) {
		rc = keep_by_presence(q, b, s.right, a, s.left, s.n, sp, false, e);
		if (!rc)
			unite(a, b);
	} else {
		rc = keep_by_presence(q, a, s.left, b, s.right, s.n, sp, n->binary.op == OP_AND, e);
	}
	signatures_free(&s);
	if (rc)
		return rc;
	value_compact(a);
	*ret = *a;
	*a = (struct value){ 0 };
	return 0;
}

/* ---- vector matching ---- */

struct matching {
	struct eval *q;
	struct node *n;
	struct value *many, *one;      /* one: the side that must be unique per signature */
	const uint32_t *many_sig, *one_sig;
	bool swapped;                  /* many is the right operand */
	struct signatures *sigs;
	size_t *one_at;                /* by signature: index + 1 of the one side's series present at this step */
	size_t *matched;               /* by signature: step + 1 of the last match */
	size_t *cm, *co;
	/* outputs: by (many series, one series) pair */
	struct map out_map;
	struct out_key {
		uint32_t many, one;
		size_t series;
	} *keys;
	size_t n_keys, cap_keys;
	struct map label_map;          /* output labels -> series of ret, so that equal outputs are one series */
	struct value ret;
	size_t *seen_step;             /* one-to-one: by signature; else by output series: step + 1 of the last match */
	size_t cap_seen;
};

static struct labels result_labels(struct matching *m, const struct value_series *many, const struct value_series *one)
{
	struct node *n = m->n;
	struct labels_builder b;
	struct labels l = many->labels;
	if (!binary_op_info(n->binary.op)->comparison)
		l = eval_drop_name(m->q, l);
	if (n->binary.card == CARD_ONE_TO_ONE) {
		l = eval_project(m->q, l, &n->binary.matching, n->binary.on);
	} else {
		labels_builder_init(&b, l);
		for (size_t i = 0; i < n->binary.include.n; i++)
			labels_builder_set(&b, n->binary.include.v[i], labels_get(one->labels, n->binary.include.v[i]));
		l = eval_labels(m->q, &b);
		labels_builder_free(&b);
	}
	return l;
}

/* A side that is filled in has the labels of its signature; its number lies behind those of the series. */
static struct value_series side_series(const struct matching *m, const struct value *side, uint32_t i)
{
	return i < side->n ? side->s[i] : (struct value_series){ .labels = m->sigs->labels[i - side->n] };
}

static size_t output_series(struct matching *m, uint32_t many, uint32_t one)
{
	uint64_t h = hash_u64((uint64_t)many << 32 | one);
	uint32_t id;
	for (size_t at = map_start(&m->out_map, h); map_probe(&m->out_map, h, &at, &id);)
		if (m->keys[id].many == many && m->keys[id].one == one)
			return m->keys[id].series;
	struct value_series many_side = side_series(m, m->many, many), one_side = side_series(m, m->one, one);
	struct labels l = result_labels(m, &many_side, &one_side);
	/* Of equal label sets the delayed name may differ: they stay apart until the name is removed. */
	bool drop = m->n->binary.is_bool || many_side.drop_name;
	uint64_t lh = labels_hash(l) ^ drop;
	uint32_t series;
	if (!MAP_FIND_OR_ADD(&m->label_map, lh, series, m->ret.n, labels_eq(m->ret.s[series].labels, l) && m->ret.s[series].drop_name == drop))
		value_add(&m->ret, l, drop);
	if (m->n_keys == m->cap_keys) {
		m->cap_keys = m->cap_keys ? m->cap_keys * 2 : 16;
		m->keys = xreallocarray(m->keys, m->cap_keys, sizeof *m->keys);
	}
	m->keys[m->n_keys] = (struct out_key){ many, one, series };
	map_insert(&m->out_map, h, (uint32_t)m->n_keys++);
	return series;
}

/* {__name__="x", a="b"}: nothing in front of the braces. */
static void put_labels(struct labels l, struct buf *out)
{
	buf_putc(out, '{');
	for (size_t i = 0; i < l.n; i++) {
		buf_printf(out, "%s%.*s=", i ? ", " : "", VIEW_ARG(l.v[i].name));
		quote_string(l.v[i].value, out);
	}
	buf_putc(out, '}');
}

static int duplicate_error(struct matching *m, uint32_t sig, const struct value_series *x, const struct value_series *y, struct err *e)
{
	struct buf a = { 0 }, b = { 0 }, group = { 0 };
	put_labels(x->labels, &a);
	put_labels(y->labels, &b);
	put_labels(m->sigs->labels[sig], &group);
	if (strcmp(a.ptr, b.ptr) > 0) {
		struct buf t = a;
		a = b;
		b = t;
	}
	int rc = err_set(e, ERR_EXECUTION,
			 "found duplicate series for the match group %s on the %s hand-side of the operation: [%s, %s];"
			 "many-to-many matching not allowed: matching labels must be unique on one side",
			 group.ptr, m->swapped ? "left" : "right", a.ptr, b.ptr);
	buf_free(&a);
	buf_free(&b);
	buf_free(&group);
	return rc;
}

static int index_one_side(struct matching *m, int64_t t, struct err *e)
{
	memset(m->one_at, 0, (m->sigs->n + 1) * sizeof *m->one_at);
	for (size_t i = 0; i < m->one->n; i++) {
		if (!series_at(&m->one->s[i], &m->co[i], t))
			continue;
		uint32_t sig = m->one_sig[i];
		if (m->one_at[sig])
			return duplicate_error(m, sig, &m->one->s[i], &m->one->s[m->one_at[sig] - 1], e);
		m->one_at[sig] = i + 1;
	}
	return 0;
}

static bool seen_before(struct matching *m, size_t id, size_t step)
{
	if (id >= m->cap_seen) {
		size_t cap = MAX(id + 1, m->cap_seen * 2 + 16);
		m->seen_step = xreallocarray(m->seen_step, cap, sizeof *m->seen_step);
		memset(m->seen_step + m->cap_seen, 0, (cap - m->cap_seen) * sizeof *m->seen_step);
		m->cap_seen = cap;
	}
	bool seen = m->seen_step[id] == step + 1;
	m->seen_step[id] = step + 1;
	return seen;
}

/* Series i of the many side with k of the one, or what is filled in for them. */
static int match_pair(struct matching *m, size_t i, size_t k, uint32_t sig, size_t step, struct value_sample *s, struct value_sample *o,
		      struct err *e)
{
	bool one_to_one = m->n->binary.card == CARD_ONE_TO_ONE;
	struct pair_result r;
	m->matched[sig] = step + 1;
	int rc = combine(m->n, m->swapped ? o : s, m->swapped ? s : o, true, &r, e);
	if (rc || (!r.keep && !binary_op_info(m->n->binary.op)->comparison))
		return rc;
	size_t out = output_series(m, (uint32_t)i, (uint32_t)k);
	if (seen_before(m, one_to_one ? sig : out, step)) {
		lazy_profile_unref(r.p);
		return err_set(e, ERR_EXECUTION, one_to_one ?
			       "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)" :
			       "multiple matches for labels: grouping labels must ensure unique matches");
	}
	if (!r.keep)
		return 0; /* what a comparison filters out has been a match all the same */
	struct value_series *to = &m->ret.s[out];
	if (to->n && to->s[to->n - 1].t_ms == s->t_ms) { /* two many-side series, one output: the names differ only */
		lazy_profile_unref(r.p);
		return err_set(e, ERR_EXECUTION, "vector cannot contain metrics with the same labelset");
	}
	return series_push(m->q, to, s->t_ms, r.v, r.p, e);
}

static int match_one(struct matching *m, size_t i, size_t step, struct value_sample *s, struct err *e)
{
	uint32_t sig = m->many_sig[i];
	const struct node_fill *fill = &m->n->binary.fill[1]; /* of group_right too: Prometheus's sides are many and one */
	if (m->one_at[sig]) {
		size_t k = m->one_at[sig] - 1;
		return match_pair(m, i, k, sig, step, s, &m->one->s[k].s[m->co[k]], e);
	}
	if (!fill->set)
		return 0;
	return match_pair(m, i, m->one->n + sig, sig, step, s, &(struct value_sample){ s->t_ms, fill->v, NULL }, e);
}

/* Labels that the one side has and the many side lacks. */
static int fill_many(struct matching *m, size_t step, int64_t t, struct err *e)
{
	const struct node_fill *fill = &m->n->binary.fill[0];
	int rc = 0;
	for (size_t k = 0; fill->set && k < m->one->n && !rc; k++) {
		uint32_t sig = m->one_sig[k];
		if (m->one_at[sig] != k + 1 || m->matched[sig] == step + 1)
			continue;
		rc = match_pair(m, m->many->n + sig, k, sig, step, &(struct value_sample){ t, fill->v, NULL }, &m->one->s[k].s[m->co[k]], e);
	}
	return rc;
}

static int vector_vector(struct eval *q, struct node *n, struct value *a, struct value *b, const struct span *sp,
			 struct value *ret, struct err *e)
{
	struct signatures s;
	make_signatures(q, n, a, b, &s);
	bool swapped = n->binary.card == CARD_ONE_TO_MANY;
	struct matching m = { .q = q, .n = n, .many = swapped ? b : a, .one = swapped ? a : b, .swapped = swapped, .sigs = &s };
	m.many_sig = swapped ? s.right : s.left;
	m.one_sig = swapped ? s.left : s.right;
	m.one_at = xcalloc(s.n + 1, sizeof *m.one_at);
	m.matched = xcalloc(s.n + 1, sizeof *m.matched);
	bool fills = n->binary.fill[0].set || n->binary.fill[1].set;
	m.cm = xcalloc(m.many->n + 1, sizeof *m.cm);
	m.co = xcalloc(m.one->n + 1, sizeof *m.co);
	value_start(q, &m.ret, PROMQL_VECTOR);
	int rc = 0;
	for (size_t i = 0; i < sp->n && !rc && (fills || (a->n && b->n)); i++) {
		int64_t t = span_at(sp, i);
		rc = eval_check_at(q, i, e);
		if (rc)
			break;
		bool any = fills; /* nothing is checked on a side whose other side is empty */
		for (size_t k = 0; k < m.many->n && !any; k++)
			any = series_at(&m.many->s[k], &m.cm[k], t) != NULL;
		if (any)
			rc = index_one_side(&m, t, e);
		for (size_t k = 0; any && k < m.many->n && !rc; k++) {
			struct value_sample *x = series_at(&m.many->s[k], &m.cm[k], t);
			if (x)
				rc = match_one(&m, k, i, x, e);
		}
		if (!rc)
			rc = fill_many(&m, i, t, e);
	}
	free(m.one_at);
	free(m.matched);
	free(m.cm);
	free(m.co);
	free(m.keys);
	free(m.seen_step);
	map_free(&m.out_map);
	map_free(&m.label_map);
	signatures_free(&s);
	return value_finish(&m.ret, rc, ret);
}

/* ---- comparisons of rows with a number ---- */

static bool constant(struct node *n, double *ret)
{
	n = node_unwrap(n);
	if (n->kind == NODE_NUMBER) {
		*ret = n->number.v;
		return true;
	}
	if (n->kind != NODE_UNARY || !constant(n->unary.expr, ret))
		return false;
	*ret = n->unary.minus ? -*ret : *ret;
	return true;
}

static bool is_greater(enum binary_op op)
{
	return op == OP_GT || op == OP_GE;
}

/* share(A) - share(B) > c, matched by all labels. */
static bool is_minus_of_rows(const struct node *n)
{
	return n->kind == NODE_BINARY && n->binary.op == OP_SUB && n->binary.card == CARD_ONE_TO_ONE && !n->binary.on &&
	       !n->binary.matching.n && readout_has_rows(node_unwrap(n->binary.lhs)) && readout_has_rows(node_unwrap(n->binary.rhs));
}

/* The fill value of the side that must be large must not satisfy that; of the other, it must not be below 0. */
static bool fills_fit(const struct node *n, bool large_left, enum binary_op need, double number)
{
	const struct node_fill *large = &n->binary.fill[!large_left], *small = &n->binary.fill[large_left];
	return (!large->set || binary_number(need, large->v, number) == 0) && (!small->set || small->v >= 0);
}

static int minus_of_rows(struct eval *q, struct node *n, const struct span *sp, enum binary_op op, double number, struct value *ret,
			 bool *ret_done, struct err *e)
{
	struct value a = { 0 }, b = { 0 };
	bool large_left = is_greater(op);
	enum binary_op need = op == OP_GT || op == OP_LT ? OP_GT : OP_GE;
	double least = large_left ? number : -number;
	if (sp->n != 1 || !fills_fit(n, large_left, need, least))
		return 0;
	int rc = readout_minus(q, node_unwrap(n->binary.lhs), node_unwrap(n->binary.rhs), sp, large_left, need, least, &a, &b, ret_done, e);
	if (!rc && *ret_done)
		rc = eval_error_at(q, n, vector_vector(q, n, &a, &b, sp, ret, e), e);
	value_free(&a);
	value_free(&b);
	return rc;
}

/* The rows that a comparison with a number lets through, and maybe others. *ret_done: false if it is not such. */
static int compared_rows(struct eval *q, struct node *n, struct node *rows, struct node *number, bool row_left, const struct span *sp,
			 struct value *ret, bool *ret_done, struct err *e)
{
	double c;
	enum binary_op op = n->binary.op;
	*ret_done = false;
	if (!binary_op_info(op)->comparison || n->binary.is_bool || (rows->invariant && sp->n > 1) || !constant(number, &c))
		return 0;
	rows = node_unwrap(rows);
	if (readout_has_rows(rows)) {
		*ret_done = true;
		return readout_compared(q, rows, sp, op, row_left, c, ret, e);
	}
	if (op == OP_EQ || op == OP_NE || !is_minus_of_rows(rows))
		return 0;
	static const enum binary_op turned[] = { [OP_LT] = OP_GT, [OP_LE] = OP_GE, [OP_GT] = OP_LT, [OP_GE] = OP_LE };
	return minus_of_rows(q, rows, sp, row_left ? op : turned[op], c, ret, ret_done, e);
}

static int eval_operand(struct eval *q, struct node *n, bool left, const struct span *sp, struct value *ret, struct err *e)
{
	struct node *mine = left ? n->binary.lhs : n->binary.rhs, *other = left ? n->binary.rhs : n->binary.lhs;
	bool done = false;
	int rc = mine->type == PROMQL_VECTOR ? compared_rows(q, n, mine, other, left, sp, ret, &done, e) : 0;
	return rc || done ? rc : eval_node(q, mine, sp, ret, e);
}

int eval_binary(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	struct value a = { 0 }, b = { 0 };
	int rc = eval_operand(q, n, true, sp, &a, e);
	if (!rc)
		rc = eval_operand(q, n, false, sp, &b, e);
	if (!rc) {
		bool va = n->binary.lhs->type == PROMQL_VECTOR, vb = n->binary.rhs->type == PROMQL_VECTOR;
		if (va && vb)
			rc = binary_op_info(n->binary.op)->set ? set_operation(q, n, &a, &b, sp, ret, e)
							       : vector_vector(q, n, &a, &b, sp, ret, e);
		else if (va || vb)
			rc = vector_scalar(q, n, va ? &a : &b, va ? &b : &a, va, sp, ret, e);
		else
			rc = scalars(q, n, &a, &b, sp, ret);
	}
	value_free(&a);
	value_free(&b);
	return rc;
}

int eval_unary(struct eval *q, struct node *n, const struct span *sp, struct value *ret, struct err *e)
{
	int rc = eval_node(q, n->unary.expr, sp, ret, e);
	if (rc || !n->unary.minus)
		return rc;
	for (size_t i = 0; i < ret->n && !rc; i++) {
		ret->s[i].drop_name = true;
		for (size_t k = 0; k < ret->s[i].n && !rc; k++) {
			struct value_sample *s = &ret->s[i].s[k];
			struct lazy_profile *negated = NULL;
			if (s->p)
				rc = lazy_profile_scale(s->p, -1, &negated, e);
			if (rc)
				break;
			lazy_profile_unref(s->p);
			s->p = negated;
			s->v = negated ? lazy_profile_value(negated) : -s->v;
		}
	}
	if (rc)
		value_free(ret);
	return rc;
}
