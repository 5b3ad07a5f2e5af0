/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as Go reads them. */
#ifndef PYRRHA_RULES_TEMPLATE_NUMBER_H
#define PYRRHA_RULES_TEMPLATE_NUMBER_H

#include "base/view.h"

/* strconv.ParseFloat: decimal and hexadecimal, "_" between digits, inf, infinity and nan. False: malformed, or *ret_range: too
 * large. */
bool go_parse_float(struct view v, double *ret, bool *ret_range);
/* Go's conversion on amd64: what does not fit becomes the smallest. */
int64_t go_int_of(double v);

#endif
