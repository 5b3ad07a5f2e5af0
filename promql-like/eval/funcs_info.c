/* SPDX-License-Identifier: Apache-2.0 */
/* info(v, {matchers}): adds to each element the labels of the info series (target_info, whose value has no meaning) of its instance
 * and job, as in Prometheus 3.14. Which labels, and which info series, the matchers say.
 *
 *	element of v    {job="a", instance="i", x="1"}
 *	info series     target_info{job="a", instance="i", version="2"}
 *	what comes out  {job="a", instance="i", x="1", version="2"}
 *
 * A signature is the name of an info series with its instance and job. At each step the newest series of a signature counts.
 * Profiles pass through. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "promql-like/eval/funcs.h"

static const char *const identifying[] = { "instance", "job" };
#define N_IDENTIFYING ARRAY_LEN(identifying)

struct info_sig {
	struct view name, id[N_IDENTIFYING];
	uint32_t newest;         /* at this step: series + 1; 0 = none */
	double t;                /* of its sample, s */
};

struct info {
	struct eval *q;
	const struct matcher *data; /* of the second argument; n = 0: all labels are added */
	size_t n_data;
	VEC(struct matcher) names;  /* what info series are called */
	struct matcher own;         /* one of names that is ours */
	struct value v, series;     /* what is enriched; the info series, with the times of their samples */
	bool *is_info;              /* by series of v: it is not changed */
	VEC(struct info_sig) sigs;
	VEC(struct view) infos;     /* the different names of the info series */
	uint32_t *sig_of;           /* by info series */
	uint32_t *base_sigs;        /* by series of v and name: signature + 1; 0 = none */
	struct map by_sig, by_labels; /* signatures; outputs */
	struct value out;
};

/* ---- which series ---- */

static bool is_name(const struct matcher *m)
{
	return view_eqs(m->name, LABEL_NAME);
}

static int own_matcher(struct info *x, enum matcher_op op, const char *value, struct err *e)
{
	int rc = matcher_init(&x->own, op, VIEW(LABEL_NAME), view_of(value), e);
	if (!rc)
		vec_push(&x->names, x->own);
	return rc;
}

/* Matchers that only say what a name is not choose among all info series. */
static int choose_names(struct info *x, struct err *e)
{
	bool positive = false, any = false;
	for (size_t i = 0; i < x->n_data; i++) {
		any |= is_name(&x->data[i]);
		positive |= is_name(&x->data[i]) && (x->data[i].op == MATCH_EQ || x->data[i].op == MATCH_RE);
	}
	int rc = positive ? 0 : own_matcher(x, any ? MATCH_RE : MATCH_EQ, any ? ".+_info" : "target_info", e);
	for (size_t i = 0; i < x->n_data; i++)
		if (is_name(&x->data[i]))
			vec_push(&x->names, x->data[i]);
	return rc;
}

/* The time that the first selector looks at is that of the info series too. */
struct first_mods {
	struct time_mods mods;
	bool found;
};

static void find_first(struct node *n, void *arg)
{
	struct first_mods *f = arg;
	if (f->found)
		return;
	if (n->kind == NODE_SELECTOR) {
		f->mods = n->sel.mods;
		f->mods.edges = EDGES_AS_THEY_ARE;
		f->found = true;
		return;
	}
	node_each_child(n, find_first, f);
	if (f->found && n->kind == NODE_SUBQUERY && f->mods.at == AT_NONE) {
		f->mods.at = n->sub.mods.at;
		f->mods.at_ms = n->sub.mods.at_ms;
		f->mods.offset_ms += n->sub.mods.offset_ms;
	}
}

/* The values that the elements have of an identifying label. */
struct asked {
	struct map index;
	VEC(struct view) values;
};

static bool has_value(const struct asked *a, struct view value)
{
	uint64_t h = hash_view(value);
	uint32_t i;
	for (size_t at = map_start(&a->index, h); map_probe(&a->index, h, &at, &i);)
		if (view_eq(a->values.v[i], value))
			return true;
	return false;
}

