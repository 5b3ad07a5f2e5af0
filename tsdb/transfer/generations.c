/* SPDX-License-Identifier: Apache-2.0 */
/* Putting generations. Those of an epoch are numbered without gaps, so a fence that a newer epoch puts under the next number stops this one
 * (bucket_server.h). A put without an answer may have arrived: the same bytes are put again under the same number before anything else. */
#include "tsdb/bucket/object_io.h"
#include "tsdb/transfer/transfer_private.h"

int generations_put_pending(struct transfer *t, struct err *e)
{
	char name[OBJECT_NAME_MAX];
	if (!t->pending.len)
		return 0;
	object_name_generation(name, t->server.id, t->pending_stamp);
	int rc = object_io_put(t->objects, name, buf_view(&t->pending), e);
	if (rc == -ERR_CONFLICT)
		bucket_server_fenced(&t->server, "another process has put a generation under the next number of this one");
	if (!rc) {
		t->server.next_generation = t->pending_stamp.serial + 1;
		buf_free(&t->pending);
		t->pending = (struct buf){ 0 };
	}
	return rc;
}

int generations_put(struct transfer *t, struct generation *g, const char *identity, bool away, struct err *e)
{
	CLEANUP(buf_free) struct buf bytes = { .max = GENERATION_MAX };
	int rc = generations_put_pending(t, e);
	if (!rc)
		rc = bucket_server_check(&t->server, e);
	if (rc)
		return rc;
	g->stamp = (struct object_stamp){ t->server.epoch, t->server.next_generation };
	rc = generation_encode(g, &bytes, e);
	if (rc)
		return rc;
	t->pending_stamp = g->stamp;
	buf_free(&t->pending);
	t->pending = (struct buf){ .max = GENERATION_MAX };
	buf_putv(&t->pending, buf_view(&bytes));
	rc = generations_put_pending(t, e);
	if (!rc)
		metric_inc(&tsdb_metrics[TM_BUCKET_GENERATIONS]);
	return rc ? rc : catalogue_put(&t->catalogue, g, buf_view(&bytes), identity, away, e);
}
