/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Walks frames of code that runtimes have made, in the kernel. Part of sample.bpf.c. */
#ifndef PYRRHA_BPF_HOTSPOT_BPF_H
#define PYRRHA_BPF_HOTSPOT_BPF_H

#include "hotspot.h"

/* A frame of such code, as uw_step_code. A global function, as unwind_some. */
__attribute__((noinline)) int walk_code(int unused)
{
	__u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	struct runtime_walk *w = walk_of(RUNTIME_HOTSPOT);

	UW_OPAQUE(unused);
	if (!s || !w || (w->time_ns == s->head.time_ns ? !w->on : !walk_begin(s, w, RUNTIME_HOTSPOT)))
		return UW_NO_CODE;
	if (!hs_is_code(&w->hotspot.p, s->u.ip))
		return UW_NO_CODE;
	return hotspot_step(&s->u, &w->hotspot.p, &w->hotspot.room);
}

#endif
