/* SPDX-License-Identifier: Apache-2.0 */
/* What questions and answers consist of (wire.h): numbers, texts, stamps, doubles, lists of integers; docs/format/source.md draws them. What is
 * put can be got again bit by bit. Readers get any bytes: a number that is not there is 0, a list is never longer than the bytes that are left
 * allow, and in->c.bad says so at the end. */
#ifndef PYRRHA_FLEET_WIRE_VALUES_H
#define PYRRHA_FLEET_WIRE_VALUES_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"
#include "model/source.h"

#define WIRE_HASH 8 /* bytes at the end of each message */
/* Stamps and lengths of time are at most this far from 0 (ms), so that a sum of two does not overflow. As in promql-like/eval/eval.c. */
#define WIRE_FAR (INT64_MAX / 2)
static inline bool wire_near(int64_t ms)
{
	return ms >= -WIRE_FAR && ms <= WIRE_FAR;
}

/* ---- writing ---- */

/* Collects small numbers before they go to a buffer: a call for each of them would cost more than writing it. */
struct wire_out {
	struct buf *to;              /* borrowed */
	unsigned n;
	uint8_t v[1024];
};
#define WIRE_ELEMENT_MAX 128 /* bytes that may be put after wire_room before it is called again; texts call it themselves */

void wire_flush(struct wire_out *o);
static inline void wire_room(struct wire_out *o)
{
	if (UNLIKELY(o->n > sizeof o->v - WIRE_ELEMENT_MAX))
		wire_flush(o);
}
static inline void wire_put_byte(struct wire_out *o, uint8_t v)
{
	o->v[o->n++] = v;
}
static inline void wire_put(struct wire_out *o, uint64_t v)
{
	o->n += varint_put(o->v + o->n, v);
}
static inline void wire_put_signed(struct wire_out *o, int64_t v)
{
	wire_put(o, zigzag_encode(v));
}
/* The difference of two numbers, which may wrap. */
static inline void wire_put_diff(struct wire_out *o, int64_t v, int64_t before)
{
	wire_put_signed(o, (int64_t)((uint64_t)v - (uint64_t)before));
}
/* Eight bytes, little-endian. */
void wire_put_fixed(struct wire_out *o, uint64_t v);
/* Length and bytes. */
void wire_put_text(struct wire_out *o, struct view v);
/* The hash of what is in the buffer from `from` on. Flushes. */
void wire_put_hash(struct wire_out *o, size_t from);

/* ---- reading ---- */

struct wire_in {
	struct cursor c;
	const uint8_t *begin;
	struct arena *arena;         /* what is read is in it, as far as it is not malloc'd; borrowed */
	const char *what;            /* a literal: the section that is being read */
	size_t at;                   /* its offset */
	const char *why;             /* once c.bad: a literal, or NULL: too short */
	bool full;                   /* the arena's cap, or `left`, was reached */
	uint64_t left;               /* bytes that may still be allocated outside of the arena; wire_open: any number */
	uint64_t samples_left;       /* profiles, points and samples that may still come; wire_open: any number */
	const struct source_limits *lim; /* looked at while much is read; NULL: none */
	struct err stopped;          /* what ended the reading */
};

/* Checks magic, version and hash. ERR_CORRUPT with *ret_version 0 if it is no such message at all. `in` then reads what follows the version. */
int wire_open(struct wire_in *in, struct view body, const char magic[4], uint64_t *ret_version, struct err *e) MUST_USE;
/* 0, or `code` and what was malformed and where; ERR_LIMIT if the arena is full. name: "question". Everything must have been read. */
int wire_close(struct wire_in *in, const char *name, enum err_code code, struct err *e) MUST_USE;

