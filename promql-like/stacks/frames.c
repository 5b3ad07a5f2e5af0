/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/stacks/frames.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/lock.h"
#include "promql-like/values/query.h"

struct frames_trouble {
	struct eval *q;
	const struct node *arg;
	atomic_bool there;
	struct mutex lock;
	struct err e; /* once it is there */
};

int frames_init(struct frames *f, struct eval *q, const struct node *arg, struct err *e)
{
	*f = (struct frames){ .trouble = NEW(struct frames_trouble) };
	f->trouble->q = q;
	f->trouble->arg = arg;
	mutex_init(&f->trouble->lock, LOCK_LEAF, "frames");
	while (arg->kind == NODE_PAREN)
		arg = arg->paren;
	if (arg->kind == NODE_FRAMES) {
		f->filter.m = arg->frames.m;
		f->filter.n = arg->frames.n;
		return 0;
	}
	if (arg->kind == NODE_CALL)
		arg = node_unwrap(arg->call.args[0]);
	int rc = regex_new(&f->any, arg->string, false, e);
	if (rc)
		frames_release(f);
	f->filter.any = f->any;
	f->filter.any_text = arg->string;
	return rc;
}

void frames_release(struct frames *f)
{
	regex_unref(f->any);
	f->any = NULL;
	f->filter.any = NULL;
	if (f->trouble)
		mutex_destroy(&f->trouble->lock);
	free(f->trouble);
	f->trouble = NULL;
}

/* ---- errors ---- */

static bool in_trouble(const struct frames *f)
{
	return atomic_load_explicit(&f->trouble->there, memory_order_acquire);
}

/* The answer of a match. */
static bool answer(const struct frames *f, int rc, struct err *e)
{
	struct frames_trouble *t = f->trouble;
	if (rc >= 0)
		return rc > 0;
	eval_error_at(t->q, t->arg, rc, e);
	mutex_lock(&t->lock);
	if (!in_trouble(f))
		t->e = *e;
	atomic_store_explicit(&t->there, true, memory_order_release);
	mutex_unlock(&t->lock);
	return false;
}

int frames_failed(const struct frames *f, struct err *e)
{
	if (!f->trouble || !in_trouble(f))
		return 0;
	*e = f->trouble->e;
	return -(int)e->code;
}

int frames_source_failed(const struct frames *f, int rc, struct err *e)
{
	return rc == -ERR_LIMIT && f->trouble ? eval_error_at(f->trouble->q, f->trouble->arg, rc, e) : rc;
}

/* ---- matching ---- */

bool frames_value(const struct frames *f, const struct matcher *m, struct view v)
{
	struct err e UNINITIALIZED; /* large, and rarely an error */
	return !in_trouble(f) && answer(f, matcher_matches(m, v, &f->trouble->q->regex, &e), &e);
}

void frames_memo_init(struct frames_memo *m, const struct frames *f, const struct symbols *s)
{
	*m = (struct frames_memo){ .f = f, .s = s, .n_lines = symbols_count(s, SYMBOLS_LINES), .n_locations = symbols_count(s, SYMBOLS_LOCATIONS) };
	frame_filter_run_init(&m->run, &f->filter, s, f->trouble ? &f->trouble->q->regex : NULL);
	m->lines = xcalloc(m->n_lines + 1, 1);
	m->bare = xcalloc(m->n_locations + 1, 1);
}

void frames_memo_free(struct frames_memo *m)
{
	frame_filter_run_release(&m->run);
	free(m->lines);
	free(m->bare);
}

/* The memo of an id of a dictionary that may have grown. */
static uint8_t *frames_memo_at(uint8_t **memo, uint32_t *n, uint32_t id)
{
	if (UNLIKELY(id >= *n)) {
		uint32_t want = id + id / 4 + 1;
		*memo = xreallocarray(*memo, (size_t)want + 1, 1);
		memset(*memo + *n, 0, (size_t)want + 1 - *n);
		*n = want;
	}
	return *memo + id;
}

static bool frames_memo_ask(struct frames_memo *m, const struct sym_location *l, uint32_t i)
{
	struct err e UNINITIALIZED; /* large, and rarely an error */
	return !in_trouble(m->f) && answer(m->f, frame_filter_run_match(&m->run, l, i, &e), &e);
}

bool frames_memo_match(struct frames_memo *m, uint32_t location, uint32_t i)
{
	const struct sym_location *l = symbols_get_location(m->s, location);
	uint8_t *at = l->n_lines ? frames_memo_at(&m->lines, &m->n_lines, l->first_line + i) : frames_memo_at(&m->bare, &m->n_locations, location);
	if (!*at)
		*at = frames_memo_ask(m, l, i) ? 2 : 1;
	return *at == 2;
}

bool frames_memo_match_name(struct frames_memo *m, uint32_t location, uint32_t i)
{
	const struct frames *f = m->f;
	struct err e UNINITIALIZED; /* large, and rarely an error */
	if (!f->any)
		return frames_memo_match(m, location, i);
	const struct sym_function *fn = frame_function(m->s, symbols_get_location(m->s, location), i);
	struct view name = fn ? symbols_get_string(m->s, fn->name) : VIEW("");
	return name.len && !in_trouble(f) && answer(f, regex_match(f->any, frame_simple_name(name), &f->trouble->q->regex, &e), &e);
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
