/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses with failed logins: after LOGIN_FAILURES in a minute an address waits until the first failure is a minute old. A table of
 * fixed size, in sets of a few. A new address replaces the one whose last failure is oldest if its set is full. What counts as an
 * address: networks.h. Not locked: its owner does that. */
#ifndef PYRRHA_HTTPD_LOGIN_FAILURES_H
#define PYRRHA_HTTPD_LOGIN_FAILURES_H

#include <netinet/in.h>

#include "base/attrs.h"

#define LOGIN_FAILURES 10 /* in a minute */

struct login_failures;

struct login_failures *login_failures_new(uint64_t seed); /* seed: a random number, so that no client can choose its set */
void login_failures_free(struct login_failures *f);
/* Returns how many there are in this minute, with this one. */
unsigned login_failures_add(struct login_failures *f, const struct in6_addr *from, int64_t now_ms);
/* Seconds that it has to wait, rounded up; 0: none. */
unsigned login_failures_wait(const struct login_failures *f, const struct in6_addr *from, int64_t now_ms);

#endif
