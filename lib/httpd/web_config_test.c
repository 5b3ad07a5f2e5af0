/* SPDX-License-Identifier: Apache-2.0 */
/* The web configuration: what is taken, what is not, and where it says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/buf.h"
#include "config/config_sources.h"
#include "httpd/testcert.h"
#include "httpd/web_config.h"

#include <stdio.h>
#include <unistd.h>

#define HASH "$2y$10$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu"
#define SHA "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" /* of "test" */

static char folder[64];
static struct testcert ca, rsa, ec;
static struct buf problems, warnings;

static void put_file(const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void drop_file(const char *name)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	unlink(path);
}

static const char *const names[] = { "rsa.crt", "rsa.key", "ec.crt", "ec.key", "ca.crt", "empty", "token", "web.yml" };

static int make_files(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/web_config_test.XXXXXX");
	assert_non_null(mkdtemp(folder));
	ca = testcert_new((struct testcert_how){ .name = "authority" });
	rsa = testcert_new((struct testcert_how){ .name = "localhost", .signer = &ca, .rsa = true });
	ec = testcert_new((struct testcert_how){ .name = "localhost", .signer = &ca });
	put_file("rsa.crt", rsa.cert_pem);
	put_file("rsa.key", rsa.key_pem);
	put_file("ec.crt", ec.cert_pem);
	put_file("ec.key", ec.key_pem);
	put_file("ca.crt", ca.cert_pem);
	put_file("empty", "");
	put_file("token", "test\n");
	return 0;
}

static int drop_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		drop_file(names[i]);
	rmdir(folder);
	testcert_free(&ca);
	testcert_free(&rsa);
	testcert_free(&ec);
	buf_free(&problems);
	buf_free(&warnings);
	return 0;
}

static void add_line(struct buf *b, const char *text)
{
	size_t n = strlen(folder);
	if (strncmp(text, folder, n) == 0) /* messages say "web.yml:1:2:" */
		text += n + 1;
	buf_printf(b, "%s\n", text);
}

static void note_problem(void *arg, const char *text)
{
	(void)arg;
	add_line(&problems, text);
}

static void note_warning(void *arg, const char *text)
{
	(void)arg;
	add_line(&warnings, text);
}

/* NULL: problems. */
static struct web_config *load_with(const char *text, struct config_sources *sources)
{
	struct web_config *w = NULL;
	struct web_config_how how = { .problem = note_problem, .warn = note_warning, .sources = sources };
	struct err e = { 0 };
	char path[128];
	put_file("web.yml", text);
	snprintf(path, sizeof path, "%s/web.yml", folder);
	buf_reset(&problems);
	buf_reset(&warnings);
	int rc = web_config_load(&w, path, &how, &e);
	assert_int_equal(rc == 0, w != NULL);
	assert_int_equal(rc == 0, problems.len == 0);
	assert_int_equal(rc == 0, !e.msg[0]);
	return w;
}

static struct web_config *load(const char *text)
{
	return load_with(text, NULL);
}

/* Loads, and has no problem; warning: part of one, or NULL for none. */
static void good(const char *text, const char *warning)
{
	struct web_config *w = load(text);
	if (!w)
		fail_msg("%s\n%s", text, problems.ptr);
	if (warning ? !warnings.ptr || !strstr(warnings.ptr, warning) : warnings.len > 0)
		fail_msg("%s\nwarnings: %s", text, warnings.ptr);
	web_config_unref(w);
}

static void bad(const char *text, const char *problem)
{
	struct web_config *w = load(text);
	web_config_unref(w);
	if (w || !strstr(problems.ptr, problem))
		fail_msg("%s\nwanted: %s\nproblems: %s", text, problem, problems.ptr);
}

#define RSA "tls_server_config: {cert_file: rsa.crt, key_file: rsa.key"
#define EC "tls_server_config: {cert_file: ec.crt, key_file: ec.key"

