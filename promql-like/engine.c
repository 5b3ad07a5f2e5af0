/* SPDX-License-Identifier: Apache-2.0 */
/* The engine admits queries (a few of each kind of asker run, the others wait), runs one over a view of the source, and returns the
 * answer as plain data. The active-query file has one fixed slot per query at work, so that after a crash it says what was running. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/flag.h"
#include "base/line.h"
#include "base/lock.h"
#include "base/metrics.h"
#include "base/units.h"
#include "promql-like/active_queries.h"
#include "promql-like/eval/eval.h"
#include "promql-like/hold.h"
#include "promql-like/result.h"
#include "promql-like/stacks/shared.h"
#include "promql-like/values/explain.h"

enum { M_QUERIES, M_MAX, M_DURATION, M_TOTAL, M_SAMPLES, M_BYTES, M_STOPPED };
static struct metric table[] = {
	[M_QUERIES] = { "pyrrha_engine_queries", "Queries at work or waiting.", METRIC_GAUGE },
	[M_MAX] = { "pyrrha_engine_queries_concurrent_max", "Most queries that may be at work.", METRIC_GAUGE },
	[M_DURATION] = { "pyrrha_engine_query_duration_seconds", "Time of a query by part.", METRIC_HISTOGRAM, "slice" },
	[M_TOTAL] = { "pyrrha_engine_queries_total", "Queries answered, by result.", METRIC_COUNTER, "result" },
	[M_SAMPLES] = { "pyrrha_engine_query_samples_total", "Samples read by queries.", METRIC_COUNTER },
	[M_BYTES] = { "pyrrha_engine_query_bytes", "Memory of the samples and stacks that queries at work hold; --query.memory bounds it.", METRIC_GAUGE },
	[M_STOPPED] = { "pyrrha_engine_queries_stopped_total", "Queries that were stopped as the process was short of memory.", METRIC_COUNTER },
};
static atomic_bool registered;

void promql_register_metrics(void)
{
	if (!atomic_exchange(&registered, true))
		metrics_register(table, ARRAY_LEN(table));
}

#define LOOK_AGAIN_MS 50 /* memory is measured: nobody tells who waits that it is no longer short */

/* Where one kind of asker's queries are at work. */
struct places {
	unsigned max, running, waiting;
	bool *taken;
	unsigned first;         /* line of the active-query file of place 0 */
	struct waiting_line line;       /* of those that wait */
	pthread_cond_t free_place;
	struct budget budget;
	struct pool *pool;
	const char *flag, *memory_flag;
};

struct promql_engine {
	struct source *source;
	struct promql_options o;
	struct engine_names *names;    /* reference; lock guards it. A query has one of its own */
	enum promql_partial partial[PROMQL_ASKERS]; /* lock guards it */
	struct mutex lock;      /* of all places */
	struct places places[PROMQL_ASKERS];
	struct active_queries *active; /* NULL = none */
	struct memory_guard *guard;    /* NULL = none */
};

static int64_t or_default(int64_t v, int64_t d)
{
	return v ? v : d;
}

const char *promql_engine_crashed_queries(const struct promql_engine *g)
{
	return active_queries_crashed(g->active);
}

/* ---- making ---- */

static void places_init(struct places *p, unsigned max, unsigned first, uint64_t max_bytes, const char *flag, const char *memory_flag)
{
	*p = (struct places){ .max = max, .first = first, .taken = xcalloc(max, sizeof *p->taken), .budget.max = (size_t)max_bytes,
			      .flag = flag, .memory_flag = memory_flag };
	pthread_cond_init(&p->free_place, NULL);
}

static void make_places(struct promql_engine *g)
{
	struct promql_options *o = &g->o;
	unsigned people = o->max_concurrency, rules = o->max_rule_concurrency ? o->max_rule_concurrency : 4;
	uint64_t all = o->max_total_bytes ? o->max_total_bytes : (uint64_t)4 << 30;
	places_init(&g->places[PROMQL_PEOPLE], people, 0, all, "--query.max-concurrency", "--query.memory");
	places_init(&g->places[PROMQL_RULES], rules, people, o->max_rule_bytes ? o->max_rule_bytes : all / 4,
		    "--rules.max-concurrent-evals", "a quarter of --query.memory, of rules");
	g->places[PROMQL_PEOPLE].pool = o->pool;
	g->places[PROMQL_RULES].pool = o->rule_pool;
}

