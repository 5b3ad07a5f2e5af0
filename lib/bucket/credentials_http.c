/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials that are asked for: of STS for the token of a service account, of the agent of a container platform, of EC2's metadata service. Their answers are
 * bounded and checked; none of them is in a message. Metadata services are on this machine or beside it: they are never asked through a proxy. */
#include <stdio.h>

#include <jansson.h>

#include "base/clock.h"
#include "bucket/credentials_source.h"
#include "bucket/s3_xml.h"
#include "fetch/fetch.h"

#define CREDENTIALS_ANSWER_MAX ((uint64_t)64 << 10)
#define CREDENTIALS_TIMEOUT_MS 5000
#define CREDENTIALS_STS_TIMEOUT_MS 20000
#define CREDENTIALS_CONNECT_MS 1000
#define CREDENTIALS_TOKEN_MAX ((size_t)64 << 10)
#define CREDENTIALS_NAME_MAX 512

static void credentials_clean(struct fetch_response *r)
{
	if (r->body.ptr)
		explicit_bzero(r->body.ptr, r->body.len);
	fetch_response_release(r);
}

static struct view credentials_without_blanks(struct view v)
{
	while (v.len && strchr(" \t\r\n", v.ptr[v.len - 1]))
		v.len--;
	while (v.len && strchr(" \t\r\n", *v.ptr))
		v = view_make(v.ptr + 1, v.len - 1);
	return v;
}

/* A file of a token, which is rotated: without the line break at its end. */
static int credentials_token_file(const char *path, struct buf *out, struct err *e)
{
	struct buf text = { .max = CREDENTIALS_TOKEN_MAX };
	struct err why = { 0 };
	int rc = buf_read_file(&text, path, &why);
	if (rc)
		rc = err_set(e, ERR_DENIED, "%s", why.msg);
	else
		buf_putv(out, credentials_without_blanks(buf_view(&text)));
	if (text.ptr)
		explicit_bzero(text.ptr, text.len);
	buf_free(&text);
	return rc;
}

/* One exchange with a service that gives credentials; 0: it answered 200. */
static int credentials_ask(const struct http_config *http, const struct fetch_request *q, const char *what, struct fetch_response *r, struct err *e)
{
	struct http_config plain = { 0 };
	struct fetch_client *client = fetch_client_new(http ? http : &plain, NULL);
	int rc = fetch_do(client, q, r, e);
	fetch_client_unref(client);
	if (rc && e->code != ERR_TIMEOUT && e->code != ERR_CANCELED)
		e->code = ERR_UNAVAILABLE;
	if (!rc && r->status != 200)
		rc = err_set(e, r->status >= 500 || r->status == 429 ? ERR_UNAVAILABLE : ERR_DENIED, "it answered %d", r->status);
	return rc ? err_wrap(e, "asking %s for credentials", what) : 0;
}

/* ---- answers in JSON: a container's agent and EC2 ---- */

static struct view credentials_member(const json_t *j, const char *name)
{
	const json_t *v = json_object_get(j, name);
	return v && json_is_string(v) ? view_make(json_string_value(v), json_string_length(v)) : view_make(NULL, 0);
}

static int credentials_read_json(struct view text, const char *what, struct credentials_found *ret, struct err *e)
{
	json_error_t why;
	json_t *j = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, &why);
	int64_t expires = INT64_MAX;
	int rc = 0;
	if (!j || !json_is_object(j))
		rc = err_set(e, ERR_UNAVAILABLE, "%s answered something else than credentials (no JSON object)", what);
	struct view code = credentials_member(j, "Code"), until = credentials_member(j, "Expiration");
	if (!rc && code.len && !view_eqs(code, "Success"))
		rc = err_set(e, ERR_DENIED, "%s has no credentials for this role", what);
	if (!rc && until.len && !clock_parse_time_ms(until, &expires))
		rc = err_set(e, ERR_UNAVAILABLE, "%s answered credentials with a malformed expiration", what);
	if (!rc)
		rc = credentials_found_set(ret, what, credentials_member(j, "AccessKeyId"), credentials_member(j, "SecretAccessKey"), credentials_member(j, "Token"), e);
	if (!rc)
		ret->expires_ms = expires;
	json_decref(j);
	return rc;
}

/* ---- a container's agent ---- */

