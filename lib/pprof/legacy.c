/* SPDX-License-Identifier: Apache-2.0 */
/* Detects by its first bytes the format of a body that is not profile.proto. */
#include "pprof/legacy.h"

/* ---- what is known to be of no interest ---- */

static const char alloc_functions[] =
	"calloc|cfree|malloc|free|memalign|do_memalign|(__)?posix_memalign|pvalloc|valloc|realloc|tcmalloc::.*|tc_calloc|tc_cfree|"
	"tc_malloc|tc_free|tc_memalign|tc_posix_memalign|tc_pvalloc|tc_valloc|tc_realloc|tc_new|tc_delete|tc_newarray|tc_deletearray|"
	"tc_new_nothrow|tc_newarray_nothrow|malloc_zone_malloc|malloc_zone_calloc|malloc_zone_valloc|malloc_zone_realloc|"
	"malloc_zone_memalign|malloc_zone_free|runtime\\..*|BaseArena::.*|(::)?do_malloc_no_errno|(::)?do_malloc_pages|(::)?do_malloc|"
	"DoSampledAllocation|MallocedMemBlock::MallocedMemBlock|_M_allocate|__builtin_(vec_)?delete|__builtin_(vec_)?new|"
	"__gnu_cxx::new_allocator::allocate|__libc_malloc|__malloc_alloc_template::allocate|allocate|cpp_alloc|"
	"operator new(\\[\\])?|simple_alloc::allocate";
static const char alloc_kept[] = "runtime\\.panic|runtime\\.reflectcall|runtime\\.call[0-9]*";
static const char lock_functions[] =
	"RecordLockProfileData|(base::)?RecordLockProfileData.*|(base::)?SubmitMutexProfileData.*|(base::)?SubmitSpinLockProfileData.*|"
	"(base::Mutex::)?AwaitCommon.*|(base::Mutex::)?Unlock.*|(base::Mutex::)?UnlockSlow.*|(base::Mutex::)?ReaderUnlock.*|"
	"(base::MutexLock::)?~MutexLock.*|(Mutex::)?AwaitCommon.*|(Mutex::)?Unlock.*|(Mutex::)?UnlockSlow.*|(Mutex::)?ReaderUnlock.*|"
	"(MutexLock::)?~MutexLock.*|(SpinLock::)?Unlock.*|(SpinLock::)?SlowUnlock.*|(SpinLockHolder::)?~SpinLockHolder.*";
static const char sampler_functions[] =
	"ProfileData::Add|ProfileData::prof_handler|CpuProfiler::prof_handler|__pthread_sighandler|__restore";

/* Says what pprof leaves out of profiles of such sample types: drop_frames, keep_frames. */
static void say_uninteresting(struct draft *d)
{
	struct profile *p = d->p;
	struct view first = p->n_sample_types ? profile_str(p, p->sample_types[0].type_str) : VIEW("");
	bool heap = view_eqs(first, "objects") || view_eqs(first, "inuse_objects") || view_eqs(first, "alloc_objects");
	const char *drop = heap ? alloc_functions : view_eqs(first, "contentions") ? lock_functions : sampler_functions;
	p->drop_frames_str = draft_string(d, view_of(drop));
	if (heap)
		p->keep_frames_str = draft_string(d, view_of(alloc_kept));
}

/* ---- which it is ---- */

/* The first bytes of a file format, and its error message. */
static const struct {
	struct view magic;
	const char *what;
} foreign[] = {
	{ { "FLR\0", 4 }, "a recording of Java's flight recorder (JFR), which is not read here: have the profiler write pprof or collapsed "
	  "stacks instead (async-profiler: -o collapsed, or jfrconv --pprof)" },
	{ { "PERFILE2", 8 }, "perf.data, which is not read here: use perf script | stackcollapse-perf.pl, whose folded text is" },
	{ { "SIMPLEPERF", 10 }, "a recording of simpleperf, which is not read here" },
	{ { "go 1.", 5 }, "an execution trace of Go, which is no profile: ask /debug/pprof/profile" },
	{ { "goroutine ", 10 }, "a dump of goroutines (debug=2), which is no profile: ask without debug" },
	{ { "num_symbols:", 12 }, "an answer of /pprof/symbol, which is no profile" },
	{ { "# HELP ", 7 }, "metrics as text, which are no profile: a job's metrics_path is for them" },
	{ { "# TYPE ", 7 }, "metrics as text, which are no profile: a job's metrics_path is for them" },
	{ { "{", 1 }, "JSON (speedscope, Chrome, V8?), which is not read here: pprof, its legacy formats and folded text are" },
	{ { "PK\3\4", 4 }, "a zip archive, which is not read here" },
	{ { "\x28\xb5\x2f\xfd", 4 }, "compressed with zstd, which is not read here: gzip is" },
	{ { "\x7f" "ELF", 4 }, "an ELF file, which is no profile" },
};

static int name_foreign(struct view text, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
		if (view_starts(text, foreign[i].magic))
			return err_set(e, ERR_BAD_DATA, "this is %s", foreign[i].what);
	return 0;
}

static int finish(struct draft *d)
{
	say_uninteresting(d);
	return draft_end(d);
}

static const struct {
	const char *what;
	bool (*is)(struct view text);
	int (*read)(struct draft *d);
} legacy[] = {
	{ "heap profile", legacy_is_heap, legacy_heap },
	{ "profile of counts", legacy_is_count, legacy_count },
	{ "threadz", legacy_is_threads, legacy_threads },
	{ "contention profile", legacy_is_contention, legacy_contention },
	{ "Java's profile", legacy_is_java, legacy_java },
};

int pprof_decode_other(const void *bytes, size_t n, const struct pprof_limits *lim, struct profile *out, struct err *e)
{
	struct view text = view_make(bytes, n);
	struct draft d;
	struct cpu_words words;
	int rc;
	if (legacy_is_cpu(text, &words)) {
		draft_begin(&d, out, "CPU profile of gperftools", view_make(bytes, 0), lim, e);
		return (rc = legacy_cpu(&d, text, &words)) ? rc : finish(&d);
	}
	for (size_t i = 0; i < ARRAY_LEN(legacy); i++)
		if (legacy[i].is(text)) {
			draft_begin(&d, out, legacy[i].what, text, lim, e);
			return (rc = legacy[i].read(&d)) ? rc : finish(&d);
		}
	if ((rc = name_foreign(text, e)))
		return rc;
	if (!folded_is(text, lim->folded != NULL))
		return -ERR_NOT_FOUND;
	draft_begin(&d, out, "folded text", text, lim, e);
	return (rc = folded_read(&d)) ? rc : draft_end(&d);
}
