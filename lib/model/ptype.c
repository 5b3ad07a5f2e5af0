/* SPDX-License-Identifier: Apache-2.0 */
#include "model/ptype.h"

#include <ctype.h>
#include <math.h>

static const struct ptype_row table[] = {
	{ "cpu", "process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "Process CPU Nanoseconds",
	  "CPU time as the process's own profiler saw it." },
	{ "cpu_samples", "process_cpu:samples:count:cpu:nanoseconds:delta", "Process CPU Samples",
	  "Samples of the process's own CPU profiler." },
	{ "on_cpu", "on_cpu:cpu:nanoseconds:cpu:nanoseconds:delta", "On-CPU",
	  "CPU time as the agent saw it, without the process's help." },
	{ "on_cpu_samples", "on_cpu:samples:count:cpu:nanoseconds:delta", "On-CPU Samples",
	  "Samples the agent took." },
	{ "off_cpu", "off_cpu:delay:nanoseconds:off_cpu:nanoseconds:delta", "Off-CPU",
	  "Time that threads waited off the CPU, as the agent saw it." },
	{ "heap_inuse_space", "memory:inuse_space:bytes:space:bytes", "Memory In-Use Bytes",
	  "Bytes that were live at the time of the scrape." },
	{ "heap_inuse_objects", "memory:inuse_objects:count:space:bytes", "Memory In-Use Objects",
	  "Objects that were live at the time of the scrape." },
	{ "heap_alloc_space", "memory:alloc_space:bytes:space:bytes", "Memory Allocated Bytes Total",
	  "Bytes allocated since the previous scrape." },
	{ "heap_alloc_objects", "memory:alloc_objects:count:space:bytes", "Memory Allocated Objects Total",
	  "Objects allocated since the previous scrape." },
	{ "goroutines", "goroutine:goroutine:count:goroutine:count", "Goroutine Created Total", /* as Parca names it */
	  "Goroutines that existed at the time of the scrape." },
	{ "mutex_delay", "mutex:delay:nanoseconds:contentions:count", "Mutex Delay Nanoseconds Total",
	  "Time others waited for the mutexes that these stacks held." },
	{ "mutex_contentions", "mutex:contentions:count:contentions:count", "Mutex Contentions Total",
	  "How often a mutex was contended." },
	{ "block_delay", "block:delay:nanoseconds:contentions:count", "Block Delay Nanoseconds Total",
	  "Time spent blocked on synchronisation." },
	{ "block_contentions", "block:contentions:count:contentions:count", "Block Contentions Total",
	  "How often something blocked on synchronisation." },
	{ "fgprof_time", "fgprof:time:nanoseconds:wallclock:nanoseconds:delta", "Fgprof Samples Time Total",
	  "Wall-clock time of goroutines, running or not." },
	{ "fgprof_samples", "fgprof:samples:count:wallclock:nanoseconds:delta", "Fgprof Samples Total",
	  "Samples of goroutines, running or not." },
	{ NULL, "threadcreate:threadcreate:count:threadcreate:count", "Threads Created",
	  "Stacks that led to new OS threads." },
};

const struct ptype_row *ptype_table(size_t *ret_n)
{
	*ret_n = ARRAY_LEN(table);
	return table;
}

struct view ptype_alias(struct view name)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].alias && view_eqs(name, table[i].alias))
			return view_of(table[i].name);
	return VIEW("");
}

void ptype_format(const struct ptype *t, struct buf *out)
{
	buf_printf(out, "%.*s:%.*s:%.*s:%.*s:%.*s%s", VIEW_ARG(t->name), VIEW_ARG(t->sample_type), VIEW_ARG(t->sample_unit),
		   VIEW_ARG(t->period_type), VIEW_ARG(t->period_unit), t->delta ? ":delta" : "");
}

bool ptype_parse(struct view name, struct ptype *ret)
{
	struct view part[6];
	size_t n = 0, from = 0;
	for (size_t i = 0; i <= name.len; i++) {
		if (i < name.len && name.ptr[i] != ':')
			continue;
		if (n == 6 || i == from)
			return false;
		part[n++] = view_make(name.ptr + from, i - from);
		from = i + 1;
	}
	if (n < 5 || (n == 6 && !view_eqs(part[5], "delta")))
		return false;
	*ret = (struct ptype){ part[0], part[1], part[2], part[3], part[4], n == 6, PROFILE_GAUGE };
	ret->kind = ptype_default_kind(part[0], part[1], part[2], ret->delta);
	return true;
}

bool ptype_is_of_host(const struct ptype *t)
{
	return view_eqs(t->name, "on_cpu") || view_eqs(t->name, "off_cpu");
}

bool ptype_eq(const struct ptype *a, const struct ptype *b)
{
	return view_eq(a->name, b->name) && view_eq(a->sample_type, b->sample_type) &&
	       view_eq(a->sample_unit, b->sample_unit) && view_eq(a->period_type, b->period_type) &&
	       view_eq(a->period_unit, b->period_unit) && a->delta == b->delta && a->kind == b->kind;
}

