/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: a head that says what the call has cost and what it lacks, then the result. */
#include "base/utf8.h"
#include "fleet/wire.h"
#include "fleet/wire_result.h"

#define ANSWER_LABELS_MAX 64u  /* external labels of a server */
#define ANSWER_LABEL_MAX 4096u /* bytes of the name or the value of one */

#define ANSWER_MEMORY_MAX ((uint64_t)256 << 20) /* bytes that an answer is read into if its question has no limit */

static const char answer_magic[4] = { 'P', 'Y', 'R', 'A' };

enum {
	ANSWER_VIEW_LOST = 1, ANSWER_OPENED = 2, ANSWER_ERROR = 4, ANSWER_COSTS = 8,
	ANSWER_DAMAGED = 16, ANSWER_ABSENT = 32, ANSWER_DOUBLED = 64, ANSWER_FLAGS = 128
};

/* ---- writing ---- */

static uint8_t answer_flags(const struct fleet_answer *a)
{
	bool costs = a->chunks || a->samples || a->bytes || a->bucket_requests || a->bucket_bytes || a->cpu_ns > 0;
	return (uint8_t)((a->view_lost ? ANSWER_VIEW_LOST : 0) | (a->opened ? ANSWER_OPENED : 0) | (a->err.code ? ANSWER_ERROR : 0) |
			 (costs ? ANSWER_COSTS : 0) | (a->damaged.met ? ANSWER_DAMAGED : 0) | (a->absent.met ? ANSWER_ABSENT : 0) | (a->doubled.met ? ANSWER_DOUBLED : 0));
}

static void answer_put_labels(struct wire_out *o, struct labels l)
{
	wire_put(o, l.n);
	for (size_t i = 0; i < l.n; i++) {
		wire_put_text(o, l.v[i].name);
		wire_put_text(o, l.v[i].value);
	}
}

/* What is before 1970 is not told apart: nothing is stored there. */
static void answer_put_lacks(struct wire_out *o, const struct fleet_lacks *l)
{
	if (!l->met)
		return;
	wire_put(o, l->met);
	wire_put(o, (uint64_t)MAX(MIN(l->from_ms, WIRE_FAR), 0));
	wire_put(o, (uint64_t)MAX(MIN(l->until_ms, WIRE_FAR), 0));
}

static void answer_put_head(struct wire_out *o, const struct fleet_answer *a, enum fleet_op op)
{
	uint8_t flags = answer_flags(a);
	wire_put(o, FLEET_WIRE_VERSION);
	wire_put_byte(o, (uint8_t)op);
	wire_put_byte(o, flags);
	wire_put_fixed(o, a->view);
	wire_put_fixed(o, a->session);
	if (flags & ANSWER_OPENED)
		answer_put_labels(o, a->labels);
	if (flags & ANSWER_COSTS) {
		wire_put(o, a->chunks);
		wire_put(o, a->samples);
		wire_put(o, a->bytes);
		wire_put(o, a->bucket_requests);
		wire_put(o, a->bucket_bytes);
		wire_put(o, (uint64_t)MAX(a->cpu_ns, 0));
	}
	wire_room(o);
	answer_put_lacks(o, &a->damaged);
	answer_put_lacks(o, &a->absent);
	answer_put_lacks(o, &a->doubled);
	wire_room(o);
	if (flags & ANSWER_ERROR) {
		wire_put(o, (uint64_t)a->err.code);
		wire_put_text(o, view_of(a->err.msg));
	}
}

static int answer_put_merge(struct wire_out *o, const struct fleet_answer *a, const struct fleet_result *r, struct fleet_dictionary_out *dictionary,
			    const struct fleet_question *q, struct err *e)
{
	struct symbols_marks none;
	symbols_marks_start(&none);
	wire_flush(o);
	if (o->to->overflow)
		return 0;
	/* a dictionary that the asker has not is sent from its beginning */
	return fleet_dictionary_put(dictionary, o->to, (const struct stackvec *const *)r->vecs, r->n, q->call.detail,
				    q->session && q->session == a->session ? &q->has : &none, e);
}

