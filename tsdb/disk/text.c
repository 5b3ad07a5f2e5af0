/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/disk/text.h"

#include <inttypes.h>
#include <string.h>

#include "base/map.h"
#include "base/num.h"

#define TEXT_CHECKSUM "checksum "

void text_put_checksum(struct buf *b, size_t from)
{
	uint64_t sum = b->overflow ? 0 : hash_stable(b->ptr + from, b->len - from);
	buf_printf(b, TEXT_CHECKSUM "%016" PRIx64 "\n", sum);
}

bool text_checked(struct view text, const char *first, struct view *ret)
{
	CLEANUP(buf_free) struct buf want = { 0 };
	const char *end = text.len ? memmem(text.ptr, text.len, "\n" TEXT_CHECKSUM, strlen(TEXT_CHECKSUM) + 1) : NULL;
	size_t head = strlen(first);
	if (!end || !view_starts(text, view_of(first)) || text.ptr[head] != '\n')
		return false;
	size_t len = (size_t)(end - text.ptr) + 1;
	buf_put(&want, text.ptr, len);
	text_put_checksum(&want, 0);
	*ret = view_make(text.ptr + head + 1, len - head - 1);
	return view_starts(text, buf_view(&want));
}

bool text_line(struct view *text, struct view *ret)
{
	const char *end = text->len ? memchr(text->ptr, '\n', text->len) : NULL;
	if (!end)
		return false;
	*ret = view_make(text->ptr, (size_t)(end - text->ptr));
	*text = view_make(end + 1, text->len - ret->len - 1);
	return true;
}

bool text_numbers(struct view line, const char *form, int64_t *ret)
{
	size_t at = 0;
	for (; *form; form++) {
		if (*form != '#') {
			if (at == line.len || line.ptr[at++] != *form)
				return false;
			continue;
		}
		size_t len = 0;
		while (at + len < line.len && line.ptr[at + len] != ' ')
			len++;
		if (!num_parse_i64(view_make(line.ptr + at, len), ret++))
			return false;
		at += len;
	}
	return at == line.len;
}
