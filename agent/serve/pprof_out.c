/* SPDX-License-Identifier: Apache-2.0 */
/* pprof_out: names and numbers a window. Locations are made once per distinct frame, mappings once per segment of an
 * image; samples that end up with the same stack and labels are added. A frame of a runtime has no address: those with the same names
 * and lines are one location, whichever process they are of. */
#include "agent/serve/pprof_out.h"

#include <stdio.h>

#include "agent/labels/meta.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/labels.h"

/* Offsets from _stext stay below this: the kernel's text and modules lie within 2 GiB of it. */
#define KERNEL_LIMIT ((uint64_t)1 << 32)

struct out_mapping {
	const void *owner;       /* the image; NULL for the kernel, JIT code and runtimes */
	uint64_t start;
	bool unnamed, named, files, lines, inlined; /* what its locations have */
};

struct out {
	struct profile *p;
	const struct profile_window *w;
	struct symbolizer *names;
	const struct pprof_out_options *o;
	bool full;               /* the arena's cap was reached */
	struct map string_index, function_index, sample_index, call_index; /* call_index: locations without an address */
	VEC(struct view) strings;
	VEC(struct profile_mapping) mappings;
	VEC(struct out_mapping) mapping_of;
	VEC(struct profile_function) functions;
	VEC(struct profile_line) lines;
	VEC(struct profile_location) locations;
	VEC(uint32_t) stack;
	VEC(struct profile_label) labels;
	VEC(struct profile_sample) samples;
	VEC(int64_t) values;
	uint32_t *location_of;   /* frame -> location + 1 */
	const struct image *program; /* of all samples' processes; NULL = not known yet */
	bool programs;           /* there are several, or it is not known which */
	VEC(uint32_t) met, series; /* strings: names of labels met; those that tell series apart (note_series) */
};

/* Names of threads, functions and files may have any bytes; a reader with UTF-8 strings would refuse the whole profile. */
static uint32_t put_string(struct out *x, struct view raw)
{
	struct view v = meta_text(&x->p->arena, raw);
	uint64_t h = hash_view(v);
	uint32_t id;
	if (raw.len && !v.len)
		x->full = true;
	for (size_t at = map_start(&x->string_index, h); map_probe(&x->string_index, h, &at, &id);)
		if (view_eq(x->strings.v[id], v))
			return id;
	struct view copy = arena_view(&x->p->arena, v);
	if (!copy.ptr) {
		x->full = true;
		return 0;
	}
	map_insert(&x->string_index, h, (uint32_t)x->strings.n);
	vec_push(&x->strings, copy);
	return (uint32_t)x->strings.n - 1;
}

static bool same_function(const struct profile_function *a, const struct profile_function *b)
{
	return a->name_str == b->name_str && a->system_name_str == b->system_name_str && a->filename_str == b->filename_str &&
	       a->start_line == b->start_line;
}

static uint32_t put_function(struct out *x, const struct sym_frame *f)
{
	struct profile_function fn = { put_string(x, f->name), put_string(x, f->system_name), put_string(x, f->file),
				       f->start_line };
	const uint64_t parts[] = { (uint64_t)fn.name_str << 32 | fn.filename_str, fn.system_name_str, (uint64_t)fn.start_line };
	uint64_t h = hash_bytes(parts, sizeof parts);
	uint32_t id;
	if (!MAP_FIND_OR_ADD(&x->function_index, h, id, x->functions.n, same_function(&x->functions.v[id], &fn)))
		vec_push(&x->functions, fn);
	return id;
}

static uint32_t put_mapping(struct out *x, const void *owner, const struct profile_mapping *m)
{
	for (size_t i = 0; i < x->mappings.n; i++)
		if (x->mapping_of.v[i].owner == owner && x->mappings.v[i].start == m->start &&
		    x->mappings.v[i].file_str == m->file_str)
			return (uint32_t)i;
	vec_push(&x->mappings, *m);
	vec_push(&x->mapping_of, (struct out_mapping){ .owner = owner, .start = m->start });
	return (uint32_t)x->mappings.n - 1;
}

