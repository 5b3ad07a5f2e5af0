/* SPDX-License-Identifier: Apache-2.0 */
#include "discovery/target_list.h"

#include <stdlib.h>

#include "base/num.h"

void target_list_init(struct target_list *t)
{
	*t = (struct target_list){ .too_large = false };
	arena_init(&t->arena, TARGET_LIST_BYTES);
	arena_init(&t->words, TARGET_LIST_BYTES);
	labels_builder_init(&t->b, (struct labels){ 0 });
}

void target_list_free(struct target_list *t)
{
	labels_builder_free(&t->b);
	arena_free(&t->words);
	arena_free(&t->arena);
	vec_free(&t->v);
}

void target_set(struct target_list *t, struct view name, struct view value)
{
	if (t->b.l.n >= TARGET_LABELS_MAX)
		t->too_large = true;
	else
		labels_builder_set(&t->b, name, value);
}

void target_set_text(struct target_list *t, const char *name, const char *value)
{
	target_set(t, view_of(name), view_of(value));
}

void target_set_int(struct target_list *t, const char *name, int64_t value)
{
	char text[NUM_I64_LEN];
	struct view v = arena_view(&t->words, view_make(text, (size_t)(num_put_i64(text, value) - text)));
	if (v.ptr)
		target_set(t, view_of(name), v);
	else
		t->too_large = true;
}

static bool in_label_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

void target_set_keyed(struct target_list *t, const char *prefix, const char *key, struct view value)
{
	size_t before = strlen(prefix), n = before;
	char *name = arena_alloc(&t->words, before + strlen(key) + 1);
	if (!name) {
		t->too_large = true;
		return;
	}
	memcpy(name, prefix, before);
	for (const char *k = key; *k; k++)
		if ((*k & 0xc0) != 0x80) /* what goes on with a character is none of its own */
			name[n++] = in_label_name(*k) ? *k : '_';
	target_set(t, view_make(name, n), value);
}

void target_set_address(struct target_list *t, const char *host, int64_t port)
{
	const char *form = strchr(host, ':') ? "[%s]:%lld" : "%s:%lld";
	const char *address = port < 0 ? host : arena_printf(&t->words, form, host, (long long)port);
	if (address)
		target_set(t, VIEW("__address__"), view_of(address));
	else
		t->too_large = true;
}

void target_list_add(struct target_list *t)
{
	struct labels l = labels_copy(&t->arena, labels_builder_finish(&t->b));
	if (l.n && !l.v)
		t->too_large = true;
	else
		vec_push(&t->v, l);
	target_list_drop(t);
}

void target_list_drop(struct target_list *t)
{
	labels_builder_free(&t->b);
	labels_builder_init(&t->b, (struct labels){ 0 });
	arena_reset(&t->words);
}

int target_list_emit(struct target_list *t, const char *source, struct labels common, const struct discovery_emit *emit,
		     struct err *e)
{
	if (t->too_large)
		return err_set(e, ERR_LIMIT, "too much: more than %d labels at one target, or more than %zu MiB of targets",
			       TARGET_LABELS_MAX, TARGET_LIST_BYTES >> 20);
	emit->group(emit->arg, &(struct discovery_group){ source, common, t->v.v, t->v.n });
	return 0;
}
