/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kallsyms.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"

#define KALLSYMS_MAX 2000000u

struct loading {
	VEC(struct symtab_entry) entries;
	struct buf names;
	uint64_t stext;
};

static void take_line(struct loading *l, char *line)
{
	char *end, *name, *module;
	uint64_t address = strtoull(line, &end, 16);
	if (end == line || *end != ' ' || !end[1] || end[2] != ' ' || !address)
		return;
	char type = (char)tolower((unsigned char)end[1]);
	name = end + 3;
	name[strcspn(name, "\n")] = 0;
	if ((type != 't' && type != 'w') || l->entries.n >= KALLSYMS_MAX)
		return;
	if (strcmp(name, "_stext") == 0)
		l->stext = address;
	module = strchr(name, '\t');
	if (module)
		*module = ' ';
	vec_push(&l->entries, (struct symtab_entry){ address, 0, (uint32_t)l->names.len });
	buf_put(&l->names, name, strlen(name) + 1);
}

int kallsyms_load(struct kallsyms *k, const char *path, struct err *e)
{
	struct loading l = { .names = { .max = (size_t)256 << 20 } };
	*k = (struct kallsyms){ .tab = { .fd = -1 } };
	path = path ? path : "/proc/kallsyms";
	FILE *f = fopen(path, "re");
	if (!f)
		return err_errno(e, errno, "cannot read %s", path);
	char line[1024];
	while (fgets(line, sizeof line, f))
		take_line(&l, line);
	fclose(f);
	int rc = l.entries.n ? symtab_build_from(&k->tab, l.entries.v, l.entries.n, buf_view(&l.names), e)
			     : err_set(e, ERR_DENIED, "%s hides the kernel's addresses; grant CAP_SYSLOG (or set "
				       "kernel.kptr_restrict to 0) for names of kernel functions", path);
	k->stext = l.stext;
	vec_free(&l.entries);
	buf_free(&l.names);
	return rc;
}

void kallsyms_free(struct kallsyms *k)
{
	symtab_free(&k->tab);
	*k = (struct kallsyms){ .tab = { .fd = -1 } };
}
