/* SPDX-License-Identifier: Apache-2.0 */
/* Imports a profile into a dictionary with a limit on new entries. Sample by sample: known entries are free; an unknown
 * stack is added with everything it needs, while there is room for all of it, or becomes "(other)". This is the slow
 * path, at the limit: everything is looked up before anything is added. */
#include "base/alloc.h"
#include "base/vec.h"
#include "model/symbols_internal.h"

#define UNKNOWN UINT32_MAX
#define UNSEEN (UINT32_MAX - 1)

/* Roughly what an entry takes: itself, its slots in an index. */
enum { STRING_BYTES = 28, FUNCTION_BYTES = 36, LOCATION_BYTES = 44, LINE_BYTES = 24, NODE_BYTES = 20, STACK_BYTES = 32,
       COLUMN_BYTES = 24, LABEL_BYTES = 32, MAPPING_BYTES = 56 };

size_t symbols_cost(const struct symbols *s)
{
	static const uint32_t bytes[SYMBOLS_TABLES] = {
		[SYMBOLS_STRINGS] = STRING_BYTES, [SYMBOLS_MAPPINGS] = MAPPING_BYTES, [SYMBOLS_FUNCTIONS] = FUNCTION_BYTES,
		[SYMBOLS_LINES] = LINE_BYTES, [SYMBOLS_LOCATIONS] = LOCATION_BYTES, [SYMBOLS_NODES] = NODE_BYTES,
		[SYMBOLS_STACKS] = STACK_BYTES, [SYMBOLS_LABEL_SETS] = LABEL_BYTES, [SYMBOLS_COLUMNS] = COLUMN_BYTES,
	};
	size_t n = s->text.used;
	for (unsigned t = 0; t < SYMBOLS_TABLES; t++)
		n += (size_t)s->tables[t].n * bytes[t];
	return n;
}

size_t symbols_most_cost(const struct profile *p)
{
	return p->arena.used + (size_t)p->n_strings * STRING_BYTES + (size_t)p->n_mappings * MAPPING_BYTES +
	       (size_t)p->n_functions * FUNCTION_BYTES + (size_t)p->n_locations * LOCATION_BYTES + (size_t)p->n_lines * LINE_BYTES +
	       (size_t)p->n_stack * (NODE_BYTES + 4) + (size_t)p->n_samples * (STACK_BYTES + COLUMN_BYTES + LABEL_BYTES) +
	       (size_t)p->n_labels * LABEL_BYTES;
}

struct fitting {
	struct symbols *s;
	const struct profile *p;
	struct symbols_room *room;
	uint32_t *strings, *functions, *mappings, *locations; /* ids, UNKNOWN or UNSEEN */
	uint32_t *stack;                                      /* of the sample at work */
	VEC(struct sym_line) lines;
	VEC(struct sym_label) labels;
	uint32_t other;                                       /* that stack; UNSEEN: not made yet */
};

/* ---- what is there ---- */

static uint32_t find_string(struct fitting *f, uint32_t i)
{
	if (i >= f->p->n_strings)
		return 0;
	uint32_t *id = &f->strings[i];
	if (*id == UNSEEN && !symbols_find_string(f->s, f->p->strings[i], id))
		*id = UNKNOWN;
	return *id;
}

static bool function_of(struct fitting *f, uint32_t i, struct sym_function *ret)
{
	const struct profile_function *x = &f->p->functions[i];
	*ret = (struct sym_function){ find_string(f, x->name_str), find_string(f, x->system_name_str),
				      find_string(f, x->filename_str), x->start_line };
	return ret->name != UNKNOWN && ret->system_name != UNKNOWN && ret->filename != UNKNOWN;
}

static uint32_t find_function(struct fitting *f, uint32_t i)
{
	struct sym_function x;
	uint32_t *ret = &f->functions[i], id;
	if (*ret != UNSEEN)
		return *ret;
	*ret = UNKNOWN;
	if (!function_of(f, i, &x))
		return UNKNOWN;
	uint64_t h = hash_function(f->s, &x);
	for (size_t at = map_start(&f->s->functions, h); map_probe(&f->s->functions, h, &at, &id);) {
		const struct sym_function *o = symbols_get_function(f->s, id);
		if (o->name == x.name && o->system_name == x.system_name && o->filename == x.filename && o->start_line == x.start_line)
			return *ret = id;
	}
	return UNKNOWN;
}

