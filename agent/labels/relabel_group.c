/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/labels/relabel_group.h"

#define NAME_MAX_BYTES ((size_t)1 << 20) /* of a label that labelmap makes */

/* Labels whose value is not known because it differs between processes, or may. */
struct unknown {
	VEC(struct view) names;
	bool all;                /* even the name of what was set is not known */
};

static bool is_unknown(const struct unknown *u, struct view name)
{
	for (size_t i = 0; i < u->names.n; i++)
		if (view_eq(u->names.v[i], name))
			return true;
	return u->all;
}

static void make_unknown(struct unknown *u, struct labels_builder *b, struct view name)
{
	labels_builder_del(b, name);
	if (!is_unknown(u, name))
		vec_push(&u->names, name);
}

static bool sources_known(const struct unknown *u, const struct relabel_rule *r)
{
	for (size_t i = 0; i < r->n_source_labels; i++)
		if (is_unknown(u, view_of(r->source_labels[i])))
			return false;
	return !u->all || !r->n_source_labels;
}

/* labelmap: what is made of an unknown label is unknown as well. */
static int map_unknown(struct unknown *u, const struct relabel_rule *r, struct labels_builder *b, struct arena *a,
		       struct err *e)
{
	size_t n = u->names.n;
	for (size_t i = 0; i < n; i++) {
		struct buf name = { .max = NAME_MAX_BYTES };
		int rc = regex_expand(r->re, u->names.v[i], view_of(r->replacement), &name, NULL, e);
		struct view to = rc <= 0 ? VIEW("") : name.overflow ? (struct view){ 0 } : arena_view(a, buf_view(&name));
		buf_free(&name);
		if (rc < 0)
			return rc;
		if (rc > 0 && !to.ptr)
			return err_set(e, ERR_LIMIT, "the labels of a container take too much memory");
		if (rc > 0)
			make_unknown(u, b, to);
	}
	return 1;
}

/* labeldrop, labelkeep: an unknown label that goes is known to be empty. */
static int forget_unknown(struct unknown *u, const struct relabel_rule *r, struct err *e)
{
	size_t kept = 0;
	for (size_t i = 0; i < u->names.n; i++) {
		int rc = regex_match(r->re, u->names.v[i], NULL, e);
		if (rc < 0)
			return rc;
		if ((rc > 0) == (r->action == RELABEL_LABELKEEP))
			u->names.v[kept++] = u->names.v[i];
	}
	u->names.n = kept;
	return 1;
}

/* A rule that sets labels from known ones; if it does not match, the labels keep their state. */
static int set_known(const struct unknown *u, const struct relabel_rule *r, struct labels_builder *b, struct arena *a,
		     struct err *e)
{
	int rc = relabel_apply(r, 1, b, a, e);
	for (size_t i = 0; i < u->names.n; i++)
		labels_builder_del(b, u->names.v[i]);
	return rc;
}

static int apply_one(struct unknown *u, const struct relabel_rule *r, struct labels_builder *b, struct arena *a,
		     struct err *e)
{
	int rc = 1;
	switch (r->action) {
	case RELABEL_KEEP:
	case RELABEL_DROP:
		return sources_known(u, r) ? relabel_apply(r, 1, b, a, e) : 1;
	case RELABEL_KEEPEQUAL:
	case RELABEL_DROPEQUAL:
		return sources_known(u, r) && !is_unknown(u, view_of(r->target_label)) ? relabel_apply(r, 1, b, a, e) : 1;
	case RELABEL_LABELMAP:
		rc = set_known(u, r, b, a, e);
		return rc > 0 ? map_unknown(u, r, b, a, e) : rc;
	case RELABEL_LABELDROP:
	case RELABEL_LABELKEEP:
		rc = relabel_apply(r, 1, b, a, e);
		return rc > 0 ? forget_unknown(u, r, e) : rc;
	default:
		if (sources_known(u, r))
			return set_known(u, r, b, a, e);
		if (strchr(r->target_label, '$')) {
			u->all = true;
			b->l.n = 0;
		} else {
			make_unknown(u, b, view_of(r->target_label));
		}
		return 1;
	}
}

int relabel_group(const struct relabel_rule *rules, size_t n, const char *const *own, struct labels_builder *b,
		  struct arena *a, struct err *e)
{
	struct unknown u = { 0 };
	int rc = 1;
	for (; *own; own++)
		make_unknown(&u, b, view_of(*own));
	for (size_t i = 0; i < n && rc > 0; i++)
		rc = apply_one(&u, &rules[i], b, a, e);
	vec_free(&u.names);
	return rc;
}
