/* SPDX-License-Identifier: Apache-2.0 */
/* Recording: each element of a result becomes a sample of the rule's name, a profile by its value. */
#include "rules/group.h"

static int put_series(struct evaluation *r, const struct rule *x, struct labels from, double v, struct label_sets *now, struct err *e)
{
	struct labels_builder b;
	rule_labels(x, from, &b);
	struct labels l = labels_builder_finish(&b);
	int rc = label_sets_has(now, l) ? err_set(e, ERR_EXECUTION, "vector contains metrics with the same labelset after applying rule labels")
					: output_float(r, now, l, v, e);
	labels_builder_free(&b);
	return rc;
}

static int record_floats(struct evaluation *r, struct live_rule *rule, const struct promql_result *q, struct label_sets *now, struct err *e)
{
	int rc = 0;
	if (q->type == PROMQL_SCALAR)
		return put_series(r, rule->rule, (struct labels){ 0 }, q->scalar, now, e);
	for (size_t i = 0; i < q->n_series && !rc; i++)
		rc = put_series(r, rule->rule, q->series[i].labels, q->series[i].points[0].v, now, e);
	int64_t limit = r->g->def->limit;
	if (!rc && limit && (int64_t)now->v.n > limit)
		rc = err_set(e, ERR_EXECUTION, "exceeded limit of %lld with %zu series", (long long)limit, now->v.n);
	return rc;
}

int record_result(struct evaluation *r, struct live_rule *rule, const struct promql_result *q, struct err *e)
{
	struct label_sets now = { 0 };
	size_t before = r->out.floats.n;
	int rc = rule->rule->profiles ? record_profiles(r, rule, q, r->t_ms, e) : record_floats(r, rule, q, &now, e);
	size_t n = r->out.floats.n - before;
	if (!rc && !rule->rule->profiles)
		rc = output_end_gone(r, rule, &now, e);
	if (rc)
		r->out.floats.n = before;
	else
		r->samples += n;
	label_sets_free(&now);
	return rc;
}
