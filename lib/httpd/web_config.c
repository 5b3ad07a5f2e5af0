/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of the file except logins, which web_logins.c reads. Nothing stops at the first problem. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "config/config_sources.h"
#include "httpd/web_reading.h"
#include "httpd/web_tls.h"

#define MAX_PEM ((size_t)1 << 20)
#define TLS_WORDS "TLS10|TLS11|TLS12|TLS13"
/* NoClientCert twice; RequireClientCert is an old name of RequireAnyClientCert. */
#define CLIENT_AUTH_WORDS "|NoClientCert|RequestClientCert|RequireAnyClientCert|RequireClientCert|VerifyClientCertIfGiven|" \
	"RequireAndVerifyClientCert"
static const enum web_client_auth client_auths[] = { WEB_NO_CLIENT_CERT, WEB_NO_CLIENT_CERT, WEB_REQUEST_CLIENT_CERT,
						     WEB_REQUIRE_ANY_CLIENT_CERT, WEB_REQUIRE_ANY_CLIENT_CERT, WEB_VERIFY_CLIENT_CERT_IF_GIVEN, WEB_REQUIRE_AND_VERIFY_CLIENT_CERT };

/* ---- tls_server_config ---- */

struct tls_section {
	const char *cert, *cert_file, *key, *key_file, *ca, *ca_file;
	int client_auth; /* index of CLIENT_AUTH_WORDS */
	struct config_strings sans, cipher_suites, curves;
	int min_version, max_version;
	bool server_preference;
};

#define F(key, type, member) { key, type, offsetof(struct tls_section, member) }
static const struct config_field tls_rows[] = {
	F("cert", CONFIG_STRING, cert),
	F("cert_file", CONFIG_PATH, cert_file),
	F("key", CONFIG_SECRET, key),
	F("key_file", CONFIG_PATH, key_file),
	F("client_ca", CONFIG_STRING, ca),
	F("client_ca_file", CONFIG_PATH, ca_file),
	{ "client_auth_type", CONFIG_ENUM, offsetof(struct tls_section, client_auth), .words = CLIENT_AUTH_WORDS },
	F("client_allowed_sans", CONFIG_STRINGS, sans),
	F("cipher_suites", CONFIG_STRINGS, cipher_suites),
	F("curve_preferences", CONFIG_STRINGS, curves),
	{ "min_version", CONFIG_ENUM, offsetof(struct tls_section, min_version), .words = TLS_WORDS },
	{ "max_version", CONFIG_ENUM, offsetof(struct tls_section, max_version), .words = TLS_WORDS },
	F("prefer_server_cipher_suites", CONFIG_BOOL, server_preference),
};
#undef F
static const struct config_table tls_table = CONFIG_TABLE(struct tls_section, tls_rows, NULL);
#define TLS "tls_server_config"

static bool given(const char *s)
{
	return s && *s;
}

/* The place of a key of the section, or of the section. */
static const struct config_node *place(const struct config_node *section, const char *key, const char *other)
{
	const struct config_node *n = config_get(section, key);
	if (!n && other)
		n = config_get(section, other);
	return n ? n : section;
}

/* One of text and file. False: neither, or it cannot be read; `wanted`: that is told. As with Prometheus a file is before a text. */
static bool get_pem(struct web_reading *r, const struct config_node *n, const char *text_key, const char *text, const char *file_key,
		    const char *file, bool wanted, struct buf *ret)
{
	struct err e;
	if (given(file) && given(text))
		config_warn(&r->ctx, place(n, text_key, NULL), "%s is passed over, as %s is given", text_key, file_key);
	if (!given(file) && given(text)) {
		buf_puts(ret, text);
		return true;
	}
	if (!given(file)) {
		if (wanted)
			web_reading_wrong(r, n, TLS, "missing one of %s or %s", text_key, file_key);
		return false;
	}
	if (!web_reading_file(r, file, MAX_PEM, ret, &e))
		return true;
	web_reading_wrong(r, place(n, file_key, NULL), TLS, "%s: %s", file_key, e.msg);
	return false;
}

static void tell_tls_problem(struct web_reading *r, const struct config_node *n, enum web_tls_part part, const struct err *e)
{
	static const struct { const char *key, *other; } where[] = {
		[WEB_TLS_CERT] = { "cert_file", "cert" }, [WEB_TLS_KEY] = { "key_file", "key" },
		[WEB_TLS_CA] = { "client_ca_file", "client_ca" }, [WEB_TLS_VERSIONS] = { "min_version", "max_version" },
		[WEB_TLS_CIPHERS] = { "cipher_suites", NULL }, [WEB_TLS_CURVES] = { "curve_preferences", NULL },
	};
	bool other = !config_get(n, where[part].key) && where[part].other && config_get(n, where[part].other);
	const char *key = other ? where[part].other : where[part].key;
	web_reading_wrong(r, place(n, key, NULL), TLS, "%s: %s", key, e->msg);
}

