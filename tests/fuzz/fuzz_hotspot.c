/* SPDX-License-Identifier: Apache-2.0 */
/* Any memory as what HotSpot keeps, and any bytes as the record of a method. The input begins with what the rest is:
 *
 *	0, where in the code (4 bytes)           a record
 *	1, flags, the check word (8 bytes)       memory from AT on, where the object is. Flags: 1 = tables apart from the code (23 on),
 *	                                         2 = metadata, too (25 on), 4 = numbers without 0 (20 on)
 *	2                                        memory from AT on: the values of the symbols, then tables */
#include <string.h>

#include "agent/hotspot/record.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "hotspot";

#define AT 0x10000u
#define READS 5000u
#define BYTES (8u << 20)

static void look(struct view record, uint64_t at)
{
	struct runtime_name n[8];
	size_t got = hotspot_frames_at(NULL, record, at, n, ARRAY_LEN(n));
	const char *end = record.ptr + record.len;

	REQUIRE(got <= ARRAY_LEN(n), "%zu frames", got);
	for (size_t i = 0; i < got; i++) {
		REQUIRE(n[i].name.ptr >= record.ptr && n[i].name.ptr + n[i].name.len <= end, "a name outside of the record");
		REQUIRE(n[i].system_name.ptr >= record.ptr && n[i].system_name.ptr + n[i].system_name.len <= end, "a name outside of the record");
		REQUIRE(n[i].file.ptr >= record.ptr && n[i].file.ptr + n[i].file.len <= end, "a file outside of the record");
		REQUIRE(n[i].line >= 0 && n[i].start_line >= 0, "line %lld", (long long)n[i].line);
	}
}

/* Structures of 64 bytes, but a Symbol and a PcDesc have 8. */
static struct hotspot_layout layout(uint8_t flags)
{
	struct hotspot_layout l = { .major = flags & 4 ? 21 : 17 };

	for (unsigned i = 0; i < HS_FIELDS; i++)
		l.at[i] = HS_NONE;
	for (unsigned i = 0; i < HS_TYPES_N; i++)
		l.size[i] = 64;
	l.size[HS_T_SYMBOL] = l.size[HS_T_PC] = 8;
	l.at[HS_METHOD_CONST] = l.at[HS_BLOB_NAME] = l.at[HS_CM_CONSTANTS] = l.at[HS_CLASS_NAME] = l.at[HS_POOL_HOLDER] = 0;
	l.at[HS_CM_SIZE] = l.at[HS_POOL_LENGTH] = l.at[HS_NM_COMPILE_ID] = 8;
	l.at[HS_CM_CODE_SIZE] = l.at[HS_POOL_SOURCE] = l.at[HS_NM_SCOPES_PCS] = 12;
	l.at[HS_CM_NAME] = 14;
	l.at[HS_CM_SIGNATURE] = l.at[HS_NM_METHOD] = 16;
	l.at[HS_CM_FLAGS] = 18;
	l.at[HS_SYMBOL_LENGTH] = l.at[HS_PC_OFFSET] = 0;
	l.at[HS_SYMBOL_BODY] = 2;
	l.at[HS_PC_SCOPE] = 4;
	l.at[HS_NM_SCOPES_DATA] = 24;
	l.at[HS_NM_DEPENDENCIES] = 32;
	l.at[HS_NM_METADATA] = 36;
	l.at[HS_BLOB_CODE_BEGIN] = flags & 1 ? HS_NONE : 40;
	l.at[HS_BLOB_SIZE] = 44;
	l.at[HS_BLOB_DATA_OFFSET] = 48;
	if (flags & 1) {
		l.at[HS_NM_IMMUTABLE] = 52;
		l.at[HS_NM_IMMUTABLE_SIZE] = 60;
	}
	if (flags & 2) {
		l.at[HS_BLOB_MUTABLE_DATA] = 40;
		l.at[HS_BLOB_RELOCATION_SIZE] = 48;
		l.at[HS_BLOB_MUTABLE_SIZE] = 20;
	}
	return l;
}

static void object(struct view memory, uint8_t flags, uint64_t check)
{
	struct hotspot_layout l = layout(flags);
	struct process_memory m;
	struct buf record = { 0 };
	struct err e = { 0 };
	struct runtime_name name;

	process_memory_of_bytes(&m, memory, AT, READS, BYTES);
	int r = hotspot_read_object(&l, &m, AT, check, &record, &e);
	REQUIRE(r == 0 || e.code, "an error without a code");
	if (!r) {
		REQUIRE(record.len <= HOTSPOT_RECORD_MAX, "a record of %zu bytes", record.len);
		REQUIRE(hotspot_frames_at(NULL, buf_view(&record), 0, &name, 1) == 1, "a record that cannot be read");
	}
	for (uint32_t at = 0; at < 64; at += 3)
		look(buf_view(&record), at);
	buf_free(&record);
}

static void tables(struct view memory)
{
	struct process_memory m;
	struct hotspot_layout l;
	struct hotspot_proc p;
	struct err e = { 0 };
	uint64_t symbols[HS_SYMBOLS];

	for (unsigned i = 0; i < HS_SYMBOLS; i++)
		symbols[i] = AT + 8 * i;
	process_memory_of_bytes(&m, memory, AT, READS, BYTES);
	int r = hotspot_layout_read(&l, &m, symbols, 0, &e);
	REQUIRE(r == 0 || e.code, "an error without a code");
	if (!r && hotspot_layout_proc(&l, &m, &p, &e) == 0)
		REQUIRE(p.low < p.high && p.blob_name <= 504 && p.nmethod_deopt <= 504, "what the kernel is told");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uint64_t check;
	uint32_t at;

	if (n < 5 || n > 1 << 16)
		return 0;
	struct view rest = view_make((const char *)data, n);
	if (data[0] % 3 == 0) {
		memcpy(&at, data + 1, sizeof at);
		look(view_make(rest.ptr + 5, n - 5), at);
	} else if (data[0] % 3 == 1 && n > 10) {
		memcpy(&check, data + 2, sizeof check);
		object(view_make(rest.ptr + 10, n - 10), data[1], check);
	} else if (data[0] % 3 == 2) {
		tables(view_make(rest.ptr + 1, n - 1));
	}
	return 0;
}
