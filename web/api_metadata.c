/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata that targets report for their text metrics: targets/metadata, and their part of metadata (api_types.c has the rest). */
#include <stdlib.h>

#include "base/regex.h"
#include "web/answer.h"
#include "web/internal.h"
#include "web/metadata.h"

#define ANSWER_MAX ((size_t)64 << 20)
#define ANSWER_LEAST ((size_t)4 << 20)
#define PIECE ((size_t)256 << 10)

/* Bytes of the rows of one answer, which are in memory while targets are listed: of --web.answer-memory, because several answers are made at a time. */
static size_t metadata_most(const struct web *w)
{
	size_t share = w->o.answer_bytes ? (size_t)w->o.answer_bytes : ANSWER_MAX;
	return MIN(MAX(share, ANSWER_LEAST), ANSWER_MAX);
}

/* ---- each once ---- */

void metadata_init(struct metadata_set *m, const struct web *w, const atomic_bool *canceled)
{
	*m = (struct metadata_set){ .canceled = canceled };
	arena_init(&m->texts, metadata_most(w));
}

void metadata_release(struct metadata_set *m)
{
	arena_free(&m->texts);
	map_free(&m->index);
	vec_free(&m->v);
}

static int row_cmp(const void *a, const void *b)
{
	const struct metadata_row *x = a, *y = b;
	int c = view_cmp(x->name, y->name);
	c = c ? c : view_cmp(x->type, y->type);
	c = c ? c : view_cmp(x->unit, y->unit);
	return c ? c : view_cmp(x->help, y->help);
}

bool metadata_add(struct metadata_set *m, struct view name, struct view type, struct view unit, struct view help)
{
	struct metadata_row row = { name, type, unit, help };
	uint64_t h = hash_u64(hash_view(name) ^ hash_u64(hash_view(help) ^ hash_u64(hash_view(type))));
	uint32_t i;
	for (size_t at = map_start(&m->index, h); map_probe(&m->index, h, &at, &i);)
		if (!row_cmp(&m->v.v[i], &row))
			return true;
	struct view *const all[] = { &row.name, &row.type, &row.unit, &row.help };
	for (size_t k = 0; k < ARRAY_LEN(all); k++) {
		*all[k] = arena_view(&m->texts, *all[k]);
		m->full |= !all[k]->ptr;
	}
	if (m->full)
		return false;
	map_insert(&m->index, h, (uint32_t)m->v.n);
	vec_push(&m->v, row);
	return true;
}

static bool add_family(void *arg, const struct status_family *f)
{
	struct metadata_set *m = arg;
	return metadata_add(m, f->name, f->type, VIEW(""), f->help);
}

static int unless_canceled(void *arg, struct labels l)
{
	const struct metadata_set *m = arg;
	(void)l;
	return atomic_load_explicit(m->canceled, memory_order_relaxed) ? -1 : 1;
}

void metadata_add_targets(struct metadata_set *m, struct status_targets *targets, struct view metric)
{
	if (targets)
		targets->metadata(targets, &(struct status_metadata_query){ metric, unless_canceled, add_family, m });
}

static void put_row(struct buf *b, const struct metadata_row *r)
{
	json_object_begin(b);
	json_field(b, "type", r->type);
	json_field(b, "unit", r->unit);
	json_field(b, "help", r->help);
	json_object_end(b);
}

void metadata_write(struct metadata_set *m, size_t limit, size_t per_name, struct buf *b)
{
	size_t names = 0, of_name = 0;
	if (m->v.n)
		qsort(m->v.v, m->v.n, sizeof *m->v.v, row_cmp);
	json_object_begin(b);
	for (size_t i = 0; i < m->v.n; i++) {
		const struct metadata_row *r = &m->v.v[i];
		bool first = !i || !view_eq(r->name, r[-1].name);
		if (first && limit && names == limit)
			break;
		of_name = first ? 0 : of_name;
		if (per_name && of_name == per_name)
			continue;
		if (first) {
			if (names++)
				json_array_end(b);
			json_key_view(b, r->name);
			json_array_begin(b);
		}
		of_name++;
		put_row(b, r);
	}
	if (names)
		json_array_end(b);
	json_object_end(b);
}

/* ---- target by target ---- */

struct target_rows {
	struct buf *b;
	const atomic_bool *canceled;
	struct match_param match;
	struct regex_meter meter; /* of its expressions */
	struct view metric;
	struct labels labels;   /* of the target at hand */
	size_t limit, shown, most; /* most: bytes */
	bool cut, bad;
	struct err e;           /* if bad */
};

/* As Prometheus: the limit is looked at once a target. */
static int want_target(void *arg, struct labels l)
{
	struct target_rows *w = arg;
	if ((w->limit && w->shown >= w->limit) || atomic_load_explicit(w->canceled, memory_order_relaxed))
		return -1;
	w->labels = l;
	int match = matchers_match(w->match.m, w->match.n, l, &w->meter, &w->e);
	w->bad = match < 0;
	return match;
}

static bool put_family(void *arg, const struct status_family *f)
{
	struct target_rows *w = arg;
	w->cut = w->b->len >= w->most;
	if (w->cut)
		return false;
	w->shown++;
	json_object_begin(w->b);
	json_key(w->b, "target");
	labels_json(w->labels, w->b);
	if (!w->metric.len)
		json_field(w->b, "metric", f->name);
	json_field(w->b, "type", f->type);
	json_field(w->b, "help", f->help);
	json_field(w->b, "unit", VIEW(""));
	json_object_end(w->b);
	return true;
}

/* The rows, piece by piece: a large answer leaves memory while it is written. */
static int put_rows(struct httpd_request *rq, struct view rows, struct err *e)
{
	int rc = 0;
	while (rows.len && !rc) {
		struct view piece = view_make(rows.ptr, MIN(rows.len, PIECE));
		rows = view_make(rows.ptr + piece.len, rows.len - piece.len);
		buf_putv(httpd_out(rq), piece);
		rc = httpd_out_stays(rq, e);
	}
	return rc;
}

void serve_target_metadata(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct view match = httpd_param(rq, "match_target");
	struct target_rows rows = { .most = metadata_most(w), .metric = httpd_param(rq, "metric"), .canceled = httpd_canceled(rq) };
	rows.meter = (struct regex_meter){ .canceled = rows.canceled, .max_ns = REGEX_QUERY_NS, .max_name = REGEX_QUERY_NAME };
	struct buf data = { .max = 2 * ANSWER_MAX };
	struct err e;
	int rc = param_limit(rq, "limit", &rows.limit, &e);
	if (!rc && match.len && promql_engine_selector(w->o.engine, &rows.match.expr, match, &rows.match.m, &rows.match.n, &e))
		rc = param_wrap(&e, "match_target");
	rows.b = &data;
	if (!rc && w->o.targets)
		w->o.targets->metadata(w->o.targets, &(struct status_metadata_query){ rows.metric, want_target, put_family, &rows });
	if (rows.match.expr)
		promql_expr_free(rows.match.expr);
	struct buf *b = answer_begin(rq);
	json_array_begin(b);
	if (!rc && !rows.bad)
		rc = put_rows(rq, buf_view(&data), &e);
	if (rc || rows.bad) {
		answer_error(rq, rc ? &e : &rows.e);
	} else {
		json_array_end(b);
		answer_end(rq, &answer_truncated, rows.cut, NULL, 0);
	}
	buf_free(&data);
}
