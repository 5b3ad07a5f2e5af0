/* SPDX-License-Identifier: Apache-2.0 */
/* The header Authorization: "Basic " and base64 of "name:password", or "Bearer " and a token. */
#ifndef PYRRHA_HTTPD_AUTHORIZATION_H
#define PYRRHA_HTTPD_AUTHORIZATION_H

#include "base/base64.h"

#define AUTHORIZATION_MAX 4096 /* bytes of the header */

enum authorization_kind { AUTHORIZATION_NONE, AUTHORIZATION_BASIC, AUTHORIZATION_BEARER, AUTHORIZATION_MALFORMED };

struct authorization {
	enum authorization_kind kind;
	struct view user;   /* of Basic */
	struct view secret; /* the password, or the token */
	char bytes[BASE64_ROOM(AUTHORIZATION_MAX)];
};

/* The views point into `ret`, or, of a token, into the header. Without a value ({NULL, 0}) the kind is NONE. */
void authorization_parse(struct view header, struct authorization *ret);
/* Forgets what is secret. */
void authorization_clear(struct authorization *a);

#endif