struct promql_engine *promql_engine_new(struct source *s, const struct promql_options *o)
{
	struct promql_engine *g = NEW(struct promql_engine);
	g->source = s;
	g->o = *o;
	g->o.lookback_ms = or_default(o->lookback_ms, 300000);
	g->o.timeout_ms = or_default(o->timeout_ms, 120000);
	g->o.subquery_step_ms = or_default(o->subquery_step_ms, 60000);
	g->o.max_samples = o->max_samples ? o->max_samples : 50000000;
	g->o.max_bytes = o->max_bytes ? o->max_bytes : (uint64_t)2 << 30;
	g->o.max_series = o->max_series ? o->max_series : 100000;
	g->o.max_functions = o->max_functions ? o->max_functions : 1000000;
	g->o.max_concurrency = o->max_concurrency ? o->max_concurrency : 20;
	g->names = engine_names_new(o->aliases, o->n_aliases, o->replica_labels, o->n_replica_labels);
	mutex_init(&g->lock, RANK_ENGINE, "engine");
	make_places(g);
	g->guard = memory_guard_new(o->memory_limit, o->resident);
	if (o->active_query_file && *o->active_query_file)
		g->active = active_queries_open(o->active_query_file, g->places[PROMQL_PEOPLE].max + g->places[PROMQL_RULES].max);
	if (atomic_load(&registered)) {
		metric_set(&table[M_MAX], g->o.max_concurrency);
		metric_add(&table[M_BYTES], 0);
		metric_add(&table[M_STOPPED], 0);
	}
	return g;
}

void promql_engine_free(struct promql_engine *g)
{
	if (!g)
		return;
	active_queries_close(g->active);
	memory_guard_free(g->guard);
	engine_names_unref(g->names);
	for (size_t i = 0; i < PROMQL_ASKERS; i++) {
		free(g->places[i].taken);
		pthread_cond_destroy(&g->places[i].free_place);
	}
	mutex_destroy(&g->lock);
	free(g);
}

void promql_engine_rename(struct promql_engine *g, const struct promql_alias *aliases, size_t n_aliases, const char *const *replica_labels,
			  size_t n_replica_labels)
{
	struct engine_names *fresh = engine_names_new(aliases, n_aliases, replica_labels, n_replica_labels);
	mutex_lock(&g->lock);
	struct engine_names *old = g->names;
	g->names = fresh;
	mutex_unlock(&g->lock);
	engine_names_unref(old);
}

void promql_engine_set_partial(struct promql_engine *g, enum promql_asker asker, enum promql_partial partial)
{
	mutex_lock(&g->lock);
	g->partial[asker] = partial;
	mutex_unlock(&g->lock);
}

bool promql_engine_whole(struct promql_engine *g, enum promql_asker asker, enum promql_partial partial)
{
	if (g && partial == PROMQL_PARTIAL_DEFAULT) {
		mutex_lock(&g->lock);
		partial = g->partial[asker];
		mutex_unlock(&g->lock);
	}
	return partial == PROMQL_PARTIAL_REFUSE || (partial == PROMQL_PARTIAL_DEFAULT && asker == PROMQL_RULES);
}

static struct engine_names *current_names(struct promql_engine *g)
{
	mutex_lock(&g->lock);
	struct engine_names *n = engine_names_ref(g->names);
	mutex_unlock(&g->lock);
	return n;
}

struct promql_engine *promql_engine_beside(struct promql_engine *g, struct source *s)
{
	struct promql_options o = g->o;
	o.aliases = NULL;
	o.replica_labels = NULL;
	o.n_aliases = o.n_replica_labels = 0;
	o.active_query_file = NULL;
	o.slow_query_ms = 0;
	o.memory_limit = 0; /* g's guard looks after g's queries */
	o.max_rule_concurrency = 1;
	o.rule_pool = o.pool; /* somebody waits for it */
	o.max_total_bytes = g->places[PROMQL_PEOPLE].budget.max / 4;
	o.max_rule_bytes = o.max_total_bytes;
	struct promql_engine *beside = promql_engine_new(s, &o);
	engine_names_unref(beside->names);
	beside->names = current_names(g);
	for (unsigned asker = 0; asker < PROMQL_ASKERS; asker++)
		promql_engine_set_partial(beside, asker, promql_engine_whole(g, asker, PROMQL_PARTIAL_DEFAULT) ? PROMQL_PARTIAL_REFUSE : PROMQL_PARTIAL_ALLOW);
	return beside;
}

