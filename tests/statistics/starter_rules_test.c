/* SPDX-License-Identifier: Apache-2.0 */
/* The starter rules (deploy/rules/cpu.yml) on estimates. Real stacks (PYRRHA_CORPUS, else invented ones) are sampled at 19 Hz, a
 * profile per minute. The rules run over them with a clock of their own.
 *
 * Quiet: containers that idle and that are busy, by the time of day, whose mix wobbles a little from day to day; some are deployed
 * anew, some come. Nobody may be paged. Rises: containers on a fifth of a core, of which one function each has ten points more of
 * the CPU from some second on. PYRRHA_LONG=1: ten days and 1,000 rises; PYRRHA_SEED=n: other dice. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pprof/pprof.h"
#include "rules/testkit.h"

#define HERTZ 19
#define PERIOD_NS (INT64_C(1000000000) / HERTZ)
#define MINUTE INT64_C(60000)
#define DAY (1440 * MINUTE)
#define BEGIN (INT64_C(1767225600000)) /* 2026-01-01 */

/* ---- dice ---- */

static uint64_t dice;
static double roll(void) /* [0, 1) */
{
	dice += UINT64_C(0x9e3779b97f4a7c15);
	uint64_t z = dice;
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static double roll_normal(void)
{
	return sqrt(-2 * log(1 - roll())) * cos(2 * M_PI * roll());
}

static size_t roll_poisson(double mean)
{
	if (mean > 60)
		return (size_t)MAX(0, llround(mean + sqrt(mean) * roll_normal()));
	size_t n = 0;
	for (double p = roll(), limit = exp(-mean); p > limit; p *= roll())
		n++;
	return n;
}

/* ---- what a program does ---- */

struct mix {
	size_t n;
	uint32_t *columns;
	double *weights, *sums; /* sums: what rolls are looked up in */
};

static void mix_sum(struct mix *m)
{
	double sum = 0;
	for (size_t i = 0; i < m->n; i++)
		m->sums[i] = sum += m->weights[i];
}

static struct mix mix_new(size_t n)
{
	return (struct mix){ n, xcalloc(n, sizeof(uint32_t)), xcalloc(n, sizeof(double)), xcalloc(n, sizeof(double)) };
}

static struct mix mix_copy(const struct mix *m, double wobble)
{
	struct mix c = mix_new(m->n);
	for (size_t i = 0; i < m->n; i++) {
		c.columns[i] = m->columns[i];
		c.weights[i] = m->weights[i] * (wobble > 0 ? exp(wobble * roll_normal()) : 1);
	}
	mix_sum(&c);
	return c;
}

static void mix_free(struct mix *m)
{
	free(m->columns);
	free(m->weights);
	free(m->sums);
}

static uint32_t mix_roll(const struct mix *m)
{
	double x = roll() * m->sums[m->n - 1];
	size_t a = 0, b = m->n - 1;
	while (a < b) {
		size_t k = (a + b) / 2;
		if (m->sums[k] > x)
			b = k;
		else
			a = k + 1;
	}
	return m->columns[a];
}

/* Is there a frame of the function? */
static bool has_function(struct symbols *s, uint32_t column, uint32_t function)
{
	uint32_t at[1024];
	size_t n = symbols_stack_locations(s, symbols_get_column(s, column)->stack, at, ARRAY_LEN(at));
	for (size_t i = 0; i < MIN(n, ARRAY_LEN(at)); i++) {
		const struct sym_location *l = symbols_get_location(s, at[i]);
		for (uint32_t k = 0; k < l->n_lines; k++)
			if (symbols_get_line(s, l, k)->function == function)
				return true;
	}
	return false;
}

static uint32_t leaf_function(struct symbols *s, uint32_t column)
{
	const struct sym_column *c = symbols_get_column(s, column);
	const struct sym_location *l = symbols_get_location(s, symbols_get_node(s, c->node)->location);
	return l->n_lines ? symbols_get_line(s, l, 0)->function : 0;
}

/* Some function has ten points more: the more a share is in the middle, the less certain it is. */
static struct mix mix_risen(struct symbols *s, const struct mix *m)
{
	struct mix c = mix_copy(m, 0);
	for (int tries = 0; tries < 1000; tries++) {
		uint32_t f = leaf_function(s, mix_roll(m));
		double in = 0, all = m->sums[m->n - 1];
		for (size_t i = 0; i < m->n && f; i++)
			in += has_function(s, m->columns[i], f) ? m->weights[i] : 0;
		if (!f || in / all > 0.6)
			continue;
		for (size_t i = 0; i < m->n; i++)
			c.weights[i] *= has_function(s, m->columns[i], f) ? (in / all + 0.1) * all / in : (0.9 - in / all) / (1 - in / all);
		break;
	}
	mix_sum(&c);
	return c;
}

/* ---- the world ---- */

struct container {
	char name[16];
	int pod;
	const struct mix *mix;   /* of the world */
	struct mix today, startup;
	double cores;
	int64_t since, deploy;   /* a new pod */
};

struct world {
	struct kit kit;
	struct symbols *symbols;
	VEC(struct mix) mixes;
	VEC(struct container) containers;
	size_t pages, warnings;
	int64_t *fired;          /* by container: when the share's alert fired; 0 = not */
	int64_t now;
};

static struct world *telling;
static void told(void *arg, const struct alert *a, size_t n)
{
	(void)arg;
	struct world *w = telling;
	for (size_t i = 0; i < n; i++) {
		struct view name = labels_get(a[i].labels, VIEW("container"));
		if (a[i].resolved || a[i].starts_at_ms != w->now)
			continue;
		if (view_eqs(labels_get(a[i].labels, VIEW("severity")), "page"))
			w->pages++;
		else
			w->warnings++;
		for (size_t k = 0; k < w->containers.n && w->fired; k++)
			if (view_eqs(name, w->containers.v[k].name) && !w->fired[k] && view_eqs(labels_get(a[i].labels, VIEW("alertname")), "FunctionShareUp"))
				w->fired[k] = w->now;
		if (getenv("PYRRHA_SHOW")) {
			struct buf b = { 0 };
			labels_format(a[i].labels, &b);
			buf_putc(&b, ' ');
			labels_format(a[i].annotations, &b);
			print_message("%lld min: %s\n", (long long)((w->now - BEGIN) / MINUTE), b.ptr);
			buf_free(&b);
		}
	}
}

static void add_mix(struct world *w, const struct stackvec *v)
{
	struct mix m = mix_new(v->n);
	size_t n = 0;
	for (size_t i = 0; i < v->n; i++)
		if (v->ints[i] > 0) {
			m.columns[n] = v->columns[i];
			m.weights[n++] = (double)v->ints[i];
		}
	m.n = n;
	mix_sum(&m);
	vec_push(&w->mixes, m);
}

static bool add_file(struct world *w, const char *path)
{
	struct profile p;
	struct buf bytes = { 0 };
	struct stackvec *v[16] = { 0 };
	struct err e = { 0 };
	FILE *f = fopen(path, "re");
	char part[4096];
	for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
		buf_put(&bytes, part, n);
	bool ok = f;
	if (ok) {
		fclose(f);
		profile_init(&p, 0);
		assert_int_equal(pprof_decode(bytes.ptr, bytes.len, NULL, &p, &e), 0);
		assert_true(p.n_sample_types <= ARRAY_LEN(v));
		assert_int_equal(stackvec_from_profile(w->symbols, &p, v, &e), 0);
		add_mix(w, v[0]);
		for (size_t i = 0; i < p.n_sample_types; i++)
			stackvec_unref(v[i]);
		profile_release(&p);
	}
	buf_free(&bytes);
	return ok;
}

/* Of some hundred functions, some of which take much and most little. */
static void made_up(struct world *w)
{
	struct stackacc *acc = stackacc_new(w->symbols);
	struct err e = { 0 };
	uint32_t at[12];
	for (int i = 0; i < 300; i++) {
		for (size_t k = 0; k < ARRAY_LEN(at); k++) {
			char name[32];
			snprintf(name, sizeof name, "f%zu_%d", k, k == 11 ? 0 : (int)(roll() * roll() * (k ? 40 / (double)k : 40)));
			const struct sym_function f = { .name = symbols_string(w->symbols, view_of(name)) };
			const struct sym_line line = { .function = symbols_function(w->symbols, &f) + 1 };
			const struct sym_location l = { .n_lines = 1 };
			at[k] = symbols_location(w->symbols, &l, &line);
		}
		stackacc_add(acc, symbols_column(w->symbols, symbols_stack(w->symbols, at, ARRAY_LEN(at)), 0), 1 + (int64_t)(10000 * pow(roll(), 6)));
	}
	struct stackvec *v = stackacc_finish(acc, &e);
	add_mix(w, v);
	stackvec_unref(v);
	stackacc_free(acc);
}

static void world_open(struct world *w)
{
	static const char *const names[] = { "profile1", "profile-with-labels", "alloc_objects", "series/1644509299337903000", "fgprof" };
	const char *given = getenv("PYRRHA_CORPUS"), *top = getenv("top_srcdir");
	*w = (struct world){ .now = BEGIN };
	telling = w;
	kit_init(&w->kit);
	w->kit.alerts = (struct alert_sink){ told, NULL };
	w->symbols = memsource_symbols(w->kit.mem);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *path = given ? xasprintf("%s/%s.pb.gz", given, names[i]) : xasprintf("%s/../shared/corpus/%s.pb.gz", top ? top : ".", names[i]);
		if (!add_file(w, path) && !i)
			print_message("no real profiles (PYRRHA_CORPUS): stacks are made up\n");
		free(path);
	}
	for (int i = 0; i < 3; i++)
		made_up(w);
	char *file = xasprintf("%s/deploy/rules/cpu.yml", top ? top : ".");
	const char *files[] = { file };
	struct rules_config *c;
	struct err e = { 0 };
	if (rules_config_load(&c, files, 1, &kit_global, NULL, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(rules_new(&w->kit.rules, &w->kit.o, &e), 0);
	assert_int_equal(rules_apply(w->kit.rules, c, &e), 0);
	rules_config_unref(c);
	free(file);
}

static void world_close(struct world *w)
{
	kit_free(&w->kit);
	for (size_t i = 0; i < w->mixes.n; i++)
		mix_free(&w->mixes.v[i]);
	vec_free(&w->mixes);
	for (size_t i = 0; i < w->containers.n; i++) {
		mix_free(&w->containers.v[i].today);
		mix_free(&w->containers.v[i].startup);
	}
	vec_free(&w->containers);
	free(w->fired);
}

/* A profile of what was sampled in (t - cover, t]; the samples are in acc. */
static void put(struct world *w, const struct container *c, int64_t t, struct stackacc *acc)
{
	static const struct ptype *type;
	static struct ptype parsed;
	struct labels_builder b;
	struct err e = { 0 };
	char pod[40];
	const struct view name = ptype_alias(VIEW("on_cpu"));
	if (!type)
		assert_true(ptype_parse(name, &parsed));
	type = &parsed;
	const struct source_profile p = { .t_ms = t, .duration_ns = MINUTE * 1000000, .cover_ms = MINUTE, .interval_ms = MINUTE, .weight = 1,
					  .period = PERIOD_NS };
	snprintf(pod, sizeof pod, "%s-%d", c->name, c->pod);
	labels_builder_init(&b, (struct labels){ 0 });
	labels_builder_set(&b, VIEW(LABEL_NAME), name);
	labels_builder_set(&b, VIEW("namespace"), VIEW("prod"));
	labels_builder_set(&b, VIEW("container"), view_of(c->name));
	labels_builder_set(&b, VIEW("pod"), view_of(pod));
	struct stackvec *v = stackacc_finish(acc, &e);
	assert_int_equal(memsource_add_profile(w->kit.mem, labels_builder_finish(&b), type, &p, v, &e), 0);
	stackvec_unref(v);
	labels_builder_free(&b);
}

static void sample(struct stackacc *acc, const struct mix *m, double cpu_seconds)
{
	for (size_t n = roll_poisson(cpu_seconds * HERTZ); n; n--)
		stackacc_add(acc, mix_roll(m), PERIOD_NS);
}

/* ---- rises ---- */

/* ./check exports the variable, empty. */
static bool long_form(void)
{
	const char *v = getenv("PYRRHA_LONG");
	return v && *v;
}

#define RUNS 100 /* in one world */

struct outcome {
	size_t late, early;
	double minutes; /* of those that were found, in all */
};

static void rises_of_world(struct outcome *o)
{
	struct world w;
	world_open(&w);
	w.fired = xcalloc(RUNS, sizeof *w.fired);
	for (size_t i = 0; i < RUNS; i++) {
		struct container *c = vec_add(&w.containers);
		snprintf(c->name, sizeof c->name, "r%zu", i);
		c->mix = &w.mixes.v[i % w.mixes.n];
		struct mix risen = mix_risen(w.symbols, c->mix);
		struct stackacc *acc = stackacc_new(w.symbols);
		double part = roll(); /* of the minute before BEGIN + DAY: how much of it is risen */
		/* yesterday, and the hours before the rise */
		for (int64_t t = BEGIN - 90 * MINUTE; t <= BEGIN + DAY + 20 * MINUTE; t += MINUTE) {
			if (t > BEGIN + 30 * MINUTE && t < BEGIN + DAY - 95 * MINUTE)
				continue;
			double before = t < BEGIN + DAY ? 1 : t == BEGIN + DAY ? 1 - part : 0;
			sample(acc, c->mix, 12 * before);
			sample(acc, &risen, 12 * (1 - before));
			put(&w, c, t, acc);
		}
		stackacc_free(acc);
		mix_free(&risen);
	}
	for (w.now = BEGIN + DAY - 10 * MINUTE; w.now <= BEGIN + DAY + 14 * MINUTE; w.now += MINUTE)
		rules_evaluate(w.kit.rules, w.now);
	for (size_t i = 0; i < RUNS; i++) {
		o->early += w.fired[i] && w.fired[i] < BEGIN + DAY;
		o->late += !w.fired[i];
		o->minutes += w.fired[i] ? (double)(w.fired[i] - BEGIN - DAY) / MINUTE : 0;
	}
	world_close(&w);
}

static void rises(void **state)
{
	(void)state;
	struct outcome o = { 0 };
	size_t runs = long_form() ? 1000 : RUNS;
	for (size_t n = 0; n < runs; n += RUNS)
		rises_of_world(&o);
	print_message("%zu rises: %zu found within 15 minutes, after %.1f at the mean; %zu paged before it\n", runs, runs - o.late,
		      runs > o.late ? o.minutes / (double)(runs - o.late) : NAN, o.early);
	assert_true(o.late * 100 <= runs);
	assert_int_equal(o.early, 0);
}

/* ---- quiet days ---- */

/* One day is looked at, of two: what is asked of yesterday. */
static void day(struct world *w, int64_t first, int64_t last)
{
	struct stackacc *acc = stackacc_new(w->symbols);
	for (size_t i = 0; i < w->containers.n; i++) {
		struct container *c = &w->containers.v[i];
		for (int64_t t = BEGIN; t <= BEGIN + DAY + last; t += MINUTE) {
			int64_t of_day = t - BEGIN >= DAY ? t - BEGIN - DAY : t - BEGIN;
			if ((t - BEGIN) % DAY == 0) {
				mix_free(&c->today);
				c->today = mix_copy(c->mix, 0.03);
			}
			if (t < c->since || (t - BEGIN < DAY ? of_day > last + 60 * MINUTE : of_day < first - 90 * MINUTE && first >= 90 * MINUTE))
				continue;
			if (t == c->deploy)
				c->pod++;
			double load = 0.6 - 0.4 * cos(2 * M_PI * (double)of_day / (double)DAY);
			sample(acc, &c->today, 60 * c->cores * load * (0.7 + 0.6 * roll()));
			if (t == c->deploy) /* what a start costs */
				sample(acc, &c->startup, 2);
			put(w, c, t, acc);
		}
	}
	stackacc_free(acc);
	for (w->now = BEGIN + DAY + first; w->now <= BEGIN + DAY + last; w->now += MINUTE)
		rules_evaluate(w->kit.rules, w->now);
}

static void quiet(void **state)
{
	(void)state;
	static const double cores[] = { 0.0002, 0.001, 0.005, 0.01, 0.03, 0.1, 0.2, 0.5, 1, 2 };
	bool is_long = long_form();
	size_t pages = 0, warnings = 0;
	int days = is_long ? 10 : 1;
	for (int d = 0; d < days; d++) {
		struct world w;
		int64_t first = is_long ? 0 : 100 * MINUTE, last = is_long ? DAY - MINUTE : 190 * MINUTE;
		world_open(&w);
		for (size_t i = 0; i < 2 * ARRAY_LEN(cores); i++) {
			struct container *c = vec_add(&w.containers);
			snprintf(c->name, sizeof c->name, "q%zu", i);
			c->mix = &w.mixes.v[i % w.mixes.n];
			c->startup = mix_copy(&w.mixes.v[(i + 1) % w.mixes.n], 0);
			c->cores = cores[i % ARRAY_LEN(cores)];
			c->deploy = BEGIN + DAY + first + (int64_t)(roll() * (double)((last - first) / MINUTE)) * MINUTE;
			c->since = i % 5 == 4 ? BEGIN + DAY + first + 20 * MINUTE : 0; /* new */
		}
		day(&w, first, last);
		print_message("day %d: %zu pages, %zu warnings\n", d + 1, w.pages, w.warnings);
		pages += w.pages;
		warnings += w.warnings;
		world_close(&w);
	}
	print_message("%d days of %zu containers: %zu pages, %zu warnings\n", days, 2 * ARRAY_LEN(cores), pages, warnings);
	assert_int_equal(pages, 0);
}

int main(void)
{
	const char *seed = getenv("PYRRHA_SEED");
	const struct CMUnitTest tests[] = { cmocka_unit_test(rises), cmocka_unit_test(quiet) };
	dice = seed ? strtoull(seed, NULL, 10) : 1;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
