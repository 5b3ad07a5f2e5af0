/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/testkit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/map.h"
#include "model/sourcekit.h"

static int64_t kit_now(void *arg)
{
	return ((struct kit *)arg)->now_ms;
}

int64_t kit_boot(void *arg)
{
	return ((struct kit *)arg)->boot_ms;
}

void kit_set(struct kit *k, const char *dir)
{
	*k = (struct kit){ .now_ms = KIT_T0 + 3600000 };
	KIT_CHECK(snprintf(k->dir, sizeof k->dir, "%s", dir) < (int)sizeof k->dir);
	k->o = (struct tsdb_options){ .path = k->dir, .now_ms = kit_now, .now_arg = k, .cache_bytes = 32 << 20 };
}

void kit_init(struct kit *k)
{
	char dir[] = "/tmp/tsdb-test-XXXXXX";
	KIT_CHECK(mkdtemp(dir));
	kit_set(k, dir);
}

void kit_open(struct kit *k)
{
	struct err e;
	if (tsdb_open(&k->db, &k->o, &e)) {
		fprintf(stderr, "open: %s\n", e.msg);
		abort();
	}
}

void kit_close(struct kit *k)
{
	struct err e;
	KIT_CHECK(tsdb_close(k->db, &e) == 0);
	k->db = NULL;
}

void kit_reopen(struct kit *k)
{
	kit_close(k);
	kit_open(k);
}

