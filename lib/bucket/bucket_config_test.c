/* SPDX-License-Identifier: Apache-2.0 */
/* The section object_storage: Thanos's and Parca's files, our keys, and what is said of mistakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "bucket/bucket.h"

static struct {
	struct config_tree *tree;
	struct arena arena;
	struct bucket_config c;
	struct buf warnings;
	struct err e;
} R;

static void add_warning(void *arg, const char *text)
{
	buf_printf(arg, "%s\n", text);
}

static int decode(const char *yaml)
{
	struct config_ctx c = { .arena = &R.arena, .dir = "/etc/p", .warn = add_warning, .warn_arg = &R.warnings, .check_files = true };
	arena_free(&R.arena);
	config_free(R.tree);
	R.tree = NULL;
	buf_reset(&R.warnings);
	buf_puts(&R.warnings, "");
	memset(&R.e, 0, sizeof R.e);
	memset(&R.c, 0x55, sizeof R.c);
	arena_init(&R.arena, 0);
	int rc = config_parse(&R.tree, view_of(yaml), "p.yml", &R.e);
	if (!rc)
		rc = bucket_config_decode(R.tree, false, &c, &R.c, &R.e);
	config_ctx_release(&c);
	return rc;
}

static const char *warnings(void)
{
	return R.warnings.len ? R.warnings.ptr : "";
}

static void good(const char *yaml)
{
	if (decode(yaml))
		fail_msg("%s\n%s", yaml, R.e.msg);
}

/* Refused, at that place and with these words; the struct is untouched. */
static void bad(const char *yaml, const char *want)
{
	struct bucket_config untouched;
	memset(&untouched, 0x55, sizeof untouched);
	if (!decode(yaml))
		fail_msg("accepted: %s", yaml);
	if (!strstr(R.e.msg, want))
		fail_msg("%s\n%s\nhas no \"%s\"", yaml, R.e.msg, want);
	assert_memory_equal(&R.c, &untouched, sizeof untouched);
}

#define S3(more) "object_storage: {bucket: {type: S3, config: {bucket: b, endpoint: 'h:9', " more "}}}\n"

static void no_section(void **state)
{
	(void)state;
	good("scrape_configs: []\n");
	assert_int_equal(R.c.type, BUCKET_NONE);
	assert_string_equal(R.c.server_id, "");
	good("object_storage: null\n");
	assert_int_equal(R.c.type, BUCKET_NONE);
	assert_string_equal(warnings(), "");
}

/* What Parca's tutorial and operator have: nothing, with a warning that says how it becomes something. */
static void parcas_file(void **state)
{
	(void)state;
	good("object_storage:\n  bucket:\n    type: \"FILESYSTEM\"\n    config:\n      directory: \"./data\"\n");
	assert_int_equal(R.c.type, BUCKET_NONE);
	assert_string_equal(warnings(), "p.yml:2:3: field object_storage: ignored; profiles are kept in --storage.path. To keep sealed days in this directory as "
					"well, give the server a name: object_storage.server_id\n");
	good("object_storage:\n  bucket:\n    type: filesystem\n    config: {directory: ./tmp}\n    prefix: \"\"\n");
	assert_int_equal(R.c.type, BUCKET_NONE);
}

static void a_directory(void **state)
{
	(void)state;
	good("object_storage:\n  server_id: pod-0\n  bucket: {type: FILESYSTEM, prefix: /a/B_c/, config: {directory: ./data}}\n");
	assert_int_equal(R.c.type, BUCKET_FILESYSTEM);
	assert_string_equal(warnings(), ""); /* also none that it cannot be read: it is made */
	assert_string_equal(R.c.directory, "/etc/p/./data");
	assert_string_equal(R.c.prefix, "a/B_c");
	assert_string_equal(R.c.server_id, "pod-0");
	assert_string_equal(R.c.shown, "directory /etc/p/./data, prefix a/B_c");
	assert_int_equal(R.c.requests, 16);
	assert_int_equal(R.c.upload_limit, 0);
	assert_int_equal(R.c.download_limit, 0);
	assert_int_equal(R.c.seal_interval_ms, 0);
	assert_int_equal(R.c.grace_ms, 24 * 3600 * 1000);
	good("object_storage: {server_id: a, requests: 2, upload_limit: 10MB, download_limit: 64KiB, seal_interval: 15m, grace: 2d,\n"
	     "  bucket: {type: FILESYSTEM, config: {directory: /d}}}\n");
	assert_int_equal(R.c.requests, 2);
	assert_int_equal(R.c.upload_limit, 10 << 20);
	assert_int_equal(R.c.download_limit, 64 << 10);
	assert_int_equal(R.c.seal_interval_ms, 15 * 60 * 1000);
	assert_int_equal(R.c.grace_ms, 48 * 3600 * 1000);
	assert_string_equal(R.c.prefix, "");
}