static void make_tls(struct web_reading *r, const struct config_node *n, const struct tls_section *s)
{
	struct buf cert = { 0 }, key = { 0 }, ca = { 0 };
	enum web_tls_part part = WEB_TLS_CERT;
	struct err e;
	bool have_cert = get_pem(r, n, "cert", s->cert, "cert_file", s->cert_file, true, &cert);
	bool have_key = get_pem(r, n, "key", s->key, "key_file", s->key_file, true, &key);
	bool wants_ca = given(s->ca) || given(s->ca_file);
	bool have_ca = get_pem(r, n, "client_ca", s->ca, "client_ca_file", s->ca_file, false, &ca);
	struct web_tls_options o = { .cert = buf_view(&cert), .key = buf_view(&key), .client_auth = r->w->client_auth,
		.min_version = s->min_version, .max_version = s->max_version, .cipher_suites = s->cipher_suites, .curves = s->curves,
		.server_preference = s->server_preference };
	if (wants_ca)
		o.ca = buf_view(&ca);
	if (have_cert && have_key && (have_ca || !wants_ca) && web_tls_new(&r->w->tls, &o, &part, &e))
		tell_tls_problem(r, n, part, &e);
	if (key.ptr)
		explicit_bzero(key.ptr, key.len);
	buf_free(&cert);
	buf_free(&key);
	buf_free(&ca);
}

static void warn_tls(struct web_reading *r, const struct config_node *n, const struct tls_section *s)
{
	const struct web_config *w = r->w;
	if (s->min_version < WEB_TLS_12)
		config_warn(&r->ctx, place(n, "min_version", NULL), "TLS before 1.2 is broken");
	if (w->client_auth == WEB_REQUIRE_AND_VERIFY_CLIENT_CERT && !w->has_client_ca)
		config_warn(&r->ctx, n, "no client_ca_file: certificates of all authorities that this machine trusts are taken");
	if (w->client_auth == WEB_REQUIRE_ANY_CLIENT_CERT)
		config_warn(&r->ctx, n, "client_auth_type RequireAnyClientCert takes certificates that anybody can make; "
			    "RequireAndVerifyClientCert verifies them");
}

static void read_tls(struct web_reading *r, const struct config_node *n)
{
	struct tls_section s = { .min_version = WEB_TLS_12, .max_version = WEB_TLS_13, .server_preference = true };
	size_t before = r->n_problems;
	web_reading_keys(r, TLS, &tls_table, n, &s);
	if (r->n_problems > before || !n)
		return; /* as below: half done */
	bool ca = given(s.ca) || given(s.ca_file);
	if (!given(s.cert) && !given(s.cert_file) && !given(s.key) && !given(s.key_file) && !ca && !s.client_auth)
		return; /* as with Prometheus: no TLS */
	r->w->client_auth = client_auths[s.client_auth];
	r->w->has_client_ca = ca;
	r->w->client_sans = s.sans.v;
	r->w->n_client_sans = s.sans.n;
	if (ca && r->w->client_auth == WEB_NO_CLIENT_CERT)
		web_reading_wrong(r, place(n, "client_ca_file", "client_ca"), TLS, "an authority for clients without client_auth_type");
	make_tls(r, n, &s);
	warn_tls(r, n, &s);
}

/* ---- http_server_config ---- */

struct http_section {
	bool http2;
	struct config_map headers;
};

static const struct config_field http_rows[] = {
	{ "http2", CONFIG_BOOL, offsetof(struct http_section, http2) },
	{ "headers", CONFIG_MAP, offsetof(struct http_section, headers) },
};
static const struct config_table http_table = CONFIG_TABLE(struct http_section, http_rows, NULL);

static const struct { const char *name, *values[3]; } allowed_headers[] = {
	{ "Strict-Transport-Security" }, { "X-Content-Type-Options", { "nosniff" } }, { "X-Frame-Options", { "deny", "sameorigin" } },
	{ "X-XSS-Protection" }, { "Content-Security-Policy" },
};

static bool has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return true;
	return false;
}

