/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a request: the only readers of them in web/, in Prometheus's spelling. A text is what httpd_param() has. An absent or
 * empty parameter is its default, in `def`; everything else that is not of its form is ERR_BAD_DATA: invalid parameter "time": ... Outputs
 * are undefined after an error. If Prometheus words an error differently, the caller sets these words with param_error(). */
#ifndef PYRRHA_WEB_PARAMS_H
#define PYRRHA_WEB_PARAMS_H

#include "httpd/httpd.h"

/* invalid parameter "name": and the text. Returns -ERR_BAD_DATA. */
int param_error(struct err *e, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Puts that before the message that is there. Returns -code. */
int param_wrap(struct err *e, const char *name);
/* The value sent, for an error: printf("%.*s"). A long text would hide what the error says behind it. */
#define PARAM_ARG(v) ((int)MIN((v).len, (size_t)100)), (v).ptr

/* The values of a parameter that may be there several times, one by one: *at is 0 before the first. False: there are no more. */
bool param_next(const struct httpd_request *rq, const char *name, size_t *at, struct view *ret);

/* RFC 3339 or Unix seconds. */
int param_time(const struct httpd_request *rq, const char *name, int64_t def, int64_t *ret_ms, struct err *e) MUST_USE;
/* "5m" or seconds, which may be negative. */
int param_duration(const struct httpd_request *rq, const char *name, int64_t def, int64_t *ret_ms, struct err *e) MUST_USE;
/* The same, not below `least`. */
int param_duration_from(const struct httpd_request *rq, const char *name, int64_t least_ms, int64_t def, int64_t *ret_ms, struct err *e) MUST_USE;
/* The same of parameters that have no default: that one is absent or empty is an error. */
int param_need_time(const struct httpd_request *rq, const char *name, int64_t *ret_ms, struct err *e) MUST_USE;
int param_need_duration(const struct httpd_request *rq, const char *name, int64_t *ret_ms, struct err *e) MUST_USE;
/* start and end into (after, until]; absent ones are as far as time goes. Prometheus selects data that overlaps both ends, so it also
 * answers if end is before start. So both orders are accepted, unless strict, then that is an error. */
int param_span(const struct httpd_request *rq, bool strict, int64_t *ret_after, int64_t *ret_until, struct err *e) MUST_USE;

/* A whole number within the bounds; INT64_MAX: no upper one. */
int param_whole(const struct httpd_request *rq, const char *name, int64_t least, int64_t most, int64_t def, int64_t *ret, struct err *e) MUST_USE;
/* A whole number from 0; 0, which is also the default, is "no limit". */
int param_limit(const struct httpd_request *rq, const char *name, size_t *ret, struct err *e) MUST_USE;
/* A decimal number within the bounds. */
int param_float(const struct httpd_request *rq, const char *name, double least, double most, double def, double *ret, struct err *e) MUST_USE;
/* 16 hexadecimal digits, small letters. */
int param_hex(const struct httpd_request *rq, const char *name, uint64_t def, uint64_t *ret, struct err *e) MUST_USE;
/* 1, t, true, 0, f, false, in small or capital letters. */
int param_bool(const struct httpd_request *rq, const char *name, bool def, bool *ret, struct err *e) MUST_USE;

/* One of some names: its index. */
struct param_names {
	const char *const *v;
	size_t n;
	bool any_case;
};
int param_choice(const struct httpd_request *rq, const char *name, const struct param_names *of, size_t def, size_t *ret, struct err *e) MUST_USE;
/* Several, with commas between, as a set of 1U << index; absent: 0. */
int param_choices(const struct httpd_request *rq, const char *name, const struct param_names *of, unsigned *ret, struct err *e) MUST_USE;

#endif
