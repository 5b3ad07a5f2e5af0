/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the code from where functions begin: what symbols and direct calls lead to. The rest (functions that only pointers lead to,
 * the cases of a switch) is followed from its first instruction on, with a depth relative to it; a return, or known code that it
 * joins, gives the absolute depth. Each such beginning is a root; what was reached first from one is its.
 *
 *	depth    bytes between rsp and the frame (CFA, rsp before the call): 8 where a function begins and where it returns
 *	fp       where the caller's rbp is: still in rbp, at CFA - fp, or not known
 *	frame    rbp is CFA - frame
 *
 * All three are counted from the root's base. After a call that may never come back there may be something else altogether: what
 * follows is a root of its own. Calls that do return are those through pointers, to the kernel, and of functions with a path to a
 * return. The latter are found first, assuming that all calls return. */
#include "agent/unwind/code_frame.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "unwind/rule_rows.h"
#include "unwind/x86_insn.h"

#if defined(__x86_64__)

#define SLICE ((uint64_t)512 << 10)
#define AROUND ((uint64_t)128 << 10)  /* of it are looked at, too */
#define SYMBOL_BYTES_MAX ((uint64_t)16 << 20)
#define SYMBOLS_FROM 1024            /* bytes of code: it is not worth their while for less */
#define LINKS_MAX 100000u
#define DEPTH_MAX (1 << 24)
#define BYTE_WORK 16

enum { LOST = INT32_MAX, NEVER = INT32_MIN };                               /* depth */
enum { FP_STILL = INT32_MAX, FP_GONE = INT32_MAX - 1, FP_AS_AT_ROOT = INT32_MAX - 2, FP_OUTERMOST = INT32_MAX - 3, FP_SLOTS = INT32_MAX - 16 };
enum { NO_FRAME = INT32_MAX };

struct state {
	int32_t depth, fp, frame;
};

struct code_point {
	struct state s;
	uint32_t root;
};

struct root {
	bool entry;                  /* a function begins there */
	bool solved, bad, outermost;
	bool returns;                /* there is a way to a return */
	bool goes_on;                /* after FP_OUTERMOST: then it was not that */
	int32_t base, fp;            /* fp: what FP_AS_AT_ROOT is */
	bool fp_known;
};

/* From an instruction of `root` to one of another. */
struct link {
	uint32_t root, to;
	int32_t depth, fp;
};

struct code {
	uint64_t at;                 /* of the first byte */
	uint32_t n;
	uint8_t *bytes;
	struct code_point *points;   /* by byte */
	uint8_t *marks;              /* by byte: length of the instruction, and MARK_... */
	bool all_come_back;          /* calls; as long as it is not known which ones do */
	bool is_plt;                 /* a section of stubs: what is in no stub, padding and jumps to the first one, goes on with the rule before it */
	VEC(struct root) roots;
	VEC(struct link) links;
	VEC(uint32_t) work;
};
enum { MARK_LEN = 15, MARK_ENTRY = 16, MARK_RETURNS = 32, MARK_PADDING = 64 };

static bool is_slot(int32_t fp)
{
	return fp < FP_SLOTS;
}

static bool insn_at(const struct code *c, uint32_t at, struct x86_insn *ret)
{
	return at < c->n && x86_insn(c->bytes + at, c->n - at, ret);
}

/* --- what an instruction does --- */

static void lose_sp(struct state *s)
{
	s->depth = LOST;
}

static void move_sp(struct state *s, int64_t by)
{
	int64_t depth = s->depth - by;

	if (s->depth == LOST)
		return;
	s->depth = depth > DEPTH_MAX || depth < -DEPTH_MAX ? LOST : (int32_t)depth;
	if (by > 0 && is_slot(s->fp) && s->depth != LOST && s->depth < s->fp)
		s->fp = FP_GONE;
}

static void clobber_fp(struct state *s)
{
	s->frame = NO_FRAME;
	if (s->fp == FP_STILL || s->fp == FP_AS_AT_ROOT)
		s->fp = FP_GONE;
}

static void pop_fp(struct state *s, struct root *r)
{
	s->frame = NO_FRAME;
	if (s->depth == LOST) {
		s->fp = FP_GONE;
	} else if (s->fp == FP_AS_AT_ROOT) {
		if (r->fp_known && r->fp != s->depth)
			r->fp = FP_GONE;
		else if (!r->fp_known)
			r->fp = s->depth;
		r->fp_known = true;
		s->fp = FP_STILL;
	} else if (is_slot(s->fp) && s->fp == s->depth) {
		s->fp = FP_STILL;
	} else if (!is_slot(s->fp)) {
		s->fp = FP_GONE;
	}
}

