/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/overlay.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "promql-like/memsource.h"
#include "rules/group.h"

#define OURS (UINT64_C(1) << 63) /* in a ref: an index of overlay.series */
#define PROFILES (UINT64_C(1) << 62) /* in a ref: one of overlay.profiles */
#define SYMBOLS_MAX ((size_t)512 << 20)
#define SERIES_BYTES 64          /* a series counts as this many samples, for its labels */

struct over_series {
	struct labels *labels;
	VEC(struct point) points;    /* in order of time */
};

struct overlay {
	struct source source;        /* first */
	struct sink sink;
	struct source *under;
	struct overlay_hidden hidden;
	struct map by_name, by_alert; /* of hidden */
	VEC(struct over_series *) series;
	struct map by_labels;
	struct memsource *profiles;
	size_t samples, max_samples; /* the stacks of profiles count, too */
	uint64_t label_bytes, max_bytes; /* label_bytes: of its series */
};

struct over_view {
	struct source_view view;     /* first */
	struct overlay *o;
	struct source_view *under, *profiles;
};

static struct over_view *of_view(struct source_view *v)
{
	return (struct over_view *)(void *)v;
}

/* ---- what is written ---- */

static struct over_series *series_of(struct overlay *o, struct labels l)
{
	uint64_t hash = labels_hash(l);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&o->by_labels, hash, id, o->series.n, labels_eq(*o->series.v[id]->labels, l)))
		return o->series.v[id];
	struct over_series *s = NEW(struct over_series);
	s->labels = labels_dup(l);
	vec_push(&o->series, s);
	o->samples += SERIES_BYTES;
	o->label_bytes += rule_labels_bytes(l);
	return s;
}

/* As storage does: what is there stays. */
static void keep(struct overlay *o, const struct sink_float *f)
{
	struct over_series *s = series_of(o, f->labels);
	size_t at = s->points.n;
	while (at && s->points.v[at - 1].t_ms >= f->t_ms)
		at--;
	if (at < s->points.n && s->points.v[at].t_ms == f->t_ms)
		return;
	vec_push(&s->points, (struct point){ 0 });
	memmove(&s->points.v[at + 1], &s->points.v[at], (s->points.n - 1 - at) * sizeof *s->points.v);
	s->points.v[at] = (struct point){ f->t_ms, f->v };
	o->samples++;
}

static int keep_profile(struct overlay *o, const struct sink_profile *p, struct err *e)
{
	const struct sink_column *c = &p->columns[0]; /* rules record one type */
	const struct source_profile x = { .t_ms = p->t_ms, .duration_ns = p->duration_ns, .cover_ms = p->cover_ms ? p->cover_ms : p->interval_ms,
					  .interval_ms = p->interval_ms, .weight = source_weight(p->interval_ms, p->asked_ms), .period = p->period, .stale = !p->profile };
	struct symbols *s = memsource_symbols(o->profiles);
	struct stackvec *v = NULL;
	int rc = 0;
	if (symbols_cost(s) > MIN(SYMBOLS_MAX, o->max_bytes))
		return err_set(e, ERR_LIMIT, "the profiles that the rules record have too many names and stacks: ask for a shorter time");
	if (p->profile)
		rc = stackvec_from_profile(s, p->profile, &v, e);
	o->samples += (v ? v->n : 0) + SERIES_BYTES / 4;
	if (!rc)
		rc = memsource_add_profile(o->profiles, c->labels, &c->type, &x, v, e);
	stackvec_unref(v);
	return rc;
}

static int append(struct sink *sink, const struct sink_batch *b, struct sink_result *ret, struct err *e)
{
	struct overlay *o = (struct overlay *)(void *)((char *)sink - offsetof(struct overlay, sink));
	const struct err none = { 0 };
	if (o->samples + b->n_floats > o->max_samples)
		return err_set(e, ERR_LIMIT, "the rules write more than %zu samples: ask for a shorter time", o->max_samples);
	for (size_t i = 0; i < b->n_floats; i++) {
		if (o->label_bytes + o->samples * sizeof(struct point) > o->max_bytes)
			return err_set(e, ERR_LIMIT, "what the rules write takes more than %llu MiB of memory: ask for a shorter time or for fewer rules",
				       (unsigned long long)(o->max_bytes >> 20));
		keep(o, &b->floats[i]);
	}
	for (size_t i = 0; i < b->n_profiles; i++) {
		int rc = keep_profile(o, &b->profiles[i], e);
		if (rc)
			return rc;
	}
	if (ret)
		*ret = (struct sink_result){ .floats = (uint32_t)b->n_floats, .profiles = (uint32_t)b->n_profiles };
	if (b->done)
		b->done(b->done_arg, &none);
	return 0;
}

