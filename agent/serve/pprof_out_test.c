/* SPDX-License-Identifier: Apache-2.0 */
/* pprof_out: frames of runtimes. The runtime is made up: a record is a function's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include <stdio.h>

#include "agent/serve/pprof_out.h"
#include "agent/window/sample_counts.h"
#include "pprof/pprof.h"

static size_t frames_at(const struct runtime_file *f, struct view record, uint64_t at, struct runtime_name *out, size_t max)
{
	(void)f;
	if (max < 2 || !record.len)
		return 0;
	size_t n = 0;
	if (at >= 1000)              /* something was inlined there */
		out[n++] = (struct runtime_name){ VIEW("inlined"), VIEW("inlined"), VIEW("b.py"), 3, 2 };
	out[n++] = (struct runtime_name){ record, record, VIEW("a.py"), (int64_t)at / 2, 1 };
	return n;
}

static void free_file(struct runtime_file *f)
{
	(void)f;
}

static const struct runtime made_up = { .kind = RUNTIME_PYTHON, .name = "python", .mapping = "[python]", .free_file = free_file,
					.frames_at = frames_at };
static struct runtime_file file = { .of = &made_up, .version = 0x30b };

struct host {
	struct image *python;
	struct frame_table frames;
	struct stack_tree stacks;
	struct unwind_tables *tables;
	struct sample_counts *counts;
	struct process_info *who[2];
	struct runtime_owner *owner[2];
	struct symbolizer *names;
	struct profile_window *w;
	struct profile p;
};

static void begin(struct host *h)
{
	struct symbolizer_options o = { .patience_ms = 10 };
	struct err e;

	*h = (struct host){ .python = NEW(struct image) };
	atomic_store(&h->python->refs, 1);
	atomic_store(&h->python->fd, -1);
	h->python->path = xstrdup("/python");
	h->python->runtime = &file;
	frame_table_init(&h->frames);
	stack_tree_init(&h->stacks);
	assert_int_equal(unwind_tables_new(&h->tables, NULL, &e), 0);
	h->counts = sample_counts_new(0, 1000, 0);
	h->names = symbolizer_new(&o, &e);
	assert_non_null(h->names);
	for (uint32_t i = 0; i < 2; i++) {
		h->who[i] = NEW(struct process_info);
		atomic_store(&h->who[i]->refs, 1);
		h->who[i]->pid = 7 + i;
		process_info_made(h->who[i]);
		h->owner[i] = runtime_owner_new(7 + i, h->python);
	}
	profile_init(&h->p, 0);
}

static void end(struct host *h)
{
	profile_release(&h->p);
	profile_window_free(h->w);
	sample_counts_free(h->counts);
	for (int i = 0; i < 2; i++) {
		process_info_unref(h->who[i]);
		runtime_owner_end(h->owner[i]);
	}
	stack_tree_release(&h->stacks);
	frame_table_release(&h->frames);
	unwind_tables_free(h->tables);
	symbolizer_free(h->names);
	assert_int_equal(atomic_load(&h->python->refs), 1);
	image_unref(h->python);
}

/* A function of process `of` at that object, met at `at`. NULL: it stays unread. */
static uint64_t frame(struct host *h, int of, uint64_t object, uint64_t at, const char *name)
{
	uint64_t word = frame_table_add(&h->frames, h->owner[of], &made_up, at, object, 1, 1);
	struct runtime_code *c = frame_table_at(&h->frames, word).code;

	if (name && atomic_load(&c->state) == CODE_WANTED)
		runtime_code_set(c, CODE_NAMED, view_of(name));
	return word;
}

static void sample(struct host *h, int of, uint64_t leaf, uint64_t caller)
{
	uint32_t node = stack_tree_add(&h->stacks, stack_tree_add(&h->stacks, 0, caller), leaf);

	sample_counts_add(h->counts, WINDOW_ON_CPU, WAIT_UNKNOWN, h->who[of], "main\0\0\0\0\0\0\0\0\0\0\0", node, 10, 1);
}

static void export(struct host *h)
{
	struct pprof_out_options o = { .by = (struct view[]){ VIEW("none") }, .n_by = 1 };
	struct err e;

	h->w = sample_counts_export(&h->counts, 1, WINDOW_ON_CPU, &h->stacks, &h->frames, h->tables);
	symbolizer_begin(h->names);
	assert_int_equal(pprof_out(&h->p, h->w, h->names, &o, &e), 0);
	symbolizer_end(h->names);
	assert_int_equal(profile_check(&h->p, &e), 0);
}

