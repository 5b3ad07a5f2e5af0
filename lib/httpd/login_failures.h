/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses whose logins failed: after LOGIN_FAILURES in a minute one waits until the first of them is a minute old. A table of
 * fixed size, in sets of a few; an address that finds no room takes the place of the one that failed last the longest ago.
 * Of IPv6 the first 64 bits count: who has one address of such a network has them all. Not locked: its owner does that. */
#ifndef PYRRHA_HTTPD_LOGIN_FAILURES_H
#define PYRRHA_HTTPD_LOGIN_FAILURES_H

#include <netinet/in.h>

#include "base/attrs.h"

#define LOGIN_FAILURES 10 /* in a minute */

struct login_failures;

struct login_failures *login_failures_new(uint64_t seed); /* seed: a random number, so that nobody chooses his set */
void login_failures_free(struct login_failures *f);
/* Returns how many there are in this minute, with this one. */
unsigned login_failures_add(struct login_failures *f, const struct in6_addr *from, int64_t now_ms);
/* Seconds that it has to wait, rounded up; 0: none. */
unsigned login_failures_wait(const struct login_failures *f, const struct in6_addr *from, int64_t now_ms);

#endif
