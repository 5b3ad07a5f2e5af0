/* SPDX-License-Identifier: Apache-2.0 */
#include "model/matcher.h"

int matcher_init(struct matcher *m, enum matcher_op op, struct view name, struct view value, struct err *e)
{
	*m = (struct matcher){ .op = op, .name = name, .value = value };
	return op == MATCH_RE || op == MATCH_NRE ? regex_new(&m->re, value, true, e) : 0;
}

void matcher_release(struct matcher *m)
{
	regex_unref(m->re);
	m->re = NULL;
}

int matcher_matches(const struct matcher *m, struct view value, struct regex_meter *meter, struct err *e)
{
	switch (m->op) {
	case MATCH_EQ:
		return view_eq(m->value, value);
	case MATCH_NE:
		return !view_eq(m->value, value);
	case MATCH_RE:
	case MATCH_NRE:
		break;
	}
	int rc = regex_match(m->re, value, meter, e);
	return rc < 0 ? rc : rc == (m->op == MATCH_RE);
}

int matchers_match(const struct matcher *m, size_t n, struct labels l, struct regex_meter *meter, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		int rc = matcher_matches(&m[i], labels_get(l, m[i].name), meter, e);
		if (rc <= 0)
			return rc;
	}
	return 1;
}

const char *matcher_op_text(enum matcher_op op)
{
	static const char *const text[] = { "=", "!=", "=~", "!~" };
	return text[op];
}
