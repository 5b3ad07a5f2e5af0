/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, written into a buffer piece by piece. The writer has no state of its own. A comma is put before a key or a value, unless the
 * buffer is empty or its last byte shows that none is needed: { [ : , or white space. So a member or an element may be left out, or
 * removed again by resetting the length. Writers need not know what was written before.
 *
 *	json_object_begin(b);
 *	json_field(b, "name", name);
 *	json_array_begin_at(b, "points");
 *	for (...)
 *		json_float(b, v);
 *	json_array_end(b);
 *	json_object_end(b);
 *
 * Keys that are C strings are constants of this program: they are written without escapes. A value after another text in the
 * same buffer (lines of JSON) has to follow white space. Errors: as of a buffer, `overflow`. */
#ifndef PYRRHA_BASE_JSON_H
#define PYRRHA_BASE_JSON_H

#include "base/buf.h"

/* ---- objects and arrays; _at: as the member of an object ---- */

void json_object_begin(struct buf *b);
void json_object_begin_at(struct buf *b, const char *key);
void json_object_end(struct buf *b);
void json_array_begin(struct buf *b);
void json_array_begin_at(struct buf *b, const char *key);
void json_array_end(struct buf *b);
/* Begins a new line for the next value, after the comma if one is needed, with this many blanks. */
void json_line(struct buf *b, unsigned blanks);

/* ---- keys: a value follows ---- */

void json_key(struct buf *b, const char *key);
void json_key_view(struct buf *b, struct view key); /* any text */

/* ---- values ---- */

void json_text(struct buf *b, struct view v);
void json_int(struct buf *b, int64_t v);
void json_count(struct buf *b, uint64_t v);
void json_bool(struct buf *b, bool v);
void json_null_value(struct buf *b);
/* The comma, if one is due, before a value that another writer writes. */
void json_comma(struct buf *b);
/* JSON from elsewhere, not empty: a value, or members of an object without its braces. */
void json_raw(struct buf *b, struct view v);
/* A bare number: the shortest digits that read back, without an exponent from 1e-6 to 2^63. Beyond 2^63 it has one,
 * because readers that take a number without an exponent for an integer would fail. Values without a JSON number are
 * strings: "NaN", "+Inf", "-Inf". */
void json_float(struct buf *b, double v);
/* With this many digits after the point; v is finite. */
void json_decimals(struct buf *b, double v, int digits);

/* ---- members ---- */

void json_field(struct buf *b, const char *key, struct view v);
void json_field_text(struct buf *b, const char *key, const char *v);
void json_field_int(struct buf *b, const char *key, int64_t v);
void json_field_count(struct buf *b, const char *key, uint64_t v);
void json_field_bool(struct buf *b, const char *key, bool v);
void json_field_float(struct buf *b, const char *key, double v);
void json_field_raw(struct buf *b, const char *key, struct view v);

/* ---- values as Prometheus writes them ---- */

/* Seconds with milliseconds if there are any: 1700000000.120 */
void json_time(struct buf *b, int64_t t_ms);
/* [time,"value"]: 1.5, 1e+21, NaN, +Inf; no exponent from 1e-6 to 1e21. */
void json_point(struct buf *b, int64_t t_ms, double v);
/* A string with one digit before the point and an exponent of at least two digits: "1.5e+00", "NaN", "+Inf". */
void json_exponent(struct buf *b, double v);

#endif
