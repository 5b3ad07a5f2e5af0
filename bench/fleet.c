/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/fleet.h"

#include "base/num.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/measure.h"
#include "pprof/pprof.h"

static const uint32_t pool_sizes[SERVICES] = { 12000, 10000, 6000, 20000 };

static uint64_t next(uint64_t *s)
{
	*s += 0x9e3779b97f4a7c15u;
	return hash_u64(*s);
}

static double uniform(struct bench_fleet *b)
{
	return (double)(next(&b->random) >> 11) * 0x1p-53;
}

static double gauss(struct bench_fleet *b)
{
	return sqrt(-2 * log(uniform(b) + 1e-12)) * cos(6.283185307 * uniform(b));
}

/* ---- stacks ---- */

static uint32_t name_id(struct bench_fleet *b, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t id;
	for (size_t at = map_start(&b->by_name, h); map_probe(&b->by_name, h, &at, &id);)
		if (view_eqs(v, b->names.v[id]))
			return id;
	id = (uint32_t)b->names.n;
	map_insert(&b->by_name, h, id);
	vec_push(&b->names, xstrndup(v.ptr, v.len));
	return id;
}

static bool stack_eq(const struct stack *a, const struct stack *b)
{
	return a->n == b->n && memcmp(a->names, b->names, a->n * sizeof *a->names) == 0;
}

/* False, and freed, if it is there already. */
static bool keep_stack(struct service *s, struct stack x)
{
	uint64_t h = hash_bytes(x.names, x.n * sizeof *x.names);
	uint32_t id;
	if (MAP_FIND_OR_ADD(&s->seen, h, id, s->stacks.n, stack_eq(&s->stacks.v[id], &x))) {
		free(x.names);
		return false;
	}
	vec_push(&s->stacks, x);
	return true;
}

static void add_stack(struct bench_fleet *b, struct service *s, const struct profile *p, const struct profile_sample *x)
{
	VEC(uint32_t) names = { 0 };
	for (uint32_t i = 0; i < x->n_locations; i++) {
		const struct profile_location *l = &p->locations[p->stack[x->first_location + i]];
		for (uint32_t k = 0; k < l->n_lines; k++) {
			uint32_t f = p->lines[l->first_line + k].function;
			vec_push(&names, name_id(b, f ? profile_str(p, p->functions[f - 1].name_str) : VIEW("?")));
		}
	}
	keep_stack(s, (struct stack){ .names = names.v, .n = (uint32_t)MIN(names.n, 256) });
}

static void load_corpus(struct bench_fleet *b)
{
	static const char *const files[SERVICES] = { "profile1.pb.gz", "alloc_objects.pb.gz", "fgprof.pb.gz", "alloc_space_delta.pb.gz" };
	const char *dir = getenv("PYRRHA_CORPUS");
	for (int i = 0; dir && i < SERVICES; i++) {
		AUTOFREE char *path = xasprintf("%s/%s", dir, files[i]);
		struct buf bytes = { 0 };
		if (buf_read_file(&bytes, path, NULL))
			continue;
		struct profile p;
		struct err e;
		profile_init(&p, 0);
		if (pprof_decode(bytes.ptr, bytes.len, NULL, &p, &e))
			measure_die(path, &e);
		for (uint32_t k = 0; k < p.n_samples && k < pool_sizes[i]; k++)
			add_stack(b, &b->services[i], &p, &p.samples[k]);
		profile_release(&p);
		buf_free(&bytes);
	}
}

/* Without a corpus: stacks of a made-up program. */
static void seed_stack(struct bench_fleet *b, struct service *s, uint32_t i)
{
	char name[64];
	uint32_t depth = 8 + (uint32_t)(next(&b->random) % 32);
	struct stack x = { .names = xcalloc(depth, sizeof *x.names), .n = depth };
	for (uint32_t d = 0; d < depth; d++) {
		snprintf(name, sizeof name, "pkg%u.(*Type).method%u", d, (unsigned)(hash_u64((uint64_t)i * 64 + d) % (2 + d * 3)));
		x.names[depth - 1 - d] = name_id(b, view_of(name));
	}
	keep_stack(s, x);
}

