/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/call_frame.h"

#include <string.h>

#include "base/view.h"

#define REMEMBER_MAX 32

/* DWARF register numbers on x86-64. */
enum { REG_RDX = 1, REG_RDI = 5, REG_FP = 6, REG_SP = 7, REG_RA = 16 };

static void reader_ran_out(struct cf_reader *r)
{
	r->bad = true;
	r->p = r->e;
}

uint64_t cf_fixed(struct cf_reader *r, size_t n)
{
	uint64_t v = 0;

	if ((size_t)(r->e - r->p) < n) {
		reader_ran_out(r);
		return 0;
	}
	if (n == 1)
		v = *r->p;
	else if (n == 4)             /* the usual size: one instruction, where a copy of n bytes is a call */
		memcpy(&v, r->p, 4);
	else
		for (size_t i = 0; i < n; i++)
			v |= (uint64_t)r->p[i] << (8 * i);
	r->p += n;
	return v;
}

static inline uint8_t reader_byte(struct cf_reader *r)
{
	if (r->p < r->e)
		return *r->p++;
	reader_ran_out(r);
	return 0;
}

uint64_t cf_uleb(struct cf_reader *r)
{
	uint64_t v = 0;
	for (unsigned shift = 0;; shift += 7) {
		uint8_t b = reader_byte(r);
		if (shift < 64)
			v |= (uint64_t)(b & 127) << shift;
		if (!(b & 128))
			return v;
	}
}

int64_t cf_sleb(struct cf_reader *r)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t b;
	do {
		b = reader_byte(r);
		if (shift < 64)
			v |= (uint64_t)(b & 127) << shift;
		shift += 7;
	} while (b & 128);
	if (shift < 64 && b & 64)
		v |= ~0ull << shift;
	return (int64_t)v;
}

void cf_skip(struct cf_reader *r, uint64_t n)
{
	if (n > (uint64_t)(r->e - r->p))
		reader_ran_out(r);
	else
		r->p += n;
}

uint64_t cf_pointer(struct cf_reader *r, uint8_t encoding, uint64_t vaddr)
{
	uint64_t v;
	if (encoding == 0xff)
		return 0;
	switch (encoding & 15) {
	case 0: case 4: case 12: v = cf_fixed(r, 8); break;
	case 1: v = cf_uleb(r); break;
	case 9: v = (uint64_t)cf_sleb(r); break;
	case 2: v = cf_fixed(r, 2); break;
	case 3: v = cf_fixed(r, 4); break;
	case 10: v = (uint64_t)(int64_t)(int16_t)cf_fixed(r, 2); break;
	case 11: v = (uint64_t)(int64_t)(int32_t)cf_fixed(r, 4); break;
	default: r->bad = true; return 0;
	}
	if ((encoding & 0x70) == 0x10)
		v += vaddr;
	else if ((encoding & 0x70) != 0)
		r->bad = true;
	return v;
}

static bool fits_s32(int64_t v)
{
	return v >= INT32_MIN && v <= INT32_MAX;
}

struct unwind_rule cf_rule(const struct cf_state *s)
{
	struct unwind_rule r = { .cfa = s->cfa };

	if (s->ra == CF_RA_UNDEFINED)
		return (struct unwind_rule){ .cfa = CFA_STOP };
	if (s->cfa == CFA_SIGNAL)
		return r;
	if (s->ra == CF_RA_OTHER || !fits_s32(s->cfa_off) || !fits_s32(s->cfa_add) || s->cfa == CFA_UNSUPPORTED)
		return (struct unwind_rule){ .cfa = CFA_UNSUPPORTED };
	if (s->ra == CF_RA_IN_RDI || s->ra == CF_RA_IN_RDX)
		r.ra = s->ra == CF_RA_IN_RDI ? RA_IN_RDI : RA_IN_RDX;
	r.cfa_off = (int32_t)s->cfa_off;
	r.cfa_add = (int32_t)s->cfa_add;
	r.fp = s->fp;
	if ((s->fp == FP_AT_CFA || s->fp == FP_AT_FP)) {
		if (fits_s32(s->fp_off))
			r.fp_off = (int32_t)s->fp_off;
		else
			r.fp = FP_UNKNOWN;
	}
	return r;
}

