/* SPDX-License-Identifier: Apache-2.0 */
/* The bucket of a life: a store of type FILESYSTEM in a directory that lies under the fault layer as well. Private to life.c. */
#ifndef PYRRHA_CRASH_LIFE_BUCKET_H
#define PYRRHA_CRASH_LIFE_BUCKET_H

#include "bucket/bucket.h"
#include "tsdb/tsdb.h"

struct life_bucket {
	struct bucket_config config;
	struct bucket *bucket;
	atomic_bool stop;
};

void life_bucket_open(struct life_bucket *b, const char *dir);
void life_bucket_close(struct life_bucket *b);
/* Fetches all days that are wanted. Whether it came to an end. */
bool life_bucket_fetch(struct tsdb *db);
/* Ends the life if an object of an older epoch is named by no newest generation. After an upload without faults. */
void life_bucket_check_orphans(struct life_bucket *b, struct tsdb *db);

#endif
