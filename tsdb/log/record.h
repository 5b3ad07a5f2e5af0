/* SPDX-License-Identifier: Apache-2.0 */
/* Codec of the head log's records. A record is
 *
 *	version u8 | kind u8 | partition u32 | payload | checksum u64       (integers of fixed size are big-endian)
 *
 * under the key `number u64`. The checksum is XXH3 of the preceding bytes, seeded with the number, so a record under another number is
 * detected like a flipped bit. docs/format/head.md has the payloads byte by byte. Pure: bytes in, bytes out. */
#ifndef PYRRHA_TSDB_RECORD_H
#define PYRRHA_TSDB_RECORD_H

#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/vec.h"

#define RECORD_VERSION 1
#define RECORD_HEADER 6

enum record_kind { RECORD_SAMPLES = 1, RECORD_SYMBOLS = 2, RECORD_FACT = 3, RECORD_FLOATS = 4 };

enum fact_kind { FACT_DELETE = 1, FACT_NAMES = 2, FACT_GONE = 3, FACT_VOID = 4 };

struct record {
	enum record_kind kind;
	uint32_t partition;
	struct view payload;
};

/* Starts a record in an empty buf; the payload is appended to it, then record_end seals it with its number. */
void record_begin(struct buf *b, enum record_kind kind, uint32_t partition);
void record_end(struct buf *b, uint64_t number);
/* ERR_CORRUPT with the reason. The payload borrows v. */
/* Whether it only replaces one whose commit failed. */
bool record_is_void(const struct record *r);
int record_parse(uint64_t number, struct view v, struct record *ret, struct err *e) MUST_USE;

/* A profile's fields besides its samples; the same for all of its series. */
struct sample_meta {
	int64_t duration_ns, period;
	uint32_t interval_ms, asked_ms;
};

#define RECORD_MAX_TYPES 64

enum values_mode { VALUES_UNSIGNED = 0, VALUES_SIGNED = 1, VALUES_TIMES = 2 };

/* One profile of a samples record: several series (its sample types) share the columns. */
struct record_profile {
	uint32_t n_series, series[RECORD_MAX_TYPES];
	int64_t t_ms;
	uint32_t cover_ms;
	bool stale; /* a marker: no meta, no samples */
	struct sample_meta meta;
	size_t n; /* samples */
	VEC(uint32_t) columns;  /* ascending, unique */
	VEC(int64_t) values;    /* n_series rows of n */
	uint8_t times_of[RECORD_MAX_TYPES]; /* filled by reading: index of the series it is a multiple of, else 0xff */
	int64_t factor[RECORD_MAX_TYPES];
};

void record_profile_release(struct record_profile *p);
/* Takes series i out of a profile. A multiple of it keeps its own values from here on: they are here. */
void record_drop_series(struct record_profile *p, uint32_t i);
/* Appends one profile to a samples payload. */
void record_put_profile(struct buf *b, const struct record_profile *p);
/* The next profile; false at the end, and with c->bad set when the payload is malformed. */
bool record_get_profile(struct cursor *c, struct record_profile *p);

struct record_float {
	uint32_t series;
	int64_t t_ms;
	uint64_t bits;
};
void record_put_float(struct buf *b, const struct record_float *f);
bool record_get_float(struct cursor *c, struct record_float *f);

#endif
