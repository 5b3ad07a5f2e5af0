/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/slots.h"

#include <linux/tcp.h> /* glibc's tcp_info does not know what a client took */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"
#include "httpd/internal.h"
#include "httpd/networks.h"

#define NS_PER_MS INT64_C(1000000)
#define TAKEN_A_SECOND 65536 /* bytes of an answer: slower clients are cut off at its deadline */
#define STUCK_NS (500 * NS_PER_MS)
#define COUNTS 4096

struct slot {
	struct slot *next, *prev;
	struct slots *slots;
	int fd;
	struct in6_addr from;
	uint16_t counts[NETWORKS_LEVELS]; /* places of its networks in slots.counts */
	enum slot_phase phase;
	int64_t since_ns;    /* of its last progress: a phase done, or a part of an answer taken */
	int64_t deadline_ns; /* 0: none */
	uint64_t acked;      /* bytes that the client's system had taken at since_ns */
	size_t held;
	bool closing;        /* shut, and soon removed */
	bool expected;       /* admitted; libmicrohttpd has not told its socket yet */
};

struct slots {
	struct slots_options o;
	struct mutex lock;
	struct slot *first;
	unsigned n_open;     /* except those that are closing */
	uint64_t seed;       /* random: no client can choose whose count it shares */
	unsigned counts[NETWORKS_LEVELS][COUNTS]; /* of them, by hash of the network: two may share one */
};

struct slots *slots_new(const struct slots_options *o)
{
	struct slots *s = NEW(struct slots);
	s->o = *o;
	while (getrandom(&s->seed, sizeof s->seed, 0) != sizeof s->seed)
		; /* a signal came */
	mutex_init(&s->lock, LOCK_LEAF, "slots");
	return s;
}

/* IPv4 as IPv6 has it. */
static struct in6_addr address_of(const struct sockaddr *sa)
{
	struct in6_addr a = { 0 };
	if (sa && sa->sa_family == AF_INET6) {
		a = ((const struct sockaddr_in6 *)sa)->sin6_addr;
	} else if (sa && sa->sa_family == AF_INET) {
		a.s6_addr[10] = a.s6_addr[11] = 0xff;
		memcpy(&a.s6_addr[12], &((const struct sockaddr_in *)sa)->sin_addr, 4);
	}
	return a;
}

static bool same_address(const struct in6_addr *a, const struct in6_addr *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

const struct in6_addr *slot_from(const struct slot *c)
{
	return &c->from;
}

static void slots_count(struct slots *s, const struct slot *c, int delta) REQUIRES(s->lock)
{
	s->n_open += (unsigned)delta;
	for (size_t i = 0; i < NETWORKS_LEVELS; i++)
		s->counts[i][c->counts[i]] += (unsigned)delta;
}

static struct slot *slots_link(struct slots *s, const struct in6_addr *from) REQUIRES(s->lock)
{
	struct slot *c = NEW(struct slot);
	c->slots = s;
	c->fd = -1;
	c->from = *from;
	c->expected = true;
	for (size_t i = 0; i < NETWORKS_LEVELS; i++) {
		struct in6_addr prefix = networks_prefix(from, i);
		c->counts[i] = (uint16_t)(hash_bytes_seed(&prefix, sizeof prefix, s->seed) % COUNTS);
	}
	c->since_ns = clock_mono_ns();
	c->deadline_ns = c->since_ns + s->o.headers_ms * NS_PER_MS;
	c->next = s->first;
	if (c->next)
		c->next->prev = c;
	s->first = c;
	slots_count(s, c, 1);
	return c;
}

static void slots_unlink(struct slots *s, struct slot *c) REQUIRES(s->lock)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		s->first = c->next;
	if (c->next)
		c->next->prev = c->prev;
	if (!c->closing)
		slots_count(s, c, -1);
	free(c);
}

