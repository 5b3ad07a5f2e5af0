/* SPDX-License-Identifier: Apache-2.0 */
/* RocksDB's framing of its write-ahead files and of its list of files (MANIFEST), read without RocksDB, so that intact pieces behind a
 * damaged place are read too. Pure: bytes in, entries out. */
#ifndef PYRRHA_TSDB_WAL_H
#define PYRRHA_TSDB_WAL_H

#include "base/err.h"
#include "base/view.h"

struct wal_loss {
	size_t holes;  /* damaged places with an intact piece behind them */
	bool tail;     /* the end is cut off or damaged: a power loss may leave that */
};

/* Calls fn (may be NULL) for each complete entry, in order; a negative code ends the reading. */
int wal_each(struct view bytes, int (*fn)(void *arg, struct view entry, struct err *e), void *arg, struct wal_loss *ret, struct err *e) MUST_USE;
/* The sequence number of an entry of a write-ahead file, which ascends; 0: it has none. */
uint64_t wal_sequence(struct view entry);
/* Calls fn for each value that was put, with its key, in an entry of a write-ahead file. False: the entry is malformed behind the
 * last of them. */
bool wal_batch(struct view entry, int (*fn)(void *arg, struct view key, struct view value, struct err *e), void *arg, int *ret_rc,
	       struct err *e);

#endif
