/* SPDX-License-Identifier: Apache-2.0 */
#include "model/frame_filter.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/frame.h"

static enum frame_key frame_key_of(const struct matcher *m)
{
	return view_eqs(m->name, "binary") ? FRAME_BINARY : view_eqs(m->name, "file") ? FRAME_FILE : view_eqs(m->name, "line") ? FRAME_LINE : FRAME_FUNCTION;
}

static struct view path_last_part(struct view path)
{
	const char *slash = path.len ? memrchr(path.ptr, '/', path.len) : NULL;
	return slash ? view_make(slash + 1, path.len - (size_t)(slash + 1 - path.ptr)) : path;
}

/* Negative matchers must refuse both spellings, positive ones may accept either. */
static int path_matches(const struct matcher *m, struct view path, struct regex_meter *meter, struct err *e)
{
	const int goes_on = m->op == MATCH_NE || m->op == MATCH_NRE; /* the answer that the last part may change */
	int rc = matcher_matches(m, path, meter, e);
	struct view last = path_last_part(path);
	return rc == goes_on && last.len < path.len ? matcher_matches(m, last, meter, e) : rc;
}

/* All matchers of a key, or the expression, on a value. */
static int filter_value(const struct frame_filter_run *r, enum frame_key key, struct view v, struct err *e)
{
	const struct source_frame_filter *f = r->f;
	const bool path = key == FRAME_FILE || key == FRAME_BINARY;
	int rc = 1;
	if (f->any)
		return regex_match(f->any, v, r->meter, e);
	for (size_t i = 0; i < f->n && rc > 0; i++)
		if (frame_key_of(&f->m[i]) == key)
			rc = path ? path_matches(&f->m[i], v, r->meter, e) : matcher_matches(&f->m[i], v, r->meter, e);
	return rc;
}

static uint8_t *filter_memo_at(struct frame_filter_run *r, uint32_t id)
{
	if (UNLIKELY(id >= r->n_memo)) {
		uint32_t n = MAX(symbols_count(r->s, SYMBOLS_STRINGS), id + id / 4 + 1);
		r->memo = xreallocarray(r->memo, n, 1);
		memset(r->memo + r->n_memo, 0, n - r->n_memo);
		r->n_memo = n;
	}
	return &r->memo[id];
}

/* Of a string of the dictionary. */
static int filter_string(struct frame_filter_run *r, enum frame_key key, uint32_t id, struct err *e)
{
	const unsigned shift = 2 * key;
	uint8_t *at = r->once ? NULL : filter_memo_at(r, id);
	if (at && *at >> shift & 3)
		return (*at >> shift & 3) - 1;
	int rc = filter_value(r, key, symbols_get_string(r->s, id), e);
	if (at && rc >= 0)
		*at |= (uint8_t)((rc + 1) << shift);
	return rc;
}

static uint32_t path_of_binary(const struct symbols *s, const struct sym_location *l)
{
	return l->mapping ? symbols_get_mapping(s, l->mapping - 1)->file : 0;
}

/* The expression, on function, file or binary. */
static int filter_any(struct frame_filter_run *r, const struct sym_location *l, uint32_t line, struct err *e)
{
	const struct sym_function *fn = frame_function(r->s, l, line);
	int rc = fn ? filter_string(r, FRAME_FUNCTION, fn->name, e) : 0;
	if (!rc && fn)
		rc = filter_string(r, FRAME_FUNCTION, fn->filename, e);
	if (!rc && l->mapping)
		rc = filter_string(r, FRAME_FUNCTION, path_of_binary(r->s, l), e);
	return rc;
}

static int filter_line(struct frame_filter_run *r, const struct sym_location *l, uint32_t line, struct err *e)
{
	char text[24];
	int n = snprintf(text, sizeof text, "%lld", (long long)frame_line(r->s, l, line));
	return filter_value(r, FRAME_LINE, view_make(text, (size_t)n), e);
}

static int filter_function(struct frame_filter_run *r, const struct sym_location *l, uint32_t line, struct err *e)
{
	const struct sym_function *fn = frame_function(r->s, l, line);
	struct buf tmp = { 0 };
	if (fn && symbols_get_string(r->s, fn->name).len)
		return filter_string(r, FRAME_FUNCTION, fn->name, e);
	int rc = filter_value(r, FRAME_FUNCTION, frame_name(r->s, l, line, &tmp), e);
	buf_free(&tmp);
	return rc;
}

static int filter_key(struct frame_filter_run *r, enum frame_key key, const struct sym_location *l, uint32_t line, struct err *e)
{
	const struct sym_function *fn;
	switch (key) {
	case FRAME_BINARY:
		return filter_string(r, key, path_of_binary(r->s, l), e);
	case FRAME_FILE:
		fn = frame_function(r->s, l, line);
		return filter_string(r, key, fn ? fn->filename : 0, e);
	case FRAME_LINE:
		return filter_line(r, l, line, e);
	default:
		return filter_function(r, l, line, e);
	}
}

void frame_filter_run_init(struct frame_filter_run *r, const struct source_frame_filter *f, const struct symbols *s, struct regex_meter *meter)
{
	unsigned met = 0;
	*r = (struct frame_filter_run){ .f = f, .s = s, .meter = meter };
	for (size_t i = 0; i < f->n && !f->any; i++) {
		enum frame_key key = frame_key_of(&f->m[i]);
		if (!(met & 1u << key))
			r->keys[r->n_keys++] = key;
		met |= 1u << key;
	}
}

void frame_filter_run_release(struct frame_filter_run *r)
{
	free(r->memo);
	r->memo = NULL;
	r->n_memo = 0;
}

int frame_filter_run_match(struct frame_filter_run *r, const struct sym_location *l, uint32_t line, struct err *e)
{
	int rc = 1;
	if (r->f->any)
		return filter_any(r, l, line, e);
	for (unsigned i = 0; i < r->n_keys && rc > 0; i++)
		rc = filter_key(r, r->keys[i], l, line, e);
	return rc;
}

int frame_filter_match(const struct source_frame_filter *f, const struct symbols *s, const struct sym_location *l, uint32_t line,
		       struct regex_meter *meter, struct err *e)
{
	struct frame_filter_run r;
	frame_filter_run_init(&r, f, s, meter);
	r.once = true;
	return frame_filter_run_match(&r, l, line, e);
}
