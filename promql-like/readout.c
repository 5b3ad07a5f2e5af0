/* SPDX-License-Identifier: Apache-2.0 */
/* Readouts: numbers out of stacks. With a frame matcher one number per profile, which storage can often sum without
 * handing out a stack; without one a row per function (line, file, binary, package), exact and never cut. Rows of a
 * span are read some steps at a time, so that a long range query holds only those: in one pass (graph.c) where each
 * profile is a sum of stored ones, else profile by profile. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "model/frame.h"
#include "readout.h"

/* ---- rows ---- */

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

struct row_memo *readout_memo(struct readout *r, struct symbols *s)
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

uint32_t readout_row(struct readout *r, struct row_memo *m, uint32_t location, uint32_t i)
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
		count_row(r, readout_row(r, m, symbols_get_node(m->s, node)->location, 0), v, i, minus);
}

static void count_total(struct readout *r, struct row_memo *m, const struct stackvec *v, size_t i, uint32_t node, bool minus)
{
	for (; node; node = symbols_get_node(m->s, node)->parent) {
		uint32_t location = symbols_get_node(m->s, node)->location;
		uint32_t n = frame_count(symbols_get_location(m->s, location));
		for (uint32_t k = 0; k < n; k++)
			count_row(r, readout_row(r, m, location, k), v, i, minus);
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
		uint32_t n = frame_count(symbols_get_location(m->s, location));
		for (uint32_t k = 0; k < n; k++) {
			bool matches = frames_memo_match(fm, location, k);
			uint32_t row = readout_row(r, m, location, k);
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
	struct row_memo m = *readout_memo(r, v->symbols);
	struct frames_memo fm = { 0 };
	bool neighbours = r->measure == CALLERS || r->measure == CALLEES;
	if (neighbours)
		frames_memo_init(&fm, &r->frames, v->symbols);
	for (size_t i = 0; i < v->n; i++) {
		uint32_t node = symbols_stack_node(v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack);
		if (v->is_float ? v->floats[i] == 0 : v->ints[i] == 0) /* scaled by 0: there is nothing, as in a graph */
			continue;
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

size_t readout_in(struct readout *r, struct labels l)
{
	for (size_t i = 0; i < r->ins.n; i++)
		if (labels_eq(r->ins.v[i], l))
			return i;
	vec_push(&r->ins, l);
	return r->ins.n - 1;
}

struct series *readout_out(struct readout *r, size_t in, uint32_t row)
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

int readout_cmp_rows(const struct readout *r, uint32_t a, uint32_t b)
{
	const struct row *x = &r->rows.v[a], *y = &r->rows.v[b];
	int c = view_cmp(x->function, y->function);
	if (!c)
		c = view_cmp(x->file, y->file);
	return c ? c : view_cmp(x->line, y->line);
}

static int by_row(const void *a, const void *b, void *r)
{
	return readout_cmp_rows(r, *(const uint32_t *)a, *(const uint32_t *)b);
}

static int check_rows(const struct readout *r, struct err *e)
{
	uint32_t most = r->q->max_functions;
	if (!most || r->rows.n <= most)
		return 0;
	return err_set(e, ERR_LIMIT, "%s tells apart more than %u rows (--query.max-functions): filter the profiles, or ask for one "
		       "function", r->n->call.fn->name, most);
}

/* Rows go out by name, so that of equal ones topk always takes the same. */
static int put_rows(struct readout *r, size_t in, const struct prof *p, double whole, int64_t t, struct err *e)
{
	bool share = r->measure == SHARE || r->measure == SELF_SHARE;
	int rc = 0;
	if (r->touched.n)
		qsort_r(r->touched.v, r->touched.n, sizeof *r->touched.v, by_row, r);
	for (size_t i = 0; i < r->touched.n && !rc; i++) {
		uint32_t row = r->touched.v[i];
		struct exact *x = &r->sums.v[row];
		if (x->overflow)
			return readout_overflow(e);
		if (r->seen[row] == UINT32_MAX) /* put already: it was touched by several stacks */
			continue;
		double v = readout_value(p, native_of(x));
		if (!share || whole != 0)
			rc = series_push(r->q, readout_out(r, in, row), t, share ? v / whole : v, NULL, e);
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
		size_t in = readout_in(r, v->s[i].labels);
		for (size_t k = 0; k < v->s[i].n && !rc; k++) {
			struct sample *s = &v->s[i].s[k];
			count_side(r, s->p->a.vec, false);
			if (s->p->diff)
				count_side(r, s->p->b.vec, true);
			rc = frames_failed(&r->frames, e);
			if (!rc)
				rc = check_rows(r, e);
			if (!rc)
				rc = put_rows(r, in, s->p, s->v, s->t_ms, e);
			forget_rows(r);
			if (!rc)
				rc = eval_check(r->q, e);
		}
	}
	return rc;
}

/* ---- calls ---- */

static int parse_granularity(struct readout *r, const struct node *arg, struct err *e)
{
	while (arg->kind == NODE_PAREN)
		arg = arg->paren;
	if (arg->kind != NODE_STRING) {
		r->has_frames = true;
		return frames_init(&r->frames, r->q, arg, e);
	}
	for (unsigned i = 0; i < ARRAY_LEN(granularity_names); i++)
		if (view_eqs(arg->string, granularity_names[i])) {
			r->by = (enum granularity)i;
			return 0;
		}
	return err_set(e, ERR_EXECUTION, "%s: \"%.*s\" is no granularity (function, line, file, binary, package): for frames that "
		       "match an expression write frames(\"%.*s\")", r->n->call.fn->name, VIEW_ARG(arg->string), VIEW_ARG(arg->string));
}

static void forget_choosers(struct readout *r)
{
	for (size_t i = 0; i < r->choosers.n; i++)
		chooser_release(&r->choosers.v[i]);
	vec_free(&r->choosers);
	r->in = r->n->call.args[0];
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
	forget_choosers(r);
}

/* How many numbers the tables of a graph may hold; more steps at a time share more of what is read. */
#define CELLS_AT_ONCE (4u << 20)

/* All steps at once, where that can be done. *n_steps: how many to take next. */
static int read_graph(struct readout *r, struct value *v, const struct span *sp, const struct keep *keep, bool *ret_done,
		      size_t *n_steps, struct err *e)
{
	size_t columns;
	bool neighbours = r->measure == CALLERS || r->measure == CALLEES;
	*ret_done = false;
	*n_steps = STEPS_AT_ONCE;
	if (sp->n < 2 || neighbours)
		return 0;
	int rc = graph_read(r, v, sp, keep, ret_done, &columns, e);
	if (!rc)
		rc = check_rows(r, e);
	if (!rc && *ret_done)
		*n_steps = MAX(CELLS_AT_ONCE / (columns + 1), (size_t)STEPS_AT_ONCE);
	return rc;
}

/* Filters that only choose among samples need not be run: what they take out is passed over while reading. A share is of what they
 * leave, which is not known then. */
static int find_choosers(struct readout *r, const struct span *sp, struct err *e)
{
	int rc = 0;
	r->in = r->n->call.args[0];
	if (sp->n < 2 || r->has_frames || (r->measure != SELF && r->measure != TOTAL))
		return 0;
	for (struct node *n = node_unwrap(r->in); chooses(n) && !rc; n = node_unwrap(r->in)) {
		struct chooser c;
		rc = chooser_init(&c, r->q, n, e);
		if (rc)
			break;
		vec_push(&r->choosers, c);
		r->in = n->call.args[0];
	}
	return rc;
}

/* The innermost filter around r->in, or the readout: who complains about numbers. */
static struct node *taker(const struct readout *r)
{
	struct node *n = r->n;
	for (size_t i = 0; i < r->choosers.n; i++)
		n = node_unwrap(n->call.args[0]);
	return n;
}

static int read_value(struct readout *r, const struct span *sp, struct value *ret, struct err *e)
{
	struct node *n = taker(r);
	struct value v;
	int rc = eval_node(r->q, r->in, sp, &v, e);
	if (rc)
		return rc;
	rc = keep_profiles(r->q, n, n->call.fn->name, "there are no stacks in a number", &v, e);
	if (rc)
		value_free(&v);
	else
		*ret = v;
	return rc;
}

static int read_chunk(struct readout *r, const struct span *sp, const struct keep *keep, size_t *n_steps, struct err *e)
{
	struct value v;
	bool sums = r->has_frames && r->measure != CALLERS && r->measure != CALLEES, done = sums || r->measure == SAMPLES;
	int rc = read_value(r, sp, &v, e);
	if (rc)
		return rc;
	if (done)
		rc = r->measure == SAMPLES ? readout_samples(r, &v, e) : readout_sums(r, &v, e);
	else
		rc = read_graph(r, &v, sp, keep, &done, n_steps, e);
	if (!rc && !done && r->choosers.n) { /* the filters have to be run */
		value_free(&v);
		forget_choosers(r);
		rc = read_value(r, sp, &v, e);
		if (rc)
			return rc;
	}
	if (!rc && !done)
		rc = read_rows(r, &v, e);
	value_free(&v);
	return rc;
}

static int by_out(const void *a, const void *b, void *arg)
{
	const struct readout *r = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	if (r->out_keys.v[i].in != r->out_keys.v[k].in)
		return r->out_keys.v[i].in < r->out_keys.v[k].in ? -1 : 1;
	return readout_cmp_rows(r, r->out_keys.v[i].row, r->out_keys.v[k].row);
}

/* As an instant query has them: rows that a later step met first are put beside the others of their profile. */
static void sort_out(struct readout *r)
{
	uint32_t *order = xcalloc(r->out.n + 1, sizeof *order);
	struct series *s = xcalloc(r->out.n + 1, sizeof *s);
	for (size_t i = 0; i < r->out.n; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, r->out.n, sizeof *order, by_out, r);
	for (size_t i = 0; i < r->out.n; i++)
		s[i] = r->out.s[order[i]];
	free(order);
	free(r->out.s);
	r->out.s = s;
	r->out.cap = r->out.n + 1;
}

static int readout(struct eval *q, struct node *n, const struct span *sp, enum measure m, const struct value *best,
		   bool greatest, struct value *ret, struct err *e)
{
	struct readout r = { .q = q, .n = n, .measure = m };
	value_start(q, &r.out, PROMQL_VECTOR);
	int rc = n->call.n > 1 ? parse_granularity(&r, n->call.args[1], e) : 0;
	bool stacks = (!r.has_frames || m == CALLERS || m == CALLEES) && m != SAMPLES;
	r.in = n->call.args[0];
	if (!rc)
		rc = find_choosers(&r, sp, e);
	size_t at_once = stacks ? STEPS_AT_ONCE : sp->n;
	for (size_t i = 0, n_steps = at_once; i < sp->n && !rc; i += at_once, at_once = n_steps) {
		struct span part = { span_at(sp, i), 0, sp->step, MIN(at_once, sp->n - i) };
		part.end = span_at(&part, part.n - 1);
		struct value k = best ? *best : (struct value){ 0 };
		struct series from;
		if (best) { /* the scalars of these steps */
			from = best->s[0];
			from.s += i;
			from.n -= i;
			k.s = &from;
		}
		uint64_t held = atomic_load(&q->bytes);
		rc = read_chunk(&r, &part, best ? &(struct keep){ greatest, &k } : NULL, &n_steps, e);
		eval_give_bytes(q, atomic_load(&q->bytes) - held); /* the stacks of these steps are gone */
	}
	if (!rc && stacks && sp->n > 1)
		sort_out(&r);
	readout_free(&r);
	return value_finish(&r.out, rc, ret);
}

static const struct {
	const char *name;
	enum measure measure;
} best_of[] = { { "self", SELF }, { "total", TOTAL }, { "share", SHARE }, { "self_share", SELF_SHARE } };

bool readout_can_choose(const struct node *n)
{
	if (n->kind != NODE_CALL)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(best_of); i++) /* the name first: others may have no arguments */
		if (strcmp(n->call.fn->name, best_of[i].name) == 0)
			return n->call.n == 1 || node_unwrap(n->call.args[1])->kind == NODE_STRING;
	return false;
}

int readout_best(struct eval *q, struct node *n, const struct span *sp, bool greatest, const struct value *k,
		 struct value *ret, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(best_of); i++) {
		if (strcmp(n->call.fn->name, best_of[i].name) != 0)
			continue;
		struct explaining at = explain_begin(q, n);
		int rc = readout(q, n, sp, best_of[i].measure, k, greatest, ret, e);
		explain_end(q, n, rc ? NULL : ret, at);
		return eval_error_at(q, n, rc, e);
	}
	return err_set(e, ERR_INTERNAL, "%s has no rows to choose from", n->call.fn->name);
}

#define READOUT(name, measure) CALL(name) { return readout(q, n, sp, measure, NULL, false, ret, e); }
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
		return readout(q, n, sp, m, NULL, false, ret, e);
	/* here a string can only be an expression */
	struct node frames = { .kind = NODE_CALL, .call = { func_lookup(VIEW("frames")), &n->call.args[1], 1 } };
	struct node *args[] = { n->call.args[0], &frames };
	struct node copy = *n;
	copy.call.args = args;
	return readout(q, &copy, sp, m, NULL, false, ret, e);
}

CALL(fn_callers)
{
	return neighbours(q, n, sp, CALLERS, ret, e);
}

CALL(fn_callees)
{
	return neighbours(q, n, sp, CALLEES, ret, e);
}
