/* SPDX-License-Identifier: Apache-2.0 */
/* The sink: what scrapers and receivers hand over becomes log records. Runs on the caller's thread: it checks stamps,
 * interns stacks and series under the partition's lock, encodes, and queues; the committer does the rest. */
#include "base/alloc.h"
#include "base/clock.h"
#include "tsdb/bucket/catalogue.h"
#include "tsdb/version/db.h"
#include "tsdb/write/append.h"
#include "tsdb/write/committer.h"
#include "tsdb/write/request.h"
#include "tsdb/write/sort.h"

#define AHEAD_MS (10 * INT64_C(60000))
#define FLOATS_AT_ONCE 256 /* under the lock: less than a millisecond, if all are of new series */

/* The state of one append call. */
struct append {
	struct tsdb *db;
	struct request *r;
	struct sink_result result;
	int64_t now_ms, boot_ms, floor_ms;
	struct record_profile out;
	VEC(uint64_t) keys, sorted; /* column << 32 | sample */
	/* The columns of the profile interned last: parts of one profile are adjacent. */
	const struct profile *interned;
	const struct partition *interned_in;
	uint32_t *columns;
	uint32_t over_limit_series;
};

static bool stamp_ok(struct append *a, int64_t t_ms)
{
	if (t_ms > a->now_ms + AHEAD_MS) {
		a->result.too_new++;
		metric_inc(&tsdb_metrics[TM_TOO_NEW]);
		return false;
	}
	bool absent = a->db->catalogue && catalogue_is_absent(a->db->catalogue, day_of(t_ms));
	if (t_ms <= a->floor_ms || t_ms <= 0 || absent) {
		a->result.too_old++;
		metric_inc(&tsdb_metrics[TM_TOO_OLD]);
		return false;
	}
	return true;
}

/* The request's record of that kind in a partition, begun when it is the first. */
static struct request_record *record_of(struct append *a, struct partition *p, enum record_kind kind)
{
	for (size_t i = a->r->records.n; i--;)
		if (a->r->records.v[i].p == p && a->r->records.v[i].kind == kind)
			return &a->r->records.v[i];
	struct request_record *x = vec_add(&a->r->records);
	x->p = partition_enter(p);
	x->kind = kind;
	record_begin(&x->bytes, kind, p->day);
	return x;
}

static void lock_dict(struct partition *p) ACQUIRES(p->append_turn, p->dict_lock)
{
	atomic_fetch_add(&p->appenders, 1);
	mutex_lock(&p->append_turn);
	atomic_fetch_sub(&p->appenders, 1);
	rwlock_write(&p->dict_lock);
}

static void unlock_dict(struct partition *p) RELEASES(p->append_turn, p->dict_lock)
{
	rwlock_unlock(&p->dict_lock);
	mutex_unlock(&p->append_turn);
}

/* ---- series ---- */

static bool has_type(const struct series *s, const struct ptype *type)
{
	return type ? !s->is_float && ptype_eq(&s->type, type) : s->is_float;
}

/* The newest stamp that the day before has of the series; INT64_MIN: it does not know it. */
static int64_t last_of_day_before(struct tsdb *db, const struct partition *p, struct labels l, uint64_t hash, const struct ptype *type)
	REQUIRES(p->dict_lock)
{
	uint32_t id;
	int64_t last = INT64_MIN;
	struct partition *before = p->day ? tsdb_partition(db, p->day - 1) : NULL;
	if (!before)
		return last;
	partition_load(before);
	rwlock_read(&before->dict_lock);
	if (index_find(&before->index, l, hash, &id) && has_type(before->index.series.v[id], type))
		last = atomic_load(&before->index.series.v[id]->last_t);
	rwlock_unlock(&before->dict_lock);
	partition_unref(before);
	return last;
}

/* Of a series that the partition has. If nothing of it came in yet it goes on where the day before ended. */
static bool go_on(struct append *a, struct partition *p, struct series *s, const struct ptype *type, bool marker) REQUIRES(p->dict_lock)
{
	if (!has_type(s, type)) {
		metric_inc(&tsdb_metrics[TM_TYPE_CONFLICT]);
		return false;
	}
	if (UNLIKELY(atomic_load(&s->last_t) == INT64_MIN))
		atomic_store(&s->last_t, last_of_day_before(a->db, p, s->labels, s->hash, type));
	return !marker || atomic_load(&s->last_t) != INT64_MIN;
}

