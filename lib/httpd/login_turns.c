/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/login_turns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "httpd/networks.h"

#define IN_ROW 3          /* turns of proven addresses for one of the others */
#define OTHERS_PLACES 4   /* the others keep one place of so many */

/* ---- rings ---- */

static void turns_append(struct login_turn *parent, struct login_turn *t)
{
	t->parent = parent;
	t->next = NULL;
	t->prev = parent->last;
	if (t->prev)
		t->prev->next = t;
	else
		parent->first = t;
	parent->last = t;
}

static void turns_unlink(struct login_turn *t)
{
	if (t->prev)
		t->prev->next = t->next;
	else
		t->parent->first = t->next;
	if (t->next)
		t->next->prev = t->prev;
	else
		t->parent->last = t->prev;
}

static struct login_turn *turns_branch(struct login_turn *parent, const struct in6_addr *prefix)
{
	struct login_turn *t = parent->first;
	while (t && memcmp(&t->prefix, prefix, sizeof *prefix) != 0)
		t = t->next;
	if (t)
		return t;
	t = NEW(struct login_turn);
	t->prefix = *prefix;
	turns_append(parent, t);
	return t;
}

/* ---- what waits ---- */

unsigned login_turns_count(const struct login_turns *q)
{
	return q->classes[LOGIN_PROVEN].n + q->classes[LOGIN_OTHER].n;
}

void login_turns_more(struct login_turn *t)
{
	for (; t; t = t->parent)
		t->n++;
}

void login_turns_less(struct login_turn *t)
{
	for (; t; t = t->parent) {
		assert(t->n);
		t->n--;
	}
}

void login_turns_add(struct login_turns *q, struct login_turn *t, const struct in6_addr *from, enum login_class class)
{
	struct login_turn *node = &q->classes[class];
	for (size_t level = 0; level < NETWORKS_LEVELS; level++) {
		struct in6_addr prefix = networks_prefix(from, level);
		node = turns_branch(node, &prefix);
	}
	*t = (struct login_turn){ .prefix = *from };
	turns_append(node, t);
	login_turns_more(t);
}

void login_turns_remove(struct login_turn *t)
{
	struct login_turn *parent = t->parent;
	for (struct login_turn *p = parent; p; p = p->parent)
		p->n -= t->n;
	turns_unlink(t);
	for (struct login_turn *node = parent; node->parent && !node->first; node = parent) {
		parent = node->parent;
		turns_unlink(node);
		free(node);
	}
}

/* ---- turns ---- */

static struct login_turn *turns_class(struct login_turns *q)
{
	struct login_turn *proven = &q->classes[LOGIN_PROVEN], *other = &q->classes[LOGIN_OTHER];
	if (!proven->first || !other->first)
		return proven->first ? proven : other;
	bool others_turn = q->in_row >= IN_ROW;
	q->in_row = others_turn ? 0 : q->in_row + 1;
	return others_turn ? other : proven;
}

struct login_turn *login_turns_next(struct login_turns *q)
{
	struct login_turn *node = turns_class(q);
	if (!node->first)
		return NULL;
	while (node->first) {
		struct login_turn *head = node->first;
		if (head->served) {
			head->served = false;
			turns_unlink(head);
			turns_append(node, head);
		}
		node = node->first;
		node->served = true;
	}
	return node;
}

/* ---- drops ---- */

/* The branch of `node` that `t` is below. NULL: it is not below that node. */
static struct login_turn *turns_branch_of(const struct login_turn *node, struct login_turn *t)
{
	while (t && t->parent != node)
		t = t->parent;
	return t;
}

struct login_turn *login_turns_fullest(struct login_turns *q, struct login_turn *newcomer)
{
	bool others = q->classes[LOGIN_OTHER].n > login_turns_count(q) / OTHERS_PLACES || !q->classes[LOGIN_PROVEN].n;
	struct login_turn *node = &q->classes[others ? LOGIN_OTHER : LOGIN_PROVEN];
	while (node->first) {
		struct login_turn *own = turns_branch_of(node, newcomer), *most = own ? own : node->first;
		for (struct login_turn *t = node->first; t; t = t->next)
			if (t->n > most->n)
				most = t;
		node = most;
	}
	return node;
}
