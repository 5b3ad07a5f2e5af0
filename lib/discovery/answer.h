/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that another program answered: parsed with limits, read strictly. A member that is absent or null reads as empty;
 * one of another type is an error. Errors stick: read all, then look at rc once. */
#ifndef PYRRHA_DISCOVERY_ANSWER_H
#define PYRRHA_DISCOVERY_ANSWER_H

#include <jansson.h>

#include "base/err.h"
#include "base/view.h"

#define ANSWER_BYTES ((uint64_t)32 << 20) /* a body is at most that long */
#define ANSWER_VALUES ((size_t)2000000)   /* a value takes up to 100 bytes of memory, of 2 bytes that came */

/* Returns owned in *ret. A text may have a NUL in it: one container's label must not hide all others. A key may not. */
int answer_parse(json_t **ret, struct view body, struct err *e) MUST_USE;

struct answer_reader {
	struct err *e;
	int rc;           /* 0, or what went wrong first */
	const char *what; /* for messages: "container" */
};

/* Borrowed. "" if there is none. */
const char *answer_text(struct answer_reader *r, const json_t *object, const char *key);
/* Between 0 and max; 0 if there is none. */
int64_t answer_count(struct answer_reader *r, const json_t *object, const char *key, int64_t max);
bool answer_bool(struct answer_reader *r, const json_t *object, const char *key);
/* NULL if there is none. */
json_t *answer_object(struct answer_reader *r, const json_t *object, const char *key);
json_t *answer_list(struct answer_reader *r, const json_t *object, const char *key);
/* The value of a member, or an item of a list, that has to be of that type. "" and NULL as above; key is for the message. */
const char *answer_as_text(struct answer_reader *r, const json_t *value, const char *key); /* up to a NUL in it */
struct view answer_as_view(struct answer_reader *r, const json_t *value, const char *key); /* all of it */
json_t *answer_as_object(struct answer_reader *r, json_t *value, const char *key);

#endif
