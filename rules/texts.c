/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/texts.h"

#include <stdio.h>

#include "base/log.h"
#include "rules/group.h"
#include "rules/template/template.h"

int texts_parse(struct rule_text *x, struct view name, struct err *e)
{
	struct template_place at = { 0 };
	struct err why = { 0 };
	if (!view_contains(x->text, VIEW("{{")))
		return 0;
	char *full AUTOFREE = xasprintf("__alert_%.*s", VIEW_ARG(name));
	if (!template_parse_at(&x->parsed, view_of(full), x->text, &at, &why))
		return 0;
	return err_set(e, ERR_BAD_DATA, "%u:%u: %.900s", MAX(at.line, 1U), MAX(at.column, 1U), why.msg);
}

void texts_free(const struct rule_text *x)
{
	template_free(x->parsed);
}

bool texts_reads(const struct rule_text *x)
{
	return x->parsed && (view_contains(x->text, VIEW("query")) || view_contains(x->text, VIEW("topFunctions")));
}

/* A template's query, run like the rule's own. */
static int query(void *arg, struct view expr, int64_t t_ms, struct template_vector *out, struct err *e)
{
	struct evaluation *r = arg;
	struct promql_result q;
	const struct promql_params p = { .asker = PROMQL_RULES, .shared = t_ms == r->t_ms ? r->shared : NULL, .canceled = rules_canceled(r->g) };
	int rc = promql_instant(r->g->m->o.engine, expr, t_ms, &p, &q, e);
	if (rc)
		return rc;
	if (q.type == PROMQL_SCALAR)
		rc = template_vector_add(out, (struct labels){ 0 }, q.scalar, e);
	else if (q.type != PROMQL_VECTOR)
		rc = err_set(e, ERR_EXECUTION, "query result is not a vector or scalar");
	for (size_t i = 0; i < q.n_series && !rc; i++)
		rc = template_vector_add(out, q.series[i].labels, q.series[i].points[0].v, e);
	promql_result_release(&q);
	return rc;
}

struct view texts_expand(const struct rule_text *x, const struct texts_env *env, struct arena *a)
{
	struct evaluation *r = env->round;
	struct buf out = { 0 };
	struct err e = { 0 };
	if (!x->parsed)
		return x->text;
	const struct template_env te = { .labels = env->labels, .value = env->value, .external_labels = r->g->config->external_labels,
					 .external_url = view_of(r->g->m->external_url), .t_ms = r->slot_ms, .offset_ms = r->slot_ms - r->t_ms, .query = query, .query_arg = r,
					 .canceled = rules_canceled(r->g) };
	if (template_expand_text(x->parsed, &te, &out, &e) && !r->g->m->o.aside && !r->failed_texts++) /* the others of a rule are much alike */
		LOG_WARN("msg", "expanding an alert's template failed", "group", r->g->metric_name, "err", e.msg);
	struct view v = arena_view(a, buf_view(&out));
	buf_free(&out);
	return v;
}

struct view texts_generator_url(struct evaluation *r, const struct rule *x)
{
	struct buf out = { 0 };
	template_generator_url(view_of(r->g->m->external_url), x->canonical, r->t_ms, &out);
	struct view v = arena_view(&r->out.arena, buf_view(&out));
	buf_free(&out);
	return v;
}
