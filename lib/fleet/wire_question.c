/* SPDX-License-Identifier: Apache-2.0 */
/* Questions. Which fields a call has is one table for writer and reader: question_fields. Matchers and expressions travel as text and are
 * compiled again. */
#include "fleet/wire.h"
#include "fleet/wire_result.h"

static const char question_magic[4] = { 'P', 'Y', 'R', 'Q' };

#define QUESTION_MEMORY_MAX ((size_t)512 << 20) /* of a decoded question, without compiled expressions */
#define QUESTION_WEIGHT_MAX (INT64_C(1) << 42)   /* ms, 139 years: 2^20 values times such weights fit into 128 bits */

enum { HAS_RANGE = 1, HAS_MATCHERS = 2, HAS_LABEL = 4, HAS_REFS = 8, HAS_WINDOWS = 16, HAS_TILES = 32, HAS_PARTS = 64, HAS_FILTER = 128 };

static const uint8_t question_fields[FLEET_OPS] = {
	[FLEET_SELECT] = HAS_RANGE | HAS_MATCHERS,
	[FLEET_TYPES] = HAS_RANGE,
	[FLEET_LABEL_NAMES] = HAS_RANGE | HAS_MATCHERS,
	[FLEET_LABEL_VALUES] = HAS_RANGE | HAS_MATCHERS | HAS_LABEL,
	[FLEET_FLOATS] = HAS_RANGE | HAS_REFS,
	[FLEET_PROFILES] = HAS_RANGE | HAS_REFS,
	[FLEET_POINTS] = HAS_RANGE | HAS_REFS | HAS_WINDOWS,
	[FLEET_COVERS] = HAS_REFS | HAS_TILES,
	[FLEET_MERGE] = HAS_PARTS,
	[FLEET_SUMS] = HAS_PARTS | HAS_FILTER,
	[FLEET_SHARES] = HAS_PARTS | HAS_FILTER,
	[FLEET_MATCHES] = HAS_RANGE | HAS_REFS | HAS_FILTER,
};

enum { QUESTION_STRICT = 1, QUESTION_EXACT = 2, QUESTION_NAMES = 4, QUESTION_WINDOWS = 8, QUESTION_FILTER = 16, QUESTION_FLAGS = 32 };
enum { FILTER_LEAF = 1, FILTER_ANY = 2, FILTER_FLAGS = 4 };

/* What of a part is as of the one before. */
enum {
	PART_RANGE = 1, PART_SCALE = 2, PART_GROUP = 4,
	PART_NEXT_GROUP = 8, /* its outputs follow those of the part before */
	PART_STEPS = 16, PART_WEIGH = 32,
	PART_NEXT_REF = 64,  /* its series has the next reference */
	PART_FLAGS = 128
};

/* The part before, or what is in its place before the first. */
static struct source_part question_no_part(void)
{
	return (struct source_part){ .ref = UINT64_MAX, .scale = 1 };
}

/* ---- writing ---- */

static void question_put_matchers(struct wire_out *o, const struct matcher *m, size_t n)
{
	wire_room(o);
	wire_put(o, n);
	for (size_t i = 0; i < n; i++) {
		wire_room(o);
		wire_put_byte(o, (uint8_t)m[i].op);
		wire_put_text(o, m[i].name);
		wire_put_text(o, m[i].value);
	}
}

static void question_put_refs(struct wire_out *o, const uint64_t *refs, size_t n)
{
	uint64_t next = 0;
	wire_room(o);
	wire_put(o, n);
	for (size_t i = 0; i < n; i++) {
		wire_room(o);
		wire_put_diff(o, (int64_t)refs[i], (int64_t)next);
		next = refs[i] + 1;
	}
}

static uint8_t question_part_flags(const struct source_part *p, const struct source_part *b)
{
	bool same = p->group == b->group, next = !same && p->group == b->group + MAX(b->n_steps, 1u);
	return (uint8_t)((p->after_ms == b->after_ms && p->until_ms == b->until_ms ? PART_RANGE : 0) |
			 (value_bits(p->scale) == value_bits(b->scale) ? PART_SCALE : 0) | (same ? PART_GROUP : next ? PART_NEXT_GROUP : 0) |
			 (p->n_steps == b->n_steps && p->step_ms == b->step_ms ? PART_STEPS : 0) |
			 (p->weigh.over_ms == b->weigh.over_ms && p->weigh.base_ms == b->weigh.base_ms && p->weigh.by_cover == b->weigh.by_cover ? PART_WEIGH : 0) |
			 (p->ref == b->ref + 1 ? PART_NEXT_REF : 0));
}

