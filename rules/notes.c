/* SPDX-License-Identifier: Apache-2.0 */
/* The state of alerts over a restart: notes, stored in the same batch as what the group wrote, so that the two never
 * disagree. Drawn in docs/format/rule-notes.md. Keys, all numbers big-endian:
 *
 *	"alert" 0  group:8                        when the group was last evaluated
 *	"alert" 0  group:8  rule:8  alert:8       one alert
 *	"alert" 0  group:8  rule:8                the next slot of a rule that records deltas
 *
 * group, rule and alert are hashes: of file and name; of name, labels, and which of several equal rules it is; of labels. */
#include "rules/notes.h"

#include "base/log.h"
#include "base/varint.h"
#include "rules/group.h"

#define KIND "alert"
#define PREFIX (sizeof KIND) /* its NUL, too */
#define VERSION 1
#define REWRITE_MS (24 * INT64_C(3600000)) /* storage deletes notes that were not written for a month */
#define ANNOTATIONS_MAX 32768
/* Alerts may use half of all notes that storage accepts; other users need the rest. */
#define NOTED_MAX (SINK_NOTES_MAX / 2)
#define NOTED_MAX_BYTES (SINK_NOTES_MAX_BYTES / 2)

/* ---- writing ---- */

static bool keeps_notes(const struct rules *m)
{
	return m->o.sink->notes && !m->o.no_restore;
}

static void put_note(struct evaluation *r, struct view key, struct view value)
{
	struct view k = arena_view(&r->out.arena, key), v = arena_view(&r->out.arena, value);
	if (k.ptr && v.ptr)
		vec_push(&r->out.notes, (struct sink_note){ .key = k, .value = v, .t_ms = r->slot_ms });
}

static void begin_key(struct buf *b, const struct live_group *g)
{
	buf_put(b, KIND, PREFIX);
	buf_be64(b, g->key);
}

static void put_labels(struct buf *b, struct labels l)
{
	buf_varint(b, l.n);
	for (size_t i = 0; i < l.n; i++) {
		buf_varint(b, l.v[i].name.len);
		buf_putv(b, l.v[i].name);
		buf_varint(b, l.v[i].value.len);
		buf_putv(b, l.v[i].value);
	}
}

static void encode_alert(const struct live_alert *a, struct buf *b)
{
	const int64_t times[] = { a->active_at, a->fired_at, a->resolved_at, a->keep_since, a->last_sent };
	buf_putc(b, VERSION);
	buf_putc(b, (char)a->state);
	buf_be64(b, value_bits(a->value));
	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		buf_zigzag(b, times[i]);
	put_labels(b, *a->labels);
	size_t mark = b->len;
	put_labels(b, *a->annotations);
	if (b->len - mark > ANNOTATIONS_MAX) { /* the next evaluation creates them again */
		b->len = mark;
		put_labels(b, (struct labels){ 0 });
	}
}

static void alert_key(struct buf *b, const struct live_group *g, const struct live_rule *rule, const struct live_alert *a)
{
	begin_key(b, g);
	buf_be64(b, rule->key);
	buf_be64(b, labels_hash_stable(*a->labels));
}

/* Reserves this many bytes from now on. false: there is no room, it has none now. */
static bool count_note(struct rules *m, struct live_alert *a, size_t bytes)
{
	size_t n = atomic_fetch_add(&m->n_noted, !a->note_bytes) + !a->note_bytes;
	size_t all = atomic_fetch_add(&m->noted_bytes, bytes - a->note_bytes) + bytes - a->note_bytes;
	bool has_place = a->note_bytes != 0;
	a->note_bytes = bytes;
	if (has_place ? all <= NOTED_MAX_BYTES / 4 * 5 : n <= NOTED_MAX && all <= NOTED_MAX_BYTES)
		return true;
	atomic_fetch_sub(&m->n_noted, 1);
	atomic_fetch_sub(&m->noted_bytes, bytes);
	a->note_bytes = 0;
	return false;
}

static void uncount_note(struct rules *m, const struct live_alert *a)
{
	atomic_fetch_sub(&m->n_noted, a->note_bytes != 0);
	atomic_fetch_sub(&m->noted_bytes, a->note_bytes);
}

