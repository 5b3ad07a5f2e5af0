/* SPDX-License-Identifier: Apache-2.0 */
/* query?format=: one table of formats. Errors of pprof are what go tool pprof shows its user: text, marked. */
#include "web/formats.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/regex.h"
#include "base/vec.h"
#include "web/answer.h"
#include "web/profiles/flame_columns.h"

#define FLAME_TYPE "application/vnd.pyrrha.flame"
#define KEPT_WAYS 1000 /* functions of the table that stay in a tree that is trimmed */
#define MAX_PATH 65536 /* names */
#define MAX_WIDTH 1e12 /* pixels: the width of the whole while the page shows a small part of it */

/* The page's search: in a function's name or file. */
static int frame_matches(void *re, const struct flame_frame *f, struct err *e)
{
	int yes = regex_match(re, f->name, NULL, e);
	return yes ? yes : regex_match(re, f->file, NULL, e);
}

static void ask_release(struct flame_ask *ask)
{
	regex_unref(ask->match_arg);
	free((void *)ask->root);
}

/* root=, once per name of the path from the outermost call on, or path=, a line per name, for paths of more names than a request may have
 * parameters. */
static int read_path(const struct httpd_request *rq, struct flame_ask *ask, struct err *e)
{
	size_t at = 0, names = 0;
	VEC(struct view) root = { 0 };
	struct view name, lines = httpd_param(rq, "path");
	for (size_t i = 0; i < lines.len; i++)
		names += lines.ptr[i] == '\n';
	if (names >= MAX_PATH)
		return param_error(e, "path", "more than %d names", MAX_PATH);
	while (param_next(rq, "root", &at, &name))
		vec_push(&root, name);
	for (bool more = lines.len > 0; more;) {
		size_t before = lines.len;
		name = view_cut(&lines, '\n');
		vec_push(&root, name);
		more = name.len < before;
	}
	ask->root = root.v;
	ask->n_root = root.n;
	return 0;
}

/* width=, whole=, functions=, search=, and the path. */
static int read_ask(const struct httpd_request *rq, struct flame_ask *ask, struct err *e)
{
	struct view v = httpd_param(rq, "width");
	double width;
	if (param_float(rq, "width", 1, MAX_WIDTH, 0, &width, e))
		return param_error(e, "width", "\"%.*s\" is not a number of pixels", PARAM_ARG(v));
	*ask = (struct flame_ask){ .min_share = width > 0 ? 0.25 / width : 0 };
	int rc = param_limit(rq, "functions", &ask->functions, e);
	if (!rc)
		rc = param_limit(rq, "whole", &ask->whole, e);
	if (rc)
		return rc;
	v = httpd_param(rq, "search");
	if (v.len) {
		struct regex *re;
		if (regex_new(&re, v, false, e))
			return param_wrap(e, "search");
		ask->match = frame_matches;
		ask->match_arg = re;
	}
	ask->keep = MIN(ask->functions, (size_t)KEPT_WAYS);
	rc = read_path(rq, ask, e);
	if (rc)
		ask_release(ask);
	return rc;
}

/* The answer's JSON, a newline, and the columns. */
static int write_columns(struct web *w, struct httpd_request *rq, const struct merged_profile *m, const struct flame_ask *ask,
			 const struct permit *permit, const struct promql_result *r, struct err *e)
{
	struct buf columns = { 0 };
	uint64_t list; /* what the client has of earlier answers */
	int rc = param_hex(rq, "list", 0, &list, e);
	if (!rc)
		rc = flamegraph_columns(w->frames, list, m, ask, permit, answer_begin(rq), &columns, e);
	if (!rc) {
		answer_end(rq, r->warnings, r->n_warnings, r->infos, r->n_infos);
		struct buf *out = answer_columns(rq, FLAME_TYPE);
		buf_putv(out, buf_view(&columns));
		out->overflow |= columns.overflow;
	}
	buf_free(&columns);
	return rc;
}

static int write_flamegraph(struct web *w, struct httpd_request *rq, struct promql_result *r, const struct permit *permit, struct err *e)
{
	struct merged_profile m;
	struct flame_ask ask;
	int rc = read_ask(rq, &ask, e);
	if (rc)
		return rc;
	httpd_set_header(rq, "Vary", "Accept");
	rc = merged_make(&m, r, permit, e);
	if (!rc && httpd_accepts(httpd_header(rq, "Accept"), FLAME_TYPE)) {
		rc = write_columns(w, rq, &m, &ask, permit, r, e);
	} else if (!rc) {
		rc = flamegraph_json(&m, &ask, permit, answer_begin(rq), e);
		if (!rc)
			answer_end(rq, r->warnings, r->n_warnings, r->infos, r->n_infos);
	}
	merged_release(&m);
	ask_release(&ask);
	return rc;
}

static int write_json(struct web *w, struct httpd_request *rq, struct promql_result *r, const struct permit *permit, struct err *e)
{
	(void)w;
	int rc = profiles_json(r, permit, answer_begin(rq), e);
	if (!rc)
		answer_end(rq, r->warnings, r->n_warnings, r->infos, r->n_infos);
	return rc;
}

