/* SPDX-License-Identifier: Apache-2.0 */
/* The views that an answerer has opened for other servers. Each has a token of 64 random bits, and is only found by the asker that opened it.
 *
 *	open ─► in use (users > 0) ─► idle ─► in use ─► …
 *	                               └─► closed by the asker, idle too long, too old, or the oldest when there is no room: not listed any more
 *
 * When there is no room, an asker that has more than a quarter of all views makes room itself; else other such askers do; else all. A view that is not listed is
 * released when its last user leaves. A thread of the table's own releases views that nobody asks for, and tidies up elsewhere. Any thread. */
#ifndef PYRRHA_FLEET_ANSWERER_VIEWS_H
#define PYRRHA_FLEET_ANSWERER_VIEWS_H

#include "base/lock.h"
#include "base/map.h"
#include "model/source.h"

/* A view and what is known of it. Fields but `view` and `token` are the table's. */
struct answerer_view {
	uint64_t token;              /* above 0 */
	struct source_view *view;
	uint64_t asker;              /* hash of the asker's name */
	unsigned users;              /* questions that use it now */
	bool listed;
	int64_t opened_ms, used_ms;  /* clock_mono_ms: when it was opened; when its last user left */
	struct mutex lock;           /* of kinds */
	VEC(uint64_t) kinds;         /* two bits per ref: which refs the asker got, 01 of floats, 10 of profiles */
};

struct answerer_views;

struct answerer_views_options {
	int64_t idle_ms, age_ms;     /* how long a view stays that nobody asks for; at all */
	void (*tidy)(void *arg);     /* called by the thread every tidy_ms, once there was a view; NULL: nothing */
	void *arg;
	int64_t tidy_ms;
};
/* Returns owned. */
struct answerer_views *answerer_views_new(const struct answerer_views_options *o);
/* No view may be in use. */
void answerer_views_free(struct answerer_views *t);
/* Takes the view; the caller uses it, until answerer_views_leave. */
struct answerer_view *answerer_views_add(struct answerer_views *t, struct source_view *view, uint64_t asker);
/* NULL: there is none of this token that the asker opened. */
struct answerer_view *answerer_views_find(struct answerer_views *t, uint64_t token, uint64_t asker);
/* drop: nobody will ask for it again. */
void answerer_views_leave(struct answerer_views *t, struct answerer_view *x, bool drop);

/* The series of a select are the asker's from now on: ERR_LIMIT if a ref is 2^32 or more. */
int answerer_view_add_series(struct answerer_view *x, const struct source_series *s, size_t n, struct err *e) MUST_USE;
/* Whether the asker got all of n refs, each `stride` bytes behind the last, as floats or as profiles. */
bool answerer_view_has(struct answerer_view *x, const uint64_t *refs, size_t n, size_t stride, bool floats);

/* Random, above 0. */
uint64_t answerer_random(void);

#endif