void kit_free(struct kit *k)
{
	if (k->db)
		kit_close(k);
	pid_t pid = fork();
	if (!pid) {
		execlp("rm", "rm", "-rf", k->dir, (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

uint64_t kit_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;
	return hash_u64(*state);
}

/* ---- profiles ---- */

enum { POOL = 1000, DEPTH = 6, FUNCTIONS = 97 };

static struct view own(struct profile *p, const char *s)
{
	struct view v = arena_view(&p->arena, view_of(s));
	KIT_CHECK(v.ptr);
	return v;
}

/* Function of level d of stack i: stacks share their roots. */
static uint32_t function_of(uint32_t stack, uint32_t d)
{
	return d == 0 ? 0 : (uint32_t)(hash_u64(((uint64_t)(stack >> (DEPTH - d)) << 8) | d) % (FUNCTIONS - 1)) + 1;
}

static int64_t value_of(uint64_t seed, uint32_t i)
{
	return (int64_t)(hash_u64(seed * 31 + i) % 9) + (i % 50 == 0 ? 300 : 0);
}

static uint32_t stack_of(uint64_t seed, uint32_t i, uint32_t n)
{
	return (uint32_t)((hash_u64(seed) + (uint64_t)i * (POOL / n ? POOL / n : 1)) % POOL);
}

void kit_profile(struct profile *p, uint64_t seed, uint32_t n)
{
	char name[32];
	profile_init(p, 0);
	p->n_strings = 6 + FUNCTIONS;
	p->strings = arena_alloc(&p->arena, p->n_strings * sizeof *p->strings);
	const char *first[] = { "", "samples", "count", "cpu", "nanoseconds", "/bin/app" };
	for (uint32_t i = 0; i < 6; i++)
		p->strings[i] = own(p, first[i]);
	p->n_functions = p->n_locations = p->n_lines = FUNCTIONS;
	p->functions = arena_calloc(&p->arena, FUNCTIONS, sizeof *p->functions);
	p->locations = arena_calloc(&p->arena, FUNCTIONS, sizeof *p->locations);
	p->lines = arena_calloc(&p->arena, FUNCTIONS, sizeof *p->lines);
	p->mappings = arena_calloc(&p->arena, 1, sizeof *p->mappings);
	p->n_mappings = 1;
	p->mappings[0] = (struct profile_mapping){ .start = 0x400000, .limit = 0x500000, .file_str = 5 };
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		snprintf(name, sizeof name, i ? "main.f%u" : "main.main", i);
		p->strings[6 + i] = own(p, name);
		p->functions[i] = (struct profile_function){ .name_str = 6 + i, .start_line = i };
		p->lines[i] = (struct profile_line){ .function = i + 1, .line = 10 + i };
		p->locations[i] = (struct profile_location){ .address = 0x400000 + i * 16, .mapping = 1, .first_line = i, .n_lines = 1 };
	}
	p->n_sample_types = 2;
	p->sample_types = arena_alloc(&p->arena, 2 * sizeof *p->sample_types);
	p->sample_types[0] = (struct profile_value_type){ 1, 2 };
	p->sample_types[1] = (struct profile_value_type){ 3, 4 };
	p->period_type = (struct profile_value_type){ 3, 4 };
	p->period = KIT_PERIOD;
	p->n_samples = n;
	p->samples = arena_calloc(&p->arena, n + 1, sizeof *p->samples);
	p->values = arena_alloc(&p->arena, (n * 2 + 1) * sizeof *p->values);
	p->stack = arena_alloc(&p->arena, (n * DEPTH + 1) * sizeof *p->stack);
	for (uint32_t i = 0; i < n; i++) {
		p->samples[i] = (struct profile_sample){ .first_location = p->n_stack, .n_locations = DEPTH };
		for (uint32_t d = DEPTH; d--;)
			p->stack[p->n_stack++] = function_of(stack_of(seed, i, n), d);
		p->values[i * 2] = value_of(seed, i);
		p->values[i * 2 + 1] = value_of(seed, i) * KIT_PERIOD;
	}
}

int kit_append(struct kit *k, unsigned pod, int64_t t_ms, uint64_t seed, uint32_t n, struct sink_result *ret)
{
	return kit_append_done(k, pod, t_ms, seed, n, ret, NULL, NULL);
}

int kit_append_done(struct kit *k, unsigned pod, int64_t t_ms, uint64_t seed, uint32_t n, struct sink_result *ret,
		    void (*done)(void *arg, const struct err *e), void *arg)
{
	struct profile p;
	struct err e;
	char name[32];
	kit_profile(&p, seed, n);
	p.arena.budget = k->budget;
	for (struct budget *of = k->budget; of; of = of->parent)
		budget_adopt(of, p.arena.held);
	snprintf(name, sizeof name, "pod-%u", pod);
	struct label job = { VIEW("job"), view_of(k->job ? k->job : "kit") };
	struct label labels[2][3] = { { { VIEW(LABEL_NAME), VIEW(KIT_SAMPLES) }, job, { VIEW("pod"), view_of(name) } },
				      { { VIEW(LABEL_NAME), VIEW(KIT_CPU) }, job, { VIEW("pod"), view_of(name) } } };
	struct sink_column columns[2] = { { .labels = { labels[0], 3 }, .value_index = 0 },
					  { .labels = { labels[1], 3 }, .value_index = 1 } };
	KIT_CHECK(ptype_parse(VIEW(KIT_SAMPLES), &columns[0].type));
	KIT_CHECK(ptype_parse(VIEW(KIT_CPU), &columns[1].type));
	struct sink_profile sp = { .profile = &p, .columns = columns, .n_columns = 2, .t_ms = t_ms, .duration_ns = 10000000000,
				   .interval_ms = 10000, .asked_ms = 10000, .period = KIT_PERIOD };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1, .notes = k->notes, .n_notes = k->n_notes, .patient = k->patient,
				.done = done, .done_arg = arg };
	struct sink *s = tsdb_sink(k->db);
	int rc = s->append(s, &b, ret, &e);
	profile_release(&p);
	return rc;
}

int kit_append_float(struct kit *k, const char *name, int64_t t_ms, double v, struct sink_result *ret)
{
	struct err e;
	struct label l[] = { { VIEW(LABEL_NAME), view_of(name) }, { VIEW("job"), VIEW("test") } };
	struct sink_float f = { .labels = { l, 2 }, .t_ms = t_ms, .v = v };
	struct sink_batch b = { .floats = &f, .n_floats = 1 };
	struct sink *s = tsdb_sink(k->db);
	return s->append(s, &b, ret, &e);
}

/* ---- checksums ---- */

static uint64_t hash_name(uint64_t h, struct view name)
{
	return hash_stable_seed(name.ptr, name.len, h);
}

uint64_t kit_vec_sum(const struct stackvec *v)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < v->n; i++) {
		KIT_CHECK(!i || v->columns[i - 1] < v->columns[i]);
		const struct sym_column *c = symbols_get_column(v->symbols, v->columns[i]);
		uint32_t locations[64];
		size_t n = symbols_stack_locations(v->symbols, c->stack, locations, 64);
		uint64_t h = c->label_set != 0;
		for (size_t k = 0; k < n; k++) {
			const struct sym_location *l = symbols_get_location(v->symbols, locations[k]);
			for (uint32_t line = 0; line < l->n_lines; line++) {
				uint32_t f = symbols_get_line(v->symbols, l, line)->function;
				h = hash_name(h, f ? symbols_get_string(v->symbols, symbols_get_function(v->symbols, f - 1)->name)
						   : VIEW("?"));
			}
		}
		int64_t value = v->is_float ? (int64_t)v->floats[i] : v->ints[i];
		sum += h * (uint64_t)value;
	}
	return sum;
}

