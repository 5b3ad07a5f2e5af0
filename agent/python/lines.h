/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of CPython's code, by its own tables. Pure; a damaged table gives some line or none, and ends. The room's own header. */
#ifndef PYRRHA_AGENT_PYTHON_LINES_H
#define PYRRHA_AGENT_PYTHON_LINES_H

#include "base/view.h"

/* The line of the instruction at that byte of the code (negative: before the first one) by the table as 3.minor has it; 0: it has none.
 * first_line: of the function, and of the instructions that begin it and have no line. */
int64_t python_line(unsigned minor, struct view table, int64_t first_line, int64_t at);

#endif
