/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/memory.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "scraper/job.h"
#include "scraper/state/table.h"

#define NEED_NEW ((size_t)16 << 10)  /* of an endpoint whose body sizes are not known yet */
#define NEED_MIN ((size_t)4 << 10)
#define NEED_MAX ((size_t)32 << 10)  /* thousands of requests may hang at a time: more is taken as it arrives */
#define CLAIM_PART 4                 /* of an interval */
#define ALWAYS_FAIR 32               /* this part of the whole is never more than a share */
#define SMALL_PART 16                /* an endpoint that weighs more of the whole does not use the last quarter */
#define DECODER_PART 4               /* and a decoder's arenas: its share */
#define TWICE 2                      /* the evicted one is so much heavier than the one it is evicted for */
#define SPARED_PART 4                /* an endpoint that exceeds its share by less than this part of what the heaviest does */
#define MUCH_PART 256                /* of the whole: a body that frees so much is dropped for a decode, even if that needs more */
#define FORGET_PART 8                /* of the weight, that a failed scrape takes away */
#define CENSUS_PART 20               /* of the time, at most */
#define WAIT_MS 5000                 /* that a decoder, or a request, waits for memory at most */
#define BEGIN_WAIT_PART 2            /* of an interval: a scrape begins that much later at most */
#define RETRIES 5                    /* times that a decode may begin anew after it gave its memory to decoders that waited */
#define GRACE_MS 300                 /* of that, until a decoder that holds too much is stopped: it may end by itself */
#define WAIT_STEP_MS 100             /* bytes that loop and sink give back are not announced */
#define LAST_BODY_PART 16            /* of the last body: the next one may be so much larger */
#define REPORT_PART 64               /* of the whole: what a decoder always has, for the report about a scrape */

/* ---- who holds how much ---- */

static bool more_of_endpoint(struct budget *b, size_t n, enum budget_line line);
static bool more_of_decoder(struct budget *b, size_t n, enum budget_line line);

void memory_join(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	struct scraper *s = ep->scraper;
	ep->memory.parent = &s->memory;
	ep->memory.more = more_of_endpoint;
	ep->holder = (uint32_t)s->holders.n;
	vec_push(&s->holders, ep);
}

void memory_leave(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	struct scraper *s = ep->scraper;
	struct endpoint *last = s->holders.v[--s->holders.n];
	s->holders.v[ep->holder] = last;
	last->holder = ep->holder;
	memory_came(ep, true);
	unsigned n = 0;
	for (unsigned i = 0; i < s->census.n_top; i++)
		if (s->census.top[i] != ep)
			s->census.top[n++] = s->census.top[i];
	s->census.n_top = n;
}

void memory_join_decoder(struct scrape_worker *wk)
{
	wk->memory.parent = &wk->scraper->memory;
	wk->memory.more = more_of_decoder;
}

void memory_freed(struct scraper *s)
{
	mutex_assert_held(&s->lock);
	if (s->n_memory_waits)
		pthread_cond_broadcast(&s->memory_came);
}

void memory_decode(struct scrape_worker *wk, struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	wk->endpoint = ep;
	wk->good = false;
	wk->most = 0;
	wk->stuck = false;
	atomic_store(&wk->stop, false);
	ep->worker = wk;
	ep->scraper->n_decoding++;
}

static size_t expected(size_t usual, size_t held, bool good)
{
	return MAX(held, good ? usual / 2 : usual - usual / FORGET_PART);
}

void memory_decoded(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	struct scrape_worker *wk = TAKE_PTR(ep->worker);
	wk->endpoint = NULL;
	ep->usual = expected(ep->usual, budget_used(&ep->memory), wk->good);
	ep->usual_decode = expected(ep->usual_decode, wk->most, wk->good);
	ep->scraper->n_decoding--;
}

static void list_top(struct memory_census *c, struct endpoint *ep, size_t held, size_t sizes[MEMORY_TOP])
{
	unsigned at = c->n_top;
	while (at && sizes[at - 1] < held)
		at--;
	if (at == MEMORY_TOP)
		return;
	c->n_top = MIN(c->n_top + 1, MEMORY_TOP);
	for (unsigned i = c->n_top - 1; i > at; i--) {
		c->top[i] = c->top[i - 1];
		sizes[i] = sizes[i - 1];
	}
	c->top[at] = ep;
	sizes[at] = held;
}

