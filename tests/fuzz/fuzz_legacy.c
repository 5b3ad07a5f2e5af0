/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes into the readers of legacy profiles (words and text). What is accepted is consistent and survives encoding; what is
 * refused says why and leaves nothing. */
#include "pprof/pprof.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "legacy";

static const struct pprof_limits limits = {
	.max_compressed = 1 << 16, .max_bytes = 1 << 20, .max_samples = 5000, .max_depth = 500, .max_labels = 20,
	.max_sample_types = 8, .max_strings = 5000, .max_locations = 5000,
};

static void round_trip(const struct profile *p)
{
	struct buf out CLEANUP(buf_free) = { 0 };
	struct profile again CLEANUP(profile_release);
	struct err e = { 0 };
	profile_init(&again, 0);
	REQUIRE(pprof_encode(p, &out, &e) == 0, "%s", e.msg);
	REQUIRE(pprof_decode(out.ptr, out.len, NULL, &again, &e) == 0, "%s", e.msg);
	REQUIRE(again.n_samples == p->n_samples && again.n_stack == p->n_stack, "%u samples of %u", again.n_samples, p->n_samples);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct profile p CLEANUP(profile_release);
	struct err e = { 0 };
	profile_init(&p, (size_t)64 << 20);
	int rc = pprof_decode(data, n, &limits, &p, &e);
	if (rc) {
		REQUIRE(e.code == (enum err_code)-rc && e.msg[0] && (e.code == ERR_BAD_DATA || e.code == ERR_LIMIT), "%d", rc);
		REQUIRE(!p.n_samples && !p.arena.used, "%u samples are left", p.n_samples);
		return 0;
	}
	REQUIRE(profile_check(&p, &e) == 0, "%s", e.msg);
	round_trip(&p);
	REQUIRE(pprof_drop_frames(&p, &e) == 0 || e.msg[0], "an error without words");
	return 0;
}
