/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and their spelling. */
#ifndef PYRRHA_BASE_NUM_H
#define PYRRHA_BASE_NUM_H

#include <math.h>
#include <string.h>

#include "base/attrs.h"
#include "base/view.h"

/* Parses the whole view as a decimal float, "Inf", "+Inf", "-Inf" or "NaN" (any case); no blanks, no
 * hexadecimal. */
bool num_parse_double(struct view v, double *ret);
/* Parses the whole view as a decimal integer that fits. */
bool num_parse_i64(struct view v, int64_t *ret);
bool num_parse_u64(struct view v, uint64_t *ret);

/* v rounded half away from zero; false if it is NaN or does not fit. The only way from a number of others to an integer. */
bool num_round_i64(double v, int64_t *ret);

/* A sum of doubles and what rounding took from it (Neumaier's summation): so the result hardly ever depends on the order of the terms, which may be an
 * internal one. Only where terms of very different sizes cancel out, the last digit may. Zeroed is empty. */
struct num_sum {
	double sum, rest;
};

static inline void num_sum_add(struct num_sum *s, double v)
{
	double sum = s->sum + v;
	s->rest += fabs(s->sum) >= fabs(v) ? s->sum - sum + v : v - sum + s->sum;
	s->sum = sum;
}

/* A sum that is infinite or no number has no rest. */
static inline double num_sum_value(struct num_sum s)
{
	return isfinite(s.sum) ? s.sum + s.rest : s.sum;
}

/* Writes v in decimal without a NUL and returns its end. p has NUM_I64_LEN bytes, of which those behind the end may be written, too. */
#define NUM_I64_LEN 20
char *num_put_i64(char *p, int64_t v);
/* The digits of a number, the first one first, and how many they are. */
extern const char num_below_1000[1000][4];
/* The same as num_put_i64, for numbers most of which are below 1,000. */
static inline char *num_put_small(char *p, int64_t v)
{
	if (UNLIKELY((uint64_t)v >= 1000))
		return num_put_i64(p, v);
	memcpy(p, num_below_1000[v], 4);
	return p + num_below_1000[v][3];
}

#define NUM_LEN 32
/* The shortest text that reads back as the same double; "NaN", "+Inf", "-Inf". Whole numbers below 1e15 have no
 * exponent. Returns out. */
char *num_format(double v, char out[NUM_LEN]);
/* The shortest digits d1d2d3... of a positive number that read back as the same double: at least 15 before trailing zeros
 * are removed, at most 17. v = d1.d2d3... * 10^exponent. Ten times as fast as printf and strtod. False for a few numbers,
 * and for all outside of 1e-4 to 1e15: then it takes those. */
bool num_digits(double v, char digits[NUM_LEN], int *ret_n, int *ret_exponent);

#endif
