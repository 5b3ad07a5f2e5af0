/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of alerts: how one is spelt, and what a restart makes of them. */
#ifndef PYRRHA_RULES_NOTES_H
#define PYRRHA_RULES_NOTES_H

#include "rules/group.h"

/* After an outage a query may find nothing, because nothing was scraped and ranges are empty. So absent alerts are neither dropped nor
 * resolved for the outage's length after the first evaluation, two intervals at least and this long at most. */
#define RESUME_HOLD_MS 60000

/* The next slot of a rule that records deltas. */
void notes_delta(struct evaluation *r, const struct live_rule *rule);
/* A batch was lost, and with it any notes of the group. */
void notes_lost(struct live_group *g);
/* When an evaluation begins: what was forgotten in a batch that was lost. */
void notes_forget_again(struct evaluation *r);
/* Before the first evaluation of a group whose alerts are from notes. */
void notes_resume(struct live_group *g, int64_t slot_ms, int64_t interval_ms);

#endif
