/* SPDX-License-Identifier: Apache-2.0 */
/* An address of this host has a meaning only within a process. pprof asks for addresses of profiles, which several programs may have:
 * those are not answered. */
#include "agent/serve/serve_symbol.h"

#include <stdlib.h>

#define WORD_BYTES 4096 /* as much as Go reads of one */

/* 0 for what is no number: 0x hexadecimal, 0b binary, 0o or 0 octal, else decimal; underscores between digits. */
static uint64_t parse_pc(struct view word)
{
	unsigned base = 10;
	uint64_t n = 0;
	size_t i = 0, digits = 0;
	if (word.len > 1 && word.ptr[0] == '0') {
		char c = (char)(word.ptr[1] | 0x20);
		base = c == 'x' ? 16 : c == 'b' ? 2 : 8;
		i = c == 'x' || c == 'b' || c == 'o' ? 2 : 1;
	}
	size_t prefix = i;
	for (; i < word.len; i++) {
		char c = word.ptr[i];
		if (c == '_' && prefix && i + 1 < word.len && word.ptr[i - 1] != '_')
			continue;
		unsigned d = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ?
			     (unsigned)((c | 0x20) - 'a' + 10) : 99;
		if (d >= base || __builtin_mul_overflow(n, (uint64_t)base, &n) || __builtin_add_overflow(n, (uint64_t)d, &n))
			return 0;
		digits++;
	}
	return digits ? n : 0;
}

static void put_symbol(struct symbolizer *s, uint64_t pc, struct buf *out)
{
	struct sym_frame f[SYM_FRAMES_MAX];
	size_t n = pc ? symbolizer_resolve_alone(s, pc, f) : 0;
	if (n) /* the function's own frame is the last */
		buf_printf(out, "0x%llx %.*s\n", (unsigned long long)pc, VIEW_ARG(f[n - 1].name));
}

void serve_symbols(struct symbolizer *s, struct view question, struct buf *out)
{
	buf_puts(out, "num_symbols: 1\n");
	symbolizer_begin(s);
	for (size_t i = 0; i < question.len;) {
		const char *plus = memchr(question.ptr + i, '+', question.len - i);
		size_t n = plus ? (size_t)(plus - (question.ptr + i)) : question.len - i;
		if (n > WORD_BYTES) {
			buf_puts(out, "reading request: bufio: buffer full\n");
			break;
		}
		put_symbol(s, parse_pc(view_make(question.ptr + i, n)), out);
		i += n + 1;
	}
	symbolizer_end(s);
}
