/* SPDX-License-Identifier: Apache-2.0 */
/* Any memory as a code object of CPython, and any bytes as the record of one. The input: minor version, 1 = the rest is a record, where
 * in the code (4 bytes), the check word (8 bytes); then memory from AT on, where the object is. */
#include <string.h>

#include "agent/python/layout.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "pycode";

#define AT 0x10000u
#define HEAD 14u
#define READS 100u

static void look(const struct runtime_file *f, struct view record, uint64_t at)
{
	struct runtime_name n[4];
	size_t got = python_frames_at(f, record, at, n, ARRAY_LEN(n));

	REQUIRE(got <= 1, "%zu frames", got);
	if (!got)
		return;
	const char *end = record.ptr + record.len;
	REQUIRE(n[0].name.ptr >= record.ptr && n[0].name.ptr + n[0].name.len <= end, "a name outside of the record");
	REQUIRE(n[0].file.ptr >= record.ptr && n[0].file.ptr + n[0].file.len <= end, "a file outside of the record");
	REQUIRE(n[0].line >= 0 && n[0].start_line >= 0, "line %lld", (long long)n[0].line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct runtime_file f = { 0 };
	struct process_memory m;
	struct buf record = { 0 };
	struct err e = { 0 };
	uint32_t at;
	uint64_t check;

	if (n < HEAD || !python_layout(data[0]))
		return 0;
	f.version = 3 << 8 | data[0];
	memcpy(&at, data + 2, sizeof at);
	memcpy(&check, data + 6, sizeof check);
	struct view rest = view_make((const char *)data + HEAD, n - HEAD);
	if (data[1] & 1) {
		look(&f, rest, at);
		return 0;
	}
	process_memory_of_bytes(&m, rest, AT, READS, 1 << 20);
	int r = python_read_code(&f, &m, AT, check, &record, &e);
	REQUIRE(r == 0 || e.code, "an error without a code");
	REQUIRE(READS - m.reads_left <= 16, "%u reads", READS - m.reads_left);
	REQUIRE(record.len <= 128 << 10, "a record of %zu bytes", record.len);
	/* An error may leave a part of a record behind. */
	look(&f, buf_view(&record), at);
	if (!r) {
		struct runtime_name name;
		REQUIRE(python_frames_at(&f, buf_view(&record), at, &name, 1) == 1, "a record that cannot be read");
	}
	buf_free(&record);
	return 0;
}
