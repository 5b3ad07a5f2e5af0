/* SPDX-License-Identifier: Apache-2.0 */
/* Relabelling as Prometheus defines it: a rule joins the values of its source labels and replaces, filters or renames
 * by what its anchored expression says. Pure: its callers own the labels and the arena. Rules are read only once
 * compiled, so any number of threads may apply them. */
#include "model/relabel.h"

#include <ctype.h>
#include <locale.h>
#include <pthread.h>
#include <wctype.h>

#include "base/utf8.h"
#include "model/md5.h"

static const char *const actions[] = { "replace", "keep", "drop", "keepequal", "dropequal", "hashmod",
				       "labelmap", "labeldrop", "labelkeep", "lowercase", "uppercase" };

static bool valid_name(struct view v)
{
	return v.len && utf8_valid(v);
}

/* Which settings an action may have: the rest must be left alone, or it is a mistake. */
struct allowed {
	bool sources, target, regex, replacement, separator, needs_target, modulus;
};
static const struct allowed table[] = {
	[RELABEL_REPLACE] = { true, true, true, true, true, true, true },
	[RELABEL_KEEP] = { true, true, true, true, true, false, true },
	[RELABEL_DROP] = { true, true, true, true, true, false, true },
	[RELABEL_KEEPEQUAL] = { true, true, false, false, false, true },
	[RELABEL_DROPEQUAL] = { true, true, false, false, false, true },
	[RELABEL_HASHMOD] = { true, true, true, true, true, true, true },
	[RELABEL_LABELMAP] = { true, true, true, true, true, false, true },
	[RELABEL_LABELDROP] = { false, false, true, false, false, false },
	[RELABEL_LABELKEEP] = { false, false, true, false, false, false },
	[RELABEL_LOWERCASE] = { true, true, true, false, true, true, true },
	[RELABEL_UPPERCASE] = { true, true, true, false, true, true, true },
};

static int refuse(struct err *e, const struct relabel_rule *r, const char *what)
{
	return err_set(e, ERR_BAD_DATA, "action %s does not take %s", actions[r->action], what);
}

static int check_rule(const struct relabel_rule *r, struct err *e)
{
	const struct allowed *a = &table[r->action];
	bool has_target = r->target_label && r->target_label[0];
	if (a->needs_target && !has_target)
		return err_set(e, ERR_BAD_DATA, "action %s needs a target_label", actions[r->action]);
	if (!a->sources && r->n_source_labels)
		return refuse(e, r, "source_labels");
	if (!a->target && has_target)
		return refuse(e, r, "target_label");
	if (!a->regex && r->regex && strcmp(r->regex, "(.*)") != 0)
		return refuse(e, r, "regex");
	if (!a->replacement && r->replacement && strcmp(r->replacement, "$1") != 0)
		return refuse(e, r, "replacement");
	if (!a->separator && r->separator && strcmp(r->separator, ";") != 0)
		return refuse(e, r, "separator");
	if (!a->modulus && r->modulus)
		return refuse(e, r, "modulus");
	if (r->action == RELABEL_HASHMOD && !r->modulus)
		return err_set(e, ERR_BAD_DATA, "action hashmod needs a modulus that is not 0");
	if (r->action == RELABEL_LABELMAP && r->replacement && !valid_name(view_of(r->replacement)))
		return err_set(e, ERR_BAD_DATA, "\"%s\" is no name for a label", r->replacement);
	if (has_target && !valid_name(view_of(r->target_label)))
		return err_set(e, ERR_BAD_DATA, "target_label is not valid UTF-8");
	return 0;
}

int relabel_rule_init(struct relabel_rule *r, struct err *e)
{
	int rc = check_rule(r, e);
	if (rc)
		return rc;
	if (!r->regex)
		r->regex = "(.*)";
	if (!r->separator)
		r->separator = ";";
	if (!r->replacement)
		r->replacement = "$1";
	if (!r->target_label)
		r->target_label = "";
	rc = regex_new(&r->re, view_of(r->regex), true, e);
	return rc ? err_wrap(e, "regex") : 0;
}

void relabel_rule_release(struct relabel_rule *r)
{
	if (r->re)
		regex_unref(r->re);
	r->re = NULL;
}

static const struct relabel_limits usual = { .max_ns = 1000000000, .max_name = "1 s of relabelling", .value_max = (size_t)1 << 20 };

/* The rules at work on one set of labels. */
struct run {
	struct regex_meter meter;
	size_t value_max;
};

