/* SPDX-License-Identifier: Apache-2.0 */
/* Object storage: the section `object_storage` of the configuration, and the store that it names behind the seam of model/objects.h.
 *
 *	bucket_config_decode ─► struct bucket_config ─► bucket_open ─► struct bucket ─► bucket_objects: put, get, list, remove
 *	                                                                    └─► backend.h: one attempt each; bucket_fs.c, s3.c
 *
 * bucket.c retries, limits and checks; a backend knows its protocol alone. Any thread may call; there is no thread of its own. */
#ifndef PYRRHA_BUCKET_BUCKET_H
#define PYRRHA_BUCKET_BUCKET_H

#include <stdatomic.h>

#include "config/config_http.h"
#include "model/objects.h"

enum bucket_type {
	BUCKET_NONE,       /* there is no section, or one that has no effect: Parca's stock file */
	BUCKET_FILESYSTEM, /* a directory */
	BUCKET_S3
};

enum s3_lookup { S3_LOOKUP_AUTO, S3_LOOKUP_VIRTUAL_HOSTED, S3_LOOKUP_PATH };

/* The map `config` of a bucket of type S3, with Thanos's keys. Strings are never NULL, unless said. */
struct s3_config {
	const char *bucket;             /* never "" */
	const char *endpoint;           /* host or host:port, without a scheme; never "" */
	const char *region;             /* "" = not said */
	const char *access_key;         /* "" = not said; then secret_key is "", too */
	const char *secret_key, *session_token; /* secrets */
	bool insecure;                  /* http instead of https */
	bool aws_sdk_auth;              /* the section has no credentials, and those of the environment, file or role are meant */
	int lookup;                     /* enum s3_lookup */
	struct config_map user_metadata; /* put_user_metadata: sent as x-amz-meta-KEY; keys are tokens, values have no line ends */
	const char *storage_class;      /* X-Amz-Storage-Class of put_user_metadata, sent as that header; "" = not said */
	bool sse_s3;                    /* puts ask for server-side encryption with the store's own keys */
	const char *sts_endpoint;       /* "" = that of AWS; for web identity */
	int64_t idle_timeout_ms;        /* http_config.idle_conn_timeout */
	int64_t response_timeout_ms;    /* http_config.response_header_timeout: from the request's last byte to the head of the answer */
	struct http_config http;        /* TLS, and the proxy of the environment, for fetch_client_new; follows no redirect */
};

/* The decoded section. Its strings are in the arena of the context that it was decoded with. */
struct bucket_config {
	enum bucket_type type;
	const char *prefix;             /* of all keys: "" or "a/b", without slashes around it */
	const char *directory;          /* FILESYSTEM; else NULL */
	struct s3_config s3;            /* S3 */
	const char *server_id;          /* "" = not said */
	bool read_others;               /* read: all; queries also read the days of other servers */
	int64_t requests;               /* at once; at least 1 */
	uint64_t upload_limit, download_limit; /* bytes a second; 0 = none */
	int64_t seal_interval_ms;       /* 0 = when an hour is over */
	int64_t grace_ms;               /* how old an object that nothing names must be before it is removed */
	const char *shown;              /* the store in one line, for logs and pages: type, endpoint or directory, prefix; no secret */
};

/* Decodes the section `object_storage`. Without one, and with Parca's stock section (FILESYSTEM without server_id, which brings a warning),
 * ret->type is BUCKET_NONE. alone: the file is the map `bucket` alone (type, prefix, config), as Thanos's tools read it; there a FILESYSTEM needs no
 * server_id. */
int bucket_config_decode(const struct config_tree *t, bool alone, struct config_ctx *c, struct bucket_config *ret, struct err *e) MUST_USE;

struct bucket;

/* Asks the store nothing yet, so a store that is away is no error. c, with all it points at, and stop outlive the bucket. Once *stop is
 * true, all calls end soon with ERR_CANCELED; flag_raise (base/flag.h) ends a wait at once. stop: NULL = never. Returns owned. */
int bucket_open(struct bucket **ret, const struct bucket_config *c, const atomic_bool *stop, struct err *e) MUST_USE;
/* The store behind its seam; valid as long as b. A caller holds no lock of a rank behind RANK_FLAGS. What put and get call (read, data) does not
 * call the store; what list calls may. */
struct objects *bucket_objects(struct bucket *b);
/* No call may be under way. NULL is fine. */
void bucket_free(struct bucket *b);

/* Registers pyrrha_object_storage_*: once, by main. */
void bucket_register_metrics(void);

#endif