uint64_t kit_profile_sum(uint64_t seed, uint32_t n, bool cpu)
{
	struct profile p;
	kit_profile(&p, seed, n);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t h = 0;
		for (uint32_t k = 0; k < p.samples[i].n_locations; k++) {
			uint32_t f = p.stack[p.samples[i].first_location + k];
			h = hash_name(h, p.strings[p.functions[f].name_str]);
		}
		sum += h * (uint64_t)p.values[i * 2 + cpu];
	}
	profile_release(&p);
	return sum;
}

int64_t kit_profile_total(uint64_t seed, uint32_t n)
{
	int64_t total = 0;
	for (uint32_t i = 0; i < n; i++)
		total += value_of(seed, i);
	return total;
}

static struct source_view *view_and_series(struct kit *k, const char *name, int64_t after_ms, int64_t until_ms,
					   struct source_series **ret, size_t *n)
{
	struct err e;
	struct source_view *v;
	struct matcher m;
	KIT_CHECK(tsdb_source(k->db)->open(tsdb_source(k->db), &v, &e) == 0);
	KIT_CHECK(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), view_of(name), &e) == 0);
	KIT_CHECK(v->ops->select(v, &m, 1, after_ms, until_ms, k->lim, ret, n, &e) == 0);
	matcher_release(&m);
	return v;
}

uint64_t kit_merge(struct kit *k, const char *name, int64_t after_ms, int64_t until_ms, struct pool *pool)
{
	struct source_series *series;
	size_t n;
	struct err e;
	struct source_limits lim = k->lim ? *k->lim : (struct source_limits){ 0 };
	struct source_view *v = view_and_series(k, name, after_ms, until_ms, &series, &n);
	struct source_part *parts = xcalloc(n + 1, sizeof *parts);
	lim.pool = pool;
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct source_part){ series[i].ref, after_ms, until_ms, 1, 0 };
	struct stackvec *sum;
	if (v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, &lim, &sum, &e)) {
		fprintf(stderr, "merge: %s\n", e.msg);
		abort();
	}
	uint64_t r = kit_vec_sum(sum);
	stackvec_unref(sum);
	free(parts);
	free(series);
	v->ops->release(v);
	return r;
}

static struct matcher odd;

static void odd_init(void)
{
	struct err e;
	KIT_CHECK(matcher_init(&odd, MATCH_RE, VIEW("function"), VIEW("main[.]f[0-9]*[13579]"), &e) == 0);
}

struct source_frame_filter kit_odd_functions(bool leaf_only)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, odd_init);
	return (struct source_frame_filter){ .m = &odd, .n = 1, .leaf_only = leaf_only };
}

/* One question: all series at once, in steps. */
static void graph_at_once(struct source_view *v, const struct source_series *s, size_t n, struct source_part first,
			  const struct source_frame_filter *f, const struct source_limits *lim, double *ret, int64_t *exact)
{
	struct source_part *parts = xcalloc(n + 1, sizeof *parts);
	struct err e;
	for (size_t i = 0; i < n; i++) {
		parts[i] = first;
		parts[i].ref = s[i].ref;
	}
	KIT_CHECK(v->ops->sums(v, parts, n, first.n_steps, f, lim, ret, exact, &e) == 0);
	free(parts);
}

