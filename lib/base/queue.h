/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded, closable queue of pointers between two stages; any number of producers and consumers.
 * Full: queue_push waits, queue_try_push counts a drop and refuses. Closed: pushes are refused; pops return the
 * remaining elements and then report the end. Sizes are in items and, if a byte bound is set, in bytes as told by
 * the producer. */
#ifndef PYRRHA_BASE_QUEUE_H
#define PYRRHA_BASE_QUEUE_H

#include "base/attrs.h"

struct queue;

/* max_items >= 1; max_bytes 0 = no bound (an item larger than the bound still enters an empty queue). */
struct queue *queue_new(size_t max_items, size_t max_bytes) MUST_USE;
/* Frees the queue; items left in it are the caller's loss: drain first. */
void queue_free(struct queue *q);
/* Waits for room. False: the queue is closed and the item stays the caller's. */
bool queue_push(struct queue *q, void *item, size_t bytes);
/* False: full (counted as a drop) or closed. */
bool queue_try_push(struct queue *q, void *item, size_t bytes);
/* Waits at most wait_ms (-1 = no limit, 0 = not at all). NULL: nothing came, or closed and drained. */
void *queue_pop(struct queue *q, int wait_ms);
void queue_close(struct queue *q);
bool queue_closed(const struct queue *q);
size_t queue_len(const struct queue *q);
size_t queue_bytes(const struct queue *q);
uint64_t queue_dropped(const struct queue *q);

#endif
