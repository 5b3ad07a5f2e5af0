/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/v8/heap.h"

#include "base/alloc.h"

#define STRING_LENGTH 12u
#define STRING_CHARS 16u             /* of a sequential one */
#define STRING_FIRST 16u             /* of a cons, thin, sliced one: another string */
#define STRING_SECOND 24u            /* of a cons one another string, of a sliced one where in the first */
#define STRING_RESOURCE_DATA 24u     /* of an external one: where its characters are */
#define ARRAY_LENGTH 8u
#define ARRAY_FIRST 16u

enum { SHAPE_MASK = 7, SHAPE_SEQUENTIAL = 0, SHAPE_CONS = 1, SHAPE_EXTERNAL = 2, SHAPE_SLICED = 3, SHAPE_THIN = 5, ONE_BYTE = 8 };

static int no_object(const struct v8_heap *h, uint64_t object)
{
	return err_set(h->e, ERR_BAD_DATA, "%#llx is not the object that V8 has there", (unsigned long long)object);
}

int v8_word(const struct v8_heap *h, uint64_t object, uint64_t at, uint64_t *ret)
{
	return v8_is_tagged(object) ? process_memory_read(h->m, object - 1 + at, ret, sizeof *ret, h->e) : no_object(h, object);
}

int v8_half(const struct v8_heap *h, uint64_t object, uint64_t at, uint32_t *ret)
{
	return v8_is_tagged(object) ? process_memory_read(h->m, object - 1 + at, ret, sizeof *ret, h->e) : no_object(h, object);
}

int v8_type(const struct v8_heap *h, uint64_t object, uint32_t *ret)
{
	uint64_t map;
	uint16_t type;
	int r = v8_word(h, object, 0, &map);

	if (!r)
		r = v8_is_tagged(map) ? process_memory_u16(h->m, map - 1 + h->l->map_type, &type, h->e) : no_object(h, map);
	if (!r)
		*ret = type;
	return r;
}

bool v8_is(const struct v8_heap *h, uint64_t object, uint32_t type)
{
	uint32_t t;

	return type && v8_is_tagged(object) && !v8_type(h, object, &t) && t == type;
}

bool v8_is_bytes(const struct v8_heap *h, uint64_t object)
{
	uint32_t t;

	return v8_is_tagged(object) && !v8_type(h, object, &t) && t && (t == h->l->type_bytes || t == h->l->type_trusted_bytes);
}

bool v8_is_array(const struct v8_heap *h, uint64_t object)
{
	const struct v8_layout *l = h->l;
	uint32_t t;

	return v8_is_tagged(object) && !v8_type(h, object, &t) && t &&
	       (t == l->type_fixed || t == l->type_trusted_fixed || t == l->type_protected_fixed || t == l->type_weak_fixed ||
		t == l->type_trusted_weak_fixed);
}

/* A length is a small integer, or an int with nothing above it. */
static int array_length(const struct v8_heap *h, uint64_t array, uint32_t *ret)
{
	uint64_t length;
	int r = v8_word(h, array, ARRAY_LENGTH, &length);

	if (r)
		return r;
	*ret = v8_is_smi(length) ? (uint32_t)(length >> 32) : (uint32_t)length;
	return 0;
}

int v8_element(const struct v8_heap *h, uint64_t array, uint32_t i, uint64_t *ret)
{
	uint32_t n;
	int r = array_length(h, array, &n);

	if (!r)
		r = i < n ? v8_word(h, array, ARRAY_FIRST + 8ull * i, ret) : no_object(h, array);
	if (!r && (*ret & 3) == 3)
		*ret &= ~2ull;
	return r;
}

int v8_bytes(const struct v8_heap *h, uint64_t object, size_t max, struct buf *ret, struct err *e)
{
	uint32_t n = 0;
	int r = v8_is_bytes(h, object) ? array_length(h, object, &n) : no_object(h, object);

	if (r)
		return r;
	if (n > max)
		return err_set(e, ERR_LIMIT, "a table of V8's has %u bytes, more than %zu", n, max);
	return process_memory_append(h->m, object - 1 + ARRAY_FIRST, n, ret, e);
}

/* --- strings --- */

