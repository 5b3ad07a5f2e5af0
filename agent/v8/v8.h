/* SPDX-License-Identifier: Apache-2.0 */
/* V8 9.4 to 14 (Node 16 to 26) as a runtime (agent/runtime/runtime.h). */
#ifndef PYRRHA_AGENT_V8_H
#define PYRRHA_AGENT_V8_H

#include "agent/runtime/runtime.h"

extern const struct runtime v8_runtime;

#endif
