/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/answerer_check.h"

#include <math.h>

#include "base/units.h"

#define PLACE_BYTES ((uint64_t)32) /* of a series, which has its results elsewhere; of a group: three integers, or a sum and an integer, or a vector */

static int check_refs(const struct fleet_call *c, struct answerer_view *x, struct err *e)
{
	if (!answerer_view_has(x, c->refs, c->n_refs, sizeof *c->refs, c->op == FLEET_FLOATS))
		return err_set(e, ERR_BAD_DATA, "the question is about series that its view has not handed out as %s", c->op == FLEET_FLOATS ? "floats" : "profiles");
	return 0;
}

static int check_graph(const struct fleet_call *c, struct answerer_view *x, struct err *e)
{
	if (c->op == FLEET_ROWS && !answerer_view_has(x, c->graph->refs, c->graph->n_refs, sizeof *c->graph->refs, false))
		return err_set(e, ERR_BAD_DATA, "the question is about series that its view has not handed out as profiles");
	return 0;
}

static int check_parts(const struct fleet_call *c, struct answerer_view *x, struct err *e)
{
	for (size_t i = 0; i < c->n_parts; i++)
		if (!isfinite(c->parts[i].scale))
			return err_set(e, ERR_BAD_DATA, "part %zu of the question has a scale that is no number", i);
	for (size_t i = 0; c->op == FLEET_SHARES && i < c->n_parts; i++)
		if (c->parts[i].scale != 1 || c->parts[i].weigh.over_ms)
			return err_set(e, ERR_BAD_DATA, "part %zu of the question is scaled or weighed: shares are of whole profiles", i);
	if (c->n_parts && !answerer_view_has(x, &c->parts->ref, c->n_parts, sizeof *c->parts, false))
		return err_set(e, ERR_BAD_DATA, "the question is about series that its view has not handed out as profiles");
	return 0;
}

/* Counts are bounded by wire.h, so nothing overflows. */
uint64_t answerer_places(const struct fleet_call *c)
{
	_Static_assert(sizeof(struct source_points) <= PLACE_BYTES && sizeof(struct fleet_profiles) <= PLACE_BYTES, "the places of results by series");
	uint64_t tiles = c->op == FLEET_COVERS ? c->tiles->n * sizeof(struct source_cover) : 0;
	return c->n_refs * (PLACE_BYTES + tiles) + c->n_groups * PLACE_BYTES;
}

/* Before anything is read. */
static int check_room(const struct fleet_call *c, uint64_t max_bytes, struct err *e)
{
	char max[24];
	if (max_bytes && answerer_places(c) > max_bytes)
		return err_set(e, ERR_LIMIT, "the results of the question take more than %s (--query.max-bytes of the server that asks, or of the one that is asked): ask for a shorter range, "
			       "a larger step or fewer series", units_format_size(max_bytes, max));
	return 0;
}

int answerer_check(const struct fleet_call *c, struct answerer_view *x, uint64_t max_bytes, struct err *e)
{
	int rc = check_room(c, max_bytes, e);
	if (!rc)
		rc = check_refs(c, x, e);
	if (!rc)
		rc = check_graph(c, x, e);
	return rc ? rc : check_parts(c, x, e);
}
