/* SPDX-License-Identifier: Apache-2.0 */
#include "model/symbols_rows.h"

#define AT_ONCE 1024 /* entries under a lock: less than a millisecond */
#define MAX_MADE_UP ((uint64_t)1 << 24) /* limit of entries in one payload */
/* More than any records that were lost can have held: the number is damaged, and substitutes would take gigabytes. */
#define LOST_MAX (1u << 24)
#define PAY_EVERY 256 /* the limit is checked each time so many entries were added */

static const enum symbols_table rows_symbols[ROWS_TABLES] = {
	[ROWS_STRINGS] = SYMBOLS_STRINGS, [ROWS_MAPPINGS] = SYMBOLS_MAPPINGS, [ROWS_FUNCTIONS] = SYMBOLS_FUNCTIONS,
	[ROWS_LOCATIONS] = SYMBOLS_LOCATIONS, [ROWS_NODES] = SYMBOLS_NODES, [ROWS_STACKS] = SYMBOLS_STACKS, [ROWS_LABEL_SETS] = SYMBOLS_LABEL_SETS,
	[ROWS_COLUMNS] = SYMBOLS_COLUMNS,
};

uint32_t symbols_rows_count(const struct symbols *s, unsigned table)
{
	return symbols_count(s, rows_symbols[table]);
}

void symbols_marks_start(struct symbols_marks *m)
{
	*m = (struct symbols_marks){ 0 };
	m->next[ROWS_STRINGS] = m->next[ROWS_NODES] = m->next[ROWS_STACKS] = m->next[ROWS_LABEL_SETS] = m->next[ROWS_COLUMNS] = 1;
}

void symbols_marks_now(struct symbols_marks *m, const struct symbols *s)
{
	m->next[0] = 0;
	for (unsigned t = ROWS_STRINGS; t < ROWS_TABLES; t++)
		m->next[t] = symbols_rows_count(s, t);
}

