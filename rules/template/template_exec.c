/* SPDX-License-Identifier: Apache-2.0 */
/* Expands a template: walks its tree as Go's text/template does, the order of evaluation and the words of errors included.
 * Runs on its caller's stack; texec.depth bounds how far. */
#include "rules/template/template_exec.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/num.h"
#include "rules/template/template_fmt.h"
#include "rules/template/template_quote.h"

#define MAX_DEPTH 1200     /* of nodes within nodes, through templates too */
#define MAX_VARS 10000
#define FEW_ARGS 6
#define MAX_ARGS 1000      /* of a call */
#define MAX_CONTEXT 2000   /* bytes of a node's text in an error */

static const char *tparam_name(enum tparam p)
{
	static const char *const names[] = { "", "reflect.Value", "interface {}", "string", "int", "time.Duration", "time.Time",
					     "template.queryResult", "*template.sample" };
	return names[p];
}

/* How a walk ended, besides an error. */
enum walk { WALK_ON, WALK_BREAK, WALK_CONTINUE };

static int eval_pipeline(struct texec *x, const struct tvalue *dot, const struct tnode *pipe, struct tvalue *ret);
static int eval_arg(struct texec *x, const struct tvalue *dot, enum tparam type, const struct tnode *n, struct tvalue *ret);
static int walk(struct texec *x, const struct tvalue *dot, const struct tnode *n);

static const struct tvalue missing; /* told from nothing by its address */

/* The error with its place, as Go words it. Keeps the code that x->e has. Returns a negative code. */
static PRINTF_LIKE(2, 3) int fail(struct texec *x, const char *fmt, ...)
{
	struct buf context = { .max = MAX_CONTEXT }, name = { .max = 300 };
	unsigned line, column;
	va_list ap;
	va_start(ap, fmt);
	err_vset(x->e, x->e->code ? x->e->code : ERR_EXECUTION, fmt, ap);
	va_end(ap);
	template_place_of(x->t, x->node->pos, &line, &column);
	tnode_write(x->node, &context);
	go_quote(x->def->name, '"', false, &name);
	err_wrap(x->e, "template: %.*s:%u:%u: executing %.*s at <%.*s%s>", VIEW_ARG(x->t->name), line, column, VIEW_ARG(buf_view(&name)),
		 VIEW_ARG(buf_view(&context)), context.overflow ? "..." : "");
	buf_free(&context);
	buf_free(&name);
	return -(int)x->e->code;
}

static int step(struct texec *x, const struct tnode *n)
{
	struct err e = { 0 };
	x->node = n;
	if (LIKELY(++x->steps < x->check_at))
		return 0;
	if (texec_charge(x, 0, &e) == 0)
		return 0;
	x->e->code = e.code;
	return fail(x, "%s", e.msg);
}

/* ---- variables ---- */

static int push(struct texec *x, struct view name, const struct tvalue *v)
{
	if (x->vars.n >= MAX_VARS)
		return fail(x, "more than %d variables", MAX_VARS);
	vec_push(&x->vars, (struct tvar){ name, *v });
	return 0;
}

static struct tvar *find_var(struct texec *x, struct view name)
{
	for (size_t i = x->vars.n; i > x->scope; i--)
		if (view_eq(x->vars.v[i - 1].name, name))
			return &x->vars.v[i - 1];
	fail(x, "undefined variable: %.*s", VIEW_ARG(name));
	return NULL;
}

static int set_var(struct texec *x, struct view name, const struct tvalue *v)
{
	struct tvar *var = find_var(x, name);
	if (!var)
		return -ERR_EXECUTION;
	var->value = *v;
	return 0;
}

/* ---- types of arguments ---- */

static bool can_be_nil(enum tparam type)
{
	return type == TPARAM_VALUE || type == TPARAM_ANY || type == TPARAM_VECTOR || type == TPARAM_SAMPLE;
}