/* Names the section that follows, a literal. */
static inline void wire_section(struct wire_in *in, const char *what)
{
	if (!in->c.bad) {
		in->what = what;
		in->at = (size_t)(in->c.p - in->begin);
	}
}
/* Makes it bad unless ok; why: a literal. */
void wire_refuse(struct wire_in *in, const char *why);
static inline bool wire_require(struct wire_in *in, bool ok, const char *why)
{
	if (UNLIKELY(!ok))
		wire_refuse(in, why);
	return ok;
}
static inline uint8_t wire_get_byte(struct wire_in *in)
{
	return cursor_u8(&in->c);
}
static inline uint64_t wire_get(struct wire_in *in)
{
	return cursor_varint_quick(&in->c);
}
static inline int64_t wire_get_signed(struct wire_in *in)
{
	return zigzag_decode(wire_get(in));
}
static inline int64_t wire_get_diff(struct wire_in *in, int64_t before)
{
	return (int64_t)((uint64_t)wire_get_signed(in) + (uint64_t)before);
}
/* A stamp or a length of time, not farther than WIRE_FAR. */
int64_t wire_get_ms(struct wire_in *in);
uint64_t wire_get_fixed(struct wire_in *in);
/* Borrowed from the message. At most max bytes. */
struct view wire_get_text(struct wire_in *in, size_t max);
/* A number of elements of at least `least` bytes each. */
size_t wire_get_count(struct wire_in *in, size_t least);
/* n zeroed items; NULL if the arena is full, or n is 0. */
void *wire_alloc(struct wire_in *in, size_t n, size_t size);
/* Room for n items outside of the arena, zeroed: the caller's, as xcalloc's. NULL if that is more than the message may take. */
void *wire_heap(struct wire_in *in, size_t n, size_t size);
/* n profiles, points or samples follow: false if that is more than the question allows. */
bool wire_samples(struct wire_in *in, size_t n);
/* Before the i-th element of a long list: looks now and then whether the question goes on. */
void wire_go_on(struct wire_in *in, size_t i);

/* ---- stamps: each list begins near where the last one began, and goes on in its last step ---- */

struct wire_stamps {
	int64_t first, last, step;
	bool begun;
};
static inline void wire_stamps_begin(struct wire_stamps *s)
{
	s->begun = false;
}
static inline void wire_put_stamp(struct wire_out *o, struct wire_stamps *s, int64_t t)
{
	if (s->begun) {
		int64_t step = (int64_t)((uint64_t)t - (uint64_t)s->last);
		wire_put_diff(o, step, s->step);
		s->step = step;
	} else {
		wire_put_diff(o, t, s->first);
		s->first = t;
		s->begun = true;
	}
	s->last = t;
}
static inline int64_t wire_get_stamp(struct wire_in *in, struct wire_stamps *s)
{
	if (s->begun) {
		s->step = wire_get_diff(in, s->step);
		s->last = (int64_t)((uint64_t)s->last + (uint64_t)s->step);
	} else {
		s->last = s->first = wire_get_diff(in, s->first);
		s->begun = true;
	}
	return s->last;
}

/* ---- doubles ---- */

/* The values before. Zeroed at the beginning. */
struct wire_doubles {
	uint64_t bits;               /* of the last one */
	int64_t whole;               /* the last one that was a whole number below 2^53 */
};
void wire_put_double(struct wire_out *o, struct wire_doubles *d, double v);
double wire_get_double(struct wire_in *in, struct wire_doubles *d);
/* n of them; the i-th is at v + i * stride bytes. Equal ones that follow each other are a run; so the reader must know n, and has room for them. */
void wire_put_doubles(struct wire_out *o, struct wire_doubles *d, const double *v, size_t stride, size_t n);
void wire_get_doubles(struct wire_in *in, struct wire_doubles *d, double *v, size_t stride, size_t n);

/* ---- integers, with runs of zeros; as of doubles the reader must know n ---- */

void wire_put_integers(struct wire_out *o, const int64_t *v, size_t n);
void wire_get_integers(struct wire_in *in, int64_t *v, size_t n);

#endif