static void leave(struct state *s)
{
	if (s->frame == NO_FRAME) {
		lose_sp(s);
		s->fp = FP_GONE;
		return;
	}
	s->depth = s->frame - 8;
	s->fp = is_slot(s->fp) && s->fp == s->frame ? FP_STILL : FP_GONE;
	s->frame = NO_FRAME;
}

static void push(struct state *s, bool fp)
{
	move_sp(s, -8);
	if (fp && s->fp == FP_STILL && s->depth != LOST)
		s->fp = s->depth;
	else if (fp && s->fp == FP_AS_AT_ROOT)
		s->fp = FP_GONE;
}

static void step(struct state *s, const struct x86_insn *x, struct root *r)
{
	switch ((enum x86_kind)x->kind) {
	case X86_PUSH:
		push(s, x->fp);
		break;
	case X86_POP:
		if (x->fp)
			pop_fp(s, r);
		move_sp(s, 8);
		break;
	case X86_ADD_SP:
		move_sp(s, x->value);
		break;
	case X86_SP_FROM_FP:
		s->depth = s->frame == NO_FRAME ? LOST : s->frame - x->value;
		break;
	case X86_FP_FROM_SP:
		clobber_fp(s);
		s->frame = s->depth == LOST ? NO_FRAME : s->depth - x->value;
		break;
	case X86_SAVE_FP:
		if (s->fp == FP_STILL && s->depth != LOST)
			s->fp = s->depth - x->value;
		else if (s->fp == FP_AS_AT_ROOT)
			s->fp = FP_GONE;
		break;
	case X86_LOAD_FP:
		if (is_slot(s->fp) && s->depth != LOST && s->fp == s->depth - x->value)
			s->fp = FP_STILL;
		else
			clobber_fp(s);
		s->frame = NO_FRAME;
		break;
	case X86_ZERO_FP: /* threads begin so; whoever is called has to save it first */
		if (r->entry && s->depth == 8 && s->fp == FP_STILL)
			s->fp = FP_OUTERMOST;
		else
			clobber_fp(s);
		s->frame = NO_FRAME;
		break;
	case X86_LEAVE:
		leave(s);
		break;
	default:
		break;
	}
	if (x->writes_sp)
		lose_sp(s);
	if (x->writes_fp)
		clobber_fp(s);
}

/* --- following the code --- */

/* The merged state where two paths meet. True: *s changed. */
static bool meet(struct state *s, const struct state *other)
{
	struct state was = *s;

	if (s->depth != other->depth)
		s->depth = LOST;
	if (s->fp != other->fp)
		s->fp = FP_GONE;
	if (s->frame != other->frame)
		s->frame = NO_FRAME;
	return memcmp(&was, s, sizeof was) != 0;
}

static void flow(struct code *c, uint32_t root, const struct state *s, uint64_t to, bool falls)
{
	if (to >= c->n || (falls && c->marks[to] & MARK_ENTRY))
		return;
	struct code_point *p = &c->points[to];
	if (p->s.depth == NEVER) {
		*p = (struct code_point){ *s, root };
	} else if (p->root != root) {
		if (c->links.n < LINKS_MAX)
			vec_push(&c->links, (struct link){ root, (uint32_t)to, s->depth, s->fp });
		return;
	} else if (!meet(&p->s, s)) {
		return;
	}
	vec_push(&c->work, (uint32_t)to);
}

static void returns(struct root *r, const struct state *s)
{
	r->returns = true;
	r->goes_on |= s->fp == FP_OUTERMOST;
	if (s->depth == LOST)
		return;
	if (!r->solved) {
		r->solved = true;
		r->base = 8 - s->depth;
	} else if (r->base + s->depth != 8) {
		r->bad = true;
	}
	if (s->fp == FP_AS_AT_ROOT) {
		r->fp = r->fp_known && r->fp != FP_STILL ? FP_GONE : FP_STILL;
		r->fp_known = true;
	}
}

