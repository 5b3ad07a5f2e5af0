/* SPDX-License-Identifier: Apache-2.0 */
/* Which partitions retention dropped, so that what the head log still has of them does not come back at the next start:
 * the file `dropped` (docs/format/head.md). A dropped day may return: its records are numbered above the void ones. */
#ifndef PYRRHA_TSDB_DROPPED_H
#define PYRRHA_TSDB_DROPPED_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/vec.h"

struct tsdb;

#define DROPPED_ALL UINT64_MAX /* however it is numbered: a file of before days could come again */

struct dropped_day {
	uint32_t day;
	uint64_t record;
};

struct dropped {
	int64_t until_ms;              /* of days that end here or before, records numbered up to `record` are void */
	uint64_t record;
	VEC(struct dropped_day) days;  /* of each of these too; above until_ms. For days that went before older ones */
	bool unwritten;                /* the file says less */
	atomic_llong refused_until_ms; /* meanwhile days that end here or before take nothing in; 0 = none */
};

/* Reads the file; a damaged or missing one is none. Fails if it is there and cannot be read for now. Before threads. */
int dropped_read(struct tsdb *db, struct err *e) MUST_USE;
/* The last record of a day that is void, 0 = none. */
uint64_t dropped_record(const struct dropped *d, uint32_t day);
/* The highest of all. */
uint64_t dropped_last(const struct dropped *d);
/* The log was replayed up to this number: from now on days may come again that an older file has as dropped. */
void dropped_start(struct tsdb *db, uint64_t last);
/* A day goes: its records numbered up to this are void. Nothing changes if that cannot be written. Under seal_lock, as all
 * below. */
int dropped_add(struct tsdb *db, uint32_t day, uint64_t record, struct err *e) MUST_USE;
/* The same where its files are gone already: if it cannot be written the day takes nothing in until dropped_sync could. */
void dropped_must_add(struct tsdb *db, uint32_t day, uint64_t record);
/* Writes the file if it says less. */
int dropped_sync(struct tsdb *db, struct err *e) MUST_USE;
int dropped_write(const struct dropped *d, const char *dir, struct err *e) MUST_USE;
void dropped_release(struct dropped *d);

#endif
