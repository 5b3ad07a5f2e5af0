/* SPDX-License-Identifier: Apache-2.0 */
/* Values as Go's package fmt prints them. All write into a buffer, whose ceiling bounds them. */
#ifndef PYRRHA_RULES_TEMPLATE_FMT_H
#define PYRRHA_RULES_TEMPLATE_FMT_H

#include "rules/template/template_value.h"

void go_sprintf(struct view format, const struct tvalue *args, size_t n, struct buf *out);
/* fmt.Sprint: a blank between two operands if neither is a string. */
void go_sprint(const struct tvalue *args, size_t n, struct buf *out);
void go_sprintln(const struct tvalue *args, size_t n, struct buf *out);
/* A value as an action prints it: what a pointer points to. */
void go_print_value(const struct tvalue *v, struct buf *out);
/* As html, js and urlquery take their arguments: as go_sprint of what go_print_value would print. */
void go_sprint_values(const struct tvalue *args, size_t n, struct buf *out);

/* ---- numbers, for template_fmt.c and functions ---- */

struct gofmt {
	bool minus, plus, sharp, space, zero;
	bool plus_v, sharp_v;          /* of %+v and %#v */
	bool has_width, has_precision;
	int width, precision;
};

void go_pad(const struct gofmt *f, struct view text, struct buf *out);
void go_pad_zeros(const struct gofmt *f, int n, struct buf *out);
/* verb: one of b e E f g G x X; precision -1: as many digits as it takes. */
void go_format_float(const struct gofmt *f, double v, char verb, int precision, struct buf *out);
/* base 2, 8, 10 or 16. */
void go_format_integer(const struct gofmt *f, uint64_t u, unsigned base, bool is_signed, char verb, bool upper, struct buf *out);
void go_format_unicode(const struct gofmt *f, uint64_t u, struct buf *out);

#endif
