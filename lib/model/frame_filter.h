/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates a filter of frames (struct source_frame_filter), for the query engine and for every source. The keys of its matchers are function, file,
 * line and binary; any other key means function. A file and a binary are matched by the whole path and by its last part: a positive matcher accepts
 * either, a negative one refuses both. A frame without a name is matched by its address (frame_name).
 *
 * A run is for many frames of one dictionary. It evaluates each string once per key, however many frames have it: a program's path is long, and all
 * of its frames have it. */
#ifndef PYRRHA_MODEL_FRAME_FILTER_H
#define PYRRHA_MODEL_FRAME_FILTER_H

#include "model/source.h"

enum frame_key { FRAME_FUNCTION, FRAME_FILE, FRAME_BINARY, FRAME_LINE, FRAME_KEYS };

/* One thread. The dictionary may grow meanwhile. */
struct frame_filter_run {
	const struct source_frame_filter *f;
	const struct symbols *s;
	struct regex_meter *meter;
	enum frame_key keys[FRAME_KEYS]; /* those of the matchers, in the order in which each comes first */
	unsigned n_keys;
	bool once;               /* for a single frame: without memo */
	uint8_t *memo;           /* by string id, two bits per key: 0 = not evaluated, 1 = no, 2 = yes; an expression has the bits of FRAME_FUNCTION */
	uint32_t n_memo;
};

/* Borrows all; meter: of the expressions, may be NULL. */
void frame_filter_run_init(struct frame_filter_run *r, const struct source_frame_filter *f, const struct symbols *s, struct regex_meter *meter);
void frame_filter_run_release(struct frame_filter_run *r);
/* Whether line `line` of a location of r->s satisfies the filter: 1 or 0; negative as regex_match, and then r stays usable. A location without lines is
 * one frame: any line. leaf_only is the caller's to observe. */
int frame_filter_run_match(struct frame_filter_run *r, const struct sym_location *l, uint32_t line, struct err *e) MUST_USE;
/* The same for a single frame. Any thread. */
int frame_filter_match(const struct source_frame_filter *f, const struct symbols *s, const struct sym_location *l, uint32_t line,
		       struct regex_meter *meter, struct err *e) MUST_USE;

#endif
