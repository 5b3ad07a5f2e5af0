/* SPDX-License-Identifier: Apache-2.0 */
/* The agent keeps the capabilities it needs and drops the rest (for all of its threads: call it before any starts). */
#ifndef PYRRHA_AGENT_CAPS_H
#define PYRRHA_AGENT_CAPS_H

#include "base/buf.h"
#include "base/err.h"

/* Drops what caps.c's table does not list, from all sets, and forbids to gain any by exec. */
int caps_drop(struct err *e) MUST_USE;
/* A line for each capability of the table that is missing: its name and what is lost without it. */
void caps_report(struct buf *out);

#endif
