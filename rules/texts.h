/* SPDX-License-Identifier: Apache-2.0 */
/* Labels and annotations of alerts: templates, parsed when their file is read. */
#ifndef PYRRHA_RULES_TEXTS_H
#define PYRRHA_RULES_TEXTS_H

#include "rules/rules.h"

/* Parses it if there is anything to expand. Errors are "LINE:COLUMN: text" of a place in the text. */
int texts_parse(struct rule_text *x, struct err *e) MUST_USE;
void texts_free(const struct rule_text *x);
/* Whether it asks queries of its own, so that what was written before has to be there. */
bool texts_reads(const struct rule_text *x);

#endif
