/* SPDX-License-Identifier: Apache-2.0 */
/* A code object of CPython as a record:
 *
 *	first line (zigzag) | length, name | length, file | 1, table of lines as CPython has it; or 0, it was too long
 *
 * lengths are varints, texts UTF-8. The name is the qualified one where there is one (3.11+). */
#include "agent/python/layout.h"
#include "agent/python/lines.h"
#include "bpf/abi.h"

#define CODE_BYTES 256u              /* of any version's code object, up to its instructions */
#define TEXT_MAX 4096u               /* characters of a name, or of a path */
#define LINES_MAX (64u << 10)        /* a longer table is left out, and the name has no lines: only generated modules have one */
#define TYPE_NAME 24u                /* of PyTypeObject: tp_name */
#define OBJECT_TYPE 8u               /* of any object */
#define OBJECT_SIZE 16u              /* of strings: characters; of bytes: bytes */
#define STRING_STATE 32u

/* ---- strings ---- */

struct string_state {
	unsigned kind;               /* bytes of a character: 1, 2, 4 */
	bool compact, ascii;
};

static struct string_state state_of(uint32_t bits)
{
	return (struct string_state){ bits >> 2 & 7, bits >> 5 & 1, bits >> 6 & 1 };
}

static void put_utf8(struct buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_putc(b, (char)c);
	} else if (c < 0x800) {
		buf_put(b, (char[]){ (char)(0xc0 | c >> 6), (char)(0x80 | (c & 63)) }, 2);
	} else if (c < 0x10000) {
		buf_put(b, (char[]){ (char)(0xe0 | c >> 12), (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63)) }, 3);
	} else {
		buf_put(b, (char[]){ (char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 63)), (char)(0x80 | (c >> 6 & 63)),
				     (char)(0x80 | (c & 63)) }, 4);
	}
}

/* Half of a pair, which a path with bytes that are no text has, or none at all: there is no UTF-8 of it. And what steers the terminal of
 * a reader. */
static uint32_t character(const uint8_t *from, unsigned kind)
{
	uint32_t c = 0;

	memcpy(&c, from, kind);
	return c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || c < 0x20 || (c >= 0x7f && c < 0xa0) ? 0xfffd : c;
}

/* Whether an object is not free memory, by its count of references: there, allocators keep an address or 0. */
static bool is_alive(const struct python_layout *l, const uint8_t *object)
{
	uint64_t n;

	memcpy(&n, object, sizeof n);
	return (uint32_t)n && (l->short_count || n >> 32 == 0);
}

/* Adds a string, with its length before it. */
static int read_string(const struct python_layout *l, struct process_memory *m, uint64_t at, struct buf *ret, struct err *e)
{
	uint8_t head[STRING_STATE + 4], text[TEXT_MAX * 4];
	uint64_t n, data;
	uint32_t bits;
	struct buf utf8 = { .max = TEXT_MAX * 4 };
	int r = process_memory_read(m, at, head, sizeof head, e);

	if (r)
		return r;
	memcpy(&n, head + OBJECT_SIZE, sizeof n);
	memcpy(&bits, head + STRING_STATE, sizeof bits);
	struct string_state s = state_of(bits);
	if (!is_alive(l, head) || (s.kind != 1 && s.kind != 2 && s.kind != 4) || n > INT64_MAX)
		return err_set(e, ERR_BAD_DATA, "no string at 0x%llx", (unsigned long long)at);
	if (n > TEXT_MAX)
		return err_set(e, ERR_LIMIT, "a name of %llu characters", (unsigned long long)n);
	data = at + (s.ascii ? l->ascii_data : l->unicode_data);
	if (!s.compact)
		r = process_memory_u64(m, at + l->unicode_data, &data, e);
	if (!r)
		r = process_memory_read(m, data, text, n * s.kind, e);
	for (size_t i = 0; !r && i < n; i++)
		put_utf8(&utf8, character(text + i * s.kind, s.kind));
	if (!r) {
		buf_varint(ret, utf8.len);
		buf_putv(ret, buf_view(&utf8));
	}
	buf_free(&utf8);
	return r;
}

/* ---- the object ---- */

static uint64_t word(const uint8_t *code, unsigned at)
{
	uint64_t v;
	memcpy(&v, code + at, sizeof v);
	return v;
}

