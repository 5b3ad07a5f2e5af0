/* SPDX-License-Identifier: Apache-2.0 */
/* Readouts: numbers out of stacks. With a frame matcher one number per profile, which storage can often sum without
 * handing out a stack; without one a row per function (line, file, binary, package), exact and never cut. Stacks of a
 * span are taken in a few steps at a time, so that a long range query holds only those. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frames.h"
#include "funcs.h"
#include "model/frame.h"

enum measure { SELF, TOTAL, SHARE, SELF_SHARE, SAMPLES, CALLERS, CALLEES };

enum granularity { BY_FUNCTION, BY_LINE, BY_FILE, BY_BINARY, BY_PACKAGE };

/* A sum that is exact as long as it can be. */
struct exact {
	int64_t i;
	double f;
	bool overflow;
};

static void add_exact(struct exact *x, const struct stackvec *v, size_t i, bool minus)
{
	if (v->is_float)
		x->f += minus ? -v->floats[i] : v->floats[i];
	else if (minus ? __builtin_sub_overflow(x->i, v->ints[i], &x->i) : __builtin_add_overflow(x->i, v->ints[i], &x->i))
		x->overflow = true;
}

static double native_of(const struct exact *x)
{
	return (double)x->i + x->f;
}

/* Native unit to base unit. */
static double to_value(const struct prof *p, double native)
{
	struct prof like = { .type = p->type, .per_s = p->per_s, .a = { .is_float = true, .ftotal = native } };
	return prof_value(&like);
}

static int overflowed(struct err *e)
{
	return err_set(e, ERR_EXECUTION, "a sum of profile values does not fit in 64 bits");
}

/* ---- rows ---- */

/* The rows met so far, over all profiles of the call. */
struct row {
	struct view function, file, line; /* in the query's arena; those that the granularity has */
};

struct row_memo {
	struct symbols *s;
	uint32_t *lines, *bare; /* row + 1 by line id, by location id */
	uint32_t n_lines, n_locations;
};

struct readout {
	struct eval *q;
	struct node *n;
	enum measure measure;
	enum granularity by;
	bool has_frames;
	struct frames frames;
	VEC(struct row) rows;
	struct map row_map;
	VEC(struct row_memo) memos;
	/* of the profile at work */
	VEC(struct exact) sums;       /* by row */
	VEC(uint32_t) touched;
	uint32_t *seen;               /* by row: stamp of the stack that counted it last */
	size_t n_seen;
	uint32_t stamp;
	struct buf tmp;
	/* output series by (input series, row) */
	struct map out_map;
	VEC(struct { size_t in; uint32_t row; }) out_keys;
	struct value out;
	VEC(struct labels) ins;       /* input series met, over all chunks */
};

static const char *const granularity_names[] = { "function", "line", "file", "binary", "package" };

static struct row make_row(struct readout *r, const struct symbols *s, const struct sym_location *l, uint32_t i, char line[24])
{
	struct row x = { VIEW(""), VIEW(""), VIEW("") };
	struct view name = frame_name(s, l, i, &r->tmp), binary = frame_binary(s, l);
	switch (r->by) {
	case BY_FUNCTION: x.function = name; break;
	case BY_LINE:
		x.function = name;
		x.file = frame_file(s, l, i);
		if (frame_line(s, l, i)) {
			int n = snprintf(line, 24, "%lld", (long long)frame_line(s, l, i));
			x.line = view_make(line, (size_t)n);
		}
		break;
	case BY_FILE: x.function = frame_file(s, l, i); break;
	case BY_BINARY: x.function = binary; break;
	case BY_PACKAGE: x.function = frame_function(s, l, i) ? frame_package(name, binary) : binary; break;
	}
	return x;
}

static uint32_t row_id(struct readout *r, const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	char line[24];
	struct row x = make_row(r, s, l, i, line);
	uint64_t h = hash_view(x.function) ^ hash_u64(hash_view(x.file)) ^ hash_u64(hash_view(x.line) + 1);
	uint32_t id;
	for (size_t at = map_start(&r->row_map, h); map_probe(&r->row_map, h, &at, &id);) {
		const struct row *y = &r->rows.v[id];
		if (view_eq(x.function, y->function) && view_eq(x.file, y->file) && view_eq(x.line, y->line))
			return id;
	}
	id = (uint32_t)r->rows.n;
	vec_push(&r->rows, (struct row){ eval_view(r->q, x.function), eval_view(r->q, x.file), eval_view(r->q, x.line) });
	map_insert(&r->row_map, h, id);
	return id;
}

