/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors over stacks, as servers send them to each other. A server's columns mean nothing to the asker, and names would make answers large. So
 * the two share a dictionary, which grows from answer to answer:
 *
 *	server                                                                   asker
 *	vector ─ symbols_map of its dictionary ─► fleet_dictionary_out ─ rows ─► fleet_dictionary_in: the mirror
 *	                                             └─ columns and values ───────────► vector over the mirror
 *
 * The dictionary's id is the session's: whoever has the session decides about it, and a dictionary that is given up is followed by another id. A question
 * says which dictionary the asker has, and how far (struct symbols_marks). Its answer has what follows from there:
 *
 *	length of the rows varint | rows (model/symbols_rows.h) | vectors, as many as were asked for, each:
 *	kind u8 (0 integers, 1 doubles) | n varint | integers: factor varint | n columns | n values
 *
 *	columns  ascending, as varints: the distance to the one before, less one (the first as itself)
 *	values   integers: zigzags, times the factor; doubles: 8 bytes, little-endian
 *
 * The factor is the greatest common divisor of a vector's integers: those of CPU time are multiples of a sampling period.
 *
 * Answers may overtake each other. Rows of an id never change, so that those which are there already are skipped. Bytes for the asker may be a stranger's:
 * see fleet_dictionary_take. Pure: no I/O. Any thread. */
#ifndef PYRRHA_FLEET_DICTIONARY_H
#define PYRRHA_FLEET_DICTIONARY_H

#include "base/buf.h"
#include "base/cursor.h"
#include "model/stackvec.h"
#include "model/symbols_rows.h"

/* ---- the server's side ---- */

struct fleet_dictionary_out;

struct fleet_dictionary_out *fleet_dictionary_out_new(void);
/* NULL is allowed. */
void fleet_dictionary_out_free(struct fleet_dictionary_out *d);
/* Bytes of memory held as of the last change; without the dictionaries of the vectors, to which it has references for a while
 * (fleet_dictionary_out_drop_idle). */
size_t fleet_dictionary_out_bytes(const struct fleet_dictionary_out *d);
/* Gives up what it has about dictionaries of vectors that were not translated since before_ms (clock_mono_ms), and its references to them. */
void fleet_dictionary_out_drop_idle(struct fleet_dictionary_out *d, int64_t before_ms);
/* Appends n vectors, and before them the rows that an asker with these marks lacks. Vectors may be over any dictionaries, which may grow meanwhile. Columns
 * that become one are added up: ERR_EXECUTION if their sum does not fit. ERR_LIMIT: out is full. After an error out is as before, but for its overflow. */
int fleet_dictionary_put(struct fleet_dictionary_out *d, struct buf *out, const struct stackvec *const *v, size_t n, enum symbols_detail detail,
			 const struct symbols_marks *asker_has, struct err *e) MUST_USE;

/* ---- the asker's side ---- */

struct fleet_dictionary_in;

/* max_bytes: of memory, for all that it holds. */
struct fleet_dictionary_in *fleet_dictionary_in_new(size_t max_bytes);
/* NULL is allowed. */
void fleet_dictionary_in_free(struct fleet_dictionary_in *d);
/* Bytes of memory held as of the last change. */
size_t fleet_dictionary_in_bytes(const struct fleet_dictionary_in *d);
/* What the next question says: the mirror's id, and how far it goes. False, id 0 and the marks of an empty dictionary: there is none yet, or it has
 * become so large that another one should be begun. */
bool fleet_dictionary_in_marks(struct fleet_dictionary_in *d, uint64_t *ret_id, struct symbols_marks *ret);
/* Reads n vectors into ret, at in->p, and moves it behind them. An id that is not the mirror's begins a fresh mirror, if its rows begin
 * at the start; the one before is kept for a while, for
 * answers that were overtaken. The vectors share the mirror's symbols, of which they hold a reference; the symbols go on growing, and may only be
 * read. Returns owned.
 *
 * ERR_CORRUPT: rows or vectors are malformed, refer to what is not there, or begin beyond what the mirror has: the answer builds on a dictionary that was
 * forgotten. ERR_LIMIT: the mirror would have more than max_bytes. After an error that mirror is forgotten, so that the next question begins anew, and
 * ret is NULLs. Memory is bounded by max_bytes, and for the vectors by *left bytes, which become less by what they take, UINT64_MAX but stays; beyond them
 * ERR_LIMIT. left NULL: by what is left in `in`, of which a byte makes at most twenty. */
int fleet_dictionary_take_within(struct fleet_dictionary_in *d, uint64_t id_of_answer, struct cursor *in, uint64_t *left, struct stackvec **ret, size_t n,
				 struct err *e) MUST_USE;
MUST_USE static inline int fleet_dictionary_take(struct fleet_dictionary_in *d, uint64_t id_of_answer, struct cursor *in, struct stackvec **ret, size_t n, struct err *e)
{
	return fleet_dictionary_take_within(d, id_of_answer, in, NULL, ret, n, e);
}

#endif
