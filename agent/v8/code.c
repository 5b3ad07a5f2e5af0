/* SPDX-License-Identifier: Apache-2.0 */
/* Code is found by its pc, as functions do not lead to all of theirs: a loop was replaced by faster code while it ran, or the function has
 * got other code since. Before the instructions lies an object that points to the Code, or the Code itself: words are looked at
 * backwards from pc until one is the beginning of such an object, which then says itself where its instructions are. */
#include "agent/v8/code.h"

#define CODE_BYTES_MAX (512u << 10)  /* of one function that are looked through */
#define CHUNK_LEAST 64u
#define CHUNK_FIRST 2048u
#define START_ALIGNMENT 32u          /* of a code's first instruction */
#define CHUNK_MAX 16384u
#define OLD_POINTERS 4u              /* tagged words that a Code with its own instructions has after the map */
#define KIND_MASK 15u
#define INLINING_BYTES 16u           /* of an inlining: a position, and the number of its function among the literals */
#define INLINED_ITSELF UINT32_MAX    /* that number: the function that the code is of calls itself */

#define AFTER_CALL 24u               /* bytes after a call that are looked at: up to 9 pops of 2, and a jump */
#define JCC_BYTES 6u
#define AWAY_BYTES_MAX 128u          /* from where code that was put away begins to where its call returns */

#define POSITION_EXTERNAL 1
#define POSITION_OFFSET_MASK 0x3fffffff
#define POSITION_INLINING_SHIFT 31
#define POSITION_INLINING_MASK 0xffff

/* --- finding --- */

static bool code_holds(const struct v8_heap *h, uint64_t object, uint64_t start, uint64_t pc, struct v8_code *ret)
{
	uint32_t bytes, flags;

	if (pc < start || v8_half(h, object, h->l->code_bytes, &bytes) || pc - start >= bytes || !v8_is(h, object, h->l->type_code) ||
	    v8_half(h, object, h->l->code_flags, &flags))
		return false;
	uint32_t kind = flags & KIND_MASK;
	*ret = (struct v8_code){ object, start, bytes,
				 kind == h->l->kind_baseline ? V8_CODE_BASELINE :
				 kind > h->l->kind_baseline  ? V8_CODE_OPTIMISED :
				 kind == h->l->kind_regexp   ? V8_CODE_REGEXP :
							       V8_CODE_OTHER,
				 h->l->kind_maglev && kind == h->l->kind_maglev };
	return true;
}

/* Whether what begins with words w, at an address, is the beginning of the code that pc is in. */
static bool begins(const struct v8_heap *h, const uint64_t *w, uint64_t at, uint64_t pc, struct v8_code *ret)
{
	const struct v8_layout *l = h->l;
	uint64_t start;

	if (!v8_is_tagged(w[0]) || !v8_is_tagged(w[1]))
		return false;
	if (l->stream_bytes)
		return !v8_word(h, w[1], l->code_start, &start) && start == at + l->stream_bytes && code_holds(h, w[1], start, pc, ret);
	for (unsigned i = 2; i <= OLD_POINTERS; i++)
		if (!v8_is_tagged(w[i]))
			return false;
	return code_holds(h, at + 1, at + l->code_start, pc, ret);
}

int v8_code_find(const struct v8_heap *h, uint64_t pc, struct v8_code *ret)
{
	uint64_t words[CHUNK_MAX / 8 + OLD_POINTERS] UNINITIALIZED, next[OLD_POINTERS], low = pc & ~7ull;
	uint64_t looked = 0, chunk = CHUNK_FIRST, after = 0;
	/* How many words the beginning has that are looked at, and how many bytes it is before the first instruction. */
	uint64_t more = h->l->stream_bytes ? 1 : OLD_POINTERS, skip = h->l->stream_bytes ? h->l->stream_bytes : h->l->code_start;

	while (looked < CODE_BYTES_MAX && low > chunk) {
		uint64_t n = chunk / 8;
		/* The words after this chunk are those that the last one began with. */
		memmove(words + n, next, after * sizeof *next);
		int r = process_memory_read(h->m, low - chunk, words, chunk, h->e);
		if (r == -ERR_NOT_FOUND && !h->m->ended && chunk > CHUNK_LEAST) {
			chunk /= 2;
			continue;
		}
		if (r)
			return r;
		low -= chunk;
		for (uint64_t i = n; i-- > 0;)
			if (!((low + i * 8 + skip) % START_ALIGNMENT) && i + more < n + after &&
			    begins(h, words + i, low + i * 8, pc, ret))
				return 0;
		after = OLD_POINTERS;
		memcpy(next, words, sizeof next);
		looked += chunk;
		chunk = MIN(chunk * 2, CHUNK_MAX);
	}
	return err_set(h->e, ERR_NOT_FOUND, "no code of V8's has its instructions at %#llx", (unsigned long long)pc);
}

/* --- tables of positions --- */

/* A number, 7 bits in each byte, the lowest first; the top bit says that more follow. */
static bool vlq(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
		uint8_t b = *(*p)++;
		v |= (uint64_t)(b & 127) << shift;
		if (!(b & 128)) {
			*ret = v;
			return true;
		}
	}
	return false;
}

