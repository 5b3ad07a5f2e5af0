/* SPDX-License-Identifier: Apache-2.0 */
/* Thresholds that rule files have for shares, held against what a server has now. */
#ifndef PYRRHA_CMD_TOOL_THRESHOLDS_H
#define PYRRHA_CMD_TOOL_THRESHOLDS_H

#include "base/vec.h"
#include "cmd/tool.h"
#include "promql-like/promql.h"

struct threshold {
	char *where, *share, *profiles; /* owned */
	double number;
};

/* Zero-initialised is empty. */
struct thresholds {
	VEC(struct threshold) v;
};

/* Copies. */
void thresholds_add(struct thresholds *t, const struct promql_threshold *x, const char *where);
void thresholds_free(struct thresholds *t);
/* Warns of each that lies within three standard errors of what a series has. False: the server did not answer, which was told in the
 * name of the command. */
bool thresholds_check(const struct thresholds *t, const char *command, const struct tool_server *server, void (*warn)(void *arg, const char *text),
		      void *arg) MUST_USE;

#endif
