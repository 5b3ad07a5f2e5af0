/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the codec's files. */
#ifndef PYRRHA_PPROF_INTERNAL_H
#define PYRRHA_PPROF_INTERNAL_H

#include "pprof/pprof.h"

/* lim with the defaults in place of zeros. */
struct pprof_limits pprof_limits_or_default(const struct pprof_limits *lim);

#endif