static bool mapping_of(struct fitting *f, uint32_t i, struct sym_mapping *ret)
{
	const struct profile_mapping *m = &f->p->mappings[i];
	*ret = (struct sym_mapping){
		.start = m->start, .size = m->limit - m->start, .offset = m->offset,
		.file = find_string(f, m->file_str), .build_id = find_string(f, m->build_id_str),
		.has = (uint8_t)((m->has_functions ? SYM_HAS_FUNCTIONS : 0) | (m->has_filenames ? SYM_HAS_FILENAMES : 0) |
				 (m->has_line_numbers ? SYM_HAS_LINE_NUMBERS : 0) | (m->has_inline_frames ? SYM_HAS_INLINE_FRAMES : 0)),
	};
	return ret->file != UNKNOWN && ret->build_id != UNKNOWN;
}

static uint32_t find_mapping(struct fitting *f, uint32_t i)
{
	struct sym_mapping x;
	uint32_t *ret = &f->mappings[i];
	if (*ret == UNSEEN)
		*ret = mapping_of(f, i, &x) && symbols_find_mapping(f->s, &x, ret) ? *ret : UNKNOWN;
	return *ret;
}

/* With its lines in f->lines; false: something of it is not there. */
static bool location_of(struct fitting *f, const struct profile_location *l, struct sym_location *ret)
{
	*ret = (struct sym_location){ .address = l->address, .n_lines = l->n_lines, .is_folded = l->is_folded };
	bool known = true;
	if (l->mapping) {
		uint32_t m = find_mapping(f, l->mapping - 1);
		known = m != UNKNOWN;
		ret->mapping = m + 1;
		ret->address -= f->p->mappings[l->mapping - 1].start;
	}
	f->lines.n = 0;
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct profile_line *x = &f->p->lines[l->first_line + i];
		uint32_t id = x->function ? find_function(f, x->function - 1) : 0;
		known &= id != UNKNOWN;
		vec_push(&f->lines, (struct sym_line){ x->function ? id + 1 : 0, x->line, x->column });
	}
	return known;
}

static uint32_t find_location(struct fitting *f, uint32_t i)
{
	struct sym_location x;
	uint32_t *ret = &f->locations[i];
	if (*ret == UNSEEN)
		*ret = location_of(f, &f->p->locations[i], &x) && symbols_find_location(f->s, &x, f->lines.v, ret) ? *ret : UNKNOWN;
	return *ret;
}

/* ---- what it would take ---- */

static size_t string_bytes(struct fitting *f, uint32_t i)
{
	return find_string(f, i) == UNKNOWN ? STRING_BYTES + f->p->strings[i].len + 1 : 0;
}

/* At most: what several of its frames need is counted with each. */
static void add_needs(struct fitting *f, uint32_t i, struct symbols_room *need)
{
	const struct profile_location *l = &f->p->locations[i];
	if (find_location(f, i) != UNKNOWN)
		return;
	need->locations++;
	need->bytes += LOCATION_BYTES + l->n_lines * LINE_BYTES;
	if (l->mapping && find_mapping(f, l->mapping - 1) == UNKNOWN) {
		const struct profile_mapping *m = &f->p->mappings[l->mapping - 1];
		need->locations++;
		need->bytes += MAPPING_BYTES + string_bytes(f, m->file_str) + string_bytes(f, m->build_id_str);
	}
	for (uint32_t k = 0; k < l->n_lines; k++) {
		uint32_t id = f->p->lines[l->first_line + k].function;
		if (!id || find_function(f, id - 1) != UNKNOWN)
			continue;
		const struct profile_function *x = &f->p->functions[id - 1];
		need->functions++;
		need->bytes += FUNCTION_BYTES + string_bytes(f, x->name_str) + string_bytes(f, x->system_name_str) +
			       string_bytes(f, x->filename_str);
	}
}

static bool fits(const struct symbols_room *room, const struct symbols_room *need)
{
	return need->functions <= room->functions && need->locations <= room->locations && need->stacks <= room->stacks &&
	       need->bytes <= room->bytes;
}