/* The leaf side of one stack on the root side of another, where they share a function. */
static bool cross(struct bench_fleet *b, struct service *s)
{
	const struct stack *x = &s->stacks.v[next(&b->random) % s->stacks.n], *y = &s->stacks.v[next(&b->random) % s->stacks.n];
	if (!x->n || !y->n)
		return false;
	uint32_t i = (uint32_t)(next(&b->random) % x->n), k = 0;
	while (k < y->n && y->names[k] != x->names[i])
		k++;
	if (k == y->n || x == y || i + y->n - k > 120)
		return false;
	struct stack z = { .names = xcalloc(i + y->n - k, sizeof *z.names), .n = i + y->n - k };
	memcpy(z.names, x->names, i * sizeof *z.names);
	memcpy(z.names + i, y->names + k, (y->n - k) * sizeof *z.names);
	return keep_stack(s, z);
}

uint64_t fleet_hash_name(uint64_t h, struct view name)
{
	return hash_stable_seed(name.ptr, name.len, h);
}

/* A function that about every tenth stack of service 1 has. */
static void choose_function(struct bench_fleet *b)
{
	const struct service *s = &b->services[1];
	uint32_t *count = xcalloc(b->names.n + 1, sizeof *count);
	for (size_t i = 0; i < s->stacks.n; i++)
		for (uint32_t k = 0; k < s->stacks.v[i].n; k++)
			count[s->stacks.v[i].names[k]]++;
	int64_t want = (int64_t)s->stacks.n / 10;
	for (uint32_t i = 0; i < b->names.n; i++)
		if (llabs((int64_t)count[i] - want) < llabs((int64_t)count[b->function] - want))
			b->function = i;
	free(count);
}

static void describe_stacks(struct bench_fleet *b)
{
	choose_function(b);
	for (int i = 0; i < SERVICES; i++)
		for (size_t k = 0; k < b->services[i].stacks.n; k++) {
			struct stack *x = &b->services[i].stacks.v[k];
			for (uint32_t d = 0; d < x->n; d++) {
				x->hash = fleet_hash_name(x->hash, view_of(b->names.v[x->names[d]]));
				x->hit |= x->names[d] == b->function;
			}
		}
}

void fleet_init(struct bench_fleet *b, double scale)
{
	b->scale = scale;
	b->random = 1;
	load_corpus(b);
	for (int i = 0; i < SERVICES; i++) {
		struct service *s = &b->services[i];
		uint32_t real = (uint32_t)s->stacks.n;
		for (uint32_t k = 0; s->stacks.n < 100; k++)
			seed_stack(b, s, k);
		for (uint32_t tries = 0; s->stacks.n < pool_sizes[i] && tries < 40 * pool_sizes[i]; tries++)
			cross(b, s);
		for (uint32_t k = 100; s->stacks.n < pool_sizes[i]; k++)
			seed_stack(b, s, k);
		s->weight = xcalloc(s->stacks.n, sizeof *s->weight);
		for (size_t k = 0; k < s->stacks.n; k++)
			s->weight[k] = pow((double)(hash_u64(k * 7 + (uint64_t)i) % s->stacks.n) + 3, -1.12);
		fprintf(stderr, "service %d: %u real stacks of %zu\n", i, real, s->stacks.n);
	}
	describe_stacks(b);
}

/* ---- pods ---- */

static void make_alias(struct bench_fleet *b, struct pod *p)
{
	const struct service *s = &b->services[p->service];
	uint32_t n = p->n = (uint32_t)s->stacks.n, n_small = 0, n_large = 0;
	double *w = xcalloc(n, sizeof *w), sum = 0;
	uint32_t *small = xcalloc(n, sizeof *small), *large = xcalloc(n, sizeof *large);
	p->alias = xcalloc(n, sizeof *p->alias);
	p->keep = xcalloc(n, sizeof *p->keep);
	for (uint32_t i = 0; i < n; i++)
		sum += w[i] = s->weight[i] * exp(0.8 * gauss(b));
	for (uint32_t i = 0; i < n; i++) {
		w[i] *= n / sum;
		if (w[i] < 1)
			small[n_small++] = i;
		else
			large[n_large++] = i;
	}
	while (n_small && n_large) {
		uint32_t x = small[--n_small], y = large[n_large - 1];
		p->keep[x] = (float)w[x];
		p->alias[x] = y;
		w[y] -= 1 - w[x];
		if (w[y] < 1) {
			n_large--;
			small[n_small++] = y;
		}
	}
	while (n_small)
		p->keep[small[--n_small]] = 1;
	while (n_large)
		p->keep[large[--n_large]] = 1;
	free(w);
	free(small);
	free(large);
}