static struct row_memo *memo_of(struct readout *r, struct symbols *s)
{
	uint32_t lines = symbols_count(s, SYMBOLS_LINES), locations = symbols_count(s, SYMBOLS_LOCATIONS);
	for (size_t i = 0; i < r->memos.n; i++) {
		struct row_memo *m = &r->memos.v[i];
		if (m->s != s)
			continue;
		if (m->n_lines < lines || m->n_locations < locations) {
			m->lines = xreallocarray(m->lines, lines + 1, 4);
			m->bare = xreallocarray(m->bare, locations + 1, 4);
			memset(m->lines + m->n_lines, 0, (lines - m->n_lines) * 4);
			memset(m->bare + m->n_locations, 0, (locations - m->n_locations) * 4);
			m->n_lines = lines;
			m->n_locations = locations;
		}
		return m;
	}
	vec_push(&r->memos, (struct row_memo){ symbols_ref(s), xcalloc(lines + 1, 4), xcalloc(locations + 1, 4), lines, locations });
	return &r->memos.v[r->memos.n - 1];
}

static uint32_t row_of(struct readout *r, struct row_memo *m, uint32_t location, uint32_t i)
{
	const struct sym_location *l = symbols_get_location(m->s, location);
	uint32_t *at = l->n_lines ? &m->lines[l->first_line + i] : &m->bare[location];
	if (!*at)
		*at = row_id(r, m->s, l, i) + 1;
	return *at - 1;
}

/* ---- one profile ---- */

static void count_row(struct readout *r, uint32_t row, const struct stackvec *v, size_t i, bool minus)
{
	if (row >= r->n_seen) {
		size_t n = MAX(row + 1, r->n_seen * 2 + 64);
		r->seen = xreallocarray(r->seen, n, sizeof *r->seen);
		memset(r->seen + r->n_seen, 0, (n - r->n_seen) * sizeof *r->seen);
		r->n_seen = n;
	}
	if (r->seen[row] == r->stamp)
		return;
	r->seen[row] = r->stamp;
	while (r->sums.n <= row)
		vec_push(&r->sums, (struct exact){ 0 });
	vec_push(&r->touched, row);
	add_exact(&r->sums.v[row], v, i, minus);
}

static void count_self(struct readout *r, struct row_memo *m, const struct stackvec *v, size_t i, uint32_t node, bool minus)
{
	if (node)
		count_row(r, row_of(r, m, symbols_get_node(m->s, node)->location, 0), v, i, minus);
}

static void count_total(struct readout *r, struct row_memo *m, const struct stackvec *v, size_t i, uint32_t node, bool minus)
{
	for (; node; node = symbols_get_node(m->s, node)->parent) {
		uint32_t location = symbols_get_node(m->s, node)->location;
		uint32_t n = frames_of(symbols_get_location(m->s, location));
		for (uint32_t k = 0; k < n; k++)
			count_row(r, row_of(r, m, location, k), v, i, minus);
	}
}

/* Neighbours of matching frames, walking from the leaf: who calls them, or whom they call. A function that calls itself is
 * not its own neighbour, as in pprof's peek. */
static void count_neighbours(struct readout *r, struct row_memo *m, struct frames_memo *fm, const struct stackvec *v, size_t i,
			     uint32_t node, bool minus)
{
	bool below_matches = false, has_below = false;
	uint32_t below_row = 0;
	for (; node; node = symbols_get_node(m->s, node)->parent) {
		uint32_t location = symbols_get_node(m->s, node)->location;
		uint32_t n = frames_of(symbols_get_location(m->s, location));
		for (uint32_t k = 0; k < n; k++) {
			bool matches = frames_memo_match(fm, location, k);
			uint32_t row = row_of(r, m, location, k);
			if (r->measure == CALLERS && below_matches && row != below_row)
				count_row(r, row, v, i, minus);
			if (r->measure == CALLEES && matches && has_below && row != below_row)
				count_row(r, below_row, v, i, minus);
			below_matches = matches;
			below_row = row;
			has_below = true;
		}
	}
}