static struct tvalue nil_of(enum tparam type)
{
	return (struct tvalue){ .type = type == TPARAM_VECTOR ? TTYPE_VECTOR : type == TPARAM_SAMPLE ? TTYPE_SAMPLE :
				type == TPARAM_ANY ? TTYPE_NIL : TTYPE_INVALID };
}

static enum ttype type_of(enum tparam type)
{
	static const enum ttype types[] = { [TPARAM_STRING] = TTYPE_STRING, [TPARAM_INT] = TTYPE_INT, [TPARAM_DURATION] = TTYPE_DURATION,
					    [TPARAM_TIME] = TTYPE_TIME, [TPARAM_VECTOR] = TTYPE_VECTOR, [TPARAM_SAMPLE] = TTYPE_SAMPLE };
	return types[type];
}

/* Converts *v to the type, as far as Go does; TPARAM_NONE: unchanged. */
static int validate(struct texec *x, enum tparam type, struct tvalue *v)
{
	if (type == TPARAM_NONE)
		return 0;
	if (v->type == TTYPE_INVALID) {
		if (!can_be_nil(type))
			return fail(x, "invalid value; expected %s", tparam_name(type));
		*v = nil_of(type);
		return 0;
	}
	v->boxed = false;
	if (type == TPARAM_VALUE || type == TPARAM_ANY || v->type == type_of(type))
		return 0;
	struct tvalue to = tvalue_pointed(v);
	if (to.type != type_of(type))
		return fail(x, "wrong type for value; expected %s; got %s", tparam_name(type), ttype_name(v->type));
	*v = to;
	return 0;
}

/* ---- constants ---- */

static bool is_float_constant(struct view t)
{
	bool hex = t.len > 2 && t.ptr[0] == '0' && (t.ptr[1] | 0x20) == 'x' && !memchr(t.ptr, 'p', t.len) && !memchr(t.ptr, 'P', t.len);
	bool sign = memchr(t.ptr, '.', t.len) || memchr(t.ptr, 'e', t.len) || memchr(t.ptr, 'E', t.len) || memchr(t.ptr, 'p', t.len) ||
		    memchr(t.ptr, 'P', t.len);
	return sign && !hex && *t.ptr != '\'';
}

static int constant(struct texec *x, const struct tnode *n, struct tvalue *ret)
{
	x->node = n;
	if (n->number.is_float && is_float_constant(n->text))
		*ret = TFLOAT(n->number.f);
	else if (n->number.is_int)
		*ret = TINT(n->number.i);
	else
		return fail(x, "%.*s overflows int", VIEW_ARG(n->text));
	return 0;
}

static int literal_arg(struct texec *x, enum tparam type, const struct tnode *n, struct tvalue *ret)
{
	static const char *const words[] = { [TPARAM_STRING] = "string", [TPARAM_INT] = "integer", [TPARAM_DURATION] = "integer" };
	bool any = type == TPARAM_VALUE || type == TPARAM_ANY;
	x->node = n;
	if (n->type == TNODE_BOOL && any) {
		*ret = TBOOL(n->truth);
	} else if (n->type == TNODE_STRING && (any || type == TPARAM_STRING)) {
		*ret = TSTRING(n->text);
	} else if (n->type == TNODE_NUMBER && any) {
		return constant(x, n, ret);
	} else if (n->type == TNODE_NUMBER && (type == TPARAM_INT || type == TPARAM_DURATION) && n->number.is_int) {
		*ret = (struct tvalue){ .type = type_of(type), .i = n->number.i };
	} else {
		struct buf b = { .max = MAX_CONTEXT };
		tnode_write(n, &b);
		int rc = type < ARRAY_LEN(words) && words[type] ?
			fail(x, "expected %s; found %.*s", words[type], VIEW_ARG(buf_view(&b))) :
			fail(x, "can't handle %.*s for arg of type %s", VIEW_ARG(buf_view(&b)), tparam_name(type));
		buf_free(&b);
		return rc;
	}
	return 0;
}