/* The share: holders are sorted by the number of their bytes' binary digits. Those of fewer digits have what they want; what they
 * leave is divided by the others. */
static size_t fair_share(const size_t count[65], const size_t sum[65], size_t n, size_t all)
{
	size_t below = 0;
	for (int i = 0; i < 65 && n; i++) {
		size_t share = below < all ? (all - below) / n : 0;
		if (i < 64 && share < (size_t)1 << i)
			return share;
		below += sum[i];
		n -= count[i];
	}
	return SIZE_MAX;
}

static void census_take(struct scraper *s, int64_t now_ns)
{
	struct memory_census *c = &s->census;
	size_t count[65] = { 0 }, sum[65] = { 0 }, sizes[MEMORY_TOP], n = 0, all = 0;
	c->n_top = 0;
	for (size_t i = 0; i < s->holders.n; i++) {
		size_t held = budget_used(&s->holders.v[i]->memory);
		if (!held)
			continue;
		int digits = 64 - __builtin_clzl(held);
		count[digits]++;
		sum[digits] += held;
		all += held;
		n++;
		list_top(c, s->holders.v[i], held, sizes);
	}
	c->share = all <= s->memory.max / 2 ? SIZE_MAX : MAX(fair_share(count, sum, n, s->memory.max / 2), s->memory.max / ALWAYS_FAIR);
	c->made_ns = clock_mono_ns();
	c->cost_ns = c->made_ns - now_ns;
}

static const struct memory_census *census_of(struct scraper *s)
{
	mutex_assert_held(&s->lock);
	int64_t now = clock_mono_ns();
	if (!s->census.made_ns || now - s->census.made_ns >= s->census.cost_ns * CENSUS_PART)
		census_take(s, now);
	return &s->census;
}

/* ---- eviction ---- */

/* Who asks for more, and for what. */
struct memory_request {
	struct endpoint *endpoint;
	struct scrape_worker *worker;  /* NULL: the loop thread asks, which cannot sleep */
	int64_t since_ms;              /* monotonic: the loop's request was made first then */
	bool comes;                    /* set for the loop: there is no room, but there will be soon */
	size_t n, held;                /* bytes wanted; those that the endpoint holds, with these if they are its own */
	size_t weight, decode;         /* bytes that the endpoint holds or usually holds; bytes of its decoder's arenas */
	enum budget_line line;
};

static int evicted_error(const struct scraper *s, struct err *e)
{
	char size[24];
	metric_inc(&scraper_table[M_EVICTED]);
	return err_set(e, ERR_UNAVAILABLE, "dropped here: it held more than its share of the memory of all scrapes, which a smaller target needed "
		       "(--scrape.memory, %s)", units_format_size(s->memory.max, size));
}

void memory_say_evicted(struct work *w)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	if (!w->err.code && !w->endpoint->gone)
		evicted_error(w->endpoint->scraper, &w->err);
}

/* Bytes that an eviction gives back: at once, and when another thread has done its part. */
struct memory_freed {
	size_t now, soon;
};

static size_t memory_waiting_of(const struct endpoint *ep)
{
	size_t n = ep->parked && work_has_body(ep->parked) ? ep->parked->held : 0;
	for (const struct work *w = ep->first; w; w = w->next)
		n += work_has_body(w) ? w->held : 0;
	return n;
}

static size_t memory_arriving_of(const struct endpoint *ep)
{
	return ep->flight ? ep->flight->work->held : 0;
}

/* What is kept besides the baseline: a failed scrape that was evicted forgets it. Unknown, and 0, while a decoder works on the endpoint. */
static size_t memory_rest_of(const struct endpoint *ep)
{
	size_t held = budget_used(&ep->memory), other = memory_waiting_of(ep) + memory_arriving_of(ep) + budget_used(&ep->base->memory);
	return ep->turn == TURN_WORKS || ep->gone || held <= other ? 0 : held - other;
}

