/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the header Authorization: what it says lies within what was sent, and nothing is both malformed and a login. */
#include <string.h>

#include "httpd/authorization.h"
#include "httpd/bcrypt.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "authorization";

static bool within(struct view v, const char *from, size_t n)
{
	return v.ptr >= from && v.ptr + v.len <= from + n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *copy = malloc(n + 1); /* exactly as long, so that a sanitizer sees a byte too much */
	struct authorization a;
	struct err e;
	unsigned cost = 0;
	if (n)
		memcpy(copy, data, n);
	authorization_parse(view_make(copy, n), &a);
	switch (a.kind) {
	case AUTHORIZATION_BASIC:
		REQUIRE(within(a.user, a.bytes, sizeof a.bytes) && within(a.secret, a.bytes, sizeof a.bytes), "%zu", n);
		REQUIRE(!a.user.len || !memchr(a.user.ptr, ':', a.user.len), "a colon in the name");
		REQUIRE(a.secret.ptr == a.user.ptr + a.user.len + 1, "what is between them");
		break;
	case AUTHORIZATION_BEARER:
		REQUIRE(within(a.secret, copy, n) && a.secret.len, "%zu", n);
		break;
	default:
		REQUIRE(!a.secret.ptr && !a.user.ptr, "%d", a.kind);
	}
	authorization_clear(&a);
	if (bcrypt_cost(view_make(copy, n), &cost, &e) == 0)
		REQUIRE(n == BCRYPT_CHARS && cost >= BCRYPT_COST_MIN && cost <= BCRYPT_COST_MAX, "%u", cost);
	else
		REQUIRE(e.msg[0], "no reason");
	free(copy);
	return 0;
}