/* Addresses shift with each deploy, so that stacks are new ones. Under the partition's lock. */
static uint32_t *intern_pool(struct bench_fleet *b, uint32_t service, uint32_t deploy)
{
	struct service *s = &b->services[service];
	struct symbols *y = b->p->symbols;
	uint32_t *columns = xcalloc(s->stacks.n, sizeof *columns);
	struct sym_mapping m = { .start = 0x400000, .size = 64 << 20, .file = symbols_string(y, VIEW("/bin/service")) };
	char build[32];
	snprintf(build, sizeof build, "build-%u-%u", service, deploy);
	m.build_id = symbols_string(y, view_of(build));
	uint32_t mapping = symbols_mapping(y, &m) + 1;
	uint32_t locations[256];
	for (size_t i = 0; i < s->stacks.n; i++) {
		const struct stack *x = &s->stacks.v[i];
		uint32_t n = MIN(x->n, 256);
		for (uint32_t k = 0; k < n; k++) {
			struct sym_function f = { .name = symbols_string(y, view_of(b->names.v[x->names[k]])) };
			f.system_name = f.name;
			struct sym_line line = { symbols_function(y, &f) + 1, 10 + (int64_t)(x->names[k] % 90), 0 };
			struct sym_location l = { .address = x->names[k] * 64 + deploy * 16, .mapping = mapping, .n_lines = 1 };
			locations[k] = symbols_location(y, &l, &line);
		}
		columns[i] = symbols_column(y, symbols_stack(y, locations, n), 0);
	}
	return columns;
}

static uint32_t *columns_of[SERVICES];

static void forget_pods(struct bench_fleet *b)
{
	for (size_t i = 0; i < b->pods.n; i++) {
		struct pod *p = &b->pods.v[i];
		free(p->alias);
		free(p->keep);
		free(p->counts);
		free(p->drawn);
	}
	b->pods.n = 0;
}

static void add_pod(struct bench_fleet *b, uint32_t service_number, uint32_t node_number, uint32_t number)
{
	char pod[48], service[16], node[16];
	struct ptype type;
	struct pod p = { .service = service_number, .node = node_number, .deploy = number };
	snprintf(pod, sizeof pod, "service-%u-%u-%u", p.service, p.node, number);
	snprintf(service, sizeof service, "service-%u", p.service);
	snprintf(node, sizeof node, "node-%u", p.node);
	struct label l[] = { { VIEW("__name__"), VIEW(NAME) }, { VIEW("node"), view_of(node) }, { VIEW("pod"), view_of(pod) },
			     { VIEW("service"), view_of(service) } };
	struct labels set = { l, ARRAY_LEN(l) };
	ptype_parse(VIEW(NAME), &type);
	if (!index_find(&b->p->index, set, labels_hash(set), &p.series)) /* a deploy of hours that come late has it already */
		p.series = index_add(&b->p->index, set, labels_hash(set), &type);
	make_alias(b, &p);
	p.column = columns_of[p.service];
	p.counts = xcalloc(p.n, sizeof *p.counts);
	p.drawn = xcalloc(p.n, sizeof *p.drawn);
	vec_push(&b->pods, p);
}

void fleet_deploy(struct bench_fleet *b, int64_t t_ms, uint32_t number)
{
	uint32_t nodes = (uint32_t)MAX(1, (int)lround(NODES * b->scale));
	forget_pods(b);
	b->p = tsdb_enter_partition(b->db, day_of(t_ms));
	rwlock_write(&b->p->dict_lock);
	for (uint32_t s = 0; s < SERVICES; s++) {
		free(columns_of[s]);
		columns_of[s] = intern_pool(b, s, number);
	}
	for (uint32_t i = 0; i < nodes * SERVICES; i++)
		add_pod(b, i % SERVICES, i / SERVICES, number);
	rwlock_unlock(&b->p->dict_lock);
	partition_leave(b->p);
}

/* ---- profiles ---- */

