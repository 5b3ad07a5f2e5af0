/* SPDX-License-Identifier: Apache-2.0 */
/* How far an agent's history was taken. An agent keeps its measurements in windows; the server asks for those that begin in [from,
 * to), a piece. A piece depends only on the windows and the scrape interval. So every server that asks an agent divides its time the
 * same way, whenever it asks:
 *
 *	interval 15 s   |--------------|--------------|--------------|      multiples of it, Unix time
 *	windows         |0........|10.......|20.......|30.......|40..
 *	pieces          [ 0 ... 20)          [20 .. 30) [30 ... 50)         whole windows, each by where it begins
 *
 * The cursor is stored with the profile that it comes after, in one batch. It moves when that batch is durable, and only then is the
 * next piece requested. So a crash, or a storage that cannot write, neither repeats nor loses a window. */
#ifndef PYRRHA_SCRAPER_CURSOR_H
#define PYRRHA_SCRAPER_CURSOR_H

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"

struct sink;

#define CURSOR_EXTRAS 4      /* pieces beside a regular scrape, while there is something to catch up with */
#define CURSOR_TRIES 3       /* then a piece that cannot be taken in is lost */
#define CURSOR_BOOT_MAX 64   /* bytes of the name of an agent's run, with the zero */
#define CURSOR_KEY_LEN 24    /* bytes of a note's key, without a zero: "cursor", 0, 16 hexadecimal digits */
#define CURSOR_VALUE_MAX 128 /* of its beginning: "BOOT NUMBER END", a line. Then comes what seen.h has */

/* The last piece taken. */
struct cursor_at {
	char boot[CURSOR_BOOT_MAX]; /* the agent's run; "" = nothing was taken yet */
	uint64_t number;            /* of the last window */
	int64_t end_ms;             /* where it ended, by the agent's clock; the next begins there or later */
};

/* The next request. */
struct cursor_piece {
	int64_t from_ms, to_ms;     /* Unix time; to_ms 0: nothing now */
	struct cursor_at before;
};

/* The agent's history headers with a profile; 0 and "": not given. */
struct cursor_answer {
	char boot[CURSOR_BOOT_MAX];
	int64_t start_ms, end_ms;   /* X-Pyrrha-Covered */
	uint64_t first, last;       /* X-Pyrrha-Windows */
	int64_t finished_ms;        /* X-Pyrrha-Finished: up to where all windows are finished */
	int64_t next_ms;            /* X-Pyrrha-Next: where the first window begins that is not in the answer and could be */
};

/* The headers it is made of, in the order of cursor_parse_answer. */
enum { CURSOR_HEADERS = 5 };
extern const char *const cursor_headers[CURSOR_HEADERS];
void cursor_parse_answer(char values[CURSOR_HEADERS][128], struct cursor_answer *ret);

enum cursor_news {
	CURSOR_OLD,      /* not an answer from a history: the agent is too old to have one, or it is not an agent */
	CURSOR_WAIT,     /* not all of the piece is finished */
	CURSOR_MOVED,    /* there is nothing in the piece, and never will be; what to ask for next has changed */
	CURSOR_WRONG,    /* it is about another time, or windows that were taken before: it would count twice */
	CURSOR_TAKEN     /* this is the piece */
};

/* For one profile type of one agent. Under the scraper's lock. */
struct history_cursor {
	uint64_t key;
	int refs;            /* endpoints that have it */
	bool busy;           /* a piece is under way: asked for, decoded, or not durable yet */
	bool met;            /* it has answered since the start */
	bool old;            /* it has no history */
	struct cursor_at at;
	int64_t from_ms;     /* ask from here; 0 = where `at` ends */
	int64_t ahead_ms;    /* how much later it is for the agent than here; roughly */
	int64_t slack_ms;    /* how much later than a piece is finished it is asked for */
	int64_t stored_ms;   /* wall clock: when `at` was stored */
	unsigned tries;      /* times in a row that this piece could not be taken in for what it is, or was wrong */
	char *seen;          /* seen.h, as it was stored; owned. NULL: there is none, or its endpoint has it */
	size_t seen_len;
	bool brief;          /* there is no room for that in notes */
	uint64_t lost;       /* windows, since the start */
	int64_t lost_ms;     /* wall clock: when some were lost last */
};

/* The next piece, if it is finished by now_ms (wall clock); to_ms 0 if it is not. */
struct cursor_piece cursor_next(const struct history_cursor *c, int64_t interval_ms, int64_t now_ms);
/* The result of an answer to that piece. now_ms: wall clock of the answer. Changes what is known of the agent, not `at`. */
enum cursor_news cursor_learn(struct history_cursor *c, const struct cursor_piece *p, const struct cursor_answer *a, int status,
			      int64_t interval_ms, int64_t now_ms);
/* The cursor after a piece that was taken, and the number of windows missing before it. */
struct cursor_at cursor_after(const struct cursor_piece *p, const struct cursor_answer *a, uint64_t *ret_lost);
/* The piece is stored. */
void cursor_move(struct history_cursor *c, const struct cursor_at *to, uint64_t lost, int64_t now_ms);

/* The note. Returns the length of what the value begins with. */
void cursor_note_key(uint64_t key, char ret[CURSOR_KEY_LEN]);
size_t cursor_note_value(const struct cursor_at *at, char ret[CURSOR_VALUE_MAX]);
bool cursor_note_parse(struct view key, struct view value, uint64_t *ret_key, struct cursor_at *ret, struct view *ret_seen);

/* All there are. */
struct cursors {
	VEC(struct history_cursor *) v;
	struct map index;    /* key -> place */
	size_t kept;         /* how many were left when old ones were dropped last */
};
/* Reads the stored ones. */
int cursors_load(struct cursors *all, struct sink *sink, struct err *e) MUST_USE;
/* The one of a key, created if it is missing; adds a reference. */
struct history_cursor *cursors_get(struct cursors *all, uint64_t key, int64_t now_ms);
void cursors_release(struct cursors *all);

#endif
