/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled code of V8: which Code a pc is in, and the calls that stand for it there. The room's own header. */
#ifndef PYRRHA_AGENT_V8_CODE_H
#define PYRRHA_AGENT_V8_CODE_H

#include "agent/v8/heap.h"

#define V8_TABLE_BYTES_MAX 65536
#define V8_INLINED_MAX 32            /* calls at one pc */

enum v8_code_kind { V8_CODE_OTHER, V8_CODE_REGEXP, V8_CODE_BASELINE, V8_CODE_OPTIMISED };

struct v8_code {
	uint64_t object, start, bytes;
	enum v8_code_kind kind;
	bool maglev;                     /* of optimised code */
};

#define V8_AT_BEGIN (-2)             /* a position: before the first of the table, where the function begins */

/* A call, by position in its function's source. */
struct v8_call {
	uint64_t shared;                 /* 0: not a call: functions that were inlined may be missing here */
	int64_t position;                /* -1: not known; V8_AT_BEGIN */
};

/* The Code that a pc is in. ERR_NOT_FOUND: there is none. */
int v8_code_find(const struct v8_heap *h, uint64_t pc, struct v8_code *ret) MUST_USE;
/* The function that optimised code is of; 0: none. */
uint64_t v8_code_function(const struct v8_heap *h, const struct v8_code *c);
/* Where the call really returns to whose frame returns to an address: V8 replaces that in code that has become void. */
uint64_t v8_code_called_from(const struct v8_heap *h, const struct v8_code *c, uint64_t ra);
/* The pc to ask v8_code_calls for, of a call that returns to an address. Code that was put at the end, out of the way, has no positions of
 * its own: then it is where the jump to there is. */
uint64_t v8_code_asked_for(const struct v8_heap *h, const struct v8_code *c, uint64_t ra);
/* The calls at a pc of optimised code, innermost first; their number, 0 if nothing is known. leaf: the code itself runs there. */
size_t v8_code_calls(const struct v8_heap *h, const struct v8_code *c, uint64_t pc, bool leaf, struct v8_call calls[V8_INLINED_MAX]);
/* The offset of the bytecode at a pc of baseline code of that function; -1: not known. */
int64_t v8_baseline_bytecode(const struct v8_heap *h, const struct v8_code *c, uint64_t shared, uint64_t pc);

/* The entries of a table of source positions, in order. The first offset is counted from -1, which stands for the function's entry. */
struct v8_positions {
	const uint8_t *p, *end;
	uint32_t kind_bits;              /* as in the layout */
	int64_t code, position;          /* of the last entry: an offset in code or bytecode, a packed position */
};

/* False: there are no more, or what follows is malformed. */
bool v8_positions_next(struct v8_positions *t);
/* The position in the source of a packed one; -1: it is none. */
int64_t v8_position_source(int64_t packed);

#endif
