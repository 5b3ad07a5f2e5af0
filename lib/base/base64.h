/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 of RFC 4648 into bytes. */
#ifndef PYRRHA_BASE_BASE64_H
#define PYRRHA_BASE_BASE64_H

#include "base/view.h"

/* Bytes that base64_decode may write for n characters, with the NUL that it adds. */
#define BASE64_ROOM(n) ((n) / 4 * 3 + 4)

/* The standard alphabet with its padding; blanks and line breaks are passed over. False if the text is malformed. `out`
 * holds BASE64_ROOM(in.len); a NUL follows the bytes and is not counted. */
bool base64_decode(struct view in, char *out, size_t *ret_n);

#endif
