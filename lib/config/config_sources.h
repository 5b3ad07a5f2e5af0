/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a configuration was read from, with a hash of what they held, in order to tell later whether they hold
 * something else. Files that could not be read, and the matches of patterns, count too: a failed reading is a reading. */
#ifndef PYRRHA_CONFIG_CONFIG_SOURCES_H
#define PYRRHA_CONFIG_CONFIG_SOURCES_H

#include <glob.h>

#include "base/path_watch.h"
#include "base/vec.h"
#include "base/view.h"

struct config_source {
	char *path;
	bool pattern;  /* of glob; the hash is of the names that match */
	uint64_t hash;
};

/* Zero-initialised is empty. */
struct config_sources {
	VEC(struct config_source) v;
};

/* text NULL: it could not be read. */
void config_sources_note(struct config_sources *s, const char *path, const struct view *text);
void config_sources_note_pattern(struct config_sources *s, const char *pattern, const glob_t *found);
void config_sources_free(struct config_sources *s);
/* The previous content of `to` is freed. */
void config_sources_copy(struct config_sources *to, const struct config_sources *from);
/* One number for all that they held when they were noted, and now (reads them). */
uint64_t config_sources_were(const struct config_sources *s);
uint64_t config_sources_are(const struct config_sources *s);
void config_sources_watch(const struct config_sources *s, struct path_watch *w);

#endif