static void an_s3(void **state)
{
	const struct s3_config *s = &R.c.s3;
	(void)state;
	good(S3("access_key: AK, secret_key: SK, session_token: ST"));
	assert_int_equal(R.c.type, BUCKET_S3);
	assert_string_equal(warnings(), "");
	assert_string_equal(s->bucket, "b");
	assert_string_equal(s->endpoint, "h:9");
	assert_string_equal(s->region, "");
	assert_string_equal(s->access_key, "AK");
	assert_string_equal(s->secret_key, "SK");
	assert_string_equal(s->session_token, "ST");
	assert_string_equal(s->storage_class, "");
	assert_string_equal(s->sts_endpoint, "");
	assert_false(s->insecure);
	assert_false(s->sse_s3);
	assert_int_equal(s->lookup, S3_LOOKUP_AUTO);
	assert_int_equal(s->idle_timeout_ms, 90000);
	assert_int_equal(s->response_timeout_ms, 120000);
	assert_false(s->http.follow_redirects);
	assert_true(s->http.proxy_from_environment);
	assert_null(s->http.tls.ca_file);
	assert_string_equal(R.c.shown, "S3 bucket b at h:9");
	good(S3("region: eu-central-1, insecure: true, bucket_lookup_type: virtual-hosted, sse_config: {type: SSE-S3}, sts_endpoint: 'https://sts', "
		"aws_sdk_auth: true, put_user_metadata: {a: x y, X-Amz-Storage-Class: STANDARD_IA, b: ''}, http_config: {idle_conn_timeout: 5s, "
		"response_header_timeout: 1m, insecure_skip_verify: true, tls_config: {server_name: n, ca_file: ca.pem, cert_file: c, key_file: k}}"));
	assert_string_equal(s->region, "eu-central-1");
	assert_true(s->insecure);
	assert_true(s->aws_sdk_auth);
	assert_true(s->sse_s3);
	assert_int_equal(s->lookup, S3_LOOKUP_VIRTUAL_HOSTED);
	assert_string_equal(s->storage_class, "STANDARD_IA");
	assert_int_equal(s->user_metadata.n, 2);
	assert_string_equal(s->user_metadata.v[1].key, "b");
	assert_int_equal(s->idle_timeout_ms, 5000);
	assert_int_equal(s->response_timeout_ms, 60000);
	assert_true(s->http.tls.insecure_skip_verify);
	assert_string_equal(s->http.tls.server_name, "n");
	assert_string_equal(s->http.tls.ca_file, "/etc/p/ca.pem");
	assert_non_null(strstr(warnings(), "/etc/p/ca.pem")); /* it is not there */
	good(S3("bucket_lookup_type: path"));
	assert_int_equal(s->lookup, S3_LOOKUP_PATH);
}

/* Thanos's manual prints every key with its default; copies of that load without a warning. */
#define THANOS                                                                                                                                         \
	"object_storage:\n  bucket:\n    type: S3\n    config:\n      bucket: \"b\"\n      endpoint: \"e\"\n      region: \"\"\n"                              \
	"      disable_dualstack: false\n      aws_sdk_auth: false\n      access_key: \"\"\n      insecure: false\n      signature_version2: false\n"         \
	"      secret_key: \"\"\n      session_token: \"\"\n      put_user_metadata: {}\n      http_config:\n        idle_conn_timeout: 1m30s\n"              \
	"        response_header_timeout: 2m\n        insecure_skip_verify: false\n        tls_handshake_timeout: 10s\n"                                     \
	"        expect_continue_timeout: 1s\n        max_idle_conns: 100\n        max_idle_conns_per_host: 100\n        max_conns_per_host: 0\n"            \
	"        tls_config:\n          ca_file: \"\"\n          cert_file: \"\"\n          key_file: \"\"\n          server_name: \"\"\n"                   \
	"          insecure_skip_verify: false\n        disable_compression: false\n      trace:\n        enable: false\n      list_objects_version: \"\"\n" \
	"      bucket_lookup_type: auto\n      send_content_md5: true\n      disable_multipart: false\n      part_size: 67108864\n"                          \
	"      sse_config:\n        type: \"\"\n        kms_key_id: \"\"\n        kms_encryption_context: {}\n        encryption_key: \"\"\n"                \
	"      sts_endpoint: \"\"\n      max_retries: 0\n    prefix: \"\"\n"

static void thanos_manual(void **state)
{
	(void)state;
	good(THANOS);
	assert_int_equal(R.c.type, BUCKET_S3);
	assert_string_equal(warnings(), "");
	assert_null(R.c.s3.http.tls.ca_file);
}

