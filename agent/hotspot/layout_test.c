/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as four generations of HotSpot have them, laid out in this process. Each is taken as it is. Without one of the fields that its
 * generation needs it is refused, and no other field stands in for it: what code.c reads is there, and within its structure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "agent/hotspot/layout.h"

enum { V8 = 1, V17 = 2, V23 = 4, V26 = 8, ALL = 15 };

struct entry { const char *type, *field; uint64_t is_static, offset; const void *address; };
struct type { const char *name; uint64_t size; };

static const uint32_t major = 17;
static const uint64_t cache;

/* in: the generations that have it. */
static const struct { const char *type, *field; uint64_t offset; unsigned in; const void *address; } published[] = {
	{ "CodeBlob", "_name", 8, ALL, NULL }, { "CodeBlob", "_size", 16, ALL, NULL },
	{ "CodeBlob", "_frame_complete_offset", 24, ALL, NULL }, { "CodeBlob", "_frame_size", 28, ALL, NULL },
	{ "CodeBlob", "_code_begin", 32, V17, NULL }, { "CodeBlob", "_code_end", 40, V17, NULL },
	{ "CodeBlob", "_code_offset", 32, V8 | V23 | V26, NULL }, { "CodeBlob", "_data_offset", 36, V8 | V23 | V26, NULL },
	{ "CodeBlob", "_mutable_data", 40, V26, NULL }, { "CodeBlob", "_mutable_data_size", 48, V26, NULL },
	{ "CodeBlob", "_relocation_size", 52, V26, NULL },
	{ "CompiledMethod", "_method", 64, V17, NULL }, { "CompiledMethod", "_scopes_data_begin", 72, V17, NULL },
	{ "CompiledMethod", "_deopt_handler_begin", 80, V17, NULL },
	{ "nmethod", "_method", 64, V8 | V23 | V26, NULL }, { "nmethod", "_scopes_data_offset", 72, V8 | V23 | V26, NULL },
	{ "nmethod", "_deoptimize_offset", 80, V8, NULL }, { "nmethod", "_deopt_handler_offset", 80, V23, NULL },
	{ "nmethod", "_deopt_handler_entry_offset", 80, V26, NULL },
	{ "nmethod", "_compile_id", 88, ALL, NULL }, { "nmethod", "_orig_pc_offset", 92, ALL, NULL },
	{ "nmethod", "_metadata_offset", 96, V8 | V17 | V23, NULL }, { "nmethod", "_scopes_pcs_offset", 100, ALL, NULL },
	{ "nmethod", "_dependencies_offset", 104, V8 | V17, NULL }, { "nmethod", "_immutable_data", 104, V23 | V26, NULL },
	{ "nmethod", "_immutable_data_size", 112, V23 | V26, NULL },
	{ "PcDesc", "_pc_offset", 0, ALL, NULL }, { "PcDesc", "_scope_decode_offset", 4, ALL, NULL },
	{ "CodeHeap", "_memory", 8, ALL, NULL }, { "CodeHeap", "_segmap", 32, ALL, NULL }, { "CodeHeap", "_log2_segment_size", 56, ALL, NULL },
	{ "VirtualSpace", "_low_boundary", 0, ALL, NULL }, { "VirtualSpace", "_high_boundary", 8, ALL, NULL },
	{ "GrowableArrayBase", "_len", 0, V17 | V23 | V26, NULL }, { "GrowableArray<int>", "_data", 8, V17 | V23 | V26, NULL },
	{ "Method", "_constMethod", 8, ALL, NULL }, { "ConstMethod", "_constants", 8, ALL, NULL },
	{ "ConstMethod", "_constMethod_size", 16, ALL, NULL }, { "ConstMethod", "_flags", 20, ALL, NULL },
	{ "ConstMethod", "_code_size", 24, ALL, NULL }, { "ConstMethod", "_name_index", 26, ALL, NULL },
	{ "ConstMethod", "_signature_index", 28, ALL, NULL }, { "ConstantPool", "_pool_holder", 24, ALL, NULL },
	{ "ConstantPool", "_length", 32, ALL, NULL }, { "ConstantPool", "_source_file_name_index", 36, V17 | V23 | V26, NULL },
	{ "InstanceKlass", "_source_file_name_index", 80, V8, NULL }, { "Klass", "_name", 16, ALL, NULL },
	{ "Symbol", "_length", 0, ALL, NULL }, { "Symbol", "_body", 6, ALL, NULL },
	{ "CodeCache", "_heap", 0, V8, &cache }, { "CodeCache", "_heaps", 0, V17 | V23 | V26, &cache },
	{ "Abstract_VM_Version", "_vm_major_version", 0, ALL, &major },
};

#define PUBLISHED (sizeof published / sizeof *published)

