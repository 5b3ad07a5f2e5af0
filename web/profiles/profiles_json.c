/* SPDX-License-Identifier: Apache-2.0 */
/* format=json: every element of an answer with all of its samples, for scripts:
 *
 *	{"frames":[{"function":"main.work","file":"main.go","line":7,"binary":"demo"}, ...],
 *	 "profiles":[{"metric":{...},"type":"process_cpu:...","unit":"nanoseconds","kind":"delta","time":1700000000,
 *	   "coveredSeconds":60,"perSeconds":0,"weight":1,"mixedWeights":false,"period":10000000,"total":123,
 *	   "samples":[{"stack":[0,4,7],"labels":{"thread":"x"},"value":123}, ...]}]}
 *
 * A stack is frames, root first, inlined calls expanded; a diff has "base" beside "samples". Values are in the native unit;
 * an infinite one is "+Inf" or "-Inf", what is no number "NaN". Samples are by value, equal ones by the texts of their stacks and labels
 * (sample_order.h). Addresses and dictionaries that agree in all texts of a frame share one. */
#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "model/frame.h"
#include "model/sample_order.h"
#include "base/json.h"
#include "web/profiles/merged.h"

/* A line of a location, or a bare location (line = n_lines). */
struct json_place {
	const struct symbols *symbols;
	uint32_t location, line;
	uint32_t frame;          /* that it is */
};

struct writer {
	struct buf *out;
	const struct permit *permit;
	struct map places_index, frames_index;
	VEC(struct json_place) places;
	VEC(struct json_place) frames; /* by number: the first place that has these texts */
	VEC(uint32_t) locations; /* of the stack at hand */
	struct buf address, other_address;
	struct sample_order order;
	struct sample_labels labels;
	size_t n_frames;         /* written, of all stacks */
};

static bool same_place(const struct json_place *a, const struct json_place *b)
{
	return a->symbols == b->symbols && a->location == b->location && a->line == b->line;
}

/* Texts as they are printed; a frame without a function has only an address, in `name`, and a binary. */
struct json_frame {
	struct view name, file, binary;
	int64_t line;
	bool has_function;
};

static struct json_frame texts_of(const struct json_place *x, struct buf *address)
{
	const struct sym_location *l = symbols_get_location(x->symbols, x->location);
	struct json_frame t = { .name = frame_name(x->symbols, l, x->line, address), .binary = frame_binary(x->symbols, l) };
	t.has_function = frame_function(x->symbols, l, x->line);
	if (t.has_function) {
		t.file = frame_file(x->symbols, l, x->line);
		t.line = frame_line(x->symbols, l, x->line);
	}
	return t;
}

static bool same_texts(const struct json_frame *a, const struct json_frame *b)
{
	return view_eq(a->name, b->name) && view_eq(a->file, b->file) && view_eq(a->binary, b->binary) && a->line == b->line &&
	       a->has_function == b->has_function;
}

static uint32_t frame_of_texts(struct writer *w, const struct json_place *x)
{
	struct json_frame t = texts_of(x, &w->address);
	const uint64_t parts[] = { hash_view(t.name), hash_view(t.file), hash_view(t.binary), (uint64_t)t.line };
	uint64_t h = hash_bytes(parts, sizeof parts);
	uint32_t i;
	for (size_t at = map_start(&w->frames_index, h); map_probe(&w->frames_index, h, &at, &i);) {
		struct json_frame known = texts_of(&w->frames.v[i], &w->other_address);
		if (same_texts(&known, &t))
			return i;
	}
	i = (uint32_t)w->frames.n;
	map_insert(&w->frames_index, h, i);
	vec_push(&w->frames, *x);
	return i;
}

static uint32_t frame_index(struct writer *w, struct json_place x)
{
	uint64_t h = hash_u64((uint64_t)x.location << 32 | x.line) ^ hash_u64((uintptr_t)x.symbols);
	uint32_t i;
	if (!MAP_FIND_OR_ADD(&w->places_index, h, i, w->places.n, same_place(&w->places.v[i], &x))) {
		x.frame = frame_of_texts(w, &x);
		vec_push(&w->places, x);
	}
	return w->places.v[i].frame;
}

static void put_frame(struct writer *w, const struct json_place *x)
{
	struct json_frame t = texts_of(x, &w->address);
	json_object_begin(w->out);
	json_field(w->out, "function", t.name);
	if (t.has_function) {
		json_field(w->out, "file", t.file);
		json_field_int(w->out, "line", t.line);
	}
	json_field(w->out, "binary", t.binary);
	json_object_end(w->out);
}

static int put_stack(struct writer *w, const struct symbols *s, uint32_t stack, struct err *e)
{
	int rc = 0;
	size_t n = symbols_stack_locations(s, stack, NULL, 0);
	vec_reserve(&w->locations, n);
	symbols_stack_locations(s, stack, w->locations.v, n);
	for (size_t i = n; i-- && !rc;) {
		const struct sym_location *l = symbols_get_location(s, w->locations.v[i]);
		uint32_t lines = MAX(l->n_lines, 1);
		for (uint32_t k = lines; k-- && !rc;) {
			json_int(w->out, frame_index(w, (struct json_place){ s, w->locations.v[i], k, 0 }));
			rc = permit_text_step(w->permit, w->n_frames++, w->out->len, e);
		}
	}
	return rc;
}

