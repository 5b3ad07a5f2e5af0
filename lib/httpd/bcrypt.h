/* SPDX-License-Identifier: Apache-2.0 */
/* Passwords against bcrypt hashes, by libxcrypt. One takes 56 ms at cost 10 and twice that with each step more: only the
 * thread that is there for it checks (login.h). */
#ifndef PYRRHA_HTTPD_BCRYPT_H
#define PYRRHA_HTTPD_BCRYPT_H

#include "base/err.h"
#include "base/view.h"

#define BCRYPT_COST_MIN 4
#define BCRYPT_COST_MAX 18 /* 15 s; 31, which the format allows, is a day and a half */
#define BCRYPT_COST_SLOW 14 /* a second */
#define BCRYPT_CHARS 60    /* "$2b$10$", 22 of salt, 31 of hash */

/* The cost of "$2a$", "$2b$" or "$2y$" hashes. It is an error, which does not show the hash, if it is malformed or costs too much. */
int bcrypt_cost(struct view hash, unsigned *ret, struct err *e) MUST_USE;

/* Work space to compute one, 32 KB. */
struct bcrypt;
struct bcrypt *bcrypt_new(void);
void bcrypt_free(struct bcrypt *b);
/* Whether it is that password's hash; takes the same time if it is not. */
bool bcrypt_check(struct bcrypt *b, const char *hash, struct view password);

/* A hash of that cost with a new salt, into `out`. */
int bcrypt_make(struct view password, unsigned cost, char out[BCRYPT_CHARS + 1], struct err *e) MUST_USE;

#endif
