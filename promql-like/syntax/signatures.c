/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of the language's functions, from their table. */
#include <strings.h>

#include "promql-like/syntax/func.h"

#define ROW(name, args, ret, form, code, flags, signature, doc) { name, args, ret, form, flags, signature, doc },
const struct func func_table[] = {
#include "promql-like/syntax/func_rows.h"
};
#undef ROW
static const size_t n_funcs = ARRAY_LEN(func_table);

const struct func *func_lookup(struct view name)
{
	for (size_t i = 0; i < n_funcs; i++)
		if (view_eqs(name, func_table[i].name))
			return &func_table[i];
	return NULL;
}

bool func_is_readout(const struct func *f)
{
	static const char *const names[] = { "callees", "callers", "samples", "self", "self_share", "self_share_high", "self_share_low",
					     "share", "share_high", "share_low", "total" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(f->name, names[i]) == 0)
			return true;
	return false;
}

char func_arg(const struct func *f, size_t n, size_t i)
{
	int least, most;
	func_arity(f, &least, &most);
	char last = 0;
	size_t k = 0, given = n > (size_t)least ? n - (size_t)least : 0; /* of those marked - */
	for (const char *p = f->args; *p; p++) {
		if (*p == '?')
			continue;
		if (*p == '*')
			return last;
		if (*p == '-') {
			p++;
			if (!given)
				continue;
			given--;
		}
		last = *p;
		if (k++ == i)
			return *p;
	}
	return 0;
}

void func_arity(const struct func *f, int *least, int *most)
{
	*least = *most = 0;
	bool optional = false;
	for (const char *p = f->args; *p; p++) {
		if (*p == '?') {
			optional = true;
		} else if (*p == '*') {
			*most = -1;
			--*least;
		} else if (*p == '-') {
			++*most;
			p++;
		} else {
			++*most;
			*least += !optional;
		}
	}
}

static const char *aggregate_returns(enum aggregate_op op, bool profiles)
{
	return op == AGGR_MERGE || op == AGGR_SPLIT ? "profiles" : profiles ? "the same" : "values";
}

/* Functions that sort elements or set their labels leave what these are. */
static bool func_keeps_elements(const struct func *f)
{
	return f->form == FUNC_CALL && (view_starts(view_of(f->name), VIEW("label_")) || view_starts(view_of(f->name), VIEW("sort")));
}

static const char *func_returns(const struct func *f)
{
	if (f->form == FUNC_FRAMES)
		return "frame matcher";
	if (f->ret == PROMQL_SCALAR)
		return "scalar";
	if (f->form == FUNC_PROFILE)
		return func_is_readout(f) || strcmp(f->name, "coverage") == 0 ? "values" : "profiles";
	return f->flags & FUNC_PROFILES || func_keeps_elements(f) ? "the same" : "values";
}

const struct promql_function_info *promql_function_at(size_t i)
{
	static _Thread_local struct promql_function_info info;
	if (i < AGGR_OPS) {
		const struct aggregate_info *a = aggregate_info((enum aggregate_op)i);
		info = (struct promql_function_info){ a->name, a->signature, a->doc, true, a->profiles, aggregate_returns((enum aggregate_op)i, a->profiles),
						      promql_example(a->name) };
		return &info;
	}
	i -= AGGR_OPS;
	for (const struct func *f = func_table; f < func_table + n_funcs; f++) {
		bool hidden = f->form == FUNC_REFUSED || (f->flags & FUNC_SWITCHED && !(promql_enabled() & PROMQL_EXPERIMENTAL));
		if (hidden || i--)
			continue;
		info = (struct promql_function_info){ f->name, f->signature, f->doc, false, f->form == FUNC_PROFILE || f->flags & FUNC_PROFILES,
						      func_returns(f), promql_example(f->name) };
		return &info;
	}
	return NULL;
}
