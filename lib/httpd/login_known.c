/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/login_known.h"

#include <gnutls/crypto.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"

#define SETS 512
#define WAYS 8

struct entry {
	struct login_key key;
	uint64_t used; /* 0: free */
};

struct login_known {
	uint8_t secret[LOGIN_KEY_BYTES];
	uint64_t clock;
	struct entry sets[SETS][WAYS];
};

struct login_known *login_known_new(const uint8_t *secret)
{
	struct login_known *k = NEW(struct login_known);
	memcpy(k->secret, secret, sizeof k->secret);
	return k;
}

void login_known_free(struct login_known *k)
{
	if (k)
		explicit_bzero(k, sizeof *k);
	free(k);
}

struct login_key login_known_key(const struct login_known *k, const struct in6_addr *from, struct view header, struct view against)
{
	struct login_key key;
	gnutls_hmac_hd_t mac;
	uint64_t lengths[2] = { header.len, against.len };
	if (gnutls_hmac_init(&mac, GNUTLS_MAC_SHA256, k->secret, sizeof k->secret) < 0)
		abort(); /* no SHA-256 in GnuTLS: logins could not be compared */
	gnutls_hmac(mac, from, sizeof *from);
	gnutls_hmac(mac, lengths, sizeof lengths);
	gnutls_hmac(mac, header.ptr, header.len);
	gnutls_hmac(mac, against.ptr, against.len);
	gnutls_hmac_deinit(mac, key.bytes);
	return key;
}

static struct entry *set_of(struct login_known *k, const struct login_key *key)
{
	return k->sets[(key->bytes[0] | key->bytes[1] << 8) % SETS]; /* no client can choose it: the key is secret */
}

static bool is(const struct entry *x, const struct login_key *key)
{
	return x->used && gnutls_memcmp(x->key.bytes, key->bytes, sizeof key->bytes) == 0;
}

bool login_known_has(struct login_known *k, const struct login_key *key)
{
	struct entry *set = set_of(k, key);
	bool found = false;
	for (size_t i = 0; i < WAYS; i++)
		if (is(&set[i], key)) {
			set[i].used = ++k->clock;
			found = true;
		}
	return found;
}

void login_known_add(struct login_known *k, const struct login_key *key)
{
	if (login_known_has(k, key))
		return;
	struct entry *set = set_of(k, key), *victim = &set[0];
	for (size_t i = 1; i < WAYS; i++)
		if (set[i].used < victim->used)
			victim = &set[i];
	*victim = (struct entry){ *key, ++k->clock };
}
