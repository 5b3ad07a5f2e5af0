/* SPDX-License-Identifier: Apache-2.0 */
/* format=flamegraph as JSON, for people and their programs, and format=folded, lines for other tools: both from a flame. flame_columns.c
 * writes the page's form. */
#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "base/vec.h"
#include "model/flame.h"
#include "base/json.h"
#include "web/profiles/merged.h"

/* ---- a table of strings, each once ---- */

struct strings {
	struct map index;
	VEC(struct view) v;
};

static uint32_t string_index(struct strings *s, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t i;
	if (!MAP_FIND_OR_ADD(&s->index, h, i, s->v.n, view_eq(s->v.v[i], v)))
		vec_push(&s->v, v);
	return i;
}

static void strings_free(struct strings *s)
{
	map_free(&s->index);
	vec_free(&s->v);
}

/* ---- columns ---- */

/* Where they are written to. After an error only the ends of arrays and objects follow. */
struct flame_json {
	struct buf *out;
	const struct permit *permit;
	int rc;
	struct err *e;
};

static void put_value(struct buf *b, const struct flame *f, union flame_value v)
{
	if (f->is_float)
		json_float(b, v.d);
	else
		json_int(b, v.i);
}

/* Totals in nanoseconds are long, and often that of a call is its caller's, too. */
#define NUM_SHORT 1000000
struct long_number {
	int64_t v;
	char text[NUM_I64_LEN]; /* of v, if it is not zero */
	size_t len;
};

static char *put_long(char *p, int64_t v, struct long_number *last)
{
	if (v != last->v) {
		last->v = v;
		last->len = (size_t)(num_put_i64(last->text, v) - last->text);
	}
	memcpy(p, last->text, sizeof last->text);
	return p + last->len;
}

/* Room for some numbers of a column, from i on; returns where they end: i after an error. */
static size_t next_numbers(struct flame_json *j, size_t i, size_t n)
{
	size_t end = MIN(n, i + 32768);
	if (i && !j->rc)
		j->rc = permit_go_on(j->permit, j->e);
	return !j->rc && buf_reserve(j->out, (end - i) * (NUM_I64_LEN + 1) + 1) ? end : i;
}

/* After the last number there is a comma, or, if there is none, the bracket. */
static void end_numbers(struct buf *b)
{
	if (b->len && b->ptr[b->len - 1] == ',')
		b->len--;
	json_array_end(b);
}

/* "key":[whole number for each i in 0..count) */
#define INT_COLUMN(j, key, count, expression) do { \
	struct buf *b_ = (j)->out; \
	struct long_number last_ = { 0 }; \
	json_array_begin_at(b_, key); \
	for (size_t i = 0, end_; i < (count) && (end_ = next_numbers(j, i, count)) > i;) { \
		char *p_ = b_->ptr + b_->len; \
		for (; i < end_; i++) { \
			int64_t v_ = (expression); \
			p_ = UNLIKELY((uint64_t)v_ >= NUM_SHORT) ? put_long(p_, v_, &last_) : num_put_small(p_, v_); \
			*p_++ = ','; \
		} \
		b_->len = (size_t)(p_ - b_->ptr); \
		b_->ptr[b_->len] = 0; \
	} \
	end_numbers(b_); \
} while (0)

/* field: the value at i */
#define VALUE_COLUMN(j, key, f, count, field) do { \
	if (!(f)->is_float) { \
		INT_COLUMN(j, key, count, (field).i); \
		break; \
	} \
	json_array_begin_at((j)->out, key); \
	for (size_t i = 0; i < (count) && !(j)->rc; i++) { \
		put_value((j)->out, f, field); \
		(j)->rc = permit_step((j)->permit, i, (j)->e); \
	} \
	json_array_end((j)->out); \
} while (0)

/* total and self, and of a diff the same of its base; OF says where a field of i is */
#define VALUE_COLUMNS(j, f, count, OF) do { \
	VALUE_COLUMN(j, "total", f, count, OF(total)); \
	VALUE_COLUMN(j, "self", f, count, OF(self)); \
	if (!(f)->has_base) \
		break; \
	json_object_begin_at((j)->out, "base"); \
	VALUE_COLUMN(j, "total", f, count, OF(base_total)); \
	VALUE_COLUMN(j, "self", f, count, OF(base_self)); \
	json_object_end((j)->out); \
} while (0)
#define OF_NODE(field) f->nodes.field[i]
#define OF_FUNCTION(field) f->functions[i].field

/* The places of a frame's texts in the table. */
struct frame_texts {
	uint32_t name, file, binary;
};

/* Neighbours often come from one file and binary. */
static uint32_t index_after(struct strings *s, struct view v, struct view before, uint32_t known)
{
	return v.ptr == before.ptr && v.len == before.len ? known : string_index(s, v);
}

static void put_frames(struct flame_json *j, const struct flame *f)
{
	struct buf *b = j->out;
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
	json_array_begin_at(b, "strings");
	for (size_t i = 0; i < s.v.n && !j->rc; i++) {
		json_text(b, s.v.v[i]);
		j->rc = permit_text_step(j->permit, i, b->len, j->e);
	}
	json_array_end(b);
	json_object_begin_at(b, "frames");
	INT_COLUMN(j, "name", f->n_frames, t[i].name);
	INT_COLUMN(j, "file", f->n_frames, t[i].file);
	INT_COLUMN(j, "binary", f->n_frames, t[i].binary);
	INT_COLUMN(j, "startLine", f->n_frames, f->frames[i].start_line);
	json_object_end(b);
	free(t);
	strings_free(&s);
}

