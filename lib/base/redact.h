/* SPDX-License-Identifier: Apache-2.0 */
/* Text without secrets: URLs lose their user info, and command lines the values of secret-like names. When in doubt more
 * is left out. */
#ifndef PYRRHA_BASE_REDACT_H
#define PYRRHA_BASE_REDACT_H

#include "base/buf.h"

/* Turns "x://user:password@host" into "x://WITH@host" ("x://host" if `with` is empty), for every URL in the text. cut: the text was truncated, so a
 * URL at its end may have unfinished user info. */
void redact_user_info(struct view text, bool cut, const char *with, struct buf *out);
/* The same with <secret>, in place; room: bytes of the buffer, the text ends with a NUL before them. */
void redact_string(char *text, size_t room);

/* Named like a password, a token, a secret or a key: "--db-password", "apiKey", "API_TOKEN"; not "keyspace". */
bool redact_is_secret_name(struct view name);
/* One text, such as the value of a variable: <redacted> replaces user info, and what follows a name like a secret's and = or :. */
void redact_text(struct view text, bool cut, struct buf *out);
/* A command line as /proc has it, a NUL after each argument, with another byte between them. <redacted> replaces what redact_text
 * leaves out, and the argument after an option that is named like a secret. */
void redact_command(struct view args, bool cut, char between, struct buf *out);

#endif