/* Nothing that a rule makes gets longer than that: a replacement may name a group thousands of times. */
static struct buf value_buf(const struct run *run)
{
	return (struct buf){ .max = run->value_max };
}

static int arena_full(struct err *e)
{
	return err_set(e, ERR_LIMIT, "relabelling: the labels grew over their limit");
}

static int keep_view(struct arena *a, struct view v, struct view *ret, struct err *e)
{
	*ret = arena_view(a, v);
	return ret->ptr ? 0 : arena_full(e);
}

static int join_sources(const struct relabel_rule *r, const struct labels_builder *b, struct arena *a, const struct run *run,
			struct view *ret, struct err *e)
{
	if (r->n_source_labels == 1) {
		*ret = labels_builder_get(b, view_of(r->source_labels[0]));
		return 0;
	}
	struct buf joined = value_buf(run);
	for (size_t i = 0; i < r->n_source_labels; i++) {
		if (i)
			buf_puts(&joined, r->separator);
		buf_putv(&joined, labels_builder_get(b, view_of(r->source_labels[i])));
	}
	int rc = joined.overflow ? arena_full(e) : keep_view(a, buf_view(&joined), ret, e);
	buf_free(&joined);
	return rc;
}

/* Sets the label; name and value move into the arena. */
static int set_label(struct labels_builder *b, struct arena *a, struct view name, struct view value, struct err *e)
{
	struct view n, v;
	int rc = keep_view(a, name, &n, e);
	if (!rc)
		rc = keep_view(a, value, &v, e);
	if (!rc)
		labels_builder_set(b, n, v);
	return rc;
}

static int do_replace(const struct relabel_rule *r, struct labels_builder *b, struct arena *a, struct view joined,
		      struct run *run, struct err *e)
{
	struct buf name = value_buf(run), value = value_buf(run);
	int rc = regex_expand(r->re, joined, view_of(r->target_label), &name, &run->meter, e);
	if (rc > 0 && valid_name(buf_view(&name)))
		rc = regex_expand(r->re, joined, view_of(r->replacement), &value, &run->meter, e);
	else if (rc > 0)
		rc = 0;
	if (name.overflow || value.overflow)
		rc = arena_full(e);
	if (rc > 0)
		rc = set_label(b, a, buf_view(&name), buf_view(&value), e);
	buf_free(&name);
	buf_free(&value);
	return rc;
}

static int do_hashmod(const struct relabel_rule *r, struct labels_builder *b, struct arena *a, struct view joined,
		      struct err *e)
{
	uint8_t sum[16];
	uint64_t h = 0;
	md5_sum(joined.ptr, joined.len, sum);
	for (unsigned i = 8; i < 16; i++)
		h = h << 8 | sum[i];
	struct buf v = { 0 };
	buf_printf(&v, "%llu", (unsigned long long)(h % r->modulus));
	int rc = set_label(b, a, view_of(r->target_label), buf_view(&v), e);
	buf_free(&v);
	return rc;
}

static locale_t utf8_locale;
static pthread_once_t locale_once = PTHREAD_ONCE_INIT;

