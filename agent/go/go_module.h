/* SPDX-License-Identifier: Apache-2.0 */
/* The record that Go's linker makes of a program (runtime.firstmoduledata). It survives stripping, and tells where the program's
 * code and its trees of inlined calls begin. No pointer outside the code leads to it, so it is found by its content: it begins with
 * the addresses of the parts of the table of functions.
 *
 *	word     what it is (Go 1.18 to 1.26)
 *	0        the table's header
 *	1 .. 18  six slices {address, length, capacity} in the table: names, units, files, values by pc, functions, entries
 *	22, 23   runtime.text, runtime.etext
 *	then     pairs of data sections: four of them, from Go 1.20 on five
 *	then     end, gcdata, gcbss, types, etypes, rodata, go:func.*
 *
 * In position-independent programs of some linkers (lld) the file has zeros there and the words are relocations' addends. */
#ifndef PYRRHA_AGENT_GO_MODULE_H
#define PYRRHA_AGENT_GO_MODULE_H

#include "agent/go/gopclntab.h"

struct go_module {
	uint64_t text, gofunc;
};

/* For the table whose header t has read. False: no record, or one that is not of the layout above. */
bool go_module_find(const struct gopclntab *t, struct go_module *ret);

#endif
