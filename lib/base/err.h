/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: a function that can fail returns 0 or a negative enum err_code and fills the caller's struct err.
 * There is no thread-local "last error". Library code logs only what no caller learns: failures of its own threads, and
 * damage that it works around (most of it in tsdb/). One table (err_info) maps a code to the API's errorType and HTTP status. */
#ifndef PYRRHA_BASE_ERR_H
#define PYRRHA_BASE_ERR_H

#include <stdarg.h>

#include "base/attrs.h"

enum err_code {
	ERR_NONE = 0,
	ERR_BAD_DATA,     /* the request, file or profile itself is wrong */
	ERR_EXECUTION,    /* a query that parses but cannot be answered */
	ERR_CANCELED,     /* the client went away, or shutdown */
	ERR_TIMEOUT,
	ERR_LIMIT,        /* a named limit was passed */
	ERR_NOT_FOUND,
	ERR_DENIED,
	ERR_CONFLICT,     /* duplicates, out of order */
	ERR_UNAVAILABLE,  /* not ready yet, switched off, or shutting down */
	ERR_BUSY,         /* others have the room or the places: the same request succeeds when there are fewer */
	ERR_IO,
	ERR_CORRUPT,      /* stored bytes that fail their checksum or are malformed */
	ERR_INTERNAL,
	ERR_CODES_
};

struct err {
	enum err_code code;
	char msg[1024]; /* without the user info of URLs, as it goes to logs and pages */
};

struct err_info {
	const char *type; /* the API's errorType */
	int http;
};

/* The row of a code; never NULL. */
const struct err_info *err_info(enum err_code code);

/* Sets code and message (what, where, what to do); e may be NULL. Returns -code. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
int err_vset(struct err *e, enum err_code code, const char *fmt, va_list ap) PRINTF_LIKE(3, 0);
/* Puts "context: " before the message that is there, keeps the code. Returns -code. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* From errno: ERR_NOT_FOUND for ENOENT, ERR_DENIED for EACCES and EPERM, else ERR_IO; ": strerror" appended. */
int err_errno(struct err *e, int errnum, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Whether two messages are equal except for the numbers and durations in them: "timed out after 1s" and "timed out after 1s2ms"
 * are the same error. */
bool err_same_but_for_numbers(const char *a, const char *b);

static inline void err_clear(struct err *e)
{
	e->code = ERR_NONE;
	e->msg[0] = 0;
}

#endif