/* False if the series is refused: the day or its target has as many as it may have, it is known with another type, or a
 * marker would end one that neither this day nor the previous one has. One that ended just after midnight is known to the day before alone. */
static bool need_series(struct append *a, struct partition *p, struct labels l, const struct ptype *type, bool marker, uint32_t *ret)
	REQUIRES(p->dict_lock)
{
	uint64_t h = labels_hash(l);
	if (index_find(&p->index, l, h, ret))
		return go_on(a, p, p->index.series.v[*ret], type, marker);
	struct account *account = accounts_get(&p->accounts, accounts_target(l));
	size_t counted = index_counted(&p->index);
	bool full = !accounts_has_series(&p->accounts, account, counted, &a->db->o);
	int64_t last = full ? INT64_MIN : last_of_day_before(a->db, p, l, h, type);
	if (marker && last == INT64_MIN)
		return false; /* also if the day is full: that is no rejected sample */
	if (full) {
		a->result.over_series_limit++;
		metric_inc(&tsdb_metrics[TM_OVER_LIMIT]);
		return false;
	}
	*ret = index_add(&p->index, l, h, type);
	account->series += index_counted(&p->index) - counted;
	atomic_store(&p->index.series.v[*ret]->last_t, last);
	return true;
}

/* Takes the stamp in, or refuses one that is there already. */
static bool take_stamp(struct append *a, const struct version *v, struct partition *p, uint32_t id, int64_t t_ms) REQUIRES(p->dict_lock)
{
	struct series *s = p->index.series.v[id];
	int64_t last = atomic_load(&s->last_t);
	if (t_ms > last) {
		atomic_store(&s->last_t, t_ms);
		vec_push(&a->r->touched, s);
		return true;
	}
	if (t_ms < last && !tsdb_has_stamp(v, p, id, t_ms))
		return true;
	a->result.duplicates++;
	metric_inc(&tsdb_metrics[TM_DUPLICATES]);
	return false;
}

/* ---- profiles ---- */

/* A dictionary that is being added to, under its lock. */
struct adding {
	struct partition *p;
	struct account *account;
	struct symbols_room before;
	uint64_t target;
};

/* One large profile holds up neither queries nor the other targets' appends. */
static void let_others_in(void *arg) LOCKS_UNCHECKED /* clang does not know whose lock a callback has */
{
	struct adding *x = arg;
	rwlock_assert_writing(&x->p->dict_lock);
	account_add(x->account, &x->before, x->p->symbols);
	unlock_dict(x->p);
	clock_sleep_us(50); /* otherwise waiting threads would not get the lock before this one takes it again */
	lock_dict(x->p);
	x->account = accounts_get(&x->p->accounts, x->target); /* they may have moved */
	x->before = symbols_used(x->p->symbols);
}

/* As much of it as its target may add. That it may all of it is mostly plain from its size. */
static int add_symbols(struct append *a, struct partition *p, struct profile *profile, struct labels target, struct err *e)
{
	struct symbols *s = p->symbols;
	struct adding x = { .p = p, .target = accounts_target(target), .before = symbols_used(s) };
	const struct symbols_pause pause = { let_others_in, &x };
	x.account = accounts_get(&p->accounts, x.target);
	symbols_index(s, &pause); /* of a day that was loaded: its room is what it takes with that */
	struct symbols_room room = accounts_room(&p->accounts, x.account, s, &a->db->o);
	uint32_t other = 0;
	bool fits = profile->n_functions <= room.functions && (size_t)profile->n_locations + 2 * profile->n_mappings <= room.locations &&
		    profile->n_samples <= room.stacks && symbols_most_cost(profile) <= room.bytes;
	int rc = fits ? symbols_add_profile(s, profile, a->columns, &pause, e)
		      : symbols_fit_profile(s, profile, &room, a->columns, &other, &pause, e);
	account_add(x.account, &x.before, s);
	a->result.over_names += other;
	metric_add(&tsdb_metrics[TM_NAMES_OVER], other);
	return rc;
}

static size_t n_samples_of(const struct sink_profile *sp)
{
	return !sp->profile ? 0 : sp->samples ? sp->n_samples : sp->profile->n_samples;
}

