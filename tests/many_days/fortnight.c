/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/many_days/fortnight.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "tsdb/dict/dict_names.h"
#include "tsdb/part/part_read.h"
#include "tsdb/version/db.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/version/evict.h"
#include "tsdb/version/late_names.h"

#define SHOP_START 0x400000
#define SHOP "/srv/shop"
#define FIRST_LATE 8 /* locations of the program that have no lines at first on some days */
#define LATES 8
#define STACKS 60    /* that days have in common */
#define OWN_STACKS 6 /* of a day alone */
#define SAMPLES 20   /* of a profile */
#define DEPTH 7

/* Locations: of each function of the program one, then these. */
enum { LIBC = FUNCTIONS, LIBC_END = LIBC + 4, STRIPPED = LIBC_END, STRIPPED_2, KERNEL, NO_FUNCTION, NO_NAME, PLUGIN, PLUGIN_2, LOCATIONS };
enum { MAP_SHOP = 1, MAP_LIBC, MAP_PLUGIN };

static uint32_t mix(uint64_t a, uint64_t b)
{
	return (uint32_t)(hash_u64(a * 1000003 + b + 17) >> 20);
}

/* ---- a build of the program ---- */

void fortnight_function(unsigned i, char *ret, size_t size)
{
	static const char *const forms[] = { "main.f%u", "shop/cart.(*Cart).m%u", "runtime.g%u", "std::sort<%u>" };
	if (i >= 36)
		snprintf(ret, size, "multi.%c", i < 38 ? 'a' : 'b');
	else
		snprintf(ret, size, forms[i % 4], i);
}

/* Every third function moves between two files, and some have none. */
static void file_of(unsigned day, unsigned i, char *ret, size_t size)
{
	static const char *const fixed[] = { "/src/a.go", "/src/b.go" };
	if (i >= 36)
		snprintf(ret, size, "/src/multi_%c.go", i == 39 ? (int)('d' + day % 3) : (int)('a' + i - 36));
	else if (i % 17 == 16)
		snprintf(ret, size, "%s", "");
	else if (i % 3 == 2)
		snprintf(ret, size, "/moved/%u/c.go", day % 2);
	else
		snprintf(ret, size, "%s", fixed[i % 3]);
}

bool fortnight_name_is_shared(struct view name)
{
	char text[64];
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		fortnight_function(i, text, sizeof text);
		if (view_eqs(name, text))
			return i >= 36 || i == 2 || i % 3 == 2 || i % 7 == 0; /* the function of the plugin has the name of function 2 */
	}
	return false;
}

static int64_t line_of(unsigned day, unsigned i)
{
	return 10 + i + (i % 4 == 0 ? day : 0);
}

static int64_t start_line_of(unsigned day, unsigned i)
{
	return 1 + i / 2 + (i % 7 == 0 ? day : 0);
}

/* Where function i of a day's build is in the program's file. */
static uint64_t place_of(unsigned day, unsigned i)
{
	return 0x1000 + i * 64 + mix(day, i) % 48;
}

static uint64_t offset_of(unsigned day)
{
	return day % 4 * 0x1000;
}

struct maker {
	struct profile *p;
	unsigned day, pod;
	bool late; /* names of some locations are not known yet */
	VEC(struct view) strings;
	VEC(struct profile_function) functions;
	VEC(struct profile_line) lines;
	VEC(uint32_t) stack;
	VEC(struct profile_label) labels;
	struct profile_location locations[LOCATIONS];
};

static uint32_t string_of(struct maker *m, const char *text)
{
	for (uint32_t i = 0; i < m->strings.n; i++)
		if (view_eqs(m->strings.v[i], text))
			return i;
	vec_push(&m->strings, arena_view(&m->p->arena, view_of(text)));
	return (uint32_t)m->strings.n - 1;
}

/* Returns its index + 1. */
static uint32_t function_of(struct maker *m, const char *name, const char *file, int64_t start_line)
{
	vec_push(&m->functions, (struct profile_function){ string_of(m, name), m->day % 2 ? string_of(m, name) : 0, string_of(m, file), start_line });
	return (uint32_t)m->functions.n;
}

static void add_line(struct maker *m, struct profile_location *l, uint32_t function, int64_t line)
{
	if (!l->n_lines++)
		l->first_line = (uint32_t)m->lines.n;
	vec_push(&m->lines, (struct profile_line){ function, line, m->day });
}

