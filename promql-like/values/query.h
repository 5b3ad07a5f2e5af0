/* SPDX-License-Identifier: Apache-2.0 */
/* The query at work, and the values that its nodes come to: series with one sample per step at which they exist. A sample of a
 * profile series carries the profile and its value in base units, so whatever only reads values works on both. One query is one
 * struct eval; pool threads may work on it together. Memory is counted here, and limits are checked here. */
#ifndef PYRRHA_PROMQL_QUERY_H
#define PYRRHA_PROMQL_QUERY_H

#include "base/budget.h"
#include "base/lock.h"
#include "base/map.h"
#include "promql-like/syntax/ast.h"
#include "promql-like/syntax/engine_names.h"
#include "promql-like/values/lazy_profile.h"
#include "promql-like/values/memory_guard.h"

struct metric;

struct span {
	int64_t start, end, step; /* ms; step > 0 */
	size_t n;
};

/* How many steps of stacks, or of all functions, are held at a time. */
#define STEPS_AT_ONCE 32

static inline int64_t span_at(const struct span *sp, size_t i)
{
	return sp->start + (int64_t)i * sp->step;
}

struct value_sample {
	int64_t t_ms;
	double v;
	struct lazy_profile *p; /* reference held; NULL: a float */
};

struct value_series {
	struct labels labels;
	bool drop_name;      /* __name__ goes at the end of the query */
	struct value_sample *s;
	size_t n, cap;
};

struct value {
	enum promql_type type;
	struct value_series *s;    /* of a scalar: one, without labels, a sample at every step */
	size_t n, cap;
	struct view str;
	struct eval *q;      /* the node whose samples are counted */
};

struct annotation {
	struct view text;
	bool info;
};

struct eval {
	struct source_view *view;
	struct promql_expr *x;
	struct span top;            /* of the whole query */
	bool is_range;
	int64_t lookback_ms, subquery_step_ms;
	uint64_t max_samples, max_bytes;
	uint32_t max_series, max_functions;
	int64_t timeout_ms;
	struct source_limits lim, stream_lim;
	struct regex_meter regex;   /* of all its matches */
	struct pool *pool;
	struct engine_names *names; /* reference */
	const atomic_bool *canceled;
	struct guarded guarded;     /* of the engine's memory guard */
	int64_t deadline_ns;

	struct mutex lock;          /* of what follows */
	struct arena arena;         /* labels, strings; freed with the query */
	VEC(struct annotation) notes;
	VEC(struct matcher *) matchers; /* made for aliases */
	struct mutex memo_lock;
	struct value *memo;         /* of step-invariant nodes, by node id */
	struct mutex symbols_lock;    /* for writing into symbols */
	struct symbols *symbols;    /* the query's own dictionary; NULL until needed */
	atomic_uint_fast64_t held, peak, bytes; /* bytes: of stacks and profiles, in memory */
	atomic_int_fast64_t profile_bytes; /* of profiles held as samples, about */
	struct budget *budget;      /* of all queries of its kind of asker; NULL: none */
	const char *budget_flag;    /* what sets it */
	atomic_uint_fast64_t budgeted; /* bytes of it that are this query's */
	atomic_uint_fast64_t wanted; /* the same, and bytes that its threads ask for at the moment */
	atomic_uint_fast64_t arena_bytes, arena_held; /* bytes that were allocated from the arena; how many of them are counted in `budgeted` */
	uint64_t share;             /* a query that holds more of it is large */
	struct metric *held_metric; /* bytes of all queries; NULL: not counted */
	struct source_stats stats;  /* of what no node of explain is charged with */
	struct source_damage damage;
	atomic_uint readers;        /* threads that wait for the source, since when, and how long any did before */
	atomic_int_fast64_t read_since_ns, read_ns;
	atomic_uint_fast64_t read, streamed; /* samples that were read to be held, to be added up at once */
	atomic_uint_fast64_t counted, counted_read; /* what a result says of samples */
	bool count;                 /* they are wanted */
	enum symbols_detail detail; /* of stacks that it fetches */
	struct explain *explain;    /* by node id; NULL = not asked for */
	struct promql_shared *once; /* what is computed once; NULL: nothing is */
	struct promql_shared *own_once; /* the same, if it is the query's own */
	struct buf text;            /* of the query, canonical */
	struct node_text *texts;    /* of its nodes, by id */
};

/* ---- values ---- */

