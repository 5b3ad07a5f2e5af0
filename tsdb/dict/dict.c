/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/dict/dict.h"

#include "base/thread.h"
#include "tsdb/dict/dict_pack.h"
#include "tsdb/disk/cursor.h"

void dict_marks_start(struct dict_marks *m)
{
	*m = (struct dict_marks){ 0 };
	m->next[DICT_STRINGS] = m->next[DICT_NODES] = m->next[DICT_STACKS] = m->next[DICT_LABEL_SETS] = m->next[DICT_COLUMNS] = 1;
}

#define AT_ONCE 1024 /* entries under a lock: less than a millisecond */
#define MAX_MADE_UP ((uint64_t)1 << 24) /* limit of entries in one payload */

static const enum symbols_table symbols_of[DICT_TABLES] = {
	[DICT_STRINGS] = SYMBOLS_STRINGS, [DICT_MAPPINGS] = SYMBOLS_MAPPINGS, [DICT_FUNCTIONS] = SYMBOLS_FUNCTIONS,
	[DICT_LOCATIONS] = SYMBOLS_LOCATIONS, [DICT_NODES] = SYMBOLS_NODES, [DICT_STACKS] = SYMBOLS_STACKS, [DICT_LABEL_SETS] = SYMBOLS_LABEL_SETS,
	[DICT_COLUMNS] = SYMBOLS_COLUMNS,
};

static uint32_t count_of(enum dict_table t, const struct symbols *s, const struct index *x)
{
	return t == DICT_SERIES ? (uint32_t)x->series.n : symbols_count(s, symbols_of[t]);
}

void dict_marks_now(struct dict_marks *m, const struct symbols *s, const struct index *x)
{
	m->next[0] = 0;
	for (enum dict_table t = DICT_STRINGS; t < DICT_TABLES; t++)
		m->next[t] = count_of(t, s, x);
}

bool dict_marks_eq(const struct dict_marks *a, const struct dict_marks *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

/* ---- writing ---- */

static void put_string(struct buf *b, const struct symbols *s, uint32_t id)
{
	struct view v = symbols_get_string(s, id);
	buf_varint(b, v.len);
	buf_putv(b, v);
}

static void put_mapping(struct buf *b, const struct symbols *s, uint32_t id)
{
	const struct sym_mapping *m = symbols_get_mapping(s, id);
	buf_varint(b, m->start);
	buf_varint(b, m->size);
	buf_varint(b, m->offset);
	buf_varint(b, m->file);
	buf_varint(b, m->build_id);
	buf_putc(b, (char)m->has);
}

static void put_function(struct buf *b, const struct symbols *s, uint32_t id)
{
	const struct sym_function *f = symbols_get_function(s, id);
	buf_varint(b, f->name);
	buf_varint(b, f->system_name);
	buf_varint(b, f->filename);
	buf_zigzag(b, f->start_line);
}

static void put_location(struct buf *b, const struct symbols *s, uint32_t id)
{
	const struct sym_location *l = symbols_get_location(s, id);
	buf_varint(b, l->address);
	buf_varint(b, l->mapping);
	buf_varint(b, (uint64_t)l->n_lines << 1 | l->is_folded);
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct sym_line *line = symbols_get_line(s, l, i);
		buf_varint(b, line->function);
		buf_zigzag(b, line->line);
		buf_zigzag(b, line->column);
	}
}

/* Nodes mostly continue the one before: the gap to it is 0. */
static void put_node(struct buf *b, const struct symbols *s, uint32_t id)
{
	const struct sym_node *n = symbols_get_node(s, id);
	buf_varint(b, id - 1 - n->parent);
	buf_varint(b, n->location);
}

static void put_label_set(struct buf *b, const struct symbols *s, uint32_t id)
{
	size_t n;
	const struct sym_label *l = symbols_get_label_set(s, id, &n);
	buf_varint(b, n);
	for (size_t i = 0; i < n; i++) {
		buf_varint(b, (uint64_t)l[i].key << 1 | l[i].is_num);
		if (l[i].is_num) {
			buf_zigzag(b, l[i].num);
			buf_varint(b, l[i].unit);
		} else {
			buf_varint(b, l[i].str);
		}
	}
}

static void put_column(struct buf *b, const struct symbols *s, uint32_t id)
{
	const struct sym_column *c = symbols_get_column(s, id);
	buf_varint(b, c->stack);
	buf_varint(b, c->label_set);
}

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

