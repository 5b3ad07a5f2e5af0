/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* One step from a frame of HotSpot's code cache to its caller. The cache is a few heaps of blocks. A heap's segment map has a byte for
 * each segment: 0 where a block begins, 0xff where none is, else how many segments to go back. A block holds a header and a CodeBlob,
 * whose kind shows in the first letters of its name:
 *
 *	"nmethod", "native nmethod"   compiled code: its frame has a fixed size, and rbp is a general register
 *	"Interpreter"                 all interpreted frames: laid out from rbp down
 *	"vtable chunks", adapters,
 *	"native signature handlers"   no frame: the return address is at sp
 *	others                        stubs, with a frame of fixed size, or one that rbp points to
 *
 * The innermost frame may be incomplete: the instructions at pc tell. A frame leaves as (at, object, check):
 *
 *	compiled       pc from the code's begin     CodeBlob     HOTSPOT_COMPILED, compile id
 *	interpreted    bytecode index, or 0xffff    Method       HOTSPOT_INTERPRETED, address of its ConstMethod, 0 = not read
 *	stub           pc from the code's begin     CodeBlob     HOTSPOT_STUB, first letters of the name
 *
 * The BPF program and the agent compile the same code, over rt_read and rt_push (walk.h), after unwind.h. Everything that is read may be
 * anything. */
#ifndef PYRRHA_BPF_HOTSPOT_H
#define PYRRHA_BPF_HOTSPOT_H

#include "walk.h"

#define HOTSPOT_WORD(at) ((__u64)RUNTIME_IMAGE(RUNTIME_HOTSPOT) << FRAME_IMAGE_SHIFT | (__u32)(at))
#define HS_NAME(a, b, c, d) ((__u32)(a) | (__u32)(b) << 8 | (__u32)(c) << 16 | (__u32)(d) << 24)
#define HS_SEGMENT_STEPS 64          /* 12 were seen */
#define HS_SLOTS 6                   /* compiled code pushes up to this many words around calls of the runtime */
#define HS_FRAME_MAX (1u << 20)      /* bytes of a frame, 512 KB of locals and 512 KB of operands included */
#define HS_BLOB_READ 384
#define HS_BLOB_LEAST 128            /* a CodeBlob of a stub */
#define HS_COOKIE (~0ull)
#define HS_SAVED_R13 528             /* above sp: 512 bytes of floating point registers, r15, r14 */
#define HS_INTERPRETER_BELOW 64      /* of an interpreted frame, below rbp */
#define HS_ENTRY_BYTES 64            /* of a continuation's entry: rbp and the return address follow */

#ifdef __clang__
#define HS_KEEP_LOOP _Pragma("clang loop unroll(disable)")
#define HS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define HS_KEEP_LOOP
#define HS_UNROLL
#endif

/* How much of its frame the innermost frame has. */
enum hs_state {
	HS_WHOLE,
	HS_WHOLE_NO_FP,              /* but rbp was not saved yet */
	HS_RETURN,                   /* the return address is at sp */
	HS_FP_RETURN                 /* the caller's rbp is at sp, the return address above */
};

static __always_inline __u64 hs_u64(const struct hotspot_room *w, __u64 off)
{
	UW_OPAQUE(off);
	return *(const __u64 *)((const char *)w->blob + (off & 511));
}

static __always_inline __u32 hs_u32(const struct hotspot_room *w, __u64 off)
{
	UW_OPAQUE(off);
	return *(const __u32 *)((const char *)w->blob + (off & 511));
}

static __always_inline bool hs_is_code(const struct hotspot_proc *p, __u64 at)
{
	return at - p->low < p->high - p->low;
}

/* The heap that holds pc; NULL: none does. */
static __always_inline const struct hotspot_heap *hs_heap(const struct hotspot_proc *p, __u64 pc)
{
	for (int i = 0; i < HOTSPOT_HEAPS; i++)
		if (pc - p->heap[i].start < p->heap[i].bytes)
			return &p->heap[i];
	return 0;
}

/* The CodeBlob that holds pc; 0: there is none. */
static __always_inline __u64 hs_find_blob(struct unwind *u, const struct hotspot_proc *p, __u64 pc)
{
	const struct hotspot_heap *h = hs_heap(p, pc);
	__u64 segment;
	__u8 tag;

	if (!h)
		return 0;
	segment = (pc - h->start) >> (p->segment_shift & 31);
	HS_KEEP_LOOP
	for (int i = 0; i < HS_SEGMENT_STEPS; i++) {
		if (rt_read(u, &tag, 1, h->segmap + segment) || tag == 0xff)
			return 0;
		if (!tag)
			return h->start + (segment << (p->segment_shift & 31)) + p->block_header;
		if (tag > segment)
			return 0;
		segment -= tag;
	}
	return 0;
}

