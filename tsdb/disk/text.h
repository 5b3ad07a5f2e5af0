/* SPDX-License-Identifier: Apache-2.0 */
/* Small text files of the storage: a first line that names the format, lines of words and numbers, and a checksum of all of that as the
 * last line. Pure: bytes in, bytes out. */
#ifndef PYRRHA_TSDB_TEXT_H
#define PYRRHA_TSDB_TEXT_H

#include "base/buf.h"

/* Appends the line with the checksum of what b has from `from` on. */
void text_put_checksum(struct buf *b, size_t from);
/* Whether the text begins with the line `first`, and has a checksum that holds; ret: the lines between. Borrows text. */
bool text_checked(struct view text, const char *first, struct view *ret);
/* Takes the first line off the text, without its end; false: there is none. */
bool text_line(struct view *text, struct view *ret);
/* Whether a line is `form`, in which each # stands for a decimal number; these go to ret. */
bool text_numbers(struct view line, const char *form, int64_t *ret);

#endif
