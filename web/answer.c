/* SPDX-License-Identifier: Apache-2.0 */
#include "web/answer.h"

#include <stdio.h>

#define ROWS_MOST ((uint64_t)64 << 20)
#define MAX_NOTES 10 /* limit of warnings and infos of one answer, as in Prometheus */

const struct view answer_truncated = { "results truncated due to limit", 30 };

/* ---- the envelope ---- */

void answer_error(struct httpd_request *rq, const struct err *e)
{
	struct buf *b = httpd_out(rq);
	httpd_out_anew(rq);
	httpd_status_error(rq, e);
	httpd_type(rq, "application/json");
	json_object_begin(b);
	json_field_text(b, "status", "error");
	json_field_text(b, "errorType", err_info(e->code)->type);
	json_field_text(b, "error", e->msg);
	json_object_end(b);
}

struct buf *answer_begin(struct httpd_request *rq)
{
	httpd_type(rq, "application/json");
	struct buf *b = httpd_out(rq);
	json_object_begin(b);
	json_field_text(b, "status", "success");
	json_key(b, "data");
	return b;
}

static void put_notes(struct buf *b, const char *key, const struct view *notes, size_t n)
{
	if (!n)
		return;
	json_array_begin_at(b, key);
	for (size_t i = 0; i < MIN(n, MAX_NOTES); i++)
		json_text(b, notes[i]);
	if (n > MAX_NOTES) {
		char text[64];
		snprintf(text, sizeof text, "%zu more %s omitted", n - MAX_NOTES, key);
		json_text(b, view_of(text));
	}
	json_array_end(b);
}

void answer_end(struct httpd_request *rq, const struct view *warnings, size_t n_warnings, const struct view *infos,
		size_t n_infos)
{
	struct buf *b = httpd_out(rq);
	put_notes(b, "warnings", warnings, n_warnings);
	put_notes(b, "infos", infos, n_infos);
	json_object_end(b);
}

void answer_warn(void *warnings, const char *text)
{
	struct answer_warnings *w = warnings;
	struct view copy = arena_view(w->arena, view_of(text));
	if (copy.ptr)
		vec_push(&w->v, copy);
}

struct buf *answer_columns(struct httpd_request *rq, const char *content_type)
{
	struct buf *b = httpd_out(rq);
	httpd_type(rq, content_type);
	buf_putc(b, '\n');
	return b;
}

/* ---- answers that grow with what the server has ---- */

void answer_rows_begin(struct answer_rows *r, struct httpd_request *rq)
{
	*r = (struct answer_rows){ .rq = rq, .b = answer_begin(rq), .warnings.arena = httpd_arena(rq) };
}

bool answer_rows_more(struct answer_rows *r)
{
	size_t before = r->b->len;
	if (r->cut || r->e.code)
		return false;
	if (atomic_load_explicit(httpd_canceled(r->rq), memory_order_relaxed))
		err_set(&r->e, ERR_CANCELED, "the request was canceled while its answer was written");
	else if (!httpd_out_grows(r->rq, &r->e))
		r->moved += before - r->b->len;
	r->cut = r->moved + r->b->len >= ROWS_MOST;
	return !r->cut && !r->e.code;
}

bool answer_rows_need(struct answer_rows *r, size_t bytes)
{
	return !r->e.code && !httpd_out_needs(r->rq, bytes, &r->e);
}

#define TEXT_COPIES 4 /* the text, and the same with escapes in a buffer that has just doubled */

void answer_rows_text(struct answer_rows *r, const char *key, struct view text)
{
	if (answer_rows_need(r, TEXT_COPIES * text.len))
		json_field(r->b, key, text);
}

void answer_rows_end(struct answer_rows *r)
{
	if (r->cut)
		vec_push(&r->warnings.v, answer_truncated);
	if (r->e.code)
		answer_error(r->rq, &r->e);
	else
		answer_end(r->rq, r->warnings.v.v, r->warnings.v.n, NULL, 0);
	vec_free(&r->warnings.v);
}