static void set_cfa_reg(struct cf_state *s, uint64_t reg)
{
	s->cfa = reg == REG_SP ? CFA_SP : reg == REG_FP ? CFA_FP : CFA_UNSUPPORTED;
	s->cfa_add = 0;
	s->cfa_is_reg = true;
}

/* The expressions that occur: a register's memory, the PLT's. */
static void set_cfa_expression(struct cf_state *s, const uint8_t *p, size_t n)
{
	/* breg7 8; breg16 0; lit15; and; lit11 or lit10; ge; lit3; shl; plus */
	static const uint8_t plt[] = { 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 };
	struct cf_reader r = { p, p + n, false };

	s->cfa = CFA_UNSUPPORTED;
	s->cfa_is_reg = false;
	s->cfa_off = s->cfa_add = 0;
	if (n == sizeof plt && memcmp(p, plt, 6) == 0 && memcmp(p + 7, plt + 7, 4) == 0 && p[6] >= 0x30 && p[6] <= 0x3f) {
		s->cfa = CFA_PLT;
		s->cfa_off = p[6] - 0x30;
		return;
	}
	uint8_t op = (uint8_t)cf_fixed(&r, 1);
	if (op != 0x70 + REG_FP && op != 0x70 + REG_SP)
		return;
	int64_t off = cf_sleb(&r), add = 0;
	if (cf_fixed(&r, 1) != 0x06) /* deref */
		return;
	if (r.p < r.e) { /* plus_uconst, or a literal and plus */
		uint8_t o = (uint8_t)cf_fixed(&r, 1);
		if (o == 0x23)
			add = (int64_t)cf_uleb(&r);
		else if (o >= 0x30 && o <= 0x4f && cf_fixed(&r, 1) == 0x22)
			add = o - 0x30;
		else
			return;
	}
	if (r.bad || r.p != r.e)
		return;
	s->cfa = op == 0x70 + REG_FP ? CFA_DEREF_FP : CFA_DEREF_SP;
	s->cfa_off = off;
	s->cfa_add = add;
}

static void set_reg_at_cfa(struct cf_state *s, uint64_t reg, int64_t off)
{
	if (reg == REG_FP) {
		s->fp = FP_AT_CFA;
		s->fp_off = off;
	} else if (reg == REG_RA) {
		s->ra = off == -8 ? CF_RA_AT_CFA : CF_RA_OTHER;
	}
}

static void set_reg_expression(struct cf_state *s, uint64_t reg, const uint8_t *p, size_t n)
{
	if (reg == REG_RA)
		s->ra = CF_RA_OTHER;
	if (reg != REG_FP)
		return;
	struct cf_reader r = { p, p + n, false };
	bool at_fp = cf_fixed(&r, 1) == 0x70 + REG_FP;
	int64_t off = cf_sleb(&r);
	if (at_fp && !r.bad && r.p == r.e) {
		s->fp = FP_AT_FP;
		s->fp_off = off;
	} else {
		s->fp = FP_UNKNOWN;
		s->fp_off = 0;
	}
}

static void set_reg_unknown(struct cf_state *s, uint64_t reg)
{
	if (reg == REG_FP) {
		s->fp = FP_UNKNOWN;
		s->fp_off = 0;
	} else if (reg == REG_RA) {
		s->ra = CF_RA_OTHER;
	}
}

/* The value is in another register. */
static void set_reg_in(struct cf_state *s, uint64_t reg, uint64_t in)
{
	set_reg_unknown(s, reg);
	if (reg == REG_RA && (in == REG_RDI || in == REG_RDX))
		s->ra = in == REG_RDI ? CF_RA_IN_RDI : CF_RA_IN_RDX;
}

static void restore_reg(struct cf_state *s, uint64_t reg, const struct cf_state *start)
{
	if (reg == REG_FP) {
		s->fp = start->fp;
		s->fp_off = start->fp_off;
	} else if (reg == REG_RA) {
		s->ra = start->ra;
	}
}

/* An offset in the units of the CIE. A file may say anything: it wraps. */
static int64_t scaled(const struct cf_common *c, uint64_t factor)
{
	return (int64_t)(factor * (uint64_t)c->data_align);
}

