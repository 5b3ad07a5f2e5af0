/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses from which somebody got in. Their passwords are checked before those of other addresses, so that a flood from elsewhere
 * does not keep people out who were here before. It is about addresses alone: neither a reload of the web configuration nor a changed
 * password takes anything out. Being here lets nobody in. A table of fixed size, in sets of a few; if a set is full, the address whose
 * last login is oldest is replaced. For IPv6 the first 64 bits count. Not locked: its owner does that. */
#ifndef PYRRHA_HTTPD_LOGIN_PROVEN_H
#define PYRRHA_HTTPD_LOGIN_PROVEN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct login_proven;

struct login_proven *login_proven_new(uint64_t seed); /* seed: a random number, so that no client can choose its set. Returns owned */
void login_proven_free(struct login_proven *p);
/* Somebody got in from there, or got in again. */
void login_proven_add(struct login_proven *p, const struct in6_addr *from);
bool login_proven_has(const struct login_proven *p, const struct in6_addr *from);

#endif
