/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template_func.h"

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