static void find_asked(const struct info *x, struct asked asked[N_IDENTIFYING])
{
	for (size_t k = 0; k < N_IDENTIFYING; k++)
		for (size_t i = 0; i < x->v.n; i++) {
			struct view own = labels_get(x->v.s[i].labels, view_of(identifying[k]));
			if (x->is_info[i] || !own.len || has_value(&asked[k], own))
				continue;
			map_insert(&asked[k].index, hash_view(own), (uint32_t)asked[k].values.n);
			vec_push(&asked[k].values, own);
		}
}

/* An info series whose instance or job no element has is ignored. */
static bool asked_about(const struct asked asked[N_IDENTIFYING], struct labels l)
{
	bool some = false;
	for (size_t i = 0; i < N_IDENTIFYING; i++) {
		some |= asked[i].values.n > 0;
		if (asked[i].values.n && !has_value(&asked[i], labels_get(l, view_of(identifying[i]))))
			return false;
	}
	return some;
}

static int load(struct info *x, struct node *arg, const struct span *sp, struct err *e)
{
	struct first_mods first = { .found = false };
	VEC(struct matcher) m = { 0 };
	find_first(arg, &first);
	for (size_t i = 0; i < x->names.n; i++)
		vec_push(&m, x->names.v[i]);
	for (size_t i = 0; i < x->n_data; i++)
		if (!is_name(&x->data[i]))
			vec_push(&m, x->data[i]);
	struct node selector = { .kind = NODE_SELECTOR, .start = arg->start, .sel = { .m = m.v, .n = m.n, .mods = first.mods } };
	int rc = eval_selector_times(x->q, &selector, sp, &x->series, e);
	vec_free(&m);
	struct asked asked[N_IDENTIFYING] = { 0 };
	find_asked(x, asked);
	for (size_t i = 0; !rc && i < x->series.n; i++)
		if (!asked_about(asked, x->series.s[i].labels))
			series_free(&x->series, &x->series.s[i]);
	for (size_t i = 0; i < N_IDENTIFYING; i++) {
		map_free(&asked[i].index);
		vec_free(&asked[i].values);
	}
	return rc;
}

/* ---- signatures ---- */

static struct info_sig sig_of(struct view name, struct labels l, uint64_t *ret_hash)
{
	struct info_sig s = { .name = name };
	*ret_hash = hash_view(name);
	for (size_t k = 0; k < N_IDENTIFYING; k++) {
		s.id[k] = labels_get(l, view_of(identifying[k]));
		*ret_hash = hash_u64(*ret_hash + k) ^ hash_view(s.id[k]);
	}
	return s;
}

static uint32_t find_sig(const struct info *x, struct view name, struct labels l)
{
	uint64_t h;
	struct info_sig s = sig_of(name, l, &h);
	uint32_t i;
	for (size_t at = map_start(&x->by_sig, h); map_probe(&x->by_sig, h, &at, &i);) {
		const struct info_sig *o = &x->sigs.v[i];
		bool same = view_eq(s.name, o->name);
		for (size_t k = 0; k < N_IDENTIFYING; k++)
			same &= view_eq(s.id[k], o->id[k]);
		if (same)
			return i + 1;
	}
	return 0;
}

static void add_sig(struct info *x, size_t series)
{
	struct labels l = x->series.s[series].labels;
	uint64_t h;
	struct info_sig s = sig_of(labels_get(l, VIEW(LABEL_NAME)), l, &h);
	x->sig_of[series] = find_sig(x, s.name, l);
	if (x->sig_of[series])
		return;
	map_insert(&x->by_sig, h, (uint32_t)x->sigs.n);
	vec_push(&x->sigs, s);
	x->sig_of[series] = (uint32_t)x->sigs.n;
	for (size_t i = 0; i < x->infos.n; i++)
		if (view_eq(x->infos.v[i], s.name))
			return;
	vec_push(&x->infos, s.name);
}

