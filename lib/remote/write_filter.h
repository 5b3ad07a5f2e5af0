/* SPDX-License-Identifier: Apache-2.0 */
/* Which series a receiver gets, and with which labels: the external ones where absent, then write_relabel_configs. The result for a
 * series is cached, up to a limit. */
#ifndef PYRRHA_REMOTE_WRITE_FILTER_H
#define PYRRHA_REMOTE_WRITE_FILTER_H

#include "base/map.h"
#include "remote/backlog.h"
#include "remote/write_config.h"

struct filtered_series {
	struct labels *in, *out; /* owned; out NULL: it is not sent */
	struct backlog_series series;
};

struct write_filter {
	VEC(struct filtered_series *) all;
	struct map by_labels; /* in */
	size_t bytes;
	struct arena arena;   /* relabelling's, between two */
};

void write_filter_release(struct write_filter *c);
/* Forgets everything, if it takes more than max_bytes (0: in any case). Series it returned are gone. */
void write_filter_trim(struct write_filter *c, size_t max_bytes);
/* The series that is sent for this one; NULL: none. Why, if relabelling failed, is in e. */
struct backlog_series *write_filter_get(struct write_filter *c, const struct receiver_config *r, struct labels external, struct labels l, struct err *e);

#endif
