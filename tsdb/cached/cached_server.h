/* SPDX-License-Identifier: Apache-2.0 */
/* A server whose days are read from the bucket: this one, whose days may have left its disk, and with object_storage.read: all the others as
 * well (tsdb/transfer/others.c). */
#ifndef PYRRHA_TSDB_CACHED_SERVER_H
#define PYRRHA_TSDB_CACHED_SERVER_H

#include "tsdb/bucket/catalogue.h"
#include "tsdb/version/db.h"

/* The rows of a day that deletes and retention have hidden since its generation was uploaded. */
struct hidden_facts {
	VEC(struct tombstone_fact) deletes, rules;
	int64_t next_ms; /* when retention by selector hides more; INT64_MAX = never */
};

struct cached_server {
	struct tsdb *db;
	const char *id;                      /* as in the bucket; "" = this server itself: only its days that are not on this disk are read */
	unsigned number;                     /* 0 is this server; of others their place in the order in which they were found */
	struct bucket_catalogue *catalogue;  /* which days it has; borrowed */
	atomic_bool is_own;                  /* of another one: this server has its id now, so its days are left out */
	/* Lists what is hidden of a day beyond what its generation says; the generation's series are decoded. */
	int (*hidden)(struct cached_server *s, const struct generation *g, struct hidden_facts *ret, struct err *e);
	atomic_ullong *hidden_number;        /* a counter that rises whenever `hidden` would list more; borrowed */
};

#endif
