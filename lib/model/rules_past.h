/* SPDX-License-Identifier: Apache-2.0 */
/* A rule file, evaluated over the past beside the active rules. Either it reports what its alerts would have done, without
 * writing; or its recording rules write what they would have recorded. */
#ifndef PYRRHA_MODEL_RULES_PAST_H
#define PYRRHA_MODEL_RULES_PAST_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/labels.h"

struct past_question {
	struct view text, name;      /* the rule file, and what errors call it */
	int64_t start_ms, end_ms;    /* slots from start up to and including end are evaluated */
	int64_t timeout_ms;          /* above 0. When recording, the answer then counts what was done so far */
	bool record;                 /* the values of recording rules are stored; alerts are left out */
	const atomic_bool *canceled;
};

/* Times are Unix milliseconds of slots, 0 = not so. */
struct past_alert {
	struct view group, name;
	struct labels labels;
	int64_t active_at_ms, fired_at_ms;
	int64_t ended_at_ms;         /* resolved, or pending no more; 0: it was so at the end */
	double value;                /* the last one */
};

/* All in the arena: arena_free releases it. */
struct past_answer {
	struct arena arena;
	const struct past_alert *alerts; /* in the order of their first evaluation */
	size_t n_alerts;
	bool cut;                    /* there were more */
	uint64_t evaluations;        /* of rules */
	uint64_t written, there, refused; /* samples and profiles recorded; of times that there were; too old, or of too many series */
	int64_t next_ms;             /* recording goes on from there; 0: it is done */
	const struct view *warnings; /* rules that failed, or were left out */
	size_t n_warnings;
};

struct rules_past {
	/* ERR_BAD_DATA: the file or the times; ERR_LIMIT: too much of it; ERR_BUSY: another one is at work; ERR_TIMEOUT,
	 * ERR_CANCELED. ret is written on success. Thread-safe. */
	int (*evaluate)(struct rules_past *p, const struct past_question *q, struct past_answer *ret, struct err *e);
};

#endif
