/* SPDX-License-Identifier: Apache-2.0 */
/* In which steps of a graph a stored profile counts, and how much. A graph's windows overlap: at a step of a minute, rate(cpu[5m]) has
 * each profile in five of them. The terms of all steps tell it, by stored series:
 *
 *	                 step 0   1   2   3   4   5   6
 *	profile            .    v   v   v   v   v   .         whole in steps 1 to 5: a run of them
 *	                  .3v                                 and a part of it at step 0: another
 *
 * Profiles that follow each other and have the same runs are a class: what they add up to is all that is needed of them. A part is a
 * binary fraction with the number of bits of its lane. So sums of parts are exact, too, and do not depend on the order of threads.
 * Private to graph.c. */
#ifndef PYRRHA_PROMQL_GRAPH_TERMS_H
#define PYRRHA_PROMQL_GRAPH_TERMS_H

#include "promql-like/stacks/readout.h"

/* Steps in which a profile counts the same. A lane is one side (added or subtracted) of one input series: 2 * series, 2 * series +
 * 1. */
struct graph_run {
	uint32_t first, end, lane;
	bool whole;            /* scale is 1 or -1 */
	double scale;
	int64_t part;          /* it, unless it is whole: times 2^graph_lane.bits */
};

/* Scales of a lane that are not integers. */
struct graph_lane {
	double least, most;    /* of their absolute values that are not 0; most is 0 if there are none */
	int bits;              /* behind the point */
};

/* The classes of some profiles of one series. */
struct graph_classes {
	VEC(struct graph_run) runs;
	VEC(uint32_t) first_run;   /* by class: of runs; one more than there are classes */
	VEC(uint32_t) of;          /* by profile */
	uint32_t first, end;       /* steps that any of them counts in; end 0: none */
	size_t work;               /* comparisons since graph_terms_classes last looked whether the query may go on */
	size_t n_held;             /* runs that are in the query's account */
};
void graph_classes_free(struct graph_classes *c);

struct graph_terms {
	const struct span *sp;
	VEC(struct ref_terms) refs;
	struct map by_ref;
	VEC(struct graph_lane) lanes;
};

/* Whether v is sums of stored profiles, of ranges for which storage keeps no sums by the hour. */
bool graph_terms_fit(const struct value *v);
/* The terms of v, whose steps are sp, for each stored series. Free it, also if it is false: scales of one lane are too far apart for
 * fractions. */
bool graph_terms_list(struct graph_terms *g, const struct value *v, const struct span *sp);
void graph_terms_free(struct graph_terms *g);
/* The terms as a source is asked with them: refs, first, terms, bits, which are malloc'd; graph_terms_asked_free. */
void graph_terms_ask(const struct graph_terms *g, struct source_graph *ret);
void graph_terms_asked_free(struct source_graph *a);
/* And of a question from elsewhere; its memory is in the account of q. ERR_BAD_DATA: it is not one; ERR_LIMIT, ERR_BUSY. Free it in any case. */
int graph_terms_of(struct graph_terms *g, struct eval *q, const struct source_graph *a, const struct span *sp, struct err *e) MUST_USE;
/* Refs by number, malloc'd, and the range that contains all of them. */
uint64_t *graph_terms_refs(const struct graph_terms *g, int64_t *ret_after, int64_t *ret_until);
/* The classes of profiles of the series with that number. The summed ones (NULL: none) count here only by their difference from the middle of
 * their minute. A question from elsewhere may have any number of terms for each profile: the time and the memory of q are looked at meanwhile. */
int graph_terms_classes(const struct graph_terms *g, struct eval *q, size_t series, const int64_t *t_ms, const uint8_t *summed, size_t n, struct graph_classes *ret,
			struct err *e) MUST_USE;
/* As a source_odd_fn, */
bool graph_terms_odd(const struct graph_terms *g, size_t series, int64_t t_ms);
/* as a source_alike_fn. */
enum source_alike graph_terms_alike(const struct graph_terms *g, size_t a, size_t b, int64_t after, int64_t until);

#endif
