/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/bcrypt.h"

#include <crypt.h>
#include <stdlib.h>

#include "base/alloc.h"

#define PASSWORD_MAX 72 /* bytes that bcrypt looks at */
#define DIGEST_AT 29    /* after "$2b$10$" and the salt, whose last character may be written in four ways */

struct bcrypt {
	struct crypt_data data;
};

static bool is_digit_of_crypt(char c)
{
	return (c >= '.' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

int bcrypt_cost(struct view hash, unsigned *ret, struct err *e)
{
	const char *p = hash.ptr;
	bool fine = hash.len == BCRYPT_CHARS && p[0] == '$' && p[1] == '2' && (p[2] == 'a' || p[2] == 'b' || p[2] == 'y') && p[3] == '$' &&
		    p[4] >= '0' && p[4] <= '9' && p[5] >= '0' && p[5] <= '9' && p[6] == '$';
	for (size_t i = 7; fine && i < hash.len; i++)
		fine = is_digit_of_crypt(p[i]);
	if (!fine)
		return err_set(e, ERR_BAD_DATA, "not a bcrypt hash ($2a$, $2b$ or $2y$, the cost, and 53 characters)");
	unsigned cost = (unsigned)(p[4] - '0') * 10 + (unsigned)(p[5] - '0');
	if (cost < BCRYPT_COST_MIN || cost > BCRYPT_COST_MAX)
		return err_set(e, ERR_BAD_DATA, "the bcrypt hash has a cost of %u: from %d to %d are allowed, as a check takes twice as long "
			       "with each step (10: 0.06 s)", cost, BCRYPT_COST_MIN, BCRYPT_COST_MAX);
	*ret = cost;
	return 0;
}

struct bcrypt *bcrypt_new(void)
{
	return NEW(struct bcrypt);
}

void bcrypt_free(struct bcrypt *b)
{
	free(b);
}

/* In a time that does not depend on where they differ. */
static bool same(const char *a, const char *b, size_t n)
{
	unsigned char differ = 0;
	for (size_t i = 0; i < n; i++)
		differ |= (unsigned char)(a[i] ^ b[i]);
	return differ == 0;
}

bool bcrypt_check(struct bcrypt *b, const char *hash, struct view password)
{
	char text[PASSWORD_MAX + 1] = { 0 };
	size_t n = MIN(password.len, (size_t)PASSWORD_MAX);
	if (n)
		memcpy(text, password.ptr, n);
	const char *got = crypt_r(text, hash, &b->data);
	/* A NUL would end the password for crypt_r: what follows it would not be looked at. */
	bool right = got && strlen(got) == BCRYPT_CHARS && same(got + DIGEST_AT, hash + DIGEST_AT, BCRYPT_CHARS - DIGEST_AT) && !memchr(text, 0, n);
	explicit_bzero(text, sizeof text);
	explicit_bzero(&b->data, sizeof b->data);
	return right;
}

int bcrypt_make(struct view password, unsigned cost, char out[BCRYPT_CHARS + 1], struct err *e)
{
	char salt[CRYPT_GENSALT_OUTPUT_SIZE];
	struct bcrypt *b;

	if (password.len > PASSWORD_MAX || (password.len && memchr(password.ptr, 0, password.len)))
		return err_set(e, ERR_BAD_DATA, "bcrypt takes passwords of at most %d bytes, without a NUL", PASSWORD_MAX);
	if (cost < BCRYPT_COST_MIN || cost > BCRYPT_COST_MAX || !crypt_gensalt_rn("$2b$", cost, NULL, 0, salt, sizeof salt))
		return err_set(e, ERR_BAD_DATA, "no bcrypt hash can be made of cost %u", cost);
	char text[PASSWORD_MAX + 1] = { 0 };
	if (password.len)
		memcpy(text, password.ptr, password.len);
	b = bcrypt_new();
	const char *got = crypt_r(text, salt, &b->data);
	bool fine = got && strlen(got) == BCRYPT_CHARS;
	if (fine)
		memcpy(out, got, BCRYPT_CHARS + 1);
	explicit_bzero(text, sizeof text);
	explicit_bzero(&b->data, sizeof b->data);
	bcrypt_free(b);
	return fine ? 0 : err_set(e, ERR_BAD_DATA, "this system's crypt makes no bcrypt hash");
}
