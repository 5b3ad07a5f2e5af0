/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of V8 12.4 as they lie in a process, made by hand: what is read of them, and what of nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include <stdio.h>

#include "agent/v8/code.h"
#include "agent/v8/record.h"
#include "agent/v8/v8.h"

#define AT 0x100000ull               /* where the memory begins */
#define TYPES 512
#define TABLE_BYTES 64               /* room after instructions, for a table of safepoints */

enum { STRING_ONE = 40, STRING_TWO = 32, CONS = 41, EXTERNAL = 42, SLICED = 43, THIN = 45, SHARED = 200, CODE, ARRAY, SCOPE, SCRIPT, BYTES, FIXED, FUNCTION };

/* A heap: objects one after another, a map for each type that is used. */
static struct {
	uint8_t b[1 << 16];
	size_t used;
	uint64_t maps[TYPES];
} heap;

static uint8_t bytecode_bytes[3 * 6] = { 1, 1, 1, 1, 2, 3, 1, 1, 1, 1, 3, 5, 1, 1, 1, 1, 5, 9 };
static struct v8_facts facts = {
	.l = { .function_shared = 32, .shared_name = 16, .shared_script = 32, .shared_lengths = 40, .script_name = 16, .script_source = 8,
	       .script_line_ends = 56, .wrapper_shared = 8, .map_type = 12, .code_start = 40, .code_bytes = 52, .code_flags = 48,
	       .code_deopt = 8, .code_positions = 16, .stream_bytes = 32, .kind_baseline = 10, .kind_regexp = 4, .array_data = 64,
	       .array_positions = 24, .deopt_literals = 2, .deopt_shared = 6, .deopt_inlining = 7, .scope_first = 3,
	       .type_function_first = FUNCTION, .type_function_last = FUNCTION, .type_shared = SHARED, .type_code = CODE, .type_array = ARRAY,
	       .type_scope = SCOPE, .type_script = SCRIPT, .type_no_string = 128, .type_bytes = BYTES, .type_fixed = FIXED },
	.bytecode_bytes = bytecode_bytes,
	.n_bytecodes = 6,
	.markers = { [3] = V8_MARKER_WASM },
};
static const struct runtime_file file = { .version = V8_VERSION(12, 4), .facts = &facts };

static void put(uint64_t object, size_t off, const void *p, size_t n)
{
	assert_true(object - 1 - AT + off + n <= sizeof heap.b);
	memcpy(heap.b + (object - 1 - AT) + off, p, n);
}

static void put64(uint64_t object, size_t off, uint64_t v)
{
	put(object, off, &v, 8);
}

static void put32(uint64_t object, size_t off, uint32_t v)
{
	put(object, off, &v, 4);
}

static uint64_t smi(int64_t v)
{
	return (uint64_t)v << 32;
}

static uint64_t room(size_t n, size_t align)
{
	heap.used = (heap.used + align - 1) / align * align;
	uint64_t at = AT + heap.used + 1;
	heap.used += n;
	return at;
}

static uint64_t object(unsigned type, size_t n)
{
	if (!heap.maps[type]) {
		uint16_t t = (uint16_t)type;
		heap.maps[type] = room(16, 8);
		put(heap.maps[type], 12, &t, 2);
	}
	uint64_t o = room(n, 8);
	put64(o, 0, heap.maps[type]);
	return o;
}

static uint64_t string(const char *s)
{
	uint64_t o = object(STRING_ONE, 16 + strlen(s));

	put32(o, 12, (uint32_t)strlen(s));
	put(o, 16, s, strlen(s));
	return o;
}

static uint64_t pair_string(unsigned type, uint64_t first, uint64_t second, uint32_t length)
{
	uint64_t o = object(type, 32);

	put32(o, 12, length);
	put64(o, 16, first);
	put64(o, 24, second);
	return o;
}

static uint64_t bytes(const void *p, size_t n)
{
	uint64_t o = object(BYTES, 16 + n);

	put64(o, 8, smi((int64_t)n));
	put(o, 16, p, n);
	return o;
}

