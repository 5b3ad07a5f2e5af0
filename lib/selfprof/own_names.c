/* SPDX-License-Identifier: Apache-2.0 */
#include "selfprof/own_names.h"

#include <stdio.h>
#include <unistd.h>

#include "symbols/debug_file.h"
#include "symbols/demangle.h"
#include "symbols/tempfile.h"

#define KNOWN_MAX 65536u                     /* addresses */
#define TEXT_MAX ((size_t)32 << 20)          /* bytes of their strings */
#define DEBUG_BYTES_MAX ((uint64_t)64 << 20) /* of .debug_info: beyond, names come without lines */

void own_names_init(struct own_names *n)
{
	*n = (struct own_names){ 0 };
	arena_init(&n->text, 0);
}

static void forget(struct own_names *n)
{
	map_clear(&n->index);
	n->known.n = n->calls.n = 0;
	arena_reset(&n->text);
}

static uint64_t section_bytes(const struct elf_file *f, const char *name)
{
	const Elf64_Shdr *s = elf_section(f, name);

	return s && s->sh_type != SHT_NOBITS ? s->sh_size : 0;
}

/* Whether reading the debug information, the file's own or that of its debug file, takes a bounded time. */
static bool has_lines(const struct own_image *im, const char *build_id)
{
	uint64_t n = section_bytes(&im->elf, ".debug_info");
	struct elf_file f;
	int fd = n ? -1 : debug_file_by_build_id(build_id);

	if (fd >= 0 && elf_open(&f, fd, NULL) == 0) {
		n = section_bytes(&f, ".debug_info");
		elf_close(&f);
	}
	if (fd >= 0)
		close(fd);
	return n > 0 && n <= DEBUG_BYTES_MAX;
}

static void read_lines(struct own_symbols *s, const char *build_id)
{
	bool whole;
	struct err e;
	int fd = has_lines(s->image, build_id) ? tempfile_open("lines", &e) : -1;

	if (fd >= 0 && (dwarf_index_write(s->image->fd, fd, false, &whole, &e) || dwarf_index_open(&s->lines, fd, &e))) {
		close(fd);
		s->lines.fd = -1;
	}
}

static struct own_symbols *symbols_of(struct own_names *n, const struct own_image *im)
{
	char hex[2 * OWN_BUILD_ID_MAX + 1] = "";
	struct err e;

	for (size_t i = 0; i < n->v.n; i++)
		if (n->v.v[i].image == im)
			return &n->v.v[i];
	vec_push(&n->v, (struct own_symbols){ .image = im, .symbols.fd = -1, .lines.fd = -1 });
	struct own_symbols *s = &n->v.v[n->v.n - 1];
	for (size_t i = 0; i < im->build_id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", im->build_id[i]);
	if (im->fd < 0)
		return s;
	if (symtab_build(&s->symbols, im->fd, im->path, hex, &e))
		s->symbols.fd = -1;
	read_lines(s, hex);
	return s;
}

static void set_names(struct own_call *c, struct view name, struct arena *a)
{
	struct buf plain = { 0 };

	c->system_name = arena_view(a, name);
	c->name = demangle(name, &plain) ? arena_view(a, buf_view(&plain)) : c->system_name;
	buf_free(&plain);
}

/* Reads names and lines from the files. */
static size_t look_up(struct own_names *n, const struct own_image *im, uint64_t vaddr, struct own_call out[OWN_CALLS_MAX])
{
	struct own_symbols *s = symbols_of(n, im);
	struct dwarf_frame f[OWN_CALLS_MAX];
	struct buf text = { 0 };
	uint64_t start;

	if (!symtab_lookup(&s->symbols, vaddr, &text, &start) || !text.len) {
		buf_free(&text);
		return 0;
	}
	struct own_call physical = { .file = VIEW("") };
	set_names(&physical, buf_view(&text), &n->text);
	buf_reset(&text);
	size_t calls = dwarf_index_lookup(&s->lines, vaddr, &text, f, OWN_CALLS_MAX);
	for (size_t i = 0; i < calls; i++) {
		out[i] = physical;
		if (i + 1 < calls)
			set_names(&out[i], view_of(text.ptr + f[i].name), &n->text);
		out[i].file = arena_view(&n->text, view_of(text.ptr + f[i].file));
		out[i].line = f[i].line;
		out[i].start_line = f[i].start_line;
	}
	if (!calls)
		out[calls++] = physical;
	buf_free(&text);
	return calls;
}

size_t own_names_at(struct own_names *n, const struct own_image *im, uint64_t vaddr, struct own_call out[OWN_CALLS_MAX])
{
	uint64_t h = hash_u64(vaddr ^ hash_u64((uintptr_t)im));
	uint32_t id;

	for (size_t at = map_start(&n->index, h); map_probe(&n->index, h, &at, &id);) {
		const struct own_known *k = &n->known.v[id];
		if (k->image != im || k->vaddr != vaddr)
			continue;
		for (uint32_t i = 0; i < k->n; i++)
			out[i] = n->calls.v[k->first + i];
		return k->n;
	}
	if (n->known.n >= KNOWN_MAX || n->text.used > TEXT_MAX)
		forget(n);
	size_t calls = look_up(n, im, vaddr, out);
	map_insert(&n->index, h, (uint32_t)n->known.n);
	vec_push(&n->known, (struct own_known){ im, vaddr, (uint32_t)n->calls.n, (uint32_t)calls });
	for (size_t i = 0; i < calls; i++)
		vec_push(&n->calls, out[i]);
	return calls;
}
