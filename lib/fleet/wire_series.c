/* SPDX-License-Identifier: Apache-2.0 */
/* Series, types and names. A string is there once; an id is
 *
 *	0      the next one that was not named before
 *	k + 1  the k-th
 *
 * so that a label value that only one series has costs a byte beside its text. Shapes are lists of label names: nearly all series of a job have
 * one. */
#include "base/map.h"
#include "fleet/wire_result.h"

/* ---- writing: what refers to strings is written aside, until all strings are known ---- */

struct series_writer {
	struct buf aside;
	struct wire_out out;         /* to aside */
	VEC(struct view) strings;
	struct map by_text;
	VEC(const struct ptype *) types;
	VEC(struct labels) shapes;   /* one series' labels each; their names count */
	struct map by_names;
};

static void series_put_string(struct series_writer *w, struct view v)
{
	uint32_t id;
	wire_room(&w->out);
	if (MAP_FIND_OR_ADD(&w->by_text, hash_view(v), id, w->strings.n, view_eq(w->strings.v[id], v))) {
		wire_put(&w->out, (uint64_t)id + 1);
		return;
	}
	vec_push(&w->strings, v);
	wire_put(&w->out, 0);
}

/* floats: 0; a type that was there: 2 + its number; else 1, and the type. */
static void series_put_type(struct series_writer *w, const struct ptype *t)
{
	wire_room(&w->out);
	if (!t) {
		wire_put(&w->out, 0);
		return;
	}
	for (size_t i = w->types.n; i-- > 0;)
		if (w->types.v[i] == t || ptype_eq(w->types.v[i], t)) {
			wire_put(&w->out, 2 + i);
			return;
		}
	vec_push(&w->types, t);
	wire_put(&w->out, 1);
	series_put_string(w, t->name);
	series_put_string(w, t->sample_type);
	series_put_string(w, t->sample_unit);
	series_put_string(w, t->period_type);
	series_put_string(w, t->period_unit);
	wire_put_byte(&w->out, (uint8_t)(t->kind << 1 | t->delta));
}

static bool series_same_names(struct labels a, struct labels b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (!view_eq(a.v[i].name, b.v[i].name))
			return false;
	return true;
}

static uint64_t series_hash_names(struct labels l)
{
	uint64_t hash = l.n;
	for (size_t i = 0; i < l.n; i++)
		hash = hash_bytes_seed(l.v[i].name.ptr, l.v[i].name.len, hash);
	return hash;
}

/* A shape that was there: 1 + its number; else 0, and its names. Then the values. */
static void series_put_labels(struct series_writer *w, struct labels l)
{
	uint32_t id;
	wire_room(&w->out);
	if (MAP_FIND_OR_ADD(&w->by_names, series_hash_names(l), id, w->shapes.n, series_same_names(w->shapes.v[id], l))) {
		wire_put(&w->out, (uint64_t)id + 1);
	} else {
		vec_push(&w->shapes, l);
		wire_put(&w->out, 0);
		wire_put(&w->out, l.n);
		for (size_t i = 0; i < l.n; i++)
			series_put_string(w, l.v[i].name);
	}
	for (size_t i = 0; i < l.n; i++)
		series_put_string(w, l.v[i].value);
}

static void series_put_table(struct wire_out *o, const struct view *v, size_t n)
{
	wire_put(o, n);
	for (size_t i = 0; i < n; i++) {
		wire_room(o);
		wire_put(o, v[i].len);
	}
	wire_flush(o);
	for (size_t i = 0; i < n; i++)
		buf_putv(o->to, v[i]);
}

