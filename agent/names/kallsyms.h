/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's own symbols, from /proc/kallsyms, as a symtab. */
#ifndef PYRRHA_AGENT_KALLSYMS_H
#define PYRRHA_AGENT_KALLSYMS_H

#include "symbols/symtab.h"

struct kallsyms {
	struct symtab tab;
	uint64_t stext; /* 0 = not known: addresses are hidden from us (needs CAP_SYSLOG) */
};

/* path: NULL = /proc/kallsyms. ERR_DENIED if all addresses read zero. Names of modules' functions end in " [module]". */
int kallsyms_load(struct kallsyms *k, const char *path, struct err *e) MUST_USE;
void kallsyms_free(struct kallsyms *k);

#endif
