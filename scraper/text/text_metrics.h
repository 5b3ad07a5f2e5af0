/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus's text format 0.0.4, as Prometheus itself reads it: what it lets pass passes here, what fails a scrape there
 * fails one here. Pure: bytes in, entries out, one pass, nothing copied.
 *
 *	# HELP name any text                       name, text (its escapes as they are: \\ and \n)
 *	# TYPE name counter                        name, text
 *	name{label="value",...} value timestamp    series, name, labels, value, t_ms
 *	{"a name","a label"="value"} value         names that need quotes
 *
 * A value of a label may hold \\, \" and \n; so may names in quotes. Whether names and values are UTF-8 is for
 * text_metrics_labels to say, which is only asked about series that are new. */
#ifndef PYRRHA_SCRAPER_TEXT_METRICS_H
#define PYRRHA_SCRAPER_TEXT_METRICS_H

#include "base/err.h"
#include "model/labels.h"

enum text_entry { TEXT_END, TEXT_SAMPLE, TEXT_TYPE, TEXT_HELP };

struct text_metrics {
	const char *begin, *at, *end; /* the body, borrowed; where the next line begins */
	/* For the newest entry; views into the body: */
	struct view series;           /* a sample's bytes before its value: known again by them */
	struct view name, text;       /* without quotes */
	VEC(struct label) labels;     /* in the order of the text, without quotes, with their escapes */
	double value;                 /* a NaN is VALUE_NORMAL_NAN_BITS */
	int64_t t_ms;
	bool has_t;
};

void text_metrics_init(struct text_metrics *t, struct view body);
void text_metrics_release(struct text_metrics *t);
/* The next enum text_entry; comments and blank lines are passed over. ERR_BAD_DATA, with the number of the line: it is malformed; do
 * not read further. */
int text_metrics_next(struct text_metrics *t, struct err *e) MUST_USE;
/* The labels of the newest sample, sorted, without escapes, its name as __name__; empty ones are kept, one of a kind. They are in the
 * arena. ERR_BAD_DATA: a name is empty or twice there, or something is not UTF-8; ERR_LIMIT: no room. */
int text_metrics_labels(const struct text_metrics *t, struct arena *a, struct labels *ret, struct err *e) MUST_USE;

#endif
