/* SPDX-License-Identifier: Apache-2.0 */
/* Questions for rows of a graph over stacks, and these rows. Of a term only what differs from the one before is there; of a row only the steps in which it is not zero. */
#include <math.h>

#include "base/map.h"
#include "fleet/wire.h"
#include "fleet/wire_result.h"

__extension__ typedef unsigned __int128 uint128;

enum {
	TERM_STEP = 1,      /* the step of the term before */
	TERM_NEXT_STEP = 2, /* the one after it */
	TERM_LANE = 4, TERM_SCALE = 8, /* those of the term before */
	TERM_ADJOINS = 16,  /* its range begins where the one before ends */
	TERM_FLAGS = 32
};

/* ---- questions ---- */

static void rows_put_term(struct wire_out *o, struct wire_doubles *scales, const struct source_graph_term *t, const struct source_graph_term *b)
{
	uint8_t flags = (uint8_t)((t->step == b->step ? TERM_STEP : t->step == b->step + 1 ? TERM_NEXT_STEP : 0) | (t->lane == b->lane ? TERM_LANE : 0) |
				  (value_bits(t->scale) == value_bits(b->scale) ? TERM_SCALE : 0) | (t->after_ms == b->until_ms ? TERM_ADJOINS : 0));
	wire_room(o);
	wire_put_byte(o, flags);
	if (!(flags & (TERM_STEP | TERM_NEXT_STEP)))
		wire_put(o, t->step);
	if (!(flags & TERM_LANE))
		wire_put(o, t->lane);
	if (!(flags & TERM_SCALE))
		wire_put_double(o, scales, t->scale);
	if (!(flags & TERM_ADJOINS))
		wire_put_diff(o, t->after_ms, b->after_ms);
	wire_put_diff(o, t->until_ms, t->after_ms);
}

void wire_put_graph(struct wire_out *o, const struct source_graph *g)
{
	struct wire_doubles scales = { 0 };
	struct source_graph_term before = { 0 };
	uint64_t next = 0;
	wire_put_text(o, g->readout);
	wire_put(o, g->n_steps);
	wire_put(o, g->n_lanes);
	for (size_t i = 0; i < g->n_lanes; i++) {
		wire_room(o);
		wire_put_signed(o, g->bits[i]);
	}
	wire_room(o);
	wire_put(o, g->n_refs);
	wire_put(o, g->first[g->n_refs]);
	for (size_t i = 0; i < g->n_refs; i++) {
		wire_room(o);
		wire_put_diff(o, (int64_t)g->refs[i], (int64_t)next);
		next = g->refs[i] + 1;
		wire_put(o, g->first[i + 1] - g->first[i]);
		for (uint32_t k = g->first[i]; k < g->first[i + 1]; k++) {
			rows_put_term(o, &scales, &g->terms[k], &before);
			before = g->terms[k];
		}
	}
	wire_room(o);
}

static void rows_get_term(struct wire_in *in, const struct source_graph *g, struct wire_doubles *scales, const struct source_graph_term *b,
			  struct source_graph_term *t)
{
	uint8_t flags = wire_get_byte(in);
	wire_require(in, flags < TERM_FLAGS && (flags & (TERM_STEP | TERM_NEXT_STEP)) != (TERM_STEP | TERM_NEXT_STEP), "flags of a term that there are not");
	*t = *b;
	if (flags & TERM_NEXT_STEP)
		t->step = b->step + 1;
	else if (!(flags & TERM_STEP))
		t->step = cursor_u32(&in->c);
	if (!(flags & TERM_LANE))
		t->lane = cursor_u32(&in->c);
	if (!(flags & TERM_SCALE))
		t->scale = wire_get_double(in, scales);
	t->after_ms = flags & TERM_ADJOINS ? b->until_ms : wire_get_diff(in, b->after_ms);
	t->until_ms = wire_get_diff(in, t->after_ms);
	wire_require(in, t->step < g->n_steps && t->lane < g->n_lanes, "a step or a lane that there is not");
	wire_require(in, wire_near(t->after_ms) && wire_near(t->until_ms) && t->after_ms < t->until_ms, "times out of range");
	wire_require(in, isfinite(t->scale), "a scale that is no number");
}