/* ---- calls ---- */

static unsigned n_params(const struct tfunc *f)
{
	unsigned n = 0;
	while (n < TFUNC_PARAMS && f->params[n])
		n++;
	return n;
}

static int check_count(struct texec *x, const struct tfunc *f, size_t n_args, size_t n_in)
{
	unsigned want = n_params(f);
	if (f->variadic && n_in < want - 1)
		return fail(x, "wrong number of args for %s: want at least %u got %zu", f->name, want - 1, n_args);
	if (!f->variadic && n_in != want)
		return fail(x, "wrong number of args for %s: want %u got %zu", f->name, want, n_in);
	return n_in > MAX_ARGS ? fail(x, "more than %d arguments for %s", MAX_ARGS, f->name) : 0;
}

/* The first argument that decides, or the last. */
static int eval_and_or(struct texec *x, const struct tvalue *dot, bool is_or, const struct tnode *args, const struct tvalue *final,
		       struct tvalue *ret)
{
	for (const struct tnode *a = args; a; a = a->next) {
		int rc = eval_arg(x, dot, TPARAM_VALUE, a, ret);
		if (rc || tvalue_truth(ret) == is_or)
			return rc;
	}
	if (final != &missing)
		*ret = *final;
	return 0;
}

static int call_nothing(struct texec *x, const struct tnode *at, const struct tnode *args, const struct tvalue *v)
{
	struct buf b = { .max = MAX_CONTEXT };
	int rc;
	x->node = at;
	if (args)
		tnode_write(args, &b);
	else
		go_sprint(v, 1, &b);
	if (v->type == TTYPE_INVALID || v->type == TTYPE_NIL)
		rc = fail(x, "error calling call: call of nil");
	else
		rc = fail(x, "error calling call: non-function %.*s of type %s", VIEW_ARG(buf_view(&b)), ttype_name(v->type));
	buf_free(&b);
	return rc;
}

/* The arguments by their parameters' types, the final one behind them. */
static int eval_args(struct texec *x, const struct tvalue *dot, const struct tfunc *f, const struct tnode *args,
		     const struct tvalue *final, struct tvalue *argv)
{
	unsigned last = n_params(f) ? n_params(f) - 1 : 0;
	size_t i = 0;
	int rc = 0;
	for (const struct tnode *a = args; a && !rc; a = a->next, i++)
		rc = eval_arg(x, dot, f->params[MIN(i, (size_t)last)], a, &argv[i]);
	if (!rc && final != &missing) {
		argv[i] = *final;
		rc = validate(x, f->params[MIN(i, (size_t)last)], &argv[i]);
	}
	return rc;
}

static int failed_call(struct texec *x, const struct tfunc *f, const struct tnode *at)
{
	x->node = at;
	x->e->code = x->call_err.code;
	return fail(x, "error calling %s: %s", f->name, x->call_err.msg);
}

/* at: what is named if the function fails. receiver: of a method, else NULL. */
static int eval_call(struct texec *x, const struct tvalue *dot, const struct tfunc *f, const struct tvalue *receiver, const struct tnode *at,
		     const struct tnode *args, const struct tvalue *final, struct tvalue *ret)
{
	size_t n_args = 0;
	for (const struct tnode *a = args; a; a = a->next)
		n_args++;
	size_t n = n_args + (final != &missing);
	int rc = check_count(x, f, n_args, n);
	if (rc)
		return rc;
	if (!f->fn && strcmp(f->name, "call") != 0)
		return eval_and_or(x, dot, *f->name == 'o', args, final, ret);
	struct tvalue few[FEW_ARGS + 1] = { 0 }, *argv = few + 1;
	if (n > FEW_ARGS && !(argv = texec_alloc(x, n * sizeof *argv, &x->call_err)))
		return failed_call(x, f, at);
	if (receiver)
		argv[-1] = *receiver; /* methods have few */
	rc = eval_args(x, dot, f, args, final, argv);
	if (rc)
		return rc;
	if (!f->fn)
		return call_nothing(x, at, args, &argv[0]);
	*ret = (struct tvalue){ 0 };
	return f->fn(x, argv, n, ret, &x->call_err) == 0 ? 0 : failed_call(x, f, at);
}

