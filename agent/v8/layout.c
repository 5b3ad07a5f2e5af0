/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a V8, from the symbols that its build makes for debuggers. They are integers in the file's data. */
#include "agent/v8/layout.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "elf/elf_symbol.h"

#define BYTECODES_BYTES_MAX 3072u    /* three of each */
#define OPERAND_SCALES 3u
#define FUNCTION_TYPES 17u           /* kinds of JSFunction, where the last is not published */

static bool read_at(const struct elf_file *f, uint64_t vaddr, void *to, size_t n)
{
	uint64_t offset, len;

	return elf_vaddr_offset(f, vaddr, &offset, &len) && len >= n && elf_read(f, offset, to, n);
}

/* Whether an address is in memory that begins as 0. */
static bool is_zeroed(const struct elf_file *f, uint64_t vaddr)
{
	for (size_t i = 0; i < f->n_ph; i++)
		if (f->ph[i].p_type == PT_LOAD && vaddr - f->ph[i].p_vaddr < f->ph[i].p_memsz)
			return vaddr - f->ph[i].p_vaddr >= f->ph[i].p_filesz;
	return false;
}

/* The int of a symbol v8dbg_*. */
static bool number(const struct elf_file *f, const char *name, uint32_t *ret)
{
	char symbol[128];
	Elf64_Sym s;

	snprintf(symbol, sizeof symbol, "v8dbg_%s", name);
	if (!elf_symbol(f, symbol, &s) || s.st_size != sizeof *ret)
		return false;
	*ret = 0;
	return is_zeroed(f, s.st_value) || read_at(f, s.st_value, ret, sizeof *ret);
}

#define NAMES_MAX 3

struct v8_field {
	uint16_t at;                     /* in struct v8_layout */
	bool required;
	const char *names[NAMES_MAX];
};

#define FIELD(member) offsetof(struct v8_layout, member)

