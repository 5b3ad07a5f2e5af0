/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template_quote.h"

#include "base/utf8.h"
#include "rules/template/template_unicode.h"

static void put_rune(uint32_t r, struct buf *out)
{
	char tmp[4];
	buf_put(out, tmp, utf8_encode(r, tmp));
}

static void put_escaped(uint32_t r, char quote, bool ascii, struct buf *out)
{
	static const char named[] = "\a\b\f\n\r\t\v", names[] = "abfnrtv";
	if (r == (unsigned char)quote || r == '\\')
		buf_printf(out, "\\%c", (char)r);
	else if (rune_is_print(r) && (!ascii || r < 0x80))
		put_rune(r, out);
	else if (r && r < 0x80 && strchr(named, (int)r))
		buf_printf(out, "\\%c", names[strchr(named, (int)r) - named]);
	else if (r < ' ' || r == 0x7f)
		buf_printf(out, "\\x%02x", r);
	else if (r < 0x10000)
		buf_printf(out, "\\u%04x", r);
	else
		buf_printf(out, "\\U%08x", r);
}

void go_quote(struct view v, char quote, bool ascii, struct buf *out)
{
	uint32_t r;
	buf_putc(out, quote);
	for (size_t i = 0; i < v.len && !out->overflow;) {
		unsigned n = rune_decode(v.ptr + i, v.len - i, &r);
		if (n == 1 && r == RUNE_BAD)
			buf_printf(out, "\\x%02x", (unsigned char)v.ptr[i]);
		else
			put_escaped(r, quote, ascii, out);
		i += n;
	}
	buf_putc(out, quote);
}

void go_quote_rune(uint32_t r, bool ascii, struct buf *out)
{
	if (r > RUNE_MAX || (r >= 0xd800 && r < 0xe000))
		r = RUNE_BAD;
	buf_putc(out, '\'');
	put_escaped(r, '\'', ascii, out);
	buf_putc(out, '\'');
}

bool go_can_backquote(struct view v)
{
	uint32_t r;
	for (size_t i = 0; i < v.len;) {
		unsigned n = rune_decode(v.ptr + i, v.len - i, &r);
		i += n;
		if (n > 1 ? r == 0xfeff : r == RUNE_BAD || (r < ' ' && r != '\t') || r == '`' || r == 0x7f)
			return false;
	}
	return true;
}

/* Digits of a base; false: too few, or other characters. */
static bool digits_of(struct view v, unsigned n, unsigned base, uint32_t *ret)
{
	uint32_t x = 0;
	if (v.len < n)
		return false;
	for (unsigned i = 0; i < n; i++) {
		char c = v.ptr[i] | 0x20;
		unsigned d = v.ptr[i] >= '0' && v.ptr[i] <= '9' ? (unsigned)(v.ptr[i] - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16;
		if (d >= base)
			return false;
		x = x * base + d;
	}
	*ret = x;
	return true;
}

/* After a backslash. */
static size_t unquote_escape(struct view v, char quote, uint32_t *ret, bool *ret_byte)
{
	static const char names[] = "abfnrtv\\", values[] = "\a\b\f\n\r\t\v\\";
	char c = v.ptr[0];
	const char *named = c ? strchr(names, c) : NULL;
	unsigned n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	if (named) {
		*ret = (unsigned char)values[named - names];
		return 1;
	}
	if (c == '\'' || c == '"') {
		*ret = (unsigned char)c;
		return c == quote;
	}
	if (n) {
		*ret_byte = c == 'x';
		if (!digits_of(view_make(v.ptr + 1, v.len - 1), n, 16, ret))
			return 0;
		return c == 'x' || (*ret <= RUNE_MAX && !(*ret >= 0xd800 && *ret < 0xe000)) ? n + 1 : 0;
	}
	*ret_byte = true;
	return digits_of(v, 3, 8, ret) && *ret < 256 ? 3 : 0;
}

size_t go_unquote_char(struct view v, char quote, uint32_t *ret, bool *ret_byte)
{
	*ret_byte = false;
	if (!v.len || v.ptr[0] == quote)
		return 0;
	if (v.ptr[0] != '\\')
		return rune_decode(v.ptr, v.len, ret);
	if (v.len < 2)
		return 0;
	size_t n = unquote_escape(view_make(v.ptr + 1, v.len - 1), quote, ret, ret_byte);
	return n ? n + 1 : 0;
}
