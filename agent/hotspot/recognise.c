/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are HotSpot, and where in a process's memory the kernel finds its frames. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/hotspot/recognise.h"
#include "agent/hotspot/record.h"
#include "base/alloc.h"
#include "base/num.h"
#include "elf/elf_symbol.h"

#define PIECE ((size_t)64 << 10)
#define OVERLAP 32                   /* bytes that two pieces share: one of them has the mark and the number whole */
#define VERSION_BYTES_MAX ((uint64_t)32 << 20) /* of constants that are searched for the version */

struct facts {
	uint64_t symbols[HS_SYMBOLS];
};

bool hotspot_symbols(const struct elf_file *f, uint64_t ret[HS_SYMBOLS])
{
	Elf64_Sym sym;

	for (unsigned i = 0; i < HS_SYMBOLS; i++) {
		if (!elf_symbol(f, hotspot_symbol_names[i], &sym))
			return false;
		ret[i] = sym.st_value;
	}
	return true;
}

/* "17.0.9+9" is 17, "1.8.0_392-b08" is 8. */
static unsigned major_of(struct view v)
{
	uint64_t n = 0;
	struct view first = view_cut(&v, '.');
	size_t digits = 0;

	if (view_eqs(first, "1"))
		first = v;
	while (digits < first.len && digits < 4 && first.ptr[digits] >= '0' && first.ptr[digits] <= '9')
		digits++;
	return num_parse_u64(view_make(first.ptr, digits), &n) ? (unsigned)n : 0;
}

/* The major version, by what `java -version` prints: "... for linux-amd64 JRE (17.0.9+9), built on ...". 0: it is not there. */
static unsigned find_version(const struct elf_file *f)
{
	const struct view mark = VIEW(" JRE (");
	const Elf64_Shdr *sh = elf_section(f, ".rodata");
	unsigned major = 0;

	if (!sh)
		return 0;
	AUTOFREE char *piece = xmalloc(PIECE);
	for (uint64_t at = 0; !major && at < MIN((uint64_t)sh->sh_size, VERSION_BYTES_MAX); at += PIECE - OVERLAP) {
		size_t n = (size_t)MIN(sh->sh_size - at, (uint64_t)PIECE);
		if (!elf_section_read(f, sh, at, piece, n))
			return 0;
		const char *p = memmem(piece, n, mark.ptr, mark.len);
		if (p)
			major = major_of(view_make(p + mark.len, n - (size_t)(p - piece) - mark.len));
	}
	return major;
}

struct runtime_file *hotspot_recognise(const struct elf_file *f)
{
	uint64_t symbols[HS_SYMBOLS];

	if (!hotspot_symbols(f, symbols))
		return NULL;
	struct runtime_file *r = NEW(struct runtime_file);
	struct facts *x = NEW(struct facts);
	unsigned major = find_version(f);
	memcpy(x->symbols, symbols, sizeof symbols);
	*r = (struct runtime_file){ .version = major << 8, .facts = x };
	if (major)
		snprintf(r->label, sizeof r->label, "hotspot%u", major);
	else
		snprintf(r->label, sizeof r->label, "hotspot");
	if (major && major < 8)
		snprintf(r->why_not, sizeof r->why_not, "HotSpot %u is too old: frames are named from 8 on", major);
	return r;
}

void hotspot_free_file(struct runtime_file *f)
{
	free(f->facts);
	free(f);
}

int hotspot_attach(const struct runtime_file *f, struct process_memory *m, uint64_t bias, struct runtime_proc *ret, struct err *e)
{
	struct facts *x = f->facts;
	struct runtime_proc p = { 0 };
	struct hotspot_layout l;
	int rc;

	if ((rc = hotspot_layout_read(&l, m, x->symbols, bias, e)) || (rc = hotspot_layout_proc(&l, m, &p.hotspot, e)))
		return rc;
	free(m->facts);
	m->facts = memcpy(xmalloc(sizeof l), &l, sizeof l);
	*ret = p;
	return 0;
}

int hotspot_read_code(const struct runtime_file *f, struct process_memory *m, uint64_t object, uint64_t check, struct buf *ret_record,
		      struct err *e)
{
	const struct hotspot_layout *l = m->facts;

	if (!l)
		return err_set(e, ERR_NOT_FOUND, "process %u: it was not attached to", m->pid);
	return hotspot_read_object(l, m, object, check, ret_record, e);
}
