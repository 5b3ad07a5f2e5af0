/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/tsdb_ask.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/measure.h"
#include "model/calltree.h"

#define MINUTE INT64_C(60000)

/* ---- what is asked, and the truth ---- */

static void ask(struct truth *b, const char *name, enum what what, enum who who, int64_t after, int64_t until, double limit,
		double cold_limit)
{
	vec_push(&b->questions, (struct question){ .name = name, .what = what, .who = who, .after_ms = after, .until_ms = until,
						   .limit_ms = limit, .cold_limit_ms = cold_limit });
}

static void make_questions(struct truth *b)
{
	int64_t e = b->end_ms, now = e + TAIL_MS, day = b->hours * HOUR_MS, odd = 1234567;
	ask(b, "profile of 1 series, 1 h, aligned", MERGE, ONE, e - HOUR_MS, e, 0, 0);
	ask(b, "profile of any 196 series, 1 h, aligned", MERGE, SOME, e - HOUR_MS, e, 0, 0);
	ask(b, "the same, unaligned", MERGE, SOME, e - HOUR_MS - odd, e - odd, 0, 0);
	ask(b, "profile of any 196 series, 24 h, aligned", MERGE, SOME, e - day, e, 15, 60);
	ask(b, "the same, both ends unaligned", MERGE, SOME, e - day + odd, e - odd, 0, 0);
	ask(b, "the 24 h ending now: midnight, head", MERGE, SOME, now - day - odd, now - odd % 60000, 80, 0);
	ask(b, "the hour ending now", MERGE, SOME, now - HOUR_MS, now, 30, 0);
	ask(b, "profile of all 4 services, 24 h, aligned", MERGE, ALL, e - day, e, 0, 0);
	ask(b, "totals by pod, 24 h at 60 s", GRAPH_POD, ALL, e - day, e, 6, 0);
	ask(b, "totals by service, 24 h at 60 s", GRAPH_SERVICE, ALL, e - day, e, 6, 0);
	ask(b, "a function by service, 24 h at 60 s", SHARE_SERVICE, ALL, e - day, e, 15, 0);
	ask(b, "a function in any 196 series, 24 h at 60 s", SHARE, SOME, e - day, e, 150, 0);
}

static uint64_t step_hash(uint64_t group, int64_t step)
{
	return hash_u64(hash_u64(group + 1) ^ (uint64_t)step);
}

static bool is_asked(const struct truth *b, const struct question *q, const struct pod *p)
{
	return q->who == ALL || (q->who == SOME && (p->node || b->scale < 0.03)) ||
	       (q->who == ONE && !p->service && !p->node && p->deploy == b->last_deploy);
}

void truth_remember(struct truth *b, const struct pod *p, const struct drawn *d)
{
	for (size_t i = 0; i < b->questions.n; i++) {
		struct question *q = &b->questions.v[i];
		if (d->t_ms <= q->after_ms || d->t_ms > q->until_ms || !is_asked(b, q, p))
			continue;
		int64_t step = (d->t_ms - q->after_ms - 1) / MINUTE;
		switch (q->what) {
		case MERGE: q->want += d->hash; break;
		case GRAPH_POD: q->want += step_hash((uint64_t)p->deploy << 32 | p->node << 8 | p->service, step) * (uint64_t)d->total; break;
		case GRAPH_SERVICE: q->want += step_hash(p->service, step) * (uint64_t)d->total; break;
		case SHARE_SERVICE: q->want += step_hash(p->service, step) * (uint64_t)d->hits; break;
		case SHARE: q->want += step_hash(0, step) * (uint64_t)d->hits; break;
		}
	}
}

void truth_init(struct truth *t)
{
	t->end_ms = T0 + t->hours * HOUR_MS;
	t->last_deploy = (uint32_t)((t->hours - 1) * HOUR_MS / DEPLOY_MS);
	make_questions(t);
}

bool truth_save(const struct truth *t, const char *path)
{
	FILE *f = fopen(path, "we");
	if (!f)
		return false;
	fprintf(f, "%a %" PRId64 " %" PRId64 " %zu\n%s\n", t->scale, t->hours, t->now_ms, t->questions.n, t->function);
	for (size_t i = 0; i < t->questions.n; i++)
		fprintf(f, "%016" PRIx64 "\n", t->questions.v[i].want);
	return !fclose(f);
}

bool truth_load(struct truth *t, const char *path)
{
	size_t n = 0;
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	bool ok = fscanf(f, "%lf %" SCNd64 " %" SCNd64 " %zu\n%199[^\n]\n", &t->scale, &t->hours, &t->now_ms, &n, t->function) == 5;
	if (ok)
		truth_init(t);
	ok &= n == t->questions.n;
	for (size_t i = 0; ok && i < n; i++)
		ok = fscanf(f, "%" SCNx64, &t->questions.v[i].want) == 1;
	fclose(f);
	return ok;
}

