/* SPDX-License-Identifier: Apache-2.0 */
/* Fifteen days of a small fleet that deploys daily, in a real storage, for tests of questions over many days. Each day is another build: addresses
 * and build ids differ, names mostly do not.
 *
 *	day 0, 1     rolled up without names of their stacks, as older versions did
 *	day 3        locations that got their names late, after the rollup of the day was made
 *	day 4        the same, before it was made
 *	day 5        a single hour, so no rollup
 *	day 7        late rows, which are in memory and not in its rollup
 *	day 8        late rows, sealed: it was rolled up again
 *	day 9        deleted rows that still take space (tombstones)
 *	day 10       deleted rows that are gone
 *	day 14       today, in memory, noon
 *
 * Pods 1 and 2 have the same stacks each hour, so rollups have their sums; pod 0 has others each hour, so its hours are read. */
#ifndef PYRRHA_TESTS_FORTNIGHT_H
#define PYRRHA_TESTS_FORTNIGHT_H

#include "tsdb/bucketkit.h"
#include "tsdb/testkit.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define DAYS 15
#define PODS 3
#define FORTNIGHT_NOW (KIT_T0 + (DAYS - 1) * DAY + 12 * HOUR)
#define FUNCTIONS 40 /* those of the program */

/* Which targets one of several servers scrapes. A target is a pod's CPU profiles, its heap profiles, or its metrics. */
struct fortnight_shard {
	unsigned shard, of;     /* targets whose number is `shard` modulo `of`; of is 0: all */
	unsigned later_of;      /* the same from day 8 on: the number of servers has changed */
};

struct fortnight {
	struct kit k;
	struct fortnight_shard shard;
	struct bucketkit bucket;
	uint64_t state; /* of its random numbers */
};

void fortnight_make(struct fortnight *f, uint64_t seed);
/* What one server of several has of the same fortnight. */
void fortnight_make_shard(struct fortnight *f, uint64_t seed, const struct fortnight_shard *shard);
void fortnight_free(struct fortnight *f);
/* Closes the storage and opens it again with so small a budget that the dictionaries of two days do not fit into it. */
void fortnight_reopen_small(struct fortnight *f);
/* All is sealed, cleaned and rolled up, and opened again with room for all dictionaries. */
void fortnight_settle(struct fortnight *f);
/* More late names and late rows, and a delete. */
void fortnight_change(struct fortnight *f);
/* All but the last days are in a bucket alone. */
void fortnight_upload(struct fortnight *f);
/* Dictionaries leave memory; joint: those of names that days have in common, too. */
void fortnight_forget(struct fortnight *f, bool joint);
/* Bytes of memory of the joint names (tsdb/version/dict_union.h). */
size_t fortnight_names_bytes(struct fortnight *f);

/* The name of function i of the program. Two pairs have one name, in different files. */
void fortnight_function(unsigned i, char *ret, size_t size);
/* Whether several functions have that name: of several files, binaries or start lines. */
bool fortnight_name_is_shared(struct view name);

#endif
