/* SPDX-License-Identifier: Apache-2.0 */
/* A profile under construction whose sizes are not known before; readers of text and binary formats put their samples into it. Tables
 * grow in the profile's arena, within the limits. The first failure is kept in rc, and what is added afterwards is dropped, so that a
 * reader may look at rc once a line. Private to lib/pprof. */
#ifndef PYRRHA_PPROF_DRAFT_H
#define PYRRHA_PPROF_DRAFT_H

#include "pprof/internal.h"

/* Hash index in the arena: slots are as those of base/map.h. */
struct draft_index {
	uint64_t *slots;
	uint32_t n, mask;
};

struct draft {
	struct profile *p;
	struct pprof_limits lim;
	struct err *e;
	int rc;
	const char *what;     /* of errors: "heap profile" */
	const char *at, *end; /* text that is still to be read */
	uint64_t line_no;     /* of the line read last, from 1; 0: it is no text */
	uint64_t seed;        /* of the hashes: the bytes cannot be made to collide */
	uint64_t work;        /* things done since the start, for go_on */
	struct draft_index strings, addresses, functions;
	uint32_t cap_strings, cap_locations, cap_functions, cap_lines, cap_stack, cap_samples, cap_labels, cap_mappings;
	size_t cap_values;
};

/* p holds nothing but its arena; text is read by draft_line. */
void draft_begin(struct draft *d, struct profile *p, const char *what, struct view text, const struct pprof_limits *lim, struct err *e);
/* Fails with "WHAT, line N: ..."; returns the code. */
int draft_fail(struct draft *d, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Now and then asks go_on. */
void draft_step(struct draft *d);

/* The next line, without its end; false at the end of the text and after a failure. */
bool draft_line(struct draft *d, struct view *ret);

/* Strings borrow what v does. */
uint32_t draft_string(struct draft *d, struct view v);
void draft_sample_type(struct draft *d, const char *type, struct view unit);
void draft_period_type(struct draft *d, const char *type, const char *unit);
/* The location of an address, each once. */
uint32_t draft_address(struct draft *d, uint64_t address);
/* The same without adding one; UINT32_MAX: there is none. */
uint32_t draft_find_address(struct draft *d, uint64_t address);
/* The location of a name without an address, each name once. */
uint32_t draft_name(struct draft *d, struct view name);
/* The function of a name, each once; its file is the first one given. Index + 1. */
uint32_t draft_function(struct draft *d, struct view name, struct view file);
/* Gives a location one line. */
void draft_set_line(struct draft *d, uint32_t location, uint32_t function, int64_t line);
struct profile_mapping *draft_mapping(struct draft *d); /* zeroed; NULL after a failure */

/* A sample: begun with its values (as many as there are types), then its frames, the leaf first, then its label. */
void draft_sample(struct draft *d, const int64_t *values);
void draft_frame(struct draft *d, uint32_t location);
void draft_number(struct draft *d, const char *key, int64_t v);
/* Takes the frame behind the leaf away. */
void draft_drop_caller(struct draft *d, struct profile_sample *s);
/* Turns the last sample's frames around. */
void draft_reverse(struct draft *d);

/* Keeps only the locations that samples use, in the order of use. Returns rc. */
int draft_end(struct draft *d);

#endif
