/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/many_days/outputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/regex.h"
#include "web/matrix_columns.h"

void outputs_init(struct outputs *o)
{
	o->lists = frame_lists_new(100000);
}

void outputs_release(struct outputs *o)
{
	frame_lists_free(o->lists);
}

/* Which text of an answer is compared. */
enum part { WHOLE_ANSWER, PLAIN, FRAMES };

static bool is_range(const struct question *q)
{
	return q->form == FORM_GRAPH || q->form == FORM_MATRIX;
}

static int ask(struct promql_engine *g, const struct question *q, bool addresses, struct promql_result *r, struct err *e)
{
	const struct promql_params p = { .profiles = q->form > FORM_MATRIX, .addresses = addresses };
	return is_range(q) ? promql_range(g, buf_view(&q->text), q->start_ms, q->t_ms, q->step_ms, &p, r, e)
			   : promql_instant(g, buf_view(&q->text), q->t_ms, &p, r, e);
}

/* ---- values ---- */

static void put_series(struct buf *b, const struct promql_series *s)
{
	json_object_begin(b);
	json_key(b, "metric");
	labels_json(s->labels, b);
	json_array_begin_at(b, "values");
	for (size_t i = 0; i < s->n; i++)
		json_point(b, s->points[i].t_ms, s->points[i].v);
	json_array_end(b);
	json_object_end(b);
	buf_putc(b, '\n');
}

static void put_values(struct buf *b, const struct promql_result *r)
{
	buf_printf(b, "%s of %zu\n", promql_type_text(r->type), r->n_series);
	if (r->type == PROMQL_SCALAR)
		json_point(b, r->t_ms, r->scalar);
	for (size_t i = 0; i < r->n_series; i++)
		put_series(b, &r->series[i]);
}

static int by_labels(const void *a, const void *b)
{
	const struct promql_series *x = a, *y = b;
	return labels_cmp(x->labels, y->labels);
}

static void put_plain_values(struct buf *b, const struct promql_result *r)
{
	struct promql_series *sorted = xcalloc(r->n_series + 1, sizeof *sorted);
	if (r->n_series)
		memcpy(sorted, r->series, r->n_series * sizeof *sorted);
	qsort(sorted, r->n_series, sizeof *sorted, by_labels);
	buf_printf(b, "%.17g\n", r->scalar);
	for (size_t i = 0; i < r->n_series; i++) {
		const struct promql_series *s = &sorted[i];
		bool any = false;
		for (size_t k = 0; k < s->n; k++) {
			if (fabs(s->points[k].v) < OUTPUTS_NEARLY_0)
				continue;
			if (!any)
				labels_json(s->labels, b);
			any = true;
			buf_printf(b, " %lld: %.17g", (long long)s->points[k].t_ms, s->points[k].v);
		}
		if (any)
			buf_putc(b, '\n');
	}
	free(sorted);
}

static int put_matrix(struct buf *b, const struct promql_result *r, const struct question *q, struct err *e)
{
	int rc = matrix_head(r, r->n_series, q->start_ms, q->step_ms, NULL, b, e);
	for (size_t i = 0; i < r->n_series && !rc; i++)
		matrix_values(&r->series[i], b);
	return rc;
}

/* ---- flames ---- */

static int frame_matches(void *re, const struct flame_frame *f, struct err *e)
{
	int yes = regex_match(re, f->name, NULL, e);
	return yes ? yes : regex_match(re, f->file, NULL, e);
}

static int read_ask(const struct question *q, struct flame_ask *ret, struct regex **re, struct err *e)
{
	*ret = (struct flame_ask){ .min_share = q->min_share, .functions = q->functions, .keep = q->functions, .root = q->root, .n_root = q->n_root };
	*re = NULL;
	if (!q->search)
		return 0;
	ret->match = frame_matches;
	int rc = regex_new(re, view_of(q->search), false, e);
	ret->match_arg = *re;
	return rc;
}

static int put_columns(struct outputs *o, const struct merged_profile *m, const struct flame_ask *ask, struct buf *out, struct err *e)
{
	struct buf columns = { 0 };
	int rc = flamegraph_columns(o->lists, 0, m, ask, NULL, out, &columns, e);
	buf_putv(out, buf_view(&columns));
	buf_free(&columns);
	return rc;
}

/* The profile of an answer, and how it is to be shown. */
static int merge_and_ask(const struct promql_result *r, const struct question *q, struct merged_profile *m, struct flame_ask *ask, struct regex **re, struct err *e)
{
	int rc = merged_make(m, r, NULL, e);
	if (rc)
		return rc;
	rc = read_ask(q, ask, re, e);
	if (rc)
		merged_release(m);
	return rc;
}