/* A file without a build-id gets brackets, so that no local file of that name is taken for it. */
static uint32_t image_mapping(struct out *x, const struct image *im, uint64_t addr)
{
	struct profile_mapping m = { 0 };
	char hex[2 * BUILD_ID_MAX + 1];
	if (!image_segment_at(im, addr, &m.start, &m.limit, &m.offset)) {
		m.start = addr & ~UINT64_C(4095);
		m.limit = m.start + 4096;
	}
	struct view path = view_of(im->path ? im->path : "?");
	m.build_id_str = put_string(x, view_of(image_build_id_hex(im, hex)));
	if (im->build_id_len || view_starts(path, VIEW("["))) {
		m.file_str = put_string(x, path);
	} else {
		struct buf b = { 0 };
		buf_printf(&b, "[%.*s]", VIEW_ARG(path));
		m.file_str = put_string(x, buf_view(&b));
		buf_free(&b);
	}
	return put_mapping(x, im, &m);
}

/* Fills address and mapping of a location; false for a frame that is only a remark. */
static bool place(struct out *x, const struct window_frame *f, struct profile_location *l)
{
	struct profile_mapping m = { 0 };
	switch (f->kind) {
	case FRAME_USER:
		l->address = f->addr;
		l->mapping = (f->image ? image_mapping(x, f->image, f->addr) : 0) + 1;
		return f->image != NULL;
	case FRAME_KERNEL:
		m.limit = KERNEL_LIMIT;
		m.file_str = put_string(x, VIEW("[kernel]"));
		l->address = f->addr - symbolizer_kernel_start(x->names);
		l->mapping = put_mapping(x, NULL, &m) + 1;
		if (l->address >= KERNEL_LIMIT) /* no _stext, or a trampoline below it: no address leaves */
			l->address = 0;
		return true;
	case FRAME_JIT:
		m.limit = UINT64_MAX;
		m.file_str = put_string(x, VIEW("[jit]"));
		l->address = f->addr;
		l->mapping = put_mapping(x, NULL, &m) + 1;
		return true;
	case FRAME_RUNTIME:
		if (!f->code)
			break;
		m.limit = UINT64_MAX;
		m.file_str = put_string(x, view_of(f->code->of->mapping));
		l->mapping = put_mapping(x, NULL, &m) + 1;
		return true;
	case FRAME_MARK:
		break;
	}
	return false;
}

static bool same_calls(const struct out *x, const struct profile_location *a, const struct profile_location *b)
{
	if (a->mapping != b->mapping || a->n_lines != b->n_lines)
		return false;
	for (uint32_t i = 0; i < a->n_lines; i++) {
		const struct profile_line *l = &x->lines.v[a->first_line + i], *m = &x->lines.v[b->first_line + i];
		if (l->function != m->function || l->line != m->line)
			return false;
	}
	return true;
}

/* Its lines are the last of x->lines. by_calls: its names and lines alone say which it is. */
static uint32_t add_location(struct out *x, const struct profile_location *l, bool by_calls)
{
	uint64_t h = l->mapping ^ hash_secret[0];
	uint32_t id = (uint32_t)x->locations.n;

	for (uint32_t i = 0; i < l->n_lines; i++)
		h = hash_u64(h ^ x->lines.v[l->first_line + i].function ^ (uint64_t)x->lines.v[l->first_line + i].line << 32);
	if (by_calls && MAP_FIND_OR_ADD(&x->call_index, h, id, x->locations.n, same_calls(x, &x->locations.v[id], l))) {
		x->lines.n = l->first_line;
		return id;
	}
	vec_push(&x->locations, *l);
	return id;
}

