/* SPDX-License-Identifier: Apache-2.0 */
/* The section `object_storage`: bucket.type, prefix and config are Thanos's, which Parca has in its files as they are; the keys beside bucket
 * are ours. Thanos's keys that have no effect here bring a warning, unless they say what is Thanos's default: its manual prints all of
 * them, and files have copies of that. */
#include <ctype.h>

#include "bucket/bucket.h"

#define PREFIX_MAX 400 /* bytes; with the longest key it stays below the 1024 of S3 */
#define SERVER_ID_MAX 40
#define REQUESTS_MAX 256
#define LIMIT_LEAST ((uint64_t)64 << 10) /* bytes a second. At this rate a piece of 256 KiB takes 4 s; stores close connections that are slower */
#define MINUTE_MS 60000
#define HOUR_MS (60 * MINUTE_MS)
#define STORAGE_CLASS "x-amz-storage-class"

/* ---- texts ---- */

static bool section_is_word(const char *s, const char *others)
{
	for (; *s; s++)
		if (!(isascii(*s) && isalnum((unsigned char)*s)) && !strchr(others, *s))
			return false;
	return true;
}

static bool section_is_given(const char *s)
{
	return s && *s;
}

/* The node that an error points at: the value of the key in the map, or the map itself if it does not have the key. */
static const struct config_node *section_place(const struct config_node *n, const char *key)
{
	const struct config_node *value = config_get(n, key);
	return value ? value : n;
}

static void section_warn(struct config_ctx *c, const struct config_node *n, const char *key, bool differs, const char *why)
{
	if (!differs)
		return;
	size_t mark = config_enter(c, key);
	config_warn(c, section_place(n, key), "ignored; %s", why);
	config_leave(c, mark);
}

/* ---- http_config ---- */

struct s3_tls {
	const char *ca_file, *cert_file, *key_file, *server_name;
	bool insecure_skip_verify, trust_root_ca;
};
#define T(key, type, member, def) { key, type, offsetof(struct s3_tls, member), def }

static const struct config_field s3_tls_rows[] = {
	T("ca_file", CONFIG_PATH, ca_file, ""),
	T("cert_file", CONFIG_PATH, cert_file, ""),
	T("key_file", CONFIG_PATH, key_file, ""),
	T("server_name", CONFIG_STRING, server_name, ""),
	T("insecure_skip_verify", CONFIG_BOOL, insecure_skip_verify, "false"),
	T("trust_root_ca", CONFIG_BOOL, trust_root_ca, "false"),
};

static int section_check_s3_tls(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct s3_tls *t = at;
	if (section_is_given(t->cert_file) != section_is_given(t->key_file))
		return config_error(c, n, e, "a client certificate needs both cert_file and key_file");
	section_warn(c, n, "trust_root_ca", t->trust_root_ca, "with ca_file, only what is in it is trusted; without, what the system trusts");
	return 0;
}
static const struct config_table s3_tls_table = CONFIG_TABLE(struct s3_tls, s3_tls_rows, section_check_s3_tls);

struct s3_http {
	int64_t idle_ms, response_ms, handshake_ms, continue_ms, idle_conns, idle_conns_host, conns_host;
	bool insecure_skip_verify, http2, no_compression;
	struct s3_tls tls;
};
#define H(key, type, member, def) { key, type, offsetof(struct s3_http, member), def }

static const struct config_field s3_http_rows[] = {
	H("idle_conn_timeout", CONFIG_DURATION, idle_ms, "1m30s"),
	H("response_header_timeout", CONFIG_DURATION, response_ms, "2m"),
	H("insecure_skip_verify", CONFIG_BOOL, insecure_skip_verify, "false"),
	H("tls_handshake_timeout", CONFIG_DURATION, handshake_ms, "10s"),
	H("expect_continue_timeout", CONFIG_DURATION, continue_ms, "1s"),
	H("max_idle_conns", CONFIG_COUNT, idle_conns, "100"),
	H("max_idle_conns_per_host", CONFIG_COUNT, idle_conns_host, "100"),
	H("max_conns_per_host", CONFIG_COUNT, conns_host, "0"),
	H("force_attempt_http2", CONFIG_BOOL, http2, "false"),
	H("disable_compression", CONFIG_BOOL, no_compression, "false"),
	{ "tls_config", CONFIG_STRUCT, offsetof(struct s3_http, tls), .table = &s3_tls_table },
};

