/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus's remote-write 1.0: a snappy block that holds a protobuf message of float series. In: a receiver in front
 * of a sink. Out: the message for a sender. */
#ifndef PYRRHA_REMOTE_REMOTE_H
#define PYRRHA_REMOTE_REMOTE_H

#include "base/buf.h"
#include "base/budget.h"
#include "model/sink.h"

struct remote_limits {
	size_t max_bytes;   /* of the message, decompressed; 0 = 32 MiB */
	size_t max_labels;  /* of one series; 0 = 64 */
	struct budget *memory; /* the memory of all messages that are being decoded; borrowed; NULL = unlimited */
};

struct remote_result {
	uint64_t samples;   /* accepted */
	uint64_t rejected;  /* duplicates, too old, too new, too many series: the sender must not send them again */
	uint64_t duplicates; /* of the rejected ones: what is stored already */
};

/* Takes in a request's body and returns when it is durable. ERR_BAD_DATA (the sender must not repeat it): damaged, labels
 * out of order, twice or without a name, no valid UTF-8; then nothing was taken. ERR_LIMIT: over a limit, or the message alone needs more than
 * lim->memory. ERR_IO, ERR_UNAVAILABLE, ERR_BUSY (other messages hold that memory): the sender may repeat it. Thread-safe. */
int remote_receive(struct sink *s, struct view body, const struct remote_limits *lim, struct remote_result *ret,
		   struct err *e) MUST_USE;

/* Appends the compressed message for these samples; equal label sets that follow each other become one series. */
int remote_encode(const struct sink_float *floats, size_t n, struct buf *out, struct err *e) MUST_USE;

#endif