static void put_labels(struct writer *w, const struct symbols *s, uint32_t set)
{
	size_t n;
	const struct sym_label *l = sample_labels_sorted(&w->labels, s, set, &n);
	for (size_t i = 0; i < n; i++) {
		json_key_view(w->out, symbols_get_string(s, l[i].key));
		if (l[i].is_num)
			json_int(w->out, l[i].num);
		else
			json_text(w->out, symbols_get_string(s, l[i].str));
	}
}

static void put_value(struct writer *w, const struct stackvec *v, size_t i)
{
	if (v->is_float)
		json_float(w->out, v->floats[i]);
	else
		json_int(w->out, v->ints[i]);
}

#define SAMPLE_BYTES 128  /* of a sample of 16 frames, as text */
#define FRAME_BYTES 96   /* of a frame, in the tables and their indexes */

static int put_samples(struct writer *w, const struct stackvec *v, const char *key, struct err *e)
{
	int rc = sample_order_make(&w->order, v, SAMPLES_BY_VALUE, w->permit, e);
	json_array_begin_at(w->out, key);
	for (size_t k = 0; k < w->order.n && !rc; k++) {
		uint32_t i = w->order.samples[k];
		const struct sym_column *c = symbols_get_column(v->symbols, v->columns[i]);
		json_object_begin(w->out);
		json_array_begin_at(w->out, "stack");
		rc = put_stack(w, v->symbols, c->stack, e);
		json_array_end(w->out);
		if (c->label_set) {
			json_object_begin_at(w->out, "labels");
			put_labels(w, v->symbols, c->label_set);
			json_object_end(w->out);
		}
		json_key(w->out, "value");
		put_value(w, v, i);
		json_object_end(w->out);
		rc = rc ? rc : permit_text_step(w->permit, k, w->out->len, e);
	}
	json_array_end(w->out);
	return rc;
}

/* Exact where the values are. */
static void put_total(struct buf *b, const struct stackvec *v)
{
	int64_t total;
	if (!v->is_float && stackvec_total_int(v, &total, NULL) == 0)
		json_int(b, total);
	else
		json_float(b, stackvec_total(v));
}

static int put_profile(struct writer *w, const struct promql_series *s, struct err *e)
{
	const struct promql_profile *p = &s->profiles[0];
	struct buf *b = w->out, name = { 0 };
	ptype_format(p->type, &name);
	json_object_begin(b);
	json_key(b, "metric");
	labels_json(s->labels, b);
	json_field(b, "type", buf_view(&name));
	buf_free(&name);
	json_field(b, "unit", p->type->sample_unit);
	json_field_text(b, "kind", profile_kind_text(p->type->kind));
	json_key(b, "time");
	json_time(b, s->points[0].t_ms);
	json_field_float(b, "coveredSeconds", p->covered_s);
	json_field_float(b, "perSeconds", p->per_s);
	json_field_float(b, "weight", p->weight);
	json_field_bool(b, "mixedWeights", p->mixed);
	json_field_int(b, "period", p->period);
	json_key(b, "total");
	put_total(b, p->vec);
	int rc = put_samples(w, p->vec, "samples", e);
	if (!rc && p->base)
		rc = put_samples(w, p->base, "base", e);
	json_object_end(b);
	return rc ? rc : permit_go_on(w->permit, e);
}

/* Text that is not in the file yet, and the table of frames: as many as there are in the dictionaries, or fewer. */
static int need(const struct promql_result *r, const struct permit *permit, struct err *e)
{
	uint64_t text = 0, frames = 0;
	const struct symbols *last = NULL;
	for (size_t i = 0; i < r->n_series; i++) {
		const struct promql_profile *p = &r->series[i].profiles[0];
		text += 1024 + (p->vec->n + (p->base ? p->base->n : 0)) * SAMPLE_BYTES;
		if (p->vec->symbols != last)
			frames += MIN(symbols_count(p->vec->symbols, SYMBOLS_LOCATIONS), p->vec->n * 64) * FRAME_BYTES;
		last = p->vec->symbols;
	}
	return permit_need(permit, permit_text(permit, text) + frames, e);
}

int profiles_json(const struct promql_result *r, const struct permit *permit, struct buf *out, struct err *e)
{
	if (r->type != PROMQL_VECTOR)
		return err_set(e, ERR_EXECUTION, "this format shows profiles, and the query is a %s", promql_type_text(r->type));
	for (size_t i = 0; i < r->n_series; i++)
		if (!r->series[i].profiles || !r->series[i].profiles[0].vec)
			return err_set(e, ERR_EXECUTION, "this format shows profiles, and the query gives numbers");
	int rc = need(r, permit, e);
	if (rc)
		return rc;
	struct writer w = { .out = out, .permit = permit };
	json_object_begin(out);
	json_array_begin_at(out, "profiles");
	for (size_t i = 0; i < r->n_series && !rc; i++)
		rc = put_profile(&w, &r->series[i], e);
	json_array_end(out);
	json_array_begin_at(out, "frames");
	for (size_t i = 0; i < w.frames.n && !rc; i++) {
		put_frame(&w, &w.frames.v[i]);
		rc = permit_text_step(permit, i, out->len, e);
	}
	json_array_end(out);
	json_object_end(out);
	map_free(&w.places_index);
	map_free(&w.frames_index);
	vec_free(&w.places);
	vec_free(&w.frames);
	vec_free(&w.locations);
	buf_free(&w.address);
	buf_free(&w.other_address);
	sample_order_release(&w.order);
	sample_labels_release(&w.labels);
	return rc;
}
