/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata in one target's text metrics, type and help of each family, for the API. The lines of a scrape are hashed. A new table
 * is made only if they differ from the previous scrape. A table never changes, so readers delay no scrape. Families that are gone stay
 * for some scrapes. Its memory is counted in --scrape.memory. */
#ifndef PYRRHA_SCRAPER_METRIC_FAMILIES_H
#define PYRRHA_SCRAPER_METRIC_FAMILIES_H

#include "base/attrs.h"
#include "base/budget.h"
#include "base/vec.h"
#include "base/view.h"

#define FAMILY_LINES_MAX 40000  /* of one body; further ones are left out */
#define FAMILY_NAME_MAX 4096    /* bytes; longer ones are left out */
#define FAMILY_HELP_MAX 4096    /* bytes, including escapes; longer ones are cut off */
#define FAMILY_KEPT_SCRAPES 10  /* that one that is gone stays for */

struct metric_family {
	struct view name, type, help; /* type: "counter" */
	uint32_t gone;                /* the first scrape that did not have it; 0 = the newest has it */
};

struct metric_families {
	int refs;                     /* under the scraper's lock */
	struct budget *budget;
	size_t bytes;
	uint64_t hash;                /* of the lines that it was made of */
	uint32_t oldest_gone;         /* 0 = none is */
	size_t n;
	struct metric_family v[];     /* by name; strings behind */
};

/* Lines of one body, with pointers into it. */
struct family_line {
	struct view name, text;
	bool is_help;
	uint32_t at;
};

struct family_lines {
	VEC(struct family_line) v;
	uint64_t hash;
};

void family_lines_add(struct family_lines *l, bool is_help, struct view name, struct view text);
void family_lines_release(struct family_lines *l);

/* The table after a scrape with these lines; they are sorted. NULL: old (NULL = none) is still valid, because nothing changed or there
 * is no room. Returns owned. */
struct metric_families *metric_families_next(const struct metric_families *old, struct family_lines *l, uint32_t scrape, struct budget *b) MUST_USE;
/* Under the lock; NULL is allowed. */
void metric_families_unref(struct metric_families *f);
/* NULL: there is none. */
const struct metric_family *metric_families_find(const struct metric_families *f, struct view name);

#endif
