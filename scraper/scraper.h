/* SPDX-License-Identifier: Apache-2.0 */
/* The scraper finds targets, asks each for each profile type once per interval, and decodes the answers. It passes them to a sink
 * together with the float series about the target (up, profile_up, scrape_*). */
#ifndef PYRRHA_SCRAPER_SCRAPER_H
#define PYRRHA_SCRAPER_SCRAPER_H

#include "config/config.h"
#include "model/sink.h"
#include "model/status.h"

struct scraper;
/* The decoded and checked sections `global` and `scrape_configs`; reference-counted, immutable. */
struct scraper_config;

/* Decodes `global`, `scrape_configs`, and Parca's spellings of them. Warnings go to warn (may be NULL). Returns
 * owned. The tree need not outlive the call. */
int scraper_config_parse(struct scraper_config **ret, const struct config_tree *t,
			 void (*warn)(void *arg, const char *text), void *warn_arg, struct err *e) MUST_USE;
/* The number of servers with the same targets (--scrape.replica), 1 by default. Configurations parsed from then on get a warning about
 * `seconds` that leave no room for the others. Before the first is parsed. */
void scraper_config_expect(unsigned replicas);
struct scraper_config *scraper_config_ref(struct scraper_config *c);
void scraper_config_unref(struct scraper_config *c);
/* One of scrape_config_files that is empty; NULL = none is. */
const char *scraper_config_empty_file(const struct scraper_config *c);
/* The output of --config.check: a line per job with its interval, targets and types. */
void scraper_config_check(const struct scraper_config *c, struct buf *out);

/* `pyrtool check service-discovery`: runs the discovery of one job until it has read everything once, or for timeout_ms. Writes a JSON
 * list of {discoveredLabels, labels, error}: a target before and after relabelling, labels empty if it is dropped. Profile types that
 * rules treat alike are one element, without the labels that only they have; else each is one. Problems of discovery go to `problems`,
 * a line each. ERR_NOT_FOUND: there is no such job; the error lists those there are. */
int scraper_config_discover(const struct scraper_config *c, const char *job, int64_t timeout_ms, struct buf *out,
			    struct buf *problems, struct err *e) MUST_USE;

struct scraper_options {
	unsigned decoders;        /* threads; 0 = one per CPU, at most 8. One more takes what is light */
	size_t memory_bytes;      /* of bodies, decoders and baselines together; 0 = 512 MiB */
	const char *user_agent;   /* NULL = "pyrrha" */
	int64_t reload_interval_ms; /* least time between two times that a job follows its discovery; 0 = 5 s */
	unsigned replica, replicas; /* which of how many servers with the same targets this is, from 0; replicas 0 = 1 */
};

/* Starts its threads; nothing is scraped until scraper_apply. sink is borrowed until scraper_free. */
int scraper_new(struct scraper **ret, struct sink *sink, const struct scraper_options *o, struct err *e) MUST_USE;
/* The new configuration takes over, when it is entirely possible, else everything stays (negative). Jobs that did not
 * change keep running; requests under way are cancelled only of targets that left. Targets follow at once, on a thread of
 * the scraper's. Thread-safe; takes a reference of c. */
int scraper_apply(struct scraper *s, struct scraper_config *c, struct err *e) MUST_USE;

/* Jobs from objects of a cluster (kubernetes_scrape_configs), beside those of the files. */
struct object_jobs;

/* A thread that keeps the jobs up to date, at most every reload_interval_ms. s must outlive it. */
int object_jobs_new(struct object_jobs **ret, struct scraper *s, struct err *e) MUST_USE;
/* scraper_apply of the files' configuration, with the jobs from objects that there are. Starts the discovery of c; sends no requests
 * to targets. Thread-safe. */
int object_jobs_apply(struct object_jobs *o, struct scraper_config *c, struct err *e) MUST_USE;
/* Before scraper_stop. NULL does nothing. */
void object_jobs_free(struct object_jobs *o);

/* Borrowed; valid until scraper_free. */
struct status_targets *scraper_status(struct scraper *s);
/* Cancels what is under way, gives the decoders half a second for what waits, joins. */
void scraper_stop(struct scraper *s);
/* scraper_stop, if it was not called, and frees. By then the sink has reported all batches, or never will. */
void scraper_free(struct scraper *s);
/* Makes pyrrha_target_* and friends appear in /metrics. */
void scraper_register_metrics(void);

#endif
