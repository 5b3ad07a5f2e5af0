/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hotspot/layout.h"

#include <stdlib.h>

#include "base/alloc.h"

#define ENTRIES_MAX 8192             /* 2,100 were seen */
#define ENTRIES_AT_ONCE 64
#define STRIDE_MAX 128
#define NAME_MAX_BYTES 64            /* of a type or field that is wanted */
#define TYPE_SIZE_MAX 1024
#define SYMBOL_TYPE_MAX 32
#define OFFSET_MAX 504               /* what the kernel's part reads of a CodeBlob */
#define PAGE 4096u
#define PAGES 64

const char *const hotspot_symbol_names[HS_SYMBOLS] = {
	[HS_STRUCTS] = "gHotSpotVMStructs",
	[HS_STRUCT_STRIDE] = "gHotSpotVMStructEntryArrayStride",
	[HS_STRUCT_TYPE] = "gHotSpotVMStructEntryTypeNameOffset",
	[HS_STRUCT_FIELD] = "gHotSpotVMStructEntryFieldNameOffset",
	[HS_STRUCT_STATIC] = "gHotSpotVMStructEntryIsStaticOffset",
	[HS_STRUCT_OFFSET] = "gHotSpotVMStructEntryOffsetOffset",
	[HS_STRUCT_ADDRESS] = "gHotSpotVMStructEntryAddressOffset",
	[HS_TYPES] = "gHotSpotVMTypes",
	[HS_TYPE_STRIDE] = "gHotSpotVMTypeEntryArrayStride",
	[HS_TYPE_NAME] = "gHotSpotVMTypeEntryTypeNameOffset",
	[HS_TYPE_SIZE] = "gHotSpotVMTypeEntrySizeOffset",
};

