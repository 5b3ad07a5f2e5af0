/* SPDX-License-Identifier: Apache-2.0 */
/* The fair queue of password checks: whose turn it is, and whose request is dropped if too many wait. A tree; each level shares turns
 * among its branches alone, so that a network with a thousand addresses has one share, as one with a single address has:
 *
 *	            class      network         subnet          address         check
 *	            (below)    /16, IPv6: /48  /24, IPv6: /64
 *
 *	login_turns ┬ proven ── 10.1 ────────── 10.1.2 ──────── 10.1.2.3 ────── alice:secret, 2 requests
 *	            └ other ─┬─ 10.9 ─────────┬ 10.9.1 ───────┬ 10.9.1.1 ─────┬ bob:1234
 *	                     │                │               │               └ bob:5678
 *	                     │                │               └ 10.9.1.2 ────── carol:1234
 *	                     │                └ 10.9.7 ──────── 10.9.7.7 ────── bob:abcd
 *	                     └─ 10.44 ───────── 10.44.1 ─────── 10.44.1.1 ───── dave:1234
 *
 * Turns. The branches of a node form a ring. The one at its head has the turn; it moves to the end when the next turn is taken, behind
 * all that came meanwhile. A branch that comes joins the end, and one without checks leaves. So:
 *
 *	between two turns of a branch that waits, or between its arrival and its first turn, no other branch of the same node has two
 *	turns: a check that is alone in its network starts after at most one check of each network that waited before it.
 *
 * Classes. Checks of proven addresses (login_proven.h) go first, except that every fourth turn is for the others while any wait: who
 * has a login must not be able to shut out those who come for the first time.
 *
 * Drops. Requests are counted at each node, and several that wait for the same check count each. The one that is dropped is of the
 * branch that has most requests, level by level; if the newcomer's own has as many, it is the newcomer's. So a network that has no more than
 * an equal share of the places never loses one to another network of its class. `other` keeps a quarter of the places, `proven` the rest.
 *
 * All steps walk rings of at most as many branches as there are checks; memory is three nodes for each check at most. This is the idea
 * of the hierarchical round robin of packet schedulers, with their rule of dropping from the longest queue. Not locked: its owner
 * does that. */
#ifndef PYRRHA_HTTPD_LOGIN_TURNS_H
#define PYRRHA_HTTPD_LOGIN_TURNS_H

#include <netinet/in.h>
#include <stdbool.h>

enum login_class { LOGIN_PROVEN, LOGIN_OTHER, LOGIN_CLASSES };

/* A node of the tree. A check embeds one, as its leaf; all fields are private. */
struct login_turn {
	struct login_turn *next, *prev; /* in the ring of its parent, which begins at parent->first and ends at parent->last */
	struct login_turn *parent;
	struct login_turn *first, *last; /* its own ring; NULL: a check */
	struct in6_addr prefix;          /* common to all addresses below this node; the other bits are 0 */
	unsigned n;                      /* waiting requests below this node */
	bool served;                     /* it is first in the ring of its parent, and has had its turn */
};

struct login_turns {
	struct login_turn classes[LOGIN_CLASSES];
	unsigned in_row; /* turns of LOGIN_PROVEN since one of LOGIN_OTHER, while both wait */
};

/* Requests that wait. */
unsigned login_turns_count(const struct login_turns *q);
/* Adds a check, for one request. t stays the caller's, and in the queue until login_turns_remove. */
void login_turns_add(struct login_turns *q, struct login_turn *t, const struct in6_addr *from, enum login_class class);
/* One more request waits for that check, or one less; without any it still has its place. */
void login_turns_more(struct login_turn *t);
void login_turns_less(struct login_turn *t);
/* The check whose turn it is, which stays in the queue; the caller removes it when it is done, before it asks again. NULL: none waits. */
struct login_turn *login_turns_next(struct login_turns *q);
void login_turns_remove(struct login_turn *t);
/* The check that has to lose a request, as there are too many; `newcomer` got the last one. Never NULL: it may be the newcomer. */
struct login_turn *login_turns_fullest(struct login_turns *q, struct login_turn *newcomer);

#endif