static void put_entry(struct buf *b, enum dict_table t, const struct symbols *s, const struct index *x, uint32_t id)
{
	switch (t) {
	case DICT_STRINGS: put_string(b, s, id); break;
	case DICT_MAPPINGS: put_mapping(b, s, id); break;
	case DICT_FUNCTIONS: put_function(b, s, id); break;
	case DICT_LOCATIONS: put_location(b, s, id); break;
	case DICT_NODES: put_node(b, s, id); break;
	case DICT_STACKS: buf_varint(b, symbols_stack_node(s, id)); break;
	case DICT_LABEL_SETS: put_label_set(b, s, id); break;
	case DICT_COLUMNS: put_column(b, s, id); break;
	case DICT_SERIES: put_series(b, s, x, id); break;
	case DICT_TABLES: break;
	}
}

void dict_encode(struct buf *b, const struct symbols *s, const struct index *x, const struct dict_marks *from,
		 const struct dict_marks *to, struct rwlock *lock) LOCKS_UNCHECKED /* lock may be NULL */
{
	uint32_t done = 0;
	for (enum dict_table t = DICT_STRINGS; t < DICT_TABLES; t++) {
		if (from->next[t] >= to->next[t])
			continue;
		buf_putc(b, (char)t);
		buf_varint(b, from->next[t]);
		buf_varint(b, to->next[t] - from->next[t]);
		for (uint32_t id = from->next[t]; id < to->next[t]; id++) {
			put_entry(b, t, s, x, id);
			if (lock && ++done % AT_ONCE == 0)
				rwlock_let_in(lock);
		}
	}
}

/* ---- reading ---- */

struct reader {
	struct cursor c;
	struct symbols *s;
	struct index *x;
	VEC(struct sym_line) lines;
	VEC(struct sym_label) labels;
	VEC(struct label) series_labels;
	uint64_t lost;
	struct dict_marks *first; /* only looked through: lowest id of each table */
	bool series_only;         /* other tables than those of strings and series are stepped over, */
	bool stepping;            /* as this one is: what its entries refer to need not be there */
	bool lossy;               /* what entries refer to and is not there is made up */
};

static void add_lost(struct reader *r, enum dict_table t, uint32_t id);

/* An id that is not there because its record was lost: all up to it are made up. */
static bool make_up(struct reader *r, enum symbols_table t, uint32_t id)
{
	uint32_t have = symbols_count(r->s, t);
	enum dict_table table = DICT_STRINGS;
	while (table < DICT_SERIES && symbols_of[table] != t)
		table++;
	if (!r->lossy || r->first || table == DICT_SERIES || id - have >= MAX_MADE_UP - r->lost)
		return false;
	for (; have <= id; have = symbols_count(r->s, t)) {
		add_lost(r, table, have);
		r->lost++;
	}
	return true;
}

/* An id below the table's count; 0 and bad otherwise. */
static uint32_t get_id(struct reader *r, enum symbols_table t)
{
	uint32_t id = cursor_u32(&r->c);
	if (r->stepping)
		return 0;
	if (id >= symbols_count(r->s, t) && (r->c.bad || !make_up(r, t, id))) {
		r->c.bad = true;
		return 0;
	}
	return id;
}

/* id + 1, 0 = none. */
static uint32_t get_ref(struct reader *r, enum symbols_table t)
{
	uint32_t ref = cursor_u32(&r->c);
	if (r->stepping)
		return 0;
	if (ref > symbols_count(r->s, t) && (r->c.bad || !make_up(r, t, ref - 1))) {
		r->c.bad = true;
		return 0;
	}
	return ref;
}

static void get_mapping(struct reader *r, bool add)
{
	struct sym_mapping m;
	m.start = cursor_varint(&r->c);
	m.size = cursor_varint(&r->c);
	m.offset = cursor_varint(&r->c);
	m.file = get_id(r, SYMBOLS_STRINGS);
	m.build_id = get_id(r, SYMBOLS_STRINGS);
	m.has = cursor_u8(&r->c);
	if (add && !r->c.bad)
		symbols_load_mapping(r->s, &m);
}

static void get_function(struct reader *r, bool add)
{
	struct sym_function f;
	f.name = get_id(r, SYMBOLS_STRINGS);
	f.system_name = get_id(r, SYMBOLS_STRINGS);
	f.filename = get_id(r, SYMBOLS_STRINGS);
	f.start_line = cursor_zigzag(&r->c);
	if (add && !r->c.bad)
		symbols_load_function(r->s, &f);
}

