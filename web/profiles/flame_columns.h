/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph as columns for the page, and the lists of frames that clients have of earlier answers. */
#ifndef PYRRHA_WEB_FLAME_COLUMNS_H
#define PYRRHA_WEB_FLAME_COLUMNS_H

#include "model/flame.h"
#include "web/profiles/merged.h"

/* Frame lists that clients keep from earlier answers: a list of frames, as its keyed hashes, under a name that is a hash of it. For a
 * frame in the client's list only its index is sent. Bounded: the lists that were not asked for the longest go; a client whose list is
 * gone gets all frames. Any thread. */
struct frame_lists;
struct frame_lists *frame_lists_new(size_t most_frames);
void frame_lists_free(struct frame_lists *l);

/* The numbering of an answer's frames: first those that the client has, in its list's order, then the new ones, by name. Its list is
 * from now on the old one with the new ones behind it. */
struct frame_numbers {
	uint64_t of;        /* the list that is meant by `known`; 0: none */
	uint64_t list;      /* the name of the client's list from now on; 0: it is too long to be kept */
	uint32_t *known;    /* places in that list, ascending */
	uint32_t *new;      /* frames of the flame */
	uint32_t *of_frame; /* number by frame of the flame */
	size_t n_known, n_new;
};

/* list: what the client says it has; 0, or one that is gone: nothing. Release with frame_numbers_release. */
void frame_lists_number(struct frame_lists *l, uint64_t list, const struct flame *f, struct frame_numbers *ret);
void frame_numbers_release(struct frame_numbers *n);

/* Appends the data object to head, the columns to out. list: see frame_lists_number. */
int flamegraph_columns(struct frame_lists *lists, uint64_t list, const struct merged_profile *m, const struct flame_ask *ask,
		       const struct permit *permit, struct buf *head, struct buf *out, struct err *e) MUST_USE;

#endif