static __always_inline int hs_read_blob(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, __u64 pc,
					struct hs_blob *b)
{
	__u64 add = 0, mask = ~0ull;

	/* Of the same code as the frame before: all interpreted frames, and those of recursion. */
	if (pc - b->begin < b->end - b->begin)
		return 0;
	b->begin = b->end = 0;
	b->address = hs_find_blob(u, p, pc);
	if (!b->address)
		return -1;
	if (rt_read(u, w->blob, HS_BLOB_READ, b->address) && rt_read(u, w->blob, HS_BLOB_LEAST, b->address))
		return -1;
	if (p->relative) {
		add = b->address;
		mask = 0xffffffff;
	}
	b->begin = (hs_u64(w, p->blob_code_begin) & mask) + add;
	b->end = (hs_u64(w, p->blob_code_end) & mask) + add;
	b->frame_bytes = hs_u32(w, p->blob_frame_size) * 8;
	if (b->frame_bytes > HS_FRAME_MAX) /* -1: rbp points to it */
		b->frame_bytes = 0;
	b->frame_complete = hs_u32(w, p->blob_frame_complete) & 0xffff;
	if (pc - b->begin < b->end - b->begin && b->end - b->begin <= 1u << 30 && !rt_read(u, &b->name, 8, hs_u64(w, p->blob_name)))
		return 0;
	b->end = b->begin;
	return -1;
}

/* Of code that a frame was interrupted in, before or after it has one. c: the instruction at pc, with what is before and behind it. */
static __always_inline enum hs_state hs_prologue(const __u8 *c)
{
	if (c[0] == 0x55 || (c[0] == 0x89 && c[1] == 0x84 && c[2] == 0x24)) /* push rbp; mov [rsp - big], eax */
		return HS_RETURN;
	if (c[0] == 0x48 && (c[1] == 0x8b || c[1] == 0x89) && (c[2] == 0xec || c[2] == 0xe5)) /* mov rbp, rsp */
		return c[-1] == 0x55 ? HS_FP_RETURN : HS_WHOLE;
	if (c[0] == 0x48 && (c[1] == 0x83 || c[1] == 0x81) && c[2] == 0xec) { /* sub rsp, size */
		if (c[-1] == 0x55 || (c[-4] == 0x55 && c[-3] == 0x48))
			return HS_FP_RETURN;
		return HS_RETURN;
	}
	if (c[0] == 0x48 && c[1] == 0x89 && (c[2] == 0x6c || c[2] == 0xac) && c[3] == 0x24) /* mov [rsp + size], rbp */
		return HS_WHOLE_NO_FP;
	/* Its frame is whole if the size was taken off the stack pointer before: the checks of the entry follow. */
	HS_UNROLL
	for (int i = HOTSPOT_CODE_BEFORE - 3; i >= 4; i--)
		if (c[-i] == 0x48 && (c[1 - i] == 0x83 || c[1 - i] == 0x81) && c[2 - i] == 0xec)
			return HS_WHOLE;
	return HS_RETURN;
}

