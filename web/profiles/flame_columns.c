/* SPDX-License-Identifier: Apache-2.0 */
/* format=flamegraph as varint columns, for the page: docs/format/flame.md describes them. A JSON answer comes first, with single
 * values, then a newline and the columns, each after its length in bytes:
 *
 *	frames  used · name lengths · names · text lengths · texts · file · binary · start line
 *	nodes   head · frame · line · self · base self · cut · rest · base rest
 *	rows    frame · self · total · base self · base total
 *	found
 *
 * Values are multiples of one number, so most take a byte or two; totals are computed from the selves. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/varint.h"
#include "base/vec.h"
#include "base/json.h"
#include "web/profiles/flame_columns.h"
#include "web/profiles/merged.h"

#define FRACTION_BITS 50                   /* of the largest value that is no integer */
#define MOST_SCALE ((uint64_t)UINT32_MAX)  /* so that readers multiply exactly */

/* Repeated texts, each once, in order of first use. */
struct texts {
	struct map index;
	VEC(struct view) v;
};

struct columns {
	const struct flame *f;
	struct frame_numbers numbers;
	struct texts texts;
	uint64_t divisor; /* of integers */
	double unit;      /* of others; a multiple of a power of two, so that products are exact */
};

/* ---- values ---- */

static uint64_t distance(int64_t v)
{
	return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

struct scale {
	const struct flame *f;
	double unit;      /* of values that are no integers; 0: not known yet */
	double largest;
	uint64_t divisor; /* of integers, or of multiples of the unit; 0: of zeroes */
};

static inline void measure(struct scale *s, union flame_value v)
{
	int64_t i = !s->f->is_float ? v.i : s->unit > 0 ? llrint(v.d / s->unit) : 0;
	if (s->f->is_float && !(s->unit > 0))
		s->largest = fmax(s->largest, fabs(v.d));
	else if (i && (!s->divisor || distance(i) % s->divisor))
		s->divisor = common_divisor(distance(i), s->divisor);
}

/* Totals of nodes are sums of selves, but on the way to the root, where other children are not there. */
static void measure_all(struct scale *s)
{
	const struct flame *f = s->f;
	for (size_t i = 0; i < f->root; i++)
		measure(s, f->nodes.total[i]);
	for (size_t i = 0; i < f->n_nodes; i++)
		measure(s, f->nodes.self[i]);
	for (size_t i = 0; f->has_base && i < f->root; i++)
		measure(s, f->nodes.base_total[i]);
	for (size_t i = 0; f->has_base && i < f->n_nodes; i++)
		measure(s, f->nodes.base_self[i]);
	for (size_t i = 0; i < f->n_functions; i++) {
		measure(s, f->functions[i].self);
		measure(s, f->functions[i].total);
		measure(s, f->functions[i].base_self);
		measure(s, f->functions[i].base_total);
	}
	measure(s, f->found);
	measure(s, f->base_found);
}

/* A fraction of what readers add up: the selves of a side, whatever their signs. */
static void choose_unit(struct scale *s)
{
	const struct flame *f = s->f;
	double now = 0, base = 0;
	int exponent;
	measure_all(s);
	for (size_t i = 0; i < f->root; i++)
		now += fabs(f->nodes.total[i].d);
	for (size_t i = 0; i < f->n_nodes; i++)
		now += fabs(f->nodes.self[i].d);
	for (size_t i = 0; f->has_base && i < f->root; i++)
		base += fabs(f->nodes.base_total[i].d);
	for (size_t i = 0; f->has_base && i < f->n_nodes; i++)
		base += fabs(f->nodes.base_self[i].d);
	frexp(fmin(fmax(s->largest, fmax(now, base)), DBL_MAX), &exponent);
	s->unit = ldexp(1, MAX(exponent - FRACTION_BITS, -1022));
}

/* The common divisor of all values. */
static void choose_scale(struct columns *c)
{
	struct scale s = { .f = c->f };
	if (c->f->is_float)
		choose_unit(&s);
	measure_all(&s);
	c->divisor = s.divisor && (c->f->is_float || s.divisor <= MOST_SCALE) ? s.divisor : 1;
	c->unit = s.unit * (double)c->divisor;
}

static inline int64_t number_of(const struct columns *c, union flame_value v)
{
	if (c->f->is_float)
		return llrint(v.d / c->unit);
	return c->divisor == 1 ? v.i : v.i / (int64_t)c->divisor;
}

/* Readers add again, in 64 bits, and wrap as this does. */
static inline int64_t less(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* ---- columns ---- */

static void put_column(struct buf *out, const struct buf *column)
{
	buf_varint(out, column->len);
	buf_putv(out, buf_view(column));
}

/* A column of one expression per i in 0..count), at most ten bytes each; where `given` is false nothing is written. */
#define COLUMN(out, count, given, value) do { \
	struct buf col_ = { 0 }; \
	if (buf_reserve(&col_, (count) * 10 + 1)) { \
		uint8_t *p_ = (uint8_t *)col_.ptr; \
		for (size_t i = 0; i < (count); i++) \
			if (given) \
				p_ += varint_put(p_, (value)); \
		col_.len = (size_t)((char *)p_ - col_.ptr); \
	} \
	(out)->overflow |= col_.overflow; \
	put_column(out, &col_); \
	buf_free(&col_); \
} while (0)

/* Lines and places in a file are positive 31-bit numbers for the page; others count as unknown. */
static int64_t plain_line(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? line : 0;
}

/* Its place from 1 on; 0 is "". */
static uint32_t text_index(struct texts *t, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t i;
	if (!v.len)
		return 0;
	if (!MAP_FIND_OR_ADD(&t->index, h, i, t->v.n, view_eq(t->v.v[i], v)))
		vec_push(&t->v, v);
	return i + 1;
}

static void put_texts(struct buf *out, const struct view *v, size_t n)
{
	struct buf bytes = { 0 };
	COLUMN(out, n, true, v[i].len);
	for (size_t i = 0; i < n; i++)
		buf_putv(&bytes, v[i]);
	put_column(out, &bytes);
	out->overflow |= bytes.overflow;
	buf_free(&bytes);
}

/* The frames that the client has are named by their places in its list; what is new comes in order of names, so that
 * neighbours are alike. */
static void put_frames(struct buf *out, struct columns *c)
{
	const struct flame *f = c->f;
	const struct frame_numbers *m = &c->numbers;
	size_t n = m->n_new;
	struct view *names = xmalloc((n + 1) * sizeof *names);
	uint32_t *file = xmalloc((n + 1) * sizeof *file), *binary = xmalloc((n + 1) * sizeof *binary);
	for (size_t i = 0; i < n; i++) {
		const struct flame_frame *x = &f->frames[m->new[i]];
		names[i] = x->name;
		file[i] = text_index(&c->texts, x->file);
		binary[i] = text_index(&c->texts, x->binary);
	}
	COLUMN(out, m->n_known, true, m->known[i] - (i ? m->known[i - 1] + 1 : 0));
	put_texts(out, names, n);
	put_texts(out, c->texts.v.v, c->texts.v.n);
	COLUMN(out, n, true, zigzag_encode((int64_t)file[i] - (i ? file[i - 1] : 0)));
	COLUMN(out, n, true, zigzag_encode((int64_t)binary[i] - (i ? binary[i - 1] : 0)));
	COLUMN(out, n, true, (uint64_t)plain_line(f->frames[m->new[i]].start_line));
	free(names);
	free(file);
	free(binary);
}

enum node_head {
	HAS_SELF = 1,
	HAS_LINE = 2,
	HAS_BASE = 4,
	IS_CUT = 8,
	UP_SHIFT = 4, /* by how many levels it lies above a child of the node before it */
};

/* By node what its head says. */
static void make_heads(const struct columns *c, uint32_t *head, int64_t *line)
{
	const struct flame *f = c->f;
	int64_t *last = xcalloc(f->n_frames, sizeof *last);
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct flame_node row = flame_node(f, i), *n = &row;
		int64_t l = plain_line(n->line);
		head[i] = (i ? f->nodes.depth[i - 1] + 1 - n->depth : 0) << UP_SHIFT | (number_of(c, n->self) ? HAS_SELF : 0) |
			  (l != last[n->frame] ? HAS_LINE : 0) | (number_of(c, n->base_self) ? HAS_BASE : 0) | (n->cut ? IS_CUT : 0);
		line[i] = l - last[n->frame];
		last[n->frame] = l;
	}
	free(last);
}

