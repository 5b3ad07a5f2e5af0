/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/managed/rows.h"

#include "agent/python/python.h"

static const struct runtime *const rows[RUNTIME_KINDS] = {
	[RUNTIME_PYTHON] = &python_runtime,
};

const struct runtime *runtime_of(enum runtime_kind kind)
{
	return kind < RUNTIME_KINDS ? rows[kind] : NULL;
}

struct runtime_file *runtime_recognise(const struct elf_file *f, const char *path, unsigned wanted)
{
	struct runtime_file *r = NULL;

	for (unsigned i = 0; i < RUNTIME_KINDS && !r; i++)
		if (rows[i] && wanted >> i & 1)
			r = rows[i]->recognise(f, path);
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
