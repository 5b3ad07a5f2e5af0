/* SPDX-License-Identifier: Apache-2.0 */
/* The fair queue of password checks, against what its header promises: examples, and floods that are drawn. PYRRHA_SEED=n draws
 * others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "httpd/login_turns.h"

#define PLACES 64

static struct in6_addr ip(const char *text)
{
	struct in6_addr a;
	assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

static void add(struct login_turns *q, struct login_turn *t, const char *from, enum login_class class)
{
	struct in6_addr a = ip(from);
	login_turns_add(q, t, &a, class);
}

static void serve(struct login_turns *q, const struct login_turn *want)
{
	struct login_turn *t = login_turns_next(q);
	assert_ptr_equal(t, want);
	login_turns_remove(t);
}

/* While requests of one address wait, a request of another network, subnet or address gets the next turn. A request of the same address is last. */
static void test_examples(void **state)
{
	struct login_turns q = { 0 };
	struct login_turn flood[8], person, again;
	(void)state;
	assert_null(login_turns_next(&q));
	for (size_t i = 0; i < ARRAY_LEN(flood); i++)
		add(&q, &flood[i], "::ffff:10.9.1.1", LOGIN_OTHER);
	assert_ptr_equal(login_turns_next(&q), &flood[0]); /* it runs */
	add(&q, &person, "::ffff:10.8.1.1", LOGIN_OTHER);
	login_turns_remove(&flood[0]);
	serve(&q, &person); /* of another network */
	serve(&q, &flood[1]);
	add(&q, &person, "::ffff:10.9.2.1", LOGIN_OTHER);
	serve(&q, &person); /* another subnet */
	serve(&q, &flood[2]);
	add(&q, &person, "::ffff:10.9.1.2", LOGIN_OTHER);
	serve(&q, &person); /* another address */
	add(&q, &person, "::ffff:10.9.1.1", LOGIN_OTHER);
	for (size_t i = 3; i < ARRAY_LEN(flood); i++)
		serve(&q, &flood[i]);
	serve(&q, &person); /* one address takes its checks in order */
	/* IPv6: /48, /64, address. */
	add(&q, &flood[0], "2001:db8:1:1::1", LOGIN_OTHER);
	add(&q, &flood[1], "2001:db8:1:1::1", LOGIN_OTHER);
	add(&q, &flood[2], "2001:db8:1:2::1", LOGIN_OTHER);
	add(&q, &flood[3], "2001:db8:1:1::2", LOGIN_OTHER);
	add(&q, &flood[4], "2001:db8:2::1", LOGIN_OTHER);
	serve(&q, &flood[0]);
	serve(&q, &flood[4]);
	serve(&q, &flood[2]);
	serve(&q, &flood[3]);
	serve(&q, &flood[1]);
	/* Proven addresses first, and the others each fourth turn. */
	for (size_t i = 0; i < ARRAY_LEN(flood); i++)
		add(&q, &flood[i], "::ffff:10.7.1.1", LOGIN_PROVEN);
	add(&q, &person, "::ffff:10.9.1.1", LOGIN_OTHER);
	add(&q, &again, "::ffff:10.9.1.1", LOGIN_OTHER);
	for (size_t i = 0; i < 3; i++)
		serve(&q, &flood[i]);
	serve(&q, &person);
	for (size_t i = 3; i < 6; i++)
		serve(&q, &flood[i]);
	serve(&q, &again);
	serve(&q, &flood[6]);
	serve(&q, &flood[7]);
	assert_int_equal(login_turns_count(&q), 0);
}

/* Who loses a request when one is too many. */
static void test_drops(void **state)
{
	struct login_turns q = { 0 };
	struct login_turn a[3], b, c, known[3];
	(void)state;
	add(&q, &a[0], "::ffff:10.9.1.1", LOGIN_OTHER);
	add(&q, &a[1], "::ffff:10.9.2.1", LOGIN_OTHER);
	add(&q, &b, "::ffff:10.8.1.1", LOGIN_OTHER);
	assert_ptr_equal(login_turns_fullest(&q, &b), &a[0]); /* its network has two */
	login_turns_more(&a[1]);
	assert_ptr_equal(login_turns_fullest(&q, &b), &a[1]); /* and its subnet has two of these */
	login_turns_more(&b);
	login_turns_more(&b);
	assert_ptr_equal(login_turns_fullest(&q, &b), &b);    /* as many each: the newcomer's */
	assert_ptr_equal(login_turns_fullest(&q, &a[0]), &a[1]);
	/* The others keep a quarter, and the proven what is beyond. */
	add(&q, &known[0], "::ffff:10.7.1.1", LOGIN_PROVEN);
	assert_ptr_equal(login_turns_fullest(&q, &known[0]), &a[1]);
	for (size_t i = 1; i < 18; i++)
		login_turns_more(&known[0]);
	add(&q, &c, "::ffff:10.6.1.1", LOGIN_OTHER); /* 7 of 25 */
	assert_true(login_turns_fullest(&q, &c)->parent->parent->parent->parent == &q.classes[LOGIN_OTHER]);
	login_turns_remove(&c);
	login_turns_more(&known[0]);                 /* 6 of 25 */
	assert_ptr_equal(login_turns_fullest(&q, &known[0]), &known[0]);
	for (size_t i = 0; i < 2; i++)
		login_turns_remove(&a[i]);
	login_turns_remove(&b);
	login_turns_remove(&known[0]);
	assert_true(!q.classes[LOGIN_OTHER].first && !q.classes[LOGIN_PROVEN].first);
	assert_int_equal(login_turns_count(&q), 0);
}