static void put_forgotten(struct evaluation *r, const struct forgotten *f)
{
	struct buf key = { 0 };
	begin_key(&key, r->g);
	buf_be64(&key, f->rule);
	buf_be64(&key, f->alert);
	put_note(r, buf_view(&key), VIEW(""));
	buf_free(&key);
}

void notes_forget(struct evaluation *r, const struct live_rule *rule, const struct live_alert *a)
{
	const struct forgotten f = { rule->key, labels_hash_stable(*a->labels) };
	if (!a->noted_at || !keeps_notes(r->g->m))
		return;
	put_forgotten(r, &f);
	uncount_note(r->g->m, a);
	if (r->g->forgotten.n < NOTED_MAX)
		vec_push(&r->g->forgotten, f);
}

void notes_lost(struct live_group *g)
{
	g->lost = true;
	g->noted_at = 0;
	for (size_t i = 0; i < g->def->n_rules; i++)
		for (size_t k = 0; k < g->rules[i].alerts.n; k++)
			g->rules[i].alerts.v[k]->changed = true;
}

/* Alerts that return are noted after this. */
void notes_forget_again(struct evaluation *r)
{
	struct live_group *g = r->g;
	for (size_t i = 0; i < g->forgotten.n && g->lost; i++)
		put_forgotten(r, &g->forgotten.v[i]);
	if (!g->lost)
		g->forgotten.n = 0;
	g->lost = false;
}

static void write_alert(struct evaluation *r, const struct live_rule *rule, struct live_alert *a)
{
	struct buf key = { 0 }, value = { 0 };
	if (!a->changed && r->slot_ms - a->noted_at < REWRITE_MS)
		return;
	alert_key(&key, r->g, rule, a);
	encode_alert(a, &value);
	if (value.len <= SINK_NOTE_VALUE_MAX && count_note(r->g->m, a, key.len + value.len)) {
		put_note(r, buf_view(&key), buf_view(&value));
		a->changed = false;
		a->noted_at = r->slot_ms;
	} else { /* one that storage refused would take the others with it; none is better than a wrong one */
		r->without_note++;
		notes_forget(r, rule, a);
		a->note_bytes = 0;
		a->noted_at = 0;
	}
	buf_free(&key);
	buf_free(&value);
}

static void put_time(struct evaluation *r, const struct live_rule *rule, int64_t t_ms)
{
	struct buf key = { 0 }, value = { 0 };
	begin_key(&key, r->g);
	if (rule)
		buf_be64(&key, rule->key);
	buf_putc(&value, VERSION);
	buf_zigzag(&value, t_ms);
	put_note(r, buf_view(&key), buf_view(&value));
	buf_free(&key);
	buf_free(&value);
}

void notes_delta(struct evaluation *r, const struct live_rule *rule)
{
	if (keeps_notes(r->g->m))
		put_time(r, rule, rule->delta.next_slot);
}

void notes_rule(struct evaluation *r, struct live_rule *rule)
{
	for (size_t i = 0; i < rule->alerts.n && keeps_notes(r->g->m); i++)
		write_alert(r, rule, rule->alerts.v[i]);
}

/* While the time of some alert goes on, in order to know how long it did not. */
void notes_group(struct evaluation *r)
{
	struct live_group *g = r->g;
	bool running = false, alerting = false;
	if (r->without_note != g->without_note && r->without_note)
		LOG_WARN("msg", "the state of alerts is too large to be stored, or there are too many: after a restart these start again",
			 "group", g->metric_name, "alerts", LOG_NUM(r->without_note));
	g->without_note = r->without_note;
	for (size_t i = 0; i < g->def->n_rules; i++) {
		alerting |= g->rules[i].rule->alerting;
		for (size_t k = 0; k < g->rules[i].alerts.n; k++)
			running |= g->rules[i].alerts.v[k]->state != ALERT_INACTIVE;
	}
	if (!keeps_notes(g->m) || !alerting || (!running && g->noted_at && r->slot_ms - g->noted_at < REWRITE_MS))
		return;
	put_time(r, NULL, r->slot_ms);
	g->noted_at = r->slot_ms;
}

