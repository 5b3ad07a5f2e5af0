/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: protobuf-c's reading of a profile, made into the flat model the slow and plain way, and a comparison. Every profile that
 * the fast decoder accepts must equal the oracle's. Not part of the library. */
#ifndef PYRRHA_PPROF_ORACLE_H
#define PYRRHA_PPROF_ORACLE_H

#include "base/buf.h"
#include "base/err.h"
#include "model/profile.h"

/* out is initialised and is reset first; it owns what it holds. Raw bytes only. */
int oracle_decode(const void *raw, size_t n, struct profile *out, struct err *e) MUST_USE;
/* The first difference, in words; NULL: none. Valid until the next call. */
const char *oracle_difference(const struct profile *a, const struct profile *b);

#endif
