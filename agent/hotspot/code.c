/* SPDX-License-Identifier: Apache-2.0 */
/* Reads methods, compiled code and stubs of a live process into records (record.h). A method's names are Symbols in the constant pool of
 * its class. Compiled code has a table of places (PcDesc), of which each leads to a scope: the method that is inlined there, the bytecode
 * index, and the scope of its caller; the code's metadata lists the methods. */
#include <stdlib.h>

#include "agent/hotspot/record.h"
#include "base/alloc.h"
#include "base/vec.h"

#define STRUCT_MAX 1024              /* layout.c refuses larger types */
#define SYMBOL_MAX 4096u             /* bytes of a name */
#define SYMBOL_AT_ONCE 72            /* most symbols are shorter; their type has 8 bytes */
#define TABLE_MAX ((size_t)64 << 10) /* bytes of a table of lines */
#define CODE_TABLE_MAX ((size_t)1 << 20) /* bytes of a table of compiled code */
#define METHODS_MAX 1024             /* in compiled code */
#define LINES_MAX (128u << 10)       /* of all of them */
#define SCOPES_MAX 16384
#define POINTER(v) ((v) & ~(uint64_t)1) /* the lowest bit of an entry of a constant pool means something else */
#define HAS_LINES 1                  /* ConstMethod's flags; never changed */

struct line { uint32_t bci, line; };

struct method {
	uint64_t at;
	uint32_t name, name_n, system, system_n, file, file_n; /* in strings */
	uint32_t code_size, start_line;
	VEC(struct line) lines;      /* ascending by bci */
};

struct scope { uint32_t caller, method, line, from; };
struct pc { uint32_t pc, scope; };

/* An object that is being read. */
struct reading {
	const struct hotspot_layout *l;
	struct process_memory *m;
	struct err *e;
	VEC(struct method) methods;
	size_t lines;                /* of all methods */
	VEC(struct scope) scopes;    /* from: where it is in scopes_data */
	VEC(struct pc) pcs;
	struct buf strings, text;
	struct buf scopes_data, pcs_data, metadata; /* as the code has them */
};


static void reading_free(struct reading *r)
{
	for (size_t i = 0; i < r->methods.n; i++)
		vec_free(&r->methods.v[i].lines);
	vec_free(&r->methods);
	vec_free(&r->scopes);
	vec_free(&r->pcs);
	buf_free(&r->strings);
	buf_free(&r->text);
	buf_free(&r->scopes_data);
	buf_free(&r->pcs_data);
	buf_free(&r->metadata);
}

static uint16_t u16_at(const void *p, uint64_t off)
{
	uint16_t v;

	memcpy(&v, (const char *)p + off, sizeof v);
	return v;
}

static uint32_t u32_at(const void *p, uint64_t off)
{
	uint32_t v;

	memcpy(&v, (const char *)p + off, sizeof v);
	return v;
}

static uint64_t u64_at(const void *p, uint64_t off)
{
	uint64_t v;

	memcpy(&v, (const char *)p + off, sizeof v);
	return v;
}

static int malformed(struct reading *r, const char *what)
{
	return err_set(r->e, ERR_BAD_DATA, "process %u: HotSpot's %s is malformed", r->m->pid, what);
}

/* Adds a Symbol's bytes to text. */
static int read_symbol(struct reading *r, uint64_t at)
{
	char head[SYMBOL_AT_ONCE];
	uint16_t n;
	int rc;

	if (!at)
		return malformed(r, "name");
	bool whole = !process_memory_read(r->m, at, head, sizeof head, r->e);
	if (whole)
		n = u16_at(head, r->l->at[HS_SYMBOL_LENGTH]);
	else if ((rc = process_memory_u16(r->m, at + r->l->at[HS_SYMBOL_LENGTH], &n, r->e))) /* it may be at the end of memory */
		return rc;
	if (whole && r->l->at[HS_SYMBOL_BODY] + n <= sizeof head) {
		buf_put(&r->text, head + r->l->at[HS_SYMBOL_BODY], n);
		return 0;
	}
	if (n > SYMBOL_MAX)
		return err_set(r->e, ERR_LIMIT, "process %u: a name of HotSpot's has %u bytes, more than %u", r->m->pid, n, SYMBOL_MAX);
	return process_memory_append(r->m, at + r->l->at[HS_SYMBOL_BODY], n, &r->text, r->e);
}

