/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the scraper's files.
 *
 *	pool      one job at work: its discovery, its targets
 *	target    one place that serves profiles, or text metrics; has `up`
 *	endpoint  one profile type of a target, or its metrics: a URL with a schedule, what is remembered between its scrapes
 *	work      one finished request on its way to a decoder
 *
 * Threads: the loop thread owns schedule and requests; the sync thread updates pools. A decoder owns an endpoint's memory (delta, series) while it is
 * the endpoint's TURN_WORKS, which only one can have. Everything else here is under the scraper's lock. The sink is never
 * called under the lock nor from the loop thread, because it may wait. */
#ifndef PYRRHA_SCRAPER_INTERNAL_H
#define PYRRHA_SCRAPER_INTERNAL_H

#include <stdatomic.h>

#include "base/budget.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/vec.h"
#include "scraper/baseline.h"
#include "scraper/state/cursor.h"
#include "scraper/text/metric_cache.h"
#include "scraper/text/metric_families.h"
#include "scraper/state/receipt.h"
#include "scraper/config/scrape_config.h"

enum outcome {
	OUTCOME_UNKNOWN,
	OUTCOME_OK,
	OUTCOME_FAILED,
	OUTCOME_ABSENT /* 404 on a type that the job did not name: not served here, no failure of the target */
};

/* A series of an endpoint: one sample type. */
struct scrape_series {
	struct ptype type;     /* strings in `text` */
	char *text;
	struct labels *labels; /* owned; NULL: relabelling dropped it */
	struct labels *group;  /* labels of samples that it was split by; owned; NULL: not split */
	int64_t last_seen_ms;  /* of a split series: when the last profile had it, by split_clock */
	uint64_t serial;       /* of the configuration it was made by */
	bool live;             /* has a sample newer than its last stale marker */
	bool seen;             /* in the scrape at work */
};

struct series_set {
	VEC(struct scrape_series *) v;
	struct map index;      /* hash of type, group and serial -> v[] */
	size_t keep;           /* fewer than this are not looked through for ended ones */
	int64_t hour;          /* since 1970, of the count */
	uint64_t serial;       /* of the configuration it counts under */
	int64_t n_new;         /* series added in it */
};

enum turn { TURN_NONE, TURN_WAITS, TURN_WORKS };

#define PASSED_MAX 15 /* number of consecutive times that are kept apart */

struct endpoint;

struct target {
	int refs;
	struct labels *labels;     /* what series get; owned */
	uint64_t key;
	uint32_t index;            /* in the scraper's targets */
	VEC(struct endpoint *) endpoints; /* borrowed: each holds a reference to the target */
	int last_up;               /* -1 = never written */
	int64_t last_up_ms;
};

struct endpoint {
	int refs;
	struct scraper *scraper;
	struct scrape_pool *pool;               /* borrowed; NULL once it is gone */
	uint32_t place;                  /* in the pool's endpoints */
	uint32_t n_groups;               /* of the pool, that have it */
	const struct pool_group *newest; /* the last of them that took it in; compared only */
	struct target *target;           /* reference */
	struct scraper_config *config;   /* reference; job and type point into it */
	const struct job_config *job;
	const struct type_config *type;
	struct fetch_client *client;     /* reference */
	uint64_t hash;                   /* identity over reloads */
	uint64_t asked_hash;             /* of what is asked, and what it is called: all of hash but the labels */
	uint64_t slot_hash;              /* of what is asked where, for how long left out: all servers have the same (schedule.c) */
	int64_t aside_ms;                /* how much later it is asked, because another job here asks it too (conflict.c) */
	bool is_metrics;                 /* text metrics instead of a profile */
	char *url, *name;                /* name: NAME of its series */
	char *socket;                    /* dialled instead of the URL's address; NULL = none */
	const struct discovery_group *group; /* reference: what discovery says of it, see target_discovered */
	uint32_t group_target;
	int64_t interval_ms, timeout_ms, deadline_ms, asked_s;
	char *refused;                   /* why it is not scraped (a limit), besides the pool's; NULL = it is */

