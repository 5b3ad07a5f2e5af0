/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of an expansion, and its use of them: steps, memory, regular expressions, queries. Functions stand on it. */
#include <stdlib.h>

#include "base/clock.h"
#include "rules/template/template_exec.h"

#define DEFAULT_QUERIES 20

struct template_vector {
	struct texec *x;
	VEC(struct tsample *) samples;
};

int texec_charge(struct texec *x, uint64_t steps, struct err *e)
{
	x->steps += steps;
	if (x->steps < x->check_at)
		return 0;
	x->check_at = x->steps + TEXEC_CHECK_STEPS;
	if (x->steps > x->max_steps)
		return err_set(e, ERR_LIMIT, "expanding takes more than %llu steps", (unsigned long long)x->max_steps);
	if (x->env->canceled && atomic_load_explicit(x->env->canceled, memory_order_relaxed))
		return err_set(e, ERR_CANCELED, "canceled");
	if (clock_mono_ns() > x->deadline_mono_ns)
		return err_set(e, ERR_TIMEOUT, "expanding takes too long");
	return 0;
}

void *texec_alloc(struct texec *x, size_t n, struct err *e)
{
	if (texec_charge(x, n / 64, e))
		return NULL;
	void *p = arena_alloc(&x->arena, n);
	if (!p)
		err_set(e, ERR_LIMIT, "expanding takes more than %zu bytes of memory", x->arena.max);
	return p;
}

struct buf texec_buf(const struct texec *x)
{
	return (struct buf){ .max = MAX(x->arena.max - MIN(x->arena.used, x->arena.max), (size_t)1) };
}

int texec_take(struct texec *x, struct buf *b, struct tvalue *ret, struct err *e)
{
	bool fits = !b->overflow;
	char *p = fits ? texec_alloc(x, b->len + 1, e) : NULL;
	if (!fits)
		err_set(e, ERR_LIMIT, "expanding takes more than %zu bytes of memory", x->arena.max);
	if (p && b->len)
		memcpy(p, b->ptr, b->len);
	*ret = TSTRING(view_make(p, b->len));
	buf_free(b);
	return p ? 0 : -(int)e->code;
}

const struct template_env *texec_env(const struct texec *x)
{
	return x->env;
}

struct regex_meter *texec_meter(struct texec *x)
{
	return &x->meter;
}

int texec_regex(struct texec *x, struct view pattern, struct regex **ret, struct err *e)
{
	for (unsigned i = 0; i < x->n_regexes; i++)
		if (view_eq(regex_pattern(x->regexes[i]), pattern)) {
			*ret = x->regexes[i];
			return 0;
		}
	int rc = texec_charge(x, 200 + pattern.len, e); /* compiling takes as long as many nodes */
	if (rc)
		return rc;
	rc = regex_new(ret, pattern, false, e);
	if (rc) {
		char *place = strstr(e->msg, "` at offset ");
		if (place) /* Go has none */
			place[1] = 0;
		return rc;
	}
	unsigned at = x->n_regexes < TEXEC_REGEXES ? x->n_regexes++ : pattern.len % TEXEC_REGEXES;
	regex_unref(x->regexes[at]);
	x->regexes[at] = *ret;
	return 0;
}

int template_vector_add(struct template_vector *v, struct labels labels, double value, struct err *e)
{
	struct tsample *s = texec_alloc(v->x, sizeof *s, e);
	if (!s)
		return -(int)e->code;
	*s = (struct tsample){ .labels = labels_copy(&v->x->arena, labels), .value = value };
	if (labels.n && !s->labels.v)
		return err_set(e, ERR_LIMIT, "expanding takes more than %zu bytes of memory", v->x->arena.max);
	vec_push(&v->samples, s);
	return 0;
}

int texec_query(struct texec *x, struct view expr, int64_t t_ms, struct tvalue *ret, struct err *e)
{
	struct template_vector v = { .x = x };
	unsigned max = x->env->max_queries ? x->env->max_queries : DEFAULT_QUERIES;
	if (!x->env->query)
		return err_set(e, ERR_EXECUTION, "queries cannot be answered here");
	if (++x->queries > max)
		return err_set(e, ERR_LIMIT, "more than %u queries", max);
	int rc = x->env->query(x->env->query_arg, expr, t_ms, &v, e);
	struct tsample **samples = rc ? NULL : texec_alloc(x, (v.samples.n + 1) * sizeof *samples, e);
	if (samples && v.samples.n)
		memcpy(samples, v.samples.v, v.samples.n * sizeof *samples);
	*ret = (struct tvalue){ .type = TTYPE_VECTOR, .vector = { samples, v.samples.n, v.samples.n } };
	vec_free(&v.samples);
	return samples ? 0 : rc ? rc : -(int)e->code;
}
