/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are CPython, and where in the memory of a process that maps one the kernel finds its frames. */
#include <stdlib.h>

#include "agent/python/layout.h"

/* Not yet: no file is one, so that nothing is attached. */
struct runtime_file *python_recognise(const struct elf_file *f, const char *path)
{
	(void)f, (void)path;
	return NULL;
}

void python_free_file(struct runtime_file *f)
{
	free(f);
}

int python_attach(const struct runtime_file *f, struct process_memory *m, uint64_t bias, struct runtime_proc *ret, struct err *e)
{
	(void)f, (void)m, (void)bias, (void)ret;
	return err_set(e, ERR_UNAVAILABLE, "CPython: not yet");
}
