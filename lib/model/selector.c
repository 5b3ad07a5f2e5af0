/* SPDX-License-Identifier: Apache-2.0 */
#include "model/selector.h"

struct reader {
	struct view in;
	size_t at;
	struct selector *out;
	struct err *e;
};

static int bad(struct reader *r, const char *what)
{
	return err_set(r->e, ERR_BAD_DATA, "selector \"%.*s\": byte %zu: %s", VIEW_ARG(r->in), r->at + 1, what);
}

static void blanks(struct reader *r)
{
	while (r->at < r->in.len && strchr(" \t\r\n", r->in.ptr[r->at]))
		r->at++;
}

static bool eat(struct reader *r, const char *text)
{
	struct view t = view_of(text), rest = view_make(r->in.ptr + r->at, r->in.len - r->at);
	if (!view_starts(rest, t))
		return false;
	r->at += t.len;
	return true;
}

static struct view word(struct reader *r, bool colons)
{
	size_t first = r->at;
	while (r->at < r->in.len) {
		char c = r->in.ptr[r->at];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colons && c == ':') ||
		      (r->at > first && c >= '0' && c <= '9')))
			break;
		r->at++;
	}
	return view_make(r->in.ptr + first, r->at - first);
}

/* A quoted string with Go's simple escapes. */
static int quoted(struct reader *r, struct view *ret)
{
	char quote = r->at < r->in.len ? r->in.ptr[r->at] : 0;
	if (quote != '"' && quote != '\'')
		return bad(r, "a quoted string is expected");
	char *out = arena_alloc(&r->out->arena, r->in.len - r->at + 1);
	size_t n = 0;
	if (!out)
		return bad(r, "too long");
	for (r->at++; r->at < r->in.len && r->in.ptr[r->at] != quote; r->at++) {
		char c = r->in.ptr[r->at];
		if (c == '\\') {
			static const char from[] = "nrt\\\"'", to[] = "\n\r\t\\\"'";
			const char *x = ++r->at < r->in.len ? strchr(from, r->in.ptr[r->at]) : NULL;
			if (!x || !*x)
				return bad(r, "unknown escape");
			c = to[x - from];
		}
		out[n++] = c;
	}
	if (r->at == r->in.len)
		return bad(r, "the string does not end");
	r->at++;
	out[n] = 0;
	*ret = view_make(out, n);
	return 0;
}

static int add(struct reader *r, enum matcher_op op, struct view name, struct view value)
{
	struct matcher m;
	int rc = matcher_init(&m, op, name, value, r->e);
	if (!rc)
		vec_push(&r->out->m, m);
	return rc;
}

static int one_matcher(struct reader *r)
{
	static const struct { const char *text; enum matcher_op op; } ops[] = {
		{ "=~", MATCH_RE }, { "!~", MATCH_NRE }, { "!=", MATCH_NE }, { "=", MATCH_EQ },
	};
	struct view name = word(r, false), value;
	bool is_quoted = !name.len;
	if (is_quoted) {
		int rc = quoted(r, &name);
		if (rc)
			return rc;
	} else {
		name = arena_view(&r->out->arena, name);
		if (!name.ptr)
			return bad(r, "too long");
	}
	blanks(r);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (eat(r, ops[i].text)) {
			blanks(r);
			int rc = quoted(r, &value);
			return rc ? rc : add(r, ops[i].op, name, value);
		}
	/* {"a name"} alone is the metric's name */
	if (is_quoted && r->at < r->in.len && strchr(",}>", r->in.ptr[r->at]))
		return add(r, MATCH_EQ, VIEW(LABEL_NAME), name);
	return bad(r, "one of = != =~ !~ is expected");
}

static int parse(struct reader *r)
{
	blanks(r);
	struct view name = word(r, true);
	if (name.len) {
		name = arena_view(&r->out->arena, name);
		int rc = name.ptr ? add(r, MATCH_EQ, VIEW(LABEL_NAME), name) : bad(r, "too long");
		if (rc)
			return rc;
	}
	blanks(r);
	if (r->at == r->in.len)
		return name.len ? 0 : bad(r, "a selector is expected, such as {container=\"web\"}");
	const char *close = eat(r, "{") ? "}" : eat(r, "<") ? ">" : NULL;
	if (!close)
		return bad(r, "{ or < is expected");
	for (;;) {
		blanks(r);
		if (eat(r, close))
			break;
		int rc = one_matcher(r);
		if (rc)
			return rc;
		blanks(r);
		if (!eat(r, ",")) {
			if (eat(r, close))
				break;
			return bad(r, "a comma or the end of the selector is expected");
		}
	}
	blanks(r);
	return r->at == r->in.len ? 0 : bad(r, "nothing may follow the selector");
}

int selector_parse(struct selector *ret, struct view text, struct err *e)
{
	*ret = (struct selector){ 0 };
	arena_init(&ret->arena, (size_t)1 << 20);
	struct reader r = { .in = text, .out = ret, .e = e };
	return parse(&r);
}

void selector_release(struct selector *s)
{
	for (size_t i = 0; i < s->m.n; i++)
		matcher_release(&s->m.v[i]);
	vec_free(&s->m);
	arena_free(&s->arena);
}
