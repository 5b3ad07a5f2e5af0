/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what a frame of V8's is of (bpf/v8.h says which objects leave the kernel) into a record. */
#include <stdlib.h>

#include "agent/v8/code.h"
#include "agent/v8/record.h"
#include "base/alloc.h"

#define ROWS_MAX V8_LINES_MAX
#define FRAMES_MAX (V8_INLINED_MAX + 1)

static const struct view anonymous = VIEW("(anonymous)");

static struct view name_of(const struct v8_function *f)
{
	return f->name.len ? buf_view(&f->name) : anonymous;
}

static int64_t line_at(const struct v8_heap *h, uint64_t script, int64_t position)
{
	int64_t line = 0;

	if (script && position >= 0)
		v8_lines(h, script, &position, 1, &line);
	return line;
}

/* Of two positions: the source is looked through once. */
static void lines_at(const struct v8_heap *h, uint64_t script, int64_t a, int64_t b, int64_t *ret_a, int64_t *ret_b)
{
	int64_t positions[2] = { MIN(a, b), MAX(a, b) }, lines[2] = { 0 };

	if (script)
		v8_lines(h, script, positions, 2, lines);
	*ret_a = lines[a > b];
	*ret_b = lines[b >= a];
}

/* A call that is but a name. */
static void put_name(struct view name, struct buf *b)
{
	v8_record_string(b, name);
	v8_record_string(b, (struct view){ "", 0 });
	buf_varint(b, 0);
	buf_varint(b, 0);
}

static int put_call(const struct v8_heap *h, const struct v8_call *c, struct buf *b)
{
	struct v8_function f;
	int64_t line, start_line;
	int r;

	if (!c->shared) {
		put_name(VIEW("[v8: caller unknown]"), b);
		return 0;
	}
	r = v8_function_read(h, c->shared, &f);
	if (!r) {
		int64_t position = c->position == V8_AT_BEGIN ? f.start : c->position;
		/* Of instructions of its own Maglev says that they are where the file begins. */
		if (!position && f.start > 0)
			position = -1;
		lines_at(h, f.script, position, f.start, &line, &start_line);
		v8_record_string(b, name_of(&f));
		v8_record_string(b, buf_view(&f.file));
		buf_varint(b, (uint64_t)line);
		buf_varint(b, (uint64_t)start_line);
	}
	v8_function_free(&f);
	return r;
}

static int put_calls(const struct v8_heap *h, const struct v8_call *calls, size_t n, struct buf *b)
{
	int r = 0;

	buf_varint(b, V8_RECORD_CALLS);
	buf_varint(b, n);
	for (size_t i = 0; !r && i < n; i++)
		r = put_call(h, &calls[i], b);
	return r;
}

static int put_words(struct view name, struct buf *b)
{
	buf_varint(b, V8_RECORD_CALLS);
	buf_varint(b, 1);
	put_name(name, b);
	return 0;
}

/* --- a function --- */

struct v8_rows {
	int64_t *code, *position, *line;
	size_t n;
};

struct order {
	int64_t position;
	size_t i;
};

static int by_position(const void *a, const void *b)
{
	const struct order *x = a, *y = b;
	return (x->position > y->position) - (x->position < y->position);
}

/* The rows of a bytecode array's table of positions. */
static void read_rows(const struct v8_heap *h, uint64_t array, struct v8_rows *t)
{
	struct buf b = { .max = V8_TABLE_BYTES_MAX };
	uint64_t table;

	if (!v8_word(h, array, h->l->array_positions, &table) && !v8_bytes(h, table, V8_TABLE_BYTES_MAX, &b, h->e)) {
		struct v8_positions p = { (const uint8_t *)b.ptr, (const uint8_t *)b.ptr + b.len,
					  h->l->position_kind_bits, -1, 0 };
		while (t->n < ROWS_MAX && v8_positions_next(&p)) {
			t->code[t->n] = MAX(p.code, 0);
			t->position[t->n++] = v8_position_source(p.position);
		}
	}
	buf_free(&b);
}

static void rows_init(struct v8_rows *t)
{
	*t = (struct v8_rows){ xmalloc(ROWS_MAX * sizeof(int64_t)), xmalloc(ROWS_MAX * sizeof(int64_t)), xmalloc(ROWS_MAX * sizeof(int64_t)), 0 };
}

static void rows_free(struct v8_rows *t)
{
	free(t->code);
	free(t->position);
	free(t->line);
}

/* The lines of all rows, found in one pass over the source. */
static void find_lines(const struct v8_heap *h, uint64_t script, struct v8_rows *t)
{
	struct order *o = xmalloc((t->n + 1) * sizeof *o);
	int64_t *positions = xmalloc((t->n + 1) * sizeof *positions), *lines = xmalloc((t->n + 1) * sizeof *lines);

	for (size_t i = 0; i < t->n; i++)
		o[i] = (struct order){ t->position[i], i };
	qsort(o, t->n, sizeof *o, by_position);
	for (size_t i = 0; i < t->n; i++)
		positions[i] = o[i].position;
	v8_lines(h, script, positions, t->n, lines);
	for (size_t i = 0; i < t->n; i++)
		t->line[o[i].i] = lines[i];
	free(o);
	free(positions);
	free(lines);
}

static void put_rows(const struct v8_rows *t, struct buf *b)
{
	int64_t code = 0, line = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (t->line[i] == line)
			continue;
		buf_varint(b, (uint64_t)(t->code[i] - code));
		buf_zigzag(b, t->line[i] - line);
		code = t->code[i];
		line = t->line[i];
	}
}