static void get_location(struct reader *r, bool add)
{
	struct sym_location l = { .address = cursor_varint(&r->c), .mapping = get_ref(r, SYMBOLS_MAPPINGS) };
	uint64_t n = cursor_varint(&r->c);
	l.is_folded = n & 1;
	n >>= 1;
	if (n > (uint64_t)(r->c.end - r->c.p)) {
		r->c.bad = true;
		return;
	}
	l.n_lines = (uint32_t)n;
	r->lines.n = 0;
	for (uint32_t i = 0; i < l.n_lines && !r->c.bad; i++) {
		struct sym_line line = { .function = get_ref(r, SYMBOLS_FUNCTIONS) };
		line.line = cursor_zigzag(&r->c);
		line.column = cursor_zigzag(&r->c);
		vec_push(&r->lines, line);
	}
	if (add && !r->c.bad)
		symbols_load_location(r->s, &l, r->lines.v);
}

static void get_node(struct reader *r, uint32_t id, bool add)
{
	uint64_t gap = cursor_varint(&r->c);
	uint32_t location = get_id(r, SYMBOLS_LOCATIONS);
	if (gap >= id)
		r->c.bad = true;
	if (add && !r->c.bad)
		symbols_load_node(r->s, (uint32_t)(id - 1 - gap), location);
}

static void get_stack(struct reader *r, bool add)
{
	uint32_t node = get_id(r, SYMBOLS_NODES);
	if (add && !r->c.bad)
		symbols_load_stack(r->s, node);
}

static void get_label_set(struct reader *r, bool add)
{
	size_t n = cursor_count(&r->c);
	r->labels.n = 0;
	for (size_t i = 0; i < n && !r->c.bad; i++) {
		uint64_t key = cursor_varint(&r->c);
		struct sym_label l = { .key = (uint32_t)(key >> 1), .is_num = key & 1 };
		if (key >> 1 >= symbols_count(r->s, SYMBOLS_STRINGS) &&
		    (r->c.bad || key >> 1 > UINT32_MAX || !make_up(r, SYMBOLS_STRINGS, (uint32_t)(key >> 1))))
			r->c.bad = true;
		if (l.is_num) {
			l.num = cursor_zigzag(&r->c);
			l.unit = get_id(r, SYMBOLS_STRINGS);
		} else {
			l.str = get_id(r, SYMBOLS_STRINGS);
		}
		vec_push(&r->labels, l);
	}
	if (add && !r->c.bad)
		symbols_label_set(r->s, r->labels.v, r->labels.n);
}

static void get_column(struct reader *r, bool add)
{
	uint32_t stack = get_id(r, SYMBOLS_STACKS), set = get_id(r, SYMBOLS_LABEL_SETS);
	if (add && !r->c.bad)
		symbols_load_column(r->s, stack, set);
}

static struct view get_view(struct reader *r)
{
	return symbols_get_string(r->s, get_id(r, SYMBOLS_STRINGS));
}

static void get_series(struct reader *r, bool add)
{
	uint8_t flags = cursor_u8(&r->c);
	struct ptype type = { .delta = flags & 0x80, .kind = flags & 0x7f };
	if (flags) {
		type.name = get_view(r);
		type.sample_type = get_view(r);
		type.sample_unit = get_view(r);
		type.period_type = get_view(r);
		type.period_unit = get_view(r);
	}
	size_t n = cursor_count(&r->c);
	r->series_labels.n = 0;
	for (size_t i = 0; i < n && !r->c.bad; i++) {
		struct view name = get_view(r);
		vec_push(&r->series_labels, (struct label){ name, get_view(r) });
	}
	if (!add || r->c.bad)
		return;
	struct labels l = { r->series_labels.v, r->series_labels.n };
	index_add(r->x, l, labels_hash(l), flags ? &type : NULL);
}

static void get_entry(struct reader *r, enum dict_table t, uint32_t id, bool add)
{
	switch (t) {
	case DICT_STRINGS: {
		size_t n = cursor_count(&r->c);
		struct view v = cursor_bytes(&r->c, n);
		if (add && !r->c.bad)
			symbols_string(r->s, v);
		break;
	}
	case DICT_MAPPINGS: get_mapping(r, add); break;
	case DICT_FUNCTIONS: get_function(r, add); break;
	case DICT_LOCATIONS: get_location(r, add); break;
	case DICT_NODES: get_node(r, id, add); break;
	case DICT_STACKS: get_stack(r, add); break;
	case DICT_LABEL_SETS: get_label_set(r, add); break;
	case DICT_COLUMNS: get_column(r, add); break;
	case DICT_SERIES: get_series(r, add); break;
	default: r->c.bad = true;
	}
}