/* Credentials over plain HTTP only from this machine, or from the addresses that AWS gives these agents. */
static bool credentials_near(const char *uri)
{
	static const char *const hosts[] = { "127.0.0.1", "localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]" };
	struct view v = view_of(uri);
	if (view_starts(v, VIEW("https://")))
		return true;
	if (!view_starts(v, VIEW("http://")))
		return false;
	v = view_make(v.ptr + 7, strcspn(v.ptr + 7, "/?#"));
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		struct view host = view_of(hosts[i]);
		if (view_starts(v, host) && (v.len == host.len || v.ptr[host.len] == ':') && !memchr(v.ptr, '@', v.len))
			return true;
	}
	return false;
}

int credentials_from_container(const atomic_bool *stop, struct credentials_found *ret, struct err *e)
{
	static const char what[] = "the container's credentials agent";
	const char *full = credentials_env("AWS_CONTAINER_CREDENTIALS_FULL_URI"), *relative = credentials_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *file = credentials_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), *token = credentials_env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	if (!full && !relative)
		return 1;
	struct buf url = { 0 }, header = { 0 };
	struct fetch_response r = { 0 };
	buf_printf(&url, "%s%s", relative ? "http://169.254.170.2" : full, relative ? relative : "");
	buf_puts(&header, "Authorization: ");
	int rc = credentials_near(url.ptr) ? 0
					   : err_set(e, ERR_DENIED, "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this host or of AWS's agents");
	if (!rc && file)
		rc = credentials_token_file(file, &header, e);
	else if (!rc && token)
		buf_puts(&header, token);
	if (!rc && strpbrk(header.ptr, "\r\n"))
		rc = err_set(e, ERR_DENIED, "the token for %s has a line break in it", what);
	const char *headers[] = { header.ptr };
	struct fetch_request q = { .url = url.ptr, .headers = headers, .n_headers = file || token, .timeout_ms = CREDENTIALS_TIMEOUT_MS,
				   .connect_timeout_ms = CREDENTIALS_CONNECT_MS, .max_bytes = CREDENTIALS_ANSWER_MAX, .cancel = stop };
	if (!rc)
		rc = credentials_ask(NULL, &q, what, &r, e);
	if (!rc)
		rc = credentials_read_json(buf_view(&r.body), what, ret, e);
	credentials_clean(&r);
	explicit_bzero(header.ptr, header.len);
	buf_free(&header);
	buf_free(&url);
	return rc;
}

/* ---- EC2 ---- */

static const char credentials_ec2[] = "EC2's metadata service";

/* Whether it can stand in a URL or a header as it is. */
static bool credentials_word(struct view v)
{
	for (size_t i = 0; i < v.len; i++)
		if (v.ptr[i] <= ' ' || v.ptr[i] >= 0x7f || strchr("/?#%\\", v.ptr[i]))
			return false;
	return v.len && v.len <= CREDENTIALS_NAME_MAX;
}

static int credentials_ec2_token(const char *base, const atomic_bool *stop, struct buf *out, struct err *e)
{
	static const char *const ttl[] = { "X-aws-ec2-metadata-token-ttl-seconds: 21600" };
	struct fetch_upload nothing = { 0 };
	struct fetch_response r = { 0 };
	struct buf url = { 0 };
	buf_printf(&url, "%s/latest/api/token", base);
	struct fetch_request q = { .url = url.ptr, .upload = &nothing, .headers = ttl, .n_headers = 1, .timeout_ms = CREDENTIALS_TIMEOUT_MS,
				   .connect_timeout_ms = CREDENTIALS_CONNECT_MS, .max_bytes = CREDENTIALS_ANSWER_MAX, .cancel = stop };
	int rc = credentials_ask(NULL, &q, credentials_ec2, &r, e);
	struct view token = credentials_without_blanks(buf_view(&r.body));
	bool printable = token.len && token.len <= CREDENTIALS_NAME_MAX;
	for (size_t i = 0; i < token.len; i++)
		printable &= token.ptr[i] > ' ' && token.ptr[i] < 0x7f;
	if (!rc && !printable)
		rc = err_set(e, ERR_UNAVAILABLE, "%s answered something else than a token", credentials_ec2);
	if (!rc)
		buf_printf(out, "X-aws-ec2-metadata-token: %.*s", VIEW_ARG(token));
	credentials_clean(&r);
	buf_free(&url);
	return rc;
}