void memory_came(struct endpoint *ep, bool all)
{
	mutex_assert_held(&ep->scraper->lock);
	size_t left = all ? 0 : MIN(ep->coming, memory_rest_of(ep));
	ep->scraper->coming -= ep->coming - left;
	ep->coming = left;
	memory_freed(ep->scraper);
}

/* What evict_endpoint would give back beyond what is coming already. */
static struct memory_freed memory_evictable(const struct endpoint *ep, bool in_loop)
{
	size_t arriving = memory_arriving_of(ep), baseline = ep->gone ? 0 : baseline_idle_bytes(ep);
	size_t soon = memory_rest_of(ep) + (in_loop ? 0 : arriving);
	return (struct memory_freed){ memory_waiting_of(ep) + baseline + (in_loop ? arriving : 0), soon - MIN(soon, ep->coming) };
}

/* Takes from the endpoint what is missing, or all that it can give. Its bodies go first: then one scrape fails, and no increase is lost. A
 * decoder at work is not stopped here: stop_heaviest, after a while. */
static struct memory_freed evict_endpoint(struct endpoint *ep, size_t missing, bool in_loop)
{
	mutex_assert_held(&ep->scraper->lock);
	const struct eviction *evict = ep->scraper->evict;
	size_t arriving = memory_arriving_of(ep), baseline = 0, rest = memory_rest_of(ep);
	ep->usual = MAX(ep->usual, budget_used(&ep->memory));
	bool the_arriving = arriving >= missing && memory_waiting_of(ep) < missing;
	struct memory_freed f = { the_arriving ? 0 : evict->waiting(ep), 0 };
	bool fails = f.now;
	if (f.now < missing && arriving) {
		f.now += evict->flight(ep, in_loop);
		f.soon += in_loop ? 0 : arriving;
		fails = true;
	}
	if (f.now + (in_loop ? 0 : f.soon + (fails ? rest : 0)) < missing && !ep->gone) {
		baseline = baseline_forget(ep);
		f.now += baseline;
	}
	if (!fails && (baseline || rest))
		fails = evict->kept(ep);
	if (fails)
		f.soon += rest;
	f.soon -= MIN(f.soon, ep->coming);
	ep->coming += f.soon;
	ep->scraper->coming += f.soon;
	return f;
}

/* Whether the n bytes that an eviction frees are worth a failed scrape: they are enough, or much. */
static bool is_worth(size_t n, size_t missing, size_t much)
{
	return n && n >= MIN(missing, much);
}

/* Evicts one endpoint, or none. The heaviest from which enough is free at once, if there is one; else the heaviest that gives enough soon; else
 * the one that gives most. Those hardly above their share are spared as long as others hold much more. only_now: only memory that is free at once
 * counts, because enough is about to be freed already, but later than the asking thread can wait. */
static struct memory_freed evict_heaviest(struct scraper *s, const struct memory_request *r, size_t missing, bool only_now)
{
	const struct memory_census *c = census_of(s);
	struct endpoint *best = NULL;
	size_t best_bytes = 0, most = 0;
	int best_rank = -1;
	for (unsigned i = 0; i < c->n_top; i++) {
		struct endpoint *ep = c->top[i];
		size_t held = budget_used(&ep->memory);
		if (ep == r->endpoint || held <= c->share || held / TWICE < r->weight)
			continue;
		struct memory_freed f = memory_evictable(ep, !r->worker);
		size_t bytes = f.now + f.soon;
		int rank = (bytes >= missing) + (f.now >= missing);
		if (!is_worth(bytes, missing, (held - c->share) / 2) || held - c->share < most / SPARED_PART)
			continue;
		most = MAX(most, held - c->share);
		if (only_now && f.now < missing)
			continue;
		if (rank > best_rank || (!rank && !best_rank && bytes > best_bytes)) {
			best = ep;
			best_rank = rank;
			best_bytes = bytes;
		}
	}
	return best ? evict_endpoint(best, missing, !r->worker) : (struct memory_freed){ 0 };
}

