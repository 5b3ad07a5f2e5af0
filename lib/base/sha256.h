/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), by gnutls. Objects of a bucket are named and held against these. */
#ifndef PYRRHA_BASE_SHA256_H
#define PYRRHA_BASE_SHA256_H

#include <stdbool.h>
#include <stdint.h>

#include "base/view.h"

#define SHA256_LEN 32
#define SHA256_HEX (2 * SHA256_LEN + 1)

/* A hash that bytes are added to piece by piece. sha256_end writes it and frees the state; it must be called once. */
struct sha256 {
	void *state; /* gnutls's */
};
void sha256_begin(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *p, size_t n);
void sha256_end(struct sha256 *h, uint8_t ret[SHA256_LEN]);

void sha256_of(struct view bytes, uint8_t ret[SHA256_LEN]);
void hmac_sha256(struct view key, struct view bytes, uint8_t ret[SHA256_LEN]);
/* In hexadecimal, lower case, with a NUL. */
void sha256_hex(const uint8_t hash[SHA256_LEN], char ret[SHA256_HEX]);
/* And back; false: it is no such text. */
bool sha256_parse(struct view hex, uint8_t ret[SHA256_LEN]);

#endif