/* Series with their terms, n_terms in all. */
static void rows_get_terms(struct wire_in *in, struct source_graph *g, size_t n_refs, size_t n_terms)
{
	struct wire_doubles scales = { 0 };
	struct source_graph_term before = { 0 }, *terms = wire_alloc(in, n_terms, sizeof *terms);
	uint64_t next = 0, *refs = wire_alloc(in, n_refs, sizeof *refs);
	uint32_t *first = wire_alloc(in, n_refs + 1, sizeof *first);
	for (size_t i = 0; i < n_refs && !in->c.bad; i++) {
		refs[i] = (uint64_t)wire_get_diff(in, (int64_t)next);
		next = refs[i] + 1;
		uint64_t n = wire_get(in);
		if (!wire_require(in, n && n <= n_terms - first[i], "more terms than it says"))
			return;
		first[i + 1] = first[i] + (uint32_t)n;
		for (uint32_t k = first[i]; k < first[i + 1] && !in->c.bad; k++) {
			rows_get_term(in, g, &scales, &before, &terms[k]);
			before = terms[k];
		}
	}
	if (in->c.bad || !wire_require(in, first[n_refs] == n_terms, "fewer terms than it says"))
		return;
	g->refs = refs;
	g->first = first;
	g->n_refs = n_refs;
	g->terms = terms;
}

void wire_get_graph(struct wire_in *in, struct source_graph *g)
{
	static const uint32_t none[1];
	wire_section(in, "graph");
	g->first = none;
	g->n_steps = wire_get(in);
	g->n_lanes = wire_get_count(in, 1);
	if (!wire_require(in, g->n_steps <= FLEET_STEPS_MAX && g->n_lanes <= FLEET_LANES_MAX, "too many steps or lanes"))
		return;
	int *bits = wire_alloc(in, g->n_lanes, sizeof *bits);
	for (size_t i = 0; i < g->n_lanes && !in->c.bad; i++) {
		int64_t b = wire_get_signed(in);
		wire_require(in, b > -2000 && b < 2000, "a number of bits that there cannot be");
		bits[i] = in->c.bad ? 0 : (int)b;
	}
	g->bits = bits;
	size_t n_refs = wire_get_count(in, 3), n_terms = wire_get_count(in, 2);
	if (wire_require(in, n_refs <= FLEET_REFS_MAX && n_terms <= FLEET_TERMS_MAX, "too many series or terms") && !in->c.bad)
		rows_get_terms(in, g, n_refs, n_terms);
}

/* ---- rows ---- */

static void rows_put_wide(struct wire_out *o, int128 v)
{
	uint128 z = ((uint128)v << 1) ^ (uint128)(v >> 127);
	for (; z >= 0x80; z >>= 7)
		wire_put_byte(o, (uint8_t)(z | 0x80));
	wire_put_byte(o, (uint8_t)z);
}

static int128 rows_get_wide(struct wire_in *in)
{
	uint128 z = 0;
	for (unsigned shift = 0; shift < 133; shift += 7) {
		uint8_t b = wire_get_byte(in);
		if (!wire_require(in, shift < 126 || b < 4, "a number of more than 128 bits"))
			return 0;
		z |= (uint128)(b & 0x7f) << shift;
		if (b < 0x80)
			break;
	}
	return (int128)(z >> 1) ^ -(int128)(z & 1);
}

/* Texts that were written: 0 and the text, the first time; then 1 + its number. */
struct rows_texts {
	VEC(struct view) v;
	struct map by_text;
};

