/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* One step from a frame of V8's code to its caller. That code is of three sorts, all of which keep frame pointers:
 *
 *	bytecode handlers, and the trampoline that enters them: functions of the program's text without a frame of their own. The
 *	         frame is an interpreted JavaScript function's, and takes the place of the native one
 *	other builtins: in the text, too, with a frame of their own, or none at all while they call nothing
 *	compiled JavaScript, regular expressions, WebAssembly: in memory without a file
 *
 * A frame, from fp down in words: context or marker (even; what sort of frame it is), JSFunction, arguments' count, and of an interpreted
 * function the bytecode array and the offset in it (a small integer: in the upper half of the word). V8 moves JSFunctions all the time,
 * thus their SharedFunctionInfo leaves the kernel, as (at, object, check):
 *
 *	interpreted    offset of the bytecode, from the array's tagged address; 0: not known     V8_FUNCTION, its SharedFunctionInfo    what it looks like
 *	compiled       0                                       V8_CODE or V8_CODE_LEAF, pc    V8_CHECK_CODE of the code there and the SharedFunctionInfo
 *	other          0                                       V8_MARKER, the marker          1
 *
 * Code that a function has, had or shares with others cannot be found from its frame alone in a few reads. The agent finds
 * it by its pc.
 *
 * The BPF program and the agent's tests compile the same code. Besides what unwind.h has, they define before they include it:
 *
 *	rt_read(u, to, n, at)              n bytes of the process's memory; 0 if all could be read
 *	rt_push(u, word, object, check)    keeps a frame; false if there is no room
 *	rt_is_jit(u, at)                   whether an address is in memory of V8's without a file
 *
 * Everything that is read may be anything. */
#ifndef PYRRHA_BPF_V8_H
#define PYRRHA_BPF_V8_H

#include "walk.h"

#define V8_WHOLE (-1)
#define V8_BELOW 48
#define V8_FUNCTION_WORDS 6          /* of a JSFunction, which has more, that are read */
#define V8_FP_WORD(w, n) ((w)->frame[V8_BELOW / 8 + (n)])

#define V8_WORD(at) ((__u64)RUNTIME_IMAGE(RUNTIME_V8) << FRAME_IMAGE_SHIFT | (__u32)(at))

static __always_inline bool v8_is_object(__u64 v)
{
	return (v & 3) == 1 && v < UW_USER_END;
}

/* Whether the innermost frame is not set up yet, or not any more: how far above sp the return address is, V8_WHOLE: it is set up. What the next
 * instructions are tells, beyond what uw_without_frame knows: those of an epilogue after `pop rbp`. */
static __always_inline int v8_without_frame(struct unwind *u)
{
	__u8 c[UW_CODE];             /* c[1] is the byte at ip */

	if (u->is_ra || uw_code(u, c))
		return V8_WHOLE;
	if (c[1] == 0x55 || c[1] == 0xc3 || c[1] == 0xc2)                          /* push rbp; ret */
		return 0;
	if (c[0] == 0x55 && c[1] == 0x48 && ((c[2] == 0x89 && c[3] == 0xe5) || (c[2] == 0x8b && c[3] == 0xec)))
		return 8;                                                          /* mov rbp, rsp after push rbp */
	/* Before it, optimised code looks whether it is void: mov rbx, [rcx - n]; test byte [rbx + n], bit; jump. */
	if ((c[1] == 0x48 && c[2] == 0x8b && c[3] == 0x59 && c[5] == 0xf6 && c[6] == 0x43) || (c[1] == 0xf6 && c[2] == 0x43 && c[3] != 0x08) ||
	    (c[0] == 0x01 && c[1] == 0x74 && (c[2] == 0x0d || c[2] == 0x05)) || (c[1] == 0x0f && c[2] == 0x85 && c[7] == 0x55))
		return 0;
	if (c[0] == 0x5d && ((c[1] == 0x49 && c[2] == 0x83) || (c[1] == 0x48 && (c[2] == 0x3b || c[2] == 0x83 || c[2] == 0x81 || c[2] == 0x8d)) || c[1] == 0x41 ||
			     c[1] == 0x59 || c[1] == 0x83 || c[1] == 0x3b))
		return 0;                                                          /* pop rbp, then what drops the arguments: */
	if ((c[1] == 0x7f && c[2] == 0x03 && c[3] == 0xc2) || (c[1] == 0x0f && c[2] == 0x8f && c[3] == 0x03 && c[7] == 0xc2) ||
	    (c[1] == 0x41 && c[2] == 0x5a && (c[3] == 0x48 || c[3] == 0x4a) && c[4] == 0x8d))
		return 0;                                                          /* more than there are? else ret; pop r10 */
	if (c[0] == 0x5a && c[2] == 0x8d && c[3] == 0x24 && ((c[1] == 0x48 && c[4] == 0xcc) || (c[1] == 0x4a && c[4] == 0xc4)))
		return -8;                                                         /* lea rsp, [rsp + 8 rcx], r8 from Node 26 on; it was just taken */
	return V8_WHOLE;
}