static int check_function(const struct v8_heap *h, uint64_t shared, uint64_t check)
{
	uint64_t lengths;
	int r = v8_word(h, shared, h->l->shared_lengths, &lengths);

	return r || !check || check == V8_CHECK_FUNCTION(lengths) ? r :
	       err_set(h->e, ERR_BAD_DATA, "another function is at %#llx by now", (unsigned long long)shared);
}

static int read_function(const struct v8_heap *h, uint64_t shared, uint64_t check, struct buf *b)
{
	struct v8_function f;
	uint64_t array;
	struct v8_rows t;
	int r = check_function(h, shared, check);

	if (r)
		return r;
	r = v8_function_read(h, shared, &f);
	if (!r) {
		buf_varint(b, V8_RECORD_BYTECODE);
		v8_record_string(b, name_of(&f));
		v8_record_string(b, buf_view(&f.file));
		buf_varint(b, (uint64_t)line_at(h, f.script, f.start));
		buf_varint(b, h->l->array_data - 1);
		if (f.script && !v8_function_bytecode(h, shared, &array)) {
			rows_init(&t);
			read_rows(h, array, &t);
			find_lines(h, f.script, &t);
			put_rows(&t, b);
			rows_free(&t);
		}
	}
	v8_function_free(&f);
	process_memory_look_again(h->m);
	return r ? r : check_function(h, shared, check);
}

/* --- code --- */

/* The position in the source of a pc in a function's baseline code; -1: not known; V8_AT_BEGIN. */
static int64_t baseline_position(const struct v8_heap *h, const struct v8_code *c, uint64_t shared, uint64_t pc)
{
	int64_t at = v8_baseline_bytecode(h, c, shared, pc), position = -1;
	uint64_t array;
	struct v8_rows t;

	if (at < 0 || v8_function_bytecode(h, shared, &array))
		return -1;
	rows_init(&t);
	read_rows(h, array, &t);
	if (t.n && t.code[0] > at)
		position = V8_AT_BEGIN;
	for (size_t i = 0; i < t.n && t.code[i] <= at; i++)
		position = t.position[i];
	rows_free(&t);
	return position;
}

static int check_pc(const struct v8_heap *h, uint64_t pc, uint64_t check)
{
	uint64_t bytes;
	int r = process_memory_u64(h->m, pc, &bytes, h->e);

	return r || V8_HASH(bytes) == V8_CHECK_HASH(check) ? r :
	       err_set(h->e, ERR_BAD_DATA, "another code is at %#llx by now", (unsigned long long)pc);
}

/* shared: the function of the frame that fp belongs to, 0 if there is none. If the innermost frame is not set up, it is the caller's. */
static int read_pc(const struct v8_heap *h, uint64_t pc, uint64_t check, bool leaf, struct buf *b)
{
	struct v8_call calls[FRAMES_MAX];
	uint64_t shared = V8_CHECK_SHARED(check);
	struct v8_code c;
	size_t n = 0;
	int r = check_pc(h, pc, check);

	if (r)
		return r;
	if (shared && !v8_is(h, shared, h->l->type_shared))
		shared = 0;
	r = v8_code_find(h, pc, &c);
	if (r && (r != -ERR_NOT_FOUND || h->m->ended || !shared))
		return r;
	if (r) {
		calls[n++] = (struct v8_call){ shared, -1 };
	} else if (c.kind == V8_CODE_OPTIMISED) {
		n = v8_code_calls(h, &c, leaf ? pc : v8_code_asked_for(h, &c, v8_code_called_from(h, &c, pc + 1)), leaf, calls);
		if (leaf && n && shared && calls[n - 1].shared != shared)
			calls[n++] = (struct v8_call){ shared, -1 };
	} else if (c.kind == V8_CODE_BASELINE && shared) {
		calls[n++] = (struct v8_call){ shared, baseline_position(h, &c, shared, pc) };
	} else {
		return put_words(c.kind == V8_CODE_REGEXP ? VIEW("(regular expression)") : VIEW("(V8 code)"), b);
	}
	if (!n)
		return err_set(h->e, ERR_BAD_DATA, "the code at %#llx is of no function", (unsigned long long)pc);
	r = put_calls(h, calls, n, b);
	process_memory_look_again(h->m);
	return r ? r : check_pc(h, pc, check);
}

static int read_marker(const struct v8_facts *x, uint64_t marker, struct buf *b)
{
	static const struct view names[] = { [V8_MARKER_OTHER] = VIEW("(V8 code)"),
					     [V8_MARKER_WASM] = VIEW("(WebAssembly)"),
					     [V8_MARKER_REGEXP] = VIEW("(regular expression)") };

	return put_words(names[marker < V8_MARKERS_MAX ? x->markers[marker] : V8_MARKER_OTHER], b);
}

int v8_read_code(const struct runtime_file *f, struct process_memory *m, uint64_t object, uint64_t check, struct buf *ret_record,
		 struct err *e)
{
	const struct v8_facts *x = f->facts;
	const struct v8_heap h = { x, &x->l, m, e };
	uint64_t at = V8_OBJECT_AT(object);
	int r;

	switch (V8_OBJECT_SORT(object)) {
	case V8_FUNCTION:
		r = read_function(&h, at, check, ret_record);
		break;
	case V8_CODE:
	case V8_CODE_LEAF:
		r = read_pc(&h, at, check, V8_OBJECT_SORT(object) == V8_CODE_LEAF, ret_record);
		break;
	case V8_MARKER:
		r = read_marker(x, at, ret_record);
		break;
	default:
		r = err_set(e, ERR_BAD_DATA, "a frame of V8's of no known sort");
	}
	return r;
}