static int section_check_s3_http(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct s3_http *h = at;
	static const char connections[] = "connections are as many as requests at once, object_storage.requests";
	(void)e;
	section_warn(c, n, "tls_handshake_timeout", h->handshake_ms != 10000, "connecting, with the handshake, may take 10s");
	section_warn(c, n, "expect_continue_timeout", h->continue_ms != 1000, "it is 1s");
	section_warn(c, n, "max_idle_conns", h->idle_conns != 100, connections);
	section_warn(c, n, "max_idle_conns_per_host", h->idle_conns_host != 100, connections);
	section_warn(c, n, "max_conns_per_host", h->conns_host != 0, connections);
	section_warn(c, n, "force_attempt_http2", h->http2, "HTTP/1.1 is spoken");
	section_warn(c, n, "disable_compression", h->no_compression, "objects are never compressed on their way");
	return 0;
}
static const struct config_table s3_http_table = CONFIG_TABLE(struct s3_http, s3_http_rows, section_check_s3_http);

/* ---- config of S3 ---- */

struct s3_sse {
	const char *type, *kms_key_id, *encryption_key;
	struct config_map kms_encryption_context;
};
#define E(key, type, member, def) { key, type, offsetof(struct s3_sse, member), def }

static const struct config_field s3_sse_rows[] = {
	E("type", CONFIG_STRING, type, ""),
	E("kms_key_id", CONFIG_STRING, kms_key_id, ""),
	E("kms_encryption_context", CONFIG_MAP, kms_encryption_context, NULL),
	E("encryption_key", CONFIG_STRING, encryption_key, ""),
};

static int section_check_s3_sse(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct s3_sse *s = at;
	static const char of_others[] = "it applies to the types SSE-KMS and SSE-C alone";
	if (section_is_given(s->type) && strcmp(s->type, "SSE-S3") != 0)
		return config_error(c, section_place(n, "type"), e, "type %s is not supported; SSE-S3 is. For keys of a KMS, give the bucket a default encryption "
				    "and leave sse_config out", s->type);
	section_warn(c, n, "kms_key_id", section_is_given(s->kms_key_id), of_others);
	section_warn(c, n, "kms_encryption_context", s->kms_encryption_context.n, of_others);
	section_warn(c, n, "encryption_key", section_is_given(s->encryption_key), of_others);
	return 0;
}
static const struct config_table s3_sse_table = CONFIG_TABLE(struct s3_sse, s3_sse_rows, section_check_s3_sse);

struct s3_trace {
	bool enable;
};
static const struct config_field s3_trace_rows[] = { { "enable", CONFIG_BOOL, offsetof(struct s3_trace, enable), "false" } };
static const struct config_table s3_trace_table = CONFIG_TABLE(struct s3_trace, s3_trace_rows, NULL);

/* The keys as they are in the file; s3_config is what becomes of them. */
struct s3_section {
	struct s3_config s3;
	bool signature_v2, no_dualstack, no_multipart, content_md5;
	const char *list_version;
	int64_t part_size, max_retries;
	struct s3_http http;
	struct s3_sse sse;
	struct s3_trace trace;
};
#define S(key, type, member, def) { key, type, offsetof(struct s3_section, member), def }

static const struct config_field s3_rows[] = {
	S("bucket", CONFIG_STRING, s3.bucket, ""),
	S("endpoint", CONFIG_STRING, s3.endpoint, ""),
	S("region", CONFIG_STRING, s3.region, ""),
	S("access_key", CONFIG_SECRET, s3.access_key, ""),
	S("secret_key", CONFIG_SECRET, s3.secret_key, ""),
	S("session_token", CONFIG_SECRET, s3.session_token, ""),
	S("aws_sdk_auth", CONFIG_BOOL, s3.aws_sdk_auth, "false"),
	S("sts_endpoint", CONFIG_STRING, s3.sts_endpoint, ""),
	S("insecure", CONFIG_BOOL, s3.insecure, "false"),
	{ "bucket_lookup_type", CONFIG_ENUM, offsetof(struct s3_section, s3.lookup), "auto", .words = "auto|virtual-hosted|path" },
	S("put_user_metadata", CONFIG_MAP, s3.user_metadata, NULL),
	{ "http_config", CONFIG_STRUCT, offsetof(struct s3_section, http), .table = &s3_http_table },
	{ "sse_config", CONFIG_STRUCT, offsetof(struct s3_section, sse), .table = &s3_sse_table },
	S("signature_version2", CONFIG_BOOL, signature_v2, "false"),
	S("list_objects_version", CONFIG_STRING, list_version, ""),
	S("disable_dualstack", CONFIG_BOOL, no_dualstack, "false"),
	S("disable_multipart", CONFIG_BOOL, no_multipart, "false"),
	S("part_size", CONFIG_COUNT, part_size, "67108864"),
	S("send_content_md5", CONFIG_BOOL, content_md5, "true"),
	S("max_retries", CONFIG_COUNT, max_retries, "0"),
	{ "trace", CONFIG_STRUCT, offsetof(struct s3_section, trace), .table = &s3_trace_table },
};

