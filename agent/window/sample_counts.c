/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/window/sample_counts.h"

#include <stdlib.h>

#include "bpf/abi.h"

#define LOOKS_MAX 10
#define LOOK_NS 1000000              /* reading two clocks takes some 100 ns, without interruption */

struct sample_counts *sample_counts_new(int64_t start_ns, int64_t end_ns, int64_t unix_offset_ns)
{
	struct sample_counts *t = NEW(struct sample_counts);
	t->start_ns = start_ns;
	t->end_ns = end_ns;
	t->unix_offset_ns = unix_offset_ns;
	t->kinds = ~0u;
	return t;
}

struct sample_counts *sample_counts_open(int64_t start_ns, int64_t unix_offset_ns, bool follows)
{
	int64_t beyond = (start_ns + unix_offset_ns) % WINDOW_NS;

	if (follows && beyond >= WINDOW_NS - CLOCK_JITTER_NS)
		beyond -= WINDOW_NS;
	/* It ends where the wall clock of now says, so that jitter does not add up. */
	int64_t end_ns = start_ns + WINDOW_NS - beyond;
	return sample_counts_new(start_ns, end_ns, follows && llabs(beyond) <= CLOCK_JITTER_NS ? unix_offset_ns - beyond : unix_offset_ns);
}

bool sample_counts_over(const struct sample_counts *t, int64_t now_ns, int64_t unix_offset_ns, int64_t *ret_cut_ns)
{
	*ret_cut_ns = MIN(now_ns, t->end_ns);
	return now_ns >= t->end_ns || (llabs(unix_offset_ns - t->unix_offset_ns) > CLOCK_STEP_NS && now_ns > t->start_ns);
}

int64_t sample_counts_unix_offset(int64_t (*mono_ns)(void), int64_t (*unix_ns)(void))
{
	int64_t ret = 0, least = INT64_MAX;

	for (int i = 0; i < LOOKS_MAX && least > LOOK_NS; i++) {
		int64_t before = mono_ns(), wall = unix_ns(), took = mono_ns() - before;
		if (took < least) {
			least = took;
			ret = wall - before - took / 2;
		}
	}
	return ret;
}

int64_t sample_counts_start_unix_ms(const struct sample_counts *t)
{
	return (t->start_ns + t->unix_offset_ns) / 1000000;
}

void sample_counts_free(struct sample_counts *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->v.n; i++)
		process_info_unref(t->v.v[i].who);
	vec_free(&t->v);
	map_free(&t->index);
	free(t);
}

static uint64_t entry_hash(unsigned kind, unsigned state, const struct process_info *who, const char thread[16], uint32_t stack)
{
	return hash_bytes_seed(thread, 16, hash_u64((uintptr_t)who) ^ stack ^ (uint64_t)(kind | state << 1) << 32);
}

void sample_counts_reindex(struct sample_counts *t)
{
	map_clear(&t->index);
	for (size_t i = 0; i < t->v.n; i++) {
		const struct sample_count *e = &t->v.v[i];
		map_insert(&t->index, entry_hash(e->off_cpu, e->state, e->who, e->thread, e->stack), (uint32_t)i);
	}
}

void sample_counts_name(struct sample_counts *t, uint64_t ret_dropped[2])
{
	bool indexed = t->index.slots, changed = false;
	size_t kept = 0;

	t->unnamed = false;
	for (size_t i = 0; i < t->v.n; i++) {
		struct sample_count e = t->v.v[i];
		if (e.who && e.who->named) {
			struct process_info *before = e.who;
			changed = true;
			e.who = process_info_ref(before->named);
			process_info_unref(before);
			if (e.who->dropped) {
				ret_dropped[e.off_cpu] += e.count;
				process_info_unref(e.who);
				continue;
			}
		}
		t->unnamed |= e.who && e.who->waits;
		t->v.v[kept++] = e;
	}
	t->v.n = kept;
	if (changed && indexed)
		sample_counts_reindex(t);
}

void sample_counts_add(struct sample_counts *t, enum window_kind kind, enum wait_state state, struct process_info *who,
		       const char thread[16], uint32_t stack, int64_t value_ns, uint32_t count)
{
	uint64_t hash = entry_hash(kind, state, who, thread, stack);
	uint32_t id;

	t->unnamed |= who && who->waits;
	if (MAP_FIND_OR_ADD(&t->index, hash, id, t->v.n, t->v.v[id].who == who && t->v.v[id].stack == stack && t->v.v[id].off_cpu == kind &&
			    t->v.v[id].state == state && memcmp(t->v.v[id].thread, thread, 16) == 0)) {
		t->v.v[id].value_ns += value_ns;
		t->v.v[id].count += count;
		return;
	}
	struct sample_count n = { process_info_ref(who), value_ns, "", stack, kind, state, count };
	memcpy(n.thread, thread, sizeof n.thread);
	vec_push(&t->v, n);
}

void sample_counts_finish(struct sample_counts *t)
{
	t->finished = true;
	map_free(&t->index);
	if (t->v.n && t->v.n < t->v.cap) {
		t->v.v = xreallocarray(t->v.v, t->v.n, sizeof *t->v.v);
		t->v.cap = t->v.n;
	}
}

size_t sample_counts_bytes(const struct sample_counts *t)
{
	return sizeof *t + t->v.cap * sizeof *t->v.v + (t->index.slots ? (t->index.mask + 1) * 8 : 0);
}

/* --- export --- */