	struct heap_node due;            /* in the scraper's; its key is monotonic time in ms */
	int64_t last_start_ms;           /* monotonic */
	int64_t slot_ms;                 /* when it is due by the wall clock */
	struct flight *flight;           /* the request under way */
	struct history_cursor *cursor;           /* of an agent's history; counted in its refs. NULL: is not asked so */
	int extras;                      /* pieces that may still be asked for before the next regular scrape */
	bool extra;                      /* it is due for one of these */
	bool gone;

	unsigned passed;                 /* times in a row that it was due and there was no memory */
	int64_t short_ms;                /* monotonic: since when the scrape that is due waits for memory; 0 = it does not. Of the loop thread */
	struct heap_node claim;          /* in the scraper's claims; monotonic ms */
	size_t owed, last_body;          /* bytes: kept for it; of its newest body, 0 = none yet */
	struct budget memory;            /* its bodies and what is kept of it: part of the scraper's */
	size_t usual, usual_decode;      /* bytes that it is expected to hold, and a decoder's beside them (memory.c) */
	size_t coming;                   /* bytes that it gives back soon because it was evicted (memory_came) */
	uint32_t holder;                 /* index of this endpoint in the scraper's table of holders of memory */

	struct scrape_worker *worker;    /* the decoder that works on it; NULL = none */
	struct work *parked;             /* its work that waits for names; NULL = none */
	enum turn turn;                  /* none while there are no works; waits in light or heavy; is with a decoder */
	bool light;                      /* which of the two */
	struct heap_node turn_node;
	struct work *first, *last;       /* what waits, in order */
	unsigned n_works, n_bodies;      /* that wait; that wait or are at work */
	double cpu_ns;                   /* of decoders, decaying; as of cpu_at_ms */
	int64_t cpu_at_ms, decode_ns;    /* monotonic; CPU of a decode as it is expected */
	enum outcome outcome;
	bool told_other;                 /* that names of it are not kept was logged */
	char *last_error, *note;         /* the error; other remarks about the last scrape. NULL = nothing */
	int64_t last_scrape_ms, last_duration_ns, last_bytes, last_samples;

	struct receipt *receipt;         /* of its batches */

	struct baseline *base;           /* reference; of its cumulative types */
	struct baseline *before;         /* reference: to the one that it replaces, NULL = none. Under the lock */

	/* The decoder's that works on it: */
	struct series_set series;
	struct names *names;             /* that the target told; NULL = none were asked for */
	struct metric_cache metrics;     /* if is_metrics */
	struct metric_families *families; /* reference: of these metrics, NULL = none yet. It changes under the lock; others read it there */
	int64_t last_t_ms;               /* stamp of the last profile, 0 = none */
	int64_t last_boot_ms;            /* end_boot_ms of its request */
	int64_t last_report_ms;          /* of the last profile_up, or of its end */
	bool reports;                    /* profile_up and similar series are live */
};

/* A profile type of a discovered target that is not scraped. */
struct dropped_type {
	uint32_t target;          /* in the group */
	uint16_t type, rule;      /* in the job's types; in its relabel_configs, if that dropped it; UINT16_MAX: that or a later one */
	char *problem;            /* why it cannot be; owned. NULL: relabelling dropped it */
};

/* One of discovery's groups, and what it became under a configuration. */
struct pool_group {
	const struct discovery_group *group;  /* reference */
	struct scraper_config *config;        /* reference; job points into it */
	const struct job_config *job;
	unsigned revision;                    /* of the pool then */
	uint64_t round;                       /* the last sync that found it */
	size_t targets;                       /* that are endpoints */
	VEC(struct endpoint *) endpoints;     /* borrowed: each counts it in n_groups */
	VEC(struct dropped_type) dropped;
	size_t failed;                        /* of these, those with a problem */
};

/* The configured state of a job. Immutable. */
struct setup {
	atomic_int refs;
	struct scrape_pool *pool;                    /* reference */
	struct scraper_config *config;        /* reference; job points into it */
	const struct job_config *job;
	struct fetch_client *client;
	struct discovery *discovery;
};

