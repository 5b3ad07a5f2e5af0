/* SPDX-License-Identifier: Apache-2.0 */
/* How many files and sockets the process may have open. */
#ifndef PYRRHA_BASE_FILES_H
#define PYRRHA_BASE_FILES_H

/* Raises the soft limit to the hard one, at most to 1048576. The soft limit, often 1024, is for programs that use select(). Once, before
 * threads start; children inherit it. */
void files_raise_limit(void);

#endif
