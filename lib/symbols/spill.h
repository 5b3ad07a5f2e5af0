/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts many records of one size with little memory: each full buffer is sorted and written to a temporary file (a run), and all runs
 * are merged at the end. */
#ifndef PYRRHA_SYMBOLS_SPILL_H
#define PYRRHA_SYMBOLS_SPILL_H

#include "base/err.h"
#include "base/vec.h"

#define SPILL_RECORD_MAX 64

typedef int spill_order(const void *a, const void *b);
/* false ends the walk. */
typedef bool spill_fn(void *arg, void *record);

struct spill_run { uint64_t at, n; };

struct spill {
	size_t size, cap, n;         /* bytes a record; records in the buffer at most; now */
	spill_order *order;
	uint8_t *buf;
	int fd;                      /* -1: nothing was written yet */
	uint64_t total;
	VEC(struct spill_run) runs;
	bool failed;                 /* the file could not be written or read */
};

/* buffer: bytes of memory, while records come and again while they are merged. */
void spill_init(struct spill *s, size_t size, size_t buffer, spill_order *order);
void spill_release(struct spill *s);
void spill_add(struct spill *s, const void *record);
/* Calls fn with all records in order. False: fn ended it, or the file failed. */
bool spill_each(struct spill *s, spill_fn *fn, void *arg);

#endif
