/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of characters for templates, as in Go's package unicode (15.0): which may be in a name, which %q prints unescaped, and
 * their upper and lower case. */
#ifndef PYRRHA_RULES_TEMPLATE_UNICODE_H
#define PYRRHA_RULES_TEMPLATE_UNICODE_H

#include "base/view.h"

#define RUNE_BAD 0xfffd /* replaces a byte that is not UTF-8 */
#define RUNE_MAX 0x10ffff

bool rune_is_print(uint32_t r);
bool rune_is_letter(uint32_t r);
bool rune_is_digit(uint32_t r);
bool rune_is_mark(uint32_t r);
uint32_t rune_upper(uint32_t r);
uint32_t rune_lower(uint32_t r);
uint32_t rune_title(uint32_t r);

/* The character at p (n > 0) and its length; RUNE_BAD and 1 where there is no UTF-8. */
unsigned rune_decode(const char *p, size_t n, uint32_t *ret);
/* How many there are, bytes that are no UTF-8 counted singly. */
size_t rune_count(struct view v);

#endif
