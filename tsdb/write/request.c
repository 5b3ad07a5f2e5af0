/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/write/request.h"

#include <stdlib.h>

void request_free(struct tsdb *db, struct request *r)
{
	for (size_t i = 0; i < r->n_notes; i++)
		free(r->notes[i]);
	free(r->notes);
	if (r->notes_room.n || r->notes_room.bytes)
		notes_leave(hlog_notes(db->log), &r->notes_room);
	for (size_t i = 0; i < r->records.n; i++) {
		buf_free(&r->records.v[i].bytes);
		partition_leave(r->records.v[i].p);
	}
	vec_free(&r->records);
	vec_free(&r->touched);
	free(r);
}
