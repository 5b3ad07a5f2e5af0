/* SPDX-License-Identifier: Apache-2.0 */
#include "base/redact.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#define REDACTED "<redacted>"

/* ---- URLs ---- */

/* The bytes that end the part of a URL with user info. */
static bool ends_authority(char c)
{
	return c == '/' || c == '?' || c == '#' || (unsigned char)c <= ' ';
}

/* The bytes from `from` on that are user info; 0: none. */
static size_t user_info(struct view text, size_t from, bool cut)
{
	size_t at = 0, i = from;
	for (; i < text.len && !ends_authority(text.ptr[i]); i++)
		if (text.ptr[i] == '@')
			at = i - from;
	return i == text.len && cut ? i - from : at;
}

void redact_user_info(struct view text, bool cut, const char *with, struct buf *out)
{
	size_t done = 0;
	const char *p;
	while (done < text.len && (p = memmem(text.ptr + done, text.len - done, "://", 3))) {
		size_t from = (size_t)(p - text.ptr) + 3, n = user_info(text, from, cut);
		buf_put(out, text.ptr + done, from - done);
		if (n)
			buf_puts(out, with);
		done = from + n;
		if (n && !*with && done < text.len)
			done++;
	}
	buf_put(out, text.len ? text.ptr + done : "", text.len - done);
}

void redact_string(char *text, size_t room)
{
	struct buf out = { 0 };
	size_t n = strlen(text);
	if (!strstr(text, "://"))
		return;
	redact_user_info(view_make(text, n), n + 1 >= room, "<secret>", &out);
	n = MIN(out.len, room - 1);
	memcpy(text, out.ptr, n);
	text[n] = 0;
	buf_free(&out);
}

/* ---- names ---- */

/* In a name, wherever it stands. */
static const char *const words[] = { "passw", "passphrase", "secret", "token", "credential", "bearer", "pwd" };
/* In a name, where a word ends: "apiKey", "DB_PASS", "keys", "Authorization:"; not "keyspace". */
static const char *const ends[] = { "key", "keys", "pass", "jwt", "authorization", "cookie" };

static bool has_word(struct view name, const char *word, bool at_end)
{
	size_t n = strlen(word);
	for (size_t i = 0; i + n <= name.len; i++)
		if (strncasecmp(name.ptr + i, word, n) == 0 && (!at_end || i + n == name.len || !islower((unsigned char)name.ptr[i + n])))
			return true;
	return false;
}

bool redact_is_secret_name(struct view name)
{
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (has_word(name, words[i], false))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (has_word(name, ends[i], true))
			return true;
	return false;
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Where the value of the first secret-like name begins; text.len: there is none. In "NAME=", "NAME:", "\"NAME\": ", and for what
 * begins with '-' also "NAME ". */
static size_t find_secret(struct view text)
{
	for (size_t i = 0; i < text.len;) {
		size_t from = i;
		while (i < text.len && is_name_char(text.ptr[i]))
			i++;
		if (i == from) {
			i++;
			continue;
		}
		struct view name = view_make(text.ptr + from, i - from);
		size_t at = i;
		while (at < text.len && strchr("\"' ", text.ptr[at]))
			at++;
		bool url = at + 2 < text.len && memcmp(text.ptr + at, "://", 3) == 0, next_word = at > i && text.ptr[i] == ' ' && name.ptr[0] == '-';
		bool value = at < text.len && (text.ptr[at] == '=' || (text.ptr[at] == ':' && !url) || next_word);
		if (next_word && value && text.ptr[at] != '=' && text.ptr[at] != ':')
			at--;
		if (value && redact_is_secret_name(name))
			return at + 1;
	}
	return text.len;
}

/* "user:password@host" without a scheme: where it begins and how long its user info is. An image's "name:tag@sha256:" has no user
 * info. */
static bool find_login(struct view text, size_t *ret_from, size_t *ret_n)
{
	size_t from = 0;
	bool colon = false;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		if (c == '@' && colon && i > from + 1 && !view_starts(view_make(text.ptr + i + 1, text.len - i - 1), VIEW("sha256:"))) {
			*ret_from = from;
			*ret_n = i - from;
			return true;
		}
		if (c == ':' && i > from) {
			colon = true;
		} else if ((unsigned char)c <= ' ' || strchr("/@=,;\"'(", c)) {
			from = i + 1;
			colon = false;
		}
	}
	return false;
}

/* ---- values ---- */

static void put_logins(struct view text, struct buf *out)
{
	size_t from, n;
	while (text.len && find_login(text, &from, &n)) {
		buf_put(out, text.ptr, from);
		buf_puts(out, REDACTED);
		text = view_make(text.ptr + from + n, text.len - from - n);
	}
	buf_putv(out, text);
}

/* Everything behind a secret's name is removed, because the end of its value is unknown. */
void redact_text(struct view text, bool cut, struct buf *out)
{
	struct buf urls = { 0 };
	if (!text.len)
		return;
	size_t n = find_secret(text);
	redact_user_info(view_make(text.ptr, n), cut && n == text.len, REDACTED, &urls);
	put_logins(buf_view(&urls), out);
	if (n < text.len)
		buf_puts(out, REDACTED);
	buf_free(&urls);
}

void redact_command(struct view args, bool cut, char between, struct buf *out)
{
	bool is_value = false; /* the argument before was an option like a secret's */
	for (size_t i = 0; i < args.len;) {
		const char *nul = memchr(args.ptr + i, 0, args.len - i);
		struct view arg = view_make(args.ptr + i, nul ? (size_t)(nul - (args.ptr + i)) : args.len - i);
		if (i)
			buf_putc(out, between);
		i += arg.len + 1;
		if (is_value && !view_starts(arg, VIEW("--"))) {
			buf_puts(out, REDACTED);
			is_value = false;
			continue;
		}
		redact_text(arg, cut && i > args.len, out);
		is_value = view_starts(arg, VIEW("-")) && !memchr(arg.ptr, '=', arg.len) && redact_is_secret_name(arg);
	}
}
