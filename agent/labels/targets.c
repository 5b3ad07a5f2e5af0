/* SPDX-License-Identifier: Apache-2.0 */
/* [{"targets": ["127.0.0.1:7071"], "labels": {"__metrics_path__": ..., "__param_match": "{container=\"db\"}", ...}}, ...]
 *
 * The parameter is match, not match[]: Prometheus before 3 refuses a label named __param_match[]. */
#include "agent/labels/targets.h"

#include "base/json.h"
#include "base/map.h"
#include "base/vec.h"

/* The selector that picks a container by its labels, as match[] takes it; false: its labels do not tell it apart. Names are
 * unique within a namespace's pod; a container of no pod has a name of its own, or is known by its id. */
static bool selector_of(struct labels l, struct buf *out)
{
	static const char *const names[] = { "namespace", "pod", "container" };
	struct label found[ARRAY_LEN(names)];
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct view v = labels_get(l, view_of(names[i]));
		if (v.len)
			found[n++] = (struct label){ view_of(names[i]), v };
	}
	if (!labels_get(l, VIEW("container")).len) {
		found[0] = (struct label){ VIEW("container_id"), labels_get(l, VIEW("container_id")) };
		n = found[0].value.len ? 1 : 0;
	}
	labels_format((struct labels){ found, n }, out);
	return n > 0;
}

struct listed {
	struct map index;
	VEC(struct view) selectors;
	struct arena arena;
};

/* Several groups may be one container (cgroups below its own, a restart): it is listed once. */
static bool seen(struct listed *x, struct view selector)
{
	uint64_t h = hash_view(selector);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&x->index, h, id, x->selectors.n, view_eq(x->selectors.v[id], selector)))
		return true;
	vec_push(&x->selectors, arena_view(&x->arena, selector));
	return false;
}

static void put_target(const struct sampled_group *g, struct view address, struct view selector, struct buf *out)
{
	json_line(out, 0);
	json_object_begin(out);
	json_array_begin_at(out, "targets");
	json_text(out, address);
	json_array_end(out);
	json_object_begin_at(out, "labels");
	json_field_text(out, "__metrics_path__", "/debug/pprof/profile");
	json_field(out, "__param_match", selector);
	for (size_t i = 0; i < g->shared->n; i++)
		if (label_name_plain(g->shared->v[i].name)) {
			json_key_view(out, g->shared->v[i].name);
			json_text(out, g->shared->v[i].value);
		}
	json_object_end(out);
	json_object_end(out);
}

void targets_json(struct sampled_groups *gs, int64_t since_mono_ms, struct view address, struct buf *out)
{
	struct listed x = { .arena = { NULL, 0, 0 } };
	json_array_begin(out);
	for (size_t i = 0; i < groups_count(gs); i++) {
		const struct sampled_group *g = groups_at(gs, i);
		struct buf selector = { 0 };
		if (g->info.container_id.len && !g->waits && g->shared && g->sampled_mono_ms >= since_mono_ms &&
		    selector_of(*g->shared, &selector) && !seen(&x, buf_view(&selector)))
			put_target(g, address, buf_view(&selector), out);
		buf_free(&selector);
	}
	buf_putc(out, '\n');
	json_array_end(out);
	buf_putc(out, '\n');
	map_free(&x.index);
	vec_free(&x.selectors);
	arena_free(&x.arena);
}
