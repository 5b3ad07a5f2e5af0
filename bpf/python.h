/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Frames of CPython 3.6 to 3.15. Which native frame of the eval function runs which of them:
 *
 *	3.13+       a frame of its own kind on the native stack (the shim) ends them
 *	3.11, 3.12  the thread state leads to a C frame on the native stack of each call, which leads to them. A flag (3.11) or a shim (3.12)
 *	            ends them, and what follows must be the frames that the C frame before leads to: else this one is being set up
 *	3.6 - 3.10  each has one, in order
 *
 * Where a call begins and ends (python_proc.edges), it has none, or, in 3.11 and 3.12, the C frame is not whole. A native frame that does not
 * fit has none.
 *
 *	PYTHON_CALL(f, u, w, i)  calls a function of this file; defined before it is included */
#ifndef PYRRHA_BPF_PYTHON_H
#define PYRRHA_BPF_PYTHON_H

#include "walk.h"

#define PYTHON_AT_ONCE 8
#define PYTHON_SKIP 8            /* native frames that were not seen as the interpreter's, between two that were */
#define PYTHON_KEYS 32           /* of thread-specific data, in the thread's descriptor itself (glibc) */
#define PYTHON_KEY_DATA 0x318
#define PYTHON_FRAME_BYTES 72
#define PYTHON_FRAME_BYTES_14 80
#define PYTHON_OLD_FRAME_BYTES 112 /* up to 3.10: from the one before to the instruction, of over 300 */
#define PYTHON_OWNER_SHIM 3
#define PYTHON_REST_NATIVE 64    /* native frames of the interpreter, of a stack that the agent finishes */

static __always_inline __u64 python_word(const struct runtime_walk *w, __u64 off)
{
	__u64 i = off >> 3;

	UW_OPAQUE(i);
	return w->room[i & (WALK_ROOM - 1)];
}

/* Of the frame that python_read_frame has found. */
static __always_inline __u64 python_frame_word(const struct runtime_walk *w, __u64 base, __u64 off)
{
	__u64 i = (base + off) >> 3;

	UW_OPAQUE(i);
	return w->piece[i & (WALK_PIECE / 8 - 1)];
}

static __always_inline __u32 python_frame_byte(const struct runtime_walk *w, __u64 base, __u64 off)
{
	return python_frame_word(w, base, off) >> (off & 7) * 8 & 0xff;
}

/* Finds n bytes of a frame in the piece, ret_base bytes behind its begin. Frames lie above those that called them: the piece ends with it, and
 * never leaves the pages that the frame is on. */
static __always_inline bool python_read_frame(struct unwind *u, struct runtime_walk *w, __u64 f, __u32 n, __u64 *ret_base)
{
	struct python_walk *y = &w->python;
	__u64 i = f - y->piece_at, from = (f + n - WALK_PIECE) >> 12 < f >> 12 ? f & ~4095ull : f + n - WALK_PIECE, bytes = f + n - from;

	if (i < y->piece_bytes && y->piece_bytes - i >= n) {
		*ret_base = i;
		return true;
	}
	y->piece_bytes = 0;
	if (bytes > WALK_PIECE || rt_read(u, w->piece, bytes, from))
		return false;
	y->piece_at = from;
	y->piece_bytes = bytes;
	*ret_base = f - from;
	return true;
}

/* The word at an address, by the room. */
static __always_inline bool python_follow(struct unwind *u, struct runtime_walk *w, __u64 at, __u64 *ret)
{
	if (rt_read(u, w->room, 8, at))
		return false;
	*ret = w->room[0];
	return true;
}

/* The thread's state, and from there where its frames begin. */
static __always_inline bool python_begin(struct unwind *u, struct runtime_walk *w)
{
	struct python_walk *y = &w->python;
	__u64 at = rt_fsbase(u), state;

	if (y->p.key_at) {
		if (rt_read(u, w->room, 4, y->p.key_at))
			return false;
		if ((__u32)w->room[0] >= PYTHON_KEYS)
			return false;
		at += PYTHON_KEY_DATA + 16ull * (__u32)w->room[0];
	} else {
		at += y->p.tls_offset;
	}
	if (!python_follow(u, w, at, &state) || !state)
		return false;
	y->cframe = y->frame = y->below = y->code = y->piece_bytes = 0;
	if (y->p.minor == 11 || y->p.minor == 12)
		return python_follow(u, w, state + y->p.tstate_cframe, &y->cframe);
	return python_follow(u, w, state + y->p.tstate_frame, &y->frame);
}

#define PYTHON_WORD ((__u64)RUNTIME_IMAGE(RUNTIME_PYTHON) << FRAME_IMAGE_SHIFT)