static void count_side(struct readout *r, const struct stackvec *v, bool minus)
{
	struct row_memo m = *memo_of(r, v->symbols);
	struct frames_memo fm = { 0 };
	bool neighbours = r->measure == CALLERS || r->measure == CALLEES;
	if (neighbours)
		frames_memo_init(&fm, &r->frames, v->symbols);
	for (size_t i = 0; i < v->n; i++) {
		uint32_t node = symbols_stack_node(v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack);
		r->stamp++;
		if (neighbours)
			count_neighbours(r, &m, &fm, v, i, node, minus);
		else if (r->measure == SELF || r->measure == SELF_SHARE)
			count_self(r, &m, v, i, node, minus);
		else
			count_total(r, &m, v, i, node, minus);
	}
	if (neighbours)
		frames_memo_free(&fm);
}

/* ---- output ---- */

static void set_kept(struct labels_builder *b, struct labels from, const char *name, struct view value)
{
	struct view old = labels_get(from, view_of(name));
	static const char *const exported[] = { "exported_function", "exported_file", "exported_line", "exported_binary",
						"exported_package" };
	if (old.len)
		for (size_t i = 0; i < ARRAY_LEN(exported); i++)
			if (strcmp(exported[i] + 9, name) == 0)
				labels_builder_set(b, view_of(exported[i]), old);
	labels_builder_set(b, view_of(name), value);
}

static struct labels row_labels(struct readout *r, struct labels in, const struct row *row)
{
	struct labels_builder b;
	labels_builder_init(&b, in);
	if (r->by == BY_LINE) {
		set_kept(&b, in, "function", row->function);
		set_kept(&b, in, "file", row->file);
		set_kept(&b, in, "line", row->line);
	} else {
		set_kept(&b, in, granularity_names[r->by], row->function);
	}
	struct labels l = eval_labels(r->q, &b);
	labels_builder_free(&b);
	return l;
}

static size_t in_index(struct readout *r, struct labels l)
{
	for (size_t i = 0; i < r->ins.n; i++)
		if (labels_eq(r->ins.v[i], l))
			return i;
	vec_push(&r->ins, l);
	return r->ins.n - 1;
}

static struct series *out_series(struct readout *r, size_t in, uint32_t row)
{
	uint64_t h = hash_u64((uint64_t)in << 32 | row);
	uint32_t id;
	for (size_t at = map_start(&r->out_map, h); map_probe(&r->out_map, h, &at, &id);)
		if (r->out_keys.v[id].in == in && r->out_keys.v[id].row == row)
			return &r->out.s[id];
	map_insert(&r->out_map, h, (uint32_t)r->out.n);
	__auto_type k = vec_add(&r->out_keys);
	k->in = in;
	k->row = row;
	return value_add(&r->out, row == UINT32_MAX ? r->ins.v[in] : row_labels(r, r->ins.v[in], &r->rows.v[row]), true);
}

static int put_rows(struct readout *r, size_t in, const struct prof *p, double whole, int64_t t, struct err *e)
{
	bool share = r->measure == SHARE || r->measure == SELF_SHARE;
	int rc = 0;
	for (size_t i = 0; i < r->touched.n && !rc; i++) {
		uint32_t row = r->touched.v[i];
		struct exact *x = &r->sums.v[row];
		if (x->overflow)
			return overflowed(e);
		if (r->seen[row] == UINT32_MAX) /* put already: it was touched by several stacks */
			continue;
		double v = to_value(p, native_of(x));
		if (!share || whole != 0)
			rc = series_push(r->q, out_series(r, in, row), t, share ? v / whole : v, NULL, e);
		r->seen[row] = UINT32_MAX;
	}
	return rc;
}

static void forget_rows(struct readout *r)
{
	for (size_t i = 0; i < r->touched.n; i++) {
		r->sums.v[r->touched.v[i]] = (struct exact){ 0 };
		r->seen[r->touched.v[i]] = 0;
	}
	r->touched.n = 0;
	r->stamp = 0;
}

