/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/names/kallsyms.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbols/symtab_writer.h"

#define KALLSYMS_MAX 2000000u

struct loading {
	struct symtab_writer w;
	uint64_t stext;
};

static int take_line(struct loading *l, char *line, struct err *e)
{
	char *end, *name, *module;
	uint64_t address = strtoull(line, &end, 16);
	if (end == line || *end != ' ' || !end[1] || end[2] != ' ' || !address)
		return 0;
	char type = (char)tolower((unsigned char)end[1]);
	name = end + 3;
	name[strcspn(name, "\n")] = 0;
	if ((type != 't' && type != 'w') || l->w.rows.n >= KALLSYMS_MAX)
		return 0;
	if (strcmp(name, "_stext") == 0)
		l->stext = address;
	module = strchr(name, '\t');
	if (module)
		*module = ' ';
	return symtab_writer_add(&l->w, address, 0, 0, view_of(name), e);
}

int kallsyms_load(struct kallsyms *k, const char *path, struct err *e)
{
	struct loading l = { .stext = 0 };
	int rc = 0;
	symtab_writer_init(&l.w);
	*k = (struct kallsyms){ .tab = { .fd = -1 } };
	path = path ? path : "/proc/kallsyms";
	FILE *f = fopen(path, "re");
	if (!f)
		return err_errno(e, errno, "cannot read %s", path);
	char line[1024];
	while (!rc && fgets(line, sizeof line, f))
		rc = take_line(&l, line, e);
	fclose(f);
	if (!rc && !l.w.rows.n)
		rc = err_set(e, ERR_DENIED, "%s hides the kernel's addresses; grant CAP_SYSLOG (or set kernel.kptr_restrict to 0) "
			     "for names of kernel functions", path);
	if (!rc)
		rc = symtab_writer_finish(&l.w, &k->tab, e);
	symtab_writer_release(&l.w);
	k->stext = l.stext;
	return rc;
}

void kallsyms_free(struct kallsyms *k)
{
	symtab_free(&k->tab);
	*k = (struct kallsyms){ .tab = { .fd = -1 } };
}