static void put_utf8(struct buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_putc(b, (char)c);
	} else if (c < 0x800) {
		buf_putc(b, (char)(0xc0 | c >> 6));
		buf_putc(b, (char)(0x80 | (c & 63)));
	} else if (c < 0x10000) {
		buf_putc(b, (char)(0xe0 | c >> 12));
		buf_putc(b, (char)(0x80 | (c >> 6 & 63)));
		buf_putc(b, (char)(0x80 | (c & 63)));
	} else {
		buf_putc(b, (char)(0xf0 | c >> 18));
		buf_putc(b, (char)(0x80 | (c >> 12 & 63)));
		buf_putc(b, (char)(0x80 | (c >> 6 & 63)));
		buf_putc(b, (char)(0x80 | (c & 63)));
	}
}

#define IS_HIGH(c) (((c) & 0xfc00) == 0xd800)
#define IS_LOW(c) (((c) & 0xfc00) == 0xdc00)

static void put_two_byte(struct buf *b, const uint16_t *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t c = s[i];
		if (IS_HIGH(c) && i + 1 < n && IS_LOW(s[i + 1]))
			c = 0x10000 + ((c & 0x3ff) << 10 | (s[++i] & 0x3ff));
		put_utf8(b, IS_HIGH(c) || IS_LOW(c) ? 0xfffd : c);
	}
}

/* Where characters lie one after another. */
struct flat {
	uint64_t at;
	bool one_byte;
	uint32_t length;                 /* in characters */
};

/* One string, followed to where its characters are. ERR_LIMIT: nested too deeply; ERR_NOT_FOUND: it is in two pieces. */
static int flatten(const struct v8_heap *h, uint64_t object, struct flat *ret, uint64_t *ret_second)
{
	uint32_t type, length, own;
	uint64_t skip = 0, next;
	int r = v8_half(h, object, STRING_LENGTH, &length);

	*ret_second = 0;
	for (int depth = 0; !r && depth < V8_STRING_DEPTH_MAX; depth++) {
		r = v8_type(h, object, &type);
		if (r || type >= h->l->type_no_string)
			return r ? r : no_object(h, object);
		if (v8_half(h, object, STRING_LENGTH, &own) || skip + length > own)
			return no_object(h, object);
		*ret = (struct flat){ 0, type & ONE_BYTE, length };
		uint64_t width = ret->one_byte ? 1 : 2;
		switch (type & SHAPE_MASK) {
		case SHAPE_SEQUENTIAL:
			ret->at = object - 1 + STRING_CHARS + skip * width;
			return 0;
		case SHAPE_EXTERNAL:
			r = v8_word(h, object, STRING_RESOURCE_DATA, &ret->at);
			ret->at += skip * width;
			return r;
		case SHAPE_SLICED:
			r = v8_word(h, object, STRING_SECOND, &next);
			skip += next >> 32;
			break;
		case SHAPE_CONS:
			if (v8_word(h, object, STRING_SECOND, ret_second) || v8_half(h, *ret_second, STRING_LENGTH, &own))
				return no_object(h, object);
			if (own) {
				ret->at = object;
				return 0;
			}
			break;
		case SHAPE_THIN:
			break;
		default:
			return no_object(h, object);
		}
		*ret_second = 0;
		if (!r)
			r = v8_word(h, object, STRING_FIRST, &object);
	}
	return r ? r : err_set(h->e, ERR_LIMIT, "a string of V8's is nested more than %d deep", V8_STRING_DEPTH_MAX);
}

static int put_flat(const struct v8_heap *h, const struct flat *f, struct buf *to)
{
	uint16_t chars[256];
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->length && to->len < V8_NAME_BYTES_MAX; i += n) {
		n = (uint32_t)MIN(f->length - i, ARRAY_LEN(chars));
		int r = process_memory_read(h->m, f->at + (uint64_t)i * (f->one_byte ? 1 : 2), chars, n * (f->one_byte ? 1 : 2), h->e);
		if (r)
			return r;
		if (f->one_byte)
			for (uint32_t k = 0; k < n; k++)
				put_utf8(to, ((const uint8_t *)chars)[k]);
		else
			put_two_byte(to, chars, n);
	}
	return 0;
}

static int put_string(const struct v8_heap *h, uint64_t object, int depth, struct buf *to)
{
	uint64_t second;
	struct flat f;
	int r = flatten(h, object, &f, &second);

	if (r || !second)
		return r ? r : put_flat(h, &f, to);
	if (depth == V8_STRING_DEPTH_MAX)
		return err_set(h->e, ERR_LIMIT, "a string of V8's is nested more than %d deep", V8_STRING_DEPTH_MAX);
	uint64_t first;
	r = v8_word(h, f.at, STRING_FIRST, &first);
	if (!r)
		r = put_string(h, first, depth + 1, to);
	if (!r && to->len < V8_NAME_BYTES_MAX)
		r = put_string(h, second, depth + 1, to);
	return r;
}

