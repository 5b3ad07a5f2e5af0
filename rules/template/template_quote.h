/* SPDX-License-Identifier: Apache-2.0 */
/* Strings as Go writes them. */
#ifndef PYRRHA_RULES_TEMPLATE_QUOTE_H
#define PYRRHA_RULES_TEMPLATE_QUOTE_H

#include "base/buf.h"

/* In quotes, with escapes for what is not printable; ascii: for all above ASCII too. */
void go_quote(struct view v, char quote, bool ascii, struct buf *out);
/* One character in single quotes. */
void go_quote_rune(uint32_t r, bool ascii, struct buf *out);
/* Whether it can stand between `, as a line. */
bool go_can_backquote(struct view v);
/* One character, or a byte, of a literal: *ret_byte says which. Returns the bytes read, 0: malformed. */
size_t go_unquote_char(struct view v, char quote, uint32_t *ret, bool *ret_byte);

#endif
