/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Walks frames of code that runtimes have made, in the kernel. Part of sample.bpf.c. */
#ifndef PYRRHA_BPF_CODE_BPF_H
#define PYRRHA_BPF_CODE_BPF_H

#include "hotspot.h"

static __always_inline bool rt_is_jit(struct unwind *u, __u64 at)
{
	__u64 ip = u->ip;
	const struct unwind_map *m;

	u->ip = at;
	m = uw_search_maps(u);
	u->ip = ip;
	return m && m->image == IMAGE_JIT;
}

#include "v8.h"

/* What is known of the process's runtime of that kind; NULL: nothing. */
static __always_inline struct runtime_walk *walk_on(struct scratch *s, __u32 kind)
{
	struct runtime_walk *w = walk_of(kind);

	return w && (w->time_ns == s->head.time_ns ? w->on : walk_begin(s, w, kind)) ? w : 0;
}

/* Global functions, as unwind_some. */
__attribute__((noinline)) int walk_hotspot(int unused)
{
	__u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	struct runtime_walk *w;

	UW_OPAQUE(unused);
	if (!s)
		return UW_NO_CODE;
	w = walk_on(s, RUNTIME_HOTSPOT);
	s->u.hotspot = w != 0;
	return w && hs_is_code(&w->hotspot.p, s->u.ip) ? hotspot_step(&s->u, &w->hotspot.p, &w->hotspot.room) : UW_NO_CODE;
}

#define V8_STEPS_AT_ONCE 2           /* as STEPS_AT_ONCE */

/* UW_IN_CODE: the caller is code of the same sort, so that nothing has to be found out about it. */
__attribute__((noinline)) int walk_v8(__u64 frame)
{
	__u32 zero = 0;
	__u64 ip;
	int r = UW_NO_CODE;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	struct runtime_walk *w;

	if (!s)
		return UW_NO_CODE;
	w = walk_on(s, RUNTIME_V8);
	if (!w)
		return UW_NO_CODE;
#pragma clang loop unroll(disable)
	for (int i = 0; i < V8_STEPS_AT_ONCE; i++) {
		UW_OPAQUE(s);        /* as in unwind_some */
		UW_OPAQUE(w);
		ip = s->u.ip;
		r = v8_step(&s->u, &w->v8.p, &w->v8.room, frame);
		if (r != UW_STEP_ON || s->u.hotspot || (frame ? s->u.ip != ip : s->u.ip - s->u.start >= s->u.size))
			return r;
	}
	return UW_IN_CODE;
}

__attribute__((noinline)) int walk_unknown(int unused)
{
	__u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);

	UW_OPAQUE(unused);
	return s ? uw_step_unknown(&s->u, s->u.native) : END_UNSUPPORTED;
}

/* The frames that are ahead: r is UW_AHEAD or UW_IN_CODE. As uw_step, or again UW_IN_CODE. */
static __always_inline int walk_ahead(struct scratch *s, int r)
{
	if (r == UW_AHEAD) {
		walk(s->u.ahead);
		return uw_push(&s->u, s->u.native) ? UW_STEP_ON : END_DEPTH;
	}
	r = s->u.ahead == RUNTIME_V8 || !s->u.hotspot ? UW_NO_CODE : walk_hotspot(0);
	if (r == UW_NO_CODE)
		r = walk_v8(s->u.native);
	return r == UW_NO_CODE ? walk_unknown(0) : r;
}

#endif