static void rows_put_text(struct wire_out *o, struct rows_texts *t, struct view v)
{
	uint32_t id;
	wire_room(o);
	if (MAP_FIND_OR_ADD(&t->by_text, hash_view(v), id, t->v.n, view_eq(t->v.v[id], v))) {
		wire_put(o, (uint64_t)id + 1);
		return;
	}
	vec_push(&t->v, v);
	wire_put(o, 0);
	wire_put_text(o, v);
}

static struct view rows_get_text(struct wire_in *in, struct rows_texts *t)
{
	uint64_t id = wire_get(in);
	if (id)
		return wire_require(in, id <= t->v.n, "a text that was not there") ? t->v.v[id - 1] : VIEW("");
	struct view v = wire_get_text(in, SIZE_MAX);
	char *copy = wire_alloc(in, v.len + 1, 1);
	if (!copy)
		return VIEW("");
	if (v.len)
		memcpy(copy, v.ptr, v.len);
	vec_push(&t->v, view_make(copy, v.len));
	return view_make(copy, v.len);
}

void wire_put_rows(struct wire_out *o, const struct fleet_result *r)
{
	struct rows_texts texts = { 0 };
	wire_put_byte(o, r->fits);
	wire_put(o, r->n);
	for (size_t i = 0; i < r->n; i++) {
		const struct fleet_row *x = &r->rows[i];
		wire_room(o);
		wire_put(o, (uint64_t)x->lane << 1 | (x->parts != NULL));
		rows_put_text(o, &texts, x->function);
		rows_put_text(o, &texts, x->file);
		rows_put_text(o, &texts, x->line);
		wire_room(o);
		wire_put(o, x->n);
		for (size_t k = 0; k < x->n; k++) {
			wire_room(o);
			wire_put(o, x->steps[k] - (k ? x->steps[k - 1] + 1 : 0));
			wire_put_signed(o, x->ints[k]);
			if (x->parts)
				rows_put_wide(o, x->parts[k]);
		}
	}
	vec_free(&texts.v);
	map_free(&texts.by_text);
}

static void rows_get_row(struct wire_in *in, const struct source_graph *g, struct rows_texts *texts, struct fleet_row *x)
{
	uint64_t lane = wire_get(in);
	bool parts = lane & 1;
	wire_require(in, lane >> 1 < g->n_lanes, "a lane that was not asked for");
	x->lane = (uint32_t)(lane >> 1);
	x->function = rows_get_text(in, texts);
	x->file = rows_get_text(in, texts);
	x->line = rows_get_text(in, texts);
	x->n = wire_get_count(in, parts ? 3 : 2);
	wire_require(in, x->n, "a row without numbers");
	x->steps = wire_heap(in, x->n + 1, sizeof *x->steps);
	x->ints = wire_heap(in, x->n + 1, sizeof *x->ints);
	x->parts = parts ? wire_heap(in, x->n + 1, sizeof *x->parts) : NULL;
	uint64_t step = 0;
	for (size_t i = 0; i < x->n && !in->c.bad; i++) {
		uint64_t gap = wire_get(in);
		step += gap;
		if (!wire_require(in, gap < g->n_steps && step < g->n_steps, "a step that was not asked for"))
			return;
		x->steps[i] = (uint32_t)step++;
		x->ints[i] = wire_get_signed(in);
		if (parts)
			x->parts[i] = rows_get_wide(in);
	}
}

void wire_get_rows(struct wire_in *in, const struct fleet_call *c, struct fleet_result *r)
{
	struct rows_texts texts = { 0 };
	wire_section(in, "rows");
	uint8_t fits = wire_get_byte(in);
	r->n = wire_get_count(in, 7);
	wire_require(in, fits < 2 && (fits || !r->n), "rows whose sums do not fit");
	r->fits = fits;
	r->rows = wire_heap(in, r->n + 1, sizeof *r->rows);
	for (size_t i = 0; i < r->n && !in->c.bad; i++) {
		wire_go_on(in, i);
		rows_get_row(in, c->graph, &texts, &r->rows[i]);
	}
	vec_free(&texts.v);
	map_free(&texts.by_text);
}
