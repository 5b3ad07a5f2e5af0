/* SPDX-License-Identifier: Apache-2.0 */
/* Any rules on any labels. Lines of a rule's settings, tabs between them, up to an empty line; then labels, NAME=VALUE:
 *
 *	action  sources,sources  separator  target_label  replacement  regex  modulus      ("-" = as if not given)
 *
 * Whatever a rule does, the labels stay sorted, unique and not empty; and each action does no more than its own. */
#include <string.h>

#include "base/num.h"
#include "model/relabel.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "relabel";

#define MAX_RULES 16
#define MAX_LABELS 64
#define MAX_SOURCES 8

static const char *const actions[] = { "replace", "keep", "drop", "keepequal", "dropequal", "hashmod", "labelmap", "labeldrop",
				       "labelkeep", "lowercase", "uppercase" };

/* The next piece of *at up to `end`, in the arena. */
static const char *piece(struct arena *a, struct view *at, char end)
{
	const char *stop = memchr(at->ptr, end, at->len);
	size_t n = stop ? (size_t)(stop - at->ptr) : at->len;
	const char *text = arena_strndup(a, at->ptr, n);
	size_t skip = MIN(at->len, n + 1);
	*at = view_make(at->ptr + skip, at->len - skip);
	return text;
}

static const char *given(const char *text)
{
	return strcmp(text, "-") == 0 ? NULL : text;
}

static bool read_rule(struct arena *a, struct view line, struct relabel_rule *r)
{
	const char *action = piece(a, &line, '\t');
	struct view sources = view_of(piece(a, &line, '\t'));
	const char **names = arena_alloc(a, MAX_SOURCES * sizeof *names);
	int64_t modulus = 0;
	*r = (struct relabel_rule){ .source_labels = names };
	while (r->action < ARRAY_LEN(actions) && strcmp(action, actions[r->action]) != 0)
		r->action++;
	if (r->action == ARRAY_LEN(actions))
		return false;
	while (sources.len && r->n_source_labels < MAX_SOURCES)
		names[r->n_source_labels++] = piece(a, &sources, ',');
	r->separator = given(piece(a, &line, '\t'));
	r->target_label = given(piece(a, &line, '\t'));
	r->replacement = given(piece(a, &line, '\t'));
	r->regex = given(piece(a, &line, '\t'));
	num_parse_i64(line, &modulus);
	r->modulus = modulus > 0 ? (uint64_t)modulus : 0;
	return true;
}

static bool has_name(struct labels l, struct view name)
{
	return labels_get(l, name).len > 0;
}

static void check_set(struct labels l)
{
	for (size_t i = 0; i < l.n; i++) {
		REQUIRE(l.v[i].name.len && l.v[i].value.len, "an empty name or value");
		REQUIRE(!i || view_cmp(l.v[i - 1].name, l.v[i].name) < 0, "not sorted, or twice");
	}
}

/* What the action may have done to the labels. */
static void check_action(const struct relabel_rule *r, struct labels before, struct labels after)
{
	int64_t n = 0;
	switch (r->action) {
	case RELABEL_KEEP:
	case RELABEL_DROP:
	case RELABEL_KEEPEQUAL:
	case RELABEL_DROPEQUAL:
		REQUIRE(labels_eq(before, after), "a filter changed labels");
		break;
	case RELABEL_LABELDROP:
	case RELABEL_LABELKEEP:
		for (size_t i = 0; i < after.n; i++)
			REQUIRE(view_eq(labels_get(before, after.v[i].name), after.v[i].value), "a label that was not there");
		break;
	case RELABEL_LABELMAP:
		for (size_t i = 0; i < before.n; i++)
			REQUIRE(has_name(after, before.v[i].name), "labelmap took a label away");
		break;
	case RELABEL_HASHMOD:
		REQUIRE(num_parse_i64(labels_get(after, view_of(r->target_label)), &n) && n >= 0 && (uint64_t)n < r->modulus, "hashmod");
		break;
	default:
		for (size_t i = 0, changed = 0; i < before.n; i++) {
			changed += !view_eq(labels_get(after, before.v[i].name), before.v[i].value);
			REQUIRE(changed <= 1, "more than one label changed");
		}
	}
}

/* One rule; whether the labels are kept. */
static bool apply(struct relabel_rule *r, struct labels_builder *b, struct arena *a)
{
	struct err e = { 0 };
	struct labels *before = labels_dup(labels_builder_finish(b));
	int rc = relabel_apply(r, 1, b, a, &e);
	REQUIRE(rc >= 0 || e.msg[0], "an error without words");
	if (rc > 0) {
		struct labels after = labels_builder_finish(b);
		check_set(after);
		check_action(r, *before, after);
	}
	free(before);
	return rc > 0;
}

static void run(struct arena *a, struct view in)
{
	struct relabel_rule rules[MAX_RULES];
	struct labels_builder b;
	struct err e = { 0 };
	size_t n = 0;
	for (const char *line; in.len && *(line = piece(a, &in, '\n'));)
		if (n < MAX_RULES && read_rule(a, view_of(line), &rules[n])) {
			if (relabel_rule_init(&rules[n], &e) == 0)
				n++;
			else
				REQUIRE(e.msg[0], "an error without words");
		}
	labels_builder_init(&b, (struct labels){ 0 });
	for (size_t i = 0; i < MAX_LABELS && in.len; i++) {
		struct view line = view_of(piece(a, &in, '\n'));
		struct view name = view_of(piece(a, &line, '='));
		if (name.len)
			labels_builder_set(&b, name, line);
	}
	bool kept = true;
	for (size_t i = 0; i < n; i++) {
		kept = kept && apply(&rules[i], &b, a);
		relabel_rule_release(&rules[i]);
	}
	labels_builder_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a CLEANUP(arena_free);
	if (n > 1 << 12)
		return 0;
	arena_init(&a, (size_t)1 << 20);
	run(&a, view_make((const char *)data, n));
	return 0;
}
