/* SPDX-License-Identifier: Apache-2.0 */
/* Where in its file a character of a value stands. YAML folds lines, takes quotes and indentation away; what stays the same
 * is the order of all that is no blank. So the place of a character is that of the one with as many before it. */
#ifndef PYRRHA_RULES_PLACE_H
#define PYRRHA_RULES_PLACE_H

#include "config/config.h"

struct place {
	uint32_t line, column; /* from 1 */
};

/* Of the byte `at` of the scalar's text. file: all that the file says. The scalar's own place if it cannot be told. */
struct place place_of(struct view file, const struct config_node *scalar, size_t at);
/* Where the "LINE:COLUMN: " that begins a message is in text; what follows it goes into *ret_rest. SIZE_MAX: there is none. */
size_t place_in_message(struct view text, const char *message, const char **ret_rest);

#endif
