/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/managed/frame_table.h"

#include <stdio.h>

#include "base/lock.h"

/* A code that could not be read may be whole a moment later, if it was being made or taken apart just then; or there is room by then. */
#define TRIES_MAX 3
#define TRY_AGAIN_NS 1000000000ll

const char *const code_state_names[CODE_STATES] = {
	[CODE_WANTED] = "wanted", [CODE_NAMED] = "named", [CODE_GONE] = "gone", [CODE_CHANGED] = "changed",
	[CODE_OVER_BUDGET] = "over_budget", [CODE_UNREADABLE] = "unreadable",
};

/* ---- records ---- */

struct runtime_record {
	uint32_t refs, id;           /* id: index of records.v */
	uint64_t hash;
	const struct runtime *of;
	unsigned version;
	uint32_t len;
	char bytes[];
};

/* Of the whole program: an owner, and a window, may outlive the agent's table. */
static struct {
	struct mutex lock;
	struct map index;
	VEC(struct runtime_record *) v;
	VEC(uint32_t) spare;
	size_t bytes;
	atomic_bool full;            /* there was no room for one since the last sweep */
} records = { .lock = MUTEX_INIT(LOCK_LEAF, "runtime records") };

static bool record_is(const struct runtime_record *r, const struct runtime_file *f, struct view bytes)
{
	return r->of == f->of && r->version == f->version && view_eq(view_make(r->bytes, r->len), bytes);
}

/* One process may take half of what the others leave: whatever it makes, there is room for the next one. */
static bool may_have(size_t all, size_t its, size_t more, size_t max)
{
	size_t others = all - MIN(its, all);
	return others < max && its + more <= (max - others) / 2;
}

/* The record with these bytes, a reference, made if need be; NULL: there is no room. *ret_charged: bytes that were charged to the owner. */
static struct runtime_record *record_of(struct runtime_owner *o, struct view bytes, size_t *ret_charged)
{
	const struct runtime_file *f = o->image->runtime;
	uint64_t hash = hash_bytes_seed(bytes.ptr, bytes.len, (uint64_t)f->of->kind << 32 | f->version);
	size_t size = sizeof(struct runtime_record) + bytes.len;
	struct runtime_record *r = NULL;
	uint32_t id;

	*ret_charged = 0;
	mutex_lock(&records.lock);
	for (size_t at = map_start(&records.index, hash); !r && map_probe(&records.index, hash, &at, &id);)
		if (record_is(records.v.v[id], f, bytes))
			r = records.v.v[id];
	if (r) {
		r->refs++;
	} else if (bytes.len <= RECORD_BYTES_MAX && may_have(records.bytes, atomic_load(&o->record_bytes), size, RECORDS_BYTES_MAX)) {
		r = xmalloc(size);
		id = records.spare.n ? records.spare.v[--records.spare.n] : (uint32_t)records.v.n;
		*r = (struct runtime_record){ 1, id, hash, f->of, f->version, (uint32_t)bytes.len };
		memcpy(r->bytes, bytes.ptr, bytes.len);
		if (id == records.v.n)
			vec_push(&records.v, r);
		else
			records.v.v[id] = r;
		map_insert(&records.index, hash, id);
		records.bytes += size;
		atomic_fetch_add(&o->record_bytes, size);
		*ret_charged = size;
	} else {
		atomic_store(&records.full, true);
	}
	mutex_unlock(&records.lock);
	return r;
}

static void record_unref(struct runtime_record *r)
{
	if (!r)
		return;
	mutex_lock(&records.lock);
	if (--r->refs == 0) {
		map_remove(&records.index, r->hash, r->id);
		records.v.v[r->id] = NULL;
		vec_push(&records.spare, r->id);
		records.bytes -= sizeof *r + r->len;
		if (records.spare.n == records.v.n) {
			vec_free(&records.v);
			vec_free(&records.spare);
			map_free(&records.index);
		}
		free(r);
	}
	mutex_unlock(&records.lock);
}

void runtime_records_held(size_t *ret_bytes, size_t *ret_n)
{
	mutex_lock(&records.lock);
	*ret_bytes = records.bytes;
	*ret_n = records.v.n - records.spare.n;
	mutex_unlock(&records.lock);
}

/* ---- owners and codes ---- */

struct runtime_owner *runtime_owner_new(uint32_t pid, struct image *im)
{
	static _Atomic uint64_t serials;
	struct runtime_owner *o = NEW(struct runtime_owner);

	atomic_store(&o->refs, 1);
	o->pid = pid;
	o->serial = atomic_fetch_add(&serials, 1) + 1;
	o->image = image_ref(im);
	return o;
}

struct runtime_owner *runtime_owner_ref(struct runtime_owner *o)
{
	atomic_fetch_add(&o->refs, 1);
	return o;
}