struct symbols_room symbols_used(const struct symbols *s)
{
	return (struct symbols_room){ .functions = symbols_count(s, SYMBOLS_FUNCTIONS),
				      .locations = symbols_count(s, SYMBOLS_LOCATIONS) + symbols_count(s, SYMBOLS_MAPPINGS),
				      .stacks = symbols_count(s, SYMBOLS_COLUMNS), .bytes = symbols_cost(s) };
}

/* Takes what came since out of the room that there is. */
static void take(struct fitting *f, const struct symbols_room *before)
{
	struct symbols_room now = symbols_used(f->s), *r = f->room;
	r->functions -= MIN(r->functions, now.functions - before->functions);
	r->locations -= MIN(r->locations, now.locations - before->locations);
	r->stacks -= MIN(r->stacks, now.stacks - before->stacks);
	r->bytes -= MIN(r->bytes, now.bytes - before->bytes);
}

/* ---- taking in ---- */

static uint32_t need_string(struct fitting *f, uint32_t i)
{
	uint32_t id = find_string(f, i);
	return id == UNKNOWN ? f->strings[i] = symbols_string(f->s, f->p->strings[i]) : id;
}

static void need_location(struct fitting *f, uint32_t i)
{
	const struct profile_location *l = &f->p->locations[i];
	struct sym_location x;
	if (find_location(f, i) != UNKNOWN)
		return;
	if (l->mapping && find_mapping(f, l->mapping - 1) == UNKNOWN) {
		struct sym_mapping m;
		need_string(f, f->p->mappings[l->mapping - 1].file_str);
		need_string(f, f->p->mappings[l->mapping - 1].build_id_str);
		mapping_of(f, l->mapping - 1, &m);
		f->mappings[l->mapping - 1] = symbols_mapping(f->s, &m);
	}
	for (uint32_t k = 0; k < l->n_lines; k++) {
		uint32_t id = f->p->lines[l->first_line + k].function;
		struct sym_function to;
		if (!id || find_function(f, id - 1) != UNKNOWN)
			continue;
		need_string(f, f->p->functions[id - 1].name_str);
		need_string(f, f->p->functions[id - 1].system_name_str);
		need_string(f, f->p->functions[id - 1].filename_str);
		function_of(f, id - 1, &to);
		f->functions[id - 1] = symbols_function(f->s, &to);
	}
	location_of(f, l, &x);
	f->locations[i] = symbols_location(f->s, &x, f->lines.v);
}

static uint32_t other_stack(struct fitting *f)
{
	if (f->other != UNSEEN)
		return f->other;
	uint32_t name = symbols_string(f->s, VIEW("(other)"));
	struct sym_line line = { .function = symbols_function(f->s, &(struct sym_function){ .name = name, .system_name = name }) + 1 };
	uint32_t location = symbols_location(f->s, &(struct sym_location){ .n_lines = 1 }, &line);
	return f->other = symbols_stack(f->s, &location, 1);
}

/* The stack of a sample; UNKNOWN: there is no room for it. */
static uint32_t fit_stack(struct fitting *f, const struct profile_sample *x)
{
	const uint32_t *from = f->p->stack + x->first_location;
	struct symbols_room need = { .stacks = 1, .bytes = STACK_BYTES + COLUMN_BYTES + (size_t)x->n_locations * (NODE_BYTES + 4) };
	bool known = true;
	uint32_t id;
	for (uint32_t i = 0; i < x->n_locations; i++) {
		f->stack[i] = find_location(f, from[i]);
		known &= f->stack[i] != UNKNOWN;
	}
	if (known && symbols_find_stack(f->s, f->stack, x->n_locations, &id))
		return id;
	for (uint32_t i = 0; i < x->n_locations; i++) {
		add_needs(f, from[i], &need);
		if (!fits(f->room, &need))
			return UNKNOWN;
	}
	if (!fits(f->room, &need))
		return UNKNOWN;
	for (uint32_t i = 0; i < x->n_locations; i++) {
		need_location(f, from[i]);
		f->stack[i] = f->locations[from[i]];
	}
	return symbols_stack(f->s, f->stack, x->n_locations);
}

