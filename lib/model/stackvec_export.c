/* SPDX-License-Identifier: Apache-2.0 */
/* stackvec_to_profile: converts vectors over a dictionary to a flat profile. Its tables hold only what its
 * samples use, numbered in order of use. */
#include <math.h>

#include "base/num.h"
#include "base/vec.h"
#include "model/stackvec.h"

/* id in symbols -> index in the profile, sparse: the dictionary may be a day's, the profile a handful. */
struct renumber {
	uint32_t *of; /* index + 1 */
	VEC(uint32_t) ids; /* by index */
};

struct export {
	const struct symbols *s;
	struct profile *p;
	struct renumber strings, mappings, functions, locations;
	VEC(struct profile_line) lines;
	VEC(struct profile_location) out_locations;
	VEC(struct profile_function) out_functions;
	VEC(struct profile_mapping) out_mappings;
	VEC(struct profile_sample) samples;
	VEC(struct profile_label) labels;
	VEC(uint32_t) stack;
	VEC(int64_t) values;
};

/* The index of an id; *fresh says that it was just given. */
static uint32_t number(struct renumber *r, uint32_t id, bool *fresh)
{
	*fresh = !r->of[id];
	if (*fresh) {
		vec_push(&r->ids, id);
		r->of[id] = (uint32_t)r->ids.n;
	}
	return r->of[id] - 1;
}

static uint32_t export_string(struct export *x, uint32_t id)
{
	bool fresh;
	return number(&x->strings, id, &fresh);
}

static uint32_t export_mapping(struct export *x, uint32_t id)
{
	bool fresh;
	uint32_t i = number(&x->mappings, id, &fresh);
	if (fresh) {
		const struct sym_mapping *m = symbols_get_mapping(x->s, id);
		vec_push(&x->out_mappings, (struct profile_mapping){
			.start = m->start, .limit = m->start + m->size, .offset = m->offset,
			.file_str = export_string(x, m->file), .build_id_str = export_string(x, m->build_id),
			.has_functions = m->has & SYM_HAS_FUNCTIONS, .has_filenames = m->has & SYM_HAS_FILENAMES,
			.has_line_numbers = m->has & SYM_HAS_LINE_NUMBERS, .has_inline_frames = m->has & SYM_HAS_INLINE_FRAMES });
	}
	return i;
}

static uint32_t export_function(struct export *x, uint32_t id)
{
	bool fresh;
	uint32_t i = number(&x->functions, id, &fresh);
	if (fresh) {
		const struct sym_function *f = symbols_get_function(x->s, id);
		vec_push(&x->out_functions, (struct profile_function){
			export_string(x, f->name), export_string(x, f->system_name), export_string(x, f->filename), f->start_line });
	}
	return i;
}

static uint32_t export_location(struct export *x, uint32_t id)
{
	bool fresh;
	uint32_t i = number(&x->locations, id, &fresh);
	if (!fresh)
		return i;
	const struct sym_location *l = symbols_get_location(x->s, id);
	struct profile_location out = { .address = l->address, .first_line = (uint32_t)x->lines.n, .n_lines = l->n_lines,
					.is_folded = l->is_folded };
	if (l->mapping) {
		out.mapping = export_mapping(x, l->mapping - 1) + 1;
		out.address += symbols_get_mapping(x->s, l->mapping - 1)->start;
	}
	for (uint32_t k = 0; k < l->n_lines; k++) {
		const struct sym_line *line = symbols_get_line(x->s, l, k);
		vec_push(&x->lines, (struct profile_line){ line->function ? export_function(x, line->function - 1) + 1 : 0,
							   line->line, line->column });
	}
	vec_push(&x->out_locations, out);
	return i;
}

static void export_sample(struct export *x, uint32_t column)
{
	const struct sym_column *c = symbols_get_column(x->s, column);
	struct profile_sample s = { .first_location = (uint32_t)x->stack.n, .first_label = (uint32_t)x->labels.n };
	size_t n, n_labels, room = 64;
	do {
		vec_reserve(&x->stack, x->stack.n + room);
		room = x->stack.cap - x->stack.n;
		n = symbols_stack_locations(x->s, c->stack, x->stack.v + x->stack.n, room);
	} while (n > room && (room = n));
	for (size_t i = 0; i < n; i++)
		x->stack.v[x->stack.n + i] = export_location(x, x->stack.v[x->stack.n + i]);
	x->stack.n += n;
	s.n_locations = (uint32_t)n;
	const struct sym_label *l = symbols_get_label_set(x->s, c->label_set, &n_labels);
	for (size_t i = 0; i < n_labels; i++)
		vec_push(&x->labels, (struct profile_label){ .key_str = export_string(x, l[i].key), .is_num = l[i].is_num,
							     .str = export_string(x, l[i].str),
							     .unit_str = export_string(x, l[i].unit), .num = l[i].num });
	s.n_labels = (uint32_t)n_labels;
	vec_push(&x->samples, s);
}

