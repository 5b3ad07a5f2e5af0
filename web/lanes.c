/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of requests, and the answers to those that get no worker. Fast requests (metrics, status, a query that reads nothing)
 * never wait for slow ones, and small queries have places that large ones do not get. How large an answer is, is known only when its query was
 * evaluated. So a small query with a large answer gives way to the next one (httpd_turn_is_over), and files that grow with elements and stacks
 * have a lane of their own. So have questions of other servers: they and people's queries never wait for each other. */
#include <unistd.h>

#include "promql-like/promql.h"
#include "web/answer.h"
#include "web/formats.h"
#include "web/internal.h"

#define COMMON_WORKERS 16
#define LOOKUP_WORKERS 8
#define CHANGE_WORKERS 8
#define SELF_WORKERS 12      /* a profile of this program holds one for as long as it takes */
#define MANY_WAITING 128
#define LARGE_ANSWERS 48     /* small queries whose turn is over: they wait for the bucket, evaluate or make their answer at a low priority while others start */
#define FILE_WORKERS 2       /* for small queries whose answer is a file that grows with elements and stacks */
#define SMALL_WEIGHT 5000   /* a graph of 1,000 steps over a day; a profile of three days */
#define NOTHING_WEIGHT 2000 /* of a query that reads nothing stored: it is answered like a status */

static unsigned small_places(unsigned max_queries)
{
	return MAX(max_queries / 4, 2u);
}

unsigned web_query_places(unsigned max_queries)
{
	return max_queries + small_places(max_queries) + LARGE_ANSWERS + FILE_WORKERS + COMMON_WORKERS;
}

void lanes_init(struct web *w)
{
	/* More large queries than CPUs only wait for each other, and leave scrapes and small queries the share of one among twenty. */
	unsigned cpus = (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
	unsigned queries = w->o.max_queries ? w->o.max_queries : 20;
	unsigned waiting = w->o.max_waiting_queries ? w->o.max_waiting_queries : 100;
	w->lanes[LANE_COMMON] = (struct httpd_lane){ .name = "common", .workers = COMMON_WORKERS };
	w->lanes[LANE_LOOKUP] = (struct httpd_lane){ "lookup", LOOKUP_WORKERS, MANY_WAITING, 0 };
	w->lanes[LANE_CHANGE] = (struct httpd_lane){ "change", CHANGE_WORKERS, MANY_WAITING, 0 };
	w->lanes[LANE_SELF] = (struct httpd_lane){ "self", SELF_WORKERS, 2 * SELF_WORKERS, 0 };
	w->lanes[LANE_QUERY] = (struct httpd_lane){ "query", queries, waiting, cpus };
	w->lanes[LANE_SMALL_QUERY] = (struct httpd_lane){ "small_query", small_places(queries) + LARGE_ANSWERS, waiting, small_places(queries) };
	w->lanes[LANE_SOURCE] = (struct httpd_lane){ "source", queries, waiting, cpus };
	w->lanes[LANE_FILES] = (struct httpd_lane){ "files", FILE_WORKERS, waiting, 0 };
}

/* Mistakes are the handler's to tell; a request with one is light. */
static double weight_of(const struct httpd_request *rq, bool *ret_reads)
{
	struct err e;
	int64_t start = 0, end = 0, step = 0;
	if (view_ends(httpd_path(rq), VIEW("/query_range")))
		if (param_time(rq, "start", 0, &start, &e) || param_time(rq, "end", 0, &end, &e) ||
		    param_duration(rq, "step", 0, &step, &e))
			return 0;
	return promql_weight(httpd_param(rq, "query"), start, end, step, ret_reads);
}

static int64_t patience_ms(const struct web *w, const struct httpd_request *rq)
{
	struct err e;
	int64_t ms = w->o.query_timeout_ms;
	if (httpd_parsed(rq) && param_duration(rq, "timeout", ms, &ms, &e) == 0)
		ms = MIN(ms, w->o.query_timeout_ms);
	return MAX(ms, 0);
}

unsigned choose_lane(struct httpd_request *rq, unsigned lane, void *arg)
{
	const struct web *w = arg;
	bool reads = true;
	if (lane == LANE_COMMON)
		return lane;
	if (w->o.query_timeout_ms)
		httpd_wait_at_most(rq, patience_ms(w, rq));
	if (lane != LANE_QUERY || !httpd_parsed(rq) || httpd_param(rq, "match[]").ptr)
		return lane;
	double weight = weight_of(rq, &reads);
	if (!reads && weight <= NOTHING_WEIGHT)
		return LANE_COMMON;
	if (weight > SMALL_WEIGHT)
		return LANE_QUERY;
	return format_is_by_element(httpd_param(rq, "format")) ? LANE_FILES : LANE_SMALL_QUERY;
}

void refuse_request(struct httpd_request *rq, unsigned lane, enum httpd_refusal why, void *arg)
{
	const struct web *w = arg;
	struct err e;
	bool query = lane == LANE_QUERY || lane == LANE_SMALL_QUERY || lane == LANE_FILES || lane == LANE_SOURCE;
	const struct httpd_lane *l = &w->lanes[lane];
	const char *flags = query ? " (--query.max-concurrency)" : "";
	if (why == HTTPD_FULL)
		err_set(&e, ERR_BUSY, "too many requests of this kind: %u%s are at work and %u%s wait: try again later", l->workers, flags,
			l->max_waiting, query ? " (--query.max-waiting)" : "");
	else
		err_set(&e, ERR_TIMEOUT, "query timed out in query queue: of the %s that were there before, at most %u at a time%s, too few ended in time (--query.timeout)",
			query ? "queries" : "requests", l->workers, flags);
	if (httpd_parsed(rq) && httpd_param(rq, "format").len)
		serve_format_error(rq, httpd_param(rq, "format"), &e);
	else
		answer_error(rq, &e);
}
