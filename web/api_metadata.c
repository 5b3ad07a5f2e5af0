/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata that targets report for their text metrics: targets/metadata, and their part of metadata (api_types.c has the rest). */
#include <stdlib.h>

#include "base/regex.h"
#include "web/answer.h"
#include "web/internal.h"
#include "web/metadata.h"

#define ALL_MOST ((size_t)256 << 20)
#define SET_MOST ((size_t)64 << 20)
#define SET_LEAST ((size_t)1 << 20)

/* ---- each once ---- */

/* The set is sorted before it is written, so all of it is in memory: half of --web.answer-memory. */
void metadata_init(struct metadata_set *m, const struct web *w, struct answer_rows *rows)
{
	size_t all = w->o.answer_bytes ? (size_t)w->o.answer_bytes : ALL_MOST;
	*m = (struct metadata_set){ .most = MAX(MIN(all / 2, SET_MOST), SET_LEAST), .rows = rows };
	arena_init(&m->texts, m->most);
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

#define INDEX_BYTES 16 /* what a row takes in the index of rows */

/* For another row: what grows may double. */
static bool has_room(struct metadata_set *m)
{
	size_t bytes = m->texts.used + 2 * (m->v.n + 1) * (sizeof *m->v.v + INDEX_BYTES);
	m->full |= bytes > m->most;
	return !m->full && answer_rows_need(m->rows, bytes);
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
	if (!has_room(m))
		return false;
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
	return answer_rows_more(m->rows) ? 1 : -1;
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

void metadata_write(struct metadata_set *m, size_t limit, size_t per_name)
{
	struct buf *b = m->rows->b;
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
		if (!answer_rows_more(m->rows))
			break;
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
	m->rows->cut |= m->full;
}

/* ---- target by target ---- */

struct target_rows {
	struct answer_rows rows;
	struct match_param match;
	struct regex_meter meter; /* of its expressions */
	struct view metric;
	struct labels labels;   /* of the target at hand */
	size_t limit, shown;
};

/* As Prometheus: the limit is looked at once a target. */
static int want_target(void *arg, struct labels l)
{
	struct target_rows *w = arg;
	if ((w->limit && w->shown >= w->limit) || !answer_rows_more(&w->rows))
		return -1;
	w->labels = l;
	return matchers_match(w->match.m, w->match.n, l, &w->meter, &w->rows.e);
}

static bool put_family(void *arg, const struct status_family *f)
{
	struct target_rows *w = arg;
	struct buf *b = w->rows.b;
	if (!answer_rows_more(&w->rows))
		return false;
	w->shown++;
	json_object_begin(b);
	json_key(b, "target");
	labels_json(w->labels, b);
	if (!w->metric.len)
		json_field(b, "metric", f->name);
	json_field(b, "type", f->type);
	json_field(b, "help", f->help);
	json_field(b, "unit", VIEW(""));
	json_object_end(b);
	return true;
}

void serve_target_metadata(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct view match = httpd_param(rq, "match_target");
	struct target_rows t = { .metric = httpd_param(rq, "metric") };
	t.meter = (struct regex_meter){ .canceled = httpd_canceled(rq), .max_ns = REGEX_QUERY_NS, .max_name = REGEX_QUERY_NAME };
	answer_rows_begin(&t.rows, rq);
	json_array_begin(t.rows.b);
	int rc = param_limit(rq, "limit", &t.limit, &t.rows.e);
	if (!rc && match.len && promql_engine_selector(w->o.engine, &t.match.expr, match, &t.match.m, &t.match.n, &t.rows.e))
		rc = param_wrap(&t.rows.e, "match_target");
	if (!rc && w->o.targets)
		w->o.targets->metadata(w->o.targets, &(struct status_metadata_query){ t.metric, want_target, put_family, &t });
	if (t.match.expr)
		promql_expr_free(t.match.expr);
	json_array_end(t.rows.b);
	answer_rows_end(&t.rows);
}