int v8_string(const struct v8_heap *h, uint64_t object, struct buf *ret)
{
	int r = put_string(h, object, 0, ret);

	if (!r && ret->len > V8_NAME_BYTES_MAX) {
		size_t n = V8_NAME_BYTES_MAX - 3;
		while (n && ((uint8_t)ret->ptr[n] & 0xc0) == 0x80)
			n--;
		ret->len = n;
		buf_puts(ret, "...");
	}
	return r;
}

/* Of what may be no string, too: then there is none. */
static void optional_string(const struct v8_heap *h, uint64_t object, struct buf *ret)
{
	if (v8_is_tagged(object) && v8_string(h, object, ret))
		buf_reset(ret);
}

/* --- functions --- */

/* Of a ScopeInfo's flags, the same from 9.4 to 14.6. */
#define SCOPE_RECEIVER (3u << 7)
#define SCOPE_RECEIVER_UNUSED (3u << 7)
#define SCOPE_HAS_SAVED_CLASS_VARIABLE (1u << 10)
#define SCOPE_FUNCTION_VARIABLE (3u << 12)
#define SCOPE_HAS_INFERRED_NAME (1u << 14)
#define SCOPE_INLINE_NAMES_MAX 75u   /* more names of variables are in a hash table of their own */
#define SCOPE_LOCALS_MAX 4096u
#define SCOPE_NAME_FIRST_OLD 3u      /* scope_first where a function's positions come last, and not before the names */

struct scope {
	uint64_t object;
	uint32_t i;                      /* the next word */
};

static int scope_word(const struct v8_heap *h, const struct scope *s, uint32_t i, uint64_t *ret)
{
	return v8_word(h, s->object, 8 + 8ull * i, ret);
}

static int scope_name(const struct v8_heap *h, uint64_t object, struct v8_function *f)
{
	struct scope s = { object, h->l->scope_first };
	uint64_t flags, locals, name = 0, inferred = 0, start;
	int r = scope_word(h, &s, 0, &flags);

	if (!r)
		r = scope_word(h, &s, 2, &locals);
	if (r)
		return r;
	uint32_t bits = v8_is_smi(flags) ? (uint32_t)(flags >> 32) : (uint32_t)flags, n = (uint32_t)(locals >> 32);
	if (n > SCOPE_LOCALS_MAX)
		return no_object(h, object);
	s.i += n > SCOPE_INLINE_NAMES_MAX ? 1 + n : 2 * n;
	if (bits & SCOPE_HAS_SAVED_CLASS_VARIABLE)
		s.i++;
	if (h->l->scope_has_receiver && bits & SCOPE_RECEIVER && (bits & SCOPE_RECEIVER) != SCOPE_RECEIVER_UNUSED)
		s.i++;
	if (bits & SCOPE_FUNCTION_VARIABLE) {
		r = scope_word(h, &s, s.i, &name);
		s.i += 2;
	}
	if (!r && bits & SCOPE_HAS_INFERRED_NAME)
		r = scope_word(h, &s, s.i++, &inferred);
	if (!r)
		r = scope_word(h, &s, h->l->scope_first > SCOPE_NAME_FIRST_OLD ? SCOPE_NAME_FIRST_OLD : s.i, &start);
	if (r)
		return r;
	if (v8_is_smi(start))
		f->start = (int32_t)(start >> 32);
	optional_string(h, name, &f->name);
	if (!f->name.len)
		optional_string(h, inferred, &f->name);
	return 0;
}

int v8_function_read(const struct v8_heap *h, uint64_t shared, struct v8_function *ret)
{
	uint64_t name, script, file;
	int r;

	*ret = (struct v8_function){ .shared = shared, .start = -1 };
	if (!v8_is(h, shared, h->l->type_shared))
		return no_object(h, shared);
	r = v8_word(h, shared, h->l->shared_name, &name);
	if (!r)
		r = v8_word(h, shared, h->l->shared_script, &script);
	if (!r && v8_is(h, name, h->l->type_scope))
		r = scope_name(h, name, ret);
	else if (!r)
		optional_string(h, name, &ret->name);
	if (r || !v8_is(h, script, h->l->type_script))
		return r;
	ret->script = script;
	r = v8_word(h, script, h->l->script_name, &file);
	if (!r)
		optional_string(h, file, &ret->file);
	return r;
}

void v8_function_free(struct v8_function *f)
{
	buf_free(&f->name);
	buf_free(&f->file);
}