/* ---- what is read ---- */

static void release(struct source_view *v)
{
	struct over_view *o = of_view(v);
	o->under->ops->release(o->under);
	o->profiles->ops->release(o->profiles);
	free(o);
}

static bool among(const struct map *m, const struct view *v, struct view name)
{
	uint64_t hash = hash_view(name);
	uint32_t id;
	for (size_t at = map_start(m, hash); map_probe(m, hash, &at, &id);)
		if (view_eq(v[id], name))
			return true;
	return false;
}

static bool is_hidden(const struct overlay *o, struct labels l)
{
	struct view name = labels_get(l, VIEW(LABEL_NAME));
	if (view_eqs(name, "ALERTS") || view_eqs(name, "ALERTS_FOR_STATE"))
		return among(&o->by_alert, o->hidden.alerts, labels_get(l, VIEW("alertname")));
	return among(&o->by_name, o->hidden.names, name);
}

/* The first that is later than t. */
static size_t first_after(const struct over_series *s, int64_t t)
{
	size_t lo = 0, hi = s->points.n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (s->points.v[mid].t_ms > t)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static int by_labels(const void *a, const void *b)
{
	return labels_cmp(((const struct source_series *)a)->labels, ((const struct source_series *)b)->labels);
}

/* The profiles that the rules recorded. */
static int select_profiles(struct over_view *w, const struct matcher *m, size_t n, int64_t after, int64_t until, const struct source_limits *lim,
			   struct source_series **ret, size_t *ret_n, struct err *e)
{
	int rc = w->profiles->ops->select(w->profiles, m, n, after, until, lim, ret, ret_n, e);
	for (size_t i = 0; !rc && i < *ret_n; i++)
		(*ret)[i].ref |= PROFILES;
	return rc;
}

static int view_select(struct source_view *v, const struct matcher *m, size_t n, int64_t after, int64_t until, const struct source_limits *lim,
		       struct source_series **ret, size_t *ret_n, struct err *e)
{
	struct over_view *w = of_view(v);
	struct overlay *o = w->o;
	struct source_series *stored = NULL, *profiles = NULL;
	VEC(struct source_series) out = { 0 };
	size_t n_stored = 0, n_profiles = 0;
	int rc = w->under->ops->select(w->under, m, n, after, until, lim, &stored, &n_stored, e);
	if (!rc)
		rc = select_profiles(w, m, n, after, until, lim, &profiles, &n_profiles, e);
	if (rc) {
		free(stored);
		return rc;
	}
	for (size_t i = 0; i < n_stored; i++)
		if (!is_hidden(o, stored[i].labels))
			vec_push(&out, stored[i]);
	free(stored);
	n_stored = out.n;
	for (size_t i = 0; i < n_profiles; i++)
		vec_push(&out, profiles[i]);
	free(profiles);
	for (size_t i = 0; i < o->series.n && rc >= 0; i++) {
		const struct over_series *s = o->series.v[i];
		size_t at = first_after(s, after);
		if (at == s->points.n || s->points.v[at].t_ms > until)
			continue;
		rc = matchers_match(m, n, *s->labels, lim ? lim->regex : NULL, e);
		if (rc > 0)
			vec_push(&out, (struct source_series){ *s->labels, NULL, OURS | i });
	}
	if (rc < 0) {
		vec_free(&out);
		return rc;
	}
	if (out.n > n_stored)
		qsort(out.v, out.n, sizeof *out.v, by_labels);
	*ret = out.v;
	*ret_n = out.n;
	return 0;
}

static int view_floats(struct source_view *v, uint64_t ref, int64_t after, int64_t until, const struct source_limits *lim, struct point **ret,
		       size_t *ret_n, struct err *e)
{
	struct over_view *w = of_view(v);
	if (!(ref & OURS))
		return w->under->ops->floats(w->under, ref, after, until, lim, ret, ret_n, e);
	const struct over_series *s = w->o->series.v[ref & ~OURS];
	size_t from = first_after(s, after), n = first_after(s, until) - from;
	if (lim && lim->samples_read)
		atomic_fetch_add(lim->samples_read, n);
	*ret = memcpy(xcalloc(n + 1, sizeof **ret), s->points.v + from, n * sizeof **ret);
	*ret_n = n;
	return 0;
}

static int view_profiles(struct source_view *v, uint64_t ref, int64_t after, int64_t until, const struct source_limits *lim,
			 struct source_profile **ret, size_t *ret_n, struct err *e)
{
	struct over_view *w = of_view(v);
	struct source_view *of = ref & PROFILES ? w->profiles : w->under;
	return of->ops->profiles(of, ref & ~PROFILES, after, until, lim, ret, ret_n, e);
}

static int view_cover(struct source_view *v, uint64_t ref, int64_t after, int64_t until, const struct source_limits *lim,
		      struct source_cover *ret, struct err *e)
{
	struct over_view *w = of_view(v);
	struct source_view *of = ref & PROFILES ? w->profiles : w->under;
	return of->ops->cover(of, ref & ~PROFILES, after, until, lim, ret, e);
}

/* A question of which some parts are of what is stored, and some of what the rules recorded. */
struct split {
	struct source_part *parts[2];
	size_t n[2];
};

static void split_parts(struct split *s, const struct source_part *parts, size_t n)
{
	*s = (struct split){ .parts = { xcalloc(n + 1, sizeof *parts), xcalloc(n + 1, sizeof *parts) } };
	for (size_t i = 0; i < n; i++) {
		int ours = (parts[i].ref & PROFILES) != 0;
		struct source_part *x = &s->parts[ours][s->n[ours]++];
		*x = parts[i];
		x->ref &= ~PROFILES;
	}
}

static void split_free(struct split *s)
{
	free(s->parts[0]);
	free(s->parts[1]);
}

/* ret[i] += more[i]; takes more's. */
static int add_vectors(struct stackvec **ret, struct stackvec **more, size_t n, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < n; i++) {
		struct stackvec *both[] = { ret[i], more[i] };
		struct stackvec *sum = rc ? NULL : stackvec_sum(ret[i]->symbols, both, NULL, 2, e);
		rc = sum ? rc : -(int)e->code;
		stackvec_unref(ret[i]);
		stackvec_unref(more[i]);
		ret[i] = sum;
	}
	for (size_t i = 0; rc && i < n; i++) {
		stackvec_unref(ret[i]);
		ret[i] = NULL;
	}
	return rc;
}

