/* SPDX-License-Identifier: Apache-2.0 */
#include "discovery/answer.h"

/* At most how many values there are: each but the first follows one of these. */
static size_t count_values(struct view body)
{
	size_t n = 0;
	for (size_t i = 0; i < body.len; i++)
		n += body.ptr[i] == ',' || body.ptr[i] == '[' || body.ptr[i] == '{' || body.ptr[i] == ':';
	return n;
}

int answer_parse(json_t **ret, struct view body, struct err *e)
{
	json_error_t why;
	if (count_values(body) > ANSWER_VALUES)
		return err_set(e, ERR_LIMIT, "the answer has more than %zu values", ANSWER_VALUES);
	*ret = json_loadb(body.ptr, body.len, JSON_ALLOW_NUL, &why); /* a depth of 2,048 at most */
	return *ret ? 0 : err_set(e, ERR_BAD_DATA, "the answer is no JSON: %s", why.text);
}

static bool absent(const json_t *v)
{
	return !v || json_is_null(v);
}

static void wrong(struct answer_reader *r, const char *key, const char *wanted)
{
	if (!r->rc)
		r->rc = err_set(r->e, ERR_BAD_DATA, "bad answer: %s: %s is not %s", r->what, key, wanted);
}

const char *answer_as_text(struct answer_reader *r, const json_t *value, const char *key)
{
	if (json_is_string(value))
		return json_string_value(value);
	if (!absent(value))
		wrong(r, key, "a string");
	return "";
}

struct view answer_as_view(struct answer_reader *r, const json_t *value, const char *key)
{
	const char *text = answer_as_text(r, value, key);
	return json_is_string(value) ? view_make(text, json_string_length(value)) : VIEW("");
}

json_t *answer_as_object(struct answer_reader *r, json_t *value, const char *key)
{
	if (json_is_object(value))
		return value;
	if (!absent(value))
		wrong(r, key, "an object");
	return NULL;
}

const char *answer_text(struct answer_reader *r, const json_t *object, const char *key)
{
	return answer_as_text(r, json_object_get(object, key), key);
}

json_t *answer_object(struct answer_reader *r, const json_t *object, const char *key)
{
	return answer_as_object(r, json_object_get(object, key), key);
}

json_t *answer_list(struct answer_reader *r, const json_t *object, const char *key)
{
	json_t *v = json_object_get(object, key);
	if (json_is_array(v))
		return v;
	if (!absent(v))
		wrong(r, key, "a list");
	return NULL;
}

int64_t answer_count(struct answer_reader *r, const json_t *object, const char *key, int64_t max)
{
	const json_t *v = json_object_get(object, key);
	int64_t n = json_integer_value(v);
	if (absent(v))
		return 0;
	if (json_is_integer(v) && n >= 0 && n <= max)
		return n;
	wrong(r, key, "a number in range");
	return 0;
}

bool answer_bool(struct answer_reader *r, const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);
	if (!absent(v) && !json_is_boolean(v))
		wrong(r, key, "true or false");
	return json_is_true(v);
}