/* A decode that has begun goes before bodies that wait or arrive, whoever's, so that of many large ones some are decoded to the end. Evicts the
 * body that frees most beyond its endpoint's share, or none. What is kept of an endpoint does not count: it stays. */
static struct memory_freed evict_body(struct scraper *s, const struct endpoint *by, size_t missing)
{
	const struct memory_census *c = census_of(s);
	size_t share = c->share == SIZE_MAX ? s->memory.max / ALWAYS_FAIR : c->share, most = 0;
	struct endpoint *best = NULL;
	for (unsigned i = 0; i < c->n_top; i++) {
		struct endpoint *ep = c->top[i];
		size_t held = budget_used(&ep->memory), arriving = ep->flight && !ep->flight->work->evicted ? memory_arriving_of(ep) : 0;
		size_t body = MIN(MAX(memory_waiting_of(ep), arriving), held - MIN(held, share));
		if (ep != by && body > most && is_worth(body, missing, s->memory.max / MUCH_PART)) {
			best = ep;
			most = body;
		}
	}
	return best ? evict_endpoint(best, most, false) : (struct memory_freed){ 0 };
}

static bool is_small(const struct scraper *s, size_t weight, size_t decode)
{
	return weight <= s->memory.max / SMALL_PART && decode <= s->memory.max / DECODER_PART;
}

/* Bytes that a scrape needs in all: its endpoint's weight, and the arenas of its decoder. As long as no body of the endpoint was decoded, the size
 * of the arenas is not known; it is taken to be the weight. */
static size_t weight_with_decode(const struct memory_request *r)
{
	size_t decode = MAX(r->decode, r->endpoint->usual_decode);
	return r->weight + (decode ? decode : r->weight);
}

/* Finds the decoder whose scrape needs most memory, those of small scrapes (is_small) left out, and stops it for the scrape that asks for memory: if
 * that is small itself, or needs at most half as much. True: the decoder has been told to stop, now or before, and will free its memory. */
static bool stop_heaviest(struct scraper *s, const struct memory_request *r)
{
	mutex_assert_held(&s->lock);
	struct scrape_worker *most = NULL;
	size_t most_held = 0;
	for (unsigned i = 0; i < s->n_workers; i++) {
		struct scrape_worker *wk = &s->workers[i];
		const struct endpoint *ep = wk->endpoint;
		if (!ep || ep == r->endpoint)
			continue;
		size_t weight = MAX(budget_used(&ep->memory), ep->usual), decode = MAX(budget_used(&wk->memory), ep->usual_decode);
		if (!is_small(s, weight, decode) && weight + decode > most_held) {
			most = wk;
			most_held = weight + decode;
		}
	}
	bool small = is_small(s, r->weight, MAX(r->decode, r->endpoint->usual_decode));
	if (most_held <= s->memory.max / DECODER_PART || (!small && most_held / TWICE < weight_with_decode(r)))
		return false;
	if (!atomic_exchange(&most->stop, true))
		memory_freed(s); /* it may wait itself */
	return true;
}

/* ---- a decoder waits ---- */

/* Whether the loop, or a decoder other than the one that asks (NULL: the loop asks), may free memory soon. If all decoders wait, the last of them
 * gives up, and what it frees may be the loop's. */
static bool there_is_hope(const struct scraper *s, const struct scrape_worker *by)
{
	unsigned wait = s->n_memory_waits + (by != NULL);
	if (!by && (s->n_decoding || heap_first(&s->light) || heap_first(&s->heavy)))
		return true;
	return s->evicted || s->n_decoding > wait || (heap_first(&s->light) && s->n_workers > wait);
}

/* Waits until memory was freed, or may have been. Returns false if until_ms passed first. */
static bool wait_for_memory(struct scraper *s, const struct scrape_worker *wk, int64_t until_ms)
{
	mutex_assert_held(&s->lock);
	int64_t now = clock_mono_ms();
	if (s->stopped || atomic_load(&s->stopping) || atomic_load(&wk->stop) || now >= until_ms)
		return false;
	s->n_memory_waits++;
	mutex_wait_ms(&s->lock, &s->memory_came, MIN(until_ms, now + WAIT_STEP_MS));
	s->n_memory_waits--;
	return true;
}