static uint64_t shop_start(unsigned day)
{
	return SHOP_START + day * UINT64_C(0x100000);
}

static bool is_late(unsigned i)
{
	return i >= FIRST_LATE && i < FIRST_LATE + LATES;
}

/* Every fifth location has an inlined call, every fifteenth two. */
static unsigned inlined_in(unsigned i)
{
	return i % 15 == 0 ? 2 : i % 5 == 0;
}

static void add_shop(struct maker *m, unsigned i)
{
	struct profile_location *l = &m->locations[i];
	*l = (struct profile_location){ shop_start(m->day) + place_of(m->day, i), MAP_SHOP, 0, 0, m->day % 2 };
	if (m->late && is_late(i))
		return;
	for (unsigned k = inlined_in(i); k > 0; k--) {
		unsigned callee = (i + k) % 36;
		add_line(m, l, callee + 1, line_of(m->day, callee) + 50);
	}
	add_line(m, l, i + 1, line_of(m->day, i));
}

static void add_locations(struct maker *m)
{
	uint64_t libc = UINT64_C(0x7f0000000000) + mix(m->day, m->pod) % 1000 * 0x1000, plugin = UINT64_C(0x7e0000000000);
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		char name[64], file[64];
		fortnight_function(i, name, sizeof name);
		file_of(m->day, i, file, sizeof file);
		function_of(m, name, file, start_line_of(m->day, i));
	}
	for (unsigned i = 0; i < FUNCTIONS; i++)
		add_shop(m, i);
	for (unsigned i = LIBC; i < LIBC_END; i++)
		m->locations[i] = (struct profile_location){ libc + 0x8000 + i * 32, MAP_LIBC, 0, 0, false };
	for (unsigned i = STRIPPED; i <= STRIPPED_2; i++)
		m->locations[i] = (struct profile_location){ shop_start(m->day) + place_of(m->day, i), MAP_SHOP, 0, 0, false };
	m->locations[KERNEL] = (struct profile_location){ UINT64_C(0xffffffff81000040), 0, 0, 0, false };
	m->locations[NO_FUNCTION] = (struct profile_location){ shop_start(m->day) + place_of(m->day, NO_FUNCTION), MAP_SHOP, 0, 0, false };
	add_line(m, &m->locations[NO_FUNCTION], 0, 7);
	m->locations[NO_NAME] = (struct profile_location){ libc + 0x9000, MAP_LIBC, 0, 0, false };
	add_line(m, &m->locations[NO_NAME], function_of(m, "", "/src/noname.c", 3), 4);
	m->locations[PLUGIN] = (struct profile_location){ plugin + 0x100 + m->day, MAP_PLUGIN, 0, 0, false };
	add_line(m, &m->locations[PLUGIN], function_of(m, "plugin.run", "/src/plugin.c", 5), 6);
	m->locations[PLUGIN_2] = (struct profile_location){ plugin + 0x200 + m->day, MAP_PLUGIN, 0, 0, false };
	add_line(m, &m->locations[PLUGIN_2], function_of(m, "runtime.g2", "/src/b.go", 2), 12); /* a name of the program, too */
}

static void *own(struct profile *p, const void *v, size_t bytes)
{
	char *to = arena_alloc(&p->arena, bytes + 1);
	if (bytes)
		memcpy(to, v, bytes);
	return to;
}

/* Stacks have their roots in common; each location is the leaf of one. */
static uint32_t location_of(const struct maker *m, uint32_t stack, unsigned level, bool leaf)
{
	if (leaf)
		return stack % LOCATIONS;
	if (stack >= STACKS && level > 2)
		return mix(m->day * 100 + stack, level) % LOCATIONS;
	return level ? mix(stack >> (DEPTH - level), level) % LOCATIONS : 0;
}