/* Of code that runs behind its prologue. */
static __always_inline enum hs_state hs_epilogue(const __u8 *c)
{
	if (c[0] == 0xc3)                                                /* ret */
		return HS_RETURN;
	if (c[0] == 0x5d)                                                /* pop rbp */
		return HS_FP_RETURN;
	if (c[-1] == 0x5d && ((c[-5] == 0x48 && c[-4] == 0x83 && c[-3] == 0xc4) || (c[-8] == 0x48 && c[-7] == 0x81 && c[-6] == 0xc4)))
		return HS_RETURN;                                        /* after add rsp, size; pop rbp: a jump to the stub that rethrows */
	if (c[0] == 0x49 && c[1] == 0x3b && (c[2] == 0xa7 || c[2] == 0x67)) /* cmp rsp, [r15 + poll] */
		return HS_RETURN;
	if (c[0] == 0x0f && c[1] == 0x87 && c[6] == 0xc3)                /* ja poll; ret */
		return HS_RETURN;
	if (c[0] == 0x41 && c[1] == 0x85 && c[2] == 0x02 && c[3] == 0xc3) /* test [r10], eax; ret */
		return HS_RETURN;
	if (c[0] == 0x85 && c[1] == 0x05 && c[6] == 0xc3)                /* test [poll], eax; ret */
		return HS_RETURN;
	if (c[0] == 0x4d && c[1] == 0x8b && c[2] == 0x97 && c[-1] == 0x5d) /* mov r10, [r15 + poll] after pop rbp */
		return HS_RETURN;
	if (c[0] == 0x4c && c[1] == 0x8d && c[2] == 0x15 && c[7] == 0x4d && c[8] == 0x89 && c[9] == 0x97)
		return HS_RETURN;                                        /* lea r10, [rip]; mov [r15 + pc], r10: at the poll */
	if (c[0] == 0x4d && c[1] == 0x89 && c[2] == 0x97 && c[-7] == 0x4c && c[-6] == 0x8d && c[-5] == 0x15)
		return HS_RETURN;
	if ((c[0] == 0x49 && c[1] == 0xba && c[10] == 0x4d && c[11] == 0x89 && c[12] == 0x97) || /* the same with an address */
	    (c[0] == 0x4d && c[1] == 0x89 && c[2] == 0x97 && c[-10] == 0x49 && c[-9] == 0xba && c[7] == 0xe9))
		return HS_RETURN;
	if (c[0] == 0xe9 && c[-7] == 0x4d && c[-6] == 0x89 && c[-5] == 0x97)
		return HS_RETURN;
	/* Native methods: cmp [r15 + exception], 0 after leave; on 25 after test [r15 + poll], 1, too. */
	if (c[-1] == 0xc9 && (c[0] == 0x49 || c[0] == 0x41) && (c[1] == 0x83 || c[1] == 0x81 || c[1] == 0xf6))
		return HS_RETURN;
	if (c[0] == 0x74 && c[-6] == 0xc9 && c[-5] == 0x41 && c[-4] == 0xf6)
		return HS_RETURN;
	/* What is right in front of ret: jne throw; cmp, jne throw. */
	if (c[0] == 0x0f && c[1] == 0x85 && c[6] == 0xc3)
		return HS_RETURN;
	if (c[0] == 0x49 && c[2] == 0x7f && ((c[1] == 0x83 && c[5] == 0x0f && c[6] == 0x85 && c[11] == 0xc3) ||
					     (c[1] == 0x81 && c[8] == 0x0f && c[9] == 0x85 && c[14] == 0xc3)))
		return HS_RETURN;
	if (c[0] == 0xe9 && c[-1] == 0xc3 && c[-7] == 0x0f && c[-6] == 0x85 && c[-5] == 0x01) /* behind that ret: a jump to the stub that rethrows */
		return HS_RETURN;
	return HS_WHOLE;
}

/* Of a stub: most begin with push rbp; mov rbp, rsp, or with push rbp; sub rsp. */
static __always_inline enum hs_state hs_stub_state(const __u8 *c)
{
	if (c[0] == 0x55 || c[0] == 0xc3)
		return HS_RETURN;
	if (c[0] == 0x5d)
		return HS_FP_RETURN;
	if (c[-1] == 0x55 && c[0] == 0x48 && (c[1] == 0x8b || c[1] == 0x89 || c[1] == 0x81 || c[1] == 0x83) && c[2] >= 0xe5 && c[2] <= 0xec)
		return HS_FP_RETURN;
	if (c[-4] == 0x55 && c[-3] == 0x48 && (c[-2] == 0x8b || c[-2] == 0x89) && (c[-1] == 0xec || c[-1] == 0xe5))
		return HS_FP_RETURN;
	return HS_WHOLE;
}

static __always_inline bool hs_read_code(struct unwind *u, struct hotspot_room *w, __u64 pc)
{
	return !rt_read(u, w->code, sizeof w->code, pc - HOTSPOT_CODE_BEFORE);
}

/* To the caller of a frame whose return address is at sp + above, and the caller's rbp below that if it was saved. The stub that
 * methods call as they are entered has -1 below its return address. */
static __always_inline int hs_leave_small(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, __u32 above)
{
	__u64 sp = u->sp;

	if (rt_read(u, w->frame, 24, sp))
		return END_STACK_READ;
	if (above) {
		u->fp = w->frame[0];
		u->fp_unknown = 0;
		w->frame[0] = w->frame[1];
		w->frame[1] = w->frame[2];
		sp += 8;
	}
	if (w->frame[0] == HS_COOKIE) {
		w->frame[0] = w->frame[1];
		sp += 8;
	}
	return hs_is_code(p, w->frame[0]) ? uw_to_caller(u, sp + 8, w->frame[0]) : END_BAD_FRAME;
}

/* To the caller of a frame of fixed size. Only code of the cache calls such code, which tells a return address from other words. */
static __always_inline int hs_leave_sized(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, __u32 bytes, bool fp_saved)
{
	__u64 top = u->sp + bytes;

	if (rt_read_stack(u, w->frame, 16 + HS_SLOTS * 8, top - 16))
		return END_STACK_READ;
	HS_UNROLL
	for (int i = 0; i <= HS_SLOTS; i++) {
		if (!hs_is_code(p, w->frame[i + 1]))
			continue;
		if (fp_saved) {
			u->fp = w->frame[i];
			u->fp_unknown = 0;
		}
		return uw_to_caller(u, top + 8 * i, w->frame[i + 1]);
	}
	return END_BAD_FRAME;
}