struct export {
	struct profile_window *w;
	const struct stack_tree *tree;
	const struct frame_table *table;
	const struct unwind_tables *tables;
	struct map frames, processes, samples;
};

static uint32_t export_process(struct export *x, struct process_info *who)
{
	uint64_t hash = hash_u64((uintptr_t)who);
	uint32_t id;

	if (!who)
		return 0;
	if (!MAP_FIND_OR_ADD(&x->processes, hash, id, x->w->processes.n, x->w->processes.v[id] == who))
		vec_push(&x->w->processes, process_info_ref(who));
	return id;
}

static struct window_frame frame_of(struct export *x, uint64_t frame, struct process_info *who)
{
	struct window_frame f = { .addr = frame & FRAME_ADDR_MASK };
	uint32_t image = (uint32_t)(frame >> FRAME_IMAGE_SHIFT);

	if (FRAME_IS_KERNEL(frame)) {
		f.kind = FRAME_KERNEL;
		f.addr = frame;
	} else if (FRAME_IS_MARK(frame)) {
		f.kind = FRAME_MARK;
		f.mark = stack_marks_text(&x->tree->marks, frame);
		f.addr = 0;
	} else if (FRAME_IS_RUNTIME(frame)) {
		struct runtime_frame r = frame_table_at(x->table, frame);
		f.kind = FRAME_RUNTIME;
		f.code = r.code;
		f.addr = r.at;
	} else if (image == IMAGE_JIT || !(f.image = unwind_tables_image_by_id(x->tables, image))) {
		f.kind = FRAME_JIT;
		f.process = who;
	} else {
		f.kind = FRAME_USER;
	}
	return f;
}

static bool same_frame(const struct window_frame *a, const struct window_frame *b)
{
	return a->kind == b->kind && a->addr == b->addr && a->image == b->image && a->process == b->process &&
	       a->code == b->code && a->mark == b->mark;
}

static uint32_t export_frame(struct export *x, uint64_t frame, struct process_info *who)
{
	struct window_frame f = frame_of(x, frame, who);
	uint64_t hash = hash_u64(frame) ^ hash_u64((uintptr_t)f.process);
	uint32_t id;

	if (MAP_FIND_OR_ADD(&x->frames, hash, id, x->w->frames.n, same_frame(&x->w->frames.v[id], &f)))
		return id;
	if (f.image)
		image_ref(f.image);
	process_info_ref(f.process);
	runtime_code_ref(f.code);
	vec_push(&x->w->frames, f);
	return id;
}

static bool same_sample(const struct window_sample *s, const struct sample_count *e, uint32_t process)
{
	return s->stack == e->stack && s->process == process && s->state == e->state && memcmp(s->thread, e->thread, sizeof s->thread) == 0;
}

static void export_entry(struct export *x, const struct sample_count *e)
{
	struct profile_window *w = x->w;
	uint32_t process = export_process(x, e->who), id;
	uint64_t hash = hash_bytes_seed(e->thread, sizeof e->thread, hash_u64((uint64_t)process << 32 | e->stack) ^ e->state);

	/* The stack's node stands in for the stack until it is written out, at the end. */
	if (MAP_FIND_OR_ADD(&x->samples, hash, id, w->samples.n, same_sample(&w->samples.v[id], e, process))) {
		w->samples.v[id].value_ns += e->value_ns;
		w->samples.v[id].count += e->count;
		return;
	}
	struct window_sample s = { .stack = e->stack, .process = process, .state = e->state, .value_ns = e->value_ns, .count = e->count };
	memcpy(s.thread, e->thread, sizeof s.thread);
	vec_push(&w->samples, s);
}

static void export_stack(struct export *x, struct window_sample *s)
{
	struct process_info *who = x->w->processes.v[s->process];
	uint32_t node = s->stack;

	s->stack = (uint32_t)x->w->stacks.n;
	s->n_frames = x->tree->nodes.v[node].depth;
	for (; node; node = x->tree->nodes.v[node].parent)
		vec_push(&x->w->stacks, export_frame(x, x->tree->nodes.v[node].frame, who));
}

struct profile_window *sample_counts_export(struct sample_counts *const *t, size_t n, enum window_kind kind,
					    const struct stack_tree *tree, const struct frame_table *frames,
					    const struct unwind_tables *tables)
{
	struct export x = { .w = NEW(struct profile_window), .tree = tree, .table = frames, .tables = tables };

	x.w->kind = kind;
	vec_push(&x.w->processes, NULL);
	for (size_t i = 0; i < n; i++) {
		if (i == 0) {
			x.w->start_mono_ns = t[i]->start_ns;
			x.w->start_unix_ns = t[i]->start_ns + t[i]->unix_offset_ns;
			x.w->first_number = t[i]->number;
		}
		x.w->last_number = t[i]->number;
		x.w->duration_ns += t[i]->end_ns - t[i]->start_ns;
		for (size_t k = 0; k < t[i]->v.n; k++)
			/* Dropped, but kept: a process that waits, which a caller does not do for long. */
			if (t[i]->v.v[k].off_cpu == kind && !(t[i]->v.v[k].who && t[i]->v.v[k].who->dropped))
				export_entry(&x, &t[i]->v.v[k]);
	}
	for (size_t i = 0; i < x.w->samples.n; i++)
		export_stack(&x, &x.w->samples.v[i]);
	map_free(&x.frames);
	map_free(&x.processes);
	map_free(&x.samples);
	return x.w;
}