static uint64_t fixed(const uint64_t *v, size_t n)
{
	uint64_t o = object(FIXED, 16 + 8 * n);

	put64(o, 8, smi((int64_t)n));
	put(o, 16, v, 8 * n);
	return o;
}

static const char source[] = "function outer() {\n  inner();\r\n}\rfunction inner() {\n}\n";

static uint64_t script(uint64_t line_ends)
{
	uint64_t o = object(SCRIPT, 64);

	put64(o, 8, string(source));
	put64(o, 16, string("/app/a.js"));
	put64(o, 24, smi(0));
	put64(o, 56, line_ends);
	return o;
}

/* A function whose code is data; the name is its ScopeInfo's function variable, after two variables. */
static uint64_t function(uint64_t name, int64_t start, uint64_t in, uint64_t data)
{
	uint64_t scope = object(SCOPE, 8 * 12), o = object(SHARED, 64);

	put64(scope, 8, smi(2 | 3 << 12 | 1 << 14));
	put64(scope, 24, smi(2));
	put64(scope, 64, name);
	put64(scope, 80, string("inferred"));
	put64(scope, 88, smi(start));
	put64(o, 8, data);
	put64(o, 16, scope);
	put64(o, 32, in);
	put64(o, 40, 0x1234567890abcdef);
	return o;
}

/* The rows (0: line 1), (2: line 2), (5: line 4). */
static uint64_t bytecode(void)
{
	static const uint8_t code[] = { 4, 9, 5, 9, 9, 4, 9 };
	struct buf t = { 0 };
	uint64_t o = object(ARRAY, 64 + sizeof code);
	static const struct { int64_t code, position; } rows[] = { { 0, 3 }, { 2, 24 }, { 5, 40 } };
	int64_t at = -1, position = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int64_t packed = (rows[i].position + 1) << 1;
		buf_varint(&t, (uint64_t)(rows[i].code - at) << 1 | (i & 1));
		buf_zigzag(&t, packed - position);
		at = rows[i].code;
		position = packed;
	}
	put64(o, 8, smi(sizeof code));
	put64(o, 24, bytes(t.ptr, t.len));
	put(o, 64, code, sizeof code);
	buf_free(&t);
	return o;
}

static int read_object(uint64_t o, uint64_t check, struct buf *record)
{
	struct process_memory m;
	struct err e;

	buf_reset(record);
	process_memory_of_bytes(&m, view_make((const char *)heap.b, sizeof heap.b), AT, 2000, 1 << 20);
	return v8_read_code(&file, &m, o, check, record, &e);
}

static void expect(struct buf *record, uint64_t at, const char *want)
{
	struct runtime_name n[8];
	char got[512] = "";
	size_t k = v8_frames_at(&file, buf_view(record), at, n, ARRAY_LEN(n)), len = 0;

	for (size_t i = 0; i < k; i++)
		len += (size_t)snprintf(got + len, sizeof got - len, "%s%.*s %.*s:%lld@%lld", i ? " < " : "", VIEW_ARG(n[i].name),
					VIEW_ARG(n[i].file), (long long)n[i].line, (long long)n[i].start_line);
	assert_string_equal(got, want);
}

static int setup(void **state)
{
	(void)state;
	memset(&heap, 0, sizeof heap);
	heap.used = 64;
	return 0;
}

static void interpreted(void **state)
{
	struct buf r = { 0 };
	uint64_t ends[] = { smi(18), smi(30), smi(32), smi(52), smi(54) };

	(void)state;
	for (int table = 0; table < 2; table++) {
		uint64_t s = function(string("outer"), 14, script(table ? fixed(ends, ARRAY_LEN(ends)) : smi(0)), bytecode());
		uint64_t o = V8_OBJECT(V8_FUNCTION, s), check = V8_CHECK_FUNCTION(0x1234567890abcdefull);
		assert_int_equal(read_object(o, check, &r), 0);
		expect(&r, 63 + 0, "outer /app/a.js:1@1");
		expect(&r, 63 + 1, "outer /app/a.js:1@1");
		expect(&r, 63 + 2, "outer /app/a.js:2@1");
		expect(&r, 63 + 6, "outer /app/a.js:4@1");
		expect(&r, 0, "outer /app/a.js:0@1");
		assert_int_equal(read_object(o, check ^ 1, &r), -ERR_BAD_DATA);
		assert_int_equal(read_object(o, 0, &r), 0);
	}
	buf_free(&r);
}

