/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/redact.h"

static const struct err_info table[ERR_CODES_] = {
	[ERR_NONE] = { "", 200 },
	[ERR_BAD_DATA] = { "bad_data", 400 },
	[ERR_EXECUTION] = { "execution", 422 },
	[ERR_CANCELED] = { "canceled", 499 },
	[ERR_TIMEOUT] = { "timeout", 503 },
	[ERR_LIMIT] = { "execution", 422 },
	[ERR_NOT_FOUND] = { "not_found", 404 },
	[ERR_DENIED] = { "denied", 403 },
	[ERR_CONFLICT] = { "bad_data", 400 },
	[ERR_UNAVAILABLE] = { "unavailable", 503 },
	[ERR_BUSY] = { "unavailable", 503 },
	[ERR_IO] = { "internal", 500 },
	[ERR_CORRUPT] = { "internal", 500 },
	[ERR_INTERNAL] = { "internal", 500 },
};

const struct err_info *err_info(enum err_code code)
{
	return &table[(unsigned)code < ERR_CODES_ ? code : ERR_INTERNAL];
}

int err_vset(struct err *e, enum err_code code, const char *fmt, va_list ap)
{
	if (e) {
		char tmp[sizeof e->msg]; /* an argument may be e->msg itself */
		vsnprintf(tmp, sizeof tmp, fmt, ap);
		redact_string(tmp, sizeof tmp);
		e->code = code;
		memcpy(e->msg, tmp, sizeof tmp);
	}
	return -(int)code;
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int rc = err_vset(e, code, fmt, ap);
	va_end(ap);
	return rc;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	if (!e)
		return -ERR_INTERNAL;
	char tmp[sizeof e->msg];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(tmp, sizeof tmp, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof tmp)
		snprintf(tmp + n, sizeof tmp - (size_t)n, ": %.*s", (int)sizeof e->msg, e->msg);
	redact_string(tmp, sizeof tmp);
	memcpy(e->msg, tmp, sizeof tmp);
	return -(int)e->code;
}

int err_errno(struct err *e, int errnum, const char *fmt, ...)
{
	enum err_code code = errnum == ENOENT ? ERR_NOT_FOUND :
			     errnum == EACCES || errnum == EPERM ? ERR_DENIED : ERR_IO;
	va_list ap;
	va_start(ap, fmt);
	err_vset(e, code, fmt, ap);
	va_end(ap);
	if (e) {
		size_t n = strlen(e->msg);
		snprintf(e->msg + n, sizeof e->msg - n, ": %s", strerror(errnum));
	}
	return -(int)code;
}

/* The unit of a part of a duration. */
static const char *skip_unit(const char *s)
{
	size_t n = strncmp(s, "ms", 2) == 0 ? 2 : *s && strchr("ywdhms", *s) ? 1 : 0;
	return isalpha((unsigned char)s[n]) ? s : s + n;
}

/* Numbers, and durations as a whole: 1s equals 1s2ms. */
static const char *skip_numbers(const char *s)
{
	while (isdigit((unsigned char)*s))
		s = skip_unit(s + strspn(s, "0123456789"));
	return s;
}

bool err_same_but_for_numbers(const char *a, const char *b)
{
	for (a = skip_numbers(a), b = skip_numbers(b); *a && *a == *b; a = skip_numbers(a + 1), b = skip_numbers(b + 1))
		;
	return *a == *b;
}
