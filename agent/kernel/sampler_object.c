/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF object is part of the agent's binary. PYRRHA_BPF_OBJECT is its path in the build folder. */
#include "agent/kernel/sampler.h"

__asm__(".pushsection .rodata\n"
	".balign 16\n"
	"pyrrha_bpf_object:\n"
	".incbin \"" PYRRHA_BPF_OBJECT "\"\n"
	"pyrrha_bpf_object_end:\n"
	".byte 0\n"
	".popsection\n");

extern const char bpf_object_start[] __asm__("pyrrha_bpf_object");
extern const char bpf_object_end[] __asm__("pyrrha_bpf_object_end");

struct view sampler_object(void)
{
	return view_make(bpf_object_start, (size_t)(bpf_object_end - bpf_object_start));
}