/* add: what the version has at the name lies that much further on. */
static const struct {
	const char *type, *field;
	enum hotspot_field to;
	uint8_t add;
} fields[] = {
	{ "CodeBlob", "_name", HS_BLOB_NAME, 0 },
	{ "CodeBlob", "_size", HS_BLOB_SIZE, 0 },
	{ "CodeBlob", "_frame_complete_offset", HS_BLOB_FRAME_COMPLETE, 0 },
	{ "CodeBlob", "_frame_size", HS_BLOB_FRAME_SIZE, 0 },
	{ "CodeBlob", "_code_begin", HS_BLOB_CODE_BEGIN, 0 },        /* 9 to 22 */
	{ "CodeBlob", "_code_end", HS_BLOB_CODE_END, 0 },
	{ "CodeBlob", "_code_offset", HS_BLOB_CODE_OFFSET, 0 },      /* 8, 23 on */
	{ "CodeBlob", "_data_offset", HS_BLOB_DATA_OFFSET, 0 },
	{ "CodeBlob", "_relocation_size", HS_BLOB_RELOCATION_SIZE, 0 },
	{ "CodeBlob", "_mutable_data", HS_BLOB_MUTABLE_DATA, 0 },    /* 25 on */
	{ "CodeBlob", "_mutable_data_size", HS_BLOB_MUTABLE_SIZE, 0 },
	{ "CompiledMethod", "_method", HS_NM_METHOD, 0 },            /* 9 to 22 */
	{ "CompiledMethod", "_scopes_data_begin", HS_NM_SCOPES_DATA, 0 },
	{ "CompiledMethod", "_deopt_handler_begin", HS_NM_DEOPT, 0 },
	{ "CompiledMethod", "_deopt_mh_handler_begin", HS_NM_DEOPT_MH, 0 },
	{ "nmethod", "_method", HS_NM_METHOD, 0 },                   /* 8, 23 on */
	{ "nmethod", "_scopes_data_offset", HS_NM_SCOPES_DATA, 0 },
	{ "nmethod", "_deoptimize_offset", HS_NM_DEOPT, 0 },         /* 8 */
	{ "nmethod", "_deopt_handler_offset", HS_NM_DEOPT, 0 },
	{ "nmethod", "_deopt_handler_entry_offset", HS_NM_DEOPT, 0 }, /* 26 */
	{ "nmethod", "_deopt_mh_handler_offset", HS_NM_DEOPT_MH, 0 },
	{ "nmethod", "_compile_id", HS_NM_COMPILE_ID, 0 },
	{ "nmethod", "_orig_pc_offset", HS_NM_ORIG_PC, 0 },
	{ "nmethod", "_metadata_offset", HS_NM_METADATA, 0 },        /* up to 24 */
	{ "nmethod", "_scopes_pcs_offset", HS_NM_SCOPES_PCS, 0 },
	{ "nmethod", "_dependencies_offset", HS_NM_DEPENDENCIES, 0 }, /* up to 22 */
	{ "nmethod", "_immutable_data", HS_NM_IMMUTABLE, 0 },        /* 23 on */
	{ "nmethod", "_immutable_data_size", HS_NM_IMMUTABLE_SIZE, 0 },
	{ "nmethod", "_immutable_data_ref_count_offset", HS_NM_IMMUTABLE_END, 0 }, /* 26 */
	{ "PcDesc", "_pc_offset", HS_PC_OFFSET, 0 },
	{ "PcDesc", "_scope_decode_offset", HS_PC_SCOPE, 0 },
	{ "CodeHeap", "_memory", HS_HEAP_MEMORY, 0 },
	{ "CodeHeap", "_segmap", HS_HEAP_SEGMAP, 0 },
	{ "CodeHeap", "_log2_segment_size", HS_HEAP_SHIFT, 0 },
	{ "VirtualSpace", "_low_boundary", HS_SPACE_LOW, 0 },
	{ "VirtualSpace", "_high_boundary", HS_SPACE_HIGH, 0 },
	{ "GenericGrowableArray", "_len", HS_ARRAY_LEN, 0 },         /* up to 15 */
	{ "GrowableArrayBase", "_len", HS_ARRAY_LEN, 0 },
	{ "GrowableArray<int>", "_data", HS_ARRAY_DATA, 0 },
	{ "Method", "_constMethod", HS_METHOD_CONST, 0 },
	{ "ConstMethod", "_constants", HS_CM_CONSTANTS, 0 },
	{ "ConstMethod", "_constMethod_size", HS_CM_SIZE, 0 },
	{ "ConstMethod", "_flags", HS_CM_FLAGS, 0 },
	{ "ConstMethod", "_flags._flags", HS_CM_FLAGS, 0 },          /* 21 on */
	{ "ConstMethod", "_code_size", HS_CM_CODE_SIZE, 0 },
	{ "ConstMethod", "_name_index", HS_CM_NAME, 0 },
	{ "ConstMethod", "_signature_index", HS_CM_SIGNATURE, 0 },
	{ "ConstantPool", "_pool_holder", HS_POOL_HOLDER, 0 },
	{ "ConstantPool", "_length", HS_POOL_LENGTH, 0 },
	{ "ConstantPool", "_source_file_name_index", HS_POOL_SOURCE, 0 }, /* 15 on */
	{ "InstanceKlass", "_source_file_name_index", HS_CLASS_SOURCE, 0 },
	{ "Klass", "_name", HS_CLASS_NAME, 0 },
	{ "Symbol", "_length", HS_SYMBOL_LENGTH, 0 },
	{ "Symbol", "_length_and_refcount", HS_SYMBOL_LENGTH, 2 },   /* 12 to 16 */
	{ "Symbol", "_body", HS_SYMBOL_BODY, 0 },
	{ "CodeCache", "_heap", HS_CACHE_HEAP, 0 },                  /* 8 */
	{ "CodeCache", "_heaps", HS_CACHE_HEAPS, 0 },
	{ "JDK_Version", "_current", HS_JDK_VERSION, 0 },            /* up to 21 */
	{ "Abstract_VM_Version", "_vm_major_version", HS_VM_MAJOR, 0 },
	{ "StubRoutines", "_call_stub_return_address", HS_CALL_STUB_RETURN, 0 },
};

static const struct {
	const char *type;
	enum hotspot_type to;
} types[] = {
	{ "CodeBlob", HS_T_BLOB }, { "nmethod", HS_T_NMETHOD }, { "PcDesc", HS_T_PC }, { "HeapBlock", HS_T_BLOCK }, { "CodeHeap", HS_T_HEAP },
	{ "GrowableArray<int>", HS_T_ARRAY }, { "ConstantPool", HS_T_POOL }, { "ConstMethod", HS_T_CM }, { "InstanceKlass", HS_T_CLASS },
	{ "Symbol", HS_T_SYMBOL }, { "Method", HS_T_METHOD },
};