static int answer_put_result(struct wire_out *o, const struct fleet_answer *a, const struct fleet_result *r, struct fleet_dictionary_out *dictionary,
			     const struct fleet_question *q, struct err *e)
{
	switch (q->call.op) {
	case FLEET_MERGE:
		return answer_put_merge(o, a, r, dictionary, q, e);
	case FLEET_SELECT:
	case FLEET_TYPES:
	case FLEET_LABEL_NAMES:
	case FLEET_LABEL_VALUES:
		wire_put_series(o, r);
		return 0;
	case FLEET_ROWS:
		wire_put_rows(o, r);
		return 0;
	default:
		wire_put_lists(o, r);
		return 0;
	}
}

int fleet_answer_encode(struct buf *out, const struct fleet_answer *a, const struct fleet_result *result, struct fleet_dictionary_out *dictionary,
			const struct fleet_question *q, struct err *e)
{
	struct wire_out o = { .to = out };
	size_t from = out->len;
	buf_put(out, answer_magic, sizeof answer_magic);
	answer_put_head(&o, a, q->call.op);
	int rc = a->err.code ? 0 : answer_put_result(&o, a, result, dictionary, q, e);
	if (rc)
		return rc;
	wire_put_hash(&o, from);
	if (out->overflow)
		return err_set(e, ERR_LIMIT, "the answer of this server has more than %zu bytes: ask for a shorter range or fewer series",
			       out->max ? out->max : BUF_DEFAULT_MAX);
	return 0;
}

/* ---- reading ---- */

static struct view answer_get_text(struct wire_in *in)
{
	struct view v = wire_get_text(in, SIZE_MAX);
	char *copy = wire_alloc(in, v.len + 1, 1);
	if (copy && v.len)
		memcpy(copy, v.ptr, v.len);
	return copy ? view_make(copy, v.len) : VIEW("");
}

static struct labels answer_get_labels(struct wire_in *in)
{
	wire_section(in, "external labels");
	size_t n = wire_get_count(in, 4);
	if (!wire_require(in, n <= ANSWER_LABELS_MAX, "more external labels than a server has"))
		return (struct labels){ 0 };
	struct label *v = wire_alloc(in, n, sizeof *v);
	for (size_t i = 0; i < n && v && !in->c.bad; i++) {
		v[i].name = answer_get_text(in);
		v[i].value = answer_get_text(in);
		wire_require(in, v[i].name.len <= ANSWER_LABEL_MAX && v[i].value.len <= ANSWER_LABEL_MAX && utf8_valid(v[i].name) && utf8_valid(v[i].value) &&
			     !view_eqs(v[i].name, LABEL_NAME), "an external label that there cannot be");
		wire_require(in, v[i].name.len && v[i].value.len && (!i || view_cmp(v[i - 1].name, v[i].name) < 0), "labels are empty or not in order");
	}
	return (struct labels){ v, v ? n : 0 };
}

static void answer_get_lacks(struct wire_in *in, struct fleet_lacks *l)
{
	l->met = wire_get(in);
	uint64_t from = wire_get(in), until = wire_get(in);
	if (!wire_require(in, l->met && from <= until && until <= (uint64_t)WIRE_FAR, "a range of missing data that there cannot be"))
		return;
	l->from_ms = (int64_t)from;
	l->until_ms = (int64_t)until;
}