static void question_put_part(struct wire_out *o, struct wire_doubles *scales, const struct source_part *p, const struct source_part *b)
{
	uint8_t flags = question_part_flags(p, b);
	wire_room(o);
	wire_put_byte(o, flags);
	if (!(flags & PART_NEXT_REF))
		wire_put_diff(o, (int64_t)p->ref, (int64_t)b->ref);
	if (!(flags & PART_RANGE)) {
		wire_put_diff(o, p->after_ms, b->after_ms);
		wire_put_diff(o, p->until_ms, p->after_ms);
	}
	if (!(flags & PART_SCALE))
		wire_put_double(o, scales, p->scale);
	if (!(flags & (PART_GROUP | PART_NEXT_GROUP)))
		wire_put(o, p->group);
	if (!(flags & PART_STEPS)) {
		wire_put(o, p->n_steps);
		wire_put_signed(o, p->step_ms);
	}
	if (!(flags & PART_WEIGH)) {
		wire_put(o, (uint64_t)p->weigh.over_ms << 1 | p->weigh.by_cover);
		wire_put_signed(o, p->weigh.base_ms);
	}
}

static void question_put_parts(struct wire_out *o, const struct fleet_call *c)
{
	struct wire_doubles scales = { 0 };
	struct source_part before = question_no_part();
	wire_room(o);
	wire_put(o, c->n_groups);
	wire_put(o, c->n_parts);
	for (size_t i = 0; i < c->n_parts; i++) {
		question_put_part(o, &scales, &c->parts[i], &before);
		before = c->parts[i];
	}
}

static void question_put_filter(struct wire_out *o, const struct source_frame_filter *f)
{
	wire_room(o);
	wire_put_byte(o, (uint8_t)((f->leaf_only ? FILTER_LEAF : 0) | (f->any ? FILTER_ANY : 0)));
	if (f->any)
		wire_put_text(o, f->any_text);
	else
		question_put_matchers(o, f->m, f->n);
}

static void question_put_call(struct wire_out *o, const struct fleet_call *c)
{
	uint8_t fields = question_fields[c->op];
	if (fields & HAS_RANGE) {
		wire_put_signed(o, c->after_ms);
		wire_put_diff(o, c->until_ms, c->after_ms);
	}
	if (fields & HAS_MATCHERS)
		question_put_matchers(o, c->m, c->n_m);
	if (fields & HAS_LABEL)
		wire_put_text(o, c->label);
	if (fields & HAS_REFS)
		question_put_refs(o, c->refs, c->n_refs);
	wire_room(o);
	if (fields & HAS_WINDOWS && c->windows) {
		wire_put_signed(o, c->windows->until_ms);
		wire_put_signed(o, c->windows->range_ms);
		wire_put_signed(o, c->windows->step_ms);
		wire_put(o, c->windows->n);
	}
	if (fields & HAS_TILES) {
		wire_put_signed(o, c->tiles->after_ms);
		wire_put_signed(o, c->tiles->width_ms);
		wire_put(o, c->tiles->n);
	}
	if (fields & HAS_PARTS)
		question_put_parts(o, c);
	if (fields & HAS_FILTER && c->filter)
		question_put_filter(o, c->filter);
	if (c->op == FLEET_ROWS)
		wire_put_graph(o, c->graph);
}

static uint8_t question_flags(const struct fleet_question *q)
{
	const struct fleet_call *c = &q->call;
	uint8_t fields = question_fields[c->op];
	return (uint8_t)((q->strict ? QUESTION_STRICT : 0) | (c->op == FLEET_SUMS && c->exact ? QUESTION_EXACT : 0) |
			 (c->op == FLEET_MERGE && c->detail == SYMBOLS_NAMES ? QUESTION_NAMES : 0) |
			 (fields & HAS_WINDOWS && c->windows ? QUESTION_WINDOWS : 0) | (fields & HAS_FILTER && c->filter ? QUESTION_FILTER : 0));
}