static int section_check_s3_place(struct config_ctx *c, const struct config_node *n, const struct s3_config *s, struct err *e)
{
	if (!s->bucket[0] || !section_is_word(s->bucket, "._-") || strlen(s->bucket) > 255)
		return config_error(c, section_place(n, "bucket"), e, "bucket is the name of a bucket; a folder in it is object_storage.bucket.prefix");
	if (!s->endpoint[0])
		return config_error(c, n, e, "endpoint is missing: host or host:port of the store, as s3.eu-central-1.amazonaws.com");
	if (strstr(s->endpoint, "://"))
		return config_error(c, section_place(n, "endpoint"), e, "endpoint is host or host:port, without a scheme; https is spoken unless insecure is true");
	if (!section_is_word(s->endpoint, "._-:[]"))
		return config_error(c, section_place(n, "endpoint"), e, "endpoint is host or host:port; a folder in the bucket is object_storage.bucket.prefix");
	if (!section_is_word(s->region, "-_"))
		return config_error(c, section_place(n, "region"), e, "region is a name as eu-central-1");
	return 0;
}

static int section_check_s3_credentials(struct config_ctx *c, const struct config_node *n, const struct s3_config *s, struct err *e)
{
	if (section_is_given(s->access_key) != section_is_given(s->secret_key))
		return config_error(c, section_place(n, section_is_given(s->access_key) ? "access_key" : "secret_key"), e,
				    "access_key and secret_key are wanted together; without both, credentials come from the environment, a file or the role of "
				    "the machine");
	if (section_is_given(s->session_token) && !section_is_given(s->access_key))
		return config_error(c, section_place(n, "session_token"), e, "session_token belongs to an access_key and a secret_key");
	if (s->aws_sdk_auth && section_is_given(s->access_key))
		return config_error(c, section_place(n, "aws_sdk_auth"), e, "aws_sdk_auth and access_key exclude each other");
	for (const char *const *p = (const char *const[]){ s->access_key, s->secret_key, s->session_token, NULL }; *p; p++)
		for (const char *at = *p; *at; at++)
			if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f)
				return config_error(c, n, e, "access_key, secret_key or session_token has a space, a line end or another character that none has");
	return 0;
}

static void section_warn_s3(struct config_ctx *c, const struct config_node *n, const struct s3_section *s)
{
	section_warn(c, n, "list_objects_version", !strcmp(s->list_version, "v1"), "lists are asked for by version 2, which every store has");
	section_warn(c, n, "disable_dualstack", s->no_dualstack, "the endpoint is used as it is written");
	section_warn(c, n, "disable_multipart", s->no_multipart, "an object is always sent in one piece");
	section_warn(c, n, "part_size", s->part_size != 67108864, "an object is always sent in one piece");
	section_warn(c, n, "send_content_md5", !s->content_md5, "what is sent is held against its SHA-256");
	section_warn(c, n, "max_retries", s->max_retries != 0, "what may pass is tried five times");
	section_warn(c, n, "trace", s->trace.enable, "requests are counted in pyrrha_object_storage_requests_total");
}

static int section_check_s3(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct s3_section *s = at;
	int rc = section_check_s3_place(c, n, &s->s3, e);
	if (!rc)
		rc = section_check_s3_credentials(c, n, &s->s3, e);
	if (!rc && s->signature_v2)
		rc = config_error(c, section_place(n, "signature_version2"), e, "signature_version2 is not supported: requests are signed by version 4");
	if (!rc && s->list_version[0] && strcmp(s->list_version, "v1") != 0 && strcmp(s->list_version, "v2") != 0)
		rc = config_error(c, section_place(n, "list_objects_version"), e, "list_objects_version is v1 or v2");
	if (!rc)
		section_warn_s3(c, n, s);
	return rc;
}
static const struct config_table s3_table = CONFIG_TABLE(struct s3_section, s3_rows, section_check_s3);