/* The value of v at a column, rounded; moves *at behind it if it is there. */
static int value_at(const struct stackvec *v, uint32_t column, size_t *at, int64_t *ret, struct err *e)
{
	*ret = 0;
	if (*at >= v->n || v->columns[*at] != column)
		return 0;
	size_t i = (*at)++;
	if (!v->is_float) {
		*ret = v->ints[i];
		return 0;
	}
	char text[NUM_LEN];
	return num_round_i64(v->floats[i], ret) ? 0 : err_set(e, ERR_EXECUTION, "a value of %s does not fit in a profile",
							      num_format(v->floats[i], text));
}

/* The smallest column that any of the vectors is at; false: all are through. */
static bool next_column(struct stackvec *const *v, const size_t *at, size_t n, uint32_t *ret)
{
	bool any = false;
	*ret = UINT32_MAX;
	for (size_t i = 0; i < n; i++)
		if (at[i] < v[i]->n) {
			*ret = MIN(*ret, v[i]->columns[at[i]]);
			any = true;
		}
	return any;
}

/* Merges the ascending column lists; a column whose values are all zero is left out. */
static int export_samples(struct export *x, struct stackvec *const *v, size_t n, struct err *e)
{
	size_t *at AUTOFREE = xcalloc(n, sizeof *at);
	int64_t *row AUTOFREE = xcalloc(n, sizeof *row);
	for (uint32_t column; next_column(v, at, n, &column);) {
		bool nonzero = false;
		for (size_t i = 0; i < n; i++) {
			int rc = value_at(v[i], column, &at[i], &row[i], e);
			if (rc)
				return rc;
			nonzero |= row[i] != 0;
		}
		if (!nonzero)
			continue;
		export_sample(x, column);
		for (size_t i = 0; i < n; i++)
			vec_push(&x->values, row[i]);
	}
	return 0;
}

/* The mapping of this index becomes the first. */
static void put_first(struct export *x, uint32_t i)
{
	struct profile_mapping *m = x->out_mappings.v, first = m[0];
	m[0] = m[i];
	m[i] = first;
	for (size_t k = 0; i && k < x->out_locations.n; k++) {
		uint32_t *of = &x->out_locations.v[k].mapping;
		*of = *of == i + 1 ? 1 : *of == 1 ? i + 1 : *of;
	}
}

/* By mapping: the first type's values, without their signs, of the samples that it occurs in. */
static double *mapping_weights(const struct export *x, size_t n_types)
{
	double *weight = xcalloc(x->out_mappings.n, sizeof *weight);
	size_t *seen AUTOFREE = xcalloc(x->out_mappings.n, sizeof *seen);
	for (size_t i = 0; i < x->samples.n; i++)
		for (uint32_t k = 0; k < x->samples.v[i].n_locations; k++) {
			uint32_t m = x->out_locations.v[x->stack.v[x->samples.v[i].first_location + k]].mapping;
			if (m && seen[m - 1] != i + 1) {
				seen[m - 1] = i + 1;
				weight[m - 1] += fabs((double)x->values.v[i * n_types]);
			}
		}
	return weight;
}

/* The mapping that some profile called its main binary; if there are several, the one with most samples.
 * UINT32_MAX: none is. */
static uint32_t marked_main(const struct export *x, size_t n_types)
{
	struct sym_marks marks = { 0 };
	uint32_t best = UINT32_MAX;
	double *weight AUTOFREE = NULL;
	symbols_main_marks(x->s, 0, &marks);
	for (uint32_t i = 0; i < x->out_mappings.n; i++) {
		if (!symbols_is_main(x->s, &marks, symbols_get_mapping(x->s, x->mappings.ids.v[i])))
			continue;
		if (best != UINT32_MAX && !weight)
			weight = mapping_weights(x, n_types);
		if (best == UINT32_MAX || weight[i] > weight[best])
			best = i;
	}
	vec_free(&marks);
	return best;
}

static bool is_library(struct view file)
{
	return view_ends(file, VIEW(".so")) || view_contains(file, VIEW(".so.")) || view_contains(file, VIEW(".so_"));
}

/* If no profile has one, the first that has a file name and is neither a library nor the kernel's ("[vdso]"), as
 * google/pprof does for other formats. */