/* A builtin may end in a jump to another one: `mov rbp, [rbp]`, then moves of arguments into registers, then `add rsp, size` and the jump. In between
 * rbp is the caller's, and rsp is still that of the builtin's frame. Returns how many bytes above rsp the return address is then; 0: it is not so. */
#define V8_TAIL_CODE 40              /* bytes that are looked at */

static __always_inline __u32 v8_without_own_fp(struct unwind *u, struct v8_room *w)
{
	const __u8 *c = (const __u8 *)w->object;
	__u32 above = 0;
	__u64 saved;

	if (u->is_ra || rt_read(u, w->object, V8_TAIL_CODE, u->ip))
		return 0;
	for (int i = 0; i < V8_TAIL_CODE - 8; i++) {
		if (c[i] != 0x48 || c[i + 2] != 0xc4)
			continue;
		if (c[i + 1] == 0x83 && c[i + 4] == 0xe9)
			above = c[i + 3];
		else if (c[i + 1] == 0x81 && c[i + 7] == 0xe9)
			above = c[i + 3] | (__u32)c[i + 4] << 8;
		else
			continue;
		break;
	}
	if (above < 16 || rt_read(u, &saved, 8, u->sp + above - 8) || saved != u->fp)
		return 0;
	return above;
}

/* The SharedFunctionInfo of a JSFunction; 0: it is none. */
static __always_inline __u64 v8_shared(struct unwind *u, const struct v8_proc *p, struct v8_room *w, __u64 function)
{
	__u64 shared, map, i = p->function_shared >> 3;
	__u16 type;

	if (!v8_is_object(function))
		return 0;
	if (function == w->function)
		return w->shared;
	if (i >= V8_FUNCTION_WORDS || rt_read(u, w->object, V8_FUNCTION_WORDS * 8, function - 1))
		return 0;
	map = w->object[0];
	if (!v8_is_object(map))
		return 0;
	if (map != w->map && (rt_read(u, &type, 2, map - 1 + p->map_type) || type < p->function_first || type > p->function_last))
		return 0;
	w->map = map;
	UW_OPAQUE(i);
	shared = w->object[i & 7];
	if (!v8_is_object(shared))
		return 0;
	w->function = function;
	w->shared = shared;
	return shared;
}

/* The SharedFunctionInfo of the frame in w; 0: there is none. */
static __always_inline __u64 v8_function(struct unwind *u, const struct v8_proc *p, struct v8_room *w)
{
	/* Not pushed yet, or not any more: what is below sp is old. */
	if (u->fp - 16 < u->sp || !v8_is_object(V8_FP_WORD(w, -1)))
		return 0;
	return v8_shared(u, p, w, V8_FP_WORD(w, -2));
}