struct value_series *value_add(struct value *v, struct labels l, bool drop_name);
/* Frees what it holds; safe on a zeroed one. */
void value_free(struct value *v);
void series_free(struct value *v, struct value_series *s);
/* From now on it is a number only. */
void sample_drop_profile(struct eval *q, struct value_sample *s);
/* Takes the reference to p. ERR_LIMIT past max_samples. */
int series_push(struct eval *q, struct value_series *s, int64_t t_ms, double v, struct lazy_profile *p, struct err *e) MUST_USE;
/* Counts n samples that are held for a while without being in a series; let go with eval_unhold. */
int eval_hold(struct eval *q, size_t n, struct err *e) MUST_USE;
void eval_unhold(struct eval *q, size_t n);
void value_start(struct eval *q, struct value *v, enum promql_type t);
/* Takes out series without samples. */
void value_compact(struct value *v);
/* The end of an evaluation that came to rc: an error frees v, else it is compacted and handed over in *ret. Returns rc. */
int value_finish(struct value *v, int rc, struct value *ret);
/* The scalar at step i. */
static inline double value_scalar(const struct value *v, size_t i)
{
	return v->s[0].s[i].v;
}
/* Copies with references of their own. */
int value_copy_steps(struct eval *q, const struct value *from, const struct span *sp, struct value *ret, struct err *e) MUST_USE;

/* Walks the samples of many series step by step: cursors[i] is where series i is. Yields the sample at t or NULL. */
static inline struct value_sample *series_at(struct value_series *s, size_t *cursor, int64_t t)
{
	while (*cursor < s->n && s->s[*cursor].t_ms < t)
		(*cursor)++;
	return *cursor < s->n && s->s[*cursor].t_ms == t ? &s->s[*cursor] : NULL;
}

/* ---- what bounds a query ---- */

/* Around each call of the source: the time in which any thread of the query is in one. */
void eval_read_begin(struct eval *q);
void eval_read_end(struct eval *q);
/* Counts n bytes of stacks that the query holds from now on; ERR_LIMIT above --query.max-bytes. The end of the query gives back
 * what eval_give_bytes has not. */
int eval_hold_bytes(struct eval *q, uint64_t n, struct err *e) MUST_USE;
void eval_give_bytes(struct eval *q, uint64_t n);
/* Counts n bytes towards --query.memory. ERR_LIMIT: the query would hold more than one may have, even without others; ERR_BUSY: other
 * queries hold the memory. Also done by eval_hold and eval_hold_bytes. */
int eval_budget(struct eval *q, uint64_t n, struct err *e) MUST_USE;
void eval_budget_give(struct eval *q, uint64_t n);
/* Counts what the arena holds by now, labels above all, towards --query.memory. Also done by eval_check and series_push. */
int eval_hold_arena(struct eval *q, struct err *e) MUST_USE;
/* Gives it back: the arena is freed soon. */
void eval_give_arena(struct eval *q);
/* Canceled, timed out. */
int eval_check(struct eval *q, struct err *e) MUST_USE;
/* The same in a loop, at every 64th i from 0 on. A loop over steps needs it: a query has up to --query.max-samples of them, at most or all of
 * which its series may have no sample, so that nothing else ends it. */
int eval_check_at(struct eval *q, size_t i, struct err *e) MUST_USE;
/* The source's view of a query's limits. */
const struct source_limits *eval_limits(struct eval *q);
/* For what is read and added up at once: max_samples is about what a query holds. */
const struct source_limits *eval_stream_limits(struct eval *q);

/* ---- its memory, its notes ---- */

void eval_note(struct eval *q, bool info, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* In the query's arena, any thread. */
void *eval_alloc(struct eval *q, size_t n);
struct view eval_view(struct eval *q, struct view v);
struct labels eval_labels(struct eval *q, struct labels_builder *b);
struct labels eval_project(struct eval *q, struct labels l, const struct node_labels *names, bool keep);
/* Only these names (by) or all but these and __name__ (without). */
struct labels eval_group_labels(struct eval *q, struct labels l, const struct node_labels *by, bool without);
struct labels eval_drop_name(struct eval *q, struct labels l);
/* A place in the query for notes: "1:5". */
char *eval_place(struct eval *q, uint32_t at, char out[32]);
/* Returns rc; an error that has no place yet gets that of n: "1:5: ...". Not an error unrelated to the query's text: timeout,
 * cancellation, a failure of the machine. */
int eval_error_at(struct eval *q, const struct node *n, int rc, struct err *e);
/* Whether a message begins with a place; *ret_rest is what follows it, else the message. */
bool eval_has_place(struct view msg, struct view *ret_rest);

/* ---- labels ---- */

/* Groups: id of each series by its labels under the clause; *ret_labels has each group's. */
struct series_groups {
	uint32_t *of;           /* by series */
	struct labels *labels;  /* by group */
	bool *drop_name;
	size_t n;
};
void groups_make(struct eval *q, const struct labels *l, const bool *drop_name, size_t n, const struct node_labels *by,
		 bool without, struct series_groups *ret);
void groups_free(struct series_groups *g);
/* A name for annotations. */
struct view metric_name(struct labels l);

#endif
