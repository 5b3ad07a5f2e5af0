/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzz targets of discovery ask of a group, whatever it was made from. */
#ifndef PYRRHA_TESTS_FUZZ_SD_H
#define PYRRHA_TESTS_FUZZ_SD_H

#include "base/utf8.h"
#include "discovery/discovery.h"
#include "tests/fuzz/fuzz.h"

/* Sorted, unique, no empty names or values, UTF-8. */
static inline void sd_check_labels(struct labels l)
{
	for (size_t i = 0; i < l.n; i++) {
		REQUIRE(l.v[i].name.len && l.v[i].value.len, "label %zu is empty", i);
		REQUIRE(utf8_valid(l.v[i].name) && utf8_valid(l.v[i].value), "label %zu is not UTF-8", i);
		REQUIRE(!i || view_cmp(l.v[i - 1].name, l.v[i].name) < 0, "labels %zu and %zu are not in order", i - 1, i);
	}
}

static inline void sd_check_group(const struct discovery_group *g)
{
	sd_check_labels(g->labels);
	for (size_t i = 0; i < g->n_targets; i++)
		sd_check_labels(g->targets[i]);
}

#endif