/* To the caller of a frame that rbp points to. It may be native code: the runtime's own, which calls into the cache. */
static __always_inline int hs_leave_by_fp(struct unwind *u, struct hotspot_room *w)
{
	__u64 cfa = u->fp + 16;

	if (u->fp_unknown || u->fp & 7 || u->fp - u->sp > HS_FRAME_MAX)
		return END_BAD_FRAME;
	if (rt_read(u, w->frame, 24, u->fp))
		return END_STACK_READ;
	if (w->frame[1] == HS_COOKIE) {
		w->frame[1] = w->frame[2];
		cfa += 8;
	}
	u->fp = w->frame[0];
	return uw_to_caller(u, cfa, w->frame[1]);
}

/* Whether a stub begins by setting rbp. */
static __always_inline bool hs_sets_fp(struct unwind *u, const struct hs_blob *b)
{
	__u32 begin;

	if (b->name == HS_NAME('S', 't', 'u', 'b'))
		return true;
	return !rt_read(u, &begin, 4, b->begin) && (begin == HS_NAME(0x55, 0x48, 0x8b, 0xec) || begin == HS_NAME(0x55, 0x48, 0x89, 0xe5));
}

/* How many registers the stub slow_subtype_check has on the stack at pc. It pushes four, and pops them in front of ret. */
static __always_inline __u32 hs_pushed(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w,
				       const struct hs_blob *b, __u64 pc)
{
	const __u8 *c = w->code + HOTSPOT_CODE_BEFORE;
	__u32 pops = 0;

	if (pc - b->begin < 4)
		return (__u32)(pc - b->begin);
	if (hs_read_code(u, w, pc)) {
		HS_UNROLL
		for (__u32 i = 0; i < 5; i++) {
			if (pops == i && c[i] == 0xc3)
				return pops;
			pops += pops == i && (c[i] & 0xf8) == 0x58;
		}
	}
	/* Meanwhile rax may be there once more: it is the class that its caller has pushed in front of the return address. */
	return w->frame[0] == w->frame[6] && hs_is_code(p, w->frame[5]) ? 5 : 4;
}

/* To the caller of slow_subtype_check, which takes its two arguments off the stack. Looking for a return address, as others' callers are
 * found, would find those that the registers, or the caller's frame, hold from before. */
static __always_inline int hs_leave_subtype_check(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w,
						  const struct hs_blob *b, __u64 pc)
{
	__u64 ra = 0;
	__u32 pushed;

	if (u->is_ra)
		return END_BAD_FRAME;
	if (rt_read(u, w->frame, 56, u->sp))
		return END_STACK_READ;
	pushed = hs_pushed(u, p, w, b, pc);
	HS_UNROLL
	for (__u32 i = 0; i < 6; i++)
		if (i == pushed)
			ra = w->frame[i];
	return hs_is_code(p, ra) ? uw_to_caller(u, u->sp + 8 * pushed + 24, ra) : END_BAD_FRAME;
}

/* To the caller of a stub of unknown frame size. */
static __always_inline int hs_leave_unknown(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, const struct hs_blob *b, __u64 pc)
{
	__u32 begin;
	int r;

	if (!rt_read(u, &begin, 4, b->begin) && begin == HS_NAME(0x57, 0x56, 0x51, 0x50)) /* push rdi, rsi, rcx, rax */
		return hs_leave_subtype_check(u, p, w, b, pc);
	r = hs_leave_sized(u, p, w, 8, false);
	return r == END_BAD_FRAME ? hs_leave_sized(u, p, w, 8 + (HS_SLOTS + 1) * 8, false) : r;
}

/* Whether pc is where frames of a virtual thread return to while their callers are still in the heap: in a stub that called none of them, and
 * puts their callers on the stack. Other return addresses in this stub are behind a call instruction. */
static __always_inline bool hs_is_barrier(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, const struct hs_blob *b, __u64 pc)
{
	const __u8 *c = w->code + HOTSPOT_CODE_BEFORE;
	__u32 of;

	if (!u->is_ra || b->name != HS_NAME('S', 't', 'u', 'b') || rt_read(u, &of, 4, hs_u64(w, p->blob_name) + 14))
		return false;
	return of == HS_NAME('c', 'o', 'n', 't') && hs_read_code(u, w, pc) && c[-5] != 0xe8 && (c[-2] != 0xff || (c[-1] & 0xf8) != 0xd0);
}

