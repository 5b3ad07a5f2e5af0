/* SPDX-License-Identifier: Apache-2.0 */
/* A template's text as tokens: what lies outside of {{ }} is one token; blanks inside are tokens too, as they separate
 * arguments. Trim markers are dealt with here. */
#ifndef PYRRHA_RULES_TEMPLATE_LEX_H
#define PYRRHA_RULES_TEMPLATE_LEX_H

#include "base/err.h"
#include "base/view.h"

enum ttoken_type {
	TTOKEN_ERROR, /* text: what is wrong */
	TTOKEN_EOF,
	TTOKEN_TEXT,
	TTOKEN_LEFT,
	TTOKEN_RIGHT,
	TTOKEN_SPACE,
	TTOKEN_BOOL,
	TTOKEN_CHAR,          /* one of those that have no other meaning */
	TTOKEN_CHAR_CONSTANT,
	TTOKEN_ASSIGN,
	TTOKEN_DECLARE,
	TTOKEN_FIELD,         /* with its dot */
	TTOKEN_IDENTIFIER,
	TTOKEN_LEFT_PAREN,
	TTOKEN_RIGHT_PAREN,
	TTOKEN_NUMBER,
	TTOKEN_PIPE,
	TTOKEN_STRING,
	TTOKEN_RAW_STRING,
	TTOKEN_VARIABLE,
	TTOKEN_KEYWORD_,      /* keywords from here on */
	TTOKEN_BLOCK,
	TTOKEN_BREAK,
	TTOKEN_CONTINUE,
	TTOKEN_DEFINE,
	TTOKEN_DOT,
	TTOKEN_ELSE,
	TTOKEN_END,
	TTOKEN_IF,
	TTOKEN_NIL,
	TTOKEN_RANGE,
	TTOKEN_TEMPLATE,
	TTOKEN_WITH
};

struct ttoken {
	enum ttoken_type type;
	size_t pos;
	struct view text;
};

struct tlexer {
	struct view in;
	size_t pos, start;
	unsigned parens;
	bool inside;          /* of {{ }} */
	char problem[160];    /* text of TTOKEN_ERROR */
};

struct ttoken tlexer_next(struct tlexer *l);

#endif