static int eval_function(struct texec *x, const struct tvalue *dot, const struct tnode *n, const struct tnode *cmd, const struct tnode *args,
			 const struct tvalue *final, struct tvalue *ret)
{
	x->node = n;
	return eval_call(x, dot, n->func, NULL, cmd, args, final, ret);
}

/* ---- fields ---- */

/* A field of a struct; false: it has none of that name. */
static bool field_of(const struct tvalue *v, struct view name, struct tvalue *ret)
{
	static const struct tsample none;
	const struct tsample *s = v->type == TTYPE_SAMPLE && v->sample ? v->sample : &none;
	for (size_t i = 0; v->type == TTYPE_DATA && i < TDATA_FIELDS; i++)
		if (view_eqs(name, v->fields[i].name)) {
			*ret = v->fields[i].value;
			return true;
		}
	if (v->type == TTYPE_SAMPLE && view_eqs(name, "Labels"))
		*ret = (struct tvalue){ .type = TTYPE_LABELS, .labels = s->labels };
	else if (v->type == TTYPE_SAMPLE && view_eqs(name, "Value"))
		*ret = (struct tvalue){ .type = TTYPE_FLOAT, .boxed = true, .f = s->value };
	else
		return false;
	return true;
}

static struct tvalue key_of(const struct tvalue *map, struct view key)
{
	if (map->type == TTYPE_LABELS)
		return TSTRING(labels_get(map->labels, key));
	struct tvalue none = { .type = TTYPE_NIL };
	for (size_t i = 0; i < map->args->n; i++)
		if (view_eq(map->args->v[i].key, key)) {
			none = map->args->v[i].value;
			none.boxed = true;
		}
	return none;
}

static int eval_field(struct texec *x, const struct tvalue *dot, struct view name, const struct tnode *n, const struct tnode *args,
		      const struct tvalue *final, struct tvalue *v)
{
	bool has_args = args || final != &missing;
	const char *type = v->boxed ? "interface {}" : ttype_name(v->type);
	struct tvalue receiver = *v, found;
	if (receiver.type == TTYPE_INVALID)
		return 0;
	if (receiver.type == TTYPE_NIL)
		return fail(x, "nil pointer evaluating %s.%.*s", type, VIEW_ARG(name));
	const struct tfunc *method = tmethod_find(receiver.type, name);
	if (method) {
		receiver = tvalue_pointed(&receiver);
		return eval_call(x, dot, method, &receiver, n, args, final, v);
	}
	if (tvalue_kind(&receiver) == TKIND_MAP) {
		if (has_args)
			return fail(x, "%.*s is not a method but has arguments", VIEW_ARG(name));
		*v = key_of(&receiver, name);
		return 0;
	}
	if (!field_of(&receiver, name, &found))
		return fail(x, "can't evaluate field %.*s in type %s", VIEW_ARG(name), type);
	if (receiver.type == TTYPE_SAMPLE && !receiver.sample)
		return fail(x, "nil pointer evaluating %s.%.*s", type, VIEW_ARG(name));
	if (has_args)
		return fail(x, "%.*s has arguments but cannot be invoked as function", VIEW_ARG(name));
	*v = found;
	return 0;
}

/* The fields from the one after `from` on, of *v; only the last is given arguments. */
static int eval_fields(struct texec *x, const struct tvalue *dot, const struct tnode *n, size_t from, const struct tnode *args,
		       const struct tvalue *final, struct tvalue *v)
{
	int rc = 0;
	for (size_t i = from; i < n->n_names && !rc; i++) {
		bool last = i + 1 == n->n_names;
		rc = eval_field(x, dot, n->names[i], n, last ? args : NULL, last ? final : &missing, v);
	}
	return rc;
}