static int read_rows(struct readout *r, struct value *v, struct err *e)
{
	VEC(struct prof *) all = { 0 };
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++)
			vec_push(&all, v->s[i].s[k].p);
	int rc = profs_materialise(r->q, all.v, all.n, e);
	vec_free(&all);
	for (size_t i = 0; i < v->n && !rc; i++) {
		size_t in = in_index(r, v->s[i].labels);
		for (size_t k = 0; k < v->s[i].n && !rc; k++) {
			struct sample *s = &v->s[i].s[k];
			count_side(r, s->p->a.vec, false);
			if (s->p->diff)
				count_side(r, s->p->b.vec, true);
			rc = put_rows(r, in, s->p, s->v, s->t_ms, e);
			forget_rows(r);
			if (!rc)
				rc = eval_check(r->q, e);
		}
	}
	return rc;
}

/* ---- with a frame matcher: sums ---- */

struct pending {
	size_t in;
	struct sample *s;
	struct exact x;
	uint32_t group_a, group_b; /* of the source's sums; UINT32_MAX: none */
};

struct sums {
	VEC(struct source_part) parts;
	VEC(struct pending) list;
	uint32_t n_groups;
};

static bool frame_filter(const void *arg, const struct symbols *s, const struct sym_location *l, uint32_t line)
{
	return frames_match(arg, s, l, line);
}

static bool stack_matches(struct frames_memo *fm, uint32_t column, bool leaf_only)
{
	uint32_t node = symbols_stack_node(fm->s, symbols_get_column(fm->s, column)->stack);
	for (; node; node = symbols_get_node(fm->s, node)->parent) {
		uint32_t location = symbols_get_node(fm->s, node)->location;
		uint32_t n = leaf_only ? 1 : frames_of(symbols_get_location(fm->s, location));
		for (uint32_t k = 0; k < n; k++)
			if (frames_memo_match(fm, location, k))
				return true;
		if (leaf_only)
			break;
	}
	return false;
}

static void sum_vec(const struct frames *f, const struct stackvec *v, double scale, bool leaf_only, bool minus, struct exact *x)
{
	struct frames_memo fm;
	struct exact part = { 0 };
	frames_memo_init(&fm, f, v->symbols);
	for (size_t i = 0; i < v->n; i++)
		if (stack_matches(&fm, v->columns[i], leaf_only))
			add_exact(&part, v, i, minus);
	frames_memo_free(&fm);
	if (scale == 1 && !__builtin_add_overflow(x->i, part.i, &x->i))
		x->f += part.f;
	else
		x->f += native_of(&part) * scale;
	x->overflow |= part.overflow;
}

/* What is stored goes to the source, what is a vector already is summed here. */
static uint32_t want_side(struct readout *r, struct sums *s, const struct side *side, bool leaf_only, bool minus, struct exact *x)
{
	struct stackvec *whole = __atomic_load_n(&((struct side *)side)->vec, __ATOMIC_ACQUIRE);
	if (whole) {
		sum_vec(&r->frames, whole, 1, leaf_only, minus, x);
		return UINT32_MAX;
	}
	bool any = false;
	for (size_t i = 0; i < side->n; i++) {
		const struct term *t = &side->t[i];
		if (t->vec) {
			sum_vec(&r->frames, t->vec, t->scale, leaf_only, minus, x);
			continue;
		}
		vec_push(&s->parts, (struct source_part){ t->ref, t->after_ms, t->until_ms, t->scale, s->n_groups });
		any = true;
	}
	return any ? s->n_groups++ : UINT32_MAX;
}

static void take_group(struct exact *x, uint32_t group, bool minus, bool is_float, const double *got, const int64_t *exact)
{
	if (group == UINT32_MAX)
		return;
	if (is_float)
		x->f += minus ? -got[group] : got[group];
	else if (minus ? __builtin_sub_overflow(x->i, exact[group], &x->i) : __builtin_add_overflow(x->i, exact[group], &x->i))
		x->overflow = true;
}

static bool all_scales_one(const struct side *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->t[i].scale != 1 && !s->t[i].vec)
			return false;
	return true;
}

static int put_sum(struct readout *r, const struct pending *p, struct err *e)
{
	if (p->x.overflow)
		return overflowed(e);
	double v = to_value(p->s->p, native_of(&p->x));
	if (r->measure == SHARE || r->measure == SELF_SHARE) {
		if (p->s->v == 0)
			return 0;
		v /= p->s->v;
	}
	return series_push(r->q, out_series(r, p->in, UINT32_MAX), p->s->t_ms, v, NULL, e);
}

