/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregates: one more series per service, which is the sum of all its series in one-minute steps. A service is the series
 * of one name and type that agree in the labels of tsdb_options.service_labels. The aggregate of each series is written beside it in
 * the part (part.h), so that a query can tell whether the aggregate answers it: exactly when every series of it is requested. Gauges
 * have none, nor services in whose sum too little is saved. Private. */
#ifndef PYRRHA_TSDB_AGGREGATE_H
#define PYRRHA_TSDB_AGGREGATE_H

#include "tsdb/part/part.h"
#include "tsdb/version/db.h"

struct aggregate_member {
	uint32_t series;            /* in ascending order */
	const struct chunk *chunk;  /* NULL: only grouped */
	struct sealed_times times;  /* of its encoded window */
	uint64_t samples;
	uint32_t aggregate;         /* out: 0 or one more than the aggregate's number */
};

struct aggregate {
	struct sealed_buffers b;
	VEC(uint32_t) members;      /* indices of members */
};

struct aggregates {
	VEC(struct aggregate) v;    /* by number */
};

/* Groups the members by service, without gauges, and drops groups of one. */
void aggregates_group(struct aggregates *ret, struct partition *p, struct aggregate_member *m, size_t n);
/* Also encodes them; those that save too little are dropped. */
int aggregates_encode(struct aggregates *ret, struct partition *p, struct aggregate_member *m, size_t n,
		      struct sealed_scratch *scratch, struct err *e) MUST_USE;
void aggregates_release(struct aggregates *a);

#endif
