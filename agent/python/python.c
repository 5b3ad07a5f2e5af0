/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/python.h"

#include "agent/python/layout.h"

static struct runtime_file *recognise(const struct elf_file *f, const char *path)
{
	struct runtime_file *r = python_recognise(f);

	(void)path;
	if (r)
		r->of = &python_runtime;
	return r;
}

const struct runtime python_runtime = {
	.kind = RUNTIME_PYTHON,
	.name = "python",
	.mapping = "[python]",
	.in_name = "python",
	.recognise = recognise,
	.free_file = python_free_file,
	.attach = python_attach,
	.read_code = python_read_code,
	.frames_at = python_frames_at,
};