static void add_sample(struct maker *m, uint32_t stack, bool heap)
{
	struct profile *p = m->p;
	struct profile_sample *s = &p->samples[p->n_samples++];
	unsigned depth = 2 + mix(stack, 99) % (DEPTH - 1);
	*s = (struct profile_sample){ (uint32_t)m->stack.n, depth, (uint32_t)m->labels.n, 0 };
	for (unsigned level = depth; level--;)
		vec_push(&m->stack, location_of(m, stack, level, level + 1 == depth));
	if (heap) {
		vec_push(&m->labels, (struct profile_label){ string_of(m, "bytes"), 0, true, string_of(m, "bytes"), 16 << stack % 4 });
		s->n_labels = 1;
	} else if (stack % 3 == 0) {
		char thread[16];
		snprintf(thread, sizeof thread, "t%u", stack % 2);
		vec_push(&m->labels, (struct profile_label){ string_of(m, "thread"), string_of(m, thread), false, 0, 0 });
		s->n_labels = 1;
	}
}

static void set_mappings(struct maker *m)
{
	char build[32], plugin[32];
	uint64_t libc = UINT64_C(0x7f0000000000) + mix(m->day, m->pod) % 1000 * 0x1000;
	snprintf(build, sizeof build, "shop-%u", m->day);
	snprintf(plugin, sizeof plugin, "plugin-%u", m->day / 5);
	const struct profile_mapping maps[] = {
		{ shop_start(m->day), shop_start(m->day) + 0x100000, offset_of(m->day), string_of(m, SHOP), string_of(m, build), true, true, true, true },
		{ libc, libc + 0x100000, 0x2000, string_of(m, "/lib/libc.so.6"), string_of(m, "libc"), false, false, false, false },
		{ UINT64_C(0x7e0000000000), UINT64_C(0x7e0000010000), 0, string_of(m, "/srv/plugin.so"), string_of(m, plugin), true, true, true, false },
	};
	m->p->mappings = own(m->p, maps, sizeof maps);
	m->p->n_mappings = ARRAY_LEN(maps);
}

/* The profile of a pod. seed: which stacks, and their values. */
static void make_profile(struct profile *p, unsigned day, unsigned pod, uint64_t seed, bool heap, bool late)
{
	struct maker m = { .p = p, .day = day, .pod = pod, .late = late };
	struct err e;
	profile_init(p, 0);
	string_of(&m, "");
	set_mappings(&m);
	add_locations(&m);
	p->samples = arena_calloc(&p->arena, SAMPLES, sizeof *p->samples);
	p->values = arena_calloc(&p->arena, SAMPLES * 3, sizeof *p->values);
	p->n_sample_types = heap ? 3 : 2;
	for (uint32_t i = 0; i < SAMPLES; i++) {
		uint32_t stack = mix(seed, i) % (STACKS + OWN_STACKS);
		int64_t n = mix(seed * 7 + pod, i) % 9, *v = &p->values[i * p->n_sample_types];
		add_sample(&m, stack, heap);
		v[0] = n;
		v[1] = heap ? n * (16 << stack % 4) : pod == 2 ? n * KIT_PERIOD + (int64_t)(mix(seed, i) % 1000) : n * KIT_PERIOD;
		if (heap)
			v[2] = 1000 + mix(seed, i) % 5000;
	}
	const struct profile_value_type types[] = { { string_of(&m, heap ? "inuse_objects" : "samples"), string_of(&m, "count") },
						    { string_of(&m, heap ? "inuse_space" : "cpu"), string_of(&m, heap ? "bytes" : "nanoseconds") },
						    { string_of(&m, "alloc_space"), string_of(&m, "bytes") } };
	p->sample_types = own(p, types, sizeof types);
	p->period_type = types[1];
	p->period = heap ? 512 : KIT_PERIOD;
	p->strings = own(p, m.strings.v, m.strings.n * sizeof *m.strings.v);
	p->functions = own(p, m.functions.v, m.functions.n * sizeof *m.functions.v);
	p->lines = own(p, m.lines.v, m.lines.n * sizeof *m.lines.v);
	p->locations = own(p, m.locations, sizeof m.locations);
	p->stack = own(p, m.stack.v, m.stack.n * sizeof *m.stack.v);
	p->labels = own(p, m.labels.v, m.labels.n * sizeof *m.labels.v);
	p->n_strings = (uint32_t)m.strings.n;
	p->n_functions = (uint32_t)m.functions.n;
	p->n_lines = (uint32_t)m.lines.n;
	p->n_locations = LOCATIONS;
	p->n_stack = (uint32_t)m.stack.n;
	p->n_labels = (uint32_t)m.labels.n;
	vec_free(&m.strings);
	vec_free(&m.functions);
	vec_free(&m.lines);
	vec_free(&m.stack);
	vec_free(&m.labels);
	KIT_CHECK(!profile_check(p, &e));
}

