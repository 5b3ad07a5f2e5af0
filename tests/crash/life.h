/* SPDX-License-Identifier: Apache-2.0 */
/* One life of a storage. It opens the directory and compares what is there with the ledger. Then it appends (in two threads, some of
 * it late), queries, seals, deletes and drops at the same time. It ends when it is killed, the power fails, or errors are over and it
 * closes. Private to torture.c, whose child it runs in. */
#ifndef PYRRHA_CRASH_LIFE_H
#define PYRRHA_CRASH_LIFE_H

#include <stdbool.h>
#include <stdint.h>

/* What a parent notes beside the directory of a life with a bucket: the storage's directory was lost since a life had all of it, or ever. Such a
 * directory has these two below it. */
#define LIFE_LOST ".lost"
#define LIFE_WAS_LOST ".waslost"
#define LIFE_STORAGE "storage"
#define LIFE_BUCKET "bucket"

/* What a kind of life has injected; %lu is the call. */
struct kind {
	const char *name, *faults, *faults2;
	unsigned long most;  /* AT is below it */
	bool dies;           /* the fault kills it */
	bool kills;          /* and does nothing else */
	bool reads;          /* reads are wrong: what cannot be read may be reported as lost */
};

/* Lives it, under the fault layer. 0: it closed; it may also be killed, or exits with 1 (die) where the storage does not hold what
 * it acknowledged. */
int life_live(const char *dir, const char *ledger, const struct kind *kind, uint64_t seed);

/* Says why on stderr and exits with 1. */
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *f, ...);

#endif
