/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes into the readers of legacy profiles (words and text). What is accepted is consistent and survives encoding; what is
 * refused says why and leaves nothing. */
#include "tests/fuzz/fuzz_profile.h"

const char fuzz_target[] = "legacy";

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
	if (!fuzz_profile_read(&p, data, n))
		return 0;
	round_trip(&p);
	REQUIRE(pprof_drop_frames(&p, &e) == 0 || e.msg[0], "an error without words");
	return 0;
}