/* The same with the sign in the lowest bit, as the complement. */
static bool vlq_signed(const uint8_t **p, const uint8_t *end, int64_t *ret)
{
	uint64_t v;

	if (!vlq(p, end, &v))
		return false;
	*ret = (int64_t)(v >> 1 ^ -(v & 1));
	return true;
}

bool v8_positions_next(struct v8_positions *t)
{
	uint64_t code;
	int64_t position;

	if (!vlq(&t->p, t->end, &code) || !vlq_signed(&t->p, t->end, &position))
		return false;
	/* Its sign, which is the complement, says whether a statement begins there; or its lowest bits do. */
	t->code = (int64_t)((uint64_t)t->code + (code >> (t->kind_bits ? t->kind_bits : 1)));
	t->position = (int64_t)((uint64_t)t->position + (uint64_t)position);
	return t->code <= UINT32_MAX;
}

int64_t v8_position_source(int64_t packed)
{
	if (packed & POSITION_EXTERNAL)
		return -1;
	return (packed >> 1 & POSITION_OFFSET_MASK) - 1;
}

static int64_t inlining_of(int64_t packed)
{
	return (packed >> POSITION_INLINING_SHIFT & POSITION_INLINING_MASK) - 1;
}

/* --- optimised code --- */

static bool deopt_element(const struct v8_heap *h, const struct v8_code *c, uint32_t i, uint64_t *ret)
{
	uint64_t data;

	return !v8_word(h, c->object, h->l->code_deopt, &data) && v8_is_array(h, data) && !v8_element(h, data, i, ret);
}

uint64_t v8_code_function(const struct v8_heap *h, const struct v8_code *c)
{
	uint64_t shared;

	if (c->kind != V8_CODE_OPTIMISED || !deopt_element(h, c, h->l->deopt_shared, &shared))
		return 0;
	if (v8_is(h, shared, h->l->type_wrapper) && v8_word(h, shared, h->l->wrapper_shared, &shared))
		return 0;
	return v8_is(h, shared, h->l->type_shared) ? shared : 0;
}

/* The packed position at an offset in code. ret_before: the table begins after it. */
static bool position_at(const struct v8_heap *h, const struct v8_code *c, uint64_t offset, int64_t *ret, bool *ret_before)
{
	struct buf b = { .max = V8_TABLE_BYTES_MAX };
	uint64_t table;
	bool found = false;

	*ret_before = false;

	if (!v8_word(h, c->object, h->l->code_positions, &table) && !v8_bytes(h, table, V8_TABLE_BYTES_MAX, &b, h->e)) {
		struct v8_positions t = { (const uint8_t *)b.ptr, (const uint8_t *)b.ptr + b.len, h->l->position_kind_bits, -1, 0 };
		while (v8_positions_next(&t)) {
			*ret_before = !found && t.code > (int64_t)offset;
			if (t.code > (int64_t)offset)
				break;
			*ret = t.position;
			found = true;
		}
	}
	buf_free(&b);
	return found;
}

/* How many calls were inlined. */
static uint64_t inlinings_of(const struct v8_heap *h, uint64_t inlinings)
{
	uint64_t bytes;

	if (v8_word(h, inlinings, 8, &bytes))
		return 0;
	return (v8_is_smi(bytes) ? bytes >> 32 : (uint32_t)bytes) / INLINING_BYTES;
}

/* The function that was inlined, and the packed position of the call. */
static bool inlined(const struct v8_heap *h, uint64_t outer, uint64_t inlinings, uint64_t literals, int64_t i, uint64_t *ret_shared,
		    int64_t *ret_position)
{
	uint64_t w[INLINING_BYTES / 8], shared;

	if ((uint64_t)i >= inlinings_of(h, inlinings) ||
	    process_memory_read(h->m, inlinings - 1 + 16 + (uint64_t)i * INLINING_BYTES, w, sizeof w, h->e))
		return false;
	if ((uint32_t)w[1] == INLINED_ITSELF)
		shared = outer;
	else if (v8_element(h, literals, (uint32_t)w[1], &shared))
		return false;
	if (v8_is(h, shared, h->l->type_wrapper) && v8_word(h, shared, h->l->wrapper_shared, &shared))
		return false;
	*ret_shared = shared;
	*ret_position = (int64_t)w[0];
	return v8_is(h, shared, h->l->type_shared);
}

/* The barrier of a store of an object is such code: a call, what gives saved registers back, and a jump to behind the one jump that leads there. The
 * position that the table has for it is that of whatever came last. */
