/* SPDX-License-Identifier: Apache-2.0 */
/* Where credentials are found, when they are fetched anew, and what becomes of answers of a metadata service that is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/files.h"
#include "bucket/credentials.h"
#include "bucket/fakeserver.h"

#define LATER "2099-01-01T00:00:00Z"
#define JSON(until) "{\"Code\":\"Success\",\"AccessKeyId\":\"AKIDJSON\",\"SecretAccessKey\":\"secretJson\",\"Token\":\"tokenJson\",\"Expiration\":\"" until "\"}"
#define STS(until)                                                                                                                                       \
	"<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult><Credentials>"              \
	"<AccessKeyId>AKIDSTS</AccessKeyId><SecretAccessKey>secretSts</SecretAccessKey><SessionToken>tokenSts</SessionToken><Expiration>" until              \
	"</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"

static char dir[] = "/tmp/pyrrha-credentials-XXXXXX", url[64];
static struct s3_config config;
static struct credentials *c;
static struct err e;

static const char *path_of(const char *name, const char *content)
{
	static char path[256];
	if (content && files_put(dir, name, view_of(content), &e))
		fail_msg("%s", e.msg);
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static int make_dir(void **state)
{
	return !mkdtemp(dir) || fake_start(state);
}

static int remove_dir(void **state)
{
	files_remove_tree(dir);
	return fake_stop(state);
}

static int empty(void **state)
{
	static const char *const names[] = { "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
					     "AWS_ENDPOINT_URL_STS", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
					     "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
					     "AWS_EC2_METADATA_DISABLED", "AWS_ROLE_SESSION_NAME" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		unsetenv(names[i]);
	setenv("HOME", dir, 1);
	snprintf(url, sizeof url, "http://127.0.0.1:%d", fake.port);
	setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url, 1);
	setenv("http_proxy", "http://127.0.0.1:1", 1); /* metadata services are not asked through it */
	config = (struct s3_config){ .access_key = "", .secret_key = "", .session_token = "", .sts_endpoint = "", .region = "" };
	fake_reset();
	err_clear(&e);
	c = credentials_new(&config, NULL);
	return 0;
}

static int freed(void **state)
{
	credentials_free(c);
	return 0;
}

static void expect_key(const char *access_key, const char *secret_key, const char *token)
{
	struct credentials_key k;
	if (credentials_get(c, &k, &e))
		fail_msg("%s", e.msg);
	assert_string_equal(k.access_key, access_key);
	assert_string_equal(k.secret_key, secret_key);
	assert_string_equal(k.session_token, token);
	credentials_key_release(&k);
}

static void expect_none(enum err_code code, const char *text)
{
	static const char *const secrets[] = { "AKID", "secret", "tokenJson", "tokenSts", "jwt.", "IMDS" };
	struct credentials_key k;
	err_clear(&e);
	int rc = credentials_get(c, &k, &e);
	if (rc != -(int)code || !strstr(e.msg, text))
		fail_msg("%d: %s", rc, e.msg);
	for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
		if (strstr(e.msg, secrets[i]) && !strstr(e.msg, "the secret key"))
			fail_msg("a secret is in: %s", e.msg);
}

static void anew(void)
{
	credentials_free(c);
	c = credentials_new(&config, NULL);
	fake_reset();
}

static void test_section(void **state)
{
	setenv("AWS_ACCESS_KEY_ID", "AKIDENV", 1);
	config.access_key = "AKIDSECTION";
	config.secret_key = "secretSection";
	expect_key("AKIDSECTION", "secretSection", "");
	assert_false(credentials_renewable(c));
	config.access_key = "AKID\nHeader: x";
	anew();
	expect_none(ERR_DENIED, "object_storage: a key or the token has blanks");
}

static void test_environment(void **state)
{
	setenv("AWS_ACCESS_KEY_ID", "AKIDENV", 1);
	expect_none(ERR_DENIED, "the secret key is missing");
	setenv("AWS_SECRET_ACCESS_KEY", "secretEnv", 1);
	setenv("AWS_SESSION_TOKEN", "tokenEnv", 1);
	expect_key("AKIDENV", "secretEnv", "tokenEnv");
}

