/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template_text.h"

#include <arpa/inet.h>

#include "base/utf8.h"
#include "rules/template/template_unicode.h"

void ttext_html(struct view v, struct buf *out)
{
	for (size_t i = 0; i < v.len && !out->overflow; i++)
		switch (v.ptr[i]) {
		case 0:
			buf_puts(out, "\xef\xbf\xbd");
			break;
		case '"':
			buf_puts(out, "&#34;");
			break;
		case '\'':
			buf_puts(out, "&#39;");
			break;
		case '&':
			buf_puts(out, "&amp;");
			break;
		case '<':
			buf_puts(out, "&lt;");
			break;
		case '>':
			buf_puts(out, "&gt;");
			break;
		default:
			buf_putc(out, v.ptr[i]);
		}
}

void ttext_js(struct view v, struct buf *out)
{
	uint32_t r;
	for (size_t i = 0; i < v.len && !out->overflow;) {
		unsigned n = rune_decode(v.ptr + i, v.len - i, &r);
		if (r == '\\' || r == '\'' || r == '"')
			buf_printf(out, "\\%c", (char)r);
		else if (r == '<' || r == '>' || r == '&' || r == '=')
			buf_printf(out, "\\u%04X", r);
		else if (r < ' ')
			buf_printf(out, "\\u%04X", r);
		else if (r < 0x80 || rune_is_print(r))
			buf_put(out, v.ptr + i, n);
		else
			buf_printf(out, "\\u%04X", r);
		i += n;
	}
}

void ttext_query(struct view v, struct buf *out)
{
	for (size_t i = 0; i < v.len && !out->overflow; i++) {
		char c = v.ptr[i];
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-_.~", c)))
			buf_putc(out, c);
		else if (c == ' ')
			buf_putc(out, '+');
		else
			buf_printf(out, "%%%02X", (unsigned char)c);
	}
}

static void put_mapped(struct view v, uint32_t (*map)(uint32_t r), struct buf *out)
{
	char text[4];
	uint32_t r;
	for (size_t i = 0; i < v.len && !out->overflow;) {
		i += rune_decode(v.ptr + i, v.len - i, &r);
		buf_put(out, text, utf8_encode(map(r), text));
	}
}

void ttext_upper(struct view v, struct buf *out)
{
	put_mapped(v, rune_upper, out);
}

void ttext_lower(struct view v, struct buf *out)
{
	put_mapped(v, rune_lower, out);
}

/* Word boundaries are those of golang.org/x/text/cases. Letters, digits and _ belong to a word; a single . : or ' between them does,
 * too; everything else ends it. */
void ttext_title(struct view v, struct buf *out)
{
	bool in_word = false, was_mid = false;
	uint32_t r;
	for (size_t i = 0; i < v.len && !out->overflow;) {
		unsigned n = rune_decode(v.ptr + i, v.len - i, &r);
		bool mid = r == '.' || r == ':' || r == '\'' || r == 0xb7 || r == 0x2019;
		bool cased = rune_upper(r) != r || rune_lower(r) != r || r == 0xdf;
		if (was_mid && mid)
			in_word = false;
		if (cased && !in_word) {
			char text[4];
			if (r == 0xdf)
				buf_puts(out, "Ss");
			else
				buf_put(out, text, utf8_encode(rune_title(r), text));
			in_word = true;
		} else {
			buf_put(out, v.ptr + i, n);
			if (!cased && !mid && r != '_' && !rune_is_digit(r) && !rune_is_letter(r) && !rune_is_mark(r))
				in_word = false;
		}
		was_mid = mid;
		i += n;
	}
}

static bool has(struct view v, char c)
{
	return v.len && memchr(v.ptr, c, v.len);
}

bool ttext_split_port(struct view v, struct view *ret_host, struct view *ret_port)
{
	const char *colon = v.len ? memrchr(v.ptr, ':', v.len) : NULL;
	if (!colon)
		return false;
	size_t at = (size_t)(colon - v.ptr);
	struct view host = view_make(v.ptr, at);
	if (*v.ptr == '[') {
		const char *end = memchr(v.ptr, ']', v.len);
		if (!end || end + 1 != colon)
			return false;
		host = view_make(v.ptr + 1, at - 2);
		if (has(host, '['))
			return false;
	} else if (has(host, ':') || has(host, '[') || has(v, ']')) {
		return false;
	}
	struct view port = view_make(colon + 1, v.len - at - 1);
	if (has(port, '[') || has(port, ']'))
		return false;
	*ret_host = host;
	*ret_port = port;
	return true;
}

/* Go refuses leading zeros, as inet_pton does not everywhere. */
static bool is_ip4(const char *s)
{
	struct in_addr a;
	for (const char *p = s; *p; p++)
		if (*p == '0' && (p == s || p[-1] == '.') && p[1] && p[1] != '.')
			return false;
	return inet_pton(AF_INET, s, &a) == 1;
}

bool ttext_is_ip(struct view v)
{
	char text[INET6_ADDRSTRLEN + 1];
	struct in6_addr a;
	if (v.len >= sizeof text || has(v, 0))
		return false;
	memcpy(text, v.ptr, v.len);
	text[v.len] = 0;
	return is_ip4(text) || inet_pton(AF_INET6, text, &a) == 1;
}