void notes_bury(struct live_group *g)
{
	VEC(struct sink_note) notes = { 0 };
	struct err e = { 0 };
	for (size_t i = 0; i < g->def->n_rules && keeps_notes(g->m); i++)
		for (size_t k = 0; k < g->rules[i].alerts.n; k++) {
			struct buf key = { 0 };
			alert_key(&key, g, &g->rules[i], g->rules[i].alerts.v[k]);
			vec_push(&notes, (struct sink_note){ .key = buf_view(&key), .value = VIEW("") });
			uncount_note(g->m, g->rules[i].alerts.v[k]);
		}
	const struct sink_batch batch = { .notes = notes.v, .n_notes = notes.n };
	if (notes.n && g->m->o.sink->append(g->m->o.sink, &batch, NULL, &e))
		LOG_WARN("msg", "the state of alerts that are no more was not forgotten", "err", e.msg);
	for (size_t i = 0; i < notes.n; i++)
		free((char *)notes.v[i].key.ptr);
	vec_free(&notes);
}

/* ---- reading ---- */

struct bytes {
	const uint8_t *p, *end;
	bool bad;
};

static uint64_t get_varint(struct bytes *b)
{
	uint64_t v = 0;
	if (!b->bad && !varint_get(&b->p, b->end, &v))
		b->bad = true;
	return v;
}

static uint64_t get_be64(struct bytes *b)
{
	uint64_t v = 0;
	if (b->bad || b->end - b->p < 8) {
		b->bad = true;
		return 0;
	}
	for (int i = 0; i < 8; i++)
		v = v << 8 | *b->p++;
	return v;
}

static uint8_t get_byte(struct bytes *b)
{
	if (b->bad || b->p >= b->end) {
		b->bad = true;
		return 0;
	}
	return *b->p++;
}

static struct view get_text(struct bytes *b)
{
	uint64_t n = get_varint(b);
	if (b->bad || n > (uint64_t)(b->end - b->p)) {
		b->bad = true;
		return VIEW("");
	}
	struct view v = view_make((const char *)b->p, n);
	b->p += n;
	return v;
}

static struct labels *get_labels(struct bytes *b)
{
	struct labels_builder l;
	uint64_t n = get_varint(b);
	labels_builder_init(&l, (struct labels){ 0 });
	for (uint64_t i = 0; i < n && !b->bad; i++) {
		struct view name = get_text(b), value = get_text(b);
		labels_builder_set(&l, name, value);
	}
	struct labels *own = labels_dup(labels_builder_finish(&l));
	labels_builder_free(&l);
	return own;
}

/* Returns owned; NULL: it is no note of an alert. */
static struct live_alert *decode_alert(struct view v)
{
	struct bytes b = { (const uint8_t *)v.ptr, (const uint8_t *)v.ptr + v.len, false };
	struct live_alert *a = NEW(struct live_alert);
	int64_t *const times[] = { &a->active_at, &a->fired_at, &a->resolved_at, &a->keep_since, &a->last_sent };
	b.bad = get_byte(&b) != VERSION;
	a->state = (enum alert_state)get_byte(&b);
	b.bad |= a->state < ALERT_INACTIVE || a->state > ALERT_FIRING;
	a->value = value_from_bits(get_be64(&b));
	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		*times[i] = zigzag_decode(get_varint(&b));
	a->labels = get_labels(&b);
	a->annotations = get_labels(&b);
	a->hash = labels_hash(*a->labels);
	if (!b.bad && b.p == b.end)
		return a;
	alert_free(a);
	return NULL;
}

static bool get_time(struct view v, int64_t *ret)
{
	struct bytes b = { (const uint8_t *)v.ptr, (const uint8_t *)v.ptr + v.len, false };
	b.bad = get_byte(&b) != VERSION;
	*ret = zigzag_decode(get_varint(&b));
	return !b.bad && b.p == b.end;
}

/* Alerts whose state is no longer needed: to be deleted with the first batch. */
struct reader {
	struct rules *m;
	VEC(struct view) unwanted; /* owned */
};

static struct live_group *find_group(struct rules *m, uint64_t key)
{
	for (size_t i = 0; i < m->groups.n; i++)
		if (m->groups.v[i]->key == key)
			return m->groups.v[i];
	return NULL;
}