/* The headers that each put sends. The key put_user_metadata gives the storage class under a name of its own, as in Thanos. */
static int section_make_metadata(struct config_ctx *c, const struct config_node *n, struct s3_config *s, struct err *e)
{
	struct config_map *m = &s->user_metadata;
	size_t keep = 0;
	s->storage_class = "";
	for (size_t i = 0; i < m->n; i++) {
		bool printable = true;
		for (const char *p = m->v[i].value; *p; p++)
			printable &= *p >= ' ' && *p < 0x7f;
		if (!m->v[i].key[0] || !section_is_word(m->v[i].key, "-_") || !printable)
			return config_error(c, section_place(n, "put_user_metadata"), e, "put_user_metadata has names of [A-Za-z0-9_-] and values in ASCII");
		if (strcasecmp(m->v[i].key, STORAGE_CLASS) == 0)
			s->storage_class = m->v[i].value;
		else
			m->v[keep++] = m->v[i];
	}
	m->n = keep;
	return 0;
}

static const char *section_or_null(const char *s)
{
	return section_is_given(s) ? s : NULL;
}

static int section_make_http(struct config_ctx *c, const struct s3_http *h, struct http_config *ret, struct err *e)
{
	int rc = config_decode(c, &config_http_table, NULL, ret, e); /* its defaults */
	ret->follow_redirects = false; /* another address needs another signature */
	ret->proxy_from_environment = true;
	ret->tls.ca_file = section_or_null(h->tls.ca_file);
	ret->tls.cert_file = section_or_null(h->tls.cert_file);
	ret->tls.key_file = section_or_null(h->tls.key_file);
	ret->tls.server_name = section_or_null(h->tls.server_name);
	ret->tls.insecure_skip_verify = h->insecure_skip_verify || h->tls.insecure_skip_verify;
	return rc;
}

static int section_decode_s3(struct config_ctx *c, const struct config_node *n, struct s3_config *ret, struct err *e)
{
	struct s3_section s = { 0 };
	int rc = config_decode(c, &s3_table, n, &s, e);
	if (!rc)
		rc = section_make_metadata(c, n, &s.s3, e);
	if (!rc)
		rc = section_make_http(c, &s.http, &s.s3.http, e);
	if (rc)
		return rc;
	s.s3.sse_s3 = section_is_given(s.sse.type);
	s.s3.idle_timeout_ms = s.http.idle_ms;
	s.s3.response_timeout_ms = s.http.response_ms;
	*ret = s.s3;
	return 0;
}

/* ---- config of FILESYSTEM ---- */

struct fs_section {
	const char *directory;
};

/* A path that need not be there yet. */
static int section_decode_directory(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	static const struct config_field as_path = { .type = CONFIG_PATH };
	bool check = c->check_files;
	c->check_files = false;
	int rc = config_decode_value(c, &as_path, n, at, e);
	c->check_files = check;
	return rc;
}

static const struct config_field fs_rows[] = {
	{ "directory", CONFIG_CUSTOM, offsetof(struct fs_section, directory), .flags = CONFIG_REQUIRED, .custom = section_decode_directory },
};

static int section_check_fs(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct fs_section *s = at;
	return s->directory[0] ? 0 : config_error(c, section_place(n, "directory"), e, "directory is empty");
}
static const struct config_table fs_table = CONFIG_TABLE(struct fs_section, fs_rows, section_check_fs);

/* ---- bucket ---- */

struct bucket_section {
	const char *type, *prefix;
	const struct config_node *config;
};

static const struct config_field bucket_rows[] = {
	{ "type", CONFIG_STRING, offsetof(struct bucket_section, type), "" },
	{ "prefix", CONFIG_STRING, offsetof(struct bucket_section, prefix), "" },
	{ "config", CONFIG_NODE, offsetof(struct bucket_section, config) },
};
static const struct config_table bucket_table = CONFIG_TABLE(struct bucket_section, bucket_rows, NULL);

