/* SPDX-License-Identifier: Apache-2.0 */
/* The backend against prepared answers: what it asks, what becomes of refusals, and answers that no S3 gives. What real ones do is tested by the
 * suite of bucket_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "bucket/fakeserver.h"
#include "bucket/s3.h"
#include "bucket/s3_list.h"
#include "bucket/s3_url.h"

#define OK "200 OK"
#define ETAG "ETag: \"x\"\r\n"
#define XML_ERROR(code) "<?xml version=\"1.0\"?>\n<Error><Code>" code "</Code><Message>words of the server</Message></Error>"

static char endpoint[32];
static struct s3_config config;
static struct backend *backend;
static struct backend_attempt attempt;
static struct err e;

static int new_backend(void **state)
{
	snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", fake.port);
	config = (struct s3_config){ .bucket = "bu", .endpoint = endpoint, .region = "", .access_key = "AKIDOFTESTS", .secret_key = "secretOfTests",
				     .session_token = "", .insecure = true, .sts_endpoint = "", .response_timeout_ms = 2000 };
	fake_reset();
	err_clear(&e);
	attempt = (struct backend_attempt){ 0 };
	return s3_new(&backend, &config, NULL, &e);
}

static int free_backend(void **state)
{
	backend->ops->free(backend);
	return 0;
}

static int read_text(void *arg, uint64_t offset, char *p, size_t n, struct err *why)
{
	memcpy(p, (const char *)arg + offset, n);
	return 0;
}

static int put(const char *key, const char *text)
{
	struct objects_body b = { .size = strlen(text), .read = read_text, .arg = (void *)(uintptr_t)text };
	sha256_of(view_of(text), b.sha256);
	err_clear(&e);
	return backend->ops->put_once(backend, key, &b, &attempt, &e);
}

/* Puts whose probe has been answered as a good store does. */
static void prove(void)
{
	fake_answer(OK, ETAG, "");
	fake_answer("412 Precondition Failed", "", XML_ERROR("PreconditionFailed"));
	fake_answer("204 No Content", "", "");
	fake_answer(OK, ETAG, "");
	assert_int_equal(put("a/b", "text"), 0);
	fake_reset();
}

static struct buf got;
static uint64_t got_size;

static int collect(void *arg, const char *p, size_t n, struct err *why)
{
	buf_put(&got, p, n);
	return 0;
}

static int get(uint64_t offset, uint64_t length)
{
	buf_reset(&got);
	err_clear(&e);
	got_size = 77;
	return backend->ops->get_once(backend, "a/b", offset, length, collect, NULL, &got_size, &attempt, &e);
}

static void expect_asked(const char *text)
{
	if (!strstr(fake_requests(), text))
		fail_msg("%s is not in %s", text, fake_requests());
}

static void expect_error(int rc, enum err_code code, const char *text)
{
	if (rc != -(int)code || !strstr(e.msg, text))
		fail_msg("%d: %s", rc, e.msg);
	if (strstr(e.msg, "secretOfTests") || strstr(e.msg, "AKIDOFTESTS") || strstr(e.msg, "Signature="))
		fail_msg("it says what it should not: %s", e.msg);
}