static void check_header(struct web_reading *r, const struct config_node *n, const struct config_kv *h)
{
	static const char field[] = "http_server_config.headers";
	for (size_t i = 0; i < ARRAY_LEN(allowed_headers); i++) {
		const char *const *values = allowed_headers[i].values;
		if (strcmp(allowed_headers[i].name, h->key) != 0)
			continue;
		bool ok = !values[0];
		for (size_t k = 0; values[k]; k++)
			ok |= strcmp(values[k], h->value) == 0;
		if (!ok)
			web_reading_wrong(r, place(n, h->key, NULL), field, "invalid value for %s: it is %s%s%s", h->key, values[0],
					  values[1] ? " or " : "", values[1] ? values[1] : "");
		else if (has_control(h->value))
			web_reading_wrong(r, place(n, h->key, NULL), field, "%s: a control character in a header", h->key);
		return;
	}
	web_reading_wrong(r, place(n, h->key, NULL), field, "%s cannot be set; these can: Strict-Transport-Security, "
			  "X-Content-Type-Options, X-Frame-Options, X-XSS-Protection, Content-Security-Policy", h->key);
}

static void read_http(struct web_reading *r, const struct config_node *n)
{
	struct http_section s = { 0 };
	size_t before = r->n_problems;
	web_reading_keys(r, "http_server_config", &http_table, n, &s);
	if (r->n_problems > before)
		return; /* what could not be decoded is left half done */
	if (s.http2)
		config_warn(&r->ctx, place(n, "http2", NULL), "field http_server_config.http2: this server speaks HTTP/1.1 alone");
	struct web_header *headers = arena_calloc(r->ctx.arena, s.headers.n + 1, sizeof *headers);
	for (size_t i = 0; i < s.headers.n; i++) {
		check_header(r, config_get(n, "headers"), &s.headers.v[i]);
		headers[i] = (struct web_header){ s.headers.v[i].key, s.headers.v[i].value };
	}
	r->w->headers = headers;
	r->w->n_headers = s.headers.n;
}

/* ---- rate_limit ---- */

/* Go's durations: "1s", "1m30s", "1.5s", "250us"; a bare 0. */
static bool parse_interval(struct view v, int64_t *ret_ns)
{
	static const struct { const char *unit; double ns; } units[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "µs", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 },
	};
	const char *s = v.ptr, *end = v.ptr + v.len;
	double sum = 0;
	if (view_eqs(v, "0")) {
		*ret_ns = 0;
		return true;
	}
	while (s < end) {
		char *after;
		size_t i = 0;
		if (!isdigit((unsigned char)*s) && *s != '.')
			return false;
		size_t digits = strspn(s, "0123456789.");
		double x = strtod(s, &after);
		if (after != s + digits)
			return false;
		/* The longest unit that fits: "ms" comes before "m" in the table. */
		while (i < ARRAY_LEN(units) && strncmp(after, units[i].unit, strlen(units[i].unit)) != 0)
			i++;
		if (i == ARRAY_LEN(units))
			return false;
		sum += x * units[i].ns;
		s = after + strlen(units[i].unit);
	}
	*ret_ns = sum < 1e18 ? (int64_t)llround(sum) : -1; /* 30 years */
	return v.len && *ret_ns >= 0;
}

static int get_interval(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	if (n->type == CONFIG_NODE_SCALAR && parse_interval(n->text, at))
		return 0;
	return config_error(c, n, e, "not a duration; write for example 1s or 100ms");
}

static const struct config_field rate_rows[] = {
	{ "interval", CONFIG_CUSTOM, offsetof(struct web_config, rate_interval_ns), .custom = get_interval },
	{ "burst", CONFIG_COUNT, offsetof(struct web_config, rate_burst) },
};
static const struct config_table rate_table = CONFIG_TABLE(struct web_config, rate_rows, NULL);

static void read_rate(struct web_reading *r, const struct config_node *n)
{
	web_reading_keys(r, "rate_limit", &rate_table, n, r->w);
	if (r->w->rate_interval_ns && !r->w->rate_burst)
		config_warn(&r->ctx, n, "field rate_limit: a burst of 0 refuses all requests");
}

/* ---- the file ---- */

struct sections {
	const struct config_node *tls, *http, *rate, *users, *rights, *tokens;
};

static const struct config_field sections_rows[] = {
	{ "tls_server_config", CONFIG_NODE, offsetof(struct sections, tls) },
	{ "http_server_config", CONFIG_NODE, offsetof(struct sections, http) },
	{ "rate_limit", CONFIG_NODE, offsetof(struct sections, rate) },
	{ "basic_auth_users", CONFIG_NODE, offsetof(struct sections, users) },
	{ "user_rights", CONFIG_NODE, offsetof(struct sections, rights) },
	{ "tokens", CONFIG_NODE, offsetof(struct sections, tokens) },
};
static const struct config_table sections_table = CONFIG_TABLE(struct sections, sections_rows, NULL);

