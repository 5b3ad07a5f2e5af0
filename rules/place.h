/* SPDX-License-Identifier: Apache-2.0 */
/* The place in its file of a character of a value. YAML folds lines, takes quotes and indentation away; what stays the same is the
 * order of all that is no blank. So a character's place is that of the one with the same number before it. */
#ifndef PYRRHA_RULES_PLACE_H
#define PYRRHA_RULES_PLACE_H

#include "config/config.h"

struct rule_place {
	uint32_t line, column; /* from 1 */
};

/* For the byte `at` of the scalar's text. file: the whole content of the file. The scalar's own place if it cannot be told. */
struct rule_place place_of(struct view file, const struct config_node *scalar, size_t at);
/* Finds the "LINE:COLUMN: " that begins a message; the text after it goes into *ret_rest. SIZE_MAX: there is none. */
size_t place_in_message(struct view text, const char *message, const char **ret_rest);

#endif
