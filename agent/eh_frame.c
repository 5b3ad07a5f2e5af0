/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the call-frame instructions of each FDE, in the order of addresses, and keeps of each row what a rule needs:
 * the CFA, where the frame pointer was saved, and whether the return address is where it always is.
 *
 *	.eh_frame:  CIE  length id=0 version augmentation code-align data-align ra-register initial instructions
 *	            FDE  length distance-to-CIE pc-begin pc-range instructions
 *	.eh_frame_hdr: version, encodings, table of (pc-begin, address of FDE) ascending
 *
 * The order comes from .eh_frame_hdr where it makes sense, else the FDEs are collected and sorted. With the former, a
 * range of addresses is read without the rest. */
#include "agent/eh_frame.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/vec.h"

#define EH_BYTES_MAX ((uint64_t)128 << 20)
#define PIECE_BYTES 65536
#define ENTRY_BYTES_MAX ((size_t)16 << 20)
#define REMEMBER_MAX 32
#define GAP_MIN 16                   /* padding between functions keeps the rule before it */

/* DWARF register numbers on x86-64. */
enum { REG_FP = 6, REG_SP = 7, REG_RA = 16 };

enum ra_state { RA_AT_CFA, RA_UNDEFINED, RA_OTHER };

struct state {
	uint8_t cfa;                 /* enum cfa_kind */
	uint8_t fp;                  /* enum fp_kind */
	uint8_t ra;                  /* enum ra_state */
	bool cfa_is_reg;             /* def_cfa_offset makes sense */
	int64_t cfa_off, cfa_add, fp_off;
};

struct cie {
	size_t offset;               /* in .eh_frame; SIZE_MAX = none */
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;
	bool signal, augmented;
	struct state start;
};

struct fde_at {
	uint64_t pc;
	uint32_t offset;             /* in .eh_frame */
};

/* Bytes [at, at + len) of .eh_frame. */
struct piece {
	uint8_t *bytes;
	size_t at, len;
};

struct walk {
	const struct elf_file *f;
	uint64_t eh_offset, eh_vaddr; /* of .eh_frame, in the file and in memory */
	size_t eh_len;
	struct piece fdes, cies;     /* what was read of it, moved on as needed */
	struct cie cie;
	eh_row_fn *fn;
	void *arg;
	struct eh_stats *st;
	uint64_t end;                /* rows so far reach up to here */
	bool any;
	/* The row not handed out yet: the next may be at the same address or say the same. */
	bool pending, have_last;
	uint64_t pending_pc;
	struct unwind_rule pending_rule, last_rule;
};

/* A reader that, once it has run out, stays at its end and yields zeroes. */
struct rd {
	const uint8_t *p, *e;
	bool bad;
};

static uint64_t rd_fixed(struct rd *r, size_t n)
{
	uint64_t v = 0;
	if ((size_t)(r->e - r->p) < n) {
		r->bad = true;
		r->p = r->e;
		return 0;
	}
	memcpy(&v, r->p, n);
	r->p += n;
	return v;
}

static uint64_t rd_uleb(struct rd *r)
{
	uint64_t v = 0;
	for (unsigned shift = 0;; shift += 7) {
		uint8_t b = (uint8_t)rd_fixed(r, 1);
		if (shift < 64)
			v |= (uint64_t)(b & 127) << shift;
		if (!(b & 128))
			return v;
	}
}

static int64_t rd_sleb(struct rd *r)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t b;
	do {
		b = (uint8_t)rd_fixed(r, 1);
		if (shift < 64)
			v |= (uint64_t)(b & 127) << shift;
		shift += 7;
	} while (b & 128);
	if (shift < 64 && b & 64)
		v |= ~0ull << shift;
	return (int64_t)v;
}

static void rd_skip(struct rd *r, uint64_t n)
{
	if (n > (uint64_t)(r->e - r->p)) {
		r->bad = true;
		r->p = r->e;
	} else {
		r->p += n;
	}
}

