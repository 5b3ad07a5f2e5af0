/* SPDX-License-Identifier: Apache-2.0 */
/* Holes: which records the head log has lost, and the time that these were about. Replay finds them (tsdb/write/hole_find.h). They are
 * kept in head.holes beside the log, twice, until retention passes them: sealing trims the log, and its missing numbers with it. Each
 * answer that touches a hole says so. Any thread may look; under seal_lock, or before threads, they change. */
#ifndef PYRRHA_TSDB_HOLES_H
#define PYRRHA_TSDB_HOLES_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/vec.h"
#include "model/source.h"

struct hole {
	uint64_t first, last;       /* record numbers that are missing from the log; 0 to 0: the loss has no numbers */
	int64_t after_ms, until_ms; /* the lost samples have stamps in (after, until]; after >= until: the loss did no harm */
	int64_t found_ms;           /* the wall clock, when it was found */
};

struct holes {
	struct mutex lock;
	VEC(struct hole) v;         /* by the first number */
	atomic_size_t n_harmful;    /* of v */
	bool unwritten;             /* head.holes lacks some of v, because it could not be written */
};

void holes_init(struct holes *h);
void holes_destroy(struct holes *h);
/* Reads DIR/head.holes or its copy; now_ms: if both are damaged, everything until then is. Fails if one of them is there and cannot be read for
 * now (permissions, no memory, no descriptors): it may be whole. */
int holes_read(struct holes *h, const char *dir, int64_t now_ms, struct err *e) MUST_USE;
/* Whether what became of all of these records is known already. */
bool holes_has_records(struct holes *h, uint64_t first, uint64_t last);
/* Whether a hole covers all of (after, until]. */
bool holes_has_time(struct holes *h, int64_t after_ms, int64_t until_ms);
void holes_add(struct holes *h, const struct hole *x);
/* Forgets those that end at until_ms or before, and those without harm whose records are below first. */
void holes_forget(struct holes *h, int64_t until_ms, uint64_t first);
/* Writes both files of the directory; without holes there are none. */
int holes_write(struct holes *h, const char *dir, struct err *e) MUST_USE;
/* Writes both files if they lack a hole. */
int holes_sync(struct holes *h, const char *dir, struct err *e) MUST_USE;
/* Those that touch (after, until] are reported to d. */
void holes_note(struct holes *h, int64_t after_ms, int64_t until_ms, struct source_damage *d);
/* A copy of those that did harm. Returns owned (free). */
struct hole *holes_list(struct holes *h, size_t *ret_n) MUST_USE;

#endif