int promql_engine_selector(struct promql_engine *g, struct promql_expr **ret, struct view text, const struct matcher **ret_m, size_t *ret_n,
			   struct err *e)
{
	struct engine_names *n = g ? current_names(g) : NULL;
	int rc = parse_selector_alone(n, ret, text, ret_m, ret_n, e);
	engine_names_unref(n);
	return rc;
}

struct promql_shared *promql_shared_new(struct promql_engine *g, uint64_t max_bytes)
{
	return shared_of_source(g->source, &g->places[PROMQL_RULES].budget, max_bytes);
}

/* ---- admission ---- */

static bool canceled(const struct promql_params *p)
{
	return p->canceled && atomic_load(p->canceled);
}

static void tell_queries(const struct promql_engine *g) REQUIRES(g->lock)
{
	unsigned all = 0;
	for (size_t i = 0; i < PROMQL_ASKERS; i++)
		all += g->places[i].running + g->places[i].waiting;
	if (atomic_load(&registered))
		metric_set(&table[M_QUERIES], all);
}

/* Where memory is short one goes on beside nobody. */
static bool is_full(struct promql_engine *g, const struct places *at, bool is_short) REQUIRES(g->lock)
{
	return at->running >= at->max || (is_short && (at->running || memory_guard_makes(g->guard)));
}

static int enter(struct promql_engine *g, struct places *at, const struct promql_params *p, int64_t deadline_ns, struct view query,
		 unsigned *ret_place, struct err *e)
{
	int rc = 0;
	struct in_line me;
	struct flag_watch left;
	flag_watch(&left, p->canceled, &g->lock, &at->free_place);
	mutex_lock(&g->lock);
	at->waiting++;
	line_join(&at->line, &me);
	tell_queries(g);
	for (;;) {
		bool is_short = memory_guard_is_short(g->guard);
		if (line_is_first(&at->line, &me) && !is_full(g, at, is_short))
			break;
		if (canceled(p))
			rc = err_set(e, ERR_CANCELED, "query was canceled in query queue");
		else if (clock_mono_ns() > deadline_ns)
			rc = err_set(e, ERR_TIMEOUT, "query timed out in query queue: %u queries are at work (%s) and none "
				     "ended in time (--query.timeout)", at->running, at->flag);
		if (rc)
			break;
		int64_t until_ms = deadline_ns / 1000000 + 1;
		mutex_wait_ms(&g->lock, &at->free_place, is_short ? MIN(until_ms, clock_mono_ms() + LOOK_AGAIN_MS) : until_ms);
	}
	at->waiting--;
	line_leave(&at->line, &me, &at->free_place);
	if (!rc) {
		unsigned place = 0;
		while (at->taken[place])
			place++;
		at->taken[place] = true;
		at->running++;
		*ret_place = place;
	}
	tell_queries(g);
	mutex_unlock(&g->lock);
	flag_unwatch(&left);
	if (!rc)
		active_queries_put(g->active, at->first + *ret_place, query);
	return rc;
}

static void leave(struct promql_engine *g, struct places *at, unsigned place)
{
	active_queries_clear(g->active, at->first + place);
	mutex_lock(&g->lock);
	at->taken[place] = false;
	at->running--;
	tell_queries(g);
	pthread_cond_broadcast(&at->free_place);
	mutex_unlock(&g->lock);
}

static uint64_t samples_read(const struct eval *q)
{
	return atomic_load(&q->read) + atomic_load(&q->streamed);
}

static uint64_t samples_of(const struct guarded *x)
{
	return samples_read((const struct eval *)(const void *)((const char *)x - offsetof(struct eval, guarded)));
}

/* The remedy for a query that the guard stopped. */
static int stopped(struct promql_engine *g, struct err *e)
{
	char limit[24];
	if (atomic_load(&registered))
		metric_add(&table[M_STOPPED], 1);
	return err_set(e, ERR_BUSY, "the query was stopped: seven eighths of the %s that the process may use are taken, and it was at work when they "
		       "were. Ask for a shorter range, a larger step or fewer series, try again when there are fewer queries, or let the process use more",
		       units_format_size(g->o.memory_limit, limit));
}

