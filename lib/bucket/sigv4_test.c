/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures against AWS's published ones: the examples of S3's documentation ("Signature Calculations for the Authorization Header") and of the
 * suite aws4_testsuite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "bucket/sigv4.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define S3_HOST { "host", VIEW("examplebucket.s3.amazonaws.com") }
#define S3_DATE { "x-amz-date", VIEW("20130524T000000Z") }
#define SUITE_HOST { "host", VIEW("example.amazonaws.com") }
#define SUITE_DATE { "x-amz-date", VIEW("20150830T123600Z") }

static int64_t at(const char *when)
{
	int64_t ms = 0;
	assert_true(clock_parse_time_ms(view_of(when), &ms));
	return ms;
}

static void expect_signature(struct sigv4_request q, const char *signature)
{
	struct buf b = { 0 };
	sigv4_sign(&q, &b);
	const char *found = strstr(b.ptr, "Signature=");
	assert_non_null(found);
	assert_string_equal(found + 10, signature);
	buf_free(&b);
}

static struct sigv4_request s3_example(void)
{
	return (struct sigv4_request){ .method = "GET", .path = VIEW("/"), .query = VIEW(""), .content_sha256 = EMPTY, .region = "us-east-1", .service = "s3",
				       .access_key = VIEW("AKIAIOSFODNN7EXAMPLE"), .secret_key = VIEW("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
				       .now_ms = at("2013-05-24T00:00:00Z") };
}

static void test_examples_of_s3(void **state)
{
	static const struct sigv4_header get[] = { S3_HOST, { "range", VIEW("bytes=0-9") }, { "x-amz-content-sha256", VIEW(EMPTY) }, S3_DATE };
	static const char put_hash[] = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
	static const struct sigv4_header put[] = { { "date", VIEW("Fri, 24 May 2013 00:00:00 GMT") }, S3_HOST,
						   { "x-amz-content-sha256", VIEW("44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072") }, S3_DATE,
						   { "x-amz-storage-class", VIEW("REDUCED_REDUNDANCY") } };
	static const struct sigv4_header plain[] = { S3_HOST, { "x-amz-content-sha256", VIEW(EMPTY) }, S3_DATE };
	struct sigv4_request q = s3_example();
	q.path = VIEW("/test.txt");
	q.headers = get;
	q.n_headers = ARRAY_LEN(get);
	expect_signature(q, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
	q.method = "PUT";
	q.path = VIEW("/test%24file.text");
	q.content_sha256 = put_hash;
	q.headers = put;
	q.n_headers = ARRAY_LEN(put);
	expect_signature(q, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
	q = s3_example();
	q.headers = plain;
	q.n_headers = ARRAY_LEN(plain);
	q.query = VIEW("lifecycle=");
	expect_signature(q, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
	q.query = VIEW("max-keys=2&prefix=J");
	expect_signature(q, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static struct sigv4_request suite(const struct sigv4_header *h, size_t n)
{
	return (struct sigv4_request){ .method = "GET", .path = VIEW("/"), .query = VIEW(""), .content_sha256 = EMPTY, .region = "us-east-1",
				       .service = "service", .access_key = VIEW("AKIDEXAMPLE"), .secret_key = VIEW("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
				       .now_ms = at("2015-08-30T12:36:00Z"), .headers = h, .n_headers = n };
}

static void test_suite(void **state)
{
	static const struct sigv4_header two[] = { SUITE_HOST, SUITE_DATE };
	static const struct sigv4_header token[] = {
		SUITE_HOST, SUITE_DATE,
		{ "x-amz-security-token",
		  VIEW("AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/"
		       "qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38"
		       "xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==") },
	};
	struct buf b = { 0 };
	struct sigv4_request q = suite(two, 2);
	sigv4_sign(&q, &b); /* get-vanilla */
	assert_string_equal(b.ptr, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, "
				   "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
	buf_reset(&b);
	sigv4_canonical(&q, &b);
	assert_string_equal(b.ptr, "GET\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\nhost;x-amz-date\n" EMPTY);
	buf_free(&b);
	q.query = VIEW("Param1=value1&Param2=value2"); /* get-vanilla-query-order-key-case */
	expect_signature(q, "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
	q.query = VIEW("");
	q.method = "POST"; /* post-vanilla */
	expect_signature(q, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
	q = suite(token, 3);
	q.method = "POST"; /* post-sts-header-before */
	expect_signature(q, "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_examples_of_s3), cmocka_unit_test(test_suite) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
