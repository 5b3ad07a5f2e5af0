/* SPDX-License-Identifier: Apache-2.0 */
/* The language's reference: its functions, for completion; and everything in sections, for people. */
#include "promql-like/promql.h"
#include "web/answer.h"
#include "web/internal.h"

void serve_functions(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct buf *b = answer_begin(rq);
	const struct promql_function_info *f;
	json_array_begin(b);
	for (size_t i = 0; (f = promql_function_at(i)); i++) {
		json_object_begin(b);
		json_field_text(b, "name", f->name);
		json_field_text(b, "signature", f->signature);
		json_field_text(b, "doc", f->doc);
		json_field_text(b, "returns", f->returns);
		json_field_text(b, "example", f->example);
		json_field_bool(b, "aggregation", f->aggregation);
		json_field_bool(b, "profiles", f->profiles);
		json_object_end(b);
	}
	json_array_end(b);
	answer_end(rq, NULL, 0, NULL, 0);
}

/* ---- for people ---- */

static void put_part(struct buf *b, const char *signature, const char *returns, const char *doc, const char *example)
{
	json_object_begin(b);
	json_field_text(b, "signature", signature);
	json_field_text(b, "returns", returns);
	json_field_text(b, "doc", doc);
	json_field_text(b, "example", example);
	json_object_end(b);
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

static void begin_section(struct buf *b, const char *title)
{
	json_object_begin(b);
	json_field_text(b, "title", title);
	json_array_begin_at(b, "entries");
}

static void end_section(struct buf *b)
{
	json_array_end(b);
	json_object_end(b);
}

void serve_language(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct buf *b = answer_begin(rq);
	json_object_begin(b);
	json_array_begin_at(b, "types");
	put_constructs(b, PROMQL_TYPE);
	json_array_end(b);
	json_array_begin_at(b, "sections");
	begin_section(b, "Selectors");
	put_constructs(b, PROMQL_SELECTOR);
	end_section(b);
	begin_section(b, "Operators");
	put_constructs(b, PROMQL_OPERATOR);
	end_section(b);
	begin_section(b, "Aggregations");
	put_functions(b, true, true);
	end_section(b);
	begin_section(b, "Functions of profiles");
	put_functions(b, false, true);
	end_section(b);
	begin_section(b, "Functions of numbers");
	put_functions(b, false, false);
	end_section(b);
	json_array_end(b);
	json_object_end(b);
	answer_end(rq, NULL, 0, NULL, 0);
}
