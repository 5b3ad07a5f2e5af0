/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template_node.h"

#include "rules/template/template_quote.h"

static void write_list(const struct tnode *n, const char *between, struct buf *out)
{
	for (const struct tnode *x = n->items; x && !out->overflow; x = x->next) {
		if (x != n->items)
			buf_puts(out, between);
		bool paren = x->type == TNODE_PIPE;
		if (paren)
			buf_putc(out, '(');
		tnode_write(x, out);
		if (paren)
			buf_putc(out, ')');
	}
}

static void write_pipe(const struct tnode *n, struct buf *out)
{
	for (unsigned i = 0; i < n->n_decl; i++) {
		if (i)
			buf_puts(out, ", ");
		tnode_write(n->decl[i], out);
	}
	if (n->n_decl)
		buf_puts(out, n->assigns ? " = " : " := ");
	write_list(n, " | ", out);
}

static void write_names(const struct tnode *n, bool dot_first, struct buf *out)
{
	for (size_t i = 0; i < n->n_names; i++) {
		if (i || dot_first)
			buf_putc(out, '.');
		buf_putv(out, n->names[i]);
	}
}

static void write_branch(const struct tnode *n, const char *word, struct buf *out)
{
	buf_printf(out, "{{%s ", word);
	tnode_write(n->pipe, out);
	buf_puts(out, "}}");
	tnode_write(n->list, out);
	if (n->else_list) {
		buf_puts(out, "{{else}}");
		tnode_write(n->else_list, out);
	}
	buf_puts(out, "{{end}}");
}

static void write_template(const struct tnode *n, struct buf *out)
{
	buf_puts(out, "{{template ");
	go_quote(n->text, '"', false, out);
	if (n->pipe) {
		buf_putc(out, ' ');
		tnode_write(n->pipe, out);
	}
	buf_puts(out, "}}");
}

static void write_chain(const struct tnode *n, struct buf *out)
{
	bool paren = n->base->type == TNODE_PIPE;
	if (paren)
		buf_putc(out, '(');
	tnode_write(n->base, out);
	if (paren)
		buf_putc(out, ')');
	write_names(n, true, out);
}

void tnode_write(const struct tnode *n, struct buf *out)
{
	switch (n->type) {
	case TNODE_TEXT:
	case TNODE_NUMBER:
	case TNODE_IDENTIFIER:
		buf_putv(out, n->text);
		break;
	case TNODE_ACTION:
		buf_puts(out, "{{");
		tnode_write(n->pipe, out);
		buf_puts(out, "}}");
		break;
	case TNODE_IF:
		write_branch(n, "if", out);
		break;
	case TNODE_RANGE:
		write_branch(n, "range", out);
		break;
	case TNODE_WITH:
		write_branch(n, "with", out);
		break;
	case TNODE_TEMPLATE:
		write_template(n, out);
		break;
	case TNODE_BREAK:
		buf_puts(out, "{{break}}");
		break;
	case TNODE_CONTINUE:
		buf_puts(out, "{{continue}}");
		break;
	case TNODE_LIST:
		write_list(n, "", out);
		break;
	case TNODE_PIPE:
		write_pipe(n, out);
		break;
	case TNODE_COMMAND:
		write_list(n, " ", out);
		break;
	case TNODE_BOOL:
		buf_puts(out, n->truth ? "true" : "false");
		break;
	case TNODE_DOT:
		buf_putc(out, '.');
		break;
	case TNODE_NIL:
		buf_puts(out, "nil");
		break;
	case TNODE_STRING:
		buf_putv(out, n->quoted);
		break;
	case TNODE_FIELD:
		write_names(n, true, out);
		break;
	case TNODE_VARIABLE:
		write_names(n, false, out);
		break;
	case TNODE_CHAIN:
		write_chain(n, out);
		break;
	case TNODE_END:
		buf_puts(out, "{{end}}");
		break;
	case TNODE_ELSE:
		buf_puts(out, "{{else}}");
		break;
	}
}

bool tnode_is_empty(const struct tnode *list)
{
	for (const struct tnode *n = list->items; n; n = n->next) {
		if (n->type != TNODE_TEXT)
			return false;
		for (size_t i = 0; i < n->text.len; i++)
			if (!memchr(" \t\r\n\v\f", n->text.ptr[i], 6))
				return false;
	}
	return true;
}

const struct tdef *template_find(const struct template *t, struct view name)
{
	const struct tdef *d = t->defs;
	while (d && !view_eq(d->name, name))
		d = d->next;
	return d;
}

void template_place_of(const struct template *t, size_t pos, unsigned *ret_line, unsigned *ret_column)
{
	unsigned line = 1;
	size_t first = 0;
	for (size_t i = 0; i < pos && i < t->text.len; i++)
		if (t->text.ptr[i] == '\n') {
			line++;
			first = i + 1;
		}
	*ret_line = line;
	*ret_column = (unsigned)(pos - first);
}