/* For a node on the path to the root, the value of its children that are left out. */
static int64_t rest_of(const struct columns *c, size_t i)
{
	const struct flame_nodes *n = &c->f->nodes;
	return less(less(number_of(c, n->total[i]), number_of(c, n->self[i])), number_of(c, n->total[i + 1]));
}

static int64_t base_rest_of(const struct columns *c, size_t i)
{
	const struct flame_nodes *n = &c->f->nodes;
	return less(less(number_of(c, n->base_total[i]), number_of(c, n->base_self[i])), number_of(c, n->base_total[i + 1]));
}

static void put_nodes(struct buf *out, const struct columns *c)
{
	const struct flame_nodes *nodes = &c->f->nodes;
	size_t n = c->f->n_nodes;
	uint32_t *head = xmalloc(n * sizeof *head);
	int64_t *line = xmalloc(n * sizeof *line);
	make_heads(c, head, line);
	COLUMN(out, n, true, head[i]);
	COLUMN(out, n, true, c->numbers.of_frame[nodes->frame[i]]);
	COLUMN(out, n, head[i] & HAS_LINE, zigzag_encode(line[i]));
	COLUMN(out, n, head[i] & HAS_SELF, zigzag_encode(number_of(c, nodes->self[i])));
	COLUMN(out, n, head[i] & HAS_BASE, zigzag_encode(number_of(c, nodes->base_self[i])));
	COLUMN(out, n, head[i] & IS_CUT, nodes->cut[i]);
	COLUMN(out, c->f->root, true, zigzag_encode(rest_of(c, i)));
	COLUMN(out, c->f->has_base ? c->f->root : 0, true, zigzag_encode(base_rest_of(c, i)));
	free(head);
	free(line);
}

