/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/sha256.h"

static void check(const uint8_t *hash, const char *expect)
{
	char hex[SHA256_HEX];
	sha256_hex(hash, hex);
	assert_string_equal(hex, expect);
}

/* The examples of FIPS 180-4, and case 2 of RFC 4231. */
static void test_known_answers(void **state)
{
	(void)state;
	uint8_t hash[SHA256_LEN];
	struct sha256 h;
	sha256_of(VIEW(""), hash);
	check(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	sha256_of(VIEW("abc"), hash);
	check(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sha256_begin(&h);
	sha256_add(&h, "a", 1);
	sha256_add(&h, "", 0);
	sha256_add(&h, "bc", 2);
	sha256_end(&h, hash);
	check(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	hmac_sha256(VIEW("Jefe"), VIEW("what do ya want for nothing?"), hash);
	uint8_t back[SHA256_LEN];
	char hex[SHA256_HEX];
	sha256_hex(hash, hex);
	assert_true(sha256_parse(view_of(hex), back) && !memcmp(back, hash, SHA256_LEN));
	hex[3] = 'g';
	assert_false(sha256_parse(view_of(hex), back) || sha256_parse(VIEW("00"), back));
	check(hash, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_known_answers) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