/* ---- more than BUDGET_LARGE ---- */

/* What is small is fair, even if it is above a share that is smaller still: there are many small ones then, and only what is heavier than they are
 * can give them room. */
static bool is_fair(struct scraper *s, const struct memory_request *r)
{
	return r->weight <= MAX(census_of(s)->share, s->memory.max / SMALL_PART);
}

/* The last quarter is for what is small. */
static enum budget_line line_of(const struct scraper *s, const struct memory_request *r)
{
	return is_small(s, r->weight, r->decode) ? r->line : MIN(r->line, BUDGET_LARGE);
}

/* Bytes that others have to give back before there is room for n up to the line. */
static size_t missing_of(const struct scraper *s, size_t n, enum budget_line line)
{
	size_t limit = s->memory.max / BUDGET_ALL * line, want = budget_used(&s->memory) + n;
	return want - MIN(want, limit);
}

/* Evicts one endpoint, or none. What is coming from those that were evicted before counts; if it is late, or the loop asks, one that gives
 * enough at once is evicted nevertheless. */
static struct memory_freed evict_for(struct scraper *s, const struct memory_request *r, size_t missing, bool late)
{
	struct memory_freed f = { 0 };
	bool comes = s->coming >= missing && there_is_hope(s, r->worker);
	if (comes && r->worker && !late)
		return (struct memory_freed){ 0, missing };
	if (is_fair(s, r))
		f = evict_heaviest(s, r, missing, comes);
	if (!f.now && !f.soon && r->worker && !comes)
		f = evict_body(s, r->endpoint, missing);
	if (!f.now && comes)
		f.soon = missing;
	return f;
}

/* The loop thread can put such a request off. */
static bool can_wait(const struct scraper *s, const struct memory_request *r)
{
	return is_small(s, r->weight, MAX(r->decode, r->endpoint->usual_decode));
}

static bool take_more(struct scraper *s, struct memory_request *r)
{
	mutex_assert_held(&s->lock);
	int64_t now = clock_mono_ms(), until = now + WAIT_MS, stop_ms = r->worker ? now + GRACE_MS : can_wait(s, r) ? r->since_ms + GRACE_MS : now;
	if (r->held + r->decode > s->memory.max / BUDGET_ALL * BUDGET_LARGE)
		return false; /* not even alone */
	for (;;) {
		enum budget_line line = line_of(s, r);
		if (budget_take(&s->memory, r->n, line))
			return true;
		size_t missing = missing_of(s, r->n, line);
		if (!missing)
			continue; /* others have given back enough meanwhile */
		bool late = clock_mono_ms() >= stop_ms;
		struct memory_freed f = evict_for(s, r, missing, late);
		if (f.now)
			continue;
		bool hope = there_is_hope(s, r->worker);
		if (!hope || (late && !f.soon))
			hope |= stop_heaviest(s, r);
		if (r->worker && !hope)
			r->worker->stuck = is_fair(s, r);
		r->comes = !r->worker && hope && can_wait(s, r);
		if (!r->worker || !hope || !wait_for_memory(s, r->worker, until))
			return false;
	}
}

/* For an endpoint. */
static bool more_for(struct memory_request *r)
{
	struct endpoint *ep = r->endpoint;
	mutex_assert_held(&ep->scraper->lock);
	r->held = budget_used(&ep->memory) + r->n;
	r->weight = MAX(r->held, ep->usual);
	bool ok = take_more(ep->scraper, r);
	if (!ok && !r->comes)
		ep->usual = MAX(ep->usual, r->held);
	return ok;
}

static bool more_of_endpoint(struct budget *b, size_t n, enum budget_line line)
{
	struct endpoint *ep = (struct endpoint *)((char *)b - offsetof(struct endpoint, memory));
	mutex_lock(&ep->scraper->lock);
	struct memory_request r = { .endpoint = ep, .worker = ep->worker, .n = n, .since_ms = clock_mono_ms(), .line = line };
	bool ok = (!ep->worker || !atomic_load(&ep->worker->stop)) && more_for(&r);
	mutex_unlock(&ep->scraper->lock);
	return ok;
}

