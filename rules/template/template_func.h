/* SPDX-License-Identifier: Apache-2.0 */
/* The functions and methods of templates: rows with the types of their parameters, which the caller checks as Go does, and shared
 * helpers. */
#ifndef PYRRHA_RULES_TEMPLATE_FUNC_H
#define PYRRHA_RULES_TEMPLATE_FUNC_H

#include "rules/template/template_value.h"

struct texec;

enum tparam {
	TPARAM_NONE,
	TPARAM_VALUE,    /* reflect.Value: anything, nothing too */
	TPARAM_ANY,      /* interface {} */
	TPARAM_STRING,
	TPARAM_INT,
	TPARAM_DURATION,
	TPARAM_TIME,
	TPARAM_VECTOR,
	TPARAM_SAMPLE
};

#define TFUNC_PARAMS 4

struct tfunc {
	const char *name;
	enum tparam params[TFUNC_PARAMS]; /* of a variadic one the last is for all the rest */
	bool variadic;
	/* n: how many there are, of the types asked for. 0, or a negative code and e. *ret is TTYPE_INVALID before. NULL: and, or
	 * and call, which do not have their arguments evaluated as the others do. */
	int (*fn)(struct texec *x, const struct tvalue *args, size_t n, struct tvalue *ret, struct err *e);
};

const struct tfunc *tfunc_find(struct view name);
/* A method of the type; its function has the receiver as args[-1]. NULL: none. */
const struct tfunc *tmethod_find(enum ttype type, struct view name);

/* Tables of rows, which end with a row without name. */
extern const struct tfunc tfuncs_go[], tfuncs_prometheus[], tfuncs_ours[];

/* ---- for functions ---- */

/* Costs that many steps. ERR_LIMIT, ERR_TIMEOUT, ERR_CANCELED: it is over. */
int texec_charge(struct texec *x, uint64_t steps, struct err *e) MUST_USE;
/* A buffer that holds no more than a value may. */
struct buf texec_buf(const struct texec *x);
/* The content of the buffer as a value; frees it. */
int texec_take(struct texec *x, struct buf *b, struct tvalue *ret, struct err *e) MUST_USE;
void *texec_alloc(struct texec *x, size_t n, struct err *e) MUST_USE;
const struct template_env *texec_env(const struct texec *x);
/* Evaluates an expression. */
int texec_query(struct texec *x, struct view expr, int64_t t_ms, struct tvalue *ret, struct err *e) MUST_USE;
/* A regular expression, kept until the template is expanded. */
struct regex;
int texec_regex(struct texec *x, struct view pattern, struct regex **ret, struct err *e) MUST_USE;
struct regex_meter *texec_meter(struct texec *x);
/* The template of that name, into out. */
int texec_template(struct texec *x, struct view name, const struct tvalue *dot, struct buf *out, struct err *e) MUST_USE;

#endif
