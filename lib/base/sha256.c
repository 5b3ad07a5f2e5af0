/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <stdio.h>
#include <stdlib.h>

#include <gnutls/crypto.h>

/* gnutls fails only if it could not be initialised, or if a policy of the system forbids SHA-256. */
static void sha256_must(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "gnutls cannot compute SHA-256: %s\n", gnutls_strerror(rc));
		abort();
	}
}

void sha256_begin(struct sha256 *h)
{
	gnutls_hash_hd_t hash;
	sha256_must(gnutls_hash_init(&hash, GNUTLS_DIG_SHA256));
	h->state = hash;
}

void sha256_add(struct sha256 *h, const void *p, size_t n)
{
	sha256_must(gnutls_hash((gnutls_hash_hd_t)h->state, p, n));
}

void sha256_end(struct sha256 *h, uint8_t ret[SHA256_LEN])
{
	gnutls_hash_deinit((gnutls_hash_hd_t)h->state, ret);
	h->state = NULL;
}

void sha256_of(struct view bytes, uint8_t ret[SHA256_LEN])
{
	sha256_must(gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes.ptr, bytes.len, ret));
}

void hmac_sha256(struct view key, struct view bytes, uint8_t ret[SHA256_LEN])
{
	sha256_must(gnutls_hmac_fast(GNUTLS_MAC_SHA256, key.ptr, key.len, bytes.ptr, bytes.len, ret));
}

void sha256_hex(const uint8_t hash[SHA256_LEN], char ret[SHA256_HEX])
{
	for (size_t i = 0; i < SHA256_LEN; i++)
		snprintf(ret + 2 * i, 3, "%02x", hash[i]);
}

static int sha256_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool sha256_parse(struct view hex, uint8_t ret[SHA256_LEN])
{
	if (hex.len != SHA256_HEX - 1)
		return false;
	for (size_t i = 0; i < SHA256_LEN; i++) {
		int hi = sha256_digit(hex.ptr[2 * i]), lo = sha256_digit(hex.ptr[2 * i + 1]);
		if (hi < 0 || lo < 0)
			return false;
		ret[i] = (uint8_t)(hi << 4 | lo);
	}
	return true;
}