int v8_function_bytecode(const struct v8_heap *h, uint64_t shared, uint64_t *ret)
{
	const struct v8_layout *l = h->l;
	uint64_t data;
	uint32_t type;
	int r;

	r = v8_word(h, shared, V8_SHARED_DATA, &data);
	/* Baseline code has the bytecode, or what has it; an interpreter's data has it, too. */
	for (int i = 0; !r && i < 4; i++) {
		if (!v8_is_tagged(data) || v8_type(h, data, &type))
			break;
		if (type == l->type_array) {
			*ret = data;
			return 0;
		}
		if (type && type == l->type_code)
			r = v8_word(h, data, l->code_deopt, &data);
		else if (type && type == l->type_interpreter_data)
			r = v8_word(h, data, 8, &data);
		else if (type && type == l->type_baseline_data)
			r = v8_word(h, data, 16, &data);
		else
			break;
	}
	return r ? r : err_set(h->e, ERR_NOT_FOUND, "the function is not compiled");
}

/* --- lines --- */

#define LINE_OFFSET_WORD 8u          /* after a script's name: on which line of its file it begins */
#define SOURCE_CHUNK 8192u           /* characters of two bytes that are read at once */
#define SOURCE_PIECE 65536u          /* characters; a multiple of what is read at once */
#define SOURCE_PIECES 256u           /* what lies behind them has no lines */
#define SOURCES_KEPT 4u
#define LINES_CHUNK 512u

/* The number of line ends before a position, by a table of where lines end. */
static int line_of(const struct v8_heap *h, uint64_t ends, uint32_t n, int64_t position, int64_t *ret)
{
	uint32_t lo = 0, hi = n;
	uint64_t v;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		int r = v8_word(h, ends, ARRAY_FIRST + 8ull * mid, &v);
		if (r)
			return r;
		if ((int64_t)(v >> 32) < position)
			lo = mid + 1;
		else
			hi = mid;
	}
	*ret = lo;
	return 0;
}

/* From the table of ends between the first and the last position. */
static int lines_by_ends(const struct v8_heap *h, uint64_t ends, const int64_t *positions, size_t n, int64_t *lines)
{
	uint64_t chunk[LINES_CHUNK];
	uint32_t length, from = 0, got = 0;
	int64_t line;
	int r = array_length(h, ends, &length);

	if (!r)
		r = line_of(h, ends, length, positions[0], &line);
	if (r)
		return r;
	for (size_t i = 0; i < n; i++) {
		while (line < length) {
			if (line < from || line >= from + got) {
				from = (uint32_t)line;
				got = MIN(length - from, n > 4 ? LINES_CHUNK : 16u);
				r = process_memory_read(h->m, ends - 1 + ARRAY_FIRST + 8ull * from, chunk, 8ull * got, h->e);
				if (r)
					return r;
			}
			if ((int64_t)(chunk[line - from] >> 32) >= positions[i])
				break;
			line++;
		}
		lines[i] = line;
	}
	return 0;
}

/* How many lines end among the characters from `from` up to `to`, of n that were read. What is before a function's line is most of a source. */
static int64_t one_byte_ends(const uint8_t *s, size_t from, size_t to, size_t n)
{
	const uint8_t *end = s + to, *p;
	int64_t lines = 0;

	for (p = s + from; (p = memchr(p, '\n', (size_t)(end - p))); p++)
		lines++;
	for (p = s + from; (p = memchr(p, '\r', (size_t)(end - p))); p++)
		lines += p + 1 == s + n || p[1] != '\n';
	return lines;
}

static int64_t two_byte_ends(const uint16_t *s, size_t from, size_t to, size_t n)
{
	int64_t lines = 0;

	for (size_t i = from; i < to; i++)
		lines += s[i] == '\n' || s[i] == 0x2028 || s[i] == 0x2029 || (s[i] == '\r' && (i + 1 == n || s[i + 1] != '\n'));
	return lines;
}

/* How many lines end before each piece of a long source, as far as that was looked through: else each of a bundle's functions would have
 * megabytes of text read. Strings do not change, and long ones are not moved. */
struct source_index {
	uint64_t script, at, hash;   /* hash: of how the text begins; another text may have come to the same place */
	uint32_t length, n;          /* pieces whose beginnings are known */
	uint32_t lines[SOURCE_PIECES];
};

struct v8_kept {
	uint32_t next;               /* whose place the next source takes */
	struct source_index sources[SOURCES_KEPT];
};

/* That of a source; NULL: it is short, or none can be kept. */
static struct source_index *source_index(const struct v8_heap *h, uint64_t script, const struct flat *f)
{
	uint64_t begin[8], hash = 0;

