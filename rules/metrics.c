/* SPDX-License-Identifier: Apache-2.0 */
/* The rules' own metrics: one table, a row each, by group where that matters. */
#include "base/metrics.h"

#include "rules/group.h"

struct metric rules_metrics[] = {
	[M_EVALUATIONS] = { "pyrrha_rule_evaluations_total", "Rules that were evaluated.", METRIC_COUNTER, "rule_group" },
	[M_FAILURES] = { "pyrrha_rule_evaluation_failures_total", "Rules whose evaluation failed.", METRIC_COUNTER, "rule_group" },
	[M_ITERATIONS] = { "pyrrha_rule_group_iterations_total", "Slots of rule groups, evaluated or missed.", METRIC_COUNTER, "rule_group" },
	[M_MISSED] = { "pyrrha_rule_group_iterations_missed_total", "Slots that were skipped because the group, or those before it, took too long.",
		       METRIC_COUNTER, "rule_group" },
	[M_LAST_DURATION] = { "pyrrha_rule_group_last_duration_seconds", "How long the last evaluation of the group took.", METRIC_GAUGE,
			      "rule_group" },
	[M_LAST_EVALUATION] = { "pyrrha_rule_group_last_evaluation_timestamp_seconds", "When the group was last evaluated.", METRIC_GAUGE,
				"rule_group" },
	[M_INTERVAL] = { "pyrrha_rule_group_interval_seconds", "The group's interval.", METRIC_GAUGE, "rule_group" },
	[M_RULES] = { "pyrrha_rule_group_rules", "Rules in the group.", METRIC_GAUGE, "rule_group" },
	[M_SAMPLES] = { "pyrrha_rule_group_last_evaluation_samples", "Samples that the group's last evaluation wrote.", METRIC_GAUGE,
			"rule_group" },
	[M_EVALUATION_SECONDS] = { "pyrrha_rule_evaluation_duration_seconds", "How long the evaluation of a rule took.", METRIC_HISTOGRAM },
	[M_GROUP_SECONDS] = { "pyrrha_rule_group_duration_seconds", "How long the evaluation of a group took.", METRIC_HISTOGRAM },
	[M_DISCARDED] = { "pyrrha_rule_discarded_samples_total", "Samples of rules that storage refused: there already, too old, too new, or "
			  "of too many series.", METRIC_COUNTER },
	[M_LATE] = { "pyrrha_rule_late_slots_total", "Slots of recorded profiles whose source had more when they were looked at again.",
		     METRIC_COUNTER, "rule_group" },
};

void rules_register_metrics(void)
{
	metrics_register(rules_metrics, M_RULE_METRICS_);
}

void rules_count(const struct live_group *g, int metric, double v)
{
	if (!g->m->o.aside)
		metric_add(&rules_metrics[metric], v, rules_metrics[metric].labels ? g->metric_name : NULL);
}

void rules_gauge(const struct live_group *g, int metric, double v)
{
	if (!g->m->o.aside)
		metric_set(&rules_metrics[metric], v, g->metric_name);
}

void rules_forget_metrics(const struct live_group *g)
{
	for (size_t i = 0; i < M_RULE_METRICS_ && !g->m->o.aside; i++)
		if (rules_metrics[i].labels)
			metric_forget(&rules_metrics[i], g->metric_name);
}

void rules_observe(const struct live_group *g, int metric, double v)
{
	if (!g->m->o.aside)
		metric_observe(&rules_metrics[metric], v);
}