/* ---- running ---- */

static void eval_init(struct eval *q, struct promql_engine *g, struct promql_expr *x, const struct promql_params *p,
		      int64_t timeout_ms, int64_t deadline_ns)
{
	struct places *at = &g->places[p->asker];
	*q = (struct eval){ .x = x, .pool = at->pool, .canceled = p->canceled, .guarded.samples = samples_of, .deadline_ns = deadline_ns };
	q->lookback_ms = p->lookback_ms ? p->lookback_ms : g->o.lookback_ms;
	q->subquery_step_ms = g->o.subquery_step_ms;
	q->max_samples = g->o.max_samples;
	q->max_bytes = g->o.max_bytes;
	q->budget = &at->budget;
	q->budget_flag = at->memory_flag;
	q->held_metric = atomic_load(&registered) ? &table[M_BYTES] : NULL;
	q->share = at->budget.max / 4 / at->max; /* of what is above the line of the large */
	q->max_series = g->o.max_series;
	q->max_functions = g->o.max_functions;
	q->timeout_ms = timeout_ms;
	q->names = current_names(g);
	q->regex = (struct regex_meter){ .deadline_mono_ns = deadline_ns, .canceled = p->canceled, .max_ns = REGEX_QUERY_NS,
					 .max_name = REGEX_QUERY_NAME };
	q->lim = (struct source_limits){ .deadline_mono_ns = deadline_ns, .canceled = p->canceled, .max_samples = g->o.max_samples,
					 .samples_read = &q->read, .stats = &q->stats, .pool = at->pool, .max_bytes = g->o.max_bytes };
	q->lim.damage = &q->damage;
	q->lim.whole = promql_engine_whole(g, p->asker, p->partial);
	q->lim.stopped = &q->guarded.stopped;
	q->lim.regex = &q->regex;
	q->lim.waits = p->waits;
	q->lim.waits_arg = p->waits_arg;
	q->stream_lim = q->lim;
	q->stream_lim.max_samples = 0;
	q->stream_lim.samples_read = &q->streamed;
	mutex_init(&q->lock, LOCK_LEAF, "query");
	mutex_init(&q->memo_lock, LOCK_LEAF, "query memo");
	mutex_init(&q->symbols_lock, RANK_QUERY_SYMBOLS, "query symbols");
	arena_init(&q->arena, 0);
	q->memo = xcalloc(x->n_nodes, sizeof *q->memo);
	q->count = p->count;
	q->detail = p->addresses || p->shared ? SYMBOLS_WHOLE : SYMBOLS_NAMES; /* stacks that are kept may be of use to a query that wants addresses */
	if (p->explain)
		q->explain = xcalloc(x->n_nodes, sizeof *q->explain);
}

static void eval_release(struct eval *q)
{
	promql_shared_free(q->own_once);
	buf_free(&q->text);
	free(q->texts);
	eval_give_bytes(q, atomic_load(&q->bytes));
	eval_budget_give(q, atomic_load(&q->budgeted));
	for (uint32_t i = 0; i < q->x->n_nodes; i++)
		value_free(&q->memo[i]);
	for (size_t i = 0; i < q->matchers.n; i++)
		matcher_release(q->matchers.v[i]);
	vec_free(&q->matchers);
	vec_free(&q->notes);
	free(q->memo);
	free(q->explain);
	symbols_unref(q->symbols);
	source_damage_release(&q->damage);
	engine_names_unref(q->names);
	arena_free(&q->arena);
	mutex_destroy(&q->lock);
	mutex_destroy(&q->memo_lock);
	mutex_destroy(&q->symbols_lock);
}

