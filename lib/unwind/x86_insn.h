/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of x86-64 as far as unwinding is concerned: how long they are, where they go on, what they do to rsp and to rbp. */
#ifndef PYRRHA_UNWIND_X86_INSN_H
#define PYRRHA_UNWIND_X86_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define X86_INSN_MAX 15

enum x86_kind {
	X86_OTHER,
	X86_NOP,
	X86_PUSH, X86_POP,           /* 8 bytes; fp: it is rbp */
	X86_ADD_SP,                  /* value is added to rsp */
	X86_SP_FROM_FP,              /* rsp = rbp + value */
	X86_FP_FROM_SP,              /* rbp = rsp + value */
	X86_SAVE_FP,                 /* [rsp + value] = rbp */
	X86_LOAD_FP,                 /* rbp = [rsp + value] */
	X86_ZERO_FP,
	X86_LEAVE,
	X86_ADDRESS,                 /* a register = the address `value` bytes behind its end */
	X86_CALL,                    /* value: of a direct one, where to, counted from its end */
	X86_JUMP, X86_BRANCH,        /* the same; a branch may also go on */
	X86_RETURN,
	X86_STOP                     /* nothing follows: hlt, ud2, int3 */
};

struct x86_insn {
	uint8_t len;
	uint8_t kind;                /* enum x86_kind */
	bool direct;                 /* of calls and jumps: value says where to */
	bool fp;
	bool writes_sp, writes_fp;   /* in some other way, or perhaps */
	int32_t value;
};

/* False: no instruction that is known, or it is cut short. */
bool x86_insn(const uint8_t *p, size_t n, struct x86_insn *ret);

#endif