/* Whether what stands behind a call that ends there belongs to what stands before it. */
static bool comes_back(const struct code *c, uint32_t end, const struct x86_insn *x)
{
	uint64_t to = (uint64_t)((int64_t)end + x->value);

	if (x->direct && to < c->n && c->marks[to] & MARK_RETURNS)
		return true;
	if (end < c->n && c->marks[end] & MARK_PADDING)
		return false;
	return c->all_come_back || !x->direct;
}

static void follow(struct code *c, uint32_t at)
{
	uint32_t root = c->points[at].root;
	struct state s = c->points[at].s;
	struct x86_insn x, next;

	if (!insn_at(c, at, &x))
		return;
	uint32_t end = at + x.len;
	/* A return to what was just pushed tells nothing of where the frame is (the code built into node takes its arguments with it). */
	if (x.kind == X86_PUSH && insn_at(c, end, &next) && next.kind == X86_RETURN) {
		c->roots.v[root].bad |= !c->roots.v[root].entry;
		return;
	}
	if (x.kind == X86_RETURN) {
		returns(&c->roots.v[root], &s);
		return;
	}
	step(&s, &x, &c->roots.v[root]);
	if ((x.kind == X86_JUMP || x.kind == X86_BRANCH) && x.direct)
		flow(c, root, &s, (uint64_t)((int64_t)end + x.value), false);
	if (x.kind == X86_JUMP || x.kind == X86_STOP) { /* a switch has what is pushed below it still to come back from */
		c->roots.v[root].returns |= x.kind == X86_JUMP && s.depth != LOST && (x.direct ? s.depth + c->roots.v[root].base == 8 : s.depth + c->roots.v[root].base != 8);
		return;
	}
	if (x.kind == X86_CALL && !comes_back(c, end, &x))
		return;
	flow(c, root, &s, end, true);
}

static void follow_root(struct code *c, uint32_t at, struct root r)
{
	struct state s = { r.entry ? 8 : 0, r.outermost ? FP_OUTERMOST : r.entry ? FP_STILL : FP_AS_AT_ROOT, NO_FRAME };

	if (c->points[at].s.depth != NEVER)
		return;
	c->points[at] = (struct code_point){ s, (uint32_t)c->roots.n };
	vec_push(&c->roots, r);
	vec_push(&c->work, at);
	while (c->work.n)
		follow(c, c->work.v[--c->work.n]);
}

/* Whether a function may begin there. */
static bool looks_like_entry(const struct code *c, uint64_t at)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	struct x86_insn x;

	if (at >= c->n || !insn_at(c, (uint32_t)at, &x))
		return false;
	return x.kind == X86_PUSH || x.kind == X86_JUMP || (x.kind == X86_ADD_SP && x.value < 0) || (x.len == 4 && memcmp(c->bytes + at, endbr64, 4) == 0);
}

/* Finds instructions, read from the first on, and the targets of direct calls and of addresses taken. */
static void mark_instructions(struct code *c)
{
	struct x86_insn x;

	for (uint32_t at = 0; at < c->n; at += x.len) {
		if (!insn_at(c, at, &x)) {
			x.len = 1;
			continue;
		}
		c->marks[at] = (uint8_t)((c->marks[at] & ~MARK_LEN) | x.len | (x.kind == X86_NOP || x.kind == X86_STOP ? MARK_PADDING : 0));
		uint64_t to = (uint64_t)((int64_t)at + x.len + x.value);
		if ((x.kind == X86_CALL && x.direct && to < c->n && to != at + x.len) || (x.kind == X86_ADDRESS && looks_like_entry(c, to)))
			c->marks[to] |= MARK_ENTRY;
	}
}

/* Bytes there are not instructions, unless a path leads to them: 1. */
static uint32_t length(const struct code *c, uint32_t at)
{
	struct x86_insn x;

	if (c->marks[at] & MARK_LEN)
		return c->marks[at] & MARK_LEN;
	return c->points[at].s.depth != NEVER && insn_at(c, at, &x) ? x.len : 1;
}

static void mark_symbols(struct code *c, const struct elf_file *f)
{
	const Elf64_Shdr *sec = elf_section(f, ".symtab");
	if (!sec)
		sec = elf_section(f, ".dynsym");
	if (!sec || c->n < SYMBOLS_FROM)
		return;
	AUTOFREE uint8_t *bytes = elf_section_bytes(f, sec, SYMBOL_BYTES_MAX);
	for (uint64_t at = 0; bytes && at + sizeof(Elf64_Sym) <= sec->sh_size; at += sizeof(Elf64_Sym)) {
		Elf64_Sym s;
		memcpy(&s, bytes + at, sizeof s);
		if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_shndx != SHN_UNDEF && s.st_value - c->at < c->n)
			c->marks[s.st_value - c->at] |= MARK_ENTRY;
	}
}