#define LONG_CHARS 20000u

/* Sources that are read in pieces, in which lines end in each way; the lines of every tenth position. */
static void lines_of_long_sources(void **state)
{
	static const uint16_t chars[] = { 'a', 'b', '\n', '\r', '\n', 'c', 'd', 0x2028, 'e', 'f', 'g' };
	static int64_t positions[LONG_CHARS / 10], want[LONG_CHARS / 10], got[LONG_CHARS / 10];
	static uint16_t text[LONG_CHARS];
	struct process_memory m;
	struct err e;
	const struct v8_heap h = { &facts, &facts.l, &m, &e };

	for (unsigned wide = 0; wide < 2; wide++) {
		setup(state);
		uint64_t s = object(wide ? STRING_TWO : STRING_ONE, 16 + LONG_CHARS * (wide + 1)), in = script(0);
		int64_t line = 1;
		uint32_t random = 1;
		for (unsigned i = 0; i < LONG_CHARS; i++) {
			random = random * 1103515245 + 12345;
			text[i] = chars[(random >> 16) % ARRAY_LEN(chars)];
			if (!wide && text[i] > 255)
				text[i] = '\r';
			put(s, 16 + i * (wide + 1), &text[i], wide + 1);
		}
		for (unsigned i = 0; i < LONG_CHARS; i++) {
			if (i % 10 == 0) {
				positions[i / 10] = i;
				want[i / 10] = line;
			}
			line += text[i] == '\n' || text[i] == 0x2028 || (text[i] == '\r' && (i + 1 == LONG_CHARS || text[i + 1] != '\n'));
		}
		put32(s, 12, LONG_CHARS);
		put64(in, 8, s);
		process_memory_of_bytes(&m, view_make((const char *)heap.b, sizeof heap.b), AT, 2000, 1 << 20);
		v8_lines(&h, in, positions, ARRAY_LEN(positions), got);
		assert_memory_equal(got, want, sizeof want);
		for (size_t i = 0; i < ARRAY_LEN(positions); i += 37) {
			process_memory_allow(&m, 2000, 1 << 20);
			v8_lines(&h, in, &positions[i], 1, got);
			assert_int_equal(got[0], want[i]);
		}
	}
}

#define HUGE_CHARS 3000000u