static int evaluate(struct eval *q, struct promql_params const *p, struct promql_result *r, struct err *e)
{
	struct node *root = q->x->root;
	struct value v = { 0 };
	int64_t from = clock_mono_ns();
	int rc = eval_prepare(q, root, e);
	if (q->is_range && !p->profiles)
		eval_want_values(root);
	if (!rc && !p->profiles)
		shared_mark(q, q->is_range ? NULL : p->shared);
	int64_t prepared = clock_mono_ns();
	if (!rc)
		rc = root->type == PROMQL_MATRIX ? eval_error_at(q, root, eval_matrix(q, root, q->top.start, &v, e), e)
						 : eval_node(q, root, &q->top, &v, e);
	int64_t evaluated = clock_mono_ns();
	if (!rc)
		rc = eval_error_at(q, root, result_fill(r, q, &v, p->profiles, e), e);
	value_free(&v);
	r->prepare_ns = prepared - from;
	r->inner_ns = evaluated - prepared;
	r->sort_ns = clock_mono_ns() - evaluated;
	return rc;
}

static int run_in_slot(struct promql_engine *g, struct eval *q, const struct promql_params *p, struct promql_result *ret,
		       struct err *e)
{
	struct promql_result r = { .t_ms = q->top.end };
	arena_init(&r.arena, 0);
	int rc = p->shared && !q->is_range ? shared_open(p->shared, p->as_first, &q->view, e) : g->source->open(g->source, &q->view, e);
	if (!rc) {
		int64_t from = clock_mono_ns();
		rc = evaluate(q, p, &r, e);
		r.eval_ns = clock_mono_ns() - from;
		r.read_ns = MIN(atomic_load(&q->read_ns), r.eval_ns);
		if (p->shared && !q->is_range)
			shared_close(p->shared, q->view);
		else
			q->view->ops->release(q->view);
	}
	r.samples = atomic_load(&q->counted);
	r.samples_read = atomic_load(&q->counted_read);
	struct source_stats read;
	explain_all_read(q, &read);
	r.bytes = read.bytes;
	r.peak_samples = atomic_load(&q->peak);
	if (rc) {
		promql_result_release(&r);
		return rc;
	}
	*ret = r;
	return 0;
}

static void account(struct promql_engine *g, struct view query, int64_t total_ns, int64_t queue_ns, uint64_t samples, int rc,
		    const struct err *e)
{
	int64_t ms = total_ns / 1000000;
	if (g->o.slow_query && g->o.slow_query_ms && ms >= g->o.slow_query_ms) {
		char *text AUTOFREE = xstrndup(query.ptr ? query.ptr : "", query.len);
		g->o.slow_query(g->o.arg, text, ms, samples, rc ? e : NULL);
	}
	if (!atomic_load(&registered))
		return;
	metric_observe(&table[M_DURATION], (double)queue_ns / 1e9, "queue_time");
	metric_observe(&table[M_DURATION], (double)(total_ns - queue_ns) / 1e9, "inner_eval");
	metric_add(&table[M_TOTAL], 1, rc ? err_info(e->code)->type : "success");
	metric_add(&table[M_SAMPLES], (double)samples);
}

static int run(struct promql_engine *g, struct view query, const struct span *top, bool is_range,
	       const struct promql_params *given, struct promql_result *ret, struct err *err)
{
	struct promql_params p = given ? *given : (struct promql_params){ 0 };
	struct err own = { 0 }, *e = err ? err : &own;
	int64_t from = p.arrived_ns ? p.arrived_ns : clock_mono_ns(), queued = from, timeout = g->o.timeout_ms;
	if (p.timeout_ms > 0)
		timeout = MIN(timeout, p.timeout_ms);
	int64_t deadline = from + timeout * 1000000;
	struct promql_expr *x;
	struct places *at = &g->places[p.asker];
	unsigned place;
	int rc = promql_parse(&x, query, e);
	if (rc)
		return rc;
	if (is_range && x->root->type != PROMQL_SCALAR && x->root->type != PROMQL_VECTOR)
		rc = err_set(e, ERR_BAD_DATA, "invalid expression type \"%s\" for range query, must be Scalar or instant Vector",
			     type_documented(x->root->type));
	if (!rc)
		rc = enter(g, at, &p, deadline, x->src, &place, e);
	if (rc) {
		promql_expr_free(x);
		return rc;
	}
	queued = clock_mono_ns();
	struct eval *q = NEW(struct eval);
	eval_init(q, g, x, &p, timeout, deadline);
	q->top = *top;
	q->is_range = is_range;
	memory_guard_enter(g->guard, &q->guarded);
	rc = run_in_slot(g, q, &p, ret, e);
	eval_give_arena(q);
	if (!rc && p.asker == PROMQL_PEOPLE)
		ret->hold = hold_new(g->guard, q);
	if (!rc)
		ret->queue_ns = queued - from;
	else if (atomic_load(&q->guarded.stopped))
		rc = stopped(g, e);
	account(g, x->src, clock_mono_ns() - from, queued - from, samples_read(q), rc, e);
	eval_release(q);
	memory_guard_leave(g->guard, &q->guarded);
	free(q);
	leave(g, at, place);
	promql_expr_free(x);
	return rc;
}

