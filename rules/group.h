/* SPDX-License-Identifier: Apache-2.0 */
/* A group at work: its rules one after the other, for one slot of time. Its writes are collected into few batches. A rule waits until
 * earlier writes are durable only if it may read them.
 *
 * One thread at a time evaluates a group (the manager ensures that). The parts that other threads read, alerts and results, change
 * only under the group's lock. */
#ifndef PYRRHA_RULES_GROUP_H
#define PYRRHA_RULES_GROUP_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/vec.h"
#include "rules/rules.h"

/* Label sets, each once; owned. Zero-initialised is empty. */
struct label_sets {
	VEC(struct labels *) v;
	struct map by_hash;
	struct budget *budget; /* where `bytes` are counted; NULL: nowhere */
	size_t bytes;
};
/* Takes a copy; false: it is there already. */
bool label_sets_add(struct label_sets *s, struct labels l);
bool label_sets_has(const struct label_sets *s, struct labels l);
void label_sets_free(struct label_sets *s);

/* One alert. Times are Unix milliseconds, of slots; 0 = not so. */
struct live_alert {
	struct labels *labels, *annotations; /* owned */
	struct budget *budget;       /* where `bytes` are counted; NULL: nowhere */
	size_t bytes;
	uint64_t hash;               /* of the labels */
	size_t note_bytes;           /* of its note; 0 = it has none */
	enum alert_state state;      /* pending, firing; inactive: resolved, kept in order to be told */
	double value;
	int64_t active_at, fired_at, resolved_at, keep_since, last_sent;
	int64_t noted_at;            /* when its note was last written */
	bool seen;                   /* in the result at hand */
	bool changed;                /* its note must be written */
	bool restored;               /* from a note; not evaluated since */
};

/* For a delta that is recorded: the next slot. */
struct live_delta {
	int64_t next_slot;           /* 0 = it has not begun */
	int64_t before;              /* without the writes that are in progress */
	VEC(struct {
		int64_t slot_ms;
		double total;
	}) recorded;                 /* of late: to be looked at again */
};

/* A type that outlives its source. */
struct kept_type {
	struct ptype type;
	struct buf text;
};

struct live_rule {
	const struct rule *rule;
	uint64_t key;                /* of its notes: name, labels, and which of several equal ones */
	struct label_sets previous;  /* what it wrote last */
	VEC(struct kept_type) types; /* of profiles, as many as those */
	VEC(struct live_alert *) alerts;
	size_t waits_for;            /* what the rules before this one write, it may read; 0 = none of them */
	bool writes_state;           /* ALERTS and ALERTS_FOR_STATE: once what was before a restart is known */
	enum rule_health health;
	struct err error;
	int64_t evaluated_ms, evaluation_ns;
	struct live_delta delta;
};

/* Whose note was forgotten. */
struct forgotten {
	uint64_t rule, alert;
};

/* Batches on their way. */
struct commits {
	struct mutex lock;
	pthread_cond_t none;
	unsigned outstanding;
	struct err error;            /* the last */
};

struct live_group {
	struct rules *m;
	struct rules_config *config; /* reference held */
	const struct rule_group *def;
	uint64_t key;                /* of its notes: file and name */
	char *metric_name;           /* "FILE;NAME" */
	struct live_rule *rules;     /* def->n_rules */
	struct commits commits;
	/* the manager's, its lock guards these: */
	int64_t next_ms;             /* slot */
	bool running, leaving;
	int64_t began_ns;            /* of what runs, monotonic */
	int64_t took_ns;             /* the last one; negative: there was none */
	unsigned hurried;            /* quick evaluations left until it returns to the patient threads; 0: it is there */
	bool on_trial;               /* its first, in a place for quick ones: if it is not quick, its last rules are skipped */
	atomic_bool cut;             /* what runs is to end; never unset */
	/* who evaluates: */
	int64_t last_slot;           /* 0 = never; after a restart that of the note */
	int64_t noted_at;            /* when the group's own note was last written */
	bool restore;                /* ALERTS_FOR_STATE is looked up after the second evaluation */
	bool resumed;                /* its alerts are from notes, and this is their first evaluation */
	int64_t hold_until;          /* alerts from notes are not ended before, as what they look at may not be there yet */
	unsigned evaluations;
	size_t without_note;         /* alerts at the last evaluation whose state is not durable */
	VEC(struct forgotten) forgotten; /* since the last evaluation of which all is durable */
	bool lost;                   /* a batch since then: what it noted is to be noted again */
	struct mutex lock;           /* guards what status shows */
	int64_t evaluated_ms, evaluation_ns, shown_slot;
	uint64_t missed;
};