/* Keeps a frame of code without a file. framed: w has it. */
static __always_inline int v8_push_code(struct unwind *u, struct v8_room *w, __u64 pc, __u64 shared, bool framed, bool leaf)
{
	__u64 marker = V8_FP_WORD(w, -1);

	if (!shared && framed && !(marker & 1) && marker >> 1 < V8_MARKERS_MAX)
		return rt_push(u, V8_WORD(0), V8_OBJECT(V8_MARKER, marker >> 1), 1) ? UW_STEP_ON : END_DEPTH;
	if (pc != w->pc) {
		w->pc = pc;
		w->bytes = 0;
		rt_read(u, &w->bytes, 8, pc);
	}
	return rt_push(u, V8_WORD(0), V8_OBJECT(leaf ? V8_CODE_LEAF : V8_CODE, pc), V8_CHECK_CODE(w->bytes, shared)) ? UW_STEP_ON
														       : END_DEPTH;
}

/* The offset of the bytecode that the frame in w says; 0: none. */
static __always_inline __u32 v8_bytecode_at(const struct v8_room *w)
{
	__u64 offset = V8_FP_WORD(w, -5);

	return (__u32)offset ? 0 : offset >> 32;
}

/* Whether the frame in w has a bytecode array. Compiled code that a loop was replaced by has it, too, with an old offset. */
static __always_inline bool v8_has_bytecode(struct unwind *u, const struct v8_proc *p, const struct v8_room *w)
{
	__u64 array = V8_FP_WORD(w, -4), map;
	__u16 type;

	return v8_is_object(array) && !rt_read(u, &map, 8, array - 1) && v8_is_object(map) &&
	       !rt_read(u, &type, 2, map - 1 + p->map_type) && type == p->array_type;
}

static __always_inline int v8_push_function(struct unwind *u, const struct v8_proc *p, struct v8_room *w, __u64 shared, __u32 at)
{
	if (shared != w->measured) {
		w->measured = shared;
		w->lengths = rt_read(u, &w->lengths, 8, shared - 1 + p->shared_lengths) ? 0 : V8_CHECK_FUNCTION(w->lengths);
	}
	return rt_push(u, V8_WORD(at), V8_OBJECT(V8_FUNCTION, shared), w->lengths) ? UW_STEP_ON : END_DEPTH;
}

/* The function that the innermost frame's builtin works for, without a frame of its own. */
static __always_inline int v8_push_below(struct unwind *u, const struct v8_proc *p, struct v8_room *w, __u64 shared, bool entering)
{
	if (!rt_read(u, w->above, sizeof w->above, u->sp)) {
		for (int i = 0; i < 3; i++) {
			__u64 ra = w->above[i];

			if (ra - u->start < u->size && v8_has_bytecode(u, p, w))
				return v8_push_function(u, p, w, shared, v8_bytecode_at(w));
			if (rt_is_jit(u, ra))
				return v8_push_code(u, w, ra - 1, shared, false, false);
		}
	}
	return v8_push_function(u, p, w, shared, entering && v8_has_bytecode(u, p, w) ? v8_bytecode_at(w) : 0);
}

/* The function of a frame in the program's text, and the native frame where it has one. */
static __always_inline int v8_push_builtin(struct unwind *u, const struct v8_proc *p, struct v8_room *w, __u64 native, __u64 shared)
{
	__u64 vaddr = native & FRAME_ADDR_MASK, data;
	bool entering = vaddr - p->trampoline < p->trampoline_bytes;

	if (shared && (vaddr - p->handlers < p->handlers_bytes || (entering && u->is_ra)))
		return v8_push_function(u, p, w, shared, v8_bytecode_at(w));
	if (!uw_push(u, native))
		return END_DEPTH;
	/* Builtins that JavaScript calls have a function of their own: the native name says as much. */
	if (!shared || rt_read(u, &data, 8, shared - 1 + V8_SHARED_DATA) || !(data & 1))
		return UW_STEP_ON;
	/* A function that goes on interpreted, as its optimised code is void, returns to a builtin of its own. */
	return u->is_ra ? v8_push_function(u, p, w, shared, v8_has_bytecode(u, p, w) ? v8_bytecode_at(w) : 0)
			: v8_push_below(u, p, w, shared, entering);
}

