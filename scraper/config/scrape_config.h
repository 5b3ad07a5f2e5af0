/* SPDX-License-Identifier: Apache-2.0 */
/* Decoded scrape_configs: jobs, and the profile types of each. Immutable once parsed. */
#ifndef PYRRHA_SCRAPER_SCRAPE_CONFIG_H
#define PYRRHA_SCRAPER_SCRAPE_CONFIG_H

#include "config/config_http.h"
#include "config/config_relabel.h"
#include "config/config_top.h"
#include "discovery/discovery.h"
#include "fetch/fetch.h"
#include "model/ptype.h"
#include "pprof/pprof.h"
#include "scraper/scraper.h"

/* kind: { alloc_space: gauge }; sample_type NULL = all of the profile's. */
struct kind_override {
	const char *sample_type;
	enum profile_kind kind;
};

struct keep_type {
	const char *type, *unit; /* unit NULL = any */
};

/* One profile type of a job. */
struct type_config {
	const char *name;   /* "memory": the NAME of its series */
	const char *path;   /* "/debug/pprof/allocs" */
	bool metrics;       /* not a profile: text metrics, at the label __metrics_path__ */
	bool enabled;
	bool delta;         /* asks for `seconds` and gets what happened in them */
	bool delta_said;    /* set in the file */
	bool named;         /* the job names it, so that a 404 is a failure */
	int64_t seconds;    /* 0 = the interval */
	int64_t seconds_max; /* of an interval that is longer: the target gives no more at once; 0 = no limit */
	bool since_last;    /* an answer is what happened since the request before (godeltaprof) */
	bool folded_said;
	struct pprof_folded folded; /* what folded text counts */
	struct config_list keep;  /* struct keep_type; empty = all */
	struct kind_override *kinds;
	size_t n_kinds;
};

/* Limits of a job from a cluster's object, whatever the object and its relabelling say: its author may write objects in one namespace,
 * and gets no further. Its address and scheme are those from discovery. */
struct confinement {
	const char *namespace;     /* the label that its targets have */
	int64_t interval_min_ms, timeout_max_ms;
	struct relabel_limits relabel;
	int64_t sync_max_ns;       /* of CPU, for the plans of one sync beyond their usual time; others wait for it */
};

struct job_config {
	struct scraper_config *config; /* owner of its arena; borrowed */
	const char *name;
	const char *job_label;     /* NULL = name */
	const struct confinement *confined; /* NULL: it is from a file */
	int64_t interval_ms, timeout_ms;
	int scheme;         /* 0 http, 1 https */
	const char *path_prefix;
	bool metrics;             /* it names metrics_path: the first of its types are metrics */
	const char *metrics_path; /* the label __metrics_path__ */
	int64_t metrics_timeout_ms; /* at most the interval */
	bool honor_timestamps, track_timestamps_staleness; /* of metrics */
	bool fallback_is_text;    /* fallback_scrape_protocol: a missing or wrong Content-Type is no failure */
	struct config_multimap params;
	bool honor_labels, enable_compression;
	uint64_t body_size_limit;
	int64_t series_limit; /* new series of one profile of a target within an hour; 0 = no limit */
	int64_t sample_limit, target_limit, label_limit, label_name_length_limit, label_value_length_limit;
	int64_t keep_dropped_targets;
	struct http_config http;
	struct relabel_config relabel, metric_relabel;
	struct discovery_configs sd;
	struct config_strings series_labels; /* labels of samples that make series of their own (split.c); often none */
	bool agent;                /* preset: agent */
	bool series_from_profile;  /* and those that the profile names: the agent's relabelling adds some */
	struct type_config *types; /* enabled and not */
	size_t n_types;
	struct view fingerprint;   /* equal: nothing about the job has changed */
	struct view shown;         /* the job as YAML, without secrets */
};

struct object_source;

struct scraper_config {
	int refs; /* atomic */
	uint64_t serial; /* of this program's run; no two are equal */
	struct arena arena;
	struct config_global global;
	struct job_config *own;    /* those that were decoded into this arena */
	size_t n_own;
	struct job_config **jobs;  /* all of them: its own, and those of parts */
	size_t n_jobs;
	struct scraper_config **parts; /* references */
	size_t n_parts;
	struct object_source *sources; /* kubernetes_scrape_configs */
	size_t n_sources;
	const char *empty_file; /* one of scrape_config_files with nothing in it; NULL = none is */
};

const struct job_config *scraper_config_job(const struct scraper_config *c, const char *name);
/* The jobs of base and of the parts, in that order, as one configuration; takes references. Names must differ. A job keeps the
 * configuration that it was decoded into, so that it can stay when others come and go. Returns owned. */
struct scraper_config *scraper_config_join(struct scraper_config *base, struct scraper_config *const *parts, size_t n);

/* An empty one with room for this many jobs. Returns owned. */
struct scraper_config *scraper_config_new(size_t jobs);
struct job_config *scraper_config_take(struct scraper_config *c); /* the next of them */
/* One item of scrape_configs into a job that was taken. On failure the configuration still owns what was made. */
int scrape_job_decode(struct config_ctx *c, const struct config_node *n, const struct config_global *g, struct job_config *ret,
		      struct err *e) MUST_USE;
/* Equal for equal nodes, `more` and what is inherited. */
int scrape_job_fingerprint(struct config_ctx *c, const struct config_node *n, struct view more, struct job_config *j,
			   struct err *e) MUST_USE;

/* Decodes the list under `profiling_config` into job's types. (scrape_types.c) */
int scrape_types_decode(struct config_ctx *c, const struct config_node *n, struct job_config *job, struct err *e) MUST_USE;
/* The kind of one sample type of a profile of this type. */
enum profile_kind scrape_type_kind(const struct type_config *t, struct view sample_type, struct view sample_unit,
				   bool has_duration);
/* The profile type of that name, enabled or not; NULL: there is none. (scrape_types.c) */
struct type_config *job_type(const struct job_config *j, struct view name);
/* How many seconds a type is asked for, unless a label of the target sets it; 0 if it is not a delta. */
int64_t scrape_type_seconds(const struct type_config *t, int64_t interval_ms);
/* Whether keep_sample_type lets it through. */
bool scrape_type_keeps(const struct type_config *t, struct view sample_type, struct view sample_unit);

#endif