static int read_pool_symbol(struct reading *r, uint64_t pool, uint16_t index)
{
	uint64_t at;
	int rc = process_memory_u64(r->m, pool + r->l->size[HS_T_POOL] + 8ull * index, &at, r->e);

	return rc ? rc : read_symbol(r, POINTER(at));
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* The length of a class's name without the address at its end, which hidden classes have: "A$$Lambda+0x00007f0123456789"; a class of the
 * archive has a number instead: "A$$Lambda$62+0x800000063". */
static size_t without_address(struct view v)
{
	size_t n = v.len, digits = 0;

	while (n && is_hex(v.ptr[n - 1])) {
		n--;
		digits++;
	}
	if (!digits || digits > 16 || n < 3 || v.ptr[n - 1] != 'x' || v.ptr[n - 2] != '0' || (v.ptr[n - 3] != '+' && v.ptr[n - 3] != '/'))
		return v.len;
	return n - 3;
}

static uint32_t add_string(struct reading *r, struct view v, uint32_t *ret_n)
{
	uint32_t at = (uint32_t)r->strings.len;

	buf_putv(&r->strings, v);
	*ret_n = (uint32_t)v.len;
	return at;
}

/* "java.util.HashMap.get", and "java/util/HashMap.get(Ljava/lang/Object;)Ljava/lang/Object;" for the system name. */
static void add_names(struct reading *r, struct method *k, size_t class_n, size_t name_n)
{
	char *text = r->text.ptr;
	struct view class = view_make(text, without_address(view_make(text, class_n)));
	struct view rest = view_make(text + class_n, name_n), signature = view_make(rest.ptr + name_n, r->text.len - class_n - name_n);

	k->system = add_string(r, class, &k->system_n);
	buf_putc(&r->strings, '.');
	buf_putv(&r->strings, rest);
	buf_putv(&r->strings, signature);
	k->system_n = (uint32_t)(r->strings.len - k->system);
	for (size_t i = 0; i < class.len; i++)
		if (text[i] == '/')
			text[i] = '.';
	k->name = add_string(r, class, &k->name_n);
	buf_putc(&r->strings, '.');
	buf_putv(&r->strings, rest);
	k->name_n = (uint32_t)(r->strings.len - k->name);
}

static int read_names(struct reading *r, struct method *k, const uint8_t *cm)
{
	uint8_t pool[STRUCT_MAX];
	uint64_t at = u64_at(cm, r->l->at[HS_CM_CONSTANTS]), class_at, name_at;
	uint16_t source = 0;
	size_t class_n, name_n;
	int rc = process_memory_read(r->m, at, pool, r->l->size[HS_T_POOL], r->e);

	if (rc)
		return rc;
	class_at = u64_at(pool, r->l->at[HS_POOL_HOLDER]);
	if (r->l->at[HS_POOL_SOURCE] != HS_NONE)
		source = u16_at(pool, r->l->at[HS_POOL_SOURCE]);
	else if ((rc = process_memory_u16(r->m, class_at + r->l->at[HS_CLASS_SOURCE], &source, r->e)))
		return rc;
	buf_reset(&r->text);
	if ((rc = process_memory_u64(r->m, class_at + r->l->at[HS_CLASS_NAME], &name_at, r->e)) || (rc = read_symbol(r, name_at)))
		return rc;
	class_n = r->text.len;
	if ((rc = read_pool_symbol(r, at, u16_at(cm, r->l->at[HS_CM_NAME]))))
		return rc;
	name_n = r->text.len - class_n;
	if ((rc = read_pool_symbol(r, at, u16_at(cm, r->l->at[HS_CM_SIGNATURE]))))
		return rc;
	add_names(r, k, class_n, name_n);
	buf_reset(&r->text);
	/* The pools of the runtime's own methods (MethodHandle.linkToStatic) do not say whether they have a file. */
	if (source && source < u32_at(pool, r->l->at[HS_POOL_LENGTH]) && (rc = read_pool_symbol(r, at, source)))
		return rc;
	k->file = add_string(r, buf_view(&r->text), &k->file_n);
	return r->strings.overflow ? err_set(r->e, ERR_LIMIT, "process %u: HotSpot's names are too long", r->m->pid) : 0;
}

/* A number of up to 5 bytes, low ones first; a byte of 192 and more is followed by another. From 20 on no byte is 0. */
static bool unsigned5(const uint8_t **p, const uint8_t *end, unsigned excluded, uint32_t *ret)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < 5; i++) {
		if (*p >= end || **p < excluded)
			return false;
		uint32_t b = *(*p)++;
		sum += (b - excluded) << (6 * i);
		if (b < 192)
			break;
	}
	*ret = sum;
	return true;
}