void fleet_question_encode(struct buf *out, const struct fleet_question *q)
{
	struct wire_out o = { .to = out };
	size_t from = out->len;
	buf_put(out, question_magic, sizeof question_magic);
	wire_put(&o, FLEET_WIRE_VERSION);
	wire_put_byte(&o, (uint8_t)q->call.op);
	wire_put_byte(&o, question_flags(q));
	wire_put_fixed(&o, q->view);
	wire_put_fixed(&o, q->session);
	wire_put_signed(&o, q->left_ms);
	wire_put(&o, q->max_samples);
	wire_put(&o, q->max_bytes);
	wire_put(&o, q->max_answer);
	wire_room(&o);
	for (unsigned i = ROWS_STRINGS; i < ROWS_TABLES && q->session; i++)
		wire_put(&o, q->has.next[i]);
	wire_room(&o);
	question_put_call(&o, &q->call);
	wire_put_hash(&o, from);
}

/* ---- reading ---- */

/* Texts of all matchers and expressions of a question. */
struct question_texts {
	size_t left;
};

static struct view question_get_text(struct wire_in *in, struct question_texts *texts)
{
	struct view v = wire_get_text(in, FLEET_TEXT_MAX);
	if (!wire_require(in, v.len <= texts->left, "matchers and expressions are too long together"))
		return VIEW("");
	texts->left -= v.len;
	char *copy = wire_alloc(in, v.len + 1, 1);
	if (copy && v.len)
		memcpy(copy, v.ptr, v.len);
	return copy ? view_make(copy, v.len) : VIEW("");
}

/* Appends to q->matchers, which has room; returns how many. An expression that does not compile is *e. */
static size_t question_get_matchers(struct wire_in *in, struct fleet_question *q, struct question_texts *texts, struct err *e)
{
	wire_section(in, "matchers");
	size_t n = wire_get_count(in, 3);
	if (!wire_require(in, n <= FLEET_MATCHERS_MAX, "more than 1,000 matchers"))
		return 0;
	for (size_t i = 0; i < n && !in->c.bad && !e->code; i++) {
		uint8_t op = wire_get_byte(in);
		struct view name = question_get_text(in, texts), value = question_get_text(in, texts);
		if (!wire_require(in, op <= MATCH_NRE, "a matcher that there is not") || in->c.bad)
			return i;
		if (!matcher_init(&q->matchers[q->n_matchers], (enum matcher_op)op, name, value, e))
			q->n_matchers++;
	}
	return in->c.bad || e->code ? 0 : n;
}

static void question_get_refs(struct wire_in *in, struct fleet_call *c)
{
	uint64_t next = 0;
	wire_section(in, "series");
	size_t n = wire_get_count(in, 1);
	if (!wire_require(in, n <= FLEET_REFS_MAX, "too many series"))
		return;
	uint64_t *refs = wire_alloc(in, n, sizeof *refs);
	for (size_t i = 0; i < n && refs; i++) {
		refs[i] = (uint64_t)wire_get_diff(in, (int64_t)next);
		next = refs[i] + 1;
	}
	c->refs = refs;
	c->n_refs = refs ? n : 0;
}

/* Whether the last of n ranges, each a step behind the one before, is a time, too. */
static bool question_reaches(int64_t at_ms, int64_t step_ms, uint64_t n)
{
	int64_t all;
	return wire_near(at_ms) && wire_near(step_ms) && n <= UINT32_MAX && !__builtin_mul_overflow(step_ms, (int64_t)n, &all) &&
	       !__builtin_add_overflow(at_ms, all, &all) && wire_near(all);
}

static void question_get_windows(struct wire_in *in, struct source_windows *w)
{
	wire_section(in, "windows");
	w->until_ms = wire_get_ms(in);
	w->range_ms = wire_get_ms(in);
	w->step_ms = wire_get_ms(in);
	w->n = (size_t)wire_get(in);
	wire_require(in, w->range_ms >= 0 && w->step_ms >= 0 && question_reaches(w->until_ms, w->step_ms, w->n) && wire_near(w->until_ms - w->range_ms),
		     "times out of range");
}

static void question_get_tiles(struct wire_in *in, const struct fleet_call *c, struct source_tiles *t)
{
	wire_section(in, "tiles");
	t->after_ms = wire_get_ms(in);
	t->width_ms = wire_get_ms(in);
	t->n = (size_t)wire_get(in);
	wire_require(in, t->width_ms > 0 && question_reaches(t->after_ms, t->width_ms, t->n), "times out of range");
	wire_require(in, t->n <= FLEET_TILES_MAX && t->n * (c->n_refs + 1) <= FLEET_TILES_MAX, "too many tiles for so many series");
}