/* One made-up entry; no other table may grow by it, or its ids would shift. */
static void add_lost(struct reader *r, enum dict_table t, uint32_t id)
{
	if (t == DICT_SERIES) {
		index_add(r->x, (struct labels){ NULL, 0 }, hash_u64(id), NULL);
		return;
	}
	/* Nodes refer to location 0, which is also lost if there is none. */
	if (t == DICT_NODES && !symbols_count(r->s, SYMBOLS_LOCATIONS))
		symbols_add_lost(r->s, SYMBOLS_LOCATIONS);
	symbols_add_lost(r->s, symbols_of[t]);
}

/* More than any records that were lost can have held: the number is damaged, and substitutes would take gigabytes. */
#define LOST_MAX (1u << 24)

/* Ids lost before a section get substitutes. */
static void fill_gap(struct reader *r, enum dict_table t, uint32_t first)
{
	uint32_t known = count_of(t, r->s, r->x);
	r->c.bad |= first > known && first - known > LOST_MAX;
	for (uint32_t have = count_of(t, r->s, r->x); !r->c.bad && have < first; have = count_of(t, r->s, r->x)) {
		add_lost(r, t, have);
		r->lost++;
	}
}

static void get_section(struct reader *r)
{
	enum dict_table t = cursor_u8(&r->c);
	uint32_t first = cursor_u32(&r->c);
	size_t n = cursor_count(&r->c);
	if (r->c.bad || t < DICT_STRINGS || t >= DICT_TABLES || first > UINT32_MAX - n) {
		r->c.bad = true;
		return;
	}
	r->stepping = r->series_only && t != DICT_STRINGS && t != DICT_SERIES;
	for (size_t i = 0; r->stepping && i < n && !r->c.bad; i++)
		get_entry(r, t, first + (uint32_t)i, false);
	if (r->stepping)
		return;
	if (r->first) {
		r->first->next[t] = MIN(r->first->next[t], first);
		r->c.bad |= first + n > count_of(t, r->s, r->x); /* it would be added */
	}
	fill_gap(r, t, first);
	for (size_t i = 0; i < n && !r->c.bad; i++) {
		uint32_t id = first + (uint32_t)i, have = count_of(t, r->s, r->x);
		get_entry(r, t, id, id >= have);
		if (!r->c.bad && id >= have && count_of(t, r->s, r->x) != id + 1)
			r->c.bad = true; /* the same entry twice: ids would shift */
	}
}

/* ---- columns: nearly all that there is are nodes, stacks and columns, which go from their streams into the tables ---- */

#define RUN 512 /* entries that are read together */

static void load_node(struct reader *r, uint32_t id, uint64_t gap, uint64_t location)
{
	if (gap >= id || location >= symbols_count(r->s, SYMBOLS_LOCATIONS))
		r->c.bad = true;
	else
		symbols_load_node(r->s, (uint32_t)(id - 1 - gap), (uint32_t)location);
}

static void load_run(struct reader *r, enum dict_table t, uint32_t id, const uint64_t *a, const uint64_t *b, size_t n)
{
	uint32_t have = symbols_count(r->s, symbols_of[t]);
	size_t i = id < have ? MIN(have - id, n) : 0; /* those are there already */
	switch (t) {
	case DICT_NODES:
		for (; i < n && !r->c.bad; i++)
			load_node(r, id + (uint32_t)i, a[i], b[i]);
		break;
	case DICT_STACKS:
		for (; i < n && !(r->c.bad |= a[i] >= symbols_count(r->s, SYMBOLS_NODES)); i++)
			symbols_load_stack(r->s, (uint32_t)a[i]);
		break;
	default:
		for (; i < n && !(r->c.bad |= a[i] >= symbols_count(r->s, SYMBOLS_STACKS) ||
					      b[i] >= symbols_count(r->s, SYMBOLS_LABEL_SETS)); i++)
			symbols_load_column(r->s, (uint32_t)a[i], (uint32_t)b[i]);
	}
}

static void load_section(struct reader *r, const struct dict_section *x)
{
	struct dict_field f[2];
	uint64_t v[2][RUN];
	unsigned fields = x->table == DICT_STACKS ? 1 : 2;
	if (x->n > x->streams[0].len || x->first > UINT32_MAX - x->n) {
		r->c.bad = true;
		return;
	}
	fill_gap(r, x->table, (uint32_t)x->first);
	for (unsigned k = 0; k < fields; k++)
		dict_field_init(&f[k], x, k);
	for (uint64_t i = 0; i < x->n && !r->c.bad; i += RUN) {
		size_t n = (size_t)MIN(x->n - i, (uint64_t)RUN);
		for (unsigned k = 0; k < fields; k++)
			r->c.bad |= !dict_field_get(&f[k], v[k], n);
		if (!r->c.bad)
			load_run(r, x->table, (uint32_t)(x->first + i), v[0], v[1], n);
	}
	for (unsigned k = 0; k < fields; k++)
		r->c.bad |= f[k].in.p != f[k].in.end;
}

