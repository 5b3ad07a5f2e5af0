/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a mangled name: what is made of it has a bound, and what is refused leaves nothing. */
#include "symbols/demangle.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "demangle";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct buf out = { 0 };
	bool ok = demangle(view_make((const char *)data, n), &out);
	REQUIRE(ok ? out.len > 0 && out.len <= (size_t)1 << 20 : out.len == 0, "%zu bytes", out.len);
	buf_free(&out);
	return 0;
}