/* Each series and step by itself, from merges: no aggregate can be used. */
static int64_t step_by_hand(struct source_view *v, const struct source_series *s, size_t n, struct source_part p, uint32_t step,
			    const struct source_frame_filter *f)
{
	int64_t sum = 0, x;
	double d;
	struct err e;
	struct stackvec *vec;
	p.after_ms += step * p.step_ms;
	p.until_ms += step * p.step_ms;
	p.n_steps = 0;
	for (size_t i = 0; i < n; i++) {
		p.ref = s[i].ref;
		if (f) {
			KIT_CHECK(v->ops->sums(v, &p, 1, 1, f, NULL, &d, &x, &e) == 0);
		} else {
			KIT_CHECK(v->ops->merge(v, &p, 1, 1, SYMBOLS_WHOLE, NULL, &vec, &e) == 0);
			KIT_CHECK(stackvec_total_int(vec, &x, &e) == 0);
			stackvec_unref(vec);
		}
		sum += x;
	}
	return sum;
}

static bool any_profile(struct source_view *v, const struct source_series *series, size_t n, int64_t after_ms, int64_t until_ms)
{
	struct err e;
	bool any = false;
	for (size_t i = 0; i < n && !any; i++) {
		struct source_profile *p;
		size_t n_p;
		KIT_CHECK(one_series_profiles(v, series[i].ref, after_ms, until_ms, NULL, &p, &n_p, &e) == 0);
		for (size_t k = 0; k < n_p; k++)
			any |= !p[k].stale;
		free(p);
	}
	return any;
}

/* Checks that both numbers of a graph of one function equal those computed by hand, and are present where there is a profile. */
static void check_shares(struct source_view *v, const struct source_series *series, size_t n, struct source_part p, const struct source_limits *lim,
			 const int64_t *match, const int64_t *total)
{
	struct source_part *parts = xcalloc(n + 1, sizeof *parts);
	int64_t *got = xcalloc(3 * (size_t)p.n_steps, sizeof *got);
	struct source_shares ret = { got, got + p.n_steps, got + 2 * (size_t)p.n_steps };
	const struct source_frame_filter some_frames = kit_odd_functions(false);
	struct err e;
	for (size_t i = 0; i < n; i++) {
		parts[i] = p;
		parts[i].ref = series[i].ref;
	}
	KIT_CHECK(v->ops->shares(v, parts, n, p.n_steps, &some_frames, lim, &ret, &e) == 0);
	for (uint32_t i = 0; i < p.n_steps; i++) {
		KIT_CHECK(ret.match[i] == match[i]);
		KIT_CHECK(ret.total[i] == total[i]);
		KIT_CHECK((ret.there[i] > 0) == any_profile(v, series, n, p.after_ms + i * p.step_ms, p.until_ms + i * p.step_ms));
	}
	free(parts);
	free(got);
}

void kit_check_graph(struct kit *k, const char *name, size_t most, int64_t after_ms, int64_t range_ms, int64_t step_ms,
		     uint32_t n_steps, struct pool *pool)
{
	struct source_series *series;
	size_t n;
	struct source_limits lim = { .pool = pool };
	struct source_view *v = view_and_series(k, name, after_ms, after_ms + n_steps * step_ms + range_ms, &series, &n);
	struct source_part p = { .after_ms = after_ms, .until_ms = after_ms + range_ms, .scale = 1, .n_steps = n_steps,
				 .step_ms = step_ms };
	double *sums = xcalloc(n_steps, sizeof *sums);
	int64_t *exact = xcalloc(n_steps, sizeof *exact), *all = xcalloc(n_steps, sizeof *all);
	const struct source_frame_filter some_frames = kit_odd_functions(false);
	for (int filtered = 0; filtered < 2; filtered++) {
		const struct source_frame_filter *f = filtered ? &some_frames : NULL;
		graph_at_once(v, series, MIN(n, most), p, f, &lim, sums, exact);
		for (uint32_t i = 0; i < n_steps; i++) {
			KIT_CHECK(exact[i] == step_by_hand(v, series, MIN(n, most), p, i, f));
			KIT_CHECK(sums[i] == (double)exact[i]);
		}
		if (!filtered)
			memcpy(all, exact, n_steps * sizeof *all);
	}
	check_shares(v, series, MIN(n, most), p, &lim, exact, all);
	free(all);
	free(sums);
	free(exact);
	free(series);
	v->ops->release(v);
}

