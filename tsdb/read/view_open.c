/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a view: the table of all that can be asked of it. */
#include "tsdb/read/view.h"

#include "base/alloc.h"
#include "tsdb/read/view_cached.h"

static void release(struct source_view *sv)
{
	struct tsdb_view *v = (struct tsdb_view *)sv;
	for (size_t i = 0; i < v->refs.n; i++)
		free(v->refs.v[i]);
	vec_free(&v->refs);
	map_free(&v->by_labels);
	query_dict_free(v->own);
	version_unref(v->v);
	view_cached_release(v);
	mutex_destroy(&v->lock);
	free(v);
}

static const struct source_ops ops = {
	.release = release, .select = view_select, .types = view_types, .floats = view_floats, .profiles = view_profiles, .points = view_points,
	.covers = view_covers, .merge = view_merge, .sums = view_sums, .shares = view_shares, .matches = view_matches, .cells = view_cells,
	.label_names = view_label_names, .label_values = view_label_values,
};

int tsdb_view_open(struct source *s, struct source_view **ret, struct err *e)
{
	(void)e;
	struct tsdb_view *v = NEW(struct tsdb_view);
	v->base.ops = &ops;
	v->db = (struct tsdb *)((char *)s - offsetof(struct tsdb, source));
	v->v = tsdb_version(v->db, &v->seq);
	view_cached_join(v);
	v->own = query_dict_new(v->db, v->v);
	mutex_init(&v->lock, RANK_TSDB_VIEW, "view");
	*ret = &v->base;
	return 0;
}