/* A pointer in the encoding of DW_EH_PE_*; at is the virtual address of where it stands. */
static uint64_t rd_pointer(struct rd *r, uint8_t enc, uint64_t at)
{
	uint64_t v;
	if (enc == 0xff)
		return 0;
	switch (enc & 15) {
	case 0: case 4: case 12: v = rd_fixed(r, 8); break;
	case 1: v = rd_uleb(r); break;
	case 9: v = (uint64_t)rd_sleb(r); break;
	case 2: v = rd_fixed(r, 2); break;
	case 3: v = rd_fixed(r, 4); break;
	case 10: v = (uint64_t)(int64_t)(int16_t)rd_fixed(r, 2); break;
	case 11: v = (uint64_t)(int64_t)(int32_t)rd_fixed(r, 4); break;
	default: r->bad = true; return 0;
	}
	if ((enc & 0x70) == 0x10)
		v += at;
	else if ((enc & 0x70) != 0)
		r->bad = true;
	return v;
}

static bool fits_s32(int64_t v)
{
	return v >= INT32_MIN && v <= INT32_MAX;
}

static struct unwind_rule rule_of(const struct state *s)
{
	struct unwind_rule r = { .cfa = s->cfa };

	if (s->ra == RA_UNDEFINED)
		return (struct unwind_rule){ .cfa = CFA_STOP };
	if (s->cfa == CFA_SIGNAL)
		return r;
	if (s->ra == RA_OTHER || !fits_s32(s->cfa_off) || !fits_s32(s->cfa_add) || s->cfa == CFA_UNSUPPORTED)
		return (struct unwind_rule){ .cfa = CFA_UNSUPPORTED };
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

static int flush(struct walk *w)
{
	if (!w->pending)
		return 0;
	w->pending = false;
	if (w->have_last && memcmp(&w->last_rule, &w->pending_rule, sizeof w->last_rule) == 0)
		return 0;
	w->have_last = true;
	w->last_rule = w->pending_rule;
	w->st->rows++;
	w->st->unsupported += w->pending_rule.cfa == CFA_UNSUPPORTED;
	w->st->unknown_fp += w->pending_rule.fp == FP_UNKNOWN;
	return w->fn(w->arg, w->pending_pc, &w->pending_rule);
}

static int emit(struct walk *w, uint64_t pc, const struct unwind_rule *r)
{
	if (!w->pending || w->pending_pc != pc) {
		int ret = flush(w);
		if (ret)
			return ret;
	}
	w->pending = true;
	w->pending_pc = pc;
	w->pending_rule = *r;
	return 0;
}

static int emit_state(struct walk *w, uint64_t pc, const struct state *s)
{
	struct unwind_rule r = rule_of(s);
	return emit(w, pc, &r);
}

static void set_cfa_reg(struct state *s, uint64_t reg)
{
	s->cfa = reg == REG_SP ? CFA_SP : reg == REG_FP ? CFA_FP : CFA_UNSUPPORTED;
	s->cfa_add = 0;
	s->cfa_is_reg = true;
}

/* The expressions that occur: a register's memory, the PLT's. */
static void set_cfa_expression(struct state *s, const uint8_t *p, size_t n)
{
	/* breg7 8; breg16 0; lit15; and; lit11 or lit10; ge; lit3; shl; plus */
	static const uint8_t plt[] = { 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 };
	struct rd r = { p, p + n, false };

	s->cfa = CFA_UNSUPPORTED;
	s->cfa_is_reg = false;
	s->cfa_off = s->cfa_add = 0;
	if (n == sizeof plt && memcmp(p, plt, 6) == 0 && memcmp(p + 7, plt + 7, 4) == 0 && p[6] >= 0x30 && p[6] <= 0x3f) {
		s->cfa = CFA_PLT;
		s->cfa_off = p[6] - 0x30;
		return;
	}
	uint8_t op = (uint8_t)rd_fixed(&r, 1);
	if (op != 0x70 + REG_FP && op != 0x70 + REG_SP)
		return;
	int64_t off = rd_sleb(&r), add = 0;
	if (rd_fixed(&r, 1) != 0x06) /* deref */
		return;
	if (r.p < r.e) { /* plus_uconst, or a literal and plus */
		uint8_t o = (uint8_t)rd_fixed(&r, 1);
		if (o == 0x23)
			add = (int64_t)rd_uleb(&r);
		else if (o >= 0x30 && o <= 0x4f && rd_fixed(&r, 1) == 0x22)
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

static void set_reg_at_cfa(struct state *s, uint64_t reg, int64_t off)
{
	if (reg == REG_FP) {
		s->fp = FP_AT_CFA;
		s->fp_off = off;
	} else if (reg == REG_RA) {
		s->ra = off == -8 ? RA_AT_CFA : RA_OTHER;
	}
}

static void set_reg_expression(struct state *s, uint64_t reg, const uint8_t *p, size_t n)
{
	if (reg == REG_RA)
		s->ra = RA_OTHER;
	if (reg != REG_FP)
		return;
	struct rd r = { p, p + n, false };
	bool at_fp = rd_fixed(&r, 1) == 0x70 + REG_FP;
	int64_t off = rd_sleb(&r);
	if (at_fp && !r.bad && r.p == r.e) {
		s->fp = FP_AT_FP;
		s->fp_off = off;
	} else {
		s->fp = FP_UNKNOWN;
		s->fp_off = 0;
	}
}

static void set_reg_unknown(struct state *s, uint64_t reg)
{
	if (reg == REG_FP) {
		s->fp = FP_UNKNOWN;
		s->fp_off = 0;
	} else if (reg == REG_RA) {
		s->ra = RA_OTHER;
	}
}

static void restore_reg(struct state *s, uint64_t reg, const struct state *start)
{
	if (reg == REG_FP) {
		s->fp = start->fp;
		s->fp_off = start->fp_off;
	} else if (reg == REG_RA) {
		s->ra = start->ra;
	}
}

/* An offset in the units of the CIE. A file may say anything: it wraps. */
static int64_t scaled(const struct cie *c, uint64_t factor)
{
	return (int64_t)(factor * (uint64_t)c->data_align);
}

/* The instructions that change rules but not the address. False: unknown, or out of bytes. */
static bool rule_op(struct rd *r, uint8_t op, const struct cie *c, struct state *s)
{
	uint64_t reg;

	switch (op) {
	case 0x05: reg = rd_uleb(r); set_reg_at_cfa(s, reg, scaled(c, rd_uleb(r))); break;
	case 0x11: reg = rd_uleb(r); set_reg_at_cfa(s, reg, scaled(c, (uint64_t)rd_sleb(r))); break;
	case 0x2f: reg = rd_uleb(r); set_reg_at_cfa(s, reg, scaled(c, -rd_uleb(r))); break;
	case 0x06: restore_reg(s, rd_uleb(r), &c->start); break;
	case 0x07:
		reg = rd_uleb(r);
		if (reg == REG_RA)
			s->ra = RA_UNDEFINED;
		else
			set_reg_unknown(s, reg);
		break;
	case 0x08:
		reg = rd_uleb(r);
		if (reg == REG_FP)
			s->fp = FP_SAME;
		else
			set_reg_unknown(s, reg);
		break;
	case 0x09: reg = rd_uleb(r); rd_uleb(r); set_reg_unknown(s, reg); break;
	case 0x14: reg = rd_uleb(r); rd_uleb(r); set_reg_unknown(s, reg); break;
	case 0x15: reg = rd_uleb(r); rd_sleb(r); set_reg_unknown(s, reg); break;
	case 0x0c: set_cfa_reg(s, rd_uleb(r)); s->cfa_off = (int64_t)rd_uleb(r); break;
	case 0x12: set_cfa_reg(s, rd_uleb(r)); s->cfa_off = scaled(c, (uint64_t)rd_sleb(r)); break;
	case 0x0d: set_cfa_reg(s, rd_uleb(r)); break;
	case 0x0e: s->cfa_off = (int64_t)rd_uleb(r); break;
	case 0x13: s->cfa_off = scaled(c, (uint64_t)rd_sleb(r)); break;
	case 0x0f: case 0x10: case 0x16: {
		reg = op == 0x0f ? 0 : rd_uleb(r);
		uint64_t n = rd_uleb(r);
		const uint8_t *p = r->p;
		rd_skip(r, n);
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
	case 0x2e: rd_uleb(r); break; /* GNU_args_size */
	case 0x00: break;
	default: return false;
	}
	return !r->bad;
}

/* Where in .eh_frame a byte of the piece stands. */
static uint64_t at_of(const struct piece *p, const uint8_t *byte)
{
	return p->at + (uint64_t)((uintptr_t)byte - (uintptr_t)p->bytes);
}

/* Makes the piece hold n bytes from offset on, and some more while at it. */
static bool need(struct walk *w, struct piece *p, size_t offset, size_t n)
{
	if (offset > w->eh_len || n > w->eh_len - offset)
		return false;
	if (offset >= p->at && offset - p->at <= p->len && n <= p->len - (offset - p->at))
		return true;
	size_t len = MIN(MAX(n, (size_t)PIECE_BYTES), w->eh_len - offset);
	free(p->bytes);
	*p = (struct piece){ xmalloc(len), offset, len };
	if (elf_read(w->f, w->eh_offset + offset, p->bytes, len))
		return true;
	p->len = 0;
	return false;
}

/* Runs instructions from *pc up to end; emits a row before each advance if `rows`. Negative: unreadable; positive: fn's. */
static int run(struct walk *w, struct rd r, struct state *s, uint64_t pc, uint64_t end, bool rows)
{
	const struct cie *c = &w->cie;
	struct state saved[REMEMBER_MAX];
	unsigned depth = 0;

	while (r.p < r.e) {
		uint8_t op = *r.p++, low = op & 63;
		uint64_t to = pc;
		switch (op >> 6) {
		case 1: to += low * c->code_align; break;
		case 2: set_reg_at_cfa(s, low, scaled(c, rd_uleb(&r))); break;
		case 3: restore_reg(s, low, &c->start); break;
		default:
			if (op == 0x01)
				to = rd_pointer(&r, c->encoding, w->eh_vaddr + at_of(&w->fdes, r.p));
			else if (op >= 0x02 && op <= 0x04)
				to += rd_fixed(&r, (size_t)1 << (op - 2)) * c->code_align;
			else if (op == 0x0a && depth < REMEMBER_MAX)
				saved[depth++] = *s;
			else if (op == 0x0b && depth > 0)
				*s = saved[--depth];
			else if (!rule_op(&r, op, c, s))
				return -1;
		}
		if (r.bad || to < pc || (rows && to > end))
			return -1;
		if (rows && to > pc) {
			int ret = emit_state(w, pc, s);
			if (ret)
				return ret;
		}
		pc = to;
	}
	return rows && pc < end ? emit_state(w, pc, s) : 0;
}

/* The length field of an entry at offset; its contents go into r, and the offset of the next entry is returned.
 * SIZE_MAX: the end, or nonsense. */
static size_t entry(struct walk *w, struct piece *p, size_t offset, struct rd *r)
{
	size_t head = MIN((size_t)12, w->eh_len - MIN(offset, w->eh_len));

	if (head < 4 || !need(w, p, offset, head))
		return SIZE_MAX;
	*r = (struct rd){ p->bytes + (offset - p->at), p->bytes + (offset - p->at) + head, false };
	uint64_t len = rd_fixed(r, 4);
	size_t before = 4;
	if (len == 0xffffffff) {
		len = rd_fixed(r, 8);
		before = 12;
	}
	if (r->bad || len < 4 || len > ENTRY_BYTES_MAX || !need(w, p, offset, before + len))
		return SIZE_MAX;
	r->p = p->bytes + (offset - p->at) + before;
	r->e = r->p + len;
	return offset + before + len;
}

static bool read_cie(struct walk *w, size_t offset)
{
	struct cie *c = &w->cie;
	struct rd r;

	if (c->offset == offset)
		return true;
	*c = (struct cie){ .offset = SIZE_MAX };
	if (entry(w, &w->cies, offset, &r) == SIZE_MAX || rd_fixed(&r, 4) != 0)
		return false;
	uint8_t version = (uint8_t)rd_fixed(&r, 1);
	const char *aug = (const char *)r.p;
	size_t aug_len = strnlen(aug, (size_t)(r.e - r.p));
	if ((version != 1 && version != 3) || aug_len == (size_t)(r.e - r.p) || (aug_len && aug[0] != 'z'))
		return false;
	r.p += aug_len + 1;
	c->code_align = rd_uleb(&r);
	c->data_align = rd_sleb(&r);
	if (version == 1)
		rd_fixed(&r, 1);
	else
		rd_uleb(&r);
	if (aug_len) {
		uint64_t n = rd_uleb(&r);
		struct rd a = { r.p, r.p, false };
		rd_skip(&r, n);
		a.e = r.p;
		c->augmented = true;
		for (size_t i = 1; i < aug_len; i++) {
			if (aug[i] == 'R')
				c->encoding = (uint8_t)rd_fixed(&a, 1);
			else if (aug[i] == 'L')
				rd_fixed(&a, 1);
			else if (aug[i] == 'P')
				rd_pointer(&a, (uint8_t)rd_fixed(&a, 1) & 15, 0);
			else if (aug[i] == 'S')
				c->signal = true;
			else if (aug[i] != 'B')
				return false;
		}
		if (a.bad)
			return false;
	}
	struct state s = { .cfa = CFA_UNSUPPORTED };
	if (r.bad || run(w, r, &s, 0, 0, false) < 0)
		return false;
	c->start = s;
	c->offset = offset;
	return true;
}

/* Reads an FDE up to its instructions. */
static bool read_fde(struct walk *w, size_t offset, struct rd *r, uint64_t *ret_pc, uint64_t *ret_end)
{
	if (entry(w, &w->fdes, offset, r) == SIZE_MAX)
		return false;
	size_t at = at_of(&w->fdes, r->p);
	uint64_t distance = rd_fixed(r, 4);
	if (distance == 0 || distance > at || !read_cie(w, at - distance))
		return false;
	uint8_t enc = w->cie.encoding;
	if (enc & 0x80)
		return false;
	*ret_pc = rd_pointer(r, enc, w->eh_vaddr + at_of(&w->fdes, r->p));
	uint64_t len = rd_pointer(r, enc & 15, 0);
	*ret_end = *ret_pc + len;
	if (w->cie.augmented)
		rd_skip(r, rd_uleb(r));
	return !r->bad && len > 0 && *ret_end > *ret_pc;
}

static int walk_fde(struct walk *w, size_t offset)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE };
	uint64_t pc, end;
	struct rd r;
	int ret;

	if (!read_fde(w, offset, &r, &pc, &end) || (w->any && pc < w->end)) {
		w->st->bad++;
		return 0;
	}
	if (w->any && pc - w->end >= GAP_MIN) {
		ret = emit(w, w->end, &none);
		if (ret)
			return ret;
	}
	w->st->fdes++;
	w->any = true;
	w->end = end;
	struct state s = w->cie.start;
	if (w->cie.signal) {
		s = (struct state){ .cfa = CFA_SIGNAL };
		return emit_state(w, pc, &s);
	}
	ret = run(w, r, &s, pc, end, true);
	if (ret >= 0)
		return ret;
	w->st->bad++;
	s = (struct state){ .cfa = CFA_UNSUPPORTED };
	return emit_state(w, w->pending && w->pending_pc > pc ? w->pending_pc : pc, &s);
}

static int by_pc(const void *a, const void *b)
{
	const struct fde_at *x = a, *y = b;
	return (x->pc > y->pc) - (x->pc < y->pc);
}

struct fde_list { VEC(struct fde_at) l; };

/* All FDEs, sorted: for files without a usable .eh_frame_hdr. */
static void collect(struct walk *w, struct fde_list *out)
{
	struct rd r;
	out->l.n = 0;
	for (size_t at = 0, next; at + 4 < w->eh_len; at = next) {
		uint32_t len;
		if (!need(w, &w->fdes, at, 4))
			break;
		memcpy(&len, w->fdes.bytes + (at - w->fdes.at), 4);
		if (len == 0) { /* a terminator: crtend's stands at the end, but linked-in ones may be anywhere */
			next = at + 4;
			continue;
		}
		next = entry(w, &w->fdes, at, &r);
		if (next == SIZE_MAX)
			break;
		uint64_t pc, end;
		if (rd_fixed(&r, 4) != 0 && read_fde(w, at, &r, &pc, &end))
			vec_push(&out->l, (struct fde_at){ pc, (uint32_t)at });
	}
	if (out->l.n)
		qsort(out->l.v, out->l.n, sizeof *out->l.v, by_pc);
}

/* .eh_frame_hdr as linkers write it. */
struct header {
	uint64_t vaddr, table;       /* the table's offset in the file: pc and FDE, each 4 bytes, relative to vaddr */
	uint32_t n;
};

#define HEADER_BYTES 12

/* False: it is not there, or in another encoding. */
static bool read_header(const struct elf_file *f, struct header *ret)
{
	const Elf64_Phdr *ph = NULL;
	uint8_t head[HEADER_BYTES];

	for (size_t i = 0; i < f->n_ph; i++)
		if (f->ph[i].p_type == PT_GNU_EH_FRAME)
			ph = &f->ph[i];
	if (!ph || ph->p_filesz < sizeof head || ph->p_filesz > EH_BYTES_MAX || !elf_read(f, ph->p_offset, head, sizeof head))
		return false;
	ret->vaddr = ph->p_vaddr;
	ret->table = ph->p_offset + sizeof head;
	memcpy(&ret->n, head + 8, 4);
	return head[0] == 1 && head[1] == 0x1b && head[2] == 0x03 && head[3] == 0x3b && ret->n > 0 &&
	       ret->n <= (ph->p_filesz - sizeof head) / 8;
}

/* n entries of the header's table from `first` on. False: they cannot be read, or are not in order. */
static bool read_entries(const struct walk *w, const struct header *h, uint32_t first, uint32_t n, struct fde_at *ret)
{
	AUTOFREE int32_t *t = xreallocarray(NULL, n, 8);

	if (!elf_read(w->f, h->table + (uint64_t)first * 8, t, (size_t)n * 8))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = h->vaddr + (uint64_t)(int64_t)t[2 * i + 1] - w->eh_vaddr;
		ret[i] = (struct fde_at){ h->vaddr + (uint64_t)(int64_t)t[2 * i], (uint32_t)at };
		if (at >= w->eh_len || (i && ret[i].pc < ret[i - 1].pc))
			return false;
	}
	return true;
}

static bool from_header(const struct walk *w, struct fde_list *out)
{
	struct header h;

	if (!read_header(w->f, &h))
		return false;
	vec_reserve(&out->l, h.n);
	out->l.n = h.n;
	return read_entries(w, &h, 0, h.n, out->l.v);
}

/* Where .eh_frame is. */
static bool find_eh_frame(const struct elf_file *f, struct walk *w)
{
	const Elf64_Shdr *sh = elf_section(f, ".eh_frame");

	*w = (struct walk){ .f = f, .cie.offset = SIZE_MAX };
	if (sh && sh->sh_size > 4 && sh->sh_type != SHT_NOBITS && !(sh->sh_flags & SHF_COMPRESSED)) {
		w->eh_vaddr = sh->sh_addr;
		w->eh_offset = sh->sh_offset;
		w->eh_len = sh->sh_size;
		return sh->sh_size <= EH_BYTES_MAX;
	}
	for (size_t i = 0; i < f->n_ph; i++) {
		uint8_t head[8];
		int32_t rel;
		uint64_t len;
		if (f->ph[i].p_type != PT_GNU_EH_FRAME || !elf_read(f, f->ph[i].p_offset, head, 8) || head[1] != 0x1b)
			continue;
		memcpy(&rel, head + 4, 4);
		w->eh_vaddr = f->ph[i].p_vaddr + 4 + (uint64_t)(int64_t)rel;
		if (!elf_vaddr_offset(f, w->eh_vaddr, &w->eh_offset, &len))
			continue;
		w->eh_len = len;
		return len <= EH_BYTES_MAX;
	}
	return false;
}

/* The rows of these FDEs. */
static int walk_all(struct walk *w, const struct fde_at *v, size_t n)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE };
	int ret = 0;

	for (size_t i = 0; i < n && !ret; i++)
		ret = walk_fde(w, v[i].offset);
	if (!ret && w->any)
		ret = emit(w, w->end, &none);
	return ret ? ret : flush(w);
}