static int put_profiles(struct outputs *o, const struct promql_result *r, const struct question *q, struct buf *out, struct err *e)
{
	struct merged_profile m;
	struct flame_ask ask;
	struct regex *re;
	int rc = merge_and_ask(r, q, &m, &ask, &re, e);
	if (rc)
		return rc;
	switch (q->form) {
	case FORM_FLAME:
	case FORM_TABLE: rc = flamegraph_json(&m, &ask, NULL, out, e); break;
	case FORM_COLUMNS: rc = put_columns(o, &m, &ask, out, e); break;
	case FORM_FOLDED: rc = folded_text(&m, NULL, out, e); break;
	case FORM_SVG: rc = flame_svg(&m, buf_view(&q->text), NULL, out, e); break;
	default: rc = call_graph_dot(&m, buf_view(&q->text), NULL, out, e);
	}
	regex_unref(re);
	merged_release(&m);
	return rc;
}

static void put_value(struct buf *out, const struct flame *f, union flame_value v)
{
	if (f->is_float)
		buf_printf(out, " %.17g", v.d);
	else
		buf_printf(out, " %lld", (long long)v.i);
}

/* Frames are in order of names. */
static int by_frame(const void *a, const void *b)
{
	const struct flame_function *x = a, *y = b;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

static void put_flame(struct buf *out, const struct flame *f)
{
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct flame_node x = flame_node(f, i);
		buf_printf(out, "%u %.*s %lld %u", x.depth, (int)f->frames[x.frame].name.len, f->frames[x.frame].name.ptr, (long long)x.line, x.cut);
		put_value(out, f, x.total);
		put_value(out, f, x.self);
		put_value(out, f, x.base_total);
		put_value(out, f, x.base_self);
		buf_putc(out, '\n');
	}
	struct flame_function *by_name = xcalloc(f->n_functions + 1, sizeof *by_name);
	if (f->n_functions)
		memcpy(by_name, f->functions, f->n_functions * sizeof *by_name);
	qsort(by_name, f->n_functions, sizeof *by_name, by_frame);
	for (size_t i = 0; i < f->n_functions; i++) {
		const struct flame_function *x = &by_name[i];
		buf_printf(out, "%.*s", (int)f->frames[x->frame].name.len, f->frames[x->frame].name.ptr);
		put_value(out, f, x->total);
		put_value(out, f, x->self);
		put_value(out, f, x->base_total);
		put_value(out, f, x->base_self);
		buf_putc(out, '\n');
	}
	free(by_name);
	buf_printf(out, "%zu functions, %zu nodes are hidden, %zu names of the root", f->all_functions, f->hidden, f->root);
}

static void put_frames(struct buf *out, const struct flame *f)
{
	for (size_t i = 0; i < f->n_frames; i++) {
		const struct flame_frame *x = &f->frames[i];
		buf_printf(out, "%.*s\t%.*s\t%.*s\t%lld\n", (int)x->name.len, x->name.ptr, (int)x->file.len, x->file.ptr, (int)x->binary.len, x->binary.ptr,
			   (long long)x->start_line);
	}
}

static int put_plain_profiles(enum part part, const struct promql_result *r, const struct question *q, struct buf *out, struct err *e)
{
	struct merged_profile m;
	struct flame_ask ask;
	struct regex *re;
	struct flame f;
	int rc = merge_and_ask(r, q, &m, &ask, &re, e);
	if (rc)
		return rc;
	rc = merged_flame(&f, &m, &ask, NULL, e);
	if (!rc) {
		(part == FRAMES ? put_frames : put_flame)(out, &f);
		flame_release(&f);
	}
	regex_unref(re);
	merged_release(&m);
	return rc;
}

/* ---- the answer ---- */

static void put_remarks(struct buf *out, const struct view *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "\n! %.*s", (int)v[i].len, v[i].ptr);
}

static bool put(enum part part, struct outputs *o, struct promql_engine *g, const struct question *q, bool addresses, struct buf *out)
{
	struct promql_result r;
	struct err e = { 0 };
	int rc = ask(g, q, addresses, &r, &e);
	if (rc) {
		buf_printf(out, "error %d: %s", (int)e.code, e.msg);
		return false;
	}
	bool any = r.type == PROMQL_SCALAR || r.n_series > 0;
	if (q->form == FORM_MATRIX && part == WHOLE_ANSWER && r.type == PROMQL_MATRIX)
		rc = put_matrix(out, &r, q, &e);
	else if (q->form <= FORM_MATRIX)
		(part == WHOLE_ANSWER ? put_values : put_plain_values)(out, &r);
	else
		rc = part == WHOLE_ANSWER ? put_profiles(o, &r, q, out, &e) : put_plain_profiles(part, &r, q, out, &e);
	if (rc)
		buf_printf(out, "error %d: %s", (int)e.code, e.msg);
	put_remarks(out, r.warnings, r.n_warnings);
	put_remarks(out, r.infos, r.n_infos);
	promql_result_release(&r);
	return any;
}

bool outputs_put(struct outputs *o, struct promql_engine *g, const struct question *q, bool addresses, struct buf *out)
{
	return put(WHOLE_ANSWER, o, g, q, addresses, out);
}

void outputs_put_plain(struct promql_engine *g, const struct question *q, bool addresses, struct buf *out)
{
	put(PLAIN, NULL, g, q, addresses, out);
}

void outputs_put_frames(struct promql_engine *g, const struct question *q, bool addresses, struct buf *out)
{
	put(FRAMES, NULL, g, q, addresses, out);
}
