/* SPDX-License-Identifier: Apache-2.0 */
/* Start and stop of the programs that run until they are told to end: the server and the agent. */
#ifndef PYRRHA_CMD_PROGRAM_H
#define PYRRHA_CMD_PROGRAM_H

#include <signal.h>

#include "base/err.h"

/* The values of --log.level and --log.format. ERR_BAD_DATA names the flag. */
int program_set_log(const char *level, const char *format, struct err *e) MUST_USE;
/* Before the first thread starts: SIGTERM, SIGINT and SIGHUP wait for program_wait; a peer that is gone is an error of its write. */
void program_block_signals(sigset_t *ret);
/* Waits until the program is told to end, and logs it; calls reload at each SIGHUP. */
void program_wait(const sigset_t *signals, void (*reload)(void *arg), void *arg);
/* From now on: after so many seconds the program says so and ends with status 1, whatever still runs. 0: it may take its time. */
void program_end_within(unsigned seconds);

#endif
