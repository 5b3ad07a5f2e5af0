/* SPDX-License-Identifier: Apache-2.0 */
/* Any memory as objects of V8, and any bytes as the record of one. The input: which layout, 1 = the rest is a record, what sort of object,
 * where in memory that is (2 bytes), where in the object (4 bytes), the check word (8 bytes); then memory from AT on. */
#include <string.h>

#include "agent/v8/layout.h"
#include "agent/v8/v8.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "v8code";

#define AT 0x10000u
#define HEAD 17u
#define READS 512u
#define NAMES 64u

enum { SHARED = 200, CODE, ARRAY, SCOPE, SCRIPT, BYTES, FIXED, FUNCTION, BASELINE, INTERPRETER, WRAPPER };

static uint8_t bytecode_bytes[3 * 16] = { 1, 1, 1, 1, 2, 3, 4, 1, 1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 3, 5, 7, 1, 1, 1, 1, 1, 1, 1, 3 };
static struct v8_facts facts = {
	.l = { .function_shared = 32, .shared_name = 16, .shared_script = 32, .shared_lengths = 40, .script_name = 16, .script_source = 8,
	       .script_line_ends = 56, .wrapper_shared = 8, .map_type = 12, .code_start = 40, .code_bytes = 52, .code_flags = 48,
	       .code_deopt = 8, .code_positions = 16, .kind_baseline = 10, .kind_regexp = 4, .array_data = 64, .array_positions = 24,
	       .deopt_literals = 2, .deopt_shared = 6, .deopt_inlining = 7, .type_function_first = FUNCTION, .type_function_last = FUNCTION,
	       .type_shared = SHARED, .type_code = CODE, .type_array = ARRAY, .type_scope = SCOPE, .type_script = SCRIPT,
	       .type_no_string = 128, .type_bytes = BYTES, .type_fixed = FIXED, .type_baseline_data = BASELINE,
	       .type_interpreter_data = INTERPRETER, .type_wrapper = WRAPPER },
	.bytecode_bytes = bytecode_bytes,
	.n_bytecodes = 16,
};
static const struct runtime_file file = { .version = V8_VERSION(12, 4), .facts = &facts };

static size_t look(struct view record, uint64_t at)
{
	struct runtime_name n[NAMES];
	size_t got = v8_runtime.frames_at(&file, record, at, n, NAMES);
	const char *end = record.ptr + record.len;

	REQUIRE(got <= NAMES, "%zu frames", got);
	for (size_t i = 0; i < got; i++) {
		REQUIRE(n[i].name.ptr >= record.ptr && n[i].name.ptr + n[i].name.len <= end, "a name outside of the record");
		REQUIRE(n[i].file.ptr >= record.ptr && n[i].file.ptr + n[i].file.len <= end, "a file outside of the record");
		REQUIRE(n[i].line >= 0 && n[i].start_line >= 0, "line %lld", (long long)n[i].line);
	}
	return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct process_memory m;
	struct buf record = { .max = 128 << 10 };
	struct err e = { 0 };
	uint16_t object;
	uint32_t at;
	uint64_t check;

	if (n < HEAD)
		return 0;
	facts.l.stream_bytes = data[0] & 1 ? 32 : 0;
	facts.l.position_kind_bits = data[0] & 2;
	facts.l.scope_first = data[0] & 4 ? 5 : 3;
	facts.l.scope_has_receiver = data[0] >> 3 & 1;
	facts.l.safepoint_words = data[0] >> 4 & 1;
	facts.l.safepoint_slots = data[0] >> 5 & 1;
	facts.l.kind_maglev = data[0] >> 6 & 1 ? 11 : 0;
	memcpy(&object, data + 3, sizeof object);
	memcpy(&at, data + 5, sizeof at);
	memcpy(&check, data + 9, sizeof check);
	struct view rest = view_make((const char *)data + HEAD, n - HEAD);
	if (data[1] & 1) {
		look(rest, at);
		return 0;
	}
	process_memory_of_bytes(&m, rest, AT, READS, 1 << 20);
	int r = v8_runtime.read_code(&file, &m, V8_OBJECT(data[2] & 7, AT + object), check, &record, &e);
	REQUIRE(r == 0 || e.code, "an error without a code");
	REQUIRE(record.len <= 128 << 10, "a record of %zu bytes", record.len);
	/* An error may leave a part of a record behind. */
	size_t got = look(buf_view(&record), at);
	REQUIRE(r || record.overflow || got, "a record that cannot be read");
	buf_free(&record);
	return 0;
}