/* Memory for intern, before the dictionary is locked: the arena's budget may wait for memory, and nobody else is to wait for that. */
static int reserve_work(const struct append *a, const struct sink_profile *sp, struct err *e)
{
	struct profile *profile = sp->profile;
	if (!n_samples_of(sp) || (a->interned == profile && a->interned_in->day == day_of(sp->t_ms)) ||
	    arena_reserve(&profile->arena, (profile->n_samples + 4) * sizeof *a->columns + symbols_work_bytes(profile)))
		return 0;
	return err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", profile->arena.max);
}

/* target: labels of one of its series. */
static int intern(struct append *a, struct partition *p, struct profile *profile, struct labels target, struct err *e)
{
	if (a->interned == profile && a->interned_in == p)
		return 0;
	a->interned = NULL;
	a->columns = arena_alloc(&profile->arena, profile->n_samples * sizeof *a->columns);
	if (!a->columns)
		return err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", profile->arena.max);
	int rc = add_symbols(a, p, profile, target, e);
	if (rc)
		return rc;
	a->interned = profile;
	a->interned_in = p;
	return 0;
}

/* A series has at most this many sample label sets: the rest become one that says so. */
static uint32_t limit_label_sets(struct append *a, struct partition *p, struct series *s, uint32_t column)
{
	struct sym_column c = *symbols_get_column(p->symbols, column);
	uint64_t h = hash_u64(c.label_set);
	uint32_t id;
	if (!c.label_set)
		return column;
	for (size_t at = map_start(&s->label_sets, h); map_probe(&s->label_sets, h, &at, &id);)
		if (id == c.label_set)
			return column;
	if (s->label_sets.n < a->db->o.max_label_sets) {
		map_insert(&s->label_sets, h, c.label_set);
		return column;
	}
	metric_inc(&tsdb_metrics[TM_LABEL_SETS_OVER]);
	struct sym_label mark = { .key = symbols_string(p->symbols, VIEW("pyrrha_label_sets")),
				  .str = symbols_string(p->symbols, VIEW("over the limit")) };
	return symbols_column(p->symbols, c.stack, symbols_label_set(p->symbols, &mark, 1));
}

/* The distinct columns of the samples, ascending, into out.columns; keys keep which samples they come from. */
static const uint64_t *sort_columns(struct append *a, struct partition *p, const struct sink_profile *sp, size_t n)
{
	struct series *s = p->index.series.v[a->out.series[0]];
	vec_reserve(&a->keys, n + 1);
	vec_reserve(&a->sorted, n + 1);
	for (size_t i = 0; i < n; i++) {
		uint32_t sample = sp->samples ? sp->samples[i] : (uint32_t)i;
		a->keys.v[i] = (uint64_t)limit_label_sets(a, p, s, a->columns[sample]) << 32 | sample;
	}
	const uint64_t *keys = sort_by_high(a->keys.v, a->sorted.v, n);
	a->out.columns.n = 0;
	vec_reserve(&a->out.columns, n);
	for (size_t i = 0; i < n; i++)
		if (!i || keys[i] >> 32 != keys[i - 1] >> 32)
			a->out.columns.v[a->out.columns.n++] = (uint32_t)(keys[i] >> 32);
	a->out.n = a->out.columns.n;
	return keys;
}

/* The values of one sample type, samples of one column added up, appended as a row of out.values. */
static int add_values(struct append *a, const struct sink_profile *sp, const uint64_t *keys, size_t n, uint32_t type,
		      struct err *e)
{
	const int64_t *from = sp->values ? sp->values : sp->profile->values;
	size_t width = sp->profile->n_sample_types, out = a->out.values.n;
	int64_t total = 0;
	vec_reserve(&a->out.values, out + a->out.n);
	int64_t *to = a->out.values.v + out;
	size_t at = 0;
	bool over = false;
	for (size_t i = 0; i < n; i++) {
		int64_t value = from[(size_t)(uint32_t)keys[i] * width + type];
		over |= __builtin_add_overflow(total, value, &total);
		if (i && keys[i] >> 32 == keys[i - 1] >> 32)
			over |= __builtin_add_overflow(to[at - 1], value, &to[at - 1]);
		else
			to[at++] = value;
	}
	a->out.values.n += a->out.n;
	return over ? err_set(e, ERR_BAD_DATA, "the profile's values do not add up within 64 bits") : 0;
}