void wire_put_series(struct wire_out *o, const struct fleet_result *r)
{
	if (r->op != FLEET_SELECT && r->op != FLEET_TYPES) {
		series_put_table(o, r->names, r->n);
		return;
	}
	struct series_writer w = { .aside.max = o->to->max };
	uint64_t ref = 0;
	w.out.to = &w.aside;
	for (size_t i = 0; i < r->n && r->op == FLEET_SELECT; i++) {
		series_put_labels(&w, r->series[i].labels);
		series_put_type(&w, r->series[i].type);
		wire_put_diff(&w.out, (int64_t)r->series[i].ref, (int64_t)ref);
		ref = r->series[i].ref + 1;
	}
	for (size_t i = 0; i < r->n && r->op == FLEET_TYPES; i++) {
		series_put_string(&w, r->types[i].name);
		series_put_type(&w, r->types[i].type);
		wire_put(&w.out, r->types[i].n_series);
	}
	wire_flush(&w.out);
	series_put_table(o, w.strings.v, w.strings.n);
	wire_put(o, r->n);
	wire_flush(o);
	buf_putv(o->to, buf_view(&w.aside));
	o->to->overflow |= w.aside.overflow;
	buf_free(&w.aside);
	vec_free(&w.strings);
	vec_free(&w.types);
	vec_free(&w.shapes);
	map_free(&w.by_text);
	map_free(&w.by_names);
}

/* ---- reading ---- */

struct series_shape {
	size_t first, n;             /* of series_reader.names */
};

struct series_reader {
	struct wire_in *in;
	struct view *strings;        /* malloc'd; their bytes are in the arena */
	size_t n_strings, used;      /* used: those before were named */
	VEC(struct view) names;      /* of all shapes */
	VEC(struct series_shape) shapes;
	VEC(const struct ptype *) types;
};

static void series_get_table(struct series_reader *r)
{
	struct wire_in *in = r->in;
	uint64_t left;
	wire_section(in, "strings");
	r->n_strings = wire_get_count(in, 1);
	r->strings = wire_heap(in, r->n_strings + 1, sizeof *r->strings);
	uint64_t sum = 0;
	for (size_t i = 0; i < r->n_strings && !in->c.bad; i++) {
		left = (uint64_t)(in->c.end - in->c.p);
		r->strings[i].len = wire_get(in);
		if (wire_require(in, r->strings[i].len <= left, "a string is longer than what is left"))
			sum += r->strings[i].len;
	}
	if (in->c.bad || !wire_require(in, sum <= (uint64_t)(in->c.end - in->c.p), "the strings are longer than what is left"))
		return;
	char *bytes = wire_alloc(in, sum + 1, 1);
	if (!bytes)
		return;
	if (sum)
		memcpy(bytes, cursor_bytes(&in->c, sum).ptr, sum);
	for (size_t i = 0; i < r->n_strings; i++) {
		r->strings[i].ptr = bytes;
		bytes += r->strings[i].len;
	}
}

static struct view series_get_string(struct series_reader *r)
{
	uint64_t id = wire_get(r->in);
	if (!wire_require(r->in, id ? id <= r->n_strings : r->used < r->n_strings, "a string that there is not"))
		return VIEW("");
	return r->strings[id ? id - 1 : r->used++];
}

static const struct ptype *series_get_type(struct series_reader *r)
{
	uint64_t id = wire_get(r->in);
	if (!id)
		return NULL;
	if (id > 1)
		return wire_require(r->in, id - 2 < r->types.n, "a type that there is not") ? r->types.v[id - 2] : NULL;
	struct ptype *t = wire_alloc(r->in, 1, sizeof *t);
	if (!t)
		return NULL;
	t->name = series_get_string(r);
	t->sample_type = series_get_string(r);
	t->sample_unit = series_get_string(r);
	t->period_type = series_get_string(r);
	t->period_unit = series_get_string(r);
	uint8_t kind = wire_get_byte(r->in);
	t->delta = kind & 1;
	t->kind = kind >> 1;
	wire_require(r->in, kind >> 1 >= PROFILE_DELTA && kind >> 1 <= PROFILE_GAUGE, "a kind of type that there is not");
	vec_push(&r->types, t);
	return t;
}

