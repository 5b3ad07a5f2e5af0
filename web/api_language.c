/* SPDX-License-Identifier: Apache-2.0 */
/* What there is of the language: its functions, for completion; and all of it in sections, for people. */
#include "promql-like/promql.h"
#include "web/answer.h"
#include "web/internal.h"

void serve_functions(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct buf *b = answer_begin(rq);
	const struct promql_function_info *f;
	buf_putc(b, '[');
	for (size_t i = 0; (f = promql_function_at(i)); i++) {
		buf_puts(b, i ? ",{\"name\":" : "{\"name\":");
		buf_json_string(b, view_of(f->name));
		buf_puts(b, ",\"signature\":");
		buf_json_string(b, view_of(f->signature));
		buf_puts(b, ",\"doc\":");
		buf_json_string(b, view_of(f->doc));
		json_field_text(b, "returns", f->returns);
		json_field_text(b, "example", f->example);
		buf_printf(b, ",\"aggregation\":%s,\"profiles\":%s}", f->aggregation ? "true" : "false",
			   f->profiles ? "true" : "false");
	}
	buf_putc(b, ']');
	answer_end(rq, NULL, 0, NULL, 0);
}

/* ---- for people ---- */

static void put_part(struct buf *b, const char *signature, const char *returns, const char *doc, const char *example)
{
	buf_puts(b, b->ptr[b->len - 1] == '[' ? "{" : ",{");
	json_field_text(b, "signature", signature);
	json_field_text(b, "returns", returns);
	json_field_text(b, "doc", doc);
	json_field_text(b, "example", example);
	buf_putc(b, '}');
}

static void put_constructs(struct buf *b, enum promql_construct_kind kind)
{
	const struct promql_construct *c;
	for (size_t i = 0; (c = promql_construct_at(i)); i++)
		if (c->kind == kind)
			put_part(b, c->signature, c->returns, c->doc, c->example);
}

static void put_functions(struct buf *b, bool aggregations, bool profiles)
{
	const struct promql_function_info *f;
	for (size_t i = 0; (f = promql_function_at(i)); i++)
		if (f->aggregation == aggregations && (aggregations || f->profiles == profiles))
			put_part(b, f->signature, f->returns, f->doc, f->example);
}

void serve_language(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct buf *b = answer_begin(rq);
	buf_puts(b, "{\"types\":[");
	put_constructs(b, PROMQL_TYPE);
	buf_puts(b, "],\"sections\":[{\"title\":\"Selectors\",\"entries\":[");
	put_constructs(b, PROMQL_SELECTOR);
	buf_puts(b, "]},{\"title\":\"Operators\",\"entries\":[");
	put_constructs(b, PROMQL_OPERATOR);
	buf_puts(b, "]},{\"title\":\"Aggregations\",\"entries\":[");
	put_functions(b, true, true);
	buf_puts(b, "]},{\"title\":\"Functions of profiles\",\"entries\":[");
	put_functions(b, false, true);
	buf_puts(b, "]},{\"title\":\"Functions of numbers\",\"entries\":[");
	put_functions(b, false, false);
	buf_puts(b, "]}]}");
	answer_end(rq, NULL, 0, NULL, 0);
}