struct row {
	uint32_t number;
	const struct flame_function *f;
};

static int by_number(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	return (x->number > y->number) - (x->number < y->number);
}

static void put_rows(struct buf *out, const struct columns *c)
{
	const struct flame *f = c->f;
	size_t n = f->n_functions, n_base = f->has_base ? n : 0;
	struct row *r = xmalloc((n + 1) * sizeof *r);
	for (size_t i = 0; i < n; i++)
		r[i] = (struct row){ c->numbers.of_frame[f->functions[i].frame], &f->functions[i] };
	qsort(r, n, sizeof *r, by_number);
	COLUMN(out, n, true, r[i].number - (i ? r[i - 1].number + 1 : 0));
	COLUMN(out, n, true, zigzag_encode(number_of(c, r[i].f->self)));
	COLUMN(out, n, true, zigzag_encode(less(number_of(c, r[i].f->total), number_of(c, r[i].f->self))));
	COLUMN(out, n_base, true, zigzag_encode(number_of(c, r[i].f->base_self)));
	COLUMN(out, n_base, true, zigzag_encode(less(number_of(c, r[i].f->base_total), number_of(c, r[i].f->base_self))));
	free(r);
}

static void put_found(struct buf *out, const struct columns *c)
{
	const union flame_value v[] = { c->f->found, c->f->base_found };
	COLUMN(out, ARRAY_LEN(v), true, zigzag_encode(number_of(c, v[i])));
}

static void put_list(struct buf *out, const char *key, uint64_t list)
{
	char text[17];
	snprintf(text, sizeof text, "%016llx", (unsigned long long)list);
	json_field_text(out, key, text);
}

static void put_head(struct buf *out, const struct columns *c, const struct flame_ask *ask)
{
	const struct flame *f = c->f;
	const struct frame_numbers *m = &c->numbers;
	json_field_count(out, "hidden", f->hidden);
	json_field_count(out, "root", f->root);
	json_object_begin_at(out, "columns");
	json_field_count(out, "version", 1);
	json_field_count(out, "nodes", f->n_nodes);
	json_field_count(out, "rows", f->n_functions);
	json_field_count(out, "all", f->all_functions);
	json_field_bool(out, "diff", f->has_base);
	json_field_bool(out, "integers", !f->is_float);
	json_field_float(out, "scale", f->is_float ? c->unit : (double)c->divisor);
	json_field_count(out, "known", m->n_known);
	json_field_count(out, "new", m->n_new);
	json_field_count(out, "texts", c->texts.v.n);
	if (m->of)
		put_list(out, "of", m->of);
	if (m->list)
		put_list(out, "list", m->list);
	if (ask->match)
		json_field_count(out, "found", f->n_found);
	json_object_end(out);
	json_object_end(out);
}

#define NODE_BYTES 40  /* of a node: its head and line, one column of it, and all of them twice, as they are copied to the answer */
#define FRAME_BYTES 320 /* of a frame: a name of usual length, twice, and its place in the tables */
#define NAME_USUAL 64   /* bytes of a name, a file and a binary together that FRAME_BYTES has room for */
#define NAME_COPIES 6   /* in a column, in all columns and in the answer, in buffers that double */

/* Bytes of memory for the texts of frames, beyond what FRAME_BYTES has room for. A file or a binary that the frame before has counts once. */
static uint64_t long_texts(const struct flame *f)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < f->n_frames; i++) {
		const struct flame_frame *x = &f->frames[i], *before = i ? x - 1 : NULL;
		size_t n = x->name.len + (before && x->file.ptr == before->file.ptr ? 0 : x->file.len) +
			   (before && x->binary.ptr == before->binary.ptr ? 0 : x->binary.len);
		bytes += n > NAME_USUAL ? n - NAME_USUAL : 0;
	}
	return bytes * NAME_COPIES;
}

static int put_all(struct columns *c, struct frame_lists *lists, uint64_t list, const struct permit *permit, struct buf *out, struct err *e)
{
	int rc = permit_need(permit, c->f->n_nodes * NODE_BYTES + c->f->n_frames * FRAME_BYTES + long_texts(c->f), e);
	if (rc)
		return rc;
	choose_scale(c);
	frame_lists_number(lists, list, c->f, &c->numbers);
	put_frames(out, c);
	rc = permit_go_on(permit, e);
	if (rc)
		return rc;
	put_nodes(out, c);
	put_rows(out, c);
	put_found(out, c);
	return permit_go_on(permit, e);
}

int flamegraph_columns(struct frame_lists *lists, uint64_t list, const struct merged_profile *m, const struct flame_ask *ask,
		       const struct permit *permit, struct buf *head, struct buf *out, struct err *e)
{
	struct flame f;
	int rc = merged_flame(&f, m, ask, permit, e);
	if (rc)
		return rc;
	struct columns c = { .f = &f };
	rc = put_all(&c, lists, list, permit, out, e);
	if (!rc) {
		merged_head(head, m, &f);
		put_head(head, &c, ask);
	}
	map_free(&c.texts.index);
	vec_free(&c.texts.v);
	frame_numbers_release(&c.numbers);
	flame_release(&f);
	return rc;
}
