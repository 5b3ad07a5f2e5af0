/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the locks of this folder are taken: base/lock.h holds it. */
#ifndef PYRRHA_TSDB_LOCK_RANKS_H
#define PYRRHA_TSDB_LOCK_RANKS_H

#include "base/lock.h"

enum tsdb_lock_rank {
	RANK_SEAL = 100,  /* tsdb.seal_lock: one seal or retention at a time */
	RANK_APPLY,       /* tsdb.apply_lock: what changes versions: the committer applying, the sealer, retention */
	RANK_APPEND_TURN, /* partition.append_turn: who appends to a day; held while dict_lock is wanted for writing and had */
	RANK_JOINS,       /* joins.lock: the dictionary of several partitions; held while theirs are read */
	RANK_OWN,         /* own.lock: a query's own dictionaries; held while they are read */
	RANK_DICT,        /* partition.dict_lock: symbols and index; a newer partition's before an older one's */
	RANK_VIEW,        /* view.lock: what a query holds */
	RANK_STATE,       /* tsdb.state_lock: the pointer to the current version, seq, the list of partitions; for a few instructions */
	RANK_WINDOW,      /* window.lock: rows of one window */
	RANK_LOG_DB,      /* hlog.db_lock: the head log is open */
	RANK_LOG_WRITE,   /* hlog.write_lock: writes to it */
	RANK_NOTES,       /* notes.lock: the table of notes */
	RANK_PARTS,       /* partition_db.parts_lock: the list of a partition's parts, what is damaged of them */
};

#endif
