/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template_func.h"

const char *tparam_name(enum tparam p)
{
	static const char *const names[] = { "", "reflect.Value", "interface {}", "string", "int", "time.Duration", "time.Time",
					     "template.queryResult", "*template.sample" };
	return names[p];
}

static const struct tfunc *find_in(const struct tfunc *table, struct view name)
{
	for (const struct tfunc *f = table; f->name; f++)
		if (view_eqs(name, f->name))
			return f;
	return NULL;
}

const struct tfunc *tfunc_find(struct view name)
{
	const struct tfunc *f = find_in(tfuncs_prometheus, name);
	f = f ? f : find_in(tfuncs_go, name);
	return f ? f : find_in(tfuncs_ours, name);
}
