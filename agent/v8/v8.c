/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/v8/v8.h"

#include "agent/v8/layout.h"

static struct runtime_file *recognise(const struct elf_file *f, const char *path)
{
	struct runtime_file *r = v8_recognise(f);

	(void)path;
	if (r)
		r->of = &v8_runtime;
	return r;
}

const struct runtime v8_runtime = {
	.kind = RUNTIME_V8,
	.name = "v8",
	.mapping = "[v8]",
	.in_name = "node",
	.steps_interpreter = true,
	.recognise = recognise,
	.free_file = v8_free_file,
	.attach = v8_attach,
	.read_code = v8_read_code,
	.frames_at = v8_frames_at,
};