static int not_a_function(struct texec *x, const struct tnode *first, const struct tnode *args, const struct tvalue *final)
{
	struct buf b = { .max = MAX_CONTEXT };
	if (!args && final == &missing)
		return 0;
	if (first)
		tnode_write(first, &b);
	int rc = fail(x, "can't give argument to non-function %.*s", VIEW_ARG(buf_view(&b)));
	buf_free(&b);
	return rc;
}

static int eval_variable(struct texec *x, const struct tvalue *dot, const struct tnode *n, const struct tnode *args,
			 const struct tvalue *final, struct tvalue *ret)
{
	x->node = n;
	struct tvar *var = find_var(x, n->names[0]);
	if (!var)
		return -ERR_EXECUTION;
	*ret = var->value;
	return n->n_names == 1 ? not_a_function(x, n, args, final) : eval_fields(x, dot, n, 1, args, final, ret);
}

static int eval_chain(struct texec *x, const struct tvalue *dot, const struct tnode *n, const struct tnode *args, const struct tvalue *final,
		      struct tvalue *ret)
{
	x->node = n;
	int rc = eval_arg(x, dot, TPARAM_NONE, n->base, ret);
	return rc ? rc : eval_fields(x, dot, n, 0, args, final, ret);
}

/* ---- pipelines ---- */

static int eval_operand(struct texec *x, const struct tvalue *dot, enum tparam type, const struct tnode *n, struct tvalue *ret)
{
	switch (n->type) {
	case TNODE_DOT:
		*ret = *dot;
		return 0;
	case TNODE_FIELD:
		*ret = *dot;
		return eval_fields(x, dot, n, 0, NULL, &missing, ret);
	case TNODE_VARIABLE:
		return eval_variable(x, dot, n, NULL, &missing, ret);
	case TNODE_PIPE:
		return eval_pipeline(x, dot, n, ret);
	case TNODE_IDENTIFIER:
		return eval_function(x, dot, n, n, NULL, &missing, ret);
	case TNODE_CHAIN:
		return eval_chain(x, dot, n, NULL, &missing, ret);
	default:
		return literal_arg(x, type, n, ret);
	}
}

static int eval_arg(struct texec *x, const struct tvalue *dot, enum tparam type, const struct tnode *n, struct tvalue *ret)
{
	int rc = step(x, n);
	if (rc)
		return rc;
	if (n->type == TNODE_NIL) {
		*ret = nil_of(type);
		return can_be_nil(type) ? 0 : fail(x, "cannot assign nil to %s", tparam_name(type));
	}
	if (++x->depth > MAX_DEPTH)
		return fail(x, "nested deeper than %d", MAX_DEPTH);
	rc = eval_operand(x, dot, type, n, ret);
	x->depth--;
	bool literal = n->type == TNODE_BOOL || n->type == TNODE_NUMBER || n->type == TNODE_STRING;
	return rc || literal ? rc : validate(x, type, ret);
}

static int eval_command(struct texec *x, const struct tvalue *dot, const struct tnode *cmd, const struct tvalue *final, struct tvalue *ret)
{
	const struct tnode *n = cmd->items, *args = n->next;
	int rc;
	switch (n->type) {
	case TNODE_FIELD:
		x->node = n;
		*ret = *dot;
		return eval_fields(x, dot, n, 0, args, final, ret);
	case TNODE_CHAIN:
		return eval_chain(x, dot, n, args, final, ret);
	case TNODE_IDENTIFIER:
		return eval_function(x, dot, n, cmd, args, final, ret);
	case TNODE_PIPE:
		rc = not_a_function(x, n, args, final);
		return rc ? rc : eval_pipeline(x, dot, n, ret);
	case TNODE_VARIABLE:
		return eval_variable(x, dot, n, args, final, ret);
	default:
		break;
	}
	x->node = n;
	rc = not_a_function(x, n, args, final);
	if (rc)
		return rc;
	switch (n->type) {
	case TNODE_BOOL:
		*ret = TBOOL(n->truth);
		return 0;
	case TNODE_DOT:
		*ret = *dot;
		return 0;
	case TNODE_NUMBER:
		return constant(x, n, ret);
	case TNODE_STRING:
		*ret = TSTRING(n->text);
		return 0;
	default:
		return fail(x, "nil is not a command");
	}
}

