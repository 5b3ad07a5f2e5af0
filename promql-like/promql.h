/* SPDX-License-Identifier: Apache-2.0 */
/* ProfQL: PromQL over floats and profiles. Parse a query, print it, evaluate it over a source. An engine may be used
 * by any number of threads at once; an expression and a result belong to the thread that made them. */
#ifndef PYRRHA_PROMQL_PROMQL_H
#define PYRRHA_PROMQL_PROMQL_H

#include "model/source.h"

/* ---- expressions ---- */

enum promql_type { PROMQL_NONE, PROMQL_SCALAR, PROMQL_STRING, PROMQL_VECTOR, PROMQL_MATRIX };
/* "scalar", "string", "vector", "matrix" as the API spells resultType. */
const char *promql_type_text(enum promql_type t);

struct promql_expr;

/* Features that are experimental in Prometheus, and off unless they are enabled before the first query is parsed. */
enum promql_feature {
	PROMQL_FILL = 1,             /* fill, fill_left, fill_right */
	PROMQL_EXTENDED_RANGES = 2,  /* anchored, smoothed */
	PROMQL_EXPERIMENTAL = 4,     /* info; other experimental functions need no switch here */
	PROMQL_ALL_FEATURES = 7,
};
void promql_enable(unsigned features);
unsigned promql_enabled(void);
/* By its name in Prometheus's --enable-feature; 0 if it is unknown. */
unsigned promql_feature(struct view name);

/* The query is copied. Errors read `1:5: parse error: ...`, line and column from 1. Returns owned. */
int promql_parse(struct promql_expr **ret, struct view query, struct err *e) MUST_USE;
void promql_expr_free(struct promql_expr *x);
/* On one line, canonical. */
void promql_expr_print(const struct promql_expr *x, struct buf *out);
/* As format_query: broken over lines where it is long. It takes time and memory in proportion to what comes out, at most
 * 16 MiB: ERR_LIMIT beyond; ERR_TIMEOUT and ERR_CANCELED of lim, which may be NULL. After an error nothing was added. */
int promql_format(const struct promql_expr *x, const struct source_limits *lim, struct buf *out, struct err *e) MUST_USE;
/* The tree as parse_query answers it, within the same bounds. */
int promql_expr_json(const struct promql_expr *x, const struct source_limits *lim, struct buf *out, struct err *e) MUST_USE;

/* A selector alone, as match[] has it; aliases of profile types are expanded. The matchers and their strings are in the expression. */
int promql_parse_selector(struct promql_expr **ret, struct view text, const struct matcher **ret_m, size_t *ret_n,
			  struct err *e) MUST_USE;

/* The kind of the expression's profiles when a rule records them at this interval (rule 8 of docs/profql.md). ERR_BAD_DATA: they
 * cannot be recorded; the message is as of promql_parse. */
enum promql_recorded {
	PROMQL_RECORDED_GAUGE,
	PROMQL_RECORDED_DELTA,  /* what was observed in the interval, unless what is found are gauges */
	PROMQL_RECORDED_NEWEST, /* as they stand: fine for gauges, deltas would count once per evaluation */
};
int promql_recorded(const struct promql_expr *x, int64_t interval_ms, enum promql_recorded *ret, struct err *e) MUST_USE;

/* A share or a self_share that is compared with a number; not of a difference, whose samples cannot be counted. Borrowed for the
 * call. */
struct promql_threshold {
	struct view share, profiles; /* canonical: the readout, and what it reads */
	double number;
	uint32_t at;                 /* byte of the expression's text where the readout begins */
};
typedef void (*promql_threshold_fn)(void *arg, const struct promql_threshold *t);
/* All of the expression, in its order; those in subqueries, which are of other times, are left out. */
void promql_thresholds(const struct promql_expr *x, promql_threshold_fn fn, void *arg);

/* The i-th function or aggregation of the language, for completion and documentation; NULL past the last. */
struct promql_function_info {
	const char *name, *signature, *doc;
	bool aggregation;
	bool profiles; /* takes or gives profiles */
	const char *returns; /* "values", "profiles", "the same" (of profiles profiles, else values), "scalar", "frame matcher" */
	const char *example; /* a query that has it and answers on any server */
};
const struct promql_function_info *promql_function_at(size_t i);