void slots_free(struct slots *s)
{
	if (!s)
		return;
	mutex_lock(&s->lock);
	while (s->first)
		slots_unlink(s, s->first);
	mutex_unlock(&s->lock);
	mutex_destroy(&s->lock);
	free(s);
}

static void shut(struct slots *s, struct slot *c, const char *why) REQUIRES(s->lock)
{
	shutdown(c->fd, SHUT_RDWR);
	c->closing = true;
	slots_count(s, c, -1);
	httpd_metrics_closed(why);
}

/* Whether to close `a` rather than `b`: its networks have more connections, from the largest on, or it is silent for longer. */
static bool slots_before(const struct slots *s, const struct slot *a, const struct slot *b) REQUIRES(s->lock)
{
	for (size_t i = 0; i < NETWORKS_LEVELS; i++) {
		unsigned n = s->counts[i][a->counts[i]], m = s->counts[i][b->counts[i]];
		if (n != m)
			return n > m;
	}
	return a->since_ns < b->since_ns;
}

/* Of that address; NULL: of any. */
static struct slot *slots_victim(struct slots *s, const struct in6_addr *from) REQUIRES(s->lock)
{
	struct slot *found = NULL;
	for (struct slot *c = s->first; c; c = c->next)
		if (!c->closing && !c->expected && c->phase != SLOT_WORK && (!from || same_address(&c->from, from)) &&
		    (!found || slots_before(s, c, found)))
			found = c;
	return found;
}

static unsigned count_of(struct slots *s, const struct in6_addr *from) REQUIRES(s->lock)
{
	unsigned n = 0;
	for (struct slot *c = s->first; c; c = c->next)
		n += !c->closing && same_address(&c->from, from);
	return n;
}

/* Closes another connection to make room for the new connection c: one of the address `from`, or any (NULL). False: none can be closed, or only those of
 * networks that have fewer connections than the network of c. A connection cannot be closed between slots_admit and slots_add. */
static bool make_room(struct slots *s, const struct slot *c, const struct in6_addr *from, const char *why) REQUIRES(s->lock)
{
	struct slot *victim = slots_victim(s, from);
	if (victim && slots_before(s, c, victim))
		victim = NULL;
	if (victim)
		shut(s, victim, why);
	else
		httpd_metrics_closed("refused");
	return victim != NULL;
}

bool slots_admit(struct slots *s, const struct sockaddr *from)
{
	struct in6_addr a = address_of(from);
	unsigned share = MAX(s->o.max - s->o.max / 4, 1u);
	bool room = true;
	mutex_lock(&s->lock);
	bool full = s->n_open >= s->o.max, has_share = s->n_open >= share && count_of(s, &a) >= share;
	struct slot *c = slots_link(s, &a);
	if (has_share)
		room = make_room(s, c, &a, "address");
	else if (full)
		room = make_room(s, c, NULL, "slots");
	if (!room)
		slots_unlink(s, c);
	mutex_unlock(&s->lock);
	return room;
}

/* Gives a connection the slot that was reserved when its address was admitted. Several reserved slots of one address are alike: any will do. */
struct slot *slots_add(struct slots *s, int fd, const struct sockaddr *from)
{
	struct in6_addr a = address_of(from);
	mutex_lock(&s->lock);
	struct slot *c = s->first;
	while (c && !(c->expected && same_address(&c->from, &a)))
		c = c->next;
	if (!c)
		c = slots_link(s, &a);
	c->fd = fd;
	c->expected = false;
	mutex_unlock(&s->lock);
	httpd_metrics_connections(1);
	return c;
}

void slots_remove(struct slot *c)
{
	struct slots *s = c->slots;
	mutex_lock(&s->lock);
	slots_unlink(s, c);
	mutex_unlock(&s->lock);
	httpd_metrics_connections(-1);
}

bool slot_is_shut(struct slot *c)
{
	mutex_lock(&c->slots->lock);
	bool shut = c->closing;
	mutex_unlock(&c->slots->lock);
	return shut;
}