static unsigned excluded(const struct hotspot_layout *l)
{
	return l->major >= 20;
}

static bool signed5(const uint8_t **p, const uint8_t *end, unsigned none, uint32_t *ret)
{
	uint32_t v;

	if (!unsigned5(p, end, none, &v))
		return false;
	*ret = v >> 1 ^ -(v & 1);
	return true;
}

static int by_bci(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return (x->bci > y->bci) - (x->bci < y->bci);
}

/* A byte is bytes of code << 3 | lines; 0 ends the table; 0xff says that both follow, with signs. */
static void decode_lines(struct reading *r, struct method *k, const uint8_t *p, const uint8_t *end)
{
	struct line at = { 0 };
	bool ascending = true;

	while (p < end && *p) {
		uint32_t pc = *p >> 3, line = *p & 7;
		if (*p++ == 0xff && (!signed5(&p, end, excluded(r->l), &pc) || !signed5(&p, end, excluded(r->l), &line)))
			break;
		at.bci += pc;
		at.line += line;
		if (at.bci > UINT16_MAX || at.line > UINT16_MAX)
			break;
		ascending &= !k->lines.n || at.bci >= k->lines.v[k->lines.n - 1].bci;
		vec_push(&k->lines, at);
		if (!k->start_line || at.line < k->start_line)
			k->start_line = at.line;
	}
	if (!ascending)
		qsort(k->lines.v, k->lines.n, sizeof *k->lines.v, by_bci);
}

static int read_lines(struct reading *r, struct method *k, uint64_t at, const uint8_t *cm)
{
	uint64_t size = 8ull * u32_at(cm, r->l->at[HS_CM_SIZE]), before = r->l->size[HS_T_CM] + k->code_size;
	int rc;

	if (!(u16_at(cm, r->l->at[HS_CM_FLAGS]) & HAS_LINES))
		return 0;
	if (size <= before)
		return malformed(r, "ConstMethod");
	buf_reset(&r->text);
	rc = process_memory_append(r->m, at + before, MIN(size - before, TABLE_MAX), &r->text, r->e);
	if (rc)
		return rc;
	const uint8_t *p = (const uint8_t *)r->text.ptr;
	decode_lines(r, k, p, p + r->text.len);
	r->lines += k->lines.n;
	return r->lines <= LINES_MAX ? 0 : err_set(r->e, ERR_LIMIT, "process %u: compiled code of more than %u lines", r->m->pid, LINES_MAX);
}

/* A method's number in the record; it is read if it is new. check: the address of its ConstMethod; 0 = any. */
static int read_method(struct reading *r, uint64_t at, uint64_t check, uint32_t *ret)
{
	uint8_t cm[STRUCT_MAX];
	uint64_t cm_at;
	struct method k = { .at = at };
	int rc;

	for (*ret = 0; *ret < r->methods.n; ++*ret)
		if (r->methods.v[*ret].at == at)
			return 0;
	if (r->methods.n == METHODS_MAX)
		return err_set(r->e, ERR_LIMIT, "process %u: compiled code of more than %d methods", r->m->pid, METHODS_MAX);
	if ((rc = process_memory_u64(r->m, at + r->l->at[HS_METHOD_CONST], &cm_at, r->e)))
		return rc;
	if (check && cm_at != check)
		return err_set(r->e, ERR_BAD_DATA, "process %u: another method is at 0x%llx by now", r->m->pid, (unsigned long long)at);
	if ((rc = process_memory_read(r->m, cm_at, cm, r->l->size[HS_T_CM], r->e)))
		return rc;
	k.code_size = u16_at(cm, r->l->at[HS_CM_CODE_SIZE]);
	if (!(rc = read_names(r, &k, cm)))
		rc = read_lines(r, &k, cm_at, cm);
	if (rc) {
		vec_free(&k.lines);
		return rc;
	}
	vec_push(&r->methods, k);
	return 0;
}

static uint32_t line_of(const struct method *k, uint32_t bci)
{
	size_t lo = 0, hi = k->lines.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (k->lines.v[mid].bci <= bci)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && bci < k->code_size ? k->lines.v[lo - 1].line : 0;
}

/* Reads [from, to), relative to an address. */
static int read_table(struct reading *r, const char *what, uint64_t at, uint64_t from, uint64_t to, struct buf *ret)
{
	if (from > to)
		return malformed(r, what);
	if (to - from > CODE_TABLE_MAX)
		return err_set(r->e, ERR_LIMIT, "process %u: HotSpot's %s has more than %zu bytes", r->m->pid, what, CODE_TABLE_MAX);
	return process_memory_append(r->m, at + from, to - from, ret, r->e);
}