/* "inner:line < outer:line" of a location. */
static const char *calls(const struct profile *p, uint32_t location)
{
	static char text[256];
	const struct profile_location *l = &p->locations[location];
	size_t n = 0;

	assert_int_equal(l->address, 0);
	assert_true(view_eqs(profile_str(p, p->mappings[l->mapping - 1].file_str), "[python]"));
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct profile_line *line = &p->lines[l->first_line + i];
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s:%d", i ? " < " : "",
				      VIEW_ARG(profile_str(p, p->functions[line->function - 1].name_str)), (int)line->line);
	}
	return text;
}

/* The same functions and lines of two processes are the same locations, and so the same stack; other lines are others. */
static void one_location(void **state)
{
	(void)state;
	struct host h;

	begin(&h);
	sample(&h, 0, frame(&h, 0, 0x1000, 20, "spam"), frame(&h, 0, 0x2000, 40, "main"));
	sample(&h, 1, frame(&h, 1, 0x5000, 20, "spam"), frame(&h, 1, 0x9000, 41, "main"));
	sample(&h, 1, frame(&h, 1, 0x5000, 22, "spam"), frame(&h, 1, 0x9000, 40, "main"));
	sample(&h, 1, frame(&h, 1, 0x5000, 1000, "spam"), frame(&h, 1, 0x9000, 40, "main"));
	export(&h);
	const struct profile *p = &h.p;
	assert_int_equal(p->n_samples, 3);
	assert_int_equal(p->values[0], 2);
	assert_int_equal(p->values[1], 20);
	assert_int_equal(p->n_locations, 4);
	assert_string_equal(calls(p, p->stack[p->samples[0].first_location]), "spam:10");
	assert_string_equal(calls(p, p->stack[p->samples[0].first_location + 1]), "main:20");
	assert_string_equal(calls(p, p->stack[p->samples[1].first_location]), "spam:11");
	assert_string_equal(calls(p, p->stack[p->samples[2].first_location]), "inlined:3 < spam:500");
	assert_int_equal(p->stack[p->samples[0].first_location + 1], p->stack[p->samples[2].first_location + 1]);
	assert_int_equal(p->n_functions, 3);
	const struct profile_mapping *m = &p->mappings[p->locations[0].mapping - 1];
	assert_true(m->has_functions && m->has_filenames && m->has_line_numbers && m->has_inline_frames);
	end(&h);
}

/* A frame without a name says why, and is still the runtime's. */
static void unnamed(void **state)
{
	(void)state;
	struct host h;

	begin(&h);
	uint64_t gone = frame(&h, 0, 0x1000, 20, NULL), changed = frame(&h, 0, 0x2000, 20, NULL);
	runtime_code_set(frame_table_at(&h.frames, gone).code, CODE_GONE, VIEW(""));
	runtime_code_set(frame_table_at(&h.frames, changed).code, CODE_CHANGED, VIEW(""));
	sample(&h, 0, gone, frame(&h, 0, 0x3000, 2, NULL));
	sample(&h, 0, changed, frame(&h, 0, 0x4000, 2, NULL));
	export(&h);
	assert_int_equal(h.p.n_samples, 2);
	assert_int_equal(h.p.n_locations, 3); /* both callers wait to be read: one location */
	assert_string_equal(calls(&h.p, h.p.stack[0]), "[python: process ended]:0");
	assert_string_equal(calls(&h.p, h.p.stack[1]), "[python: not read yet]:0");
	assert_string_equal(calls(&h.p, h.p.stack[2]), "[python: changed]:0");
	end(&h);
}

/* Locations without an address keep their lines and mapping through the format. */
static void round_trip(void **state)
{
	(void)state;
	struct host h;
	struct profile back;
	struct buf b = { 0 };
	struct err e;

	begin(&h);
	sample(&h, 0, frame(&h, 0, 0x1000, 20, "spam"), frame(&h, 0, 0x2000, 40, "main"));
	sample(&h, 0, frame(&h, 0, 0x1000, 24, "spam"), 0xfffffffff0000000);
	export(&h);
	assert_int_equal(pprof_encode_gz(&h.p, &b, &e), 0);
	const char *to = getenv("PYRRHA_PPROF_OUT"); /* to look at it with other tools */
	if (to) {
		FILE *f = fopen(to, "w");
		assert_non_null(f);
		fwrite(b.ptr, 1, b.len, f);
		fclose(f);
	}
	profile_init(&back, 0);
	assert_int_equal(pprof_decode(b.ptr, b.len, &pprof_default_limits, &back, &e), 0);
	assert_int_equal(back.n_samples, 2);
	assert_string_equal(calls(&back, back.stack[back.samples[0].first_location]), "spam:10");
	assert_string_equal(calls(&back, back.stack[back.samples[0].first_location + 1]), "main:20");
	assert_string_equal(calls(&back, back.stack[back.samples[1].first_location]), "spam:12");
	profile_release(&back);
	buf_free(&b);
	end(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_location),
		cmocka_unit_test(unnamed),
		cmocka_unit_test(round_trip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