/* For a rule that wrote: how much had been collected after it. */
struct written {
	size_t rule, floats, profiles;
	size_t refused;              /* of its samples */
	const char *why;             /* the last */
};

/* The collected writes of a group. */
struct group_output {
	struct arena arena;          /* label sets and notes */
	VEC(struct sink_float) floats;
	VEC(struct sink_note) notes;
	VEC(struct sink_profile) profiles;
	VEC(struct written) written; /* the owner of each entry, in order */
	size_t flushed_rules;        /* of the rules before this index all is durable */
	size_t sent_rules;           /* ... on its way */
};

#define HURRY_SHARE 4         /* of its interval that part taken by an evaluation, and it and the next ones are hurried */
#define CALM_ROUNDS 20        /* number of quick evaluations after which a group is no longer hurried */
#define GROUP_SLOW_NS INT64_C(1000000000) /* longest time that others wait for it */

/* An evaluation. */
struct evaluation {
	struct live_group *g;
	int64_t slot_ms, t_ms;       /* t: slot - query offset, the stamp and the time asked for */
	int64_t interval_ms;
	struct promql_shared *shared;
	struct group_output out;
	VEC(struct alert) told;      /* strings in out.arena */
	uint64_t samples;
	int64_t begin_ns;            /* monotonic */
	bool patient;                /* past HURRY_SHARE of the interval someone else goes on with it */
	size_t at;                   /* the next rule */
	size_t without_note;         /* alerts that should have one */
	size_t failed_texts;         /* of the rule at hand */
};

#define RULES_MEMORY ((size_t)512 << 20) /* bytes; rules_options.memory_bytes that is not given */

struct rules {
	struct status_rules status;  /* first: the seam's functions get its address */
	struct rules_options o;
	char *external_url;
	struct budget texts;         /* memory of the labels and annotations of all alerts, and of the labels of the series that rules wrote at their last evaluation */
	struct mutex lock;           /* guards what follows, and of groups what says so */
	pthread_cond_t wake;
	struct mutex apply;          /* one at a time */
	VEC(struct live_group *) groups;  /* in the order of the configuration */
	VEC(struct orphan *) orphans;
	struct rest *rests;          /* of evaluations whose threads wait for them */
	VEC(pthread_t) threads;
	atomic_bool stopping;
	atomic_size_t n_noted, noted_bytes; /* notes of alerts */
	bool applied;                /* once: what comes later has no past before the start */
	unsigned readers[2];         /* number of readers of groups, of this generation and the previous one: their groups stay meanwhile */
	unsigned generation;         /* how often groups were replaced */
	int64_t manual_now;
	struct rules_config *config; /* the last that was applied; reference held */
	struct rules_past past;
	atomic_bool past_at_work;
};

/* Series of rules that are gone: they end two intervals later, unless someone writes them by then. */
struct orphan {
	int64_t due_ms, t_ms;
	struct label_sets series, profiles;
	VEC(struct kept_type) types; /* of profiles, as many */
};

/* group.c */
struct live_group *group_new(struct rules *m, struct rules_config *c, const struct rule_group *def);
void group_free(struct live_group *g);
/* The last slot at or before that time. */
int64_t group_slot(const struct live_group *g, int64_t now_ms);
void group_evaluate(struct live_group *g, int64_t slot_ms);
/* Waits until nothing is on its way. */
void group_settle(struct live_group *g) EXCLUDES(g->commits.lock);
/* For orphans: whether some rule wrote that series last time. */
bool group_writes(struct live_group *g, struct labels l);

/* record.c, alert.c: a rule's result into the round's output. After an error nothing was written. */
int record_result(struct evaluation *r, struct live_rule *rule, const struct promql_result *q, struct err *e) MUST_USE;
int alert_result(struct evaluation *r, struct live_rule *rule, const struct promql_result *q, struct err *e) MUST_USE;
/* The notifications that its alerts need now. */
void alert_tell(struct evaluation *r, struct live_rule *rule);