struct scrape_pool {
	atomic_int refs;                  /* setups have one each: discovery calls it */
	struct scraper *scraper;
	char *name;
	struct setup *now, *next;         /* what it works with (NULL: not yet); what takes over (NULL: nothing). Under the lock; now is the sync thread's to change */
	unsigned revision;                /* of `now` */
	VEC(struct pool_group *) groups;
	struct map group_index;           /* hash of discovery's group and revision -> place in groups */
	VEC(struct endpoint *) endpoints; /* references */
	struct map endpoint_index;        /* hash -> place in endpoints */
	size_t n_targets;
	char *refused;                    /* why none is scraped (target_limit); NULL = they are */
	_Atomic uint64_t round;           /* of syncs: the sync thread's; a test reads it */
	atomic_bool dirty;                /* its discovery has changed */
	atomic_bool was_ready;            /* all its discovery had been read by the last sync */
	uint64_t asked_ready;             /* scraper's sync_calls when it was asked whether it is */
	atomic_bool waits;                /* next, for its discovery to be read */
	int64_t take_over_ms;             /* monotonic: when next takes over at the latest */
	int64_t synced_ms, not_before_ms; /* monotonic: when it was brought up to date; when it may be again */
};

enum work_kind { WORK_SCRAPE, WORK_GONE };

/* Asking the target for names of a work's addresses (names.c). */
enum names_state { NAMES_NONE, NAMES_TOLD, NAMES_FAILED, NAMES_SKIPPED };
struct name_request {
	enum names_state state;          /* of the last request, until a decoder has read it */
	unsigned rounds;
	bool skip;                       /* no more of them: the program ends */
	struct buf ask, answer;
	struct err err;
};

struct work {
	enum work_kind kind;
	struct work *next;
	struct endpoint *endpoint;       /* reference */
	struct scraper_config *config;   /* reference, of the time the request began */
	const struct job_config *job;
	const struct type_config *type;
	struct buf body;
	struct err err;                  /* what is known to be wrong */
	struct history_piece *piece;             /* of an agent's history, that it is; owned. NULL: there is none, or storage has it */
	atomic_size_t held;              /* bytes of the body that the budget counts; others may read it while the body arrives */
	int64_t short_ms;                /* monotonic: since when the request waits for memory for its body; 0 = it does not. Of the loop thread */
	unsigned retries;                /* times that decoding began anew because memory was short */
	atomic_bool evicted;             /* its memory was given to an endpoint that holds less. Set under the lock */
	int http_status;
	bool conflict;                   /* the target was measuring for somebody else */
	int64_t start_ms, end_ms;        /* wall clock of the request */
	int64_t slot_ms;                 /* when it was due; 0 = an end */
	int64_t end_boot_ms;             /* the same by CLOCK_BOOTTIME, which is never set */
	int64_t duration_ns;
	uint64_t bytes;
	struct name_request names;
	int64_t since_ms;                /* of an end: when it was tried first, monotonic; 0 = not yet */
};

/* A request under way (ask.c). */
struct flight {
	struct work *work;
	struct fetch *fetch;
	struct flight *next, **at; /* in one of the scraper's lists; `at`: the pointer to this flight in it */
};

struct scrape_worker {
	pthread_t thread;
	struct scraper *scraper;
	bool spare;                      /* takes only what is light */
	bool light;                      /* what it is at is believed to be */
	struct budget memory;            /* of the arenas below; a part of the scraper's budget */
	struct endpoint *endpoint;       /* that it works on; NULL = none. Under the lock */
	atomic_bool stop;                /* the decode has to end: its memory goes to an endpoint that holds less. Set under the lock */
	bool stuck;                      /* there was no room for it because all other decoders wait for room. Of its own thread */
	size_t most;                     /* bytes of the arenas when the last decode ended */
	bool good;                       /* it ended well */
	struct profile profile;
	struct arena arena;              /* labels of a batch */
	struct arena floats;             /* those of text metrics */
};

/* An object of a cluster, or a source of them, as a page shows it. */
struct object_status {
	const char *kind;                /* "ProfileScrapeConfig"; static */
	char *job;                       /* "namespace/name"; owned */
	char *problem;                   /* what is wrong with its current version, owned; NULL = nothing */
	int64_t problem_ms;              /* wall clock: since when */
	bool shown;                      /* while a page is made */
};

