/* SPDX-License-Identifier: Apache-2.0 */
/* Where HotSpot's structures have their fields. A libjvm publishes that in tables for its own debugger (vmStructs), which lie in the
 * memory of each process that runs it. Fields come, go and change their names from version to version: what is there is taken, and what
 * must be there and is not is an error that names it.
 *
 * The tables are read of each process, and not once per file: a process can write into its own copy. */
#ifndef PYRRHA_AGENT_HOTSPOT_LAYOUT_H
#define PYRRHA_AGENT_HOTSPOT_LAYOUT_H

#include "agent/runtime/process_memory.h"
#include "bpf/abi.h"

/* Symbols of libjvm.so: where its tables are, and how an entry is laid out. */
enum hotspot_symbol {
	HS_STRUCTS, HS_STRUCT_STRIDE, HS_STRUCT_TYPE, HS_STRUCT_FIELD, HS_STRUCT_STATIC, HS_STRUCT_OFFSET, HS_STRUCT_ADDRESS,
	HS_TYPES, HS_TYPE_STRIDE, HS_TYPE_NAME, HS_TYPE_SIZE,
	HS_SYMBOLS
};
extern const char *const hotspot_symbol_names[HS_SYMBOLS];

enum hotspot_field {
	/* CodeBlob, nmethod. Up to 8 and from 23 on places are offsets from the blob. */
	HS_BLOB_NAME, HS_BLOB_SIZE, HS_BLOB_FRAME_COMPLETE, HS_BLOB_FRAME_SIZE, HS_BLOB_CODE_BEGIN, HS_BLOB_CODE_END, HS_BLOB_CODE_OFFSET,
	HS_BLOB_DATA_OFFSET, HS_BLOB_RELOCATION_SIZE, HS_BLOB_MUTABLE_DATA, HS_BLOB_MUTABLE_SIZE,
	HS_NM_METHOD, HS_NM_COMPILE_ID, HS_NM_ORIG_PC, HS_NM_DEOPT, HS_NM_DEOPT_MH, HS_NM_METADATA, HS_NM_SCOPES_DATA, HS_NM_SCOPES_PCS,
	HS_NM_DEPENDENCIES, HS_NM_IMMUTABLE, HS_NM_IMMUTABLE_SIZE, HS_NM_IMMUTABLE_END,
	HS_PC_OFFSET, HS_PC_SCOPE,
	/* Heaps of code. */
	HS_HEAP_MEMORY, HS_HEAP_SEGMAP, HS_HEAP_SHIFT, HS_SPACE_LOW, HS_SPACE_HIGH, HS_ARRAY_LEN, HS_ARRAY_DATA,
	/* Methods and their names. */
	HS_METHOD_CONST, HS_CM_CONSTANTS, HS_CM_SIZE, HS_CM_FLAGS, HS_CM_CODE_SIZE, HS_CM_NAME, HS_CM_SIGNATURE,
	HS_POOL_HOLDER, HS_POOL_LENGTH, HS_POOL_SOURCE, HS_CLASS_SOURCE, HS_CLASS_NAME, HS_SYMBOL_LENGTH, HS_SYMBOL_BODY,
	/* Addresses in the process. */
	HS_CACHE_HEAP, HS_CACHE_HEAPS, HS_JDK_VERSION, HS_VM_MAJOR, HS_CALL_STUB_RETURN,
	HS_FIELDS
};

enum hotspot_type { HS_T_BLOB, HS_T_NMETHOD, HS_T_PC, HS_T_BLOCK, HS_T_HEAP, HS_T_ARRAY, HS_T_POOL, HS_T_CM, HS_T_CLASS, HS_T_SYMBOL, HS_T_METHOD, HS_TYPES_N };

#define HS_NONE UINT64_MAX

struct hotspot_layout {
	unsigned major;              /* 8, 11, 17 … */
	uint64_t at[HS_FIELDS];      /* offsets in bytes, or addresses; HS_NONE = not in this version */
	uint32_t size[HS_TYPES_N];   /* bytes */
};

/* Reads the layout of a process. symbols: ELF virtual addresses; bias: where address 0 is mapped. ERR_UNAVAILABLE: the runtime is not
 * started yet; ERR_BAD_DATA: a field that must be there is not, or cannot be; as process_memory_read. */
int hotspot_layout_read(struct hotspot_layout *ret, struct process_memory *m, const uint64_t symbols[HS_SYMBOLS], uint64_t bias,
			struct err *e) MUST_USE;
/* Where the process has its code, for the kernel. ERR_UNAVAILABLE: there is none yet. */
int hotspot_layout_proc(const struct hotspot_layout *l, struct process_memory *m, struct hotspot_proc *ret, struct err *e) MUST_USE;

#endif
