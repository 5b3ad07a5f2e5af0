/* SPDX-License-Identifier: Apache-2.0 */
/* Rules: expressions that are evaluated at intervals, recorded as series or told as alerts. Rule files are read into a struct
 * rules_config, which never changes. struct rules evaluates it, with its own threads or step by step for callers with their own clock
 * (unit tests of rules, the past). */
#ifndef PYRRHA_RULES_RULES_H
#define PYRRHA_RULES_RULES_H

#include <stdatomic.h>

#include "base/buf.h"
#include "config/config.h"
#include "model/labels.h"
#include "model/rules_past.h"
#include "model/rules_status.h"
#include "model/sink.h"
#include "model/source.h"
#include "promql-like/promql.h"

/* ---- rule files ---- */

struct template;

/* A label or an annotation; of an alert a template. */
struct rule_text {
	struct view name, text;
	struct template *parsed;     /* NULL: no template, the text as it stands */
};

struct rule {
	bool alerting, profiles;
	struct view name;            /* record or alert */
	struct view expr;            /* as it was written */
	struct view canonical;       /* as it is printed */
	struct promql_expr *parsed;
	struct labels labels;        /* the group's and, stronger, its own; sorted */
	struct labels annotations;
	const struct rule_text *label_texts, *annotation_texts; /* as many, in the same order */
	int64_t for_ms, keep_firing_for_ms;
	bool delta, newest;          /* profiles: enum promql_recorded */
	uint32_t line, column;
};

struct rule_group {
	struct view name, file;      /* the file as rule_files led to it */
	int64_t interval_ms;         /* evaluation_interval where the file has none */
	int64_t query_offset_ms;     /* global.rule_query_offset where the file has none */
	int64_t limit;               /* 0 = none */
	const struct rule *rules;
	size_t n_rules;
	struct view text;            /* all that decides how it behaves: groups with equal ones are the same */
	uint32_t line, column;
};

struct rules_config {
	const struct rule_group *groups; /* in the order of files, and in them as they stand */
	size_t n_groups;
	struct labels external_labels;
	int64_t evaluation_interval_ms, query_offset_ms;
	int64_t late_ms;             /* a scrape interval and timeout: by then what was observed has arrived */
	const char *empty_file;      /* an empty one: it may be in the middle of being written; NULL = none */
	/* The rest is private. */
	size_t n_files;
	struct arena arena;
	int refs;
};

/* How files are read. Zero: as the server does. */
struct rules_how {
	bool ignore_unknown_fields;
	struct config_sources *sources; /* notes what was read; may be NULL */
	/* One problem a line, without newline: "file:line:column: text". May be NULL. */
	void (*problem)(void *arg, const char *text);
	void (*warn)(void *arg, const char *text);
	/* Each share that an expression compares with a number; where: "file:line:column". May be NULL. */
	void (*threshold)(void *arg, const struct promql_threshold *t, const char *where);
	void *arg;
};

/* The result of the configuration's section rule_files. Errors: *e is the first problem, with the number of the others; how->problem
 * gets all. Returns owned (one reference). */
int rules_config_parse(struct rules_config **ret, const struct config_tree *t, const struct rules_how *how, struct err *e) MUST_USE;
/* These files, with the intervals of g; for tools. */
struct config_global;
int rules_config_load(struct rules_config **ret, const char *const *files, size_t n, const struct config_global *g,
		      const struct rules_how *how, struct err *e) MUST_USE;
/* One file that is in memory already. */
int rules_config_read(struct rules_config **ret, struct view text, const char *name, const struct config_global *g,
		      const struct rules_how *how, struct err *e) MUST_USE;
struct rules_config *rules_config_ref(struct rules_config *c);
void rules_config_unref(struct rules_config *c);
/* "rule_files: 2 files, 3 groups, 12 rules" for --config.check. */
void rules_config_check(const struct rules_config *c, struct buf *out);

/* ---- what alerts are handed to ---- */

/* An alert that fires, or that has ended. Everything is borrowed for the call. */
struct alert {
	struct labels labels, annotations; /* without external_labels */
	int64_t starts_at_ms;        /* when it fired */
	int64_t ends_at_ms;          /* when it was resolved; otherwise when it expires without an update: now + 4 x max(interval, resend delay) */
	bool resolved;
	struct view generator_url;
};

/* Alerts arrive here when they begin to fire, each resend delay while they do, when they are resolved, and for 15 minutes more.
 * Called from a thread that evaluates, one group at a time, after the state of the alerts is durable: it must not wait. */
struct alert_sink {
	void (*send)(void *arg, const struct alert *a, size_t n);
	void *arg;
};

/* ---- evaluation ---- */

struct rules;

/* Zero means the default in brackets. */
struct rules_options {
	struct promql_engine *engine;    /* borrowed, as all below */
	struct source *source;           /* the own storage: where ALERTS_FOR_STATE is found after a restart */
	struct source *queried;          /* what the engine reads; NULL: source */
	struct sink *sink;
	const struct alert_sink *alerts; /* NULL: no notifications */
	const char *external_url;        /* "http://host:7070", without / at its end */
	int64_t outage_tolerance_ms;     /* --rules.alert.for-outage-tolerance (1h) */
	int64_t grace_ms;                /* --rules.alert.for-grace-period (10m) */
	int64_t resend_ms;               /* --rules.alert.resend-delay (1m) */
	unsigned max_concurrent;         /* --rules.max-concurrent-evals (4): threads, each has one group at a time */
	int64_t late_ms;                 /* deltas are recorded this long after their slot; below 0: at once (the configuration's) */
	bool manual;                     /* no threads: rules_step and rules_evaluate do it, on their caller's */
	bool no_restore;                 /* alerts start again, whatever was stored */
	bool aside;                      /* what happens is neither counted nor logged: the past, beside what the server does */
	uint64_t memory_bytes;           /* 512 MiB: the most that labels and annotations of alerts take, with the labels of what rules wrote last; and, while rules are
	                                  * tried, what they record, and what is answered */
	const atomic_bool *canceled;     /* ends queries and, before the next rule, evaluations; NULL: rules_stop alone does */
};

int rules_new(struct rules **ret, const struct rules_options *o, struct err *e) MUST_USE;
/* From now on these (a reference is taken). Unchanged groups continue. The others wait for their running evaluation, and then keep the
 * state of rules with equal name and labels. */
int rules_apply(struct rules *r, struct rules_config *c, struct err *e) MUST_USE;
/* Ends the evaluations under way and starts none. */
void rules_stop(struct rules *r);
void rules_free(struct rules *r);
/* Registers pyrrha_rule_*: once, by main. */
void rules_register_metrics(void);
/* Valid as long as r. */
struct status_rules *rules_status(struct rules *r);

/* Tries rules over the past, in the source of r and with an engine beside its own. Valid as long as r. */
struct rules_past *rules_past(struct rules *r);

/* manual: the work that is due at that time, in order of time. Returns when the next is due; INT64_MAX: never. */
int64_t rules_step(struct rules *r, int64_t now_ms);
/* manual: every group once for this time, in order, whatever its slots are. */
void rules_evaluate(struct rules *r, int64_t t_ms);

#endif