/* ---- floods ---- */

struct waiting {
	struct login_turn turn; /* must be first */
	bool used;
	unsigned requests;
	/* Set for a request that was the first of its network: its class, and how many checks may start before its own. */
	unsigned class, ahead;
	bool promised;
};

struct flood {
	uint64_t seed;
	struct login_turns q;
	struct waiting w[PLACES + 1];
	unsigned n_promised, n_dropped;
	unsigned row; /* turns of proven addresses, one after the other, while others wait */
};

static unsigned draw(struct flood *f, unsigned below)
{
	f->seed += 0x9e3779b97f4a7c15;
	return (unsigned)(hash_u64(f->seed) % below);
}

/* Few networks of many addresses, many of few, of both families. */
static struct in6_addr draw_address(struct flood *f, unsigned networks)
{
	bool v6 = draw(f, 3) == 0;
	struct in6_addr a = v6 ? ip("2001:db8::") : ip("::ffff:10.0.0.0");
	unsigned net = draw(f, 4) ? draw(f, networks) : 0; /* one is worse than all others */
	unsigned sub = draw(f, 3), host = draw(f, 3);
	a.s6_addr[v6 ? 5 : 13] = (uint8_t)net;
	a.s6_addr[v6 ? 7 : 14] = (uint8_t)sub;
	a.s6_addr[15] = (uint8_t)host;
	return a;
}

static struct login_turn *ancestor(struct login_turn *t, unsigned up)
{
	while (up--)
		t = t->parent;
	return t;
}

static unsigned ring_size(const struct login_turn *t)
{
	unsigned n = 0;
	for (t = t->first; t; t = t->next)
		n++;
	return n;
}

static void check_drop(struct flood *f, struct login_turn *newcomer)
{
	struct login_turn *t = login_turns_fullest(&f->q, newcomer), *class = ancestor(t, 4);
	unsigned all = login_turns_count(&f->q);
	assert_true(t->n > 0);
	/* Of the network, subnet, address with most. */
	for (unsigned up = 0; up < 4; up++) {
		struct login_turn *own = ancestor(t, up);
		for (const struct login_turn *s = own->parent->first; s; s = s->next)
			assert_true(s->n <= own->n);
	}
	/* Neither class goes below its part because of the other. */
	bool others = class == &f->q.classes[LOGIN_OTHER];
	if (ancestor(newcomer, 4) != class)
		assert_true(others ? class->n > all / 4 : f->q.classes[LOGIN_OTHER].n <= all / 4);
	/* Never of a network with an equal share, for another of its class. */
	struct login_turn *net = ancestor(t, 3);
	if (ancestor(newcomer, 4) == class && ancestor(newcomer, 3) != net)
		assert_true(net->n > class->n / ring_size(class));
	struct waiting *w = (struct waiting *)(void *)t;
	f->n_dropped++;
	login_turns_less(t);
	if (--w->requests == 0) {
		login_turns_remove(t);
		w->used = false;
	}
}

static void arrive(struct flood *f, unsigned networks)
{
	struct waiting *w = f->w;
	while (w->used)
		w++;
	struct in6_addr from = draw_address(f, networks);
	unsigned class = draw(f, 5) ? LOGIN_OTHER : LOGIN_PROVEN;
	login_turns_add(&f->q, &w->turn, &from, class);
	struct login_turn *net = ancestor(&w->turn, 3), *root = net->parent;
	*w = (struct waiting){ .turn = w->turn, .used = true, .requests = 1, .class = class };
	if (net->n == 1) {
		w->promised = true;
		w->ahead = ring_size(root) - 1 - root->first->served; /* the network that was served last has its next turn after this one */
	}
	if (draw(f, 6) == 0) {
		login_turns_more(&w->turn);
		w->requests++;
	}
	while (login_turns_count(&f->q) > PLACES)
		check_drop(f, &w->turn);
}

