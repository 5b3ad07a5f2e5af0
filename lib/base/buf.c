/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "base/alloc.h"
#include "base/num.h"
#include "base/utf8.h"
#include "base/varint.h"

void buf_free(struct buf *b)
{
	free(b->ptr);
	b->ptr = NULL;
	b->len = b->cap = 0;
	b->overflow = false;
}

void buf_trim(struct buf *b)
{
	size_t need = b->len + 1;
	if (!b->ptr || b->cap - need <= need / 8)
		return;
	b->ptr = xrealloc(b->ptr, need);
	b->cap = need;
}

size_t buf_cap_for(const struct buf *b, size_t n)
{
	size_t want = b->len + n + 1;
	return want <= b->cap ? b->cap : MAX(want, b->cap ? b->cap * 2 : 128);
}

void buf_grow(struct buf *b, size_t cap)
{
	size_t max = b->max ? b->max : BUF_DEFAULT_MAX;
	cap = MIN(cap, max + 1);
	if (cap <= b->cap)
		return;
	b->ptr = xrealloc(b->ptr, cap);
	b->cap = cap;
}

bool buf_reserve(struct buf *b, size_t n)
{
	size_t max = b->max ? b->max : BUF_DEFAULT_MAX;
	if (n > max || b->len > max - n) {
		b->overflow = true;
		return false;
	}
	buf_grow(b, buf_cap_for(b, n));
	return true;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	if (!buf_reserve(b, n))
		return;
	if (n)
		memcpy(b->ptr + b->len, p, n);
	b->len += n;
	b->ptr[b->len] = 0;
}

void buf_putc(struct buf *b, char c)
{
	buf_put(b, &c, 1);
}

void buf_puts(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s));
}

void buf_putv(struct buf *b, struct view v)
{
	buf_put(b, v.ptr, v.len);
}

void buf_int(struct buf *b, int64_t v)
{
	if (!buf_reserve(b, NUM_I64_LEN))
		return;
	b->len = (size_t)(num_put_i64(b->ptr + b->len, v) - b->ptr);
	b->ptr[b->len] = 0;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	char small[256];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(small, sizeof small, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n < sizeof small) {
		buf_put(b, small, (size_t)n);
		return;
	}
	if (!buf_reserve(b, (size_t)n))
		return;
	va_start(ap, fmt);
	vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

/* ASCII bytes that are written unescaped. */
static bool json_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

/* The number of plain bytes at the start of p, or up to 15 less: the caller checks the rest one by one. */
static size_t json_plain_run(const char *p, size_t n)
{
	size_t i = 0;
#ifdef __SSE2__
	for (; i + 16 <= n; i += 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(p + i));
		__m128i bad = _mm_cmplt_epi8(x, _mm_set1_epi8(0x20)); /* signed: those from 0x80 on, too */
		for (const char *c = "\"\\<>&"; *c; c++)
			bad = _mm_or_si128(bad, _mm_cmpeq_epi8(x, _mm_set1_epi8(*c)));
		if (_mm_movemask_epi8(bad))
			break;
	}
#else
	(void)p;
	(void)n;
#endif
	return i;
}

void buf_json_string(struct buf *b, struct view v)
{
	buf_putc(b, '"');
	size_t run = 0; /* start of the bytes that are written unescaped */
	for (size_t i = json_plain_run(v.ptr, v.len); i < v.len;) {
		unsigned char c = (unsigned char)v.ptr[i];
		if (json_plain(c)) {
			i++;
			continue;
		}
		uint32_t cp;
		unsigned n = utf8_decode(v.ptr + i, v.len - i, &cp);
		if (n > 1 && cp != 0x2028 && cp != 0x2029) {
			i += n;
			continue;
		}
		buf_put(b, v.ptr + run, i - run);
		if (!n)
			buf_puts(b, "\xef\xbf\xbd");
		else if (c == '"' || c == '\\')
			buf_put(b, (char[2]){ '\\', (char)c }, 2);
		else if (c == '\n')
			buf_puts(b, "\\n");
		else if (c == '\t')
			buf_puts(b, "\\t");
		else if (c == '\r')
			buf_puts(b, "\\r");
		else
			buf_printf(b, "\\u%04x", (unsigned)cp);
		i += n ? n : 1;
		run = i;
	}
	buf_put(b, v.ptr + run, v.len - run);
	buf_putc(b, '"');
}

void buf_varint(struct buf *b, uint64_t v)
{
	if (buf_reserve(b, 10)) {
		b->len += varint_put((uint8_t *)b->ptr + b->len, v);
		b->ptr[b->len] = 0;
	}
}

void buf_zigzag(struct buf *b, int64_t v)
{
	buf_varint(b, zigzag_encode(v));
}

void buf_be32(struct buf *b, uint32_t v)
{
	v = __builtin_bswap32(v);
	buf_put(b, &v, 4);
}

void buf_be64(struct buf *b, uint64_t v)
{
	v = __builtin_bswap64(v);
	buf_put(b, &v, 8);
}

char *buf_take(struct buf *b, size_t *ret_len)
{
	if (!b->ptr)
		buf_put(b, "", 0);
	if (ret_len)
		*ret_len = b->len;
	char *p = b->ptr ? b->ptr : xstrdup("");
	b->ptr = NULL;
	b->len = b->cap = 0;
	return p;
}
