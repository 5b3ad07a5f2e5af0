/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of /debug/pprof/symbol. */
#ifndef PYRRHA_AGENT_SERVE_SYMBOL_H
#define PYRRHA_AGENT_SERVE_SYMBOL_H

#include "agent/names/symbolize.h"
#include "base/buf.h"

/* question: addresses with '+' between them, as Go's ParseUint(word, 0, 64) reads them; others are passed over. Appends "num_symbols:
 * 1" and a line "0xADDRESS NAME" for each address that is in exactly one mapping and has a name. */
void serve_symbols(struct symbolizer *s, struct view question, struct buf *out);

#endif