static void test_what_is_asked(void **state)
{
	config.session_token = "to+ken/==";
	config.sse_s3 = true;
	config.storage_class = "GLACIER_IR";
	config.user_metadata = (struct config_map){ (struct config_kv[]){ { "Team-Name", " a   b " } }, 1 };
	assert_int_equal(free_backend(NULL), 0);
	assert_int_equal(s3_new(&backend, &config, NULL, &e), 0);
	prove();
	fake_answer(OK, ETAG, "");
	assert_int_equal(put("a/b-1.c", "text"), 0);
	expect_asked("PUT /bu/a/b-1.c HTTP/1.1\r\n");
	expect_asked("\r\nHost: 127.0.0.1:");
	expect_asked("\r\nif-none-match: *\r\n");
	expect_asked("\r\nx-amz-content-sha256: 982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1\r\n");
	expect_asked("\r\nx-amz-meta-team-name: a b\r\n");
	expect_asked("\r\nx-amz-server-side-encryption: AES256\r\n");
	expect_asked("\r\nx-amz-security-token: to+ken/==\r\n");
	expect_asked("SignedHeaders=host;if-none-match;x-amz-content-sha256;x-amz-date;x-amz-meta-team-name;x-amz-security-token;x-amz-server-side-encryption;x-amz-storage-class,");
	expect_asked("\r\nx-amz-storage-class: GLACIER_IR\r\n");
	expect_asked("\r\nContent-Length: 4\r\n");
	expect_asked("\r\n\r\ntext");
	assert_null(strcasestr(fake_requests(), "\r\nExpect:"));
	fake_reset();
	fake_answer("206 Partial", "Content-Range: bytes 3-5/10\r\n", "def");
	assert_int_equal(get(3, 3), 0);
	expect_asked("GET /bu/a/b HTTP/1.1\r\n");
	expect_asked("\r\nrange: bytes=3-5\r\n");
	assert_string_equal(got.ptr, "def");
	assert_int_equal(got_size, 10);
}

/* Google's XML API, asked through a proxy that answers in its place. */
static void test_google(void **state)
{
	char proxy[64];
	assert_int_equal(free_backend(NULL), 0);
	snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", fake.port);
	config.endpoint = "storage.googleapis.com";
	config.http.proxy_url = proxy;
	config.sse_s3 = true;
	config.storage_class = "NEARLINE";
	config.user_metadata = (struct config_map){ (struct config_kv[]){ { "Team", "a" } }, 1 };
	assert_int_equal(s3_new(&backend, &config, NULL, &e), 0);
	prove();
	fake_answer(OK, ETAG, "");
	assert_int_equal(put("a/b", "text"), 0);
	expect_asked("PUT http://storage.googleapis.com/bu/a/b HTTP/1.1\r\n");
	expect_asked("\r\nx-goog-if-generation-match: 0\r\n");
	expect_asked("\r\nAuthorization: GOOG4-HMAC-SHA256 Credential=AKIDOFTESTS/");
	expect_asked("/auto/storage/goog4_request, SignedHeaders=host;x-goog-content-sha256;x-goog-date;x-goog-if-generation-match;x-goog-meta-team;"
		     "x-goog-storage-class, Signature=");
	assert_null(strstr(fake_requests(), "x-amz-"));
	assert_null(strstr(fake_requests(), "if-none-match"));
}