static uint32_t guessed_main(const struct export *x)
{
	for (uint32_t i = 0; i < x->out_mappings.n; i++) {
		struct view file = symbols_get_string(x->s, x->strings.ids.v[x->out_mappings.v[i].file_str]);
		if (file.len && file.ptr[0] != '[' && !is_library(file))
			return i;
	}
	return UINT32_MAX;
}

/* A profile's first mapping is its main binary. */
static void main_binary_first(struct export *x, size_t n_types)
{
	uint32_t i = marked_main(x, n_types);
	if (i == UINT32_MAX)
		i = guessed_main(x);
	if (i != UINT32_MAX)
		put_first(x, i);
}

#define MOVE(x, field, count, vec) do { \
	size_t bytes_ = (vec).n * sizeof *(vec).v; \
	(x)->p->field = arena_alloc(&(x)->p->arena, bytes_); \
	ok &= (x)->p->field != NULL; \
	if (ok && bytes_) \
		memcpy((x)->p->field, (vec).v, bytes_); \
	(x)->p->count = (uint32_t)(vec).n; \
	vec_free(&(vec)); \
} while (0)

static bool export_tables(struct export *x)
{
	bool ok = true;
	MOVE(x, mappings, n_mappings, x->out_mappings);
	MOVE(x, functions, n_functions, x->out_functions);
	MOVE(x, lines, n_lines, x->lines);
	MOVE(x, locations, n_locations, x->out_locations);
	MOVE(x, stack, n_stack, x->stack);
	MOVE(x, labels, n_labels, x->labels);
	MOVE(x, samples, n_samples, x->samples);
	size_t bytes = x->values.n * sizeof *x->values.v;
	x->p->values = arena_alloc(&x->p->arena, bytes);
	ok &= x->p->values != NULL;
	if (ok && bytes)
		memcpy(x->p->values, x->values.v, bytes);
	vec_free(&x->values);
	return ok;
}

static bool export_strings(struct export *x, const struct stackvec_type *types, size_t n)
{
	struct profile *p = x->p;
	size_t used = x->strings.ids.n;
	p->strings = arena_alloc(&p->arena, (used + 2 * n) * sizeof *p->strings);
	p->sample_types = arena_alloc(&p->arena, n * sizeof *p->sample_types);
	if (!p->strings || !p->sample_types)
		return false;
	bool ok = true;
	for (size_t i = 0; i < used; i++) {
		p->strings[i] = arena_view(&p->arena, symbols_get_string(x->s, x->strings.ids.v[i]));
		ok &= p->strings[i].ptr != NULL;
	}
	for (size_t i = 0; i < n; i++) {
		p->strings[used] = arena_view(&p->arena, types[i].type);
		p->strings[used + 1] = arena_view(&p->arena, types[i].unit);
		ok &= p->strings[used].ptr && p->strings[used + 1].ptr;
		p->sample_types[i] = (struct profile_value_type){ (uint32_t)used, (uint32_t)used + 1 };
		used += 2;
	}
	p->n_strings = (uint32_t)used;
	p->n_sample_types = (uint32_t)n;
	return ok;
}

int stackvec_to_profile(struct stackvec *const *v, const struct stackvec_type *types, size_t n, struct profile *out,
			struct err *e)
{
	profile_reset(out);
	if (!n)
		return err_set(e, ERR_INTERNAL, "a profile needs at least one sample type");
	struct export x = { .s = v[0]->symbols, .p = out };
	for (size_t i = 1; i < n; i++)
		if (v[i]->symbols != x.s)
			return err_set(e, ERR_INTERNAL, "the sample types of one profile are over different symbols");
	struct renumber *tables[] = { &x.strings, &x.mappings, &x.functions, &x.locations };
	static const enum symbols_table of[] = { SYMBOLS_STRINGS, SYMBOLS_MAPPINGS, SYMBOLS_FUNCTIONS, SYMBOLS_LOCATIONS };
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		tables[i]->of = xcalloc(symbols_count(x.s, of[i]), sizeof(uint32_t));
	export_string(&x, 0); /* strings[0] is "" */
	int rc = export_samples(&x, v, n, e);
	if (!rc)
		main_binary_first(&x, n);
	bool ok = export_tables(&x);
	ok = ok && export_strings(&x, types, n);
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		free(tables[i]->of);
		vec_free(&tables[i]->ids);
	}
	if (rc || !ok)
		profile_reset(out);
	if (rc)
		return rc;
	return ok ? 0 : err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", out->arena.max);
}