static void make_locale(void)
{
	utf8_locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static uint32_t change_case(uint32_t cp, bool up)
{
	if (cp < 128 || !utf8_locale)
		return cp < 128 ? (uint32_t)(up ? toupper((int)cp) : tolower((int)cp)) : cp;
	return (uint32_t)(up ? towupper_l((wint_t)cp, utf8_locale) : towlower_l((wint_t)cp, utf8_locale));
}

static int do_case(const struct relabel_rule *r, struct labels_builder *b, struct arena *a, struct view v, const struct run *run,
		   struct err *e)
{
	struct buf out = value_buf(run);
	pthread_once(&locale_once, make_locale);
	for (size_t i = 0; i < v.len;) {
		uint32_t cp;
		char enc[4];
		unsigned n = utf8_decode(v.ptr + i, v.len - i, &cp);
		if (n)
			buf_put(&out, enc, utf8_encode(change_case(cp, r->action == RELABEL_UPPERCASE), enc));
		else
			buf_putc(&out, v.ptr[i]);
		i += n ? n : 1;
	}
	int rc = out.overflow ? arena_full(e) : set_label(b, a, view_of(r->target_label), buf_view(&out), e);
	buf_free(&out);
	return rc;
}

/* labelmap, labeldrop, labelkeep: over the labels before the rule. */
static int do_names(const struct relabel_rule *r, struct labels_builder *b, struct arena *a, struct run *run, struct err *e)
{
	struct labels was = labels_copy(a, labels_builder_finish(b));
	if (was.n && !was.v)
		return arena_full(e);
	for (size_t i = 0; i < was.n; i++) {
		struct buf name = value_buf(run);
		int rc = r->action == RELABEL_LABELMAP
				 ? regex_expand(r->re, was.v[i].name, view_of(r->replacement), &name, &run->meter, e)
				 : regex_match(r->re, was.v[i].name, &run->meter, e);
		if (name.overflow)
			rc = arena_full(e);
		if (rc >= 0 && r->action != RELABEL_LABELMAP && (rc == 1) == (r->action == RELABEL_LABELDROP))
			labels_builder_del(b, was.v[i].name);
		if (rc > 0 && r->action == RELABEL_LABELMAP)
			rc = valid_name(buf_view(&name)) ? set_label(b, a, buf_view(&name), was.v[i].value, e) : 0;
		buf_free(&name);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* 1: goes on; 0: dropped. */
static int do_filter(const struct relabel_rule *r, const struct labels_builder *b, struct view joined, struct run *run,
		     struct err *e)
{
	if (r->action == RELABEL_KEEPEQUAL || r->action == RELABEL_DROPEQUAL)
		return view_eq(labels_builder_get(b, view_of(r->target_label)), joined) == (r->action == RELABEL_KEEPEQUAL);
	int rc = regex_match(r->re, joined, &run->meter, e);
	return rc < 0 ? rc : rc == (r->action == RELABEL_KEEP);
}

static int apply_one(const struct relabel_rule *r, struct labels_builder *b, struct arena *a, struct run *run, struct err *e)
{
	struct view joined;
	int rc = join_sources(r, b, a, run, &joined, e);
	if (rc)
		return rc;
	switch (r->action) {
	case RELABEL_KEEP:
	case RELABEL_DROP:
	case RELABEL_KEEPEQUAL:
	case RELABEL_DROPEQUAL:
		return do_filter(r, b, joined, run, e);
	case RELABEL_REPLACE:
		rc = do_replace(r, b, a, joined, run, e);
		break;
	case RELABEL_HASHMOD:
		rc = do_hashmod(r, b, a, joined, e);
		break;
	case RELABEL_LOWERCASE:
	case RELABEL_UPPERCASE:
		rc = do_case(r, b, a, joined, run, e);
		break;
	default:
		rc = do_names(r, b, a, run, e);
	}
	return rc < 0 ? rc : 1;
}

const char *relabel_action_text(enum relabel_action a)
{
	return actions[a];
}

static int trace(const struct relabel_rule *rules, size_t n, struct labels_builder *b, struct arena *a,
		 const struct relabel_limits *l, void (*step)(void *arg, const struct relabel_rule *r, struct labels after, bool keep), void *arg, size_t *ret_rule,
		 struct err *e)
{
	struct run run = { .meter = { .max_ns = l->max_ns, .max_name = l->max_name }, .value_max = l->value_max };
	size_t i = 0;
	int rc = 1;
	for (; i < n && rc > 0; i++) {
		rc = apply_one(&rules[i], b, a, &run, e);
		if (step && rc >= 0)
			step(arg, &rules[i], rc ? labels_builder_finish(b) : (struct labels){ 0 }, rc > 0);
	}
	if (ret_rule)
		*ret_rule = rc > 0 ? n : i - 1;
	if (rc < 0)
		return err_wrap(e, "rule %zu", i);
	for (; step && !rc && i < n; i++)
		step(arg, &rules[i], (struct labels){ 0 }, false);
	return rc;
}

int relabel_trace(const struct relabel_rule *rules, size_t n, struct labels_builder *b, struct arena *a,
		  void (*step)(void *arg, const struct relabel_rule *r, struct labels after, bool keep), void *arg, size_t *ret_rule,
		  struct err *e)
{
	return trace(rules, n, b, a, &usual, step, arg, ret_rule, e);
}

int relabel_within(const struct relabel_rule *rules, size_t n, struct labels_builder *b, struct arena *a,
		   const struct relabel_limits *l, size_t *ret_rule, struct err *e)
{
	return trace(rules, n, b, a, l ? l : &usual, NULL, NULL, ret_rule, e);
}

int relabel_apply(const struct relabel_rule *rules, size_t n, struct labels_builder *b, struct arena *a, struct err *e)
{
	return relabel_within(rules, n, b, a, NULL, NULL, e);
}
