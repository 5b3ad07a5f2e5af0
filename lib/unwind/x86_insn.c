/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/x86_insn.h"

#include <string.h>

enum { SP = 4, FP = 5 };

/* The bytes after an opcode. */
enum { NONE = 0, MODRM = 1, IMM8 = 2, IMMZ = 4, IMM16 = 8, BAD = 16 };

/* Opcodes of one byte. Prefixes, 0x0f, VEX and EVEX never get here. */
static unsigned follows_1(uint8_t op)
{
	if (op < 0x40) {
		static const uint8_t by_low[8] = { MODRM, MODRM, MODRM, MODRM, IMM8, IMMZ, BAD, BAD };
		return by_low[op & 7];
	}
	switch (op) {
	case 0x60: case 0x61: case 0x82: case 0x9a: case 0xce: case 0xd4: case 0xd5: case 0xd6: case 0xea:
		return BAD;
	case 0x63: case 0x84 ... 0x8f: case 0xd0 ... 0xd3: case 0xd8 ... 0xdf: case 0xf6: case 0xf7: case 0xfe: case 0xff:
		return MODRM;
	case 0x68: case 0xa9: case 0xe8: case 0xe9:
		return IMMZ;
	case 0x69: case 0x81: case 0xc7:
		return MODRM | IMMZ;
	case 0x6b: case 0x80: case 0x83: case 0xc0: case 0xc1: case 0xc6:
		return MODRM | IMM8;
	case 0x6a: case 0x70 ... 0x7f: case 0xa8: case 0xb0 ... 0xb7: case 0xcd: case 0xe0 ... 0xe7: case 0xeb:
		return IMM8;
	case 0xb8 ... 0xbf:
		return IMMZ;
	case 0xc2: case 0xca:
		return IMM16;
	case 0xc8:
		return IMM16 | IMM8;
	default:
		return NONE;
	}
}

/* Those after 0x0f. */
static unsigned follows_2(uint8_t op)
{
	switch (op) {
	case 0x04: case 0x0a: case 0x0c: case 0x24 ... 0x27: case 0x36: case 0x39: case 0x3b ... 0x3f: case 0xa6: case 0xa7:
		return BAD;
	case 0x05 ... 0x09: case 0x0b: case 0x0e: case 0x30 ... 0x35: case 0x37: case 0x77: case 0xa0 ... 0xa2: case 0xa8 ... 0xaa:
	case 0xc8 ... 0xcf:
		return NONE;
	case 0x0f: case 0x70 ... 0x73: case 0xa4: case 0xac: case 0xba: case 0xc2: case 0xc4: case 0xc5: case 0xc6:
		return MODRM | IMM8;
	case 0x80 ... 0x8f:
		return IMMZ;
	default:
		return MODRM;
	}
}

struct decoding {
	const uint8_t *p, *e;
	bool op16, addr32, bad;
	uint8_t rex, map, op;        /* map: 1 one byte, 2 after 0x0f, 3 after 0x0f38, 4 after 0x0f3a, 5 XOP's */
	bool vex;
	uint8_t vvvv;
	bool has_modrm;
	uint8_t mod, reg, rm, base;  /* with the bits of REX; base: of a memory operand, 16 = not one register alone */
	int32_t disp;
	int64_t imm;
};

static int64_t take(struct decoding *d, size_t n)
{
	uint64_t v = 0;
	if ((size_t)(d->e - d->p) < n) {
		d->bad = true;
		return 0;
	}
	memcpy(&v, d->p, n);
	d->p += n;
	return n == 8 ? (int64_t)v : (int64_t)(v << (64 - 8 * n)) >> (64 - 8 * n);
}

static uint8_t byte(struct decoding *d)
{
	return (uint8_t)take(d, 1);
}

static void take_prefixes(struct decoding *d)
{
	for (; d->p < d->e; d->p++) {
		switch (*d->p) {
		case 0x66: d->op16 = true; continue;
		case 0x67: d->addr32 = true; continue;
		case 0xf3: case 0xf2: case 0xf0: case 0x2e: case 0x36: case 0x3e: case 0x26: case 0x64: case 0x65: continue;
		default: break;
		}
		break;
	}
	if (d->p < d->e && (*d->p & 0xf0) == 0x40)
		d->rex = byte(d);            /* never 0 */
}