/* ---- series ---- */

static const char *const cpu_types[] = { KIT_SAMPLES, KIT_CPU };
static const char *const heap_types[] = { "memory:inuse_objects:count:space:bytes", "memory:inuse_space:bytes:space:bytes", "memory:alloc_space:bytes:space:bytes" };

static bool has_target(const struct fortnight *f, unsigned target, int64_t t_ms)
{
	unsigned of = t_ms >= KIT_T0 + 8 * DAY ? f->shard.later_of : f->shard.of;
	return !f->shard.of || target % of == f->shard.shard;
}

static void put_profile(struct fortnight *f, unsigned pod, int64_t t_ms, uint64_t seed, bool heap, bool late)
{
	struct profile p;
	struct err e;
	struct sink_result r;
	struct sink_column c[3];
	struct label labels[3][3];
	char name[32];
	const char *const *types = heap ? heap_types : cpu_types;
	if (!has_target(f, pod + heap * PODS, t_ms))
		return;
	make_profile(&p, (unsigned)((t_ms - KIT_T0 - 1) / DAY), pod, seed, heap, late);
	snprintf(name, sizeof name, "pod-%u", pod);
	for (uint32_t i = 0; i < p.n_sample_types; i++) {
		labels[i][0] = (struct label){ VIEW(LABEL_NAME), view_of(types[i]) };
		labels[i][1] = (struct label){ VIEW("job"), pod ? VIEW("web") : VIEW("batch") };
		labels[i][2] = (struct label){ VIEW("pod"), view_of(name) };
		c[i] = (struct sink_column){ .labels = { labels[i], 3 }, .value_index = i };
		KIT_CHECK(ptype_parse(view_of(types[i]), &c[i].type));
	}
	struct sink_profile sp = { .profile = &p, .columns = c, .n_columns = p.n_sample_types, .t_ms = t_ms, .duration_ns = heap ? 0 : INT64_C(10000000000),
				   .interval_ms = MINUTE, .asked_ms = pod == 1 ? 10000 : 0, .period = p.period };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	KIT_CHECK(tsdb_sink(f->k.db)->append(tsdb_sink(f->k.db), &b, &r, &e) == 0);
	KIT_CHECK(r.profiles == 1);
	profile_release(&p);
}

static void put_float(struct fortnight *f, unsigned pod, int64_t t_ms)
{
	struct label l[] = { { VIEW(LABEL_NAME), VIEW("requests_total") }, { VIEW("pod"), pod ? VIEW("pod-1") : VIEW("pod-0") } };
	struct sink_float x = { { l, 2 }, t_ms, (double)((t_ms - KIT_T0) / MINUTE) * (1.5 + pod) };
	struct sink_batch b = { .floats = &x, .n_floats = 1 };
	struct sink_result r;
	struct err e;
	if (has_target(f, 2 * PODS + (pod > 0), t_ms))
		KIT_CHECK(tsdb_sink(f->k.db)->append(tsdb_sink(f->k.db), &b, &r, &e) == 0);
}

static void put_hour(struct fortnight *f, unsigned day, unsigned hour, bool late)
{
	int64_t t = KIT_T0 + day * DAY + hour * HOUR;
	for (unsigned pod = 0; pod < PODS; pod++) {
		uint64_t seed = pod ? day * 100 + pod + (hour == 7 ? 50 : 0) : kit_random(&f->state);
		put_profile(f, pod, t + 5 * MINUTE + pod * 1000, seed, false, late);
		put_profile(f, pod, t + 6 * MINUTE + pod * 1000, seed + 1000, false, late);
		put_profile(f, pod, t + 7 * MINUTE + pod * 1000, seed + 2000, true, late);
		put_float(f, pod, t + 8 * MINUTE + pod * 1000);
	}
	put_profile(f, 1, t + HOUR, day * 100 + 1, false, late); /* at the end of the hour, of the day for the last one */
}

static void put_day(struct fortnight *f, unsigned day, unsigned hours, bool late)
{
	static const unsigned at[] = { 0, 3, 7, 11, 18, 23 };
	for (unsigned i = 0; i < ARRAY_LEN(at) && i < hours; i++)
		put_hour(f, day, at[i], late);
	tsdb_flush(f->k.db);
}