static int write_folded(struct web *w, struct httpd_request *rq, struct promql_result *r, const struct permit *permit, struct err *e)
{
	(void)w;
	struct merged_profile m;
	int rc = merged_make(&m, r, permit, e);
	if (rc)
		return rc;
	rc = folded_text(&m, permit, httpd_out(rq), e);
	merged_release(&m);
	return rc;
}

static int write_file(struct httpd_request *rq, struct promql_result *r, const char *type,
		      int (*put)(const struct merged_profile *m, struct view query, const struct permit *permit, struct buf *out, struct err *e),
		      const struct permit *permit, struct err *e)
{
	struct merged_profile m;
	int rc = merged_make(&m, r, permit, e);
	if (rc)
		return rc;
	rc = put(&m, httpd_param(rq, "query"), permit, httpd_out(rq), e);
	if (!rc)
		httpd_type(rq, type);
	merged_release(&m);
	return rc;
}

static int write_speedscope(struct web *w, struct httpd_request *rq, struct promql_result *r, const struct permit *permit, struct err *e)
{
	(void)w;
	return write_file(rq, r, "application/json", speedscope_json, permit, e);
}

static int write_svg(struct web *w, struct httpd_request *rq, struct promql_result *r, const struct permit *permit, struct err *e)
{
	(void)w;
	return write_file(rq, r, "image/svg+xml", flame_svg, permit, e);
}

static int write_dot(struct web *w, struct httpd_request *rq, struct promql_result *r, const struct permit *permit, struct err *e)
{
	(void)w;
	return write_file(rq, r, "text/vnd.graphviz; charset=utf-8", call_graph_dot, permit, e);
}

static void set_file_name(struct httpd_request *rq, const struct ptype *t)
{
	char name[64];
	size_t n = 0;
	for (size_t i = 0; i < t->sample_type.len && n + 1 < sizeof name; i++) {
		char c = t->sample_type.ptr[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
		name[n++] = plain ? c : '-';
	}
	name[n] = 0;
	httpd_set_header(rq, "Content-Disposition", "attachment; filename=\"%s.pb.gz\"", n ? name : "profile");
}

static int write_pprof(struct web *w, struct httpd_request *rq, struct promql_result *r, const struct permit *permit, struct err *e)
{
	(void)w;
	httpd_out_gzip_file(rq); /* as go tool pprof keeps it */
	int rc = pprof_write(r, httpd_param(rq, "query"), permit, httpd_out(rq), e);
	if (!rc) {
		httpd_type(rq, "application/octet-stream");
		set_file_name(rq, r->series[0].profiles[0].type);
	}
	return rc;
}

static const struct format {
	const char *name;
	int (*write)(struct web *w, struct httpd_request *rq, struct promql_result *r, const struct permit *permit, struct err *e);
	bool text_errors, by_element;
	bool samples; /* it has each sample by itself: not only names of frames */
} formats[] = {
	{ "pprof", write_pprof, true, true, true },
	{ "flamegraph", write_flamegraph, false },
	{ "json", write_json, false, true, true },
	{ "folded", write_folded, true },
	{ "speedscope", write_speedscope, false, false, true },
	{ "svg", write_svg, true },
	{ "dot", write_dot, true },
};

static void format_error(struct httpd_request *rq, const struct format *f, const struct err *e)
{
	if (!f->text_errors) {
		answer_error(rq, e);
		return;
	}
	httpd_text_error(rq, e);
	httpd_set_header(rq, "X-Go-Pprof", "1");
}

static const struct format *find_format(struct view name)
{
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (view_eqs(name, formats[i].name))
			return &formats[i];
	return NULL;
}

int format_ask(struct web *w, struct httpd_request *rq, bool addresses, struct promql_result *r, struct err *e)
{
	struct web_question q;
	int64_t t;
	int rc = param_time(rq, "time", clock_now_ms(), &t, e);
	if (!rc)
		rc = question_read(w, rq, &q, e);
	if (rc)
		return rc;
	q.params.profiles = true;
	q.params.addresses = addresses;
	q.params.explain = false;
	return promql_instant(w->o.engine, q.query, t, &q.params, r, e) ? query_error(e) : 0;
}

bool format_is_by_element(struct view format)
{
	const struct format *f = format.len ? find_format(format) : NULL;
	return f && f->by_element;
}

void serve_format_error(struct httpd_request *rq, struct view format, const struct err *e)
{
	const struct format *f = find_format(format);
	if (f)
		format_error(rq, f, e);
	else
		answer_error(rq, e);
}

void serve_format(struct web *w, struct httpd_request *rq, struct view format)
{
	const struct format *f = find_format(format);
	struct promql_result r;
	struct answer_work work;
	struct err e = { 0 };
	if (!f) {
		param_error(&e, "format", "\"%.*s\" is none of pprof, flamegraph, json, folded, speedscope, svg, dot, prometheus", PARAM_ARG(format));
		answer_error(rq, &e);
		return;
	}
	if (format_ask(w, rq, f->samples, &r, &e)) {
		format_error(rq, f, &e);
		return;
	}
	answer_stages(rq, &r);
	answer_work_begin(&work, rq, &r);
	if (f->write(w, rq, &r, &work.permit, &e))
		format_error(rq, f, &e);
	promql_result_release(&r);
}