void slot_begin(struct slot *c)
{
	struct slots *s = c->slots;
	mutex_lock(&s->lock);
	if (c->phase == SLOT_IDLE) { /* else it counts from accept */
		c->phase = SLOT_REQUEST;
		c->since_ns = clock_mono_ns();
		c->deadline_ns = c->since_ns + s->o.headers_ms * NS_PER_MS;
	}
	mutex_unlock(&s->lock);
}

/* The first line of a next request may begin at the last moment, and then has the time of headers. */
static int64_t deadline_of(const struct slots *s, enum slot_phase phase, int64_t now_ns, uint64_t answer) REQUIRES(s->lock)
{
	switch (phase) {
	case SLOT_WORK:
		return 0;
	case SLOT_BODY:
		return now_ns + s->o.body_ms * NS_PER_MS;
	case SLOT_ANSWER:
		return now_ns + (s->o.answer_ms + (int64_t)MIN(answer / TAKEN_A_SECOND, UINT32_MAX) * 1000) * NS_PER_MS;
	case SLOT_IDLE:
		return now_ns + (s->o.idle_ms + s->o.headers_ms) * NS_PER_MS;
	default:
		return now_ns + s->o.headers_ms * NS_PER_MS;
	}
}

static void set_phase(struct slot *c, enum slot_phase phase, uint64_t answer, size_t held)
{
	struct slots *s = c->slots;
	int64_t now = clock_mono_ns();
	mutex_lock(&s->lock);
	c->phase = phase;
	c->since_ns = now;
	c->deadline_ns = deadline_of(s, phase, now, answer);
	c->held = held;
	c->acked = 0;
	mutex_unlock(&s->lock);
}

void slot_set_phase(struct slot *c, enum slot_phase phase)
{
	set_phase(c, phase, 0, 0);
}

void slot_answer(struct slot *c, uint64_t n, size_t held)
{
	set_phase(c, SLOT_ANSWER, n, held);
}

/* A client that reads an answer very slowly counts as silent. */
static void note_progress(struct slot *c, int64_t now_ns)
{
	mutex_assert_held(&c->slots->lock);
	struct tcp_info info = { 0 };
	socklen_t n = sizeof info;
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &n) || info.tcpi_bytes_acked < c->acked + TAKEN_A_SECOND / 2)
		return;
	c->acked = info.tcpi_bytes_acked;
	c->since_ns = now_ns;
}

void slots_tick(struct slots *s, int64_t now_ns)
{
	static const char *const why[] = { [SLOT_REQUEST] = "headers", [SLOT_BODY] = "body", [SLOT_ANSWER] = "answer",
					   [SLOT_IDLE] = "headers" };
	mutex_lock(&s->lock);
	for (struct slot *c = s->first, *next; c; c = next) {
		next = c->next;
		if (c->expected) {
			if (now_ns > c->deadline_ns)
				slots_unlink(s, c); /* libmicrohttpd had no memory for it */
			continue;
		}
		if (c->closing || !c->deadline_ns)
			continue;
		if (c->phase == SLOT_ANSWER)
			note_progress(c, now_ns);
		if (now_ns > c->deadline_ns)
			shut(s, c, why[c->phase]);
	}
	mutex_unlock(&s->lock);
}

size_t slots_close_stuck(struct slots *s, int64_t now_ns)
{
	struct slot *found = NULL;
	size_t held = 0;
	mutex_lock(&s->lock);
	for (struct slot *c = s->first; c; c = c->next) {
		if (c->closing || c->phase != SLOT_ANSWER || c->held < TAKEN_A_SECOND)
			continue;
		note_progress(c, now_ns);
		if (now_ns - c->since_ns > STUCK_NS && (!found || c->since_ns < found->since_ns))
			found = c;
	}
	if (found) {
		held = found->held;
		shut(s, found, "memory");
	}
	mutex_unlock(&s->lock);
	return held;
}
