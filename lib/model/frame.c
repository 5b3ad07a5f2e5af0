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

static struct view after(struct view v, size_t n)
{
	return view_make(v.ptr + n, v.len - n);
}

/* What follows the last `dir` of a path; nothing if it is not in it. */
static struct view below(struct view path, struct view dir)
{
	for (size_t i = path.len; i >= dir.len && dir.len; i--)
		if (!memcmp(path.ptr + i - dir.len, dir.ptr, dir.len))
			return after(path, i);
	return VIEW("");
}

/* The first part of a path, without what follows its first dot. */
static struct view first_part(struct view path)
{
	size_t n = 0;
	while (n < path.len && path.ptr[n] != '/' && (path.ptr[n] != '.' || !n))
		n++;
	return view_make(path.ptr, n);
}

/* "cart" of "/app/shop/cart.py", "shop" of "/app/shop/__init__.py". */
static struct view module_of(struct view path)
{
	for (;;) {
		const char *slash = memrchr(path.ptr, '/', path.len);
		size_t from = slash ? (size_t)(slash + 1 - path.ptr) : 0;
		struct view base = first_part(after(path, from));
		if (from < 2 || (!view_eq(base, VIEW("__init__")) && !view_eq(base, VIEW("__main__"))))
			return base;
		path.len = from - 1;
	}
}

/* What was installed is its package, the standard library its module, and what else runs the module that it is. */
static struct view python_package(struct view file)
{
	static const struct view frozen = { "<frozen ", 8 };
	if (view_starts(file, frozen)) {
		struct view v = first_part(after(file, frozen.len));
		return v.len && v.ptr[v.len - 1] == '>' ? view_make(v.ptr, v.len - 1) : v;
	}
	struct view v = below(file, VIEW("/site-packages/"));
	if (!v.len)
		v = below(file, VIEW("/dist-packages/"));
	if (!v.len) {
		struct view lib = below(file, VIEW("/python3."));
		const char *slash = memchr(lib.ptr, '/', lib.len);
		bool version = slash && slash > lib.ptr;
		for (const char *p = lib.ptr; version && p < slash; p++)
			version = *p >= '0' && *p <= '9';
		if (version)
			v = after(lib, (size_t)(slash + 1 - lib.ptr));
	}
	return v.len ? first_part(v) : module_of(file);
}

/* "express", "@babel/core", "node" of "node:internal/timers", and of what else runs the module that it is. */
static struct view node_package(struct view file)
{
	if (view_starts(file, VIEW("node:")))
		return view_make(file.ptr, 4);
	struct view v = below(file, VIEW("/node_modules/"));
	if (!v.len)
		return module_of(file);
	const char *slash = memchr(v.ptr, '/', v.len);
	if (slash && v.ptr[0] == '@')
		slash = memchr(slash + 1, '/', v.len - (size_t)(slash + 1 - v.ptr));
	return slash ? view_make(v.ptr, (size_t)(slash - v.ptr)) : v;
}

/* "java.util" of "java.util.HashMap.get", "Shop" of "Shop.main". */
static struct view java_package(struct view name)
{
	struct view v = frame_simple_name(name);
	const char *method = memrchr(v.ptr, '.', v.len);
	if (!method)
		return VIEW("");
	struct view class = view_make(v.ptr, (size_t)(method - v.ptr));
	const char *dot = memrchr(class.ptr, '.', class.len);
	return dot ? view_make(class.ptr, (size_t)(dot - class.ptr)) : class;
}

struct view frame_package(struct view name, struct view binary, struct view file)
{
	struct view of = VIEW("");
	bool python = view_eq(binary, VIEW("[python]")), node = view_eq(binary, VIEW("[v8]")), java = view_eq(binary, VIEW("[hotspot]"));
	if (python || node || java) {
		if (java && name.len)
			of = java_package(name);
		else if (!java && file.len)
			of = python ? python_package(file) : node_package(file);
		return of.len ? of : binary;
	}
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