static int section_decode_type(struct config_ctx *c, const struct config_node *n, const char *type, enum bucket_type *ret, struct err *e)
{
	static const char *const elsewhere[] = { "AZURE", "SWIFT", "COS", "ALIYUNOSS", "BOS", "OCI", "OBS" };
	const struct config_node *place = section_place(n, "type");
	*ret = strcasecmp(type, "S3") == 0 ? BUCKET_S3 : strcasecmp(type, "FILESYSTEM") == 0 ? BUCKET_FILESYSTEM : BUCKET_NONE;
	if (*ret)
		return 0;
	if (!type[0])
		return config_error(c, place, e, "type is missing: S3 or FILESYSTEM");
	if (strcasecmp(type, "GCS") == 0)
		return config_error(c, place, e, "type GCS is not supported, but GCS speaks S3: use type S3 with endpoint storage.googleapis.com and HMAC keys");
	for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
		if (strcasecmp(type, elsewhere[i]) == 0)
			return config_error(c, place, e, "type %s is not supported; S3 and FILESYSTEM are", elsewhere[i]);
	return config_error(c, place, e, "type %.40s is not known; S3 and FILESYSTEM are", type);
}

/* Whether each part of "a/b" can be a part of a key. */
static bool section_parts_valid(const char *s)
{
	for (size_t n; *s; s += n + (s[n] == '/')) {
		n = strcspn(s, "/");
		struct view part = view_make(s, n);
		if (!n || view_eqs(part, ".") || view_eqs(part, ".."))
			return false;
	}
	return true;
}

static int section_decode_prefix(struct config_ctx *c, const struct config_node *n, const char *text, const char **ret, struct err *e)
{
	struct view v = view_of(text);
	while (v.len && v.ptr[0] == '/')
		v = view_make(v.ptr + 1, v.len - 1);
	while (v.len && v.ptr[v.len - 1] == '/')
		v.len--;
	*ret = arena_strndup(c->arena, v.ptr, v.len);
	if (v.len > PREFIX_MAX || !section_is_word(*ret, "._-/") || !section_parts_valid(*ret))
		return config_error(c, section_place(n, "prefix"), e, "a prefix is of [A-Za-z0-9._-] between slashes, at most %d bytes", PREFIX_MAX);
	return 0;
}

/* ---- the section ---- */

struct storage_section {
	struct bucket_section bucket;
	const char *server_id;
	int read; /* 1 = all */
	int64_t requests;
	uint64_t upload_limit, download_limit;
	int64_t seal_interval_ms, grace_ms;
};
#define O(key, type, member, def) { key, type, offsetof(struct storage_section, member), def }

static const struct config_field object_storage_rows[] = {
	{ "bucket", CONFIG_STRUCT, offsetof(struct storage_section, bucket), .table = &bucket_table },
	O("server_id", CONFIG_STRING, server_id, ""),
	{ "read", CONFIG_ENUM, offsetof(struct storage_section, read), "own", .words = "own|all" },
	O("requests", CONFIG_COUNT, requests, "16"),
	O("upload_limit", CONFIG_SIZE, upload_limit, "0"),
	O("download_limit", CONFIG_SIZE, download_limit, "0"),
	O("seal_interval", CONFIG_DURATION, seal_interval_ms, "0"),
	O("grace", CONFIG_DURATION, grace_ms, "1d"),
	{ "type", CONFIG_REFUSED, .words = "it belongs into bucket: object_storage.bucket.type" },
	{ "config", CONFIG_REFUSED, .words = "it belongs into bucket: object_storage.bucket.config" },
	{ "prefix", CONFIG_REFUSED, .words = "it belongs into bucket: object_storage.bucket.prefix" },
};

static bool section_is_server_id(const char *s)
{
	return s[0] != '-' && strlen(s) <= SERVER_ID_MAX && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(s);
}

static int section_check(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct storage_section *s = at;
	if (!section_is_server_id(s->server_id))
		return config_error(c, section_place(n, "server_id"), e, "server_id has lower-case letters, digits and dashes, at most %d, and does not begin with a dash", SERVER_ID_MAX);
	if (s->requests < 1 || s->requests > REQUESTS_MAX)
		return config_error(c, section_place(n, "requests"), e, "requests at once are from 1 to %d", REQUESTS_MAX);
	if (s->upload_limit && s->upload_limit < LIMIT_LEAST)
		return config_error(c, section_place(n, "upload_limit"), e, "upload_limit is bytes a second, 0 for none, or at least 64KB");
	if (s->download_limit && s->download_limit < LIMIT_LEAST)
		return config_error(c, section_place(n, "download_limit"), e, "download_limit is bytes a second, 0 for none, or at least 64KB");
	if (s->seal_interval_ms && (s->seal_interval_ms < MINUTE_MS || s->seal_interval_ms > HOUR_MS))
		return config_error(c, section_place(n, "seal_interval"), e, "seal_interval is from 1m to 1h, or 0: once an hour");
	if (s->grace_ms < HOUR_MS)
		return config_error(c, section_place(n, "grace"), e, "grace is at least 1h: a shorter one removes what an upload is about to name");
	return 0;
}
static const struct config_table object_storage_table = CONFIG_TABLE(struct storage_section, object_storage_rows, section_check);

