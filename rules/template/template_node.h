/* SPDX-License-Identifier: Apache-2.0 */
/* A template as it was parsed: a tree of nodes in the template's arena. Nodes of one list are linked by `next`. */
#ifndef PYRRHA_RULES_TEMPLATE_NODE_H
#define PYRRHA_RULES_TEMPLATE_NODE_H

#include "rules/template/template.h"

/* How deep lists, pipelines and parentheses may nest. */
#define TEMPLATE_MAX_NESTING 200

enum tnode_type {
	TNODE_TEXT,      /* text */
	TNODE_ACTION,    /* pipe */
	TNODE_IF,        /* pipe, list, else_list (may be NULL) */
	TNODE_RANGE,
	TNODE_WITH,
	TNODE_TEMPLATE,  /* text: its name; pipe: may be NULL */
	TNODE_BREAK,
	TNODE_CONTINUE,
	TNODE_LIST,      /* items */
	TNODE_PIPE,      /* items: commands; decl */
	TNODE_COMMAND,   /* items: function or value, arguments */
	TNODE_BOOL,
	TNODE_DOT,
	TNODE_NIL,
	TNODE_NUMBER,    /* text: as written */
	TNODE_STRING,    /* text: its value; quoted */
	TNODE_IDENTIFIER, /* text: a function's name */
	TNODE_FIELD,     /* names */
	TNODE_VARIABLE,  /* names, the first with its $ */
	TNODE_CHAIN,     /* base, names */
	TNODE_END,       /* only while parsing */
	TNODE_ELSE
};

struct tnode_number {
	bool is_int, is_uint, is_float;
	int64_t i;
	uint64_t u;
	double f;
};

struct tnode {
	enum tnode_type type;
	uint32_t pos;              /* bytes into the text, for errors */
	struct tnode *next;
	struct view text;
	union {
		struct {
			struct tnode *pipe, *list, *else_list;
		};
		struct {
			struct tnode *items, *last;
			struct tnode *decl[2];
			uint8_t n_decl;
			bool assigns;  /* = and not := */
		};
		struct {
			const struct view *names;
			size_t n_names;
			struct tnode *base;
		};
		const struct tfunc *func;
		struct tnode_number number;
		struct view quoted;
		bool truth;
	};
};

/* A definition: {{define}}, {{block}}, or the text itself, which is the first. */
struct tdef {
	struct view name;
	struct tnode *root;
	struct tdef *next;
};

struct template {
	struct arena arena;
	struct view name, text;
	struct tdef *defs;
	bool plain;
};

/* Appends the node as Go writes it in errors. */
void tnode_write(const struct tnode *n, struct buf *out);
/* Nothing but blanks and definitions. */
bool tnode_is_empty(const struct tnode *list);
const struct tdef *template_find(const struct template *t, struct view name);
/* Line from 1, column in bytes from 0. */
void template_place_of(const struct template *t, size_t pos, unsigned *ret_line, unsigned *ret_column);

/* Reads t->text into t->defs; *at: where an error is. */
int template_parse_text(struct template *t, size_t *ret_at, struct err *e) MUST_USE;
/* The value of a string, character or number as written. False: malformed; number: *ret_why says how. */
bool tliteral_string(struct arena *a, struct view quoted, struct view *ret);
bool tliteral_number(struct view text, struct tnode_number *ret, const char **ret_why);

#endif