/* To the caller of a continuation, whose entry is at sp, or a few words above: arguments, and one word to align it, may be in front. The
 * words passed over are never addresses in code; the last is unused, and may be anything. rbp may be that of a frame in the heap. */
static __always_inline int hs_leave_barrier(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w)
{
	__u64 saved = ((u->sp + 15) & ~15ull) + HS_ENTRY_BYTES;

	if (rt_read(u, w->frame, sizeof w->frame, saved))
		return END_STACK_READ;
	HS_UNROLL
	for (__u32 i = 0; i < 10; i += 2) {
		if (!hs_is_code(p, w->frame[i + 1]))
			continue;
		u->fp = w->frame[i];
		u->fp_unknown = 0;
		return uw_to_caller(u, saved + 8 * i + 16, w->frame[i + 1]);
	}
	return END_BAD_FRAME;
}

/* Whether native code alone calls a stub: "jni_fast_GetIntField" and the like, "flush_icache_stub". They have no frame, and call nothing. */
static __always_inline bool hs_serves_native(const struct hs_blob *b)
{
	return b->name == HS_NAME('j', 'n', 'i', '_') || b->name == HS_NAME('f', 'l', 'u', 's');
}

static __always_inline int hs_leave_to_native(struct unwind *u, struct hotspot_room *w)
{
	if (u->is_ra)
		return END_BAD_FRAME;
	return rt_read(u, w->frame, 8, u->sp) ? END_STACK_READ : uw_to_caller(u, u->sp + 8, w->frame[0]);
}

/* Whether an interpreted method is being entered: r13 is its caller's stack pointer then, until it becomes the address of a bytecode. Compiled
 * callers' arguments, and locals, are pushed below it. */
static __always_inline bool hs_is_entered(const struct unwind *u)
{
	return !u->is_ra && !(u->r13 & 7) && u->r13 - u->sp <= HS_FRAME_MAX;
}

/* Whether the instructions from pc on, until they jump to the interpreter, only pass arguments: the end of the adapter that compiled code
 * calls interpreted methods by. In front of it the stack pointer becomes r13. */
static __always_inline bool hs_passes_arguments(struct unwind *u, struct hotspot_room *w, __u64 pc)
{
	const __u8 *c = (const __u8 *)w->frame;

	if (rt_read(u, w->frame, 80, pc))
		return false;
	HS_KEEP_LOOP
	for (__u32 i = 0; i < 77; i++) {
		if (c[i] == 0xff && c[i + 1] == 0xe1)                    /* jmp rcx */
			return true;
		if (c[i] == 0x58 && (c[i + 1] == 0x4c || c[i + 1] == 0x49)) /* pop rax; mov r13, rsp */
			return false;
		if (c[i] == 0x4c && c[i + 1] == 0x8d && c[i + 2] == 0x6c) /* lea r13, [rsp + 8]; pop rax */
			return false;
	}
	return false;
}

/* The innermost frame, in an adapter between compiled code and the interpreter. 0: this does not tell. */
static __always_inline int hs_leave_call_adapter(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, __u64 pc)
{
	const __u8 *c = w->code + HOTSPOT_CODE_BEFORE;
	__u64 ra;
	int r;

	if (!hs_read_code(u, w, pc))
		return END_STACK_READ;
	if (c[-1] == 0x58 && c[1] == (c[0] == 0x4c ? 0x8b : 0x89) && c[2] == (c[0] == 0x4c ? 0xec : 0xe5))
		return END_BAD_FRAME;                            /* mov r13, rsp after pop rax: the return address is in rax */
	if (!hs_is_entered(u))
		return 0;
	if (hs_passes_arguments(u, w, pc)) {
		if (u->r13 == u->sp || c[0] == 0x50 || (c[0] == 0x48 && c[1] == 0x89 && c[2] == 0x04 && c[3] == 0x24))
			return END_BAD_FRAME;                    /* push rax, mov [rsp], rax: still there */
		r = hs_leave_small(u, p, w, 0);
		if (r == UW_STEP_ON && u->r13 >= u->sp)
			u->sp = u->r13;
		return r;
	}
	/* The interpreter calls compiled code: before its stack pointer is aligned, it and r13 are next to each other. */
	if ((c[0] == 0x50 && c[-4] == 0x48 && c[-3] == 0x83 && c[-2] == 0xe4) || /* push rax after and rsp, -16 */
	    (c[0] == 0x48 && c[1] == 0x83 && c[2] == 0xe4 && c[-3] != 0x4c && c[-3] != 0x49)) { /* and rsp, -16, but after mov r13, rsp */
		if (rt_read(u, &ra, 8, u->r13 - 8))
			return END_STACK_READ;
		return hs_is_code(p, ra) ? uw_to_caller(u, u->r13, ra) : END_BAD_FRAME;
	}
	return 0;
}