/* Columns that are 0 in every type are dropped. */
static void drop_zero_columns(struct record_profile *p)
{
	size_t kept = 0, n = p->n;
	for (size_t i = 0; i < n; i++) {
		int64_t any = 0;
		for (uint32_t s = 0; s < p->n_series; s++)
			any |= p->values.v[s * n + i];
		if (!any)
			continue;
		p->columns.v[kept] = p->columns.v[i];
		for (uint32_t s = 0; s < p->n_series; s++)
			p->values.v[s * n + kept] = p->values.v[s * n + i];
		kept++;
	}
	if (kept == n || !n)
		return;
	for (uint32_t s = 1; s < p->n_series; s++)
		memmove(p->values.v + s * kept, p->values.v + s * n, kept * sizeof *p->values.v);
	p->n = p->columns.n = kept;
	p->values.n = kept * p->n_series;
}

/* w of the language: the time since the previous scrape if that is at most 1.5 intervals (of increases: always), else
 * one interval; never less than the duration. */
static uint32_t cover_of(const struct sink_profile *sp, enum profile_kind kind, int64_t previous_ms)
{
	int64_t w = sp->cover_ms;
	if (w <= 0) {
		int64_t since = previous_ms == INT64_MIN || previous_ms >= sp->t_ms ? INT64_MAX : sp->t_ms - previous_ms;
		bool near = since != INT64_MAX && (kind == PROFILE_CUMULATIVE || since <= sp->interval_ms + sp->interval_ms / 2);
		w = near ? since : sp->interval_ms;
	}
	w = MAX(w, (sp->duration_ns + 999999) / 1000000);
	return (uint32_t)MIN(MAX(w, 0), (int64_t)UINT32_MAX);
}

/* The series of a profile that take its stamp; value_index of each goes to types[]. */
static void pick_series(struct append *a, const struct version *v, struct partition *p, const struct sink_profile *sp,
			uint32_t *types) REQUIRES(p->dict_lock)
{
	struct record_profile *out = &a->out;
	out->n_series = 0;
	for (size_t i = 0; i < sp->n_columns && out->n_series < RECORD_MAX_TYPES; i++) {
		const struct sink_column *c = &sp->columns[i];
		uint32_t id;
		if (!need_series(a, p, c->labels, &c->type, !sp->profile, &id))
			continue;
		int64_t previous = atomic_load(&p->index.series.v[id]->last_t);
		if (!take_stamp(a, v, p, id, sp->t_ms))
			continue;
		if (!out->n_series)
			out->cover_ms = cover_of(sp, c->type.kind, previous);
		types[out->n_series] = c->value_index;
		out->series[out->n_series++] = id;
	}
}

/* A series whose sums of the day could exceed 64 bits could not be sealed. Samples that are refused later, or not committed, stay in the
 * count. */
static int take_magnitudes(struct append *a, struct partition *p, struct err *e)
{
	uint64_t more[RECORD_MAX_TYPES];
	for (uint32_t i = 0; i < a->out.n_series; i++) {
		more[i] = values_magnitude(a->out.values.v + (size_t)i * a->out.n, a->out.n);
		if (more[i] > INT64_MAX - p->index.series.v[a->out.series[i]]->magnitude)
			return err_set(e, ERR_BAD_DATA, "the values of this series and day do not add up within 64 bits: it takes no more of that size until the day ends");
	}
	for (uint32_t i = 0; i < a->out.n_series; i++)
		p->index.series.v[a->out.series[i]]->magnitude += more[i];
	return 0;
}

static int fill_samples(struct append *a, struct partition *p, const struct sink_profile *sp, const uint32_t *types,
			struct err *e)
{
	size_t n = n_samples_of(sp);
	int rc = n ? intern(a, p, sp->profile, sp->columns[0].labels, e) : 0;
	a->out.values.n = 0;
	const uint64_t *keys = rc ? NULL : sort_columns(a, p, sp, n);
	for (uint32_t i = 0; i < a->out.n_series && !rc; i++)
		rc = add_values(a, sp, keys, n, types[i], e);
	if (!rc)
		drop_zero_columns(&a->out);
	return rc ? rc : take_magnitudes(a, p, e);
}