struct object_statuses {
	VEC(struct object_status) v;
};

#define MEMORY_TOP 16 /* holders that a census lists */

/* Functions by which memory.c takes memory away from an endpoint. They assert the lock. A size is the number of bytes that are free at
 * once; 0 may also mean that another thread frees them soon. */
struct eviction {
	size_t (*waiting)(struct endpoint *ep);              /* bodies that wait for a decoder: turn_evict */
	size_t (*flight)(struct endpoint *ep, bool in_loop); /* a body that arrives: flight_evict */
	bool (*kept)(struct endpoint *ep);                   /* what is kept between scrapes, by a scrape that fails: kept_evict */
};

/* Who holds how much of the memory of all scrapes, as it was a moment ago. */
struct memory_census {
	int64_t made_ns, cost_ns;        /* monotonic; time that it took */
	size_t share;                    /* bytes, fair share of an endpoint; SIZE_MAX = there is enough */
	struct endpoint *top[MEMORY_TOP]; /* borrowed: the largest holders, the largest first */
	unsigned n_top;
};

struct scraper {
	struct object_statuses objects;  /* lock guards it */
	struct status_targets status;
	struct sink *sink;
	char *user_agent;
	int64_t replica, replicas;       /* which it is of how many servers with the same targets, from 0; at least 1 */
	struct mutex lock;
	struct scraper_config *config;   /* reference; NULL before the first apply */
	struct mutex apply_lock;         /* one configuration at a time; pools change under both */
	VEC(struct scrape_pool *) pools;
	VEC(struct scrape_pool *) leaving;      /* the sync thread ends them */
	pthread_t sync_thread;
	bool sync_runs;
	pthread_cond_t sync_came;
	uint64_t sync_calls;             /* how often something came */
	int64_t sync_interval_ms;
	struct heap due;                 /* endpoints */
	VEC(struct target *) targets;
	struct map target_index;         /* key -> place in targets */
	struct flight *flights;          /* requests under way */
	struct flight *left;             /* of endpoints that have left */
	atomic_bool stopping;
	bool stopped;
	struct fetch_loop *loop;
	pthread_t thread;
	bool thread_runs;
	struct work *to_ask;             /* queue of those whose names the loop has to request */
	struct name_flight *name_flights;
	unsigned n_asking;
	struct work *unburied;           /* ends that were not stored: tried again */
	struct heap light, heavy;        /* endpoints with works that wait (turns.c) */
	pthread_cond_t work_came, light_came; /* for the spare decoder: light_came */
	unsigned n_idle;                 /* decoders that wait for work_came */
	bool turns_held, held_work, held_light; /* see turns_hold */
	size_t n_waiting, waiting_bytes; /* works, their bodies */
	atomic_int_least64_t give_up_ms; /* monotonic: decoding ends then, because the program does; 0 = not yet */
	struct scrape_worker *workers;
	unsigned n_workers;
	struct cursors cursors;
	struct budget memory;
	const struct eviction *evict;    /* static */
	VEC(struct endpoint *) holders;  /* borrowed: all endpoints that there are */
	struct memory_census census;
	size_t coming;                   /* sum of the endpoints' */
	pthread_cond_t memory_came;      /* decoders wait for it */
	unsigned n_decoding, n_memory_waits; /* decoders at work; of these, waiting for memory */
	struct flight *evicted;          /* requests that the loop has to end, because their memory went to smaller ones */
	size_t owed[PASSED_MAX + 1];     /* bytes, by how often in a row an endpoint was passed over */
	struct heap claims;              /* former endpoints, by the time for which room is reserved for them */
};

/* endpoint.c */
void endpoint_unref(struct endpoint *ep); /* asserts the lock */

/* turns.c */
void work_free(struct work *w); /* gives references back; asserts the lock */
/* Ends the endpoint's series, after what it has there already. Takes a reference. Asserts the lock. */
struct work *work_end(struct endpoint *ep);
/* Hands it to the decoders, behind what the endpoint has there already. Takes it. A body that is one too
 * many becomes a failed scrape. Asserts the lock. */
