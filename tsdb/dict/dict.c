/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/dict/dict.h"

#include "base/cursor.h"
#include "base/thread.h"
#include "tsdb/dict/dict_pack.h"

#define AT_ONCE 1024 /* entries under a lock: less than a millisecond */
/* More than any records that were lost can have held: the number is damaged, and substitutes would take gigabytes. */
#define LOST_MAX (1u << 24)

static uint32_t count_of(unsigned table, const struct symbols *s, const struct index *x)
{
	return table == DICT_SERIES ? (uint32_t)x->series.n : symbols_rows_count(s, table);
}

static uint32_t *next_of(struct dict_marks *m, unsigned table)
{
	return table == DICT_SERIES ? &m->series : &m->symbols.next[table];
}

void dict_marks_start(struct dict_marks *m)
{
	m->series = 0;
	symbols_marks_start(&m->symbols);
}

void dict_marks_now(struct dict_marks *m, const struct symbols *s, const struct index *x)
{
	m->series = (uint32_t)x->series.n;
	symbols_marks_now(&m->symbols, s);
}

bool dict_marks_eq(const struct dict_marks *a, const struct dict_marks *b)
{
	return a->series == b->series && symbols_marks_eq(&a->symbols, &b->symbols);
}

bool dict_marks_within(const struct dict_marks *a, const struct dict_marks *b)
{
	return a->series <= b->series && symbols_marks_within(&a->symbols, &b->symbols);
}

/* ---- writing ---- */

static void put_string_id(struct buf *b, const struct symbols *s, struct view v)
{
	uint32_t id = 0;
	symbols_find_string(s, v, &id); /* a series' strings are always there */
	buf_varint(b, id);
}

static void put_series(struct buf *b, const struct symbols *s, const struct index *x, uint32_t id)
{
	const struct series *r = x->series.v[id];
	buf_putc(b, r->is_float ? 0 : (char)(r->type.kind | (r->type.delta ? 0x80 : 0)));
	if (!r->is_float) {
		const struct view parts[] = { r->type.name, r->type.sample_type, r->type.sample_unit,
					      r->type.period_type, r->type.period_unit };
		for (size_t i = 0; i < ARRAY_LEN(parts); i++)
			put_string_id(b, s, parts[i]);
	}
	buf_varint(b, r->labels.n);
	for (size_t i = 0; i < r->labels.n; i++) {
		put_string_id(b, s, r->labels.v[i].name);
		put_string_id(b, s, r->labels.v[i].value);
	}
}

void dict_encode(struct buf *b, const struct symbols *s, const struct index *x, const struct dict_marks *from,
		 const struct dict_marks *to, struct rwlock *lock) LOCKS_UNCHECKED /* lock may be NULL */
{
	symbols_rows_encode(b, s, &from->symbols, &to->symbols, lock);
	if (from->series >= to->series)
		return;
	symbols_rows_put_head(b, &(struct symbols_section){ DICT_SERIES, from->series, to->series - from->series });
	for (uint32_t id = from->series; id < to->series; id++) {
		put_series(b, s, x, id);
		if (lock && (id - from->series) % AT_ONCE == AT_ONCE - 1)
			rwlock_let_in(lock);
	}
}

/* ---- reading ---- */

struct reader {
	struct symbols_reader rows;
	struct index *x;
	VEC(struct label) series_labels;
	struct dict_marks *first; /* only looked through: lowest id of each table */
	bool series_only;         /* other tables than those of strings and series are stepped over */
};

static struct reader reader_of(struct view rows, enum dict_how how, struct symbols *s, struct index *x)
{
	return (struct reader){ .rows = { .c = cursor_of(rows), .symbols = s, .how = how == DICT_WHOLE ? ROWS_GAPS : ROWS_LOSSY }, .x = x,
				.series_only = how == DICT_SERIES_ONLY };
}

static void get_series(struct reader *r, bool add)
{
	uint8_t flags = cursor_u8(&r->rows.c);
	struct ptype type = { .delta = flags & 0x80, .kind = flags & 0x7f };
	if (flags) {
		type.name = symbols_rows_string(&r->rows);
		type.sample_type = symbols_rows_string(&r->rows);
		type.sample_unit = symbols_rows_string(&r->rows);
		type.period_type = symbols_rows_string(&r->rows);
		type.period_unit = symbols_rows_string(&r->rows);
	}
	size_t n = cursor_count(&r->rows.c);
	r->series_labels.n = 0;
	for (size_t i = 0; i < n && !r->rows.c.bad; i++) {
		struct view name = symbols_rows_string(&r->rows);
		vec_push(&r->series_labels, (struct label){ name, symbols_rows_string(&r->rows) });
	}
	if (!add || r->rows.c.bad)
		return;
	struct labels l = { r->series_labels.v, r->series_labels.n };
	index_add(r->x, l, labels_hash(l), flags ? &type : NULL);
}