static void question_get_part(struct wire_in *in, struct wire_doubles *scales, const struct source_part *b, size_t n_groups, struct source_part *p)
{
	uint8_t flags = wire_get_byte(in);
	wire_require(in, flags < PART_FLAGS && (flags & (PART_GROUP | PART_NEXT_GROUP)) != (PART_GROUP | PART_NEXT_GROUP),
		     "flags of a part that there are not");
	*p = *b;
	p->ref = flags & PART_NEXT_REF ? b->ref + 1 : (uint64_t)wire_get_diff(in, (int64_t)b->ref);
	if (!(flags & PART_RANGE)) {
		p->after_ms = wire_get_diff(in, b->after_ms);
		p->until_ms = wire_get_diff(in, p->after_ms);
	}
	if (!(flags & PART_SCALE))
		p->scale = wire_get_double(in, scales);
	if (flags & PART_NEXT_GROUP)
		p->group = b->group + MAX(b->n_steps, 1u);
	else if (!(flags & PART_GROUP))
		p->group = cursor_u32(&in->c);
	if (!(flags & PART_STEPS)) {
		p->n_steps = cursor_u32(&in->c);
		p->step_ms = wire_get_ms(in);
	}
	if (!(flags & PART_WEIGH)) {
		uint64_t over = wire_get(in);
		p->weigh = (struct source_weigh){ (int64_t)(over >> 1), wire_get_signed(in), over & 1 };
	}
	uint64_t n = MAX(p->n_steps, 1u);
	wire_require(in, n <= n_groups && p->group <= n_groups - n, "a group that there is not");
	wire_require(in, wire_near(p->after_ms) && wire_near(p->until_ms), "times out of range");
	wire_require(in, n == 1 || (p->step_ms > 0 && question_reaches(p->after_ms, p->step_ms, n) && question_reaches(p->until_ms, p->step_ms, n)),
		     "steps out of range");
	wire_require(in, p->weigh.over_ms <= QUESTION_WEIGHT_MAX && p->weigh.base_ms >= 0 && p->weigh.base_ms <= QUESTION_WEIGHT_MAX,
		     "a weight out of range");
}

static void question_get_parts(struct wire_in *in, struct fleet_call *c)
{
	struct wire_doubles scales = { 0 };
	struct source_part before = question_no_part();
	wire_section(in, "parts");
	uint64_t n_groups = wire_get(in);
	size_t n = wire_get_count(in, 1);
	if (!wire_require(in, n_groups <= FLEET_GROUPS_MAX && n <= FLEET_PARTS_MAX, "too many parts or groups"))
		return;
	struct source_part *parts = wire_alloc(in, n, sizeof *parts);
	uint64_t n_steps = 0;
	for (size_t i = 0; i < n && parts && !in->c.bad; i++) {
		question_get_part(in, &scales, &before, n_groups, &parts[i]);
		before = parts[i];
		n_steps += MAX(before.n_steps, 1u);
		wire_require(in, n_steps <= FLEET_PART_STEPS_MAX, "too many steps of all parts together");
	}
	c->parts = parts;
	c->n_parts = parts ? n : 0;
	c->n_groups = n_groups;
}

static void question_get_filter(struct wire_in *in, struct fleet_question *q, struct question_texts *texts, struct err *e)
{
	wire_section(in, "filter");
	uint8_t flags = wire_get_byte(in);
	wire_require(in, flags < FILTER_FLAGS, "flags that there are not");
	q->filter.leaf_only = flags & FILTER_LEAF;
	q->call.filter = &q->filter;
	if (flags & FILTER_ANY) {
		q->filter.any_text = question_get_text(in, texts);
		if (!in->c.bad && !regex_new(&q->any, q->filter.any_text, false, e))
			q->filter.any = q->any;
	} else {
		q->filter.m = q->matchers + q->n_matchers;
		q->filter.n = question_get_matchers(in, q, texts, e);
	}
}

