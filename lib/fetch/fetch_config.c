/* SPDX-License-Identifier: Apache-2.0 */
/* The client's configuration onto a handle: credentials, headers, TLS, proxy. Files are read here, for each request,
 * so that what was rotated is used without a reload. No error holds a secret, only the name of its file. */
#include <string.h>

#include "base/alloc.h"
#include "fetch/fetch_internal.h"

#define FILE_MAX ((size_t)1 << 20)

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void trim(struct buf *b)
{
	size_t from = 0;
	while (b->len && is_blank(b->ptr[b->len - 1]))
		b->ptr[--b->len] = 0;
	while (from < b->len && is_blank(b->ptr[from]))
		from++;
	if (from) {
		memmove(b->ptr, b->ptr + from, b->len - from + 1);
		b->len -= from;
	}
}

/* A file's content without white space around it, into out; at most 1 MiB. */
static int read_file(const char *path, struct buf *out, struct err *e)
{
	out->max = FILE_MAX;
	int rc = buf_read_file(out, path, e);
	if (!rc)
		trim(out);
	return rc;
}

/* The value, or the content of the file. */
static int value_or_file(const char *value, const char *file, struct buf *out, struct err *e)
{
	if (file)
		return read_file(file, out, e);
	buf_puts(out, value ? value : "");
	return 0;
}

static int add_header(struct fetch *f, const char *name, struct view value, struct err *e)
{
	if (memchr(value.ptr, '\n', value.len) || memchr(value.ptr, '\r', value.len) || memchr(value.ptr, 0, value.len))
		return err_set(e, ERR_BAD_DATA, "the value of header %s has a line break in it", name);
	struct buf line = { 0 };
	buf_printf(&line, value.len ? "%s: %.*s" : "%s;%.*s", name, VIEW_ARG(value)); /* "Name;": curl's empty header */
	f->headers = curl_slist_append(f->headers, line.ptr);
	explicit_bzero(line.ptr, line.len);
	buf_free(&line);
	return 0;
}

static int apply_basic(struct fetch *f, const struct http_basic_auth *b, struct err *e)
{
	struct buf user = { 0 }, password = { 0 };
	int rc = value_or_file(b->username, b->username_file, &user, e);
	if (!rc)
		rc = value_or_file(b->password, b->password_file, &password, e);
	if (!rc) {
		curl_easy_setopt(f->easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		curl_easy_setopt(f->easy, CURLOPT_USERNAME, buf_view(&user).ptr);
		curl_easy_setopt(f->easy, CURLOPT_PASSWORD, buf_view(&password).ptr);
	}
	buf_free(&user);
	buf_free(&password);
	return rc ? err_wrap(e, "basic_auth") : 0;
}

static int apply_authorization(struct fetch *f, const struct http_authorization *a, struct err *e)
{
	struct buf v = { 0 };
	int rc = value_or_file(a->credentials, a->credentials_file, &v, e);
	if (!rc && v.len) {
		struct buf line = { 0 };
		buf_printf(&line, "%s %.*s", a->type, VIEW_ARG(buf_view(&v)));
		rc = add_header(f, "Authorization", buf_view(&line), e);
		buf_free(&line);
	}
	buf_free(&v);
	return rc ? err_wrap(e, "authorization") : 0;
}

static int apply_oauth2(struct fetch *f, struct err *e)
{
	struct buf line = { 0 };
	buf_puts(&line, "Bearer ");
	int rc = fetch_token_get(f->client->token, f->wait, &line, e);
	if (!rc)
		rc = add_header(f, "Authorization", buf_view(&line), e);
	buf_free(&line);
	return rc ? err_wrap(e, "oauth2") : 0;
}

static int apply_headers(struct fetch *f, const struct http_config *c, struct err *e)
{
	for (size_t i = 0; i < c->n_headers; i++) {
		const struct http_header *h = &c->headers[i];
		int rc = 0;
		for (size_t k = 0; k < h->values.n && !rc; k++)
			rc = add_header(f, h->name, view_of(h->values.v[k]), e);
		for (size_t k = 0; k < h->secrets.n && !rc; k++)
			rc = add_header(f, h->name, view_of(h->secrets.v[k]), e);
		for (size_t k = 0; k < h->files.n && !rc; k++) {
			struct buf v = { 0 };
			rc = read_file(h->files.v[k], &v, e);
			if (!rc)
				rc = add_header(f, h->name, buf_view(&v), e);
			buf_free(&v);
		}
		if (rc)
			return rc;
	}
	return 0;
}

static void set_pem(CURL *h, CURLoption file_option, CURLoption blob_option, const char *file, const char *text)
{
	if (file)
		curl_easy_setopt(h, file_option, file);
	if (!text)
		return;
	struct curl_blob blob = { (void *)(uintptr_t)text, strlen(text), CURL_BLOB_COPY };
	curl_easy_setopt(h, blob_option, &blob);
}

/* The certificate must be valid for another name than the URL's. So the URL gets that name, and the connection still goes to the
 * original address. */
static int apply_server_name(struct fetch *f, const char *url, const char *name, struct err *e)
{
	char *host = NULL, *port = NULL, *full = NULL;
	CURLU *u = curl_url();
	int rc = 0;
	if (!u || curl_url_set(u, CURLUPART_URL, url, 0) || curl_url_get(u, CURLUPART_HOST, &host, 0) ||
	    curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) || curl_url_set(u, CURLUPART_HOST, name, 0) ||
	    curl_url_get(u, CURLUPART_URL, &full, 0))
		rc = err_set(e, ERR_BAD_DATA, "tls_config: server_name \"%s\" does not fit into the URL", name);
	if (!rc) {
		struct buf line = { 0 };
		buf_printf(&line, "%s:%s:%s:%s", name, port, host, port);
		f->connect_to = curl_slist_append(NULL, line.ptr);
		buf_reset(&line);
		buf_printf(&line, "Host: %s:%s", host, port);
		f->headers = curl_slist_append(f->headers, line.ptr);
		buf_free(&line);
		curl_easy_setopt(f->easy, CURLOPT_URL, full);
		curl_easy_setopt(f->easy, CURLOPT_CONNECT_TO, f->connect_to);
	}
	curl_free(host);
	curl_free(port);
	curl_free(full);
	curl_url_cleanup(u);
	return rc;
}

