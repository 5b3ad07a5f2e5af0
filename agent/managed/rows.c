/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/managed/rows.h"

#include <stdio.h>

#include "agent/hotspot/hotspot.h"
#include "agent/python/python.h"
#include "agent/v8/v8.h"

static const struct runtime *const rows[RUNTIME_KINDS] = {
	[RUNTIME_PYTHON] = &python_runtime,
	[RUNTIME_V8] = &v8_runtime,
	[RUNTIME_HOTSPOT] = &hotspot_runtime,
};

const struct runtime *runtime_of(enum runtime_kind kind)
{
	return kind < RUNTIME_KINDS ? rows[kind] : NULL;
}

/* "python, v8": what there is. */
static void list_names(char *out, size_t n)
{
	size_t len = 0;

	out[0] = 0;
	for (unsigned i = 0; i < RUNTIME_KINDS; i++)
		if (rows[i] && len < n)
			len += (size_t)snprintf(out + len, n - len, "%s%s", len ? ", " : "", rows[i]->name);
}

static enum runtime_kind kind_named(struct view name)
{
	for (unsigned i = 0; i < RUNTIME_KINDS; i++)
		if (rows[i] && view_eqs(name, rows[i]->name))
			return i;
	return RUNTIME_NONE;
}

int runtimes_parse(const char *list, unsigned *ret, struct err *e)
{
	struct view rest = view_of(list);
	unsigned these = 0, but = 0;
	char names[128];

	if (view_eqs(rest, "all") || view_eqs(rest, "none")) {
		*ret = view_eqs(rest, "all") ? RUNTIMES_ALL : 0;
		return 0;
	}
	do {
		struct view one = view_cut(&rest, ',');
		bool minus = one.len && one.ptr[0] == '-';
		enum runtime_kind kind = kind_named(view_make(one.ptr + minus, one.len - minus));
		if (kind == RUNTIME_NONE) {
			list_names(names, sizeof names);
			return err_set(e, ERR_BAD_DATA, "\"%.*s\" is none of the language runtimes (%s), each with a - before it or none, nor all "
				       "or none", VIEW_ARG(one), names);
		}
		*(minus ? &but : &these) |= 1u << kind;
	} while (rest.len);
	if (these && but)
		return err_set(e, ERR_BAD_DATA, "\"%s\" names language runtimes with and without a -: either those that are wanted, or those "
			       "that are not", list);
	*ret = but ? RUNTIMES_ALL & ~but : these;
	return 0;
}

struct runtime_file *runtime_recognise(const struct elf_file *f, const char *path, unsigned wanted)
{
	struct runtime_file *r = NULL;

	for (unsigned i = 0; i < RUNTIME_KINDS && !r; i++)
		if (rows[i])
			r = rows[i]->recognise(f, path);
	if (r && !(wanted >> r->of->kind & 1)) {
		r->off = true;
		snprintf(r->why_not, sizeof r->why_not, "switched off by --runtimes");
	}
	return r;
}

bool runtime_may_be(const char *path, unsigned wanted)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (unsigned i = 0; i < RUNTIME_KINDS; i++)
		if (rows[i] && wanted >> i & 1 && strstr(name, rows[i]->in_name))
			return true;
	return false;
}