static void test_everything(void **state)
{
	(void)state;
	struct config_sources sources = { 0 };
	struct web_config *w = load_with(EC ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt, client_allowed_sans: [one, two],\n"
		"  min_version: TLS12, max_version: TLS13, curve_preferences: [X25519, CurveP256], prefer_server_cipher_suites: false}\n"
		"http_server_config:\n  headers:\n    X-Frame-Options: deny\n    X-XSS-Protection: 1\n"
		"rate_limit: {interval: 1m0.5s, burst: 7}\n"
		"basic_auth_users: {alice: " HASH ", bob: " HASH "}\n"
		"user_rights: {bob: [read, admin]}\n"
		"tokens: [{name: a, sha256: " SHA ", rights: [write]}]\n", &sources);
	assert_non_null(w);
	assert_non_null(w->tls);
	assert_int_equal(w->client_auth, WEB_REQUIRE_AND_VERIFY_CLIENT_CERT);
	assert_true(w->has_client_ca);
	assert_int_equal(w->n_client_sans, 2);
	assert_string_equal(w->client_sans[1], "two");
	assert_int_equal(w->n_headers, 2);
	assert_string_equal(w->headers[1].value, "1");
	assert_int_equal(w->rate_interval_ns, 60500000000);
	assert_int_equal(w->rate_burst, 7);
	assert_int_equal(w->n_users, 2);
	assert_string_equal(w->users[0].name, "alice");
	assert_string_equal(w->users[0].hash, HASH);
	assert_int_equal(w->users[0].rights, HTTPD_RIGHT_ALL);
	assert_int_equal(w->users[1].rights, HTTPD_RIGHT_READ | HTTPD_RIGHT_ADMIN);
	assert_int_equal(w->n_tokens, 1);
	assert_int_equal(w->tokens[0].rights, HTTPD_RIGHT_WRITE);
	unsigned char hash[WEB_SHA256];
	web_config_hash(VIEW("test"), hash);
	assert_memory_equal(w->tokens[0].sha256, hash, sizeof hash);
	assert_int_equal(sources.v.n, 4); /* itself, certificate, key, authority */
	config_sources_free(&sources);
	web_config_unref(w);
}

static void test_token_file(void **state)
{
	(void)state;
	struct config_sources sources = { 0 };
	unsigned char hash[WEB_SHA256];
	struct web_config *w = load_with("tokens: [{name: a, token_file: token, rights: [read]}]", &sources);
	assert_non_null(w);
	web_config_hash(VIEW("test"), hash);
	assert_memory_equal(w->tokens[0].sha256, hash, sizeof hash);
	assert_non_null(strstr(warnings.ptr, "can be guessed"));
	assert_int_equal(sources.v.n, 2);
	config_sources_free(&sources);
	web_config_unref(w);
	bad("tokens: [{name: a, token_file: empty, rights: [read]}]", "web.yml:1:32: field tokens[0].token_file");
	bad("tokens: [{name: a, token_file: nothere, rights: [read]}]", "nothere");
}

static void test_tls(void **state)
{
	(void)state;
	good("", NULL);
	good("tls_server_config: {min_version: TLS13}", NULL); /* no TLS, as with Prometheus */
	good(RSA "}", NULL);
	good(EC ", client_auth_type: VerifyClientCertIfGiven, client_ca_file: ca.crt}", NULL);
	good(EC ", client_auth_type: RequireClientCert}", "anybody can make");
	good(EC ", min_version: TLS11}", "broken");
	bad("tls_server_config: {cert_filse: server.crt}", "web.yml:1:21: field tls_server_config.cert_filse: unknown; did you mean cert_file?");
	bad("tls_server_config: {cert_file: '', key_file: rsa.key}", "missing one of cert or cert_file");
	bad("tls_server_config: {cert_file: rsa.crt, key: ''}", "missing one of key or key_file");
	bad("tls_server_config: {client_auth_type: NoClientCert}", "missing one of cert or cert_file");
	bad("tls_server_config: {cert_file: nothere, key_file: rsa.key}", "web.yml:1:32: field tls_server_config: cert_file:");
	bad("tls_server_config: {cert_file: rsa.crt, key_file: ec.key}", "is not that of the certificate");
	bad("tls_server_config: {cert_file: empty, key_file: ec.key}", "cert_file: the certificate cannot be read");
	bad("tls_server_config: {cert_file: ec.crt, key_file: empty}", "key_file: the key cannot be read");
	bad(EC ", client_ca_file: ca.crt}", "without client_auth_type");
	bad(EC ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: empty}", "client_ca_file:");
	bad(EC ", client_auth_type: Always}", "\"Always\" is not one of");
	bad(EC ", min_version: TLS13, max_version: TLS12}", "min_version is above max_version");
	bad(EC ", min_version: TLS111}", "web.yml:1:71: field tls_server_config.min_version");
	bad(EC ", curve_preferences: [CurveP257]}", "unknown curve");
}