static int apply_tls(struct fetch *f, const char *url, const struct tls_config *t, struct err *e)
{
	static const long least[] = { CURL_SSLVERSION_TLSv1_2, CURL_SSLVERSION_TLSv1_0, CURL_SSLVERSION_TLSv1_1,
				      CURL_SSLVERSION_TLSv1_2, CURL_SSLVERSION_TLSv1_3 };
	static const long most[] = { CURL_SSLVERSION_MAX_DEFAULT, CURL_SSLVERSION_MAX_TLSv1_0, CURL_SSLVERSION_MAX_TLSv1_1,
				     CURL_SSLVERSION_MAX_TLSv1_2, CURL_SSLVERSION_MAX_TLSv1_3 };
	CURL *h = f->easy;
	const char *const files[] = { t->ca_file, t->cert_file, t->key_file };
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (files[i] && buf_check_file(files[i], e))
			return err_wrap(e, "tls_config");
	set_pem(h, CURLOPT_CAINFO, CURLOPT_CAINFO_BLOB, t->ca_file, t->ca);
	set_pem(h, CURLOPT_SSLCERT, CURLOPT_SSLCERT_BLOB, t->cert_file, t->cert);
	set_pem(h, CURLOPT_SSLKEY, CURLOPT_SSLKEY_BLOB, t->key_file, t->key);
	curl_easy_setopt(h, CURLOPT_SSLVERSION, least[t->min_version] | most[t->max_version]);
	if (t->insecure_skip_verify) {
		curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (t->server_name && t->server_name[0] && strncmp(url, "https:", 6) == 0)
		return apply_server_name(f, url, t->server_name, e);
	return 0;
}

static void apply_proxy(struct fetch *f, const struct http_config *c)
{
	CURL *h = f->easy;
	if (!c->proxy_from_environment)
		curl_easy_setopt(h, CURLOPT_PROXY, c->proxy_url ? c->proxy_url : "");
	if (c->proxy_url)
		curl_easy_setopt(h, CURLOPT_NOPROXY, c->no_proxy ? c->no_proxy : "");
	for (size_t i = 0; i < c->proxy_connect_header.n; i++)
		for (size_t k = 0; k < c->proxy_connect_header.v[i].values.n; k++) {
			struct buf line = { 0 };
			buf_printf(&line, "%s: %s", c->proxy_connect_header.v[i].key, c->proxy_connect_header.v[i].values.v[k]);
			f->proxy_headers = curl_slist_append(f->proxy_headers, line.ptr);
			buf_free(&line);
		}
	if (f->proxy_headers)
		curl_easy_setopt(h, CURLOPT_PROXYHEADER, f->proxy_headers);
	curl_easy_setopt(h, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE); /* our headers are not the proxy's to see */
}

int fetch_apply_config(struct fetch *f, const char *url, struct err *e)
{
	const struct http_config *c = f->client->config;
	int rc = apply_tls(f, url, &c->tls, e);
	if (!rc && c->basic_auth)
		rc = apply_basic(f, c->basic_auth, e);
	if (!rc && c->authorization)
		rc = apply_authorization(f, c->authorization, e);
	if (!rc && c->oauth2)
		rc = apply_oauth2(f, e);
	if (!rc)
		rc = apply_headers(f, c, e);
	if (rc)
		return rc;
	apply_proxy(f, c);
	curl_easy_setopt(f->easy, CURLOPT_FOLLOWLOCATION, c->follow_redirects ? 1L : 0L);
	curl_easy_setopt(f->easy, CURLOPT_HTTP_VERSION,
			 c->enable_http2 ? (long)CURL_HTTP_VERSION_2TLS : (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, f->headers);
	return 0;
}
