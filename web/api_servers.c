/* SPDX-License-Identifier: Apache-2.0 */
/* status/servers: the other servers that queries ask, and how they are. */
#include "base/clock.h"
#include "web/answer.h"
#include "web/internal.h"

static void put_time(struct buf *b, const char *key, int64_t t_ms)
{
	char text[RFC3339_LEN] = "";
	if (t_ms)
		clock_rfc3339_ms(t_ms, text);
	json_field_text(b, key, text);
}

static void put_server(void *arg, const struct status_server *x)
{
	struct answer_rows *rows = arg;
	struct buf *b = rows->b;
	if (!answer_rows_more(rows))
		return;
	json_object_begin(b);
	json_field_text(b, "url", x->url);
	json_field_text(b, "health", server_health_text(x->health));
	json_field_text(b, "lastError", x->last_error);
	put_time(b, "lastAnswer", x->last_answer_ms);
	json_field_float(b, "lastDuration", (double)x->last_duration_ms / 1000);
	json_key(b, "externalLabels");
	labels_json(x->external_labels ? *x->external_labels : (struct labels){ 0 }, b);
	json_field_count(b, "calls", x->calls);
	json_field_count(b, "failures", x->failures);
	json_field_count(b, "receivedBytes", x->bytes);
	json_field_count(b, "dictionaryBytes", x->dictionary_bytes);
	json_object_end(b);
}

void serve_servers(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct answer_rows rows;
	answer_rows_begin(&rows, rq);
	json_object_begin(rows.b);
	json_array_begin_at(rows.b, "servers");
	if (w->servers)
		w->servers->each(w->servers, put_server, &rows);
	json_array_end(rows.b);
	json_object_end(rows.b);
	answer_rows_end(&rows);
}
