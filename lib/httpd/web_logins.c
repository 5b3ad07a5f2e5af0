/* SPDX-License-Identifier: Apache-2.0 */
/* Logins of the file: basic_auth_users, user_rights, tokens. */
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "httpd/bcrypt.h"
#include "httpd/web_reading.h"

#define MAX_TOKEN 4096    /* bytes of a token_file */
#define SHORT_TOKEN 16
#define MAX_LOGINS 10000  /* looked through one by one */

void web_config_hash(struct view token, unsigned char ret[WEB_SHA256])
{
	gnutls_hash_fast(GNUTLS_DIG_SHA256, token.ptr, token.len, ret);
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_sha256(struct view v, unsigned char ret[WEB_SHA256])
{
	if (v.len != 2 * WEB_SHA256)
		return false;
	for (size_t i = 0; i < WEB_SHA256; i++) {
		int hi = hex(v.ptr[2 * i]), lo = hex(v.ptr[2 * i + 1]);
		if (hi < 0 || lo < 0)
			return false;
		ret[i] = (unsigned char)(hi << 4 | lo);
	}
	return true;
}

/* ---- rights ---- */

/* A list of words into bits. */
static unsigned read_rights(struct web_reading *r, const struct config_node *n, const char *field)
{
	static const struct config_field as_strings = { .type = CONFIG_STRINGS };
	static const struct { const char *word; unsigned bit; } words[] = {
		{ "read", HTTPD_RIGHT_READ }, { "write", HTTPD_RIGHT_WRITE }, { "admin", HTTPD_RIGHT_ADMIN },
	};
	struct config_strings s = { 0 };
	unsigned rights = 0;
	struct err e;
	size_t mark = config_enter(&r->ctx, field);
	int rc = config_decode_value(&r->ctx, &as_strings, n, &s, &e);
	config_leave(&r->ctx, mark);
	if (rc) {
		web_reading_problem(r, &e);
		return 0;
	}
	for (size_t i = 0; i < s.n; i++) {
		unsigned bit = 0;
		for (size_t k = 0; k < ARRAY_LEN(words); k++)
			if (strcmp(words[k].word, s.v[i]) == 0)
				bit = words[k].bit;
		if (!bit)
			web_reading_wrong(r, n->items[i], field, "\"%s\" is not one of read, write, admin", s.v[i]);
		rights |= bit;
	}
	if (!s.n)
		web_reading_wrong(r, n, field, "no right at all; it is some of read, write, admin");
	return rights;
}

/* ---- users ---- */

static void read_user(struct web_reading *r, const struct config_pair *p, struct web_user *u)
{
	struct view name = p->key->text, hash = p->value->text;
	unsigned cost = 0;
	struct err e = { 0 };
	u->name = arena_strndup(r->ctx.arena, name.ptr, name.len);
	u->rights = HTTPD_RIGHT_ALL;
	size_t mark = config_enter(&r->ctx, "basic_auth_users");
	if (!name.len || memchr(name.ptr, ':', name.len))
		web_reading_wrong(r, p->key, u->name, "a user's name is not empty and has no colon");
	if (p->value->type != CONFIG_NODE_SCALAR || bcrypt_cost(hash, &cost, &e))
		web_reading_wrong(r, p->value, u->name, "%s. htpasswd -nBC 10 NAME makes one", e.code ? e.msg : "not a bcrypt hash");
	else if (cost > BCRYPT_COST_SLOW)
		config_warn(&r->ctx, p->value, "a cost of %u: a login takes many seconds", cost);
	config_leave(&r->ctx, mark);
	u->hash = arena_strndup(r->ctx.arena, hash.ptr ? hash.ptr : "", hash.len);
}

/* The pairs of a section that is a map; false: there are none. */
static bool has_pairs(struct web_reading *r, const struct config_node *n, const char *field)
{
	if (!n || n->type == CONFIG_NODE_NULL)
		return false;
	if (n->type != CONFIG_NODE_MAP)
		web_reading_wrong(r, n, field, "a map is wanted");
	else if (n->n > MAX_LOGINS)
		web_reading_wrong(r, n, field, "more than %d", MAX_LOGINS);
	else
		return true;
	return false;
}

static void read_users(struct web_reading *r, const struct config_node *n)
{
	if (!has_pairs(r, n, "basic_auth_users"))
		return;
	struct web_user *users = arena_calloc(r->ctx.arena, n->n + 1, sizeof *users);
	for (size_t i = 0; i < n->n; i++)
		read_user(r, &n->pairs[i], &users[i]);
	r->w->users = users;
	r->w->n_users = n->n;
}

static void read_user_rights(struct web_reading *r, const struct config_node *n)
{
	if (!has_pairs(r, n, "user_rights"))
		return;
	struct web_user *users = (struct web_user *)(uintptr_t)r->w->users;
	size_t mark = config_enter(&r->ctx, "user_rights");
	for (size_t i = 0; i < n->n; i++) {
		const struct config_pair *p = &n->pairs[i];
		struct web_user *found = NULL;
		for (size_t k = 0; k < r->w->n_users; k++)
			if (view_eqs(p->key->text, users[k].name))
				found = &users[k];
		unsigned rights = read_rights(r, p->value, p->key->text.ptr);
		if (found)
			found->rights = rights;
		else
			web_reading_wrong(r, p->key, p->key->text.ptr, "there is no such user in basic_auth_users");
	}
	config_leave(&r->ctx, mark);
}

/* ---- tokens ---- */

struct token_section {
	const char *name, *sha256, *file;
	const struct config_node *rights;
};

static const struct config_field token_rows[] = {
	{ "name", CONFIG_STRING, offsetof(struct token_section, name) },
	{ "sha256", CONFIG_STRING, offsetof(struct token_section, sha256) },
	{ "token_file", CONFIG_PATH, offsetof(struct token_section, file) },
	{ "rights", CONFIG_NODE, offsetof(struct token_section, rights) },
};
static const struct config_table token_table = CONFIG_TABLE(struct token_section, token_rows, NULL);

/* As sent in a header: no blanks, nothing beyond ASCII. */
static bool is_token(struct view v)
{
	for (size_t i = 0; i < v.len; i++)
		if (v.ptr[i] <= ' ' || v.ptr[i] >= 0x7f)
			return false;
	return v.len > 0;
}

/* A line's end, and blanks around, are no part of it. */
static void read_token_file(struct web_reading *r, const struct config_node *n, const char *field, const char *path, unsigned char ret[WEB_SHA256])
{
	struct buf text = { 0 };
	struct err e;
	int rc = web_reading_file(r, path, MAX_TOKEN, &text, &e);
	struct view v = buf_view(&text);
	while (v.len && strchr(" \t\r\n", v.ptr[v.len - 1]))
		v.len--;
	while (v.len && strchr(" \t\r\n", v.ptr[0]))
		v = view_make(v.ptr + 1, v.len - 1);
	if (rc)
		web_reading_wrong(r, n, field, "%s", e.msg);
	else if (!is_token(v))
		web_reading_wrong(r, n, field, "%s: a token is one word of printable ASCII", path);
	else if (v.len < SHORT_TOKEN)
		config_warn(&r->ctx, n, "%s: a token of %zu characters can be guessed", path, v.len);
	web_config_hash(v, ret);
	if (text.ptr)
		explicit_bzero(text.ptr, text.len);
	buf_free(&text);
}

static void read_token_secret(struct web_reading *r, const struct config_node *n, const struct token_section *s, struct web_token *t)
{
	bool has_file = s->file && *s->file, has_hash = s->sha256 && *s->sha256;
	if (has_file == has_hash)
		web_reading_wrong(r, n, "sha256", has_file ? "sha256 and token_file are both given; one is enough"
							   : "missing one of sha256 or token_file");
	else if (has_file)
		read_token_file(r, config_get(n, "token_file"), "token_file", s->file, t->sha256);
	else if (!parse_sha256(view_of(s->sha256), t->sha256))
		web_reading_wrong(r, config_get(n, "sha256"), "sha256", "not 64 hexadecimal digits; printf %%s TOKEN | sha256sum makes them");
}

static void read_token(struct web_reading *r, const struct config_node *n, struct web_token *t)
{
	struct token_section s = { 0 };
	size_t before = r->n_problems;
	if (n->type != CONFIG_NODE_MAP) {
		web_reading_wrong(r, n, "name", "a map is wanted: name, sha256 or token_file, rights");
		return;
	}
	for (size_t i = 0; i < n->n; i++) {
		struct config_node one = *n;
		struct err e;
		one.pairs = &n->pairs[i];
		one.n = 1;
		if (config_decode(&r->ctx, &token_table, &one, &s, &e))
			web_reading_problem(r, &e);
	}
	t->name = s.name ? s.name : "";
	if (r->n_problems > before)
		return;
	if (!*t->name)
		web_reading_wrong(r, n, "name", "is missing");
	if (s.rights)
		t->rights = read_rights(r, s.rights, "rights");
	else
		web_reading_wrong(r, n, "rights", "is missing; it is some of read, write, admin");
	read_token_secret(r, n, &s, t);
}

/* Two entries with one name, or one secret under two names, whose rights would be ambiguous. */
static void check_twins(struct web_reading *r, const struct config_node *n, const struct web_token *tokens, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (strcmp(tokens[i].name, tokens[at].name) == 0)
			web_reading_wrong(r, n, "name", "\"%s\" is there twice", tokens[at].name);
		else if (memcmp(tokens[i].sha256, tokens[at].sha256, WEB_SHA256) == 0)
			web_reading_wrong(r, n, "name", "\"%s\" is the same token as \"%s\"", tokens[at].name, tokens[i].name);
	}
}

static void read_tokens(struct web_reading *r, const struct config_node *n)
{
	if (!n || n->type == CONFIG_NODE_NULL)
		return;
	if (n->type != CONFIG_NODE_LIST || n->n > MAX_LOGINS) {
		web_reading_wrong(r, n, "tokens", "a list is wanted, of at most %d", MAX_LOGINS);
		return;
	}
	struct web_token *tokens = arena_calloc(r->ctx.arena, n->n + 1, sizeof *tokens);
	for (size_t i = 0; i < n->n; i++) {
		size_t mark = config_enter(&r->ctx, "tokens"), before = r->n_problems;
		config_enter_index(&r->ctx, i);
		read_token(r, n->items[i], &tokens[i]);
		if (r->n_problems == before)
			check_twins(r, n->items[i], tokens, i);
		config_leave(&r->ctx, mark);
	}
	r->w->tokens = tokens;
	r->w->n_tokens = n->n;
}

void web_logins_read(struct web_reading *r, const struct config_node *users, const struct config_node *rights, const struct config_node *tokens)
{
	read_users(r, users);
	read_user_rights(r, rights);
	read_tokens(r, tokens);
}