static void without_effect(void **state)
{
	static const char *const cases[][2] = {
		{ "part_size: 1", "part_size" }, { "disable_dualstack: true", "disable_dualstack" }, { "disable_multipart: true", "disable_multipart" },
		{ "send_content_md5: false", "send_content_md5" }, { "max_retries: 3", "max_retries" }, { "trace: {enable: true}", "trace" },
		{ "list_objects_version: v1", "list_objects_version" }, { "http_config: {max_idle_conns: 1}", "http_config.max_idle_conns" },
		{ "http_config: {max_idle_conns_per_host: 1}", "http_config.max_idle_conns_per_host" },
		{ "http_config: {max_conns_per_host: 1}", "http_config.max_conns_per_host" },
		{ "http_config: {tls_handshake_timeout: 1s}", "http_config.tls_handshake_timeout" },
		{ "http_config: {expect_continue_timeout: 2s}", "http_config.expect_continue_timeout" },
		{ "http_config: {force_attempt_http2: true}", "http_config.force_attempt_http2" },
		{ "http_config: {disable_compression: true}", "http_config.disable_compression" },
		{ "http_config: {tls_config: {trust_root_ca: true}}", "http_config.tls_config.trust_root_ca" },
		{ "sse_config: {kms_key_id: k}", "sse_config.kms_key_id" }, { "sse_config: {encryption_key: k}", "sse_config.encryption_key" },
		{ "sse_config: {kms_encryption_context: {a: b}}", "sse_config.kms_encryption_context" },
	};
	char yaml[256], want[256];
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		snprintf(yaml, sizeof yaml, S3("%s"), cases[i][0]);
		snprintf(want, sizeof want, ": field object_storage.bucket.config.%s: ignored; ", cases[i][1]);
		good(yaml);
		if (!view_starts(R.warnings.len ? buf_view(&R.warnings) : VIEW(""), VIEW("p.yml:1:")) || !strstr(warnings(), want))
			fail_msg("%s: %s", yaml, warnings());
	}
	good(S3("list_objects_version: v2"));
	assert_string_equal(warnings(), "");
}

static void mistakes(void **state)
{
	static const char *const types[] = { "AZURE", "SWIFT", "cos", "ALIYUNOSS", "BOS", "OCI", "OBS" };
	char yaml[128];
	(void)state;
	bad("object_storage:\n  bucket:\n    type: GCS\n", "p.yml:3:11: field object_storage.bucket: type GCS is not supported, but GCS speaks S3: use type S3 with "
							   "endpoint storage.googleapis.com and HMAC keys");
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		snprintf(yaml, sizeof yaml, "object_storage: {bucket: {type: %s, config: {}}}\n", types[i]);
		bad(yaml, "is not supported; S3 and FILESYSTEM are");
	}
	bad("object_storage: {bucket: {type: MINIO}}\n", "type MINIO is not known");
	bad("object_storage: {bucket: {config: {}}}\n", "type is missing");
	bad("object_storage: {}\n", "bucket is missing");
	bad("object_storage: {bucket: }\n", "bucket is missing");
	bad("object_storage: {bucket: []}\n", "p.yml:1:26: field object_storage.bucket: a map is wanted");
	bad("object_storage: [a]\n", "a map is wanted");
	bad("object_storage: {type: S3, config: {}}\n", "object_storage.bucket.type");
	bad("object_storage: {bucket: {type: S3}}\n", "config is missing");
	bad("object_storage: {bucket: {type: FILESYSTEM, config: {}}}\n", "directory");
	bad("object_storage: {bucket: {type: FILESYSTEM, config: {directory: ''}}, server_id: a}\n", "directory");
	bad("object_storage: {bucket: {type: FILESYSTEM, config: {directory: d, bucket: b}}}\n", "field object_storage.bucket.config.bucket: unknown");
	bad("object_storage: {bucket: {type: S3, config: {bucket: b}}}\n", "endpoint is missing");
	bad("object_storage: {bucket: {type: S3, config: {endpoint: e}}}\n", "bucket is the name of a bucket");
	bad("object_storage: {bucket: {type: S3, config: {endpoint: e, bucket: a/b}}}\n", "object_storage.bucket.prefix");
	bad("object_storage: {bucket: {type: S3, config: {endpoint: 'https://e', bucket: b}}}\n", "without a scheme");
	bad("object_storage: {bucket: {type: S3, config: {endpoint: 'u:p@e', bucket: b}}}\n", "endpoint is host or host:port");
	bad("object_storage: {bucket: {type: S3, config: {endpoint: e/b, bucket: b}}}\n", "endpoint is host or host:port");
	bad("object_storage: {nonsense: 1, bucket: {type: S3, config: {endpoint: e, bucket: b}}}\n", "p.yml:1:18: field object_storage.nonsense: unknown");
	bad(S3("signature_version2: true"), "signature_version2");
	bad(S3("signature_version2: true"), "signed by version 4");
	bad(S3("list_objects_version: v3"), "v1 or v2");
	bad(S3("region: 'a b'"), "region is");
	bad(S3("bucket_lookup_type: dns"), "bucket_lookup_type");
	bad(S3("put_user_metadata: {'a: b': c}"), "put_user_metadata has");
	bad(S3("put_user_metadata: {a: \"b\\nc\"}"), "put_user_metadata");
	bad(S3("sse_config: {type: SSE-KMS, kms_key_id: k}"), "type SSE-KMS is not supported; SSE-S3 is");
	bad(S3("sse_config: {type: SSE-C, encryption_key: k}"), "type SSE-C is not supported");
	bad(S3("http_config: {tls_config: {cert_file: c}}"), "cert_file and key_file");
	bad(S3("http_config: {proxy_url: 'http://p'}"), "http_config.proxy_url: unknown");
	bad(S3("wrong: 1"), "field object_storage.bucket.config.wrong: unknown");
}