static void test_places(void **state)
{
	static const struct {
		const char *endpoint, *bucket, *region;
		enum s3_lookup lookup;
		bool insecure;
		const char *host, *path, *signs;
	} rows[] = {
		{ "s3.amazonaws.com", "bu", "", S3_LOOKUP_AUTO, false, "bu.s3.amazonaws.com", "", "us-east-1" },
		{ "s3.eu-west-1.amazonaws.com:443", "bu", "", S3_LOOKUP_AUTO, false, "bu.s3.eu-west-1.amazonaws.com", "", "eu-west-1" },
		{ "s3.dualstack.eu-west-1.amazonaws.com", "bu", "", S3_LOOKUP_PATH, false, "s3.dualstack.eu-west-1.amazonaws.com", "/bu", "eu-west-1" },
		{ "s3-eu-central-1.amazonaws.com", "b.u", "", S3_LOOKUP_AUTO, false, "s3-eu-central-1.amazonaws.com", "/b.u", "eu-central-1" },
		{ "s3.cn-north-1.amazonaws.com.cn", "bu", "", S3_LOOKUP_AUTO, false, "bu.s3.cn-north-1.amazonaws.com.cn", "", "cn-north-1" },
		{ "s3.amazonaws.com", "bu", "eu-north-1", S3_LOOKUP_AUTO, false, "bu.s3.amazonaws.com", "", "eu-north-1" },
		{ "storage.googleapis.com", "bu", "", S3_LOOKUP_AUTO, false, "storage.googleapis.com", "/bu", "auto" },
		{ "ceph:80", "bu", "", S3_LOOKUP_AUTO, true, "ceph", "/bu", "us-east-1" },
		{ "ceph:443", "bu", "", S3_LOOKUP_AUTO, true, "ceph:443", "/bu", "us-east-1" },
		{ "[::1]:7070", "bu", "", S3_LOOKUP_VIRTUAL_HOSTED, true, "bu.[::1]:7070", "", "us-east-1" },
	};
	struct s3_place p;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct s3_config c = { .endpoint = rows[i].endpoint, .bucket = rows[i].bucket, .region = rows[i].region, .lookup = rows[i].lookup, .insecure = rows[i].insecure };
		if (s3_place_init(&p, &c, &e))
			fail_msg("%s", e.msg);
		assert_string_equal(p.host, rows[i].host);
		assert_string_equal(p.path, rows[i].path);
		assert_string_equal(p.region, rows[i].signs);
		s3_place_release(&p);
	}
	static const char *const no_buckets[] = { "", "a/b", "a?b", "a b", "..", "\xc3\xa4" };
	for (size_t i = 0; i < ARRAY_LEN(no_buckets); i++) {
		struct s3_config c = { .endpoint = "h", .bucket = no_buckets[i], .region = "" };
		assert_int_equal(s3_place_init(&p, &c, &e), -ERR_BAD_DATA);
		s3_place_release(&p);
	}
}

static void test_a_store_that_overwrites(void **state)
{
	fake_answer(OK, ETAG, "");
	fake_answer(OK, ETAG, "");
	fake_answer("204 No Content", "", "");
	expect_error(put("a/b", "text"), ERR_EXECUTION, "overwrites an object though the put says If-None-Match: *");
	expect_asked("PUT /bu/a/probe-");
	expect_asked("DELETE /bu/a/probe-");
	assert_null(strstr(fake_requests(), "/bu/a/b"));
	fake_reset();
	fake_answer("501 Not Implemented", "", XML_ERROR("NotImplemented"));
	expect_error(put("a/b", "text"), ERR_EXECUTION, "it cannot be used");
	/* An answer that did not come leaves the question open. */
	fake_reset();
	fake_raw(NULL, 0);
	expect_error(put("a/b", "text"), ERR_UNAVAILABLE, "");
	fake_reset();
	prove();
}