/* Sources that take more reading than a function may: what was looked through once is known. */
static void lines_of_huge_sources(void **state)
{
	static uint32_t want[HUGE_CHARS];
	uint8_t *memory = malloc(sizeof heap.b + 2 * (size_t)HUGE_CHARS);
	void *kept = NULL;
	struct process_memory m;
	struct err e;
	const struct v8_heap h = { &facts, &facts.l, &m, &e };
	int64_t line, far = 1 << 24;

	assert_non_null(memory);
	for (unsigned turn = 0; turn < 3; turn++) { /* one byte, another text in its place, two bytes */
		unsigned width = turn == 2 ? 2 : 1;
		uint32_t random = turn + 1;
		setup(state);
		uint64_t s = object(turn == 2 ? EXTERNAL - 8 : EXTERNAL, 32), in = script(0);
		put32(s, 12, HUGE_CHARS);
		put64(s, 24, AT + sizeof heap.b);
		put64(in, 8, s);
		memcpy(memory, heap.b, sizeof heap.b);
		line = 1;
		for (uint32_t i = 0; i < HUGE_CHARS; i++) {
			random = random * 1103515245 + 12345;
			uint16_t c = random >> 16 & 31 ? 'a' : random >> 24 & 1 ? '\n' : '\r';
			memcpy(memory + sizeof heap.b + (size_t)i * width, &c, width);
		}
		const uint8_t *text = memory + sizeof heap.b;
		for (uint32_t i = 0; i < HUGE_CHARS; i++) {
			want[i] = (uint32_t)line;
			line += text[(size_t)i * width] == '\n' || (text[(size_t)i * width] == '\r' && (i + 1 == HUGE_CHARS || text[(size_t)(i + 1) * width] != '\n'));
		}
		process_memory_of_bytes(&m, view_make((const char *)memory, sizeof heap.b + HUGE_CHARS * (size_t)width), AT, 0, 0);
		m.kept = &kept;
		for (int64_t at = HUGE_CHARS - 2, k = 0; k < 300; k++, at = (at + 1234567) % HUGE_CHARS) {
			int64_t positions[] = { -1, at, MIN(at + 30000, HUGE_CHARS - 1) }, lines[3];
			process_memory_allow(&m, 1000, 100000);
			v8_lines(&h, in, positions, 3, lines);
			assert_true(!lines[0] && lines[1] == want[positions[1]] && lines[2] == want[positions[2]]);
			assert_true(!k || m.reads_left > 970);
		}
		process_memory_allow(&m, 1000, 100000);
		v8_lines(&h, in, &far, 1, &line);
		assert_true(!line && m.reads_left > 980);
	}
	free(kept);
	free(memory);
}

