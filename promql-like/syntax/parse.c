/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the text of a query into a type-checked tree; also parses the text of a selector alone. */
#include "promql-like/syntax/ast.h"

#include "base/alloc.h"

#define MAX_QUERY ((size_t)1 << 20)

static int parse(struct promql_expr **ret, struct view query, bool shape_only, struct err *e)
{
	if (query.len > MAX_QUERY)
		return err_set(e, ERR_BAD_DATA, "the query is %zu bytes long; the limit is %zu", query.len, MAX_QUERY);
	struct promql_expr *x = NEW(struct promql_expr);
	arena_init(&x->arena, 64u << 20);
	x->src = arena_view(&x->arena, query);
	x->shape_only = shape_only;
	int rc = parser_run(x, e);
	if (!rc && !shape_only)
		rc = check_expr(x, x->root, e);
	if (rc) {
		promql_expr_free(x);
		return rc;
	}
	*ret = x;
	return 0;
}

int promql_parse(struct promql_expr **ret, struct view query, struct err *e)
{
	return parse(ret, query, false, e);
}

int parse_shape(struct promql_expr **ret, struct view query, struct err *e)
{
	return parse(ret, query, true, e);
}

int promql_parse_selector(struct promql_expr **ret, struct view text, const struct matcher **ret_m, size_t *ret_n,
			  struct err *e)
{
	return parse_selector_alone(NULL, ret, text, ret_m, ret_n, e);
}

int parse_selector_alone(const struct engine_names *names, struct promql_expr **ret, struct view text, const struct matcher **ret_m,
			 size_t *ret_n, struct err *e)
{
	struct promql_expr *x;
	int rc = promql_parse(&x, text, e);
	if (rc)
		return rc;
	if (x->root->kind != NODE_SELECTOR || x->root->sel.mods.has_offset || x->root->sel.mods.at != AT_NONE) {
		rc = parse_error(e, x->src, 0, "expected a series selector such as {job=\"x\"}");
		promql_expr_free(x);
		return rc;
	}
	struct node_selector *s = &x->root->sel;
	for (size_t i = 0; i < s->n; i++) {
		struct view full = s->m[i].op == MATCH_EQ && view_eqs(s->m[i].name, LABEL_NAME) ? engine_names_alias(names, s->m[i].value) : VIEW("");
		if (full.len) { /* the name in the table, or a recorded series that is called like the alias */
			char *both = arena_printf(&x->arena, "%.*s|%.*s", VIEW_ARG(s->m[i].value), VIEW_ARG(full));
			struct matcher *m = arena_calloc(&x->arena, 1, sizeof *m);
			rc = both && m ? matcher_init(m, MATCH_RE, s->m[i].name, view_of(both), e)
				       : err_set(e, ERR_LIMIT, "the selector is too long");
			if (rc) {
				promql_expr_free(x);
				return rc;
			}
			vec_push(&x->matchers, m);
			s->m[i] = *m;
		}
	}
	*ret = x;
	*ret_m = s->m;
	*ret_n = s->n;
	return 0;
}
