/* SPDX-License-Identifier: Apache-2.0 */
/* Access rights: checks the header Authorization of a request against the users and tokens of the web configuration.
 *
 *	header ─► token, or a login that is known ──────────────► answer, at once
 *	   └────► name and password ─► queue ─► bcrypt, one at a time ─► answer, later
 *
 * bcrypt takes 0.06 s and more of a CPU, so it has a separate thread, and requests with the same login wait for the same check. The
 * thread has the priority of all others: at a lower one a busy machine would let nobody in. Which check is next, and which request is
 * dropped if too many wait: login_turns.h. Addresses from which somebody got in go first (login_proven.h).
 *
 * An address whose logins failed ten times in a minute waits, without a check. Known logins from there still pass; otherwise anybody
 * behind the same proxy could lock the others out. A successful login is remembered (login_known.h). A failed one is remembered for a
 * minute: until then it is refused again without a check, and counts once (login_failures.h).
 *
 * Thread-safe. Passwords and tokens are in no log, and forgotten once they are checked. */
#ifndef PYRRHA_HTTPD_LOGIN_H
#define PYRRHA_HTTPD_LOGIN_H

#include <netinet/in.h>

#include "base/view.h"
#include "httpd/web_config.h"

#define LOGIN_WAITERS 256 /* requests that wait for a check, at most: each holds a connection and a copy of its password */

struct login;

enum login_answer {
	LOGIN_PASS,
	LOGIN_NEEDED,    /* 401: none, or a wrong one */
	LOGIN_FORBIDDEN, /* 403: it has not that right */
	LOGIN_LATER,     /* 429: too many failed from there */
	LOGIN_BUSY,      /* 503: too many wait to be checked, and its network has most of them; or the server stops */
	LOGIN_ASKED      /* `answered` tells */
};

/* For one request; owned by the caller, until it is answered. */
struct login_waiter {
	struct login_waiter *next;
	unsigned right;           /* enum httpd_right: all of these; one of HTTPD_RIGHT_ALL is enough */
	enum login_answer answer;
	unsigned retry_s;         /* of LOGIN_LATER and LOGIN_BUSY */
};

/* answered: is called for each LOGIN_ASKED, without a lock: on a thread of the login's own, in login_close, or in login_ask of another
 * request, which takes its place. max_waiters: requests that may wait, at least 1. Returns owned. */
struct login *login_new(void (*answered)(struct login_waiter *w), unsigned max_waiters);
/* Answers all waiting requests, and makes no further checks. */
void login_close(struct login *l);
void login_free(struct login *l); /* NULL is fine */

/* From now on; takes a reference. NULL, or one without users and tokens: everybody passes. Waiting requests are still checked against
 * the previous one. */
void login_set_config(struct login *l, struct web_config *c);
/* header: the value of Authorization, {NULL, 0} if there is none. from: an IPv4 address is written as an IPv6 one. LOGIN_ASKED without
 * `queue`: nothing was done; the caller gets ready to be answered and asks again with it. Other answers are in *w too. */
enum login_answer login_ask(struct login *l, struct view header, const struct in6_addr *from, unsigned right, bool queue,
			    struct login_waiter *w);
/* The value of WWW-Authenticate. */
const char *login_challenge(struct login *l);

#endif
