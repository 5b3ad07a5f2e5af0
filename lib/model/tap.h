/* SPDX-License-Identifier: Apache-2.0 */
/* The output seam of storage, for users such as remote-write that need every accepted float, in order. It gets only durable
 * floats, with growing numbers. After a restart it says up to which number it is complete, and gets the later ones from the
 * log. So a crash neither loses a float nor repeats one. */
#ifndef PYRRHA_MODEL_TAP_H
#define PYRRHA_MODEL_TAP_H

#include <stdatomic.h>

#include "base/err.h"
#include "model/sink.h"

struct tap {
	/* Whether it wants any floats now; when not, it is only told the numbers. Set by its owner, whenever. */
	atomic_bool wanted;
	/* Once, when the storage directory is ours and before its log is read. *ret_has: it wants what has a higher number (UINT64_MAX:
	 * nothing that was there before). *ret_last: the last number that it has seen; the next ones must be above. */
	int (*open)(struct tap *t, uint64_t *ret_has, uint64_t *ret_last, struct err *e);
	/* Once, when the log has been read up to `number`. */
	void (*ready)(struct tap *t, uint64_t number);
	/* These are all floats of the records after those of the previous call and up to `number`, which may be the same if n is 0. Everything is
	 * copied before it returns. It may wait a moment when it is behind, but never for the network or for an unlimited time. One call at a
	 * time. */
	void (*take)(struct tap *t, uint64_t number, const struct sink_float *floats, size_t n);
	/* Up to which number it has synced everything: the log may forget what is not above. Thread-safe. */
	uint64_t (*durable)(struct tap *t);
};

#endif
