/* SPDX-License-Identifier: Apache-2.0 */
#include "selfprof/own_code.h"

static struct own_code the_code = { .unwinding = MUTEX_INIT(RANK_OWN_UNWINDING, "own images"),
				    .naming = MUTEX_INIT(RANK_OWN_NAMING, "own names") };

static void make(void)
{
	own_images_init(&the_code.images);
	own_names_init(&the_code.names);
	own_unwind_init(&the_code.unwind, &the_code.images);
}

struct own_code *own_code(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make);
	return &the_code;
}

/* The current lists of images and mappings; the images themselves do not change. */
static struct own_images copy_images(struct own_code *c)
{
	struct own_images copy = { .mem_fd = -1 };

	mutex_lock(&c->unwinding);
	if (!c->images.read_ns)
		own_images_read(&c->images);
	vec_reserve(&copy.v, c->images.v.n);
	vec_reserve(&copy.maps, c->images.maps.n);
	for (size_t i = 0; i < c->images.v.n; i++)
		vec_push(&copy.v, c->images.v.v[i]);
	for (size_t i = 0; i < c->images.maps.n; i++)
		vec_push(&copy.maps, c->images.maps.v[i]);
	mutex_unlock(&c->unwinding);
	return copy;
}

void own_code_name(struct own_code *c, const struct stacks *s, size_t *named)
{
	struct own_call calls[OWN_CALLS_MAX];

	if (*named == s->v.n)
		return;
	struct own_images images = copy_images(c);
	mutex_lock(&c->naming);
	for (; *named < s->v.n; ++*named) {
		const struct stack_entry *x = &s->v.v[*named];
		for (uint32_t i = 0; i < x->n; i++) {
			uint64_t frame = s->frames.v[x->first + i], image = frame >> FRAME_IMAGE_SHIFT;
			if (image && frame < STACK_MARK)
				own_names_at(&c->names, images.v.v[image - 1], frame & FRAME_ADDR_MASK, calls);
		}
	}
	mutex_unlock(&c->naming);
	vec_free(&images.v);
	vec_free(&images.maps);
}

int own_code_profile(struct own_code *c, const struct stacks *s, const struct stacks_form *form, struct profile *out, struct err *e)
{
	struct own_images images = copy_images(c);

	mutex_lock(&c->naming);
	int rc = stacks_to_profile(s, form, &images, &c->names, out, e);
	mutex_unlock(&c->naming);
	vec_free(&images.v);
	vec_free(&images.maps);
	return rc;
}
