/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of another server as a peer:
 *
 *	server.c          the server: made, ended, probed
 *	server_health.c   its references, health, metrics
 *	server_exchange.c a request under way, and what keeps a view
 *	server_view.c     a view: opened by its first ask, opened again when it was lost
 *	server_send.c     an ask on its way
 *	server_ask.c      an ask, from start to finish
 *	server_answer.c   what HTTP brought, as an answer or as an error
 *	server_refs.c     series of a view that was opened again, by the numbers that their callers know
 *
 * A view has one token. Its first ask, the opener, is sent without one. Asks that are started meanwhile are held, and are sent when the opener's answer
 * was read. Any thread that waits for a held ask reads that answer, so no thread depends on another one's call of finish.
 *
 *	start ─► HELD ─► SENT ─► READING ─► OVER ─► finish
 *	          ▲                 │
 *	          └── the view is lost: opened again, by a thread that waits for a held ask                              */
#ifndef PYRRHA_FLEET_SERVER_INTERNAL_H
#define PYRRHA_FLEET_SERVER_INTERNAL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/vec.h"
#include "fleet/fleet_loop.h"
#include "fleet/server.h"
#include "fleet/wire.h"

#define SERVER_MAX_ANSWER ((uint64_t)256 << 20)
#define SERVER_MAX_DICTIONARY ((uint64_t)256 << 20)
#define SERVER_MAX_STRINGS ((size_t)256 << 20) /* of one view */
#define SERVER_CLOSE_MS 5000     /* how long a close may take */
#define SERVER_BUSY_POSTS 2000   /* with more requests under way views are not closed: they end by themselves */

/* Metrics of all servers; those of one server have its URL as a label. */
enum server_metric {
	SERVER_CALLS, SERVER_FAILURES, SERVER_SECONDS, SERVER_RECEIVED, SERVER_SENT, SERVER_REOPENED, SERVER_FORGOTTEN, SERVER_METRICS
};
extern struct metric server_metrics[SERVER_METRICS];

struct fleet_server {
	struct fleet_peer peer;          /* constant, as all up to refs */
	struct fleet_loop *loop;         /* borrowed */
	struct fetch_client *client;     /* reference */
	char *ask_url;                   /* with user info */
	char *name;                      /* the URL without user info */
	int64_t timeout_ms;              /* 0 = none */
	uint64_t max_answer_bytes;
	struct fleet_dictionary_in *dictionary; /* locks itself */
	int refs;                        /* atomic */
	struct mutex lock;
	struct fleet_server_status status; /* lock guards it; its labels are owned; url and dictionary_bytes are not used */
};

struct fleet_server *server_ref(struct fleet_server *s);
void server_unref(struct fleet_server *s);
/* The last call came back; its external labels; or it did not. */
void server_note_answer(struct fleet_server *s, int64_t took_ms);
void server_note_labels(struct fleet_server *s, struct labels l);
/* The same, without a word on the server: a question had too little time. */
void server_note_hurry(struct fleet_server *s, int64_t took_ms);
void server_note_failure(struct fleet_server *s, int64_t took_ms, const struct err *why);
void server_note_received(struct fleet_server *s, uint64_t bytes);
bool server_is_up(struct fleet_server *s);

/* ---- series by the numbers that callers know ---- */

struct server_series {
	struct labels labels;            /* with the type in an arena of the view */
	const struct ptype *type;
	uint64_t ref;                    /* as the view's callers know it */
	uint64_t now;                    /* as the server knows it now */
	bool gone;                       /* the server does not have it any more */
};

/* Zeroed: no series. Until the view was opened again both numbers are the same, and there is no map by labels. */
struct server_refs {
	VEC(struct server_series) v;
	struct map by_labels, by_ref;
	uint64_t next;                   /* the number of the next series that was never seen; used when mapped */
	bool numbered;                   /* there was more than one select: by_ref is there. Most views have one, and need no map */
	bool mapped;                     /* the view was opened again */
};

