/* SPDX-License-Identifier: Apache-2.0 */
/* Float samples and Prometheus's markers among the NaNs. */
#ifndef PYRRHA_MODEL_VALUE_H
#define PYRRHA_MODEL_VALUE_H

#include "base/attrs.h"

/* prometheus/model/value: the payload that says "this series ended here", compared bit by bit. */
#define VALUE_STALE_BITS UINT64_C(0x7ff0000000000002)
#define VALUE_NORMAL_NAN_BITS UINT64_C(0x7ff8000000000001)

struct point {
	int64_t t_ms;
	double v;
};

static inline uint64_t value_bits(double v)
{
	union { double d; uint64_t u; } x = { .d = v };
	return x.u;
}

static inline double value_from_bits(uint64_t u)
{
	union { uint64_t u; double d; } x = { .u = u };
	return x.d;
}

static inline bool value_is_stale(double v)
{
	return value_bits(v) == VALUE_STALE_BITS;
}

#endif
