/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that rows of unwind tables name by number (`rules` in bpf/abi.h). Equal rules have one number, so all programs of a host need some
 * thousands. But each new program may bring some of its own, and RULES_MAX is all that the kernel has room for. So when most numbers are
 * taken, a sweep frees the rules that no row names any more. The owner of the rows (unwind_tables.c) marks their rules, in steps, while new
 * rows are made as ever:
 *
 *	NONE --begin--> MARKING --marked--> FREEING --(all looked at)--> WIPING --(the wipe)--> NONE
 *
 * rule_set_id() marks the rule that it returns. So all rules that rows name are marked in the end: those of rows older than the sweep by
 * rule_set_mark(), those of newer rows by rule_set_id(). A rule without a mark is forgotten at once. Its number becomes spare after the
 * kernel's cache of rules was wiped (cache_wiper.h); by then all samples that may still use the old rule have ended.
 *
 *	number: fresh -> in use -> resting -> spare -> in use
 *
 * RULE_NONE, RULE_UNREAD and the rule that stands for those without room (RULE_REFUSED) are never freed. Drain thread only. */
#ifndef PYRRHA_AGENT_RULE_SET_H
#define PYRRHA_AGENT_RULE_SET_H

#include "agent/unwind/cache_wiper.h"
#include "base/map.h"
#include "base/vec.h"

#define RULE_REFUSED RULE_FIRST      /* number of the rule CFA_UNSUPPORTED; rules that find the set full get it, too */
#define RULES_BUSY (RULES_MAX / 4 * 3) /* with more numbers taken, a sweep begins */
#define RULES_FEW (RULES_MAX / 16)   /* a sweep that frees fewer is not worth much */
#define SWEEP_GAP_NS 10000000000ll   /* least time between the end of a sweep and the next sweep */
#define SWEEP_FEW_NS 60000000000ll   /* after one that freed few, unless the set is full */

enum sweep_phase { SWEEP_NONE, SWEEP_MARKING, SWEEP_FREEING, SWEEP_WIPING };

struct rule_set {
	struct unwind_rule *rules;   /* RULES_MAX, the kernel's */
	struct cache_wiper *wiper;
	struct map index;            /* of those in use: content -> number */
	uint32_t next;               /* all numbers below were given out once */
	VEC(uint16_t) resting, spare;
	enum sweep_phase phase;
	uint32_t at;                 /* SWEEP_FREEING: the next number to look at */
	uint64_t wipe;               /* SWEEP_WIPING: number of the wipe that it waits for */
	int64_t due_ns, due_full_ns; /* when the next sweep may begin; that of a full set */
	uint64_t refused;            /* how often a rule found the set full */
	uint64_t freed;              /* rules, by all sweeps */
	uint16_t mark[RULES_MAX];    /* number of the image that marked the rule last, or MARK_KEPT; 0 = no mark */
};

/* Borrows rules (RULES_MAX of them, all zero) and the wiper. */
void rule_set_init(struct rule_set *s, struct unwind_rule *rules, struct cache_wiper *wiper);
void rule_set_release(struct rule_set *s);
/* The rule's number; RULE_REFUSED if the set is full. The number is valid until a sweep in which no row with it is marked. */
uint32_t rule_set_id(struct rule_set *s, const struct unwind_rule *r);
/* How many rules are in use. */
uint32_t rule_set_used(const struct rule_set *s);

/* Whether a sweep should begin now. */
bool rule_set_sweep_due(const struct rule_set *s, int64_t now_ns);
/* Begins a sweep, or begins marking again. All rows made until now have to be marked. Rows that are not in a table yet cannot be marked, so
 * neither this function nor those below may be called while there are any. */
void rule_set_sweep_begin(struct rule_set *s);
/* Marks the rules of n rows of an image. */
void rule_set_mark(struct rule_set *s, const uint32_t *rows, uint32_t n, uint16_t image);
/* While marking: returns how many rules are marked. ret_last[id]: for how many of them image `id` came last; these rules would be free if this image and all images
 * marked before it were unloaded. */
uint32_t rule_set_marked(const struct rule_set *s, uint16_t ret_last[IMAGES_MAX]);
/* All rows are marked: rules without a mark may be freed. */
void rule_set_sweep_free(struct rule_set *s);
/* Not all rows can be marked: nothing is freed this time. */
void rule_set_sweep_cancel(struct rule_set *s, int64_t now_ns);
/* Does a step of freeing, or ends the sweep if the wipe is done. True: freeing has ended just now, with more than RULES_FEW rules freed; their
 * numbers can be used in 2 * REUSE_NS. */
bool rule_set_advance(struct rule_set *s, int64_t now_ns);

#endif
