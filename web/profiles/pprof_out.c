/* SPDX-License-Identifier: Apache-2.0 */
/* format=pprof: an answer as profile.proto, with each element's labels at its samples. A diff is what google/pprof makes of -diff_base: the
 * base's samples negated and labelled pprof::base=true.
 *
 * The samples grow with elements times stacks, the tables only with what differs. So samples are written first, one element after
 * another, and leave the buffer as it fills (permit); they refer to locations by number, in order of use. What was numbered follows:
 *
 *	sample type · samples of element 1 · samples of element 2 ... · mappings · locations · functions · strings · header
 *
 * The order of fields of a protobuf message is free. If the elements have several dictionaries, their stacks are translated into one. Samples of an
 * element come in the order of their stacks (sample_order.h), so no number in the file depends on ids of a dictionary. */
#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"
#include "base/varint.h"
#include "base/vec.h"
#include "model/sample_order.h"
#include "web/profiles/merged.h"

#define SAMPLE_BYTES 80     /* of a sample of 16 frames and a few labels */
#define ENTRY_BYTES 64      /* of a location, function or string that is used, in the tables below */
#define DEPTH 64            /* frames of most stacks, at most */

enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE, PROFILE_MAPPING, PROFILE_LOCATION, PROFILE_FUNCTION, PROFILE_STRING, PROFILE_TIME = 9,
       PROFILE_DURATION, PROFILE_PERIOD_TYPE, PROFILE_PERIOD, PROFILE_COMMENT, PROFILE_DEFAULT_TYPE };

/* Ids of a dictionary -> numbers in order of use, from 1 on. */
struct numbers {
	uint32_t *of, n_of;
	VEC(uint32_t) ids; /* by number - 1 */
};

struct pprof_writer {
	struct buf *out;
	const struct permit *permit;
	struct symbols *s;        /* of the tables; a reference */
	bool translates;          /* s is the answer's own: elements have others */
	uint64_t announced;       /* of s, if it grows */
	struct numbers locations, mappings, functions, strings;
	VEC(struct view) texts;   /* the table of strings */
	struct map text_index;
	uint32_t empty_text;      /* a second empty string; 0: not needed yet */
	VEC(uint32_t) stack;
	struct buf ids, message, labels;
	struct sample_order order;
	struct sample_labels sorted;
	VEC(double) weights;      /* by mapping id: values, without their signs, of the samples that it occurs in */
	VEC(size_t) seen_in;      /* by mapping id: the sample that it was last met in */
	size_t n_samples;
	bool weighs;              /* several binaries may be the main one */
	/* the element at work */
	const struct labels *own; /* its labels */
	bool base;
	uint32_t label_set;       /* that `labels` is of; UINT32_MAX: none */
};

/* ---- numbers and texts ---- */

static uint32_t number_of(struct numbers *t, uint32_t id)
{
	if (UNLIKELY(id >= t->n_of)) {
		uint32_t n = MAX(id + 1, t->n_of + t->n_of / 2);
		t->of = xreallocarray(t->of, n, sizeof *t->of);
		memset(t->of + t->n_of, 0, (n - t->n_of) * sizeof *t->of);
		t->n_of = n;
	}
	if (!t->of[id]) {
		vec_push(&t->ids, id);
		t->of[id] = (uint32_t)t->ids.n;
	}
	return t->of[id];
}

/* The number of a text, which stays until the end. */
static uint32_t put_text(struct pprof_writer *w, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t i;
	if (!v.len)
		return 0;
	if (!MAP_FIND_OR_ADD(&w->text_index, h, i, w->texts.n, view_eq(w->texts.v[i], v)))
		vec_push(&w->texts, v);
	return i;
}

/* The same for a string of the dictionary, whose text is looked up once. */
static uint32_t put_string(struct pprof_writer *w, uint32_t id)
{
	if (!id)
		return 0;
	size_t before = w->strings.ids.n;
	uint32_t n = number_of(&w->strings, id);
	if (w->strings.ids.n > before)
		w->strings.of[id] = n = put_text(w, symbols_get_string(w->s, id));
	return n;
}