static void test_refusals_of_a_put(void **state)
{
	static const struct {
		const char *status, *headers, *body;
		enum err_code code;
		const char *text;
	} rows[] = {
		{ "412 Precondition Failed", "", XML_ERROR("PreconditionFailed"), ERR_CONFLICT, "S3 answered 412 PreconditionFailed to a put of a/b" },
		{ "412 Precondition Failed", "", "", ERR_CONFLICT, "412" },
		{ "409 Conflict", "", XML_ERROR("ConditionalRequestConflict"), ERR_BUSY, "409" },
		{ "403 Forbidden", "", XML_ERROR("AccessDenied"), ERR_DENIED, "S3 answered 403 AccessDenied to a put of a/b: the credentials do not allow it (rights needed: s3:PutObject" },
		{ "403 Forbidden", "Date: Mon, 30 Nov 2026 05:00:00 GMT\r\n", XML_ERROR("RequestTimeTooSkewed"), ERR_DENIED, ", there Mon, 30 Nov 2026 05:00:00 GMT" },
		{ "403 Forbidden", "", XML_ERROR("QuotaExceeded"), ERR_LIMIT, "the quota is used up" },
		{ "404 Not Found", "", XML_ERROR("NoSuchBucket"), ERR_DENIED, "there is no such bucket: bu at 127.0.0.1:" },
		{ "301 Moved", "x-amz-bucket-region: eu-west-3\r\nLocation: http://127.0.0.1:1/\r\n", XML_ERROR("PermanentRedirect"), ERR_DENIED, "set region: eu-west-3 (it is us-east-1)" },
		{ "301 Moved", "x-amz-bucket-region: eu-west-3\r\n", "", ERR_DENIED, "set region: eu-west-3" },
		{ "400 Bad Request", "", "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-9</Region></Error>", ERR_DENIED, "set region: eu-west-9" },
		{ "400 Bad Request", "", XML_ERROR("XAmzContentSHA256Mismatch"), ERR_UNAVAILABLE, "damaged on its way" },
		{ "503 Slow", "Retry-After: 3\r\n", XML_ERROR("SlowDown"), ERR_BUSY, "S3 answered 503 SlowDown" },
		{ "500 Oops", "", XML_ERROR("InternalError"), ERR_UNAVAILABLE, "words of the server" },
		{ "502 Bad Gateway", "", "<html>", ERR_UNAVAILABLE, "502" },
		{ "507 Full", "", "", ERR_LIMIT, "507" },
		{ "418 Teapot", "", "<html>", ERR_BAD_DATA, "does S3 answer at this endpoint?" },
		{ "400 Bad", "", "<Error><Code>Odd</Code><Message>you sent AKIDOFTESTS</Message></Error>", ERR_BAD_DATA, "400 Odd" },
		{ "400 Bad", "", "<Error><Code>AKIDOFTESTS</Code><Message>Signature=123</Message></Error>", ERR_BAD_DATA, "400" },
		{ "403 Bad", "", "<Error><Code>ExpiredToken</Code></Error>", ERR_DENIED, "have expired" },
		{ "200 OK", "", "<html>welcome to this hotel</html>", ERR_BAD_DATA, "is it S3?" },
	};
	prove();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		fake_reset();
		fake_answer(rows[i].status, rows[i].headers, rows[i].body);
		attempt.retry_after_ms = 0;
		expect_error(put("a/b", "text"), rows[i].code, rows[i].text);
		assert_int_equal(atomic_load(&fake.asked), 1); /* no redirect is followed */
		assert_int_equal(attempt.retry_after_ms, strstr(rows[i].headers, "Retry-After") ? 3000 : 0);
	}
	/* Nothing comes; the head of an answer is cut off; its body. */
	fake_reset();
	fake_raw(NULL, 0);
	expect_error(put("a/b", "text"), ERR_UNAVAILABLE, "S3 at 127.0.0.1:");
	fake_reset();
	fake_raw("HTTP/1.1 200 OK\r\nETag: \"x\"\r\n", 28);
	expect_error(put("a/b", "text"), ERR_UNAVAILABLE, "cut short in its head");
	fake_reset();
	fake_raw("HTTP/1.1 403 No\r\nContent-Length: 100\r\n\r\n<Error>", 47);
	expect_error(put("a/b", "text"), ERR_UNAVAILABLE, "cut short");
}

