/* SPDX-License-Identifier: Apache-2.0 */
/* One piece of an agent's history on its way: from the request that asks for it until storage has it. While there is one, the
 * endpoint asks for no other. */
#ifndef PYRRHA_SCRAPER_PIECE_H
#define PYRRHA_SCRAPER_PIECE_H

#include "scraper/state/cursor.h"
#include "scraper/internal.h"

struct scrape_job;

struct history_piece {
	struct endpoint *endpoint;   /* reference */
	struct receipt *receipt;     /* reference, while storage has its batch */
	struct cursor_piece asked;
	struct cursor_answer answer;
	enum cursor_news news;       /* good once answered is set */
	bool answered;
	bool moves;                  /* what is sent for it moves the cursor */
	bool more;                   /* the cursor has moved: there may be another one to ask for at once */
	struct cursor_at to;
	uint64_t lost;
};

/* Whether an endpoint is asked so. */
static inline bool pieces_of(const struct endpoint *ep)
{
	return ep->cursor && ep->job->agent;
}
/* What to ask for now; NULL: nothing, or one is under way. Asserts the scraper's lock. */
struct history_piece *piece_begin(struct endpoint *ep);
/* Whatever became of it. NULL does nothing. Asserts the scraper's lock. */
void piece_end(struct history_piece *p);
/* Returns owned. */
char *piece_url(const struct history_piece *p);
/* In the loop thread: what the answer's headers say. False: its body is of no use. Asserts the scraper's lock. */
bool piece_answered(struct work *w, struct fetch_response *r);
/* Sets the work's error to why that is. */
void piece_say_useless(struct work *w);

/* For the decoder: */
/* The answer is a piece. */
bool piece_taken(const struct work *w);
/* The agent has answered, and there is nothing to store. */
bool piece_is_nothing(const struct work *w);
/* The cursor is to move with what is in the batch, which gets the note. False, with j->err: no memory. */
bool piece_put_note(struct scrape_job *j);
/* The piece was refused for what it is: too large, not a profile. After a few times it is given up, with a note in the batch. */
void piece_put_refused(struct scrape_job *j);
/* The idle series (seen.h) in the last run's note, for the first caller; owned, or NULL. */
char *piece_take_seen(struct endpoint *ep, size_t *ret_len);
/* Storage has no room for notes of that size: they are made smaller. */
void piece_notes_full(struct endpoint *ep);
/* For the sink: the result of a batch that moves the cursor. */
void piece_done(void *arg, const struct err *e);
/* Asserts the scraper's lock. What there is to say of it on the page, besides what the agent says of itself (owned or NULL, taken). Owned or
 * NULL. */
char *piece_note(const struct work *w, char *agents);

#endif
