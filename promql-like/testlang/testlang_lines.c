/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a language test, one after the other. */
#include "promql-like/testlang/testlang_case.h"

int testlang_bad_file(struct runner *r, size_t line, const char *what)
{
	return err_set(r->e, ERR_BAD_DATA, "%.*s:%zu: %s", VIEW_ARG(r->name), line, what);
}

bool testlang_next(struct runner *r, struct view *ret)
{
	if (r->at >= r->lines.l.n || !r->lines.l.v[r->at].len)
		return false;
	*ret = r->lines.l.v[r->at++];
	return true;
}
