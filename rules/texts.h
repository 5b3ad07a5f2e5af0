/* SPDX-License-Identifier: Apache-2.0 */
/* Labels and annotations of alerts: templates, parsed when their file is read, expanded for each alert. */
#ifndef PYRRHA_RULES_TEXTS_H
#define PYRRHA_RULES_TEXTS_H

#include "rules/rules.h"

struct evaluation;

/* Parses it if there is anything to expand; name is the alert's. Errors are "LINE:COLUMN: text" of a place in the text. */
int texts_parse(struct rule_text *x, struct view name, struct err *e) MUST_USE;
void texts_free(const struct rule_text *x);
/* Whether it asks queries of its own, so that what was written before has to be there. */
bool texts_reads(const struct rule_text *x);

struct texts_env {
	struct evaluation *round;
	struct labels labels;        /* of the sample */
	double value;
};
/* In the arena, or the text itself. An error is text. */
struct view texts_expand(const struct rule_text *x, const struct texts_env *env, struct arena *a);
/* In the round's memory. */
struct view texts_generator_url(struct evaluation *r, const struct rule *x);

#endif