static struct live_rule *find_rule(struct live_group *g, uint64_t key)
{
	for (size_t i = 0; i < g->def->n_rules; i++)
		if (g->rules[i].key == key)
			return &g->rules[i];
	return NULL;
}

static bool read_group(struct live_group *g, const struct sink_note *n)
{
	int64_t t;
	if (!get_time(n->value, &t))
		return false;
	g->last_slot = t;
	g->noted_at = n->t_ms;
	g->restore = false;
	g->resumed = true;
	for (size_t i = 0; i < g->def->n_rules; i++)
		g->rules[i].writes_state = true;
	return true;
}

static bool read_alert(struct rules *m, struct live_rule *rule, const struct sink_note *n)
{
	struct live_alert *a = rule->rule->alerting ? decode_alert(n->value) : NULL;
	if (!a)
		return false;
	a->restored = true;
	a->noted_at = n->t_ms;
	count_note(m, a, n->key.len + n->value.len);
	if (a->last_sent == a->fired_at || a->last_sent == a->resolved_at)
		a->last_sent = 0; /* it was noted before it was sent, and may not have been */
	vec_push(&rule->alerts, a);
	return true;
}

static bool read_note(struct rules *m, const struct sink_note *n)
{
	struct bytes b = { (const uint8_t *)n->key.ptr + PREFIX, (const uint8_t *)n->key.ptr + n->key.len, false };
	struct live_group *g = find_group(m, get_be64(&b));
	if (b.bad || !g)
		return false;
	if (b.p == b.end)
		return read_group(g, n);
	struct live_rule *rule = find_rule(g, get_be64(&b));
	if (b.bad || !rule)
		return false;
	if (b.p == b.end)
		return rule->rule->delta && get_time(n->value, &rule->delta.next_slot);
	return read_alert(m, rule, n);
}

static void on_note(void *arg, const struct sink_note *n)
{
	struct reader *r = arg;
	if (!read_note(r->m, n))
		vec_push(&r->unwanted, view_make(xstrndup(n->key.ptr, n->key.len), n->key.len));
}

static void forget_unwanted(struct reader *r)
{
	VEC(struct sink_note) notes = { 0 };
	struct err e = { 0 };
	for (size_t i = 0; i < r->unwanted.n; i++)
		vec_push(&notes, (struct sink_note){ .key = r->unwanted.v[i], .value = VIEW("") });
	const struct sink_batch batch = { .notes = notes.v, .n_notes = notes.n };
	if (notes.n && r->m->o.sink->append(r->m->o.sink, &batch, NULL, &e))
		LOG_WARN("msg", "the state of alerts that are no more was not forgotten", "err", e.msg);
	vec_free(&notes);
}

void notes_read(struct rules *m)
{
	struct reader r = { .m = m };
	struct err e = { 0 };
	if (!keeps_notes(m))
		return;
	if (m->o.sink->notes(m->o.sink, view_make(KIND, PREFIX), on_note, &r, &e))
		LOG_ERROR("msg", "the state of alerts could not be read, they start again", "err", e.msg);
	else
		forget_unwanted(&r);
	for (size_t i = 0; i < r.unwanted.n; i++)
		free((char *)r.unwanted.v[i].ptr);
	vec_free(&r.unwanted);
}

/* ---- the first evaluation after that ---- */

/* Time during which the server was off counts neither towards `for` nor towards keep_firing_for. */
void notes_resume(struct live_group *g, int64_t slot_ms, int64_t interval_ms)
{
	int64_t gap = g->last_slot ? slot_ms - g->last_slot - interval_ms : 0;
	if (gap > 0)
		g->hold_until = slot_ms + MIN(MAX(gap, 2 * interval_ms), RESUME_HOLD_MS);
	for (size_t i = 0; i < g->def->n_rules; i++) {
		struct live_rule *rule = &g->rules[i];
		alert_remember_series(rule);
		for (size_t k = 0; k < rule->alerts.n && gap > 0; k++) {
			struct live_alert *a = rule->alerts.v[k];
			a->changed = true;
			if (a->state == ALERT_PENDING)
				a->active_at += gap;
			if (a->keep_since)
				a->keep_since += gap;
		}
	}
}