static void names(void **state)
{
	static const uint16_t two[] = { 'a', 0xe9, 0xd83d, 0xde00, 0xd800 };
	uint64_t wide = object(STRING_TWO, 16 + sizeof two), deep = string("x");
	struct buf r = { 0 };

	(void)state;
	put32(wide, 12, ARRAY_LEN(two));
	put(wide, 16, two, sizeof two);
	for (unsigned i = 0; i < 40; i++)
		deep = pair_string(CONS, deep, string("y"), i + 2);
	struct { uint64_t name; const char *want; } cases[] = {
		{ wide, "a\u00e9\U0001F600\uFFFD /app/a.js:0@2" },
		{ pair_string(CONS, string("ab"), string("cd"), 4), "abcd /app/a.js:0@2" },
		{ pair_string(THIN, string("thin"), 0, 4), "thin /app/a.js:0@2" },
		{ pair_string(SLICED, string("0123456"), smi(2), 3), "234 /app/a.js:0@2" },
		{ pair_string(SLICED, string("0123456"), smi(6), 3), "inferred /app/a.js:0@2" },
		{ deep, "inferred /app/a.js:0@2" },
		{ smi(7), "inferred /app/a.js:0@2" },
		{ string(""), "inferred /app/a.js:0@2" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(read_object(V8_OBJECT(V8_FUNCTION, function(cases[i].name, 20, script(0), smi(1))), 0, &r), 0);
		expect(&r, 70, cases[i].want);
	}
	buf_free(&r);
}

/* A thousand characters, to each of which lead a hundred strings that stand for others: there are but forty of them, so that few reads get them. */
static void strings_without_end(void **state)
{
	uint64_t empty = string(""), x = string("d");
	struct buf r = { 0 };

	(void)state;
	for (unsigned i = 0; i < 14; i++) {
		empty = pair_string(THIN, empty, 0, 0);
		x = pair_string(THIN, x, 0, 1);
	}
	for (unsigned i = 0; i < 6; i++)
		x = pair_string(CONS, empty, x, 1);
	uint64_t few = pair_string(CONS, x, x, 2);
	for (unsigned i = 0; i < 10; i++)
		x = pair_string(CONS, x, x, 2u << i);
	assert_int_equal(read_object(V8_OBJECT(V8_FUNCTION, function(few, 20, script(0), smi(1))), 0, &r), 0);
	expect(&r, 0, "dd /app/a.js:0@2");
	assert_int_equal(read_object(V8_OBJECT(V8_FUNCTION, function(x, 20, script(0), smi(1))), 0, &r), 0);
	expect(&r, 0, "(anonymous) :0@0");
	buf_free(&r);
}

/* Code, and before its instructions what points to it; returns where they begin. */
static uint64_t code(uint32_t kind, uint64_t deopt, uint64_t positions, uint32_t n, uint64_t *ret_object)
{
	uint64_t o = object(CODE, 64), stream = room(32 + n + TABLE_BYTES, 32), start = stream - 1 + 32;

	put64(stream, 0, object(CODE, 8));
	put64(stream, 8, o);
	put64(o, 8, deopt);
	put64(o, 16, positions);
	put64(o, 40, start);
	put32(o, 48, kind);
	put32(o, 52, n);
	*ret_object = o;
	return start;
}

static uint64_t bytes_at(uint64_t pc)
{
	uint64_t v;

	memcpy(&v, heap.b + (pc - AT), 8);
	return v;
}

static void optimised(void **state)
{
	uint64_t in = script(0), outer = function(string("outer"), 14, in, smi(1)), inner = function(string("inner"), 47, in, smi(1)), o;
	/* Inner, outer in itself, and inner where it is not known who calls it. */
	uint64_t inlining[] = { (21 + 1) << 1, 1, (21 + 1) << 1, 7ull << 32 | UINT32_MAX, 0, 1 }, literals[] = { smi(0), inner };
	uint64_t deopt[] = { 0, 0, fixed(literals, 2), 0, 0, 0, outer, bytes(inlining, sizeof inlining) };
	struct buf t = { 0 }, r = { 0 };

	(void)state;
	/* Where outer begins; from 4 on outer's own, from 10 on the inlined call. */
	buf_varint(&t, (4 + 1) << 1);
	buf_zigzag(&t, (21 + 1) << 1);
	buf_varint(&t, (10 - 4) << 1 | 1);
	buf_zigzag(&t, ((1ll << 31) | (51 + 1) << 1) - ((21 + 1) << 1));
	buf_varint(&t, (4500 - 10) << 1 | 1);
	buf_zigzag(&t, 1ll << 31);
	buf_varint(&t, (4900 - 4500) << 1 | 1);
	buf_zigzag(&t, 1ll << 31);
	buf_varint(&t, (4960 - 4900) << 1 | 1);
	buf_zigzag(&t, -(3ll << 31 | (51 + 1) << 1));
	buf_varint(&t, (4980 - 4960) << 1 | 1);
	buf_zigzag(&t, (0 + 1) << 1); /* where the file begins */
	uint64_t start = code(12, fixed(deopt, 8), bytes(t.ptr, t.len), 5000, &o);
	for (uint32_t at = 2; at < 4500; at = at < 20 ? at + 1 : at + 997) {
		uint64_t pc = start + at;
		assert_int_equal(read_object(V8_OBJECT(V8_CODE, pc), V8_CHECK_CODE(bytes_at(pc), outer), &r), 0);
		expect(&r, 0, at < 4 ? "outer /app/a.js:1@1" : at < 10 ? "outer /app/a.js:2@1" :
							       "inner /app/a.js:4@4 < outer /app/a.js:2@1");
	}
	assert_int_equal(read_object(V8_OBJECT(V8_CODE, start + 4600), V8_CHECK_CODE(bytes_at(start + 4600), outer), &r), 0);
	expect(&r, 0, "outer /app/a.js:4@1 < outer /app/a.js:2@1");
	assert_int_equal(read_object(V8_OBJECT(V8_CODE, start + 4950), V8_CHECK_CODE(bytes_at(start + 4950), outer), &r), 0);
	expect(&r, 0, "inner /app/a.js:4@4 < [v8: caller unknown] :0@0 < outer /app/a.js:0@1");
	for (unsigned at = 4970; at < 5000; at += 20) {
		uint64_t pc = start + at;
		assert_int_equal(read_object(V8_OBJECT(V8_CODE, pc), V8_CHECK_CODE(bytes_at(pc), outer), &r), 0);
		expect(&r, 0, "[v8: caller unknown] :0@0 < outer /app/a.js:0@1");
		assert_int_equal(read_object(V8_OBJECT(V8_CODE_LEAF, pc), V8_CHECK_CODE(bytes_at(pc), outer), &r), 0);
		expect(&r, 0, "outer /app/a.js:0@1");
	}
	/* Put out of the way at 4000: a call, pop rcx, pop r8, and a jump to 8. It belongs to what jumps there from before 8. */
	static const uint8_t jump[] = { 0x0f, 0x85 }, away[] = { 0x59, 0x41, 0x58, 0xe9 };
	int32_t there = 4000 - 8, back = 8 - (4005 + (int32_t)sizeof away + 4);
	uint64_t ra = start + 4005;
	put(start + 1, 4, &there, 4);
	put(start + 1, 4005, away, sizeof away);
	put(start + 1, 4005 + sizeof away, &back, 4);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(read_object(V8_OBJECT(V8_CODE, ra - 1), V8_CHECK_CODE(bytes_at(ra - 1), outer), &r), 0);
		expect(&r, 0, i ? "outer /app/a.js:2@1" : "inner /app/a.js:4@4 < outer /app/a.js:2@1");
		put(start + 1, 2, jump, sizeof jump);
	}
	/* The innermost frame is not set up yet: the frame is another function's. */
	assert_int_equal(read_object(V8_OBJECT(V8_CODE_LEAF, start + 5), V8_CHECK_CODE(bytes_at(start + 5), inner), &r), 0);
	expect(&r, 0, "outer /app/a.js:2@1 < inner /app/a.js:0@4");
	assert_int_equal(read_object(V8_OBJECT(V8_CODE, start + 5), V8_CHECK_CODE(bytes_at(start + 5) + 1, outer), &r), -ERR_BAD_DATA);
	/* Behind it is no code: the frame's function, without a line. */
	assert_int_equal(read_object(V8_OBJECT(V8_CODE, start + 5001), V8_CHECK_CODE(bytes_at(start + 5001), outer), &r), 0);
	expect(&r, 0, "outer /app/a.js:0@1");
	assert_int_equal(read_object(V8_OBJECT(V8_CODE, start + 5001), V8_CHECK_CODE(bytes_at(start + 5001), 0), &r), -ERR_NOT_FOUND);
	buf_free(&t);
	buf_free(&r);
}