static int by_column(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* How often which stack was hit, into p->counts; returns how many stacks. */
static uint32_t hit_stacks(struct bench_fleet *b, struct pod *p, int64_t t_ms)
{
	double day = (double)((t_ms - T0) % DAY_MS) / (double)DAY_MS;
	double load = (330 + 130 * sin(6.2832 * (day - 0.3))) * (1 + 0.25 * gauss(b));
	uint32_t hits = load < 20 ? 20 : (uint32_t)load, n = 0;
	for (uint32_t i = 0; i < hits; i++) {
		uint64_t r = next(&b->random);
		uint32_t k = (uint32_t)((r >> 32) * p->n >> 32);
		if ((float)(r & 0xffffff) * 0x1p-24f >= p->keep[k])
			k = p->alias[k];
		if (!p->counts[k]++)
			p->drawn[n++] = k;
	}
	return n;
}

void fleet_draw(struct bench_fleet *b, struct pod *p, int64_t t_ms, struct record_profile *out, struct drawn *ret)
{
	const struct stack *stacks = b->services[p->service].stacks.v;
	uint32_t n = hit_stacks(b, p, t_ms);
	size_t kept = 0;
	*ret = (struct drawn){ .t_ms = t_ms };
	vec_reserve(&b->keys, n);
	b->keys.n = n;
	for (uint32_t i = 0; i < n; i++)
		b->keys.v[i] = (uint64_t)p->column[p->drawn[i]] << 32 | p->drawn[i];
	qsort(b->keys.v, n, sizeof *b->keys.v, by_column);
	vec_reserve(&out->columns, n);
	vec_reserve(&out->values, n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = (uint32_t)b->keys.v[i], c = p->column[k];
		/* Crossing may have made one stack twice. */
		if (kept && out->columns.v[kept - 1] == c) {
			out->values.v[kept - 1] += p->counts[k];
		} else {
			out->columns.v[kept] = c;
			out->values.v[kept++] = p->counts[k];
		}
		ret->total += p->counts[k];
		ret->hits += stacks[k].hit ? p->counts[k] : 0;
		ret->hash += stacks[k].hash * p->counts[k];
		p->counts[k] = 0;
	}
	out->n = out->columns.n = out->values.n = kept;
	out->n_series = 1;
	out->series[0] = p->series;
	out->t_ms = t_ms;
	out->cover_ms = 10000;
	out->meta = (struct sample_meta){ 10000000000, 10000000, 10000, 10000 };
	b->profiles++;
	b->samples += kept;
}

static bool parse_shard(struct view v, struct fleet_shard *ret)
{
	int64_t shard, of;
	const char *slash = memchr(v.ptr, '/', v.len);
	if (!slash || !num_parse_i64(view_make(v.ptr, (size_t)(slash - v.ptr)), &shard) ||
	    !num_parse_i64(view_make(slash + 1, v.len - (size_t)(slash + 1 - v.ptr)), &of) || of < 1 || of > 1000 || shard < 0 || shard > 1000)
		return false;
	*ret = (struct fleet_shard){ (uint32_t)shard, (uint32_t)of, 0 };
	return true;
}

bool fleet_parse_shards(struct bench_fleet *b, struct view v)
{
	const char *comma = memchr(v.ptr, ',', v.len), *at = memchr(v.ptr, '@', v.len);
	int64_t hour;
	if (!comma)
		return parse_shard(v, &b->shards[0]);
	if (!at || at < comma || !num_parse_i64(view_make(at + 1, v.len - (size_t)(at + 1 - v.ptr)), &hour) ||
	    !parse_shard(view_make(v.ptr, (size_t)(comma - v.ptr)), &b->shards[0]) ||
	    !parse_shard(view_make(comma + 1, (size_t)(at - comma - 1)), &b->shards[1]))
		return false;
	b->shards[1].from_ms = T0 + hour * HOUR_MS;
	return true;
}

static bool is_of_shard(const struct bench_fleet *b, size_t pod, int64_t t_ms)
{
	const struct fleet_shard *s = &b->shards[b->shards[1].of && t_ms >= b->shards[1].from_ms];
	return !s->of || hash_u64(pod) % s->of == s->shard;
}

void fleet_push(struct bench_fleet *f, int64_t t_ms, const struct record_profile *profiles)
{
	struct request *r = NEW(struct request);
	struct request_record *x = vec_add(&r->records);
	x->p = tsdb_enter_partition(f->db, day_of(t_ms));
	x->kind = RECORD_SAMPLES;
	record_begin(&x->bytes, RECORD_SAMPLES, x->p->day);
	for (size_t i = 0; i < f->pods.n; i++) {
		if (!is_of_shard(f, i, t_ms))
			continue;
		record_put_profile(&x->bytes, &profiles[i]);
		r->profiles++;
		r->samples += profiles[i].n;
	}
	mutex_lock(&f->db->flush_lock);
	f->db->submitted++;
	mutex_unlock(&f->db->flush_lock);
	while (tsdb_head_is_full(f->db))
		clock_sleep_ms(5);
	queue_push(f->db->queue, r, x->bytes.cap);
}

/* ---- the same as a decoded profile ---- */

static uint32_t flat_string(struct profile *p, struct view v)
{
	p->strings[p->n_strings] = v;
	return p->n_strings++;
}

static void flat_header(struct profile *p, const struct pod *pod, size_t names, size_t samples, size_t frames)
{
	char build[32];
	int n = snprintf(build, sizeof build, "build-%u-%u", pod->service, pod->deploy);
	profile_reset(p);
	p->strings = arena_alloc(&p->arena, (names + 8) * sizeof *p->strings);
	p->functions = arena_calloc(&p->arena, names, sizeof *p->functions);
	p->lines = arena_calloc(&p->arena, names, sizeof *p->lines);
	p->locations = arena_calloc(&p->arena, names, sizeof *p->locations);
	p->samples = arena_calloc(&p->arena, samples, sizeof *p->samples);
	p->values = arena_calloc(&p->arena, samples, sizeof *p->values);
	p->stack = arena_calloc(&p->arena, frames, sizeof *p->stack);
	p->sample_types = arena_calloc(&p->arena, 1, sizeof *p->sample_types);
	p->mappings = arena_calloc(&p->arena, 1, sizeof *p->mappings);
	flat_string(p, VIEW(""));
	p->mappings[0] = (struct profile_mapping){ .start = 0x400000, .limit = 0x400000 + (64 << 20), .file_str = flat_string(p, VIEW("/bin/service")),
						   .build_id_str = flat_string(p, arena_view(&p->arena, view_make(build, (size_t)n))) };
	p->n_mappings = p->n_sample_types = 1;
	p->sample_types[0] = (struct profile_value_type){ flat_string(p, VIEW("samples")), flat_string(p, VIEW("count")) };
	p->period_type = (struct profile_value_type){ flat_string(p, VIEW("cpu")), flat_string(p, VIEW("nanoseconds")) };
	p->period = 10000000;
	p->duration_ns = INT64_C(10000000000);
}

/* The location of a name; at[] holds index + 1 of those met. */
static uint32_t flat_location(const struct bench_fleet *b, const struct pod *pod, struct profile *p, uint32_t *at, uint32_t name)
{
	if (at[name])
		return at[name] - 1;
	uint32_t i = p->n_locations++, text = flat_string(p, view_of(b->names.v[name]));
	p->functions[p->n_functions++] = (struct profile_function){ .name_str = text, .system_name_str = text };
	p->lines[p->n_lines++] = (struct profile_line){ .function = i + 1, .line = 10 + (int64_t)(name % 90) };
	p->locations[i] = (struct profile_location){ .address = 0x400000 + name * 64 + pod->deploy * 16, .mapping = 1, .first_line = i, .n_lines = 1 };
	at[name] = i + 1;
	return i;
}

void fleet_flatten(const struct bench_fleet *b, const struct pod *pod, const struct record_profile *drawn, struct profile *p)
{
	const struct stack *stacks = b->services[pod->service].stacks.v;
	size_t frames = 0, n = b->keys.n;
	for (size_t i = 0; i < n; i++)
		frames += stacks[(uint32_t)b->keys.v[i]].n;
	flat_header(p, pod, MIN(frames, b->names.n) + 1, n, frames);
	uint32_t *at = arena_calloc(&p->arena, b->names.n, sizeof *at);
	for (size_t i = 0; i < n; i++) {
		const struct stack *x = &stacks[(uint32_t)b->keys.v[i]];
		/* Stacks that are one column come one after the other; the value is with the first. */
		bool again = i && b->keys.v[i] >> 32 == b->keys.v[i - 1] >> 32;
		if (again)
			continue;
		p->values[p->n_samples] = drawn->values.v[p->n_samples];
		p->samples[p->n_samples++] = (struct profile_sample){ p->n_stack, MIN(x->n, 256), 0, 0 };
		for (uint32_t k = 0; k < MIN(x->n, 256); k++)
			p->stack[p->n_stack++] = flat_location(b, pod, p, at, x->names[k]);
	}
}
