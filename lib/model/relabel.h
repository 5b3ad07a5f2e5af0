/* SPDX-License-Identifier: Apache-2.0 */
/* Relabelling: Prometheus's rules on a label set. Pure; a compiled set of rules may be used by several threads. */
#ifndef PYRRHA_MODEL_RELABEL_H
#define PYRRHA_MODEL_RELABEL_H

#include "base/regex.h"
#include "model/labels.h"

enum relabel_action {
	RELABEL_REPLACE, RELABEL_KEEP, RELABEL_DROP, RELABEL_KEEPEQUAL, RELABEL_DROPEQUAL, RELABEL_HASHMOD,
	RELABEL_LABELMAP, RELABEL_LABELDROP, RELABEL_LABELKEEP, RELABEL_LOWERCASE, RELABEL_UPPERCASE
};
/* The words of enum relabel_action in its order, for configuration: "replace|keep|...". */
#define RELABEL_ACTION_WORDS "replace|keep|drop|keepequal|dropequal|hashmod|labelmap|labeldrop|labelkeep|lowercase|uppercase"

struct relabel_rule {
	enum relabel_action action;
	const char *const *source_labels;
	size_t n_source_labels;
	const char *separator, *target_label, *replacement; /* NULL = ";", none, "$1" */
	const char *regex;                                  /* NULL = "(.*)" */
	uint64_t modulus;
	struct regex *re; /* compiled by relabel_rule_init; owned reference */
};

/* Checks the rule as Prometheus does and compiles its expression; strings are borrowed. */
int relabel_rule_init(struct relabel_rule *r, struct err *e) MUST_USE;
void relabel_rule_release(struct relabel_rule *r);

/* Applies the rules in order. 1: kept, b holds the result (new strings are in the arena); 0: dropped; negative: an
 * expression hit its match limit, all of them took a second, a value got longer than 1 MiB or the arena hit its cap; the error names the rule, from 1. */
int relabel_apply(const struct relabel_rule *rules, size_t n, struct labels_builder *b, struct arena *a, struct err *e)
	MUST_USE;

/* The same, and reports the labels after each rule. From the rule that drops them on they are empty, and keep is false.
 * step may be NULL. *ret_rule, which may be NULL: the rule that dropped them or failed, from 0; n = none did. */
int relabel_trace(const struct relabel_rule *rules, size_t n, struct labels_builder *b, struct arena *a,
		  void (*step)(void *arg, const struct relabel_rule *r, struct labels after, bool keep), void *arg, size_t *ret_rule,
		  struct err *e) MUST_USE;

/* The cost limit of rules for one set of labels: time of matching, and bytes of a name or value that a rule
 * makes. */
struct relabel_limits {
	int64_t max_ns;
	const char *max_name;    /* what to say of max_ns, "20 ms of relabelling" */
	size_t value_max;
};
/* As relabel_apply, within other limits (NULL: the usual); *ret_rule as relabel_trace. */
int relabel_within(const struct relabel_rule *rules, size_t n, struct labels_builder *b, struct arena *a,
		   const struct relabel_limits *l, size_t *ret_rule, struct err *e) MUST_USE;
/* The action's word in the configuration: "labelmap". */
const char *relabel_action_text(enum relabel_action a);

#endif
