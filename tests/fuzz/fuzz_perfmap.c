/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a perf-map. It does not matter in how many pieces they came; names have bounds. */
#include <string.h>

#include "agent/names/perfmap.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "perfmap";

static void compare(struct perfmap *a, struct perfmap *b, uint64_t address)
{
	struct buf x = { 0 }, y = { 0 };
	bool found = perfmap_lookup(a, address, &x);
	REQUIRE(found == perfmap_lookup(b, address, &y), "found once, at %llx", (unsigned long long)address);
	REQUIRE(view_eq(buf_view(&x), buf_view(&y)), "another name at %llx", (unsigned long long)address);
	REQUIRE(x.len <= PERFMAP_NAME_MAX && !memchr(x.ptr ? x.ptr : "", '\n', x.len), "a name of %zu bytes", x.len);
	buf_free(&x);
	buf_free(&y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct perfmap whole, pieces;
	size_t cut = n ? data[0] % n : 0;
	perfmap_init(&whole);
	perfmap_init(&pieces);
	REQUIRE(perfmap_append(&whole, view_make((const char *)data, n)), "no room");
	REQUIRE(perfmap_append(&pieces, view_make((const char *)data, cut)), "no room");
	REQUIRE(perfmap_append(&pieces, view_make((const char *)data + cut, n - cut)), "no room");
	REQUIRE(whole.entries.n == pieces.entries.n, "%zu and %zu entries", whole.entries.n, pieces.entries.n);
	for (size_t i = 0; i < whole.entries.n && i < 200; i++) {
		compare(&whole, &pieces, whole.entries.v[i].start);
		compare(&whole, &pieces, whole.entries.v[i].start + whole.entries.v[i].size);
	}
	perfmap_free(&whole);
	perfmap_free(&pieces);
	return 0;
}
