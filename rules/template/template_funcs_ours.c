/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that only we have: what the profiles of an alert say, and links to them. */
#include <math.h>
#include <stdlib.h>

#include "rules/template/template.h"
#include "rules/template/template_func.h"
#include "rules/template/template_link.h"

#define MAX_FUNCTIONS 100

#define FUNC(name) static int name(struct texec *x, const struct tvalue *a, size_t n, struct tvalue *ret, struct err *e)

/* The larger first, then by name. */
static int cmp_samples(const void *a, const void *b)
{
	const struct tsample *l = *(struct tsample *const *)a, *r = *(struct tsample *const *)b;
	if (l->value != r->value && !isnan(l->value) && !isnan(r->value))
		return l->value < r->value ? 1 : -1;
	if (isnan(l->value) != isnan(r->value))
		return isnan(l->value) ? 1 : -1;
	return view_cmp(labels_get(l->labels, VIEW("function")), labels_get(r->labels, VIEW("function")));
}

/* The time of what the rule saw. */
static int64_t seen_ms(const struct texec *x)
{
	return texec_env(x)->t_ms - texec_env(x)->offset_ms;
}

/* topFunctions "expr" 5: the functions with the largest share of the profile themselves, a line each: "41.3% main.fibonacci". */
FUNC(f_top_functions)
{
	struct buf b = texec_buf(x);
	struct tvalue v;
	(void)n;
	if (a[1].i < 1 || a[1].i > MAX_FUNCTIONS)
		return err_set(e, ERR_EXECUTION, "the number of functions is %lld, not 1 to %d", (long long)a[1].i, MAX_FUNCTIONS);
	buf_printf(&b, "topk(%lld, self_share(merge(", (long long)a[1].i);
	buf_putv(&b, a[0].s);
	buf_puts(&b, "\n)))"); /* a comment may end the expression */
	int rc = b.overflow ? err_set(e, ERR_LIMIT, "the expression is too long") : texec_query(x, buf_view(&b), seen_ms(x), &v, e);
	buf_reset(&b);
	if (!rc)
		qsort(v.vector.v, v.vector.n, sizeof v.vector.v[0], cmp_samples);
	for (size_t i = 0; !rc && i < MIN(v.vector.n, (size_t)a[1].i); i++) {
		const struct tsample *s = v.vector.v[i];
		struct view name = labels_get(s->labels, VIEW("function"));
		buf_printf(&b, "%s%.1f%% ", i ? "\n" : "", s->value * 100);
		buf_putv(&b, name.len ? name : VIEW("(unknown)"));
	}
	if (!rc)
		return texec_take(x, &b, ret, e);
	buf_free(&b);
	return rc;
}

/* flameLink "expr": the flame graph at the evaluation's time. */
FUNC(f_flame_link)
{
	struct buf b = texec_buf(x);
	(void)n;
	template_page_url(texec_env(x)->external_url, a[0].s, seen_ms(x), &b);
	buf_puts(&b, "&view=flame");
	return texec_take(x, &b, ret, e);
}

/* diffLink "a" "b": the flame graph of a less b. */
FUNC(f_diff_link)
{
	struct buf q = texec_buf(x), b = texec_buf(x);
	(void)n;
	buf_puts(&q, "diff(merge(");
	buf_putv(&q, a[0].s);
	buf_puts(&q, "), merge(");
	buf_putv(&q, a[1].s);
	buf_puts(&q, "))");
	template_page_url(texec_env(x)->external_url, buf_view(&q), seen_ms(x), &b);
	buf_puts(&b, "&view=flame");
	b.overflow |= q.overflow;
	buf_free(&q);
	return texec_take(x, &b, ret, e);
}

const struct tfunc tfuncs_ours[] = {
	{ "diffLink", { TPARAM_STRING, TPARAM_STRING }, false, f_diff_link },
	{ "flameLink", { TPARAM_STRING }, false, f_flame_link },
	{ "topFunctions", { TPARAM_STRING, TPARAM_INT }, false, f_top_functions },
	{ 0 },
};
