/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols in the form of a sealed part: the rows of dict.h as columns, so that similar values are adjacent, and numbers as
 * differences. A short-lived process adds a pid, a label set with it and a column or two. In rows these take 8, 5 and 4 bytes after
 * zstd, in columns 2 to 3, 1 and 1. Pure: bytes in, bytes out; nothing is looked up. docs/format/partition.md draws it. */
#ifndef PYRRHA_TSDB_DICT_PACK_H
#define PYRRHA_TSDB_DICT_PACK_H

#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"

/* Rows (what dict_encode writes) into columns, appended to out. ERR_CORRUPT if they are malformed, ERR_LIMIT if out is full. */
int dict_pack(struct buf *out, struct view rows, struct err *e) MUST_USE;
/* And back: the same bytes, appended to out. */
int dict_unpack(struct buf *out, struct view packed, struct err *e) MUST_USE;

/* One table of the columns: what can be read, or stepped over, without the others. */
#define DICT_MAX_STREAMS 6
struct dict_section {
	uint8_t table;     /* ROWS_*, or DICT_SERIES */
	uint64_t first, n; /* of its entries */
	struct view bytes; /* all of it, as dict_unpack takes it */
	struct view streams[DICT_MAX_STREAMS];
};
/* False at the end, and when they are malformed: then c->bad. */
bool dict_next_section(struct cursor *c, struct dict_section *ret);

/* A stream of numbers: of functions, nodes, stacks or columns. */
struct dict_field {
	struct cursor in;
	unsigned stream;
	uint8_t table;
	uint64_t before, highest;
};
void dict_field_init(struct dict_field *f, const struct dict_section *x, unsigned stream);
/* The next n; false if there are fewer. */
bool dict_field_get(struct dict_field *f, uint64_t *out, size_t n);

#endif