/* To the caller of an adapter. It has no frame, unless it calls the runtime: it has saved all registers then, and its stack pointer is in
 * r13, which was saved, too. */
static __always_inline int hs_leave_adapter(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, const struct hs_blob *b, __u64 pc)
{
	__u64 sp = u->r13;
	int r;

	if (u->is_ra) {
		if (rt_read(u, w->frame, 8, u->sp + HS_SAVED_R13))
			return END_STACK_READ;
		sp = w->frame[0];
	} else {
		r = b->name == HS_NAME('I', '2', 'C', '/') ? hs_leave_call_adapter(u, p, w, pc) : 0;
		if (r)
			return r;
		r = hs_leave_small(u, p, w, 0);
		if (r != END_BAD_FRAME)
			return r;
	}
	if (sp < u->sp || sp - u->sp > HS_SAVED_R13 + 256 || sp & 7)
		return END_BAD_FRAME;
	u->sp = sp;
	return hs_leave_small(u, p, w, 0);
}

static __always_inline int hs_leave(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, enum hs_state state, __u32 bytes)
{
	if (state == HS_RETURN)
		return hs_leave_small(u, p, w, 0);
	if (state == HS_FP_RETURN)
		return hs_leave_small(u, p, w, 8);
	return hs_leave_sized(u, p, w, bytes, state == HS_WHOLE);
}

static __always_inline int hs_compiled(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, const struct hs_blob *b, __u64 pc)
{
	enum hs_state state = HS_WHOLE;
	__u64 mask = p->relative ? 0xffffffff : ~0ull, add = p->relative ? b->address : 0, real;
	__u32 id = hs_u32(w, p->nmethod_compile_id);

	if (pc == (hs_u64(w, p->nmethod_deopt) & mask) + add || pc == (hs_u64(w, p->nmethod_deopt_mh) & mask) + add) {
		/* The frame is to be given up: its return address was replaced, and kept in the frame. */
		if (rt_read(u, &real, 8, u->sp + hs_u32(w, p->nmethod_orig_pc)))
			return END_STACK_READ;
		if (real - b->begin < b->end - b->begin)
			pc = real;
	} else if (!u->is_ra && hs_read_code(u, w, pc)) {
		state = pc - b->begin < b->frame_complete ? hs_prologue(w->code + HOTSPOT_CODE_BEFORE) :
							    hs_epilogue(w->code + HOTSPOT_CODE_BEFORE);
	}
	if (!rt_push(u, HOTSPOT_WORD(pc - b->begin), b->address, HOTSPOT_CHECK(HOTSPOT_COMPILED, id)))
		return END_DEPTH;
	return hs_leave(u, p, w, state, b->frame_bytes);
}

static __always_inline int hs_push_stub(struct unwind *u, const struct hs_blob *b, __u64 pc)
{
	return rt_push(u, HOTSPOT_WORD(pc - b->begin), b->address, HOTSPOT_CHECK(HOTSPOT_STUB, b->name)) ? 0 : END_DEPTH;
}

/* How far an interpreted method is that returns just now. Its frame is gone, but its words are still below the stack pointer. */
enum hs_return {
	HS_STAYS,
	HS_LEFT,             /* leave | ..., up to pop r13: the return address is at sp */
	HS_POPPED,           /* pop r13 | mov rsp, rbx: the return address was taken */
	HS_DROPPED           /* mov rsp, rbx | ..., up to jmp r13: the stack pointer is the caller's */
};

