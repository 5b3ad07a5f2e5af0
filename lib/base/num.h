/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and their spelling. */
#ifndef PYRRHA_BASE_NUM_H
#define PYRRHA_BASE_NUM_H

#include "base/view.h"

/* The whole view as a decimal float, "Inf", "+Inf", "-Inf" or "NaN" (any case); no blanks, no hexadecimal. */
bool num_parse_double(struct view v, double *ret);
/* The whole view as a decimal integer that fits. */
bool num_parse_i64(struct view v, int64_t *ret);
bool num_parse_u64(struct view v, uint64_t *ret);

#define NUM_LEN 32
/* The shortest text that reads back as the same double; "NaN", "+Inf", "-Inf". Whole numbers below 1e15 have no
 * exponent. Returns out. */
char *num_format(double v, char out[NUM_LEN]);

#endif
