/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/text/metric_families.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/utf8.h"

void family_lines_add(struct family_lines *l, bool is_help, struct view name, struct view text)
{
	if (l->v.n >= FAMILY_LINES_MAX || name.len > FAMILY_NAME_MAX)
		return;
	text = utf8_prefix(text, FAMILY_HELP_MAX);
	l->hash = hash_bytes_seed(name.ptr, name.len, l->hash + is_help + 1);
	l->hash = hash_bytes_seed(text.ptr, text.len, l->hash);
	vec_push(&l->v, (struct family_line){ name, text, is_help, (uint32_t)l->v.n });
}

void family_lines_release(struct family_lines *l)
{
	vec_free(&l->v);
}

void metric_families_unref(struct metric_families *f)
{
	if (!f || --f->refs)
		return;
	budget_give(f->budget, f->bytes);
	free(f);
}

const struct metric_family *metric_families_find(const struct metric_families *f, struct view name)
{
	size_t lo = 0, hi = f ? f->n : 0;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = view_cmp(f->v[mid].name, name);
		if (!c)
			return &f->v[mid];
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	const struct family_line *x = a, *y = b;
	int c = view_cmp(x->name, y->name);
	return c ? c : (x->at > y->at) - (x->at < y->at);
}

/* The text of a help without its escapes, into out, which has room for all of it. */
static size_t unescape(struct view v, char *out)
{
	size_t n = 0;
	for (size_t i = 0; i < v.len; i++) {
		char next = i + 1 < v.len ? v.ptr[i + 1] : 0;
		bool escape = v.ptr[i] == '\\' && (next == '\\' || next == 'n');
		out[n++] = !escape ? v.ptr[i] : next == 'n' ? '\n' : next;
		i += escape;
	}
	return n;
}

/* One on its way into a table. */
struct family_draft {
	struct metric_family f;
	bool escaped; /* its help is as in the body */
};

struct drafts {
	VEC(struct family_draft) v;
	size_t text;  /* bytes of all strings */
};

static void add(struct drafts *d, struct metric_family f, bool escaped)
{
	if (!f.type.len)
		f.type = VIEW("unknown");
	d->text += f.name.len + f.type.len + f.help.len;
	vec_push(&d->v, (struct family_draft){ f, escaped });
}

/* A family that this scrape does not have. */
static void keep_gone(struct drafts *d, const struct metric_family *old, uint32_t scrape)
{
	struct metric_family f = *old;
	f.gone = f.gone ? f.gone : scrape;
	if (scrape - f.gone < FAMILY_KEPT_SCRAPES)
		add(d, f, false);
}

/* The lines of one family, from *i on; values without a line are unchanged. The last of a kind counts. */
static void take_lines(struct drafts *d, const struct family_lines *l, size_t *i, const struct metric_family *old)
{
	struct metric_family f = old ? *old : (struct metric_family){ .name = l->v.v[*i].name };
	bool escaped = false;
	struct view name = l->v.v[*i].name;
	f.gone = 0;
	for (; *i < l->v.n && view_eq(l->v.v[*i].name, name); ++*i) {
		struct view text = l->v.v[*i].text;
		if (l->v.v[*i].is_help) {
			f.help = text;
			escaped = true;
		} else {
			f.type = view_eqs(text, "untyped") ? VIEW("unknown") : text;
		}
	}
	add(d, f, escaped);
}

static struct view put(char **at, struct view v, bool escaped)
{
	char *to = *at;
	size_t n = v.len;
	if (escaped)
		n = unescape(v, to);
	else if (n)
		memcpy(to, v.ptr, n);
	*at += n;
	return view_make(to, n);
}

static struct metric_families *make(const struct drafts *d, uint64_t hash, struct budget *b)
{
	size_t bytes = sizeof(struct metric_families) + d->v.n * sizeof(struct metric_family) + d->text + 1;
	if (!budget_take(b, bytes, BUDGET_KEPT))
		return NULL;
	struct metric_families *f = xmalloc(bytes);
	*f = (struct metric_families){ .refs = 1, .budget = b, .bytes = bytes, .hash = hash, .n = d->v.n };
	char *at = (char *)(f->v + f->n);
	for (size_t i = 0; i < f->n; i++) {
		const struct family_draft *x = &d->v.v[i];
		f->v[i].name = put(&at, x->f.name, false);
		f->v[i].type = put(&at, x->f.type, false);
		f->v[i].help = put(&at, x->f.help, x->escaped);
		f->v[i].gone = x->f.gone;
		if (x->f.gone && (!f->oldest_gone || x->f.gone < f->oldest_gone))
			f->oldest_gone = x->f.gone;
	}
	return f;
}

struct metric_families *metric_families_next(const struct metric_families *old, struct family_lines *l, uint32_t scrape, struct budget *b)
{
	struct drafts d = { 0 };
	bool due = old && old->oldest_gone && scrape - old->oldest_gone >= FAMILY_KEPT_SCRAPES;
	size_t n_old = old ? old->n : 0;
	if (old ? old->hash == l->hash && !due : !l->v.n)
		return NULL;
	if (l->v.n)
		qsort(l->v.v, l->v.n, sizeof *l->v.v, by_name);
	for (size_t i = 0, k = 0; i < l->v.n || k < n_old;) {
		int c = i == l->v.n ? 1 : k == n_old ? -1 : view_cmp(l->v.v[i].name, old->v[k].name);
		if (c > 0)
			keep_gone(&d, &old->v[k++], scrape);
		else
			take_lines(&d, l, &i, c ? NULL : &old->v[k++]);
	}
	struct metric_families *f = make(&d, l->hash, b);
	vec_free(&d.v);
	return f;
}