/* A label whose text is string 0 would be the number 0. */
static uint32_t label_text(struct pprof_writer *w, uint32_t text)
{
	if (text)
		return text;
	if (!w->empty_text) {
		vec_push(&w->texts, VIEW(""));
		w->empty_text = (uint32_t)w->texts.n - 1;
	}
	return w->empty_text;
}

/* ---- the wire format ---- */

static void put_number(struct buf *b, unsigned field, uint64_t v)
{
	if (!v)
		return;
	buf_varint(b, field << 3);
	buf_varint(b, v);
}

static void put_bytes(struct buf *b, unsigned field, struct view v)
{
	buf_varint(b, field << 3 | 2);
	buf_varint(b, v.len);
	buf_putv(b, v);
}

static void put_pair(struct pprof_writer *w, struct buf *b, unsigned field, struct view type, struct view unit)
{
	w->message.len = 0;
	put_number(&w->message, 1, put_text(w, type));
	put_number(&w->message, 2, put_text(w, unit));
	put_bytes(b, field, buf_view(&w->message));
}

/* ---- samples ---- */

static void put_label(struct buf *b, uint32_t key, uint32_t str, int64_t num, uint32_t unit)
{
	char bytes[4 * 11];
	uint8_t *p = (uint8_t *)bytes;
	const struct { unsigned field; uint64_t v; } fields[] = { { 1, key }, { 2, str }, { 3, (uint64_t)num }, { 4, unit } };
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (fields[i].v) {
			*p++ = (uint8_t)(fields[i].field << 3);
			p += varint_put(p, fields[i].v);
		}
	put_bytes(b, 3, view_make(bytes, (size_t)((char *)p - bytes)));
}

static bool has_label(const struct labels *l, struct view name, struct view value)
{
	for (size_t i = 0; i < l->n; i++)
		if (view_eq(l->v[i].name, name) && view_eq(l->v[i].value, value))
			return true;
	return false;
}

/* The sample's own labels and the element's, without __name__. */
static void make_labels(struct pprof_writer *w, const struct symbols *s, uint32_t set)
{
	size_t n;
	const struct sym_label *l = sample_labels_sorted(&w->sorted, s, set, &n);
	struct buf *b = &w->labels;
	bool foreign = s != w->s; /* its strings have other numbers */
	b->len = 0;
	for (size_t i = 0; i < n; i++) {
		struct view key = symbols_get_string(s, l[i].key), str = symbols_get_string(s, l[i].str);
		uint32_t k = foreign ? put_text(w, key) : put_string(w, l[i].key);
		if (l[i].is_num)
			put_label(b, k, 0, l[i].num, foreign ? put_text(w, symbols_get_string(s, l[i].unit)) : put_string(w, l[i].unit));
		else if (!has_label(w->own, key, str))
			put_label(b, k, label_text(w, foreign ? put_text(w, str) : put_string(w, l[i].str)), 0, 0);
	}
	for (size_t i = 0; i < w->own->n; i++)
		if (!view_eqs(w->own->v[i].name, LABEL_NAME))
			put_label(b, put_text(w, w->own->v[i].name), label_text(w, put_text(w, w->own->v[i].value)), 0, 0);
	if (w->base)
		put_label(b, put_text(w, VIEW("pprof::base")), put_text(w, VIEW("true")), 0, 0);
	w->label_set = set;
}

/* Whether a mapping is the main binary may depend on the values of all samples that have it. */
static void weigh(struct pprof_writer *w, uint32_t location, int64_t value)
{
	uint32_t m = symbols_get_location(w->s, location)->mapping;
	if (!m)
		return;
	while (w->weights.n < m) {
		vec_push(&w->weights, 0);
		vec_push(&w->seen_in, 0);
	}
	if (w->seen_in.v[m - 1] != w->n_samples) {
		w->seen_in.v[m - 1] = w->n_samples;
		w->weights.v[m - 1] += fabs((double)value);
	}
}