/* The i-th part of the language that is no function; NULL past the last. */
enum promql_construct_kind { PROMQL_SELECTOR, PROMQL_OPERATOR, PROMQL_TYPE };
struct promql_construct {
	enum promql_construct_kind kind;
	const char *signature, *returns, *doc, *example; /* as of a function; of a type its name and what it is */
};
const struct promql_construct *promql_construct_at(size_t i);

/* An estimate of a query's work from its text: about the steps of its nodes and the minutes that its selectors read. step_ms 0: at one
 * time. *ret_reads: whether it reads what is stored. 0 for one that does not parse. */
double promql_weight(struct view query, int64_t start_ms, int64_t end_ms, int64_t step_ms, bool *ret_reads);

/* ---- engine ---- */

struct promql_engine;

struct promql_alias {
	const char *alias, *name;
};

/* Zero means the default in brackets. */
struct promql_options {
	int64_t lookback_ms;          /* how far back an instant selector looks (5m) */
	int64_t timeout_ms;           /* upper bound of a query's time, waiting included (2m) */
	int64_t subquery_step_ms;     /* resolution of [1h:] (1m) */
	uint64_t max_samples;         /* held by one query at a time (50,000,000) */
	uint64_t max_bytes;           /* of stacks held by one query (2 GiB) */
	uint64_t max_total_bytes;     /* of stacks and samples held by all together (4 GiB) */
	uint64_t memory_limit;        /* of the process: temporary memory of queries must not exceed it (0: not checked) */
	uint64_t (*resident)(void);   /* bytes of it that are taken; NULL: as the kernel tells */
	uint32_t max_series;          /* in one result (100,000) */
	uint32_t max_functions;       /* or lines, files ... in one readout (1,000,000) */
	unsigned max_concurrency;     /* queries of people at work; more wait (20) */
	unsigned max_rule_concurrency; /* queries of rules at work: places of their own (4) */
	uint64_t max_rule_bytes;      /* as max_total_bytes, of rules: a budget of their own, beside that (a quarter of it) */
	struct pool *pool;            /* of people's queries; borrowed; NULL = each on its caller's thread */
	struct pool *rule_pool;       /* the same, of rules' queries */
	const struct promql_alias *aliases; /* besides those of model/ptype.h; copied */
	size_t n_aliases;
	const char *const *replica_labels; /* docs/profql.md rule 6; copied */
	size_t n_replica_labels;
	const char *active_query_file; /* one line per running query; what it holds at start was running at a crash */
	int64_t slow_query_ms;        /* queries that take longer are told to slow_query; 0 = none are */
	void (*slow_query)(void *arg, const char *query, int64_t duration_ms, uint64_t samples, const struct err *e);
	void *arg;
};

/* Who asks. Each has places (and memory) of its own, so that neither keeps the other waiting. */
enum promql_asker { PROMQL_PEOPLE, PROMQL_RULES, PROMQL_ASKERS };
/* Whether an answer may lack what a server has that could not be asked (source_limits.whole). */
enum promql_partial {
	PROMQL_PARTIAL_DEFAULT, /* as the engine has it: unless told otherwise, people's queries may, rules' may not */
	PROMQL_PARTIAL_ALLOW,   /* it may, with a warning */
	PROMQL_PARTIAL_REFUSE,  /* it may not: ERR_UNAVAILABLE */
};

/* Other aliases and replica labels than those of its options, for queries that begin from now on. Copies. */
void promql_engine_rename(struct promql_engine *g, const struct promql_alias *aliases, size_t n_aliases, const char *const *replica_labels,
			  size_t n_replica_labels);
/* What PROMQL_PARTIAL_DEFAULT means to queries of that asker that begin from now on. */
void promql_engine_set_partial(struct promql_engine *g, enum promql_asker asker, enum promql_partial partial);
/* Whether such a query must have a whole answer; g may be NULL. */
bool promql_engine_whole(struct promql_engine *g, enum promql_asker asker, enum promql_partial partial);
/* promql_parse_selector, with the engine's aliases; g may be NULL. */
int promql_engine_selector(struct promql_engine *g, struct promql_expr **ret, struct view text, const struct matcher **ret_m, size_t *ret_n,
			   struct err *e) MUST_USE;