bool symbols_marks_eq(const struct symbols_marks *a, const struct symbols_marks *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

bool symbols_marks_within(const struct symbols_marks *a, const struct symbols_marks *b)
{
	bool within = true;
	for (unsigned t = ROWS_STRINGS; t < ROWS_TABLES; t++)
		within &= a->next[t] <= b->next[t];
	return within;
}

/* ---- writing ---- */

static void rows_put_string(struct buf *b, const struct symbols *s, uint32_t id)
{
	struct view v = symbols_get_string(s, id);
	buf_varint(b, v.len);
	buf_putv(b, v);
}

static void rows_put_mapping(struct buf *b, const struct symbols *s, uint32_t id)
{
	const struct sym_mapping *m = symbols_get_mapping(s, id);
	buf_varint(b, m->start);
	buf_varint(b, m->size);
	buf_varint(b, m->offset);
	buf_varint(b, m->file);
	buf_varint(b, m->build_id);
	buf_putc(b, (char)m->has);
}

static void rows_put_function(struct buf *b, const struct symbols *s, uint32_t id)
{
	const struct sym_function *f = symbols_get_function(s, id);
	buf_varint(b, f->name);
	buf_varint(b, f->system_name);
	buf_varint(b, f->filename);
	buf_zigzag(b, f->start_line);
}

static void rows_put_location(struct buf *b, const struct symbols *s, uint32_t id)
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
static void rows_put_node(struct buf *b, const struct symbols *s, uint32_t id)
{
	const struct sym_node *n = symbols_get_node(s, id);
	buf_varint(b, id - 1 - n->parent);
	buf_varint(b, n->location);
}

static void rows_put_label_set(struct buf *b, const struct symbols *s, uint32_t id)
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

static void rows_put_column(struct buf *b, const struct symbols *s, uint32_t id)
{
	const struct sym_column *c = symbols_get_column(s, id);
	buf_varint(b, c->stack);
	buf_varint(b, c->label_set);
}

static void rows_put_entry(struct buf *b, unsigned table, const struct symbols *s, uint32_t id)
{
	switch (table) {
	case ROWS_STRINGS: rows_put_string(b, s, id); break;
	case ROWS_MAPPINGS: rows_put_mapping(b, s, id); break;
	case ROWS_FUNCTIONS: rows_put_function(b, s, id); break;
	case ROWS_LOCATIONS: rows_put_location(b, s, id); break;
	case ROWS_NODES: rows_put_node(b, s, id); break;
	case ROWS_STACKS: buf_varint(b, symbols_stack_node(s, id)); break;
	case ROWS_LABEL_SETS: rows_put_label_set(b, s, id); break;
	case ROWS_COLUMNS: rows_put_column(b, s, id); break;
	default: break;
	}
}

void symbols_rows_put_head(struct buf *b, const struct symbols_section *x)
{
	buf_putc(b, (char)x->table);
	buf_varint(b, x->first);
	buf_varint(b, x->n);
}

void symbols_rows_encode(struct buf *b, const struct symbols *s, const struct symbols_marks *from, const struct symbols_marks *to,
			 struct rwlock *lock) LOCKS_UNCHECKED /* lock may be NULL */
{
	uint32_t done = 0;
	for (uint8_t t = ROWS_STRINGS; t < ROWS_TABLES; t++) {
		if (from->next[t] >= to->next[t])
			continue;
		symbols_rows_put_head(b, &(struct symbols_section){ t, from->next[t], to->next[t] - from->next[t] });
		for (uint32_t id = from->next[t]; id < to->next[t] && !b->overflow; id++) {
			rows_put_entry(b, t, s, id);
			if (lock && ++done % AT_ONCE == 0)
				rwlock_let_in(lock);
		}
	}
}

/* ---- reading ---- */

/* One made-up entry; no other table may grow by it, or its ids would shift. */
static void rows_add_lost(struct symbols_reader *r, unsigned table)
{
	/* Nodes refer to location 0, which is also lost if there is none. */
	if (table == ROWS_NODES && !symbols_count(r->symbols, SYMBOLS_LOCATIONS))
		symbols_add_lost(r->symbols, SYMBOLS_LOCATIONS);
	symbols_add_lost(r->symbols, rows_symbols[table]);
	r->lost++;
}

/* An id that is not there because its record was lost: all up to it are made up. */
static bool rows_make_up(struct symbols_reader *r, unsigned table, uint32_t id)
{
	uint32_t have = symbols_rows_count(r->symbols, table);
	if (r->how != ROWS_LOSSY || id - have >= MAX_MADE_UP - r->lost)
		return false;
	for (; have <= id; have = symbols_rows_count(r->symbols, table))
		rows_add_lost(r, table);
	return true;
}

/* An id below the table's count; 0 and bad otherwise. */
static uint32_t rows_check_id(struct symbols_reader *r, unsigned table, uint64_t id)
{
	if (r->stepping)
		return 0;
	if (id >= symbols_rows_count(r->symbols, table) && (r->c.bad || id >= UINT32_MAX || !rows_make_up(r, table, (uint32_t)id))) {
		r->c.bad = true;
		return 0;
	}
	return (uint32_t)id;
}

static uint32_t rows_get_id(struct symbols_reader *r, unsigned table)
{
	return rows_check_id(r, table, cursor_varint(&r->c));
}

/* id + 1, 0 = none. */
static uint32_t rows_get_ref(struct symbols_reader *r, unsigned table)
{
	uint64_t ref = cursor_varint(&r->c);
	if (!ref || r->stepping)
		return 0;
	uint32_t id = rows_check_id(r, table, ref - 1);
	return r->c.bad ? 0 : id + 1;
}

static void rows_get_mapping(struct symbols_reader *r, bool add)
{
	struct sym_mapping m;
	m.start = cursor_varint(&r->c);
	m.size = cursor_varint(&r->c);
	m.offset = cursor_varint(&r->c);
	m.file = rows_get_id(r, ROWS_STRINGS);
	m.build_id = rows_get_id(r, ROWS_STRINGS);
	m.has = cursor_u8(&r->c);
	if (add && !r->c.bad)
		symbols_load_mapping(r->symbols, &m);
}

static void rows_get_function(struct symbols_reader *r, bool add)
{
	struct sym_function f;
	f.name = rows_get_id(r, ROWS_STRINGS);
	f.system_name = rows_get_id(r, ROWS_STRINGS);
	f.filename = rows_get_id(r, ROWS_STRINGS);
	f.start_line = cursor_zigzag(&r->c);
	if (add && !r->c.bad)
		symbols_load_function(r->symbols, &f);
}

static void rows_get_location(struct symbols_reader *r, bool add)
{
	struct sym_location l = { .address = cursor_varint(&r->c), .mapping = rows_get_ref(r, ROWS_MAPPINGS) };
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
		struct sym_line line = { .function = rows_get_ref(r, ROWS_FUNCTIONS) };
		line.line = cursor_zigzag(&r->c);
		line.column = cursor_zigzag(&r->c);
		vec_push(&r->lines, line);
	}
	if (add && !r->c.bad)
		symbols_load_location(r->symbols, &l, r->lines.v);
}

