/* SPDX-License-Identifier: Apache-2.0 */
/* Output of readouts: a series per input series and row, with the row's labels. */
#include <stdlib.h>
#include <string.h>

#include "promql-like/stacks/readout.h"

static void set_kept(struct labels_builder *b, struct labels from, const char *name, struct view value)
{
	struct view old = labels_get(from, view_of(name));
	static const char *const exported[] = { "exported_function", "exported_file", "exported_line", "exported_binary",
						"exported_package" };
	if (old.len)
		for (size_t i = 0; i < ARRAY_LEN(exported); i++)
			if (strcmp(exported[i] + 9, name) == 0)
				labels_builder_set(b, view_of(exported[i]), old);
	labels_builder_set(b, view_of(name), value);
}

static struct labels row_labels(struct readout *r, struct labels in, const struct readout_row *at)
{
	struct readout_row copy = { eval_view(r->q, at->function), eval_view(r->q, at->file), eval_view(r->q, at->line) }, *row = &copy;
	struct labels_builder b;
	labels_builder_init(&b, in);
	if (r->by == BY_LINE) {
		set_kept(&b, in, "function", row->function);
		set_kept(&b, in, "file", row->file);
		set_kept(&b, in, "line", row->line);
	} else {
		set_kept(&b, in, granularity_names[r->by], row->function);
	}
	struct labels l = eval_labels(r->q, &b);
	labels_builder_free(&b);
	return l;
}

size_t readout_in(struct readout *r, struct labels l)
{
	for (size_t i = 0; i < r->ins.n; i++)
		if (labels_eq(r->ins.v[i], l))
			return i;
	vec_push(&r->ins, l);
	return r->ins.n - 1;
}

struct value_series *readout_out(struct readout *r, size_t in, uint32_t row)
{
	uint64_t h = hash_u64((uint64_t)in << 32 | row);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&r->out_map, h, id, r->out.n, r->out_keys.v[id].in == in && r->out_keys.v[id].row == row))
		return &r->out.s[id];
	__auto_type k = vec_add(&r->out_keys);
	k->in = in;
	k->row = row;
	return value_add(&r->out, row == UINT32_MAX ? r->ins.v[in] : row_labels(r, r->ins.v[in], &r->rows.v[row]), true);
}

static int by_row(const void *a, const void *b, void *r)
{
	return readout_cmp_rows(r, *(const uint32_t *)a, *(const uint32_t *)b);
}

int readout_check_rows(const struct readout *r, struct err *e)
{
	uint32_t most = r->q->max_functions;
	if (!most || r->rows.n <= most)
		return 0;
	return err_set(e, ERR_LIMIT, "%s has more than %u rows (--query.max-functions): filter the profiles, or ask for one function", r->n->call.fn->name, most);
}

/* Rows go out by name, so that of equal ones topk always takes the same. */
int readout_put_rows(struct readout *r, size_t in, const struct value_sample *s, struct err *e)
{
	const struct readout_reading x = readout_reading(r, s);
	int rc = readout_choose_rows(r, s, &x, e);
	if (r->touched.n && !rc)
		qsort_r(r->touched.v, r->touched.n, sizeof *r->touched.v, by_row, r);
	for (size_t i = 0; i < r->touched.n && !rc; i++) {
		uint32_t row = r->touched.v[i];
		double v;
		if (!reading_number(&x, row_native(&r->sums[row]), &v))
			continue;
		rc = series_push(r->q, readout_out(r, in, row), s->t_ms, v, NULL, e);
		if (r->choice && r->choice->put)
			readout_note_put(r, row);
	}
	return rc;
}
