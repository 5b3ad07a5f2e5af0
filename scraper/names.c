/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/names.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "pprof/pprof.h"
#include "scraper/state/table.h"

#define ASK_MAX 4096                   /* number of addresses of one request */
#define RETRY_MS 300000                /* after a failure */
#define KEEP_MS 3600000                /* then everything is asked again: the program may be another one */
#define ADDRESSES_MAX 65536            /* of an endpoint */
#define NAME_MAX_BYTES 4096

struct address {
	uint64_t address;
	uint32_t name; /* index + 1; 0 = the target has none */
};

struct names {
	uint64_t maps;             /* hash of the profile's mappings: others are of another process */
	int64_t born_ms, retry_ms; /* monotonic */
	VEC(struct address) addresses;
	VEC(struct view) texts;    /* owned, each once */
	struct map by_address, by_text;
	size_t bytes, held;        /* about; what the budget counts */
	struct err problem;
};

/* ---- what is known ---- */

static void forget(struct names *n)
{
	for (size_t i = 0; i < n->texts.n; i++)
		free((char *)(uintptr_t)n->texts.v[i].ptr);
	vec_free(&n->texts);
	vec_free(&n->addresses);
	map_free(&n->by_address);
	map_free(&n->by_text);
	n->bytes = 0;
}

void names_free(struct names *n, struct budget *b)
{
	if (!n)
		return;
	forget(n);
	budget_give(b, n->held);
	free(n);
}

static struct address *find(const struct names *n, uint64_t address)
{
	uint64_t h = hash_u64(address);
	uint32_t id;
	for (size_t at = map_start(&n->by_address, h); map_probe(&n->by_address, h, &at, &id);)
		if (n->addresses.v[id].address == address)
			return &n->addresses.v[id];
	return NULL;
}

static void add_address(struct names *n, uint64_t address)
{
	if (find(n, address) || n->addresses.n >= ADDRESSES_MAX)
		return;
	map_insert(&n->by_address, hash_u64(address), (uint32_t)n->addresses.n);
	vec_push(&n->addresses, (struct address){ .address = address });
	n->bytes += sizeof(struct address) + 2 * sizeof(uint64_t);
}

static uint32_t text_of(struct names *n, struct view text)
{
	uint64_t h = hash_view(text);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&n->by_text, h, id, n->texts.n, view_eq(n->texts.v[id], text)))
		return id + 1;
	vec_push(&n->texts, view_make(xstrndup(text.ptr, text.len), text.len));
	n->bytes += text.len + sizeof(struct view) + 2 * sizeof(uint64_t);
	return (uint32_t)n->texts.n;
}

static bool hex(struct view *v, uint64_t *ret)
{
	size_t i = 0;
	uint64_t x = 0;
	for (; i < v->len && i <= 16; i++) {
		char c = (char)(v->ptr[i] | 0x20);
		int digit = v->ptr[i] >= '0' && v->ptr[i] <= '9' ? v->ptr[i] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (digit < 0)
			break;
		x = x << 4 | (uint64_t)digit;
	}
	*ret = x;
	*v = view_make(v->ptr + i, v->len - i);
	return i > 0 && i <= 16;
}

/* "0xADDRESS NAME" anywhere in the line. */
static void take_line(struct names *n, struct view line)
{
	const char *at = memmem(line.ptr, line.len, "0x", 2);
	uint64_t address;
	if (!at)
		return;
	struct view v = view_make(at + 2, (size_t)(line.ptr + line.len - at) - 2);
	if (!hex(&v, &address) || !v.len || (*v.ptr != ' ' && *v.ptr != '\t'))
		return;
	while (v.len && (*v.ptr == ' ' || *v.ptr == '\t'))
		v = view_make(v.ptr + 1, v.len - 1);
	while (v.len && (v.ptr[v.len - 1] == '\r' || v.ptr[v.len - 1] == ' '))
		v.len--;
	struct address *known = find(n, address);
	if (known && v.len && v.len <= NAME_MAX_BYTES)
		known->name = text_of(n, v);
}

static void each_part(struct names *n, struct view text, char between, void (*take)(struct names *n, struct view part))
{
	while (text.len) {
		const char *end = memchr(text.ptr, between, text.len);
		size_t len = end ? (size_t)(end - text.ptr) : text.len;
		take(n, view_make(text.ptr, len));
		text = view_make(text.ptr + len + (end != NULL), text.len - len - (end != NULL));
	}
}

static void take_asked(struct names *n, struct view part)
{
	uint64_t address;
	struct view v = view_make(part.ptr + MIN(part.len, (size_t)2), part.len - MIN(part.len, (size_t)2));
	if (hex(&v, &address))
		add_address(n, address);
}

/* The answer that came back with the work. A requested address without an answer has no name. */
static void take_answer(struct names *n, struct work *w, int64_t now_ms)
{
	struct name_request *r = &w->names;
	if (!r->state)
		return;
	if (r->state == NAMES_FAILED) {
		n->problem = r->err;
		n->retry_ms = now_ms + RETRY_MS;
	} else if (r->state == NAMES_SKIPPED) {
		r->skip = true;
	} else {
		each_part(n, buf_view(&r->ask), '+', take_asked);
		each_part(n, buf_view(&r->answer), '\n', take_line);
		err_clear(&n->problem);
	}
	r->state = NAMES_NONE;
	buf_free(&r->ask);
	buf_free(&r->answer);
}