static uint32_t put_location(struct out *x, uint32_t frame)
{
	if (x->location_of[frame])
		return x->location_of[frame] - 1;
	const struct window_frame *f = &x->w->frames.v[frame];
	struct profile_location l = { .first_line = (uint32_t)x->lines.n };
	struct sym_frame names[SYM_FRAMES_MAX];
	char unnamed[64];
	size_t n;
	if (place(x, f, &l)) {
		n = symbolizer_resolve(x->names, f, names);
	} else {
		struct view mark = view_of(f->mark ? f->mark : "[unknown]");
		names[0] = (struct sym_frame){ mark, mark, VIEW(""), 0, 0 };
		n = 1;
	}
	if (!n && l.mapping && f->kind == FRAME_RUNTIME) {
		struct view mark = view_of(runtime_code_mark(f->code, unnamed));
		names[0] = (struct sym_frame){ mark, mark, VIEW(""), 0, 0 };
		n = 1;
	}
	for (size_t i = 0; i < n; i++)
		vec_push(&x->lines, (struct profile_line){ put_function(x, &names[i]) + 1, names[i].line, 0 });
	l.n_lines = (uint32_t)n;
	if (l.mapping) {
		struct out_mapping *m = &x->mapping_of.v[l.mapping - 1];
		m->named |= n > 0;
		m->unnamed |= !n;
		m->inlined |= n > 1;
		for (size_t i = 0; i < n; i++) {
			m->files |= names[i].file.len > 0;
			m->lines |= names[i].line > 0;
		}
	}
	uint32_t id = add_location(x, &l, f->kind == FRAME_RUNTIME);
	x->location_of[frame] = id + 1;
	return id;
}

static bool wanted(const struct out *x, struct view name)
{
	if (!x->o || !x->o->by)
		return true;
	for (size_t i = 0; i < x->o->n_by; i++)
		if (view_eq(x->o->by[i], name))
			return true;
	return false;
}

/* The labels of every process without rules; a scraper knows which of these it keeps. */
static const char *const own_labels[] = {
	"cgroup", "comm", "container", "container_id", "exe", "exe_build_id", "image", "namespace", "node", "pid", "pod",
	"pod_uid", "runtime", "state", "thread", "unit", "workload"
};

/* Labels set by rules and flags become labels of series: the scraper cannot know their names. */
static void note_series(struct out *x, struct view key, uint32_t key_str)
{
	bool own = false, named = false;
	for (size_t i = 0; i < x->met.n; i++)
		if (x->met.v[i] == key_str)
			return;
	vec_push(&x->met, key_str);
	for (size_t i = 0; i < ARRAY_LEN(own_labels) && !own; i++)
		own = view_eqs(key, own_labels[i]);
	for (size_t i = 0; x->o && i < x->o->n_series && !named; i++)
		named = view_eq(key, x->o->series[i]);
	if (named || !own)
		vec_push(&x->series, key_str);
}

static void put_label(struct out *x, struct view key, struct view value)
{
	if (!value.len || !wanted(x, key))
		return;
	uint32_t key_str = put_string(x, key);
	vec_push(&x->labels, (struct profile_label){ .key_str = key_str, .str = put_string(x, value) });
	note_series(x, key, key_str);
}

static void put_labels(struct out *x, const struct process_info *p, const struct window_sample *s)
{
	if (!p)
		return;
	if (p->labels)
		for (size_t i = 0; i < p->labels->n; i++)
			put_label(x, p->labels->v[i].name, p->labels->v[i].value);
	char pid[16];
	snprintf(pid, sizeof pid, "%u", p->pid);
	put_label(x, VIEW("pid"), view_of(pid));
	put_label(x, VIEW("thread"), view_make(s->thread, strnlen(s->thread, sizeof s->thread)));
	if (s->state)
		put_label(x, VIEW("state"), s->state == WAIT_RUNNABLE ? VIEW("runnable") : VIEW("blocked"));
}

static bool same_labels(const struct out *x, const struct profile_sample *a, const struct profile_sample *b)
{
	for (uint32_t i = 0; i < a->n_labels; i++) {
		const struct profile_label *l = &x->labels.v[a->first_label + i], *m = &x->labels.v[b->first_label + i];
		if (l->key_str != m->key_str || l->str != m->str)
			return false;
	}
	return true;
}