void runtime_owner_unref(struct runtime_owner *o)
{
	if (!o || atomic_fetch_sub(&o->refs, 1) != 1)
		return;
	image_unref(o->image);
	free(o->facts);
	free(o->kept);
	free(o);
}

void runtime_owner_end(struct runtime_owner *o)
{
	if (!o)
		return;
	atomic_store(&o->ended, true);
	runtime_owner_unref(o);
}

struct runtime_code *runtime_code_ref(struct runtime_code *c)
{
	if (c)
		atomic_fetch_add(&c->refs, 1);
	return c;
}

void runtime_code_unref(struct runtime_code *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	record_unref(c->record);
	if (c->charged)
		atomic_fetch_sub(&c->owner->record_bytes, c->charged);
	runtime_owner_unref(c->owner);
	free(c);
}

enum code_state runtime_code_set(struct runtime_code *c, enum code_state state, struct view record)
{
	if (state == CODE_NAMED) {
		c->record = record_of(c->owner, record, &c->charged);
		if (!c->record)
			state = CODE_OVER_BUDGET;
	}
	atomic_store_explicit(&c->state, state, memory_order_release);
	return state;
}

size_t runtime_code_frames(const struct runtime_code *c, uint64_t at, struct runtime_name *out, size_t max)
{
	if (atomic_load_explicit(&c->state, memory_order_acquire) != CODE_NAMED)
		return 0;
	return c->of->frames_at(c->owner->image->runtime, view_make(c->record->bytes, c->record->len), at, out, max);
}

const char *runtime_code_mark(const struct runtime_code *c, char buf[64])
{
	static const char *const marks[CODE_STATES] = {
		[CODE_WANTED] = "not read yet", [CODE_NAMED] = "unknown", [CODE_GONE] = "process ended", [CODE_CHANGED] = "changed",
		[CODE_OVER_BUDGET] = "over budget", [CODE_UNREADABLE] = "not readable",
	};
	snprintf(buf, 64, "[%s: %s]", c->of->name, marks[atomic_load_explicit(&c->state, memory_order_acquire)]);
	return buf;
}

/* ---- the table ---- */

void frame_table_init(struct frame_table *t)
{
	memset(t, 0, sizeof *t);
}

void frame_table_release(struct frame_table *t)
{
	for (size_t i = 0; i < t->wanted.n; i++)
		runtime_code_unref(t->wanted.v[i]);
	for (size_t i = 0; i < t->codes.n; i++)
		runtime_code_unref(t->codes.v[i]);
	for (unsigned kind = 0; kind < RUNTIME_KINDS; kind++)
		for (unsigned state = 0; state < CODE_STATES; state++)
			runtime_code_unref(t->stand_in[kind][state]);
	vec_free(&t->wanted);
	vec_free(&t->codes);
	vec_free(&t->free_codes);
	vec_free(&t->frames);
	map_free(&t->frame_index);
	map_free(&t->code_index);
	memset(t, 0, sizeof *t);
}

static uint64_t code_hash(const struct runtime_owner *o, uint64_t object, uint64_t check)
{
	return hash_u64(object ^ hash_u64(check ^ hash_u64(o->serial ^ hash_secret[0])));
}

static uint64_t frame_hash(const struct runtime_code *c, uint64_t at)
{
	return hash_u64(at ^ hash_u64((uintptr_t)c));
}

static struct runtime_code *new_code(const struct runtime *of, enum code_state state)
{
	struct runtime_code *c = NEW(struct runtime_code);

	atomic_store(&c->refs, 1);
	atomic_store(&c->state, state);
	c->of = of;
	return c;
}

static struct runtime_code *stand_in(struct frame_table *t, const struct runtime *of, enum code_state state)
{
	struct runtime_code **c = &t->stand_in[of->kind][state];

	if (!*c)
		*c = new_code(of, state);
	return *c;
}

static void want(struct frame_table *t, struct runtime_code *c, int64_t now_ns)
{
	c->wanted_ns = now_ns;
	atomic_store(&c->state, CODE_WANTED);
	vec_push(&t->wanted, runtime_code_ref(c));
}

static void want_again(struct frame_table *t, struct runtime_code *c, int64_t now_ns)
{
	uint32_t state = atomic_load_explicit(&c->state, memory_order_relaxed);

	if (LIKELY(state == CODE_NAMED || state == CODE_WANTED))
		return;
	if (state != CODE_GONE && c->tries < TRIES_MAX && now_ns - c->wanted_ns > TRY_AGAIN_NS) {
		c->tries++;
		want(t, c, now_ns);
	}
}

