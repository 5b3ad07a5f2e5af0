/* SPDX-License-Identifier: Apache-2.0 */
#include "model/frame.h"

struct view frame_binary(const struct symbols *s, const struct sym_location *l)
{
	if (!l->mapping)
		return VIEW("");
	struct view file = symbols_get_string(s, symbols_get_mapping(s, l->mapping - 1)->file);
	const char *slash = file.len ? memrchr(file.ptr, '/', file.len) : NULL;
	if (slash && slash + 1 < file.ptr + file.len)
		return view_make(slash + 1, file.len - (size_t)(slash + 1 - file.ptr));
	return file;
}

void frame_address_name(const struct symbols *s, const struct sym_location *l, struct buf *out)
{
	struct view binary = frame_binary(s, l);
	uint64_t offset = l->mapping ? symbols_get_mapping(s, l->mapping - 1)->offset : 0;
	buf_putv(out, binary);
	buf_printf(out, "%s0x%llx", binary.len ? "+" : "", (unsigned long long)(l->address + offset));
}

const struct sym_function *frame_function(const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	if (i >= l->n_lines)
		return NULL;
	uint32_t f = symbols_get_line(s, l, i)->function;
	return f ? symbols_get_function(s, f - 1) : NULL;
}

struct view frame_name(const struct symbols *s, const struct sym_location *l, uint32_t i, struct buf *tmp)
{
	const struct sym_function *f = frame_function(s, l, i);
	struct view name = f ? symbols_get_string(s, f->name) : VIEW("");
	if (name.len)
		return name;
	buf_reset(tmp);
	frame_address_name(s, l, tmp);
	return buf_view(tmp);
}

struct view frame_file(const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	const struct sym_function *f = frame_function(s, l, i);
	return f ? symbols_get_string(s, f->filename) : VIEW("");
}

struct view frame_simple_name(struct view v)
{
	static const struct view reserved[] = { { "(anonymous namespace)", 21 }, { "operator()", 10 } };
	if (v.len && v.ptr[0] == '.')
		v = view_make(v.ptr + 1, v.len - 1);
	for (size_t i = 0; i < v.len; i++) {
		struct view rest = view_make(v.ptr + i, v.len - i);
		size_t skip = 0;
		for (size_t k = 0; k < ARRAY_LEN(reserved) && !skip; k++)
			skip = view_starts(rest, reserved[k]) ? reserved[k].len : 0;
		if (skip)
			i += skip - 1;
		else if (v.ptr[i] == '(')
			return view_make(v.ptr, i);
	}
	return v;
}

struct view frame_package(struct view name, struct view binary)
{
	struct view v = frame_simple_name(name);
	const char *slash = memrchr(v.ptr, '/', v.len);
	size_t from = slash ? (size_t)(slash + 1 - v.ptr) : 0, cut = 0;
	unsigned depth = 0;
	for (size_t i = from; i + 1 < v.len; i++) { /* C++: the last :: that is not inside <> */
		depth += v.ptr[i] == '<';
		depth -= v.ptr[i] == '>' && depth;
		if (!depth && v.ptr[i] == ':' && v.ptr[i + 1] == ':')
			cut = i;
	}
	if (cut)
		return view_make(v.ptr, cut);
	const char *dot = memchr(v.ptr + from, '.', v.len - from);
	if (dot && dot > v.ptr)
		return view_make(v.ptr, (size_t)(dot - v.ptr));
	return binary;
}
