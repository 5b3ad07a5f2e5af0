/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/state/cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "model/sink.h"

#define WINDOW_MS 10000              /* of the agent's windows; where one is cut short, this is the most */
#define SLACK_MS 2000                /* clocks differ, and a window is finished a moment after its end */
#define PATIENCE_MS 60000            /* with an agent that does not say how far it is */
#define SET_BACK_MS 1000             /* by less a clock that was not set back may seem to be */
#define NUMBER_MAX INT64_C(100000000000000) /* of what an agent says; as milliseconds, the year 5138 */
#define COVER_MAX_MS (31 * INT64_C(86400000))
#define KEPT_MIN 1000

const char *const cursor_headers[CURSOR_HEADERS] = { "X-Pyrrha-Boot", "X-Pyrrha-Covered", "X-Pyrrha-Windows", "X-Pyrrha-Finished",
						     "X-Pyrrha-Next" };

/* "A-B" as two numbers, the first not above the second. */
static bool parse_pair(const char *s, int64_t *a, int64_t *b)
{
	const char *dash = strchr(s, '-');
	if (dash && num_parse_i64(view_make(s, (size_t)(dash - s)), a) && num_parse_i64(view_of(dash + 1), b) && *a >= 0 && *a <= *b && *b < NUMBER_MAX)
		return true;
	*a = *b = 0;
	return false;
}

static int64_t parse_ms(const char *s)
{
	int64_t ms;
	return num_parse_i64(view_of(s), &ms) && ms > 0 && ms < NUMBER_MAX ? ms : 0;
}