void server_refs_release(struct server_refs *r);
/* Adds the series of a select. If the view was opened again, writes the numbers that callers get into their refs. ERR_UNAVAILABLE: no number is left. */
int server_refs_add(struct server_refs *r, struct source_series *s, size_t n, struct err *e) MUST_USE;
/* The view is opened again: all series are gone, except those that server_refs_found names, with their new numbers. */
void server_refs_lost(struct server_refs *r);
void server_refs_found(struct server_refs *r, const struct source_series *s, size_t n);

/* A call with the numbers that the server knows, without series that it does not have. */
struct server_call {
	struct fleet_call call;          /* borrows refs or parts from below */
	uint64_t *refs;                  /* malloc'd; NULL: those of the caller */
	struct source_part *parts;       /* malloc'd; NULL: those of the caller */
	size_t *at;                      /* malloc'd: by series of the call sent, its index in the caller's; NULL: the same */
	struct source_graph graph;       /* rows of a view that was opened again: call.graph. Its refs are those above */
	uint32_t *first;                 /* of the graph, malloc'd as its terms */
	struct source_graph_term *terms;
};
/* c stays where it is: its call refers to it. */
void server_call_init(struct server_call *c, const struct fleet_call *from, const struct server_refs *r);
/* Makes the result of the call sent the result of the caller's call of n series: those that are gone have empty results. */
void server_call_widen(const struct server_call *c, struct fleet_result *r, size_t n);
void server_call_release(struct server_call *c);

/* ---- asks and views ---- */

/* A question under way. Has a reference for the loop and one for the ask. */
struct server_exchange {
	struct fleet_post post;
	struct fleet_server *server;     /* reference */
	struct fleet_peer_view *view;    /* reference; NULL: nobody waits */
	int refs;                        /* atomic */
	atomic_bool done;                /* set before view.news counts it */
};

enum ask_state {
	ASK_HELD,                        /* not sent: the view has no token */
	ASK_SENT,                        /* exchange is set */
	ASK_READING,                     /* a thread decodes the answer */
	ASK_OVER                         /* result, or err */
};

/* view.lock guards the fields below `state`; while it is ASK_READING they belong to the thread that reads. */
struct fleet_ask {
	struct fleet_peer_view *view;    /* reference */
	const struct fleet_call *call;   /* borrowed until finish, as lim */
	const struct source_limits *lim; /* never NULL */
	int64_t started_ms, until_ms;    /* monotonic; until: 0 = never */
	enum ask_state state;
	struct server_exchange *exchange;
	struct server_call sent;
	unsigned generation;             /* of the view, when it was sent */
	uint64_t max_samples;            /* that the question allowed; 0 = any number */
	bool with_dictionary;            /* it was sent with the mirror's session */
	bool without_dictionary;         /* it is sent without, as the mirror does not fit */
	bool lost;                       /* its view was lost once */
	bool own_time;                   /* until_ms is the server's own timeout, not what the question had left */
	bool asked;                      /* it was sent */
	bool came;                       /* an answer came, maybe an error */
	struct fleet_result result;
	struct err err;
};

/* A select that was made on a view, to be made again. */
struct server_select {
	struct buf question;
};

struct fleet_peer_view {
	struct fleet_server *server;     /* reference */
	int refs;                        /* atomic: of its opener and of its asks and exchanges */
	struct mutex lock;
	struct mutex wake;               /* beside `lock`, which a thread holds while it encodes a large question: the loop's thread must not wait for it */
	pthread_cond_t changed;          /* of wake: news were counted, or the question of a waiting thread was canceled */
	uint64_t news;                   /* wake guards it: an exchange is done, an ask has another state, or there is no opener any more */
	uint64_t token;                  /* lock guards it, as all below; 0: none */
	unsigned generation;             /* how often it was lost */
	bool lost;                       /* there is no token as the server has forgotten the view */
	struct fleet_ask *opener;        /* opens the view, or opens it again; NULL: none. While there is no token others are held */
	VEC(struct fleet_ask *) held;
	struct labels *labels;           /* owned: external labels, of the first answer */
	VEC(struct arena) strings;
	size_t strings_used;             /* bytes of these */
	VEC(struct server_select) selects;
	struct server_refs refs_of;          /* series by the numbers of callers */
};