static int by_begin(const void *a, const void *b)
{
	const struct source_span *x = a, *y = b;
	return (x->after_ms > y->after_ms) - (x->after_ms < y->after_ms);
}

/* The fewest equivalent spans, in order; empty ones are dropped. */
static void join_spans(struct source_cover *c)
{
	size_t n = 0;
	if (c->spans.n)
		qsort(c->spans.v, c->spans.n, sizeof *c->spans.v, by_begin);
	for (size_t i = 0; i < c->spans.n; i++) {
		struct source_span x = c->spans.v[i];
		if (x.after_ms >= x.until_ms)
			continue;
		if (n && x.after_ms <= c->spans.v[n - 1].until_ms)
			c->spans.v[n - 1].until_ms = MAX(c->spans.v[n - 1].until_ms, x.until_ms);
		else
			c->spans.v[n++] = x;
	}
	c->spans.n = n;
}

static bool same_cover(const struct source_cover *x, const struct source_cover *y)
{
	return x->n == y->n && x->n_stale == y->n_stale && x->total == y->total && x->magnitude == y->magnitude && x->period == y->period &&
	       x->weights.heaviest == y->weights.heaviest && fabs(x->weights.extra - y->weights.extra) <= 1e-9 * ((double)x->magnitude + fabs(x->weights.extra)) &&
	       x->spans.n == y->spans.n && (!x->spans.n || !memcmp(x->spans.v, y->spans.v, x->spans.n * sizeof *x->spans.v));
}

static size_t tile_of(const struct source_tiles *t, int64_t t_ms)
{
	return (size_t)((t_ms - t->after_ms - 1) / t->width_ms);
}

/* The same of n windows that follow each other. */
static void check_covers(struct source_view *v, uint64_t ref, const struct source_tiles *t)
{
	struct source_cover *want = xcalloc(t->n, sizeof *want), *got;
	struct source_profile *p;
	size_t n, n_now = 0;
	struct err e;
	KIT_CHECK(one_series_profiles(v, ref, t->after_ms, t->after_ms + (int64_t)t->n * t->width_ms, NULL, &p, &n, &e) == 0);
	for (size_t i = 0; i < n; i++) {
		source_cover_add(&want[tile_of(t, p[i].t_ms)], p[i].t_ms, p[i].cover_ms, p[i].total, p[i].weight, p[i].period, p[i].stale);
		if (t->n > 1)
			vec_free(&want[tile_of(t, p[i].t_ms)].spans);
	}
	free(p);
	KIT_CHECK(one_series_covers(v, ref, t, NULL, &got, &e) == 0);
	bool same = true;
	join_spans(&want[0]);
	join_spans(&got[0]);
	for (size_t k = 0; k < t->n; k++)
		same &= same_cover(&want[k], &got[k]);
	if (!same) { /* a delete meanwhile */
		KIT_CHECK(one_series_profiles(v, ref, t->after_ms, t->after_ms + (int64_t)t->n * t->width_ms, NULL, &p, &n_now, &e) == 0);
		KIT_CHECK(n_now < n);
		free(p);
	}
	source_covers_free(want, t->n);
	source_covers_free(got, t->n);
}

