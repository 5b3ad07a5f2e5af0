/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the process may use. */
#ifndef PYRRHA_BASE_MEMORY_LIMIT_H
#define PYRRHA_BASE_MEMORY_LIMIT_H

#include <stdint.h>

/* Bytes: the machine's memory, or the least limit of the control groups (version 2 and 1) of the process, if that is less. root is put
 * before /proc and /sys; "" is the machine's. Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst of Linux. */
uint64_t memory_limit(const char *root);

#endif
