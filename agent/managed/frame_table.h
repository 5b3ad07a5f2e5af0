/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of runtimes (CPython, V8) as the stack tree has them: a number for each distinct pair of a code and a place in it.
 *
 *	frame word: RUNTIME_IMAGE(kind) << 48 | frame number
 *	frame    -> code, and where in it (bpf/abi.h: `at`)
 *	code     -> owner (the process), address and check word of its object; its state, and its record once it was read
 *	record   -> what the runtime's read_code read: interned by its bytes, so that equal processes share them
 *
 * A code is read once, by the namer (namer.h), soon after it was sampled and while its process lives. What it is called stays known for as
 * long as a stack of the history has a frame of it. Each process may hold a share of what there is room for; the rest of its code is one
 * frame, "[python: over budget]".
 *
 * The table itself is guarded by the agent's lock. Codes are shared: profile windows hold references, and the namer writes their state. */
#ifndef PYRRHA_AGENT_FRAME_TABLE_H
#define PYRRHA_AGENT_FRAME_TABLE_H

#include <stdatomic.h>

#include "agent/image/image.h"
#include "base/map.h"
#include "base/vec.h"

/* Codes (of some 100 bytes each), and bytes of records, of all processes together. One process may have half of what the others leave. A
 * large program runs some thousand functions, whose records take 300 bytes each. */
#define CODES_MAX (1u << 15)
#define RECORDS_BYTES_MAX ((size_t)12 << 20)
/* One record: a name, a file and the lines of 64 KB of code. */
#define RECORD_BYTES_MAX ((size_t)128 << 10)

/* What is known of a code. */
enum code_state {
	CODE_WANTED,         /* not read yet */
	CODE_NAMED,
	CODE_GONE,           /* the process ended before it was read */
	CODE_CHANGED,        /* another object was at its address by then */
	CODE_OVER_BUDGET,    /* there was no room for it, or it is larger than any sensible one */
	CODE_UNREADABLE,     /* its memory could not be read */
	CODE_STATES
};
extern const char *const code_state_names[CODE_STATES]; /* of metrics: "over_budget" */

/* A process that runs a runtime, from exec to exec or exit. */
struct runtime_owner {
	atomic_int refs;
	atomic_bool ended;           /* its memory is gone, or another program's */
	uint32_t pid;
	uint64_t serial;             /* no two are the same */
	struct image *image;         /* a reference; its ->runtime says which runtime, and is never NULL */
	uint64_t bias;               /* at which attaching found the file */
	void *facts;                 /* process_memory.facts as attaching left it; owned. Never changes */
	void *kept;                  /* process_memory.kept leads here; owned. The reading thread's */
	/* Guarded by the agent's lock: */
	uint32_t codes;              /* in the table */
	/* The namer's: */
	uint64_t counted;            /* in which turn it was last seen to wait */
	int64_t cost_ns;             /* CPU time that its codes have taken, and others' while it had none to read */
	atomic_bool stuck;           /* a reader waits for its memory */
	_Atomic size_t record_bytes; /* of records that were made for it */
};

struct runtime_record;
struct runtime_code {
	atomic_int refs;
	_Atomic uint32_t state;      /* enum code_state; `record` is there once it says CODE_NAMED, and stays */
	struct runtime_owner *owner; /* a reference; NULL: it stands for all frames of its state that have no code of their own */
	const struct runtime *of;
	uint64_t object, check;
	struct runtime_record *record;
	size_t charged;              /* bytes that its owner pays for the record */
	uint32_t frames;             /* of the table; guarded by the agent's lock */
	uint8_t tries;               /* readings that failed; the agent's lock */
	int64_t wanted_ns;           /* CLOCK_MONOTONIC of the last time it was wanted; the agent's lock */
	_Atomic uint32_t met;        /* frames of stacks so far that were of it; written under the agent's lock */
};

/* Returns owned; takes a reference to the image. */
struct runtime_owner *runtime_owner_new(uint32_t pid, struct image *im);
struct runtime_owner *runtime_owner_ref(struct runtime_owner *o);
void runtime_owner_unref(struct runtime_owner *o);
/* The process has ended or executes another program: none of its codes can be read from here on. Gives up the reference. May be NULL. */
void runtime_owner_end(struct runtime_owner *o);

struct runtime_code *runtime_code_ref(struct runtime_code *c);
void runtime_code_unref(struct runtime_code *c);
/* Sets what came of reading a code. For CODE_NAMED with its record; the code becomes CODE_OVER_BUDGET if there is no room for that. The
 * state that it has then is returned. */
enum code_state runtime_code_set(struct runtime_code *c, enum code_state state, struct view record);
/* The calls at `at` of a code, innermost inlined first; 0 if it is not named. The views are good while there is a reference. Any thread. */
size_t runtime_code_frames(const struct runtime_code *c, uint64_t at, struct runtime_name *out, size_t max);
/* What stands for a frame of a code without a name: "[python: process ended]". In buf. */
const char *runtime_code_mark(const struct runtime_code *c, char buf[64]);
/* Bytes of all records, and how many there are. Any thread. */
void runtime_records_held(size_t *ret_bytes, size_t *ret_n);

struct runtime_frame {
	struct runtime_code *code;   /* NULL: the number is free */
	uint64_t at;                 /* of a free number: the next free one */
};

struct frame_table {
	VEC(struct runtime_frame) frames;
	VEC(struct runtime_code *) codes; /* NULL: free */
	VEC(uint32_t) free_codes;
	VEC(struct runtime_code *) wanted; /* to be read, each with a reference: the namer takes them */
	struct map frame_index, code_index;
	uint32_t free_frame;         /* number of the first free frame + 1; 0 = none */
	uint32_t held_frames, held_codes;
	uint64_t over_budget[RUNTIME_KINDS]; /* frames met that there was no room for */
	bool full;                   /* since the last sweep there was no room for a code */
	struct runtime_code *stand_in[RUNTIME_KINDS][CODE_STATES]; /* for frames without a code of their own; NULL: none yet */
};

void frame_table_init(struct frame_table *t);
void frame_table_release(struct frame_table *t);
/* The word of the stack tree for a frame as the kernel reports it. A code that was not met before, or could not be read a while ago, becomes
 * wanted. owner NULL: the process ended before anything was known of it. */
uint64_t frame_table_add(struct frame_table *t, struct runtime_owner *owner, const struct runtime *of, uint64_t at, uint64_t object,
			 uint64_t check, int64_t now_ns);
/* The frame that a word stands for; code NULL if there is none. */
struct runtime_frame frame_table_at(const struct frame_table *t, uint64_t word);
/* Memory of the frames that are held, index included; not of codes and records, which have bounds of their own. */
size_t frame_table_bytes(const struct frame_table *t);
/* There was no room for a code or a record since the last sweep. */
bool frame_table_full(const struct frame_table *t);

/* Compaction: mark the words that are in use, then sweep. */
struct frame_sweep {
	uint8_t *marked;
};
void frame_sweep_begin(struct frame_sweep *s, const struct frame_table *t);
void frame_sweep_mark(struct frame_sweep *s, const struct frame_table *t, uint64_t word);
/* Drops the frames that were not marked, and codes that then have no frame. Ends the sweep. */
void frame_sweep_run(struct frame_sweep *s, struct frame_table *t);

#endif
