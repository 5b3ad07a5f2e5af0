/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/texts.h"

int texts_parse(struct rule_text *x, struct err *e)
{
	(void)x;
	(void)e;
	return 0;
}

void texts_free(const struct rule_text *x)
{
	(void)x;
}

bool texts_reads(const struct rule_text *x)
{
	return view_contains(x->text, VIEW("{{")) && (view_contains(x->text, VIEW("query")) || view_contains(x->text, VIEW("topFunctions")));
}