void work_dispatch(struct work *w);
/* Around one dispatch: a decoder that it wakes finds the lock free. */
void turns_hold(struct scraper *s) REQUIRES(s->lock);
void turns_unlock(struct scraper *s) RELEASES(s->lock);
/* Waits for work; NULL: the scraper has stopped and there is none. */
struct work *turn_begin(struct scrape_worker *wk);
/* Takes w, unless it has to be done again: it was not as light as it was believed to be. */
void turn_end(struct work *w, int64_t cpu_ns, bool again);
/* The decoder is done with w for now, and nobody else gets the endpoint until turn_back(w). Asserts the lock. */
void turn_park(struct work *w, int64_t cpu_ns);
/* It is to be decoded again, before all else of its endpoint. Takes it. Asserts the lock. */
void turn_back(struct work *w);
/* Drops the bodies of the endpoint's works that wait, for a turn or for names. Returns their bytes. Asserts the lock. */
size_t turn_evict(struct endpoint *ep);
/* Whether there is something to decode. */
static inline bool work_has_body(const struct work *w)
{
	return w->kind == WORK_SCRAPE && !w->err.code;
}


/* schedule.c */
int64_t schedule_next(int64_t now_ms, int64_t interval_ms, int64_t offset_ms);
/* The slot after the one of a scrape with that begin and end; or its end, if that is later. */
int64_t schedule_after(int64_t slot_ms, int64_t start_ms, int64_t end_ms, int64_t interval_ms, int64_t offset_ms);
int64_t offset_of(const struct endpoint *ep);
/* Puts it into the heap, due at a time of the wall clock; not more than an interval from now, if the clock was set. */
void schedule(struct endpoint *ep, int64_t slot_ms);

/* pool.c */
void sync_wake(struct scraper *s) REQUIRES(s->lock); /* there is something for the sync thread */
void *sync_main(void *arg);
/* Without the lock: discovery is started or stopped. */
struct scrape_pool *pool_new_job(struct scraper *s, const struct job_config *j, struct err *e) EXCLUDES(s->lock);
int pool_prepare(struct scrape_pool *p, const struct job_config *j, struct setup **ret, struct err *e) MUST_USE EXCLUDES(p->scraper->lock);
void setup_unref(struct setup *u);
void pool_free_job(struct scrape_pool *p); /* nobody else knows it any more */
/* u takes over soon; takes it. Returns one that never will, to be dropped. Asserts the lock. */
struct setup *pool_reconfigure(struct scrape_pool *p, struct setup *u);
/* The newest; who refs it may ask its discovery without the lock. Asserts the lock. */
const struct setup *pool_setup(const struct scrape_pool *p);
struct setup *setup_ref(const struct setup *u);

/* sync.c: in the sync thread */
void pool_sync(struct scrape_pool *p) EXCLUDES(p->scraper->lock);
void pool_empty(struct scrape_pool *p) EXCLUDES(p->scraper->lock); /* all its endpoints leave */
void pool_let_go(struct scrape_pool *p, struct endpoint *ep); /* asserts the lock */
void pool_group_free(struct pool_group *g);

/* target.c: labels of one endpoint from discovery and configuration. */
struct target_plan {
	bool dropped;            /* by relabelling */
	size_t rule;             /* which it was, from 0 */
	char *problem;           /* or: why it cannot be scraped at all; owned */
	struct labels *visible;  /* owned */
	char *url, *name, *socket; /* socket: NULL = none */
	int64_t interval_ms, timeout_ms, deadline_ms, asked_s;
	uint64_t hash, asked_hash, target_key, slot_hash, cursor_key;
};
void target_plan_make(const struct job_config *j, const struct type_config *t, struct labels group, struct labels target,
		      struct arena *a, struct target_plan *ret);
/* The same; *after, unless there is none, is the result of the rules, control labels included. Owned. */
void target_plan_explain(const struct job_config *j, const struct type_config *t, struct labels group, struct labels target,
			 struct arena *a, struct target_plan *ret, struct labels **after);
void target_plan_release(struct target_plan *p);
/* The labels before relabelling. Returns owned. */
struct labels *target_discovered(const struct job_config *j, const struct type_config *t, struct labels group, struct labels target) MUST_USE;