static int credentials_ec2_get(const char *base, const char *name, const char *token, const atomic_bool *stop, struct fetch_response *r, struct err *e)
{
	struct buf url = { 0 };
	buf_printf(&url, "%s/latest/meta-data/iam/security-credentials/%s", base, name);
	struct fetch_request q = { .url = url.ptr, .headers = &token, .n_headers = 1, .timeout_ms = CREDENTIALS_TIMEOUT_MS,
				   .connect_timeout_ms = CREDENTIALS_CONNECT_MS, .max_bytes = CREDENTIALS_ANSWER_MAX, .cancel = stop };
	int rc = credentials_ask(NULL, &q, credentials_ec2, r, e);
	buf_free(&url);
	if (rc && r->status == 404)
		rc = err_set(e, ERR_DENIED, "there are no credentials: none in the section, the environment or ~/.aws/credentials, and this machine has no role");
	return rc;
}

static int credentials_ec2_role(const char *base, const char *token, const atomic_bool *stop, char role[CREDENTIALS_NAME_MAX + 1], struct err *e)
{
	struct fetch_response r = { 0 };
	int rc = credentials_ec2_get(base, "", token, stop, &r, e);
	struct view rest = credentials_without_blanks(buf_view(&r.body)), name = credentials_without_blanks(view_cut(&rest, '\n'));
	if (!rc && !credentials_word(name))
		rc = err_set(e, ERR_UNAVAILABLE, "%s answered something else than the name of a role", credentials_ec2);
	if (!rc)
		snprintf(role, CREDENTIALS_NAME_MAX + 1, "%.*s", VIEW_ARG(name));
	credentials_clean(&r);
	return rc;
}

int credentials_from_ec2(const atomic_bool *stop, struct credentials_found *ret, struct err *e)
{
	const char *off = credentials_env("AWS_EC2_METADATA_DISABLED"), *base = credentials_env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	char role[CREDENTIALS_NAME_MAX + 1] = "";
	struct buf token = { 0 };
	struct fetch_response r = { 0 };
	if (off && strcasecmp(off, "true") == 0)
		return 1;
	struct view v = base ? view_of(base) : VIEW("http://169.254.169.254");
	while (view_ends(v, VIEW("/")))
		v.len--;
	struct buf url = { 0 };
	buf_putv(&url, v);
	int rc = credentials_ec2_token(url.ptr, stop, &token, e);
	if (!rc)
		rc = credentials_ec2_role(url.ptr, token.ptr, stop, role, e);
	else if (rc != -ERR_CANCELED)
		rc = err_wrap(e, "there are no credentials in the section, the environment or ~/.aws/credentials (a container on EC2 needs a hop limit of 2)");
	if (!rc)
		rc = credentials_ec2_get(url.ptr, role, token.ptr, stop, &r, e);
	if (!rc)
		rc = credentials_read_json(buf_view(&r.body), credentials_ec2, ret, e);
	credentials_clean(&r);
	if (token.ptr)
		explicit_bzero(token.ptr, token.len);
	buf_free(&token);
	buf_free(&url);
	return rc;
}

/* ---- STS ---- */

struct credentials_sts {
	struct buf access_key, secret_key, session_token, expiration;
};

static int credentials_sts_end(void *arg, const char *path, struct view text, struct err *e)
{
	struct credentials_sts *s = arg;
	static const char at[] = "AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/Credentials/";
	if (strncmp(path, at, sizeof at - 1) != 0)
		return 0;
	const struct {
		const char *name;
		struct buf *to;
	} texts[] = { { "AccessKeyId", &s->access_key }, { "SecretAccessKey", &s->secret_key }, { "SessionToken", &s->session_token }, { "Expiration", &s->expiration } };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (strcmp(path + sizeof at - 1, texts[i].name) == 0) {
			buf_reset(texts[i].to);
			buf_putv(texts[i].to, text);
		}
	return 0;
}

static int credentials_read_sts(struct view text, struct credentials_found *ret, struct err *e)
{
	struct credentials_sts s = { 0 };
	int64_t expires = 0;
	int rc = s3_xml_each(text, credentials_sts_end, &s, e);
	if (rc)
		rc = err_set(e, ERR_UNAVAILABLE, "STS answered something else than credentials");
	if (!rc)
		rc = credentials_found_set(ret, "STS", buf_view(&s.access_key), buf_view(&s.secret_key), buf_view(&s.session_token), e);
	if (!rc && !clock_parse_time_ms(buf_view(&s.expiration), &expires)) {
		credentials_key_release(&ret->key);
		rc = err_set(e, ERR_UNAVAILABLE, "STS answered credentials with a malformed expiration");
	}
	if (!rc)
		ret->expires_ms = expires;
	struct buf *all[] = { &s.access_key, &s.secret_key, &s.session_token, &s.expiration };
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (all[i]->ptr)
			explicit_bzero(all[i]->ptr, all[i]->len);
		buf_free(all[i]);
	}
	return rc;
}

