/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors: name{a="b", c=~"d"} or name<a="b">, the name in front, or quoted among the matchers. One grammar for the language
 * (promql-like/), which reads them inside of queries, and for those who have no query engine: the agent's match[].
 *
 *	selector   [name] [ "{" [matchers] "}" | "<" matchers ">" ]      "<" opens only before `label op string`, or a quoted name
 *	matchers   matcher { "," matcher } [ "," ]
 *	matcher    label op string | string                              a string alone is the metric's name */
#ifndef PYRRHA_MODEL_SELECTOR_H
#define PYRRHA_MODEL_SELECTOR_H

#include "model/lexer.h"
#include "model/matcher.h"

#define SELECTOR_MATCHERS_MAX 128

/* A reader of tokens, and what selector_read makes of those at hand. */
struct selector_reader {
	struct lexer *lex;
	struct token *tok;     /* the one to look at next */
	uint32_t *last_end;    /* where the token before it ended */
	struct arena *arena;   /* of unescaped strings; other names and values are borrowed from the text */
	bool shape_only;       /* expressions are not compiled */
	struct view name;      /* ptr NULL: none */
	VEC(struct matcher) m; /* the caller's, also after an error; the name's is the last, or stands where it was quoted */
	uint32_t at;           /* of an error: bytes into the text */
};

/* Whether a `<` at hand opens a selector. */
bool selector_angle_opens(const struct lexer *lex, const struct token *tok);
/* Reads the selector that begins at hand, with a name or a bracket. ERR_BAD_DATA: it is malformed, *e says how and r->at where. */
int selector_read(struct selector_reader *r, struct err *e) MUST_USE;

struct selector {
	VEC(struct matcher) m;
	struct arena arena; /* holds names and values */
};

/* A text that is one selector. Without any matchers it selects all. ret is released with selector_release also after an error. Errors
 * say at which byte. */
int selector_parse(struct selector *ret, struct view text, struct err *e) MUST_USE;
void selector_release(struct selector *s);
/* The text of matchers, as selector_parse takes it: all names are quoted. */
void selector_format(const struct matcher *m, size_t n, struct buf *out);

#endif
