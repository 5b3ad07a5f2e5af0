/* SPDX-License-Identifier: Apache-2.0 */
/* Values of templates: those of Go's types that a rule's template can come by. */
#ifndef PYRRHA_RULES_TEMPLATE_VALUE_H
#define PYRRHA_RULES_TEMPLATE_VALUE_H

#include "model/labels.h"
#include "rules/template/template_time.h"

enum ttype {
	TTYPE_INVALID,   /* nothing: Go's zero reflect.Value */
	TTYPE_NIL,       /* interface {} that holds nothing */
	TTYPE_BOOL,
	TTYPE_INT,
	TTYPE_INT64,
	TTYPE_UINT8,
	TTYPE_UINT64,    /* only while a time is printed */
	TTYPE_LOCATION,  /* that too: a nil *time.Location */
	TTYPE_FLOAT,
	TTYPE_STRING,
	TTYPE_HTML,      /* a string by another name */
	TTYPE_LABELS,    /* map[string]string */
	TTYPE_ARGS,      /* map[string]interface {} */
	TTYPE_VECTOR,
	TTYPE_SAMPLE,    /* pointer to a sample, may be NULL */
	TTYPE_SAMPLE_IN, /* what that points to; only while printing */
	TTYPE_TIME,
	TTYPE_TIME_AT,   /* pointer to a time */
	TTYPE_DURATION,
	TTYPE_DURATION_AT,
	TTYPE_MONTH,
	TTYPE_WEEKDAY,
	TTYPE_DATA       /* what the template is expanded with */
};

enum tkind { TKIND_INVALID, TKIND_INTERFACE, TKIND_BOOL, TKIND_INT, TKIND_UINT, TKIND_FLOAT, TKIND_STRING, TKIND_MAP, TKIND_SLICE,
	     TKIND_POINTER, TKIND_STRUCT };

struct tsample {
	struct labels labels;
	double value;
};

struct targs;

struct tvalue {
	enum ttype type;
	bool boxed;   /* it was in an interface {}: visible in one message only */
	union {
		bool b;
		int64_t i;                   /* integers, durations, months, weekdays */
		double f;
		struct view s;
		struct labels labels;
		const struct targs *args;
		struct {
			struct tsample **v; /* NULL: a nil slice */
			size_t n, cap;
		} vector;
		const struct tsample *sample;
		struct ttime time;
		const struct ttime *time_at;
		const int64_t *duration_at;
		const struct tfield *fields; /* of TTYPE_DATA: TDATA_FIELDS */
	};
};

#define TDATA_FIELDS 4

struct tfield {
	const char *name;
	struct tvalue value;
};

struct targs {
	size_t n;
	struct targ {
		struct view key;
		struct tvalue value;
	} v[]; /* sorted by key */
};

enum tkind tvalue_kind(const struct tvalue *v);
/* As Go writes the type. */
const char *ttype_name(enum ttype t);
bool tvalue_truth(const struct tvalue *v);
/* Whether it is nil, or nothing. */
bool tvalue_is_nil(const struct tvalue *v);
/* The target of a pointer; itself if it is not a pointer, or nil. */
struct tvalue tvalue_pointed(const struct tvalue *v);

#define TSTRING(view) ((struct tvalue){ .type = TTYPE_STRING, .s = (view) })
#define TINT(n) ((struct tvalue){ .type = TTYPE_INT, .i = (int64_t)(n) })
#define TFLOAT(x) ((struct tvalue){ .type = TTYPE_FLOAT, .f = (x) })
#define TBOOL(x) ((struct tvalue){ .type = TTYPE_BOOL, .b = (x) })

#endif