/* Borrows the source. */
struct promql_engine *promql_engine_new(struct source *s, const struct promql_options *o) MUST_USE;
/* Another source, with the current bounds and names of g: for a second engine beside it. One query at a time, and a quarter of its
 * memory, are this engine's own. Borrows the source and what g borrows. */
struct promql_engine *promql_engine_beside(struct promql_engine *g, struct source *s) MUST_USE;
/* No query may be at work. */
void promql_engine_free(struct promql_engine *g);
/* Queries that were running when the process that last used active_query_file ended, one per line; "" if none. */
const char *promql_engine_crashed_queries(const struct promql_engine *g);
/* Registers pyrrha_engine_*: once, by main. */
void promql_register_metrics(void);

struct promql_shared;

struct promql_params {
	enum promql_asker asker;
	struct promql_shared *shared; /* of instant queries: NULL = nothing is shared */
	enum promql_partial partial;
	bool as_first;                /* of shared: nothing that was written since (promql_shared_wrote) may be read by it */
	const atomic_bool *canceled;  /* NULL = cannot be; the client went away. Set with flag_raise (base/flag.h) */
	void (*waits)(void *arg);     /* called when the query waits for data of another machine, as in source_limits; NULL = nobody wants to know */
	void *waits_arg;
	int64_t timeout_ms;           /* 0 = the engine's; never more than that */
	int64_t arrived_ns;           /* from when that counts, CLOCK_MONOTONIC; 0 = from now */
	int64_t lookback_ms;          /* 0 = the engine's */
	bool profiles;                /* the answer's profiles are wanted with their stacks, not only their values */
	bool addresses;               /* of profiles: with all of their locations. Else locations that show the same (SYMBOLS_NAMES) may be one */
	bool explain;                 /* fill result.explain */
	bool count;                   /* result.samples and samples_read are wanted: each profile of a graph is looked at for that */
};

/* ---- results ---- */

/* A profile of the answer. A rate is here as its increase: value == vec's total / per_s, in base units. */
struct promql_profile {
	const struct ptype *type;
	struct stackvec *vec;     /* native unit; reference held by the result; NULL unless params.profiles */
	struct stackvec *base;    /* of a diff: what was subtracted; NULL: no diff. Same symbols as vec */
	double value;             /* vec - base, base units (seconds, bytes, counts) */
	double first;             /* of vec alone: the same as value, but for a diff */
	double per_s;             /* a rate over that many seconds; 0 = no rate */
	double covered_s;         /* wall time that profiles cover: the union over series, the largest of those added; 0 for a gauge's snapshot */
	double weight;            /* the sum of value x weight / the sum of value, so that value x weight / covered_s is the rate. It is 1 if all of
				   * the time was measured, and for results of rate and increase. For a diff it is the weight of vec */
	bool mixed;               /* the weights differ: so do those of functions, of which only the mean is known */
	bool moment;              /* covered_s is the length of one measurement, not of the range of the query */
	int64_t period;           /* the largest of those merged; 0 = none */
};

struct promql_series {
	struct labels labels;
	size_t n;                 /* a vector's element has one point */
	struct point *points;
	struct promql_profile *profiles; /* parallel to points; NULL: floats, or a graph whose profiles are not needed */
};

struct promql_result {
	struct arena arena;       /* holds everything below */
	enum promql_type type;
	double scalar;            /* instant scalar (a range query's is one series without labels) */
	struct view string;
	int64_t t_ms;             /* of an instant query */
	struct promql_series *series; /* a matrix is sorted by labels; a vector is in the query's order */
	size_t n_series;
	struct view *warnings, *infos;
	size_t n_warnings, n_infos;
	/* Samples as Prometheus counts them: those that selectors and the windows of range functions used, counted at each step; and,
	 * of windows, only those that the previous step did not have. A subquery's own ones count as read. */
	uint64_t samples, samples_read;
	uint64_t bytes;           /* of chunks, in memory and on disk, that were read */
	uint64_t peak_samples;    /* most that were held at once */
	int64_t prepare_ns, inner_ns, sort_ns; /* what eval_ns is of */
	int64_t eval_ns, queue_ns;
	int64_t read_ns;          /* of eval_ns, that of which any thread was in the source; of a graph over stacks, what is done with each value, too */
	struct view explain;      /* a JSON object, if asked for */
	struct promql_hold *hold; /* what the engine counts for it until it is released; NULL: nothing */
};