/* The field lies in a structure of this type, below its size. */
static const struct {
	enum hotspot_field field;
	enum hotspot_type type;
	uint8_t bytes;
	bool must;
} rules[] = {
	{ HS_BLOB_NAME, HS_T_BLOB, 8, true }, { HS_BLOB_SIZE, HS_T_BLOB, 4, true }, { HS_BLOB_FRAME_COMPLETE, HS_T_BLOB, 2, true },
	{ HS_BLOB_FRAME_SIZE, HS_T_BLOB, 4, true }, { HS_BLOB_CODE_BEGIN, HS_T_BLOB, 8, false }, { HS_BLOB_CODE_END, HS_T_BLOB, 8, false },
	{ HS_BLOB_CODE_OFFSET, HS_T_BLOB, 4, false }, { HS_BLOB_DATA_OFFSET, HS_T_BLOB, 4, false },
	{ HS_BLOB_RELOCATION_SIZE, HS_T_BLOB, 4, false }, { HS_BLOB_MUTABLE_DATA, HS_T_BLOB, 8, false },
	{ HS_BLOB_MUTABLE_SIZE, HS_T_BLOB, 4, false },
	{ HS_NM_METHOD, HS_T_NMETHOD, 8, true }, { HS_NM_COMPILE_ID, HS_T_NMETHOD, 4, true }, { HS_NM_ORIG_PC, HS_T_NMETHOD, 4, true },
	{ HS_NM_DEOPT, HS_T_NMETHOD, 8, true }, { HS_NM_DEOPT_MH, HS_T_NMETHOD, 8, false }, { HS_NM_METADATA, HS_T_NMETHOD, 4, false },
	{ HS_NM_SCOPES_DATA, HS_T_NMETHOD, 8, true }, { HS_NM_SCOPES_PCS, HS_T_NMETHOD, 4, true },
	{ HS_NM_DEPENDENCIES, HS_T_NMETHOD, 4, false }, { HS_NM_IMMUTABLE, HS_T_NMETHOD, 8, false },
	{ HS_NM_IMMUTABLE_SIZE, HS_T_NMETHOD, 4, false }, { HS_NM_IMMUTABLE_END, HS_T_NMETHOD, 4, false },
	{ HS_PC_OFFSET, HS_T_PC, 4, true }, { HS_PC_SCOPE, HS_T_PC, 4, true },
	{ HS_HEAP_MEMORY, HS_T_HEAP, 8, true }, { HS_HEAP_SEGMAP, HS_T_HEAP, 8, true }, { HS_HEAP_SHIFT, HS_T_HEAP, 4, true },
	{ HS_SPACE_LOW, HS_T_HEAP, 8, true }, { HS_SPACE_HIGH, HS_T_HEAP, 8, true },
	{ HS_ARRAY_LEN, HS_T_ARRAY, 4, false }, { HS_ARRAY_DATA, HS_T_ARRAY, 8, false },
	{ HS_METHOD_CONST, HS_T_METHOD, 8, true }, { HS_CM_CONSTANTS, HS_T_CM, 8, true }, { HS_CM_SIZE, HS_T_CM, 4, true },
	{ HS_CM_FLAGS, HS_T_CM, 2, true }, { HS_CM_CODE_SIZE, HS_T_CM, 2, true }, { HS_CM_NAME, HS_T_CM, 2, true },
	{ HS_CM_SIGNATURE, HS_T_CM, 2, true }, { HS_POOL_HOLDER, HS_T_POOL, 8, true }, { HS_POOL_LENGTH, HS_T_POOL, 4, true }, { HS_POOL_SOURCE, HS_T_POOL, 2, false },
	{ HS_CLASS_SOURCE, HS_T_CLASS, 2, false }, { HS_CLASS_NAME, HS_T_CLASS, 8, true }, { HS_SYMBOL_LENGTH, HS_T_SYMBOL, 2, true },
	{ HS_SYMBOL_BODY, HS_T_SYMBOL, 2, true },
};

/* Names lie together: pages of them are kept. */
struct names {
	struct process_memory *m;
	uint64_t page_at[PAGES];
	char page[PAGES][PAGE];
	unsigned n;
	bool full[PAGES];
};