static void make_sigs(struct info *x)
{
	x->sig_of = xcalloc(x->series.n + 1, sizeof *x->sig_of);
	for (size_t i = 0; i < x->series.n; i++)
		if (x->series.s[i].n)
			add_sig(x, i);
	x->base_sigs = xcalloc(x->v.n * x->infos.n + 1, sizeof *x->base_sigs);
	for (size_t i = 0; i < x->v.n; i++)
		for (size_t k = 0; k < x->infos.n && !x->is_info[i]; k++)
			x->base_sigs[i * x->infos.n + k] = find_sig(x, x->infos.v[k], x->v.s[i].labels);
}

/* ---- steps ---- */

static int two_at_once(const struct info *x, size_t a, size_t b, double t, struct err *e)
{
	struct buf l[2] = { { 0 }, { 0 } };
	labels_format(x->series.s[a].labels, &l[0]);
	labels_format(x->series.s[b].labels, &l[1]);
	int rc = err_set(e, ERR_EXECUTION, "found duplicate series for info metric: existing %s @ %.0f, new %s @ %.0f", l[0].ptr, t * 1000,
			 l[1].ptr, t * 1000);
	buf_free(&l[0]);
	buf_free(&l[1]);
	return rc;
}

static int find_newest(struct info *x, int64_t t_ms, size_t *cursors, struct err *e)
{
	for (size_t i = 0; i < x->sigs.n; i++)
		x->sigs.v[i].newest = 0;
	for (size_t i = 0; i < x->series.n; i++) {
		struct value_sample *s = x->series.s[i].n ? series_at(&x->series.s[i], &cursors[i], t_ms) : NULL;
		if (!s)
			continue;
		struct info_sig *sig = &x->sigs.v[x->sig_of[i] - 1];
		if (sig->newest && sig->t == s->v)
			return two_at_once(x, sig->newest - 1, i, s->v, e);
		if (sig->newest && sig->t > s->v)
			continue;
		sig->newest = (uint32_t)i + 1;
		sig->t = s->v;
	}
	return 0;
}

/* Whether the second argument lets that label be added. */
static bool is_wanted_label(const struct info *x, struct view name)
{
	bool any = false;
	for (size_t i = 0; i < x->n_data; i++) {
		if (view_eq(x->data[i].name, name) && !is_name(&x->data[i]))
			return true;
		any |= !is_name(&x->data[i]);
	}
	return !any;
}

static int add_labels(const struct info *x, struct labels base, struct labels info, struct labels_builder *b, struct err *e)
{
	for (size_t i = 0; i < info.n; i++) {
		struct label l = info.v[i];
		if (view_eqs(l.name, LABEL_NAME) || !is_wanted_label(x, l.name) || labels_get(base, l.name).len)
			continue;
		struct view known = labels_builder_get(b, l.name);
		if (known.len && !view_eq(known, l.value))
			return err_set(e, ERR_EXECUTION, "conflicting label: %.*s", VIEW_ARG(l.name));
		labels_builder_set(b, l.name, l.value);
	}
	return 0;
}

/* An element without an info series is unchanged, unless a matcher requires a label that it then lacks. */
static bool may_stay_bare(const struct info *x, bool *ret_stays, struct err *e)
{
	*ret_stays = true;
	for (size_t i = 0; i < x->n_data && *ret_stays; i++) {
		int rc = is_name(&x->data[i]) ? 1 : matcher_matches(&x->data[i], VIEW(""), &x->q->regex, e);
		if (rc < 0)
			return false;
		*ret_stays = rc;
	}
	return true;
}

static struct value_series *output_of(struct info *x, struct labels l, bool drop_name)
{
	uint64_t h = labels_hash(l) ^ drop_name;
	uint32_t id;
	if (MAP_FIND_OR_ADD(&x->by_labels, h, id, x->out.n, labels_eq(x->out.s[id].labels, l) && x->out.s[id].drop_name == drop_name))
		return &x->out.s[id];
	return value_add(&x->out, l, drop_name);
}

