/* SPDX-License-Identifier: Apache-2.0 */
/* .eh_frame as rules: for every address of a file's text, how the unwinder gets to the caller (bpf/abi.h says what a
 * rule can express). Rows come in ascending order and are never held all at once. */
#ifndef PYRRHA_UNWIND_EH_FRAME_H
#define PYRRHA_UNWIND_EH_FRAME_H

#include "bpf/abi.h"
#include "elf/elf_file.h"

struct eh_stats {
	uint64_t fdes;
	uint64_t rows;
	uint64_t unsupported;        /* rows whose rule is CFA_UNSUPPORTED */
	uint64_t unknown_fp;         /* rows whose rule is FP_UNKNOWN */
	uint64_t bad;                /* FDEs that could not be read, or overlap another */
	uint64_t work;               /* that it took, in bytes read, or as much time as those */
};

/* From pc on, up to the next row, r holds. CFA_NONE: nothing is known from here on. Nonzero ends the walk. */
typedef int eh_row_fn(void *arg, uint64_t pc, const struct unwind_rule *r);

/* A bound of the work for this much text. A file that causes more (the same bytes again and again) is ERR_BAD_DATA. */
uint64_t eh_frame_work_max(uint64_t text_bytes);
/* Calls fn for each row. No .eh_frame is ERR_NOT_FOUND, one over 32 MB ERR_BAD_DATA; a nonzero return of fn is returned unchanged. */
int eh_frame_each(const struct elf_file *f, eh_row_fn *fn, void *arg, struct eh_stats *st, struct err *e) MUST_USE;
/* Whether .eh_frame_hdr has a table that eh_frame_range can search. */
bool eh_frame_indexed(const struct elf_file *f);
/* The entry that holds pc: its addresses, and the rule at its start, which says where in a function that is: in a function's cold part
 * the frame is there already. False: none does, or .eh_frame_hdr has no table that can be searched. */
bool eh_frame_entry(const struct elf_file *f, uint64_t pc, uint64_t *ret_start, uint64_t *ret_end, struct unwind_rule *ret_rule);
/* How many functions that table has; 0 if there is none. */
uint64_t eh_frame_functions(const struct elf_file *f);
/* The same rows for the addresses in [lo, hi), and some before and after. The first of them is at or below lo, if anything is known
 * there. Reads only what it needs of the file. */
int eh_frame_range(const struct elf_file *f, uint64_t lo, uint64_t hi, eh_row_fn *fn, void *arg, struct eh_stats *st,
		   struct err *e) MUST_USE;

/* An index of .eh_frame for a file without .eh_frame_hdr, mostly a static program. For each 64 kB of text it has 8 bytes, which say
 * what part of .eh_frame all entries of that text are in. Making it reads all entries once, but not their instructions. Linkers write entries in the
 * order of the text, so such a part is small; for text that has cold parts of functions it may be all of .eh_frame. */
struct eh_index;
/* For the text in [lo, hi), which is not empty. ERR_NOT_FOUND without .eh_frame; ERR_BAD_DATA if it is over 32 MB, or takes too much work. */
int eh_index_new(struct eh_index **ret, const struct elf_file *f, uint64_t lo, uint64_t hi, struct eh_stats *st, struct err *e) MUST_USE;
void eh_index_free(struct eh_index *x);
/* How many functions have an entry. */
uint64_t eh_index_functions(const struct eh_index *x);
/* As eh_frame_range. f: of the same content as the file that the index was made of. */
int eh_index_range(const struct elf_file *f, const struct eh_index *x, uint64_t lo, uint64_t hi, eh_row_fn *fn, void *arg, struct eh_stats *st,
		   struct err *e) MUST_USE;

#endif
