/* SPDX-License-Identifier: Apache-2.0 */
/* format=flamegraph as JSON, for people and their programs, and format=folded, lines for other tools: both from a flame. What the
 * page asks for is in flame_columns.c. */
#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "base/vec.h"
#include "model/flame.h"
#include "web/answer.h"
#include "web/formats.h"

/* ---- a table of strings, each once ---- */

struct strings {
	struct map index;
	VEC(struct view) v;
};

static uint32_t string_index(struct strings *s, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t i;
	for (size_t at = map_start(&s->index, h); map_probe(&s->index, h, &at, &i);)
		if (view_eq(s->v.v[i], v))
			return i;
	map_insert(&s->index, h, (uint32_t)s->v.n);
	vec_push(&s->v, v);
	return (uint32_t)s->v.n - 1;
}

static void strings_free(struct strings *s)
{
	map_free(&s->index);
	vec_free(&s->v);
}

/* ---- columns ---- */

static void put_value(struct buf *b, const struct flame *f, union flame_value v)
{
	if (f->is_float)
		json_float(b, v.d);
	else
		buf_int(b, v.i);
}

/* "key":[whole number for each i in 0..count) */
#define INT_COLUMN(b, key, count, expression) do { \
	buf_puts(b, "\"" key "\":["); \
	if (!buf_reserve(b, (count) * (NUM_I64_LEN + 1) + 1)) \
		break; \
	char *p_ = (b)->ptr + (b)->len; \
	for (size_t i = 0; i < (count); i++) { \
		p_ = num_put_i64(p_, (expression)); \
		*p_++ = ','; \
	} \
	p_[-((count) > 0)] = ']'; \
	(b)->len = (size_t)(p_ - (b)->ptr) + !(count); \
	(b)->ptr[(b)->len] = 0; \
} while (0)

/* rows: nodes or functions */
#define VALUE_COLUMN(b, key, f, rows, field) do { \
	if (!(f)->is_float) { \
		INT_COLUMN(b, key, (f)->n_##rows, (f)->rows[i].field.i); \
		break; \
	} \
	buf_puts(b, "\"" key "\":["); \
	for (size_t i = 0; i < (f)->n_##rows; i++) { \
		if (i) \
			buf_putc(b, ','); \
		put_value(b, f, (f)->rows[i].field); \
	} \
	buf_putc(b, ']'); \
} while (0)

/* total and self, and of a diff the same of its base */
#define VALUE_COLUMNS(b, f, rows) do { \
	VALUE_COLUMN(b, "total", f, rows, total); \
	buf_putc(b, ','); \
	VALUE_COLUMN(b, "self", f, rows, self); \
	if (!(f)->has_base) \
		break; \
	buf_puts(b, ",\"base\":{"); \
	VALUE_COLUMN(b, "total", f, rows, base_total); \
	buf_putc(b, ','); \
	VALUE_COLUMN(b, "self", f, rows, base_self); \
	buf_putc(b, '}'); \
} while (0)

/* The places of a frame's texts in the table. */
struct frame_texts {
	uint32_t name, file, binary;
};

/* Neighbours often come from one file and binary. */
static uint32_t index_after(struct strings *s, struct view v, struct view before, uint32_t known)
{
	return v.ptr == before.ptr && v.len == before.len ? known : string_index(s, v);
}

static void put_frames(struct buf *b, const struct flame *f)
{
	struct strings s = { 0 };
	struct frame_texts *t = xcalloc(f->n_frames, sizeof *t);
	map_reserve(&s.index, f->n_frames * 2);
	string_index(&s, VIEW(""));
	for (size_t i = 0; i < f->n_frames; i++) {
		const struct flame_frame *x = &f->frames[i], *before = i ? x - 1 : x;
		t[i].name = string_index(&s, x->name);
		t[i].file = i ? index_after(&s, x->file, before->file, t[i - 1].file) : string_index(&s, x->file);
		t[i].binary = i ? index_after(&s, x->binary, before->binary, t[i - 1].binary) : string_index(&s, x->binary);
	}
	buf_puts(b, "\"strings\":[");
	for (size_t i = 0; i < s.v.n; i++) {
		if (i)
			buf_putc(b, ',');
		buf_json_string(b, s.v.v[i]);
	}
	buf_puts(b, "],\"frames\":{");
	INT_COLUMN(b, "name", f->n_frames, t[i].name);
	buf_putc(b, ',');
	INT_COLUMN(b, "file", f->n_frames, t[i].file);
	buf_putc(b, ',');
	INT_COLUMN(b, "binary", f->n_frames, t[i].binary);
	buf_putc(b, ',');
	INT_COLUMN(b, "startLine", f->n_frames, f->frames[i].start_line);
	buf_putc(b, '}');
	free(t);
	strings_free(&s);
}