static bool boot_ok(const char *s)
{
	size_t n = strspn(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
	return n && n < CURSOR_BOOT_MAX && !s[n];
}

void cursor_parse_answer(char values[CURSOR_HEADERS][128], struct cursor_answer *ret)
{
	int64_t first, last;
	*ret = (struct cursor_answer){ .finished_ms = parse_ms(values[3]), .next_ms = parse_ms(values[4]) };
	if (boot_ok(values[0]))
		snprintf(ret->boot, sizeof ret->boot, "%.*s", CURSOR_BOOT_MAX - 1, values[0]);
	parse_pair(values[1], &ret->start_ms, &ret->end_ms);
	if (ret->end_ms - ret->start_ms > COVER_MAX_MS)
		ret->start_ms = ret->end_ms = 0;
	parse_pair(values[2], &first, &last);
	ret->first = (uint64_t)first;
	ret->last = (uint64_t)last;
}

static int64_t floor_to(int64_t t_ms, int64_t step_ms)
{
	int64_t over = t_ms % step_ms;
	return t_ms - (over < 0 ? over + step_ms : over);
}

/* When the windows that begin before t_ms are finished, by the agent's clock. */
static int64_t finished_at(int64_t t_ms)
{
	return floor_to(t_ms + WINDOW_MS - 1, WINDOW_MS);
}

/* The begin of the newest finished piece. */
static int64_t newest(int64_t interval_ms, int64_t agent_ms)
{
	if (interval_ms < WINDOW_MS)
		return floor_to(agent_ms, WINDOW_MS) - WINDOW_MS;
	int64_t to_ms = floor_to(agent_ms, interval_ms);
	while (finished_at(to_ms) > agent_ms)
		to_ms -= interval_ms;
	return to_ms - interval_ms;
}

struct cursor_piece cursor_next(const struct history_cursor *c, int64_t interval_ms, int64_t now_ms)
{
	struct cursor_piece p = { .before = c->at };
	int64_t agent_ms = now_ms + c->ahead_ms - SLACK_MS - c->slack_ms;
	p.from_ms = c->from_ms ? c->from_ms : c->at.boot[0] ? c->at.end_ms : newest(interval_ms, agent_ms);
	p.from_ms = MAX(p.from_ms, 1);
	p.to_ms = floor_to(p.from_ms, interval_ms) + interval_ms;
	/* The agent's time is known only from its answers. */
	if (c->met && !c->old && finished_at(p.to_ms) > agent_ms)
		p.to_ms = 0;
	return p;
}

/* A window ends between finished_ms and a window later by the agent's clock. */
static void learn_time(struct history_cursor *c, int64_t finished_ms, int64_t now_ms)
{
	int64_t least = finished_ms - now_ms, most = least + WINDOW_MS + SLACK_MS;
	c->ahead_ms = least > 0 ? least : MIN(most, 0);
}

/* Both ends are rounded to milliseconds; where the last window ends only the agent knows. */
static bool is_of(const struct cursor_piece *p, const struct cursor_answer *a)
{
	bool again = a->first && a->first <= p->before.number && strcmp(a->boot, p->before.boot) == 0;
	return !again && a->start_ms >= p->from_ms - 1 && a->start_ms <= p->to_ms + 1 && a->end_ms <= p->to_ms + 2 * WINDOW_MS;
}

/* After some tries the next piece is asked for: the agent may know better what that is. */
static enum cursor_news learn_wrong(struct history_cursor *c, const struct cursor_piece *p)
{
	if (++c->tries >= CURSOR_TRIES) {
		c->tries = 0;
		c->from_ms = p->to_ms;
	}
	return CURSOR_WRONG;
}

enum cursor_news cursor_learn(struct history_cursor *c, const struct cursor_piece *p, const struct cursor_answer *a, int status,
			      int64_t interval_ms, int64_t now_ms)
{
	int64_t finished_ms = MAX(a->finished_ms, a->end_ms);
	c->old = !a->boot[0] || (status == 200 && a->end_ms <= a->start_ms);
	c->met = true;
	if (c->old)
		return CURSOR_OLD;
	if (!finished_ms && now_ms - finished_at(p->to_ms) < PATIENCE_MS)
		return CURSOR_WAIT;
	if (!finished_ms) { /* it does not say whether there is anything later */
		c->from_ms = p->to_ms;
		return CURSOR_MOVED;
	}
	if (status == 200 && !is_of(p, a))
		return learn_wrong(c, p);
	learn_time(c, finished_ms, now_ms);
	if (status == 200 && finished_ms >= p->to_ms) {
		c->slack_ms -= c->slack_ms / 8;
		return CURSOR_TAKEN;
	}
	if (finished_ms >= p->to_ms) {
		c->from_ms = MAX(a->next_ms ? a->next_ms : finished_ms, p->to_ms);
		return CURSOR_MOVED;
	}
	if (finished_ms + SET_BACK_MS < p->from_ms) { /* its clock was set back: what comes has higher numbers */
		c->from_ms = p->before.boot[0] ? 1 : newest(interval_ms, finished_ms);
		return CURSOR_MOVED;
	}
	c->slack_ms = MIN(c->slack_ms + SLACK_MS, WINDOW_MS);
	return CURSOR_WAIT;
}

struct cursor_at cursor_after(const struct cursor_piece *p, const struct cursor_answer *a, uint64_t *ret_lost)
{
	struct cursor_at at = { .number = a->last, .end_ms = a->end_ms };
	memcpy(at.boot, a->boot, sizeof at.boot);
	*ret_lost = 0;
	if (!a->first || !p->before.boot[0])
		return at;
	/* Of a run that ended, the open window is lost, and perhaps some before it. */
	bool same = strcmp(p->before.boot, a->boot) == 0;
	uint64_t expected = same ? p->before.number + 1 : 1;
	*ret_lost = !same + (a->first > expected ? a->first - expected : 0);
	return at;
}

void cursor_move(struct history_cursor *c, const struct cursor_at *to, uint64_t lost, int64_t now_ms)
{
	c->at = *to;
	c->from_ms = 0;
	c->tries = 0;
	c->stored_ms = now_ms;
	c->lost += lost;
	if (lost)
		c->lost_ms = now_ms;
}

/* ---- notes ---- */

static const char kind[] = "cursor"; /* the zero at its end is part of keys */

void cursor_note_key(uint64_t key, char ret[CURSOR_KEY_LEN])
{
	char hex[17];
	snprintf(hex, sizeof hex, "%016" PRIx64, key);
	memcpy(ret, kind, sizeof kind);
	memcpy(ret + sizeof kind, hex, 16);
	ret[sizeof kind + 16] = '1'; /* of the value's form */
}

size_t cursor_note_value(const struct cursor_at *at, char ret[CURSOR_VALUE_MAX])
{
	return (size_t)snprintf(ret, CURSOR_VALUE_MAX, "%s %" PRIu64 " %" PRId64 "\n", at->boot, at->number, at->end_ms);
}

/* "BOOT NUMBER END" */
static bool parse_value(struct view value, struct cursor_at *ret)
{
	char text[CURSOR_VALUE_MAX];
	if (value.len >= sizeof text)
		return false;
	memcpy(text, value.ptr, value.len);
	text[value.len] = 0;
	char *number = strchr(text, ' '), *end = number ? strchr(number + 1, ' ') : NULL;
	if (!end)
		return false;
	*number++ = *end++ = 0;
	*ret = (struct cursor_at){ .end_ms = parse_ms(end) };
	if (!boot_ok(text) || !ret->end_ms || !num_parse_u64(view_of(number), &ret->number))
		return false;
	memcpy(ret->boot, text, strlen(text) + 1);
	return true;
}

bool cursor_note_parse(struct view key, struct view value, uint64_t *ret_key, struct cursor_at *ret, struct view *ret_seen)
{
	char hex[17] = "", *end;
	const char *line = value.len ? memchr(value.ptr, '\n', value.len) : NULL;
	if (!line)
		return false;
	size_t n = (size_t)(line - value.ptr);
	*ret_seen = view_make(line + 1, value.len - n - 1);
	if (key.len != CURSOR_KEY_LEN || memcmp(key.ptr, kind, sizeof kind) != 0 || key.ptr[CURSOR_KEY_LEN - 1] != '1')
		return false;
	memcpy(hex, key.ptr + sizeof kind, 16);
	*ret_key = strtoull(hex, &end, 16);
	return strspn(hex, "0123456789abcdef") == 16 && parse_value(view_make(value.ptr, n), ret);
}

/* ---- all of them ---- */

static struct history_cursor *find(const struct cursors *all, uint64_t key)
{
	uint32_t id;
	for (size_t at = map_start(&all->index, key); map_probe(&all->index, key, &at, &id);)
		if (all->v.v[id]->key == key)
			return all->v.v[id];
	return NULL;
}

static struct history_cursor *add(struct cursors *all, uint64_t key)
{
	struct history_cursor *c = NEW(struct history_cursor);
	c->key = key;
	map_insert(&all->index, key, (uint32_t)all->v.n);
	vec_push(&all->v, c);
	return c;
}

static void cursor_free(struct history_cursor *c)
{
	free(c->seen);
	free(c);
}

/* Agents come and go: a cursor that was not used for a month is forgotten, as storage forgets its note. */
static void drop_some(struct cursors *all, int64_t now_ms)
{
	size_t kept = 0;
	map_clear(&all->index);
	for (size_t i = 0; i < all->v.n; i++) {
		struct history_cursor *c = all->v.v[i];
		if (!c->refs && !c->busy && now_ms - c->stored_ms > SINK_NOTE_KEPT_MS) {
			cursor_free(c);
			continue;
		}
		map_insert(&all->index, c->key, (uint32_t)kept);
		all->v.v[kept++] = c;
	}
	all->v.n = all->kept = kept;
}

struct history_cursor *cursors_get(struct cursors *all, uint64_t key, int64_t now_ms)
{
	struct history_cursor *c = find(all, key);
	if (!c && all->v.n > 2 * all->kept + KEPT_MIN)
		drop_some(all, now_ms);
	if (!c)
		c = add(all, key);
	c->refs++;
	return c;
}

static void load_one(void *arg, const struct sink_note *n)
{
	struct cursors *all = arg;
	struct cursor_at at;
	struct view seen;
	uint64_t key;
	if (!cursor_note_parse(n->key, n->value, &key, &at, &seen))
		return;
	struct history_cursor *c = find(all, key);
	if (!c)
		c = add(all, key);
	c->at = at;
	c->stored_ms = n->t_ms;
	free(c->seen);
	c->seen = NULL;
	if (seen.len) {
		c->seen = xmalloc(seen.len);
		memcpy(c->seen, seen.ptr, seen.len);
	}
	c->seen_len = seen.len;
}

int cursors_load(struct cursors *all, struct sink *sink, struct err *e)
{
	int rc = sink->notes ? sink->notes(sink, view_make(kind, sizeof kind), load_one, all, e) : 0;
	all->kept = all->v.n;
	return rc;
}

void cursors_release(struct cursors *all)
{
	for (size_t i = 0; i < all->v.n; i++)
		cursor_free(all->v.v[i]);
	vec_free(&all->v);
	map_free(&all->index);
}