/* The opcode; returns what follows it. */
static unsigned take_opcode(struct decoding *d)
{
	uint8_t op = byte(d), a, b;

	d->map = 1;
	if (op == 0x8f && d->p < d->e && (*d->p & 31) >= 8) { /* XOP */
		a = byte(d);
		byte(d);
		d->op = byte(d);
		d->vex = true;
		d->map = 5;
		return (a & 31) == 8 ? MODRM | IMM8 : (a & 31) == 9 ? MODRM : (a & 31) == 10 ? MODRM | IMMZ : BAD;
	}
	if (op == 0xc5 || op == 0xc4 || op == 0x62) {
		d->vex = true;
		a = byte(d);
		b = op == 0xc5 ? a : byte(d);
		d->map = op == 0xc5 ? 2 : (a & (op == 0x62 ? 7 : 31)) + 1;
		d->vvvv = ~b >> 3 & 15;
		d->rex = (uint8_t)((a & 0x80 ? 0 : 4) | (op != 0xc5 && !(a & 0x20) ? 1 : 0));
		if (op == 0x62)
			byte(d);
		d->op = byte(d);
		if (d->map < 2 || d->map > 4)
			return op == 0x62 && d->map <= 7 ? MODRM : BAD;
	} else if (op == 0x0f) {
		d->map = 2;
		d->op = byte(d);
		if (d->op == 0x38 || d->op == 0x3a) {
			d->map = d->op == 0x38 ? 3 : 4;
			d->op = byte(d);
		}
	} else {
		d->op = op;
	}
	switch (d->map) {
	case 1: return follows_1(d->op);
	case 2: return follows_2(d->op);
	case 3: return MODRM;
	default: return MODRM | IMM8;
	}
}

static void take_modrm(struct decoding *d)
{
	uint8_t m = byte(d), low = m & 7;

	d->has_modrm = true;
	d->mod = m >> 6;
	d->reg = (uint8_t)((m >> 3 & 7) | (d->rex & 4 ? 8 : 0));
	d->rm = (uint8_t)(low | (d->rex & 1 ? 8 : 0));
	d->base = d->rm;
	if (d->mod == 3)
		return;
	if (low == 4) {
		uint8_t sib = byte(d);
		bool index = (sib >> 3 & 7) != 4 || d->rex & 2;
		d->base = (uint8_t)((sib & 7) | (d->rex & 1 ? 8 : 0));
		if (d->mod == 0 && (sib & 7) == 5) {
			d->disp = (int32_t)take(d, 4);
			d->base = 16;
		}
		if (index)
			d->base = 16;
	} else if (d->mod == 0 && low == 5) {
		d->disp = (int32_t)take(d, 4);
		d->base = 16;
	}
	if (d->mod == 1)
		d->disp = (int32_t)take(d, 1);
	else if (d->mod == 2)
		d->disp = (int32_t)take(d, 4);
}

static void take_immediates(struct decoding *d, unsigned follows)
{
	uint8_t group = d->reg & 7;

	if (d->map == 1 && (d->op == 0xf6 || d->op == 0xf7) && group < 2)
		follows |= d->op == 0xf6 ? IMM8 : IMMZ;
	if (d->map == 1 && d->op >= 0xa0 && d->op <= 0xa3)
		take(d, d->addr32 ? 4 : 8);
	if (follows & IMM16)
		take(d, 2);
	if (follows & IMM8)
		d->imm = take(d, 1);
	if (!(follows & IMMZ))
		return;
	bool jump = (d->map == 1 && (d->op == 0xe8 || d->op == 0xe9)) || (d->map == 2 && (d->op & 0xf0) == 0x80);
	if (d->map == 1 && d->op >= 0xb8 && d->op <= 0xbf && d->rex & 8)
		d->imm = take(d, 8);
	else
		d->imm = take(d, d->op16 && !(d->rex & 8) && !jump ? 2 : 4);
}

/* Which general registers an opcode may write to: reg, r/m where that is a register. */
enum { TO_NONE = 0, TO_REG = 1, TO_RM = 2 };

static unsigned writes_1(const struct decoding *d)
{
	uint8_t op = d->op, group = d->reg & 7;

	if (op < 0x40)
		return (op & 0x38) == 0x38 || (op & 7) > 3 ? TO_NONE : op & 2 ? TO_REG : TO_RM;
	switch (op) {
	case 0x84: case 0x85: case 0xd8 ... 0xdf: /* test; x87 */
		return TO_NONE;
	case 0x63: case 0x69: case 0x6b: case 0x8a: case 0x8b: case 0x8d:
		return TO_REG;
	case 0x88: case 0x89: case 0xc6: case 0xc7: case 0xc0: case 0xc1: case 0xd0 ... 0xd3:
		return TO_RM;
	case 0x80: case 0x81: case 0x83:
		return group == 7 ? TO_NONE : TO_RM;
	case 0xf6: case 0xf7:
		return group == 2 || group == 3 ? TO_RM : TO_NONE;
	case 0xfe: case 0xff:
		return group < 2 ? TO_RM : TO_NONE;
	default:
		return TO_REG | TO_RM;
	}
}

