/* SPDX-License-Identifier: Apache-2.0 */
/* drop_frames and keep_frames, as google/pprof applies them to what it has read (Profile.RemoveUninteresting). */
#include "base/regex.h"
#include "model/frame.h"
#include "pprof/pprof.h"

#define MAX_EXPRESSION 65536 /* bytes of drop_frames or keep_frames */
#define MAX_NS 2000000000LL  /* limit of matching the functions of one profile */

enum { UNKNOWN, STAYS, DROPPED };
/* For a location: what happens to a stack that contains it. */
enum { CUT_NONE, CUT_BELOW, CUT_HERE };

struct prune {
	struct profile *p;
	struct regex *drop, *keep;
	uint8_t *functions; /* UNKNOWN … */
	uint8_t *locations; /* CUT_NONE … */
	struct regex_meter meter;
};

static int compile(struct regex **ret, const char *what, struct view text, struct err *e)
{
	struct buf b = { 0 };
	if (text.len > MAX_EXPRESSION)
		return err_set(e, ERR_LIMIT, "%s has %zu bytes, more than %u", what, text.len, MAX_EXPRESSION);
	buf_printf(&b, "^(%.*s)$", VIEW_ARG(text));
	int rc = regex_new(ret, buf_view(&b), false, e);
	buf_free(&b);
	return rc ? err_wrap(e, "%s \"%.*s\"", what, (int)MIN(text.len, (size_t)200), text.ptr) : 0;
}

/* 1, 0, or a negative code. */
static int dropped(struct prune *x, uint32_t function, struct err *e)
{
	struct view name = profile_str(x->p, x->p->functions[function].name_str);
	if (!x->functions[function] && name.len) {
		struct view simple = frame_simple_name(name);
		int yes = regex_match(x->drop, simple, &x->meter, e);
		if (yes > 0 && x->keep) {
			int keep = regex_match(x->keep, simple, &x->meter, e);
			yes = keep < 0 ? keep : !keep;
		}
		if (yes < 0)
			return err_wrap(e, "drop_frames and keep_frames");
		x->functions[function] = yes ? DROPPED : STAYS;
	}
	return x->functions[function] == DROPPED;
}

/* From the outermost call inwards: the first that is dropped goes, with all that it called. */
static int prune_location(struct prune *x, uint32_t i, struct err *e)
{
	struct profile_location *l = &x->p->locations[i];
	for (uint32_t k = l->n_lines; k-- > 0;) {
		uint32_t function = x->p->lines[l->first_line + k].function;
		int yes = function ? dropped(x, function - 1, e) : 0;
		if (yes < 0)
			return yes;
		if (!yes)
			continue;
		x->locations[i] = k + 1 == l->n_lines ? CUT_HERE : CUT_BELOW;
		if (x->locations[i] == CUT_BELOW) {
			l->first_line += k + 1;
			l->n_lines -= k + 1;
		}
		return 0;
	}
	return 0;
}

/* From the root to the leaf. Frames that drop_frames matches before any kept frame stay, otherwise nothing would remain. */
static void prune_sample(const struct prune *x, struct profile_sample *s)
{
	const uint32_t *stack = x->p->stack + s->first_location;
	bool stays = false;
	for (uint32_t i = s->n_locations; i-- > 0;) {
		uint8_t cut = x->locations[stack[i]];
		if (cut == CUT_NONE) {
			stays = true;
		} else if (stays) {
			uint32_t gone = cut == CUT_HERE ? i + 1 : i;
			s->first_location += gone;
			s->n_locations -= gone;
			return;
		}
	}
}

static int prune(struct prune *x, struct err *e)
{
	struct profile *p = x->p;
	int rc = compile(&x->drop, "drop_frames", profile_str(p, p->drop_frames_str), e);
	if (!rc && profile_str(p, p->keep_frames_str).len)
		rc = compile(&x->keep, "keep_frames", profile_str(p, p->keep_frames_str), e);
	for (uint32_t i = 0; i < p->n_locations && !rc; i++)
		rc = prune_location(x, i, e);
	for (uint32_t i = 0; i < p->n_samples && !rc; i++)
		prune_sample(x, &p->samples[i]);
	return rc;
}

int pprof_drop_frames(struct profile *p, struct err *e)
{
	if (!profile_str(p, p->drop_frames_str).len)
		return 0;
	struct prune x = { .p = p, .meter = { .max_ns = MAX_NS, .max_name = "2 s of a profile" } };
	x.functions = arena_calloc(&p->arena, (size_t)p->n_functions + 1, 1);
	x.locations = arena_calloc(&p->arena, (size_t)p->n_locations + 1, 1);
	int rc = x.functions && x.locations ? prune(&x, e)
					    : err_set(e, ERR_LIMIT, "the profile needs more than its %zu bytes of memory", p->arena.max);
	regex_unref(x.drop);
	regex_unref(x.keep);
	return rc;
}