/* The tables of compiled code. */
static int read_tables(struct reading *r, uint64_t at, const uint8_t *nm)
{
	const uint64_t *o = r->l->at;
	uint64_t pcs = u32_at(nm, o[HS_NM_SCOPES_PCS]), scopes, scopes_end, pcs_end, meta, meta_end, tables = at, metadata = at;

	if (o[HS_NM_IMMUTABLE] != HS_NONE) {
		/* 23 on: places, then scopes, apart from the code. */
		tables = u64_at(nm, o[HS_NM_IMMUTABLE]);
		scopes = pcs_end = u32_at(nm, o[HS_NM_SCOPES_DATA]);
		scopes_end = u32_at(nm, o[HS_NM_IMMUTABLE_SIZE]);
		if (o[HS_NM_IMMUTABLE_END] != HS_NONE)
			scopes_end = MIN(scopes_end, (uint64_t)u32_at(nm, o[HS_NM_IMMUTABLE_END]));
	} else {
		/* Scopes, then places, behind the code. */
		scopes = o[HS_BLOB_CODE_BEGIN] != HS_NONE ? u64_at(nm, o[HS_NM_SCOPES_DATA]) - at : u32_at(nm, o[HS_NM_SCOPES_DATA]);
		scopes_end = pcs;
		pcs_end = u32_at(nm, o[HS_NM_DEPENDENCIES]);
	}
	if (o[HS_BLOB_MUTABLE_DATA] != HS_NONE) {
		metadata = u64_at(nm, o[HS_BLOB_MUTABLE_DATA]);
		meta = u32_at(nm, o[HS_BLOB_RELOCATION_SIZE]);
		meta_end = u32_at(nm, o[HS_BLOB_MUTABLE_SIZE]);
	} else if (o[HS_NM_IMMUTABLE] != HS_NONE) {
		meta = (uint64_t)u32_at(nm, o[HS_BLOB_DATA_OFFSET]) + u16_at(nm, o[HS_NM_METADATA]);
		meta_end = u32_at(nm, o[HS_BLOB_SIZE]);
	} else {
		meta = u32_at(nm, o[HS_NM_METADATA]);
		meta_end = scopes;
	}
	int rc = read_table(r, "table of places", tables, pcs, pcs_end, &r->pcs_data);
	if (!rc)
		rc = read_table(r, "table of scopes", tables, scopes, scopes_end, &r->scopes_data);
	return rc ? rc : read_table(r, "table of metadata", metadata, meta, meta_end, &r->metadata);
}

/* A scope as the code's tables have it: where its caller's is, the method's number in the metadata + 1, the bytecode index. */
struct raw_scope { uint32_t caller, method, bci; };

static bool decode_scope(struct reading *r, uint32_t from, struct raw_scope *ret)
{
	const uint8_t *p = (const uint8_t *)r->scopes_data.ptr + from, *end = (const uint8_t *)r->scopes_data.ptr + r->scopes_data.len;
	unsigned none = excluded(r->l);

	return from < r->scopes_data.len && unsigned5(&p, end, none, &ret->caller) && unsigned5(&p, end, none, &ret->method) &&
	       unsigned5(&p, end, none, &ret->bci) && ret->caller < from;
}

static int by_place(const void *a, const void *b)
{
	const struct pc *x = a, *y = b;

	return (x->pc > y->pc) - (x->pc < y->pc);
}