static void test_ciphers(void **state)
{
	(void)state;
	good(RSA ", cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]}", NULL);
	good(EC ", cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}", NULL); /* TLS 1.3 alone */
	good(EC ", cipher_suites: [TLS_AES_128_GCM_SHA256]}", NULL);
	good(EC ", cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA]}", NULL);
	bad(EC ", cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA], min_version: TLS13}", "none of these is a cipher of TLS 1.3");
	bad(EC ", cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256], max_version: TLS12}", "none of these goes with");
	bad(EC ", cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA2048]}", "unknown cipher");
	bad(EC ", cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}", "unknown cipher");
	for (int v = 2; v < 4; v++) { /* each that Go has is one of GnuTLS */
		static const char *const all[] = { "AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256", "AES_128_CBC_SHA", "AES_256_CBC_SHA" };
		for (size_t i = 0; i < ARRAY_LEN(all); i++) {
			char text[256];
			snprintf(text, sizeof text, "%s, max_version: TLS1%d, cipher_suites: [TLS_ECDHE_%s_WITH_%s]}", i & 1 ? RSA : EC, v,
				 i & 1 ? "RSA" : "ECDSA", all[i]);
			good(text, NULL);
		}
	}
}

static void test_headers_and_rate(void **state)
{
	(void)state;
	good("http_server_config: {headers: {X-Frame-Options: sameorigin, X-Content-Type-Options: nosniff}}", NULL);
	good("http_server_config: {http2: false}", NULL);
	good("http_server_config: {http2: true}", "HTTP/1.1 alone");
	bad("http_server_config: {headers: {X-Content-Type-Options: sniff}}", "web.yml:1:56: field http_server_config.headers: invalid value");
	bad("http_server_config: {headers: {X-XSS-Protection: [1], X-Frame-Options: deny, a: b}}", "a string is wanted");
	bad("http_server_config: {headers: {Content-Type: foo}}", "Content-Type cannot be set");
	bad("http_server_config: {headers: {X-XSS-Protection: \"a\\nb\"}}", "control character");
	good("rate_limit: {interval: 0, burst: 0}", NULL);
	good("rate_limit: {interval: 100us, burst: 3}", NULL);
	good("rate_limit: {interval: 1s}", "refuses all");
	bad("rate_limit: {interval: 5, burst: 3}", "web.yml:1:24: field rate_limit.interval: not a duration");
	bad("rate_limit: {interval: -1s, burst: 3}", "not a duration");
	bad("rate_limit: {interval: 1e3s, burst: 3}", "not a duration");
	bad("rate_limit: {interval: 1s, burst: -3}", "must not be negative");
}

