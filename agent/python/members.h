/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of PyMemberDef in a file: what CPython shows of an object's fields to Python itself, with their offsets.
 *
 *	PyTypeObject: tp_members at 240
 *	PyMemberDef:  name 0, type 8, offset 16, flags 24, doc 32; ends with name 0
 *
 * In a file that is linked to lie anywhere the pointers are set by relocations. */
#ifndef PYRRHA_AGENT_PYTHON_MEMBERS_H
#define PYRRHA_AGENT_PYTHON_MEMBERS_H

#include "elf/elf_file.h"

struct member_offset {
	const char *name;
	uint64_t offset;
};

/* Whether what the type's table says of these fields is what is expected: false if one has another offset. Fields that it does not have,
 * and a table that cannot be read, say nothing. *ret_found: how many it has. */
bool members_agree(const struct elf_file *f, const char *type, const struct member_offset *expected, size_t n, unsigned *ret_found);

#endif