struct fleet_peer_view *server_view_open(struct fleet_peer *p);
void server_view_close(struct fleet_peer_view *v);
struct labels server_view_labels(struct fleet_peer_view *v);
struct fleet_peer_view *server_view_ref(struct fleet_peer_view *v);
void server_view_unref(struct fleet_peer_view *v);
/* Wakes all who wait for news of the view. */
void server_view_wake(struct fleet_peer_view *v);
/* The number of the last news. A thread gets it before it looks whether it has to wait. */
uint64_t server_view_news(struct fleet_peer_view *v);
/* Opens it again, by the selects that were made on it: for v->opener, which is a and held. Releases the lock meanwhile. Negative with *e: a's error; the
 * view is still lost. */
int server_view_reopen(struct fleet_peer_view *v, struct fleet_ask *a, struct err *e) REQUIRES(v->lock) MUST_USE;
/* There is a token, or no opener: sends what is held. */
void server_view_go_on(struct fleet_peer_view *v) REQUIRES(v->lock);

struct fleet_ask *server_ask_start(struct fleet_peer_view *v, const struct fleet_call *call, const struct source_limits *lim);
int server_ask_finish(struct fleet_ask *a, struct fleet_result *ret, struct err *e) MUST_USE;
bool server_ask_has_work(struct fleet_ask *a, int64_t until_ms);
void server_ask_cancel(struct fleet_ask *a);
/* The ask is over, with that error (code 0: with its result). */
void server_ask_end(struct fleet_peer_view *v, struct fleet_ask *a, const struct err *why) REQUIRES(v->lock);
void server_ask_send(struct fleet_peer_view *v, struct fleet_ask *a) REQUIRES(v->lock);
/* Whether the question was canceled, or stopped to make room. */
bool server_is_stopped(const struct source_limits *lim);
/* Waits a moment for news of the view after `seen`, not beyond until_ms (INT64_MAX: any time). Releases the lock meanwhile. */
void server_view_wait(struct fleet_peer_view *v, uint64_t seen, int64_t until_ms, const struct source_limits *lim) REQUIRES(v->lock);
/* The same for an ask. Releases the lock meanwhile. Negative with *e: the question was canceled, or the time of the ask is over. */
int server_ask_wait(struct fleet_peer_view *v, struct fleet_ask *a, uint64_t seen, struct err *e) REQUIRES(v->lock) MUST_USE;

/* Posts a question; takes the body. v: whose waiters are told when it is done, or NULL. Returns owned. */
struct server_exchange *server_exchange_new(struct fleet_server *s, struct fleet_peer_view *v, struct buf *body, int64_t until_ms);
void server_exchange_unref(struct server_exchange *x);
/* A question with the limits that are left. */
void server_question_init(struct fleet_question *q, const struct fleet_server *s, const struct fleet_call *call, const struct source_limits *lim,
			  int64_t until_ms);

/* ---- answers ---- */

/* What came of a post, decoded. 0: an answer, which may be an error. Else ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_CORRUPT, ERR_DENIED. */
int server_answer_read(const struct fleet_post *p, struct fleet_server *s, const struct fleet_call *call, const struct fleet_within *within, struct arena *strings,
		       struct fleet_answer *ret, struct fleet_result *result, struct err *e) MUST_USE;
/* Adds the call's cost and lacks to the limits of the question. Returns the error of the answer. max_samples: that the question allowed; 0 = any number. */
int server_answer_account(const struct fleet_answer *a, const struct fleet_server *s, const struct source_limits *lim, uint64_t max_samples,
			  struct err *e) MUST_USE;

#endif
