/* SPDX-License-Identifier: Apache-2.0 */
#include "bucket/backend.h"

void backend_page_init(struct backend_page *p)
{
	*p = (struct backend_page){ 0 };
	arena_init(&p->arena, (size_t)BACKEND_PAGE * (BACKEND_KEY_MAX + 16));
}

void backend_page_free(struct backend_page *p)
{
	vec_free(&p->v);
	arena_free(&p->arena);
}

int backend_page_add(struct backend_page *p, const struct objects_found *x, struct err *e)
{
	size_t len = strlen(x->key);
	const char *key = len <= BACKEND_KEY_MAX && p->v.n < BACKEND_PAGE ? arena_strndup(&p->arena, x->key, len) : NULL;
	if (!key)
		return err_set(e, ERR_CORRUPT, "the list has a key of %zu bytes, or more than %d objects in a page", len, BACKEND_PAGE);
	vec_push(&p->v, (struct objects_found){ .key = key, .size = x->size, .modified_ms = x->modified_ms });
	return 0;
}