static int by_from(const void *a, const void *b)
{
	const struct scope *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

/* Lists the scopes that places lead to, and their callers', each once, by where they are. */
static int list_scopes(struct reading *r)
{
	AUTOFREE uint8_t *seen = xcalloc(r->scopes_data.len / 8 + 1, 1);
	struct raw_scope raw;

	for (size_t i = 0; i < r->pcs.n; i++) {
		for (uint32_t from = r->pcs.v[i].scope; from; from = raw.caller) {
			if (!decode_scope(r, from, &raw))
				return malformed(r, "table of scopes");
			if (seen[from / 8] & 1u << from % 8)
				break;
			if (r->scopes.n == SCOPES_MAX)
				return err_set(r->e, ERR_LIMIT, "process %u: compiled code of more than %d scopes", r->m->pid, SCOPES_MAX);
			seen[from / 8] |= (uint8_t)(1u << from % 8);
			vec_push(&r->scopes, (struct scope){ .from = from });
		}
	}
	if (r->scopes.n)
		qsort(r->scopes.v, r->scopes.n, sizeof *r->scopes.v, by_from);
	return 0;
}

/* The number of a scope that is known to be listed, + 1; 0 for none. */
static uint32_t scope_number(const struct reading *r, uint32_t from)
{
	struct scope key = { .from = from };
	const struct scope *s = from ? bsearch(&key, r->scopes.v, r->scopes.n, sizeof key, by_from) : NULL;

	return s ? (uint32_t)(s - r->scopes.v) + 1 : 0;
}

static int resolve_scopes(struct reading *r)
{
	struct raw_scope raw;
	int rc;

	for (size_t i = 0; i < r->scopes.n; i++) {
		struct scope *s = &r->scopes.v[i];
		if (!decode_scope(r, s->from, &raw))
			return malformed(r, "table of scopes");
		/* There are bits of other kinds in the metadata: only a method can be a scope's. */
		if (!raw.method || (raw.method - 1) * 8ull + 8 > r->metadata.len)
			return malformed(r, "metadata");
		if ((rc = read_method(r, u64_at(r->metadata.ptr, (raw.method - 1) * 8ull), 0, &s->method)))
			return rc;
		s->caller = scope_number(r, raw.caller);
		s->line = raw.bci ? line_of(&r->methods.v[s->method], raw.bci - 1) : 0; /* it is stored + 1 */
	}
	return 0;
}

/* Makes equal scopes one. Callers come first, so that theirs are done. The last of a run of places in one scope stands for all. */
static void merge_scopes(struct reading *r)
{
	size_t room = 16, kept = 0;

	while (room < 2 * r->scopes.n)
		room *= 2;
	AUTOFREE uint32_t *table = xcalloc(room, sizeof *table), *now = xcalloc(r->scopes.n + 1, sizeof *now);
	for (size_t i = 0; i < r->scopes.n; i++) {
		struct scope s = r->scopes.v[i];
		s.caller = now[s.caller];
		size_t h = ((s.caller * 0x9e3779b97f4a7c15ull) ^ (s.method * 0xc2b2ae3d27d4eb4full) ^ (s.line * 0x165667b19e3779f9ull)) >> 20;
		for (h &= room - 1; table[h]; h = (h + 1) & (room - 1)) {
			const struct scope *o = &r->scopes.v[table[h] - 1];
			if (o->caller == s.caller && o->method == s.method && o->line == s.line)
				break;
		}
		if (!table[h]) {
			r->scopes.v[kept++] = s;
			table[h] = (uint32_t)kept;
		}
		now[i + 1] = table[h];
	}
	r->scopes.n = kept;
	for (size_t i = 0; i < r->pcs.n; i++)
		r->pcs.v[i].scope = now[r->pcs.v[i].scope];
	kept = 0;
	for (size_t i = 0; i < r->pcs.n; i++)
		if (i + 1 == r->pcs.n || r->pcs.v[i].scope != r->pcs.v[i + 1].scope)
			r->pcs.v[kept++] = r->pcs.v[i];
	r->pcs.n = kept;
}

static int read_scopes(struct reading *r)
{
	size_t stride = r->l->size[HS_T_PC], n = r->pcs_data.len / stride;
	int rc;

	for (size_t i = 0; i < n; i++) {
		const char *p = r->pcs_data.ptr + i * stride;
		uint32_t pc = u32_at(p, r->l->at[HS_PC_OFFSET]), scope = u32_at(p, r->l->at[HS_PC_SCOPE]);
		if (pc <= INT32_MAX)         /* the first one is -1 */
			vec_push(&r->pcs, (struct pc){ pc, scope });
	}
	if (r->pcs.n)
		qsort(r->pcs.v, r->pcs.n, sizeof *r->pcs.v, by_place);
	if ((rc = list_scopes(r)) || (rc = resolve_scopes(r)))
		return rc;
	for (size_t i = 0; i < r->pcs.n; i++)
		r->pcs.v[i].scope = scope_number(r, r->pcs.v[i].scope);
	merge_scopes(r);
	return 0;
}

static int read_compiled(struct reading *r, uint64_t at, uint64_t check)
{
	uint8_t nm[STRUCT_MAX];
	uint32_t method;
	int rc = process_memory_read(r->m, at, nm, r->l->size[HS_T_NMETHOD], r->e);

	if (rc)
		return rc;
	if (u32_at(nm, r->l->at[HS_NM_COMPILE_ID]) != (uint32_t)check)
		return err_set(r->e, ERR_BAD_DATA, "process %u: other code is at 0x%llx by now", r->m->pid, (unsigned long long)at);
	if ((rc = read_method(r, u64_at(nm, r->l->at[HS_NM_METHOD]), 0, &method)) || (rc = read_tables(r, at, nm)))
		return rc;
	if ((rc = read_scopes(r)))
		return rc;
	vec_free(&r->methods.v[0].lines);    /* scopes have them */
	/* The code may have been given up meanwhile, and what was read be others'. */
	process_memory_look_again(r->m);
	if ((rc = process_memory_u32(r->m, at + r->l->at[HS_NM_COMPILE_ID], &method, r->e)))
		return rc;
	return method == (uint32_t)check ? 0 : err_set(r->e, ERR_BAD_DATA, "process %u: other code is at 0x%llx by now", r->m->pid,
						       (unsigned long long)at);
}

static int read_stub(struct reading *r, uint64_t at, uint64_t check)
{
	struct method k = { 0 };
	uint64_t name;
	int rc = process_memory_u64(r->m, at + r->l->at[HS_BLOB_NAME], &name, r->e);

	if (rc || (rc = process_memory_string(r->m, name, SYMBOL_MAX, &r->text, r->e)))
		return rc;
	if (r->text.len < 4 || u32_at(r->text.ptr, 0) != (uint32_t)check)
		return err_set(r->e, ERR_BAD_DATA, "process %u: another stub is at 0x%llx by now", r->m->pid, (unsigned long long)at);
	k.name = k.system = add_string(r, buf_view(&r->text), &k.name_n);
	k.system_n = k.name_n;
	vec_push(&r->methods, k);
	return 0;
}

static void put32(struct buf *b, uint32_t v)
{
	buf_put(b, &v, sizeof v);
}

static int write_record(struct reading *r, struct buf *b)
{
	const struct method *first = &r->methods.v[0];
	size_t n_lines = r->pcs.n ? 0 : first->lines.n;

	put32(b, RECORD_MAGIC);
	put32(b, (uint32_t)r->methods.n);
	put32(b, (uint32_t)r->scopes.n);
	put32(b, (uint32_t)r->pcs.n);
	put32(b, (uint32_t)n_lines);
	for (size_t i = 0; i < r->methods.n; i++) {
		const struct method *k = &r->methods.v[i];
		const uint32_t w[RECORD_METHOD] = { k->name, k->name_n, k->system, k->system_n, k->file, k->file_n, k->start_line, k->code_size };
		buf_put(b, w, sizeof w);
	}
	for (size_t i = 0; i < r->scopes.n; i++) {
		const struct scope *s = &r->scopes.v[i];
		const uint32_t w[RECORD_SCOPE] = { s->caller, s->method, s->line };
		buf_put(b, w, sizeof w);
	}
	for (size_t i = 0; i < r->pcs.n; i++) {
		put32(b, r->pcs.v[i].pc);
		put32(b, r->pcs.v[i].scope);
	}
	for (size_t i = 0; i < n_lines; i++) {
		put32(b, first->lines.v[i].bci);
		put32(b, first->lines.v[i].line);
	}
	buf_putv(b, buf_view(&r->strings));
	return b->overflow || b->len > HOTSPOT_RECORD_MAX ?
		err_set(r->e, ERR_LIMIT, "process %u: what compiled code says of itself has more than %zu bytes", r->m->pid, HOTSPOT_RECORD_MAX) : 0;
}

int hotspot_read_object(const struct hotspot_layout *l, struct process_memory *m, uint64_t object, uint64_t check, struct buf *ret_record,
			struct err *e)
{
	CLEANUP(reading_free) struct reading r = { .l = l, .m = m, .e = e, .strings = { .max = HOTSPOT_RECORD_MAX } };
	uint64_t value = check & HOTSPOT_CHECK(0, UINT64_MAX);
	uint32_t method;
	int rc;

	switch (check >> 56) {
	case HOTSPOT_COMPILED:
		rc = read_compiled(&r, object, value);
		break;
	case HOTSPOT_INTERPRETED:
		rc = read_method(&r, object, value, &method);
		break;
	case HOTSPOT_STUB:
		rc = read_stub(&r, object, value);
		break;
	default:
		return err_set(e, ERR_BAD_DATA, "process %u: no frame of HotSpot has a check word of 0x%llx", m->pid, (unsigned long long)check);
	}
	return rc ? rc : write_record(&r, ret_record);
}
