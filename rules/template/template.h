/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of the labels and annotations of alerts: Go's text/template with the functions of Prometheus's alerting rules and
 * ours (docs/rules-templates.md). template_parse reads a text once, when rules are loaded; template_expand makes the text of
 * one alert. A parsed template does not change: threads may share it.
 *
 * Everything is bounded: the text's length and depth when it is read; steps, memory, depth, output and time when it is
 * expanded. Beyond a bound expanding is an error, and an error is text in the annotation (template_expand_text). */
#ifndef PYRRHA_RULES_TEMPLATE_H
#define PYRRHA_RULES_TEMPLATE_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/labels.h"

struct template;

#define TEMPLATE_MAX_TEXT ((size_t)256 << 10)

/* Reads the text (it is copied); name is what errors call it, of an alert "__alert_" and the alert's name. Errors are
 * Prometheus's: "template: NAME:LINE:COLUMN: what is wrong", the line from 1, the column in bytes from 0, as Go counts, both
 * within the text. Returns owned. */
int template_parse(struct template **ret, struct view name, struct view text, struct err *e) MUST_USE;
/* template_parse, and where the error is: line and column from 1. */
struct template_place {
	unsigned line, column;
};
int template_parse_at(struct template **ret, struct view name, struct view text, struct template_place *at, struct err *e) MUST_USE;
void template_free(struct template *t);
/* Whether there is anything to expand: a text without {{ is its own expansion. */
bool template_is_plain(const struct template *t);

/* The result of a template's query: filled by template_env.query, in the order of the result. */
struct template_vector;
/* Copies the labels. ERR_LIMIT: more than the template may hold. */
int template_vector_add(struct template_vector *v, struct labels labels, double value, struct err *e) MUST_USE;

/* The data and functions of an expansion. Everything is borrowed for the call. Limits: 0 is the default in brackets. */
struct template_env {
	struct labels labels;            /* of the sample, __name__ too */
	double value;
	struct labels external_labels;
	struct view external_url;        /* "http://host:7070/prefix", without / at its end */
	int64_t t_ms;                    /* of the evaluation: what queries ask for, `now` */
	int64_t offset_ms;               /* the rule looked at what was so long before: what links and topFunctions show */
	/* Evaluates an expression at a time. NULL: queries are errors. */
	int (*query)(void *arg, struct view expr, int64_t t_ms, struct template_vector *out, struct err *e);
	void *query_arg;
	size_t max_output;               /* bytes (1 MiB) */
	size_t max_memory;               /* bytes of all values made on the way (16 MiB) */
	uint64_t max_steps;              /* nodes visited, and one more for each 64 bytes that are made or looked at (2,000,000) */
	unsigned max_queries;            /* (20) */
	int64_t deadline_mono_ns;        /* (5 s from now) */
	const atomic_bool *canceled;     /* NULL: cannot be */
};

/* Appends the expansion. After an error out has what it had before. */
int template_expand(const struct template *t, const struct template_env *env, struct buf *out, struct err *e) MUST_USE;
/* As template_expand; an error becomes "<error expanding template: ...>". Returns 0, or the error's code, for callers that count
 * errors (*e has the message). */
int template_expand_text(const struct template *t, const struct template_env *env, struct buf *out, struct err *e) MUST_USE;

/* A link to our page, absolute: the flame graph, or the values, of the expression at t_ms, and the hour before. */
void template_page_url(struct view external_url, struct view expr, int64_t t_ms, struct buf *out);
/* The generatorURL of an alert: as Prometheus's, and the evaluation's time. */
void template_generator_url(struct view external_url, struct view expr, int64_t t_ms, struct buf *out);

#endif
