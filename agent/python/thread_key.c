/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions are read from the first to the last, and what they put into registers is followed as far as it is an address. The
 * function is short, has no loop, and hands over the key or its address in rdi, or reads the thread's own memory:
 *
 *	mov _PyRuntime@GOT(%rip), %rax; lea 0x250(%rax), %rdi; jmp PyThread_tss_get    the address of a struct of two ints, key second
 *	mov key(%rip), %edi; jmp pthread_getspecific                                   the key itself
 *	mov %fs:-40, %rax; ret                                                         3.15 */
#include "agent/python/thread_key.h"

#include "unwind/x86_insn.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, REGISTERS = 16 };

struct reg_value {
	enum { VALUE_UNKNOWN, VALUE_ADDRESS, VALUE_LOADED } is; /* LOADED: the 32 bits at v */
	uint64_t v;
};

struct key_search {
	struct reg_value r[REGISTERS];
	struct runtime_range runtime;
};

/* What an instruction that x86_insn knows does to registers, if it is one of the few kinds that carry addresses. */
struct operands {
	uint8_t op, rex, mod, reg, rm;
	const uint8_t *rest;         /* behind the ModRM byte, or behind the opcode of one that has none */
	size_t n;
};

static int32_t int32_at(const uint8_t *p)
{
	int32_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

static bool split(const uint8_t *p, size_t n, struct operands *ret)
{
	while (n && (*p == 0x66 || *p == 0xf2 || *p == 0xf3 || *p == 0x2e || *p == 0x3e))
		p++, n--;
	ret->rex = n && (*p & 0xf0) == 0x40 ? *p : 0;
	if (ret->rex)
		p++, n--;
	if (n < 2)
		return false;
	ret->op = p[0];
	ret->mod = p[1] >> 6;
	ret->reg = (uint8_t)((p[1] >> 3 & 7) | (ret->rex & 4) << 1);
	ret->rm = (uint8_t)((p[1] & 7) | (ret->rex & 1) << 3);
	ret->rest = p + 2;
	ret->n = n - 2;
	return true;
}

/* The address that the instruction's memory operand has. */
static bool address_of(const struct key_search *k, const struct operands *o, uint64_t next, uint64_t *ret)
{
	if (o->mod == 3 || (o->rm & 7) == 4)
		return false;
	if (o->mod == 0 && (o->rm & 7) == 5) {
		*ret = next + (uint64_t)(int64_t)(o->n >= 4 ? int32_at(o->rest) : 0);
		return o->n >= 4;
	}
	if (k->r[o->rm].is != VALUE_ADDRESS || o->n < (o->mod == 1 ? 1u : o->mod == 2 ? 4u : 0u))
		return false;
	int64_t off = o->mod == 1 ? (int8_t)o->rest[0] : o->mod == 2 ? int32_at(o->rest) : 0;
	*ret = k->r[o->rm].v + (uint64_t)off;
	return true;
}

static bool in_range(struct runtime_range r, uint64_t at)
{
	return at >= r.start && at < r.end;
}

static struct reg_value loaded(const struct key_search *k, bool wide, uint64_t at)
{
	if (!wide)
		return (struct reg_value){ VALUE_LOADED, at };
	/* A pointer outside of _PyRuntime is its entry of the global offset table: the function uses nothing else. */
	return in_range(k->runtime, at) ? (struct reg_value){ VALUE_UNKNOWN, 0 } : (struct reg_value){ VALUE_ADDRESS, k->runtime.start };
}

static void move(struct key_search *k, const struct operands *o, uint64_t next)
{
	bool wide = o->rex & 8;
	uint64_t at;

	if (o->op == 0x8b) {                               /* mov r, r/m */
		if (o->mod == 3)
			k->r[o->reg] = k->r[o->rm];
		else
			k->r[o->reg] = address_of(k, o, next, &at) ? loaded(k, wide, at) : (struct reg_value){ VALUE_UNKNOWN, 0 };
	} else if (o->op == 0x89 && o->mod == 3) {         /* mov r, r */
		k->r[o->rm] = k->r[o->reg];
	} else if (o->op == 0x8d) {                        /* lea */
		bool known = address_of(k, o, next, &at);
		k->r[o->reg] = known ? (struct reg_value){ VALUE_ADDRESS, at } : (struct reg_value){ VALUE_UNKNOWN, 0 };
	} else if (o->op >= 0xb8 && o->op <= 0xbf && !wide && o->n >= 3) { /* mov r, imm32: of a program at a fixed address */
		k->r[(o->op & 7) | (o->rex & 1) << 3] = (struct reg_value){ VALUE_ADDRESS, (uint32_t)int32_at(o->rest - 1) };
	} else if (o->op == 0xc7 && o->mod == 3 && o->n >= 4) {
		k->r[o->rm] = (struct reg_value){ VALUE_ADDRESS, (uint64_t)(int64_t)int32_at(o->rest) };
	} else if ((o->op == 0x81 || o->op == 0x83) && o->mod == 3 && (o->reg & 7) == 0 && o->n >= (o->op == 0x81 ? 4u : 1u)) { /* add */
		k->r[o->rm].v += (uint64_t)(int64_t)(o->op == 0x81 ? int32_at(o->rest) : (int8_t)o->rest[0]);
	} else if (o->op == 0x05 && o->n >= 3) {           /* add rax, imm32 */
		k->r[RAX].v += (uint64_t)(int64_t)int32_at(o->rest - 1);
	}
}

/* Whether rdi leads to the key. */
static bool found(const struct key_search *k, uint64_t *ret)
{
	struct reg_value v = k->r[RDI];
	bool own = k->runtime.end <= k->runtime.start;

	if (v.is == VALUE_UNKNOWN || (!own && !in_range(k->runtime, v.v)))
		return false;
	*ret = v.is == VALUE_ADDRESS && v.v % 8 == 0 ? v.v + 4 : v.v;
	return v.is == VALUE_LOADED || !own;
}

static void after_call(struct key_search *k)
{
	for (unsigned i = 0; i < 12; i++)
		if (i != RBX && i != RSP && i != RBP)
			k->r[i].is = VALUE_UNKNOWN;
}

bool thread_key_find(const uint8_t *code, size_t n, uint64_t at, struct runtime_range runtime, uint64_t *ret)
{
	struct key_search k = { .runtime = runtime };
	struct operands o;
	struct x86_insn x;

	for (size_t i = 0; i < n && x86_insn(code + i, n - i, &x); i += x.len) {
		uint64_t next = at + i + x.len;
		bool leaves = x.kind == X86_CALL || x.kind == X86_JUMP;
		if (x.kind == X86_JUMP && x.direct) {
			int64_t to = (int64_t)(i + x.len) + x.value;
			leaves = to < 0 || to >= (int64_t)n;
		}
		if (leaves && found(&k, ret))
			return true;
		if (x.kind == X86_CALL)
			after_call(&k);
		else if (split(code + i, x.len, &o))
			move(&k, &o, next);
	}
	return false;
}

/* mov %fs:OFFSET, %rax; ret */
bool thread_tls_find(const uint8_t *code, size_t n, int64_t *ret)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa }, load[] = { 0x64, 0x48, 0x8b, 0x04, 0x25 };
	size_t at = n >= sizeof endbr64 && memcmp(code, endbr64, sizeof endbr64) == 0 ? sizeof endbr64 : 0;

	if (n < at + sizeof load + 5 || memcmp(code + at, load, sizeof load) != 0 || code[at + sizeof load + 4] != 0xc3)
		return false;
	*ret = int32_at(code + at + sizeof load);
	return true;
}
