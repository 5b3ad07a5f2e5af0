/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: checking and stepping. RFC 3629: no surrogates, nothing overlong, nothing above U+10FFFF. */
#ifndef PYRRHA_BASE_UTF8_H
#define PYRRHA_BASE_UTF8_H

#include "base/view.h"

/* Length in bytes of the valid sequence at p (1..4), or 0 if these bytes are malformed; *ret_cp gets the code
 * point. n > 0. */
unsigned utf8_decode(const char *p, size_t n, uint32_t *ret_cp);
/* Writes 1..4 bytes; cp must be a valid scalar value. */
unsigned utf8_encode(uint32_t cp, char out[4]);
/* The first character of v, which is not empty, in a text that people read; returns how many bytes it is. Malformed bytes, and characters that no XML
 * may hold, are U+FFFD, one by one; line breaks and tabs are blanks. */
size_t utf8_shown(struct view v, uint32_t *ret_cp);
bool utf8_valid(struct view v);
/* Its first max bytes or fewer: no sequence is cut. */
struct view utf8_prefix(struct view v, size_t max);

#endif