/* ---- what a profile needs ---- */

static bool needs_name(const struct profile *p, const struct profile_location *l)
{
	return l->address && !l->n_lines && l->mapping && !p->mappings[l->mapping - 1].has_functions;
}

bool names_apply_to(const struct scrape_job *j)
{
	const struct job_config *c = j->work->job;
	return !c->agent && !c->series_labels.n && !j->p->n_functions && j->p->n_locations;
}

static uint64_t hash_maps(const struct profile *p)
{
	uint64_t h = p->n_mappings;
	for (uint32_t i = 0; i < p->n_mappings; i++) {
		const struct profile_mapping *m = &p->mappings[i];
		h = hash_u64(h ^ hash_u64(m->start) ^ hash_view(profile_str(p, m->file_str)));
		h = hash_u64(h ^ m->limit ^ hash_view(profile_str(p, m->build_id_str)));
	}
	return h;
}

static struct names *names_of(struct scrape_job *j, int64_t now_ms)
{
	struct endpoint *ep = j->ep;
	uint64_t maps = hash_maps(j->p);
	if (!ep->names)
		ep->names = NEW(struct names);
	struct names *n = ep->names;
	if (n->maps != maps || now_ms - n->born_ms > KEEP_MS) {
		forget(n);
		n->maps = maps;
		n->born_ms = now_ms;
	}
	return n;
}

/* Kept names are counted; without room they are used for this scrape, and forgotten. */
static void account(struct scrape_job *j, struct names *n)
{
	struct budget *b = &j->ep->memory;
	if (n->bytes > n->held && budget_take(b, n->bytes - n->held, BUDGET_KEPT))
		n->held = n->bytes;
	if (n->bytes > n->held || n->addresses.n >= ADDRESSES_MAX)
		n->born_ms = INT64_MIN / 2;
	if (n->bytes < n->held) {
		budget_give(b, n->held - n->bytes);
		n->held = n->bytes;
	}
}

bool names_wanted(struct scrape_job *j)
{
	struct work *w = j->work;
	const struct profile *p = j->p;
	int64_t now = clock_mono_ms();
	size_t wanted = 0;
	if (!names_apply_to(j))
		return false;
	struct names *n = names_of(j, now);
	take_answer(n, w, now);
	if (w->names.skip || w->names.rounds >= NAMES_ROUNDS_MAX || now < n->retry_ms)
		return false;
	for (uint32_t i = 0; i < p->n_locations && wanted < ASK_MAX && n->addresses.n + wanted < ADDRESSES_MAX; i++)
		if (needs_name(p, &p->locations[i]) && !find(n, p->locations[i].address)) {
			buf_printf(&w->names.ask, "%s0x%llx", wanted ? "+" : "", (unsigned long long)p->locations[i].address);
			wanted++;
		}
	return wanted && !w->names.ask.overflow;
}

int names_put(struct scrape_job *j)
{
	struct profile *p = j->p;
	struct names *n = j->ep->names;
	if (!n)
		return 0;
	size_t names = n->texts.n;
	uint32_t *function = arena_calloc(&p->arena, names + 1, sizeof *function); /* index + 1, by name */
	p->functions = arena_calloc(&p->arena, names + 1, sizeof *p->functions);
	p->lines = arena_calloc(&p->arena, (size_t)p->n_locations + 1, sizeof *p->lines);
	struct view *strings = arena_alloc(&p->arena, (p->n_strings + names + 1) * sizeof *strings);
	if (!function || !p->functions || !p->lines || !strings)
		return err_set(&j->err, ERR_LIMIT, "the profile is over the limit of %zu bytes of memory", p->arena.max);
	memcpy(strings, p->strings, p->n_strings * sizeof *strings);
	p->strings = strings;
	p->n_functions = p->n_lines = 0;
	for (uint32_t i = 0; i < p->n_locations; i++) {
		struct profile_location *l = &p->locations[i];
		const struct address *a = l->address && !l->n_lines && l->mapping ? find(n, l->address) : NULL;
		if (!a || !a->name)
			continue;
		uint32_t *f = &function[a->name - 1];
		if (!*f) {
			strings[p->n_strings] = n->texts.v[a->name - 1];
			p->functions[p->n_functions] = (struct profile_function){ .name_str = p->n_strings, .system_name_str = p->n_strings };
			p->n_strings++;
			*f = ++p->n_functions;
		}
		l->first_line = p->n_lines;
		l->n_lines = 1;
		p->lines[p->n_lines++].function = *f;
		p->mappings[l->mapping - 1].has_functions = true;
	}
	account(j, n);
	return 0;
}

char *names_problem(const struct endpoint *ep)
{
	return ep->names && ep->names->problem.code ? xasprintf("frames have no names: %s", ep->names->problem.msg) : NULL;
}
