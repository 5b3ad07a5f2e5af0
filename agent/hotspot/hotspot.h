/* SPDX-License-Identifier: Apache-2.0 */
/* HotSpot, the Java virtual machine of OpenJDK: 11 to 25, and 8 by its layout. */
#ifndef PYRRHA_AGENT_HOTSPOT_H
#define PYRRHA_AGENT_HOTSPOT_H

#include "agent/runtime/runtime.h"

extern const struct runtime hotspot_runtime;

#endif