static bool more_of_decoder(struct budget *b, size_t n, enum budget_line line)
{
	struct scrape_worker *wk = (struct scrape_worker *)((char *)b - offsetof(struct scrape_worker, memory));
	struct scraper *s = wk->scraper;
	size_t decode = budget_used(b) + n;
	mutex_lock(&s->lock);
	struct endpoint *ep = wk->endpoint;
	struct memory_request r = { .endpoint = ep, .worker = wk, .n = n, .line = MIN(line, BUDGET_KEPT) }; /* a decoder can wait, so it has no room in the parts of the budget for starts and for bodies that arrive */
	bool ok = ep && !atomic_load(&wk->stop);
	if (ok) {
		r.held = budget_used(&ep->memory);
		r.weight = MAX(r.held, ep->usual);
		r.decode = MAX(decode, MIN(ep->usual_decode, s->memory.max / DECODER_PART));
		ok = take_more(s, &r);
		if (!ok)
			ep->usual_decode = MAX(ep->usual_decode, decode);
	}
	mutex_unlock(&s->lock);
	return ok || (decode <= s->memory.max / REPORT_PART && budget_take(&s->memory, n, line));
}

/* ---- a scrape begins ---- */

static size_t need_of(const struct endpoint *ep)
{
	return ep->last_body ? MAX(MIN(ep->last_body, NEED_MAX), NEED_MIN) : NEED_NEW;
}

void memory_settle(struct endpoint *ep, unsigned passed)
{
	mutex_assert_held(&ep->scraper->lock);
	struct scraper *s = ep->scraper;
	s->owed[ep->passed] -= ep->owed;
	ep->owed = 0;
	heap_remove(&s->claims, &ep->claim);
	ep->passed = MIN(passed, PASSED_MAX);
}

/* Room for it is reserved shortly before it is due again; earlier, it would be unused. */
static void pass_over(struct endpoint *ep, int64_t now_ms)
{
	memory_settle(ep, ep->passed + 1);
	heap_put(&ep->scraper->claims, &ep->claim, now_ms + ep->interval_ms - ep->interval_ms / CLAIM_PART);
}

static size_t owed_before(const struct endpoint *ep, int64_t now_ms)
{
	mutex_assert_held(&ep->scraper->lock);
	struct scraper *s = ep->scraper;
	size_t sum = 0;
	for (struct heap_node *n; (n = heap_first(&s->claims)) && n->key <= now_ms;) {
		struct endpoint *x = heap_entry(n, struct endpoint, claim);
		heap_remove(&s->claims, n);
		x->owed = need_of(x);
		s->owed[x->passed] += x->owed;
	}
	for (unsigned i = ep->passed + 1; i <= PASSED_MAX; i++)
		sum += s->owed[i];
	return sum;
}

static int no_memory(const struct scraper *s, struct err *e, const char *what)
{
	char size[24];
	return err_set(e, ERR_UNAVAILABLE, "%s: the memory of all scrapes is used up (--scrape.memory, %s)", what,
		       units_format_size(s->memory.max, size));
}

int memory_begin(struct work *w, int64_t now_ms, bool may_wait)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	struct endpoint *ep = w->endpoint;
	struct scraper *s = ep->scraper;
	size_t n = need_of(ep), owed = owed_before(ep, now_ms);
	struct memory_request r = { .endpoint = ep, .n = n, .held = budget_used(&ep->memory) + n, .line = BUDGET_BEGIN };
	r.since_ms = ep->short_ms ? ep->short_ms : now_ms;
	r.weight = MAX(r.held, ep->usual);
	struct memory_freed f = { 0 };
	do {
		if (budget_has_room(&s->memory, n + owed, BUDGET_BEGIN) && budget_take(&s->memory, n, BUDGET_BEGIN)) {
			budget_adopt(&ep->memory, n);
			w->held = n;
			memory_settle(ep, 0);
			ep->short_ms = 0;
			return 0;
		}
		size_t missing = missing_of(s, n + owed, BUDGET_BEGIN);
		f = missing ? evict_for(s, &r, missing, false) : (struct memory_freed){ 0 };
	} while (f.now);
	bool waits = can_wait(s, &r), comes = f.soon || (waits && there_is_hope(s, NULL));
	if (!f.soon && (!waits || now_ms - r.since_ms >= GRACE_MS))
		comes |= stop_heaviest(s, &r) && waits;
	if (comes && may_wait && now_ms - r.since_ms < MIN(WAIT_MS, ep->interval_ms / BEGIN_WAIT_PART)) {
		ep->short_ms = r.since_ms;
		return MEMORY_COMES;
	}
	ep->short_ms = 0;
	pass_over(ep, now_ms);
	metric_inc(&scraper_table[M_PASSED_OVER]);
	return no_memory(s, &w->err, "the scrape did not begin");
}

