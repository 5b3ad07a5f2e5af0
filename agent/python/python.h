/* SPDX-License-Identifier: Apache-2.0 */
/* CPython 3.6 to 3.13 as a runtime (agent/runtime/runtime.h). */
#ifndef PYRRHA_AGENT_PYTHON_H
#define PYRRHA_AGENT_PYTHON_H

#include "agent/runtime/runtime.h"

extern const struct runtime python_runtime;

#endif
