/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cursor.h"

struct view cursor_bytes(struct cursor *c, size_t n)
{
	if (n > (size_t)(c->end - c->p)) {
		c->bad = true;
		c->p = c->end;
		return VIEW("");
	}
	struct view v = { (const char *)c->p, n };
	c->p += n;
	return v;
}
