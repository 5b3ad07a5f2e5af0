/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/login_failures.h"

#include <gnutls/crypto.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"
#include "httpd/networks.h"

#define SETS 256
#define WAYS 4
#define MINUTE_MS INT64_C(60000)

struct failure {
	int64_t at_ms;
	struct login_key key;
};

struct failing {
	struct in6_addr from;
	struct failure ring[LOGIN_FAILURES]; /* the oldest at `next` */
	unsigned next;
	bool used;
};

struct login_failures {
	uint64_t seed;
	struct failing sets[SETS][WAYS];
};

struct login_failures *login_failures_new(uint64_t seed)
{
	struct login_failures *f = NEW(struct login_failures);
	f->seed = seed;
	return f;
}

void login_failures_free(struct login_failures *f)
{
	free(f);
}

static const struct failing *set_of(const struct login_failures *f, const struct in6_addr *net)
{
	return f->sets[hash_bytes_seed(net, sizeof *net, f->seed) % SETS];
}

static const struct failing *find(const struct login_failures *f, const struct in6_addr *net)
{
	const struct failing *set = set_of(f, net);
	for (size_t i = 0; i < WAYS; i++)
		if (set[i].used && memcmp(&set[i].from, net, sizeof *net) == 0)
			return &set[i];
	return NULL;
}

static int64_t newest(const struct failing *x)
{
	return x->used ? x->ring[(x->next + LOGIN_FAILURES - 1) % LOGIN_FAILURES].at_ms : INT64_MIN;
}

static struct failing *make(struct login_failures *f, const struct in6_addr *net)
{
	struct failing *set = f->sets[hash_bytes_seed(net, sizeof *net, f->seed) % SETS], *victim = &set[0];
	for (size_t i = 1; i < WAYS; i++)
		if (newest(&set[i]) < newest(victim))
			victim = &set[i];
	*victim = (struct failing){ .from = *net, .used = true };
	for (size_t i = 0; i < LOGIN_FAILURES; i++)
		victim->ring[i].at_ms = INT64_MIN;
	return victim;
}

static bool is_recent(int64_t at_ms, int64_t now_ms)
{
	return at_ms > now_ms - MINUTE_MS;
}

unsigned login_failures_add(struct login_failures *f, const struct in6_addr *from, const struct login_key *key, int64_t now_ms)
{
	struct in6_addr net = networks_client(from);
	struct failing *x = (struct failing *)(uintptr_t)find(f, &net);
	unsigned n = 0;
	if (!x)
		x = make(f, &net);
	x->ring[x->next] = (struct failure){ now_ms, *key };
	x->next = (x->next + 1) % LOGIN_FAILURES;
	for (size_t i = 0; i < LOGIN_FAILURES; i++)
		n += is_recent(x->ring[i].at_ms, now_ms);
	return n;
}

bool login_failures_has(const struct login_failures *f, const struct in6_addr *from, const struct login_key *key, int64_t now_ms)
{
	struct in6_addr net = networks_client(from);
	const struct failing *x = find(f, &net);
	bool found = false;
	for (size_t i = 0; x && i < LOGIN_FAILURES; i++)
		found |= is_recent(x->ring[i].at_ms, now_ms) && gnutls_memcmp(x->ring[i].key.bytes, key->bytes, sizeof key->bytes) == 0;
	return found;
}

unsigned login_failures_wait(const struct login_failures *f, const struct in6_addr *from, int64_t now_ms)
{
	struct in6_addr net = networks_client(from);
	const struct failing *x = find(f, &net);
	int64_t oldest = x ? x->ring[x->next].at_ms : INT64_MIN;
	return is_recent(oldest, now_ms) ? (unsigned)((oldest + MINUTE_MS - now_ms + 999) / 1000) : 0;
}