static int check_profile(const struct sink_profile *sp, struct err *e)
{
	if (sp->n_columns > RECORD_MAX_TYPES)
		return err_set(e, ERR_LIMIT, "a profile has %zu sample types, at most %d are stored", sp->n_columns,
			       RECORD_MAX_TYPES);
	if (!sp->profile)
		return 0;
	if (!profile_duration_is_sane(sp->duration_ns) || sp->interval_ms < 0 || sp->interval_ms > UINT32_MAX || sp->asked_ms < 0 ||
	    sp->asked_ms > UINT32_MAX)
		return err_set(e, ERR_BAD_DATA, "a profile's duration or interval is out of range");
	for (size_t i = 0; i < sp->n_columns; i++)
		if (sp->columns[i].value_index >= sp->profile->n_sample_types)
			return err_set(e, ERR_BAD_DATA, "a profile has no sample type %u", sp->columns[i].value_index);
	for (uint32_t i = 0; sp->samples && i < sp->n_samples; i++)
		if (sp->samples[i] >= sp->profile->n_samples)
			return err_set(e, ERR_BAD_DATA, "a profile has no sample %u", sp->samples[i]);
	return 0;
}

static int add_profile(struct append *a, const struct version *v, const struct sink_profile *sp, struct err *e)
{
	uint32_t types[RECORD_MAX_TYPES];
	int rc = check_profile(sp, e);
	if (rc || !sp->n_columns || !stamp_ok(a, sp->t_ms))
		return rc;
	rc = reserve_work(a, sp, e);
	if (rc)
		return rc;
	struct partition *p = tsdb_enter_partition(a->db, day_of(sp->t_ms));
	partition_load(p);
	struct record_profile *out = &a->out;
	out->t_ms = sp->t_ms;
	out->stale = !sp->profile;
	out->meta = (struct sample_meta){ sp->duration_ns, sp->period, (uint32_t)sp->interval_ms, (uint32_t)sp->asked_ms };
	out->n = 0;
	lock_dict(p);
	pick_series(a, v, p, sp, types);
	if (out->n_series && sp->profile)
		rc = fill_samples(a, p, sp, types, e);
	unlock_dict(p);
	if (!rc && out->n_series) {
		record_put_profile(&record_of(a, p, RECORD_SAMPLES)->bytes, out);
		retention_clock_saw(p, sp->t_ms, a->now_ms, a->boot_ms);
		a->result.profiles += !out->stale;
		a->r->profiles += !out->stale;
		a->r->samples += out->n * out->n_series;
	}
	partition_leave(p);
	return rc;
}

/* ---- floats ---- */

static void add_float(struct append *a, const struct version *v, struct partition *p, const struct sink_float *f) REQUIRES(p->dict_lock)
{
	struct record_float out = { .t_ms = f->t_ms, .bits = value_bits(f->v) };
	if (!need_series(a, p, f->labels, NULL, value_is_stale(f->v), &out.series) || !take_stamp(a, v, p, out.series, f->t_ms))
		return;
	record_put_float(&record_of(a, p, RECORD_FLOATS)->bytes, &out);
	retention_clock_saw(p, f->t_ms, a->now_ms, a->boot_ms);
	a->result.floats++;
	a->r->floats++;
}

/* Floats from f on, at most this many, as long as they are of one day; returns the number processed. */
static size_t add_floats(struct append *a, const struct version *v, const struct sink_float *f, size_t most)
{
	uint32_t day = day_of(f->t_ms);
	size_t n = 1;
	if (!stamp_ok(a, f->t_ms))
		return n;
	struct partition *p = tsdb_enter_partition(a->db, day);
	partition_load(p);
	lock_dict(p);
	add_float(a, v, p, f);
	for (; n < most && day_of(f[n].t_ms) == day; n++)
		if (stamp_ok(a, f[n].t_ms))
			add_float(a, v, p, &f[n]);
	unlock_dict(p);
	bool give_way = n == FLOATS_AT_ONCE && atomic_load(&p->appenders);
	partition_leave(p);
	if (give_way)
		clock_sleep_us(50); /* or this one would mostly get the lock again before the waiting thread wakes */
	return n;
}

/* ---- notes ---- */

/* Profiles are not refused because of them, unless there is nothing else. */
static int add_notes(struct append *a, const struct sink_batch *b, struct err *e)
{
	struct err why;
	if (!b->n_notes)
		return 0;
	if (!notes_take(hlog_notes(a->db->log), b->notes, b->n_notes, &a->r->notes, &a->r->notes_room, &why)) {
		a->r->n_notes = b->n_notes;
		return 0;
	}
	a->result.over_notes = (uint32_t)b->n_notes;
	metric_add(&tsdb_metrics[TM_NOTES_OVER], (double)b->n_notes);
	return b->n_profiles || b->n_floats ? 0 : err_set(e, why.code, "%s", why.msg);
}