/* ---- asking ---- */

struct selected {
	struct source_view *v;
	struct source_series *s;
	size_t n;
};

static struct selected select_series(const struct truth *b, struct tsdb *db, const struct question *q)
{
	struct err e;
	struct matcher m[2];
	struct selected r;
	char pod[48];
	size_t n = 1;
	snprintf(pod, sizeof pod, "service-0-0-%u", b->last_deploy);
	int rc = matcher_init(&m[0], MATCH_EQ, VIEW("__name__"), VIEW(NAME), &e);
	if (!rc && q->who == ONE)
		rc = matcher_init(&m[n++], MATCH_EQ, VIEW("pod"), view_of(pod), &e);
	else if (!rc && q->who == SOME && b->scale >= 0.03)
		rc = matcher_init(&m[n++], MATCH_NE, VIEW("node"), VIEW("node-0"), &e);
	if (rc)
		measure_die("a matcher", &e);
	tsdb_source(db)->open(tsdb_source(db), &r.v, &e);
	if (r.v->ops->select(r.v, m, n, q->after_ms, q->until_ms, NULL, &r.s, &r.n, &e))
		measure_die("select", &e);
	while (n)
		matcher_release(&m[--n]);
	return r;
}

static void release(struct selected *r)
{
	free(r->s);
	r->v->ops->release(r->v);
}

/* Room for a tree's sums, kept from one question to the next; zero where no mark is. */
static struct {
	int64_t *sums;  /* by call */
	uint8_t *marks; /* by 64 calls */
	uint32_t words;
} tree;

static void tree_room(uint32_t n)
{
	if (n / 64 < tree.words)
		return;
	free(tree.sums);
	free(tree.marks);
	tree.words = n / 64 + 1;
	tree.sums = xcalloc((size_t)tree.words * 64, sizeof *tree.sums);
	tree.marks = xcalloc(tree.words, 1);
}

/* The calls of every column that the dictionary has. */
static void make_calls(struct symbols *s)
{
	uint32_t n = symbols_count(s, SYMBOLS_COLUMNS), *columns = xcalloc((size_t)n + 1, sizeof *columns);
	for (uint32_t i = 0; i < n; i++)
		columns[i] = i;
	calltree_begin(symbols_calls(s), s, columns, n);
	calltree_end(symbols_calls(s));
	free(columns);
}

#define AHEAD 12

static void put_leaves(const struct stackvec *v, const struct calltree_view *t)
{
	for (size_t i = 0; i < v->n; i++) {
		/* Calls lie in no order of columns: what is needed soon is asked for in time. */
		if (i + AHEAD < v->n)
			__builtin_prefetch(&tree.sums[t->columns[v->columns[i + AHEAD]] - 1], 1);
		uint32_t call = t->columns[v->columns[i]] - 1;
		tree.sums[call] += v->ints[i];
		tree.marks[call / 64] = 1;
	}
}

static void clear(void)
{
	for (uint32_t w = 0; w < tree.words; w++)
		if (tree.marks[w]) {
			memset(tree.sums + (size_t)w * 64, 0, 64 * sizeof *tree.sums);
			tree.marks[w] = 0;
		}
}

static void add_to_parents(const struct calltree_view *t)
{
	for (uint32_t w = t->n_calls / 64 + 1; w--;)
		for (uint32_t k = MIN(w * 64 + 64, t->n_calls); tree.marks[w] && k-- > w * 64 && k;) {
			uint32_t parent = t->calls[k].parent;
			tree.sums[parent] += tree.sums[k];
			tree.marks[parent / 64] = 1;
		}
}

/* The tree of a profile: what each call and all below it add up to. Returns the root's. */
static int64_t fold(const struct stackvec *v)
{
	struct calltree *calls = symbols_calls(v->symbols);
	struct calltree_view t = calltree_begin(calls, v->symbols, v->columns, v->n);
	tree_room(t.n_calls);
	put_leaves(v, &t);
	add_to_parents(&t);
	calltree_end(calls);
	int64_t root = tree.sums[0];
	clear();
	return root;
}

static uint64_t hash_profile(const struct stackvec *v)
{
	uint64_t sum = 0;
	uint32_t locations[256];
	for (size_t i = 0; i < v->n; i++) {
		size_t n = symbols_stack_locations(v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack, locations, 256);
		uint64_t h = 0;
		for (size_t k = 0; k < n; k++) {
			uint32_t f = symbols_get_line(v->symbols, symbols_get_location(v->symbols, locations[k]), 0)->function;
			h = fleet_hash_name(h, symbols_get_string(v->symbols, symbols_get_function(v->symbols, f - 1)->name));
		}
		sum += h * (uint64_t)v->ints[i];
	}
	return sum;
}

