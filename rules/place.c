/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/place.h"

#include "base/num.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct place_cursor {
	struct view file;
	size_t at;
	struct rule_place p;
};

static void step(struct place_cursor *c)
{
	if (c->file.ptr[c->at++] == '\n') {
		c->p.line++;
		c->p.column = 1;
	} else if (c->at >= c->file.len || ((unsigned char)c->file.ptr[c->at] & 0xc0) != 0x80) { /* columns are characters */
		c->p.column++;
	}
}

static void skip_line(struct place_cursor *c)
{
	while (c->at < c->file.len && c->file.ptr[c->at] != '\n')
		step(c);
}

/* Over the tag and the anchor that may stand before a value. */
static void skip_properties(struct place_cursor *c)
{
	while (c->at < c->file.len && (c->file.ptr[c->at] == '&' || c->file.ptr[c->at] == '!')) {
		while (c->at < c->file.len && !is_blank(c->file.ptr[c->at]))
			step(c);
		while (c->at < c->file.len && is_blank(c->file.ptr[c->at]))
			step(c);
	}
}

/* In quotes: whether what stands here is written with two characters. *ret_none: and is a blank, or nothing. */
static bool is_escape(const struct place_cursor *c, char quote, bool *ret_none)
{
	*ret_none = false;
	if (c->at + 1 >= c->file.len)
		return false;
	char a = c->file.ptr[c->at], b = c->file.ptr[c->at + 1];
	if (quote == '\'')
		return a == '\'' && b == '\'';
	if (quote != '"' || a != '\\')
		return false;
	*ret_none = is_blank(b) || b == 'n' || b == 't' || b == 'r' || b == '_';
	return true;
}

struct rule_place place_of(struct view file, const struct config_node *scalar, size_t at)
{
	struct rule_place own = { scalar->line, scalar->column };
	struct place_cursor c = { .file = file, .p = { 1, 1 } };
	size_t wanted = 0;
	if (scalar->raw.len || scalar->field)
		return own;
	size_t n = scalar->text.len;
	while (n && is_blank(scalar->text.ptr[n - 1]))
		n--;
	bool past = at >= n; /* behind the last */
	for (size_t i = 0; i < at && i < n; i++)
		wanted += !is_blank(scalar->text.ptr[i]);
	wanted -= past && wanted;
	while (c.at < file.len && (c.p.line < own.line || (c.p.line == own.line && c.p.column < own.column)))
		step(&c);
	skip_properties(&c);
	if (c.at >= file.len)
		return own;
	char quote = scalar->quoted ? file.ptr[c.at] : 0;
	if (quote == '|' || quote == '>')
		skip_line(&c);
	else if (quote)
		step(&c);
	for (size_t seen = 0; c.at < file.len; step(&c)) {
		bool none, escape = (quote == '"' || quote == '\'') && is_escape(&c, quote, &none);
		if (is_blank(file.ptr[c.at]))
			continue;
		if (escape && none) {
			step(&c);
			continue;
		}
		if (seen++ == wanted) {
			c.p.column += past;
			return c.p;
		}
		if (escape)
			step(&c);
	}
	return own;
}

/* "12:" into 12; false: it does not begin so. */
static bool take_number(const char **at, uint64_t *ret)
{
	size_t digits = strspn(*at, "0123456789");
	if (!num_parse_u64(view_make(*at, digits), ret) || !*ret || (*at)[digits] != ':')
		return false;
	*at += digits + 1;
	return true;
}

size_t place_in_message(struct view text, const char *message, const char **ret_rest)
{
	uint64_t line, column;
	size_t at = 0;
	if (!take_number(&message, &line) || !take_number(&message, &column))
		return SIZE_MAX;
	*ret_rest = message + strspn(message, " ");
	for (; line > 1; line--) {
		const char *nl = memchr(text.ptr + at, '\n', text.len - at);
		if (!nl)
			return SIZE_MAX;
		at = (size_t)(nl - text.ptr) + 1;
	}
	return MIN(at + column - 1, text.len);
}
