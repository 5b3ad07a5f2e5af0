/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/call.h"

#include <stdlib.h>

void fleet_result_release(struct fleet_result *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->floats)
			free(r->floats[i].v);
		if (r->profiles) {
			free(r->profiles[i].v);
			free(r->profiles[i].match);
		}
		if (r->points)
			source_points_release(&r->points[i]);
		if (r->covers && r->covers[i])
			source_covers_free(r->covers[i], r->n_tiles);
		if (r->vecs && r->vecs[i])
			stackvec_unref(r->vecs[i]);
	}
	for (size_t i = 0; r->rows && i < r->n; i++) {
		free(r->rows[i].steps);
		free(r->rows[i].ints);
		free(r->rows[i].parts);
	}
	free(r->rows);
	free(r->texts);
	free(r->series);
	free(r->types);
	free(r->names);
	free(r->floats);
	free(r->profiles);
	free(r->points);
	free(r->covers);
	free(r->vecs);
	free(r->sums);
	free(r->exact);
	free(r->shares.match);
	free(r->shares.total);
	free(r->shares.there);
	*r = (struct fleet_result){ 0 };
}

/* ---- the receivers of what is read by series: each writes a place of its own ---- */

struct call_lists {
	struct fleet_result *result;
	struct question_held *held;
};

static int call_take_floats(void *arg, size_t series, struct point *v, size_t n, struct err *e)
{
	const struct call_lists *to = arg;
	to->result->floats[series] = (struct fleet_floats){ v, n };
	return question_held_list(to->held, n * sizeof *v, e);
}

static int call_take_profiles(void *arg, size_t series, struct source_profile *v, size_t n, struct err *e)
{
	const struct call_lists *to = arg;
	to->result->profiles[series] = (struct fleet_profiles){ v, NULL, n };
	return question_held_list(to->held, n * sizeof *v, e);
}

static int call_take_points(void *arg, size_t series, struct source_points *p, struct err *e)
{
	const struct call_lists *to = arg;
	to->result->points[series] = *p;
	return question_held_list(to->held, p->n * (sizeof *p->v + (p->before ? sizeof *p->before : 0)), e);
}

static int call_take_covers(void *arg, size_t series, struct source_cover *v, struct err *e)
{
	const struct call_lists *to = arg;
	uint64_t bytes = 0; /* the places of tiles are counted before */
	to->result->covers[series] = v;
	for (size_t i = 0; i < to->result->n_tiles; i++)
		bytes += v[i].spans.n * sizeof *v[i].spans.v;
	return question_held_list(to->held, bytes, e);
}

static int call_take_matches(void *arg, size_t series, const struct source_profile *p, const int64_t *match, size_t n, unsigned worker, struct err *e)
{
	(void)worker;
	const struct call_lists *lists = arg;
	struct fleet_profiles *to = &lists->result->profiles[series];
	int rc = question_held_list(lists->held, n * (sizeof *p + sizeof *match), e);
	if (rc)
		return rc;
	*to = (struct fleet_profiles){ xcalloc(n + 1, sizeof *p), xcalloc(n + 1, sizeof *match), n };
	if (n) {
		memcpy(to->v, p, n * sizeof *p);
		memcpy(to->match, match, n * sizeof *match);
	}
	return 0;
}

/* ---- covers of a source that has only profiles ---- */

struct call_tiles {
	struct call_lists *lists;
	const struct source_tiles *tiles;
};

static int call_add_up_covers(void *arg, size_t series, struct source_profile *v, size_t n, struct err *e)
{
	const struct source_tiles *t = ((struct call_tiles *)arg)->tiles;
	struct source_cover *covers = xcalloc(t->n + 1, sizeof *covers);
	for (size_t i = 0; i < n; i++) {
		struct source_cover one = { 0 };
		struct source_cover *to = t->n == 1 ? covers : &one; /* only a single tile has spans */
		source_cover_add(to, v[i].t_ms, v[i].cover_ms, v[i].total, v[i].weight, v[i].period, v[i].stale);
		if (to == &one)
			source_cover_add_other(&covers[(v[i].t_ms - t->after_ms - 1) / t->width_ms], &one);
		source_cover_release(&one);
	}
	free(v);
	return call_take_covers(((struct call_tiles *)arg)->lists, series, covers, e);
}

static int call_run_covers(struct source_view *v, const struct fleet_call *c, const struct source_limits *lim, struct call_lists *lists, struct err *e)
{
	struct fleet_result *r = lists->result;
	r->covers = xcalloc(c->n_refs + 1, sizeof *r->covers);
	r->n_tiles = c->tiles->n;
	if (v->ops->covers)
		return v->ops->covers(v, c->refs, c->n_refs, c->tiles, lim, call_take_covers, lists, e);
	struct call_tiles t = { lists, c->tiles };
	return v->ops->profiles(v, c->refs, c->n_refs, c->tiles->after_ms, c->tiles->after_ms + (int64_t)c->tiles->n * c->tiles->width_ms, lim,
				call_add_up_covers, &t, e);
}

static int call_not_supported(const char *what, struct err *e)
{
	return err_set(e, ERR_BAD_DATA, "%s is not supported by this storage", what);
}