static unsigned writes_2(const struct decoding *d)
{
	switch (d->op) {
	case 0x02: case 0x03: case 0x2c: case 0x2d: case 0x40 ... 0x4f: case 0x50: case 0xaf: case 0xb6 ... 0xb9: case 0xbc ... 0xbf: case 0xc5: case 0xd7:
		return TO_REG;
	case 0x00: case 0x01: case 0x20: case 0x21: case 0x7e: case 0x90 ... 0x9f: case 0xa4: case 0xa5: case 0xab ... 0xad: case 0xb3: case 0xba: case 0xbb: case 0xc7:
		return TO_RM;
	case 0xb0: case 0xb1: case 0xc0: case 0xc1:
		return TO_REG | TO_RM;
	default: /* vectors; bt, nop */
		return TO_NONE;
	}
}

/* Of one byte: without REX, 4 to 7 are ah, ch, dh, bh. */
static bool is_byte_wide(const struct decoding *d)
{
	switch (d->op) {
	case 0x80: case 0x88: case 0x8a: case 0xc0: case 0xc6: case 0xd0: case 0xd2: case 0xf6: case 0xfe:
		return d->map == 1 || d->op == 0xc0;
	case 0x90 ... 0x9f: case 0xb0:
		return d->map == 2;
	default:
		return d->map == 1 && d->op < 0x40 && !(d->op & 1);
	}
}

static bool writes(const struct decoding *d, uint8_t reg)
{
	if (!d->has_modrm) /* xchg with rax, mov of an immediate, bswap */
		return ((d->map == 1 && ((d->op > 0x90 && d->op < 0x98) || (d->op >= 0xb8 && d->op <= 0xbf))) ||
			(d->map == 2 && d->op >= 0xc8 && d->op <= 0xcf)) &&
		       ((d->op & 7) | (d->rex & 1 ? 8 : 0)) == reg;
	if (!d->vex && !d->rex && is_byte_wide(d))
		return false;
	unsigned to = d->map == 1 && !d->vex ? writes_1(d) : d->map == 2 ? writes_2(d) : d->op >= 0xf0 || d->map >= 4 ? TO_REG | TO_RM : TO_NONE;
	if (d->vex && d->map == 3 && d->op >= 0xf0 && d->vvvv == reg)
		return true;
	return (to & TO_REG && d->reg == reg) || (to & TO_RM && d->mod == 3 && d->rm == reg);
}

static void set(struct x86_insn *x, enum x86_kind kind, int64_t value)
{
	x->kind = (uint8_t)kind;
	x->value = (int32_t)value;
}

/* Of opcodes of one byte with a ModRM byte, in 64 bits where that matters. */
static void classify_modrm(const struct decoding *d, struct x86_insn *x)
{
	uint8_t group = d->reg & 7, op = d->op;
	bool wide = d->rex & 8, to_sp = d->mod == 3 && d->rm == SP;

	if (op == 0xff && group == 6)
		set(x, X86_PUSH, 0);
	else if (op == 0x8f)
		set(x, X86_POP, 0);
	else if (op == 0xff && (group == 2 || group == 3))
		set(x, X86_CALL, 0);
	else if (op == 0xff && (group == 4 || group == 5))
		set(x, X86_JUMP, 0);
	else if ((op == 0x31 || op == 0x33) && d->mod == 3 && d->reg == FP && d->rm == FP)
		set(x, X86_ZERO_FP, 0);
	else if (!wide)
		return;
	else if (op == 0x8d && d->mod == 0 && d->base == 16 && (d->rm & 7) == 5)
		set(x, X86_ADDRESS, d->disp);
	else if ((op == 0x83 || op == 0x81) && to_sp && (group == 0 || group == 5))
		set(x, X86_ADD_SP, group == 0 ? d->imm : -d->imm);
	else if (op == 0x8d && d->reg == SP && d->base == SP)
		set(x, X86_ADD_SP, d->disp);
	else if (op == 0x8d && d->reg == SP && d->base == FP)
		set(x, X86_SP_FROM_FP, d->disp);
	else if (op == 0x8d && d->reg == FP && d->base == SP)
		set(x, X86_FP_FROM_SP, d->disp);
	else if ((op == 0x89 && to_sp && d->reg == FP) || (op == 0x8b && d->mod == 3 && d->reg == SP && d->rm == FP))
		set(x, X86_SP_FROM_FP, 0);
	else if ((op == 0x89 && d->mod == 3 && d->rm == FP && d->reg == SP) || (op == 0x8b && d->mod == 3 && d->reg == FP && d->rm == SP))
		set(x, X86_FP_FROM_SP, 0);
	else if (op == 0x89 && d->mod != 3 && d->reg == FP && d->base == SP)
		set(x, X86_SAVE_FP, d->disp);
	else if (op == 0x8b && d->mod != 3 && d->reg == FP && d->base == SP)
		set(x, X86_LOAD_FP, d->disp);
}