static void release(struct walk *w)
{
	free(w->fdes.bytes);
	free(w->cies.bytes);
}

int eh_frame_each(const struct elf_file *f, eh_row_fn *fn, void *arg, struct eh_stats *st, struct err *e)
{
	struct fde_list list = { 0 };
	struct walk w;

	memset(st, 0, sizeof *st);
	if (!find_eh_frame(f, &w))
		return err_set(e, ERR_NOT_FOUND, "no .eh_frame");
	w.fn = fn;
	w.arg = arg;
	w.st = st;
	need(&w, &w.fdes, 0, w.eh_len); /* all of it will be read, not always in order */
	if (!from_header(&w, &list))
		collect(&w, &list);
	int ret = walk_all(&w, list.l.v, list.l.n);
	release(&w);
	vec_free(&list.l);
	return ret;
}

bool eh_frame_indexed(const struct elf_file *f)
{
	struct header h;
	struct walk w;

	return find_eh_frame(f, &w) && read_header(f, &h);
}

/* The table's last entry at or below pc; 0 if all are above. */
static bool entry_below(const struct walk *w, const struct header *h, uint64_t pc, uint32_t *ret)
{
	uint32_t lo = 0, hi = h->n;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;
		struct fde_at at;
		if (!read_entries(w, h, mid, 1, &at))
			return false;
		if (at.pc <= pc)
			lo = mid;
		else
			hi = mid;
	}
	*ret = lo;
	return true;
}