static void put_sample(struct pprof_writer *w, uint32_t stack, int64_t value)
{
	uint8_t number[10];
	size_t n = symbols_stack_locations(w->s, stack, w->stack.v, w->stack.cap);
	if (n > w->stack.cap) {
		vec_reserve(&w->stack, n);
		n = symbols_stack_locations(w->s, stack, w->stack.v, w->stack.cap);
	}
	w->n_samples++;
	w->ids.len = 0;
	if (!buf_reserve(&w->ids, n * 5 + 1))
		return;
	uint8_t *p = (uint8_t *)w->ids.ptr;
	for (size_t i = 0; i < n; i++) {
		p += varint_put(p, number_of(&w->locations, w->stack.v[i]));
		if (w->weighs)
			weigh(w, w->stack.v[i], value);
	}
	w->ids.len = (size_t)((char *)p - w->ids.ptr);
	w->message.len = 0;
	if (n)
		put_bytes(&w->message, 1, buf_view(&w->ids));
	put_bytes(&w->message, 2, view_make((char *)number, varint_put(number, (uint64_t)value)));
	buf_putv(&w->message, buf_view(&w->labels));
	put_bytes(w->out, PROFILE_SAMPLE, buf_view(&w->message));
}

/* The value of sample i as an integer; of the base of a diff it is negated. */
static int value_of(const struct pprof_writer *w, const struct stackvec *v, size_t i, int64_t *ret, struct err *e)
{
	char text[NUM_LEN];
	if (!v->is_float) {
		*ret = v->ints[i];
		if (w->base && __builtin_sub_overflow((int64_t)0, *ret, ret))
			return err_set(e, ERR_EXECUTION, "a value of %lld cannot be subtracted in 64 bits", (long long)v->ints[i]);
		return 0;
	}
	double x = w->base ? -v->floats[i] : v->floats[i];
	return num_round_i64(x, ret) ? 0 : err_set(e, ERR_EXECUTION, "a value of %s does not fit in a profile", num_format(x, text));
}

/* Before stacks of v are translated: what they may add to the dictionary. */
static int need_translation(struct pprof_writer *w, const struct stackvec *v, struct err *e)
{
	uint64_t most = symbols_bytes(w->s) + v->n * MERGED_COLUMN_BYTES, more = most > w->announced ? most - w->announced : 0;
	w->announced += more;
	return permit_need(w->permit, more, e);
}

static int put_samples(struct pprof_writer *w, const struct stackvec *v, struct err *e)
{
	int rc = w->translates ? need_translation(w, v, e) : 0;
	if (rc)
		return rc;
	rc = sample_order_make(&w->order, v, SAMPLES_BY_STACK, w->permit, e);
	if (rc)
		return rc;
	struct symbols_map *map = w->translates ? symbols_map_new(v->symbols, w->s, SYMBOLS_WHOLE) : NULL;
	w->label_set = UINT32_MAX;
	for (size_t k = 0; k < w->order.n && !rc; k++) {
		uint32_t i = w->order.samples[k];
		int64_t value;
		rc = value_of(w, v, i, &value, e);
		if (!rc)
			rc = permit_text_step(w->permit, k, w->out->len, e);
		if (rc || !value)
			continue;
		const struct sym_column *c = symbols_get_column(v->symbols, v->columns[i]);
		if (c->label_set != w->label_set)
			make_labels(w, v->symbols, c->label_set);
		put_sample(w, map ? symbols_map_stack(map, c->stack) : c->stack, value);
	}
	symbols_map_free(map);
	return rc ? rc : permit_go_on(w->permit, e);
}

/* ---- tables ---- */

