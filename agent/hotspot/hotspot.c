/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hotspot/hotspot.h"

#include "agent/hotspot/recognise.h"
#include "agent/hotspot/record.h"

static struct runtime_file *recognise(const struct elf_file *f, const char *path)
{
	struct runtime_file *r = hotspot_recognise(f);

	(void)path;
	if (r)
		r->of = &hotspot_runtime;
	return r;
}

const struct runtime hotspot_runtime = {
	.kind = RUNTIME_HOTSPOT,
	.name = "hotspot",
	.mapping = "[hotspot]",
	.in_name = "libjvm",
	.recognise = recognise,
	.free_file = hotspot_free_file,
	.attach = hotspot_attach,
	.attach_reads = true,
	.read_code = hotspot_read_code,
	.frames_at = hotspot_frames_at,
};