static void forget(struct code *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		c->points[i] = (struct code_point){ .s = { .depth = NEVER } };
	c->roots.n = c->links.n = 0;
}

static void follow_entries(struct code *c, uint64_t program_entry)
{
	if (program_entry - c->at < c->n)
		follow_root(c, (uint32_t)(program_entry - c->at), (struct root){ .entry = true, .solved = true, .outermost = true });
	for (uint32_t at = 0; at < c->n; at++)
		if (c->marks[at] & MARK_ENTRY && c->marks[at] & MARK_LEN)
			follow_root(c, at, (struct root){ .entry = true, .solved = true });
}

static void find_returning(struct code *c, uint64_t program_entry)
{
	c->all_come_back = true;
	for (int turn = 0; turn < 2; turn++) { /* padding is not passed but after a call that is known to come back */
		forget(c);
		follow_entries(c, program_entry);
		for (uint32_t at = 0; at < c->n; at++)
			if (c->marks[at] & MARK_ENTRY && c->points[at].s.depth != NEVER && c->roots.v[c->points[at].root].returns)
				c->marks[at] |= MARK_RETURNS;
	}
	c->all_come_back = false;
}

/* Known function starts first, then the rest. */
static void follow_all(struct code *c, uint64_t program_entry)
{
	find_returning(c, program_entry);
	forget(c);
	follow_entries(c, program_entry);
	for (uint32_t at = 0; at < c->n; at += length(c, at))
		if (c->marks[at] & MARK_LEN && !(c->marks[at] & MARK_PADDING))
			follow_root(c, at, (struct root){ .fp = FP_GONE });
}

/* --- what follows from all of it --- */

static int32_t resolve_fp(const struct code *c, const struct code_point *p)
{
	const struct root *r = &c->roots.v[p->root];
	int32_t fp = p->s.fp == FP_AS_AT_ROOT ? r->fp_known ? r->fp : FP_GONE : p->s.fp;

	return is_slot(fp) ? fp + r->base : fp;
}

static void join(struct root *from, const struct link *l, const struct code *c, bool *changed)
{
	const struct code_point *p = &c->points[l->to];
	struct root *to = &c->roots.v[p->root];

	if (l->depth == LOST || p->s.depth == LOST || from->bad || to->bad || (!from->solved && !to->solved))
		return;
	if (from->solved && to->solved) {
		if (from->base + l->depth != to->base + p->s.depth) {
			from->bad |= !from->entry || to->entry;
			to->bad |= !to->entry || from->entry;
			*changed = true;
		} else if (l->fp == FP_AS_AT_ROOT && !from->fp_known) {
			int32_t fp = resolve_fp(c, p);
			from->fp = is_slot(fp) ? fp - from->base : fp;
			from->fp_known = *changed = fp != FP_AS_AT_ROOT;
		}
		return;
	}
	if (from->solved)
		to->base = from->base + l->depth - p->s.depth;
	else
		from->base = to->base + p->s.depth - l->depth;
	from->solved = to->solved = *changed = true;
}

static void join_roots(struct code *c)
{
	bool changed = true;

	for (unsigned turn = 0; changed && turn < 16; turn++) {
		changed = false;
		for (size_t i = 0; i < c->links.n; i++)
			join(&c->roots.v[c->links.v[i].root], &c->links.v[i], c, &changed);
	}
}

static struct unwind_rule rule_at(const struct code *c, const struct code_point *p)
{
	const struct root *r = &c->roots.v[p->root];
	struct unwind_rule rule = { .cfa = CFA_NONE };
	int32_t fp = resolve_fp(c, p);

	if (fp == FP_OUTERMOST && !r->goes_on)
		return (struct unwind_rule){ .cfa = CFA_STOP };
	if (!r->solved || r->bad)
		return rule;
	if (p->s.depth != LOST && p->s.depth + r->base < 8) /* the return address is in a register */
		return (struct unwind_rule){ .cfa = CFA_UNSUPPORTED };
	if (p->s.depth != LOST)
		rule = (struct unwind_rule){ .cfa = CFA_SP, .cfa_off = p->s.depth + r->base };
	else if (p->s.frame != NO_FRAME)
		rule = (struct unwind_rule){ .cfa = CFA_FP, .cfa_off = p->s.frame + r->base };
	else
		return rule;
	rule.fp = is_slot(fp) ? FP_AT_CFA : fp == FP_STILL ? FP_SAME : FP_UNKNOWN;
	rule.fp_off = is_slot(fp) ? -fp : 0;
	return rule;
}

