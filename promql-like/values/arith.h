/* SPDX-License-Identifier: Apache-2.0 */
/* The result of an operator on two numbers. */
#ifndef PYRRHA_PROMQL_ARITH_H
#define PYRRHA_PROMQL_ARITH_H

#include <math.h>

#include "promql-like/syntax/ast.h"

/* The number of an operator, 1 or 0 of a comparison. */
static inline double binary_number(enum binary_op op, double a, double b)
{
	switch (op) {
	case OP_ADD: return a + b;
	case OP_SUB: return a - b;
	case OP_MUL: return a * b;
	case OP_DIV: return a / b;
	case OP_MOD: return fmod(a, b);
	case OP_POW: return pow(a, b);
	case OP_ATAN2: return atan2(a, b);
	case OP_EQ: return a == b;
	case OP_NE: return a != b;
	case OP_LT: return a < b;
	case OP_LE: return a <= b;
	case OP_GT: return a > b;
	case OP_GE: return a >= b;
	default: return NAN;
	}
}

#endif