/* What is published, with the names that versions gave it. Others keep what the version says. */
static const struct v8_field fields[] = {
	{ FIELD(function_shared), true, { "class_JSFunction__shared__SharedFunctionInfo" } },
	{ FIELD(shared_name), true, { "class_SharedFunctionInfo__name_or_scope_info__Object",
				      "class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
				      "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_" } },
	{ FIELD(shared_script), true, { "class_SharedFunctionInfo__script_or_debug_info__HeapObject",
					"class_SharedFunctionInfo__script__Tagged_HeapObject_" } },
	{ FIELD(shared_lengths), true, { "class_SharedFunctionInfo__length__uint16_t" } },
	{ FIELD(wrapper_shared), false, { "class_SharedFunctionInfoWrapper__shared_info__Tagged_SharedFunctionInfo_" } },
	{ FIELD(script_name), true, { "class_Script__name__Object" } },
	{ FIELD(script_source), false, { "class_Script__source__Object" } },
	{ FIELD(script_line_ends), true, { "class_Script__line_ends__Object" } },
	{ FIELD(map_type), true, { "class_Map__instance_type__uint16_t" } },
	{ FIELD(code_start), false, { "class_Code__instruction_start__Address", "class_Code__instruction_start__uintptr_t" } },
	{ FIELD(code_bytes), false, { "class_Code__instruction_size__int" } },
	{ FIELD(code_flags), false, { "class_Code__flags__uint32_t" } },
	{ FIELD(stream_bytes), false, { "class_InstructionStream__instruction_start__uintptr_t" } },
	{ FIELD(kind_baseline), false, { "CodeKindBaseline" } },
	{ FIELD(array_data), false, { "class_BytecodeArray__data__uintptr_t" } },
	{ FIELD(deopt_literals), false, { "DeoptimizationDataLiteralArrayIndex" } },
	{ FIELD(deopt_shared), false, { "DeoptimizationDataSharedFunctionInfoIndex",
					"DeoptimizationDataWrappedSharedFunctionInfoIndex" } },
	{ FIELD(deopt_inlining), false, { "DeoptimizationDataInliningPositionsIndex" } },
	{ FIELD(scope_first), true, { "scopeinfo_idx_first_vars" } },
	{ FIELD(type_function_first), true, { "FirstJSFunctionType", "type_JSFunction__JS_FUNCTION_TYPE" } },
	{ FIELD(type_function_last), false, { "LastJSFunctionType" } },
	{ FIELD(type_shared), true, { "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE" } },
	{ FIELD(type_code), true, { "type_Code__CODE_TYPE" } },
	{ FIELD(type_array), true, { "type_BytecodeArray__BYTECODE_ARRAY_TYPE" } },
	{ FIELD(type_scope), true, { "type_ScopeInfo__SCOPE_INFO_TYPE" } },
	{ FIELD(type_script), true, { "type_Script__SCRIPT_TYPE" } },
	{ FIELD(type_interpreter_data), false, { "type_InterpreterData__INTERPRETER_DATA_TYPE" } },
	{ FIELD(type_baseline_data), false, { "type_BaselineData__BASELINE_DATA_TYPE" } },
	{ FIELD(type_wrapper), false, { "type_SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE" } },
	{ FIELD(type_no_string), true, { "FirstNonstringType" } },
	{ FIELD(type_bytes), true, { "type_ByteArray__BYTE_ARRAY_TYPE" } },
	{ FIELD(type_trusted_bytes), false, { "type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE" } },
	{ FIELD(type_fixed), true, { "type_FixedArray__FIXED_ARRAY_TYPE" } },
	{ FIELD(type_trusted_fixed), false, { "type_TrustedFixedArray__TRUSTED_FIXED_ARRAY_TYPE" } },
	{ FIELD(type_protected_fixed), false, { "type_ProtectedFixedArray__PROTECTED_FIXED_ARRAY_TYPE" } },
	{ FIELD(type_weak_fixed), false, { "type_WeakFixedArray__WEAK_FIXED_ARRAY_TYPE" } },
	{ FIELD(type_trusted_weak_fixed), false, { "type_TrustedWeakFixedArray__TRUSTED_WEAK_FIXED_ARRAY_TYPE" } },
};

/* What other builds have otherwise, Chrome's for one. */
static const struct { const char *name; uint32_t value; } expected[] = {
	{ "TaggedSize", 8 }, { "SmiShiftSize", 31 }, { "SmiTag", 0 }, { "HeapObjectTag", 1 }, { "HeapObjectTagMask", 3 },
	{ "off_fp_context", -8u }, { "off_fp_function", -16u },
	{ "StringRepresentationMask", 7 }, { "StringEncodingMask", 8 },
	{ "SeqStringTag", 0 }, { "ConsStringTag", 1 }, { "ExternalStringTag", 2 }, { "SlicedStringTag", 3 }, { "ThinStringTag", 5 },
};

/* Those of Node 16 to 20, 22 to 24, and 26: between them objects change in ways that no symbol says. */
static const struct { unsigned first, last; } versions[] = {
	{ V8_VERSION(9, 4), V8_VERSION(11, 3) }, { V8_VERSION(12, 4), V8_VERSION(13, 6) }, { V8_VERSION(14, 6), V8_VERSION(14, 6) },
};

static const struct { const char *name; enum v8_marker marker; } markers[] = {
	{ "frametype_WasmFrame", V8_MARKER_WASM }, { "frametype_WasmToJsFrame", V8_MARKER_WASM },
	{ "frametype_JsToWasmFrame", V8_MARKER_WASM }, { "frametype_WasmExitFrame", V8_MARKER_WASM },
	{ "frametype_CWasmEntryFrame", V8_MARKER_WASM }, { "frametype_WasmDebugBreakFrame", V8_MARKER_WASM },
	{ "frametype_WasmLiftoffSetupFrame", V8_MARKER_WASM }, { "frametype_WasmToJsFunctionFrame", V8_MARKER_WASM },
	{ "frametype_IrregexpFrame", V8_MARKER_REGEXP },
};