/* Outer's code of 200 bytes: from 20 on outer's own line 1, from 40 on inner, called at line 2. Returns where it begins. */
static uint64_t two_calls(uint32_t kind, uint64_t *ret_outer)
{
	uint64_t in = script(0), outer = function(string("outer"), 14, in, smi(1)), inner = function(string("inner"), 47, in, smi(1)), o;
	uint64_t inlining[] = { (21 + 1) << 1, 1 }, literals[] = { smi(0), inner };
	uint64_t deopt[] = { 0, 0, fixed(literals, 2), 0, 0, 0, outer, bytes(inlining, sizeof inlining) };
	struct buf t = { 0 };

	buf_varint(&t, (20 + 1) << 1);
	buf_zigzag(&t, (3 + 1) << 1);
	buf_varint(&t, (40 - 20) << 1 | 1);
	buf_zigzag(&t, ((1ll << 31) | (51 + 1) << 1) - ((3 + 1) << 1));
	buf_varint(&t, (80 - 40) << 1);
	buf_zigzag(&t, ((3 + 1) << 1) - ((1ll << 31) | (51 + 1) << 1));
	uint64_t start = code(kind, fixed(deopt, 8), bytes(t.ptr, t.len), 200, &o);
	buf_free(&t);
	*ret_outer = outer;
	return start;
}