uint64_t v8_code_asked_for(const struct v8_heap *h, const struct v8_code *c, uint64_t ra)
{
	uint64_t to, from, asked = ra - 1, end = c->start + c->bytes;
	uint8_t b[AFTER_CALL], jump[JCC_BYTES];
	int32_t rel;
	size_t i = 0;

	if (ra - c->start > c->bytes || end - ra < sizeof b || process_memory_read(h->m, ra, b, sizeof b, h->e))
		return asked;
	while (i + 6 < sizeof b && ((b[i] & 0xf8) == 0x58 || (b[i] == 0x41 && (b[i + 1] & 0xf8) == 0x58)))
		i += b[i] == 0x41 ? 2 : 1;                                         /* pop */
	if (b[i] != 0xe9)                                                          /* jmp */
		return asked;
	memcpy(&rel, b + i + 1, sizeof rel);
	to = ra + i + 5 + (uint64_t)(int64_t)rel;
	if (to <= c->start + sizeof jump || to >= ra || process_memory_read(h->m, to - sizeof jump, jump, sizeof jump, h->e) ||
	    jump[0] != 0x0f || (jump[1] & 0xf0) != 0x80)                               /* jcc */
		return asked;
	memcpy(&rel, jump + 2, sizeof rel);
	from = to + (uint64_t)(int64_t)rel;
	return from > to && from < ra && ra - from < AWAY_BYTES_MAX ? to - 1 : asked;
}

/* Whether a call has no position. Where a file begins, no function but a file's own can have one. */
static bool no_position(int64_t packed)
{
	return v8_position_source(packed) <= 0;
}

size_t v8_code_calls(const struct v8_heap *h, const struct v8_code *c, uint64_t pc, bool leaf, struct v8_call calls[V8_INLINED_MAX])
{
	uint64_t outer = v8_code_function(h, c), inlinings, literals, shared;
	int64_t position, i;
	bool before;
	size_t n = 0;

	if (!outer)
		return 0;
	if (!deopt_element(h, c, h->l->deopt_inlining, &inlinings) || !v8_is_bytes(h, inlinings) ||
	    !deopt_element(h, c, h->l->deopt_literals, &literals) || !v8_is_array(h, literals))
		inlinings = 0;
	if (!position_at(h, c, pc - c->start, &position, &before)) {
		if (before) {
			calls[0] = (struct v8_call){ outer, V8_AT_BEGIN };
			return 1;
		}
		position = 0;
	}
	/* V8 gives a call without a position to a function further out, even where one that was inlined in between made it: that of
	 * forEach's callback, for one. */
	if (!leaf && no_position(position) && inlinings && inlinings_of(h, inlinings))
		calls[n++] = (struct v8_call){ 0, -1 };
	while (n < V8_INLINED_MAX - 2 && (i = inlining_of(position)) >= 0) {
		int64_t at = v8_position_source(position);
		if (!inlinings || !inlined(h, outer, inlinings, literals, i, &shared, &position))
			return 0;
		calls[n++] = (struct v8_call){ shared, at };
		if (no_position(position))
			calls[n++] = (struct v8_call){ 0, -1 };
	}
	calls[n++] = (struct v8_call){ outer, v8_position_source(position) };
	return n;
}

/* --- baseline code --- */

/* The offset of the bytecode after the one at i; 0: it is not known how long that is. */
static size_t bytecode_after(const struct v8_facts *x, const uint8_t *code, size_t n, size_t i)
{
	uint32_t scale = 0, op = code[i];
	size_t prefix = 0;

	/* Wide and ExtraWide, and what a debugger has in their place. */
	if (op <= 3) {
		scale = op & 1 ? 2 : 1;
		prefix = 1;
		if (i + 1 >= n)
			return 0;
		op = code[i + 1];
	}
	if (!x->bytecode_bytes || op >= x->n_bytecodes || !x->bytecode_bytes[scale * x->n_bytecodes + op])
		return 0;
	return i + prefix + x->bytecode_bytes[scale * x->n_bytecodes + op];
}

/* The table has, for the function's entry and then for each bytecode, how many bytes of code it became. */
static int64_t walk_offsets(const struct v8_facts *x, struct view table, struct view code, uint64_t offset)
{
	const uint8_t *p = (const uint8_t *)table.ptr, *end = p + table.len;
	uint64_t at = 0, bytes;
	size_t i = 0;
	bool entry = true;

	while (i < code.len && vlq(&p, end, &bytes)) {
		at += bytes;
		if (offset < at)
			return (int64_t)i;
		if (entry) {
			entry = false;
			continue;
		}
		i = bytecode_after(x, (const uint8_t *)code.ptr, code.len, i);
		if (!i)
			return -1;
	}
	return -1;
}

int64_t v8_baseline_bytecode(const struct v8_heap *h, const struct v8_code *c, uint64_t shared, uint64_t pc)
{
	struct buf table = { .max = V8_TABLE_BYTES_MAX }, code = { .max = V8_TABLE_BYTES_MAX };
	uint64_t array, offsets, n;
	int64_t at = -1;

	if (!v8_function_bytecode(h, shared, &array) && !v8_word(h, c->object, h->l->code_positions, &offsets) &&
	    !v8_word(h, array, 8, &n) && !v8_bytes(h, offsets, V8_TABLE_BYTES_MAX, &table, h->e)) {
		n = v8_is_smi(n) ? n >> 32 : (uint32_t)n;
		if (n <= V8_TABLE_BYTES_MAX && !process_memory_append(h->m, array - 1 + h->l->array_data, n, &code, h->e))
			at = walk_offsets(h->x, buf_view(&table), buf_view(&code), pc - c->start);
	}
	buf_free(&table);
	buf_free(&code);
	return at;
}
