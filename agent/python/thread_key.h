/* SPDX-License-Identifier: Apache-2.0 */
/* Where CPython keeps its thread states: read from the code of PyGILState_GetThisThreadState. Up to 3.14 it passes a pthread key to the
 * function that looks it up, later it reads a thread-local variable. Both hold a thread's state also while that waits without the global
 * lock. */
#ifndef PYRRHA_AGENT_THREAD_KEY_H
#define PYRRHA_AGENT_THREAD_KEY_H

#include "agent/runtime/runtime.h"

#define THREAD_KEY_CODE_MAX 512

/* Finds the virtual address of the key, a u32. code: of the function, n bytes that lie at `at`. runtime: of _PyRuntime, which a load
 * through the global offset table gives, and in which the key lies. Empty (3.6): the key is a variable of its own. */
bool thread_key_find(const uint8_t *code, size_t n, uint64_t at, struct runtime_range runtime, uint64_t *ret);

/* From 3.15 on: the offset of the variable from fsbase. False: it is not read at a place that the code says, as in a library that may be
 * loaded late. */
bool thread_tls_find(const uint8_t *code, size_t n, int64_t *ret);

#endif
