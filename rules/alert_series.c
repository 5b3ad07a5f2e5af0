/* SPDX-License-Identifier: Apache-2.0 */
/* One alert, and the series that say how it is: ALERTS and ALERTS_FOR_STATE. */
#include <stdlib.h>

#include "rules/group.h"

static const struct {
	struct view alerts, for_state, alertname, alertstate;
} names = { { "ALERTS", 6 }, { "ALERTS_FOR_STATE", 16 }, { "alertname", 9 }, { "alertstate", 10 } };

void alert_free(struct live_alert *a)
{
	if (a->budget)
		budget_give(a->budget, a->bytes);
	free(a->labels);
	free(a->annotations);
	free(a);
}

int alert_each_series(const struct rule *x, const struct live_alert *a, int (*put)(void *arg, struct labels l, double v, struct err *e),
		      void *arg, struct err *e)
{
	struct labels_builder b;
	labels_builder_init(&b, *a->labels);
	labels_builder_set(&b, VIEW(LABEL_NAME), names.for_state);
	labels_builder_set(&b, names.alertname, x->name);
	int rc = put(arg, labels_builder_finish(&b), (double)(a->active_at / 1000), e);
	labels_builder_set(&b, VIEW(LABEL_NAME), names.alerts);
	labels_builder_set(&b, names.alertstate, view_of(alert_state_text(a->state)));
	if (!rc)
		rc = put(arg, labels_builder_finish(&b), 1, e);
	labels_builder_free(&b);
	return rc;
}

static int remember_series(void *arg, struct labels l, double v, struct err *e)
{
	(void)v;
	(void)e;
	label_sets_add(arg, l);
	return 0;
}

void alert_remember_series(struct live_rule *rule)
{
	for (size_t i = 0; i < rule->alerts.n; i++)
		if (rule->alerts.v[i]->state != ALERT_INACTIVE && alert_each_series(rule->rule, rule->alerts.v[i], remember_series, &rule->previous, NULL))
			return;
}