/* Ids of series lost before a section get substitutes. */
static void fill_series(struct reader *r, uint32_t first)
{
	uint32_t have = (uint32_t)r->x->series.n;
	r->rows.c.bad |= first > have && (r->rows.how == ROWS_WHOLE || first - have > LOST_MAX);
	for (; !r->rows.c.bad && have < first; have++) {
		index_add(r->x, (struct labels){ NULL, 0 }, hash_u64(have), NULL);
		r->rows.lost++;
	}
}

static void get_all_series(struct reader *r, const struct symbols_section *x)
{
	fill_series(r, x->first);
	for (uint32_t id = x->first; id < x->first + x->n && !r->rows.c.bad; id++) {
		bool add = id >= r->x->series.n;
		get_series(r, add);
		r->rows.c.bad |= add && r->x->series.n != id + 1u; /* the same entry twice: ids would shift */
	}
}

static void get_section(struct reader *r)
{
	struct symbols_section x;
	if (!symbols_rows_head(&r->rows.c, &x))
		return;
	r->rows.c.bad |= x.table >= DICT_TABLES;
	if (r->rows.c.bad)
		return;
	if (r->first) {
		uint32_t *lowest = next_of(r->first, x.table);
		*lowest = MIN(*lowest, x.first);
		r->rows.c.bad |= x.first + x.n > count_of(x.table, r->rows.symbols, r->x); /* it would be added */
	}
	r->rows.stepping = r->series_only && x.table != ROWS_STRINGS && x.table != DICT_SERIES;
	if (x.table == DICT_SERIES)
		get_all_series(r, &x);
	else
		symbols_rows_section(&r->rows, &x);
}

/* ---- columns: nearly all that there is are nodes, stacks and columns, which go from their streams into the tables ---- */

#define RUN 512 /* entries that are read together */

static void load_node(struct reader *r, uint32_t id, uint64_t gap, uint64_t location)
{
	if (gap >= id || location >= symbols_count(r->rows.symbols, SYMBOLS_LOCATIONS))
		r->rows.c.bad = true;
	else
		symbols_load_node(r->rows.symbols, (uint32_t)(id - 1 - gap), (uint32_t)location);
}

static void load_run(struct reader *r, unsigned t, uint32_t id, const uint64_t *a, const uint64_t *b, size_t n)
{
	uint32_t have = symbols_rows_count(r->rows.symbols, t);
	size_t i = id < have ? MIN(have - id, n) : 0; /* those are there already */
	switch (t) {
	case ROWS_NODES:
		for (; i < n && !r->rows.c.bad; i++)
			load_node(r, id + (uint32_t)i, a[i], b[i]);
		break;
	case ROWS_STACKS:
		for (; i < n && !(r->rows.c.bad |= a[i] >= symbols_count(r->rows.symbols, SYMBOLS_NODES)); i++)
			symbols_load_stack(r->rows.symbols, (uint32_t)a[i]);
		break;
	default:
		for (; i < n && !(r->rows.c.bad |= a[i] >= symbols_count(r->rows.symbols, SYMBOLS_STACKS) ||
						   b[i] >= symbols_count(r->rows.symbols, SYMBOLS_LABEL_SETS)); i++)
			symbols_load_column(r->rows.symbols, (uint32_t)a[i], (uint32_t)b[i]);
	}
}

static void load_section(struct reader *r, const struct dict_section *x)
{
	struct dict_field f[2];
	uint64_t v[2][RUN];
	unsigned fields = x->table == ROWS_STACKS ? 1 : 2;
	if (x->n > x->streams[0].len || x->first > UINT32_MAX - x->n) {
		r->rows.c.bad = true;
		return;
	}
	symbols_rows_fill(&r->rows, x->table, (uint32_t)x->first);
	for (unsigned k = 0; k < fields; k++)
		dict_field_init(&f[k], x, k);
	for (uint64_t i = 0; i < x->n && !r->rows.c.bad; i += RUN) {
		size_t n = (size_t)MIN(x->n - i, (uint64_t)RUN);
		for (unsigned k = 0; k < fields; k++)
			r->rows.c.bad |= !dict_field_get(&f[k], v[k], n);
		if (!r->rows.c.bad)
			load_run(r, x->table, (uint32_t)(x->first + i), v[0], v[1], n);
	}
	for (unsigned k = 0; k < fields; k++)
		r->rows.c.bad |= f[k].in.p != f[k].in.end;
}