enum profile_kind ptype_default_kind(struct view name, struct view type, struct view unit, bool has_duration)
{
	if (view_eqs(name, "process_cpu") || view_eqs(name, "fgprof") || view_eqs(name, "on_cpu") ||
	    view_eqs(name, "off_cpu"))
		return PROFILE_DELTA;
	if (view_starts(type, VIEW("alloc_")) || view_eqs(type, "contentions") || view_eqs(type, "delay"))
		return PROFILE_CUMULATIVE;
	if (view_starts(type, VIEW("inuse_")) || view_eqs(type, "goroutine") || view_eqs(type, "threadcreate"))
		return PROFILE_GAUGE;
	return has_duration ? PROFILE_DELTA : PROFILE_GAUGE;
}

const char *profile_kind_text(enum profile_kind k)
{
	return k == PROFILE_DELTA ? "delta" : k == PROFILE_CUMULATIVE ? "cumulative" : "gauge";
}

static void put_words(struct buf *out, struct view v)
{
	bool start = true;
	for (size_t i = 0; i < v.len; i++) {
		char c = v.ptr[i] == '_' ? ' ' : v.ptr[i];
		buf_putc(out, start ? (char)toupper((unsigned char)c) : c);
		start = c == ' ';
	}
}

void ptype_title(const struct ptype *t, struct buf *out)
{
	struct buf name = { 0 };
	ptype_format(t, &name);
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (view_eqs(buf_view(&name), table[i].name)) {
			buf_puts(out, table[i].title);
			buf_free(&name);
			return;
		}
	buf_free(&name);
	put_words(out, t->name);
	if (!view_eq(t->name, t->sample_type)) {
		buf_putc(out, ' ');
		put_words(out, t->sample_type);
	}
	if (!view_eqs(t->sample_unit, "count")) {
		buf_putc(out, ' ');
		put_words(out, t->sample_unit);
	}
}

static const struct {
	const char *name;
	struct unit_info info;
} units[] = {
	{ "nanoseconds", { "seconds", 1e-9 } }, { "nanosecond", { "seconds", 1e-9 } }, { "ns", { "seconds", 1e-9 } },
	{ "microseconds", { "seconds", 1e-6 } }, { "microsecond", { "seconds", 1e-6 } }, { "us", { "seconds", 1e-6 } },
	{ "milliseconds", { "seconds", 1e-3 } }, { "millisecond", { "seconds", 1e-3 } }, { "ms", { "seconds", 1e-3 } },
	{ "seconds", { "seconds", 1 } }, { "second", { "seconds", 1 } }, { "s", { "seconds", 1 } }, { "sec", { "seconds", 1 } },
	{ "minutes", { "seconds", 60 } }, { "hrs", { "seconds", 3600 } }, { "hours", { "seconds", 3600 } },
	{ "bytes", { "bytes", 1 } }, { "byte", { "bytes", 1 } }, { "b", { "bytes", 1 } },
	{ "kilobytes", { "bytes", 1024 } }, { "kb", { "bytes", 1024 } }, { "kib", { "bytes", 1024 } },
	{ "megabytes", { "bytes", 1048576 } }, { "mb", { "bytes", 1048576 } }, { "mib", { "bytes", 1048576 } },
	{ "gigabytes", { "bytes", 1073741824 } }, { "gb", { "bytes", 1073741824 } }, { "gib", { "bytes", 1073741824 } },
};

bool unit_lookup(struct view unit, struct unit_info *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (unit.len && unit.ptr[0] == units[i].name[0] && view_eqs(unit, units[i].name)) {
			*ret = units[i].info;
			return true;
		}
	*ret = (struct unit_info){ "", 1 };
	return false;
}

void unit_put(struct buf *out, double native, struct view unit)
{
	struct unit_info u;
	bool known = unit_lookup(unit, &u);
	double v = native * u.factor, a = v < 0 ? -v : v;
	if (known && !(a < 1e18)) /* of a huge number nobody reads all digits */
		buf_printf(out, "%.6g%s", v, u.base[0] == 's' ? "s" : "B");
	else if (known && u.base[0] == 's')
		buf_printf(out, a >= 1 || a == 0 ? "%.2fs" : a >= 1e-3 ? "%.2fms" : "%.2fus",
			   a >= 1 || a == 0 ? v : a >= 1e-3 ? v * 1e3 : v * 1e6);
	else if (known)
		buf_printf(out, a >= 1073741824 ? "%.2fGB" : a >= 1048576 ? "%.2fMB" : a >= 1024 ? "%.2fkB" : "%.0fB",
			   a >= 1073741824 ? v / 1073741824 : a >= 1048576 ? v / 1048576 : a >= 1024 ? v / 1024 : v);
	else
		buf_printf(out, "%.10g", native);
}

void percent_put(struct buf *out, double part, double whole)
{
	double share = 100 * (part / whole);
	if (isfinite(share))
		buf_printf(out, fabs(share) < 1e6 ? " (%.2f%%)" : " (%.3g%%)", share);
}