/* ret is only written on success; release it with promql_result_release. ERR_BAD_DATA: the query or the steps are wrong;
 * ERR_EXECUTION: it cannot be answered; ERR_LIMIT, ERR_TIMEOUT: the message names the flag; ERR_CANCELED; and what the source
 * says. */
int promql_instant(struct promql_engine *g, struct view query, int64_t t_ms, const struct promql_params *p,
		   struct promql_result *ret, struct err *e) MUST_USE;
/* Steps start, start + step ... up to and including end. */
int promql_range(struct promql_engine *g, struct view query, int64_t start_ms, int64_t end_ms, int64_t step_ms,
		 const struct promql_params *p, struct promql_result *ret, struct err *e) MUST_USE;
/* While an answer is made of it: before `bytes` more are allocated for the answer. If the memory of the process is bounded, waits until concurrent
 * answers leave room. May be called several times; all of it is given back when the result is released, which is when the answer is
 * made. ERR_TIMEOUT, ERR_CANCELED: params.canceled is looked at. ERR_LIMIT, ERR_BUSY: there is no room; the message says what to ask
 * instead. The engine is there until the result is released. */
int promql_result_need(struct promql_result *r, uint64_t bytes, struct err *e) MUST_USE;
/* Whether the answer is still wanted: ERR_TIMEOUT, ERR_CANCELED. Cheap. */
int promql_result_go_on(const struct promql_result *r, struct err *e) MUST_USE;
void promql_result_release(struct promql_result *r);

/* The rows of a graph over stacks in a view of a source that does not know the language, for another server's query (source_ops.rows of a union): runs in this
 * thread and lim->pool, with the engine's memory. v: any view, of which the caller has a reference. ERR_BAD_DATA: g->readout is none that makes rows. */
int promql_rows(struct promql_engine *g, struct source_view *v, const struct source_graph *a, const struct source_limits *lim, bool *ret_fits, source_rows_fn fn,
		void *arg, struct err *e) MUST_USE;

/* Other work that reads the source of a server, as questions of another one: from enter to leave it counts as a query for what keeps the process within
 * promql_options.memory_limit. *ret_stopped: for source_limits; set if the work is to end, as the process is short of memory. samples_read: counts up; borrowed until leave.
 * Returns owned; never waits. */
struct promql_guarded;
struct promql_guarded *promql_guard_enter(struct promql_engine *g, const atomic_uint_fast64_t *samples_read, const atomic_bool **ret_stopped) MUST_USE;
void promql_guard_leave(struct promql_engine *g, struct promql_guarded *x);

/* ---- what several queries share ----
 *
 * The rules of a group ask, for one time, much the same: 500 of them a share of merge by (container)(on_cpu[5m]), each of
 * another function. Instant queries with params.shared see one state of the source. Their common subexpressions (equal canonical text,
 * time and look-back) are computed once. The answers equal those of separate queries. Typical use: one for each evaluation of a group
 * (or of all groups that are due for one time), freed after it.
 *
 *	s = promql_shared_new(g, 0)
 *	for each rule: promql_instant(g, expr, t, &(struct promql_params){ .asker = PROMQL_RULES, .shared = s }, ...)
 *	               after its samples became visible, if a later rule may read them: promql_shared_wrote(s, name)
 *	               (a rule that reads nothing of it sees with .as_first what those before it saw, and finds what they kept)
 *	promql_shared_free(s)
 *
 * Any number of threads may use one at once. Results without room in its memory are computed again. */
/* Borrows the engine. max_bytes: of what is kept, counted in the budget of rules (0: a quarter of that). */
struct promql_shared *promql_shared_new(struct promql_engine *g, uint64_t max_bytes) MUST_USE;
/* No query may be at work with it. */
void promql_shared_free(struct promql_shared *s);
/* Series of that name (empty: any) were written and are visible. Queries that begin from now on see a newer state, and no shared
 * results of selectors that such series may satisfy. */
void promql_shared_wrote(struct promql_shared *s, struct view name);
/* How often a subexpression was found, and computed and kept; what is kept. */
struct promql_shared_stats {
	uint64_t found, kept, bytes;
};
struct promql_shared_stats promql_shared_stats(struct promql_shared *s);
/* Whether an answer may depend on series of that name: for callers that have to wait until they are written. */
bool promql_may_read(const struct promql_expr *x, struct view name);

#endif
