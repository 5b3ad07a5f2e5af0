/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* One step from a frame to its caller, by the tables of abi.h. The BPF program and the agent (for stacks that the kernel could not
 * finish, and for tests) compile the same code. Only the access to tables and memory differs:
 *
 *	uw_recent(u)          the mapping that holds u->ip, if it is one of those met lately in this address space; else NULL
 *	uw_maps(u)            the array of struct unwind_map
 *	uw_met(u, m)          a mapping of that array was met
 *	uw_image(u, id)       a struct unwind_image, NULL if id is out of range
 *	uw_pages(u)           the array of pages
 *	uw_chunk(u, i)        the rows of a chunk, NULL if there is none
 *	uw_rule(u, i)         a struct unwind_rule, NULL if i is out of range
 *	uw_cache_get(u, vaddr, &code), uw_cache_put(u, vaddr, code)
 *	                      the rule in short that was found for the address in the image of the last mapping lately
 *	uw_read(u, to, n, at) bytes of the process's memory; 0 if all could be read
 *	uw_code(u, to)        UW_CODE bytes of the program's text from u->ip - 1 on; 0 if they are known
 *	uw_push(u, frame)     keeps a frame; false if there is no room
 *	uw_step_code(u, kind, frame)
 *	                      uw_step for code without a file; UW_NO_CODE: no runtime is known that has made it. Of a runtime that has
 *	                      made code of the file: its kind, and the native frame's word; both are 0 else
 *	uw_walk(u, kind, sp, vaddr, frame)
 *	                      keeps the frames of a language runtime that a native frame of its interpreter runs, and then that: the
 *	                      one at that address of its image, with its stack pointer and word, while u is at its caller already. What
 *	                      it returns is what uw_step comes to
 *
 *	UW_OPAQUE(v)          hides from the compiler what it knows of v
 *
 * They are defined before this file is included. Indices are masked after an opaque barrier because the compiler
 * otherwise removes bounds that the verifier wants to see. */
#ifndef PYRRHA_BPF_UNWIND_H
#define PYRRHA_BPF_UNWIND_H

#include "abi.h"

#define UW_MAP_STEPS 14      /* 2^14 mappings per process */
#define UW_ROW_STEPS 13      /* 2^12 rows and the first one, per page */

static __always_inline bool uw_holds(const struct unwind_map *m, __u64 ip)
{
	return ip - m->start < (__u64)m->n_pages << TEXT_PAGE_SHIFT;
}

/* The mapping of the array that holds u->ip; NULL if none does. */
static __always_inline const struct unwind_map *uw_search_maps(struct unwind *u)
{
	const struct unwind_map *maps = uw_maps(u);
	__u32 lo = u->first_map, hi = u->first_map + u->n_maps;
	__u64 i;

	if (!maps || !u->n_maps)
		return 0;
	for (int k = 0; k < UW_MAP_STEPS && hi - lo > 1; k++) {
		i = ((__u64)lo + hi) >> 1;
		UW_OPAQUE(i);
		i &= MAPS_MAX - 1;
		if (maps[i].start <= u->ip)
			lo = i;
		else
			hi = i;
	}
	i = lo;
	UW_OPAQUE(i);
	i &= MAPS_MAX - 1;
	return uw_holds(&maps[i], u->ip) ? &maps[i] : 0;
}

/* The mapping that holds u->ip, into u. */
static __always_inline int uw_find_map(struct unwind *u)
{
	const struct unwind_map *m = uw_recent(u);

	if (UW_RARELY(!m)) {
		m = uw_search_maps(u);
		if (!m)
			return END_NO_MAPPING;
		uw_met(u, m);
	}
	u->start = m->start;
	u->size = (__u64)m->n_pages << TEXT_PAGE_SHIFT;
	u->vaddr = m->vaddr;
	u->image = m->image;
	return 0;
}

/* The image of the last mapping; NULL if there is no such. */
static __always_inline const struct unwind_image *uw_image_here(struct unwind *u)
{
	__u64 id = u->image;

	UW_OPAQUE(id);
	return uw_image(u, id);
}

/* A rule in short. */
static __always_inline __u32 uw_shorten(const struct unwind_rule *r, __u32 id)
{
	__u32 cfa = (__u32)r->cfa_off / 8, fp = -(__u32)r->fp_off / 8;

	if (r->cfa == CFA_STOP && !r->runtime)
		return SHORT_STOP;
	if ((r->cfa != CFA_SP && r->cfa != CFA_FP) || r->ra != RA_CFA_8 || r->runtime || r->cfa_off & 7 || !cfa || cfa > SHORT_CFA_MAX)
		return id;
	if (r->fp == FP_SAME)
		fp = 0;
	else if (r->fp != FP_AT_CFA || r->fp_off & 7 || !fp || fp > SHORT_FP_MAX)
		return id;
	return SHORT_IS_RULE | (r->cfa == CFA_FP ? SHORT_CFA_FP : 0) | fp << SHORT_FP_SHIFT | cfa;
}