static void test_file(void **state)
{
	setenv("AWS_EC2_METADATA_DISABLED", "TRUE", 1);
	expect_none(ERR_DENIED, "there are no credentials: none in the section");
	assert_int_equal(mkdir(path_of(".aws", NULL), 0700), 0);
	path_of(".aws/credentials", "# a comment\n[other]\naws_access_key_id=AKIDOTHER\naws_secret_access_key=secretOther\n\n [default]\r\n"
				    " aws_access_key_id = AKIDFILE \r\naws_secret_access_key\t=\tsecret=File/+\nregion = x\n[empty]\nrole_arn = r\n");
	expect_key("AKIDFILE", "secret=File/+", "");
	setenv("AWS_PROFILE", "other", 1);
	anew();
	expect_key("AKIDOTHER", "secretOther", "");
	setenv("AWS_PROFILE", "none", 1);
	anew();
	expect_none(ERR_DENIED, "has no profile [none]");
	setenv("AWS_PROFILE", "empty", 1);
	expect_none(ERR_DENIED, "has no aws_access_key_id (single sign-on, roles");
	unsetenv("AWS_PROFILE");
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials", 1);
	expect_none(ERR_DENIED, "/nowhere/credentials");
	unlink(path_of(".aws/credentials", NULL));
}

static void test_web_identity(void **state)
{
	char sts[80];
	snprintf(sts, sizeof sts, "%s/sts", url);
	config.sts_endpoint = sts;
	setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
	expect_none(ERR_DENIED, "only one is set");
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/jwt", 1);
	expect_none(ERR_DENIED, "/nowhere/jwt");
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path_of("jwt", "jwt.a+b\n"), 1);
	fake_answer("200 OK", "", STS(LATER));
	expect_key("AKIDSTS", "secretSts", "tokenSts");
	assert_non_null(strstr(fake_requests(), "POST /sts "));
	assert_non_null(strstr(fake_requests(), "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=pyrrha&"
						"WebIdentityToken=jwt.a%2Bb"));
	expect_key("AKIDSTS", "secretSts", "tokenSts");
	assert_int_equal(atomic_load(&fake.asked), 1);
	static const struct {
		const char *status, *body, *text;
		enum err_code code;
	} rows[] = {
		{ "403 No", "<ErrorResponse><Error><Code>AccessDenied</Code><Message>jwt.a+b</Message></Error></ErrorResponse>", "it answered 403 AccessDenied", ERR_DENIED },
		{ "400 No", "<ErrorResponse><Error><Code>jwt a b</Code></Error></ErrorResponse>", "it answered 400", ERR_DENIED },
		{ "503 No", "", "it answered 503", ERR_UNAVAILABLE },
		{ "200 OK", "<html>", "something else than credentials", ERR_UNAVAILABLE },
		{ "200 OK", "<a/>", "STS: the access key is missing", ERR_DENIED },
		{ "200 OK", STS(""), "malformed expiration", ERR_UNAVAILABLE },
		{ "200 OK", STS("2001-01-01T00:00:00Z"), "have expired already", ERR_DENIED },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		anew();
		fake_answer(rows[i].status, "", rows[i].body);
		expect_none(rows[i].code, rows[i].text);
	}
}

static void test_container(void **state)
{
	char full[80];
	snprintf(full, sizeof full, "%s/creds", url);
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", full, 1);
	setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path_of("jwt", "jwt.container\n"), 1);
	fake_answer("200 OK", "", JSON(LATER));
	expect_key("AKIDJSON", "secretJson", "tokenJson");
	assert_non_null(strstr(fake_requests(), "GET /creds "));
	assert_non_null(strstr(fake_requests(), "\r\nAuthorization: jwt.container\r\n"));
	static const char *const far[] = { "http://example.com/x", "http://127.0.0.1.example.com/", "http://127.0.0.1@example.com/", "ftp://127.0.0.1/", "http://localhost@e/" };
	for (size_t i = 0; i < ARRAY_LEN(far); i++) {
		setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", far[i], 1);
		anew();
		expect_none(ERR_DENIED, "neither https nor an address of this host");
	}
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", full, 1);
	setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path_of("jwt", "jwt\nHeader: x"), 1);
	anew();
	expect_none(ERR_DENIED, "line break");
}

static void answer_as_ec2(const char *credentials)
{
	fake_answer("200 OK", "", "IMDStoken==");
	fake_answer("200 OK", "", "role-1\n");
	fake_answer("200 OK", "", credentials);
}

