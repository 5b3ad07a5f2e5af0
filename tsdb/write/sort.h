/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting of samples by column: the hot loop of taking a profile in. */
#ifndef PYRRHA_TSDB_SORT_H
#define PYRRHA_TSDB_SORT_H

#include "base/attrs.h"

/* Sorts by the upper 32 bits, stable; tmp has room for n. The result is in one of both: returns which. */
uint64_t *sort_by_high(uint64_t *v, uint64_t *tmp, size_t n);

#endif
