/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/template/template.h"

#include <stdlib.h>

#include "base/clock.h"
#include "rules/template/template_exec.h"

#define PARSE_MEMORY ((size_t)64 << 20)
#define DEFAULT_OUTPUT ((size_t)1 << 20)
#define DEFAULT_MEMORY ((size_t)16 << 20)
#define DEFAULT_STEPS 2000000
#define DEFAULT_NS INT64_C(5000000000)

int template_parse_at(struct template **ret, struct view name, struct view text, struct template_place *at, struct err *e)
{
	size_t pos = 0;
	if (text.len > TEMPLATE_MAX_TEXT)
		return err_set(e, ERR_LIMIT, "template: %.*s:1:0: the text has %zu bytes, more than %zu", VIEW_ARG(name), text.len,
			       TEMPLATE_MAX_TEXT);
	struct template *t = NEW(struct template);
	arena_init(&t->arena, PARSE_MEMORY);
	t->name = arena_view(&t->arena, name);
	t->text = arena_view(&t->arena, text);
	t->plain = !text.len || !memmem(text.ptr, text.len, "{{", 2);
	int rc = template_parse_text(t, &pos, e);
	if (rc) {
		template_place_of(t, pos, &at->line, &at->column);
		at->column++;
		template_free(t);
		return rc;
	}
	*ret = t;
	return 0;
}

int template_parse(struct template **ret, struct view name, struct view text, struct err *e)
{
	struct template_place at;
	return template_parse_at(ret, name, text, &at, e);
}

void template_free(struct template *t)
{
	if (!t)
		return;
	arena_free(&t->arena);
	free(t);
}

bool template_is_plain(const struct template *t)
{
	return t->plain;
}

/* ---- expanding ---- */

int template_expand(const struct template *t, const struct template_env *env, struct buf *out, struct err *e)
{
	struct buf result = { .max = env->max_output ? env->max_output : DEFAULT_OUTPUT };
	struct texec x = { .t = t, .env = env, .out = &result, .e = e, .max_steps = env->max_steps ? env->max_steps : DEFAULT_STEPS };
	if (t->plain && t->text.len <= result.max) {
		buf_putv(out, t->text);
		return 0;
	}
	err_clear(e);
	x.deadline_mono_ns = env->deadline_mono_ns ? env->deadline_mono_ns : clock_mono_ns() + DEFAULT_NS;
	x.check_at = MIN(x.max_steps + 1, (uint64_t)TEXEC_CHECK_STEPS);
	x.meter = (struct regex_meter){ .deadline_mono_ns = x.deadline_mono_ns, .canceled = env->canceled };
	arena_init(&x.arena, env->max_memory ? env->max_memory : DEFAULT_MEMORY);
	int rc = texec_run(&x);
	if (rc == 0)
		buf_putv(out, buf_view(&result));
	for (unsigned i = 0; i < x.n_regexes; i++)
		regex_unref(x.regexes[i]);
	vec_free(&x.vars);
	arena_free(&x.arena);
	buf_free(&result);
	return rc;
}

int template_expand_text(const struct template *t, const struct template_env *env, struct buf *out, struct err *e)
{
	int rc = template_expand(t, env, out, e);
	if (rc)
		buf_printf(out, "<error expanding template: error executing template %.*s: %s>", VIEW_ARG(t->name), e->msg);
	return rc;
}
