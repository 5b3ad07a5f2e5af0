/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets that read profiles share: limits, and what holds of every refusal. */
#ifndef PYRRHA_TESTS_FUZZ_PROFILE_H
#define PYRRHA_TESTS_FUZZ_PROFILE_H

#include "pprof/pprof.h"
#include "tests/fuzz/fuzz.h"

/* Reads it within small limits. False: it is none, for a reason that is told, and nothing of it is left. */
static inline bool fuzz_profile_read(struct profile *p, const uint8_t *data, size_t n)
{
	static const struct pprof_limits limits = {
		.max_compressed = 1 << 16, .max_bytes = 1 << 20, .max_samples = 5000, .max_depth = 500, .max_labels = 20,
		.max_sample_types = 8, .max_strings = 5000, .max_locations = 5000,
	};
	struct err e = { 0 };
	profile_init(p, (size_t)64 << 20);
	int rc = pprof_decode(data, n, &limits, p, &e);
	if (rc) {
		REQUIRE(e.code == (enum err_code)-rc && e.msg[0] && (e.code == ERR_BAD_DATA || e.code == ERR_LIMIT), "%d", rc);
		REQUIRE(!p->n_samples && !p->arena.used, "%u samples are left", p->n_samples);
		return false;
	}
	REQUIRE(profile_check(p, &e) == 0, "%s", e.msg);
	return true;
}

#endif