static void question_get_call(struct wire_in *in, struct fleet_question *q, uint8_t flags, struct err *e)
{
	struct fleet_call *c = &q->call;
	struct question_texts texts = { FLEET_TEXTS_MAX };
	uint8_t fields = question_fields[c->op];
	if (fields & HAS_RANGE) {
		wire_section(in, "range");
		c->after_ms = wire_get_ms(in);
		c->until_ms = wire_get_diff(in, c->after_ms);
		wire_require(in, wire_near(c->until_ms), "a time out of range");
	}
	if (fields & HAS_MATCHERS) {
		c->m = q->matchers;
		c->n_m = question_get_matchers(in, q, &texts, e);
	}
	if (fields & HAS_LABEL)
		c->label = question_get_text(in, &texts);
	if (fields & HAS_REFS)
		question_get_refs(in, c);
	if (flags & QUESTION_WINDOWS) {
		question_get_windows(in, &q->windows);
		c->windows = &q->windows;
	}
	if (fields & HAS_TILES) {
		question_get_tiles(in, c, &q->tiles);
		c->tiles = &q->tiles;
	}
	if (fields & HAS_PARTS)
		question_get_parts(in, c);
	if (c->op == FLEET_ROWS) {
		q->graph.readout = question_get_text(in, &texts);
		wire_get_graph(in, &q->graph);
		c->graph = &q->graph;
	}
	if (flags & QUESTION_FILTER)
		question_get_filter(in, q, &texts, e);
	else
		wire_require(in, !(fields & HAS_FILTER) || c->op == FLEET_SUMS, "a filter is missing");
}

static void question_get_head(struct wire_in *in, struct fleet_question *q, uint8_t *ret_flags)
{
	uint8_t op = wire_get_byte(in), flags = wire_get_byte(in);
	if (!wire_require(in, op > 0 && op < FLEET_OPS, "an operation that there is not"))
		return;
	uint8_t fields = question_fields[op];
	uint8_t may = (uint8_t)(QUESTION_STRICT | (op == FLEET_SUMS ? QUESTION_EXACT : 0) | (op == FLEET_MERGE ? QUESTION_NAMES : 0) |
				(fields & HAS_WINDOWS ? QUESTION_WINDOWS : 0) | (fields & HAS_FILTER ? QUESTION_FILTER : 0));
	wire_require(in, !(flags & ~may), "flags that the operation has not");
	q->call.op = (enum fleet_op)op;
	q->call.exact = flags & QUESTION_EXACT;
	q->call.detail = flags & QUESTION_NAMES ? SYMBOLS_NAMES : SYMBOLS_WHOLE;
	q->strict = flags & QUESTION_STRICT;
	q->view = wire_get_fixed(in);
	q->session = wire_get_fixed(in);
	q->left_ms = wire_get_ms(in);
	q->max_samples = wire_get(in);
	q->max_bytes = wire_get(in);
	q->max_answer = wire_get(in);
	symbols_marks_start(&q->has);
	for (unsigned i = ROWS_STRINGS; i < ROWS_TABLES && q->session; i++)
		q->has.next[i] = MAX(q->has.next[i], cursor_u32(&in->c)); /* both sides have what is built in */
	*ret_flags = flags;
}

int fleet_question_decode(struct fleet_question *ret, struct view body, struct budget *budget, struct err *e)
{
	struct wire_in in;
	struct err bad = { 0 };
	uint64_t version;
	uint8_t flags = 0;
	*ret = (struct fleet_question){ 0 };
	arena_init(&ret->arena, QUESTION_MEMORY_MAX);
	ret->arena.budget = budget;
	if (body.len > FLEET_QUESTION_MAX)
		return err_set(e, ERR_BAD_DATA, "the question has %zu bytes, more than %zu", body.len, FLEET_QUESTION_MAX);
	int rc = wire_open(&in, body, question_magic, &version, &bad);
	if (version && version != FLEET_WIRE_VERSION)
		return err_set(e, ERR_BAD_DATA, "the question is of version %llu of the protocol between servers, this server speaks version %d: run the same "
			       "release on both", (unsigned long long)version, FLEET_WIRE_VERSION);
	if (rc)
		return err_set(e, ERR_BAD_DATA, "not a question: %s", bad.msg);
	in.arena = &ret->arena;
	question_get_head(&in, ret, &flags);
	if (!in.c.bad) {
		ret->matchers = xcalloc(2 * (size_t)FLEET_MATCHERS_MAX, sizeof *ret->matchers);
		question_get_call(&in, ret, flags, &bad);
	}
	if (ret->arena.refused)
		return err_set(e, ERR_BUSY, "there is no memory left to decode the question");
	if (bad.code)
		return err_set(e, bad.code, "%s: %s", in.what, bad.msg);
	return wire_close(&in, "question", ERR_BAD_DATA, e);
}

void fleet_question_release(struct fleet_question *q)
{
	for (size_t i = 0; i < q->n_matchers; i++)
		matcher_release(&q->matchers[i]);
	free(q->matchers);
	regex_unref(q->any);
	arena_free(&q->arena);
	*q = (struct fleet_question){ 0 };
}
