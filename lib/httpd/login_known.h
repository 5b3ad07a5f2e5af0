/* SPDX-License-Identifier: Apache-2.0 */
/* Logins that were found to be right, so that only the first request of a client waits for bcrypt. The stored key is not a password
 * but a keyed hash, with a key of this process. It covers the client's address, its credentials and the hash they were compared with.
 * So a changed password, or the same one from another address, is another login. A table of fixed size. Not locked: its owner does
 * that. */
#ifndef PYRRHA_HTTPD_LOGIN_KNOWN_H
#define PYRRHA_HTTPD_LOGIN_KNOWN_H

#include <netinet/in.h>

#include "base/view.h"

#define LOGIN_KEY_BYTES 32

struct login_key {
	uint8_t bytes[LOGIN_KEY_BYTES];
};

struct login_known;

/* secret: LOGIN_KEY_BYTES, random. */
struct login_known *login_known_new(const uint8_t *secret);
void login_known_free(struct login_known *k);
/* The stored key; `against`: the bcrypt hash, or a token's own hash. */
struct login_key login_known_key(const struct login_known *k, const struct in6_addr *from, struct view header, struct view against);
bool login_known_has(struct login_known *k, const struct login_key *key);
void login_known_add(struct login_known *k, const struct login_key *key);

#endif