/* mov $15 (rt_sigreturn), %eax or %rax; syscall: what a signal handler returns to. 0: it is not. */
static uint32_t signal_return(const struct code *c, uint32_t at)
{
	static const uint8_t eax[] = { 0xb8, 15, 0, 0, 0, 0x0f, 0x05 }, rax[] = { 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 };

	if (c->n - at >= sizeof eax && memcmp(c->bytes + at, eax, sizeof eax) == 0)
		return sizeof eax;
	return c->n - at >= sizeof rax && memcmp(c->bytes + at, rax, sizeof rax) == 0 ? sizeof rax : 0;
}

/* musl's vfork: pop %rdx; mov $58, %eax; syscall; push %rdx. The child returns on the same stack, so the address is not left there. */
static const uint8_t vfork_code[] = { 0x5a, 0xb8, 58, 0, 0, 0, 0x0f, 0x05, 0x52 };

static bool is_vfork(const struct code *c, uint32_t at)
{
	return c->n - at >= sizeof vfork_code && memcmp(c->bytes + at, vfork_code, sizeof vfork_code) == 0;
}

static int put_vfork(const struct code *c, uint32_t at, struct rule_rows *rows)
{
	int ret = rule_rows_put(rows, c->at + at, (struct unwind_rule){ .cfa = CFA_SP, .cfa_off = 8 });
	return ret ? ret : rule_rows_put(rows, c->at + at + 1, (struct unwind_rule){ .cfa = CFA_SP, .ra = RA_IN_RDX });
}

static int put_cfa_sp(const struct code *c, uint32_t at, int32_t off, struct rule_rows *rows)
{
	return rule_rows_put(rows, c->at + at, (struct unwind_rule){ .cfa = CFA_SP, .cfa_off = off });
}

/* The linker's stubs through which other files' functions are called, and in static programs those that are chosen at the start (memcpy). Linkers other
 * than GNU's describe no stubs, and GNU's not those of static programs. A stub jumps through a pointer; one that binds at the first call
 * also pushes a number and jumps to the section's first stub, which pushes a pointer. In *ret_len the length of the instructions whose rows it has put;
 * 0: they are no stub. */
static int put_stub(const struct code *c, uint32_t at, uint32_t end, struct rule_rows *rows, uint32_t *ret_len)
{
	static const uint8_t endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa }, jump[] = { 0xff, 0x25 }, first[] = { 0xff, 0x35 };
	enum { PUSH = 0x68, BND = 0xf2, MOST = sizeof endbr + 1 + 6 + 1 + 6 };
	uint8_t b[MOST] = { 0 };
	uint32_t n, pushed = 0;      /* the offset behind a push; 0 = there is none */
	int32_t depth = 8;

	*ret_len = 0;
	memcpy(b, c->bytes + at, MIN((uint32_t)MOST, end - at));
	if (memcmp(b, first, sizeof first) == 0) {
		depth = 16;
		pushed = 6;
		n = 6 + (b[6] == BND);
		n = memcmp(b + n, jump, sizeof jump) == 0 ? n + 6 : 6;
	} else {
		n = memcmp(b, endbr, sizeof endbr) == 0 ? sizeof endbr : 0;
		if (b[n] == PUSH)
			n = pushed = n + 5;
		else if (memcmp(b + n + (b[n] == BND), jump, sizeof jump) == 0)
			n += (b[n] == BND) + 6;
		else
			return 0;
	}
	if (n >= end - at && pushed) /* a row behind the end would be out of order */
		return 0;
	*ret_len = n;
	int ret = put_cfa_sp(c, at, depth, rows);
	return ret || !pushed ? ret : put_cfa_sp(c, at + pushed, depth + 8, rows);
}

