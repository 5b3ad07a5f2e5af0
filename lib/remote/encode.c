/* SPDX-License-Identifier: Apache-2.0 */
/* The sender's side of the wire: samples to a compressed message. */
#include <snappy-c.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "remote/remote.pb-c.h"
#include "remote/remote.h"

static ProtobufCBinaryData bytes(struct view v)
{
	return (ProtobufCBinaryData){ v.len, (uint8_t *)(uintptr_t)v.ptr };
}

static int compress(Prompb__WriteRequest *rq, struct buf *out, struct err *e)
{
	size_t n = prompb__write_request__get_packed_size(rq), room = snappy_max_compressed_length(n);
	AUTOFREE uint8_t *raw = xmalloc(n);
	prompb__write_request__pack(rq, raw);
	if (!buf_reserve(out, room))
		return err_set(e, ERR_LIMIT, "the message has %zu bytes, more than the buffer takes", n);
	if (snappy_compress((const char *)raw, n, out->ptr + out->len, &room) != SNAPPY_OK)
		return err_set(e, ERR_INTERNAL, "snappy cannot compress %zu bytes", n);
	out->len += room;
	out->ptr[out->len] = 0;
	return 0;
}

int remote_encode(const struct sink_float *floats, size_t n, struct buf *out, struct err *e)
{
	struct arena a;
	arena_init(&a, 0);
	Prompb__WriteRequest rq = PROMPB__WRITE_REQUEST__INIT;
	Prompb__TimeSeries *series = arena_calloc(&a, n, sizeof *series);
	rq.timeseries = arena_calloc(&a, n, sizeof *rq.timeseries);
	Prompb__Sample *samples = arena_calloc(&a, n, sizeof *samples), **refs = arena_calloc(&a, n, sizeof *refs);
	if (!series || !rq.timeseries || !samples || !refs)
		abort(); /* no cap: memory is out */
	for (size_t i = 0; i < n; i++) {
		prompb__sample__init(&samples[i]);
		samples[i].value = floats[i].v;
		samples[i].timestamp = floats[i].t_ms;
		refs[i] = &samples[i];
		if (i && labels_eq(floats[i - 1].labels, floats[i].labels)) {
			rq.timeseries[rq.n_timeseries - 1]->n_samples++;
			continue;
		}
		Prompb__TimeSeries *ts = rq.timeseries[rq.n_timeseries] = &series[rq.n_timeseries];
		rq.n_timeseries++;
		prompb__time_series__init(ts);
		ts->samples = &refs[i];
		ts->n_samples = 1;
		ts->n_labels = floats[i].labels.n;
		ts->labels = arena_calloc(&a, ts->n_labels, sizeof *ts->labels);
		Prompb__Label *l = arena_calloc(&a, ts->n_labels, sizeof *l);
		if (!l || !ts->labels)
			abort();
		for (size_t k = 0; k < ts->n_labels; k++) {
			prompb__label__init(&l[k]);
			l[k].name = bytes(floats[i].labels.v[k].name);
			l[k].value = bytes(floats[i].labels.v[k].value);
			ts->labels[k] = &l[k];
		}
	}
	int rc = compress(&rq, out, e);
	arena_free(&a);
	return rc;
}