static void by_version(unsigned version, struct v8_layout *l)
{
	bool old = version < V8_VERSION(11, 0), middle = version < V8_VERSION(12, 0);

	*l = (struct v8_layout){
		.script_source = 8, .wrapper_shared = 8,
		.code_start = 40, .code_flags = 48, .code_bytes = old ? 40 : 56,
		.code_deopt = middle ? 16 : 8, .code_positions = middle ? 24 : 16, .stream_bytes = old ? 0 : middle ? 16 : 32,
		.kind_baseline = 11, .kind_regexp = middle ? 3 : 4,
		.safepoint_words = version < V8_VERSION(10, 0),
		.safepoint_slots = version >= V8_VERSION(12, 5),
		.array_data = 54, .array_positions = middle ? 32 : 24,
		.position_kind_bits = version >= V8_VERSION(14, 0) ? 2 : 0,
		.scope_has_receiver = version < V8_VERSION(10, 0),
		.deopt_literals = 2, .deopt_shared = 6, .deopt_inlining = 7,
		.deoptimiser_caller = old ? 80 : version < V8_VERSION(13, 0) ? 96 : 104,
	};
}

static void read_markers(const struct elf_file *f, struct v8_facts *x)
{
	uint32_t v;

	for (unsigned i = 0; i < ARRAY_LEN(markers); i++)
		if (number(f, markers[i].name, &v) && v < V8_MARKERS_MAX)
			x->markers[v] = markers[i].marker;
}

static void read_bytecodes(const struct elf_file *f, const Elf64_Sym *s, struct v8_facts *x)
{
	if (s->st_size > BYTECODES_BYTES_MAX || s->st_size < OPERAND_SCALES || s->st_size % OPERAND_SCALES)
		return;
	x->bytecode_bytes = xmalloc(s->st_size);
	x->n_bytecodes = (uint32_t)(s->st_size / OPERAND_SCALES);
	if (read_at(f, s->st_value, x->bytecode_bytes, s->st_size))
		return;
	free(x->bytecode_bytes);
	x->bytecode_bytes = NULL;
}

bool v8_layout_read(const struct elf_file *f, unsigned version, const struct v8_symbols *s, struct v8_facts *x, char *why_not,
		    size_t n)
{
	uint32_t v;

	bool known = false;

	for (unsigned i = 0; i < ARRAY_LEN(versions); i++)
		known |= version >= versions[i].first && version <= versions[i].last;
	if (!known) {
		snprintf(why_not, n, "V8 %u.%u: this agent knows 9.4 to 11.3, 12.4 to 13.6 and 14.6", version >> 8, version & 255);
		return false;
	}
	for (unsigned i = 0; i < ARRAY_LEN(expected); i++) {
		if (number(f, expected[i].name, &v) && v == expected[i].value)
			continue;
		snprintf(why_not, n, "v8dbg_%s is not %d: a build with other objects than Node's", expected[i].name, (int)expected[i].value);
		return false;
	}
	by_version(version, &x->l);
	for (unsigned i = 0; i < ARRAY_LEN(fields); i++) {
		bool found = false;
		for (unsigned k = 0; k < NAMES_MAX && fields[i].names[k] && !found; k++) {
			found = number(f, fields[i].names[k], &v);
			if (found)
				*(uint32_t *)((char *)&x->l + fields[i].at) = v;
		}
		if (!found && fields[i].required) {
			snprintf(why_not, n, "it has no symbol v8dbg_%s", fields[i].names[0]);
			return false;
		}
	}
	if (!x->l.type_function_last)
		x->l.type_function_last = x->l.type_function_first + FUNCTION_TYPES - 1;
	x->l.kind_maglev = version < V8_VERSION(10, 0) ? 0 : x->l.kind_baseline + 1;
	read_markers(f, x);
	read_bytecodes(f, &s->bytecodes, x);
	return true;
}