static __always_inline enum hs_return hs_returns(const __u8 *c)
{
	bool pops = (c[0] == 0x41 && c[1] == 0x5d) || c[0] == 0x5f || c[0] == 0x59; /* pop r13; of native methods rdi; to a compiled loop rcx */

	if (c[-1] == 0xc9 && (pops || (c[0] == 0x41 && c[1] == 0xc6)))
		return HS_LEFT;
	if (pops && c[-9] == 0xc9 && c[-8] == 0x41 && c[-7] == 0xc6)     /* from 25 on: mov byte [r15 + flag], 0 in between */
		return HS_LEFT;
	if ((c[-1] == 0x5f && c[0] == 0x49 && c[1] == 0x8b && c[2] == 0xe3) || (c[-1] == 0x59 && c[0] == 0x48 && c[1] == 0x8b && c[2] == 0xe2))
		return HS_POPPED;                                        /* mov rsp, r11; mov rsp, rdx */
	if (c[-2] == 0x41 && c[-1] == 0x5d && c[0] == 0x48 && (c[1] == 0x8b || c[1] == 0x89) && (c[2] == 0xe3 || c[2] == 0xdc))
		return HS_POPPED;
	if (c[0] == 0x41 && c[1] == 0xff && c[2] == 0xe5) /* jmp r13 */
		return HS_DROPPED;
	/* From 21 on: cmp rsp, [r15 + limit]; jb jump; mov [r15 + limit], 0; jump: jmp r13 */
	if (c[0] == 0x49 && c[1] == 0x3b && c[2] == 0xa7 && c[7] == 0x72)
		return HS_DROPPED;
	if (c[0] == 0x72 && c[2] == 0x49 && c[3] == 0xc7 && c[13] == 0x41 && c[14] == 0xff && c[15] == 0xe5)
		return HS_DROPPED;
	if (c[0] == 0x49 && c[1] == 0xc7 && c[2] == 0x87 && c[11] == 0x41 && c[12] == 0xff && c[13] == 0xe5)
		return HS_DROPPED;
	return HS_STAYS;
}

/* To the caller of an interpreted method that returns. What its frame has kept of the caller's stack pointer is where it was. The word at sp
 * is an argument or the caller's, once the return address is in r13, and may be an address in code that was left there before. */
static __always_inline int hs_leave_returning(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, enum hs_return at)
{
	__u64 ra = u->r13, sender = u->sp;

	if (at != HS_DROPPED) {
		/* Two words of the frame, of which the first is the sender's, and the return address. */
		if (rt_read(u, w->frame, 24, u->sp - (at == HS_LEFT ? 16 : 24)))
			return END_STACK_READ;
		sender = w->frame[0];
		ra = w->frame[2];
		if (sender & 7 || sender <= u->sp - 8 || sender - u->sp > HS_FRAME_MAX)
			return END_BAD_FRAME;
	}
	return hs_is_code(p, ra) ? uw_to_caller(u, sender, ra) : END_BAD_FRAME;
}

/* Whether an interpreted method, whose frame rbp points to, calls the one that is being entered: it keeps the same stack pointer, as an
 * address or, from 21 on, in words from rbp, in frame[6]. That is 0 while it calls nothing: r13 is what its last call has left there. */
static __always_inline bool hs_enters(const struct unwind *u, const struct hotspot_room *w)
{
	return !w->frame[6] || w->frame[6] == u->r13 || (__s64)w->frame[6] == (__s64)(u->r13 - u->fp) >> 3;
}

/* The innermost interpreted frame while it is being set up: what is there of it is read already. */
static __always_inline int hs_interpreted_early(struct unwind *u, struct hotspot_room *w, const struct hs_blob *b, __u64 pc)
{
	__u64 sender = u->fp - u->sp >= 8 ? w->frame[7] : hs_is_entered(u) ? u->r13 : u->fp + 16;

	if (hs_push_stub(u, b, pc))
		return END_DEPTH;
	if (sender <= u->fp || sender - u->fp > HS_FRAME_MAX)
		return END_BAD_FRAME;
	u->fp = w->frame[8];
	return uw_to_caller(u, sender, w->frame[9]);
}

/* To the caller of an interpreted method that has no frame yet, or none any more. 0: the return address is not on the stack. */
static __always_inline int hs_interpreted_bare(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, const struct hs_blob *b, __u64 pc)
{
	bool entered = hs_is_entered(u), code = hs_read_code(u, w, pc), pushed;
	enum hs_return returns = code ? hs_returns(w->code + HOTSPOT_CODE_BEFORE) : HS_STAYS;
	__u64 ra = 0;
	int r;

	if (returns)
		return hs_push_stub(u, b, pc) ? END_DEPTH : hs_leave_returning(u, p, w, returns);
	if (rt_read(u, &ra, 8, u->sp))
		return END_STACK_READ;
	/* The caller's stack pointer: the return address was taken off, and what is there now was left from before. */
	if (entered && u->r13 == u->sp)
		return 0;
	pushed = !hs_is_code(p, ra) && code && hs_stub_state(w->code + HOTSPOT_CODE_BEFORE) == HS_FP_RETURN;
	if (!pushed && !hs_is_code(p, ra))
		return 0;
	if (hs_push_stub(u, b, pc))
		return END_DEPTH;
	r = hs_leave_small(u, p, w, pushed ? 8 : 0);
	if (r == UW_STEP_ON && entered && u->r13 >= u->sp)
		u->sp = u->r13;
	return r;
}

