/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How frames of language runtimes are walked. Native unwinding meets a frame of the runtime's interpreter (unwind_rule.runtime), or of code that
 * the runtime has made (a mapping whose image is RUNTIME_IMAGE(kind)). The runtime's walk then keeps the frames that this native frame runs,
 * innermost first. Each runtime has a header, RUNTIME.h, which the BPF program and tests compile alike. Only these differ:
 *
 *	rt_read(u, to, n, at)  n bytes of the process's memory, into a struct runtime_walk; 0 if all could be read
 *	rt_push(u, word, object, check)
 *	                       keeps a frame (abi.h); false if there is no room
 *	rt_fsbase(u)           where the thread's local storage begins
 *	rt_read_stack(u, to, n, at)
 *	                       may be defined: rt_read for words of the native stack, whose pieces are fetched once
 *
 * and uw_read of unwind.h, for words of the native stack. They are defined before a runtime's header is included. All that is read is
 * hostile: each loop is bounded by struct runtime_walk.left, and what does not fit together is left out, never shifted. */
#ifndef PYRRHA_BPF_WALK_H
#define PYRRHA_BPF_WALK_H

#include "abi.h"

#ifndef rt_read_stack
#define rt_read_stack rt_read
#endif

#define WALK_STEPS (2 * MAX_USER_FRAMES) /* frames looked at for a stack, those that are left out again included */
#define WALK_ROOM 16                     /* words; a power of two */
#define WALK_PIECE 512                   /* bytes, likewise */

/* Before a loop: it stays one. */
#ifdef __clang__
#define WALK_LOOP _Pragma("clang loop unroll(disable)")
#else
#define WALK_LOOP
#endif

struct python_walk {
	struct python_proc p;
	__u64 cframe;        /* 3.11, 3.12: the innermost C frame */
	__u64 below;         /* then: how far below the end of its native frame a C frame is; 0 = not known yet */
	__u64 frame;         /* the next frame */
	__u64 next;          /* the first one of this native frame */
	__u64 entered_from;  /* 3.11, 3.12: the frame that must follow */
	__u64 shim;          /* 3.12+: the entry on the native stack that ended the frames */
	__u64 code, check;   /* the code object of the frame before, 0 = none, and its check word */
	__u64 piece_at, piece_bytes; /* of struct runtime_walk */
};

#define HOTSPOT_CODE_BEFORE 32

/* What a step has found out about the frame. begin and end are the same before the first of a stack. */
struct hs_blob {
	__u64 address, begin, end;
	__u32 name, name_more;       /* its first letters */
	__u32 frame_bytes, frame_complete;
};

/* Room for what a step reads: more than a program's stack has. */
struct hotspot_room {
	struct hs_blob of;
	__u64 blob[512 / 8 + 1];
	__u64 frame[10];
	__u8 code[48];               /* from pc - HOTSPOT_CODE_BEFORE on */
};

struct hotspot_walk {
	struct hotspot_proc p;
	struct hotspot_room room;
};

/* Room for what a step reads of V8's frames. */
struct v8_room {
	__u64 frame[8];      /* V8_BELOW bytes below fp and 16 above */
	__u64 above[3];      /* at sp */
	__u64 object[8];     /* the begin of a JSFunction */
	/* What was read for this stack before, because frames are often alike. 0 = nothing. */
	__u64 map;           /* of JSFunctions */
	__u64 function, shared; /* a JSFunction's SharedFunctionInfo */
	__u64 measured, lengths; /* a SharedFunctionInfo's */
	__u64 pc, bytes;     /* the 8 there */
};

struct v8_walk {
	struct v8_proc p;
	struct v8_room room;
};

/* Of one runtime, for one stack. */
struct runtime_walk {
	__u64 time_ns;       /* of that stack's record */
	__u32 on;            /* the thread has such frames */
	__u32 left;          /* frames that may still be looked at */
	__u64 sp, cfa, at;   /* of the native frame; its ELF virtual address */
	__u32 n, words;      /* of struct unwind, before this native frame's */
	__u64 rest;          /* RUNTIME_REST, or 0 */
	/* Whose facts `p` below has, of which edition of runtime_procs, and its flags: a CPU mostly runs one process for a while, and to look them
	 * up takes a dozen lines of the kernel's code and tables that nothing else needs. */
	__u32 pid, exec_id, edition, flags;
	union {
		struct python_walk python;
		struct hotspot_walk hotspot;
		struct v8_walk v8;
		__u64 own[48];
	};
	__u64 room[WALK_ROOM]; /* what was read last */
	__u64 piece[WALK_PIECE / 8]; /* of memory where several of the runtime's frames are */
};

/* What a call that looks at some frames came to. */
enum walked {
	WALK_ON,             /* there are more */
	WALK_ENDED,          /* these were all of the native frame */
	WALK_BAD,            /* they lead nowhere */
	WALK_FULL            /* there is no room for more */
};

#endif