static bool same_sample(const struct out *x, const struct profile_sample *a, const struct profile_sample *b)
{
	return a->n_locations == b->n_locations && a->n_labels == b->n_labels &&
	       memcmp(&x->stack.v[a->first_location], &x->stack.v[b->first_location], a->n_locations * sizeof(uint32_t)) == 0 &&
	       same_labels(x, a, b);
}

/* The program's own file, which may be mapped under another name than the program was started by. */
static void note_program(struct out *x, const struct process_info *p)
{
	const struct image *its = !p ? NULL : p->exe_file ? p->exe_file : p->exe;
	x->programs |= !its || (x->program && x->program != its);
	x->program = its;
}

/* The first mapping is the main binary. A profile of several programs has none. */
static bool main_binary_first(struct out *x)
{
	uint32_t i = 0;
	while (i < x->mappings.n && (x->programs || x->mapping_of.v[i].owner != x->program))
		i++;
	if (i == x->mappings.n)
		return profile_without_main(x->p);
	struct profile_mapping first = x->p->mappings[0];
	x->p->mappings[0] = x->p->mappings[i];
	x->p->mappings[i] = first;
	for (uint32_t k = 0; k < x->p->n_locations && i; k++) {
		uint32_t *m = &x->p->locations[k].mapping;
		*m = *m == 1 ? i + 1 : *m == i + 1 ? 1 : *m;
	}
	return true;
}

static void put_sample(struct out *x, const struct window_sample *s)
{
	const struct process_info *p = x->w->processes.v[s->process];
	if (x->o && x->o->keep && !x->o->keep(x->o->arg, p))
		return;
	note_program(x, p);
	struct profile_sample n = { .first_location = (uint32_t)x->stack.n, .n_locations = s->n_frames,
				    .first_label = (uint32_t)x->labels.n };
	for (uint32_t i = 0; i < s->n_frames; i++)
		vec_push(&x->stack, put_location(x, x->w->stacks.v[s->stack + i]));
	put_labels(x, p, s);
	n.n_labels = (uint32_t)x->labels.n - n.first_label;
	uint64_t h = hash_bytes(x->stack.v + n.first_location, n.n_locations * sizeof(uint32_t));
	for (uint32_t i = 0; i < n.n_labels; i++)
		h = hash_u64(h ^ ((uint64_t)x->labels.v[n.first_label + i].key_str << 32 | x->labels.v[n.first_label + i].str));
	uint32_t id;
	for (size_t at = map_start(&x->sample_index, h); map_probe(&x->sample_index, h, &at, &id);) {
		if (!same_sample(x, &x->samples.v[id], &n))
			continue;
		x->values.v[2 * (size_t)id] += s->count;
		x->values.v[2 * (size_t)id + 1] += s->value_ns;
		x->stack.n = n.first_location;
		x->labels.n = n.first_label;
		return;
	}
	map_insert(&x->sample_index, h, (uint32_t)x->samples.n);
	vec_push(&x->samples, n);
	vec_push(&x->values, s->count);
	vec_push(&x->values, s->value_ns);
}

static void *keep(struct out *x, const void *v, size_t bytes)
{
	void *p = arena_alloc(&x->p->arena, bytes);
	if (!p)
		x->full = true;
	else if (bytes)
		memcpy(p, v, bytes);
	return p;
}

#define KEEP(field, count, vec) do { \
	x->p->field = keep(x, (vec).v, (vec).n * sizeof *(vec).v); \
	x->p->count = (uint32_t)(vec).n; \
} while (0)

static const struct kind_words {
	const char *count, *value, *period, *comment;
} kind_words[] = {
	[WINDOW_ON_CPU] = { "samples", "cpu", "cpu", "pyrrha: on_cpu" },
	[WINDOW_OFF_CPU] = { "events", "delay", "off_cpu", "pyrrha: off_cpu" },
};

