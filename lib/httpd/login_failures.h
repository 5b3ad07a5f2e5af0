/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses with failed logins: after LOGIN_FAILURES in a minute an address waits until the first failure is a minute old. A table of
 * fixed size, in sets of a few. A new address replaces the one whose last failure is oldest if its set is full. What counts as an
 * address: networks.h. Not locked: its owner does that.
 *
 * A failure is stored with the key of its login (login_known.h): a keyed hash, never the credentials. A login whose failure is less than a
 * minute old fails again without being checked or counted: a program that goes on with an old password does not make the others at its address
 * wait. The key covers the stored hash, so a login that the configuration has made right has another key. */
#ifndef PYRRHA_HTTPD_LOGIN_FAILURES_H
#define PYRRHA_HTTPD_LOGIN_FAILURES_H

#include <netinet/in.h>

#include "base/attrs.h"
#include "httpd/login_known.h"

#define LOGIN_FAILURES 10 /* in a minute */

struct login_failures;

struct login_failures *login_failures_new(uint64_t seed); /* seed: a random number, so that no client can choose its set */
void login_failures_free(struct login_failures *f);
/* Counts the failure of the login `key`. Returns how many failures the address has in this minute, with this one. */
unsigned login_failures_add(struct login_failures *f, const struct in6_addr *from, const struct login_key *key, int64_t now_ms);
/* Whether a failure of this login was counted less than a minute ago. */
bool login_failures_has(const struct login_failures *f, const struct in6_addr *from, const struct login_key *key, int64_t now_ms);
/* Seconds that it has to wait, rounded up; 0: none. */
unsigned login_failures_wait(const struct login_failures *f, const struct in6_addr *from, int64_t now_ms);

#endif
