/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors as Kubernetes reads them. Only checks that they can be parsed: the server applies them.
 *
 *	labels   term,term,...    term: KEY | !KEY | KEY (= == !=) VALUE | KEY (in notin) (VALUE,...) | KEY (< >) NUMBER
 *	fields   term,term,...    term: FIELD (= == !=) VALUE      '\' before ',' '=' '\' takes them as they are
 */
#include <ctype.h>

#include "discovery/sd_kubernetes.h"

struct reader {
	const char *at;
	const char *whole;
	struct err *e;
};

static void skip_space(struct reader *r)
{
	while (isspace((unsigned char)*r->at))
		r->at++;
}

static bool take(struct reader *r, const char *token)
{
	skip_space(r);
	size_t n = strlen(token);
	if (strncmp(r->at, token, n) != 0)
		return false;
	r->at += n;
	return true;
}

static struct view word(struct reader *r)
{
	skip_space(r);
	size_t n = strcspn(r->at, " \t\r\n,()=!<>");
	struct view v = view_make(r->at, n);
	r->at += n;
	return v;
}

static int wrong(const struct reader *r, const char *what)
{
	return err_set(r->e, ERR_BAD_DATA, "cannot read the selector \"%s\" at \"%.40s\": %s", r->whole, r->at, what);
}

/* Begins and ends with a letter or digit, has -_. between, at most 63 bytes. */
static bool plain_name(struct view v)
{
	for (size_t i = 0; i < v.len; i++)
		if (!isalnum((unsigned char)v.ptr[i]) && !(i && i + 1 < v.len && strchr("-_.", v.ptr[i])))
			return false;
	return v.len <= 63;
}

/* "name", or "prefix/name" whose prefix is a DNS name. */
static bool label_key(struct view key)
{
	const char *slash = memchr(key.ptr, '/', key.len);
	struct view prefix = { key.ptr, slash ? (size_t)(slash - key.ptr) : 0 };
	struct view rest = slash ? view_make(slash + 1, key.len - prefix.len - 1) : key;
	if (slash && (!prefix.len || prefix.len > 253))
		return false;
	for (size_t i = 0; i < prefix.len; i++) {
		char c = prefix.ptr[i];
		bool inner = i && i + 1 < prefix.len;
		if (!islower((unsigned char)c) && !isdigit((unsigned char)c) && !(inner && (c == '-' || c == '.')))
			return false;
	}
	return rest.len && plain_name(rest);
}

static int read_set(struct reader *r)
{
	if (!take(r, "("))
		return wrong(r, "'(' is wanted");
	do {
		if (!plain_name(word(r)))
			return wrong(r, "not the value of a label");
	} while (take(r, ","));
	return take(r, ")") ? 0 : wrong(r, "')' is wanted");
}

static int read_number(struct reader *r)
{
	struct view v = word(r);
	for (size_t i = 0; i < v.len; i++)
		if (!isdigit((unsigned char)v.ptr[i]))
			return wrong(r, "a whole number is wanted");
	return v.len ? 0 : wrong(r, "a whole number is wanted");
}

static int read_requirement(struct reader *r)
{
	bool absent = take(r, "!");
	if (!label_key(word(r)))
		return wrong(r, "not the name of a label");
	skip_space(r);
	if (absent || !*r->at || *r->at == ',')
		return 0;
	if (take(r, "==") || take(r, "!=") || take(r, "="))
		return plain_name(word(r)) ? 0 : wrong(r, "not the value of a label");
	if (take(r, "<") || take(r, ">"))
		return read_number(r);
	struct view op = word(r);
	if (view_eqs(op, "in") || view_eqs(op, "notin"))
		return read_set(r);
	return wrong(r, "=, ==, !=, in, notin, < or > is wanted");
}

int kube_sd_check_label_selector(const char *s, struct err *e)
{
	struct reader r = { s, s, e };
	skip_space(&r);
	if (!*r.at)
		return 0;
	do {
		int rc = read_requirement(&r);
		if (rc)
			return rc;
	} while (take(&r, ","));
	skip_space(&r);
	return *r.at ? wrong(&r, "',' is wanted") : 0;
}

/* Length of the term, up to the next separating comma. */
static size_t term_length(const char *s)
{
	size_t n = 0;
	while (s[n] && s[n] != ',')
		n += s[n] == '\\' && s[n + 1] ? 2 : 1;
	return n;
}

static const char *after_operator(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '=')
			return s + i + 1 + (i + 1 < n && s[i + 1] == '=');
		if (s[i] == '!' && i + 1 < n && s[i + 1] == '=')
			return s + i + 2;
	}
	return NULL;
}

static int read_field(struct reader *r, size_t n)
{
	const char *value = after_operator(r->at, n);
	if (!value)
		return wrong(r, "=, == or != is wanted");
	for (const char *p = value; p < r->at + n; p++) {
		if (*p == '=')
			return wrong(r, "'=' within a value has to be \\=");
		if (*p == '\\' && (++p >= r->at + n || !strchr("\\,=", *p)))
			return wrong(r, "'\\' stands before '\\', ',' or '=' only");
	}
	return 0;
}

int kube_sd_check_field_selector(const char *s, struct err *e)
{
	struct reader r = { s, s, e };
	for (;;) {
		size_t n = term_length(r.at);
		int rc = n ? read_field(&r, n) : 0;
		if (rc)
			return rc;
		r.at += n;
		if (!*r.at)
			return 0;
		r.at++;
	}
}
