/* SPDX-License-Identifier: Apache-2.0 */
/* format=flamegraph, compact columns for the page, and format=folded, lines for other tools: both from a flame. */
#include <math.h>
#include <stdlib.h>

#include "base/map.h"
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

static void put_int(struct buf *b, int64_t v)
{
	char tmp[24], *p = tmp + sizeof tmp;
	uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	do
		*--p = (char)('0' + u % 10);
	while (u /= 10);
	if (v < 0)
		*--p = '-';
	buf_put(b, p, (size_t)(tmp + sizeof tmp - p));
}

static void put_value(struct buf *b, const struct flame *f, union flame_value v)
{
	if (!f->is_float)
		put_int(b, v.i);
	else if (isfinite(v.d))
		json_float(b, v.d);
	else
		buf_puts(b, "null");
}

/* "key":[expression for each i in 0..count) */
#define COLUMN(b, key, count, put) do { \
	buf_puts(b, "\"" key "\":["); \
	for (size_t i = 0; i < (count); i++) { \
		if (i) \
			buf_putc(b, ','); \
		put; \
	} \
	buf_putc(b, ']'); \
} while (0)

static void put_frames(struct buf *b, const struct flame *f)
{
	struct strings s = { 0 };
	string_index(&s, VIEW(""));
	for (size_t i = 0; i < f->n_frames; i++) {
		string_index(&s, f->frames[i].name);
		string_index(&s, f->frames[i].file);
		string_index(&s, f->frames[i].binary);
	}
	COLUMN(b, "strings", s.v.n, buf_json_string(b, s.v.v[i]));
	buf_puts(b, ",\"frames\":{");
	COLUMN(b, "name", f->n_frames, put_int(b, string_index(&s, f->frames[i].name)));
	buf_putc(b, ',');
	COLUMN(b, "file", f->n_frames, put_int(b, string_index(&s, f->frames[i].file)));
	buf_putc(b, ',');
	COLUMN(b, "binary", f->n_frames, put_int(b, string_index(&s, f->frames[i].binary)));
	buf_putc(b, ',');
	COLUMN(b, "startLine", f->n_frames, put_int(b, f->frames[i].start_line));
	buf_putc(b, '}');
	strings_free(&s);
}

static void put_nodes(struct buf *b, const struct flame *f)
{
	buf_puts(b, ",\"nodes\":{");
	COLUMN(b, "depth", f->n_nodes, put_int(b, f->nodes[i].depth));
	buf_putc(b, ',');
	COLUMN(b, "frame", f->n_nodes, put_int(b, f->nodes[i].frame));
	buf_putc(b, ',');
	COLUMN(b, "total", f->n_nodes, put_value(b, f, f->nodes[i].total));
	buf_putc(b, ',');
	COLUMN(b, "self", f->n_nodes, put_value(b, f, f->nodes[i].self));
	buf_putc(b, ',');
	COLUMN(b, "line", f->n_nodes, put_int(b, f->nodes[i].line));
	if (f->has_base) {
		buf_puts(b, ",\"base\":{");
		COLUMN(b, "total", f->n_nodes, put_value(b, f, f->nodes[i].base_total));
		buf_putc(b, ',');
		COLUMN(b, "self", f->n_nodes, put_value(b, f, f->nodes[i].base_self));
		buf_putc(b, '}');
	}
	buf_printf(b, "},\"hidden\":%zu", f->hidden);
}

static void put_type(struct buf *b, const struct merged *m)
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
}

/* An answer without profiles is a root of its own. */
int merged_flame(struct flame *f, const struct merged *m, double min_share, struct err *e)
{
	if (m->vec)
		return flame_fold(f, m->vec, m->base, min_share, e);
	struct symbols *s = symbols_new();
	struct stackvec *none = stackvec_empty(s);
	int rc = flame_fold(f, none, NULL, 0, e);
	stackvec_unref(none);
	symbols_unref(s);
	return rc;
}

int flamegraph_json(const struct merged *m, double width_px, struct buf *out, struct err *e)
{
	struct flame f;
	int rc = merged_flame(&f, m, width_px > 0 ? 0.25 / width_px : 0, e);
	if (rc)
		return rc;
	put_type(out, m);
	put_value(out, &f, f.nodes[0].total);
	buf_putc(out, ',');
	put_frames(out, &f);
	put_nodes(out, &f);
	buf_putc(out, '}');
	flame_release(&f);
	return 0;
}

/* ---- folded ---- */

int folded_text(const struct merged *m, struct buf *out, struct err *e)
{
	struct flame f;
	int rc = merged_flame(&f, m, 0, e);
	if (rc)
		return rc;
	flame_folded(&f, out);
	flame_release(&f);
	return 0;
}