/* The builtin that leaves optimised code takes its frame off the stack before it asks what takes its place. In that call it has the
 * Deoptimizer on the stack, which knows the function and the caller: at sp is the address of the word that points to it, and behind that word
 * the caller's frame begins. False: this is no such call. */
#define V8_DEOPTIMISER_FUNCTION 8    /* of a Deoptimizer, after the isolate */

static __always_inline bool v8_was_taken_off(struct unwind *u, const struct v8_proc *p, struct v8_room *w, __u64 vaddr)
{
	__u64 at, o;

	if (!u->is_ra || vaddr - p->deoptimising >= p->deoptimising_bytes || rt_read(u, &at, 8, u->sp) || at - u->sp > 16 || at & 7 ||
	    rt_read(u, &o, 8, at) || rt_read(u, w->above, sizeof w->above, o + p->deoptimiser_caller) || w->above[0] != at + 8)
		return false;
	return !rt_read(u, &w->object[7], 8, o + V8_DEOPTIMISER_FUNCTION);
}

static __always_inline int v8_step_to_taken_off(struct unwind *u, const struct v8_proc *p, struct v8_room *w, __u64 native)
{
	__u64 shared = v8_shared(u, p, w, w->object[7]);
	int err;

	if (!uw_push(u, native))
		return END_DEPTH;
	err = shared ? v8_push_function(u, p, w, shared, 0) : UW_STEP_ON;
	if (err != UW_STEP_ON)
		return err;
	u->fp = w->above[1];
	u->fp_unknown = 0;
	return uw_to_caller(u, w->above[0], w->above[2]);
}

/* Keeps the frame at u->ip and moves to its caller, as uw_step. native: the word of a frame in the program's text; 0: it is
 * in memory without a file. */
static __always_inline int v8_step(struct unwind *u, const struct v8_proc *p, struct v8_room *w, __u64 native)
{
	int above = v8_without_frame(u), err;
	__u64 ra, fp = u->fp;

	if (above != V8_WHOLE) {
		err = native ? (uw_push(u, native) ? UW_STEP_ON : END_DEPTH) : v8_push_code(u, w, u->ip, 0, false, true);
		if (err != UW_STEP_ON)
			return err;
		if (rt_read(u, &ra, 8, u->sp + above) || (above > 0 && rt_read(u, &u->fp, 8, u->sp)))
			return END_STACK_READ;
		return uw_to_caller(u, u->sp + above + 8, ra);
	}
	if (native) {
		__u32 bytes = v8_without_own_fp(u, w);

		if (bytes && !rt_read(u, &ra, 8, u->sp + bytes))
			return uw_push(u, native) ? uw_to_caller(u, u->sp + bytes + 8, ra) : END_DEPTH;
	}
	if (native && v8_was_taken_off(u, p, w, native & FRAME_ADDR_MASK))
		return v8_step_to_taken_off(u, p, w, native);
	if (u->fp_unknown || fp & 7 || fp >= UW_USER_END || fp < u->sp || fp - u->sp > UW_FRAME_MAX ||
	    rt_read_stack(u, w->frame, sizeof w->frame, fp - V8_BELOW)) {
		if (native)
			uw_push(u, native);
		else
			v8_push_code(u, w, u->ip, 0, false, !u->is_ra);
		return END_BAD_FRAME;
	}
	ra = v8_function(u, p, w);
	err = native ? v8_push_builtin(u, p, w, native, ra) : v8_push_code(u, w, u->ip, ra, true, !u->is_ra);
	if (err != UW_STEP_ON)
		return err;
	u->fp = V8_FP_WORD(w, 0);
	return uw_to_caller(u, fp + 16, V8_FP_WORD(w, 1));
}

#endif
