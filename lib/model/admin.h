/* SPDX-License-Identifier: Apache-2.0 */
/* Administrative calls of the storage: deleting, freeing space, snapshots, and statistics of its content. */
#ifndef PYRRHA_MODEL_ADMIN_H
#define PYRRHA_MODEL_ADMIN_H

#include "base/err.h"
#include "model/matcher.h"

struct admin_count {
	struct view name;
	uint64_t value;
};
struct admin_list {
	struct admin_count *v; /* largest first */
	size_t n;
};

/* Prometheus's TSDB status. The lists and num_* are of the newest partition, which is what grows. One malloc'd block. */
struct admin_status {
	uint64_t num_series, num_label_pairs, chunks; /* chunks: of series in memory */
	int64_t min_t_ms, max_t_ms;                   /* of all that is stored; 0, 0 = nothing */
	struct admin_list series_by_name, values_by_label, bytes_by_label, series_by_pair;
	uint64_t partitions, parts, head_windows, masks;
	uint64_t disk_bytes, head_log_bytes, head_bytes, dictionary_bytes, cache_bytes, queue_bytes;
	struct admin_count counts[];
};

/* A sealed part, in the words of Prometheus's blocks. */
struct admin_block {
	int64_t min_t_ms, max_t_ms; /* [min, max) */
	uint32_t number;            /* with min_t_ms and level it is this part alone */
	unsigned level;             /* 1: as it was sealed; above, sums of those */
	uint64_t samples, series, bytes;
};

#define ADMIN_NAME_LEN 48

/* Steps of the wall clock by a minute or more, since the start. */
struct admin_clock {
	uint64_t steps;
	int64_t last_step_ms;       /* how far; negative = back */
	int64_t last_at_ms;         /* what it said after it; 0 = there was none */
	int64_t retention_waits_ms; /* so long nothing is dropped because of it; 0 = it does not wait */
};

#define ADMIN_SERVER_ID_LEN 41

/* The bucket that sealed days go to. */
struct admin_bucket {
	bool configured;
	const char *state;               /* "writing", "unreachable" (since the start), "stopped" (another process writes under the id) */
	char id[ADMIN_SERVER_ID_LEN];    /* of this server in the bucket; "" = not known yet */
	char why[400];                   /* it is stopped, has another id than configured, or passes over an object that it cannot read; "" = none of these */
	uint64_t days, bytes;            /* in the bucket, of this server */
	uint64_t waiting_parts, waiting_bytes; /* sealed and not in the bucket */
	int64_t waiting_since_ms;        /* the end of the oldest hour of these, or now if that has not ended; 0 = none waits */
	uint64_t waiting_deletes;        /* applied here, and not in the bucket yet: days that are not here still have those rows */
	int64_t last_success_ms;         /* of a round without an error; 0 = none yet */
	int64_t last_error_ms;
	char last_error[512];            /* "" = the last round had none */
	uint64_t absent_days;            /* in the bucket and not on this disk, */
	int64_t absent_from_ms, absent_until_ms; /* with stamps in this range; 0, 0 = none */
	uint64_t cache_bytes, cache_max_bytes;   /* of the disk, for what queries read of these days: now, and at most */
	uint64_t reads, read_bytes, read_failures; /* requests of queries, what they brought, files that could not be read, since the start */
	bool reads_others;               /* queries also read days of other servers: */
	uint64_t other_servers, other_days, other_bytes; /* how many days the bucket has, and of how many servers, */
	int64_t other_from_ms, other_until_ms;   /* with stamps in this range; 0, 0 = none */
	int64_t other_looked_ms;                 /* when the bucket's list of them came last; 0 = none came yet */
	char other_error[256];                   /* why the last list of them failed; "" = it did not */
	uint64_t damaged_objects;        /* in the bucket, that could not be read and are passed over; since the start */
};

/* All thread-safe. */
struct storage_admin {
	/* Deletes what the series that satisfy all matchers have in (after, until]; durable and hidden when it returns. */
	int (*delete_series)(struct storage_admin *a, const struct matcher *m, size_t n, int64_t after_ms, int64_t until_ms,
			     uint64_t *ret_series, struct err *e);
	/* Gives back the space of what was deleted. */
	int (*clean)(struct storage_admin *a, struct err *e);
	/* A copy under the storage's directory, snapshots/NAME. */
	int (*snapshot)(struct storage_admin *a, char ret_name[ADMIN_NAME_LEN], struct err *e);
	/* Lists of at most `limit` each. Returns owned. */
	struct admin_status *(*status)(struct storage_admin *a, size_t limit);
	/* Parts, oldest first. Returns owned (free). */
	struct admin_block *(*blocks)(struct storage_admin *a, size_t *ret_n);
	void (*clock)(struct storage_admin *a, struct admin_clock *ret);
	void (*bucket)(struct storage_admin *a, struct admin_bucket *ret);
};

#endif
