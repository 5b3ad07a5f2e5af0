/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/login_proven.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"
#include "httpd/networks.h"

#define SETS 512
#define WAYS 8

struct proven_address {
	struct in6_addr client;
	uint64_t used; /* turn of the clock at its last login; 0: the place is free */
};

struct login_proven {
	uint64_t seed, clock;
	struct proven_address sets[SETS][WAYS];
};

struct login_proven *login_proven_new(uint64_t seed)
{
	struct login_proven *p = NEW(struct login_proven);
	p->seed = seed;
	return p;
}

void login_proven_free(struct login_proven *p)
{
	free(p);
}

/* The place of a client in its set. WAYS: it has none. */
static size_t proven_place(const struct login_proven *p, const struct in6_addr *client, size_t *ret_set)
{
	size_t at = 0;
	*ret_set = hash_bytes_seed(client, sizeof *client, p->seed) % SETS;
	const struct proven_address *set = p->sets[*ret_set];
	while (at < WAYS && !(set[at].used && memcmp(&set[at].client, client, sizeof *client) == 0))
		at++;
	return at;
}

void login_proven_add(struct login_proven *p, const struct in6_addr *from)
{
	struct in6_addr client = networks_client(from);
	size_t i, at = proven_place(p, &client, &i);
	if (at == WAYS) {
		at = 0;
		for (size_t k = 1; k < WAYS; k++)
			if (p->sets[i][k].used < p->sets[i][at].used)
				at = k;
	}
	p->sets[i][at] = (struct proven_address){ client, ++p->clock };
}

bool login_proven_has(const struct login_proven *p, const struct in6_addr *from)
{
	struct in6_addr client = networks_client(from);
	size_t i;
	return proven_place(p, &client, &i) < WAYS;
}
