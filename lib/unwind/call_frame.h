/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF's call-frame instructions, as .eh_frame has them: a small program per function that says, address by address, how
 * the frame of its caller is found. It is run to get rules (bpf/abi.h says what one can express). Of each row only the fields that a
 * rule needs are kept: the CFA, where the frame pointer was saved, and whether the return address is at its usual place.
 *
 * The bytes may say anything: a reader that has run out stays at its end, yields zeroes and is marked. */
#ifndef PYRRHA_UNWIND_CALL_FRAME_H
#define PYRRHA_UNWIND_CALL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

struct cf_reader {
	const uint8_t *p, *e;        /* borrowed; the unread rest */
	bool bad;                    /* more was asked for than there was */
};

/* n bytes, at most 8, little endian. */
uint64_t cf_fixed(struct cf_reader *r, size_t n);
/* LEB128; bits beyond 64 are dropped. */
uint64_t cf_uleb(struct cf_reader *r);
int64_t cf_sleb(struct cf_reader *r);
void cf_skip(struct cf_reader *r, uint64_t n);
/* A pointer in an encoding of DW_EH_PE_*, absolute or relative to where it stands; vaddr is the virtual address of that. With other
 * encodings the reader fails. 0xff, none, is 0 and reads nothing. */
uint64_t cf_pointer(struct cf_reader *r, uint8_t encoding, uint64_t vaddr);

enum cf_ra { CF_RA_AT_CFA, CF_RA_UNDEFINED, CF_RA_IN_RDI, CF_RA_IN_RDX, CF_RA_OTHER };

/* The state at an address. */
struct cf_state {
	uint8_t cfa;                 /* enum cfa_kind */
	uint8_t fp;                  /* enum fp_kind */
	uint8_t ra;                  /* enum cf_ra: where the return address is */
	bool cfa_is_reg;             /* def_cfa_offset makes sense */
	int64_t cfa_off, cfa_add, fp_off;
};

/* The defaults that a CIE has for the functions that refer to it. */
struct cf_common {
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;            /* DW_EH_PE_* of addresses */
	struct cf_state start;       /* after the CIE's own instructions; {.cfa = CFA_UNSUPPORTED} while these run */
};

/* The state holds from pc on. Nonzero ends the run. */
typedef int cf_row_fn(void *arg, uint64_t pc, const struct cf_state *s);

/* Runs instructions on *s for a function at [pc, end), and calls fn before each advance and at the end. The first instruction is at
 * the virtual address vaddr. fn NULL: a CIE's instructions, which have no addresses. Negative: the instructions are malformed;
 * positive: what fn returned. */
int cf_run(const struct cf_common *c, struct cf_reader r, uint64_t vaddr, struct cf_state *s, uint64_t pc, uint64_t end,
	   cf_row_fn *fn, void *arg);

/* CFA_UNSUPPORTED is for what a rule cannot express, FP_UNKNOWN where only the frame pointer is lost. */
struct unwind_rule cf_rule(const struct cf_state *s);

#endif
