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
	struct source_ops ops;       /* without the calls that `under` has not */
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

/* The names of both, of which some are the same. */
static int view_types(struct source_view *v, int64_t after, int64_t until, const struct source_limits *lim, struct source_type **ret, size_t *ret_n,
		      struct err *e)
{
	struct over_view *w = of_view(v);
	struct source_type *stored, *recorded;
	size_t n_stored, n_recorded;
	VEC(struct source_type) out = { 0 };
	int rc = w->under->ops->types(w->under, after, until, lim, &stored, &n_stored, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < n_stored; i++)
		if (!among(&w->o->by_name, w->o->hidden.names, stored[i].name))
			vec_push(&out, stored[i]);
	free(stored);
	rc = w->profiles->ops->types(w->profiles, after, until, lim, &recorded, &n_recorded, e);
	if (rc) {
		vec_free(&out);
		return rc;
	}
	for (size_t i = 0; i < n_recorded; i++) {
		size_t k = 0;
		while (k < out.n && !(view_eq(out.v[k].name, recorded[i].name) && ptype_eq(out.v[k].type, recorded[i].type)))
			k++;
		if (k < out.n)
			out.v[k].n_series += recorded[i].n_series;
		else
			vec_push(&out, recorded[i]);
	}
	free(recorded);
	*ret = out.v;
	*ret_n = out.n;
	return 0;
}

/* Some of the caller's series: those of one of the sources. What is read of them is passed on under the caller's number. */
struct over_share {
	uint64_t *refs;              /* as that source names them */
	size_t *series;              /* the caller's numbers */
	size_t n;
	source_floats_fn floats;     /* the caller's: one of them */
	source_profiles_fn profiles;
	source_covers_fn covers;
	const struct source_cells_reader *cells;
	void *arg;
};

/* Those whose ref has the bit, or has it not. */
static void share_fill(struct over_share *s, const uint64_t *refs, size_t n, uint64_t bit, bool has)
{
	s->refs = xcalloc(n + 1, sizeof *s->refs);
	s->series = xcalloc(n + 1, sizeof *s->series);
	for (size_t i = 0; i < n; i++)
		if (((refs[i] & bit) != 0) == has) {
			s->refs[s->n] = refs[i] & ~bit;
			s->series[s->n++] = i;
		}
}

static void share_release(struct over_share *s)
{
	free(s->refs);
	free(s->series);
}

static int pass_floats(void *arg, size_t series, struct point *v, size_t n, struct err *e)
{
	const struct over_share *s = arg;
	return s->floats(s->arg, s->series[series], v, n, e);
}

static int pass_profiles(void *arg, size_t series, struct source_profile *v, size_t n, struct err *e)
{
	const struct over_share *s = arg;
	return s->profiles(s->arg, s->series[series], v, n, e);
}

static int pass_covers(void *arg, size_t series, struct source_cover *v, struct err *e)
{
	const struct over_share *s = arg;
	return s->covers(s->arg, s->series[series], v, e);
}

/* Of one of the overlay's own series. */
static int own_floats(const struct overlay *o, uint64_t ref, size_t series, int64_t after, int64_t until, const struct source_limits *lim,
		      source_floats_fn fn, void *arg, struct err *e)
{
	const struct over_series *s = o->series.v[ref];
	size_t from = first_after(s, after), n = first_after(s, until) - from;
	if (lim && lim->samples_read)
		atomic_fetch_add(lim->samples_read, n);
	struct point *copy = memcpy(xcalloc(n + 1, sizeof *copy), s->points.v + from, n * sizeof *copy);
	return fn(arg, series, copy, n, e);
}

static int view_floats(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until, const struct source_limits *lim,
		       source_floats_fn fn, void *arg, struct err *e)
{
	struct over_view *w = of_view(v);
	struct over_share stored = { .floats = fn, .arg = arg };
	share_fill(&stored, refs, n, OURS, false);
	int rc = stored.n ? w->under->ops->floats(w->under, stored.refs, stored.n, after, until, lim, pass_floats, &stored, e) : 0;
	for (size_t i = 0; i < n && !rc; i++)
		if (refs[i] & OURS)
			rc = own_floats(w->o, refs[i] & ~OURS, i, after, until, lim, fn, arg, e);
	share_release(&stored);
	return rc;
}

static int view_profiles(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until, const struct source_limits *lim,
			 source_profiles_fn fn, void *arg, struct err *e)
{
	struct over_view *w = of_view(v);
	int rc = 0;
	for (int ours = 0; ours < 2 && !rc; ours++) {
		struct source_view *of = ours ? w->profiles : w->under;
		struct over_share s = { .profiles = fn, .arg = arg };
		share_fill(&s, refs, n, PROFILES, ours);
		rc = s.n ? of->ops->profiles(of, s.refs, s.n, after, until, lim, pass_profiles, &s, e) : 0;
		share_release(&s);
	}
	return rc;
}

static int view_covers(struct source_view *v, const uint64_t *refs, size_t n, const struct source_tiles *t, const struct source_limits *lim,
		       source_covers_fn fn, void *arg, struct err *e)
{
	struct over_view *w = of_view(v);
	int rc = 0;
	for (int ours = 0; ours < 2 && !rc; ours++) {
		struct source_view *of = ours ? w->profiles : w->under;
		struct over_share s = { .covers = fn, .arg = arg };
		share_fill(&s, refs, n, PROFILES, ours);
		rc = s.n ? of->ops->covers(of, s.refs, s.n, t, lim, pass_covers, &s, e) : 0;
		share_release(&s);
	}
	return rc;
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

static enum source_alike pass_alike(void *arg, size_t a, size_t b, int64_t after, int64_t until)
{
	const struct over_share *s = arg;
	return s->cells->alike ? s->cells->alike(s->cells->arg, s->series[a], s->series[b], after, until) : SOURCE_UNLIKE;
}

static bool pass_odd(void *arg, size_t series, int64_t t_ms)
{
	const struct over_share *s = arg;
	return s->cells->odd(s->cells->arg, s->series[series], t_ms);
}

static int pass_cells(void *arg, const struct source_cells *c, unsigned worker, struct err *e)
{
	const struct over_share *s = arg;
	struct source_cells own = *c;
	own.series = s->series[c->series];
	return s->cells->take(s->cells->arg, &own, worker, e);
}

static int view_cells(struct source_view *v, const uint64_t *refs, size_t n, int64_t after, int64_t until, const struct source_limits *lim,
		      const struct source_cells_reader *to, struct err *e)
{
	struct over_view *w = of_view(v);
	int rc = 0;
	for (int ours = 0; ours < 2 && !rc; ours++) {
		struct source_view *of = ours ? w->profiles : w->under;
		struct over_share s = { .cells = to };
		const struct source_cells_reader own = { pass_cells, pass_alike, pass_odd, to->detail, &s };
		share_fill(&s, refs, n, PROFILES, ours);
		rc = s.n ? of->ops->cells(of, s.refs, s.n, after, until, lim, &own, e) : 0;
		share_release(&s);
	}
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
	.release = release, .select = view_select, .types = view_types, .floats = view_floats, .profiles = view_profiles, .covers = view_covers,
	.merge = view_merge, .sums = view_sums, .cells = view_cells, .label_names = view_label_names, .label_values = view_label_values,
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
	*v = (struct over_view){ { &v->ops }, ops, o, under, profiles };
	if (!under->ops->covers)
		v->ops.covers = NULL;
	if (!under->ops->cells)
		v->ops.cells = NULL;
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
