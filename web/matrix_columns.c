/* SPDX-License-Identifier: Apache-2.0 */
/* query_range as columns: JSON says the labels and which steps have a value, the values follow as doubles. Most of a graph's JSON
 * is digits that take longer to write, to compress and to read than the graph to compute. */
#include "web/matrix_columns.h"

#include <endian.h>
#include <string.h>

#include "base/json.h"
#include "model/labels.h"

/* For each run of steps with values: the number of steps without one before it, and its length. */
static void put_runs(struct buf *b, const struct promql_series *s, int64_t start_ms, int64_t step_ms)
{
	int64_t next = 0; /* the step behind the run before */
	for (size_t i = 0, n; i < s->n; i += n) {
		int64_t first = (s->points[i].t_ms - start_ms) / step_ms;
		for (n = 1; i + n < s->n && s->points[i + n].t_ms == s->points[i].t_ms + (int64_t)n * step_ms; n++)
			;
		json_int(b, first - next);
		json_count(b, n);
		next = first + (int64_t)n;
	}
}

void matrix_values(const struct promql_series *s, struct buf *b)
{
	if (!buf_reserve(b, s->n * 8))
		return;
	for (size_t i = 0; i < s->n; i++) {
		uint64_t bits;
		memcpy(&bits, &s->points[i].v, 8);
		bits = htole64(bits);
		memcpy(b->ptr + b->len, &bits, 8);
		b->len += 8;
	}
}

int matrix_head(const struct promql_result *r, size_t n, int64_t start_ms, int64_t step_ms, const struct permit *permit, struct buf *b, struct err *e)
{
	int rc = 0;
	json_object_begin(b);
	json_field_text(b, "resultType", "matrix");
	json_object_begin_at(b, "columns");
	json_field_int(b, "startMs", start_ms);
	json_field_int(b, "stepMs", step_ms);
	json_object_end(b);
	json_array_begin_at(b, "result");
	for (size_t i = 0; i < n && !rc; i++) {
		json_object_begin(b);
		json_key(b, "metric");
		labels_json(r->series[i].labels, b);
		json_array_begin_at(b, "runs");
		put_runs(b, &r->series[i], start_ms, step_ms);
		json_array_end(b);
		json_object_end(b);
		rc = permit_text_step(permit, i, b->len, e);
	}
	json_array_end(b);
	return rc;
}