/* Calls that return to 30 and 60, whose frames return to 180 and 184 once the code is void: in each way that versions have that. */
static void void_code(void **state)
{
	static const struct {
		uint32_t kind, words, slots;
		uint8_t n, table[TABLE_BYTES];
	} cases[] = {
		{ 12, 1, 0, 44, { 3, 0, 0, 0, 1, 0, 0, 0, 30, 0, 0, 0, 4, 0, 0, 0, 180, 0, 0, 0, 60, 0, 0, 0, 5, 0, 0, 0, 184, 0, 0, 0, 90, 0, 0, 0,
				  255, 255, 255, 255, 255, 255, 255, 255 } },
		{ 12, 0, 0, 17, { 3, 0, 0, 0, 0x91, 0, 0, 0, 30, 5, 181, 60, 6, 185, 90, 0, 0 } },
		{ 12, 0, 1, 27, { 9, 0, 0, 0, 3, 0, 0, 0, 0xa3, 4, 0, 0, 30, 0, 5, 181, 0, 1, 60, 0, 6, 185, 0, 1, 90, 0, 0 } },
		{ 11, 0, 0, 28, { 3, 0, 0, 0, 0x91, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 30, 5, 181, 8, 60, 6, 185, 8, 90, 0, 0, 8 } },
		{ 11, 0, 1, 28, { 9, 0, 0, 0, 3, 0, 0, 0, 0x91, 0, 0, 0, 2, 0, 0, 0, 30, 5, 181, 8, 60, 6, 185, 8, 90, 0, 0, 8 } },
	};
	static const struct { unsigned ra; const char *want; } calls[] = {
		{ 30, "outer /app/a.js:1@1" }, { 60, "inner /app/a.js:4@4 < outer /app/a.js:2@1" }, { 90, "outer /app/a.js:1@1" },
		{ 180, "outer /app/a.js:1@1" }, { 184, "inner /app/a.js:4@4 < outer /app/a.js:2@1" }, { 188, "outer /app/a.js:1@1" },
	};
	const struct v8_layout was = facts.l;
	struct buf r = { 0 };
	uint64_t outer;

	facts.l.kind_maglev = 11;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		setup(state);
		uint64_t start = two_calls(cases[i].kind, &outer);
		facts.l.safepoint_words = cases[i].words;
		facts.l.safepoint_slots = cases[i].slots;
		put(start + 1, 200, cases[i].table, cases[i].n);
		for (size_t k = 0; k < ARRAY_LEN(calls); k++) {
			uint64_t pc = start + calls[k].ra - 1;
			assert_int_equal(read_object(V8_OBJECT(V8_CODE, pc), V8_CHECK_CODE(bytes_at(pc), outer), &r), 0);
			expect(&r, 0, calls[k].want);
		}
		/* A table of more than there can be. */
		put(start + 1, 200 + 4 * cases[i].slots, "\xff\xff\xff\xff", 4);
		assert_int_equal(read_object(V8_OBJECT(V8_CODE, start + 183), V8_CHECK_CODE(bytes_at(start + 183), outer), &r), 0);
		expect(&r, 0, "outer /app/a.js:1@1");
	}
	facts.l = was;
	buf_free(&r);
}

static void no_place_in_the_function(void **state)
{
	uint64_t outer = function(string("outer"), 14, script(0), smi(1)), o;
	uint64_t deopt[] = { 0, 0, smi(0), 0, 0, 0, outer, smi(0) };
	static const uint8_t row[] = { (2 + 1) << 1, (0 + 1) << 2 };
	uint64_t pc = code(12, fixed(deopt, 8), bytes(row, sizeof row), 100, &o) + 30;
	struct buf r = { 0 };

	(void)state;
	assert_int_equal(read_object(V8_OBJECT(V8_CODE, pc), V8_CHECK_CODE(bytes_at(pc), outer), &r), 0);
	expect(&r, 0, "outer /app/a.js:0@1");
	buf_free(&r);
}