static __always_inline int hs_interpreted(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, const struct hs_blob *b, __u64 pc)
{
	bool framed = !u->fp_unknown && !(u->fp & 7) && u->fp - u->sp <= HS_FRAME_MAX &&
		      !rt_read_stack(u, w->frame, sizeof w->frame, u->fp - HS_INTERPRETER_BELOW);
	__u64 method = w->frame[5], sender = w->frame[7], kept = w->frame[p->bcp_slot & 1], constant = 0, bci = HOTSPOT_NO_BCI;
	bool enters = framed && hs_enters(u, w);
	int r;

	if (framed && !u->is_ra && u->fp - u->sp < HS_INTERPRETER_BELOW + 8)
		return hs_interpreted_early(u, w, b, pc);
	if (framed && (method & 7 || !method || method >= UW_USER_END || sender <= u->fp || sender - u->fp > HS_FRAME_MAX))
		framed = false;
	if (framed && !rt_read(u, &constant, 8, method + p->method_const))
		bci = (u->is_ra ? kept : u->r13) - constant - p->const_method_size;
	if (!u->is_ra && bci >= HOTSPOT_NO_BCI) {
		/* It sets its frame up, or has taken it down: no instruction of the method at rbp is being run. */
		r = hs_interpreted_bare(u, p, w, b, pc);
		if (r)
			return r;
		/* The return address is only in a register, and rbp is not the frame of a compiled caller: it cannot be found. */
		if (hs_is_entered(u) && !enters)
			return hs_push_stub(u, b, pc) ? END_DEPTH : END_BAD_FRAME;
		bci = framed ? kept - constant - p->const_method_size : 0;
	}
	if (!framed)
		return END_BAD_FRAME;
	if (bci > HOTSPOT_NO_BCI)
		bci = HOTSPOT_NO_BCI;
	if (!rt_push(u, HOTSPOT_WORD(bci), method, HOTSPOT_CHECK(HOTSPOT_INTERPRETED, constant)))
		return END_DEPTH;
	u->fp = w->frame[8];
	return uw_to_caller(u, sender, w->frame[9]);
}

static __always_inline int hs_stub(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w, const struct hs_blob *b, __u64 pc)
{
	enum hs_state state = HS_WHOLE;

	if (hs_push_stub(u, b, pc))
		return END_DEPTH;
	if (b->name == HS_NAME('v', 't', 'a', 'b') || b->name == HS_NAME('n', 'a', 't', 'i') || b->name == HS_NAME('I', '2', 'C', '/') || b->name == HS_NAME('M', 'e', 't', 'h'))
		return hs_leave_adapter(u, p, w, b, pc);
	if (hs_serves_native(b))
		return hs_leave_to_native(u, w);
	/* Where an exception of C2's code is handled from: as it begins and ends, what has thrown is in a register alone. */
	if (b->name == HS_NAME('E', 'x', 'c', 'e') && !u->is_ra)
		return END_BAD_FRAME;
	if (hs_is_barrier(u, p, w, b, pc))
		return hs_leave_barrier(u, p, w);
	if (!u->is_ra && hs_read_code(u, w, pc))
		state = hs_stub_state(w->code + HOTSPOT_CODE_BEFORE);
	/* A frame of fixed size is not whole yet in the innermost frame, where registers are pushed and popped. */
	if (state == HS_WHOLE && (!b->frame_bytes || !u->is_ra)) {
		if (hs_sets_fp(u, b))
			return hs_leave_by_fp(u, w);
		if (!b->frame_bytes)
			return hs_leave_unknown(u, p, w, b, pc);
	}
	return hs_leave(u, p, w, state, b->frame_bytes);
}

/* Keeps the frame of u, which is in the code cache, and moves to its caller. UW_STEP_ON, or the enum stack_end that says why not. */
static __always_inline int hotspot_step(struct unwind *u, const struct hotspot_proc *p, struct hotspot_room *w)
{
	__u64 pc = u->ip + u->is_ra, sp = u->sp - !u->is_ra; /* the innermost frame may have left nothing on the stack */
	const struct hs_blob *b = &w->of;
	int r;

	if (hs_read_blob(u, p, w, u->ip, &w->of))
		return END_BAD_FRAME;
	if (b->name == HS_NAME('n', 'm', 'e', 't') || (b->name == HS_NAME('n', 'a', 't', 'i') && b->name_more == HS_NAME('v', 'e', ' ', 'n')))
		r = hs_compiled(u, p, w, b, pc);
	else if (b->name == HS_NAME('I', 'n', 't', 'e'))
		r = hs_interpreted(u, p, w, b, pc);
	else
		r = hs_stub(u, p, w, b, pc);
	return r == UW_STEP_ON && u->sp <= sp ? END_NO_PROGRESS : r;
}

#endif
