/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/piece.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "scraper/job.h"
#include "scraper/seen.h"
#include "scraper/state/table.h"

#define TELL_MS 3600000    /* so long the page says that windows were lost */
#define APART_MS 60000     /* clocks that differ by more cause a remark */

struct history_piece *piece_begin(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	struct history_cursor *c = ep->cursor;
	if (c->busy)
		return NULL;
	struct cursor_piece asked = cursor_next(c, ep->interval_ms, clock_now_ms());
	if (!asked.to_ms)
		return NULL;
	struct history_piece *p = NEW(struct history_piece);
	p->endpoint = ep;
	ep->refs++;
	p->asked = asked;
	c->busy = true;
	return p;
}

/* One more beside the regular scrape: at once. */
static void ask_again(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	if (ep->gone || ep->flight || !ep->due.at || !ep->extras || !cursor_next(ep->cursor, ep->interval_ms, clock_now_ms()).to_ms)
		return;
	ep->extras--;
	ep->extra = true;
	heap_put(&ep->scraper->due, &ep->due, clock_mono_ms());
	fetch_loop_wake(ep->scraper->loop);
}

void piece_end(struct history_piece *p)
{
	if (!p)
		return;
	struct endpoint *ep = p->endpoint;
	ep->cursor->busy = false;
	if (p->more && !atomic_load_explicit(&ep->scraper->stopping, memory_order_relaxed))
		ask_again(ep);
	free(p);
	endpoint_unref(ep);
}

/* The seconds are for an agent that has no history. */
char *piece_url(const struct history_piece *p)
{
	const struct cursor_piece *a = &p->asked;
	struct buf url = { 0 };
	buf_printf(&url, "%s&from=%lld.%03lld&to=%lld.%03lld&whole=1", p->endpoint->url, (long long)a->from_ms / 1000,
		   (long long)a->from_ms % 1000, (long long)a->to_ms / 1000, (long long)a->to_ms % 1000);
	if (a->before.boot[0])
		buf_printf(&url, "&after=%s-%llu", a->before.boot, (unsigned long long)a->before.number);
	return buf_take(&url, NULL);
}

bool piece_answered(struct work *w, struct fetch_response *r)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	struct history_piece *p = w->piece;
	struct endpoint *ep = w->endpoint;
	if (r->status != 200 && r->status != 404)
		return true;
	cursor_parse_answer(r->headers, &p->answer);
	/* Waits are off, by default: not a history that is empty. */
	if (r->status == 404 && !p->answer.finished_ms && !w->type->named)
		p->answer.boot[0] = 0;
	p->news = cursor_learn(ep->cursor, &p->asked, &p->answer, r->status, ep->interval_ms, w->end_ms);
	p->answered = true;
	p->more = p->news == CURSOR_MOVED;
	return r->status != 200 || p->news == CURSOR_TAKEN || p->news == CURSOR_OLD;
}

void piece_say_useless(struct work *w)
{
	const struct cursor_piece *p = &w->piece->asked;
	const struct cursor_answer *a = &w->piece->answer;
	if (w->piece->news == CURSOR_WRONG)
		err_set(&w->err, ERR_BAD_DATA, "the agent was asked for %lld-%lld (Unix ms) after window %llu, and answered with %lld-%lld, windows "
			"%llu-%llu: that would count twice", (long long)p->from_ms, (long long)p->to_ms, (unsigned long long)p->before.number,
			(long long)a->start_ms, (long long)a->end_ms, (unsigned long long)a->first, (unsigned long long)a->last);
	else
		err_set(&w->err, ERR_NOT_FOUND, "the agent has not finished all of what it was asked for");
}

bool piece_taken(const struct work *w)
{
	return w->piece && w->piece->answered && w->piece->news == CURSOR_TAKEN;
}

bool piece_is_nothing(const struct work *w)
{
	return w->piece && w->piece->answered && (w->piece->news == CURSOR_WAIT || w->piece->news == CURSOR_MOVED);
}

/* State of idle series that the next start needs. */
static void put_seen(struct scrape_job *j, int64_t t_ms, struct buf *out)
{
	struct endpoint *ep = j->ep;
	struct history_cursor *c = ep->cursor;
	mutex_lock(&ep->scraper->lock);
	bool brief = c->brief, there = c->seen != NULL;
	if (there && !brief) /* nothing was decoded since the start */
		buf_put(out, c->seen, c->seen_len);
	mutex_unlock(&ep->scraper->lock);
	if (!there && !brief && j->work->job->series_labels.n)
		seen_encode(&ep->series, j->work->config->serial, t_ms, out);
}