static void baseline(void **state)
{
	static const uint8_t offsets[] = { 10, 4, 0x84, 1, 6, 3, 2 };
	struct buf r = { 0 };
	uint64_t array = bytecode(), o, start = code(10, array, bytes(offsets, sizeof offsets), 200, &o);
	uint64_t shared = function(string("outer"), 14, script(0), o);
	static const struct { unsigned at; const char *want; } cases[] = {
		{ 3, "outer /app/a.js:1@1" }, { 13, "outer /app/a.js:1@1" }, { 14, "outer /app/a.js:2@1" }, { 145, "outer /app/a.js:2@1" },
		{ 146, "outer /app/a.js:4@1" }, { 199, "outer /app/a.js:0@1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t pc = start + cases[i].at;
		assert_int_equal(read_object(V8_OBJECT(V8_CODE, pc), V8_CHECK_CODE(bytes_at(pc), shared), &r), 0);
		expect(&r, 0, cases[i].want);
	}
	buf_free(&r);
}

static void other_code(void **state)
{
	struct buf r = { 0 };
	uint64_t o, start = code(4, 0, 0, 100, &o);

	(void)state;
	assert_int_equal(read_object(V8_OBJECT(V8_CODE, start + 1), V8_CHECK_CODE(bytes_at(start + 1), 0), &r), 0);
	expect(&r, 0, "(regular expression) :0@0");
	assert_int_equal(read_object(V8_OBJECT(V8_MARKER, 3), 1, &r), 0);
	expect(&r, 0, "(WebAssembly) :0@0");
	assert_int_equal(read_object(V8_OBJECT(V8_MARKER, 1000), 1, &r), 0);
	expect(&r, 0, "(V8 code) :0@0");
	assert_int_equal(read_object(V8_OBJECT(9, 0), 0, &r), -ERR_BAD_DATA);
	buf_free(&r);
}

static void positions(void **state)
{
	/* Offsets 0 and 7 in both ways that versions have them. */
	static const uint8_t by_sign[] = { 0x02, 0x02, 0x0d, 0x04 }, by_kind[] = { 0x07, 0x02, 0x1e, 0x04 };
	const uint8_t *all[] = { by_sign, by_kind };

	(void)state;
	for (uint32_t k = 0; k < 2; k++) {
		struct v8_positions t = { all[k], all[k] + 4, k ? 2 : 0, -1, 0 };
		assert_true(v8_positions_next(&t) && t.code == 0 && t.position == 1);
		assert_true(v8_positions_next(&t) && t.code == (k ? 7 : 6) && t.position == 3);
		assert_false(v8_positions_next(&t));
	}
}

static void malformed_records(void **state)
{
	struct runtime_name n[2];
	struct buf r = { 0 };

	(void)state;
	assert_int_equal(v8_frames_at(&file, VIEW(""), 0, n, 2), 0);
	assert_int_equal(v8_frames_at(&file, VIEW("\x07"), 0, n, 2), 0);
	buf_varint(&r, V8_RECORD_CALLS);
	buf_varint(&r, 1);
	v8_record_string(&r, VIEW("f"));
	v8_record_string(&r, VIEW("g"));
	buf_varint(&r, 3);
	buf_varint(&r, 2);
	for (size_t i = 0; i < r.len; i++)
		assert_int_equal(v8_frames_at(&file, view_make(r.ptr, i), 0, n, 2), 0);
	assert_int_equal(v8_frames_at(&file, buf_view(&r), 0, n, 2), 1);
	assert_int_equal(v8_frames_at(&file, buf_view(&r), 0, n, 0), 0);
	buf_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(interpreted, setup),
		cmocka_unit_test_setup(lines_of_long_sources, setup),
		cmocka_unit_test_setup(lines_of_huge_sources, setup),
		cmocka_unit_test_setup(names, setup),
		cmocka_unit_test_setup(strings_without_end, setup),
		cmocka_unit_test_setup(optimised, setup),
		cmocka_unit_test_setup(void_code, setup),
		cmocka_unit_test_setup(no_place_in_the_function, setup),
		cmocka_unit_test_setup(baseline, setup),
		cmocka_unit_test_setup(other_code, setup),
		cmocka_unit_test(positions),
		cmocka_unit_test(malformed_records),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