/* What is read may be freed, and be something else, meanwhile: then the pointers differ. */
static bool same_code(const struct python_layout *l, const uint8_t *a, const uint8_t *b)
{
	return word(a, l->code_check) == word(b, l->code_check) && word(a, l->code_filename) == word(b, l->code_filename) &&
	       word(a, l->code_name) == word(b, l->code_name) && word(a, l->code_lines) == word(b, l->code_lines) &&
	       word(a, OBJECT_TYPE) == word(b, OBJECT_TYPE);
}

/* Where the kernel could not tell what it was, the type has to. */
static int check_type(struct process_memory *m, const uint8_t *code, struct err *e)
{
	uint64_t name;
	char text[5];
	int r = process_memory_u64(m, word(code, OBJECT_TYPE) + TYPE_NAME, &name, e);

	if (!r)
		r = process_memory_read(m, name, text, sizeof text, e);
	return r ? r : memcmp(text, "code", 5) == 0 ? 0 : err_set(e, ERR_BAD_DATA, "no code object");
}

static int read_lines(const struct python_layout *l, struct process_memory *m, uint64_t at, struct buf *ret, struct err *e)
{
	uint64_t n;
	int r = process_memory_u64(m, at + OBJECT_SIZE, &n, e);

	if (!r)
		buf_putc(ret, n <= LINES_MAX);
	return r || n > LINES_MAX ? r : process_memory_append(m, at + l->bytes_data, n, ret, e);
}

int python_read_code(const struct runtime_file *f, struct process_memory *m, uint64_t object, uint64_t check, struct buf *ret,
		     struct err *e)
{
	const struct python_layout *l = python_layout(f->version & 0xff);
	uint8_t code[CODE_BYTES], after[CODE_BYTES];
	int32_t first_line;
	int r = process_memory_read(m, object, code, l->code_bytes, e);

	if (r)
		return r;
	if (!is_alive(l, code) || (check && word(code, l->code_check) != check))
		return err_set(e, ERR_BAD_DATA, "another object is at 0x%llx", (unsigned long long)object);
	memcpy(&first_line, code + l->code_first_line, sizeof first_line);
	buf_zigzag(ret, first_line);
	if (!check)
		r = check_type(m, code, e);
	if (!r)
		r = read_string(l, m, word(code, l->code_qualname ? l->code_qualname : l->code_name), ret, e);
	if (!r)
		r = read_string(l, m, word(code, l->code_filename), ret, e);
	if (!r)
		r = read_lines(l, m, word(code, l->code_lines), ret, e);
	process_memory_look_again(m);
	int again = process_memory_read(m, object, after, l->code_bytes, e);
	if (again)
		return again;
	if (!is_alive(l, after) || !same_code(l, code, after))
		return err_set(e, ERR_BAD_DATA, "another object is at 0x%llx", (unsigned long long)object);
	return r ? r : ret->overflow ? err_set(e, ERR_LIMIT, "a code object of too many bytes") : 0;
}

/* ---- a record ---- */

static bool take_varint(struct view *v, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; v->len && shift < 64; shift += 7) {
		uint8_t b = (uint8_t)v->ptr[0];
		*v = view_make(v->ptr + 1, v->len - 1);
		*ret |= (uint64_t)(b & 127) << shift;
		if (!(b & 128))
			return true;
	}
	return false;
}

static bool take_text(struct view *v, struct view *ret)
{
	uint64_t n;

	if (!take_varint(v, &n) || n > v->len)
		return false;
	*ret = view_make(v->ptr, n);
	*v = view_make(v->ptr + n, v->len - n);
	return true;
}

size_t python_frames_at(const struct runtime_file *f, struct view record, uint64_t at, struct runtime_name *out, size_t max)
{
	unsigned minor = f->version & 0xff;
	const struct python_layout *l = python_layout(minor);
	struct runtime_name name;
	uint64_t first, has_lines;

	if (!max || !take_varint(&record, &first) || first > UINT32_MAX || !take_text(&record, &name.name) || !take_text(&record, &name.file) ||
	    !take_varint(&record, &has_lines))
		return 0;
	/* The name is as people read it: with the same name for the linker, pprof would take <module> for a C++ template and strip it. */
	name.system_name = VIEW("");
	name.start_line = (int64_t)(first >> 1) ^ -(int64_t)(first & 1);
	/* From 3.11 on instructions lie in the object itself, after its other fields. */
	name.line = has_lines ? python_line(minor, record, name.start_line, (int64_t)at - (minor >= 11 ? l->code_bytes : 0)) : 0;
	name.start_line = MAX(name.start_line, 0);
	*out = name;
	return 1;
}
