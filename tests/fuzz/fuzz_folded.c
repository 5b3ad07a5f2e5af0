/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes where folded text was asked for, and where not. What is accepted is consistent, and what is accepted unasked is the
 * same when asked. */
#include "pprof/pprof.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "folded";

static const struct pprof_folded said = { "wall", "nanoseconds" };

static int decode(const uint8_t *data, size_t n, const struct pprof_folded *folded, struct profile *p)
{
	const struct pprof_limits limits = { .max_bytes = 1 << 20, .max_samples = 5000, .max_depth = 500, .max_strings = 5000,
					     .max_locations = 5000, .folded = folded };
	struct err e = { 0 };
	profile_init(p, (size_t)64 << 20);
	int rc = pprof_decode(data, n, &limits, p, &e);
	REQUIRE(!rc || (e.code == (enum err_code)-rc && e.msg[0]), "%d", rc);
	REQUIRE(rc || profile_check(p, &e) == 0, "%s", e.msg);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct profile plain CLEANUP(profile_release), asked CLEANUP(profile_release);
	int a = decode(data, n, NULL, &plain), b = decode(data, n, &said, &asked);
	REQUIRE(a || !b, "only unasked");
	REQUIRE(a || (plain.n_samples == asked.n_samples && plain.n_stack == asked.n_stack), "%u samples and %u", plain.n_samples, asked.n_samples);
	return 0;
}
