/* SPDX-License-Identifier: Apache-2.0 */
/* Where a V8 has what, in bytes from an object's begin, and the numbers of its objects' types. Most of it the file says itself, by symbols
 * v8dbg_*; the rest is known by version. Objects are checked by their type wherever one is followed. */
#ifndef PYRRHA_AGENT_V8_LAYOUT_H
#define PYRRHA_AGENT_V8_LAYOUT_H

#include "agent/runtime/runtime.h"

/* Of version a.b; runtime_file.version is one. */
#define V8_VERSION(a, b) ((a) << 8 | (b))

/* What a frame is of that belongs to no function. */
enum v8_marker { V8_MARKER_OTHER, V8_MARKER_WASM, V8_MARKER_REGEXP };

struct v8_layout {
	/* JSFunction, SharedFunctionInfo, Script. */
	uint32_t function_shared, shared_name, shared_script, shared_lengths, script_name, script_source, script_line_ends;
	uint32_t wrapper_shared;             /* of what holds a SharedFunctionInfo among trusted objects */
	/* Map. */
	uint32_t map_type;
	/* Code. Up to 10 its instructions lie in it at code_start; later that is a pointer to them, and before them is an object of
	 * stream_bytes that points back to the Code. */
	uint32_t code_start, code_bytes, code_flags, code_deopt, code_positions;
	uint32_t stream_bytes;               /* 0: none */
	/* The table of safepoints: 1: its entries are three words; how many words are before its length. */
	uint32_t safepoint_words, safepoint_slots;
	uint32_t kind_baseline, kind_regexp; /* the lower 4 bits of the flags; what is above baseline is optimised */
	uint32_t kind_maglev;                /* 0: none */
	/* BytecodeArray. */
	uint32_t array_data, array_positions;
	/* Indices in the deoptimisation data. */
	uint32_t deopt_literals, deopt_shared, deopt_inlining;
	uint32_t deoptimiser_caller;         /* as in v8_proc */
	uint32_t position_kind_bits;         /* 2: of an offset in a table of positions, the lowest say what is there; 0: its sign does */
	uint32_t scope_first;                /* index of a ScopeInfo's first variable name, after the flags' one */
	uint32_t scope_has_receiver;         /* 1: it says where `this` is, if that is in a frame or a context */
	/* Types. 0: this version has no such. */
	uint32_t type_function_first, type_function_last;
	uint32_t type_shared, type_code, type_array, type_scope, type_script, type_interpreter_data, type_baseline_data, type_wrapper;
	uint32_t type_no_string;             /* strings have lower numbers */
	uint32_t type_bytes, type_trusted_bytes;
	uint32_t type_fixed, type_trusted_fixed, type_protected_fixed, type_weak_fixed, type_trusted_weak_fixed;
};

struct v8_facts {
	struct v8_layout l;
	struct runtime_range handlers, trampoline, deoptimising;
	uint8_t markers[V8_MARKERS_MAX];     /* enum v8_marker */
	uint8_t *bytecode_bytes;             /* length of each bytecode: n_bytecodes each for single, double and quadruple operands; NULL: not known */
	uint32_t n_bytecodes;
};

/* Symbols that are not for the loader, out of the table that strip removes. */
struct v8_symbols {
	struct runtime_range builtins, handlers, trampoline, deoptimising; /* end 0: not found */
	Elf64_Sym bytecodes;         /* their lengths; st_size 0: not found */
};

/* Fills from a file's symbols. False: why_not of at most n bytes says what is missing. */
bool v8_layout_read(const struct elf_file *f, unsigned version, const struct v8_symbols *s, struct v8_facts *x, char *why_not,
		    size_t n);

/* The functions of the row. */
struct runtime_file *v8_recognise(const struct elf_file *f);
void v8_free_file(struct runtime_file *r);
int v8_attach(const struct runtime_file *r, struct process_memory *m, uint64_t bias, struct runtime_proc *ret, struct err *e) MUST_USE;
int v8_read_code(const struct runtime_file *r, struct process_memory *m, uint64_t object, uint64_t check, struct buf *ret_record,
		 struct err *e) MUST_USE;
size_t v8_frames_at(const struct runtime_file *r, struct view record, uint64_t at, struct runtime_name *out, size_t max);

#endif