static void put_function(struct pprof_writer *w, uint32_t number)
{
	const struct sym_function *f = symbols_get_function(w->s, w->functions.ids.v[number - 1]);
	w->message.len = 0;
	put_number(&w->message, 1, number);
	put_number(&w->message, 2, put_string(w, f->name));
	put_number(&w->message, 3, put_string(w, f->system_name));
	put_number(&w->message, 4, put_string(w, f->filename));
	put_number(&w->message, 5, (uint64_t)f->start_line);
	put_bytes(w->out, PROFILE_FUNCTION, buf_view(&w->message));
}

/* A line without a function is left out: it has no meaning, and google/pprof refuses the whole profile for it. */
static void put_location(struct pprof_writer *w, uint32_t number)
{
	const struct sym_location *l = symbols_get_location(w->s, w->locations.ids.v[number - 1]);
	uint64_t start = l->mapping ? symbols_get_mapping(w->s, l->mapping - 1)->start : 0;
	w->message.len = 0;
	put_number(&w->message, 1, number);
	put_number(&w->message, 2, l->mapping ? number_of(&w->mappings, l->mapping - 1) : 0);
	put_number(&w->message, 3, l->address + start);
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct sym_line *line = symbols_get_line(w->s, l, i);
		if (!line->function)
			continue;
		w->ids.len = 0;
		put_number(&w->ids, 1, number_of(&w->functions, line->function - 1));
		put_number(&w->ids, 2, (uint64_t)line->line);
		put_number(&w->ids, 3, (uint64_t)line->column);
		put_bytes(&w->message, 4, buf_view(&w->ids));
	}
	put_number(&w->message, 5, l->is_folded);
	put_bytes(w->out, PROFILE_LOCATION, buf_view(&w->message));
}

static void put_mapping(struct pprof_writer *w, uint32_t number)
{
	const struct sym_mapping *m = symbols_get_mapping(w->s, w->mappings.ids.v[number - 1]);
	w->message.len = 0;
	put_number(&w->message, 1, number);
	put_number(&w->message, 2, m->start);
	put_number(&w->message, 3, m->start + m->size);
	put_number(&w->message, 4, m->offset);
	put_number(&w->message, 5, put_string(w, m->file));
	put_number(&w->message, 6, put_string(w, m->build_id));
	put_number(&w->message, 7, !!(m->has & SYM_HAS_FUNCTIONS));
	put_number(&w->message, 8, !!(m->has & SYM_HAS_FILENAMES));
	put_number(&w->message, 9, !!(m->has & SYM_HAS_LINE_NUMBERS));
	put_number(&w->message, 10, !!(m->has & SYM_HAS_INLINE_FRAMES));
	put_bytes(w->out, PROFILE_MAPPING, buf_view(&w->message));
}

static bool is_library(struct view file)
{
	return view_ends(file, VIEW(".so")) || view_contains(file, VIEW(".so.")) || view_contains(file, VIEW(".so_"));
}

/* A binary that some profile called its main one. */
struct main_binary {
	uint32_t name;   /* id of its build id, or else of its file */
	uint32_t number; /* of its first mapping */
	double weight;
};

/* The number of the main binary's mapping: the first of the binary that some profile called so, of several that with most samples; else the first
 * that has a file name and is neither a library nor the kernel's ("[vdso]"), as google/pprof does for other formats. 0: none. Mappings of one
 * binary are not weighed against each other: whether they have weights depends on other profiles of the dictionary. */