/* ask.c, in the loop thread; these assert the lock */
void ask(struct endpoint *ep);
void flights_drop(struct scraper *s) REQUIRES(s->lock); /* all of them, without a word */
void flight_left(struct endpoint *ep); /* the endpoint left: its request ends soon, then its series */
bool flights_end_left(struct scraper *s) REQUIRES(s->lock); /* some of these; whether there are more */
/* The body of the endpoint's request is dropped, at once in the loop thread, else soon, and the request is ended soon. Returns the bytes
 * that are free at once. */
size_t flight_evict(struct endpoint *ep, bool in_loop);
void flights_end_evicted(struct scraper *s) REQUIRES(s->lock);
/* Makes the endpoint's scrape fail: the one that waits for a decoder, else one that is made for this. That failed scrape ends the endpoint's series,
 * forgets all that is kept of the endpoint but the baseline, and its error says that the endpoint was evicted. False, and nothing is done: a
 * request is under way, or a decoder works on the endpoint. */
bool kept_evict(struct endpoint *ep);

/* conflict.c */
/* Whether an answer other than 200 says that the target is profiling for somebody else. */
bool conflict_is(const struct work *w, const char *answer);
void conflict_say(struct work *w, const char *answer);
/* It is for that endpoint of this server, which asks the same. Asserts the lock. */
void conflict_step_aside(struct work *w, const struct endpoint *other);

/* stamp.c: times of what one endpoint tells, beside a wall clock that may be set at any time */
/* The stamp of what happened at t_ms, where the one before has last_ms: later, unless the clock was set back. */
int64_t stamp_after(int64_t last_ms, int64_t t_ms);
/* The time from the endpoint's last profile to one of that request and stamp, ms; 0: there is none, or it is not later. */
int64_t stamp_since(const struct endpoint *ep, const struct work *w, int64_t t_ms);
/* The same of a last profile of that stamp and end_boot_ms, 0 = none; and that it is this one now. */
int64_t stamp_between(int64_t last_ms, int64_t last_boot_ms, const struct work *w, int64_t t_ms);
void stamp_move(int64_t *last_ms, int64_t *last_boot_ms, const struct work *w, int64_t t_ms);
/* A profile of that request and stamp was taken in. */
void stamp_note(struct endpoint *ep, const struct work *w, int64_t t_ms);

/* work.c */
void *worker_main(void *arg);

/* series.c */
/* group: the labels of samples that the series was split by, sorted; NULL = not split. */
struct scrape_series *series_find(struct series_set *set, const struct ptype *type, const struct labels *group, uint64_t serial);
struct scrape_series *series_add(struct series_set *set, const struct ptype *type, const struct labels *group, const struct target *t,
				 const struct job_config *j, uint64_t serial, struct arena *a, struct err *e);
/* Ended series are forgotten when there are many. Not while there are pointers to series of the set. */
void series_forget_some(struct series_set *set);
void series_set_release(struct series_set *set);

/* status.c: as model/status.h says */
size_t status_active(struct status_targets *st, const struct status_query *q,
		     bool (*row)(void *arg, const struct status_target *t), void *arg);
size_t status_dropped(struct status_targets *st, const struct status_query *q,
		      bool (*row)(void *arg, const struct status_dropped *d), void *arg);
void status_jobs(struct status_targets *st, void (*job)(void *arg, const struct status_job *j), void *arg);
int status_relabel(struct status_targets *st, struct view pool, struct labels l,
		   void (*step)(void *arg, const struct relabel_rule *r, struct labels after, bool keep), void *arg, struct err *e) MUST_USE;
int status_config(struct status_targets *st, struct view pool, struct buf *out, struct err *e) MUST_USE;
void status_metadata(struct status_targets *st, const struct status_metadata_query *q); /* status_metadata.c */
void object_statuses_release(struct object_statuses *o);

/* Labels from discovery or rules, without secret parameters and paths; mostly nothing has to be hidden. s is the room for it (zeroed
 * before), to be freed whatever is returned. (status.c) */
struct shown_labels {
	struct labels_builder b;
	VEC(char *) texts; /* owned: replacements of values */
};
struct labels shown_labels(struct shown_labels *s, struct labels l);
void shown_free(struct shown_labels *s);

#endif