static int view_merge(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, enum symbols_detail detail,
		      const struct source_limits *lim, struct stackvec **ret, struct err *e)
{
	struct over_view *w = of_view(v);
	struct split s;
	split_parts(&s, parts, n);
	struct source_view *first = s.n[1] ? w->profiles : w->under;
	int rc = first->ops->merge(first, s.parts[s.n[1] > 0], s.n[s.n[1] > 0], n_groups, detail, lim, ret, e);
	if (!rc && s.n[0] && s.n[1]) {
		struct stackvec **more = xcalloc(n_groups + 1, sizeof *more);
		rc = w->under->ops->merge(w->under, s.parts[0], s.n[0], n_groups, detail, lim, more, e);
		if (!rc)
			rc = add_vectors(ret, more, n_groups, e);
		else
			for (size_t i = 0; i < n_groups; i++) {
				stackvec_unref(ret[i]);
				ret[i] = NULL;
			}
		free(more);
	}
	split_free(&s);
	return rc;
}

static int view_sums(struct source_view *v, const struct source_part *parts, size_t n, size_t n_groups, const struct source_frame_filter *f,
		     const struct source_limits *lim, double *ret, int64_t *exact, struct err *e)
{
	struct over_view *w = of_view(v);
	double *more = xcalloc(n_groups + 1, sizeof *more);
	int64_t *more_exact = xcalloc(n_groups + 1, sizeof *more_exact);
	struct split s;
	split_parts(&s, parts, n);
	memset(ret, 0, n_groups * sizeof *ret);
	if (exact)
		memset(exact, 0, n_groups * sizeof *exact);
	int rc = s.n[0] ? w->under->ops->sums(w->under, s.parts[0], s.n[0], n_groups, f, lim, ret, exact, e) : 0;
	if (!rc && s.n[1])
		rc = w->profiles->ops->sums(w->profiles, s.parts[1], s.n[1], n_groups, f, lim, more, exact ? more_exact : NULL, e);
	for (size_t i = 0; i < n_groups && !rc; i++) {
		ret[i] += more[i];
		if (exact && __builtin_add_overflow(exact[i], more_exact[i], &exact[i]))
			rc = err_set(e, ERR_EXECUTION, "the sum of the values does not fit in 64 bits");
	}
	split_free(&s);
	free(more);
	free(more_exact);
	return rc;
}

/* Series of one of the two, numbered as for the caller. */
struct cells_of {
	const struct source_cells_reader *to;
	size_t *series;
};