/* ---- rows ---- */

struct call_rows {
	const struct source_graph *graph;
	struct question_held *held;
	size_t texts_held;
	VEC(struct fleet_row) v;
	struct buf texts;
};

/* Views of texts are offsets until the buffer does not grow any more. */
static struct view call_keep_text(struct buf *texts, struct view v)
{
	size_t at = texts->len;
	buf_putv(texts, v);
	return view_make((const char *)(uintptr_t)at, v.len);
}

static int call_take_row(void *arg, const struct source_graph_row *row, struct err *e)
{
	struct call_rows *c = arg;
	size_t n = 0, n_steps = c->graph->n_steps;
	for (size_t i = 0; i < n_steps; i++)
		n += row->ints[i] || (row->parts && row->parts[i]);
	if (!n)
		return 0;
	int rc = question_held_list(c->held, sizeof(struct fleet_row) + n * (sizeof(uint32_t) + sizeof(int64_t) + (row->parts ? sizeof(int128) : 0)), e);
	if (rc)
		return rc;
	struct fleet_row x = { .lane = row->lane, .steps = xcalloc(n, sizeof *x.steps), .ints = xcalloc(n, sizeof *x.ints),
			       .parts = row->parts ? xcalloc(n, sizeof *x.parts) : NULL };
	x.function = call_keep_text(&c->texts, row->function);
	x.file = call_keep_text(&c->texts, row->file);
	x.line = call_keep_text(&c->texts, row->line);
	for (size_t i = 0; i < n_steps; i++) {
		if (!row->ints[i] && !(row->parts && row->parts[i]))
			continue;
		x.steps[x.n] = (uint32_t)i;
		x.ints[x.n] = row->ints[i];
		if (x.parts)
			x.parts[x.n] = row->parts[i];
		x.n++;
	}
	vec_push(&c->v, x);
	size_t more = c->texts.cap - c->texts_held;
	c->texts_held += more;
	if (more && (rc = question_held_list(c->held, more, e)))
		return rc;
	return c->texts.overflow ? err_set(e, ERR_LIMIT, "the names of the rows of a graph take more than %zu bytes", BUF_DEFAULT_MAX) : 0;
}

static struct view call_place_text(struct view v, const char *texts)
{
	return v.len ? view_make(texts + (uintptr_t)v.ptr, v.len) : VIEW("");
}

static int call_run_rows(struct source_view *v, const struct fleet_call *c, fleet_rows_fn rows, void *rows_arg, const struct source_limits *lim,
			 struct call_lists *lists, struct err *e)
{
	struct fleet_result *r = lists->result;
	struct call_rows x = { .graph = c->graph, .held = lists->held };
	int rc = v->ops->rows ? v->ops->rows(v, c->graph, lim, &r->fits, call_take_row, &x, e)
	       : rows ? rows(rows_arg, v, c->graph, lim, &r->fits, call_take_row, &x, e) : call_not_supported("a graph over stacks", e);
	r->texts = buf_take(&x.texts, NULL);
	r->rows = x.v.v;
	r->n = x.v.n;
	for (size_t i = 0; i < r->n; i++) {
		r->rows[i].function = call_place_text(r->rows[i].function, r->texts);
		r->rows[i].file = call_place_text(r->rows[i].file, r->texts);
		r->rows[i].line = call_place_text(r->rows[i].line, r->texts);
	}
	return rc;
}

int fleet_rows_each(const struct fleet_result *r, size_t n_steps, const struct source_limits *lim, source_rows_fn fn, void *arg, struct err *e)
{
	int64_t *ints = xcalloc(n_steps + 1, sizeof *ints);
	int128 *parts = xcalloc(n_steps + 1, sizeof *parts);
	int rc = 0;
	for (size_t i = 0; i < r->n && !rc; i++) {
		const struct fleet_row *x = &r->rows[i];
		for (size_t k = 0; k < x->n; k++) {
			ints[x->steps[k]] = x->ints[k];
			if (x->parts)
				parts[x->steps[k]] = x->parts[k];
		}
		rc = lim ? source_limits_check(lim, e) : 0;
		if (!rc)
			rc = fn(arg, &(struct source_graph_row){ x->lane, x->function, x->file, x->line, ints, x->parts ? parts : NULL }, e);
		for (size_t k = 0; k < x->n; k++) {
			ints[x->steps[k]] = 0;
			parts[x->steps[k]] = 0;
		}
	}
	free(ints);
	free(parts);
	return rc;
}

/* ---- the others ---- */

static int call_run_shares(struct source_view *v, const struct fleet_call *c, const struct source_limits *lim, struct fleet_result *r, struct err *e)
{
	if (!v->ops->shares)
		return call_not_supported("shares", e);
	r->shares = (struct source_shares){ xcalloc(c->n_groups + 1, sizeof(int64_t)), xcalloc(c->n_groups + 1, sizeof(int64_t)),
					    xcalloc(c->n_groups + 1, sizeof(int64_t)) };
	return v->ops->shares(v, c->parts, c->n_parts, c->n_groups, c->filter, lim, &r->shares, e);
}

