/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of a V8 heap in a live process. A tagged word is an object's address plus 1, a small integer in the upper half with 0 below, or a
 * weak reference (plus 3). Everything is hostile: an object is of a type only once that was read. The room's own header. */
#ifndef PYRRHA_AGENT_V8_HEAP_H
#define PYRRHA_AGENT_V8_HEAP_H

#include "agent/v8/layout.h"

#define V8_STRING_DEPTH_MAX 16
#define V8_NAME_BYTES_MAX 1024       /* of a name or a file, in UTF-8; what is longer is cut, and ends in "..." */
#define V8_LINES_MAX 8192            /* positions that are made into lines at once */

struct v8_heap {
	const struct v8_facts *x;
	const struct v8_layout *l;
	struct process_memory *m;
	struct err *e;
};

/* A function, by its SharedFunctionInfo. */
struct v8_function {
	uint64_t shared, script;         /* script 0: it has none */
	int64_t start;                   /* position in the source; -1: not known */
	struct buf name, file;           /* empty: it has none */
};

static inline bool v8_is_tagged(uint64_t v)
{
	return (v & 3) == 1 && v < (1ull << 47);
}

static inline bool v8_is_smi(uint64_t v)
{
	return !(uint32_t)v;
}

/* A word of an object. ERR_BAD_DATA: that is no object; else as process_memory_read. */
int v8_word(const struct v8_heap *h, uint64_t object, uint64_t at, uint64_t *ret) MUST_USE;
int v8_half(const struct v8_heap *h, uint64_t object, uint64_t at, uint32_t *ret) MUST_USE;
/* The type of an object; never 0 (which is a string's) for what is none: ERR_BAD_DATA. */
int v8_type(const struct v8_heap *h, uint64_t object, uint32_t *ret) MUST_USE;
/* Whether it is an object of that type; type 0 stands for one that this version does not have. Errors are a no. */
bool v8_is(const struct v8_heap *h, uint64_t object, uint32_t type);
bool v8_is_bytes(const struct v8_heap *h, uint64_t object);
bool v8_is_array(const struct v8_heap *h, uint64_t object);
/* Element i of an array of tagged words, with the weak bit cleared. */
int v8_element(const struct v8_heap *h, uint64_t array, uint32_t i, uint64_t *ret) MUST_USE;
/* A byte array's content. ERR_LIMIT: it has more than max. */
int v8_bytes(const struct v8_heap *h, uint64_t object, size_t max, struct buf *ret, struct err *e) MUST_USE;
/* A string in UTF-8, cut at V8_NAME_BYTES_MAX. */
int v8_string(const struct v8_heap *h, uint64_t object, struct buf *ret) MUST_USE;

/* What is to be known of a function. ERR_BAD_DATA: shared is none. Free it with v8_function_free, also after an error. */
int v8_function_read(const struct v8_heap *h, uint64_t shared, struct v8_function *ret) MUST_USE;
void v8_function_free(struct v8_function *f);
/* The bytecode array of a function; ERR_NOT_FOUND: it is not compiled. */
int v8_function_bytecode(const struct v8_heap *h, uint64_t shared, uint64_t *ret) MUST_USE;
/* The lines of n positions of a script, ascending; 0 for those that cannot be told within the budget of reads. */
void v8_lines(const struct v8_heap *h, uint64_t script, const int64_t *positions, size_t n, int64_t *lines);

#endif
