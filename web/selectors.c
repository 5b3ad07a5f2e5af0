/* SPDX-License-Identifier: Apache-2.0 */
/* match[] of the API: selectors of the language. */
#include <stdlib.h>

#include "base/vec.h"
#include "promql-like/promql.h"
#include "web/answer.h"
#include "web/internal.h"

int param_selectors(const struct web *w, const struct httpd_request *rq, struct selectors *ret, struct err *e)
{
	size_t at = 0;
	struct view text;
	VEC(struct match_param) found = { 0 };
	int rc = 0;
	while (!rc && param_next(rq, "match[]", &at, &text)) {
		struct match_param s = { 0 };
		rc = promql_engine_selector(w->o.engine, &s.expr, text, &s.m, &s.n, e);
		if (rc)
			rc = param_wrap(e, "match[]");
		else
			vec_push(&found, s);
	}
	*ret = (struct selectors){ found.v, found.n };
	if (rc)
		selectors_release(ret);
	return rc;
}

void selectors_release(struct selectors *s)
{
	for (size_t i = 0; i < s->n; i++)
		promql_expr_free(s->v[i].expr);
	free(s->v);
	*s = (struct selectors){ 0 };
}