static const char *name_page(struct names *s, uint64_t at, struct err *e)
{
	unsigned i = (unsigned)(at / PAGE % PAGES);

	if (!s->full[i] || s->page_at[i] != at / PAGE * PAGE) {
		s->full[i] = false;
		s->page_at[i] = at / PAGE * PAGE;
		if (process_memory_read(s->m, s->page_at[i], s->page[i], PAGE, e))
			return NULL;
		s->full[i] = true;
	}
	return s->page[i];
}

/* The string at an address, cut to what is wanted; false if it cannot be read. */
static bool name_at(struct names *s, uint64_t at, char out[NAME_MAX_BYTES], struct err *e)
{
	for (unsigned n = 0; n < NAME_MAX_BYTES; n++) {
		const char *page = name_page(s, at + n, e);
		if (!page)
			return false;
		out[n] = page[(at + n) % PAGE];
		if (!out[n])
			return true;
	}
	out[0] = 0;                          /* longer than any that is wanted */
	return true;
}

/* A table of the runtime. */
struct table {
	struct process_memory *m;
	uint64_t at, stride;
	unsigned next, first, in_piece; /* entries: the next one, the piece's first, and the one behind the piece */
	uint8_t piece[ENTRIES_AT_ONCE * STRIDE_MAX];
};

static int table_open(struct table *t, struct process_memory *m, uint64_t symbol, uint64_t stride_symbol, uint64_t bias, struct err *e)
{
	int rc;

	*t = (struct table){ .m = m };
	if ((rc = process_memory_u64(m, bias + symbol, &t->at, e)) || (rc = process_memory_u64(m, bias + stride_symbol, &t->stride, e)))
		return rc;
	if (!t->at || !t->stride)
		return err_set(e, ERR_UNAVAILABLE, "process %u: HotSpot has not started yet", m->pid);
	if (t->stride > STRIDE_MAX || t->stride & 7)
		return err_set(e, ERR_BAD_DATA, "process %u: HotSpot's tables have entries of %llu bytes", m->pid, (unsigned long long)t->stride);
	return 0;
}

/* The next entry; NULL: there is none (rc 0), or an error. The last piece may be cut short by the end of memory. */
static const uint8_t *table_next(struct table *t, int *rc, struct err *e)
{
	*rc = 0;
	if (t->next == ENTRIES_MAX) {
		*rc = err_set(e, ERR_BAD_DATA, "process %u: HotSpot's tables have more than %d entries", t->m->pid, ENTRIES_MAX);
		return NULL;
	}
	if (t->next >= t->in_piece) {
		uint64_t from = t->at + t->next * t->stride;
		unsigned n = ENTRIES_AT_ONCE;
		while (process_memory_read(t->m, from, t->piece, n * t->stride, e)) {
			if (n == 1) {
				*rc = -(int)ERR_BAD_DATA;
				return NULL;
			}
			n /= 2;
		}
		t->first = t->next;
		t->in_piece = t->next + n;
	}
	const uint8_t *p = t->piece + (t->next - t->first) * t->stride;
	t->next++;
	return p;
}

static uint64_t entry_u64(const uint8_t *entry, uint64_t off)
{
	uint64_t v;

	memcpy(&v, entry + off, sizeof v);
	return v;
}

/* The offsets of an entry's members, which the library publishes, too. */
static int member_offsets(struct process_memory *m, const uint64_t *symbols, unsigned n, uint64_t bias, uint64_t stride, uint64_t *ret,
			  struct err *e)
{
	for (unsigned i = 0; i < n; i++) {
		int rc = process_memory_u64(m, bias + symbols[i], &ret[i], e);
		if (rc)
			return rc;
		if (ret[i] > stride - 8)
			return err_set(e, ERR_BAD_DATA, "process %u: HotSpot's tables have members outside of their entries", m->pid);
	}
	return 0;
}

static void take_field(struct hotspot_layout *l, const char *type, const char *field, uint64_t value)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (!strcmp(fields[i].type, type) && !strcmp(fields[i].field, field))
			l->at[fields[i].to] = value + fields[i].add;
}

static bool type_wanted(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (!strcmp(fields[i].type, type))
			return true;
	return false;
}

