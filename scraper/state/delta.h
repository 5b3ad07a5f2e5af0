/* SPDX-License-Identifier: Apache-2.0 */
/* Turns cumulative profiles into increases: stores the previous scrape of one profile, per stack and sample labels, and subtracts it.
 *
 * A stack is known again by its content, as google/pprof's merge knows it: locations by mapping, address relative to
 * it and lines, plus the sample's labels; 128 bits of hash stand for that.
 *
 * A value that fell resets all cumulative columns of the profile: the new profile is then itself the increase. Absent counts as 0, so
 * a stack of value 0 may vanish. Whether one fell is decided by stacks as people read them: function, file and line where a location
 * has names, else its address. So code that moves (a JIT compiles it again elsewhere) resets nothing: the growth of all stacks with
 * the same names is spread over those of them that grew, in their order. */
#ifndef PYRRHA_SCRAPER_DELTA_H
#define PYRRHA_SCRAPER_DELTA_H

#include "base/budget.h"
#include "base/map.h"
#include "model/profile.h"

struct delta_key {
	uint64_t a, b;
};

struct delta {
	struct map index;       /* key.a -> row */
	struct delta_key *keys;
	uint64_t *names;        /* by row: hash of the stack as people read it, and of its labels */
	int64_t *values;        /* n_rows * n_columns */
	size_t n_rows;
	uint32_t n_columns;
	bool primed;            /* there was a scrape before */
	struct budget *budget;  /* borrowed; NULL = none */
	size_t held;            /* bytes that the budget counts */
};

enum delta_result { DELTA_BASELINE, DELTA_INCREASE, DELTA_RESET };

/* columns: which of p's sample types are cumulative. out has the shape of p->values. The chosen columns are set to the increase, on
 * the first sample of each stack (the others get 0); the rest is unchanged. Nothing is set for DELTA_BASELINE. The values of p become
 * the baseline. A different number of columns starts again. Work space comes from p's arena (ERR_LIMIT). ERR_UNAVAILABLE: the budget
 * has no room for the baseline, the old one stays. Returns enum delta_result or negative. */
int delta_apply(struct delta *d, struct profile *p, const uint32_t *columns, uint32_t n_columns, int64_t *out,
		struct err *e) MUST_USE;
/* As if nothing had been scraped; the budget stays. */
void delta_release(struct delta *d);
size_t delta_bytes(const struct delta *d);

#endif
