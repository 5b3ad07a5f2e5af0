/* SPDX-License-Identifier: Apache-2.0 */
/* A template's tokens into its tree, as Go's text/template/parse does it, up to the places that nodes have in errors. Once
 * something is wrong p->failed is set and everything returns at once. */
#include <stdio.h>

#include "base/vec.h"
#include "rules/template/template_func.h"
#include "rules/template/template_lex.h"
#include "rules/template/template_node.h"
#include "rules/template/template_quote.h"

#define MAX_VARS 1000

struct tparser {
	struct template *t;
	struct tlexer lex;
	struct ttoken token[3];   /* looked ahead; the last read is token[0] */
	unsigned peeked;
	VEC(struct view) vars;    /* that may be used */
	size_t scope;             /* the first of the definition that is read */
	unsigned range_depth, depth;
	unsigned action_line;     /* of the {{ of the action that is read; 0 = none */
	size_t line_pos;          /* a place, and its line: places of actions only grow */
	unsigned line;
	size_t wrong;             /* where what is wrong begins */
	bool failed;
	struct err *e;
};

static struct tnode *item_list(struct tparser *p, struct tnode **ret_end);
static struct tnode *pipeline(struct tparser *p, const char *context, enum ttoken_type end);

/* ---- errors ---- */

static unsigned line_of(struct tparser *p, size_t pos)
{
	for (; p->line_pos < pos; p->line_pos++)
		p->line += p->t->text.ptr[p->line_pos] == '\n';
	return p->line + 1;
}

static void vfail(struct tparser *p, size_t pos, const char *fmt, va_list ap) PRINTF_LIKE(3, 0);
static void vfail(struct tparser *p, size_t pos, const char *fmt, va_list ap)
{
	unsigned line, column;
	if (p->failed)
		return;
	p->failed = true;
	p->wrong = pos;
	template_place_of(p->t, pos, &line, &column);
	err_vset(p->e, ERR_BAD_DATA, fmt, ap);
	err_wrap(p->e, "template: %.*s:%u:%u", VIEW_ARG(p->t->name), line, column);
}