static void get_packed(struct reader *r, const struct dict_section *x)
{
	enum dict_table t = x->table;
	bool large = t == DICT_NODES || t == DICT_STACKS || t == DICT_COLUMNS;
	if (r->series_only && t != DICT_STRINGS && t != DICT_SERIES)
		return;
	if (large && !r->lossy) {
		load_section(r, x);
		return;
	}
	CLEANUP(buf_free) struct buf rows = { 0 };
	if (dict_unpack(&rows, x->bytes, NULL)) {
		r->c.bad = true;
		return;
	}
	r->c = cursor_of(buf_view(&rows));
	get_section(r);
	r->c = (struct cursor){ .bad = r->c.bad || r->c.p != r->c.end };
}

static void reader_release(struct reader *r)
{
	vec_free(&r->lines);
	vec_free(&r->labels);
	vec_free(&r->series_labels);
}

int dict_apply_packed(struct view packed, enum dict_how how, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e)
{
	struct reader r = { .s = s, .x = x, .series_only = how == DICT_SERIES_ONLY, .lossy = how != DICT_WHOLE };
	struct cursor c = cursor_of(packed);
	struct dict_section section;
	while (!r.c.bad && dict_next_section(&c, &section))
		get_packed(&r, &section);
	reader_release(&r);
	if (ret_lost)
		*ret_lost += r.lost;
	return r.c.bad || c.bad ? err_set(e, ERR_CORRUPT, "symbols are malformed before byte %zu of %zu",
					  (size_t)(c.p - (const uint8_t *)packed.ptr), packed.len) : 0;
}

static bool has_section(struct view packed, enum dict_table t, uint64_t first, uint64_t end)
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
	while (dict_next_section(&c, &x))
		if (x.n > UINT32_MAX || x.first > have->next[x.table] || (x.first + x.n > have->next[x.table] &&
						      !has_section(next, x.table, have->next[x.table], x.first + x.n)))
			return false;
	return !c.bad;
}

static int apply(struct view payload, struct symbols *s, struct index *x, bool series_only, bool lossy, uint64_t *ret_lost,
		 struct err *e)
{
	struct reader r = { .c = cursor_of(payload), .s = s, .x = x, .series_only = series_only, .lossy = lossy };
	while (!r.c.bad && r.c.p < r.c.end)
		get_section(&r);
	reader_release(&r);
	if (ret_lost)
		*ret_lost += r.lost;
	return r.c.bad ? err_set(e, ERR_CORRUPT, "symbols are malformed at byte %zu of %zu",
				 (size_t)(r.c.p - (const uint8_t *)payload.ptr), payload.len) : 0;
}

int dict_apply(struct view payload, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e)
{
	return apply(payload, s, x, false, false, ret_lost, e);
}

int dict_apply_lossy(struct view payload, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e)
{
	return apply(payload, s, x, false, true, ret_lost, e);
}

void dict_fill_up(const struct dict_marks *to, struct symbols *s, struct index *x, bool series_only, uint64_t *ret_lost)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	for (int t = DICT_STRINGS; t < DICT_TABLES; t++) {
		buf_putc(&b, (char)t);
		buf_varint(&b, to->next[t]);
		buf_varint(&b, 0);
	}
	apply(buf_view(&b), s, x, series_only, false, ret_lost, NULL);
}

int dict_apply_series(struct view payload, struct symbols *s, struct index *x, uint64_t *ret_lost, struct err *e)
{
	return apply(payload, s, x, true, true, ret_lost, e);
}

int dict_first(struct view payload, struct symbols *s, struct index *x, struct dict_marks *ret, struct err *e)
{
	struct reader r = { .c = cursor_of(payload), .s = s, .x = x, .first = ret };
	struct dict_marks start;
	memset(ret, 0xff, sizeof *ret);
	while (!r.c.bad && r.c.p < r.c.end)
		get_section(&r);
	dict_marks_start(&start);
	for (int t = 0; t < DICT_TABLES; t++)
		if (ret->next[t] == UINT32_MAX)
			ret->next[t] = start.next[t];
	reader_release(&r);
	return r.c.bad ? err_set(e, ERR_CORRUPT, "symbols of a sealed part are not those of its partition") : 0;
}