/* ---- a body ---- */

/* The loop thread asks, whatever a decoder does with the endpoint meanwhile. */
static enum fetch_data take_for_body(struct work *w, size_t n)
{
	struct scraper *s = w->endpoint->scraper;
	struct memory_request r = { .endpoint = w->endpoint, .n = n, .line = BUDGET_ALL };
	bool ok = budget_take(&s->memory, n, BUDGET_LARGE);
	if (!ok) {
		int64_t now = clock_mono_ms();
		r.since_ms = w->short_ms ? w->short_ms : now;
		mutex_lock(&s->lock);
		ok = more_for(&r);
		mutex_unlock(&s->lock);
		r.comes &= now - r.since_ms < WAIT_MS;
	}
	w->short_ms = r.comes ? r.since_ms : 0;
	if (ok)
		budget_adopt(&w->endpoint->memory, n);
	return ok ? FETCH_TAKEN : r.comes ? FETCH_LATER : FETCH_END;
}

/* A body is expected to be about as large as the one before: its buffer is not doubled beyond that. */
static size_t body_cap(const struct work *w, size_t n)
{
	size_t usual = w->endpoint->last_body, cap = buf_cap_for(&w->body, n);
	usual += usual / LAST_BODY_PART;
	return w->body.len + n < usual ? MIN(cap, usual) : cap;
}

enum fetch_data memory_receive(struct work *w, const char *p, size_t n)
{
	size_t cap = body_cap(w, n), want = MAX(cap, w->held);
	enum fetch_data took = want > w->held ? take_for_body(w, want - w->held) : FETCH_TAKEN;
	if (took == FETCH_TAKEN) {
		w->held = want;
		buf_grow(&w->body, cap);
		buf_put(&w->body, p, n);
		return w->body.overflow ? FETCH_END : FETCH_TAKEN;
	}
	if (took == FETCH_END) {
		memory_drop_body(w);
		metric_inc(&scraper_table[M_CUT_OFF]);
		no_memory(w->endpoint->scraper, &w->err, "the body was cut off");
	}
	return took;
}

void memory_say_short(struct work *w)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	if (!w->short_ms || w->err.code)
		return;
	metric_inc(&scraper_table[M_CUT_OFF]);
	no_memory(w->endpoint->scraper, &w->err, "the body was cut off, after it had waited");
}

void memory_received(struct work *w)
{
	buf_trim(&w->body);
	size_t rest = w->held - MIN(w->held, w->body.cap);
	w->held -= rest;
	budget_give(&w->endpoint->memory, rest);
}

void memory_drop_body(struct work *w)
{
	buf_free(&w->body);
	budget_give(&w->endpoint->memory, w->held);
	w->held = 0;
}

/* ---- a decoder ---- */

bool memory_may_retry(const struct scrape_job *j)
{
	return j->worker->stuck && !atomic_load(&j->worker->stop) && j->work->retries < RETRIES;
}

int memory_refused(struct scrape_job *j)
{
	struct scraper *s = j->worker->scraper;
	j->no_memory = true;
	err_clear(&j->err);
	if (atomic_load(&j->worker->stop))
		return evicted_error(s, &j->err);
	if (!memory_may_retry(j))
		metric_inc(&scraper_table[M_CUT_OFF]);
	return no_memory(s, &j->err, "it could not be decoded");
}
