/* SPDX-License-Identifier: Apache-2.0 */
/* The caps on hostile input. The largest profiles seen in earnest have some hundred thousand samples and ten
 * megabytes; the defaults leave room for ten times that. */
#include "pprof/internal.h"

const struct pprof_limits pprof_default_limits = {
	.max_compressed = (size_t)64 << 20,
	.max_bytes = (size_t)256 << 20,
	.max_samples = 4000000,
	.max_depth = 4096,
	.max_labels = 256,
	.max_sample_types = 64,
	.max_strings = 4000000,
	.max_locations = 1000000,
};

struct pprof_limits pprof_limits_or_default(const struct pprof_limits *lim)
{
	struct pprof_limits l = pprof_default_limits;
	if (!lim)
		return l;
#define TAKE(field) do { if (lim->field) l.field = lim->field; } while (0)
	TAKE(max_compressed);
	TAKE(max_bytes);
	TAKE(max_samples);
	TAKE(max_depth);
	TAKE(max_labels);
	TAKE(max_sample_types);
	TAKE(max_strings);
	TAKE(max_locations);
	TAKE(go_on);
	TAKE(go_on_arg);
	TAKE(asked_ns);
	TAKE(folded);
#undef TAKE
	/* offsets and indices are 32 bits wide */
	l.max_bytes = MIN(l.max_bytes, (size_t)UINT32_MAX);
	return l;
}