/* The comment that names them; 0 if there are none. */
static uint32_t put_series(struct out *x)
{
	struct buf b = { 0 };
	buf_puts(&b, "pyrrha: series");
	for (size_t i = 0; i < x->series.n; i++)
		if (label_name_plain(x->strings.v[x->series.v[i]]))
			buf_printf(&b, " %.*s", VIEW_ARG(x->strings.v[x->series.v[i]]));
	uint32_t id = x->series.n ? put_string(x, buf_view(&b)) : 0;
	buf_free(&b);
	return id;
}

/* The comment that says what is less than was wanted; 0 if nothing is. A scraper shows it. */
static uint32_t put_note(struct out *x)
{
	char text[sizeof x->w->note + 16];
	snprintf(text, sizeof text, "pyrrha: note %s", x->w->note);
	return x->w->note[0] ? put_string(x, view_of(text)) : 0;
}

static void fill(struct out *x)
{
	struct profile *p = x->p;
	for (size_t i = 0; i < x->mappings.n; i++) {
		const struct out_mapping *m = &x->mapping_of.v[i];
		/* False asks the reader's pprof to find names itself; where nothing has one there is a chance that it can. */
		x->mappings.v[i].has_functions = m->named;
		x->mappings.v[i].has_filenames = m->files;
		x->mappings.v[i].has_line_numbers = m->lines;
		x->mappings.v[i].has_inline_frames = m->inlined;
	}
	const struct kind_words *k = &kind_words[x->w->kind];
	struct profile_value_type types[2] = {
		{ put_string(x, view_of(k->count)), put_string(x, VIEW("count")) },
		{ put_string(x, view_of(k->value)), put_string(x, VIEW("nanoseconds")) },
	};
	p->period_type = (struct profile_value_type){ put_string(x, view_of(k->period)), types[1].unit_str };
	/* Says what this is, also for readers of the file elsewhere; the scraper uses it. */
	uint32_t comments[3] = { put_string(x, view_of(k->comment)) }, more[2] = { put_series(x), put_note(x) };
	p->n_comments = 1;
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		if (more[i])
			comments[p->n_comments++] = more[i];
	p->comments = keep(x, comments, sizeof comments);
	p->period = x->w->period_ns;
	p->time_ns = x->w->start_unix_ns;
	p->duration_ns = x->w->duration_ns;
	p->sample_types = keep(x, types, sizeof types);
	p->n_sample_types = 2;
	KEEP(mappings, n_mappings, x->mappings);
	KEEP(functions, n_functions, x->functions);
	KEEP(lines, n_lines, x->lines);
	KEEP(locations, n_locations, x->locations);
	KEEP(stack, n_stack, x->stack);
	KEEP(labels, n_labels, x->labels);
	KEEP(samples, n_samples, x->samples);
	KEEP(strings, n_strings, x->strings);
	p->values = keep(x, x->values.v, x->values.n * sizeof *x->values.v);
}

int pprof_out(struct profile *p, const struct profile_window *w, struct symbolizer *s, const struct pprof_out_options *o,
	      struct err *e)
{
	struct out x = { .p = p, .w = w, .names = s, .o = o };
	x.location_of = xcalloc(w->frames.n, sizeof *x.location_of);
	put_string(&x, VIEW(""));
	for (size_t i = 0; i < w->samples.n && !x.full; i++)
		put_sample(&x, &w->samples.v[i]);
	fill(&x);
	if (!x.full)
		x.full = !main_binary_first(&x);
	free(x.location_of);
	map_free(&x.string_index);
	map_free(&x.function_index);
	map_free(&x.sample_index);
	map_free(&x.call_index);
	vec_free(&x.strings);
	vec_free(&x.mappings);
	vec_free(&x.mapping_of);
	vec_free(&x.functions);
	vec_free(&x.lines);
	vec_free(&x.locations);
	vec_free(&x.stack);
	vec_free(&x.labels);
	vec_free(&x.samples);
	vec_free(&x.values);
	vec_free(&x.met);
	vec_free(&x.series);
	if (!x.full)
		return 0;
	size_t max = p->arena.max;
	profile_reset(p);
	return err_set(e, ERR_LIMIT, "the profile needs more than %zu bytes; narrow it with match[]", max);
}
