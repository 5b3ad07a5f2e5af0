/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of all scrapes together (--scrape.memory): bodies on their way and waiting, the decoders' arenas, and what is kept of
 * endpoints between scrapes (baselines of cumulative types, series of text metrics, names). A scrape begins with what its last body
 * took, within bounds, and takes more as bytes arrive.
 *
 * Every endpoint has a budget of its own, a part of the scraper's, for its bodies and what is kept of it; every decoder has one for its
 * arenas. As long as three quarters of all are free (BUDGET_LARGE), nobody is asked who he is: large targets succeed where there is
 * memory. Beyond that:
 *
 *	share    what an endpoint may hold so that all who hold something find room in half of the memory: those below it have what
 *	         they want, those above it have equally much. The other half is the decoders'; a quarter of it all is a decoder's share.
 *	weight   what an endpoint holds with what it asks for now, or what it is known to need from scrapes before, if that is more
 *
 *	weight below the share         it takes room from the heaviest, if there is none
 *	small, even above the share    likewise, and it may use the last quarter, too
 *	else                           it is refused: its scrape fails
 *
 * The heaviest is the endpoint that holds most, if that is more than its share and at least twice the weight of the one that asks; then
 * the decoder that needs most, likewise. A small scrape (weight at most a sixteenth, arenas at most a quarter of the whole) may also stop
 * a decoder that needs less than twice as much, and its own decoder is never stopped. When an endpoint is evicted, its body is dropped, its
 * request ends, its decoder stops, what is kept of it is forgotten, and its scrape fails and says so. All of this is the same for a scrape
 * that begins, for a body that arrives, for a decoder and for what is kept.
 *
 * One endpoint at a time, and none as long as enough is on its way: a body that arrives is the loop's to free, a cache a decoder's. What they
 * will free is counted (coming) from the eviction until it is free. The loop thread, which cannot sleep, prefers endpoints that give
 * enough at once. An endpoint that gives too little to be of use is left alone, however much it holds.
 *
 * What is small waits for what others give back: a scrape that begins is put off, a body that arrives is paused, and a
 * decoder sleeps as long as another one is at work. They stop a decoder only when none ended by itself for a while. A decode that has
 * begun also goes before large bodies that wait or arrive, whoever's: or many large ones would fill the memory with bodies, and none could
 * be decoded.
 *
 * Why this ends: an endpoint is evicted only for one that weighs half of it or less, or for a small one, which nobody stops. One that was
 * evicted or refused keeps its weight, so when it comes again, it evicts nobody of its size: of several heavy ones those that came first
 * finish, and the others are refused.
 * Only a scrape that succeeds halves the weight; one that fails takes an eighth of it away, so that a target that became small is not
 * taken for a heavy one for ever. Of decoders that wait for each other the last one does not wait: it gives its room to the others, and
 * begins anew if it is within its share, else it is refused.
 *
 * If there is no room for a due scrape, it is skipped. The room it would have needed is then owed to it: one that was skipped less
 * often in a row begins only if room is left beside everything owed to those before it. So no scrape is skipped a second time while
 * others, which were not, take the room.
 *
 * Who holds how much is counted (a census) only when room is short, and at most a twentieth of the time is spent on that. */
#ifndef PYRRHA_SCRAPER_MEMORY_H
#define PYRRHA_SCRAPER_MEMORY_H

#include "scraper/internal.h"

struct scrape_job;

/* A new endpoint, and one that is freed. They assert the lock. */
void memory_join(struct endpoint *ep);
void memory_leave(struct endpoint *ep);
/* The arenas of a decoder that begins its life. */
void memory_join_decoder(struct scrape_worker *wk);
/* A decoder begins with an endpoint's work, and ends; it is freed or parked then. They assert the lock. */
void memory_decode(struct scrape_worker *wk, struct endpoint *ep);
void memory_decoded(struct endpoint *ep);
/* Wakes decoders that wait for memory. Asserts the lock. */
void memory_freed(struct scraper *s);

/* In the loop thread, with the lock. now_ms: monotonic. Negative, with w->err: the scrape cannot begin. MEMORY_COMES, only if may_wait: an evicted
 * endpoint or a decoder will free enough, so the scrape shall be tried again soon. */
#define MEMORY_COMES 1
int memory_begin(struct work *w, int64_t now_ms, bool may_wait) MUST_USE;
void memory_settle(struct endpoint *ep, unsigned passed); /* how often in a row it was passed over now; asserts the lock */
/* In the loop thread, without the lock. Bytes of a body that arrives, before it is known how many there will be. FETCH_END, with w->err: no
 * room. FETCH_LATER: there will be room soon; nothing was taken. */
enum fetch_data memory_receive(struct work *w, const char *p, size_t n) EXCLUDES(w->endpoint->scraper->lock);
void memory_received(struct work *w); /* that was all of it */
void memory_drop_body(struct work *w);
/* What an eviction promised has come: the body of the request that was ended; all, if a decoder has done the failed scrape, or the endpoint
 * is freed. Asserts the lock. */
void memory_came(struct endpoint *ep, bool all);
/* Why the scrape failed, unless there is a reason already: its memory was taken; it waited for memory when its time was over (if not, nothing is
 * said). They assert the lock. */
void memory_say_evicted(struct work *w);
void memory_say_short(struct work *w);
/* In a decoder: its job has no more memory; sets j->err, and returns its code, negative. */
int memory_refused(struct scrape_job *j);
/* After that: whether to decode it again. The others waited, and have the room that it gives back. */
bool memory_may_retry(const struct scrape_job *j);

#endif