/* alert_series.c */
void alert_free(struct live_alert *a);
/* Calls put with the labels and value of both series that an alert has, until it fails. */
int alert_each_series(const struct rule *x, const struct live_alert *a, int (*put)(void *arg, struct labels l, double v, struct err *e),
		      void *arg, struct err *e) MUST_USE;
/* After a restart: the series of its alerts that were written last are what it wrote last. */
void alert_remember_series(struct live_rule *rule);

/* How many bytes a set of labels takes in memory, about (output.c). */
size_t rule_labels_bytes(struct labels l);
/* Sets the error of an evaluation for whose labels and annotations rules.texts has no room. */
int texts_too_large(const struct evaluation *r, struct err *e) MUST_USE;
/* Adds a sample, and its series to what the rule writes now; ERR_LIMIT past memory. */
int output_float(struct evaluation *r, struct label_sets *now, struct labels l, double v, struct err *e) MUST_USE;
/* Ends what the rule wrote last and does not write now; now becomes what it wrote last. */
int output_end_gone(struct evaluation *r, struct live_rule *rule, struct label_sets *now, struct err *e) MUST_USE;

/* Labels of what a recording rule makes of an element; release the builder. */
void rule_labels(const struct rule *x, struct labels from, struct labels_builder *b);
/* Those from index `from` on. */
void output_drop_profiles(struct group_output *o, size_t from);

/* profiles.c: what is gathered is complete after each call; recorded deltas are behind the slot. */
int record_profiles(struct evaluation *r, struct live_rule *rule, const struct promql_result *q, int64_t t_ms, struct err *e) MUST_USE;
int record_deltas(struct evaluation *r, struct live_rule *rule, struct err *e) MUST_USE;
void record_types_free(struct live_rule *rule);
void kept_type_free(struct kept_type *t);
void kept_type_set(struct kept_type *t, const struct ptype *type);

/* query.c */
int rule_query(struct evaluation *r, struct live_rule *rule, int64_t t_ms, struct promql_result *ret, struct err *e) MUST_USE;
/* The same, without stacks. */
int rule_query_values(struct evaluation *r, struct live_rule *rule, int64_t t_ms, struct promql_result *ret, struct err *e) MUST_USE;

/* notes.c: the state of alerts, durable. That of a rule, when it changed; and the group's time. */
void notes_rule(struct evaluation *r, struct live_rule *rule);
void notes_group(struct evaluation *r);
void notes_forget(struct evaluation *r, const struct live_rule *rule, const struct live_alert *a);
/* All groups at once, at the start. Groups without notes have ALERTS_FOR_STATE to look up. */
void notes_read(struct rules *m);

/* For a removed group: the state of its alerts is forgotten. */
void notes_bury(struct live_group *g);

/* status.c */
void rules_status_init(struct rules *m);

/* restore.c: Prometheus's, from ALERTS_FOR_STATE. */
void restore_for_state(struct live_group *g, int64_t now_ms);

/* hurry.c: has a thread that is in a hurry call run(r), and waits for it. For a patient thread. */
void rules_hurry(struct rules *m, void (*run)(struct evaluation *r), struct evaluation *r);
/* Such a thread does that once, without the lock; false: nobody waits for it. */
bool rules_run_rest(struct rules *m) REQUIRES(m->lock);

/* manager.c */
/* What a thread does that finds something due at that time; it evaluates without the lock. */
void rules_run_late(struct rules *m, int64_t now_ms) REQUIRES(m->lock);

/* metrics.c */
enum {
	M_EVALUATIONS, M_FAILURES, M_ITERATIONS, M_MISSED, M_LAST_DURATION, M_LAST_EVALUATION, M_INTERVAL, M_RULES, M_SAMPLES,
	M_EVALUATION_SECONDS, M_GROUP_SECONDS, M_DISCARDED, M_LATE, M_RULE_METRICS_
};
extern struct metric rules_metrics[];
/* Those of a group, unless it is evaluated aside. */
void rules_count(const struct live_group *g, int metric, double v);
void rules_gauge(const struct live_group *g, int metric, double v);
void rules_observe(const struct live_group *g, int metric, double v);
/* For a removed group. */
void rules_forget_metrics(const struct live_group *g);
/* Cancels its queries. */
const atomic_bool *rules_canceled(const struct live_group *g);

#endif
