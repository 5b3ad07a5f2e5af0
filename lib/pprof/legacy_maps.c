/* SPDX-License-Identifier: Apache-2.0 */
/* The memory map behind a legacy profile, and which mapping each location is of.
 *
 *	START-END PERM OFFSET DEV:DEV INODE FILE     as Linux's /proc/PID/maps
 *	START-END: FILE (@OFFSET) BUILDID            in short; 0x, perm, offset and build id may be missing
 *	build=/path                                  from here on $build stands for that
 *
 * Lines may have a prefix of a log ("W1220 15:07:15 logger.cc:12033] "). Lines of other forms are ignored. */
#include "pprof/legacy.h"

#define ATTRIBUTES 64   /* of a map */
#define LINE_MAX_BYTES 65536 /* with its attributes put in */
#define MAIN_START 0x400000 /* where programs used to lie */

struct maps {
	struct draft *d;
	struct { struct view key, value; } attributes[ATTRIBUTES];
	size_t n_attributes;
};

bool legacy_is_maps_head(struct view line)
{
	return view_contains(line, VIEW("--- Memory map: ---")) || view_contains(line, VIEW("MAPPED_LIBRARIES:"));
}

int legacy_other_sections(struct draft *d, struct view line)
{
	while (!d->rc && !legacy_is_maps_head(line) && draft_line(d, &line))
		;
	return d->rc ? d->rc : legacy_maps(d);
}

/* ---- lines ---- */

static struct view without_log(struct view line)
{
	size_t i = 0;
	while (i < line.len && line.ptr[i] != '[' && line.ptr[i] != ']')
		i++;
	size_t digits = i;
	while (digits > 0 && is_digit(line.ptr[digits - 1]))
		digits--;
	bool log = i + 1 < line.len && line.ptr[i] == ']' && is_blank(line.ptr[i + 1]) && digits < i && digits > 1 &&
		   line.ptr[digits - 1] == ':';
	return log ? view_make(line.ptr + i + 2, line.len - i - 2) : line;
}

/* Writes the line with its attributes put in, if there is an `out`; returns its length. */
static size_t put_attributes(const struct maps *m, struct view line, char *out)
{
	size_t n = 0;
	for (size_t i = 0; i < line.len && n <= LINE_MAX_BYTES;) {
		struct view put = view_make(line.ptr + i, 1), rest = view_make(line.ptr + i + 1, line.len - i - 1);
		i++;
		for (size_t k = 0; *put.ptr == '$' && k < m->n_attributes; k++)
			if (view_starts(rest, m->attributes[k].key)) {
				i += m->attributes[k].key.len;
				put = m->attributes[k].value;
				break;
			}
		if (out && put.len)
			memcpy(out + n, put.ptr, put.len);
		n += put.len;
	}
	return n;
}

static struct view with_attributes(struct maps *m, struct view line)
{
	if (!m->n_attributes || !memchr(line.ptr, '$', line.len))
		return line;
	size_t n = line.len > LINE_MAX_BYTES ? line.len : put_attributes(m, line, NULL);
	char *out = n > LINE_MAX_BYTES ? NULL : arena_alloc(&m->d->p->arena, n + 1);
	if (!out) {
		draft_fail(m->d, ERR_LIMIT, "a line is longer than %d bytes, or there is no memory for it", LINE_MAX_BYTES);
		return line;
	}
	put_attributes(m, line, out);
	return view_make(out, n);
}

static struct view word(struct view *v)
{
	scan_blanks(v);
	size_t n = 0;
	while (n < v->len && !is_blank(v->ptr[n]))
		n++;
	struct view w = view_make(v->ptr, n);
	*v = view_make(v->ptr + n, v->len - n);
	return w;
}

static bool whole_hex(struct view w, uint64_t *ret)
{
	return scan_hex(&w, ret) && !w.len;
}

static bool is_perm(struct view w)
{
	for (size_t i = 0; i < w.len; i++)
		if (!memchr("-rwxp", w.ptr[i], 5))
			return false;
	return w.len > 0;
}

/* "fc:00" */
static bool is_device(struct view w)
{
	uint64_t n;
	return scan_hex(&w, &n) && scan_word(&w, ":") && scan_hex(&w, &n) && !w.len;
}

/* OFFSET DEV:DEV INODE FILE; false: the line is not in the long form. */
static bool long_form(struct view v, struct profile_mapping *m, struct view *file)
{
	struct view w = word(&v);
	int64_t inode;
	if (!is_device(w)) {
		if (!whole_hex(w, &m->offset))
			return false;
		w = word(&v);
	}
	struct view number = word(&v);
	if (!is_device(w) || !scan_i64(&number, &inode) || number.len)
		return false;
	*file = word(&v);
	return true;
}

static void short_form(struct view v, struct profile_mapping *m, struct view *file, struct view *build_id)
{
	uint64_t n;
	*file = word(&v);
	struct view w = word(&v), offset = w;
	m->offset = 0;
	if (scan_word(&offset, "(@") && scan_hex(&offset, &n) && view_eqs(offset, ")")) {
		m->offset = n;
		w = word(&v);
	}
	while (build_id->len < w.len && scan_hex_digit(w.ptr[build_id->len]) >= 0)
		build_id->len++;
	build_id->ptr = w.ptr;
}

