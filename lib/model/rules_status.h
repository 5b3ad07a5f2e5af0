/* SPDX-License-Identifier: Apache-2.0 */
/* What the page and the API show of rules and alerts: the state of each group after its last evaluation. Readers get a copy,
 * so that an evaluation waits at most for that copy, however slow the reader is. */
#ifndef PYRRHA_MODEL_RULES_STATUS_H
#define PYRRHA_MODEL_RULES_STATUS_H

#include "model/labels.h"

/* In order of weight: a rule is in the state of its highest alert. */
enum alert_state { ALERT_UNKNOWN, ALERT_INACTIVE, ALERT_PENDING, ALERT_FIRING };
/* "unknown", "inactive", "pending", "firing". */
const char *alert_state_text(enum alert_state s);

enum rule_health { RULE_UNKNOWN, RULE_OK, RULE_ERR };
/* "unknown", "ok", "err". */
const char *rule_health_text(enum rule_health h);

/* Times are Unix milliseconds, 0 = not so. */
struct status_alert {
	struct labels labels, annotations;
	enum alert_state state;      /* ALERT_INACTIVE: resolved, and kept to tell receivers so */
	double value;                /* of the last evaluation that had it */
	int64_t active_at_ms, fired_at_ms, resolved_at_ms, keep_firing_since_ms, last_sent_ms;
};

struct status_rule {
	bool alerting;
	bool profiles;               /* records stacks */
	struct view name, query;     /* the query is canonical */
	struct labels labels, annotations; /* of an alert: the templates */
	int64_t for_ms, keep_firing_for_ms;
	enum alert_state state;      /* ALERT_UNKNOWN: not evaluated yet; of a recording rule always */
	enum rule_health health;
	struct view last_error;      /* empty = none */
	int64_t last_evaluation_ms;  /* wall clock, 0 = never */
	int64_t evaluation_ns;       /* how long that took */
	const struct status_alert *alerts; /* resolved ones too, sorted by labels */
	size_t n_alerts;
};

struct status_rule_group {
	struct view name, file;
	int64_t interval_ms, query_offset_ms, limit; /* limit 0 = none */
	int64_t last_evaluation_ms, evaluation_ns;
	int64_t last_slot_ms;        /* the time that it was evaluated for */
	uint64_t missed;             /* slots that were skipped */
	const struct status_rule *rules;
	size_t n_rules;
	bool cut;                    /* its alerts take more than RULES_STATUS_MAX: the rest is not here */
};

#define RULES_STATUS_MAX ((size_t)64 << 20) /* bytes of labels and annotations of a group's alerts */

struct status_rules_query {
	bool alerts;                 /* with them; states of rules are of all alerts in any case */
	bool (*group)(void *arg, const struct status_rule_group *g); /* borrowed for the call; false: no more groups */
	void *arg;
	/* Before a group with alerts is copied: bytes that the copy takes until `group` has returned. False: no more groups. NULL = there is room. */
	bool (*room)(void *arg, size_t bytes);
};

struct status_rules {
	/* All groups, by file and name. */
	void (*groups)(struct status_rules *s, const struct status_rules_query *q);
};

#endif