static double run_merge(const struct truth *b, struct tsdb *db, struct question *q, struct pool *pool, bool check)
{
	struct source_limits lim = { .pool = pool };
	struct stackvec *v;
	struct err e;
	int64_t start = clock_mono_ns();
	struct selected r = select_series(b, db, q);
	struct source_part *parts = xcalloc(r.n + 1, sizeof *parts);
	for (size_t k = 0; k < r.n; k++)
		parts[k] = (struct source_part){ .ref = r.s[k].ref, .after_ms = q->after_ms, .until_ms = q->until_ms, .scale = 1 };
	if (r.v->ops->merge(r.v, parts, r.n, 1, SYMBOLS_WHOLE, &lim, &v, &e))
		measure_die("merge", &e);
	fold(v);
	double ms = (double)(clock_mono_ns() - start) / 1e6;
	if (check && hash_profile(v) != q->want)
		q->wrong = true;
	stackvec_unref(v);
	free(parts);
	release(&r);
	return ms;
}

/* The number at the end of a label's value. */
static uint64_t number_of(struct labels l, const char *name)
{
	struct view v = labels_get(l, view_of(name));
	size_t at = v.len;
	int64_t n = 0;
	while (at && v.ptr[at - 1] != '-')
		at--;
	num_parse_i64(view_make(v.ptr + at, v.len - at), &n);
	return (uint64_t)n;
}

/* The key of truth: what names a pod, or a service. */
static uint64_t group_key(const struct question *q, struct labels l)
{
	if (q->what == SHARE)
		return 0;
	uint64_t service = number_of(l, "service");
	return q->what == GRAPH_POD ? number_of(l, "pod") << 32 | number_of(l, "node") << 8 | service : service;
}

static double run_graph(const struct truth *b, struct tsdb *db, struct question *q, struct pool *pool, bool check)
{
	struct source_limits lim = { .pool = pool };
	const struct matcher function = { MATCH_EQ, VIEW("function"), view_of(b->function), NULL };
	struct source_frame_filter f = { .m = &function, .n = 1 };
	uint32_t steps = (uint32_t)((q->until_ms - q->after_ms) / MINUTE);
	struct err e;
	int64_t start = clock_mono_ns();
	struct selected r = select_series(b, db, q);
	uint64_t *keys = xcalloc(2 * r.n + SERVICES, sizeof *keys), *key_of = keys + r.n + SERVICES;
	struct source_part *parts = xcalloc(r.n + 1, sizeof *parts);
	size_t n_groups = q->what == GRAPH_POD ? r.n : q->what == SHARE ? 1 : SERVICES, n = 0;
	for (size_t k = 0; k < r.n; k++)
		key_of[k] = group_key(q, r.s[k].labels);
	for (size_t g = 0; g < n_groups; g++)
		for (size_t k = q->what == GRAPH_POD ? g : 0; k < (q->what == GRAPH_POD ? g + 1 : r.n); k++) {
			if (q->what != GRAPH_POD && key_of[k] != g)
				continue;
			keys[g] = key_of[k];
			parts[n++] = (struct source_part){ r.s[k].ref, q->after_ms, q->after_ms + MINUTE, 1, (uint32_t)g * steps, steps, MINUTE };
		}
	static double *ret; /* kept from one question to the next */
	ret = xreallocarray(ret, n_groups * steps, sizeof *ret);
	bool filtered = q->what == SHARE || q->what == SHARE_SERVICE;
	if (r.v->ops->sums(r.v, parts, n, n_groups * steps, filtered ? &f : NULL, &lim, ret, NULL, &e))
		measure_die("sums", &e);
	double ms = (double)(clock_mono_ns() - start) / 1e6;
	uint64_t have = 0;
	for (size_t g = 0; check && g < n_groups; g++)
		for (uint32_t s = 0; s < steps; s++)
			have += step_hash(keys[g], s) * (uint64_t)(int64_t)ret[g * steps + s];
	if (check && have != q->want)
		q->wrong = true;
	free(keys);
	free(parts);
	release(&r);
	return ms;
}

double truth_ask(const struct truth *t, struct question *q, struct tsdb *db, struct pool *pool, bool check)
{
	return q->what == MERGE ? run_merge(t, db, q, pool, check) : run_graph(t, db, q, pool, check);
}

void truth_touch(struct tsdb *db)
{
	const struct question none = { .who = ALL, .after_ms = 0, .until_ms = INT64_MAX };
	struct truth t = { .scale = 1 };
	struct selected r = select_series(&t, db, &none);
	struct version *v = tsdb_version(db, NULL);
	for (size_t i = 0; i < v->n; i++)
		make_calls(v->p[i]->p->symbols);
	version_unref(v);
	release(&r);
}
