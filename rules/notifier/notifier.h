/* SPDX-License-Identifier: Apache-2.0 */
/* Telling Alertmanagers of alerts, by version 2 of their API. Their addresses come from the section `alerting` of the configuration.
 * Each has a separate queue, so a slow or unavailable one delays no other. Alerts that were not accepted are not retried: rules pass
 * each alert again after the resend delay. One thread, `notifier`, sends everything. */
#ifndef PYRRHA_RULES_NOTIFIER_H
#define PYRRHA_RULES_NOTIFIER_H

#include "config/config.h"
#include "model/alertmanagers.h"
#include "rules/rules.h"

struct notifier_config;

/* The section `alerting`, and external_labels. Returns owned (one reference). */
int notifier_config_parse(struct notifier_config **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text), void *warn_arg,
			  struct err *e) MUST_USE;
struct notifier_config *notifier_config_ref(struct notifier_config *c);
void notifier_config_unref(struct notifier_config *c);
/* "alerting: 2 alertmanagers" for --config.check. */
void notifier_config_check(const struct notifier_config *c, struct buf *out);

/* Zero means the default in brackets. */
struct notifier_options {
	const char *user_agent;      /* copied ("pyrrha") */
	size_t queue_capacity;       /* --alertmanager.notification-queue-capacity (10000): alerts of each queue */
	size_t batch_size;           /* --alertmanager.notification-batch-size (256): alerts of one request */
	bool drop_at_end;            /* what is queued at the end is not sent any more */
	int64_t drain_ms;            /* how long the end may take (3s) */
};

struct notifier;

int notifier_new(struct notifier **ret, const struct notifier_options *o, struct err *e) MUST_USE;
/* From now on these (a reference is taken). Alertmanagers of a list item that did not change keep their queue. */
int notifier_apply(struct notifier *n, struct notifier_config *c, struct err *e) MUST_USE;
/* Takes no more alerts, and begins to send what is queued. Returns at once. NULL is fine. */
void notifier_close(struct notifier *n);
/* Closes it, and waits until everything is sent or drain_ms have passed since it was closed. */
void notifier_free(struct notifier *n);
/* The entry point of alerts; it never waits for an Alertmanager. Valid as long as n. */
const struct alert_sink *notifier_sink(struct notifier *n);
struct status_alertmanagers *notifier_status(struct notifier *n);
/* Registers pyrrha_notifications_*: once, by main. */
void notifier_register_metrics(void);

#endif