/* The nodes that stand for others, and for how many. */
static void put_cut(struct buf *b, const struct flame *f)
{
	VEC(uint32_t) at = { 0 };
	for (uint32_t i = 0; i < f->n_nodes; i++)
		if (f->nodes[i].cut)
			vec_push(&at, i);
	buf_puts(b, ",\"cut\":{");
	INT_COLUMN(b, "node", at.n, at.v[i]);
	buf_putc(b, ',');
	INT_COLUMN(b, "count", at.n, f->nodes[at.v[i]].cut);
	buf_putc(b, '}');
	vec_free(&at);
}

/* The larger part of the answer. */
static void put_nodes(struct buf *b, const struct flame *f)
{
	buf_puts(b, ",\"nodes\":{");
	INT_COLUMN(b, "depth", f->n_nodes, f->nodes[i].depth);
	buf_putc(b, ',');
	INT_COLUMN(b, "frame", f->n_nodes, f->nodes[i].frame);
	buf_putc(b, ',');
	INT_COLUMN(b, "line", f->n_nodes, f->nodes[i].line);
	buf_putc(b, ',');
	VALUE_COLUMNS(b, f, nodes);
	if (f->hidden)
		put_cut(b, f);
	buf_printf(b, "},\"hidden\":%zu", f->hidden);
}

static void put_functions(struct buf *b, const struct flame *f)
{
	buf_puts(b, ",\"functions\":{");
	INT_COLUMN(b, "frame", f->n_functions, f->functions[i].frame);
	buf_putc(b, ',');
	VALUE_COLUMNS(b, f, functions);
	buf_printf(b, ",\"all\":%zu}", f->all_functions);
}

static void put_found(struct buf *b, const struct flame *f)
{
	buf_puts(b, ",\"found\":{\"total\":");
	put_value(b, f, f->found);
	if (f->has_base) {
		buf_puts(b, ",\"base\":");
		put_value(b, f, f->base_found);
	}
	buf_printf(b, ",\"functions\":%zu}", f->n_found);
}

void merged_head(struct buf *b, const struct merged *m, const struct flame *f)
{
	struct buf name = { 0 };
	if (m->type)
		ptype_format(m->type, &name);
	buf_puts(b, "{\"unit\":");
	buf_json_string(b, m->type ? m->type->sample_unit : VIEW(""));
	buf_puts(b, ",\"sampleType\":");
	buf_json_string(b, m->type ? m->type->sample_type : VIEW(""));
	buf_puts(b, ",\"name\":");
	buf_json_string(b, buf_view(&name));
	buf_free(&name);
	buf_printf(b, ",\"kind\":\"%s\",\"coveredSeconds\":", m->type ? profile_kind_text(m->type->kind) : "");
	json_float(b, m->covered_s);
	buf_puts(b, ",\"perSeconds\":");
	json_float(b, m->per_s);
	buf_puts(b, ",\"total\":");
	put_value(b, f, f->nodes[0].total);
}

/* An answer without profiles is a root of its own. */
int merged_flame(struct flame *f, const struct merged *m, const struct flame_ask *ask, struct err *e)
{
	if (m->vec)
		return flame_fold(f, m->vec, m->base, ask, e);
	struct symbols *s = symbols_new();
	struct stackvec *none = stackvec_empty(s);
	int rc = flame_fold(f, none, NULL, NULL, e);
	stackvec_unref(none);
	symbols_unref(s);
	return rc;
}

int flamegraph_json(const struct merged *m, const struct flame_ask *ask, struct buf *out, struct err *e)
{
	struct flame f;
	int rc = merged_flame(&f, m, ask, e);
	if (rc)
		return rc;
	merged_head(out, m, &f);
	buf_putc(out, ',');
	put_frames(out, &f);
	put_nodes(out, &f);
	if (ask->functions)
		put_functions(out, &f);
	if (ask->match)
		put_found(out, &f);
	buf_printf(out, ",\"root\":%zu}", f.root);
	flame_release(&f);
	return 0;
}

/* ---- folded ---- */

int folded_text(const struct merged *m, struct buf *out, struct err *e)
{
	struct flame f;
	int rc = merged_flame(&f, m, NULL, e);
	if (rc)
		return rc;
	rc = flame_folded(&f, out, e);
	flame_release(&f);
	return rc;
}