static int call_run_matches(struct source_view *v, const struct fleet_call *c, const struct source_limits *lim, struct call_lists *lists, struct err *e)
{
	if (!v->ops->matches)
		return call_not_supported("matches", e);
	lists->result->profiles = xcalloc(c->n_refs + 1, sizeof(struct fleet_profiles));
	return v->ops->matches(v, c->refs, c->n_refs, c->after_ms, c->until_ms, c->filter, lim, call_take_matches, lists, e);
}

static int call_run_op(struct source_view *v, const struct fleet_call *c, const struct source_limits *lim, struct call_lists *lists, struct err *e)
{
	struct fleet_result *r = lists->result;
	const struct source_ops *ops = v->ops;
	switch (c->op) {
	case FLEET_OPEN:
	case FLEET_CLOSE:
		return 0;
	case FLEET_SELECT:
		return ops->select(v, c->m, c->n_m, c->after_ms, c->until_ms, lim, &r->series, &r->n, e);
	case FLEET_TYPES:
		return ops->types(v, c->after_ms, c->until_ms, lim, &r->types, &r->n, e);
	case FLEET_LABEL_NAMES:
		return ops->label_names(v, c->m, c->n_m, c->after_ms, c->until_ms, lim, &r->names, &r->n, e);
	case FLEET_LABEL_VALUES:
		return ops->label_values(v, c->label, c->m, c->n_m, c->after_ms, c->until_ms, lim, &r->names, &r->n, e);
	case FLEET_FLOATS:
		r->floats = xcalloc(c->n_refs + 1, sizeof *r->floats);
		return ops->floats(v, c->refs, c->n_refs, c->after_ms, c->until_ms, lim, call_take_floats, lists, e);
	case FLEET_PROFILES:
		r->profiles = xcalloc(c->n_refs + 1, sizeof *r->profiles);
		return ops->profiles(v, c->refs, c->n_refs, c->after_ms, c->until_ms, lim, call_take_profiles, lists, e);
	case FLEET_POINTS:
		r->points = xcalloc(c->n_refs + 1, sizeof *r->points); /* not plain */
		return !ops->points ? 0 : ops->points(v, c->refs, c->n_refs, c->after_ms, c->until_ms, c->windows, lim, call_take_points, lists, e);
	case FLEET_COVERS:
		return call_run_covers(v, c, lim, lists, e);
	case FLEET_MERGE:
		r->vecs = xcalloc(c->n_groups + 1, sizeof(struct stackvec *));
		return ops->merge(v, c->parts, c->n_parts, c->n_groups, c->detail, lim, r->vecs, e);
	case FLEET_SUMS:
		r->sums = xcalloc(c->n_groups + 1, sizeof *r->sums);
		r->exact = c->exact ? xcalloc(c->n_groups + 1, sizeof *r->exact) : NULL;
		return ops->sums(v, c->parts, c->n_parts, c->n_groups, c->filter, lim, r->sums, r->exact, e);
	case FLEET_SHARES:
		return call_run_shares(v, c, lim, r, e);
	case FLEET_MATCHES:
		return call_run_matches(v, c, lim, lists, e);
	case FLEET_ROWS: /* fleet_call_run */
	case FLEET_OPS:
		break;
	}
	return err_set(e, ERR_BAD_DATA, "not an operation: %d", (int)c->op);
}

/* How many elements the result of a call has; unknown before of those that find their elements. */
static size_t call_result_count(const struct fleet_call *c)
{
	switch (c->op) {
	case FLEET_FLOATS:
	case FLEET_PROFILES:
	case FLEET_POINTS:
	case FLEET_COVERS:
	case FLEET_MATCHES:
		return c->n_refs;
	case FLEET_MERGE:
	case FLEET_SUMS:
	case FLEET_SHARES:
		return c->n_groups;
	default:
		return 0;
	}
}

/* Bytes of what a source returns as a whole. */
static uint64_t call_whole_bytes(const struct fleet_result *r)
{
	uint64_t bytes = (r->series ? r->n * sizeof *r->series : 0) + (r->types ? r->n * sizeof *r->types : 0) + (r->names ? r->n * sizeof *r->names : 0);
	for (size_t i = 0; r->vecs && i < r->n; i++)
		bytes += r->vecs[i] ? r->vecs[i]->n * (sizeof *r->vecs[i]->columns + sizeof *r->vecs[i]->ints) : 0;
	return bytes;
}

int fleet_call_run(struct source_view *v, const struct fleet_call *c, fleet_rows_fn rows, void *rows_arg, const struct source_limits *lim, struct question_held *held,
		   struct fleet_result *ret, struct err *e)
{
	struct fleet_result r = { .op = c->op, .n = call_result_count(c) };
	struct call_lists lists = { &r, held };
	int rc = c->op == FLEET_ROWS ? call_run_rows(v, c, rows, rows_arg, lim, &lists, e) : call_run_op(v, c, lim, &lists, e);
	if (!rc)
		rc = question_held_list(held, call_whole_bytes(&r), e);
	if (rc)
		fleet_result_release(&r);
	else
		*ret = r;
	return rc;
}