/* Keeps a frame. False: there is no room. Code without a first line is the interpreter's own: what calls __init__ in 3.12 and later. */
static __always_inline bool python_push(struct unwind *u, struct runtime_walk *w, __u32 at, __u64 code)
{
	struct python_walk *y = &w->python;

	if (code != y->code || !code) {
		y->check = 0;
		python_follow(u, w, code + y->p.code_check, &y->check);
		y->code = code;
	}
	if (y->p.minor >= 12 && y->check && !(y->check >> 32))
		return true;
	return rt_push(u, PYTHON_WORD | w->rest | at, code, y->check);
}

/* Whether the native frame is where a call has no frame. */
static __always_inline bool python_at_edge(const struct runtime_walk *w)
{
	const struct python_proc *p = &w->python.p;

	for (int i = 0; i < PYTHON_EDGES_MAX; i++)
		if (w->at - p->edges[i].start < p->edges[i].end - p->edges[i].start)
			return true;
	return false;
}

/* 3.11, 3.12: the C frame in the native one. The innermost one is told by the thread state; from then on it is known how far below
 * the end of its native frame each is. False: there is none. */
static __always_inline bool python_enter_cframe(struct unwind *u, struct runtime_walk *w)
{
	struct python_walk *y = &w->python;
	__u64 c = y->cframe, before;

	if (y->below) {
		c = w->cfa - y->below;
	} else {
		for (int i = 0; i < PYTHON_SKIP && c && c < w->sp; i++)
			if (!python_follow(u, w, c + y->p.cframe_previous, &c))
				return false;
		y->cframe = c;
	}
	if (c < w->sp || c >= w->cfa)
		return false;
	y->below = w->cfa - c;
	if (python_at_edge(w))
		return false;
	if (uw_read(u, &y->frame, 8, c + y->p.cframe_frame) || uw_read(u, &before, 8, c + y->p.cframe_previous))
		return false;
	return before && python_follow(u, w, before + y->p.cframe_frame, &y->entered_from);
}

/* 3.11+: whether there are frames to look at. */
static __always_inline bool python_enter(struct unwind *u, struct runtime_walk *w)
{
	struct python_walk *y = &w->python;

	if (y->p.minor <= 12)
		return python_enter_cframe(u, w) && y->frame;
	y->next = y->frame;
	return y->frame;
}

/* 3.11+: some of the frames. */
static __always_inline int python_some(struct unwind *u, struct runtime_walk *w, int unused)
{
	struct python_walk *y = &w->python;
	__u64 f, base, code, back, at;
	__u32 minor = y->p.minor, n = minor >= 14 ? PYTHON_FRAME_BYTES_14 : PYTHON_FRAME_BYTES;

	WALK_LOOP
	for (int i = 0; i < PYTHON_AT_ONCE; i++) {
		f = y->frame;
		if (!f || f & 7 || !w->left)
			return WALK_BAD;
		w->left--;
		if (!python_read_frame(u, w, f, n, &base))
			return WALK_BAD;
		code = python_frame_word(w, base, y->p.frame_code);
		back = python_frame_word(w, base, y->p.frame_back);
		at = python_frame_word(w, base, y->p.frame_instr);
		y->frame = back;
		if (minor >= 12 && python_frame_byte(w, base, y->p.frame_owner) >= PYTHON_OWNER_SHIM) {
			y->shim = f;
			return WALK_ENDED;
		}
		f = minor == 11 && python_frame_byte(w, base, y->p.frame_entry);
		if (minor >= 14)
			code &= ~7ull;
		if (!python_push(u, w, at - code, code))
			return WALK_FULL;
		if (f)
			return WALK_ENDED;
	}
	return WALK_ON;
}

/* Up to 3.10: the frame of a native one. */
static __always_inline int python_old(struct unwind *u, struct runtime_walk *w, int unused)
{
	struct python_walk *y = &w->python;
	__u64 f = y->frame, code;
	__s32 at;

	if (!f || (!w->rest && python_at_edge(w)))
		return WALK_ENDED;
	if (f & 7 || !w->left || rt_read(u, w->room, PYTHON_OLD_FRAME_BYTES, f + y->p.frame_back))
		return WALK_BAD;
	w->left--;
	y->frame = w->room[0];
	code = w->room[1];
	at = (__s32)(python_word(w, y->p.frame_instr - y->p.frame_back) >> (y->p.frame_instr & 4) * 8);
	at = at < 0 ? 0 : at << (y->p.minor == 10);
	return python_push(u, w, at, code) ? WALK_ENDED : WALK_FULL;
}

static __always_inline void python_take_back(struct unwind *u, const struct runtime_walk *w)
{
	u->n = w->n;
	u->words = w->words;
}