static void put_late_rows(struct fortnight *f, unsigned day)
{
	for (unsigned pod = 0; pod < PODS; pod++)
		put_profile(f, pod, KIT_T0 + day * DAY + 7 * HOUR + 40 * MINUTE + pod, kit_random(&f->state), pod == 2, false);
	tsdb_flush(f->k.db);
}

/* Names of the locations of a day that had none. Only days in memory get any, so it is read before. */
static void name_late(struct fortnight *f, unsigned day, unsigned first, unsigned n)
{
	struct err e;
	char build[32], names[3][64], files[3][64];
	snprintf(build, sizeof build, "shop-%u", day);
	kit_merge(&f->k, KIT_SAMPLES, KIT_T0 + day * DAY, KIT_T0 + (day + 1) * DAY, NULL);
	for (unsigned i = first; i < first + n; i++) {
		struct tsdb_line lines[3];
		unsigned inlined = inlined_in(i);
		for (unsigned k = 0; k <= inlined; k++) {
			unsigned function = k < inlined ? (i + inlined - k) % 36 : i;
			fortnight_function(function, names[k], sizeof names[k]);
			file_of(day, function, files[k], sizeof files[k]);
			lines[k] = (struct tsdb_line){ view_of(names[k]), VIEW(""), view_of(files[k]), start_line_of(day, function),
						       line_of(day, function) + (k < inlined ? 50 : 0), 0 };
		}
		KIT_CHECK(tsdb_name_location(f->k.db, view_of(build), place_of(day, i) + offset_of(day), lines, inlined + 1, &e) == 0);
	}
}

static void delete_rows(struct fortnight *f, const char *pod, int64_t after_ms, int64_t until_ms)
{
	struct matcher m;
	struct err e;
	uint64_t deleted;
	KIT_CHECK(matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e) == 0);
	KIT_CHECK(tsdb_delete(f->k.db, &m, 1, after_ms, until_ms, &deleted, &e) == 0);
	KIT_CHECK(deleted > 0 || f->shard.of);
	matcher_release(&m);
}

static void seal(struct fortnight *f)
{
	struct err e;
	KIT_CHECK(!tsdb_seal(f->k.db, true, &e));
}

static void clean(struct fortnight *f)
{
	struct err e;
	KIT_CHECK(!tsdb_clean(f->k.db, &e));
}

static void reopen(struct fortnight *f, uint64_t dictionary_bytes)
{
	f->k.o.dictionary_bytes = dictionary_bytes;
	kit_reopen(&f->k);
}

/* ---- the whole ---- */

/* Whether the names in the day's rollup are those that queries show. */
static bool has_fresh_names(const struct pstate *s)
{
	PART_VALUE names = { 0 };
	struct symbols *to = symbols_new();
	uint32_t *place = NULL, n;
	struct err e;
	int rc = part_get(s->all_day, PART_NAMES, 0, 0, &names, &e);
	if (!rc)
		rc = dict_names_join(names.payload, to, late_names_number(s->names), &place, &n, &e);
	if (!rc)
		free(place);
	symbols_unref(to);
	return !rc;
}

static void check_day(const struct pstate *s, unsigned day)
{
	KIT_CHECK(!s->all_day == (day == 5 || day == DAYS - 1));
	KIT_CHECK(!s->n_windows == (day != 7 && day != DAYS - 1));
	KIT_CHECK(!s->tombstones == (day != 9));
	KIT_CHECK(!s->names == (day != 3 && day != 4));
	if (!s->all_day)
		return;
	KIT_CHECK(has_fresh_names(s) == (day >= 2 && day != 3));
	KIT_CHECK(s->all_day->series.n > 0);
}

static void check_days(struct fortnight *f)
{
	struct version *v = tsdb_version(f->k.db, NULL);
	KIT_CHECK(v->n == DAYS);
	for (unsigned day = 0; day < DAYS; day++)
		check_day(v->p[day], day);
	version_unref(v);
}

void fortnight_make(struct fortnight *f, uint64_t seed)
{
	fortnight_make_shard(f, seed, &(struct fortnight_shard){ 0 });
}