/* Credentials that the section does not hold are fetched anew when they have expired, so the next attempt may succeed. */
static void test_expired_credentials(void **state)
{
	assert_int_equal(free_backend(NULL), 0);
	setenv("AWS_ACCESS_KEY_ID", "AKIDOFTESTS", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secretOfTests", 1);
	config.access_key = config.secret_key = "";
	assert_int_equal(s3_new(&backend, &config, NULL, &e), 0);
	fake_answer("400 Bad Request", "", XML_ERROR("ExpiredToken"));
	expect_error(get(0, UINT64_MAX), ERR_UNAVAILABLE, "the credentials have expired");
	expect_asked("Credential=AKIDOFTESTS/");
	unsetenv("AWS_ACCESS_KEY_ID");
	unsetenv("AWS_SECRET_ACCESS_KEY");
}

static void test_a_body_that_is_false(void **state)
{
	struct objects_body b = { .size = 4, .read = read_text, .arg = (void *)(uintptr_t)"text" };
	prove();
	fake_answer(OK, ETAG, "");
	expect_error(backend->ops->put_once(backend, "a/b", &b, &attempt, &e), ERR_CORRUPT, "the content changed");
	b.size = 0;
	expect_error(backend->ops->put_once(backend, "a/b", &b, &attempt, &e), ERR_CORRUPT, "the content is empty");
}

static int refuse(void *arg, const char *p, size_t n, struct err *why)
{
	return err_set(why, ERR_UNAVAILABLE, "the reader has no room");
}

static void test_answers_to_a_get(void **state)
{
	struct buf large = { 0 };
	fake_answer(OK, "", "0123456789");
	assert_int_equal(get(0, UINT64_MAX), 0);
	assert_string_equal(got.ptr, "0123456789");
	assert_int_equal(got_size, 10);
	assert_null(strstr(fake_requests(), "range:"));
	fake_reset();
	fake_answer(OK, "", "0123456789"); /* a range that was not heeded: at the beginning it does no harm */
	assert_int_equal(get(0, 4), 0);
	assert_string_equal(got.ptr, "0123");
	expect_error(get(2, 4), ERR_BAD_DATA, "does not know ranges");
	assert_int_equal(got.len, 0);
	fake_reset();
	fake_answer("206 Partial", "Content-Range: bytes 3-6/10\r\n", "3456");
	expect_error(get(2, 4), ERR_BAD_DATA, "another range");
	expect_error(get(3, 3), ERR_BAD_DATA, "another range");
	assert_int_equal(get(3, 4), 0);
	expect_error(get(3, UINT64_MAX), ERR_BAD_DATA, "another range");
	fake_reset();
	fake_answer("206 Partial", "Content-Range: bytes 3-18446744073709551615/*\r\n", "3456");
	expect_error(get(3, 4), ERR_BAD_DATA, "another range");
	/* Behind the end. */
	fake_reset();
	fake_answer("416 Range", "Content-Range: bytes */10\r\n", XML_ERROR("InvalidRange"));
	assert_int_equal(get(10, 4), 0);
	assert_int_equal(got_size, 10);
	expect_error(get(9, 4), ERR_BAD_DATA, "begins behind its end");
	fake_reset();
	fake_answer("416 Range", "", "<Error><Code>InvalidRange</Code><ActualObjectSize>10</ActualObjectSize></Error>");
	assert_int_equal(get(10, 4), 0);
	assert_int_equal(got_size, 10);
	fake_reset();
	fake_answer("416 Range", "", XML_ERROR("InvalidRange"));
	fake_raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", 39);
	assert_int_equal(get(11, 4), 0);
	assert_int_equal(got_size, 10);
	expect_asked("HEAD /bu/a/b ");
	/* Interrupted: what came has come. */
	fake_reset();
	fake_raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234", 44);
	expect_error(get(0, UINT64_MAX), ERR_UNAVAILABLE, "5 of 10 bytes");
	assert_string_equal(got.ptr, "01234");
	fake_reset();
	fake_raw("HTTP/1.1 200 OK\r\n\r\n01234", 24);
	expect_error(get(0, UINT64_MAX), ERR_BAD_DATA, "without a length");
	fake_reset();
	fake_answer("404 Not Found", "", XML_ERROR("NoSuchKey"));
	expect_error(get(0, UINT64_MAX), ERR_NOT_FOUND, "there is no such object");
	fake_reset();
	fake_answer("404 Not Found", "", "<html>");
	expect_error(get(0, UINT64_MAX), ERR_BAD_DATA, "does S3 answer at this endpoint?");
	fake_reset();
	for (int i = 0; i < 300000; i++)
		buf_puts(&large, "<a>");
	fake_answer("403 No", "", large.ptr);
	expect_error(get(0, UINT64_MAX), ERR_DENIED, "403");
	buf_free(&large);
	fake_reset();
	fake_answer(OK, "", "0123456789");
	expect_error(backend->ops->get_once(backend, "a/b", 0, UINT64_MAX, refuse, NULL, &got_size, &attempt, &e), ERR_UNAVAILABLE, "the reader has no room");
	assert_string_equal(e.msg, "the reader has no room");
	buf_free(&got);
}

static void test_deletes(void **state)
{
	fake_answer("404 Not Found", "", XML_ERROR("NoSuchKey"));
	assert_int_equal(backend->ops->remove_once(backend, "a/b", &attempt, &e), 0);
	fake_reset();
	fake_answer("404 Not Found", "", XML_ERROR("NoSuchBucket"));
	expect_error(backend->ops->remove_once(backend, "a/b", &attempt, &e), ERR_DENIED, "there is no such bucket");
}

#define LIST(inside) "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" inside "</ListBucketResult>"
#define OBJECT(key) "<Contents><Key>" key "</Key><LastModified>2026-11-30T05:00:00.500Z</LastModified><Size>7</Size></Contents>"

static int list(const char *doc, const char *prefix, const char *after, struct backend_page *page)
{
	backend_page_init(page);
	err_clear(&e);
	return s3_list_read(view_of(doc), prefix, after, page, &e);
}

static void expect_no_list(const char *doc, const char *text)
{
	struct backend_page page;
	int rc = list(doc, "a/", "a/b", &page);
	if (!rc || !strstr(e.msg, text))
		fail_msg("%d %s (%s)", rc, e.msg, text);
	backend_page_free(&page);
}

static void test_lists(void **state)
{
	struct backend_page page;
	struct buf b = { 0 };
	s3_list_query("pre fix/", "pre fix/\xc3\xa4", &b);
	assert_string_equal(b.ptr, "encoding-type=url&list-type=2&max-keys=1000&prefix=pre%20fix%2F&start-after=pre%20fix%2F%C3%A4");
	buf_free(&b);
	assert_int_equal(list(LIST("<IsTruncated>true</IsTruncated>" OBJECT("a/c%2Bd+e%20f%25") OBJECT("a/d") "<EncodingType>url</EncodingType>"
				   "<CommonPrefixes><Prefix>x</Prefix></CommonPrefixes>"), "a/", "a/b", &page), 0);
	assert_true(page.more);
	assert_int_equal(page.v.n, 2);
	assert_string_equal(page.v.v[0].key, "a/c+d e f%");
	assert_int_equal(page.v.v[0].size, 7);
	assert_int_equal(page.v.v[0].modified_ms, 1796014800500);
	backend_page_free(&page);
	assert_int_equal(list(LIST(OBJECT("a/c%2B")), "a/", "", &page), 0); /* not encoded */
	assert_string_equal(page.v.v[0].key, "a/c%2B");
	assert_false(page.more);
	backend_page_free(&page);
	assert_int_equal(list(LIST(""), "a/", "", &page), 0);
	backend_page_free(&page);
}

static void test_hostile_lists(void **state)
{
	struct buf b = { 0 };
	expect_no_list("", "not XML");
	expect_no_list("{}", "not XML");
	expect_no_list("<html><body>hello</body></html>", "not a list of objects");
	expect_no_list(LIST(OBJECT("a/c")) "x", "not XML");
	expect_no_list("<!DOCTYPE a [<!ENTITY x \"y\">]><ListBucketResult/>", "declares a document type");
	expect_no_list(LIST("&x;"), "not XML");
	expect_no_list(LIST("<Contents><Size>7</Size></Contents>"), "without a key or a size");
	expect_no_list(LIST("<Contents><Key>a/c</Key></Contents>"), "without a key or a size");
	expect_no_list(LIST("<Contents><Key>a/c</Key><Size>-7</Size></Contents>"), "without a key or a size");
	expect_no_list(LIST(OBJECT("a/d") OBJECT("a/c")), "not in the order");
	expect_no_list(LIST(OBJECT("a/c") OBJECT("a/c")), "not in the order");
	expect_no_list(LIST(OBJECT("a/b")), "not in the order");
	expect_no_list(LIST(OBJECT("b")), "not asked for");
	expect_no_list(LIST("<EncodingType>url</EncodingType>" OBJECT("a/%4")), "not URL-encoded");
	expect_no_list(LIST("<EncodingType>url</EncodingType>" OBJECT("a/%00")), "not URL-encoded");
	expect_no_list(LIST("<IsTruncated>true</IsTruncated>"), "no key to go on from");
	for (int i = 0; i < 100; i++)
		buf_puts(&b, "<a>");
	expect_no_list(b.ptr, "nested deeper");
	buf_reset(&b);
	buf_puts(&b, "<ListBucketResult><Contents><Key>a/");
	for (int i = 0; i < 2000; i++)
		buf_puts(&b, "c");
	size_t at = b.len;
	buf_puts(&b, "</Key><Size>1</Size></Contents></ListBucketResult>");
	expect_no_list(b.ptr, "");
	b.len = at;
	for (int i = 0; i < 8000; i++)
		buf_puts(&b, "c");
	buf_puts(&b, "</Key></Contents></ListBucketResult>");
	expect_no_list(b.ptr, "a text longer than");
	buf_reset(&b);
	buf_puts(&b, "<ListBucketResult>");
	for (int i = 0; i < 1001; i++)
		buf_printf(&b, "<Contents><Key>a/c%05d</Key><Size>1</Size></Contents>", i);
	buf_puts(&b, "</ListBucketResult>");
	expect_no_list(b.ptr, "more than");
	buf_reset(&b);
	buf_puts(&b, "<ListBucketResult>");
	while (b.len < 5 << 20)
		buf_puts(&b, "<x>                                                                   </x>");
	buf_puts(&b, "</ListBucketResult>");
	expect_no_list(b.ptr, "larger than");
	/* The same from a server. */
	fake_answer(OK, "", b.ptr);
	struct backend_page page;
	backend_page_init(&page);
	expect_error(backend->ops->list_page(backend, "a/", "", &page, &attempt, &e), ERR_BAD_DATA, "larger than the limit");
	backend_page_free(&page);
	buf_free(&b);
}

static void test_stop(void **state)
{
	atomic_bool stop = true;
	attempt.stop = &stop;
	int64_t begin = clock_mono_ms();
	fake_answer(OK, "", "x");
	expect_error(get(0, UINT64_MAX), ERR_CANCELED, "");
	assert_true(clock_mono_ms() - begin < 2000);
}

/* A store that takes connections and never answers. */
static void test_silence(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 8) || getsockname(fd, (struct sockaddr *)&a, &len), 0);
	backend->ops->free(backend);
	snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", ntohs(a.sin_port));
	config.response_timeout_ms = 60000;
	assert_int_equal(s3_new(&backend, &config, NULL, &e), 0);
	attempt.silence_ms = 300;
	int64_t begin = clock_mono_ms();
	expect_error(get(0, UINT64_MAX), ERR_TIMEOUT, "");
	assert_true(clock_mono_ms() - begin < 20000);
	close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, new_backend, free_backend)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_asked), TEST(test_google), cmocka_unit_test(test_places), TEST(test_a_store_that_overwrites), TEST(test_refusals_of_a_put),
		TEST(test_expired_credentials), TEST(test_a_body_that_is_false), TEST(test_answers_to_a_get), TEST(test_deletes), cmocka_unit_test(test_lists), TEST(test_hostile_lists),
		TEST(test_stop), TEST(test_silence),
	};
	return cmocka_run_group_tests(tests, fake_start, fake_stop);
}
