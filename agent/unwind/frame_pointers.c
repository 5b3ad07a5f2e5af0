/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/unwind/frame_pointers.h"

#include <string.h>

#include "unwind/x86_insn.h"

#define WINDOWS 64
#define WINDOW_BYTES 4096
#define CALLS_PER_WINDOW 16
#define FUNCTION_BYTES 64            /* of its beginning; what does not touch the stack there tells nothing */
#define FUNCTIONS_MIN 100
#define KEPT_PERCENT 95

#if defined(__x86_64__)

/* Bytes of executable code in all, and the n-th of them as a virtual address. */
static uint64_t code_bytes(const struct elf_file *f)
{
	uint64_t n = 0;

	for (size_t i = 0; i < f->n_ph; i++)
		if (f->ph[i].p_type == PT_LOAD && f->ph[i].p_flags & PF_X && n + f->ph[i].p_filesz > n)
			n += f->ph[i].p_filesz;
	return n;
}

static uint64_t code_at(const struct elf_file *f, uint64_t n)
{
	for (size_t i = 0; i < f->n_ph; i++) {
		if (f->ph[i].p_type != PT_LOAD || !(f->ph[i].p_flags & PF_X))
			continue;
		if (n < f->ph[i].p_filesz)
			return f->ph[i].p_vaddr + n;
		n -= f->ph[i].p_filesz;
	}
	return 0;
}

static bool is_code(const struct elf_file *f, uint64_t vaddr)
{
	for (size_t i = 0; i < f->n_ph; i++)
		if (f->ph[i].p_type == PT_LOAD && f->ph[i].p_flags & PF_X && vaddr - f->ph[i].p_vaddr < f->ph[i].p_filesz)
			return true;
	return false;
}

static bool read_at(const struct elf_file *f, uint64_t vaddr, void *to, size_t n)
{
	uint64_t offset, len;
	return elf_vaddr_offset(f, vaddr, &offset, &len) && len >= n && elf_read(f, offset, to, n);
}

/* 1: the function at `to` sets up rbp before it uses the stack; -1: it uses the stack otherwise; 0: neither is seen. */
static int function_keeps(const struct elf_file *f, uint64_t to)
{
	static const uint8_t mov_rbp_rsp[] = { 0x48, 0x89, 0xe5 };
	uint8_t c[FUNCTION_BYTES];
	struct x86_insn x;

	if (!is_code(f, to) || !read_at(f, to, c, sizeof c))
		return 0;
	for (size_t at = 0; at < sizeof c && x86_insn(c + at, sizeof c - at, &x); at += x.len) {
		size_t end = at + x.len;
		if (x.kind == X86_PUSH && x.fp)
			return end + sizeof mov_rbp_rsp > sizeof c ? 0 : memcmp(c + end, mov_rbp_rsp, sizeof mov_rbp_rsp) == 0 ? 1 : -1;
		if (x.kind == X86_PUSH || x.kind == X86_CALL || (x.kind == X86_ADD_SP && x.value < 0))
			return -1;
		if (x.kind == X86_JUMP || x.kind == X86_RETURN || x.kind == X86_STOP)
			return 0;
	}
	return 0;
}

bool frame_pointers_kept(const struct elf_file *f)
{
	uint64_t all = code_bytes(f), windows = MIN(all / WINDOW_BYTES, (uint64_t)WINDOWS), kept = 0, others = 0;

	if (f->eh.e_machine != EM_X86_64)
		return false;
	for (uint64_t i = 0; i < windows; i++) {
		uint64_t at = code_at(f, all / windows * i);
		uint8_t c[WINDOW_BYTES];
		struct x86_insn x;
		if (!read_at(f, at, c, sizeof c))
			continue;
		/* Decoding begins anywhere; after a few instructions it is in step with the code. */
		for (uint32_t n = 0, calls = 0; n < sizeof c && calls < CALLS_PER_WINDOW; n += x.len) {
			if (!x86_insn(c + n, sizeof c - n, &x)) {
				x.len = 1;
				continue;
			}
			if (x.kind != X86_CALL || !x.direct)
				continue;
			int keeps = function_keeps(f, at + n + x.len + (uint64_t)(int64_t)x.value);
			kept += keeps > 0;
			others += keeps < 0;
			calls++;
		}
	}
	return kept + others >= FUNCTIONS_MIN && kept * 100 >= (kept + others) * KEPT_PERCENT;
}

#else

bool frame_pointers_kept(const struct elf_file *f)
{
	return false;
}

#endif