/* The sample's labels into f->labels, their strings found, or added. False: one is not there. */
static bool labels_of(struct fitting *f, const struct profile_sample *x, uint32_t (*string)(struct fitting *, uint32_t))
{
	bool known = true;
	f->labels.n = 0;
	for (uint32_t i = 0; i < x->n_labels; i++) {
		const struct profile_label *l = &f->p->labels[x->first_label + i];
		struct sym_label to = { .key = string(f, l->key_str), .is_num = l->is_num, .str = l->is_num ? 0 : string(f, l->str),
					.unit = l->is_num ? string(f, l->unit_str) : 0, .num = l->num };
		known &= to.key != UNKNOWN && to.str != UNKNOWN && to.unit != UNKNOWN;
		vec_push(&f->labels, to);
	}
	return known;
}

/* The label set; UNKNOWN: there is no room for it. */
static uint32_t fit_labels(struct fitting *f, const struct profile_sample *x)
{
	struct symbols_room need = { .bytes = LABEL_BYTES + (size_t)x->n_labels * LABEL_BYTES };
	uint32_t id;
	if (!x->n_labels)
		return 0;
	if (labels_of(f, x, find_string) && symbols_find_label_set(f->s, f->labels.v, f->labels.n, &id))
		return id;
	for (uint32_t i = 0; i < x->n_labels; i++) {
		const struct profile_label *l = &f->p->labels[x->first_label + i];
		need.bytes += string_bytes(f, l->key_str) + string_bytes(f, l->str) + string_bytes(f, l->unit_str);
	}
	if (!fits(f->room, &need))
		return UNKNOWN;
	labels_of(f, x, need_string);
	return symbols_label_set(f->s, f->labels.v, f->labels.n);
}

static uint32_t fit_column(struct fitting *f, uint32_t stack, uint32_t set)
{
	static const struct symbols_room need = { .stacks = 1, .bytes = COLUMN_BYTES };
	uint32_t id;
	if (stack == UNKNOWN || set == UNKNOWN)
		return UNKNOWN;
	if (symbols_find_column(f->s, stack, set, &id))
		return id;
	return fits(f->room, &need) ? symbols_column(f->s, stack, set) : UNKNOWN;
}

/* False: it became "(other)". */
static bool fit_sample(struct fitting *f, const struct profile_sample *x, uint32_t *out)
{
	struct symbols_room before = symbols_used(f->s);
	uint32_t stack = fit_stack(f, x);
	*out = fit_column(f, stack, stack == UNKNOWN ? UNKNOWN : fit_labels(f, x));
	bool ok = *out != UNKNOWN;
	if (!ok)
		*out = symbols_column(f->s, other_stack(f), 0);
	take(f, &before);
	return ok;
}

static uint32_t *unseen(struct arena *a, size_t n)
{
	uint32_t *v = arena_alloc(a, (n + 1) * sizeof *v);
	for (size_t i = 0; v && i < n; i++)
		v[i] = UNSEEN;
	return v;
}

int symbols_fit_profile(struct symbols *s, struct profile *p, struct symbols_room *room, uint32_t *out, uint32_t *ret_other,
			const struct symbols_pause *pause, struct err *e)
{
	struct arena *a = &p->arena;
	struct fitting f = { .s = s, .p = p, .room = room, .strings = unseen(a, p->n_strings), .functions = unseen(a, p->n_functions),
			     .mappings = unseen(a, p->n_mappings), .locations = unseen(a, p->n_locations),
			     .stack = unseen(a, p->n_stack), .other = UNSEEN };
	if (!f.strings || !f.functions || !f.mappings || !f.locations || !f.stack)
		return err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", a->max);
	*ret_other = 0;
	symbols_index(s, pause);
	for (uint32_t i = 0; i < p->n_samples; i++) {
		*ret_other += !fit_sample(&f, &p->samples[i], &out[i]);
		if (pause && i % 1024 == 1023)
			pause->fn(pause->arg);
	}
	struct sym_mapping first;
	if (p->n_mappings && find_mapping(&f, 0) != UNKNOWN && mapping_of(&f, 0, &first))
		symbols_mark_main(s, &first);
	vec_free(&f.lines);
	vec_free(&f.labels);
	return 0;
}
