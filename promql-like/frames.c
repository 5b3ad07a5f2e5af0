/* SPDX-License-Identifier: Apache-2.0 */
#include "frames.h"

#include <stdio.h>

#include "func.h"

int frames_init(struct frames *f, const struct node *arg, struct err *e)
{
	*f = (struct frames){ 0 };
	while (arg->kind == NODE_PAREN)
		arg = arg->paren;
	if (arg->kind == NODE_FRAMES) {
		f->m = arg->frames.m;
		f->n = arg->frames.n;
		return 0;
	}
	if (arg->kind == NODE_CALL)
		arg = node_unwrap(arg->call.args[0]);
	return regex_new(&f->any, arg->string, false, e);
}

void frames_release(struct frames *f)
{
	regex_unref(f->any);
	f->any = NULL;
}

static struct view binary_path(const struct symbols *s, const struct sym_location *l)
{
	return l->mapping ? symbols_get_string(s, symbols_get_mapping(s, l->mapping - 1)->file) : VIEW("");
}

/* ---- matching ---- */

static bool regex_yes(const struct regex *re, struct view v)
{
	struct err e;
	return regex_match(re, v, &e) > 0;
}

static struct view last_part(struct view path)
{
	const char *slash = path.len ? memrchr(path.ptr, '/', path.len) : NULL;
	return slash ? view_make(slash + 1, path.len - (size_t)(slash + 1 - path.ptr)) : path;
}

static bool one_value(const struct matcher *m, struct view v)
{
	struct err e;
	return matcher_matches(m, v, &e) > 0;
}

/* Negative matchers must refuse both spellings, positive ones may take either. */
static bool path_value(const struct matcher *m, struct view path)
{
	bool whole = one_value(m, path), part = one_value(m, last_part(path));
	return m->op == MATCH_NE || m->op == MATCH_NRE ? whole && part : whole || part;
}

static bool match_key(const struct matcher *m, const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	if (view_eqs(m->name, "binary"))
		return path_value(m, binary_path(s, l));
	if (view_eqs(m->name, "file"))
		return path_value(m, frame_file(s, l, i));
	if (view_eqs(m->name, "line")) {
		char text[24];
		int n = snprintf(text, sizeof text, "%lld", (long long)frame_line(s, l, i));
		return one_value(m, view_make(text, (size_t)n));
	}
	struct buf tmp = { 0 };
	bool yes = one_value(m, frame_name(s, l, i, &tmp));
	buf_free(&tmp);
	return yes;
}

bool frames_match(const struct frames *f, const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	if (f->any) {
		const struct sym_function *fn = frame_function(s, l, i);
		if (fn && (regex_yes(f->any, symbols_get_string(s, fn->name)) ||
			   regex_yes(f->any, symbols_get_string(s, fn->filename))))
			return true;
		return l->mapping && regex_yes(f->any, binary_path(s, l));
	}
	for (size_t k = 0; k < f->n; k++)
		if (!match_key(&f->m[k], s, l, i))
			return false;
	return true;
}

bool frames_match_name(const struct frames *f, const struct symbols *s, const struct sym_location *l, uint32_t i)
{
	if (!f->any)
		return frames_match(f, s, l, i);
	const struct sym_function *fn = frame_function(s, l, i);
	struct view name = fn ? symbols_get_string(s, fn->name) : VIEW("");
	return name.len && regex_yes(f->any, frame_simple_name(name));
}

void frames_memo_init(struct frames_memo *m, const struct frames *f, const struct symbols *s)
{
	*m = (struct frames_memo){ f, s, NULL, NULL, symbols_count(s, SYMBOLS_LINES), symbols_count(s, SYMBOLS_LOCATIONS) };
	m->lines = xcalloc(m->n_lines + 1, 1);
	m->bare = xcalloc(m->n_locations + 1, 1);
}

void frames_memo_free(struct frames_memo *m)
{
	free(m->lines);
	free(m->bare);
}

bool frames_memo_match(struct frames_memo *m, uint32_t location, uint32_t i)
{
	const struct sym_location *l = symbols_get_location(m->s, location);
	uint8_t *at = l->n_lines ? l->first_line + i < m->n_lines ? &m->lines[l->first_line + i] : NULL
				 : location < m->n_locations ? &m->bare[location] : NULL;
	if (!at)
		return frames_match(m->f, m->s, l, i);
	if (!*at)
		*at = frames_match(m->f, m->s, l, i) ? 2 : 1;
	return *at == 2;
}

bool frames_memo_stack(struct frames_memo *m, uint32_t column, bool leaf_only)
{
	uint32_t node = symbols_stack_node(m->s, symbols_get_column(m->s, column)->stack);
	for (; node; node = leaf_only ? 0 : symbols_get_node(m->s, node)->parent) {
		uint32_t location = symbols_get_node(m->s, node)->location;
		uint32_t n = leaf_only ? 1 : frame_count(symbols_get_location(m->s, location));
		for (uint32_t k = 0; k < n; k++)
			if (frames_memo_match(m, location, k))
				return true;
	}
	return false;
}