/* Windows of some widths in the range that are many, few, one; the last one may reach beyond it. */
static void check_tiles(struct source_view *v, uint64_t ref, int64_t after_ms, int64_t until_ms)
{
	static const int64_t widths[] = { 10000, 7001, 600000, 3600000, 5000000 };
	for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
		int64_t n = (until_ms - after_ms) / widths[i] + 1;
		if (n > 0 && n <= 1000)
			check_covers(v, ref, &(struct source_tiles){ after_ms, widths[i], (size_t)n });
	}
}

/* Checks that the sums of a series' profiles equal those added one by one, whatever was cached before; a delete meanwhile removes rows
 * of the head. */
static void check_cover(struct source_view *v, uint64_t ref, int64_t after_ms, int64_t until_ms, const struct source_profile *p, size_t n)
{
	struct source_cover want = { 0 };
	struct err e;
	for (size_t i = 0; i < n; i++)
		source_cover_add(&want, p[i].t_ms, p[i].cover_ms, p[i].total, p[i].weight, p[i].period, p[i].stale);
	join_spans(&want);
	for (int again = 0; again < 2; again++) {
		struct source_cover got = { 0 };
		struct source_profile *now;
		size_t n_now;
		KIT_CHECK(one_series_cover(v, ref, after_ms, until_ms, NULL, &got, &e) == 0);
		join_spans(&got);
		if (!same_cover(&got, &want)) {
			KIT_CHECK(one_series_profiles(v, ref, after_ms, until_ms, NULL, &now, &n_now, &e) == 0);
			KIT_CHECK(n_now < n);
			free(now);
		}
		source_cover_release(&got);
	}
	source_cover_release(&want);
}

void kit_check_types(struct source_view *v, int64_t after_ms, int64_t until_ms)
{
	struct source_series *series;
	struct source_type *types;
	size_t n, n_types, n_profiles = 0, n_counted = 0;
	struct err e;
	KIT_CHECK(v->ops->select(v, NULL, 0, after_ms, until_ms, NULL, &series, &n, &e) == 0);
	KIT_CHECK(v->ops->types(v, after_ms, until_ms, NULL, &types, &n_types, &e) == 0);
	for (size_t i = 0; i < n; i++)
		n_profiles += series[i].type != NULL;
	for (size_t i = 0; i < n_types; i++) {
		size_t there = 0;
		for (size_t k = 0; k < n; k++)
			there += series[k].type && ptype_eq(series[k].type, types[i].type) && view_eq(labels_get(series[k].labels, VIEW(LABEL_NAME)), types[i].name);
		KIT_CHECK(types[i].n_series == there);
		n_counted += there;
	}
	KIT_CHECK(n_counted == n_profiles);
	free(series);
	free(types);
}

static void add_warning(void *arg, const char *text)
{
	struct kit_warnings *w = arg;
	KIT_CHECK(w->n < ARRAY_LEN(w->texts));
	snprintf(w->texts[w->n++], sizeof w->texts[0], "%s", text);
}

void kit_warnings(const struct source_damage *d, struct kit_warnings *ret)
{
	*ret = (struct kit_warnings){ 0 };
	source_damage_warnings(d, add_warning, ret);
}

size_t kit_count(struct kit *k, const char *name, int64_t after_ms, int64_t until_ms, int64_t *ret_total)
{
	struct source_series *series;
	size_t n, count = 0;
	struct err e;
	struct source_view *v = view_and_series(k, name, after_ms, until_ms, &series, &n);
	if (ret_total)
		*ret_total = 0;
	for (size_t i = 0; i < n; i++) {
		struct source_profile *p;
		size_t n_p;
		KIT_CHECK(one_series_profiles(v, series[i].ref, after_ms, until_ms, k->lim, &p, &n_p, &e) == 0);
		for (size_t j = 0; j < n_p; j++) {
			KIT_CHECK(!j || p[j - 1].t_ms < p[j].t_ms);
			if (ret_total)
				*ret_total += p[j].total;
			count += !p[j].stale;
		}
		if (!k->lim) { /* else two readings may lack different things */
			check_cover(v, series[i].ref, after_ms, until_ms, p, n_p);
			check_tiles(v, series[i].ref, after_ms, until_ms);
		}
		free(p);
	}
	free(series);
	v->ops->release(v);
	return count;
}