static void read_sections(struct web_reading *r, const struct config_node *root)
{
	struct sections s = { 0 };
	struct err e;
	if (root->type != CONFIG_NODE_MAP) {
		config_error(&r->ctx, root, &e, "a web configuration is wanted, a map");
		web_reading_problem(r, &e);
		return;
	}
	for (size_t i = 0; i < root->n; i++) {
		struct config_node one = *root;
		one.pairs = &root->pairs[i];
		one.n = 1;
		if (config_decode(&r->ctx, &sections_table, &one, &s, &e))
			web_reading_problem(r, &e);
	}
	read_tls(r, s.tls);
	read_http(r, s.http);
	read_rate(r, s.rate);
	web_logins_read(r, s.users, s.rights, s.tokens);
}

static int finish(struct web_reading *r, struct web_config **ret, struct err *e)
{
	config_ctx_release(&r->ctx);
	if (!r->n_problems) {
		*ret = r->w;
		return 0;
	}
	web_config_unref(r->w);
	if (e)
		*e = r->first;
	if (r->n_problems == 1)
		return -(int)r->first.code;
	return err_set(e, r->first.code, "%s (and %zu more)", r->first.msg, r->n_problems - 1);
}

static int read_tree(struct web_config **ret, const struct config_tree *t, const char *path, const struct web_config_how *how, struct err *e)
{
	struct web_config *w = NEW(struct web_config);
	arena_init(&w->arena, 0);
	atomic_init(&w->refs, 1);
	w->path = arena_strndup(&w->arena, path, strlen(path));
	struct web_reading r = { .w = w, .how = how };
	r.ctx = (struct config_ctx){ .arena = &w->arena, .dir = config_dirname(&w->arena, path), .warn = how->warn, .warn_arg = how->arg };
	read_sections(&r, config_root(t));
	if (!r.n_problems && !w->tls && (w->n_users || w->n_tokens))
		config_warn(&r.ctx, config_root(t), "passwords and tokens without tls_server_config can be read by all on the way");
	return finish(&r, ret, e);
}

static int fail(const struct web_config_how *how, struct err *e)
{
	if (how->problem)
		how->problem(how->arg, e->msg);
	return -(int)e->code;
}

int web_config_parse(struct web_config **ret, struct view text, const char *path, const struct web_config_how *how, struct err *e)
{
	static const struct web_config_how quiet = { 0 };
	struct err own;
	struct config_tree *t;
	how = how ? how : &quiet;
	e = e ? e : &own;
	if (config_parse(&t, text, path, e))
		return fail(how, e);
	int rc = read_tree(ret, t, path, how, e);
	config_free(t);
	return rc;
}

int web_config_load(struct web_config **ret, const char *path, const struct web_config_how *how, struct err *e)
{
	static const struct web_config_how quiet = { 0 };
	struct web_reading r = { .how = how ? how : &quiet };
	struct buf text = { 0 };
	struct err own;
	e = e ? e : &own;
	int rc = web_reading_file(&r, path, CONFIG_MAX_BYTES, &text, e);
	rc = rc ? fail(r.how, e) : web_config_parse(ret, buf_view(&text), path, how, e);
	buf_free(&text);
	return rc;
}

static void put_problem(void *arg, const char *text)
{
	buf_printf(arg, "%s\n", text);
}

static void put_warning(void *arg, const char *text)
{
	buf_printf(arg, "warning: %s\n", text);
}

int web_config_check(const char *path, struct buf *out, struct err *e)
{
	struct web_config_how how = { .problem = put_problem, .warn = put_warning, .arg = out };
	struct web_config *w;
	int rc = web_config_load(&w, path, &how, e);
	if (rc)
		return rc;
	buf_printf(out, "  TLS: %s; users: %zu; tokens: %zu; client certificates: %s\n", w->tls ? "yes" : "no", w->n_users, w->n_tokens,
		   w->client_auth == WEB_REQUIRE_AND_VERIFY_CLIENT_CERT ? "required" : "not required");
	if (!web_config_has_login(w))
		buf_puts(out, "  nobody has to log in: this does not do for addresses that others can reach\n");
	web_config_unref(w);
	return 0;
}

struct web_config *web_config_ref(struct web_config *w)
{
	if (w)
		atomic_fetch_add(&w->refs, 1);
	return w;
}

void web_config_unref(struct web_config *w)
{
	if (!w || atomic_fetch_sub(&w->refs, 1) > 1)
		return;
	web_tls_free(w->tls);
	arena_free(&w->arena);
	free(w);
}

bool web_config_has_login(const struct web_config *w)
{
	return w && (w->n_users || w->n_tokens || (w->client_auth == WEB_REQUIRE_AND_VERIFY_CLIENT_CERT && w->has_client_ca));
}

