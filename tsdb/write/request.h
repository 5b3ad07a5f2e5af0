/* SPDX-License-Identifier: Apache-2.0 */
/* The work that an append, or another changing call, passes to the committer: records, notes, and their waiters. Private. */
#ifndef PYRRHA_TSDB_REQUEST_H
#define PYRRHA_TSDB_REQUEST_H

#include "tsdb/version/db.h"

struct request_record {
	struct partition *p;  /* entered */
	enum record_kind kind;
	bool gone;            /* a fact: all of the partition is void */
	struct buf bytes;     /* begun, not ended */
	size_t payload_end;   /* set by the committer */
	uint64_t number;      /* set by the committer */
};

struct request {
	VEC(struct request_record) records;
	VEC(struct series *) touched; /* whose last_t it moved */
	struct note **notes;          /* the committer takes them out */
	size_t n_notes;
	struct notes_room notes_room;
	uint64_t profiles, samples, floats;
	size_t size;                  /* bytes, of what is queued */
	bool patient;                 /* see sink_batch */
	void (*done)(void *arg, const struct err *e);
	void *done_arg;
};

/* Frees it; lets go of its partitions. */
void request_free(struct tsdb *db, struct request *r);

#endif
