/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/go/go_frame.h"

#include "unwind/rule_rows.h"

#define DEPTH_MAX (1 << 30)
#define TABLE_BYTES_MAX ((uint64_t)4 << 20)
#define PADDING_MAX 64               /* between functions: it keeps the rule before it */
#define FUNCTION_WORK 4096           /* to look at one, as bytes read */
#define BYTE_WORK 8

struct walk {
	const struct gopclntab *t;
	struct eh_stats *st;
	struct rule_rows rows;
};

/* This many bytes are on the stack above the return address. The first of them, if any, is the caller's frame pointer. */
static struct unwind_rule rule_of(int32_t depth)
{
	if (depth < 0 || depth > DEPTH_MAX)
		return (struct unwind_rule){ .cfa = CFA_NONE };
	return (struct unwind_rule){ .cfa = CFA_SP, .cfa_off = depth + 8, .fp = depth ? FP_AT_CFA : FP_SAME, .fp_off = depth ? -16 : 0 };
}

/* A table of value by pc: pairs of deltas, each in 7 bits a byte, of the value (zigzag, from -1) and of the pc. */
struct pairs {
	const struct gopclntab *t;
	uint64_t at, end;
	size_t have, i;
	uint8_t bytes[128];
};

static bool next_number(struct pairs *p, uint32_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; shift < 35; shift += 7) {
		if (p->i == p->have) {
			p->have = (size_t)MIN((uint64_t)sizeof p->bytes, p->end - p->at);
			p->i = 0;
			if (!p->have || !gopclntab_read(p->t, p->at, p->bytes, p->have))
				return false;
			p->at += p->have;
		}
		uint8_t b = p->bytes[p->i++];
		*ret |= (uint32_t)(b & 127) << shift;
		if (!(b & 128))
			return true;
	}
	return false;
}

static int walk_depths(struct walk *w, const struct gopclntab_func *f, uint64_t hi)
{
	uint64_t size = w->t->table.sh_size, at = w->t->pcs + f->depths, pc = f->start;
	struct pairs p = { .t = w->t, .at = MIN(at, size), .end = MIN(size, at + TABLE_BYTES_MAX) };
	uint32_t by, bytes, depth = UINT32_MAX;

	while (pc < f->end && pc < hi) {
		w->st->work += 2 * BYTE_WORK;
		if (!next_number(&p, &by) || !next_number(&p, &bytes) || !bytes || (!by && pc > f->start))
			return f->end - pc > PADDING_MAX ? rule_rows_put(&w->rows, pc, rule_of(-1)) : 0; /* the table ends before the function does */
		depth += by & 1 ? ~(by >> 1) : by >> 1;
		int ret = rule_rows_put(&w->rows, pc, rule_of((int32_t)depth));
		if (ret)
			return ret;
		pc += (uint64_t)bytes * w->t->quantum;
	}
	return 0;
}

static int walk_func(struct walk *w, const struct gopclntab_func *f, uint64_t hi)
{
	/* For Go's own tracebacks the kernel's call of a signal handler is outermost; here the interrupted frame is below it. */
	if (f->outermost && !gopclntab_is_called(w->t, f, "runtime.sigtramp"))
		return rule_rows_put(&w->rows, f->start, (struct unwind_rule){ .cfa = CFA_STOP });
	if (f->changes_stacks)
		return rule_rows_put(&w->rows, f->start, rule_of(-1));
	if (gopclntab_is_signal_return(w->t, f))
		return rule_rows_put(&w->rows, f->start - 1, (struct unwind_rule){ .cfa = CFA_SIGNAL });
	return walk_depths(w, f, hi);
}

bool go_frame_text(const struct gopclntab *t, uint64_t *ret_start, uint64_t *ret_end)
{
	struct gopclntab_func last;

	if (!t->text_known || !t->n_funcs || !gopclntab_func(t, t->n_funcs - 1, &last))
		return false;
	*ret_start = t->text_start;
	*ret_end = last.end;
	return true;
}

int go_frame_range(const struct gopclntab *t, uint64_t lo, uint64_t hi, eh_row_fn *fn, void *arg, struct eh_stats *st)
{
	struct walk w = { .t = t, .st = st, .rows = { .fn = fn, .arg = arg, .st = st } };
	uint64_t i = 0, end = t->text_start;
	struct gopclntab_func f;
	int ret = 0;

	gopclntab_find(t, lo, &i);
	for (; i < t->n_funcs && !ret; i++) {
		if (!gopclntab_func(t, i, &f) || f.end <= f.start) {
			st->bad++;
			break;
		}
		if (f.start >= hi)
			return rule_rows_end(&w.rows);
		st->fdes++;
		st->work += FUNCTION_WORK;
		if (st->work > eh_frame_work_max(hi - lo))
			return -ERR_BAD_DATA;
		ret = walk_func(&w, &f, hi);
		end = f.end;
	}
	if (!ret)
		ret = rule_rows_put(&w.rows, end, rule_of(-1));
	return ret ? ret : rule_rows_end(&w.rows);
}