static struct runtime_code *add_code(struct frame_table *t, struct runtime_owner *o, uint64_t object, uint64_t check, uint64_t hash,
				     int64_t now_ns)
{
	struct runtime_code *c;

	if (!may_have(t->held_codes, o->codes, 1, CODES_MAX)) {
		t->over_budget[o->image->runtime->of->kind]++;
		t->full = true;
		return stand_in(t, o->image->runtime->of, CODE_OVER_BUDGET);
	}
	c = new_code(o->image->runtime->of, CODE_WANTED);
	c->owner = runtime_owner_ref(o);
	c->object = object;
	c->check = check;
	atomic_store(&c->met, 1);
	uint32_t id = t->free_codes.n ? t->free_codes.v[--t->free_codes.n] : (uint32_t)t->codes.n;
	if (id == t->codes.n)
		vec_push(&t->codes, c);
	else
		t->codes.v[id] = c;
	map_insert(&t->code_index, hash, id);
	t->held_codes++;
	o->codes++;
	want(t, c, now_ns);
	return c;
}

static struct runtime_code *code_of(struct frame_table *t, struct runtime_owner *o, uint64_t object, uint64_t check, int64_t now_ns)
{
	uint64_t hash = code_hash(o, object, check);
	uint32_t id;

	for (size_t at = map_start(&t->code_index, hash); map_probe(&t->code_index, hash, &at, &id);) {
		struct runtime_code *c = t->codes.v[id];
		if (c->object == object && c->check == check && c->owner == o) {
			atomic_store_explicit(&c->met, atomic_load_explicit(&c->met, memory_order_relaxed) + 1, memory_order_relaxed);
			want_again(t, c, now_ns);
			return c;
		}
	}
	return add_code(t, o, object, check, hash, now_ns);
}

static uint32_t frame_of(struct frame_table *t, struct runtime_code *c, uint64_t at)
{
	uint64_t hash = frame_hash(c, at);
	uint32_t next = t->free_frame ? t->free_frame - 1 : (uint32_t)t->frames.n, id;

	if (MAP_FIND_OR_ADD(&t->frame_index, hash, id, next, t->frames.v[id].code == c && t->frames.v[id].at == at))
		return id;
	if (id == t->frames.n)
		vec_push(&t->frames, (struct runtime_frame){ 0 });
	else
		t->free_frame = (uint32_t)t->frames.v[id].at;
	t->frames.v[id] = (struct runtime_frame){ c, at };
	t->held_frames++;
	c->frames++;
	return id;
}

uint64_t frame_table_add(struct frame_table *t, struct runtime_owner *owner, const struct runtime *of, uint64_t at, uint64_t object,
			 uint64_t check, int64_t now_ns)
{
	struct runtime_code *c = owner ? code_of(t, owner, object, check, now_ns) : stand_in(t, of, CODE_GONE);

	/* All that stands for itself is one frame, wherever it is. */
	return (uint64_t)RUNTIME_IMAGE(of->kind) << FRAME_IMAGE_SHIFT | frame_of(t, c, c->owner ? at : 0);
}

struct runtime_frame frame_table_at(const struct frame_table *t, uint64_t word)
{
	uint64_t id = word & FRAME_ADDR_MASK;

	return id < t->frames.n ? t->frames.v[id] : (struct runtime_frame){ 0 };
}

size_t frame_table_bytes(const struct frame_table *t)
{
	return t->held_frames * (sizeof *t->frames.v + 2 * sizeof *t->frame_index.slots);
}

bool frame_table_full(const struct frame_table *t)
{
	return t->full || atomic_load(&records.full);
}

/* ---- compaction ---- */

void frame_sweep_begin(struct frame_sweep *s, const struct frame_table *t)
{
	s->marked = xcalloc(MAX(t->frames.n, (size_t)1), 1);
}

void frame_sweep_mark(struct frame_sweep *s, const struct frame_table *t, uint64_t word)
{
	uint64_t id = word & FRAME_ADDR_MASK;

	if (FRAME_IS_RUNTIME(word) && id < t->frames.n)
		s->marked[id] = 1;
}

static void drop_codes(struct frame_table *t)
{
	for (size_t i = 0; i < t->codes.n; i++) {
		struct runtime_code *c = t->codes.v[i];
		if (!c || c->frames)
			continue;
		map_remove(&t->code_index, code_hash(c->owner, c->object, c->check), (uint32_t)i);
		t->codes.v[i] = NULL;
		vec_push(&t->free_codes, (uint32_t)i);
		t->held_codes--;
		c->owner->codes--;
		runtime_code_unref(c);
	}
}

void frame_sweep_run(struct frame_sweep *s, struct frame_table *t)
{
	for (size_t i = 0; i < t->frames.n; i++) {
		struct runtime_frame *f = &t->frames.v[i];
		if (s->marked[i] || !f->code)
			continue;
		map_remove(&t->frame_index, frame_hash(f->code, f->at), (uint32_t)i);
		f->code->frames--;
		*f = (struct runtime_frame){ NULL, t->free_frame };
		t->free_frame = (uint32_t)i + 1;
		t->held_frames--;
	}
	drop_codes(t);
	t->full = false;
	atomic_store(&records.full, false);
	free(s->marked);
	s->marked = NULL;
}