static void get_packed(struct reader *r, const struct dict_section *x)
{
	unsigned t = x->table;
	bool large = t == ROWS_NODES || t == ROWS_STACKS || t == ROWS_COLUMNS;
	if (r->series_only && t != ROWS_STRINGS && t != DICT_SERIES)
		return;
	if (large && r->rows.how != ROWS_LOSSY) {
		load_section(r, x);
		return;
	}
	CLEANUP(buf_free) struct buf rows = { 0 };
	if (dict_unpack(&rows, x->bytes, NULL)) {
		r->rows.c.bad = true;
		return;
	}
	r->rows.c = cursor_of(buf_view(&rows));
	get_section(r);
	r->rows.c = (struct cursor){ .bad = r->rows.c.bad || r->rows.c.p != r->rows.c.end };
}

static void reader_release(struct reader *r)
{
	symbols_reader_release(&r->rows);
	vec_free(&r->series_labels);
}

int dict_apply_packed(struct view packed, enum dict_how how, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e)
{
	struct reader r = reader_of(VIEW(""), how, s, x);
	struct cursor c = cursor_of(packed);
	struct dict_section section;
	while (!r.rows.c.bad && dict_next_section(&c, &section))
		get_packed(&r, &section);
	reader_release(&r);
	if (ret_lost)
		*ret_lost += r.rows.lost;
	return r.rows.c.bad || c.bad ? err_set(e, ERR_CORRUPT, "symbols are malformed before byte %zu of %zu",
					       (size_t)(c.p - (const uint8_t *)packed.ptr), packed.len) : 0;
}

static bool has_section(struct view packed, unsigned t, uint64_t first, uint64_t end)
{
	struct cursor c = cursor_of(packed);
	struct dict_section x;
	while (dict_next_section(&c, &x))
		if (x.table == t && x.first <= first && x.first + x.n >= end)
			return true;
	return false;
}

bool dict_is_repeated(struct view packed, struct view next, const struct dict_marks *have)
{
	struct cursor c = cursor_of(packed);
	struct dict_section x;
	struct dict_marks marks = *have;
	while (dict_next_section(&c, &x)) {
		uint32_t known = *next_of(&marks, x.table);
		if (x.n > UINT32_MAX || x.first > known || (x.first + x.n > known && !has_section(next, x.table, known, x.first + x.n)))
			return false;
	}
	return !c.bad;
}

static int apply(struct view payload, struct symbols *s, struct index *x, enum dict_how how, uint64_t *ret_lost,
		 struct err *e)
{
	struct reader r = reader_of(payload, how, s, x);
	while (!r.rows.c.bad && r.rows.c.p < r.rows.c.end)
		get_section(&r);
	reader_release(&r);
	if (ret_lost)
		*ret_lost += r.rows.lost;
	return r.rows.c.bad ? err_set(e, ERR_CORRUPT, "symbols are malformed at byte %zu of %zu",
				      (size_t)(r.rows.c.p - (const uint8_t *)payload.ptr), payload.len) : 0;
}

int dict_apply(struct view payload, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e)
{
	return apply(payload, s, x, DICT_WHOLE, ret_lost, e);
}

int dict_apply_lossy(struct view payload, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e)
{
	return apply(payload, s, x, DICT_LOSSY, ret_lost, e);
}

void dict_fill_up(const struct dict_marks *to, struct symbols *s, struct index *x, bool series_only, uint64_t *ret_lost)
{
	struct reader r = reader_of(VIEW(""), DICT_WHOLE, s, x);
	for (unsigned t = ROWS_STRINGS; t < ROWS_TABLES; t++)
		if (!series_only || t == ROWS_STRINGS)
			symbols_rows_fill(&r.rows, t, to->symbols.next[t]);
	fill_series(&r, to->series);
	*ret_lost += r.rows.lost;
}

int dict_apply_series(struct view payload, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e)
{
	return apply(payload, s, x, DICT_SERIES_ONLY, ret_lost, e);
}

int dict_first(struct view payload, struct symbols *s, struct index *x, struct dict_marks *ret, struct err *e)
{
	struct reader r = { .rows = { .c = cursor_of(payload), .symbols = s }, .x = x, .first = ret };
	struct dict_marks start;
	memset(ret, 0xff, sizeof *ret);
	while (!r.rows.c.bad && r.rows.c.p < r.rows.c.end)
		get_section(&r);
	dict_marks_start(&start);
	for (unsigned t = ROWS_STRINGS; t < DICT_TABLES; t++)
		if (*next_of(ret, t) == UINT32_MAX)
			*next_of(ret, t) = *next_of(&start, t);
	reader_release(&r);
	return r.rows.c.bad ? err_set(e, ERR_CORRUPT, "symbols of a sealed part are not those of its partition") : 0;
}
