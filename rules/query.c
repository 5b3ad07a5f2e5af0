/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a rule's queries on the engine, in the places reserved for rules; rules of the same time share results. */
#include "rules/group.h"

const atomic_bool *rules_canceled(const struct live_group *g)
{
	return g->m->o.canceled ? g->m->o.canceled : &g->cut;
}

static int query(struct evaluation *r, struct live_rule *rule, int64_t t_ms, bool profiles, struct promql_result *ret, struct err *e)
{
	struct rules *m = r->g->m;
	const struct promql_params p = { .asker = PROMQL_RULES, .shared = t_ms == r->t_ms ? r->shared : NULL, .as_first = !rule->waits_for,
					 .canceled = rules_canceled(r->g), .profiles = profiles, .addresses = profiles };
	int rc = promql_instant(m->o.engine, rule->rule->expr, t_ms, &p, ret, e);
	if (rc)
		return rc;
	if (ret->type == PROMQL_VECTOR || ret->type == PROMQL_SCALAR)
		return 0;
	promql_result_release(ret);
	return err_set(e, ERR_EXECUTION, "rule result is not a vector or scalar");
}

int rule_query(struct evaluation *r, struct live_rule *rule, int64_t t_ms, struct promql_result *ret, struct err *e)
{
	return query(r, rule, t_ms, rule->rule->profiles, ret, e);
}

int rule_query_values(struct evaluation *r, struct live_rule *rule, int64_t t_ms, struct promql_result *ret, struct err *e)
{
	return query(r, rule, t_ms, false, ret, e);
}