static int read_sums(struct readout *r, struct value *v, struct err *e)
{
	bool leaf_only = r->measure == SELF || r->measure == SELF_SHARE;
	struct sums s = { 0 };
	for (size_t i = 0; i < v->n; i++) {
		size_t in = in_index(r, v->s[i].labels);
		for (size_t k = 0; k < v->s[i].n; k++) {
			struct pending p = { in, &v->s[i].s[k], { 0 }, UINT32_MAX, UINT32_MAX };
			p.group_a = want_side(r, &s, &p.s->p->a, leaf_only, false, &p.x);
			if (p.s->p->diff)
				p.group_b = want_side(r, &s, &p.s->p->b, leaf_only, true, &p.x);
			vec_push(&s.list, p);
		}
	}
	double *got = xcalloc(s.n_groups + 1, sizeof *got);
	int64_t *exact = xcalloc(s.n_groups + 1, sizeof *exact);
	struct source_frame_filter filter = { frame_filter, &r->frames, leaf_only };
	int rc = 0;
	if (s.n_groups)
		rc = r->q->view->ops->sums(r->q->view, s.parts.v, s.parts.n, s.n_groups, &filter, eval_limits(r->q), got, exact, e);
	for (size_t i = 0; i < s.list.n && !rc; i++) {
		struct pending *p = &s.list.v[i];
		take_group(&p->x, p->group_a, false, !all_scales_one(&p->s->p->a), got, exact);
		take_group(&p->x, p->group_b, true, !all_scales_one(&p->s->p->b), got, exact);
		rc = put_sum(r, p, e);
	}
	free(got);
	free(exact);
	vec_free(&s.parts);
	vec_free(&s.list);
	return rc;
}

/* ---- samples ---- */

/* How many observations the value stands for: divides by the period where the type is the period's. */
static int to_samples(struct readout *r, struct value *v, struct err *e)
{
	(void)r;
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->s[i].n; k++) {
			const struct ptype *t = v->s[i].s[k].p->type;
			bool count = view_eqs(t->sample_unit, "count");
			bool timed = view_eq(t->sample_type, t->period_type) && view_eq(t->sample_unit, t->period_unit);
			if (!count && !(timed && v->s[i].s[k].p->period > 0)) {
				struct buf name = { 0 };
				ptype_format(t, &name);
				int rc = err_set(e, ERR_EXECUTION, "samples: nothing says how many observations %s stands for, since its "
						 "values are not its period's: use the type that counts them", name.ptr);
				buf_free(&name);
				return rc;
			}
		}
	return 0;
}

static double per_observation(const struct prof *p)
{
	if (view_eqs(p->type->sample_unit, "count"))
		return 1;
	struct unit_info u;
	unit_lookup(p->type->sample_unit, &u);
	return u.factor < 1 ? rint(1 / u.factor) / (double)p->period : 1 / (u.factor * (double)p->period);
}

static int read_samples(struct readout *r, struct value *v, struct err *e)
{
	int rc = to_samples(r, v, e);
	if (rc)
		return rc;
	if (!r->has_frames) {
		for (size_t i = 0; i < v->n && !rc; i++) {
			size_t in = in_index(r, v->s[i].labels);
			for (size_t k = 0; k < v->s[i].n && !rc; k++)
				rc = series_push(r->q, out_series(r, in, UINT32_MAX), v->s[i].s[k].t_ms,
						 v->s[i].s[k].v * per_observation(v->s[i].s[k].p), NULL, e);
		}
		return rc;
	}
	/* totals first, then scaled at the end of this chunk: the same profiles in the same order */
	size_t *from = xcalloc(v->n + 1, sizeof *from);
	for (size_t i = 0; i < v->n; i++)
		from[i] = out_series(r, in_index(r, v->s[i].labels), UINT32_MAX)->n;
	rc = read_sums(r, v, e);
	for (size_t i = 0; i < v->n && !rc; i++) {
		struct series *out = out_series(r, in_index(r, v->s[i].labels), UINT32_MAX);
		for (size_t k = 0; k < v->s[i].n; k++)
			out->s[from[i] + k].v *= per_observation(v->s[i].s[k].p);
	}
	free(from);
	return rc;
}

/* ---- calls ---- */