/* The nodes that stand for others, and the number of those. */
static void put_cut(struct flame_json *j, const struct flame *f)
{
	struct buf *b = j->out;
	VEC(uint32_t) at = { 0 };
	for (uint32_t i = 0; i < f->n_nodes; i++)
		if (f->nodes.cut[i])
			vec_push(&at, i);
	json_object_begin_at(b, "cut");
	INT_COLUMN(j, "node", at.n, at.v[i]);
	INT_COLUMN(j, "count", at.n, f->nodes.cut[at.v[i]]);
	json_object_end(b);
	vec_free(&at);
}

/* The larger part of the answer. */
static void put_nodes(struct flame_json *j, const struct flame *f)
{
	struct buf *b = j->out;
	json_object_begin_at(b, "nodes");
	INT_COLUMN(j, "depth", f->n_nodes, f->nodes.depth[i]);
	INT_COLUMN(j, "frame", f->n_nodes, f->nodes.frame[i]);
	INT_COLUMN(j, "line", f->n_nodes, f->nodes.line[i]);
	VALUE_COLUMNS(j, f, f->n_nodes, OF_NODE);
	if (f->hidden)
		put_cut(j, f);
	json_object_end(b);
	json_field_count(b, "hidden", f->hidden);
}

static void put_functions(struct flame_json *j, const struct flame *f)
{
	struct buf *b = j->out;
	json_object_begin_at(b, "functions");
	INT_COLUMN(j, "frame", f->n_functions, f->functions[i].frame);
	VALUE_COLUMNS(j, f, f->n_functions, OF_FUNCTION);
	json_field_count(b, "all", f->all_functions);
	json_object_end(b);
}

static void put_found(struct buf *b, const struct flame *f)
{
	json_object_begin_at(b, "found");
	json_key(b, "total");
	put_value(b, f, f->found);
	if (f->has_base) {
		json_key(b, "base");
		put_value(b, f, f->base_found);
	}
	json_field_count(b, "functions", f->n_found);
	json_object_end(b);
}

void merged_head(struct buf *b, const struct merged_profile *m, const struct flame *f)
{
	struct buf name = { 0 };
	if (m->type)
		ptype_format(m->type, &name);
	json_object_begin(b);
	json_field(b, "unit", m->type ? m->type->sample_unit : VIEW(""));
	json_field(b, "sampleType", m->type ? m->type->sample_type : VIEW(""));
	json_field(b, "name", buf_view(&name));
	buf_free(&name);
	json_field_text(b, "kind", m->type ? profile_kind_text(m->type->kind) : "");
	json_field_float(b, "coveredSeconds", m->covered_s);
	json_field_float(b, "perSeconds", m->per_s);
	json_field_float(b, "weight", m->weight);
	json_field_bool(b, "mixedWeights", m->mixed);
	json_key(b, "total");
	put_value(b, f, f->nodes.total[0]);
}

/* An answer without profiles is a root of its own. */
int merged_flame(struct flame *f, const struct merged_profile *m, const struct flame_ask *ask, const struct permit *permit, struct err *e)
{
	struct flame_ask own = ask ? *ask : (struct flame_ask){ 0 };
	own.permit = permit;
	if (m->vec)
		return flame_fold(f, m->vec, m->base, &own, e);
	struct symbols *s = symbols_new();
	struct stackvec *none = stackvec_empty(s);
	int rc = flame_fold(f, none, NULL, NULL, e);
	stackvec_unref(none);
	symbols_unref(s);
	return rc;
}

#define NODE_TEXT 24   /* bytes of a node's numbers as JSON, which are held until the answer's text is written out */
#define FRAME_BYTES 96 /* of a frame in the table of strings */

int flamegraph_json(const struct merged_profile *m, const struct flame_ask *ask, const struct permit *permit, struct buf *out, struct err *e)
{
	struct flame f;
	int rc = merged_flame(&f, m, ask, permit, e);
	if (rc)
		return rc;
	struct flame_json j = { out, permit, 0, e };
	j.rc = permit_need(permit, permit_text(permit, f.n_nodes * NODE_TEXT) + f.n_frames * FRAME_BYTES, e);
	if (!j.rc) {
		merged_head(out, m, &f);
		put_frames(&j, &f);
		put_nodes(&j, &f);
		if (ask->functions)
			put_functions(&j, &f);
		if (ask->match)
			put_found(out, &f);
		json_field_count(out, "root", f.root);
		json_object_end(out);
	}
	flame_release(&f);
	return j.rc;
}

/* ---- folded ---- */

int folded_text(const struct merged_profile *m, const struct permit *permit, struct buf *out, struct err *e)
{
	struct flame f;
	int rc = merged_flame(&f, m, NULL, permit, e);
	if (rc)
		return rc;
	rc = permit_need(permit, permit_text(permit, f.n_nodes * 256), e);
	if (!rc)
		rc = flame_folded(&f, permit, out, e);
	flame_release(&f);
	return rc;
}