static const struct type types[] = {
	{ "CodeBlob", 64 }, { "nmethod", 128 }, { "PcDesc", 16 }, { "HeapBlock", 16 }, { "CodeHeap", 64 }, { "GrowableArray<int>", 16 },
	{ "ConstantPool", 64 }, { "ConstMethod", 56 }, { "InstanceKlass", 128 }, { "Symbol", 8 }, { "Method", 64 }, { NULL, 0 },
};

/* What it says of the tables without one of their fields (PUBLISHED: with all), and with one (PUBLISHED: none) at another offset. */
static int layout_of(unsigned generation, size_t without, size_t forged, uint64_t offset, struct hotspot_layout *ret)
{
	static struct entry entries[PUBLISHED + 1];
	static const void *fields_at = entries, *types_at = types;
	static const uint64_t strides[2] = { sizeof(struct entry), sizeof(struct type) };
	static const uint64_t members[] = { offsetof(struct entry, type), offsetof(struct entry, field), offsetof(struct entry, is_static),
					    offsetof(struct entry, offset), offsetof(struct entry, address), offsetof(struct type, name),
					    offsetof(struct type, size) };
	const uint64_t symbols[HS_SYMBOLS] = {
		[HS_STRUCTS] = (uintptr_t)&fields_at, [HS_STRUCT_STRIDE] = (uintptr_t)&strides[0], [HS_STRUCT_TYPE] = (uintptr_t)&members[0],
		[HS_STRUCT_FIELD] = (uintptr_t)&members[1], [HS_STRUCT_STATIC] = (uintptr_t)&members[2],
		[HS_STRUCT_OFFSET] = (uintptr_t)&members[3], [HS_STRUCT_ADDRESS] = (uintptr_t)&members[4], [HS_TYPES] = (uintptr_t)&types_at,
		[HS_TYPE_STRIDE] = (uintptr_t)&strides[1], [HS_TYPE_NAME] = (uintptr_t)&members[5], [HS_TYPE_SIZE] = (uintptr_t)&members[6],
	};
	struct process_memory m;
	size_t n = 0;
	struct err e;

	for (size_t i = 0; i < PUBLISHED; i++)
		if (published[i].in & generation && i != without)
			entries[n++] = (struct entry){ published[i].type, published[i].field, published[i].address != NULL,
						       i == forged ? offset : published[i].offset, published[i].address };
	entries[n] = (struct entry){ 0 };
	assert_int_equal(process_memory_open(&m, (uint32_t)getpid(), 100000, 8 << 20, &e), 0);
	int r = hotspot_layout_read(ret, &m, symbols, 0, &e);
	process_memory_close(&m);
	return r;
}

static void test_generations(void **state)
{
	struct hotspot_layout l;

	for (unsigned g = V8; g <= V26; g *= 2) {
		assert_int_equal(layout_of(g, PUBLISHED, PUBLISHED, 0, &l), 0);
		assert_int_equal(l.major, 17);
		assert_int_equal(l.at[HS_NM_DEOPT], 80);
		for (size_t i = 0; i < PUBLISHED; i++)
			if (published[i].in & g && layout_of(g, i, PUBLISHED, 0, &l) == 0)
				fail_msg("generation %u does without %s.%s", g, published[i].type, published[i].field);
	}
}

/* Fields of several generations: each has to be whole. */
static void test_mixed(void **state)
{
	struct hotspot_layout l;

	for (size_t i = 0; i < PUBLISHED; i++) {
		if (strcmp(published[i].field, "_code_end") && strcmp(published[i].field, "_immutable_data_size") &&
		    strcmp(published[i].field, "_mutable_data_size") && strcmp(published[i].field, "_relocation_size"))
			continue;
		if (layout_of(ALL, i, PUBLISHED, 0, &l) == 0)
			fail_msg("all generations do without %s.%s", published[i].type, published[i].field);
	}
	for (size_t i = 0; i < PUBLISHED; i++) /* pointers of 17, but the metadata of 23 */
		if (!strcmp(published[i].field, "_data_offset") && layout_of(V17 | V23, i, PUBLISHED, 0, &l) == 0)
			fail_msg("metadata without its offset");
}

/* A field that is not within its structure. */
static void test_forged_offsets(void **state)
{
	static const uint64_t offsets[] = { 127, 1020, 1 << 20, INT64_MAX, UINT64_MAX - 1, UINT64_MAX - 7, UINT64_MAX - 3 };
	struct hotspot_layout l;

	for (unsigned g = V8; g <= V26; g *= 2) {
		for (size_t i = 0; i < PUBLISHED; i++) {
			bool fixed = !published[i].address && published[i].in & g;
			for (size_t k = 0; fixed && k < ARRAY_LEN(offsets); k++)
				if (layout_of(g, PUBLISHED, i, offsets[k], &l) == 0)
					fail_msg("%s.%s is at %llx", published[i].type, published[i].field, (unsigned long long)offsets[k]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generations),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_forged_offsets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