int eh_frame_range(const struct elf_file *f, uint64_t lo, uint64_t hi, eh_row_fn *fn, void *arg, struct eh_stats *st,
		   struct err *e)
{
	uint32_t first, last;
	struct header h;
	struct walk w;

	memset(st, 0, sizeof *st);
	if (!find_eh_frame(f, &w) || !read_header(f, &h))
		return err_set(e, ERR_NOT_FOUND, "no .eh_frame_hdr");
	if (!entry_below(&w, &h, lo, &first) || !entry_below(&w, &h, hi, &last))
		return err_set(e, ERR_BAD_DATA, "the table of .eh_frame_hdr cannot be read");
	/* One more on each side: functions may touch, and what lies between them is told by both. */
	first -= first > 0;
	last += last + 1 < h.n;
	if (last < first)
		return err_set(e, ERR_BAD_DATA, "the table of .eh_frame_hdr is out of order");
	uint32_t n = last - first + 1;
	AUTOFREE struct fde_at *v = xreallocarray(NULL, n, sizeof *v);
	if (!read_entries(&w, &h, first, n, v))
		return err_set(e, ERR_BAD_DATA, "the table of .eh_frame_hdr is out of order");
	w.fn = fn;
	w.arg = arg;
	w.st = st;
	int ret = walk_all(&w, v, n);
	release(&w);
	return ret;
}