/* Always NULL. */
static void *fail(struct tparser *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void *fail(struct tparser *p, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vfail(p, p->token[0].pos, fmt, ap);
	va_end(ap);
	return NULL;
}

static void *fail_at(struct tparser *p, const struct ttoken *t, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void *fail_at(struct tparser *p, const struct ttoken *t, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vfail(p, t->pos, fmt, ap);
	va_end(ap);
	return NULL;
}

static void describe(const struct ttoken *t, char *out, size_t n)
{
	struct buf b = { .max = 256 };
	if (t->type == TTOKEN_EOF) {
		snprintf(out, n, "EOF");
	} else if (t->type > TTOKEN_KEYWORD_) {
		snprintf(out, n, "<%.*s>", VIEW_ARG(t->text));
	} else {
		go_quote(view_make(t->text.ptr, MIN(t->text.len, 10u)), '"', false, &b);
		snprintf(out, n, "%.*s%s", VIEW_ARG(buf_view(&b)), t->text.len > 10 ? "..." : "");
	}
	buf_free(&b);
}

static void *unexpected(struct tparser *p, const struct ttoken *t, const char *context)
{
	char what[280], extra[200] = "";
	if (t->type != TTOKEN_ERROR) {
		describe(t, what, sizeof what);
		return fail_at(p, t, "unexpected %s in %s", what, context);
	}
	if (p->action_line && p->action_line != line_of(p, t->pos))
		snprintf(extra, sizeof extra, "%s started at %.*s:%u", view_ends(t->text, VIEW(" action")) ? "" : " in action",
			 (int)MIN(p->t->name.len, 128u), p->t->name.ptr, p->action_line);
	return fail_at(p, t, "%.*s%s", VIEW_ARG(t->text), extra);
}

/* ---- tokens ---- */

static struct ttoken next(struct tparser *p)
{
	if (p->peeked)
		p->peeked--;
	else
		p->token[0] = tlexer_next(&p->lex);
	return p->token[p->peeked];
}

static void backup(struct tparser *p)
{
	p->peeked++;
}

static struct ttoken peek(struct tparser *p)
{
	if (!p->peeked) {
		p->peeked = 1;
		p->token[0] = tlexer_next(&p->lex);
	}
	return p->token[p->peeked - 1];
}

static struct ttoken next_non_space(struct tparser *p)
{
	struct ttoken t;
	do
		t = next(p);
	while (t.type == TTOKEN_SPACE);
	return t;
}

static struct ttoken peek_non_space(struct tparser *p)
{
	struct ttoken t = next_non_space(p);
	backup(p);
	return t;
}

/* ---- nodes ---- */

static struct tnode *node_new(struct tparser *p, enum tnode_type type, size_t pos)
{
	struct tnode *n = p->failed ? NULL : arena_calloc(&p->t->arena, 1, sizeof *n);
	if (!n)
		return fail(p, "the template is too large");
	n->type = type;
	n->pos = (uint32_t)pos;
	return n;
}

static void append(struct tnode *list, struct tnode *n)
{
	if (!list || !n)
		return;
	if (list->items)
		list->last->next = n;
	else
		list->items = n;
	list->last = n;
}

static void *named(struct tparser *p, struct tnode *n, struct view first, struct view more)
{
	size_t old = n->n_names;
	struct view *names = p->failed ? NULL : arena_alloc(&p->t->arena, (old + 2) * sizeof *names);
	if (!names)
		return fail(p, "the template is too large");
	if (old)
		memcpy(names, n->names, old * sizeof *names);
	if (first.ptr)
		names[old++] = first;
	if (more.ptr)
		names[old++] = view_make(more.ptr + 1, more.len - 1); /* without its dot */
	n->names = names;
	n->n_names = old;
	return n;
}

static bool enter(struct tparser *p)
{
	if (++p->depth > TEMPLATE_MAX_NESTING)
		fail(p, "nested deeper than %d", TEMPLATE_MAX_NESTING);
	return !p->failed;
}

static bool declare(struct tparser *p, struct view name)
{
	if (p->vars.n >= MAX_VARS)
		fail(p, "more than %d variables", MAX_VARS);
	else
		vec_push(&p->vars, name);
	return !p->failed;
}

/* ---- operands ---- */

static struct tnode *variable(struct tparser *p, const struct ttoken *t)
{
	struct tnode *n = node_new(p, TNODE_VARIABLE, t->pos);
	return n ? named(p, n, t->text, (struct view){ 0 }) : NULL;
}

static struct tnode *use_variable(struct tparser *p, const struct ttoken *t)
{
	for (size_t i = p->scope; i < p->vars.n; i++)
		if (view_eq(p->vars.v[i], t->text))
			return variable(p, t);
	return fail_at(p, t, "undefined variable \"%.*s\"", VIEW_ARG(t->text));
}

static struct tnode *literal(struct tparser *p, const struct ttoken *t)
{
	bool number = t->type == TTOKEN_NUMBER || t->type == TTOKEN_CHAR_CONSTANT;
	struct tnode *n = node_new(p, number ? TNODE_NUMBER : TNODE_STRING, t->pos);
	const char *why = "";
	if (!n)
		return NULL;
	if (!number) {
		n->quoted = t->text;
		return tliteral_string(&p->t->arena, t->text, &n->text) ? n : fail_at(p, t, "invalid syntax");
	}
	n->text = t->text;
	if (tliteral_number(t->text, &n->number, &why))
		return n;
	return view_ends(view_of(why), VIEW(" ")) ? fail_at(p, t, "%s\"%.*s\"", why, VIEW_ARG(t->text)) : fail_at(p, t, "%s", why);
}

static struct tnode *function(struct tparser *p, const struct ttoken *t)
{
	const struct tfunc *f = tfunc_find(t->text);
	if (!f)
		return fail_at(p, t, "function \"%.*s\" not defined", VIEW_ARG(t->text));
	struct tnode *n = node_new(p, TNODE_IDENTIFIER, t->pos);
	if (n) {
		n->text = t->text;
		n->func = f;
	}
	return n;
}

/* NULL, and not failed: the next token begins none. */
static struct tnode *term(struct tparser *p)
{
	struct ttoken t = next_non_space(p);
	struct tnode *n;
	switch (t.type) {
	case TTOKEN_IDENTIFIER:
		return function(p, &t);
	case TTOKEN_DOT:
		return node_new(p, TNODE_DOT, t.pos);
	case TTOKEN_NIL:
		return node_new(p, TNODE_NIL, t.pos);
	case TTOKEN_VARIABLE:
		return use_variable(p, &t);
	case TTOKEN_FIELD:
		n = node_new(p, TNODE_FIELD, t.pos);
		return n ? named(p, n, (struct view){ 0 }, t.text) : NULL;
	case TTOKEN_BOOL:
		n = node_new(p, TNODE_BOOL, t.pos);
		if (n)
			n->truth = view_eqs(t.text, "true");
		return n;
	case TTOKEN_CHAR_CONSTANT:
	case TTOKEN_NUMBER:
	case TTOKEN_STRING:
	case TTOKEN_RAW_STRING:
		return literal(p, &t);
	case TTOKEN_LEFT_PAREN:
		n = enter(p) ? pipeline(p, "parenthesized pipeline", TTOKEN_RIGHT_PAREN) : NULL;
		p->depth--;
		return n;
	default:
		backup(p);
		return NULL;
	}
}

/* A term and the fields behind it. */
static struct tnode *operand(struct tparser *p)
{
	struct tnode *n = term(p), *chain = n;
	if (!n || peek(p).type != TTOKEN_FIELD)
		return n;
	size_t pos = peek(p).pos;
	if (n->type == TNODE_BOOL || n->type == TNODE_STRING || n->type == TNODE_NUMBER || n->type == TNODE_NIL || n->type == TNODE_DOT) {
		struct buf b = { .max = 200 };
		tnode_write(n, &b);
		fail(p, "unexpected . after term \"%.*s\"", VIEW_ARG(buf_view(&b)));
		buf_free(&b);
		return NULL;
	}
	if (n->type != TNODE_FIELD && n->type != TNODE_VARIABLE) {
		chain = node_new(p, TNODE_CHAIN, pos);
		if (chain)
			chain->base = n;
	}
	while (chain && peek(p).type == TTOKEN_FIELD)
		chain = named(p, chain, (struct view){ 0 }, next(p).text);
	if (chain)
		chain->pos = (uint32_t)pos;
	return chain;
}

static struct tnode *command(struct tparser *p)
{
	struct tnode *n = node_new(p, TNODE_COMMAND, peek_non_space(p).pos);
	while (!p->failed) {
		peek_non_space(p);
		struct tnode *x = operand(p);
		append(n, x);
		if (p->failed)
			return NULL;
		struct ttoken t = next(p);
		if (t.type == TTOKEN_SPACE)
			continue;
		if (t.type == TTOKEN_RIGHT || t.type == TTOKEN_RIGHT_PAREN)
			backup(p);
		else if (t.type != TTOKEN_PIPE)
			return unexpected(p, &t, "operand");
		return n->items ? n : fail(p, "empty command");
	}
	return NULL;
}

static struct tnode *check_pipeline(struct tparser *p, struct tnode *pipe, const char *context)
{
	unsigned stage = 2;
	if (!pipe->items)
		return fail(p, "missing value for %s", context);
	for (const struct tnode *c = pipe->items->next; c; c = c->next, stage++) {
		enum tnode_type type = c->items->type;
		if (type == TNODE_BOOL || type == TNODE_DOT || type == TNODE_NIL || type == TNODE_NUMBER || type == TNODE_STRING)
			return fail(p, "non executable command in pipeline stage %u", stage);
	}
	return pipe;
}

static bool add_declaration(struct tparser *p, struct tnode *pipe, const struct ttoken *v)
{
	struct tnode *n = variable(p, v);
	next_non_space(p);
	if (!n || !declare(p, v->text))
		return false;
	pipe->decl[pipe->n_decl++] = n;
	return true;
}

/* "$x :=", "$x =", of a range "$x, $y :=". */
static bool declarations(struct tparser *p, struct tnode *pipe, const char *context)
{
	for (;;) {
		struct ttoken v = peek_non_space(p);
		if (v.type != TTOKEN_VARIABLE)
			return true;
		next(p);
		struct ttoken after = peek(p), then = peek_non_space(p);
		if (then.type == TTOKEN_ASSIGN || then.type == TTOKEN_DECLARE) {
			pipe->assigns = then.type == TTOKEN_ASSIGN;
			return add_declaration(p, pipe, &v);
		}
		if (then.type != TTOKEN_CHAR || !view_eqs(then.text, ",")) {
			/* none: the variable is an argument; give all back */
			if (after.type == TTOKEN_SPACE) {
				p->token[1] = after;
				p->token[2] = v;
				p->peeked = 3;
			} else {
				p->token[1] = v;
				p->peeked = 2;
			}
			return true;
		}
		if (pipe->n_decl == 2 || !add_declaration(p, pipe, &v))
			return fail(p, "too many declarations in %s", context);
		if (strcmp(context, "range") != 0 || pipe->n_decl == 2)
			return fail(p, "too many declarations in %s", context);
		enum ttoken_type type = peek_non_space(p).type;
		if (type != TTOKEN_VARIABLE && type != TTOKEN_RIGHT && type != TTOKEN_RIGHT_PAREN)
			return fail(p, "range can only initialize variables");
	}
}

static struct tnode *pipeline(struct tparser *p, const char *context, enum ttoken_type end)
{
	struct tnode *pipe = node_new(p, TNODE_PIPE, peek_non_space(p).pos);
	if (!pipe || !declarations(p, pipe, context))
		return NULL;
	while (!p->failed) {
		struct ttoken t = next_non_space(p);
		if (t.type == end)
			return check_pipeline(p, pipe, context);
		switch (t.type) {
		case TTOKEN_BOOL:
		case TTOKEN_CHAR_CONSTANT:
		case TTOKEN_DOT:
		case TTOKEN_FIELD:
		case TTOKEN_IDENTIFIER:
		case TTOKEN_NUMBER:
		case TTOKEN_NIL:
		case TTOKEN_RAW_STRING:
		case TTOKEN_STRING:
		case TTOKEN_VARIABLE:
		case TTOKEN_LEFT_PAREN:
			backup(p);
			append(pipe, command(p));
			break;
		default:
			return unexpected(p, &t, context);
		}
	}
	return NULL;
}

/* ---- actions ---- */

static struct tnode *control(struct tparser *p, enum tnode_type type);

static void else_part(struct tparser *p, struct tnode *n, struct tnode *end)
{
	enum ttoken_type then = peek(p).type;
	if ((n->type == TNODE_IF && then == TTOKEN_IF) || (n->type == TNODE_WITH && then == TTOKEN_WITH)) {
		next(p); /* its end is ours */
		n->else_list = node_new(p, TNODE_LIST, end->pos);
		append(n->else_list, control(p, n->type));
		return;
	}
	n->else_list = item_list(p, &end);
	if (!p->failed && end->type != TNODE_END)
		fail(p, "expected end; found {{else}}");
}

/* {{if}}, {{range}} and {{with}}, whose keyword is read. */
static struct tnode *control(struct tparser *p, enum tnode_type type)
{
	static const char *const contexts[] = { [TNODE_IF] = "if", [TNODE_RANGE] = "range", [TNODE_WITH] = "with" };
	size_t vars = p->vars.n;
	struct tnode *n = node_new(p, type, 0), *end = NULL;
	if (enter(p)) {
		n->pipe = pipeline(p, contexts[type], TTOKEN_RIGHT);
		p->range_depth += type == TNODE_RANGE;
		n->list = p->failed ? NULL : item_list(p, &end);
		p->range_depth -= type == TNODE_RANGE;
	}
	if (!p->failed) {
		n->pos = n->pipe->pos;
		if (end->type == TNODE_ELSE)
			else_part(p, n, end);
	}
	p->vars.n = MIN(vars, p->vars.n);
	p->depth--;
	return p->failed ? NULL : n;
}

static struct tnode *loop_control(struct tparser *p, enum tnode_type type, size_t pos)
{
	const char *word = type == TNODE_BREAK ? "{{break}}" : "{{continue}}";
	struct ttoken t = next_non_space(p);
	if (t.type != TTOKEN_RIGHT)
		return unexpected(p, &t, word);
	return p->range_depth ? node_new(p, type, pos) : fail(p, "%s outside {{range}}", word);
}

static struct tnode *else_or_end(struct tparser *p, bool is_else)
{
	struct ttoken t = peek_non_space(p);
	if (is_else && (t.type == TTOKEN_IF || t.type == TTOKEN_WITH))
		return node_new(p, TNODE_ELSE, t.pos);
	t = next_non_space(p);
	if (t.type != TTOKEN_RIGHT)
		return unexpected(p, &t, is_else ? "else" : "end");
	return node_new(p, is_else ? TNODE_ELSE : TNODE_END, t.pos);
}

static bool name_of(struct tparser *p, const struct ttoken *t, const char *context, struct view *ret)
{
	if (t->type != TTOKEN_STRING && t->type != TTOKEN_RAW_STRING)
		unexpected(p, t, context);
	else if (!tliteral_string(&p->t->arena, t->text, ret))
		fail_at(p, t, "invalid syntax");
	return !p->failed;
}

/* Adds a definition; a non-empty one replaces an empty one. */
static void define(struct tparser *p, struct view name, struct tnode *root)
{
	struct tdef *d = (struct tdef *)template_find(p->t, name);
	if (p->failed)
		return;
	if (d && !tnode_is_empty(d->root)) {
		if (!tnode_is_empty(root))
			fail(p, "template: multiple definition of template \"%.*s\"", VIEW_ARG(name));
		return;
	}
	if (!d) {
		d = arena_calloc(&p->t->arena, 1, sizeof *d);
		if (!d) {
			fail(p, "the template is too large");
			return;
		}
		d->next = p->t->defs;
		p->t->defs = d;
	}
	*d = (struct tdef){ .name = name, .root = root, .next = d->next };
}

/* The body of {{define}} or {{block}}: it sees no variables of what is around it. */
static void definition(struct tparser *p, struct view name, const char *context)
{
	size_t scope = p->scope, vars = p->vars.n;
	unsigned ranges = p->range_depth, line = p->action_line;
	struct tnode *root = NULL, *end = NULL;
	p->scope = vars;
	p->range_depth = p->action_line = 0;
	if (enter(p) && declare(p, VIEW("$")))
		root = item_list(p, &end);
	if (!p->failed && end->type != TNODE_END)
		fail(p, "unexpected {{else}} in %s", context);
	if (!p->failed)
		define(p, name, root);
	p->depth--;
	p->vars.n = vars;
	p->scope = scope;
	p->range_depth = ranges;
	p->action_line = line;
}

static struct tnode *template_control(struct tparser *p, bool block)
{
	const char *context = block ? "block clause" : "template clause";
	struct ttoken t = next_non_space(p);
	struct view name;
	if (!name_of(p, &t, context, &name))
		return NULL;
	struct tnode *n = node_new(p, TNODE_TEMPLATE, t.pos);
	if (!n)
		return NULL;
	n->text = name;
	if (!block && next_non_space(p).type == TTOKEN_RIGHT)
		return n;
	if (!block)
		backup(p);
	n->pipe = pipeline(p, context, TTOKEN_RIGHT);
	if (block && !p->failed)
		definition(p, name, context);
	return p->failed ? NULL : n;
}

static struct tnode *action(struct tparser *p)
{
	struct ttoken t = next_non_space(p);
	switch (t.type) {
	case TTOKEN_BLOCK:
	case TTOKEN_TEMPLATE:
		return template_control(p, t.type == TTOKEN_BLOCK);
	case TTOKEN_BREAK:
		return loop_control(p, TNODE_BREAK, t.pos);
	case TTOKEN_CONTINUE:
		return loop_control(p, TNODE_CONTINUE, t.pos);
	case TTOKEN_ELSE:
	case TTOKEN_END:
		return else_or_end(p, t.type == TTOKEN_ELSE);
	case TTOKEN_IF:
		return control(p, TNODE_IF);
	case TTOKEN_RANGE:
		return control(p, TNODE_RANGE);
	case TTOKEN_WITH:
		return control(p, TNODE_WITH);
	default:
		break;
	}
	backup(p);
	struct tnode *n = node_new(p, TNODE_ACTION, peek(p).pos);
	if (n)
		n->pipe = pipeline(p, "command", TTOKEN_RIGHT);
	return p->failed ? NULL : n;
}

static struct tnode *text_or_action(struct tparser *p)
{
	struct ttoken t = next_non_space(p);
	struct tnode *n;
	switch (t.type) {
	case TTOKEN_TEXT:
		n = node_new(p, TNODE_TEXT, t.pos);
		if (n)
			n->text = t.text;
		return n;
	case TTOKEN_LEFT:
		p->action_line = line_of(p, t.pos);
		n = action(p);
		p->action_line = 0;
		return n;
	default:
		return unexpected(p, &t, "input");
	}
}

/* Up to an {{end}} or {{else}}, which is not in the list. */
static struct tnode *item_list(struct tparser *p, struct tnode **ret_end)
{
	struct tnode *list = node_new(p, TNODE_LIST, peek_non_space(p).pos);
	while (!p->failed && peek_non_space(p).type != TTOKEN_EOF) {
		struct tnode *n = text_or_action(p);
		if (n && (n->type == TNODE_END || n->type == TNODE_ELSE)) {
			*ret_end = n;
			return list;
		}
		append(list, n);
	}
	return fail(p, "unexpected EOF");
}

/* {{define "name"}}, whose keyword is read. */
static void define_clause(struct tparser *p)
{
	struct ttoken t = next_non_space(p);
	struct view name;
	if (!name_of(p, &t, "define clause", &name))
		return;
	t = next_non_space(p);
	if (t.type != TTOKEN_RIGHT)
		unexpected(p, &t, "define clause");
	else
		definition(p, name, "define clause");
}

static void whole(struct tparser *p)
{
	struct tnode *root = node_new(p, TNODE_LIST, 0);
	while (!p->failed && peek(p).type != TTOKEN_EOF) {
		if (peek(p).type == TTOKEN_LEFT) {
			struct ttoken left = next(p);
			if (next_non_space(p).type == TTOKEN_DEFINE) {
				define_clause(p);
				continue;
			}
			p->token[1] = left;
			p->peeked = 2;
		}
		struct tnode *n = text_or_action(p);
		if (n && (n->type == TNODE_END || n->type == TNODE_ELSE))
			fail(p, "unexpected %s", n->type == TNODE_END ? "{{end}}" : "{{else}}");
		append(root, n);
	}
	if (p->failed)
		return;
	struct tdef *d = (struct tdef *)template_find(p->t, p->t->name), *own = arena_calloc(&p->t->arena, 1, sizeof *own);
	if (d && !tnode_is_empty(d->root))
		fail(p, "template: multiple definition of template \"%.*s\"", VIEW_ARG(p->t->name));
	else if (!own)
		fail(p, "the template is too large");
	if (p->failed)
		return;
	*own = (struct tdef){ .name = p->t->name, .root = root, .next = p->t->defs };
	p->t->defs = own;
}

int template_parse_text(struct template *t, size_t *ret_at, struct err *e)
{
	/* what Prometheus declares before the text */
	static const char *const names[] = { "$", "$labels", "$externalLabels", "$externalURL", "$value" };
	struct tparser p = { .t = t, .lex = { .in = t->text }, .e = e };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		vec_push(&p.vars, view_of(names[i]));
	whole(&p);
	vec_free(&p.vars);
	*ret_at = p.wrong;
	return p.failed ? -ERR_BAD_DATA : 0;
}
