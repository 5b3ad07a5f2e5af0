/* SPDX-License-Identifier: Apache-2.0 */
/* Profile types: what a series of profiles measures. A type is spelt as a metric name of five or six parts,
 * NAME:SAMPLE_TYPE:SAMPLE_UNIT:PERIOD_TYPE:PERIOD_UNIT[:delta]. It is separate from __name__, so that a recorded or
 * renamed profile still has its type. */
#ifndef PYRRHA_MODEL_PTYPE_H
#define PYRRHA_MODEL_PTYPE_H

#include "base/arena.h"
#include "base/buf.h"

/* The kind belongs to the sample type, not to the file: Go's heap profile mixes two. Values are in the format. */
enum profile_kind {
	PROFILE_DELTA = 1,      /* stored: what the scrape measured; over time: sum */
	PROFILE_CUMULATIVE = 2, /* stored: the increase since the previous scrape; over time: sum */
	PROFILE_GAUGE = 3       /* stored: the snapshot; over time: mean */
};

struct ptype {
	struct view name, sample_type, sample_unit, period_type, period_unit; /* borrowed */
	bool delta;             /* ends in :delta */
	enum profile_kind kind;
};

/* The six-part name. */
void ptype_format(const struct ptype *t, struct buf *out);
/* The parts of a name (kind by ptype_default_kind); false if it has neither five parts nor six with "delta". */
bool ptype_parse(struct view name, struct ptype *ret);
/* Whether the agent makes it for a whole host (on_cpu, off_cpu), so that no binary is the main one. */
bool ptype_is_of_host(const struct ptype *t);
bool ptype_eq(const struct ptype *a, const struct ptype *b);
/* docs/profql.md "Series and names": by NAME and sample type; has_duration decides what is unknown. */
enum profile_kind ptype_default_kind(struct view name, struct view sample_type, struct view sample_unit,
				     bool has_duration);
const char *profile_kind_text(enum profile_kind k);

/* The aliases of docs/profql.md: "cpu" -> "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta". An empty view if the name
 * is no alias. */
struct view ptype_alias(struct view name);
/* All of them in table order: alias, name, and the plain name people see ("Process CPU Nanoseconds"). */
struct ptype_row {
	const char *alias, *name, *title, *help;
};
const struct ptype_row *ptype_table(size_t *ret_n);
/* The plain name of a type, e.g. "Memory In-Use Bytes"; formats one from the parts for a type not in the table. */
void ptype_title(const struct ptype *t, struct buf *out);

/* A unit as pprof spells it ("nanoseconds", "ns", "bytes", "count", "kb"): base unit and the factor to it
 * ("seconds" and 1e-9). False, and factor 1, for a unit that is its own base. */
struct unit_info {
	const char *base; /* "seconds", "bytes", "" = a unit of its own */
	double factor;    /* one of this unit in base units */
};
bool unit_lookup(struct view unit, struct unit_info *ret);
/* An amount for people: "1.50s", "20.00ms", "3.00MB", or the bare number of a unit of its own. */
void unit_put(struct buf *out, double native, struct view unit);
/* " (12.50%)": part of whole; empty if that is not a number. */
void percent_put(struct buf *out, double part, double whole);

#endif