	if (!h->m->kept || f->length < 2 * SOURCE_PIECE || process_memory_read(h->m, f->at, begin, sizeof begin, h->e))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(begin); i++)
		hash = (hash ^ begin[i]) * 0x9e3779b97f4a7c15ull;
	if (!*h->m->kept)
		*h->m->kept = NEW(struct v8_kept);
	struct v8_kept *k = *h->m->kept;
	for (unsigned i = 0; i < SOURCES_KEPT; i++) {
		struct source_index *x = &k->sources[i];
		if (x->script == script && x->at == f->at && x->length == f->length && x->hash == hash)
			return x;
	}
	struct source_index *x = &k->sources[k->next++ % SOURCES_KEPT];
	*x = (struct source_index){ .script = script, .at = f->at, .hash = hash, .length = f->length, .n = 1 };
	return x;
}

/* The first position of a text to look through for a line, of an ascending list of positions; *ret_line: how many lines end before it. */
static uint32_t begin_at(const struct source_index *x, int64_t first, int64_t *ret_line)
{
	uint32_t piece = x ? (uint32_t)MIN(first / SOURCE_PIECE, x->n - 1) : 0;

	*ret_line = x ? x->lines[piece] : 0;
	return piece * SOURCE_PIECE;
}

/* From the text, read up to the last position. */
static int lines_by_source(const struct v8_heap *h, uint64_t script, uint64_t source, const int64_t *positions, size_t n, int64_t *lines)
{
	uint16_t chunk[SOURCE_CHUNK + 1] UNINITIALIZED;
	uint64_t second, left = h->m->bytes_left;
	struct flat f;
	int64_t line;
	size_t i = 0;
	int r = flatten(h, source, &f, &second);

	if (r || second)
		return r ? r : err_set(h->e, ERR_NOT_FOUND, "a script's source is in pieces");
	if (positions[n - 1] >= (int64_t)SOURCE_PIECE * SOURCE_PIECES)
		return err_set(h->e, ERR_LIMIT, "a script's source is too long to find a line in it");
	while (i < n && positions[i] < 0)
		lines[i++] = -1;
	if (i == n)
		return 0;
	struct source_index *x = source_index(h, script, &f);
	uint32_t width = f.one_byte ? 1 : 2, at_once = SOURCE_CHUNK * 2 / width;
	for (uint32_t at = begin_at(x, positions[i], &line); i < n && at < f.length;) {
		uint32_t got = (uint32_t)MIN(f.length - at, at_once), more = at + got < f.length;
		if (x && at == x->n * SOURCE_PIECE && x->n < SOURCE_PIECES)
			x->lines[x->n++] = (uint32_t)line;
		h->m->bytes_left = SOURCE_CHUNK * 2 + 2; /* the bound above is what it may have of bytes */
		r = process_memory_read(h->m, f.at + (uint64_t)at * width, chunk, (got + more) * width, h->e);
		h->m->bytes_left = left;
		if (r)
			return r;
		for (uint32_t from = 0, to; from < got && (i < n || x); from = to) {
			to = i < n && positions[i] < (int64_t)at + got ? (uint32_t)MAX(positions[i] - (int64_t)at, (int64_t)from) : got;
			line += f.one_byte ? one_byte_ends((const uint8_t *)chunk, from, to, got + more) :
					     two_byte_ends(chunk, from, to, got + more);
			for (; i < n && positions[i] <= (int64_t)at + to && to < got; i++)
				lines[i] = line;
		}
		at += got;
	}
	for (; i < n; i++)
		lines[i] = line;
	return 0;
}

void v8_lines(const struct v8_heap *h, uint64_t script, const int64_t *positions, size_t n, int64_t *lines)
{
	uint64_t ends, source, offset = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		lines[i] = -1;
	if (n && !v8_word(h, script, h->l->script_name + LINE_OFFSET_WORD, &offset)) {
		if (!v8_word(h, script, h->l->script_line_ends, &ends) && v8_is_array(h, ends))
			r = lines_by_ends(h, ends, positions, n, lines);
		else if (!v8_word(h, script, h->l->script_source, &source) && v8_is_tagged(source))
			r = lines_by_source(h, script, source, positions, n, lines);
	}
	/* Those that were found before an error stay. */
	(void)r;
	for (size_t i = 0; i < n; i++) {
		int64_t line = lines[i] + 1 + (int32_t)(offset >> 32);
		lines[i] = lines[i] < 0 || positions[i] < 0 || line < 1 || line > INT32_MAX ? 0 : line;
	}
}