static int read_fields(struct hotspot_layout *l, struct names *s, const uint64_t *symbols, uint64_t bias, struct err *e)
{
	struct table t;
	uint64_t member[5], last = 0;
	bool wanted = false;
	const uint8_t *entry;
	char type[NAME_MAX_BYTES] = "", field[NAME_MAX_BYTES];
	int rc = table_open(&t, s->m, symbols[HS_STRUCTS], symbols[HS_STRUCT_STRIDE], bias, e);

	if (rc || (rc = member_offsets(s->m, symbols + HS_STRUCT_TYPE, 5, bias, t.stride, member, e)))
		return rc;
	while ((entry = table_next(&t, &rc, e)) && entry_u64(entry, member[0])) {
		uint64_t at = entry_u64(entry, member[0]);
		if (at != last) {
			if (!name_at(s, at, type, e))
				return -(int)ERR_BAD_DATA;
			wanted = type_wanted(type);
			last = at;
		}
		if (!wanted)
			continue;
		if (!name_at(s, entry_u64(entry, member[1]), field, e))
			return -(int)ERR_BAD_DATA;
		bool is_static = entry_u64(entry, member[2]) & UINT32_MAX;
		take_field(l, type, field, entry_u64(entry, is_static ? member[4] : member[3]));
	}
	return rc;
}

static int read_types(struct hotspot_layout *l, struct names *s, const uint64_t *symbols, uint64_t bias, struct err *e)
{
	struct table t;
	uint64_t member[2];
	const uint8_t *entry;
	char type[NAME_MAX_BYTES];
	int rc = table_open(&t, s->m, symbols[HS_TYPES], symbols[HS_TYPE_STRIDE], bias, e);

	if (rc || (rc = member_offsets(s->m, symbols + HS_TYPE_NAME, 2, bias, t.stride, member, e)))
		return rc;
	while ((entry = table_next(&t, &rc, e)) && entry_u64(entry, member[0])) {
		if (!name_at(s, entry_u64(entry, member[0]), type, e))
			return -(int)ERR_BAD_DATA;
		for (size_t i = 0; i < ARRAY_LEN(types); i++)
			if (!strcmp(types[i].type, type))
				l->size[types[i].to] = (uint32_t)MIN(entry_u64(entry, member[1]), (uint64_t)UINT32_MAX);
	}
	return rc;
}

static const char *field_name(enum hotspot_field f)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (fields[i].to == f)
			return fields[i].field;
	return "?";
}

static bool has_offsets(const struct hotspot_layout *l)
{
	return l->at[HS_BLOB_CODE_OFFSET] != HS_NONE && l->at[HS_BLOB_DATA_OFFSET] != HS_NONE;
}

static int check_layout(const struct hotspot_layout *l, uint32_t pid, struct err *e)
{
	for (size_t i = 0; i < HS_TYPES_N; i++)
		if ((!l->size[i] && (i != HS_T_ARRAY || l->at[HS_CACHE_HEAP] == HS_NONE)) || l->size[i] > TYPE_SIZE_MAX)
			return err_set(e, ERR_BAD_DATA, "process %u: HotSpot's %s has %u bytes", pid, types[i].type, l->size[i]);
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		uint64_t at = l->at[rules[i].field];
		if (at == HS_NONE && !rules[i].must)
			continue;
		if (at == HS_NONE || at + rules[i].bytes > l->size[rules[i].type] || at > OFFSET_MAX)
			return err_set(e, ERR_BAD_DATA, "process %u: HotSpot's tables lack %s.%s, or it is beyond its type", pid,
				       types[rules[i].type].type, field_name(rules[i].field));
	}
	/* What is read of an nmethod holds its CodeBlob, too. */
	if (l->size[HS_T_BLOB] > l->size[HS_T_NMETHOD])
		return err_set(e, ERR_BAD_DATA, "process %u: HotSpot's CodeBlob has more bytes (%u) than its nmethod (%u)", pid,
			       l->size[HS_T_BLOB], l->size[HS_T_NMETHOD]);
	if (l->size[HS_T_SYMBOL] > SYMBOL_TYPE_MAX)
		return err_set(e, ERR_BAD_DATA, "process %u: HotSpot's Symbol has %u bytes", pid, l->size[HS_T_SYMBOL]);
	/* Each of the ways to say a thing is there whole, or not at all: the first one that is there is read (code.c). */
	bool names = l->at[HS_BLOB_CODE_BEGIN] != HS_NONE ? l->at[HS_BLOB_CODE_END] != HS_NONE : has_offsets(l);
	bool scopes = l->at[HS_NM_IMMUTABLE] != HS_NONE ? l->at[HS_NM_IMMUTABLE_SIZE] != HS_NONE : l->at[HS_NM_DEPENDENCIES] != HS_NONE;
	bool metadata = l->at[HS_BLOB_MUTABLE_DATA] != HS_NONE ?
		l->at[HS_BLOB_MUTABLE_SIZE] != HS_NONE && l->at[HS_BLOB_RELOCATION_SIZE] != HS_NONE :
		l->at[HS_NM_METADATA] != HS_NONE && (l->at[HS_NM_IMMUTABLE] == HS_NONE || has_offsets(l));
	bool heaps = l->at[HS_CACHE_HEAP] != HS_NONE ||
		     (l->at[HS_CACHE_HEAPS] != HS_NONE && l->at[HS_ARRAY_LEN] != HS_NONE && l->at[HS_ARRAY_DATA] != HS_NONE);
	if (!names || !scopes || !metadata || !heaps || (l->at[HS_POOL_SOURCE] == HS_NONE && l->at[HS_CLASS_SOURCE] == HS_NONE))
		return err_set(e, ERR_BAD_DATA, "process %u: HotSpot's tables lack fields of %s", pid,
			       !names ? "CodeBlob" : !scopes || !metadata ? "nmethod" : !heaps ? "CodeCache" : "InstanceKlass");
	return 0;
}