static void rows_get_node(struct symbols_reader *r, uint32_t id, bool add)
{
	uint64_t gap = cursor_varint(&r->c);
	uint32_t location = rows_get_id(r, ROWS_LOCATIONS);
	if (gap >= id)
		r->c.bad = true;
	if (add && !r->c.bad)
		symbols_load_node(r->symbols, (uint32_t)(id - 1 - gap), location);
}

/* Takes a stack's frames out of the limit. So this walk ends, too, however deep a stranger's nodes are nested. */
static void rows_pay_frames(struct symbols_reader *r, uint32_t node)
{
	size_t left = r->left->frames;
	for (; node && left; node = symbols_get_node(r->symbols, node)->parent)
		left--;
	r->left->frames = left;
	r->is_full |= node != 0;
	r->c.bad |= node != 0;
}

static void rows_get_stack(struct symbols_reader *r, bool add)
{
	uint32_t node = rows_get_id(r, ROWS_NODES);
	if (add && r->left && !r->c.bad)
		rows_pay_frames(r, node);
	if (add && !r->c.bad)
		symbols_load_stack(r->symbols, node);
}

static void rows_get_label_set(struct symbols_reader *r, bool add)
{
	size_t n = cursor_count(&r->c);
	r->labels.n = 0;
	for (size_t i = 0; i < n && !r->c.bad; i++) {
		uint64_t key = cursor_varint(&r->c);
		struct sym_label l = { .key = rows_check_id(r, ROWS_STRINGS, key >> 1), .is_num = key & 1 };
		if (l.is_num) {
			l.num = cursor_zigzag(&r->c);
			l.unit = rows_get_id(r, ROWS_STRINGS);
		} else {
			l.str = rows_get_id(r, ROWS_STRINGS);
		}
		vec_push(&r->labels, l);
	}
	if (add && !r->c.bad)
		symbols_label_set(r->symbols, r->labels.v, r->labels.n);
}

static void rows_get_column(struct symbols_reader *r, bool add)
{
	uint32_t stack = rows_get_id(r, ROWS_STACKS), set = rows_get_id(r, ROWS_LABEL_SETS);
	if (add && !r->c.bad)
		symbols_load_column(r->symbols, stack, set);
}

static void rows_get_string(struct symbols_reader *r, bool add)
{
	size_t n = cursor_count(&r->c);
	struct view v = cursor_bytes(&r->c, n);
	if (add && !r->c.bad)
		symbols_string(r->symbols, v);
}

static void rows_get_entry(struct symbols_reader *r, unsigned table, uint32_t id, bool add)
{
	switch (table) {
	case ROWS_STRINGS: rows_get_string(r, add); break;
	case ROWS_MAPPINGS: rows_get_mapping(r, add); break;
	case ROWS_FUNCTIONS: rows_get_function(r, add); break;
	case ROWS_LOCATIONS: rows_get_location(r, add); break;
	case ROWS_NODES: rows_get_node(r, id, add); break;
	case ROWS_STACKS: rows_get_stack(r, add); break;
	case ROWS_LABEL_SETS: rows_get_label_set(r, add); break;
	case ROWS_COLUMNS: rows_get_column(r, add); break;
	default: r->c.bad = true;
	}
}