bool piece_put_note(struct scrape_job *j)
{
	struct history_piece *p = j->work->piece;
	struct buf value = { 0 };
	char first[CURSOR_VALUE_MAX], *key = arena_alloc(j->batch->arena, CURSOR_KEY_LEN);
	p->to = cursor_after(&p->asked, &p->answer, &p->lost);
	buf_put(&value, first, cursor_note_value(&p->to, first));
	put_seen(j, p->to.end_ms, &value);
	struct view v = arena_view(j->batch->arena, buf_view(&value));
	buf_free(&value);
	if (!key || !v.ptr || !v.len) {
		err_set(&j->err, ERR_LIMIT, "no memory for the place in the agent's history");
		return false;
	}
	p->moves = true;
	cursor_note_key(j->ep->cursor->key, key);
	batch_add_note(j->batch, view_make(key, CURSOR_KEY_LEN), v, clock_now_ms());
	return true;
}

char *piece_take_seen(struct endpoint *ep, size_t *ret_len)
{
	mutex_lock(&ep->scraper->lock);
	char *seen = TAKE_PTR(ep->cursor->seen);
	*ret_len = ep->cursor->seen_len;
	mutex_unlock(&ep->scraper->lock);
	return seen;
}

void piece_notes_full(struct endpoint *ep)
{
	mutex_lock(&ep->scraper->lock);
	ep->cursor->brief = true;
	mutex_unlock(&ep->scraper->lock);
}

void piece_put_refused(struct scrape_job *j)
{
	const struct work *w = j->work;
	struct history_piece *p = w->piece;
	/* Neither the network's time nor a full storage counts against the piece. */
	bool own = j->err.code == ERR_BAD_DATA || (j->err.code == ERR_LIMIT && !j->offered) || (j->err.code == ERR_TIMEOUT && !w->err.code);
	if (!own || !piece_taken(w))
		return;
	mutex_lock(&j->ep->scraper->lock);
	bool give_up = ++j->ep->cursor->tries >= CURSOR_TRIES;
	mutex_unlock(&j->ep->scraper->lock);
	struct err why = j->err;
	bool put = give_up && piece_put_note(j);
	j->err = why;
	if (!put)
		return;
	p->lost += p->answer.last ? p->answer.last - p->answer.first + 1 : 1;
	LOG_WARN("msg", "a piece of an agent's history cannot be taken in and is lost", "job", w->job->name, "windows",
		 LOG_NUM(p->lost), "err", j->err.msg);
}

static void count_lost(const struct history_piece *p)
{
	struct endpoint *ep = p->endpoint;
	if (!p->lost)
		return;
	metric_add(&scraper_table[M_WINDOWS_LOST], (double)p->lost, ep->job->name);
	LOG_INFO("msg", "windows of an agent were lost", "job", ep->job->name, "windows", LOG_NUM(p->lost), "new_run",
		 strcmp(p->asked.before.boot, p->to.boot) != 0 ? "yes" : "no");
}

void piece_done(void *arg, const struct err *e)
{
	struct history_piece *p = arg;
	struct scraper *s = p->endpoint->scraper;
	receipt_done(TAKE_PTR(p->receipt), e);
	mutex_lock(&s->lock);
	if (!e->code) {
		count_lost(p);
		cursor_move(p->endpoint->cursor, &p->to, p->lost, clock_now_ms());
		p->more = true;
	}
	piece_end(p);
	mutex_unlock(&s->lock);
}

static void say(struct buf *b, const char *text)
{
	buf_printf(b, "%s%s", b->len ? "; " : "", text);
}

char *piece_note(const struct work *w, char *agents)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	const struct history_cursor *c = w->endpoint->cursor;
	struct buf b = { 0 };
	char text[160];
	if (w->piece && w->piece->answered && w->piece->news == CURSOR_OLD && w->http_status == 200)
		say(&b, "the agent has no history that can be asked for (too old, or none): what is missed is not caught up with");
	if (w->piece && w->piece->answered && w->piece->news == CURSOR_WAIT)
		say(&b, "the agent has not finished the next window yet");
	if (c->lost && w->end_ms - c->lost_ms < TELL_MS) {
		snprintf(text, sizeof text, "windows of the agent's history lost since the start: %llu, the last %lld s ago (the agent was restarted, or was asked too late)", (unsigned long long)c->lost, (long long)MAX(w->end_ms - c->lost_ms, 0) / 1000);
		say(&b, text);
	}
	if (c->met && !c->old && llabs(c->ahead_ms) > APART_MS) {
		snprintf(text, sizeof text, "the agent's clock is about %lld s %s of this server's", (long long)llabs(c->ahead_ms) / 1000,
			 c->ahead_ms > 0 ? "ahead" : "behind");
		say(&b, text);
	}
	if (agents)
		say(&b, agents);
	free(agents);
	if (!b.len) {
		buf_free(&b);
		return NULL;
	}
	return buf_take(&b, NULL);
}