void fortnight_make_shard(struct fortnight *f, uint64_t seed, const struct fortnight_shard *shard)
{
	*f = (struct fortnight){ .state = seed, .shard = *shard };
	bucketkit_init(&f->bucket);
	kit_init(&f->k);
	f->k.now_ms = FORTNIGHT_NOW;
	f->k.o.no_sealing = true;
	f->k.o.retention_ms = -1;
	f->k.o.commit_interval_ms = -1;
	f->k.o.dictionary_bytes = 1 << 12; /* days with larger dictionaries are rolled up without names */
	kit_open(&f->k);
	put_day(f, 0, 6, false);
	put_day(f, 1, 6, false);
	seal(f);
	reopen(f, 64 << 20);
	for (unsigned day = 2; day < DAYS - 1; day++)
		put_day(f, day, day == 5 ? 1 : 6, day == 3 || day == 4 || day == 12);
	name_late(f, 4, FIRST_LATE, LATES);
	seal(f);
	put_late_rows(f, 8);
	seal(f);
	delete_rows(f, "pod-1", KIT_T0 + 10 * DAY + 2 * HOUR, KIT_T0 + 10 * DAY + 8 * HOUR);
	clean(f);
	put_late_rows(f, 7);
	delete_rows(f, "pod-2", KIT_T0 + 9 * DAY + 5 * MINUTE, KIT_T0 + 9 * DAY + 19 * HOUR);
	put_day(f, DAYS - 1, 4, false);
	name_late(f, 3, FIRST_LATE, LATES / 2); /* the next seal makes the day's rollup anew */
	name_late(f, 3, FIRST_LATE + LATES / 2, LATES / 2);
	if (!shard->of)
		check_days(f);
}

void fortnight_free(struct fortnight *f)
{
	kit_free(&f->k);
	bucketkit_free(&f->bucket);
}

void fortnight_reopen_small(struct fortnight *f)
{
	reopen(f, 1 << 16);
}

void fortnight_settle(struct fortnight *f)
{
	seal(f);
	clean(f);
	reopen(f, 64 << 20);
}

void fortnight_change(struct fortnight *f)
{
	name_late(f, 12, FIRST_LATE, LATES - 2); /* two never get any */
	struct version *v = tsdb_version(f->k.db, NULL);
	KIT_CHECK(f->shard.of || (v->p[12]->names && v->p[12]->all_day && !has_fresh_names(v->p[12])));
	version_unref(v);
	put_late_rows(f, 2);
	put_late_rows(f, 6);
	delete_rows(f, "pod-0", KIT_T0 + 11 * DAY, KIT_T0 + 11 * DAY + 10 * HOUR);
}

static int64_t bucket_now(void *arg)
{
	return ((struct kit *)arg)->now_ms;
}

#define DAYS_HERE 4 /* once the others are in the bucket alone */

void fortnight_upload(struct fortnight *f)
{
	struct storage_admin *a;
	struct admin_bucket status;
	struct err e;
	f->bucket.now_ms = bucket_now;
	f->bucket.now_arg = &f->k;
	f->k.o.objects = &f->bucket.objects;
	f->k.o.server_id = "one";
	f->k.o.no_transfer = true;
	seal(f);
	kit_reopen(&f->k);
	KIT_CHECK(!tsdb_upload(f->k.db, &e));
	f->k.o.local_retention_ms = (DAYS_HERE - 1) * DAY;
	kit_reopen(&f->k);
	KIT_CHECK(!tsdb_upload(f->k.db, &e));
	for (int i = 0; i < 500; i++) { /* a day that a thread is at work on leaves the disk the next time */
		KIT_CHECK(!tsdb_retain(f->k.db, &e));
		a = tsdb_admin(f->k.db);
		a->bucket(a, &status);
		if (status.absent_days >= DAYS - DAYS_HERE || f->shard.of)
			break;
		clock_sleep_ms(20);
	}
	KIT_CHECK(status.absent_days >= DAYS - DAYS_HERE || f->shard.of);
}

void fortnight_forget(struct fortnight *f, bool joint)
{
	tsdb_flush(f->k.db);
	evict_due(f->k.db, 0);
	if (joint)
		dict_unions_tidy_names(f->k.db, true);
}

size_t fortnight_names_bytes(struct fortnight *f)
{
	return dict_unions_names_bytes(f->k.db);
}
