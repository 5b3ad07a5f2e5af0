/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/unwind/rule_set.h"

#include <assert.h>

#define FREE_STEP 4096               /* rules looked at in one step: some 0.3 ms if all are freed */
#define MARK_KEPT UINT16_MAX         /* the mark of rules returned by rule_set_id() during the sweep, and of spare numbers */

_Static_assert(IMAGES_MAX < MARK_KEPT && RULES_MAX <= UINT16_MAX + 1, "numbers of images and rules fit into 16 bits");

static uint64_t rule_hash(const struct unwind_rule *r)
{
	return hash_bytes(r, sizeof *r);
}

void rule_set_init(struct rule_set *s, struct unwind_rule *rules, struct cache_wiper *wiper)
{
	static const struct unwind_rule refused = { .cfa = CFA_UNSUPPORTED };

	*s = (struct rule_set){ .rules = rules, .wiper = wiper, .next = RULE_FIRST };
	rules[RULE_UNREAD].cfa = CFA_UNREAD;
	uint32_t id = rule_set_id(s, &refused);
	assert(id == RULE_REFUSED);
}

void rule_set_release(struct rule_set *s)
{
	map_free(&s->index);
	vec_free(&s->resting);
	vec_free(&s->spare);
}

uint32_t rule_set_used(const struct rule_set *s)
{
	return (uint32_t)s->index.n;
}

static bool rule_set_full(const struct rule_set *s)
{
	return s->next == RULES_MAX && !s->spare.n;
}

uint32_t rule_set_id(struct rule_set *s, const struct unwind_rule *r)
{
	uint64_t hash = rule_hash(r);
	uint32_t id;

	if (r->cfa == CFA_NONE && !r->runtime)
		return RULE_NONE;
	if (r->cfa == CFA_UNREAD)
		return RULE_UNREAD;
	for (size_t at = map_start(&s->index, hash); map_probe(&s->index, hash, &at, &id);) {
		if (memcmp(&s->rules[id], r, sizeof *r) == 0) {
			s->mark[id] = MARK_KEPT;
			return id;
		}
	}
	if (rule_set_full(s)) {
		s->refused++;
		return RULE_REFUSED;
	}
	id = s->spare.n ? s->spare.v[--s->spare.n] : s->next++;
	s->rules[id] = *r;
	s->mark[id] = MARK_KEPT;
	map_insert(&s->index, hash, id);
	return id;
}

bool rule_set_sweep_due(const struct rule_set *s, int64_t now_ns)
{
	return s->phase == SWEEP_NONE && s->next - s->spare.n > RULES_BUSY && now_ns >= (rule_set_full(s) ? s->due_full_ns : s->due_ns);
}

void rule_set_sweep_begin(struct rule_set *s)
{
	assert(s->phase == SWEEP_NONE || s->phase == SWEEP_MARKING);
	assert(!s->resting.n);
	s->phase = SWEEP_MARKING;
	memset(s->mark, 0, sizeof s->mark);
	for (size_t i = 0; i < s->spare.n; i++)
		s->mark[s->spare.v[i]] = MARK_KEPT;
}

void rule_set_mark(struct rule_set *s, const uint32_t *rows, uint32_t n, uint16_t image)
{
	_Static_assert((RULES_MAX & (RULES_MAX - 1)) == 0, "a mask keeps numbers in bounds");
	for (uint32_t i = 0; i < n; i++)
		s->mark[rows[i] & ROW_RULE_MASK & (RULES_MAX - 1)] = image;
}

uint32_t rule_set_marked(const struct rule_set *s, uint16_t ret_last[IMAGES_MAX])
{
	uint32_t n = 0;

	memset(ret_last, 0, IMAGES_MAX * sizeof *ret_last);
	for (uint32_t i = RULE_FIRST; i < s->next; i++) {
		n += s->mark[i] != 0;
		if (s->mark[i] && s->mark[i] < IMAGES_MAX)
			ret_last[s->mark[i]]++;
	}
	return n - (uint32_t)s->spare.n;     /* spare numbers are marked, too */
}

void rule_set_sweep_free(struct rule_set *s)
{
	assert(s->phase == SWEEP_MARKING);
	s->phase = SWEEP_FREEING;
	s->at = RULE_REFUSED + 1;
}

void rule_set_sweep_cancel(struct rule_set *s, int64_t now_ns)
{
	assert(s->phase == SWEEP_MARKING);
	s->phase = SWEEP_NONE;
	s->due_ns = s->due_full_ns = now_ns + SWEEP_FEW_NS;
}

/* Removes the next FREE_STEP rules from the index, unless they are marked. Returns whether all rules were looked at. Numbers from `next` on need no look: new rules are
 * marked. */
static bool rule_set_forget(struct rule_set *s)
{
	uint32_t end = MIN(s->at + FREE_STEP, s->next);

	for (; s->at < end; s->at++) {
		if (s->mark[s->at])
			continue;
		bool there = map_remove(&s->index, rule_hash(&s->rules[s->at]), s->at);
		assert(there);
		vec_push(&s->resting, (uint16_t)s->at);
		s->freed++;
	}
	return s->at == s->next;
}

bool rule_set_advance(struct rule_set *s, int64_t now_ns)
{
	if (s->phase == SWEEP_FREEING && rule_set_forget(s)) {
		bool few = s->resting.n <= RULES_FEW;
		s->due_full_ns = now_ns + SWEEP_GAP_NS;
		s->due_ns = now_ns + (few ? SWEEP_FEW_NS : SWEEP_GAP_NS);
		s->phase = s->resting.n ? SWEEP_WIPING : SWEEP_NONE;
		if (s->resting.n)
			s->wipe = cache_wiper_order(s->wiper, now_ns);
		return !few;
	}
	if (s->phase == SWEEP_WIPING && cache_wiper_done(s->wiper, s->wipe)) {
		for (size_t i = 0; i < s->resting.n; i++)
			vec_push(&s->spare, s->resting.v[i]);
		s->resting.n = 0;
		s->phase = SWEEP_NONE;
	}
	return false;
}
