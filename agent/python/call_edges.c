/* SPDX-License-Identifier: Apache-2.0 */
/* What the function does to the thread state is two or three stores. (GCC and Clang alike; f and s stand for the registers that hold the frame
 * and the thread state.)
 *
 *	mov f, 24(s)                         the frame is the innermost one
 *	mov 24(f), r; …; mov r, 24(s)        its caller is again; then a call, the registers, ret; the last of it perhaps behind a jump
 *	mov r, 56(s); …                      3.11, 3.12: the C frame is the innermost one; what it says is written until the next branch */
#include "agent/python/call_edges.h"

#include "unwind/x86_insn.h"

#define BEGIN_INSNS 200u             /* the first store is among so many instructions */
#define BACK_INSNS 32u               /* from where the caller's frame is read to where it is written */
#define END_INSNS 64u                /* from there to the return */
#define RSP 4

/* mov between a register of 64 bits and memory at a register and an offset. */
struct move {
	bool store;
	uint8_t reg, base;
	int32_t off;
};

static bool move_at(const uint8_t *p, size_t n, struct move *ret)
{
	if (n < 4 || (p[0] & 0xf8) != 0x48 || (p[1] != 0x89 && p[1] != 0x8b) || p[2] >> 6 != 1)
		return false;
	const uint8_t *off = p + 3;
	uint8_t base = p[2] & 7;
	if (base == 4) {                     /* a SIB byte */
		if (n < 5 || (p[3] & 0x38) != 0x20 || p[0] & 2)
			return false;
		base = p[3] & 7;
		off++;
	}
	*ret = (struct move){ p[1] == 0x89, (uint8_t)((p[2] >> 3 & 7) | (p[0] & 4) << 1), (uint8_t)(base | (p[0] & 1) << 3), (int8_t)*off };
	return ret->base != RSP;
}

struct edges {
	const uint8_t *code;
	size_t n;
	uint64_t at;
	struct runtime_range *v;
	unsigned n_edges;
};

static bool add(struct edges *e, size_t from, size_t end)
{
	if (e->n_edges == PYTHON_EDGES_MAX)
		return false;
	e->v[e->n_edges++] = (struct runtime_range){ e->at + from, e->at + end };
	return true;
}

/* From i on to the return. False: it is not found. */
static bool add_end(struct edges *e, size_t i)
{
	size_t from = i;
	struct x86_insn x;

	for (unsigned k = 0; k < END_INSNS && i < e->n && x86_insn(e->code + i, e->n - i, &x); k++, i += x.len) {
		if (x.kind == X86_RETURN)
			return add(e, from, i + x.len);
		if (x.kind == X86_STOP || (x.kind == X86_JUMP && !x.direct))
			return false;
		if (x.kind != X86_JUMP)
			continue;
		int64_t to = (int64_t)(i + x.len) + x.value;
		if (!add(e, from, i + x.len))
			return false;
		if (to < 0 || to >= (int64_t)e->n) /* the last call, in place of a return */
			return true;
		from = (size_t)to;
		i = from - x.len;
	}
	return false;
}

/* Where the frame becomes the innermost one: the store's place in the code; n if there is none. */
static size_t find_link(const struct edges *e, uint8_t field, struct move *ret)
{
	struct x86_insn x;
	size_t i = 0;

	for (unsigned k = 0; k < BEGIN_INSNS && i < e->n && x86_insn(e->code + i, e->n - i, &x); k++, i += x.len)
		if (move_at(e->code + i, x.len, ret) && ret->store && ret->off == field)
			return i;
	return e->n;
}

/* The places where it is set back. */
static bool add_ends(struct edges *e, size_t i, uint8_t field, struct move link)
{
	size_t read[16] = { 0 };     /* where each register got the caller's frame, counted in instructions; 0 = never */
	struct x86_insn x;
	struct move m;
	unsigned found = 0;

	for (size_t k = BACK_INSNS + 1; i < e->n; k++, i += x.len) {
		if (!x86_insn(e->code + i, e->n - i, &x)) {
			x.len = 1;
			continue;
		}
		if (!move_at(e->code + i, x.len, &m) || m.off != field)
			continue;
		if (!m.store) {
			read[m.reg] = m.base == link.reg ? k : 0;
		} else if (m.base == link.base && read[m.reg] && k - read[m.reg] <= BACK_INSNS) {
			if (!add_end(e, i + x.len))
				return false;
			found++;
		}
	}
	return found;
}

unsigned call_edges_find(const uint8_t *code, size_t n, uint64_t at, unsigned minor, uint8_t field,
			 struct runtime_range ret[PYTHON_EDGES_MAX])
{
	struct edges e = { code, n, at, ret, 0 };
	struct x86_insn x;
	struct move link;
	size_t i = find_link(&e, field, &link);

	if (i == n)
		return 0;
	if (minor <= 10)
		return add(&e, 0, i + 1) && add_ends(&e, i + 1, field, link) ? e.n_edges : 0;
	for (; i < n && x86_insn(code + i, n - i, &x); i += x.len)
		if (x.kind == X86_BRANCH || x.kind == X86_JUMP || x.kind == X86_CALL)
			return add(&e, 0, i) ? e.n_edges : 0;
	return 0;
}
