/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of ProfQL, and of selectors alone. Keywords are identifiers here: most of them are also legal metric and label names, so only the
 * parser can tell. A token borrows the query's text. */
#ifndef PYRRHA_MODEL_LEXER_H
#define PYRRHA_MODEL_LEXER_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum token_kind {
	TOK_EOF, TOK_IDENT, TOK_NUMBER, TOK_DURATION, TOK_STRING,
	TOK_LPAREN, TOK_RPAREN, TOK_LBRACE, TOK_RBRACE, TOK_LBRACKET, TOK_RBRACKET, TOK_COMMA, TOK_COLON, TOK_AT,
	TOK_ADD, TOK_SUB, TOK_MUL, TOK_DIV, TOK_MOD, TOK_POW,
	TOK_EQL, TOK_EQLC, TOK_NEQ, TOK_LT, TOK_LE, TOK_GT, TOK_GE, TOK_EQ_RE, TOK_NE_RE,
	TOK_ERROR
};

struct token {
	enum token_kind kind;
	uint32_t start, end;  /* byte offsets */
	struct view text;
	double number;        /* NUMBER; seconds of a DURATION */
	const char *error;    /* ERROR: what is wrong there */
	char bad[8];          /* ERROR: the character, if one is named */
};

/* Where the scanner is; copying it is looking ahead. */
struct lexer {
	struct view src;
	uint32_t pos;
	bool in_brace;   /* inside {}: names have no colons */
	bool in_angle;   /* inside <>: `>` closes, whatever follows */
	bool in_bracket; /* inside []: `:` is a token */
};

void lexer_next(struct lexer *l, struct token *ret);
/* The value of a string token, unescaped, in the arena; false if an escape is wrong (*ret_error says how). */
bool lexer_unquote(struct arena *a, struct view quoted, struct view *ret, const char **ret_error);
/* A number or a duration ("0x1F", "1_000", "1e3", "5m", "Inf") as the language spells it; false if it is neither. */
bool lexer_parse_number(struct view v, double *ret, bool *ret_duration);
/* Whether it is a word of the grammar that cannot stand where a metric's name does ("on", "bool"; not "by" or "sum"). */
bool word_reserved(struct view v);
/* Says why a token of src cannot stand where it does: "unexpected X in CONTEXT, expected Y", either may be empty; of one that is
 * malformed, how. *ret_at: where, bytes into src. The code is ERR_BAD_DATA. */
void token_unexpected(const struct token *t, struct view src, const char *context, const char *expected, uint32_t *ret_at, struct err *e);
/* A Go-quoted string, as the language prints it. */
void quote_string(struct view v, struct buf *out);

#endif