static void test_logins(void **state)
{
	(void)state;
	good(EC "}\nbasic_auth_users: {alice: " HASH "}", NULL);
	good("basic_auth_users: {alice: " HASH "}", "can be read by all on the way");
	good(EC "}\nbasic_auth_users: {bob: $2y$18$4VeFDzXIoPHKnKTU3O3GH.N.vZu06CVqczYZ8WvfzrddFU6tGqjR.}", "a cost of 18");
	bad("basic_auth_users: {john: doe}", "web.yml:1:26: field basic_auth_users.john: not a bcrypt hash");
	bad("basic_auth_users: {john: $2x$10$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu}", "not a bcrypt hash");
	bad("basic_auth_users: {john: $2y$03$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu}", "cost of 3: from 4 to 18");
	bad("basic_auth_users: {john: $2y$31$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu}", "cost of 31: from 4 to 18");
	bad("basic_auth_users: {john: $2y$1a$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu}", "not a bcrypt hash");
	bad("basic_auth_users: {john: [" HASH "]}", "not a bcrypt hash");
	bad("basic_auth_users: {'a:b': " HASH "}", "has no colon");
	bad("basic_auth_users: [" HASH "]", "a map is wanted");
	bad("user_rights: {bob: [read]}", "no such user");
	bad("basic_auth_users: {bob: " HASH "}\nuser_rights: {bob: [reed]}", "web.yml:2:21: field user_rights.bob: \"reed\" is not one of");
	bad("basic_auth_users: {bob: " HASH "}\nuser_rights: {bob: []}", "no right at all");
	bad("tokens: [{name: a, sha256: " SHA "}]", "field tokens[0].rights: is missing");
	bad("tokens: [{sha256: " SHA ", rights: [read]}]", "field tokens[0].name: is missing");
	bad("tokens: [{name: a, rights: [read]}]", "missing one of sha256 or token_file");
	bad("tokens: [{name: a, sha256: " SHA ", token_file: token, rights: [read]}]", "one is enough");
	bad("tokens: [{name: a, sha256: abc, rights: [read]}]", "not 64 hexadecimal digits");
	bad("tokens: [{name: a, sha256: " SHA ", rights: [read]}, {name: b, sha256: " SHA ", rights: [admin]}]", "is the same token as \"a\"");
	bad("tokens: [x]", "a map is wanted");
}

static void test_all_problems(void **state)
{
	(void)state;
	struct err e;
	struct web_config *w;
	char path[128];
	snprintf(path, sizeof path, "%s/web.yml", folder);
	bad("junk", "web.yml:1:1: a web configuration is wanted");
	bad("a: [", "YAML");
	const char *text = "tls_server_confg: {}\ntls_server_config: {cert_file: x, key_fil: y, min_version: TLS9}\nrate_limit: {burst: x}\n"
			   "basic_auth_users: {a: b, c: d}\n";
	bad(text, "web.yml:1:1: field tls_server_confg: unknown");
	size_t lines = 0;
	for (const char *p = problems.ptr; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, 6);
	put_file("web.yml", text);
	assert_int_equal(web_config_load(&w, path, NULL, &e), -ERR_BAD_DATA);
	assert_non_null(strstr(e.msg, "(and 5 more)"));
}

static void test_who_is_kept_out(void **state)
{
	(void)state;
	static const struct { const char *text; bool has; } cases[] = {
		{ "", false }, { EC "}", false }, { "http_server_config: {headers: {X-Frame-Options: deny}}", false },
		{ EC ", client_auth_type: RequireAnyClientCert}", false },
		{ EC ", client_auth_type: VerifyClientCertIfGiven, client_ca_file: ca.crt}", false },
		{ EC ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt}", true },
		{ "basic_auth_users: {alice: " HASH "}", true },
		{ "tokens: [{name: a, sha256: " SHA ", rights: [read]}]", true },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct web_config *w = load(cases[i].text);
		assert_non_null(w);
		assert_int_equal(web_config_has_login(w), cases[i].has);
		web_config_unref(w);
	}
	assert_false(web_config_has_login(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything), cmocka_unit_test(test_token_file), cmocka_unit_test(test_tls), cmocka_unit_test(test_ciphers),
		cmocka_unit_test(test_headers_and_rate), cmocka_unit_test(test_logins), cmocka_unit_test(test_all_problems),
		cmocka_unit_test(test_who_is_kept_out),
	};
	return cmocka_run_group_tests(tests, make_files, drop_files);
}