static void classify_1(const struct decoding *d, struct x86_insn *x)
{
	uint8_t op = d->op;

	if (d->has_modrm) {
		classify_modrm(d, x);
		return;
	}
	x->direct = true;
	if (op >= 0x50 && op <= 0x5f) {
		uint8_t reg = (uint8_t)((op & 7) | (d->rex & 1 ? 8 : 0));
		set(x, op < 0x58 ? X86_PUSH : X86_POP, 0);
		x->fp = reg == FP;
		x->writes_sp = op >= 0x58 && reg == SP;
	} else if (op == 0x68 || op == 0x6a || op == 0x9c) {
		set(x, X86_PUSH, 0);
	} else if (op == 0x9d) {
		set(x, X86_POP, 0);
	} else if (op == 0xe8) {
		set(x, X86_CALL, d->imm);
	} else if (op == 0xe9 || op == 0xeb) {
		set(x, X86_JUMP, d->imm);
	} else if ((op & 0xf0) == 0x70 || (op >= 0xe0 && op <= 0xe3)) {
		set(x, X86_BRANCH, d->imm);
	} else if (op == 0xc3 || op == 0xc2) {
		set(x, X86_RETURN, 0);
	} else if (op == 0xca || op == 0xcb || op == 0xcf) { /* returns of other kinds */
		set(x, X86_JUMP, 0);
		x->direct = false;
	} else if (op == 0xc9) {
		set(x, X86_LEAVE, 0);
	} else if (op == 0xf4 || op == 0xcc) {
		set(x, X86_STOP, 0);
	} else if (op == 0x90 && !(d->rex & 1)) {
		set(x, X86_NOP, 0);
	} else if (op == 0xc8) { /* enter */
		x->writes_sp = x->writes_fp = true;
	}
}

static void classify_2(const struct decoding *d, struct x86_insn *x)
{
	if ((d->op & 0xf0) == 0x80) {
		set(x, X86_BRANCH, d->imm);
		x->direct = true;
	} else if (d->op == 0x05) {
		set(x, X86_CALL, 0);         /* a system call; it may not return either */
	} else if (d->op == 0x0b) {
		set(x, X86_STOP, 0);
	} else if (d->op == 0x1f) {
		set(x, X86_NOP, 0);
	}
}

bool x86_insn(const uint8_t *p, size_t n, struct x86_insn *ret)
{
	struct decoding d = { .p = p, .e = p + (n < X86_INSN_MAX ? n : X86_INSN_MAX) };

	take_prefixes(&d);
	unsigned follows = take_opcode(&d);
	if (d.bad || follows & BAD)
		return false;
	if (follows & MODRM)
		take_modrm(&d);
	take_immediates(&d, follows);
	if (d.bad)
		return false;
	*ret = (struct x86_insn){ .len = (uint8_t)(d.p - p) };
	if (!d.vex && d.map == 1)
		classify_1(&d, ret);
	else if (!d.vex && d.map == 2)
		classify_2(&d, ret);
	if ((ret->kind == X86_PUSH || ret->kind == X86_POP) && d.op16)
		ret->writes_sp = true;       /* two bytes */
	if (ret->kind == X86_OTHER || ret->kind == X86_ADDRESS) {
		ret->writes_sp |= writes(&d, SP);
		ret->writes_fp |= writes(&d, FP);
	}
	if (ret->kind == X86_POP && d.has_modrm && d.mod == 3) {
		ret->fp = d.rm == FP;
		ret->writes_sp |= d.rm == SP;
	}
	return true;
}