static int put(struct info *x, struct labels l, bool drop_name, const struct value_sample *s, struct err *e)
{
	struct value_series *out = output_of(x, l, drop_name);
	if (out->n && out->s[out->n - 1].t_ms == s->t_ms)
		return err_set(e, ERR_EXECUTION, "vector cannot contain metrics with the same labelset");
	return series_push(x->q, out, s->t_ms, s->v, lazy_profile_ref(s->p), e);
}

static int enrich(struct info *x, size_t i, const struct value_sample *s, struct err *e)
{
	const struct value_series *base = &x->v.s[i];
	struct labels_builder b;
	bool found = false, stays = true;
	int rc = 0;
	if (x->is_info[i])
		return put(x, base->labels, base->drop_name, s, e);
	labels_builder_init(&b, base->labels);
	for (size_t k = 0; k < x->infos.n && !rc; k++) {
		uint32_t sig = x->base_sigs[i * x->infos.n + k], newest = sig ? x->sigs.v[sig - 1].newest : 0;
		found |= newest > 0;
		if (newest)
			rc = add_labels(x, base->labels, x->series.s[newest - 1].labels, &b, e);
	}
	if (!rc && !found && !may_stay_bare(x, &stays, e))
		rc = -(int)e->code;
	if (!rc && (found || stays))
		rc = put(x, eval_labels(x->q, &b), base->drop_name, s, e);
	labels_builder_free(&b);
	return rc;
}

static int each_step(struct info *x, const struct span *sp, struct err *e)
{
	size_t *at_base = xcalloc(x->v.n + 1, sizeof *at_base), *at_info = xcalloc(x->series.n + 1, sizeof *at_info);
	int rc = 0;
	for (size_t i = 0; i < sp->n && !rc; i++) {
		int64_t t = span_at(sp, i);
		rc = eval_check(x->q, e);
		if (!rc)
			rc = find_newest(x, t, at_info, e);
		for (size_t k = 0; k < x->v.n && !rc; k++) {
			struct value_sample *s = series_at(&x->v.s[k], &at_base[k], t);
			if (s)
				rc = enrich(x, k, s, e);
		}
	}
	free(at_base);
	free(at_info);
	return rc;
}

CALL(fn_info)
{
	const struct node *second = n->call.n > 1 ? node_unwrap(n->call.args[1]) : NULL;
	struct info x = { .q = q };
	if (second) {
		x.data = second->frames.m;
		x.n_data = second->frames.n;
	}
	value_start(q, &x.out, PROMQL_VECTOR);
	int rc = choose_names(&x, e);
	if (!rc)
		rc = eval_node(q, n->call.args[0], sp, &x.v, e);
	x.is_info = xcalloc(x.v.n + 1, sizeof *x.is_info);
	for (size_t i = 0; i < x.v.n && !rc; i++) {
		struct labels name = { &(struct label){ VIEW(LABEL_NAME), labels_get(x.v.s[i].labels, VIEW(LABEL_NAME)) }, 1 };
		int is = matchers_match(x.names.v, x.names.n, name, &q->regex, e);
		x.is_info[i] = is == 1;
		rc = is < 0 ? is : 0;
	}
	if (!rc)
		rc = load(&x, n->call.args[0], sp, e);
	if (!rc)
		make_sigs(&x);
	if (!rc)
		rc = each_step(&x, sp, e);
	value_free(&x.v);
	value_free(&x.series);
	matcher_release(&x.own);
	vec_free(&x.names);
	vec_free(&x.sigs);
	vec_free(&x.infos);
	map_free(&x.by_sig);
	map_free(&x.by_labels);
	free(x.is_info);
	free(x.sig_of);
	free(x.base_sigs);
	return value_finish(&x.out, rc, ret);
}
