/* SPDX-License-Identifier: Apache-2.0 */
/* Three forms of the same: for runs of instructions, how many bytes they have and which line they are of.
 *
 *	3.6 - 3.9   pairs of bytes: instructions to skip, then what to add to the line (signed)
 *	3.10        pairs: bytes of the run, what to add to the line (signed; -128: the run has none)
 *	3.11+       entries: 1 | kind (4 bits) | units of 2 bytes, less one (3 bits); then, by kind, numbers of 6 bits a byte. Only the
 *	            first byte of an entry has its highest bit set */
#include "agent/python/lines.h"

#define NO_LINE (-128)

static int64_t lnotab_line(struct view t, int64_t line, int64_t at)
{
	int64_t end = 0;

	for (size_t i = 0; i + 1 < t.len; i += 2) {
		end += (uint8_t)t.ptr[i];
		if (end > at)
			break;
		line += (int8_t)t.ptr[i + 1];
	}
	return line;
}

static int64_t linetable_line(struct view t, int64_t line, int64_t at)
{
	int64_t end = 0;
	bool begun = false;

	for (size_t i = 0; i + 1 < t.len; i += 2) {
		int8_t delta = (int8_t)t.ptr[i + 1];
		end += (uint8_t)t.ptr[i];
		line += delta == NO_LINE ? 0 : delta;
		begun |= delta != NO_LINE;
		if (at < end)
			return delta == NO_LINE && begun ? 0 : line;
	}
	return 0;
}

enum { KIND_ONE_LINE = 10, KIND_NO_COLUMNS = 13, KIND_LONG = 14, KIND_NONE = 15 };

/* The number that begins at byte i: least significant first, and its lowest bit is the sign. */
static int64_t signed_number(struct view t, size_t i)
{
	uint64_t v = 0;

	for (unsigned shift = 0; i < t.len && shift < 36; i++, shift += 6) {
		uint8_t b = (uint8_t)t.ptr[i];
		v |= (uint64_t)(b & 63) << shift;
		if (!(b & 64))
			break;
	}
	return v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
}

static int64_t location_line(struct view t, int64_t line, int64_t at)
{
	int64_t end = 0;
	bool begun = false;

	for (size_t i = 0; i < t.len;) {
		uint8_t kind = (uint8_t)t.ptr[i] >> 3 & 15;
		end += ((t.ptr[i] & 7) + 1) * 2;
		if (kind == KIND_NO_COLUMNS || kind == KIND_LONG)
			line += signed_number(t, i + 1);
		else if (kind >= KIND_ONE_LINE && kind < KIND_NO_COLUMNS)
			line += kind - KIND_ONE_LINE;
		begun |= kind != KIND_NONE;
		if (at < end)
			return kind == KIND_NONE && begun ? 0 : line;
		for (i++; i < t.len && !((uint8_t)t.ptr[i] & 128); i++)
			;
	}
	return 0;
}

int64_t python_line(unsigned minor, struct view table, int64_t first_line, int64_t at)
{
	int64_t line = first_line;

	if (at >= 0)
		line = minor <= 9 ? lnotab_line(table, first_line, at) :
		       minor == 10 ? linetable_line(table, first_line, at) : location_line(table, first_line, at);
	return MAX(line, 0);
}