static uint32_t main_mapping(const struct pprof_writer *w)
{
	struct sym_marks marks = { 0 };
	struct map by_name = { 0 };
	VEC(struct main_binary) binaries = { 0 };
	uint32_t guessed = 0, b;
	symbols_main_marks(w->s, 0, &marks);
	for (uint32_t i = 0; i < w->mappings.ids.n; i++) {
		uint32_t id = w->mappings.ids.v[i];
		const struct sym_mapping *m = symbols_get_mapping(w->s, id);
		struct view file = symbols_get_string(w->s, m->file);
		uint32_t name = m->build_id ? m->build_id : m->file;
		if (symbols_is_main(w->s, &marks, m)) {
			if (!MAP_FIND_OR_ADD(&by_name, hash_u64(name), b, binaries.n, binaries.v[b].name == name))
				vec_push(&binaries, (struct main_binary){ name, i + 1, 0 });
			binaries.v[b].weight += id < w->weights.n ? w->weights.v[id] : 0;
		}
		if (!guessed && file.len && file.ptr[0] != '[' && !is_library(file))
			guessed = i + 1;
	}
	const struct main_binary *most = NULL;
	for (size_t i = 0; i < binaries.n; i++)
		most = !most || binaries.v[i].weight > most->weight ? &binaries.v[i] : most;
	uint32_t number = most ? most->number : guessed;
	vec_free(&marks);
	vec_free(&binaries);
	map_free(&by_name);
	return number;
}

/* The first mapping is the main binary; a host has none, which an empty one says. */
static void put_mappings(struct pprof_writer *w, bool of_host)
{
	uint32_t first = main_mapping(w);
	if (of_host) {
		w->message.len = 0;
		put_number(&w->message, 1, w->mappings.ids.n + 1);
		put_bytes(w->out, PROFILE_MAPPING, buf_view(&w->message));
	}
	if (first)
		put_mapping(w, first);
	for (uint32_t i = 1; i <= w->mappings.ids.n; i++)
		if (i != first)
			put_mapping(w, i);
}

static int put_tables(struct pprof_writer *w, bool of_host, struct err *e)
{
	int rc = 0;
	for (uint32_t i = 1; i <= w->locations.ids.n && !rc; i++) {
		put_location(w, i);
		rc = permit_text_step(w->permit, i, w->out->len, e);
	}
	for (uint32_t i = 1; i <= w->functions.ids.n && !rc; i++) {
		put_function(w, i);
		rc = permit_text_step(w->permit, i, w->out->len, e);
	}
	put_mappings(w, of_host);
	return rc;
}

static void put_header(struct pprof_writer *w, const struct merged_profile *m, const struct buf *comment)
{
	int64_t duration_ns, time_ns;
	/* A rate is here as its increase, over the range that it is a rate of. */
	double seconds = merged_seconds(m);
	if (seconds < 0 || !num_round_i64(seconds * 1e9, &duration_ns))
		duration_ns = 0;
	if (__builtin_mul_overflow(m->t_ms, 1000000, &time_ns) || __builtin_sub_overflow(time_ns, duration_ns, &time_ns))
		time_ns = 0; /* beyond the years 1677 and 2262, which this format cannot say */
	put_number(w->out, PROFILE_TIME, (uint64_t)time_ns);
	put_number(w->out, PROFILE_DURATION, (uint64_t)duration_ns);
	if (m->type->period_type.len || m->type->period_unit.len)
		put_pair(w, w->out, PROFILE_PERIOD_TYPE, m->type->period_type, m->type->period_unit);
	put_number(w->out, PROFILE_PERIOD, (uint64_t)m->period);
	put_number(w->out, PROFILE_COMMENT, put_text(w, buf_view(comment)));
	if (m->mixed)
		put_number(w->out, PROFILE_COMMENT, put_text(w, VIEW("frames are approximate: of the merged profiles, some measured a smaller part of their time than others")));
	put_number(w->out, PROFILE_DEFAULT_TYPE, put_text(w, m->type->sample_type));
}

static int put_texts(struct pprof_writer *w, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < w->texts.n && !rc; i++) {
		put_bytes(w->out, PROFILE_STRING, w->texts.v[i]);
		rc = permit_text_step(w->permit, i, w->out->len, e);
	}
	return rc;
}

/* ---- all of it ---- */