/* The packed rule for an ELF virtual address of the last mapping's image; 0 (CFA_NONE): there is none. Nonzero: it is not loaded. */
static __always_inline int uw_find_rule(struct unwind *u, __u64 vaddr, __u32 *ret)
{
	const struct unwind_rule *r;
	const volatile __u64 *pages = uw_pages(u);
	const __u32 *rows;
	const struct unwind_image *im = uw_image_here(u);
	__u64 page, i;
	__u32 row, n, lo, hi, pc = vaddr & ((1 << TEXT_PAGE_SHIFT) - 1);

	*ret = 0;
	if (!im || !(im->flags & UNWIND_IMAGE_LOADED))
		return END_NO_TABLE;
	page = (vaddr >> TEXT_PAGE_SHIFT) - im->first_page;
	if (!pages || page >= im->n_pages)
		return 0;
	i = im->pages + page;
	UW_OPAQUE(i);
	i &= PAGES_MAX - 1;
	i = pages[i];
	if (i == PAGE_UNLOADED)
		return END_NO_TABLE;
	row = PAGE_ROW(i);
	n = PAGE_ROWS(i);
	if (!n)
		return 0;
	rows = uw_chunk(u, row >> 16);
	if (!rows)
		return 0;
	lo = row & (CHUNK_ROWS - 1);
	hi = lo + n;
	for (int k = 0; k < UW_ROW_STEPS && hi - lo > 1; k++) {
		i = ((__u64)lo + hi) >> 1;
		UW_OPAQUE(i);
		i &= CHUNK_ROWS - 1;
		if (rows[i] >> ROW_PC_SHIFT <= pc)
			lo = i;
		else
			hi = i;
	}
	i = lo;
	UW_OPAQUE(i);
	i &= CHUNK_ROWS - 1;
	i = rows[i] & ROW_RULE_MASK;
	if (UW_RARELY(i == RULE_UNREAD))
		return END_NO_TABLE;
	r = uw_rule(u, i);
	if (!r)
		return 0;
	*ret = uw_shorten(r, i);
	uw_cache_put(u, vaddr, *ret);
	return 0;
}

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#include "unwind_x86_64.h"
#else
#error "no unwinder for this architecture yet"
#endif

/* uw_step for code that no runtime is known to have made. frame: its word; 0 = code without a file. */
static __always_inline int uw_step_unknown(struct unwind *u, __u64 frame)
{
	if (UW_RARELY(!uw_push(u, frame ? frame : (u->ip - u->start + u->vaddr) & FRAME_ADDR_MASK)))
		return END_DEPTH;
	return uw_by_frame_pointer(u);
}

/* Appends the current frame of u and moves to its caller. UW_STEP_ON, or the enum stack_end that says why not. */
static __always_inline int uw_step(struct unwind *u)
{
	const struct unwind_rule *r;
	__u32 code = 0;
	__u64 vaddr, frame, sp;
	int err;

	if (UW_RARELY(u->ip - u->start >= u->size)) {
		u->size = 0;
		err = uw_find_map(u);
		if (err) {
			if (!u->quiet)
				return err;
			uw_push(u, u->ip & FRAME_ADDR_MASK);
			return END_UNMAPPED;
		}
	}
	if (UW_RARELY(u->image == IMAGE_JIT)) {
		err = uw_step_code(u, RUNTIME_NONE, 0);
		return err == UW_NO_CODE ? uw_step_unknown(u, 0) : err;
	}
	vaddr = u->ip - u->start + u->vaddr;
	if (UW_RARELY(!uw_cache_get(u, vaddr, &code)) && uw_find_rule(u, vaddr, &code))
		return END_NO_TABLE;
	frame = (__u64)u->image << FRAME_IMAGE_SHIFT | (vaddr & FRAME_ADDR_MASK);
	r = code && !(code & SHORT_IS_RULE) ? uw_rule(u, code) : 0;
	if (UW_RARELY(r && r->cfa == CFA_NONE && r->runtime)) {
		err = uw_step_code(u, r->runtime, frame);
		return err == UW_NO_CODE ? uw_step_unknown(u, frame) : err;
	}
	if (UW_RARELY(!uw_push(u, frame)))
		return END_DEPTH;
	if (UW_LIKELY(code & SHORT_IS_RULE))
		return uw_by_short(u, code);
	if (!r || r->cfa == CFA_NONE)
		return uw_by_frame_pointer(u);
	sp = u->sp;
	err = uw_by_rule(u, r);
	if (UW_LIKELY(!r->runtime) || err != UW_STEP_ON)
		return err;
	/* The frames that the interpreter runs come before its own. */
	u->n--;
	u->words--;
	return uw_walk(u, r->runtime, sp, vaddr, frame);
}

#endif
