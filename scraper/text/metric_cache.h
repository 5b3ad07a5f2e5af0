/* SPDX-License-Identifier: Apache-2.0 */
/* Cached data of a target's text metrics, so that the second scrape of a series costs a hash, and ended series are noticed. Owned by
 * the decoder at work; its memory is counted in --scrape.memory.
 *
 *	text     a spelling of a series in the body, known by 128 bits of hash ──► series, or dropped by relabelling
 *	series   labels as they are stored, as numbers of strings              ──► strings
 *	strings  names and values, each once
 *
 * Texts may share a series. Scrapes are numbered: `scrape` is the one at work, a failed one is one that brings nothing. */
#ifndef PYRRHA_SCRAPER_METRIC_CACHE_H
#define PYRRHA_SCRAPER_METRIC_CACHE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/labels.h"

#define METRIC_DROPPED UINT32_MAX

struct metric_text {
	uint64_t a, b;         /* hash of its bytes */
	uint32_t series;       /* METRIC_DROPPED: relabelling dropped it */
	uint32_t first, last;  /* scrapes that had it: since when on end, newest */
	uint32_t pass;         /* the newest pass that had it */
};

struct metric_series {
	const uint32_t *strings; /* name, value, name, value ...; in the arena */
	uint32_t n_labels;
	uint32_t tracked;      /* the newest scrape that had it in a way that its absence ends it; 0 = none */
	bool live;             /* has a sample newer than its last stale marker, and its absence ends it */
	uint32_t pass;         /* the newest pass that put something into the batch; t_ms and bits are that */
	int64_t t_ms, last_t_ms; /* INT64_MIN = none; last: the stored one */
	uint64_t bits, last_bits;
};

struct metric_cache {
	struct arena arena;
	VEC(struct metric_text) texts;
	VEC(struct metric_series) series;
	VEC(struct view) strings;
	struct map text_index, series_index, string_index;
	size_t held;           /* bytes of these that the budget counts, besides the arena's */
	uint64_t serial;       /* of the configuration that texts were made into series by */
	uint32_t scrape;
	uint32_t pass;         /* a scrape may be decoded twice */
	uint32_t succeeded;    /* the newest scrape that brought something and was stored */
	size_t n_fresh;        /* texts that it had */
	int64_t last_t_ms;     /* stamp of the newest scrape */
};

void metric_cache_init(struct metric_cache *c, struct budget *budget);
void metric_cache_release(struct metric_cache *c);
/* Texts lose their series, because what makes one of the other has changed; series stay. */
void metric_cache_forget_texts(struct metric_cache *c);

/* As if no scrape had brought anything; scrapes are counted on, and the newest stamp stays. */
void metric_cache_forget(struct metric_cache *c);

/* NULL: there is none. The pointer holds until one is added. */
struct metric_text *metric_cache_find(struct metric_cache *c, struct view text);
/* l: labels as they are stored, without empty ones; none: dropped. ERR_UNAVAILABLE: the budget has no room. */
int metric_cache_add(struct metric_cache *c, struct view text, struct labels l, struct metric_text **ret, struct err *e) MUST_USE;
/* The labels of a series; the array is in a, the strings in the cache. v is NULL past a's cap. */
struct labels metric_cache_labels(const struct metric_cache *c, const struct metric_series *s, struct arena *a);
/* When much of it is of old scrapes: keeps what this scrape had and what is live. False: there was no room for that, and nothing is
 * changed. */
bool metric_cache_forget_old(struct metric_cache *c);

#endif