/* Tables by id of the dictionary, entries of what is used, and text that is not in the file yet. */
static int need_tables(struct pprof_writer *w, const struct promql_result *r, struct err *e)
{
	static const enum symbols_table tables[] = { SYMBOLS_STRINGS, SYMBOLS_MAPPINGS, SYMBOLS_FUNCTIONS, SYMBOLS_LOCATIONS };
	uint64_t samples = 0, bytes = 0;
	for (size_t i = 0; i < r->n_series; i++) {
		const struct promql_profile *p = &r->series[i].profiles[0];
		samples += p->vec->n + (p->base ? p->base->n : 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		uint64_t n = symbols_count(w->s, tables[i]);
		bytes += n * sizeof(uint32_t) + MIN(n, samples * DEPTH) * ENTRY_BYTES;
	}
	return permit_need(w->permit, bytes + permit_text(w->permit, samples * SAMPLE_BYTES), e);
}

static void numbers_init(struct numbers *t, const struct symbols *s, enum symbols_table table)
{
	t->n_of = MAX(symbols_count(s, table), 64u);
	t->of = xcalloc(t->n_of, sizeof *t->of);
}

static void writer_init(struct pprof_writer *w)
{
	struct sym_marks marks = { 0 };
	numbers_init(&w->locations, w->s, SYMBOLS_LOCATIONS);
	numbers_init(&w->mappings, w->s, SYMBOLS_MAPPINGS);
	numbers_init(&w->functions, w->s, SYMBOLS_FUNCTIONS);
	numbers_init(&w->strings, w->s, SYMBOLS_STRINGS);
	vec_push(&w->texts, VIEW(""));
	vec_reserve(&w->stack, DEPTH);
	symbols_main_marks(w->s, 0, &marks);
	w->weighs = w->translates || marks.n > 1;
	vec_free(&marks);
}

static void writer_release(struct pprof_writer *w)
{
	struct numbers *tables[] = { &w->locations, &w->mappings, &w->functions, &w->strings };
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		free(tables[i]->of);
		vec_free(&tables[i]->ids);
	}
	vec_free(&w->texts);
	map_free(&w->text_index);
	vec_free(&w->stack);
	vec_free(&w->weights);
	vec_free(&w->seen_in);
	buf_free(&w->ids);
	buf_free(&w->message);
	buf_free(&w->labels);
	sample_order_release(&w->order);
	sample_labels_release(&w->sorted);
	symbols_unref(w->s);
}

/* A lone element is the whole profile: its labels say nothing that the query does not. */
static int put_elements(struct pprof_writer *w, const struct promql_result *r, struct err *e)
{
	static const struct labels none;
	int rc = 0;
	for (size_t i = 0; i < r->n_series && !rc; i++) {
		const struct promql_profile *p = &r->series[i].profiles[0];
		w->own = r->n_series > 1 ? &r->series[i].labels : &none;
		w->base = false;
		rc = put_samples(w, p->vec, e);
		w->base = true;
		if (!rc && p->base)
			rc = put_samples(w, p->base, e);
	}
	return rc;
}

int pprof_write(const struct promql_result *r, struct view query, const struct permit *permit, struct buf *out, struct err *e)
{
	struct merged_profile m;
	int rc = merged_check(r, e);
	if (rc)
		return rc;
	if (!r->n_series)
		return err_set(e, ERR_NOT_FOUND, "no profile matches the query at that time");
	merged_head_of(&m, r);
	struct symbols *common = merged_symbols(r);
	struct pprof_writer w = { .out = out, .permit = permit, .s = common ? symbols_ref(common) : symbols_new(), .translates = !common };
	struct buf comment CLEANUP(buf_free) = { 0 };
	buf_printf(&comment, "query: %.*s", VIEW_ARG(query));
	rc = need_tables(&w, r, e);
	if (!rc) {
		writer_init(&w);
		put_pair(&w, out, PROFILE_SAMPLE_TYPE, m.type->sample_type, m.type->sample_unit);
		rc = put_elements(&w, r, e);
	}
	if (!rc)
		rc = put_tables(&w, ptype_is_of_host(m.type), e);
	if (!rc) {
		put_header(&w, &m, &comment);
		rc = put_texts(&w, e);
	}
	writer_release(&w);
	return rc;
}
