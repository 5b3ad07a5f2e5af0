/* SPDX-License-Identifier: Apache-2.0 */
/* What the page and the API show of the running system: small tables that each module fills on request. There may be
 * 100,000 rows, so callers select some of them, and get them one by one; scrapes do not wait meanwhile. */
#ifndef PYRRHA_MODEL_STATUS_H
#define PYRRHA_MODEL_STATUS_H

#include "base/buf.h"
#include "model/labels.h"

enum target_health { TARGET_UNKNOWN, TARGET_UP, TARGET_DOWN };
/* A set of them. */
#define HEALTH_BIT(health) (1U << (health))
#define HEALTH_ANY 7U

/* Selects rows: those that match all fields, and of these `limit` from the `offset`th on. Texts are
 * borrowed. */
struct status_query {
	struct view pool;            /* only this job's; empty = all */
	struct view search;          /* only with this text in something that is shown, in either case; empty = all */
	unsigned health;             /* only of these, HEALTH_BIT; 0 = any; targets only */
	size_t offset, limit;        /* limit 0 = to the last */
};

/* One (target, profile type) pair. Everything is borrowed for the duration of the callback. */
struct status_target {
	struct view pool;            /* job_name */
	struct labels discovered, labels;
	struct view scrape_url;      /* what is asked, without secrets */
	struct view global_url;      /* the same with a name others can reach; may equal scrape_url */
	struct view socket;          /* dialled instead of the URL's address; empty = none */
	struct view profile;         /* "process_cpu" */
	struct view last_error;      /* empty = none */
	struct view note;            /* other remarks, not an error; empty = none */
	int64_t last_scrape_ms;      /* 0 = never */
	int64_t last_duration_ns;
	int64_t last_bytes, last_samples;
	int64_t interval_ms, timeout_ms;
	enum target_health health;
};

/* Discovered targets that are not scraped. */
struct status_dropped {
	struct view pool;
	struct labels discovered;
	struct view profile;         /* the profile type it is about; empty = all of the job's */
	struct view reason;          /* "relabel_configs, rule 2: keep"; "the target has no __address__"; empty = not known */
	bool failed;                 /* unintended: it cannot be scraped, or relabelling failed */
};

/* One place that targets come from, or an object that says what a job is. */
struct status_source {
	struct view kind;            /* "file_sd_configs" */
	struct view role;            /* "pod"; empty = the kind has none */
	struct view name;            /* which one, without secrets: "http://host/targets"; empty = there is no more to say */
	size_t groups, targets;
	bool ready;                  /* it was read once */
	struct view error;           /* what is wrong with it now; empty = nothing */
	int64_t error_since_ms;      /* wall clock; 0 = not known */
	int64_t changed_ms;          /* when it last reported a change; 0 = never */
};

struct status_job {
	struct view pool;
	size_t targets, up, down;    /* targets, each with all of its profile types; the others are neither */
	size_t endpoints;            /* rows of `active` */
	size_t dropped;              /* discovered targets that are not scraped at all */
	size_t dropped_rows, failed; /* what `dropped` has rows of, unless keep_dropped_targets is less; of these the failed */
	const struct status_source *sources;
	size_t n_sources;
};

/* What a target reports about the metrics of one name. Borrowed for the duration of the callback. */
struct status_family {
	struct view name;
	struct view type;            /* "counter"; "unknown" if it does not say */
	struct view help;            /* empty = it does not say */
};

/* Selects metadata. */
struct status_metadata_query {
	struct view metric;          /* only of this name; empty = all */
	/* Whether to include a target with these labels, called before its families: 1 yes, 0 no, negative: neither it nor the
	 * following ones. NULL = all. */
	int (*target)(void *arg, struct labels l);
	bool (*family)(void *arg, const struct status_family *f); /* false: no more */
	void *arg;
};

struct relabel_rule;

struct status_targets {
	/* The rows that q asks for. Returns how many match in all, unless the callback ends it by returning false. */
	size_t (*active)(struct status_targets *s, const struct status_query *q,
			 bool (*row)(void *arg, const struct status_target *t), void *arg);
	size_t (*dropped)(struct status_targets *s, const struct status_query *q,
			  bool (*row)(void *arg, const struct status_dropped *d), void *arg);
	/* All jobs, also those without a target, in the order of the configuration. */
	void (*jobs)(struct status_targets *s, void (*job)(void *arg, const struct status_job *j), void *arg);
	/* The labels after each relabelling rule of a job; keep is false from the rule on that drops them.
	 * ERR_BAD_DATA: there is no such job. */
	int (*relabel)(struct status_targets *s, struct view pool, struct labels l,
		       void (*step)(void *arg, const struct relabel_rule *r, struct labels after, bool keep), void *arg,
		       struct err *e);
	/* The job's configuration as YAML, without secrets. ERR_BAD_DATA: there is no such job. */
	int (*config)(struct status_targets *s, struct view pool, struct buf *out, struct err *e);
	/* Metadata that targets report, one target after the other, each by name. */
	void (*metadata)(struct status_targets *s, const struct status_metadata_query *q);
};

/* Whether a row has the text in something that is shown, in either case of ASCII. */
bool status_target_has(const struct status_target *t, struct view search);
bool status_dropped_has(const struct status_dropped *d, struct view search);

#endif