/* A check starts; those that were promised a place are one nearer. */
static void start(struct flood *f)
{
	bool had_others = f->q.classes[LOGIN_OTHER].first, had_proven = f->q.classes[LOGIN_PROVEN].first;
	unsigned before = f->q.in_row;
	struct login_turn *t = login_turns_next(&f->q);
	if (!t)
		return;
	struct waiting *w = (struct waiting *)(void *)t;
	f->row = w->class == LOGIN_PROVEN && had_others ? f->row + 1 : 0;
	assert_true(f->row <= 3);
	assert_true(w->class == LOGIN_PROVEN || !had_proven || before == 3);
	for (size_t i = 0; i <= PLACES; i++) {
		struct waiting *o = &f->w[i];
		if (!o->used || o == w || !o->promised || o->class != w->class || ancestor(&o->turn, 3) == ancestor(t, 3))
			continue;
		assert_true(o->ahead > 0);
		o->ahead--;
		f->n_promised++;
	}
}

/* The check that runs ends. */
static void end(struct flood *f, struct login_turn *t)
{
	struct waiting *w = (struct waiting *)(void *)t;
	login_turns_remove(t);
	w->used = false;
}

static struct login_turn *running(struct flood *f, enum login_class class)
{
	struct login_turn *t = &f->q.classes[class];
	while (t->first && t->first->served)
		t = t->first;
	return t->first || t == &f->q.classes[class] ? NULL : t;
}

static void test_floods(void **state)
{
	const char *seed = getenv("PYRRHA_SEED");
	unsigned promised = 0, dropped = 0;
	(void)state;
	for (unsigned round = 0; round < 60; round++) {
		struct flood f = { .seed = (seed ? strtoull(seed, NULL, 10) : 1) * 1000003 + round };
		unsigned networks = 1 + draw(&f, 80);
		for (unsigned step = 0; step < 2000; step++) {
			for (unsigned n = draw(&f, 4); n; n--)
				arrive(&f, networks);
			start(&f);
			for (unsigned n = draw(&f, 4); n; n--)
				arrive(&f, networks);
			for (unsigned c = 0; c < LOGIN_CLASSES; c++) {
				struct login_turn *t = running(&f, c);
				if (t)
					end(&f, t);
			}
			assert_true(login_turns_count(&f.q) <= PLACES);
		}
		for (size_t i = 0; i <= PLACES; i++)
			if (f.w[i].used)
				login_turns_remove(&f.w[i].turn);
		assert_true(!f.q.classes[LOGIN_OTHER].first && !f.q.classes[LOGIN_PROVEN].first);
		promised += f.n_promised;
		dropped += f.n_dropped;
	}
	assert_true(promised > 10000 && dropped > 10000); /* it was tried */
}

/* Who waits is never passed twice by another branch of its node, at any level. */
static void test_nobody_passes_twice(void **state)
{
	struct flood f = { .seed = 77 };
	static unsigned char passed[PLACES + 1][3][256];
	(void)state;
	for (unsigned step = 0; step < 20000; step++) {
		while (login_turns_count(&f.q) < PLACES) {
			size_t i = 0;
			while (f.w[i].used)
				i++;
			struct in6_addr from = ip("::ffff:10.0.0.0");
			from.s6_addr[13] = (uint8_t)(draw(&f, 2) ? 0 : draw(&f, 6));
			from.s6_addr[14] = (uint8_t)draw(&f, 4);
			from.s6_addr[15] = (uint8_t)draw(&f, 4);
			f.w[i] = (struct waiting){ .used = true, .requests = 1 };
			login_turns_add(&f.q, &f.w[i].turn, &from, LOGIN_OTHER);
			memset(passed[i], 0, sizeof passed[i]);
		}
		struct login_turn *t = login_turns_next(&f.q);
		for (size_t i = 0; i <= PLACES; i++) {
			struct login_turn *o = &f.w[i].turn;
			if (!f.w[i].used || o == t)
				continue;
			for (unsigned level = 0; level < 3; level++) { /* network, subnet, address */
				struct login_turn *mine = ancestor(o, 3 - level), *other = ancestor(t, 3 - level);
				if (mine->parent != other->parent)
					break;
				if (mine == other) {
					memset(passed[i][level], 0, sizeof passed[i][level]); /* its own turn */
					continue;
				}
				unsigned char *n = &passed[i][level][other->prefix.s6_addr[13 + level]];
				assert_true(++*n <= 1);
				break;
			}
		}
		f.w[(struct waiting *)(void *)t - f.w].used = false;
		login_turns_remove(t);
	}
	for (size_t i = 0; i <= PLACES; i++)
		if (f.w[i].used)
			login_turns_remove(&f.w[i].turn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples), cmocka_unit_test(test_drops), cmocka_unit_test(test_floods), cmocka_unit_test(test_nobody_passes_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