static int credentials_sts_error_end(void *arg, const char *path, struct view text, struct err *e)
{
	char *code = arg;
	if (strcmp(path, "ErrorResponse/Error/Code") == 0 && credentials_word(text) && text.len < CREDENTIALS_NAME_MAX)
		snprintf(code, CREDENTIALS_NAME_MAX, "%.*s", VIEW_ARG(text));
	return 0;
}

/* Appends to the error the code of STS's refusal (InvalidIdentityToken, AccessDenied). STS's message is left out: it may repeat the token. */
static int credentials_sts_refused(struct view text, struct err *e)
{
	char code[CREDENTIALS_NAME_MAX] = "", why[sizeof e->msg];
	struct err ignored = { 0 };
	IGNORE(s3_xml_each(text, credentials_sts_error_end, code, &ignored));
	if (!*code || strlen(code) > 64)
		return -(int)e->code;
	snprintf(why, sizeof why, "%s", e->msg);
	return err_set(e, e->code, "%s %s", why, code);
}

static void credentials_sts_url(const struct s3_config *c, struct buf *url)
{
	const char *region = *c->region ? c->region : credentials_env("AWS_REGION");
	const char *end = *c->sts_endpoint ? c->sts_endpoint : credentials_env("AWS_ENDPOINT_URL_STS");
	region = region ? region : credentials_env("AWS_DEFAULT_REGION");
	if (end)
		buf_printf(url, "%s%s", strstr(end, "://") ? "" : "https://", end);
	else if (region)
		buf_printf(url, "https://sts.%s.amazonaws.com%s/", region, strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
	else
		buf_puts(url, "https://sts.amazonaws.com/");
}

static void credentials_sts_body(const char *role, struct view token, struct buf *out)
{
	const char *session = credentials_env("AWS_ROLE_SESSION_NAME");
	buf_puts(out, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
	fetch_url_escape(view_of(role), out);
	buf_puts(out, "&RoleSessionName=");
	fetch_url_escape(view_of(session ? session : "pyrrha"), out);
	buf_puts(out, "&WebIdentityToken=");
	fetch_url_escape(token, out);
}

/* The TLS settings of the section are for S3's endpoint; they hold for STS if that is named beside it. */
int credentials_from_web_identity(const struct s3_config *c, const atomic_bool *stop, struct credentials_found *ret, struct err *e)
{
	static const char *const form[] = { "Content-Type: application/x-www-form-urlencoded" };
	const char *file = credentials_env("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = credentials_env("AWS_ROLE_ARN");
	if (!file && !role)
		return 1;
	if (!file || !role)
		return err_set(e, ERR_DENIED, "of AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN only one is set");
	struct http_config http = { .proxy_url = c->http.proxy_url, .no_proxy = c->http.no_proxy, .proxy_from_environment = c->http.proxy_from_environment };
	if (*c->sts_endpoint)
		http.tls = c->http.tls;
	struct buf url = { 0 }, token = { 0 }, body = { 0 };
	struct fetch_response r = { 0 };
	credentials_sts_url(c, &url);
	int rc = credentials_token_file(file, &token, e);
	if (!rc) {
		credentials_sts_body(role, buf_view(&token), &body);
		struct fetch_request q = { .method = "POST", .url = url.ptr, .headers = form, .n_headers = 1, .body = buf_view(&body),
					   .timeout_ms = CREDENTIALS_STS_TIMEOUT_MS, .max_bytes = CREDENTIALS_ANSWER_MAX, .cancel = stop };
		rc = credentials_ask(&http, &q, "STS", &r, e);
		if (rc && r.status >= 400)
			rc = credentials_sts_refused(buf_view(&r.body), e);
	}
	if (!rc)
		rc = credentials_read_sts(buf_view(&r.body), ret, e);
	credentials_clean(&r);
	struct buf *secrets[] = { &token, &body };
	for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
		if (secrets[i]->ptr)
			explicit_bzero(secrets[i]->ptr, secrets[i]->len);
		buf_free(secrets[i]);
	}
	buf_free(&url);
	return rc;
}