static enum source_alike pass_alike(void *arg, size_t a, size_t b, int64_t after, int64_t until)
{
	const struct cells_of *x = arg;
	return x->to->alike ? x->to->alike(x->to->arg, x->series[a], x->series[b], after, until) : SOURCE_UNLIKE;
}

static bool pass_odd(void *arg, size_t series, int64_t t_ms)
{
	const struct cells_of *x = arg;
	return x->to->odd(x->to->arg, x->series[series], t_ms);
}

static int pass_cells(void *arg, const struct source_cells *c, unsigned worker, struct err *e)
{
	const struct cells_of *x = arg;
	struct source_cells own = *c;
	own.series = x->series[c->series];
	return x->to->take(x->to->arg, &own, worker, e);
}

static int view_cells(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until, const struct source_limits *lim,
		      const struct source_cells_reader *to, struct err *e)
{
	struct over_view *w = of_view(v);
	uint64_t *some = xcalloc(n + 1, sizeof *some);
	size_t *series = xcalloc(n + 1, sizeof *series);
	struct cells_of c = { to, series };
	const struct source_cells_reader own = { pass_cells, pass_alike, pass_odd, to->detail, &c };
	int rc = 0;
	for (int ours = 0; ours < 2 && !rc; ours++) {
		struct source_view *of = ours ? w->profiles : w->under;
		size_t k = 0;
		for (size_t i = 0; i < n; i++)
			if (((refs[i] & PROFILES) != 0) == ours) {
				some[k] = refs[i] & ~PROFILES;
				series[k++] = i;
			}
		if (k)
			rc = of->ops->cells(of, some, k, after, until, lim, &own, e);
	}
	free(some);
	free(series);
	return rc;
}

/* Queries do not use these: they are about stored data. */
static int view_label_names(struct source_view *v, const struct matcher *m, size_t n, int64_t after, int64_t until,
			    const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e)
{
	struct source_view *u = of_view(v)->under;
	return u->ops->label_names(u, m, n, after, until, lim, ret, ret_n, e);
}

static int view_label_values(struct source_view *v, struct view name, const struct matcher *m, size_t n, int64_t after, int64_t until,
			     const struct source_limits *lim, struct view **ret, size_t *ret_n, struct err *e)
{
	struct source_view *u = of_view(v)->under;
	return u->ops->label_values(u, name, m, n, after, until, lim, ret, ret_n, e);
}

static const struct source_ops ops = {
	.release = release, .select = view_select, .floats = view_floats, .profiles = view_profiles, .cover = view_cover, .merge = view_merge, .sums = view_sums,
	.cells = view_cells, .label_names = view_label_names, .label_values = view_label_values,
};

static int source_open(struct source *s, struct source_view **ret, struct err *e)
{
	struct overlay *o = (struct overlay *)(void *)s;
	struct source *recorded = memsource_source(o->profiles);
	struct source_view *under, *profiles;
	int rc = o->under->open(o->under, &under, e);
	if (rc)
		return rc;
	rc = recorded->open(recorded, &profiles, e);
	if (rc) {
		under->ops->release(under);
		return rc;
	}
	struct over_view *v = NEW(struct over_view);
	*v = (struct over_view){ { &ops }, o, under, profiles };
	*ret = &v->view;
	return 0;
}

/* ---- begin and end ---- */

static void index_views(struct map *m, const struct view *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		map_insert(m, hash_view(v[i]), (uint32_t)i);
}

struct overlay *overlay_new(struct source *under, const struct overlay_hidden *h, size_t max_samples, uint64_t max_bytes)
{
	struct overlay *o = NEW(struct overlay);
	o->source.open = source_open;
	o->sink.append = append;
	o->under = under;
	o->hidden = *h;
	o->max_samples = max_samples;
	o->max_bytes = max_bytes;
	o->profiles = memsource_new();
	index_views(&o->by_name, h->names, h->n_names);
	index_views(&o->by_alert, h->alerts, h->n_alerts);
	return o;
}

void overlay_free(struct overlay *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->series.n; i++) {
		free(o->series.v[i]->labels);
		vec_free(&o->series.v[i]->points);
		free(o->series.v[i]);
	}
	vec_free(&o->series);
	memsource_free(o->profiles);
	map_free(&o->by_labels);
	map_free(&o->by_name);
	map_free(&o->by_alert);
	free(o);
}

struct source *overlay_source(struct overlay *o)
{
	return &o->source;
}

struct sink *overlay_sink(struct overlay *o)
{
	return &o->sink;
}