static int eval_pipeline(struct texec *x, const struct tvalue *dot, const struct tnode *pipe, struct tvalue *ret)
{
	*ret = (struct tvalue){ 0 };
	if (!pipe)
		return 0;
	int rc = step(x, pipe);
	if (rc)
		return rc;
	if (++x->depth > MAX_DEPTH)
		return fail(x, "nested deeper than %d", MAX_DEPTH);
	for (const struct tnode *cmd = pipe->items; cmd && !rc; cmd = cmd->next) {
		struct tvalue final = *ret;
		*ret = (struct tvalue){ 0 };
		rc = eval_command(x, dot, cmd, cmd == pipe->items ? &missing : &final, ret);
		ret->boxed = false;
		if (ret->type == TTYPE_NIL)
			*ret = (struct tvalue){ 0 };
	}
	x->depth--;
	for (unsigned i = 0; i < pipe->n_decl && !rc; i++)
		rc = pipe->assigns ? set_var(x, pipe->decl[i]->names[0], ret) : push(x, pipe->decl[i]->names[0], ret);
	return rc;
}

/* ---- walking ---- */

static int overflowed(struct texec *x)
{
	x->e->code = ERR_LIMIT;
	return fail(x, "the output is larger than %zu bytes", x->out->max);
}

static int print_value(struct texec *x, const struct tnode *n, const struct tvalue *v)
{
	size_t before = x->out->len;
	struct err e = { 0 };
	x->node = n;
	go_print_value(v, x->out);
	if (texec_charge(x, (x->out->len - before) / 64, &e)) {
		x->e->code = e.code;
		return fail(x, "%s", e.msg);
	}
	return x->out->overflow ? overflowed(x) : 0;
}

static int walk_list(struct texec *x, const struct tvalue *dot, const struct tnode *list)
{
	int rc = 0;
	x->node = list;
	for (const struct tnode *n = list->items; n && rc == WALK_ON; n = n->next)
		rc = walk(x, dot, n);
	return rc;
}

static int walk_if_or_with(struct texec *x, const struct tvalue *dot, const struct tnode *n)
{
	size_t mark = x->vars.n;
	struct tvalue v;
	int rc = eval_pipeline(x, dot, n->pipe, &v);
	if (rc == 0 && tvalue_truth(&v))
		rc = walk_list(x, n->type == TNODE_WITH ? &v : dot, n->list);
	else if (rc == 0 && n->else_list)
		rc = walk_list(x, dot, n->else_list);
	x->vars.n = mark;
	return rc;
}

static int set_range_vars(struct texec *x, const struct tnode *pipe, const struct tvalue *index, const struct tvalue *elem)
{
	unsigned n = pipe->n_decl;
	size_t top = x->vars.n;
	if (!n)
		return 0;
	if (!pipe->assigns) {
		x->vars.v[top - 1].value = *elem;
		if (n > 1)
			x->vars.v[top - 2].value = *index;
		return 0;
	}
	int rc = set_var(x, pipe->decl[0]->names[0], n > 1 ? index : elem);
	return !rc && n > 1 ? set_var(x, pipe->decl[1]->names[0], elem) : rc;
}