int hotspot_layout_read(struct hotspot_layout *ret, struct process_memory *m, const uint64_t symbols[HS_SYMBOLS], uint64_t bias,
			struct err *e)
{
	struct hotspot_layout l = { 0 };
	AUTOFREE struct names *s = NEW(struct names);
	uint32_t major;
	int rc;

	s->m = m;
	for (unsigned i = 0; i < HS_FIELDS; i++)
		l.at[i] = HS_NONE;
	if ((rc = read_fields(&l, s, symbols, bias, e)) || (rc = read_types(&l, s, symbols, bias, e)) || (rc = check_layout(&l, m->pid, e)))
		return rc;
	/* The virtual machine's own version is that of the JDK from 9 on, and from 22 on there is no other. */
	uint64_t at = l.at[HS_JDK_VERSION] != HS_NONE ? l.at[HS_JDK_VERSION] : l.at[HS_VM_MAJOR];
	if ((rc = process_memory_u32(m, at, &major, e)))
		return rc;
	l.major = major & 0xff;
	if (!l.major)
		return err_set(e, ERR_UNAVAILABLE, "process %u: HotSpot has not started yet", m->pid);
	*ret = l;
	return 0;
}

static int read_heap(const struct hotspot_layout *l, struct process_memory *m, uint64_t heap, struct hotspot_heap *ret, uint32_t *ret_shift,
		     struct err *e)
{
	uint64_t start, end, segmap;
	int rc;

	if ((rc = process_memory_u64(m, heap + l->at[HS_HEAP_MEMORY] + l->at[HS_SPACE_LOW], &start, e)) ||
	    (rc = process_memory_u64(m, heap + l->at[HS_HEAP_MEMORY] + l->at[HS_SPACE_HIGH], &end, e)) ||
	    (rc = process_memory_u64(m, heap + l->at[HS_HEAP_SEGMAP] + l->at[HS_SPACE_LOW], &segmap, e)) ||
	    (rc = process_memory_u32(m, heap + l->at[HS_HEAP_SHIFT], ret_shift, e)))
		return rc;
	if (!start || !segmap)
		return err_set(e, ERR_UNAVAILABLE, "process %u: HotSpot has no code yet", m->pid);
	if (end <= start || end - start > (uint64_t)1 << 33 || *ret_shift > 16)
		return err_set(e, ERR_BAD_DATA, "process %u: HotSpot's code cache is malformed", m->pid);
	*ret = (struct hotspot_heap){ start, end - start, segmap };
	return 0;
}