/* 3.13+: whether the frames that ended are those of a native frame before this one, which was not seen as the interpreter's. They are
 * left out, and the next ones are looked at. */
static __always_inline bool python_passed(struct unwind *u, struct runtime_walk *w)
{
	struct python_walk *y = &w->python;

	if (y->p.minor <= 12 || y->shim >= w->sp)
		return false;
	python_take_back(u, w);
	y->next = y->frame;
	return true;
}

/* Whether the frames that ended are this native frame's. */
static __always_inline bool python_fits(const struct runtime_walk *w)
{
	const struct python_walk *y = &w->python;

	if (y->p.minor >= 12 && (y->shim < w->sp || y->shim >= w->cfa))
		return false;
	return y->p.minor >= 13 || y->frame == y->entered_from;
}

/* After the last of its frames; r: an enum walked. Where a chain of frames ends, that is all: what is below on the stack is another thread
 * state's, or what greenlets have left there. */
static __always_inline void python_leave(struct unwind *u, struct runtime_walk *w, int r)
{
	struct python_walk *y = &w->python;

	if (r == WALK_BAD || r == WALK_ON) {
		rt_push(u, PYTHON_WORD | RUNTIME_CUT, 0, 0);
		if (y->p.minor != 11 && y->p.minor != 12)
			w->on = 0;
	} else if (r == WALK_ENDED && y->p.minor >= 11 && !python_fits(w)) {
		python_take_back(u, w);
		y->frame = y->next;
	} else if (r == WALK_ENDED && !y->frame) {
		w->on = 0;
	}
}

/* All frames of a native one: python_some and python_old, as the BPF program calls them, are global functions. */
static __always_inline int python_walk(struct unwind *u, struct runtime_walk *w, int unused)
{
	int r = WALK_ON;

	if (w->python.p.minor <= 10) {
		python_leave(u, w, PYTHON_CALL(python_old, u, w, 0));
		return 0;
	}
	if (!python_enter(u, w))
		return 0;
	WALK_LOOP
	for (int i = 0; i <= WALK_STEPS / PYTHON_AT_ONCE; i++) {
		r = PYTHON_CALL(python_some, u, w, i);
		if (r == WALK_ENDED ? !python_passed(u, w) : r != WALK_ON)
			break;
	}
	python_leave(u, w, r);
	return 0;
}

static __always_inline bool python_entry(struct unwind *u, __u64 object)
{
	return rt_push(u, PYTHON_WORD | RUNTIME_REST | RUNTIME_ENTRY, object, 0);
}

/* 3.11, 3.12, of a stack that the agent finishes: the C frame of the next native one, if there is one. */
static __always_inline bool python_next_cframe(struct unwind *u, struct runtime_walk *w, __u64 *ret_before)
{
	struct python_walk *y = &w->python;

	return y->cframe && python_follow(u, w, y->cframe + y->p.cframe_frame, &y->frame) &&
	       python_follow(u, w, y->cframe + y->p.cframe_previous, ret_before) && *ret_before &&
	       python_follow(u, w, *ret_before + y->p.cframe_frame, &y->entered_from);
}

/* Of a stack that the agent finishes: the frames of the next native one, in advance. WALK_ON: there may be more. */
static __always_inline int python_rest(struct unwind *u, struct runtime_walk *w, int unused)
{
	struct python_walk *y = &w->python;
	__u64 entry = 0, before = 1;
	int r = WALK_ON;

	w->n = u->n;
	w->words = u->words;
	if (y->p.minor == 11 || y->p.minor == 12) {
		entry = y->cframe;
		if (!python_next_cframe(u, w, &before)) /* the last one is none of a call's, and has none before */
			return entry && before ? WALK_BAD : WALK_ENDED;
		y->cframe = before;
		if (entry < u->sp)
			return WALK_ON;
	} else if (!y->frame) {
		return WALK_ENDED;
	}
	if (y->p.minor <= 10) {
		r = PYTHON_CALL(python_old, u, w, 0);
	} else {
		WALK_LOOP
		for (int i = 0; i <= WALK_STEPS / PYTHON_AT_ONCE; i++) {
			r = PYTHON_CALL(python_some, u, w, i);
			if (r != WALK_ON)
				break;
		}
	}
	if (r != WALK_ENDED)
		return WALK_BAD;
	if (y->p.minor >= 13)
		entry = y->shim;
	if ((entry && entry < u->sp) || ((y->p.minor == 11 || y->p.minor == 12) && y->frame != y->entered_from)) {
		python_take_back(u, w);
		return WALK_ON;
	}
	return python_entry(u, entry) ? WALK_ON : WALK_FULL;
}

#endif
