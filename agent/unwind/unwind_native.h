/* SPDX-License-Identifier: Apache-2.0 */
/* The unwinder outside of the kernel: the same step (bpf/unwind.h) over the same tables, reading a copied piece of
 * stack. It finishes what the kernel deferred, and tests drive it. */
#ifndef PYRRHA_AGENT_UNWIND_NATIVE_H
#define PYRRHA_AGENT_UNWIND_NATIVE_H

#include "agent/unwind/unwind_tables.h"

struct native_unwind {
	struct unwind u;             /* ip, sp, fp, is_ra set by the caller; n, words = frames already there */
	struct unwind_tables *tables;
	const struct unwind_map *maps; /* ascending */
	uint32_t n_maps;
	uint64_t stack_at;           /* of the first page */
	const uint8_t *stack[STACK_PAGES]; /* copied pages; NULL = not copied */
	const uint8_t *code;         /* UW_CODE bytes at the first ip - 1; NULL = not known */
	uint64_t words[MAX_USER_WORDS]; /* as in a record */
	uint64_t unfollowed_from, unfollowed_bytes; /* code that keeps no frame pointers and is told of by its process alone: END_NO_TABLE */
	bool unfollowed_v8;          /* the same of V8's code, which keeps frame pointers: its functions would be missing without a word */
	bool at_unfollowed;          /* that is where the stack ended */
	const struct runtime_proc *python; /* what the kernel knew of the process's CPython; NULL = nothing, and there is no rest */
	uint64_t rest[MAX_USER_WORDS]; /* its frames that the kernel sent along (RUNTIME_REST) */
	uint32_t n_rest, at_rest;  /* words; how many were used */
	bool copy_ended;             /* a read was refused because that is not in the copy */
};

/* Goes on until the stack ends; returns the enum stack_end. END_NO_TABLE: load that of image u.image for
 * native_vaddr(), call again. */
int native_unwind(struct native_unwind *n);
/* Moves the frames that the kernel has walked in advance from words[] to rest[]. u.n and u.words are those of the whole record before, and without
 * those frames after. */
void native_unwind_take_rest(struct native_unwind *n);
/* The ELF virtual address in the image where it stands. */
uint64_t native_vaddr(const struct native_unwind *n);

#endif