struct view symbols_rows_string(struct symbols_reader *r)
{
	return symbols_get_string(r->symbols, rows_get_id(r, ROWS_STRINGS));
}

bool symbols_rows_head(struct cursor *c, struct symbols_section *ret)
{
	uint8_t table = cursor_u8(c);
	uint32_t first = cursor_u32(c);
	size_t n = cursor_count(c);
	c->bad |= table < ROWS_STRINGS || n > UINT32_MAX - first;
	*ret = (struct symbols_section){ table, first, c->bad ? 0 : (uint32_t)n };
	return !c->bad;
}

void symbols_rows_fill(struct symbols_reader *r, unsigned table, uint32_t first)
{
	uint32_t known = symbols_rows_count(r->symbols, table);
	if (first > known && (r->how == ROWS_WHOLE || first - known > LOST_MAX))
		r->c.bad = r->has_gap = true;
	while (!r->c.bad && symbols_rows_count(r->symbols, table) < first)
		rows_add_lost(r, table);
}

/* Takes what was added since out of the limit. */
static void rows_pay(struct symbols_reader *r)
{
	size_t bytes = symbols_bytes(r->symbols), more = bytes - MIN(bytes, r->paid);
	r->paid = bytes;
	if (more > r->left->bytes)
		r->c.bad = r->is_full = true;
	r->left->bytes -= MIN(more, r->left->bytes);
}

/* Whether so many entries may be added. */
static bool rows_begin(struct symbols_reader *r, uint32_t n)
{
	if (n > r->left->entries) {
		r->c.bad = r->is_full = true;
		return false;
	}
	r->left->entries -= n;
	r->paid = symbols_bytes(r->symbols);
	return true;
}

void symbols_rows_section(struct symbols_reader *r, const struct symbols_section *x)
{
	if (!r->stepping)
		symbols_rows_fill(r, x->table, x->first);
	uint32_t have = symbols_rows_count(r->symbols, x->table), end = x->first + x->n;
	if (r->c.bad || (r->left && !rows_begin(r, end > have ? end - have : 0)))
		return;
	for (uint32_t id = x->first; id < end && !r->c.bad; id++) {
		bool add = !r->stepping && id >= symbols_rows_count(r->symbols, x->table);
		rows_get_entry(r, x->table, id, add);
		if (add && !r->c.bad && symbols_rows_count(r->symbols, x->table) != id + 1)
			r->c.bad = true; /* the same entry twice: ids would shift */
		if (r->left && (id - x->first) % PAY_EVERY == PAY_EVERY - 1)
			rows_pay(r);
	}
	if (r->left)
		rows_pay(r);
}

void symbols_reader_release(struct symbols_reader *r)
{
	vec_free(&r->lines);
	vec_free(&r->labels);
}

int symbols_rows_apply(struct view rows, struct symbols *s, struct symbols_rows_limit *left, struct err *e)
{
	struct symbols_reader r = { .c = cursor_of(rows), .symbols = s, .left = left };
	struct symbols_section x = { 0 };
	while (!r.c.bad && r.c.p < r.c.end)
		if (symbols_rows_head(&r.c, &x)) {
			r.c.bad |= x.table >= ROWS_TABLES;
			if (!r.c.bad)
				symbols_rows_section(&r, &x);
		}
	symbols_reader_release(&r);
	if (r.is_full)
		return err_set(e, ERR_LIMIT, "rows of symbols pass their limit of entries or memory");
	if (r.has_gap)
		return err_set(e, ERR_CORRUPT, "rows of symbols begin at entry %u of table %u, which has %u", x.first, x.table,
			       symbols_rows_count(s, x.table));
	return r.c.bad ? err_set(e, ERR_CORRUPT, "rows of symbols are malformed at byte %zu of %zu",
				 (size_t)(r.c.p - (const uint8_t *)rows.ptr), rows.len) : 0;
}