static void our_keys(void **state)
{
#define WITH(more) "object_storage: {bucket: {type: FILESYSTEM, prefix: p, config: {directory: d}}, " more "}\n"
	(void)state;
	bad(WITH("server_id: A"), "server_id has lower-case letters");
	bad(WITH("server_id: -a"), "begin with a dash");
	bad(WITH("server_id: a/b"), "server_id");
	bad(WITH("server_id: a2345678901234567890123456789012345678901"), "at most 40");
	good(WITH("server_id: a234567890123456789012345678901234567890"));
	bad(WITH("requests: 0"), "from 1 to 256");
	bad(WITH("requests: 257"), "from 1 to 256");
	bad(WITH("upload_limit: 1KB"), "upload_limit");
	bad(WITH("download_limit: 1KB"), "download_limit");
	bad(WITH("seal_interval: 59s"), "from 1m to 1h");
	bad(WITH("seal_interval: 2h"), "from 1m to 1h");
	bad(WITH("grace: 59m"), "at least 1h");
	good(WITH("grace: 1h, seal_interval: 1h"));
	bad("object_storage: {bucket: {type: FILESYSTEM, prefix: ../a, config: {directory: d}}}\n", "a prefix is of");
	bad("object_storage: {bucket: {type: FILESYSTEM, prefix: a//b, config: {directory: d}}}\n", "a prefix is of");
	bad("object_storage: {bucket: {type: FILESYSTEM, prefix: 'a b', config: {directory: d}}}\n", "a prefix is of");
	good("object_storage: {bucket: {type: FILESYSTEM, prefix: /, config: {directory: d}}}\n");
}

/* No secret is in an error, a warning, or the configuration as it is shown. */
static void secrets(void **state)
{
	static const char *const files[] = {
		S3("access_key: hush1, secret_key: hush2, session_token: hush3"), S3("access_key: hush1"), S3("secret_key: hush2"),
		S3("session_token: hush3"), S3("access_key: hush1, secret_key: [hush2]"), S3("access_key: {hush1: hush1}, secret_key: hush2"),
		S3("access_key: hush1, secret_key: hush2, aws_sdk_auth: true"), S3("access_key: hush1, secret_key: hush2, part_size: 1"),
		S3("access_key: \"hush1\\n\", secret_key: hush2"), S3("access_key: hush1, secret_key: hush2, sse_config: {type: X}"),
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct buf shown = { 0 };
		if (!decode(files[i])) {
			assert_null(strstr(R.c.shown, "hush"));
			config_redact(R.tree, &shown);
			assert_non_null(strstr(shown.ptr, "<secret>"));
			assert_null(strstr(shown.ptr, "hush"));
		}
		assert_null(strstr(R.e.msg, "hush"));
		assert_null(strstr(warnings(), "hush"));
		buf_free(&shown);
	}
	bad(S3("access_key: hush1"), "together");
	bad(S3("secret_key: hush1"), "together");
	bad(S3("session_token: hush1"), "session_token belongs to");
	bad(S3("access_key: a, secret_key: b, aws_sdk_auth: true"), "exclude each other");
	bad(S3("access_key: 'a ', secret_key: b"), "a space");
}

static int release(void **state)
{
	(void)state;
	arena_free(&R.arena);
	config_free(R.tree);
	buf_free(&R.warnings);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_section), cmocka_unit_test(parcas_file), cmocka_unit_test(a_directory), cmocka_unit_test(an_s3),
		cmocka_unit_test(thanos_manual), cmocka_unit_test(without_effect), cmocka_unit_test(mistakes), cmocka_unit_test(our_keys),
		cmocka_unit_test(secrets),
	};
	return cmocka_run_group_tests(tests, NULL, release);
}