static int parse_granularity(struct readout *r, const struct node *arg, struct err *e)
{
	while (arg->kind == NODE_PAREN)
		arg = arg->paren;
	if (arg->kind != NODE_STRING) {
		r->has_frames = true;
		return frames_init(&r->frames, arg, e);
	}
	for (unsigned i = 0; i < ARRAY_LEN(granularity_names); i++)
		if (view_eqs(arg->string, granularity_names[i])) {
			r->by = (enum granularity)i;
			return 0;
		}
	return err_set(e, ERR_EXECUTION, "%s: \"%.*s\" is no granularity (function, line, file, binary, package): for frames that "
		       "match an expression write frames(\"%.*s\")", r->n->call.fn->name, VIEW_ARG(arg->string), VIEW_ARG(arg->string));
}

static void readout_free(struct readout *r)
{
	for (size_t i = 0; i < r->memos.n; i++) {
		free(r->memos.v[i].lines);
		free(r->memos.v[i].bare);
		symbols_unref(r->memos.v[i].s);
	}
	vec_free(&r->memos);
	vec_free(&r->rows);
	vec_free(&r->sums);
	vec_free(&r->touched);
	vec_free(&r->out_keys);
	vec_free(&r->ins);
	map_free(&r->row_map);
	map_free(&r->out_map);
	buf_free(&r->tmp);
	free(r->seen);
	frames_release(&r->frames);
}

static int read_chunk(struct readout *r, const struct span *sp, struct err *e)
{
	struct value v;
	int rc = eval_node(r->q, r->n->call.args[0], sp, &v, e);
	if (rc)
		return rc;
	rc = keep_profiles(r->q, r->n, r->n->call.fn->name, "there are no stacks in a number", &v, e);
	if (!rc)
		rc = r->measure == SAMPLES ? read_samples(r, &v, e)
		   : r->has_frames && r->measure != CALLERS && r->measure != CALLEES ? read_sums(r, &v, e) : read_rows(r, &v, e);
	value_free(&v);
	return rc;
}

static int readout(struct eval *q, struct node *n, const struct span *sp, enum measure m, struct value *ret, struct err *e)
{
	struct readout r = { .q = q, .n = n, .measure = m };
	value_start(q, &r.out, PROMQL_VECTOR);
	int rc = n->call.n > 1 ? parse_granularity(&r, n->call.args[1], e) : 0;
	bool stacks = !r.has_frames || m == CALLERS || m == CALLEES;
	size_t at_once = stacks && m != SAMPLES ? STEPS_AT_ONCE : sp->n;
	for (size_t i = 0; i < sp->n && !rc; i += at_once) {
		struct span part = { span_at(sp, i), 0, sp->step, MIN(at_once, sp->n - i) };
		part.end = span_at(&part, part.n - 1);
		uint64_t held = atomic_load(&q->bytes);
		rc = read_chunk(&r, &part, e);
		atomic_store(&q->bytes, held); /* the stacks of these steps are gone */
	}
	readout_free(&r);
	if (rc) {
		value_free(&r.out);
		return rc;
	}
	value_compact(&r.out);
	*ret = r.out;
	return 0;
}

#define READOUT(name, measure) CALL(name) { return readout(q, n, sp, measure, ret, e); }
READOUT(fn_self, SELF)
READOUT(fn_total, TOTAL)
READOUT(fn_share, SHARE)
READOUT(fn_self_share, SELF_SHARE)
READOUT(fn_samples, SAMPLES)

/* callers and callees: their second argument is F always. */
static int neighbours(struct eval *q, struct node *n, const struct span *sp, enum measure m, struct value *ret, struct err *e)
{
	struct node *arg = node_unwrap(n->call.args[1]);
	if (arg->kind != NODE_STRING)
		return readout(q, n, sp, m, ret, e);
	/* here a string can only be an expression */
	struct node frames = { .kind = NODE_CALL, .call = { func_lookup(VIEW("frames")), &n->call.args[1], 1 } };
	struct node *args[] = { n->call.args[0], &frames };
	struct node copy = *n;
	copy.call.args = args;
	return readout(q, &copy, sp, m, ret, e);
}

CALL(fn_callers)
{
	return neighbours(q, n, sp, CALLERS, ret, e);
}

CALL(fn_callees)
{
	return neighbours(q, n, sp, CALLEES, ret, e);
}