static void test_ec2(void **state)
{
	answer_as_ec2(JSON(LATER));
	expect_key("AKIDJSON", "secretJson", "tokenJson");
	assert_non_null(strstr(fake_requests(), "PUT /latest/api/token HTTP/1.1\r\n"));
	assert_non_null(strstr(fake_requests(), "X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
	assert_non_null(strstr(fake_requests(), "GET /latest/meta-data/iam/security-credentials/role-1 "));
	assert_non_null(strstr(fake_requests(), "X-aws-ec2-metadata-token: IMDStoken==\r\n"));
	static const char *const roles[] = { "", "a b", "../../x", "a?b", "a%2fb", "\xff" };
	for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
		anew();
		fake_answer("200 OK", "", "IMDStoken");
		fake_answer("200 OK", "", roles[i]);
		expect_none(ERR_UNAVAILABLE, "something else than the name of a role");
		assert_int_equal(atomic_load(&fake.asked), 2);
	}
	anew();
	fake_answer("200 OK", "", "a\r\nX: y");
	expect_none(ERR_UNAVAILABLE, "something else than a token");
	anew();
	fake_answer("200 OK", "", "IMDStoken");
	fake_answer("404 No", "", "");
	expect_none(ERR_DENIED, "this machine has no role");
	anew();
	fake_answer("302 There", "Location: http://127.0.0.1:1/\r\n", "");
	expect_none(ERR_DENIED, "it answered 302");
	struct buf huge = { 0 };
	while (huge.len < 200000)
		buf_puts(&huge, "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[");
	const struct {
		const char *body, *text;
		enum err_code code;
	} rows[] = {
		{ "", "no JSON object", ERR_UNAVAILABLE },
		{ "[]", "no JSON object", ERR_UNAVAILABLE },
		{ "<html>", "no JSON object", ERR_UNAVAILABLE },
		{ "{\"Code\":\"Failed\"}", "has no credentials for this role", ERR_DENIED },
		{ "{\"AccessKeyId\":1,\"SecretAccessKey\":\"secretX\"}", "the access key is missing", ERR_DENIED },
		{ "{\"AccessKeyId\":\"AKIDX\"}", "is missing", ERR_DENIED },
		{ "{\"AccessKeyId\":\"AKID X\",\"SecretAccessKey\":\"secretX\"}", "has blanks", ERR_DENIED },
		{ "{\"AccessKeyId\":\"AKIDX\",\"SecretAccessKey\":\"secretX\",\"Token\":\"a\\r\\nb: c\"}", "has blanks", ERR_DENIED },
		{ JSON("soon"), "malformed expiration", ERR_UNAVAILABLE },
		{ JSON("2001-01-01T00:00:00Z"), "have expired already", ERR_DENIED },
		{ huge.ptr, "larger than the limit", ERR_UNAVAILABLE },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		anew();
		answer_as_ec2(rows[i].body);
		expect_none(rows[i].code, rows[i].text);
	}
	huge.len = 60000;
	huge.ptr[huge.len] = 0;
	anew();
	answer_as_ec2(huge.ptr);
	expect_none(ERR_UNAVAILABLE, "no JSON object");
	buf_free(&huge);
	setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
	anew();
	expect_none(ERR_UNAVAILABLE, "a container on EC2 needs a hop limit of 2");
}

/* Old ones serve while new ones cannot be had, until they expire. */
static void test_renewal(void **state)
{
	char soon[RFC3339_LEN], body[512];
	int64_t now = clock_now_ms();
	snprintf(body, sizeof body, "{\"AccessKeyId\":\"AKID1\",\"SecretAccessKey\":\"secret1\",\"Token\":\"t1\",\"Expiration\":\"%s\"}",
		 clock_rfc3339_ms(now + 4000, soon));
	answer_as_ec2(body);
	fake_answer("500 Oops", "", "");
	fake_answer("500 Oops", "", "");
	expect_key("AKID1", "secret1", "t1");
	assert_int_equal(atomic_load(&fake.asked), 3);
	clock_sleep_ms(now + 2300 - clock_now_ms()); /* half of its life */
	expect_key("AKID1", "secret1", "t1");
	assert_int_equal(atomic_load(&fake.asked), 4);
	expect_key("AKID1", "secret1", "t1"); /* the next try has time */
	assert_int_equal(atomic_load(&fake.asked), 4);
	clock_sleep_ms(now + 4100 - clock_now_ms());
	expect_none(ERR_UNAVAILABLE, "it answered 500");
	fake_reset();
	answer_as_ec2(JSON(LATER));
	expect_key("AKIDJSON", "secretJson", "tokenJson");
	/* S3 says that they have expired: young ones are kept. */
	credentials_reject(c, "AKIDJSON");
	expect_key("AKIDJSON", "secretJson", "tokenJson");
	assert_int_equal(atomic_load(&fake.asked), 3);
}

static void *get_in_thread(void *arg)
{
	struct credentials_key k = { 0 };
	struct err why = { 0 };
	int rc = credentials_get(c, &k, &why);
	credentials_key_release(&k);
	return (void *)(intptr_t)rc;
}

static void test_one_asks_for_all(void **state)
{
	enum { THREADS = 16 };
	pthread_t t[THREADS];
	answer_as_ec2(JSON(LATER));
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, get_in_thread, NULL), 0);
	for (size_t i = 0; i < THREADS; i++) {
		void *rc;
		pthread_join(t[i], &rc);
		assert_null(rc);
	}
	assert_int_equal(atomic_load(&fake.asked), 3);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, empty, freed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_section), TEST(test_environment), TEST(test_file), TEST(test_web_identity), TEST(test_container), TEST(test_ec2), TEST(test_renewal),
		TEST(test_one_asks_for_all),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
