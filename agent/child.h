/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a process that reads what may be hostile or slow. */
#ifndef PYRRHA_AGENT_CHILD_H
#define PYRRHA_AGENT_CHILD_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Waits until the child ends; *ret_status is as waitpid gives it. A child that takes more than deadline_ms milliseconds, or
 * runs while *stop becomes true (NULL = never), is killed: ERR_TIMEOUT, ERR_CANCELED. It is gone afterwards in any case.
 * what: who it is, for errors ("the helper"). */
int child_wait(pid_t pid, int64_t deadline_ms, const atomic_bool *stop, const char *what, int *ret_status, struct err *e);

#endif
