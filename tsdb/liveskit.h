/* SPDX-License-Identifier: Apache-2.0 */
/* For lives_test: the rows that a storage has to have, and looks at what it has. Each of them is known by its pod and stamp, and is there at most
 * once. */
#ifndef PYRRHA_TSDB_LIVESKIT_H
#define PYRRHA_TSDB_LIVESKIT_H

#include "tsdb/testkit.h"

#define LIVES_DAY (24 * INT64_C(3600000))
#define LIVES_PODS 4
#define LIVES_FLOATS LIVES_PODS         /* the "pod" of the rows of a float series */
#define LIVES_NAMELESS (LIVES_PODS + 1) /* of profiles without names of functions */
#define LIVES_LATE "late:samples:count:cpu:nanoseconds:delta" /* the type of these, and of those that bring the names */
#define LIVES_STACKS 12

enum lives_state {
	FRESH,   /* acknowledged; in windows */
	SEALED,  /* in parts */
	UP,      /* in a generation for sure */
	DELETED, /* deleted, and the bucket may not have the delete yet: if the disk is lost now, the row may come back */
	UNSURE   /* the disk died while it was deleted */
};

struct lives_row {
	unsigned pod;
	int64_t t_ms;
	uint64_t seed;
	enum lives_state state, was;    /* was: before it was UNSURE */
	bool seen;
	bool left;                      /* it is in the bucket alone */
	bool named, named_up;           /* of LIVES_NAMELESS: its functions have had names; they had when an upload was complete */
};

struct lives_rows {
	struct lives_row *v;
	size_t n, cap;
};

enum lives_of {
	LIVES_OWN,      /* the storage's own rows: all of them, and none that was deleted */
	LIVES_RETURNED, /* its disk was lost: all that is UP */
	LIVES_OTHER     /* of another server of the bucket: what is UP, perhaps more, and nothing else */
};

/* A look at a storage. */
struct lives_look {
	struct kit *k;
	struct lives_rows *rows;
	uint64_t life;          /* for messages */
	enum lives_of of;
	const char *id;         /* of LIVES_OTHER: the label `id` of the rows */
	bool is_behind;         /* of LIVES_OTHER: what has changed since the storage looked at the bucket is not known */
	int64_t gone_ms;        /* days that had ended by then may have left */
	/* What follows is of the look itself. */
	bool some;
	struct source_damage damage;
	struct source_limits lim;
};

/* NULL: there is none. */
struct lives_row *lives_rows_find(struct lives_rows *rows, unsigned pod, int64_t t_ms);
/* Everything can be read. Rows that are not there and may be so are forgotten, if they are the storage's own. */
void lives_look_at_all(struct lives_look *l);
/* The bucket may fail: the storage has to say of which time something is missing, and what it answers has to be right. */
void lives_look_at_some(struct lives_look *l);

#endif