int promql_instant(struct promql_engine *g, struct view query, int64_t t_ms, const struct promql_params *p,
		   struct promql_result *ret, struct err *e)
{
	struct span one = { t_ms, t_ms, 1, 1 };
	return run(g, query, &one, false, p, ret, e);
}

int promql_range(struct promql_engine *g, struct view query, int64_t start_ms, int64_t end_ms, int64_t step_ms,
		 const struct promql_params *p, struct promql_result *ret, struct err *e)
{
	if (step_ms <= 0)
		return err_set(e, ERR_BAD_DATA, "zero or negative query resolution step widths are not accepted: use a positive step");
	if (end_ms < start_ms)
		return err_set(e, ERR_BAD_DATA, "end timestamp must not be before start time");
	uint64_t steps = ((uint64_t)end_ms - (uint64_t)start_ms) / (uint64_t)step_ms + 1;
	if (steps > g->o.max_samples)
		return err_set(e, ERR_LIMIT, "%llu steps are more than the limit of %llu samples (--query.max-samples)",
			       (unsigned long long)steps, (unsigned long long)g->o.max_samples);
	struct span top = { start_ms, end_ms, step_ms, (size_t)steps };
	return run(g, query, &top, true, p, ret, e);
}

int promql_rows(struct promql_engine *g, struct source_view *v, const struct source_graph *a, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn,
		void *arg, struct err *e)
{
	struct promql_expr *x;
	const struct promql_params p = { .asker = PROMQL_PEOPLE, .canceled = lim->canceled };
	int rc = promql_parse(&x, a->readout, e);
	if (rc)
		return rc;
	struct eval *q = NEW(struct eval);
	eval_init(q, g, x, &p, g->o.timeout_ms, lim->deadline_mono_ns);
	q->top = (struct span){ 0, (int64_t)a->n_steps - 1, 1, a->n_steps };
	q->is_range = true;
	q->stream_lim = q->lim = *lim;
	q->max_bytes = lim->max_bytes && (!q->max_bytes || lim->max_bytes < q->max_bytes) ? lim->max_bytes : q->max_bytes;
	q->lim.stopped = q->stream_lim.stopped = &q->guarded.stopped;
	q->view = v;
	q->stream_lim.max_samples = 0; /* as in eval_init */
	memory_guard_enter(g->guard, &q->guarded);
	rc = readout_answer(q, x->root, a, &q->top, ret_fits, fn, arg, e);
	eval_give_arena(q);
	if (rc && atomic_load(&q->guarded.stopped))
		rc = stopped(g, e);
	eval_release(q);
	memory_guard_leave(g->guard, &q->guarded);
	free(q);
	promql_expr_free(x);
	return rc;
}

/* ---- other work ---- */

struct promql_guarded {
	struct guarded guarded;
	const atomic_uint_fast64_t *samples;
};

static uint64_t guarded_samples(const struct guarded *x)
{
	return atomic_load(((const struct promql_guarded *)(const void *)((const char *)x - offsetof(struct promql_guarded, guarded)))->samples);
}

struct promql_guarded *promql_guard_enter(struct promql_engine *g, const atomic_uint_fast64_t *samples_read, const atomic_bool **ret_stopped)
{
	struct promql_guarded *x = NEW(struct promql_guarded);
	x->guarded.samples = guarded_samples;
	x->samples = samples_read;
	*ret_stopped = &x->guarded.stopped;
	memory_guard_enter(g->guard, &x->guarded);
	return x;
}

void promql_guard_leave(struct promql_engine *g, struct promql_guarded *x)
{
	memory_guard_leave(g->guard, &x->guarded);
	if (atomic_load(&x->guarded.stopped) && atomic_load(&registered))
		metric_add(&table[M_STOPPED], 1);
	free(x);
}