int tsdb_notes(struct sink *s, struct view prefix, void (*note)(void *arg, const struct sink_note *n), void *arg, struct err *e)
{
	struct tsdb *db = (struct tsdb *)((char *)s - offsetof(struct tsdb, sink));
	(void)e;
	notes_each(hlog_notes(db->log), prefix, tsdb_retention_now_ms(db) - SINK_NOTE_KEPT_MS, note, arg);
	return 0;
}

/* ---- the call ---- */

/* was: what the result said before it. */
static void tell_refused(const struct append *a, const struct sink_batch *b, const struct sink_result *was, bool profile, size_t i)
{
	const struct sink_result *now = &a->result;
	const char *why = now->duplicates > was->duplicates ? "there is one of that time already"
			  : now->too_old > was->too_old	    ? "too old"
			  : now->too_new > was->too_new	    ? "too far in the future"
			  : now->over_series_limit > was->over_series_limit ? "the day has its series" : NULL;
	if (why)
		b->refused(b->refused_arg, profile, i, why);
}

static int fill(struct append *a, const struct sink_batch *b, struct err *e)
{
	int rc = 0;
	struct version *v = tsdb_version(a->db, NULL);
	struct sink_result was = a->result;
	for (size_t i = 0; i < b->n_profiles && !rc; i++, was = a->result) {
		rc = add_profile(a, v, &b->profiles[i], e);
		if (b->refused)
			tell_refused(a, b, &was, true, i);
	}
	for (size_t i = 0, n; i < b->n_floats && !rc; i += n) {
		n = add_floats(a, v, &b->floats[i], b->refused ? 1 : MIN(b->n_floats - i, (size_t)FLOATS_AT_ONCE));
		if (b->refused) {
			tell_refused(a, b, &was, false, i);
			was = a->result;
		}
	}
	version_unref(v);
	if (!rc && a->result.over_series_limit && !a->result.profiles && !a->result.floats)
		rc = err_set(e, ERR_LIMIT, "no further series of this target today: the day has --storage.max-series (%u), or half of that and the target has its share of the "
			     "other half (labels above 1 KiB count as several series): drop labels, or raise --storage.max-series",
			     a->db->o.max_series);
	for (size_t i = 0; i < a->r->records.n && !rc; i++)
		if (a->r->records.v[i].bytes.overflow)
			rc = err_set(e, ERR_LIMIT, "a batch is over %zu bytes", BUF_DEFAULT_MAX);
	return rc ? rc : add_notes(a, b, e);
}

static size_t request_size(const struct request *r)
{
	size_t bytes = sizeof *r;
	for (size_t i = 0; i < r->records.n; i++)
		bytes += r->records.v[i].bytes.cap;
	for (size_t i = 0; i < r->n_notes; i++)
		bytes += sizeof(*r->notes[i]) + r->notes[i]->key_len + r->notes[i]->value_len;
	return bytes;
}

int tsdb_append(struct sink *s, const struct sink_batch *b, struct sink_result *ret, struct err *e)
{
	struct append a = { .db = (struct tsdb *)((char *)s - offsetof(struct tsdb, sink)) };
	if (queue_closed(a.db->queue))
		return err_set(e, ERR_UNAVAILABLE, "the storage is shutting down");
	/* Back-pressure: memory does not grow while windows cannot be sealed. */
	if (!a.db->o.no_sealing && tsdb_head_is_full(a.db) && !atomic_load(&a.db->stopping)) {
		metric_inc(&tsdb_metrics[TM_WAITING]);
		tsdb_wait_room(a.db);
	}
	a.r = NEW(struct request);
	a.now_ms = tsdb_now_ms(a.db);
	a.boot_ms = tsdb_boot_ms(a.db);
	a.floor_ms = tsdb_floor_ms(a.db);
	int rc = fill(&a, b, e);
	if (rc)
		for (size_t i = 0; i < a.r->touched.n; i++)
			atomic_store(&a.r->touched.v[i]->last_t, atomic_load(&a.r->touched.v[i]->max_t));
	if (!rc) {
		a.r->done = b->done;
		a.r->done_arg = b->done_arg;
		a.r->size = request_size(a.r);
		a.r->patient = b->patient;
		rc = tsdb_submit(a.db, a.r, e);
	}
	if (rc)
		request_free(a.db, a.r);
	else if (ret)
		*ret = a.result;
	record_profile_release(&a.out);
	vec_free(&a.keys);
	vec_free(&a.sorted);
	return rc;
}
