/* SPDX-License-Identifier: Apache-2.0 */
/* A flame as folded lines, "main;work 123". */
#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"
#include "model/flame.h"

/* Characters that separate frames and lines in this format are replaced in names. */
static void put_folded_name(struct buf *b, struct view name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		buf_putc(b, c == ';' ? ':' : (unsigned char)c < ' ' ? ' ' : c);
	}
}

/* Values are integers of the native unit; of a diff the difference. */
static bool folded_value(const struct flame *f, const struct flame_node *n, int64_t *ret)
{
	return f->is_float ? num_round_i64(n->self.d - n->base_self.d, ret) : !__builtin_sub_overflow(n->self.i, n->base_self.i, ret);
}

#define LINE_BYTES ((size_t)1 << 20) /* bytes: no memory is asked for a line that is not longer */
#define LINE_COPIES 4              /* a line is in the path and in the answer, and both buffers double */

/* Asks for the memory of a line of so many bytes, if there was none that long before. */
static int folded_need(const struct permit *permit, size_t line, size_t *longest, struct err *e)
{
	if (line <= *longest)
		return 0;
	size_t more = (line - *longest) * 2;
	*longest += more;
	return permit_need(permit, more * LINE_COPIES, e);
}

int flame_folded(const struct flame *f, const struct permit *permit, struct buf *out, struct err *e)
{
	struct buf path = { 0 };
	int rc = 0;
	size_t longest = LINE_BYTES;
	VEC(size_t) ends = { 0 }; /* of path, by depth */
	for (size_t i = 0; i < f->n_nodes && !rc; i++) {
		const struct flame_node row = flame_node(f, i), *n = &row;
		int64_t v;
		while (ends.n > n->depth)
			ends.n--;
		path.len = ends.n ? ends.v[ends.n - 1] : 0;
		rc = permit_step(permit, i, e);
		if (!rc)
			rc = folded_need(permit, path.len + f->frames[n->frame].name.len + 1, &longest, e);
		if (rc)
			break;
		if (n->depth) {
			if (path.len)
				buf_putc(&path, ';');
			put_folded_name(&path, f->frames[n->frame].name);
		}
		vec_push(&ends, path.len);
		if (!folded_value(f, n, &v)) {
			rc = err_set(e, ERR_EXECUTION, "a value of %.*s does not fit in 64 bits: this format has whole numbers",
				     VIEW_ARG(f->frames[n->frame].name));
			continue;
		}
		if (!v)
			continue;
		buf_putv(out, path.len ? buf_view(&path) : VIEW("(empty stack)"));
		buf_printf(out, " %lld\n", (long long)v);
		rc = permit_text_step(permit, i, out->len, e);
	}
	vec_free(&ends);
	buf_free(&path);
	return rc;
}
