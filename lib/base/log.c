/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/redact.h"

#define LINE_MAX_BYTES 8192

static enum log_level least_level = LOG_LEVEL_INFO;
static enum log_format line_format = LOG_FORMAT_LOGFMT;
static const char *const level_names[] = { "debug", "info", "warn", "error" };

void log_setup(enum log_level least, enum log_format format)
{
	least_level = least;
	line_format = format;
}

bool log_parse_level(const char *s, enum log_level *ret)
{
	for (unsigned i = 0; i < ARRAY_LEN(level_names); i++)
		if (strcmp(s, level_names[i]) == 0) {
			*ret = (enum log_level)i;
			return true;
		}
	return false;
}

bool log_parse_format(const char *s, enum log_format *ret)
{
	*ret = strcmp(s, "json") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_LOGFMT;
	return *ret == LOG_FORMAT_JSON || strcmp(s, "logfmt") == 0;
}

bool log_enabled(enum log_level level)
{
	return level >= least_level;
}

char *log_num(char out[24], int64_t n)
{
	snprintf(out, 24, "%lld", (long long)n);
	return out;
}

static bool plain(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == '=' || *s == '"' || *s == '\\' || *s == 0x7f)
			return false;
	return true;
}

static void put_value(struct buf *b, const char *key, const char *value)
{
	if (line_format == LOG_FORMAT_JSON) {
		buf_puts(b, b->len ? "," : "{");
		buf_json_string(b, view_of(key));
		buf_putc(b, ':');
		buf_json_string(b, view_of(value));
		return;
	}
	if (b->len)
		buf_putc(b, ' ');
	buf_puts(b, key);
	buf_putc(b, '=');
	if (*value && plain(value))
		buf_puts(b, value);
	else
		buf_json_string(b, view_of(value));
}

static void put_pair(struct buf *b, const char *key, const char *value)
{
	struct buf shown = { 0 };
	if (value && strstr(value, "://")) { /* a URL, or a text that has one in it */
		redact_user_info(view_of(value), false, "<secret>", &shown);
		value = shown.ptr;
	}
	put_value(b, key, value ? value : "");
	buf_free(&shown);
}

void log_write(enum log_level level, const char *file, int line, ...)
{
	struct buf b = { .max = LINE_MAX_BYTES };
	char ts[RFC3339_LEN], where[64];
	const char *base = strrchr(file, '/');
	snprintf(where, sizeof where, "%s:%d", base ? base + 1 : file, line);
	put_pair(&b, "ts", clock_rfc3339_ms(clock_now_ms(), ts));
	put_pair(&b, "level", level_names[level]);
	put_pair(&b, "caller", where);
	va_list ap;
	va_start(ap, line);
	for (const char *key; (key = va_arg(ap, const char *));)
		put_pair(&b, key, va_arg(ap, const char *));
	va_end(ap);
	b.max = LINE_MAX_BYTES + 2;
	buf_puts(&b, line_format == LOG_FORMAT_JSON ? "}\n" : "\n");
	if (b.ptr && write(STDERR_FILENO, b.ptr, b.len) < 0) {
		/* there is nowhere left to report it */
	}
	buf_free(&b);
}
