/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line per event on standard error, logfmt or JSON, key=value. Only cmd/ and thread loops log.
 *
 *	LOG_INFO("msg", "listening", "address", addr);
 *
 * Keys and values are strings, in pairs; the list ends by itself. Secrets never go in. */
#ifndef PYRRHA_BASE_LOG_H
#define PYRRHA_BASE_LOG_H

#include "base/attrs.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

void log_setup(enum log_level least, enum log_format format);
/* "debug", "info", "warn", "error"; false if unknown. */
bool log_parse_level(const char *s, enum log_level *ret);
bool log_parse_format(const char *s, enum log_format *ret);
bool log_enabled(enum log_level level);
/* Pairs of const char *, ended by NULL. */
void log_write(enum log_level level, const char *file, int line, ...) __attribute__((sentinel));

#define LOG_AT(level, ...) do { \
	if (log_enabled(level)) \
		log_write(level, __FILE__, __LINE__, __VA_ARGS__, (char *)NULL); \
} while (0)
#define LOG_DEBUG(...) LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define LOG_INFO(...) LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_WARN(...) LOG_AT(LOG_LEVEL_WARN, __VA_ARGS__)
#define LOG_ERROR(...) LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)

/* A number as text that is valid until the end of the statement's block. */
#define LOG_NUM(n) log_num((char[24]){ 0 }, (int64_t)(n))
char *log_num(char out[24], int64_t n);

#endif