/* One turn of a loop; WALK_BREAK ends it. */
static int one_turn(struct texec *x, const struct tnode *r, const struct tvalue *index, const struct tvalue *elem)
{
	size_t mark = x->vars.n;
	int rc = step(x, r);
	if (!rc)
		rc = set_range_vars(x, r->pipe, index, elem);
	if (!rc)
		rc = walk_list(x, elem, r->list);
	x->vars.n = MIN(mark, x->vars.n);
	return rc == WALK_CONTINUE ? WALK_ON : rc;
}

/* Number of iterations, -1: not iterable. */
static int64_t range_count(const struct tvalue *v)
{
	switch (v->type) {
	case TTYPE_INVALID:
		return 0;
	case TTYPE_LABELS:
		return (int64_t)v->labels.n;
	case TTYPE_ARGS:
		return (int64_t)v->args->n;
	case TTYPE_VECTOR:
		return (int64_t)v->vector.n;
	default:
		return tvalue_kind(v) == TKIND_INT || tvalue_kind(v) == TKIND_UINT ? MAX(v->i, (int64_t)0) : -1;
	}
}

static void range_item(const struct tvalue *v, int64_t i, struct tvalue *index, struct tvalue *elem)
{
	*index = TINT(i);
	if (v->type == TTYPE_LABELS) {
		*index = TSTRING(v->labels.v[i].name);
		*elem = TSTRING(v->labels.v[i].value);
	} else if (v->type == TTYPE_ARGS) {
		*index = TSTRING(v->args->v[i].key);
		*elem = v->args->v[i].value;
		elem->boxed = true;
	} else if (v->type == TTYPE_VECTOR) {
		*elem = (struct tvalue){ .type = TTYPE_SAMPLE, .sample = v->vector.v[i] };
	} else {
		*elem = (struct tvalue){ .type = v->type, .i = i };
	}
}

static int cannot_range(struct texec *x, const struct tvalue *v, const char *fmt)
{
	struct buf b = { .max = MAX_CONTEXT };
	go_sprint(v, 1, &b);
	char *text AUTOFREE = xstrndup(b.ptr ? b.ptr : "", b.len);
	buf_free(&b);
	return fail(x, "%s%s%s", *fmt == 'r' ? fmt : "can't use ", text, *fmt == 'r' ? "" : fmt);
}

static int walk_range(struct texec *x, const struct tvalue *dot, const struct tnode *r)
{
	size_t mark = x->vars.n;
	struct tvalue v, index = { 0 }, elem = { 0 };
	int rc = eval_pipeline(x, dot, r->pipe, &v);
	if (rc == 0) {
		v = tvalue_pointed(&v);
		int64_t n = range_count(&v);
		bool integer = tvalue_kind(&v) == TKIND_INT || tvalue_kind(&v) == TKIND_UINT;
		if (n < 0)
			rc = cannot_range(x, &v, "range can't iterate over ");
		else if (integer && r->pipe->n_decl > 1)
			rc = cannot_range(x, &v, " to iterate over more than one variable");
		for (int64_t i = 0; i < n && rc == WALK_ON; i++) {
			range_item(&v, i, &index, &elem);
			rc = one_turn(x, r, &index, &elem);
		}
		if (n == 0 && rc == 0 && r->else_list)
			rc = walk_list(x, dot, r->else_list);
	}
	x->vars.n = MIN(mark, x->vars.n);
	return rc == WALK_BREAK ? WALK_ON : rc;
}

/* Prometheus's declarations before a text. */
static int push_defs(struct texec *x, const struct tvalue *dot)
{
	static const struct {
		const char *name, *field;
	} vars[] = { { "$labels", "Labels" }, { "$externalLabels", "ExternalLabels" }, { "$externalURL", "ExternalURL" }, { "$value", "Value" } };
	int rc = 0;
	for (size_t i = 0; i < ARRAY_LEN(vars) && !rc; i++) {
		struct tvalue v = { 0 };
		if (dot->type != TTYPE_INVALID && !field_of(dot, view_of(vars[i].field), &v))
			return fail(x, "can't evaluate field %s in type %s", vars[i].field, ttype_name(dot->type));
		v.boxed = false;
		rc = push(x, view_of(vars[i].name), &v);
	}
	return rc;
}

