/* SPDX-License-Identifier: Apache-2.0 */
/* The first and the last profile of each series in a part of an hour. Beside the covers (part_cover.h) the generation of a day in the bucket has
 * them (docs/format/bucket.md, ends): a rate whose windows end on whole hours then reads no stamps, as all other profiles of the hour count whole.
 *
 *	    first         the others               last
 *	──(══╪════)(═════════╪══ ··· ══╪═════════)(════╪┄┄┄┄┄)──
 *	   hour ┘    └ others_after                    └ stamp  └ stamp + interval
 *
 * Any thread. */
#ifndef PYRRHA_TSDB_PART_ENDS_H
#define PYRRHA_TSDB_PART_ENDS_H

#include "tsdb/part/part_cover.h"

/* Of a series whose cover is known, whose weight is 1 and that has no marker, or one behind all profiles. Times from the part's start. */
struct part_end {
	int64_t first_total, last_total;        /* if the series has one profile, both totals are that one's */
	uint32_t first_cover_ms, last_cover_ms; /* lengths of time, above 0 */
	uint32_t last_ms;                       /* stamp of the last profile; the first one's is the series' first stamp, a marker's its last one */
	uint32_t interval_ms;                   /* of the last profile */
	int32_t others_after_ms;                /* no profile but the first covers time before this */
	bool here;
};

/* One block of memory. */
struct part_ends {
	size_t n;
	struct part_end v[]; /* of each series of the part, in the order of part.series */
};

struct part_ends *part_ends_new(const struct part *p);
/* Fills in the entry of a series, by its columns and its cover, if it can have one. */
void part_ends_add(const struct part *p, const struct part_series *x, const struct sealed_columns *c, const struct part_cover *cover, struct part_end *ret);
/* Appends the payload. covers: of the same part. */
void part_ends_encode(const struct part *p, const struct part_covers *covers, const struct part_ends *ends, struct buf *b);
/* *ret is to be freed by free. ERR_CORRUPT: the payload is malformed, or not of this part and these covers. */
int part_ends_decode(const struct part *p, const struct part_covers *covers, struct view v, struct part_ends **ret, struct err *e) MUST_USE;
/* The ends of a series, if its generation has them, valid as long as the part; else NULL. covers: part_covers_of the part, which has a cover of the series then. */
const struct part_end *part_ends_known(struct part *p, const struct part_covers *covers, const struct part_series *x);
/* Bytes of memory. */
size_t part_ends_bytes(const struct part *p);

#endif
