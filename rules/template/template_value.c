/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template_value.h"

static const struct {
	const char *name;
	enum tkind kind;
} types[] = {
	[TTYPE_INVALID] = { "<nil>", TKIND_INVALID },
	[TTYPE_NIL] = { "interface {}", TKIND_INTERFACE },
	[TTYPE_BOOL] = { "bool", TKIND_BOOL },
	[TTYPE_INT] = { "int", TKIND_INT },
	[TTYPE_INT64] = { "int64", TKIND_INT },
	[TTYPE_UINT8] = { "uint8", TKIND_UINT },
	[TTYPE_UINT64] = { "uint64", TKIND_UINT },
	[TTYPE_LOCATION] = { "*time.Location", TKIND_POINTER },
	[TTYPE_FLOAT] = { "float64", TKIND_FLOAT },
	[TTYPE_STRING] = { "string", TKIND_STRING },
	[TTYPE_HTML] = { "template.HTML", TKIND_STRING },
	[TTYPE_LABELS] = { "map[string]string", TKIND_MAP },
	[TTYPE_ARGS] = { "map[string]interface {}", TKIND_MAP },
	[TTYPE_VECTOR] = { "template.queryResult", TKIND_SLICE },
	[TTYPE_SAMPLE] = { "*template.sample", TKIND_POINTER },
	[TTYPE_SAMPLE_IN] = { "template.sample", TKIND_STRUCT },
	[TTYPE_TIME] = { "time.Time", TKIND_STRUCT },
	[TTYPE_TIME_AT] = { "*time.Time", TKIND_POINTER },
	[TTYPE_DURATION] = { "time.Duration", TKIND_INT },
	[TTYPE_DURATION_AT] = { "*time.Duration", TKIND_POINTER },
	[TTYPE_MONTH] = { "time.Month", TKIND_INT },
	[TTYPE_WEEKDAY] = { "time.Weekday", TKIND_INT },
	[TTYPE_DATA] = { "struct { Labels map[string]string; ExternalLabels map[string]string; ExternalURL string; Value interface {} }",
			 TKIND_STRUCT },
};

enum tkind tvalue_kind(const struct tvalue *v)
{
	return types[v->type].kind;
}

const char *ttype_name(enum ttype t)
{
	return types[t].name;
}

bool tvalue_is_nil(const struct tvalue *v)
{
	return v->type == TTYPE_INVALID || v->type == TTYPE_NIL || v->type == TTYPE_LOCATION || (v->type == TTYPE_VECTOR && !v->vector.v) ||
	       (v->type == TTYPE_SAMPLE && !v->sample);
}

bool tvalue_truth(const struct tvalue *v)
{
	switch (v->type) {
	case TTYPE_BOOL:
		return v->b;
	case TTYPE_FLOAT:
		return v->f != 0; /* of NaN too: it is not zero */
	case TTYPE_STRING:
	case TTYPE_HTML:
		return v->s.len > 0;
	case TTYPE_LABELS:
		return v->labels.n > 0;
	case TTYPE_ARGS:
		return v->args->n > 0;
	case TTYPE_VECTOR:
		return v->vector.n > 0;
	default:
		return tvalue_kind(v) == TKIND_INT || tvalue_kind(v) == TKIND_UINT ? v->i != 0 : !tvalue_is_nil(v);
	}
}

struct tvalue tvalue_pointed(const struct tvalue *v)
{
	switch (v->type) {
	case TTYPE_TIME_AT:
		return (struct tvalue){ .type = TTYPE_TIME, .time = *v->time_at };
	case TTYPE_DURATION_AT:
		return (struct tvalue){ .type = TTYPE_DURATION, .i = *v->duration_at };
	case TTYPE_SAMPLE:
		if (v->sample)
			return (struct tvalue){ .type = TTYPE_SAMPLE_IN, .sample = v->sample };
		return *v;
	default:
		return *v;
	}
}
