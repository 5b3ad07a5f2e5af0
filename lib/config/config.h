/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration: YAML is read into a tree whose nodes know their line and column. Tables decode a part of the tree into a module's own
 * struct.
 *
 * Strict: an unknown key, a duplicate key and a value of the wrong shape are errors, spelt
 * "file:line:column: field scrape_configs[0].scrape_interval: ...". Anchors, aliases and merge keys (<<) work.
 * Decoded data is in the arena of the context, strings NUL-terminated; it is freed with that arena. Secrets appear in no error and are
 * printed as <secret>. */
#ifndef PYRRHA_CONFIG_CONFIG_H
#define PYRRHA_CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum config_node_type { CONFIG_NODE_NULL, CONFIG_NODE_SCALAR, CONFIG_NODE_MAP, CONFIG_NODE_LIST };

struct config_pair;

/* A node of the tree; read only, lives as long as the tree. */
struct config_node {
	enum config_node_type type;
	uint32_t line, column;            /* from 1 */
	const char *file;
	const char *field;                /* NULL, or the place for messages, without the file: it is not in one */
	struct view text;                 /* scalar: NUL-terminated as well */
	bool quoted;                      /* scalar: a string whatever it looks like */
	struct view raw;                  /* scalar with variables (config_expand.h): as it was written; else empty */
	const struct config_pair *pairs;  /* map, in the file's order */
	const struct config_node *const *items; /* list */
	size_t n;                         /* pairs or items */
};

struct config_pair {
	const struct config_node *key, *value; /* key is a scalar */
};

struct config_tree;

#define CONFIG_MAX_BYTES ((size_t)16 << 20)

struct config_sources;

/* How the files of a configuration are read. */
struct config_how {
	bool expand_env;                /* ${NAME} in values; config_expand.h */
	bool check_files;               /* warn of files that values name and that cannot be read */
	struct config_sources *sources; /* each file is noted there, also one that cannot be read; may be NULL. Outlives the tree */
};

/* Reads a file (at most CONFIG_MAX_BYTES). Returns owned. An empty file is a tree whose root is an empty map. */
int config_load(struct config_tree **ret, const char *path, struct err *e) MUST_USE;
/* how: NULL = as config_load. */
int config_load_how(struct config_tree **ret, const char *path, const struct config_how *how, struct err *e) MUST_USE;
/* The same from memory; `name` is used as the file in messages, and relative paths refer to it. */
int config_parse(struct config_tree **ret, struct view text, const char *name, struct err *e) MUST_USE;
int config_parse_how(struct config_tree **ret, struct view text, const char *name, const struct config_how *how, struct err *e) MUST_USE;
/* How it was read: for other files that it names. */
const struct config_how *config_how(const struct config_tree *t);
void config_free(struct config_tree *t);
/* The root; its type is whatever the file says. */
const struct config_node *config_root(const struct config_tree *t);
/* Whether there was nothing in it at all ({} is something): a file that is being written, perhaps. */
bool config_is_empty(const struct config_tree *t);
/* The bytes of the file as read (for /api/v1/status/config: see config_redact). */
struct view config_text(const struct config_tree *t);
/* The tree as YAML again, with secrets replaced by <secret>: the values of password, credentials, client_secret, bearer_token,
 * secrets, key, access_key, secret_key, session_token, parameters with secret-like names, and the secret parts that config_redact_url finds. */
void config_redact(const struct config_tree *t, struct buf *out);
/* The same of a part of the tree. */
void config_redact_node(const struct config_node *n, struct buf *out);
/* A URL, or the path of one, for display: user info, and parameters with secret-like names, become <secret>. */
void config_redact_url(struct view url, struct buf *out);
/* Whether a parameter of that name is one not to show: token, api_key, X-Password ... */
bool config_secret_name(struct view name);
/* A text that is equal for equal settings, secrets included: not to be shown. */
void config_canonical(const struct config_node *n, struct buf *out);
/* The value of a key of a map; NULL if there is none, or n is no map. */
const struct config_node *config_get(const struct config_node *n, const char *key);

/* The context of decoding: where to allocate, and where to report warnings. */
struct config_ctx {
	struct arena *arena;
	const char *dir; /* relative paths are resolved against it; NULL = unchanged */
	/* One line without newline: "file:line:column: field X: ...". May be NULL. */
	void (*warn)(void *arg, const char *text);
	void *warn_arg;
	bool check_files; /* warn of a CONFIG_PATH that cannot be read now */
	struct buf path; /* the decoder's own: the field it is at. Release with config_ctx_release. */
};
void config_ctx_release(struct config_ctx *c);
/* The directory part of a path, in the arena. */
const char *config_dirname(struct arena *a, const char *path);