/* Addresses of the heaps' descriptions. */
static int find_heaps(const struct hotspot_layout *l, struct process_memory *m, uint64_t ret[HOTSPOT_HEAPS], uint32_t *ret_n, struct err *e)
{
	uint64_t array, data;
	int rc;

	*ret_n = 1;
	if (l->at[HS_CACHE_HEAP] != HS_NONE)
		return process_memory_u64(m, l->at[HS_CACHE_HEAP], ret, e);
	if ((rc = process_memory_u64(m, l->at[HS_CACHE_HEAPS], &array, e)))
		return rc;
	if (!array)
		return err_set(e, ERR_UNAVAILABLE, "process %u: HotSpot has no code yet", m->pid);
	if ((rc = process_memory_u32(m, array + l->at[HS_ARRAY_LEN], ret_n, e)) ||
	    (rc = process_memory_u64(m, array + l->at[HS_ARRAY_DATA], &data, e)))
		return rc;
	if (!*ret_n)
		return err_set(e, ERR_UNAVAILABLE, "process %u: HotSpot has no code yet", m->pid);
	if (*ret_n > HOTSPOT_HEAPS)
		return err_set(e, ERR_BAD_DATA, "process %u: HotSpot has %u heaps of code, more than %d", m->pid, *ret_n, HOTSPOT_HEAPS);
	return process_memory_read(m, data, ret, *ret_n * sizeof *ret, e);
}

int hotspot_layout_proc(const struct hotspot_layout *l, struct process_memory *m, struct hotspot_proc *ret, struct err *e)
{
	uint64_t heaps[HOTSPOT_HEAPS];
	struct hotspot_proc p = { 0 };
	bool relative = l->at[HS_BLOB_CODE_BEGIN] == HS_NONE;
	uint64_t stub = 1;
	uint32_t n, shift = 0;
	int rc = 0;

	/* The first stub is made once all heaps are there: before, some of them might be left out for good. */
	if (l->at[HS_CALL_STUB_RETURN] != HS_NONE)
		rc = process_memory_u64(m, l->at[HS_CALL_STUB_RETURN], &stub, e);
	if (!rc && !stub)
		rc = err_set(e, ERR_UNAVAILABLE, "process %u: HotSpot has no code yet", m->pid);
	if (!rc)
		rc = find_heaps(l, m, heaps, &n, e);
	for (uint32_t i = 0; !rc && i < n; i++) {
		uint32_t before = shift;
		if (!heaps[i])
			return err_set(e, ERR_UNAVAILABLE, "process %u: HotSpot has no code yet", m->pid);
		rc = read_heap(l, m, heaps[i], &p.heap[i], &shift, e);
		if (!rc && i && shift != before)
			rc = err_set(e, ERR_BAD_DATA, "process %u: HotSpot's heaps of code have segments of several sizes", m->pid);
	}
	if (rc)
		return rc;
	p.low = UINT64_MAX;
	for (uint32_t i = 0; i < n; i++) {
		p.low = MIN(p.low, (uint64_t)p.heap[i].start);
		p.high = MAX((uint64_t)p.high, p.heap[i].start + p.heap[i].bytes);
	}
	p.segment_shift = (uint8_t)shift;
	p.block_header = (uint8_t)l->size[HS_T_BLOCK];
	p.relative = relative;
	p.bcp_slot = l->major < 9;
	p.blob_name = (uint16_t)l->at[HS_BLOB_NAME];
	p.blob_code_begin = (uint16_t)l->at[relative ? HS_BLOB_CODE_OFFSET : HS_BLOB_CODE_BEGIN];
	p.blob_code_end = (uint16_t)l->at[relative ? HS_BLOB_DATA_OFFSET : HS_BLOB_CODE_END];
	p.blob_frame_size = (uint16_t)l->at[HS_BLOB_FRAME_SIZE];
	p.blob_frame_complete = (uint16_t)l->at[HS_BLOB_FRAME_COMPLETE];
	p.nmethod_compile_id = (uint16_t)l->at[HS_NM_COMPILE_ID];
	p.nmethod_orig_pc = (uint16_t)l->at[HS_NM_ORIG_PC];
	p.nmethod_deopt = (uint16_t)l->at[HS_NM_DEOPT];
	p.nmethod_deopt_mh = (uint16_t)(l->at[HS_NM_DEOPT_MH] != HS_NONE ? l->at[HS_NM_DEOPT_MH] : l->at[HS_NM_DEOPT]);
	p.method_const = (uint16_t)l->at[HS_METHOD_CONST];
	p.const_method_size = (uint16_t)l->size[HS_T_CM];
	*ret = p;
	return 0;
}