/* False: the line is no mapping. */
static bool mapping_line(struct maps *m, struct view v)
{
	struct profile_mapping x = { 0 };
	struct view file = VIEW(""), build_id = VIEW("");
	scan_blanks(&v);
	if (!scan_hex(&v, &x.start) || !v.len || (*v.ptr != '-' && !is_blank(*v.ptr)))
		return false;
	v = view_make(v.ptr + 1, v.len - 1);
	scan_blanks(&v);
	if (!scan_hex(&v, &x.limit))
		return false;
	scan_word(&v, ":");
	struct view behind = v, perm = word(&v);
	if (!is_perm(perm))
		v = behind;
	else if (!memchr(perm.ptr, 'x', perm.len))
		return true; /* data */
	if (!long_form(v, &x, &file))
		short_form(v, &x, &file, &build_id);
	struct profile_mapping *to = draft_mapping(m->d);
	if (!to)
		return true;
	x.file_str = draft_string(m->d, file);
	x.build_id_str = draft_string(m->d, build_id);
	*to = x;
	return true;
}

static void attribute_line(struct maps *m, struct view line)
{
	const char *eq = memchr(line.ptr, '=', line.len);
	if (!eq || m->n_attributes == ATTRIBUTES)
		return;
	struct view key = view_trim(view_make(line.ptr, (size_t)(eq - line.ptr)));
	if (!key.len)
		return;
	m->attributes[m->n_attributes].key = key;
	m->attributes[m->n_attributes++].value = view_trim(view_make(eq + 1, (size_t)(line.ptr + line.len - eq) - 1));
}

/* ---- what google/pprof makes of mappings ---- */

static bool same_or_unsaid(uint32_t a, uint32_t b)
{
	return !a || !b || a == b;
}

/* One that was split in two. */
static bool adjacent(const struct profile_mapping *a, const struct profile_mapping *b)
{
	return same_or_unsaid(a->file_str, b->file_str) && same_or_unsaid(a->build_id_str, b->build_id_str) && a->limit == b->start &&
	       (!a->offset || !b->offset || a->offset + (a->limit - a->start) == b->offset);
}

static void join_adjacent(struct profile *p)
{
	uint32_t n = p->n_mappings ? 1 : 0;
	for (uint32_t i = 1; i < p->n_mappings; i++) {
		struct profile_mapping *last = &p->mappings[n - 1], *m = &p->mappings[i];
		if (!adjacent(last, m)) {
			p->mappings[n++] = *m;
			continue;
		}
		last->limit = m->limit;
		last->file_str = m->file_str ? m->file_str : last->file_str;
		last->build_id_str = m->build_id_str ? m->build_id_str : last->build_id_str;
	}
	p->n_mappings = n;
}

/* ".so" at the end, or ".so.1" */
static bool is_library(struct view file)
{
	if (view_ends(file, VIEW(".so")))
		return true;
	for (size_t i = 0; i + 4 < file.len; i++)
		if (!memcmp(file.ptr + i, ".so", 3) && (file.ptr[i + 3] == '.' || file.ptr[i + 3] == '_') && is_digit(file.ptr[i + 4]))
			return true;
	return false;
}

/* The likely main binary comes first. */
static void main_first(struct profile *p)
{
	for (uint32_t i = 0; i < p->n_mappings; i++) {
		struct view file = view_trim(profile_str(p, p->mappings[i].file_str));
		if (!file.len || view_eqs(file, "(deleted)") || is_library(file) || *file.ptr == '[')
			continue;
		struct profile_mapping first = p->mappings[0];
		p->mappings[0] = p->mappings[i];
		p->mappings[i] = first;
		return;
	}
}

static void mend_main(struct profile *p)
{
	if (p->n_mappings > 1 && view_starts(profile_str(p, p->mappings[0].file_str), VIEW("/anon_hugepage")) &&
	    p->mappings[0].limit == p->mappings[1].start) {
		p->mappings++;
		p->n_mappings--;
	}
	if (p->n_mappings && p->mappings[0].start - p->mappings[0].offset == MAIN_START) {
		p->mappings[0].start = MAIN_START;
		p->mappings[0].offset = 0;
	}
}

/* Index + 1 of the mapping that has the address. Addresses just before it belong to it: some programs leave out its first part. Addresses
 * outside all mappings get one that covers everything. */
static uint32_t mapping_of(struct draft *d, uint64_t a, uint32_t *everything)
{
	struct profile *p = d->p;
	for (uint32_t i = 0; i < p->n_mappings; i++)
		if (p->mappings[i].start <= a && a < p->mappings[i].limit)
			return i + 1;
	for (uint32_t i = 0; i < p->n_mappings; i++) {
		struct profile_mapping *m = &p->mappings[i];
		if (!m->offset || m->start - m->offset > a || a >= m->start)
			continue;
		m->start -= m->offset;
		m->offset = 0;
		return i + 1;
	}
	struct profile_mapping *m = *everything ? NULL : draft_mapping(d);
	if (m) {
		m->limit = UINT64_MAX;
		*everything = p->n_mappings;
	}
	return *everything;
}

static void find_mappings(struct draft *d)
{
	struct profile *p = d->p;
	uint32_t everything = 0;
	for (uint32_t s = 0; s < p->n_samples; s++)
		for (uint32_t i = 0; i < p->samples[s].n_locations && !d->rc; i++) {
			struct profile_location *l = &p->locations[p->stack[p->samples[s].first_location + i]];
			if (l->mapping || !l->address)
				continue;
			draft_step(d);
			l->mapping = mapping_of(d, l->address, &everything);
		}
}

int legacy_maps(struct draft *d)
{
	struct maps m = { .d = d };
	struct view line;
	while (draft_line(d, &line)) {
		line = with_attributes(&m, without_log(line));
		if (!d->rc && !mapping_line(&m, line))
			attribute_line(&m, line);
	}
	if (d->rc)
		return d->rc;
	join_adjacent(d->p);
	main_first(d->p);
	mend_main(d->p);
	find_mappings(d);
	return d->rc;
}