/* Errors and warnings with position and field: "file:line:column: field PATH: text". Returns -ERR_BAD_DATA. */
int config_error(const struct config_ctx *c, const struct config_node *n, struct err *e, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
void config_warn(const struct config_ctx *c, const struct config_node *n, const char *fmt, ...) PRINTF_LIKE(3, 4);

enum config_type {
	CONFIG_STRING,   /* const char * */
	CONFIG_SECRET,   /* const char *: never shown */
	CONFIG_PATH,     /* const char *: a relative one is resolved against ctx->dir */
	CONFIG_BOOL,     /* bool */
	CONFIG_INT,      /* int64_t */
	CONFIG_COUNT,    /* int64_t, not negative */
	CONFIG_FLOAT,    /* double */
	CONFIG_DURATION, /* int64_t, ms */
	CONFIG_SIZE,     /* uint64_t, bytes */
	CONFIG_ENUM,     /* int: index into the field's words, case-insensitive */
	CONFIG_STRINGS,  /* struct config_strings */
	CONFIG_MAP,      /* struct config_map: string -> string */
	CONFIG_MULTIMAP, /* struct config_multimap: string -> string or list of strings (params) */
	CONFIG_STRUCT,   /* the struct itself, by the field's table */
	CONFIG_POINTER,  /* struct *, allocated when the key is there, else NULL */
	CONFIG_STRUCTS,  /* struct config_list of structs, by the field's table */
	CONFIG_INLINE,   /* the struct itself; its keys are beside the outer ones. key is NULL */
	CONFIG_NODE,     /* const struct config_node *: the module looks itself */
	CONFIG_CUSTOM,   /* the field's function */
	CONFIG_IGNORED,  /* accepted with a warning: `words` is what it says */
	CONFIG_REFUSED   /* an error: `words` is what it says */
};

struct config_strings {
	const char **v;
	size_t n;
};

struct config_map {
	struct config_kv {
		const char *key, *value;
	} *v;
	size_t n;
};

struct config_multimap {
	struct config_kvs {
		const char *key;
		struct config_strings values;
	} *v;
	size_t n;
};

struct config_list {
	void *v; /* array of structs of the field's table */
	size_t n;
};

enum { CONFIG_REQUIRED = 1 };

struct config_table;

/* One row: one key. Fields whose key is absent get `def` (spelt as in a file) or, with def NULL, keep what the
 * caller put there. An explicit null counts as absent. */
struct config_field {
	const char *key;
	enum config_type type;
	size_t offset;
	const char *def;
	unsigned flags;
	const char *words; /* ENUM: "a|b|c"; IGNORED, REFUSED: the text */
	const struct config_table *table;
	int (*custom)(struct config_ctx *c, const struct config_node *n, void *at, struct err *e);
};

struct config_table {
	const struct config_field *fields;
	size_t n;
	size_t size; /* of the struct */
	/* Called after the fields of one struct were set; may be NULL. */
	int (*check)(struct config_ctx *c, const struct config_node *n, void *at, struct err *e);
	/* Keys without a row that are somebody else's to decode; may be NULL. */
	bool (*other_key)(struct view key);
};
#define CONFIG_TABLE(type, rows, check_fn) { rows, ARRAY_LEN(rows), sizeof(type), check_fn }

/* Decodes a map into `at` by the table. n NULL or null: all defaults. Before POINTER and STRUCTS elements are
 * decoded they are zeroed; the struct at `at` is not. */
int config_decode(struct config_ctx *c, const struct config_table *t, const struct config_node *n, void *at,
		  struct err *e) MUST_USE;
/* As config_decode, for a part of the file that is not the root: `field` is its path in messages. */
int config_decode_at(struct config_ctx *c, const char *field, const struct config_table *t, const struct config_node *n,
		     void *at, struct err *e) MUST_USE;
/* For custom fields: one value of a type, with no default. */
int config_decode_value(struct config_ctx *c, const struct config_field *f, const struct config_node *n, void *at,
			struct err *e) MUST_USE;
/* Whether two structs that were decoded by t, or made as if, say the same. A custom field counts as different, unless its row has a
 * table. Then it is a struct config_list, or a pointer followed by a size_t, of structs of that table. */
bool config_same(const struct config_table *t, const void *a, const void *b);
/* A copy with all it points at in an arena without a limit. Custom fields as above; CONFIG_NODE stays what it was. */
void config_copy(const struct config_table *t, struct arena *a, const void *from, void *to);
/* Steps into a field for messages: config_enter(c, "x") or config_enter_index(c, 3); leave restores. */
size_t config_enter(struct config_ctx *c, const char *key);
size_t config_enter_index(struct config_ctx *c, size_t i);
void config_leave(struct config_ctx *c, size_t mark);

#endif