/* Someone else's text goes to pages and logs: it is one line. */
static void answer_get_error(struct wire_in *in, struct err *ret)
{
	wire_section(in, "error");
	uint64_t code = wire_get(in);
	struct view text = wire_get_text(in, sizeof ret->msg - 1);
	if (!wire_require(in, code > ERR_NONE && code < ERR_CODES_, "an error that there is not"))
		return;
	ret->code = (enum err_code)code;
	for (size_t i = 0; i < text.len; i++)
		ret->msg[i] = (unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f ? ' ' : text.ptr[i];
	ret->msg[text.len] = 0;
}

static void answer_get_head(struct wire_in *in, struct fleet_answer *a, enum fleet_op op)
{
	uint8_t of = wire_get_byte(in), flags = wire_get_byte(in);
	wire_require(in, of == op, "it answers another operation");
	wire_require(in, flags < ANSWER_FLAGS, "flags that there are not");
	a->view_lost = flags & ANSWER_VIEW_LOST;
	a->opened = flags & ANSWER_OPENED;
	a->view = wire_get_fixed(in);
	a->session = wire_get_fixed(in);
	if (flags & ANSWER_OPENED)
		a->labels = answer_get_labels(in);
	wire_section(in, "costs");
	if (flags & ANSWER_COSTS) {
		a->chunks = wire_get(in);
		a->samples = wire_get(in);
		a->bytes = wire_get(in);
		a->bucket_requests = wire_get(in);
		a->bucket_bytes = wire_get(in);
		uint64_t cpu_ns = wire_get(in);
		a->cpu_ns = (int64_t)MIN(cpu_ns, (uint64_t)INT64_MAX);
	}
	wire_section(in, "missing data");
	if (flags & ANSWER_DAMAGED)
		answer_get_lacks(in, &a->damaged);
	if (flags & ANSWER_ABSENT)
		answer_get_lacks(in, &a->absent);
	if (flags & ANSWER_DOUBLED)
		answer_get_lacks(in, &a->doubled);
	if (flags & ANSWER_ERROR)
		answer_get_error(in, &a->err);
}

static int answer_get_merge(struct wire_in *in, const struct fleet_answer *a, const struct fleet_call *c, struct fleet_dictionary_in *dictionary,
			    struct fleet_result *r, struct err *e)
{
	wire_section(in, "vectors");
	if (!wire_require(in, c->n_groups <= (size_t)(in->c.end - in->c.p), "fewer bytes than groups that were asked for"))
		return 0;
	r->vecs = wire_heap(in, c->n_groups + 1, sizeof(struct stackvec *));
	if (!r->vecs)
		return 0;
	r->n = c->n_groups;
	return fleet_dictionary_take_within(dictionary, a->session, &in->c, &in->left, r->vecs, r->n, e);
}

static int answer_get_result(struct wire_in *in, const struct fleet_answer *a, const struct fleet_call *c, struct fleet_dictionary_in *dictionary,
			     struct fleet_result *r, struct err *e)
{
	r->op = c->op;
	switch (c->op) {
	case FLEET_MERGE:
		return answer_get_merge(in, a, c, dictionary, r, e);
	case FLEET_SELECT:
	case FLEET_TYPES:
	case FLEET_LABEL_NAMES:
	case FLEET_LABEL_VALUES:
		wire_get_series(in, r);
		return 0;
	case FLEET_ROWS:
		wire_get_rows(in, c, r);
		return 0;
	default:
		wire_get_lists(in, c, r);
		return 0;
	}
}

int fleet_answer_decode_within(struct fleet_answer *ret, struct fleet_result *result, struct view body, const struct fleet_call *call,
			       struct fleet_dictionary_in *dictionary, struct arena *arena, const struct fleet_within *within, struct err *e)
{
	struct fleet_answer a = { 0 };
	struct fleet_result r = { .op = call->op };
	struct wire_in in;
	struct err bad = { 0 };
	uint64_t version;
	int rc = wire_open(&in, body, answer_magic, &version, &bad);
	if (version && version != FLEET_WIRE_VERSION)
		return err_set(e, ERR_CORRUPT, "the answer is of version %llu of the protocol between servers, this server speaks version %d: run the same "
			       "release on both", (unsigned long long)version, FLEET_WIRE_VERSION);
	if (rc)
		return err_set(e, ERR_CORRUPT, "not an answer: %s", bad.msg);
	in.arena = arena;
	if (within)
		in.left = within->max_bytes ? MIN(within->max_bytes, UINT64_MAX / 4) * 2 : ANSWER_MEMORY_MAX; /* the other side counts lists alone */
	if (within && within->max_samples)
		in.samples_left = within->max_samples;
	in.lim = within ? within->lim : NULL;
	answer_get_head(&in, &a, call->op);
	if (!in.c.bad && !a.err.code)
		rc = answer_get_result(&in, &a, call, dictionary, &r, e);
	if (!rc)
		rc = wire_close(&in, "answer", ERR_CORRUPT, e);
	if (rc) {
		fleet_result_release(&r);
		return rc;
	}
	*ret = a;
	*result = r;
	return 0;
}
