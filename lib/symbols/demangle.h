/* SPDX-License-Identifier: Apache-2.0 */
/* C++ and Rust names as people read them. */
#ifndef PYRRHA_SYMBOLS_DEMANGLE_H
#define PYRRHA_SYMBOLS_DEMANGLE_H

#include "base/buf.h"

#define DEMANGLE_MAX 4096 /* longer names stay unchanged: demangling is superlinear in the worst case */

/* Appends the readable form; false (and nothing appended) if the name is not mangled or cannot be read. */
bool demangle(struct view name, struct buf *out);

#endif