/* The instructions that change rules but not the address. False: unknown, or out of bytes. */
static bool rule_op(struct cf_reader *r, uint8_t op, const struct cf_common *c, struct cf_state *s)
{
	uint64_t reg;

	switch (op) {
	case 0x05: reg = cf_uleb(r); set_reg_at_cfa(s, reg, scaled(c, cf_uleb(r))); break;
	case 0x11: reg = cf_uleb(r); set_reg_at_cfa(s, reg, scaled(c, (uint64_t)cf_sleb(r))); break;
	case 0x2f: reg = cf_uleb(r); set_reg_at_cfa(s, reg, scaled(c, -cf_uleb(r))); break;
	case 0x06: restore_reg(s, cf_uleb(r), &c->start); break;
	case 0x07:
		reg = cf_uleb(r);
		if (reg == REG_RA)
			s->ra = CF_RA_UNDEFINED;
		else
			set_reg_unknown(s, reg);
		break;
	case 0x08:
		reg = cf_uleb(r);
		if (reg == REG_FP)
			s->fp = FP_SAME;
		else
			set_reg_unknown(s, reg);
		break;
	case 0x09: reg = cf_uleb(r); set_reg_in(s, reg, cf_uleb(r)); break;
	case 0x14: reg = cf_uleb(r); cf_uleb(r); set_reg_unknown(s, reg); break;
	case 0x15: reg = cf_uleb(r); cf_sleb(r); set_reg_unknown(s, reg); break;
	case 0x0c: set_cfa_reg(s, cf_uleb(r)); s->cfa_off = (int64_t)cf_uleb(r); break;
	case 0x12: set_cfa_reg(s, cf_uleb(r)); s->cfa_off = scaled(c, (uint64_t)cf_sleb(r)); break;
	case 0x0d: set_cfa_reg(s, cf_uleb(r)); break;
	case 0x0e: s->cfa_off = (int64_t)cf_uleb(r); break;
	case 0x13: s->cfa_off = scaled(c, (uint64_t)cf_sleb(r)); break;
	case 0x0f: case 0x10: case 0x16: {
		reg = op == 0x0f ? 0 : cf_uleb(r);
		uint64_t n = cf_uleb(r);
		const uint8_t *p = r->p;
		cf_skip(r, n);
		if (r->bad)
			return false;
		if (op == 0x0f)
			set_cfa_expression(s, p, n);
		else if (op == 0x10)
			set_reg_expression(s, reg, p, n);
		else
			set_reg_unknown(s, reg);
		break;
	}
	case 0x2e: cf_uleb(r); break; /* GNU_args_size */
	case 0x00: break;
	default: return false;
	}
	return !r->bad;
}

int cf_run(const struct cf_common *c, struct cf_reader r, uint64_t vaddr, struct cf_state *s, uint64_t pc, uint64_t end,
	   cf_row_fn *fn, void *arg)
{
	const uint8_t *first = r.p;
	struct cf_state saved[REMEMBER_MAX] UNINITIALIZED;
	unsigned depth = 0;

	while (r.p < r.e) {
		uint8_t op = *r.p++, low = op & 63;
		uint64_t to = pc;
		switch (op >> 6) {
		case 1: to += low * c->code_align; break;
		case 2: set_reg_at_cfa(s, low, scaled(c, cf_uleb(&r))); break;
		case 3: restore_reg(s, low, &c->start); break;
		default:
			if (op == 0x01)
				to = cf_pointer(&r, c->encoding, vaddr + (size_t)(r.p - first));
			else if (op >= 0x02 && op <= 0x04)
				to += cf_fixed(&r, (size_t)1 << (op - 2)) * c->code_align;
			else if (op == 0x0a && depth < REMEMBER_MAX)
				saved[depth++] = *s;
			else if (op == 0x0b && depth > 0)
				*s = saved[--depth];
			else if (!rule_op(&r, op, c, s))
				return -1;
		}
		if (r.bad || to < pc || (fn && to > end))
			return -1;
		if (fn && to > pc) {
			int ret = fn(arg, pc, s);
			if (ret)
				return ret;
		}
		pc = to;
	}
	return fn && pc < end ? fn(arg, pc, s) : 0;
}
