/* SPDX-License-Identifier: Apache-2.0 */
/* query_range as columns: JSON says the labels and which steps have a value, the values follow as doubles. Most of a graph's JSON
 * is digits that take longer to write, to compress and to read than the graph to compute. */
#include "web/matrix_columns.h"

#include <endian.h>
#include <string.h>

#include "base/json.h"
#include "model/labels.h"

/* Of each run of steps with values how many have none before it, and how many it has. */
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

static void put_values(struct buf *b, const struct promql_series *s)
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

void matrix_columns(const struct promql_result *r, size_t n, int64_t start_ms, int64_t step_ms, struct buf *head, struct buf *out)
{
	json_object_begin(head);
	json_field_text(head, "resultType", "matrix");
	json_object_begin_at(head, "columns");
	json_field_int(head, "startMs", start_ms);
	json_field_int(head, "stepMs", step_ms);
	json_object_end(head);
	json_array_begin_at(head, "result");
	for (size_t i = 0; i < n; i++) {
		json_object_begin(head);
		json_key(head, "metric");
		labels_json(r->series[i].labels, head);
		json_array_begin_at(head, "runs");
		put_runs(head, &r->series[i], start_ms, step_ms);
		json_array_end(head);
		json_object_end(head);
		put_values(out, &r->series[i]);
	}
	json_array_end(head);
}