static int section_decode_bucket(struct config_ctx *c, const struct config_node *n, const struct bucket_section *s, struct bucket_config *ret, struct err *e)
{
	struct fs_section fs = { 0 };
	int rc = section_decode_type(c, n, s->type, &ret->type, e);
	if (!rc)
		rc = section_decode_prefix(c, n, s->prefix, &ret->prefix, e);
	if (!rc && !s->config)
		rc = config_error(c, n, e, ret->type == BUCKET_S3 ? "config is missing: a map with bucket, endpoint and other keys of S3"
								   : "config is missing: a map with directory");
	if (rc)
		return rc;
	size_t mark = config_enter(c, "config");
	rc = ret->type == BUCKET_S3 ? section_decode_s3(c, s->config, &ret->s3, e) : config_decode(c, &fs_table, s->config, &fs, e);
	config_leave(c, mark);
	ret->directory = fs.directory;
	return rc;
}

static const char *section_shown(struct arena *a, const struct bucket_config *b)
{
	const char *prefix = b->prefix[0] ? arena_printf(a, ", prefix %s", b->prefix) : "";
	return b->type == BUCKET_S3 ? arena_printf(a, "S3 bucket %s at %s%s", b->s3.bucket, b->s3.endpoint, prefix)
				    : arena_printf(a, "directory %s%s", b->directory, prefix);
}

/* The store, and what the section says beside it. n is the map `bucket`. */
static int section_make(struct config_ctx *c, const struct config_node *n, const struct storage_section *s, struct bucket_config *ret, struct err *e)
{
	int rc = section_decode_bucket(c, n, &s->bucket, ret, e);
	if (rc)
		return rc;
	ret->server_id = s->server_id;
	ret->read_others = s->read == 1;
	ret->requests = s->requests;
	ret->upload_limit = s->upload_limit;
	ret->download_limit = s->download_limit;
	ret->seal_interval_ms = s->seal_interval_ms;
	ret->grace_ms = s->grace_ms;
	ret->shown = section_shown(c->arena, ret);
	return 0;
}

static int section_decode(struct config_ctx *c, const struct config_node *n, struct storage_section *s, struct bucket_config *ret, struct err *e)
{
	int rc = config_decode_at(c, "object_storage", &object_storage_table, n, s, e);
	if (rc)
		return rc;
	const struct config_node *bucket = config_get(n, "bucket");
	size_t mark = config_enter(c, "object_storage");
	if (!bucket || bucket->type == CONFIG_NODE_NULL) {
		rc = config_error(c, n, e, "bucket is missing: its type, prefix and config");
	} else {
		size_t inner = config_enter(c, "bucket");
		rc = section_make(c, bucket, s, ret, e);
		config_leave(c, inner);
	}
	if (!rc && ret->type == BUCKET_FILESYSTEM && !s->server_id[0]) {
		config_warn(c, n, "ignored; profiles are kept in --storage.path. To keep sealed days in this directory as well, give the server a name: "
			    "object_storage.server_id");
		ret->type = BUCKET_NONE;
	}
	config_leave(c, mark);
	return rc;
}

/* The map `bucket` alone; what else the section has are defaults. */
static int section_decode_alone(struct config_ctx *c, const struct config_node *n, struct storage_section *s, struct bucket_config *ret, struct err *e)
{
	int rc = config_decode(c, &object_storage_table, NULL, s, e);
	if (!rc)
		rc = config_decode(c, &bucket_table, n, &s->bucket, e);
	return rc ? rc : section_make(c, n, s, ret, e);
}

int bucket_config_decode(const struct config_tree *t, bool alone, struct config_ctx *c, struct bucket_config *ret, struct err *e)
{
	const struct config_node *n = alone ? config_root(t) : config_get(config_root(t), "object_storage");
	struct storage_section s = { 0 };
	struct bucket_config b = { .prefix = "", .server_id = "", .shown = "" };
	int rc = 0;
	if (alone)
		rc = section_decode_alone(c, n, &s, &b, e);
	else if (n && n->type != CONFIG_NODE_NULL)
		rc = section_decode(c, n, &s, &b, e);
	if (!rc)
		*ret = b;
	return rc;
}