static int put_rows(const struct code *c, uint32_t begin, uint32_t end, struct rule_rows *rows)
{
	uint32_t after = 0, n;       /* after: the last instruction that is not padding */
	int ret = 0;

	for (uint32_t at = begin; at < end && !ret; at += n) {
		n = signal_return(c, at);
		if (n) { /* nothing called it: a stack has the byte before, which must not be another instruction's */
			ret = rule_rows_put(rows, c->at + at - (at > after), (struct unwind_rule){ .cfa = CFA_SIGNAL });
			after = at + n;
			continue;
		}
		if (is_vfork(c, at)) {
			ret = put_vfork(c, at, rows);
			n = sizeof vfork_code;
			after = at + n;
			continue;
		}
		if (c->is_plt && (ret = put_stub(c, at, end, rows, &n)) == 0 && n) {
			after = at + n;
			continue;
		}
		n = length(c, at);
		if (ret || c->is_plt || c->points[at].s.depth == NEVER)
			continue;
		after = at + n;
		ret = rule_rows_put(rows, c->at + at, rule_at(c, &c->points[at]));
	}
	return ret;
}

/* Of [lo, hi) in a section. The surrounding code is read as well, because it calls the code within. */
static int read_slice(const struct elf_file *f, const Elf64_Shdr *s, uint64_t lo, uint64_t hi, struct rule_rows *rows, struct eh_stats *st)
{
	uint64_t from = MAX(s->sh_addr, lo > AROUND ? lo - AROUND : 0), to = MIN(s->sh_addr + s->sh_size, hi + AROUND);
	struct code c = { 0 };
	uint64_t offset, len;
	int ret = 0;

	c.at = from;
	c.n = (uint32_t)(to - from);
	c.is_plt = elf_section_starts(f, s, ".plt");
	if (!elf_vaddr_offset(f, from, &offset, &len) || len < c.n)
		return 0;
	c.bytes = xmalloc(c.n);
	c.marks = xcalloc(c.n, 1);
	c.points = xreallocarray(NULL, c.n, sizeof *c.points);
	st->work += (uint64_t)c.n * BYTE_WORK;
	if (elf_read(f, offset, c.bytes, c.n)) {
		mark_instructions(&c);
		mark_symbols(&c, f);
		follow_all(&c, f->eh.e_entry);
		join_roots(&c);
		if (c.links.n < LINKS_MAX)
			ret = put_rows(&c, (uint32_t)(lo - from), (uint32_t)(hi - from), rows);
	}
	free(c.bytes);
	free(c.marks);
	free(c.points);
	vec_free(&c.roots);
	vec_free(&c.links);
	vec_free(&c.work);
	return ret;
}

static bool is_code(const Elf64_Shdr *s)
{
	return s->sh_flags & SHF_EXECINSTR && s->sh_type == SHT_PROGBITS && s->sh_addr <= UINT64_MAX - s->sh_size;
}

/* The first section of code that ends above an address. */
static const Elf64_Shdr *code_above(const struct elf_file *f, uint64_t address)
{
	const Elf64_Shdr *best = NULL;

	for (size_t i = 0; i < f->n_sh; i++)
		if (is_code(&f->sh[i]) && f->sh[i].sh_addr + f->sh[i].sh_size > address && (!best || f->sh[i].sh_addr < best->sh_addr))
			best = &f->sh[i];
	return best;
}

int code_frame_range(const struct elf_file *f, uint64_t from, uint64_t to, uint64_t lo, uint64_t hi, eh_row_fn *fn, void *arg,
		     struct eh_stats *st)
{
	struct rule_rows rows = { .fn = fn, .arg = arg, .st = st };
	const Elf64_Shdr *s;
	int ret = 0;

	if (f->eh.e_machine != EM_X86_64)
		return 0;
	for (uint64_t at = MAX(from, lo), end = MIN(to, hi); at < end && !ret && (s = code_above(f, at));) {
		uint64_t s_end = s->sh_addr + s->sh_size, first = MAX(at, s->sh_addr), last = MIN(MIN(end, s_end), first + SLICE);
		if (first >= last)
			break;
		if (st->work > eh_frame_work_max(hi - lo))
			return -ERR_BAD_DATA;
		ret = read_slice(f, s, first, last, &rows, st);
		at = last;
	}
	return ret ? ret : rule_rows_end(&rows);
}

#else

int code_frame_range(const struct elf_file *f, uint64_t from, uint64_t to, uint64_t lo, uint64_t hi, eh_row_fn *fn, void *arg,
		     struct eh_stats *st)
{
	return 0;
}

#endif
