/* SPDX-License-Identifier: Apache-2.0 */
/* What the profiles of a series come to in one part: their number, total and weight, and the time that they cover. A part never changes, so this is
 * kept with it once a query has asked, and the generation of a day in the bucket has it of each hour (docs/format/bucket.md, covers): whoever reads
 * the day there needs no file for it.
 *
 *	columns of TOTALS ──part_cover_read──► struct part_covers ◄──part_covers_decode── payload of a generation
 *	                  └─part_covers_encode─► payload of a generation
 *
 * Any thread. */
#ifndef PYRRHA_TSDB_PART_COVER_H
#define PYRRHA_TSDB_PART_COVER_H

#include "model/source.h"
#include "tsdb/part/part_read.h"

/* In a generation. Series with more holes are absent there. */
#define PART_COVER_SPANS_MAX 256  /* of a series */
#define PART_COVER_LIST_MAX 65536 /* of all series of a part that have several */

/* A stretch (after, until], from the part's start. */
struct part_span {
	int32_t after_ms;
	uint32_t until_ms;
};

enum part_cover_state {
	COVER_NOT_ASKED,
	COVER_TAKEN, /* by the thread that fills it in */
	COVER_KNOWN, /* its profiles cover one stretch */
	COVER_SPANS, /* they cover several; only a generation says which */
	COVER_MANY   /* of both signs, of several weights, or of several stretches: the columns are read each time */
};

/* A series in a whole part, if its profiles have one sign and one weight. */
struct part_cover {
	int64_t total, period;
	double weight;              /* of each profile */
	union {
		struct part_span span;  /* COVER_KNOWN */
		struct {
			uint32_t first, n;  /* COVER_SPANS: places in the list of spans */
		} list;
	};
	uint32_t n;
	uint16_t n_stale;
	_Atomic uint16_t state;     /* enum part_cover_state */
};

/* One block of memory. */
struct part_covers {
	size_t n_spans;
	struct part_span *spans;
	struct part_cover v[];      /* by place in the part's series */
};

/* Adds the rows [lo, hi) of a series. hidden says whether a stamp is deleted; NULL: none is. */
void part_cover_add_rows(const struct sealed_columns *c, size_t lo, size_t hi, bool (*hidden)(void *arg, int64_t t_ms), void *arg, struct source_cover *ret);
/* Adds the cover of all profiles of a series of the part, if it is known already. False: it is not, and part_cover_read has to read the part. The
 * series is one of profiles, not of floats. */
bool part_cover_known(struct part *p, const struct part_series *x, struct source_cover *ret);
/* Reads the series' columns, adds the cover of all its profiles, and keeps it with the part if it is small. */
int part_cover_read(struct part *p, const struct part_series *x, struct part_scratch *w, struct source_cover *ret, struct err *e) MUST_USE;

/* Reads the columns of all series of a part and appends the payloads of their covers and of their first and last profiles (part_ends.h). A series that
 * cannot be read is absent in both. */
void part_covers_put(const struct part *p, struct buf *covers, struct buf *ends);
/* The same of first and last profiles alone, beside a payload of covers that may know of series which cannot be read any more. An error: that is
 * malformed, or not of this part, and nothing is appended. */
int part_ends_put(const struct part *p, struct view covers, struct buf *ends) MUST_USE;
/* Appends the payload of these. */
void part_covers_encode(const struct part *p, const struct part_covers *c, struct buf *b);
/* *ret is to be freed by free. ERR_CORRUPT: the payload is malformed, or not of this part. */
int part_covers_decode(const struct part *p, struct view v, struct part_covers **ret, struct err *e) MUST_USE;
int part_covers_check(const struct part *p, struct view v, struct err *e) MUST_USE;
/* The same, and of the payload of first and last profiles beside them, which may be empty. */
int part_covers_check_both(const struct part *p, struct view covers, struct view ends, struct err *e) MUST_USE;
/* Those that are kept with the part. At first they are what its generation says. */
struct part_covers *part_covers_of(struct part *p);

/* Bytes of memory of a part's index and of the covers that are kept with it. */
size_t part_index_bytes(const struct part *p);

#endif
