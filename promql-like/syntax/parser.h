/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the parser: parser.c has the grammar, parser_time.c its time expressions, parser_tokens.c the basics. Private
 * to them; the call is parser_run (ast.h). */
#ifndef PYRRHA_PROMQL_PARSER_H
#define PYRRHA_PROMQL_PARSER_H

#include <setjmp.h>

#include "promql-like/syntax/ast.h"
#include "model/lexer.h"

#define PARSER_MAX_DEPTH 400

struct promql_parser {
	struct promql_expr *x;
	struct lexer lex;
	struct token tok;   /* the one to look at next */
	uint32_t last_end;  /* where the token before it ended */
	unsigned depth;
	struct err *e;
	jmp_buf failed;
};

/* The first error ends it: these jump out of the parser. at: bytes into the query. */
void parser_die(struct promql_parser *p, uint32_t at, const char *fmt, ...) NORETURN PRINTF_LIKE(3, 4);
/* "unexpected X in CONTEXT, expected Y", of the token at hand; either may be empty. */
void parser_unexpected(struct promql_parser *p, const char *context, const char *expected) NORETURN;
/* Takes a token of that kind. */
void parser_expect(struct promql_parser *p, enum token_kind kind, const char *context, const char *expected);
void parser_advance(struct promql_parser *p);
/* The token after the one at hand. */
struct token parser_peek(const struct promql_parser *p);
/* Whether it is that word, in any case. */
bool parser_word(const struct token *t, const char *w);
/* Memory of the tree, all zeros. */
void *parser_alloc(struct promql_parser *p, size_t n);
/* A node that begins at byte start. Once its children are there it is done: it ends behind the last token taken, and is
 * not higher than NODE_MAX_HEIGHT. */
struct node *parser_node(struct promql_parser *p, enum node_kind kind, uint32_t start);
struct node *parser_done(struct promql_parser *p, struct node *n);

/* What may follow an operand: [range], [range:step], offset, @. Returns n, or the node around it. */
struct node *parser_time(struct promql_parser *p, struct node *n);

#endif