/* A definition with variables of its own. */
static int walk_definition(struct texec *x, const struct tdef *d, const struct tvalue *dot)
{
	const struct tdef *def = x->def;
	size_t scope = x->scope, mark = x->vars.n;
	x->def = d;
	x->scope = mark;
	int rc = push(x, VIEW("$"), dot);
	if (!rc && d == x->t->defs)
		rc = push_defs(x, dot);
	if (!rc)
		rc = walk_list(x, dot, d->root);
	x->vars.n = mark;
	x->scope = scope;
	x->def = def;
	return rc;
}

static int walk_template(struct texec *x, const struct tvalue *dot, const struct tnode *n)
{
	const struct tdef *d = template_find(x->t, n->text);
	struct tvalue v;
	x->node = n;
	if (!d) {
		struct buf b = { .max = MAX_CONTEXT };
		go_quote(n->text, '"', false, &b);
		int rc = fail(x, "template %.*s not defined", VIEW_ARG(buf_view(&b)));
		buf_free(&b);
		return rc;
	}
	int rc = eval_pipeline(x, dot, n->pipe, &v);
	return rc ? rc : walk_definition(x, d, &v);
}

static int walk_node(struct texec *x, const struct tvalue *dot, const struct tnode *n)
{
	struct tvalue v;
	int rc;
	switch (n->type) {
	case TNODE_TEXT:
		buf_putv(x->out, n->text);
		return x->out->overflow ? overflowed(x) : 0;
	case TNODE_ACTION:
		rc = eval_pipeline(x, dot, n->pipe, &v);
		return rc || n->pipe->n_decl ? rc : print_value(x, n, &v);
	case TNODE_IF:
	case TNODE_WITH:
		return walk_if_or_with(x, dot, n);
	case TNODE_RANGE:
		return walk_range(x, dot, n);
	case TNODE_TEMPLATE:
		return walk_template(x, dot, n);
	case TNODE_BREAK:
		return WALK_BREAK;
	case TNODE_CONTINUE:
		return WALK_CONTINUE;
	default:
		return walk_list(x, dot, n);
	}
}

static int walk(struct texec *x, const struct tvalue *dot, const struct tnode *n)
{
	int rc = step(x, n);
	if (rc)
		return rc;
	if (++x->depth > MAX_DEPTH)
		return fail(x, "exceeded maximum template depth (%d)", MAX_DEPTH);
	rc = walk_node(x, dot, n);
	x->depth--;
	return rc;
}

int texec_run(struct texec *x)
{
	const struct tfield fields[TDATA_FIELDS] = {
		{ "Labels", { .type = TTYPE_LABELS, .labels = x->env->labels } },
		{ "ExternalLabels", { .type = TTYPE_LABELS, .labels = x->env->external_labels } },
		{ "ExternalURL", TSTRING(x->env->external_url) },
		{ "Value", { .type = TTYPE_FLOAT, .boxed = true, .f = x->env->value } },
	};
	struct tvalue data = { .type = TTYPE_DATA, .fields = fields };
	x->node = x->t->defs->root;
	return walk_definition(x, x->t->defs, &data);
}

int texec_template(struct texec *x, struct view name, const struct tvalue *dot, struct buf *out, struct err *e)
{
	const struct tdef *d = template_find(x->t, name);
	struct buf *before = x->out;
	if (!d)
		return err_set(e, ERR_EXECUTION, "template: no template \"%.*s\" associated with template \"%.*s\"", VIEW_ARG(name),
			       VIEW_ARG(x->t->name));
	x->out = out;
	int rc = walk_definition(x, d, dot);
	x->out = before;
	if (rc < 0) {
		*e = *x->e;
		err_clear(x->e);
	}
	return rc < 0 ? rc : 0;
}
