/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/elf_names.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"

#define PAGE 16384u
#define PAGES 64u                    /* 1 MiB: the names of some 20,000 functions of C++; most files have fewer */

struct page {
	uint64_t at;         /* offset in the section */
	uint32_t len;        /* 0 = none */
	char *bytes;         /* PAGE bytes; NULL = this page was not read yet */
};

struct elf_names {
	const struct elf_file *f;
	const Elf64_Shdr *strings;
	struct buf text;     /* a string that crosses pages */
	struct page pages[PAGES]; /* by page number */
};

struct elf_names *elf_names_new(const struct elf_file *f, const Elf64_Shdr *strings)
{
	struct elf_names *n = NEW(struct elf_names);
	n->f = f;
	n->strings = strings;
	return n;
}

void elf_names_free(struct elf_names *n)
{
	if (!n)
		return;
	for (unsigned i = 0; i < PAGES; i++)
		free(n->pages[i].bytes);
	buf_free(&n->text);
	free(n);
}

/* The rest of the page from an offset on. */
static struct view rest_of_page(struct elf_names *n, uint64_t offset)
{
	uint64_t at = offset - offset % PAGE;
	struct page *p = &n->pages[at / PAGE % PAGES];
	if (offset >= n->strings->sh_size)
		return view_make(NULL, 0);
	if (!p->len || p->at != at) {
		if (!p->bytes)
			p->bytes = xmalloc(PAGE);
		p->at = at;
		p->len = (uint32_t)MIN((uint64_t)PAGE, n->strings->sh_size - at);
		if (n->strings->sh_type == SHT_NOBITS || n->strings->sh_flags & SHF_COMPRESSED ||
		    !elf_section_read(n->f, n->strings, at, p->bytes, p->len)) {
			p->len = 0;
			return view_make(NULL, 0);
		}
	}
	return view_make(p->bytes + (offset - at), p->len - (size_t)(offset - at));
}

struct view elf_names_get(struct elf_names *n, uint64_t offset, size_t max)
{
	struct view v = rest_of_page(n, offset);
	size_t len = v.ptr ? strnlen(v.ptr, v.len) : 0;
	if (!v.ptr || len < v.len || len >= max)
		return view_make(v.ptr, MIN(len, max));
	buf_reset(&n->text);
	for (;;) {
		buf_put(&n->text, v.ptr, len);
		if (len < v.len || n->text.len >= max)
			break;
		v = rest_of_page(n, offset + n->text.len);
		if (!v.ptr)
			break;
		len = strnlen(v.ptr, v.len);
	}
	return view_make(n->text.ptr, MIN(n->text.len, max));
}
