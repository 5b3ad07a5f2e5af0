/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are V8, and what the kernel has to know of a process that maps one. A file is V8 by the symbols that its build makes for
 * debuggers. Its builtins are generated code in the text, without entries in .eh_frame: symbols of the table that strip removes say where. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/v8/layout.h"
#include "base/alloc.h"
#include "elf/elf_names.h"
#include "elf/elf_symbol.h"

#define SYMBOLS_MAX (1u << 20)       /* of a symbol table; Node has 150,000 */
#define SYMBOLS_CHUNK 1024u
#define BYTECODES_SYMBOL "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE"

static bool version_part(const struct elf_file *f, const char *name, uint32_t *ret)
{
	uint64_t offset, len;
	Elf64_Sym s;

	return elf_symbol(f, name, &s) && elf_vaddr_offset(f, s.st_value, &offset, &len) && len >= sizeof *ret &&
	       elf_read(f, offset, ret, sizeof *ret) && *ret < 256;
}

static void widen(struct runtime_range *r, const Elf64_Sym *s)
{
	uint64_t end = s->st_value + s->st_size;

	if (end < s->st_value)
		return;
	if (!r->end || s->st_value < r->start)
		r->start = s->st_value;
	if (end > r->end)
		r->end = end;
}

static void see(struct v8_symbols *to, const Elf64_Sym *s, struct view name)
{
	if (view_eqs(name, BYTECODES_SYMBOL))
		to->bytecodes = *s;
	if (!view_starts(name, view_of("Builtins_")))
		return;
	widen(&to->builtins, s);
	if (view_eqs(name, "Builtins_WideHandler"))
		to->handlers = (struct runtime_range){ s->st_value, 0 };
	if (view_eqs(name, "Builtins_InterpreterEntryTrampoline") ||
	    view_eqs(name, "Builtins_InterpreterEntryTrampolineForProfiling"))
		widen(&to->trampoline, s);
	if (view_starts(name, VIEW("Builtins_DeoptimizationEntry_")))
		widen(&to->deoptimising, s);
}

/* Bytecode handlers come last: from the first one, Wide, to the end of the builtins. */
static void find_symbols(const struct elf_file *f, struct v8_symbols *to)
{
	const Elf64_Shdr *table = elf_section(f, ".symtab"), *strings = elf_section(f, ".strtab");
	Elf64_Sym *chunk = table && strings ? xmalloc(SYMBOLS_CHUNK * sizeof *chunk) : NULL;
	struct elf_names *names = chunk ? elf_names_new(f, strings) : NULL;

	for (uint64_t i = 0; names && i < MIN(table->sh_size / sizeof *chunk, SYMBOLS_MAX); i += SYMBOLS_CHUNK) {
		size_t n = (size_t)MIN(table->sh_size / sizeof *chunk - i, SYMBOLS_CHUNK);
		if (!elf_section_read(f, table, i * sizeof *chunk, chunk, n * sizeof *chunk))
			break;
		for (size_t k = 0; k < n; k++)
			if (chunk[k].st_value && chunk[k].st_name)
				see(to, &chunk[k], elf_names_get(names, chunk[k].st_name, sizeof BYTECODES_SYMBOL));
	}
	if (to->handlers.start)
		to->handlers.end = to->builtins.end;
	elf_names_free(names);
	free(chunk);
	if (!to->bytecodes.st_size)
		elf_symbol(f, BYTECODES_SYMBOL, &to->bytecodes);
}

/* Node's version by V8's, of those that are named; 0: it is not Node, or another version. */
static unsigned node_version(const struct elf_file *f, unsigned version)
{
	static const struct { unsigned v8, node; } of[] = {
		{ V8_VERSION(9, 4), 16 }, { V8_VERSION(10, 2), 18 }, { V8_VERSION(11, 3), 20 },
		{ V8_VERSION(12, 4), 22 }, { V8_VERSION(13, 6), 24 }, { V8_VERSION(14, 6), 26 },
	};
	Elf64_Sym start;

	for (size_t i = 0; i < ARRAY_LEN(of); i++)
		if (of[i].v8 == version && elf_symbol(f, "_ZN4node5StartEiPPc", &start))
			return of[i].node;
	return 0;
}

struct runtime_file *v8_recognise(const struct elf_file *f)
{
	struct v8_symbols s = { 0 };
	uint32_t major, minor;
	Elf64_Sym tag;

	if (f->eh.e_machine != EM_X86_64 || !elf_symbol(f, "v8dbg_SmiTag", &tag))
		return NULL;
	struct runtime_file *r = NEW(struct runtime_file);
	struct v8_facts *x = NEW(struct v8_facts);
	r->facts = x;
	snprintf(r->label, sizeof r->label, "v8");
	if (!version_part(f, "_ZN2v88internal7Version6major_E", &major) || !version_part(f, "_ZN2v88internal7Version6minor_E", &minor)) {
		snprintf(r->why_not, sizeof r->why_not, "it does not say which version of V8 it is");
		return r;
	}
	r->version = V8_VERSION(major, minor);
	unsigned node = node_version(f, r->version);
	if (node)
		snprintf(r->label, sizeof r->label, "node%u", node);
	else
		snprintf(r->label, sizeof r->label, "v8-%u.%u", major, minor);
	find_symbols(f, &s);
	if (!v8_layout_read(f, r->version, &s, x, r->why_not, sizeof r->why_not))
		return r;
	if (!s.handlers.end || !s.trampoline.end) {
		snprintf(r->why_not, sizeof r->why_not, "it is stripped: where its builtins are is not known");
		return r;
	}
	x->handlers = s.handlers;
	x->trampoline = s.trampoline;
	x->deoptimising = s.deoptimising;
	r->interpreter[r->n_interpreter++] = s.builtins;
	return r;
}

void v8_free_file(struct runtime_file *r)
{
	struct v8_facts *x = r->facts;

	free(x->bytecode_bytes);
	free(x);
	free(r);
}

int v8_attach(const struct runtime_file *r, struct process_memory *m, uint64_t bias, struct runtime_proc *ret, struct err *e)
{
	const struct v8_facts *x = r->facts;
	const struct v8_layout *l = &x->l;

	(void)m, (void)bias, (void)e;
	*ret = (struct runtime_proc){ .v8 = {
		.handlers = x->handlers.start, .handlers_bytes = x->handlers.end - x->handlers.start,
		.trampoline = x->trampoline.start, .trampoline_bytes = x->trampoline.end - x->trampoline.start,
		.deoptimising = x->deoptimising.start, .deoptimising_bytes = x->deoptimising.end - x->deoptimising.start,
		.deoptimiser_caller = (uint16_t)l->deoptimiser_caller,
		.function_shared = (uint16_t)l->function_shared, .shared_lengths = (uint16_t)l->shared_lengths,
		.map_type = (uint16_t)l->map_type, .function_first = (uint16_t)l->type_function_first,
		.function_last = (uint16_t)l->type_function_last, .array_type = (uint16_t)l->type_array } };
	return 0;
}
