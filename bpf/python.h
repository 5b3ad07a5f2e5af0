/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Frames of CPython 3.6 to 3.14. Which native frame of the eval function runs which of them:
 *
 *	3.13+       a frame of its own kind on the native stack (the shim) ends them
 *	3.11, 3.12  the thread state leads to a C frame on the native stack of each call, which leads to them. A flag (3.11) or a shim (3.12)
 *	            ends them, and what follows must be the frames that the C frame before leads to: else this one is being set up
 *	3.6 - 3.10  each has one, in order. At the beginning and at the end of a call, it has none yet, or none any more. So the native frame
 *	            of the second call is looked at: it holds the address of its own frame
 *
 * A native frame that does not fit has none. */
#ifndef PYRRHA_BPF_PYTHON_H
#define PYRRHA_BPF_PYTHON_H

#include "walk.h"

#define PYTHON_AT_ONCE 8
#define PYTHON_SKIP 8            /* native frames that were not seen as the interpreter's, between two that were */
#define PYTHON_SCAN 8            /* pieces of WALK_ROOM words of a native frame */
#define PYTHON_KEYS 32           /* of thread-specific data, in the thread's descriptor itself (glibc) */
#define PYTHON_KEY_DATA 0x318
#define PYTHON_FRAME_BYTES 72
#define PYTHON_FRAME_BYTES_14 80
#define PYTHON_OWNER_SHIM 3

static __always_inline __u64 python_word(const struct runtime_walk *w, __u64 off)
{
	__u64 i = off >> 3;

	UW_OPAQUE(i);
	return w->room[i & (WALK_ROOM - 1)];
}

static __always_inline __u32 python_byte(const struct runtime_walk *w, __u64 off)
{
	return python_word(w, off) >> (off & 7) * 8 & 0xff;
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
	y->cframe = y->frame = y->first = 0;
	y->calls = 0;
	if (y->p.minor == 11 || y->p.minor == 12)
		return python_follow(u, w, state + y->p.tstate_cframe, &y->cframe);
	return python_follow(u, w, state + y->p.tstate_frame, &y->frame);
}

#define PYTHON_WORD ((__u64)RUNTIME_IMAGE(RUNTIME_PYTHON) << FRAME_IMAGE_SHIFT)

/* Keeps a frame. False: there is no room. */
static __always_inline bool python_push(struct unwind *u, struct runtime_walk *w, __u32 at, __u64 code)
{
	__u64 check = 0;

	python_follow(u, w, code + w->python.p.code_check, &check);
	return rt_push(u, PYTHON_WORD | at, code, check);
}

/* 3.11, 3.12: the C frame in the native one. False: there is none. */
static __always_inline bool python_enter_cframe(struct unwind *u, struct runtime_walk *w)
{
	struct python_walk *y = &w->python;
	__u64 c = y->cframe;

	for (int i = 0; i < PYTHON_SKIP && c && c < w->sp; i++)
		if (!python_follow(u, w, c + y->p.cframe_previous, &c))
			return false;
	y->cframe = c;
	if (c < w->sp || c >= w->cfa)
		return false;
	if (uw_read(u, &y->frame, 8, c + y->p.cframe_frame) || uw_read(u, &y->next, 8, c + y->p.cframe_previous))
		return false;
	return y->next && python_follow(u, w, y->next + y->p.cframe_frame, &y->entered_from);
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
static __always_inline int python_some(struct unwind *u, struct runtime_walk *w)
{
	struct python_walk *y = &w->python;
	__u64 f, code, back, at;
	__u32 minor = y->p.minor, n = minor >= 14 ? PYTHON_FRAME_BYTES_14 : PYTHON_FRAME_BYTES;

#pragma clang loop unroll(disable)
	for (int i = 0; i < PYTHON_AT_ONCE; i++) {
		f = y->frame;
		if (!f || f & 7 || !w->left)
			return WALK_BAD;
		w->left--;
		if (rt_read(u, w->room, n, f))
			return WALK_BAD;
		code = python_word(w, y->p.frame_code);
		back = python_word(w, y->p.frame_back);
		at = python_word(w, y->p.frame_instr);
		y->frame = back;
		if (minor >= 12 && python_byte(w, y->p.frame_owner) >= PYTHON_OWNER_SHIM) {
			y->shim = f;
			return WALK_ENDED;
		}
		f = minor == 11 && python_byte(w, y->p.frame_entry);
		if (minor >= 14)
			code &= ~7ull;
		if (!python_push(u, w, at - code, code))
			return WALK_FULL;
		if (f)
			return WALK_ENDED;
	}
	return WALK_ON;
}

#define PYTHON_HAS_FIRST 1
#define PYTHON_HAS_NEXT 2
#define PYTHON_SCANNED 4

/* Up to 3.10: which of two frames, one after the other, some words of a native frame name. */
static __always_inline int python_scan(struct unwind *u, struct runtime_walk *w, __u32 piece)
{
	struct python_walk *y = &w->python;
	__u64 from = w->sp + sizeof w->room * piece;
	int has = 0;

	if (from >= w->cfa || rt_read(u, w->room, sizeof w->room, from))
		return PYTHON_SCANNED;
	for (int k = 0; k < WALK_ROOM; k++) {
		if (w->room[k] == y->first)
			has |= PYTHON_HAS_FIRST;
		if (w->room[k] == y->frame)
			has |= PYTHON_HAS_NEXT;
	}
	return has;
}

/* Up to 3.10: the frame of a native one. */
static __always_inline int python_old(struct unwind *u, struct runtime_walk *w)
{
	struct python_walk *y = &w->python;
	__u64 f, code;
	__s32 at;

	if (!y->frame)
		return WALK_ENDED;
	f = y->frame;
	if (f & 7 || !w->left || rt_read(u, w->room, 16, f + y->p.frame_back))
		return WALK_BAD;
	w->left--;
	y->frame = w->room[0];
	code = w->room[1];
	if (rt_read(u, w->room, 4, f + y->p.frame_instr))
		return WALK_BAD;
	at = (__s32)w->room[0];
	at = at < 0 ? 0 : at << (y->p.minor == 10);
	if (y->calls++ == 0) {
		y->first = f;
		y->first_at = u->words;
	}
	return python_push(u, w, at, code) ? WALK_ENDED : WALK_FULL;
}

/* Up to 3.10: `has` is all that the second native frame names. If that is the first frame only, the first native frame had none. */
static __always_inline void python_align(struct unwind *u, struct runtime_walk *w, int has)
{
	struct python_walk *y = &w->python;

	if ((has & (PYTHON_HAS_FIRST | PYTHON_HAS_NEXT)) != PYTHON_HAS_FIRST)
		return;
	rt_void(u, y->first_at);
	y->frame = y->first;
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

/* After the last of its frames; r: an enum walked. */
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
	}
	if (y->p.minor <= 12)
		y->cframe = y->next;
}

#endif