static struct series_shape series_get_shape(struct series_reader *r)
{
	uint64_t id = wire_get(r->in);
	if (id)
		return wire_require(r->in, id <= r->shapes.n, "a list of label names that there is not") ? r->shapes.v[id - 1] : (struct series_shape){ 0 };
	struct series_shape s = { r->names.n, wire_get_count(r->in, 1) };
	for (size_t i = 0; i < s.n && !r->in->c.bad; i++) {
		struct view v = series_get_string(r);
		wire_require(r->in, v.len && (!i || view_cmp(r->names.v[r->names.n - 1], v) < 0), "label names are not in order");
		vec_push(&r->names, v);
	}
	vec_push(&r->shapes, s);
	return s;
}

static struct labels series_get_labels(struct series_reader *r)
{
	struct series_shape s = series_get_shape(r);
	if (!wire_require(r->in, s.n <= (size_t)(r->in->c.end - r->in->c.p), "it has more labels than bytes"))
		return (struct labels){ 0 };
	struct label *v = wire_alloc(r->in, s.n, sizeof *v);
	for (size_t i = 0; i < s.n && !r->in->c.bad; i++) {
		v[i] = (struct label){ r->names.v[s.first + i], series_get_string(r) };
		wire_require(r->in, v[i].value.len, "a label value is empty");
	}
	return (struct labels){ v, v ? s.n : 0 };
}

#define SERIES_ALIKE_MAX 64 /* series with the same labels */

static bool series_same_type(const struct ptype *a, const struct ptype *b)
{
	return a == b || (a && b && a->kind == b->kind && ptype_eq(a, b));
}

static void series_get_series(struct series_reader *r, struct fleet_result *to)
{
	uint64_t ref = 0;
	wire_section(r->in, "series");
	size_t n = wire_get_count(r->in, 3), alike = 0;
	to->series = wire_heap(r->in, n + 1, sizeof *to->series);
	to->n = n;
	for (size_t i = 0; i < n && !r->in->c.bad; i++) {
		struct source_series *s = &to->series[i];
		s->labels = series_get_labels(r);
		s->type = series_get_type(r);
		s->ref = (uint64_t)wire_get_diff(r->in, (int64_t)ref);
		ref = s->ref + 1;
		wire_require(r->in, s->ref <= UINT32_MAX, "a reference is 2^32 or more");
		int order = i ? labels_cmp(s[-1].labels, s->labels) : -1;
		alike = order ? 0 : alike + 1; /* floats and profiles of some types may have equal labels */
		wire_require(r->in, order <= 0, "series are not in the order of their labels");
		wire_require(r->in, alike < SERIES_ALIKE_MAX && (order || !series_same_type(s[-1].type, s->type)), "a series is there twice");
		wire_go_on(r->in, i);
	}
}

static void series_get_types(struct series_reader *r, struct fleet_result *to)
{
	wire_section(r->in, "types");
	size_t n = wire_get_count(r->in, 3);
	to->types = wire_heap(r->in, n + 1, sizeof *to->types);
	to->n = n;
	for (size_t i = 0; i < n && !r->in->c.bad; i++) {
		to->types[i].name = series_get_string(r);
		to->types[i].type = series_get_type(r);
		to->types[i].n_series = wire_get(r->in);
		wire_require(r->in, to->types[i].name.len && to->types[i].type, "it has no name or no type");
	}
}

static void series_get_names(struct series_reader *r, struct fleet_result *to)
{
	for (size_t i = 0; i < r->n_strings && !r->in->c.bad; i++)
		wire_require(r->in, i ? view_cmp(r->strings[i - 1], r->strings[i]) < 0 : r->strings[i].len > 0, "names are empty or not in order");
	to->n = r->n_strings;
	to->names = TAKE_PTR(r->strings);
}

void wire_get_series(struct wire_in *in, struct fleet_result *to)
{
	struct series_reader r = { .in = in };
	series_get_table(&r);
	if (in->c.bad)
		;
	else if (to->op == FLEET_SELECT)
		series_get_series(&r, to);
	else if (to->op == FLEET_TYPES)
		series_get_types(&r, to);
	else
		series_get_names(&r, to);
	free(r.strings);
	vec_free(&r.names);
	vec_free(&r.shapes);
	vec_free(&r.types);
}
